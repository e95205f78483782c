"""Forms: what people type, read and checked; what is wrong is said beside the field, and nothing typed is lost."""

from __future__ import annotations

import json
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.db.models import QuerySet

from releases.codebook import (
    categories_from_text,
    codebook_from_csv,
    decimals_kept,
    edges_from_text,
    is_csv_codebook,
)
from releases.engine.errors import InvalidInput
from releases.engine.filters import Policy
from releases.engine.four_ways import Numbers
from releases.engine.privacy import LARGEST_EPSILON, NeighbouringRelation, PrivacyUnit, exact, privacy_budget
from releases.engine.universe import Attribute, AttributeKind, Schema, Universe, plain
from releases.models import POLICY_MEANING, Dataset

#: More columns than this are declared by pasting a codebook; a form of thousands of fields helps nobody.
MOST_FORM_COLUMNS = 120
#: More columns than this are typed rather than chosen from a list.
MOST_LISTED_COLUMNS = 500

POLICY_TITLES = {Policy.PURE: "Pure", Policy.APPROX: "Approximate", Policy.ZCDP: "Concentrated"}


def missing(what: str) -> dict[str, str]:
    """The message for a field left empty, in place of one that does not say which."""
    return {"required": what}


def whole_number(what: str, *, least: int, most: int, example: int) -> dict[str, str]:
    """The messages of a field for a whole number."""
    return {
        "required": f"{what}: nothing was typed; must be a whole number, such as {example:,}.",
        "invalid": f"{what}: must be a whole number, such as {example}.",
        "min_value": f"{what}: must be at least {least:,}.",
        "max_value": f"{what}: must be at most {most:,}.",
    }


class UploadForm(forms.Form):
    title = forms.CharField(
        max_length=200,
        label="What the table is",
        help_text="For example: Health survey 1996. It names the dataset wherever it is listed.",
        error_messages=missing("Title: nothing was typed. Say what the table is."),
    )
    table = forms.FileField(
        label="Table",
        allow_empty_file=True,
        widget=forms.FileInput(attrs={"accept": ".csv,.tsv,.txt,.parquet"}),
        error_messages=missing("Table: no file was chosen. Choose a CSV or Parquet file."),
    )


class CodebookForm(forms.Form):
    """The codebook pasted, in the schema format or as CSV."""

    codebook = forms.CharField(
        label="Codebook",
        widget=forms.Textarea(attrs={"class": "code", "rows": 16, "spellcheck": "false"}),
        error_messages=missing("Codebook: nothing was pasted."),
    )

    def clean_codebook(self) -> dict[str, Any]:
        text = self.cleaned_data["codebook"]
        if not is_csv_codebook(text):
            return read_json(text, what="codebook")
        try:
            return codebook_from_csv(text)
        except InvalidInput as error:
            raise ValidationError(str(error)) from None


class ColumnForm(forms.Form):
    """One column of the table: left out, or declared with its categories or edges."""

    LEFT_OUT = ""
    name = forms.CharField(widget=forms.HiddenInput)
    #: Places of a number, as declared by a codebook or for a range that was learned; carried along.
    decimals = forms.CharField(required=False, max_length=2, widget=forms.HiddenInput)
    kind = forms.ChoiceField(
        label="Type",
        required=False,
        choices=[
            (LEFT_OUT, "leave out"),
            (AttributeKind.CATEGORICAL, "categories"),
            (AttributeKind.INTEGER, "whole numbers"),
            (AttributeKind.NUMBER, "numbers"),
        ],
    )
    values = forms.CharField(
        label="Categories or edges",
        required=False,
        strip=False,
        widget=forms.Textarea(attrs={"rows": 1, "spellcheck": "false"}),
    )
    outside = forms.CharField(
        label="What is outside",
        required=False,
        max_length=200,
        widget=forms.TextInput(attrs={"placeholder": "default", "list": "outside-rules"}),
    )

    def clean(self) -> dict[str, Any]:
        given = super().clean() or {}
        if not given.get("kind"):
            return given
        try:
            described: dict[str, Any] = {"name": given["name"], "type": given["kind"]}
            if given["kind"] == AttributeKind.CATEGORICAL:
                described["categories"] = categories_from_text(given.get("values", ""))
            else:
                described["edges"] = edges_from_text(given.get("values", ""))
            if given.get("outside"):
                described["outside"] = given["outside"].strip()
            if given["kind"] == AttributeKind.NUMBER and given.get("decimals", "").isdecimal():
                described |= decimals_kept(int(given["decimals"]), described["edges"])
            given["attribute"] = Attribute.from_json(described)
        except InvalidInput as error:
            field = "outside" if error.field == "outside" else "values"
            self.add_error(field, str(error))
        return given


ColumnFormSet = forms.formset_factory(ColumnForm, extra=0, max_num=MOST_FORM_COLUMNS, absolute_max=MOST_FORM_COLUMNS)


def column_initials(dataset: Dataset, universe: Universe | None) -> list[dict[str, str]]:
    """A form for every column of the table, filled from what was declared before or is to be."""
    declared = {attribute.name: attribute for attribute in (universe.attributes if universe else ())}
    initials = []
    for name in dataset.columns[:MOST_FORM_COLUMNS]:
        attribute = declared.get(name)
        if attribute is None:
            initials.append({"name": name})
            continue
        values = "\n".join(attribute.categories) or ", ".join(plain(edge) for edge in attribute.edges)
        initials.append({"name": name, "kind": attribute.kind.value, "values": values, "outside": attribute.outside})
        if attribute.kind is AttributeKind.NUMBER:
            initials[-1]["decimals"] = str(attribute.decimals)
    return initials


class PopulationForm(forms.Form):
    """Whose people a table is about, where another table is about the same ones."""

    other = forms.ModelChoiceField(
        label="The other table",
        queryset=Dataset.objects.none(),
        empty_label="choose a table",
        error_messages={
            **missing("The other table: nothing was chosen."),
            "invalid_choice": "The other table: is not one of yours that has said whom it protects.",
        },
    )

    def __init__(self, *args: Any, others: QuerySet[Dataset], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["other"].queryset = others  # type: ignore[attr-defined]


class ProtectionForm(forms.Form):
    kind = forms.ChoiceField(
        label="Whom to protect",
        widget=forms.RadioSelect,
        choices=[
            ("row", "Each row: nobody is in more than one row"),
            ("person", "Each person, who may have several rows"),
        ],
        initial="row",
        error_messages=missing("Whom to protect: nothing was chosen."),
    )
    id_column = forms.ChoiceField(
        label="Column that tells people apart", required=False, help_text="It is used for counting and never released."
    )
    max_rows = forms.IntegerField(
        label="Rows counted of each person, at most",
        required=False,
        min_value=1,
        max_value=10_000,
        initial=1,
        help_text="Noise grows with this number; a person's rows beyond it do not count.",
        error_messages={
            "invalid": "Rows of each person: must be a whole number, such as 2.",
            "min_value": "Rows of each person: must be at least 1.",
            "max_value": "Rows of each person: must be at most 10,000.",
        },
    )
    neighbours = forms.ChoiceField(
        label="What is kept private",
        widget=forms.RadioSelect,
        choices=[
            (
                NeighbouringRelation.ADD_REMOVE,
                "Whether somebody is in the table at all. How many people there are is private too (add or remove)",
            ),
            (
                NeighbouringRelation.REPLACE,
                "What somebody's rows say. How many people there are is public (replace)",
            ),
        ],
        initial=NeighbouringRelation.ADD_REMOVE,
        error_messages=missing("What is kept private: nothing was chosen."),
    )

    def __init__(self, *args: Any, columns: list[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if len(columns) > MOST_LISTED_COLUMNS:
            described = self.fields["id_column"]
            self.fields["id_column"] = forms.CharField(
                label=described.label, required=False, help_text=described.help_text
            )
        else:
            listed = [("", "choose a column"), *((name, name) for name in columns)]
            self.fields["id_column"].choices = listed  # type: ignore[attr-defined]

    def clean(self) -> dict[str, Any]:
        given = super().clean() or {}
        if self.errors:
            return given
        if given["kind"] == "row":
            given["unit"] = PrivacyUnit()
        elif not given.get("id_column"):
            self.add_error("id_column", "Column: nothing was chosen. Name the column that tells people apart.")
        else:
            given["unit"] = PrivacyUnit(
                kind="person", id_column=given["id_column"], max_rows=given.get("max_rows") or 1
            )
        return given


class BudgetForm(forms.Form):
    epsilon = forms.CharField(
        label="Epsilon, in all",
        max_length=40,
        initial="3",
        help_text="The privacy loss limit: the smallest that leaves the statistics useful.",
        widget=forms.TextInput(attrs={"inputmode": "decimal"}),
        error_messages=missing("epsilon: nothing was typed; must be a decimal number above 0, such as 3"),
    )
    delta = forms.CharField(
        label="Delta, in all",
        max_length=40,
        initial="0.000001",
        required=False,
        help_text="The chance of a larger loss. Keep it far below one in the number of people; 0 with the pure rule.",
        widget=forms.TextInput(attrs={"inputmode": "decimal"}),
    )
    policy = forms.ChoiceField(
        label="How releases add up",
        widget=forms.RadioSelect,
        initial=Policy.ZCDP,
        choices=[(policy.value, f"{POLICY_TITLES[policy]}. {meaning}") for policy, meaning in POLICY_MEANING.items()],
        error_messages=missing("How releases add up: nothing was chosen."),
    )
    reason = forms.CharField(
        label="What it is for",
        widget=forms.Textarea(attrs={"rows": 3}),
        required=False,
        help_text="The reviewer reads this.",
    )

    def clean(self) -> dict[str, Any]:
        given = super().clean() or {}
        if "delta" in given:
            given["delta"] = given["delta"] or "0"
        if "policy" in given:
            _check_amounts(self, Policy(given["policy"]))
        return given


class ChoiceForm(forms.Form):
    """What the release may spend and how sure its bound should be."""

    epsilon = forms.CharField(
        label="Epsilon",
        max_length=40,
        help_text="The privacy this release may spend.",
        widget=forms.TextInput(attrs={"inputmode": "decimal"}),
        error_messages=missing("epsilon: nothing was typed; must be a decimal number above 0, such as 1"),
    )
    delta = forms.CharField(
        label="Delta",
        max_length=40,
        required=False,
        help_text="Above 0 it admits Gaussian noise.",
        widget=forms.TextInput(attrs={"inputmode": "decimal"}),
    )
    beta = forms.ChoiceField(
        label="Confidence",
        help_text="How surely every answer is within its bound.",
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
            self.add_error("delta" if error.field == "delta" else "epsilon", str(error))
        return given


class SessionForm(ChoiceForm):
    """What a live session may spend, and what it is planned for."""

    field_order = ("title", "epsilon", "delta", "beta", "questions", "population", "updates")
    title = forms.CharField(
        label="Title of the session",
        max_length=200,
        required=False,
        help_text="Whoever may ask finds it by this. Empty: Live session.",
    )
    questions = forms.IntegerField(
        label="Questions",
        min_value=1,
        max_value=10_000_000,
        initial=1000,
        help_text="How many different ones can be asked; the bound holds for all at once.",
        error_messages=whole_number("Questions", least=1, most=10_000_000, example=1000),
    )
    population = forms.IntegerField(
        label="About how many rows",
        min_value=1,
        max_value=10_000_000_000,
        initial=10_000,
        help_text="A public guess, such as the size of the survey. Never look it up in the table.",
        error_messages=whole_number("About how many rows", least=1, most=10_000_000_000, example=10_000),
    )
    updates = forms.IntegerField(
        label="Paid updates",
        required=False,
        min_value=1,
        max_value=4000,
        help_text="Left empty: the number with the best bound.",
        error_messages=whole_number("Paid updates", least=1, most=4000, example=40),
    )

    @property
    def options(self) -> dict[str, int | None]:
        """What was typed as the mechanism's options."""
        return {name: self.cleaned_data[name] for name in ("questions", "population", "updates")}


class CertificateForm(ChoiceForm):
    """What of a release is certified, and what measuring it may spend."""

    field_order = ("what", "epsilon", "delta", "beta")
    LABELS = {
        "synthetic rows": "The synthetic rows, asked the questions of the release",
        "released answers": "The released answers",
        "both": "Both: the worse of the two",
    }
    what = forms.ChoiceField(label="What is measured", widget=forms.RadioSelect)

    def __init__(self, *args: Any, possible: list[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["what"].choices = [(each, self.LABELS[each]) for each in possible]  # type: ignore[attr-defined]
        self.fields["epsilon"].help_text = "One number needs little: a twentieth of what the release spent is proposed."
        self.fields["beta"].help_text = "How surely the true largest error is at most the number published."

    @property
    def choice(self) -> dict[str, str]:
        return {name: self.cleaned_data[name] for name in ("epsilon", "delta", "beta", "what")}


class AskForm(forms.Form):
    """A session's question as text."""

    query = forms.CharField(
        label="The question as JSON",
        widget=forms.Textarea(attrs={"class": "code short", "rows": 3, "spellcheck": "false"}),
        error_messages=missing("Question: nothing was typed; must be a JSON object from columns to ranges or lists"),
    )

    def clean_query(self) -> dict[str, Any]:
        """The predicate; the workload format's own `{"count": ...}` around it is understood too."""
        read = read_json(self.cleaned_data["query"], what="question")
        if set(read) == {"count"} and isinstance(read["count"], dict):
            return dict(read["count"])
        return read


class TitleForm(forms.Form):
    """What a release is called."""

    title = forms.CharField(
        label="Title of the release",
        max_length=200,
        help_text="It stands in lists, on the result and in the receipt.",
        error_messages=missing("Title: nothing was typed. Say what the release holds."),
    )


class WorkloadForm(forms.Form):
    """The whole workload pasted as JSON."""

    workload = forms.CharField(
        label="Questions as JSON",
        widget=forms.Textarea(attrs={"class": "code", "rows": 10, "spellcheck": "false"}),
        error_messages=missing("workload: nothing was pasted; must be a JSON object with a list of queries"),
    )

    def clean_workload(self) -> dict[str, Any]:
        return read_json(self.cleaned_data["workload"], what="workload")


class PlanFileForm(forms.Form):
    """A plan saved before, as a file."""

    MOST_BYTES = 10 * 2**20
    plan = forms.FileField(
        label="Plan file",
        allow_empty_file=True,
        widget=forms.FileInput(attrs={"accept": ".json,application/json"}),
        error_messages=missing("Plan file: no file was chosen. Choose a JSON file."),
    )

    def clean_plan(self) -> dict[str, Any]:
        file = self.cleaned_data["plan"]
        if file.size > self.MOST_BYTES:
            raise ValidationError(f"Plan file: {file.name} must be at most {self.MOST_BYTES // 2**20} MB.")
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
            self.add_error(error.field if error.field in self.fields else "epsilon", str(error))
        return given


class DecisionForm(forms.Form):
    """A reviewer's decision; amounts left empty are those asked for."""

    epsilon = forms.CharField(
        label="Epsilon to grant",
        max_length=40,
        required=False,
        help_text="At most what was asked for.",
        widget=forms.TextInput(attrs={"inputmode": "decimal"}),
    )
    delta = forms.CharField(
        label="Delta to grant",
        max_length=40,
        required=False,
        widget=forms.TextInput(attrs={"inputmode": "decimal"}),
    )
    note = forms.CharField(
        label="Note to the curator",
        widget=forms.Textarea(attrs={"rows": 3}),
        required=False,
        help_text="Needed to deny.",
    )

    def __init__(self, *args: Any, policy: Policy, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.policy = policy

    def clean(self) -> dict[str, Any]:
        given = super().clean() or {}
        _check_amounts(self, self.policy)
        return given


def _check_amounts(form: forms.Form, policy: Policy) -> None:
    """Whether what was typed is a budget under the policy; said of the text as it was typed."""
    given = form.cleaned_data
    for name in ("epsilon", "delta"):
        text = given.get(name, "")
        if not text:
            continue
        try:
            amount = exact(text, field=name)
            if name == "epsilon" and not 0 < amount <= LARGEST_EPSILON:
                raise InvalidInput(name, text, f"must be above 0 and at most {LARGEST_EPSILON}")
            if name == "delta" and policy is Policy.PURE and amount != 0:
                raise InvalidInput(name, text, "must be 0 with the pure rule")
            if name == "delta" and policy is not Policy.PURE and not 0 < amount < 1:
                raise InvalidInput(name, text, "must be above 0 and below 1; only the pure rule goes without it")
        except InvalidInput as error:
            form.add_error(name, str(error))


def read_json(text: str, *, what: str) -> dict[str, Any]:
    """What a person pasted, as an object; what is wrong with it is said with its line and column."""
    try:
        read = json.loads(text, object_pairs_hook=_each_once)
    except json.JSONDecodeError as error:
        raise ValidationError(
            f"The {what} is not JSON: {error.msg} at line {error.lineno}, column {error.colno}."
        ) from None
    except RecursionError:
        raise ValidationError(f"The {what} is not usable: it is nested too deeply.") from None
    except _NamedTwice as error:
        raise ValidationError(f"The {what} names the field {error.args[0]!r} twice in one object.") from None
    except ValueError:
        raise ValidationError(f"The {what} holds a number of too many digits.") from None
    if not isinstance(read, dict):
        raise ValidationError(f"The {what} must be a JSON object, in braces.")
    return read


class _NamedTwice(ValueError):
    """JSON lets a field be named twice and keeps the last; a person who did that meant something else."""


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    read: dict[str, Any] = {}
    for name, value in pairs:
        if name in read:
            raise _NamedTwice(name)
        read[name] = value
    return read


def schema_from_codebook(codebook: dict[str, Any]) -> tuple[Schema, bool]:
    """A pasted codebook as a schema, and whether it says anything about protection."""
    says_protection = "unit" in codebook or "neighbours" in codebook
    _check_words(codebook)
    return Schema.from_json(codebook), says_protection


def codebook_of(dataset: Dataset, universe: Universe | None) -> str:
    """What is declared, or is to be, as a codebook, to copy, to change, or to keep; empty where nothing is."""
    if universe is None:
        return ""
    parts = ['"version": 1']
    if dataset.budget is not None:
        parts.append(f'"unit": {json.dumps(dataset.budget.unit, ensure_ascii=False)}')
        parts.append(f'"neighbours": {json.dumps(dataset.budget.neighbours)}')
    columns = [json.dumps(attribute.to_json(), ensure_ascii=False) for attribute in universe.attributes]
    parts.append('"columns": [\n    ' + ",\n    ".join(columns) + "\n  ]")
    return "{\n  " + ",\n  ".join(parts) + "\n}"


def _check_words(codebook: dict[str, Any]) -> None:
    """Fields that are compared with a set of words must be words."""
    columns = codebook.get("columns")
    places = [("neighbours", codebook.get("neighbours", ""))]
    places += [
        (f"columns[{position}].type", column.get("type", ""))
        for position, column in enumerate(columns if isinstance(columns, list) else [])
        if isinstance(column, dict)
    ]
    for field, value in places:
        if isinstance(value, (list, dict)):
            raise InvalidInput(field, value, "must be text")
