"""Forms of a dataset: its file, columns, protection and budget."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Sequence
from typing import Any

from django import forms
from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.db.models import QuerySet

from releases.display.error_messages import in_words
from releases.engine.accounting.filters import Policy
from releases.engine.domain.privacy import NeighbouringRelation, PrivacyUnit
from releases.engine.domain.universe import (
    CLAMP,
    DROP,
    NO_NUMBER,
    Attribute,
    AttributeKind,
    Schema,
    Universe,
    plain,
)
from releases.engine.errors import InvalidInput
from releases.engine.tables.facts import ENCODINGS, SUFFIXES, FileFacts
from releases.forms.fields import (
    MAX_FORM_COLUMNS,
    MAX_LISTED_COLUMNS,
    POLICY_TITLES,
    DecimalTextField,
    GroupField,
    LenientForm,
    SentField,
    TextsField,
    TypedTextField,
    WholeNumberField,
    check_amounts,
    missing,
    read_json,
)
from releases.models import POLICY_MEANING, Dataset
from releases.schema.bin_edges import edges_from_text, names_bins
from releases.schema.codebook_csv import (
    categories_from_text,
    codebook_from_csv,
    decimals_kept,
    is_csv_codebook,
    reading,
    readings,
    with_known_types,
)
from releases.schema.descriptions import (
    DESCRIPTION,
    LONGEST_PARAGRAPH,
    UNIT,
    Apart,
    Notes,
    apart,
    noted,
    read_note,
    read_paragraph,
)
from releases.schema.standard_codebooks import from_standard, is_standard


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
        widget=forms.FileInput(attrs={"accept": ",".join(SUFFIXES)}),
        error_messages=missing("Table: no file was chosen. Choose a file with a table."),
    )
    separator = forms.CharField(
        label="Separator",
        required=False,
        max_length=9,
        help_text="One sign, tab or space; else by the first line.",
    )
    decimal = forms.ChoiceField(
        label="Decimal sign",
        required=False,
        choices=[("", "point, unless asked"), (".", "point: 1.59"), (",", "comma: 1,59")],
    )
    thousands = forms.ChoiceField(
        label="Thousands sign",
        required=False,
        choices=[("", "none"), (".", "point"), (",", "comma"), ("'", "apostrophe"), ("space", "space")],
    )
    encoding = forms.ChoiceField(
        label="Encoding", required=False, choices=[("", "as marked, else UTF-8"), *ENCODINGS.items()]
    )
    quote = forms.ChoiceField(label="Quotation mark", required=False, choices=[("", '"'), ("'", "'"), ("none", "none")])
    has_header = forms.ChoiceField(
        label="First line",
        required=False,
        choices=[("", "names the variables"), ("no", "has values: number the variables")],
    )
    sheet = forms.CharField(label="Sheet", required=False, max_length=500, help_text="Name or number, of a workbook.")
    header_row = forms.IntegerField(
        label="Row with names", required=False, min_value=1, max_value=1000, help_text="Of a workbook; else 1."
    )
    member = forms.CharField(label="File in the archive", required=False, max_length=500)

    FACTS = tuple(each.name for each in dataclasses.fields(FileFacts))

    @property
    def facts_fields(self) -> list[forms.BoundField]:
        return [self[name] for name in self.FACTS]

    @property
    def shows_facts(self) -> bool:
        """Whether the form comes back: its errors can be about how the file is written."""
        return self.is_bound

    def clean(self) -> dict[str, Any]:
        given = super().clean() or {}
        said = {name: given[name] for name in self.FACTS if given.get(name)}
        try:
            given["facts"] = FileFacts.from_json(said)
        except InvalidInput as error:
            self.refuse(error)
        return given

    def refuse(self, error: InvalidInput) -> None:
        """Say what is wrong beside the field that it is about."""
        field = error.field if error.field in self.FACTS else "title"
        self.add_error(field, in_words(error, place=str(self.fields[field].label) if field != "title" else ""))


class DatabaseTableForm(forms.Form):
    """Which table of a database becomes a dataset."""

    table = forms.ChoiceField(
        label="Table",
        error_messages=missing("Table: nothing was chosen. Choose one of the tables that the database lists."),
    )
    title = UploadForm.base_fields["title"]

    def __init__(self, *args: Any, tables: Sequence[str], **given: Any) -> None:
        super().__init__(*args, **given)
        choice = self.fields["table"]
        assert isinstance(choice, forms.ChoiceField)
        choice.choices = [("", "Choose a table"), *((each, each) for each in tables)]


class UploadLinkForm(LenientForm):
    """What a link to the upload proposes."""

    title = TypedTextField()


class ColumnsLinkForm(LenientForm):
    """Whose declaration the columns are filled in from: the file's own, a codebook's, a dataset's, or a release's."""

    FROM_FILE = "file"
    codebook = TypedTextField()
    learned = TypedTextField()


class CodebookLinkForm(LenientForm):
    """In which format what is declared is written; in that of the schema where none is named."""

    format = TypedTextField()


class ColumnsButtonForm(LenientForm):
    """The button that was pressed on the page of the columns, and what goes with it.

    Fields:
        keep, forget, save_codebook, delete_codebook, check: buttons; without one of the first four, it is to declare.
        codebook, description: what was pasted, and what is said of the table, right or wrong.
        name, share: of the codebook that is to be saved.
        doubts: what was asked about before, and is meant all the same.
    """

    keep = SentField()
    forget = SentField()
    save_codebook = SentField()
    delete_codebook = TypedTextField()
    check = SentField()
    codebook = TypedTextField()
    description = TypedTextField()
    name = TypedTextField()
    share = TypedTextField()
    doubts = TextsField()

    @property
    def is_pasted(self) -> bool:
        return "codebook" in self.data

    @property
    def is_described(self) -> bool:
        return DESCRIPTION in self.data


class CodebookForm(forms.Form):
    """The codebook pasted, in the schema format, as CSV, or in a format that others write.

    Attributes:
        readings: how bins were read where their edges were not written, and what else was decided, in sentences, to be
            confirmed.
    """

    readings: list[str]

    codebook = forms.CharField(
        label="Codebook",
        widget=forms.Textarea(attrs={"class": "code", "rows": 16, "spellcheck": "false"}),
        error_messages=missing("Codebook: nothing was pasted."),
    )

    def clean_codebook(self) -> dict[str, Any]:
        text, self.readings = self.cleaned_data["codebook"], []
        if not is_csv_codebook(text):
            if not text.lstrip("\ufeff \t\r\n").startswith(("{", "[")):
                raise ValidationError(
                    "The codebook is neither JSON, which begins with a brace, nor a table in CSV, whose first line "
                    "names its columns, such as name,type,values,outside."
                )
            read = read_json(text, what="codebook", listed="columns")
        try:
            if is_csv_codebook(text):
                read, self.readings = codebook_from_csv(text), readings(text)
            elif is_standard(read):
                read, self.readings = from_standard(read)
        except InvalidInput as error:
            raise ValidationError(in_words(error)) from None
        return read


#: Of a column's form, by the field of the schema format; others are about what is declared.
_FIELDS = {"outside": "outside", "missing": "missing_codes", "missing_as": "missing_rule"}


class ColumnForm(forms.Form):
    """One column of the table: left out, or declared with its categories or edges."""

    LEFT_OUT = ""
    CATCH_ALL = "category"
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
    outside = forms.ChoiceField(
        label="What is outside",
        required=False,
        choices=[
            ("", "the default rule"),
            (CLAMP, "count it in the nearest bin"),
            (DROP, "leave the row out"),
            (CATCH_ALL, "count it as a category:"),
        ],
        error_messages={"invalid_choice": "outside: '%(value)s' must be one of the rules in the menu"},
    )
    catch_all = forms.CharField(
        label="Category that takes the rest",
        required=False,
        max_length=200,
        widget=forms.TextInput(attrs={"placeholder": "which category"}),
    )
    missing_codes = forms.CharField(
        label="Missing codes",
        required=False,
        max_length=1000,
        widget=forms.TextInput(attrs={"placeholder": "codes, such as -9, NA"}),
    )
    missing_rule = forms.ChoiceField(
        label="Missing values",
        required=False,
        choices=[
            ("", "the default rule"),
            (DROP, "leave the row out"),
            (CATCH_ALL, "count them as a category:"),
        ],
        error_messages={"invalid_choice": "missing: '%(value)s' must be one of the rules in the menu"},
    )
    missing_category = forms.CharField(
        label="Category of missing values",
        required=False,
        max_length=200,
        widget=forms.TextInput(attrs={"placeholder": "which category"}),
    )
    description = forms.CharField(
        label="Description",
        required=False,
        widget=forms.TextInput(attrs={"placeholder": "what it holds, in a few words"}),
    )
    unit = forms.CharField(
        label="Unit", required=False, widget=forms.TextInput(attrs={"placeholder": "such as years, or euro a month"})
    )

    def clean_description(self) -> str:
        return self._note(DESCRIPTION)

    def clean_unit(self) -> str:
        return self._note(UNIT)

    def _note(self, field: str) -> str:
        try:
            return read_note(field, self.cleaned_data[field])
        except InvalidInput as error:
            # Of a codebook "unit" is whom to protect; here it is what a number is measured in.
            raise ValidationError(in_words(error, place=field)) from None

    @property
    def has_notes(self) -> bool:
        """Whether something is said of the column, right or wrong."""
        return any(self[field].value() for field in (DESCRIPTION, UNIT))

    @property
    def has_missing(self) -> bool:
        """Whether something is said of missing values, right or wrong."""
        return any(self[field].value() for field in ("missing_codes", "missing_rule", "missing_category"))

    def clean(self) -> dict[str, Any]:
        given = super().clean() or {}
        if not given.get("kind"):
            return given
        try:
            described: dict[str, Any] = {"name": given["name"], "type": given["kind"]}
            values = given.get("values", "")
            if given["kind"] == AttributeKind.CATEGORICAL:
                described["categories"] = categories_from_text(values)
                if not described["categories"]:
                    raise InvalidInput("categories", None, "must be one at least; each on a line, or between commas")
            else:
                described["edges"] = edges_from_text(values, kind=AttributeKind(given["kind"]))
            if outside := self._outside(described.get("categories", [])):
                described["outside"] = outside
            described["missing"] = categories_from_text(given.get("missing_codes", ""))
            described["missing_as"] = self._missing_as(described.get("categories", []))
            if given["kind"] == AttributeKind.NUMBER and given.get("decimals", "").isdecimal():
                described |= decimals_kept(int(given["decimals"]), described["edges"])
            attribute = given["attribute"] = Attribute.from_json(described)
            given["readings"] = [reading(values, attribute)] if attribute.is_numeric and names_bins(values) else []
        except InvalidInput as error:
            field = _FIELDS.get(error.field, "values")
            self.add_error(field, in_words(error, place="missing") if field == "missing_rule" else in_words(error))
        return given

    def _outside(self, categories: list[str]) -> str:
        """The rule in the menu, in the word of the schema format; empty for the usual one.

        Raises:
            InvalidInput: the rule does not go with the type, or with the category named beside it.
        """
        rule, category = self.cleaned_data.get("outside", ""), self.cleaned_data.get("catch_all", "")
        is_numeric = self.cleaned_data["kind"] != AttributeKind.CATEGORICAL
        if rule == CLAMP and not is_numeric:
            rest = "is for numbers; choose to leave the row out, or to count it as a category"
            raise InvalidInput("outside", dict(self.fields["outside"].choices)[rule], rest)  # type: ignore[attr-defined]
        if is_numeric and rule == self.CATCH_ALL:
            rest = "is for categories; a number is counted in the nearest bin, or its row left out"
            raise InvalidInput("outside", "count it as a category", rest)
        return self._rule("outside", rule, category, categories)

    def _missing_as(self, categories: list[str]) -> str:
        """The rule of missing values; empty for that of other values outside. Numbers have a bin for them, unless their
        row is left out.

        Raises:
            InvalidInput: the rule does not go with the type, or with the category named beside it.
        """
        rule, category = self.cleaned_data.get("missing_rule", ""), self.cleaned_data.get("missing_category", "")
        is_numeric = self.cleaned_data["kind"] != AttributeKind.CATEGORICAL
        if is_numeric and rule == self.CATCH_ALL:
            raise InvalidInput(
                "missing_as", "count them as a category", f"is for categories; numbers have the bin “{NO_NUMBER}”"
            )
        named = self._rule("missing_as", rule, category, categories)
        return named if named or not is_numeric else NO_NUMBER

    def _rule(self, field: str, rule: str, category: str, categories: list[str]) -> str:
        """The word of the schema format for a rule in a menu, and the category named beside it."""
        if rule != self.CATCH_ALL:
            if category:
                rest = "is named together with another rule; choose to count it as a category, or empty the field"
                raise InvalidInput(field, category, rest)
            return rule
        if category not in categories:
            raise InvalidInput(field, category, "must be one of the declared categories")
        if category == DROP:
            raise InvalidInput(field, category, "cannot take the rest: the word means leaving the row out")
        return category


ColumnFormSet = forms.formset_factory(ColumnForm, extra=0, max_num=MAX_FORM_COLUMNS, absolute_max=MAX_FORM_COLUMNS)


class DescriptionForm(forms.Form):
    """What the table is, for the readers of its releases."""

    description = forms.CharField(
        label="What the table is, for readers",
        required=False,
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text=f"A paragraph of at most {LONGEST_PARAGRAPH:,} characters: who was asked, when, and by whom.",
    )

    def clean_description(self) -> str:
        try:
            return read_paragraph(self.cleaned_data[DESCRIPTION])
        except InvalidInput as error:
            raise ValidationError(in_words(error, place="What the table is")) from None


def typed_fields(formset: Any, names: Iterable[str]) -> dict[str, dict[str, str]]:
    """By column the fields of its form as they were typed, right or wrong; without null characters, which no database
    takes."""
    known, fields = set(names), [name for name in ColumnForm.base_fields if name != "name"]
    return {
        form["name"].data: {field: (form[field].data or "").replace("\0", "") for field in fields}
        for form in formset.forms
        if form["name"].data in known
    }


def column_initials(dataset: Dataset, universe: Universe | None, notes: Notes) -> list[dict[str, str]]:
    """A form for every column of the table, filled from what was declared before or is to be."""
    declared = {attribute.name: attribute for attribute in (universe.attributes if universe else ())}
    initials = []
    for name in dataset.columns[:MAX_FORM_COLUMNS]:
        attribute = declared.get(name)
        said = notes.get(name, {})
        if attribute is None:
            initials.append({"name": name, **said})
            continue
        values = "\n".join(attribute.categories) or ", ".join(plain(edge) for edge in attribute.edges)
        is_rule = attribute.is_numeric or attribute.outside == DROP
        outside = {"outside": attribute.outside} if is_rule else _catching(attribute.outside)
        initials.append({"name": name, "kind": attribute.kind.value, "values": values, **outside, **said})
        if attribute.missing:
            initials[-1]["missing_codes"] = ", ".join(attribute.missing)
        if attribute.missing_as == DROP or (attribute.is_numeric and attribute.drops_missing):
            initials[-1]["missing_rule"] = DROP
        elif attribute.missing_as and not attribute.is_numeric:
            initials[-1] |= {"missing_rule": ColumnForm.CATCH_ALL, "missing_category": attribute.missing_as}
        if attribute.kind is AttributeKind.NUMBER:
            initials[-1]["decimals"] = str(attribute.decimals)
    return initials


def _catching(category: str) -> dict[str, str]:
    return {"outside": ColumnForm.CATCH_ALL, "catch_all": category}


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


class DeleteForm(LenientForm):
    """The button that was pressed on the page that deletes."""

    EVERYTHING, ROWS = "everything", "rows"
    delete = forms.ChoiceField(choices=[(EVERYTHING, "everything"), (ROWS, "the rows")])


class RenameForm(forms.Form):
    title = forms.CharField(
        label="Title",
        max_length=200,
        help_text="What is published of it names it so, in the catalogue too.",
        error_messages=missing("Title: nothing was typed. Say what the table is."),
    )


class SharingForm(forms.Form):
    group = GroupField()

    def __init__(self, *args: Any, groups: QuerySet[Group], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = self.fields["group"]
        assert isinstance(field, GroupField)
        field.queryset = groups


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
        label="Column that tells people apart",
        required=False,
        help_text="It is used for counting and never released. Write each person's id in one way: 1 and 1.0, "
        "or A and a, are two people. Spaces around an id do not matter.",
    )
    max_rows = WholeNumberField(
        label="Rows counted of each person, at most",
        required=False,
        min_value=1,
        max_value=10_000,
        initial=1,
        help_text="Noise grows with this number; a person's rows beyond it do not count.",
        error_messages={
            "invalid": "Rows of each person: must be a whole number, such as 2, in digits alone.",
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
        if len(columns) > MAX_LISTED_COLUMNS:
            described = self.fields["id_column"]
            self.fields["id_column"] = forms.CharField(
                label=described.label, required=False, help_text=described.help_text
            )
        else:
            listed = [("", "choose a column"), *((name, name) for name in columns)]
            self.fields["id_column"].choices = listed  # type: ignore[attr-defined]

    def clean(self) -> dict[str, Any]:
        given = super().clean() or {}
        if given.get("kind") == "row":
            # Typed while each person was chosen, and out of sight since.
            for name in ("id_column", "max_rows"):
                self.errors.pop(name, None)
        if self.errors:
            return given
        if given["kind"] == "row":
            given["unit"] = PrivacyUnit()
        elif not given.get("id_column"):
            said = "Column: nothing was chosen. Name the column that tells people apart."
            self.add_error("id_column", forms.ValidationError(said, code="required"))
        else:
            given["unit"] = PrivacyUnit(
                kind="person", id_column=given["id_column"], max_rows=given.get("max_rows") or 1
            )
        return given


class BudgetForm(forms.Form):
    epsilon = DecimalTextField(
        label="Epsilon, in all",
        initial="3",
        help_text="The privacy loss limit: the smallest that leaves the statistics useful.",
        error_messages=missing("epsilon: nothing was typed; must be a decimal number above 0, such as 3"),
    )
    delta = DecimalTextField(
        label="Delta, in all",
        initial="0.000001",
        required=False,
        help_text="The chance of a larger loss. Keep it far below one in the number of people; 0 with the pure rule.",
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
            check_amounts(self, Policy(given["policy"]))
        return given


def schema_from_codebook(codebook: dict[str, Any]) -> tuple[Schema, bool, Apart]:
    """A pasted codebook as a schema, whether it says anything about protection, and what it says in words."""
    says_protection = "unit" in codebook or "neighbours" in codebook
    read = apart(codebook)
    return Schema.from_json(with_known_types(read.schema)), says_protection, read


def codebook_of(dataset: Dataset, universe: Universe | None, notes: Notes) -> str:
    """What is declared, or is to be, as a codebook, to copy, to change, or to keep; empty where nothing is."""
    if universe is None:
        return ""
    parts = ['"version": 1']
    if dataset.description:
        parts.append(f'"description": {json.dumps(dataset.description, ensure_ascii=False)}')
    if dataset.budget is not None:
        parts.append(f'"unit": {json.dumps(dataset.budget.unit, ensure_ascii=False)}')
        parts.append(f'"neighbours": {json.dumps(dataset.budget.neighbours)}')
    columns = [json.dumps(noted(each.to_json(), notes), ensure_ascii=False) for each in universe.attributes]
    parts.append('"columns": [\n    ' + ",\n    ".join(columns) + "\n  ]")
    return "{\n  " + ",\n  ".join(parts) + "\n}"
