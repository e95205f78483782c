"""Forms of a collection: what each of several releases is to answer, and how they share a budget."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from django import forms
from django.http import QueryDict

from releases.display.error_messages import in_words
from releases.engine.domain.privacy import privacy_budget
from releases.engine.domain.universe import Universe
from releases.engine.errors import InvalidInput
from releases.engine.workload.parsing import read_question
from releases.engine.workload.questions import Question
from releases.forms.fields import MAX_FORM_COLUMNS, DecimalTextField, LenientForm, TextsField, missing
from releases.forms.releases import population_field
from releases.models import ShareRule
from releases.questions.base import Columns, calling, kind_of
from releases.questions.together import (
    COUNTS,
    GLANCE,
    MAX_PARTS,
    MAX_TITLE,
    ROWS,
    PartAsked,
    line_asked,
    read_weight,
    statistics_together,
)

TITLE = "Several questions"
#: Of every column at a glance, unless it is typed otherwise.
GLANCE_EPSILON = "0.5"
#: What a page calls the places that an error names.
_LABELS = {
    "number": "Column with numbers or dates",
    "columns": "Count or group by",
    "share": "Share",
    "weighted_by": "Weighted by",
    "cap": "Cap of the weights",
}
#: Before the names of the fields of the form that shares its page.
_GLANCE = "glance"
#: The first field of those that name columns to count or to group by.
_COLUMN_FIELDS = ("first", "second", "third")
#: Those about survey weights, which most lines leave empty.
_WEIGHT_FIELDS = ("weighted_by", "cap")


def epsilon_field() -> DecimalTextField:
    return DecimalTextField(
        label="Epsilon",
        help_text="The privacy that all of them together may spend.",
        error_messages=missing("epsilon: nothing was typed; must be a decimal number above 0, such as 1"),
    )


def check_epsilon(form: forms.Form) -> None:
    """Say of the field what is wrong with what was typed as epsilon."""
    try:
        privacy_budget(epsilon=form.cleaned_data.get("epsilon", "1"), delta="0")
    except InvalidInput as error:
        form.add_error("epsilon", in_words(error))


class CollectionForm(forms.Form):
    """What all parts have in common."""

    title = forms.CharField(
        label="Title", max_length=200, required=False, help_text=f"Of all of them together. Empty: {TITLE}."
    )
    epsilon = epsilon_field()

    def __init__(self, *args: Any, universe: Universe, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["population"] = population_field(calling("{many}", universe))

    def clean(self) -> dict[str, Any]:
        given = super().clean() or {}
        check_epsilon(self)
        return given


class GlanceForm(forms.Form):
    """The button that asks for every column at a glance."""

    epsilon = epsilon_field()

    def __init__(self, posted: QueryDict | None) -> None:
        is_pressed = posted is not None and f"{_GLANCE}-epsilon" in posted
        super().__init__(posted if is_pressed else None, prefix=_GLANCE, initial={"epsilon": GLANCE_EPSILON})

    def clean(self) -> dict[str, Any]:
        given = super().clean() or {}
        check_epsilon(self)
        return given | {"title": GLANCE, "population": None}


class PartForm(forms.Form):
    """One line: what is wanted, of which columns, for which share of the budget.

    Attributes:
        asked: what the line asks, once it is valid; None of a line that was left empty.
    """

    asked: PartAsked | None = None

    def __init__(self, *args: Any, universe: Universe, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.universe = universe
        statistics = [(name, kind.title) for name, kind in statistics_together().items()]
        self.fields["wanted"] = forms.ChoiceField(
            label="What is wanted",
            required=False,
            choices=[("", "–"), (COUNTS, "A table of counts"), (ROWS, "Synthetic rows"), *statistics],
            error_messages={"invalid_choice": "What is wanted: '%(value)s' must be one of the list"},
        )
        self.fields["number"] = _column_field(_LABELS["number"], Columns.RANKED.names(universe))
        for place, name in enumerate(_COLUMN_FIELDS):
            label = _LABELS["columns"] if place == 0 else "and by"
            self.fields[name] = _column_field(label, Columns.ALL.names(universe))
        self.fields["share"] = DecimalTextField(label=_LABELS["share"], required=False, initial="1")
        if numeric := Columns.NUMERIC.names(universe):
            self.fields["weighted_by"] = _column_field(_LABELS["weighted_by"], numeric)
            self.fields["cap"] = DecimalTextField(label=_LABELS["cap"], required=False)

    @property
    def main(self) -> list[forms.BoundField]:
        """The fields of every line."""
        return [field for field in self if field.name not in _WEIGHT_FIELDS]

    @property
    def weights(self) -> list[forms.BoundField]:
        """The fields about survey weights; none where no column can hold them."""
        return [field for field in self if field.name in _WEIGHT_FIELDS]

    @property
    def opens_weights(self) -> bool:
        return any(field.errors or field.value() for field in self.weights)

    def clean(self) -> dict[str, Any]:
        given = super().clean() or {}
        if self.errors:
            return given
        columns = [given[name] for name in _COLUMN_FIELDS if given[name]]
        weights = {name: given.get(name, "").strip() for name in _WEIGHT_FIELDS}
        if not given["wanted"]:
            if named := ", ".join(filter(None, [given["number"], *columns, *weights.values()])):
                self.add_error("wanted", f"What is wanted: nothing was chosen for {named}; choose it, or no column")
            return given
        try:
            read_weight(share := given["share"].strip() or "1")
            workload = line_asked(
                given["wanted"], number=given["number"], columns=columns, universe=self.universe, **weights
            )
            question = read_question(workload, self.universe)
        except InvalidInput as error:
            self._say(error)
            return given
        self.asked = PartAsked(
            title=_title(given["wanted"], columns, question),
            workload=workload,
            weight=share,
            is_for_rows=given["wanted"] == ROWS,
        )
        return given

    def _say(self, error: InvalidInput) -> None:
        """Beside the field that the error is about: an error of the workload format names a place there."""
        words = [error.field, *error.field.replace("[", ".").split(".")]
        # A cap is named within the weights that it belongs to.
        place = next((each for each in reversed(words) if each in _LABELS), "")
        if not place:
            place = "number" if {"column", *_of_numbers()} & set(words) else "columns"
        if error.field.endswith(".by"):
            place = "columns"
        elif error.field.endswith(".columns") and _of_numbers() & set(words):
            place = "number"
        field = {"columns": _COLUMN_FIELDS[0]}.get(place, place)
        self.add_error(field if field in self.fields else "wanted", in_words(error, place=_LABELS[place]))


class Lines(forms.BaseFormSet):  # type: ignore[type-arg]
    def clean(self) -> None:
        if not any(self.errors) and not self.asked:
            raise forms.ValidationError("What is wanted: nothing was chosen; choose it in at least one line.")

    @property
    def asked(self) -> list[PartAsked]:
        return [form.asked for form in self.forms if form.asked is not None]


PartFormSet = forms.formset_factory(
    PartForm,
    formset=Lines,
    extra=MAX_PARTS,
    max_num=MAX_PARTS,
    absolute_max=MAX_PARTS,
)


class ShareForm(forms.Form):
    """How the drafts of a collection share its epsilon, each by its weight."""

    share_rule = forms.ChoiceField(label="A share of 2 gives", choices=ShareRule.choices, required=False)

    def __init__(
        self, posted: QueryDict | None, *, epsilon: str, share_rule: str, weights: Sequence[tuple[uuid.UUID, str]]
    ) -> None:
        super().__init__(posted, initial={"epsilon": epsilon, "share_rule": share_rule})
        self.fields["epsilon"] = epsilon_field()
        self.names = {pk: f"share-{pk}" for pk, _ in weights}
        for pk, weight in weights:
            self.fields[self.names[pk]] = DecimalTextField(label="Share", required=False, initial=weight)

    def clean(self) -> dict[str, Any]:
        given = super().clean() or {}
        check_epsilon(self)
        for name in self.names.values():
            try:
                read_weight(given.get(name, "").strip() or "1")
            except InvalidInput as error:
                self.add_error(name, in_words(error, place="Share"))
        return given

    def clean_share_rule(self) -> ShareRule:
        return ShareRule(self.cleaned_data["share_rule"] or ShareRule.EPSILON)

    @property
    def weights(self) -> dict[uuid.UUID, str]:
        return {pk: self.cleaned_data[name].strip() or "1" for pk, name in self.names.items()}


class SubmitCollectionForm(LenientForm):
    """The button that spends: which press it is, and the plans that the page showed."""

    action = forms.CharField(required=False)
    key = forms.UUIDField(required=False)
    plans = TextsField()


def _of_numbers() -> set[str]:
    """The kinds that are about a column with numbers, or dates."""
    of_numbers = (Columns.NUMERIC, Columns.RANKED)
    return {name for name, kind in statistics_together().items() if kind.fields[0].columns in of_numbers}


def _column_field(label: str, names: Sequence[str]) -> forms.Field:
    """One column: chosen, or typed where there are very many."""
    if len(names) > MAX_FORM_COLUMNS:
        return forms.CharField(label=label, required=False, max_length=200)
    return forms.ChoiceField(
        label=label,
        required=False,
        choices=[("", "–"), *((name, name) for name in names)],
        error_messages={"invalid_choice": f"{label}: '%(value)s' must be a column of the fitting kind"},
    )


def _title(wanted: str, columns: Sequence[str], question: Question) -> str:
    """What a part is called wherever it is listed, in one line: the name of a column can hold anything."""
    if wanted in (COUNTS, ROWS) and question.is_counts:
        what = "Counts by" if wanted == COUNTS else "Synthetic rows of"
        said = f"{what} {', '.join(columns) or 'all columns'}"
    else:
        said = kind_of(question).in_words(question)
    shown = "".join(each if each.isprintable() else " " for each in said)
    return f"{shown[:1].upper()}{shown[1:MAX_TITLE]}"
