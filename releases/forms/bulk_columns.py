"""Forms that fill in the fields of many columns at once: of those that are ticked, of those in a pasted block, or of
the levels in a lookup table.

They change what is typed and store nothing: the page comes back with the fields filled in, to be declared.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django import forms

from releases.display.error_messages import in_words
from releases.engine.domain.attribute import CLAMP
from releases.engine.domain.columns import AttributeKind
from releases.engine.domain.dates import DATE_FORMATS
from releases.engine.errors import InvalidInput
from releases.forms.columns import ColumnForm
from releases.forms.fields import MAX_FORM_COLUMNS, TextsField, TypedTextField
from releases.forms.widgets import QuickInput, QuickSelect, QuickTextarea
from releases.schema.codebook_csv import kind_from_word, plain_head
from releases.schema.lookup_tables import MAX_BYTES, OTHERS, LookupColumn, levels_of
from releases.schema.missing_values import bin_for_missing
from releases.schema.pasted_columns import PastedLine, read_block, values_of

#: What is typed in the fields of a column.
Row = dict[str, str]

AS_IT_IS = ""
_LEAVE_OUT, _DEFAULT_RULE = "leave-out", "default"
#: With each menu of a rule, the field beside it.
_RULES = (("outside", "catch_all"), ("missing_rule", "missing_category"))


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """What is wrong with what is typed.

    Attributes:
        field: the identifier of the field to go to; empty where there is none.
    """

    column: str
    field: str
    message: str


def typed_rows(formset: Any) -> list[Row]:
    """The fields of each column as they were typed."""
    return [{"name": (form["name"].data or "").replace("\0", ""), **form.as_typed} for form in formset.forms]


def _menu(field: str, label: str, *more: tuple[str, str]) -> forms.ChoiceField:
    """A menu of the columns' form, whose first choice leaves everything as it is."""
    return forms.ChoiceField(
        label=label,
        required=False,
        widget=QuickSelect,
        choices=[(AS_IT_IS, "as it is"), *more, *_choices(field)[1:]],
        error_messages={"invalid_choice": f"{label}: '%(value)s' must be one of the choices in the menu"},
    )


def _choices(field: str) -> list[tuple[str, str]]:
    """Those of a menu of the columns' form; the first is the one without a value."""
    of_column = ColumnForm.base_fields[field]
    assert isinstance(of_column, forms.ChoiceField)
    return [(str(value), str(title)) for value, title in list(of_column.choices)]  # type: ignore[arg-type]


def _text(label: str, placeholder: str, longest: int) -> forms.CharField:
    return forms.CharField(
        label=label,
        required=False,
        max_length=longest,
        widget=QuickInput(attrs={"placeholder": placeholder}),
        error_messages={"max_length": f"{label}: must be at most %(limit_value)d characters long"},
    )


class SeveralColumnsForm(forms.Form):
    """What is filled in for every ticked column; what is left empty stays as it is."""

    prefix = "several"

    every = forms.BooleanField(label="All columns of the table", required=False)
    ticked = TextsField()
    kind = _menu("kind", "Type", (_LEAVE_OUT, "leave out"))
    date_format = _menu("date_format", "How dates are written")
    values = forms.CharField(
        label="Categories or edges",
        required=False,
        strip=False,
        widget=QuickTextarea(attrs={"rows": 1, "spellcheck": "false", "placeholder": "as they are"}),
    )
    outside = _menu("outside", "Outside", (_DEFAULT_RULE, "the default rule"))
    catch_all = _text("Category that takes the rest", "which category", 200)
    missing_codes = _text("Missing codes", "as they are", 1000)
    missing_rule = _menu("missing_rule", "Missing values", (_DEFAULT_RULE, "no rule of their own"))
    missing_category = _text("Category of missing values", "which category", 200)

    @property
    def names(self) -> list[str]:
        """The columns that are ticked."""
        return self["ticked"].value() or []

    @property
    def is_in_use(self) -> bool:
        return bool(self.names or self.errors)

    def as_typed(self) -> SeveralColumnsForm:
        """The same without saying what is wrong, where another button was pressed."""
        return SeveralColumnsForm(initial={name: self[name].data for name in self.fields})

    def clean(self) -> dict[str, Any]:
        given = super().clean() or {}
        for rule, category in _RULES:
            is_category = given.get(rule) == ColumnForm.CATCH_ALL
            if rule in given and category in given and is_category != bool(given[category]):
                rest = "must be named with the rule to count in a category, and with no other"
                error = InvalidInput(category, given[category] or None, rest)
                self.add_error(category, in_words(error, place=str(self.fields[category].label)))
        if not self.errors and not self._changes(given):
            self.add_error("kind", "Type and the other fields: nothing is chosen; choose what to fill in")
        return given

    def filled(self, rows: list[Row]) -> tuple[list[Row], list[str]]:
        """The rows with what was chosen, and the names of the columns it was filled in for; as they were, and none,
        where something is wrong, which the form then says."""
        names = {row["name"] for row in rows if not row["made"] and (self._is_every or row["name"] in self.names)}
        if self.is_valid() and not names:
            self.add_error("every", "Columns: nothing is ticked; tick the columns to fill in, or all of them")
        if not self.is_valid():
            return rows, []
        change = self._changes(self.cleaned_data)
        filled = [row | change if row["name"] in names else row for row in rows]
        try:
            for row in filled:
                if row["name"] in names:
                    self._check(row)
        except InvalidInput as error:
            self.add_error(error.field, in_words(error, place=str(self.fields[error.field].label)))
            return rows, []
        return filled, [row["name"] for row in filled if row["name"] in names]

    @property
    def _is_every(self) -> bool:
        return bool(self["every"].value())

    def _changes(self, given: dict[str, Any]) -> Row:
        """What is chosen, as the fields of a column hold it."""
        change = {name: given[name] for name in ColumnForm.base_fields if given.get(name, "").strip()}
        change |= {category: given[category] for rule, category in _RULES if rule in change}
        emptied = {"kind": _LEAVE_OUT, "outside": _DEFAULT_RULE, "missing_rule": _DEFAULT_RULE}
        return {name: "" if emptied.get(name) == text else text for name, text in change.items()}

    def _check(self, row: Row) -> None:
        """What is chosen goes with the type that a column then has.

        Raises:
            InvalidInput: naming the field of this form, and the column.
        """
        given, kind, name = self.cleaned_data, row["kind"], row["name"]
        if not kind:
            return
        is_of_categories = kind == AttributeKind.CATEGORICAL
        for field, value, is_for_categories in (
            ("outside", CLAMP, False),
            ("outside", ColumnForm.CATCH_ALL, True),
            ("missing_rule", ColumnForm.CATCH_ALL, True),
        ):
            if given[field] == value and is_for_categories != is_of_categories:
                what, has = ("categories", "none") if is_for_categories else ("numbers and dates", "categories")
                rest = f"is for columns of {what}, and {name} has {has}"
                raise InvalidInput(field, dict(_choices(field))[value], rest)
        if given["date_format"] and kind not in (AttributeKind.DATE, AttributeKind.DATETIME):
            raise InvalidInput("date_format", given["date_format"], f"is for dates, and {name} has none")


class PastedColumnsForm(forms.Form):
    """A block that was copied from a spreadsheet, a line for each column."""

    prefix = "pasted"

    block = TypedTextField(
        label="Cells from a spreadsheet",
        widget=forms.Textarea(attrs={"class": "code", "rows": 6, "spellcheck": "false", "wrap": "off"}),
    )

    def filled(self, rows: list[Row]) -> tuple[list[Row], list[str], list[Problem]]:
        """The rows with what was understood of the block, the columns it says something of, and what was not
        understood."""
        block_id = self["block"].id_for_label
        names = [row["name"] for row in rows if not row["made"]]
        try:
            block = read_block((self["block"].value() or "").replace("\0", ""), columns=names)
        except InvalidInput as error:
            return rows, [], [Problem(column="", field=block_id, message=_said(error))]
        problems = [
            (number, Problem(column="", field=block_id, message=_said(each))) for number, each in block.problems
        ]
        by_name = {line.name: line for line in block.lines}
        filled = []
        for position, row in enumerate(rows):
            line = None if row["made"] else by_name.get(row["name"])
            if line is not None:
                change, wrong = _from_line(line)
                row = row | change
                found = [Problem(column="", field=block_id, message=_said(each)) for each in wrong]
                problems += [(line.number, each) for each in [*found, *_wrong_in(row, position, line)]]
            filled.append(row)
        problems.sort(key=lambda each: each[0])
        return filled, list(by_name), [problem for _, problem in problems]


class LevelsForm(forms.Form):
    """A lookup table of several columns: one of the table, and the levels that are made from it."""

    prefix = "levels"

    # Not required by the browser: it would hold up the other buttons of the page.
    file = forms.FileField(
        label="Lookup table of several columns",
        required=False,
        widget=forms.FileInput(attrs={"accept": ".csv,.tsv,.txt"}),
    )

    def filled(self, rows: list[Row]) -> tuple[list[Row], list[str], list[Problem]]:
        """The rows with a column for each level, and with the categories of the column that they are made from where it
        had none; the names of these columns; and what is wrong, where something is."""
        try:
            levels = levels_of(self._content(), columns=[row["name"] for row in rows if not row["made"]])
            there = {row["name"]: row for row in rows}
            made = {each.name: there.get(each.name, {"made": "1"}) | _of_level(each) for each in levels.levels}
            # Without the row for one more, which comes behind all of them again.
            kept = [row for row in rows if row["name"] not in made and (row["name"] or row["formula"])]
            if len(kept) + len(made) + 1 > MAX_FORM_COLUMNS:
                rule = f"must be at most {MAX_FORM_COLUMNS} on this page, with the levels: paste a codebook instead"
                raise InvalidInput("columns", len(kept) + len(made) + 1, rule)
        except InvalidInput as error:
            return rows, [], [Problem(column="", field=self["file"].id_for_label, message=in_words(error))]
        names = list(made)
        for row in kept:
            if row["name"] == levels.source and not row["kind"]:
                row |= {"kind": AttributeKind.CATEGORICAL.value, "values": "\n".join(levels.texts)}
                names.insert(0, levels.source)
        return [*kept, *made.values(), {"made": "1", "missing_rule": ColumnForm.OWN_BIN}], names, []

    def _content(self) -> bytes:
        uploaded = self["file"].data
        if uploaded is None:
            raise InvalidInput("lookup table", None, "must be chosen: a file of several columns")
        if uploaded.size > MAX_BYTES:
            raise InvalidInput("lookup table", f"{uploaded.size:,} bytes", f"must be at most {MAX_BYTES:,} bytes")
        content: bytes = uploaded.read()
        return content


def _of_level(level: LookupColumn) -> Row:
    return {
        "name": level.name,
        "formula": level.formula,
        "kind": AttributeKind.CATEGORICAL.value,
        "values": "\n".join(level.categories),
        "outside": ColumnForm.CATCH_ALL,
        "catch_all": OTHERS,
    }


def _from_line(line: PastedLine) -> tuple[Row, list[InvalidInput]]:
    """The fields of a column that a pasted line fills in, and what of it was not understood."""
    change: Row = {}
    wrong = []

    def read(reader: Any) -> None:
        try:
            change.update(reader())
        except InvalidInput as error:
            wrong.append(InvalidInput(f"line {line.number} ({line.name}).{error.field}", error.value, error.rule))

    for field, cell in line.cells.items():
        if field in _READERS:
            read(lambda field=field, cell=cell: _READERS[field](cell))
    if {"values", "lowest", "highest", "bins"} & set(line.cells):
        read(lambda: {"values": values_of(line)})
    return change, wrong


def _kind(cell: str) -> Row:
    if plain_head(cell) in ("leave out", "none"):
        return {"kind": ColumnForm.LEFT_OUT}
    return {"kind": kind_from_word(cell).value}


def _rule(field: str, category: str, cell: str) -> Row:
    """A rule by its word in the schema format or in the menu; any other word is a category."""
    known = {value: title for value, title in _choices(field) if value != ColumnForm.CATCH_ALL}
    words = {word: value for value, title in known.items() for word in (value or "default", title)}
    word = plain_head(cell)
    if word in words:
        return {field: words[word], category: ""}
    return {field: ColumnForm.CATCH_ALL, category: _in_one_line(cell)}


def _in_one_line(cell: str) -> str:
    """Without the line breaks that a field of one line would leave out, joining the words around them."""
    return " ".join(cell.splitlines()) if len(cell.splitlines()) > 1 else cell


def _codes(cell: str) -> Row:
    return {"missing_codes": "|".join(lines) if len(lines := cell.splitlines()) > 1 else cell}


def _missing_as(cell: str) -> Row:
    if cell in map(bin_for_missing, AttributeKind):
        return {"missing_rule": ColumnForm.OWN_BIN, "missing_category": ""}
    return _rule("missing_rule", "missing_category", cell)


def _date_format(cell: str) -> Row:
    if cell.upper() not in DATE_FORMATS:
        raise InvalidInput("format", cell, f"must be one of {', '.join(DATE_FORMATS)}")
    return {"date_format": cell.upper()}


def _decimals(cell: str) -> Row:
    if not (cell.isascii() and cell.isdigit() and len(cell) <= 2):
        raise InvalidInput("decimals", cell, "must be a whole number of one or two digits")
    return {"decimals": cell}


#: How the cells of a pasted line fill in the fields of a column, but for its categories or edges.
_READERS: dict[str, Any] = {
    "type": _kind,
    "outside": lambda cell: _rule("outside", "catch_all", cell),
    "missing": _codes,
    "missing_as": _missing_as,
    "format": _date_format,
    "decimals": _decimals,
    "description": lambda cell: {"description": _in_one_line(cell)},
    "unit": lambda cell: {"unit": _in_one_line(cell)},
}


def _wrong_in(row: Row, position: int, line: PastedLine) -> list[Problem]:
    """What is wrong with a column as it is filled in now, by the rules it will be declared by."""
    form = ColumnForm(row)
    return [
        Problem(
            column=line.name,
            field=f"id_form-{position}-{field}" if field in form.fields else "",
            message=f"line {line.number}: {message}",
        )
        for field, messages in form.errors.items()
        for message in messages
    ]


def _said(error: InvalidInput) -> str:
    return in_words(error, place="Cells from a spreadsheet" if error.field == "block" else "")
