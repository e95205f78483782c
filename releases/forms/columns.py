"""Forms of the declared columns: one for each column, those around them, and what they hold at first."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from django import forms
from django.core.exceptions import ValidationError

from releases.display.error_messages import in_words
from releases.engine.domain.attribute import CLAMP, DROP, Attribute
from releases.engine.domain.columns import AttributeKind
from releases.engine.domain.dates import DATE_FORMATS
from releases.engine.domain.formula_parser import MAX_LENGTH
from releases.engine.domain.universe import Universe
from releases.engine.errors import InvalidInput
from releases.forms.fields import (
    MAX_FORM_COLUMNS,
    LenientForm,
    SentField,
    TextsField,
    TypedTextField,
)
from releases.forms.widgets import QuickErrorList, QuickHidden, QuickInput, QuickSelect, QuickTextarea
from releases.models import Dataset
from releases.schema.bin_edges import bins_from_text, bins_in_text, dates_from_text, dates_in_text, names_bins
from releases.schema.codebook_csv import (
    categories_from_text,
    decimals_kept,
    in_example,
    reading,
)
from releases.schema.descriptions import (
    DESCRIPTION,
    LONGEST_PARAGRAPH,
    UNIT,
    Notes,
    read_note,
    read_paragraph,
)
from releases.schema.file_codebook import columns_of_dates
from releases.schema.lookup_tables import MAX_BYTES, with_table
from releases.schema.missing_values import bin_for_missing, has_bin_for_missing, with_bin_for_missing


class ColumnsLinkForm(LenientForm):
    """Whose declaration the columns are filled in from: the file's own, a codebook's, a dataset's, or a release's."""

    FROM_FILE = "file"
    codebook = TypedTextField()
    learned = TypedTextField()


class ColumnsButtonForm(LenientForm):
    """The button that was pressed on the page of the columns, and what goes with it.

    Fields:
        keep, forget, save_codebook, delete_codebook, several, fill_in, levels, check: buttons; without one but the
            last, it is to declare.
        codebook, description: what was pasted, and what is said of the table, right or wrong.
        name, share: of the codebook that is to be saved.
        doubts: what was asked about before, and is meant all the same.
    """

    keep = SentField()
    forget = SentField()
    save_codebook = SentField()
    delete_codebook = TypedTextField()
    several = SentField()
    fill_in = SentField()
    levels = SentField()
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


#: Of a column's form, by the field of the schema format; others are about what is declared.
_FIELDS = {
    "outside": "outside",
    "missing": "missing_codes",
    "missing_as": "missing_rule",
    "format": "date_format",
    "zone": "zone",
    "name": "name",
    "formula": "formula",
    "lookup table": "lookup",
}


class ColumnForm(forms.Form):
    """One column of the table: left out, or declared with its categories or edges."""

    LEFT_OUT = ""
    CATCH_ALL = "category"
    #: Of missing values: a bin of their own. New columns have this rule. A form that is sent without a rule means what
    #: it did before there was this one.
    OWN_BIN = "bin"
    name = forms.CharField(widget=QuickHidden)
    #: Sent with a column that is made from others: its name is typed, and it has a formula.
    made = forms.CharField(required=False, max_length=1, widget=QuickHidden)
    formula = forms.CharField(
        label="Formula",
        required=False,
        max_length=MAX_LENGTH,
        widget=QuickTextarea(
            attrs={"rows": 1, "spellcheck": "false", "placeholder": "such as years_between(birth, 2026-01-01)"}
        ),
    )
    lookup = forms.FileField(
        label="Lookup table", required=False, widget=forms.FileInput(attrs={"accept": ".csv,.tsv,.txt"})
    )
    #: Places of a number, as declared by a codebook or for a range that was learned; carried along.
    decimals = forms.CharField(required=False, max_length=2, widget=QuickHidden)
    kind = forms.ChoiceField(
        label="Type",
        widget=QuickSelect,
        required=False,
        choices=[
            (LEFT_OUT, "leave out"),
            (AttributeKind.CATEGORICAL, "categories"),
            (AttributeKind.INTEGER, "whole numbers"),
            (AttributeKind.NUMBER, "numbers"),
            (AttributeKind.DATE, "dates"),
            (AttributeKind.DATETIME, "dates and times"),
        ],
    )
    date_format = forms.ChoiceField(
        label="How dates are written",
        widget=QuickSelect,
        required=False,
        choices=[("", "how are they written?"), *((each, in_example(each)) for each in DATE_FORMATS)],
    )
    zone = forms.CharField(
        label="Time zone",
        required=False,
        max_length=50,
        widget=QuickInput(attrs={"placeholder": "such as Europe/Berlin"}),
    )
    values = forms.CharField(
        label="Categories or edges",
        required=False,
        strip=False,
        widget=QuickTextarea(attrs={"rows": 1, "spellcheck": "false"}),
    )
    outside = forms.ChoiceField(
        label="What is outside",
        widget=QuickSelect,
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
        widget=QuickInput(attrs={"placeholder": "which category"}),
    )
    missing_codes = forms.CharField(
        label="Missing codes",
        required=False,
        max_length=1000,
        widget=QuickInput(attrs={"placeholder": "codes, such as -9, NA"}),
    )
    missing_rule = forms.ChoiceField(
        label="Missing values",
        widget=QuickSelect,
        required=False,
        choices=[
            ("", "no rule of their own"),
            (OWN_BIN, "count them in a bin of their own"),
            (DROP, "leave the row out"),
            (CATCH_ALL, "count them as a category:"),
        ],
        error_messages={"invalid_choice": "missing: '%(value)s' must be one of the rules in the menu"},
    )
    missing_category = forms.CharField(
        label="Category of missing values",
        required=False,
        max_length=200,
        widget=QuickInput(attrs={"placeholder": "which category"}),
    )
    description = forms.CharField(
        label="Description",
        required=False,
        widget=QuickInput(attrs={"placeholder": "what it holds, in a few words"}),
    )
    unit = forms.CharField(
        label="Unit", required=False, widget=QuickInput(attrs={"placeholder": "such as years, or euro a month"})
    )

    def __init__(self, *args: Any, **given: Any) -> None:
        super().__init__(*args, **given)
        named = self.fields["name"]
        if self.is_made:
            named.widget = QuickInput(attrs={"placeholder": "name of a new column"})
        # Whoever sends nothing of the empty row at the end wants no such column.
        named.required = not self.is_made and any(self.data.get(self.add_prefix(name)) for name in self.fields)

    @property
    def is_made(self) -> bool:
        return bool(self["made"].value())

    def clean_lookup(self) -> Any:
        given = self.cleaned_data["lookup"]
        if given is not None and given.size > MAX_BYTES:
            raise ValidationError(f"lookup table: must be at most {MAX_BYTES:,} bytes")
        return given

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
        """Whether something is said of missing values, right or wrong, but that they have a bin of their own."""
        said = {self[field].value() for field in ("missing_codes", "missing_rule", "missing_category")}
        return bool(said - {None, "", self.OWN_BIN})

    def clean(self) -> dict[str, Any]:
        given = super().clean() or {}
        if not given.get("kind"):
            return given
        try:
            described: dict[str, Any] = {"name": given["name"], "type": given["kind"]}
            if self.is_made:
                given["formula"] = self._formula()
            values = given.get("values", "")
            if given["kind"] == AttributeKind.CATEGORICAL:
                described["categories"] = categories_from_text(values)
                if not described["categories"]:
                    raise InvalidInput("categories", None, "must be one at least; each on a line, or between commas")
            elif AttributeKind(given["kind"]).is_of_dates:
                described |= self._dates(values)
            else:
                described |= bins_from_text(values, kind=AttributeKind(given["kind"]))
            if outside := self._outside(described.get("categories", [])):
                described["outside"] = outside
            described["missing"] = categories_from_text(given.get("missing_codes", ""))
            described = self._with_missing_rule(described)
            if given["kind"] == AttributeKind.NUMBER and given.get("decimals", "").isdecimal():
                described |= decimals_kept(int(given["decimals"]), described["edges"])
            attribute = given["attribute"] = Attribute.from_json(described)
            given["readings"] = [reading(values, attribute)] if attribute.is_numeric and names_bins(values) else []
        except InvalidInput as error:
            field = _FIELDS.get(error.field, "values")
            self.add_error(field, in_words(error, place="missing") if field == "missing_rule" else in_words(error))
        return given

    @property
    def as_typed(self) -> dict[str, str]:
        """The fields but the name, right or wrong; without null characters, which no database takes. A lookup table
        that was uploaded stands in the formula, where it fits: no browser sends it a second time."""
        typed = {
            name: (self[name].data or "").replace("\0", "")
            for name in self.base_fields
            if name not in ("name", "lookup")
        }
        uploaded = self["lookup"].data
        if uploaded is not None and uploaded.size <= MAX_BYTES:
            with suppress(InvalidInput):
                typed["formula"] = with_table(typed["formula"], uploaded.read())
        return typed

    def _formula(self) -> str:
        """The formula, with the lookup table that was uploaded: it stands in the field from then on."""
        given = self.cleaned_data
        if not given["name"]:
            raise InvalidInput("name", None, "must be typed: what the new column is called")
        if given.get("missing_codes"):
            rule = "cannot be declared here: declare missing codes of the columns that the formula reads"
            raise InvalidInput("missing", given["missing_codes"], rule)
        formula: str = given.get("formula", "")
        if not formula:
            raise InvalidInput("formula", None, "must say what the column is made from")
        if given.get("lookup") is None:
            return formula
        formula = with_table(formula, given["lookup"].read())
        self.data = {**self.data.dict(), self.add_prefix("formula"): formula}  # type: ignore[attr-defined]
        return formula

    def _dates(self, values: str) -> dict[str, Any]:
        written = self.cleaned_data.get("date_format", "") or (DATE_FORMATS[0] if self.is_made else "")
        if not written:
            raise InvalidInput(
                "format", None, "must be chosen: how the file writes dates; it is never looked for in rows"
            )
        zone = self.cleaned_data.get("zone", "")
        return {"format": written, **({"zone": zone} if zone else {}), **dates_from_text(values, written=written)}

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
            what = "date" if AttributeKind(self.cleaned_data["kind"]).is_of_dates else "number"
            rest = f"is for categories; a {what} is counted in the nearest bin, or its row left out"
            raise InvalidInput("outside", "count it as a category", rest)
        return self._rule("outside", rule, category, categories)

    def _with_missing_rule(self, described: dict[str, Any]) -> dict[str, Any]:
        """With the rule of missing values. Where none is chosen, numbers and dates have a bin for them, for no other is
        the nearest, and in categories they are treated as other values outside.

        Raises:
            InvalidInput: the rule does not go with the type, or with the category named beside it.
        """
        rule, category = self.cleaned_data.get("missing_rule", ""), self.cleaned_data.get("missing_category", "")
        kind = AttributeKind(self.cleaned_data["kind"])
        is_of_categories = kind is AttributeKind.CATEGORICAL
        if rule == self.CATCH_ALL and not is_of_categories:
            what, name = "dates" if kind.is_of_dates else "numbers", bin_for_missing(kind)
            raise InvalidInput(
                "missing_as", "count them as a category", f"is for categories; {what} have the bin “{name}”"
            )
        said = self._rule("missing_as", rule, category, described.get("categories", []))
        if said == self.OWN_BIN or not (said or is_of_categories):
            return with_bin_for_missing(described)
        return {**described, "missing_as": said}

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


class _ColumnFormSet(forms.BaseFormSet):  # type: ignore[type-arg]
    def __init__(self, *args: Any, **given: Any) -> None:
        super().__init__(*args, **{"error_class": QuickErrorList, **given})


ColumnFormSet = forms.formset_factory(
    ColumnForm, formset=_ColumnFormSet, extra=0, max_num=MAX_FORM_COLUMNS, absolute_max=MAX_FORM_COLUMNS
)


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
    """By column the fields of its form as they were typed."""
    known = set(names)
    return {
        form["name"].data: form.as_typed
        for form in formset.forms
        if form["name"].data in known or (form.is_made and form["name"].data)
    }


def column_initials(dataset: Dataset, universe: Universe | None, notes: Notes) -> list[dict[str, str]]:
    """A form for every column of the table, filled from what was declared before or is to be; behind them one for each
    column that is made from others, and an empty one for another."""
    declared = {attribute.name: attribute for attribute in (universe.attributes if universe else ())}
    typed_dates, usual_dates = columns_of_dates(dataset), _dates_proposed(dataset)
    initials: list[dict[str, str]] = []
    for name in dataset.columns[:MAX_FORM_COLUMNS]:
        attribute = declared.get(name)
        said = notes.get(name, {})
        if attribute is None:
            initials.append({"name": name, "missing_rule": ColumnForm.OWN_BIN, **said})
            initials[-1]["date_format"] = DATE_FORMATS[0] if name in typed_dates else usual_dates
            continue
        initials.append({**_as_declared(attribute), **said})
    initials += [{**_as_declared(each), **notes.get(each.name, {})} for each in declared.values() if each.formula]
    return [*initials, {"made": "1", "missing_rule": ColumnForm.OWN_BIN}][:MAX_FORM_COLUMNS]


def _dates_proposed(dataset: Dataset) -> str:
    """How a file writes the dates of columns whose type it does not say: those of a workbook are stored as in ISO 8601,
    and in text they are proposed by the country; empty where nothing is known."""
    facts = dataset.read_as
    if facts.sheet:
        return DATE_FORMATS[0]
    return facts.habits.date_format if facts.habits is not None and facts.encoding else ""


def _as_declared(attribute: Attribute) -> dict[str, str]:
    is_rule = attribute.has_grammar or attribute.outside == DROP
    outside = {"outside": attribute.outside} if is_rule else _catching(attribute.outside)
    initial = {"name": attribute.name, "kind": attribute.kind.value, "values": _values(attribute), **outside}
    if attribute.formula is not None:
        initial |= {"made": "1", "formula": attribute.formula.text}
    if attribute.dates is not None:
        initial |= {"date_format": attribute.dates.written, "zone": attribute.dates.zone}
    if attribute.missing:
        initial["missing_codes"] = ", ".join(attribute.missing)
    if has_bin_for_missing(attribute):
        initial["missing_rule"] = ColumnForm.OWN_BIN
    elif attribute.missing_as == DROP or (attribute.has_grammar and attribute.drops_missing):
        initial["missing_rule"] = DROP
    elif attribute.missing_as:
        initial |= {"missing_rule": ColumnForm.CATCH_ALL, "missing_category": attribute.missing_as}
    if attribute.kind is AttributeKind.NUMBER:
        initial["decimals"] = str(attribute.decimals)
    return initial


def _values(attribute: Attribute) -> str:
    if attribute.dates is not None:
        return dates_in_text(attribute.dates)
    shown = attribute.categories[:-1] if has_bin_for_missing(attribute) else attribute.categories
    return "\n".join(shown) or bins_in_text(attribute)


def _catching(category: str) -> dict[str, str]:
    return {"outside": ColumnForm.CATCH_ALL, "catch_all": category}
