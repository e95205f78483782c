"""Forms of a release: its questions, choice, session, certificate and plan file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.http import QueryDict

from releases.display.error_messages import in_words, separators
from releases.engine.bounds.theory import Numbers
from releases.engine.domain.counted import Counted
from releases.engine.domain.privacy import NeighbouringRelation, exact, privacy_budget
from releases.engine.errors import InvalidInput
from releases.engine.mechanisms.base import mechanism, mechanisms
from releases.forms.fields import (
    MAX_TICKED_COLUMNS,
    DecimalTextField,
    LenientForm,
    SentField,
    TypedTextField,
    WholeNumberField,
    missing,
    read_json,
    whole_number,
)
from releases.models import Audience


class ChoiceForm(forms.Form):
    """What the release may spend and how sure its bound should be."""

    epsilon = DecimalTextField(
        label="Epsilon",
        help_text="Privacy to spend.",
        error_messages=missing("epsilon: nothing was typed; must be a decimal number above 0, such as 1"),
    )
    delta = DecimalTextField(label="Delta", required=False, help_text="Gaussian noise needs one.")
    beta = forms.ChoiceField(
        label="Confidence",
        help_text="How sure the bound is.",
        error_messages=missing("Confidence: nothing was chosen."),
    )
    CONFIDENCES = (("0.1", "90%"), ("0.05", "95%"), ("0.01", "99%"), ("0.001", "99.9%"))

    def __init__(self, *args: Any, beta: str = "0.05", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        known = dict(self.CONFIDENCES)
        # The command line admits any confidence; a draft made there keeps its own.
        own = () if beta in known else ((beta, f"1 - {beta}"),)
        self.fields["beta"].choices = [*self.CONFIDENCES, *own]  # type: ignore[attr-defined]

    def clean(self) -> dict[str, Any]:
        given = super().clean() or {}
        if "epsilon" not in given:
            return given
        try:
            privacy_budget(epsilon=given["epsilon"], delta=given.get("delta") or "0")
        except InvalidInput as error:
            self.add_error("delta" if error.field == "delta" else "epsilon", in_words(error))
        return given


#: Of every guess at the number of rows.
NEVER_LOOKED_UP = "A public guess, such as the size of the survey. Never look it up in the table."


def population_field(many: str = Counted.ROWS.many) -> forms.IntegerField:
    """A guess at how many there are of what is counted."""
    return forms.IntegerField(
        label=f"About how many {many}",
        required=False,
        min_value=1,
        max_value=1_000_000_000,
        help_text="A public guess. Never look it up in the table.",
        widget=forms.TextInput(attrs={"inputmode": "numeric"}),
        error_messages=whole_number(f"About how many {many}", least=1, most=1_000_000_000, example=10_000),
    )


class CompareForm(ChoiceForm):
    """What the comparison is made for: a guess at the rows tells which bounds would say nothing of them."""

    population = population_field()
    error = TypedTextField(
        label="Or the largest error",
        help_text="Its epsilon is worked out.",
        widget=forms.TextInput(attrs={"inputmode": "decimal", "placeholder": "such as 50"}),
    )
    mechanism = TypedTextField(widget=forms.HiddenInput)
    #: What the bounds on the page were for that this was sent from.
    shown = TypedTextField(widget=forms.HiddenInput)

    def __init__(self, posted: QueryDict, **kwargs: Any) -> None:
        if taken := posted.get("take"):
            # An epsilon worked out for an error takes the place of the typed one.
            posted = posted.copy()
            posted["epsilon"] = taken
        super().__init__(posted or None, **kwargs)

    def ask_for_error_in(self, unit: str, *, is_weighed: bool) -> None:
        """Say what the largest error is measured in, and whether more important answers are closer than it."""
        field = self.fields["error"]
        field.label = f"Or the largest error, in {unit}"
        if is_weighed:
            field.help_text = "This holds for every answer. More important ones are closer to the truth."

    def ask_how_many(self, counted: Counted) -> None:
        """Of persons, where a release counts these."""
        self.fields["population"].label = f"About how many {counted.many}"

    def ask_what_weights_add_up_to(self) -> None:
        """Of weighted means, whose error depends on that rather than on the rows."""
        field = self.fields["population"]
        field.label = "About what the weights add up to"
        field.help_text = "The size of the population, if you may say so. A public guess: never add it up in the table."

    def clean_error(self) -> float | None:
        """None where none was typed."""
        _, problem, error = wanted_error(self.cleaned_data["error"])
        if problem:
            raise ValidationError(problem)
        return error

    def guesses(self, guess: int | None) -> bool:
        """Whether another number of rows is guessed than before."""
        return "population" in self.data and bool(self.cleaned_data["population"] != guess)


class OptionsForm(forms.Form):
    """The mechanisms' own fields, named `<mechanism>.<option>`."""

    @property
    def typed(self) -> dict[str, dict[str, str]]:
        """By mechanism its options, as they were typed."""
        return {
            name: {option.name: self.data.get(f"{name}.{option.name}", "").strip() for option in each.options}
            for name, each in mechanisms().items()
        }

    @property
    def problems(self) -> dict[str, str]:
        """What is wrong with the options that were typed, by the name of the field."""
        problems = {}
        for name, values in self.typed.items():
            for option in mechanism(name).options:
                try:
                    option.read(values[option.name])
                except InvalidInput as error:
                    problems[f"{name}.{option.name}"] = in_words(error)
        return problems

    @property
    def sent(self) -> list[str]:
        """The names of those fields that were sent."""
        named = (f"{each.name}.{option.name}" for each in mechanisms().values() for option in each.options)
        return [name for name in named if name in self.data]


class CompareLinkForm(LenientForm):
    """What the comparison is for, and what is to be worked out beside it: curves, or what an error takes."""

    curves = SentField()
    error = TypedTextField()
    want = TypedTextField()

    @property
    def wanted_error(self) -> tuple[str, str, float | None]:
        return wanted_error(self.given["error"] or "")


def wanted_error(typed: str) -> tuple[str, str, float | None]:
    """A largest error as it was typed, what is wrong with that, and as a number if nothing is."""
    wanted = typed.strip()
    if not wanted:
        return "", "", None
    try:
        error = exact(wanted, field="error")
    except InvalidInput as problem:
        rule = "must be a number, such as 50"
        return wanted, f"{problem.field}: {problem.value!r} {rule}{separators(wanted, rule)}", None
    if not 0 < error < 10**15:
        return wanted, f"error: {wanted!r} must be a number of rows above 0, such as 50", None
    return wanted, "", float(error)


class SessionForm(ChoiceForm):
    """What a live session may spend, and what it is planned for."""

    field_order = (
        *("title", "epsilon", "delta", "beta", "questions", "population"),
        *("listed", "start", "way", "updates", "columns"),
    )
    title = forms.CharField(
        label="Title of the session",
        max_length=200,
        required=False,
        help_text="People who may ask find it by this name. Empty: Live session.",
    )
    questions = WholeNumberField(
        label="Questions",
        min_value=1,
        max_value=10_000_000,
        initial=1000,
        help_text="How many different ones can be asked; the bound holds for all at once.",
        error_messages=whole_number("Questions", least=1, most=10_000_000, example=1000),
    )
    population = WholeNumberField(
        label="About how many rows",
        min_value=1,
        max_value=10_000_000_000,
        initial=10_000,
        help_text=NEVER_LOOKED_UP,
        error_messages=whole_number("About how many rows", least=1, most=10_000_000_000, example=10_000),
    )
    #: Tables that can be answered at the start, by how many columns are in one at most.
    TABLES = (
        ("1", "The table of every column"),
        ("2", "The tables of every column and of every two"),
        ("3", "The tables of every column, of every two and of every three"),
    )
    listed = forms.ChoiceField(
        label="Answered when it is opened",
        required=False,
        help_text="What is likely to be asked, answered together and so more closely. What can be added up from these "
        "answers costs nothing then; other questions have a price each.",
        error_messages={"invalid_choice": "Answered when it is opened: '%(value)s' must be one of the choices."},
    )
    start = WholeNumberField(
        label="Share for that, in percent",
        required=False,
        min_value=1,
        max_value=99,
        help_text="The rest is for other questions. Left empty: 50.",
        error_messages=whole_number("Share for that, in percent", least=1, most=99, example=50),
    )
    way = forms.ChoiceField(
        label="How it answers",
        required=False,
        choices=[
            ("", "However its bound is closest"),
            ("listed-online", "What you chose above when it is opened, then noise on each other answer"),
            ("fitted-online", "A fit to what you chose above when it is opened, where it is close enough; else noise"),
            ("noise-online", "Noise on each answer: each can be as close as its asker needs"),
            ("histogram-online", "Noise on every combination of values once: as many questions as you like"),
            ("pmw-online", "Private multiplicative weights: many answers for nothing, of a large table"),
        ],
        help_text="It is chosen from what you typed here, not from the data.",
        error_messages={"invalid_choice": "How it answers: '%(value)s' must be one of the choices."},
    )
    updates = WholeNumberField(
        label="Paid updates",
        required=False,
        min_value=1,
        max_value=4000,
        help_text="Of private multiplicative weights alone. Left empty: the number with the best bound.",
        error_messages=whole_number("Paid updates", least=1, most=4000, example=40),
    )
    columns = forms.MultipleChoiceField(
        label="Columns that can be asked about",
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text="None ticked: all of them, or those of the workload chosen above. Fewer make the free answers "
        "closer, and only what a row has in these can leave it out.",
        error_messages={"invalid_choice": "Columns: %(value)s is not declared in this dataset."},
    )

    def __init__(
        self, *args: Any, declared: Sequence[str], workloads: Iterable[tuple[str, str]], **kwargs: Any
    ) -> None:
        """
        Args:
            workloads: that can be answered when it is opened: of each its number, and its name.
        """
        super().__init__(*args, **kwargs)
        listed, columns = self.fields["listed"], self.fields["columns"]
        assert isinstance(listed, forms.ChoiceField)
        saved = [(number, f"The workload {name}") for number, name in workloads]
        listed.choices = [("", "Nothing: each question when it is asked"), *self.TABLES[: len(declared)], *saved]
        assert isinstance(columns, forms.MultipleChoiceField)
        if len(declared) > MAX_TICKED_COLUMNS:
            columns.widget = forms.SelectMultiple()
        columns.choices = [(name, name) for name in declared]

    #: What everybody decides; for the rest there is a default.
    FIRST = ("title", "epsilon", "questions", "population", "listed", "columns")

    def asked_first(self) -> list[forms.BoundField]:
        return [self[name] for name in self.FIRST]

    def asked_further(self) -> list[forms.BoundField]:
        return [field for field in self if field.name not in self.FIRST]

    def opens_further(self, first: Mapping[str, Any]) -> bool:
        """Whether something further was typed, other than what is there first, or is wrong."""
        return any(each.errors or (each.value() or "") != first.get(each.name, "") for each in self.asked_further())

    @property
    def options(self) -> dict[str, int | None]:
        """What was typed as the mechanism's options."""
        return {name: self.cleaned_data[name] for name in ("questions", "population", "updates", "start")}


class CertificateForm(ChoiceForm):
    """What of a release is certified, and what measuring it may spend; what is not sent is as usual."""

    field_order = ("what", "means", "epsilon", "delta", "beta")
    LABELS = {
        "synthetic rows": "The synthetic rows, asked the questions of the release",
        "released answers": "The released answers",
        "both": "Both: the worse of the two",
    }
    MEANS = {
        "asked": "The tables asked about",
        "pairs": "All pairs of columns",
        "triples": "All sets of three columns",
    }
    what = forms.ChoiceField(label="What is measured", widget=forms.RadioSelect)
    means = forms.MultipleChoiceField(
        label="Mean errors to measure beside the largest", widget=forms.CheckboxSelectMultiple, required=False
    )

    def __init__(
        self, given: QueryDict, *, usual: dict[str, str], possible: list[str], means: Mapping[str, str]
    ) -> None:
        """
        Args:
            means: the mean errors there are, each with why it cannot be measured if so.
        """
        data: dict[str, Any] = usual | given.dict() | {"means": given.getlist("means")}
        super().__init__(data, beta=data["beta"])
        chosen = self.fields["means"]
        chosen.choices = [(each, self.MEANS[each]) for each, why in means.items() if not why]  # type: ignore[attr-defined]
        chosen.help_text = " ".join(
            [
                "The error of a table is how many of its rows must be changed, added or removed to get the true table. "
                "Pairs and sets of three are those of the synthetic rows. "
                "Each choice takes its part of epsilon.",
                *(f"{self.MEANS[each]}: {why}." for each, why in means.items() if each in ("pairs", "triples") and why),
            ]
        )
        self.fields["what"].choices = [(each, self.LABELS[each]) for each in possible]  # type: ignore[attr-defined]
        self.fields["epsilon"].help_text = (
            "Proposed: a twentieth of what the release spent, or more where its noise would add more than half of what "
            "the release says of its own answers."
        )
        self.fields["beta"].help_text = "How surely the true largest error is at most the number published."

    @property
    def choice(self) -> dict[str, Any]:
        return {name: self.cleaned_data[name] for name in ("epsilon", "delta", "beta", "what", "means")}


class SessionDraftForm(LenientForm):
    """The draft that a session's plan was kept in before."""

    draft = forms.UUIDField(required=False)


class SessionLinkForm(LenientForm):
    """Which answer of a session to show, whether it had been asked before, and which page of the others."""

    answer = forms.IntegerField(required=False, min_value=0, max_value=10**9)
    again = SentField()
    page = TypedTextField()


class AudienceForm(forms.Form):
    """Who may ask in a session."""

    audience = forms.ChoiceField(
        choices=Audience.choices,
        error_messages={
            **missing("Who may ask: nothing was chosen."),
            "invalid_choice": "Who may ask: '%(value)s' must be one of the choices.",
        },
    )


class AskForm(forms.Form):
    """A session's question as text."""

    query = forms.CharField(
        label="The question as JSON",
        widget=forms.Textarea(attrs={"class": "code short", "rows": 3, "spellcheck": "false"}),
        error_messages=missing("Question: nothing was typed; must be a JSON object from columns to ranges or lists"),
    )
    #: Whether it is asked although a finished release answers it.
    anyway = forms.BooleanField(required=False)

    def clean_query(self) -> dict[str, Any]:
        """The predicate; the workload format's own `{"count": ...}` around it is understood too."""
        read = read_json(self.cleaned_data["query"], what="question")
        if set(read) == {"count"} and isinstance(read["count"], dict):
            return dict(read["count"])
        return read


class WithinForm(forms.Form):
    """The error that a session's answer may have, and whether its price was agreed to."""

    within = WholeNumberField(
        label="Error you can accept, in rows",
        required=False,
        min_value=1,
        max_value=10**12,
        error_messages=whole_number("Error you can accept", least=1, most=10**12, example=50),
    )
    agreed = forms.BooleanField(required=False)


class ComparisonLinkForm(LenientForm):
    """Which other release to compare with, which question of both, and which page of its answers."""

    other = TypedTextField()
    question = forms.IntegerField(required=False, min_value=0, max_value=10**9)
    page = TypedTextField()


class LikeForm(forms.Form):
    """The earlier release whose questions are asked again."""

    like = forms.UUIDField(required=False)


class TitleForm(forms.Form):
    """What a release is called."""

    title = forms.CharField(
        label="Title of the release",
        max_length=200,
        help_text="Shown wherever the release is.",
        error_messages=missing("Title: nothing was typed. Say what the release holds."),
    )


class SubmitForm(LenientForm):
    """Which plan the page showed, which press of its button this is, and what is said to a reviewer."""

    plan = TypedTextField()
    key = forms.UUIDField(required=False)
    reason = TypedTextField()


class WorkloadForm(forms.Form):
    """The whole workload pasted as JSON."""

    workload = forms.CharField(
        label="Questions as JSON",
        widget=forms.Textarea(attrs={"class": "code", "rows": 10, "spellcheck": "false"}),
        error_messages=missing("workload: nothing was pasted; must be a JSON object with a list of queries"),
    )

    def clean_workload(self) -> dict[str, Any]:
        return read_json(self.cleaned_data["workload"], what="workload")

    @staticmethod
    def as_text(workload: dict[str, Any]) -> str:
        """What the form takes, with one question a line."""
        return "{\n" + ",\n".join(f"  {_as_json(key)}: {_one_a_line(value)}" for key, value in workload.items()) + "\n}"


def _one_a_line(value: Any) -> str:
    if not isinstance(value, list) or not value:
        return _as_json(value)
    return "[\n" + ",\n".join(f"    {_as_json(each)}" for each in value) + "\n  ]"


def _as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


class PlanFileForm(forms.Form):
    """A plan saved before, as a file."""

    plan = forms.FileField(
        label="Plan file",
        allow_empty_file=True,
        widget=forms.FileInput(attrs={"accept": ".json,application/json"}),
        error_messages=missing("Plan file: no file was chosen. Choose a JSON file."),
    )

    def clean_plan(self) -> dict[str, Any]:
        file = self.cleaned_data["plan"]
        try:
            text = file.read().decode("utf-8-sig")
        except UnicodeDecodeError:
            raise ValidationError(f"Plan file: {file.name} is not text in UTF-8.") from None
        return read_json(text, what="plan file")


class WaysForm(forms.Form):
    """The public numbers of the comparison of four ways."""

    neighbours = forms.ChoiceField(
        label="What is protected",
        help_text="In the first case n is public.",
        choices=[
            (NeighbouringRelation.REPLACE.value, "what a row says"),
            (NeighbouringRelation.ADD_REMOVE.value, "that a row is there"),
        ],
    )
    rows = forms.CharField(max_length=120, label="n, rows in the table", help_text="A guess will do.")
    cells = forms.CharField(max_length=120, label="|X|, cells of the universe")
    queries = forms.CharField(max_length=120, label="k, answers asked for")
    changed = forms.CharField(
        max_length=120,
        label="s, answers one row changes",
        required=False,
        help_text="At most; empty for k, the worst case.",
    )
    epsilon = forms.CharField(max_length=120, label="Epsilon", help_text="Privacy that may be spent.")
    delta = forms.CharField(max_length=120, label="Delta", required=False, help_text="0 leaves the pure forms alone.")
    beta = forms.CharField(
        max_length=120, label="Beta", help_text="How surely a bound may fail: 0.05 for 95% confidence."
    )
    numbers: Numbers | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name, field in self.fields.items():
            field.error_messages |= missing(f"{name}: nothing was typed; must be a number")
            is_whole = name in ("rows", "cells", "queries", "changed")
            if name == "neighbours":
                continue
            field.widget.attrs = {"inputmode": "numeric" if is_whole else "decimal"}

    @property
    def typed(self) -> dict[str, str]:
        """The fields that were sent."""
        return {name: self.data[name].strip() for name in self.fields if name in self.data}

    def clean(self) -> dict[str, Any]:
        given = super().clean() or {}
        if self.errors:
            return given
        read: dict[str, Any] = {
            name: int(given[name]) if given[name].isascii() and given[name].isdecimal() else given[name]
            for name in ("rows", "cells", "queries", "changed")
        }
        read["changed"] = read["changed"] or read["queries"]
        read["neighbours"] = NeighbouringRelation(given["neighbours"])
        try:
            for name in ("epsilon", "delta", "beta"):
                read[name] = exact(given[name] or "0", field=name)
            self.numbers = Numbers(**read)
        except InvalidInput as error:
            self.add_error(error.field if error.field in self.fields else "epsilon", in_words(error, place=error.field))
        return given
