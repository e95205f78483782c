"""Forms of the reviewer's pages: decisions, freezing, filters and the organisation's settings."""

from __future__ import annotations

import uuid
from datetime import datetime, time
from typing import Any, ClassVar
from urllib.parse import urlencode

from django import forms
from django.contrib.auth.models import Group, User
from django.utils import timezone

from releases.display.error_messages import in_words
from releases.engine.accounting.filters import Policy
from releases.engine.domain.privacy import LARGEST_EPSILON, exact
from releases.engine.errors import InvalidInput
from releases.forms.fields import (
    DecimalTextField,
    LenientForm,
    SentField,
    TextsField,
    TypedTextField,
    WholeNumberField,
    check_amounts,
    missing,
)
from releases.models import AuditAction, Budget, Organisation, Role
from releases.storage.addresses import fault_of_address, fault_of_name, without_secrets


class _PressedForm(forms.Form):
    """A reviewer's decision: the button that was pressed and, after a colon, what of the page it names."""

    decision = forms.CharField(required=False, widget=forms.HiddenInput)

    @property
    def pressed(self) -> str:
        return str(self.cleaned_data["decision"]).partition(":")[0]

    @property
    def named(self) -> uuid.UUID:
        """The budget or table that the pressed button names.

        Raises:
            InvalidInput: it names none.
        """
        named = self.cleaned_data["decision"].partition(":")[2]
        try:
            return uuid.UUID(named)
        except ValueError:
            rule = "must name what is shown on the page; press one of the buttons"
            raise InvalidInput("decision", named, rule) from None


class DecisionForm(_PressedForm):
    """A reviewer's decision; amounts left empty are those asked for."""

    epsilon = DecimalTextField(label="Epsilon to grant", required=False, help_text="At most what was asked for.")
    delta = DecimalTextField(label="Delta to grant", required=False)
    note = forms.CharField(
        label="Note to the curator",
        widget=forms.Textarea(attrs={"rows": 3}),
        required=False,
        help_text="Needed to deny a request, and to return it with a question.",
    )

    match_reason = forms.CharField(
        label="Why is it granted in spite of that?",
        widget=forms.Textarea(attrs={"rows": 2}),
        required=False,
        max_length=1000,
        help_text="Needed to grant. Only reviewers without a stake in these tables can read it.",
    )

    def __init__(self, *args: Any, policy: Policy, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.policy = policy

    def clean(self) -> dict[str, Any]:
        given = super().clean() or {}
        check_amounts(self, self.policy)
        return given


class ReleaseDecisionForm(_PressedForm):
    """A reviewer's decision on a release; an epsilon left empty is the one asked for."""

    epsilon = DecimalTextField(
        label="Epsilon to approve",
        required=False,
        help_text="With less than was asked for, it goes back to its curator to be confirmed at that epsilon.",
    )
    note = forms.CharField(
        label="Note to the curator",
        widget=forms.Textarea(attrs={"rows": 3}),
        required=False,
        help_text="Needed to deny a request, and to return it with a question.",
    )

    def clean_epsilon(self) -> str:
        typed = str(self.cleaned_data["epsilon"]).strip()
        if typed:
            _check(typed, field="epsilon")
        return typed


class FreezeForm(forms.Form):
    reason = forms.CharField(
        label="Reason",
        max_length=500,
        help_text="It is kept in the audit log; a freeze's is shown to the dataset's people.",
        error_messages=missing("Reason: nothing was typed. Say why, so that others need not ask."),
    )


class BudgetActionForm(forms.Form):
    """The button that was pressed on a budget's page."""

    FREEZE, UNFREEZE, RESTORE = "freeze", "unfreeze", "restore"
    action = forms.ChoiceField(
        choices=[(FREEZE, "freeze"), (UNFREEZE, "unfreeze"), (RESTORE, "restore")],
        error_messages={
            **missing("action: nothing was chosen; press one of the buttons"),
            "invalid_choice": "action: '%(value)s' is not known; press one of the buttons",
        },
    )


class BudgetLinkForm(LenientForm):
    """What a link on the pages of budgets asks to be worked out."""

    tighter = SentField()
    verify = SentField()
    page = TypedTextField()


class RoleForm(forms.Form):
    """A role that is given to somebody or taken away."""

    person = forms.ModelChoiceField(queryset=User.objects.all())
    give = forms.ChoiceField(choices=Role.choices, required=False)
    take = forms.ChoiceField(choices=Role.choices, required=False)

    def clean(self) -> dict[str, Any]:
        given = super().clean() or {}
        if not (given.get("give") or given.get("take")):
            self.add_error(None, "role: nothing was chosen; press one of the buttons")
        return given


class AddressInput(forms.TextInput):
    """Gives back what was typed without what could be a password."""

    def format_value(self, value: Any) -> str | None:
        return without_secrets(str(value)) if value else None


class ConnectionForm(forms.Form):
    """A database or a folder that is registered."""

    name = forms.CharField(
        label="Name",
        max_length=40,
        help_text="By which curators know it, such as clinic: small letters, digits and _.",
        error_messages=missing("Name: nothing was typed. Say by which name curators know it."),
    )
    address = forms.CharField(
        label="Address",
        widget=AddressInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
        error_messages=missing("Address: nothing was typed. Say where the tables are."),
    )

    reads_only = forms.BooleanField(
        label="I have seen to it that this site can only read there",
        required=False,
        help_text="Needed for Spark and storage, which cannot be asked. It is kept in the audit log under your name.",
    )

    def clean(self) -> dict[str, Any]:
        given = super().clean() or {}
        name, address = given.get("name", ""), given.get("address", "")
        for field, fault in (("name", fault_of_name(name)), ("address", fault_of_address(name, address))):
            if given.get(field) and fault:
                self.refuse(InvalidInput(field, without_secrets(given[field]), fault))
        return given

    def refuse(self, error: InvalidInput) -> None:
        """Say what is wrong beside the field that it is about."""
        self.add_error(error.field, in_words(error, place=str(self.fields[error.field].label)))


class BackupsForm(forms.Form):
    """What a reviewer settles after a restored backup: a budget, one that was lost, or all that was listed."""

    NOBODY: ClassVar = "nobody"
    budget = forms.CharField(required=False)
    orphan = forms.UUIDField(
        required=False, error_messages={"invalid": "orphan: must be the number of a budget, as the page lists it"}
    )
    people = forms.CharField(required=False)
    listed = TextsField()
    again = TextsField()
    let_go_on = SentField()

    @property
    def left_out(self) -> set[int]:
        """What was listed and is not ticked any more. What was not listed is made again."""
        unticked = set(self.cleaned_data["listed"]) - set(self.cleaned_data["again"])
        return {int(each) for each in unticked if each.isdecimal()}

    def clean_budget(self) -> Budget | None:
        return self._named("budget") if self.cleaned_data["budget"] else None

    def clean_people(self) -> Budget | None:
        """The budget of the same people as one that was lost; None where they are nobody's."""
        people = self.cleaned_data["people"]
        if not people and self.cleaned_data.get("orphan") is not None:
            raise forms.ValidationError("Say whose people they are first.")
        return self._named("people") if people not in ("", self.NOBODY) else None

    def _named(self, field: str) -> Budget:
        named = self.cleaned_data[field]
        try:
            return Budget.objects.get(pk=uuid.UUID(named))
        except (ValueError, Budget.DoesNotExist):
            raise forms.ValidationError(f"{field}: {named!r} must be a budget of this site") from None


class _DatesForm(forms.Form):
    since = forms.DateField(label="From", required=False, widget=forms.DateInput(attrs={"type": "date"}))
    until = forms.DateField(label="To", required=False, widget=forms.DateInput(attrs={"type": "date"}))
    person = forms.CharField(label="Person", required=False, max_length=150)

    @property
    def address(self) -> str:
        """The filters as they were typed, for links to other pages and to the export."""
        return urlencode([(name, value) for name in self.fields if (value := self.data.get(name))])

    def clean(self) -> dict[str, Any]:
        given = super().clean() or {}
        since, until = given.get("since"), given.get("until")
        if since and until and until < since:
            self.add_error("until", f"To: {until:%Y-%m-%d} must not be before {since:%Y-%m-%d}.")
        # Whole days, in the site's zone.
        given["since"] = timezone.make_aware(datetime.combine(since, time.min)) if since else None
        given["until"] = timezone.make_aware(datetime.combine(until, time.max)) if until else None
        return given


class BoardFilterForm(_DatesForm):
    dataset = forms.CharField(label="Dataset", required=False, max_length=200)


class LogFilterForm(_DatesForm):
    action = forms.ChoiceField(label="What", required=False, choices=[("", "everything"), *AuditAction.choices])
    thing = forms.CharField(label="Object", required=False, max_length=200)


class OrganisationForm(forms.Form):
    upload_cap = WholeNumberField(
        label="Largest upload, in MB",
        min_value=1,
        max_value=2**20,
        error_messages=missing("Largest upload: nothing was typed; must be a whole number of MB, such as 1024.")
        | {
            "invalid": "Largest upload: must be a whole number of MB, such as 1024, in digits alone.",
            "min_value": "Largest upload: must be at least 1 MB.",
            "max_value": "Largest upload: must be at most 1,048,576 MB.",
        },
    )
    default_epsilon = DecimalTextField(
        label="Epsilon suggested for a budget",
        required=False,
        help_text="Curators may ask for another. Empty for the site's own suggestion.",
    )
    review_above = DecimalTextField(
        label="Review releases above epsilon",
        required=False,
        help_text="A release that costs more waits for a reviewer before it is charged, and so does one with which "
        "what a person has released of one budget without a review comes to more. 0 for all of them, empty for none.",
    )
    most_per_person = DecimalTextField(
        label="Most of one budget that one person may spend, in per cent",
        required=False,
        help_text="All charges of what somebody submitted count, except those given back. Empty for no limit.",
    )
    is_two_person = forms.BooleanField(
        label="Two reviewers must approve, neither of them the person who asked", required=False
    )
    reviewers = forms.ModelChoiceField(
        label="Who may decide",
        queryset=Group.objects.order_by("name"),
        required=False,
        empty_label="all reviewers",
        help_text="Reviewers who belong to this group decide requests and freeze budgets; other reviewers look on.",
    )
    alert_addresses = forms.CharField(
        label="Who hears of requests, and when 50, 80 or 100% of a budget is spent",
        required=False,
        widget=forms.Textarea(attrs={"rows": 3, "spellcheck": "false"}),
        help_text="E-mail addresses, one a line. Those who may review hear of both in any case, and a budget's "
        "owner of what is spent.",
    )

    @staticmethod
    def initial_of(organisation: Organisation) -> dict[str, Any]:
        return {
            "upload_cap": max(1, organisation.upload_cap_bytes // 2**20),
            "default_epsilon": organisation.default_epsilon,
            "review_above": organisation.review_above,
            "most_per_person": organisation.most_per_person,
            "is_two_person": organisation.is_two_person,
            "reviewers": organisation.reviewers,
            "alert_addresses": organisation.alert_addresses,
        }


def _check(text: str, *, field: str) -> None:
    try:
        if not 0 < exact(text, field=field) <= LARGEST_EPSILON:
            raise InvalidInput(field, text, f"must be above 0 and at most {LARGEST_EPSILON}")
    except InvalidInput as error:
        raise forms.ValidationError(in_words(error)) from None
