"""A codebook as a table: one declared column a line, in CSV, read into the columns of the schema format.

    name,type,categories or edges,outside
    sex,categorical,female|male,drop
    age,integer,"18, 25, 35, 65",clamp
    income,number,0 to 100000 in 20 bins,

The header names the columns, in any order: `name` and `type`; `values`; `outside`, `missing`, `missing_as`, `decimals`,
`format` (of dates), `description` and `unit` where wanted; each by any of its names below. Categories, edges and
missing codes stand in one cell: one a line, or between bars, or between commas. Lines may be separated by commas,
semicolons or tabs, as the spreadsheet at hand writes them. Types have several names too; what is stored has one.

A line of the type `impossible` declares no column, but bins that cannot occur together, in the cell of the values:

    ,impossible,"age: 0 to 14; status: married|widowed",
"""

from __future__ import annotations

import csv
import difflib
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from releases.engine.domain.attribute import DROP, LARGEST_POINT, MAX_DECIMALS, Attribute, places
from releases.engine.domain.columns import AttributeKind
from releases.engine.domain.dates import DATE_FORMATS
from releases.engine.domain.impossible import read_combinations
from releases.engine.domain.universe import Universe
from releases.engine.errors import InvalidInput
from releases.engine.tables.facts import FileFacts
from releases.engine.tables.number import is_number
from releases.schema.bin_edges import (
    bins_from_text,
    bins_in_words,
    codes_within,
    dates_from_text,
    last_pair,
    names_bins,
)
from releases.schema.descriptions import DESCRIPTION, LONGEST, UNIT, read_note

#: The heads understood, by the field of the schema format that they fill; the first is its name.
_NAMES_OF_HEADS = {
    "name": ("name", "column", "variable"),
    "type": ("type", "kind"),
    "values": ("values", "categories", "levels", "edges", "bins", "range", "categories or edges"),
    "outside": ("outside",),
    "missing": ("missing", "missing codes"),
    "missing_as": ("missing_as", "missing as", "missing values"),
    "decimals": ("decimals",),
    "format": ("format", "date format"),
    "zone": ("zone", "time zone", "timezone"),
    DESCRIPTION: ("description", "label", "meaning"),
    UNIT: ("unit", "units"),
}
HEADS = {head: field for field, heads in _NAMES_OF_HEADS.items() for head in heads}
#: The words understood for a type, by the word that is stored.
_NAMES_OF_TYPES = {
    AttributeKind.CATEGORICAL: ("categorical", "categories", "category", "text", "string"),
    AttributeKind.INTEGER: ("integer", "int", "whole number", "whole numbers"),
    AttributeKind.NUMBER: ("number", "numbers", "float", "numeric", "decimal", "real"),
    AttributeKind.DATE: ("date", "dates", "day"),
    AttributeKind.DATETIME: ("datetime", "date and time", "dates and times", "timestamp"),
}
_TYPES = {word: kind for kind, words in _NAMES_OF_TYPES.items() for word in words}
_DELIMITERS = (",", ";", "\t")
_SIGNS = {".": "point", ",": "comma"}


def is_csv_codebook(text: str) -> bool:
    """Whether a pasted text begins with the heads of a codebook in CSV, rather than being JSON."""
    return _delimiter(text) is not None


def codebook_from_csv(text: str) -> dict[str, Any]:
    """The codebook in the schema format, without unit and neighbours; with descriptions and units where it has them.

    Raises:
        InvalidInput: naming the line, the column and the field (``line 3 (age).edges``), the value and the rule.
    """
    columns: list[dict[str, Any]] = []
    attributes: list[Attribute] = []
    found_at: dict[str, int] = {}
    for line, cells, attribute in _columns(text):
        if attribute.name in found_at:
            before = found_at[attribute.name]
            raise InvalidInput(f"line {line}.name", attribute.name, f"is declared twice, first in line {before}")
        found_at[attribute.name] = line
        columns.append({**attribute.to_json(), **_notes(line, cells)})
        attributes.append(attribute)
    combinations = [_combination(*each, attributes) for each in _cells(text) if _is_combination(each[1])]
    return {"version": 1, "columns": columns, **({"impossible": combinations} if combinations else {})}


def readings(text: str) -> list[str]:
    """How a codebook in CSV was read where it names bins rather than their edges, in sentences."""
    return [
        reading(cells["values"], attribute)
        for _, cells, attribute in _columns(text)
        if attribute.is_numeric and names_bins(cells["values"])
    ]


def reading(text: str, attribute: Attribute) -> str:
    """How the bins of a column were read, as a sentence."""
    return f"{attribute.name}: “{' '.join(text.split())}” is read as {bins_in_words(attribute)}."


def kind_from_word(word: str) -> AttributeKind:
    """A type by any of its names.

    Raises:
        InvalidInput: it has none such; the rule lists them, and the one that may be meant.
    """
    found = _TYPES.get(plain_head(word))
    if found is None:
        raise InvalidInput("type", word, f"must be one of {_named(_NAMES_OF_TYPES)}{_meant(word, _TYPES)}")
    return found


def with_known_types(codebook: dict[str, Any]) -> dict[str, Any]:
    """A codebook in which each type has the name that is stored.

    Raises:
        InvalidInput: a type has no such name, naming the column.
    """
    columns = codebook.get("columns")
    if not isinstance(columns, list):
        return codebook
    known = []
    for position, column in enumerate(columns):
        if isinstance(column, dict) and isinstance(column.get("type"), str):
            try:
                column = {**column, "type": kind_from_word(column["type"]).value}
            except InvalidInput as error:
                name = f" ({column['name']})" if isinstance(column.get("name"), str) and column["name"] else ""
                raise InvalidInput(f"columns[{position}]{name}.type", error.value, error.rule) from None
        known.append(column)
    return {**codebook, "columns": known}


def categories_from_text(text: str) -> list[str]:
    """One category, or one missing code, a line; or, on a single line, between bars or between commas."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for separator in ("|", ","):
        if len(lines) == 1 and separator in lines[0]:
            return [part.strip() for part in lines[0].split(separator) if part.strip()]
    return lines


def decimals_kept(decimals: int, edges: list[Decimal]) -> dict[str, int]:
    """The places declared before, or more where new edges have more; left to the default where they no longer fit."""
    kept = max([decimals, *map(places, edges)])
    fits = kept <= MAX_DECIMALS and max(map(abs, edges), default=Decimal(0)) * 10**kept <= LARGEST_POINT
    return {"decimals": kept} if fits else {}


def _columns(text: str) -> Iterator[tuple[int, dict[str, str], Attribute]]:
    """Each column: the line it is declared on, its cells, and what they declare."""
    return ((line, cells, _attribute(line, cells)) for line, cells in _cells(text) if not _is_combination(cells))


def _is_combination(cells: Mapping[str, str]) -> bool:
    return plain_head(cells["type"]) == "impossible"


def _combination(line: int, cells: Mapping[str, str], attributes: Sequence[Attribute]) -> dict[str, list[str]]:
    """Bins that cannot occur together: of each column its name, a colon, and its bins between bars."""
    said = {}
    for part in filter(None, map(str.strip, re.split("[;\n]", cells["values"]))):
        known = (each.name for each in attributes if part.startswith(f"{each.name}:"))
        name = max(known, key=len, default=part.partition(":")[0])
        said[name] = [each.strip() for each in part.removeprefix(name).removeprefix(":").split("|")]
    try:
        read_combinations([said], attributes)
    except InvalidInput as error:
        field = error.field.removeprefix("impossible[0]")
        raise InvalidInput(f"line {line} (impossible){field}", error.value, error.rule) from None
    return said


def _cells(text: str) -> Iterator[tuple[int, dict[str, str]]]:
    """Each line below the heads: its number, and its cells by their field."""
    delimiter = _delimiter(text)
    if delimiter is None:
        first = text.strip().split("\n", 1)[0][:100]
        raise InvalidInput("line 1", first, "must name the columns, such as: name,type,values,outside")
    lines = _lines(text, delimiter)
    _, head = next(lines)
    fields = _fields(head)
    for line, cells in lines:
        if len(cells) > len(fields):
            raise InvalidInput(f"line {line}", f"{len(cells)} cells", f"must have {len(fields)}, as the first line has")
        named = dict.fromkeys(fields, "") | dict(zip(fields, cells, strict=False))
        yield line, named


def _delimiter(text: str) -> str | None:
    """What separates the heads, if the first line holds heads."""
    first = text.lstrip("\ufeff \n\r").split("\n", 1)[0]
    for delimiter in _DELIMITERS:
        fields = [HEADS.get(plain_head(cell)) for cell in first.split(delimiter)]
        if "name" in fields and "type" in fields:
            return delimiter
    return None


def plain_head(cell: str) -> str:
    return " ".join(cell.strip().strip('"').lower().split())


def _lines(text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Each line that is not empty, with the number of the line it begins on."""
    plain = text.lstrip("\ufeff")
    reader = csv.reader(io.StringIO(plain, newline=""), delimiter=delimiter, strict=True, skipinitialspace=True)
    while True:
        begins = reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise InvalidInput(
                f"line {begins}", str(error), "is not CSV; put cells with quotes or commas in quotes"
            ) from None
        if any(cell.strip() for cell in cells):
            yield begins, cells


def _fields(head: list[str]) -> list[str]:
    named: dict[str, str] = {}
    for cell in head:
        field = HEADS.get(plain_head(cell))
        if field is None:
            rule = f"is not a known head; they are {_named(_NAMES_OF_HEADS)}{_meant(cell, HEADS)}"
            raise InvalidInput("line 1", cell, rule)
        if field in named:
            raise InvalidInput("line 1", f"{named[field]}, {cell}", "say the same; keep one of them")
        named[field] = cell
    fields = list(named)
    if "values" not in fields:
        raise InvalidInput("line 1", ", ".join(head), "must have a column for categories or edges, named values")
    return fields


def _attribute(line: int, cells: dict[str, str]) -> Attribute:
    name, values = cells["name"].strip(), cells["values"]
    try:
        kind = kind_from_word(cells["type"].strip())
        described: dict[str, Any] = {"name": name, "type": kind.value}
        if kind is AttributeKind.CATEGORICAL:
            described["categories"] = categories_from_text(values)
        elif kind.is_of_dates:
            written = cells.get("format", "").strip() or DATE_FORMATS[0]
            described |= {"format": written, **dates_from_text(values, written=written)}
            if zone := cells.get("zone", "").strip():
                described["zone"] = zone
        else:
            described |= bins_from_text(values, kind=kind)
        if outside := cells.get("outside", "").strip():
            described["outside"] = outside
        if missing := categories_from_text(cells.get("missing", "")):
            described["missing"] = missing
        if missing_as := cells.get("missing_as", "").strip():
            described["missing_as"] = missing_as
        for field in ("format", "zone"):
            if not kind.is_of_dates and (given := cells.get(field, "").strip()):
                raise InvalidInput(field, given, "is for dates; declare the type date or datetime")
        if decimals := cells.get("decimals", "").strip():
            described["decimals"] = _whole(decimals)
        return Attribute.from_json(described)
    except InvalidInput as error:
        where = f"line {line} ({name})" if name else f"line {line}"
        raise InvalidInput(f"{where}.{error.field}", error.value, error.rule) from None


def _notes(line: int, cells: dict[str, str]) -> dict[str, str]:
    """What a line says of its column, where there are cells for that."""
    try:
        return {field: read_note(field, cells[field]) for field in LONGEST if field in cells}
    except InvalidInput as error:
        raise InvalidInput(f"line {line} ({cells['name'].strip()}).{error.field}", error.value, error.rule) from None


def _named(names: Mapping[Any, Sequence[str]]) -> str:
    """Words, each with the others that mean the same."""
    return ", ".join(f"{first} (or {', '.join(others)})" if others else str(first) for first, *others in names.values())


def _meant(word: str, known: Iterable[str]) -> str:
    """The known word that may be meant, as the end of a rule."""
    close = difflib.get_close_matches(plain_head(word), list(known), n=1, cutoff=0.55)
    return f"; did you mean {close[0]}?" if close else ""


def _whole(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,4}", text):
        raise InvalidInput("decimals", text, "must be a whole number, 0 or more")
    return int(text)


def doubts_of_file(attributes: Sequence[Attribute], facts: FileFacts) -> list[str]:
    """Where numbers or dates are declared to be written otherwise than in the country that the file comes from, or may
    be text in a workbook."""
    if (habits := facts.habits) is None:
        return _doubts_of_workbook(attributes, facts)
    found, signs = [], [facts.decimal, habits.decimal]
    has_numbers = any(each.is_numeric and each.formula is None for each in attributes)
    if has_numbers and set(signs) == set(_SIGNS):
        read, usual = (_SIGNS[each] for each in signs)
        found.append(
            f"Numbers that are text are read with a decimal {read}, and {habits.country} has a {usual}. If the file "
            f"has a {usual} too, upload it again."
        )
    begins = habits.date_format[:2]
    found += [
        f"{each.name}: dates are declared as {each.dates.written}, and {habits.country} has {habits.date_format}."
        for each in attributes
        if each.dates is not None and each.formula is None and {begins, each.dates.written[:2]} == {"DD", "MM"}
    ]
    return found + _doubts_of_workbook(attributes, facts)


def _doubts_of_workbook(attributes: Sequence[Attribute], facts: FileFacts) -> list[str]:
    """A workbook shows dates alike whether its cells hold dates or text, and they are read in two forms. The same words
    whichever is declared, so that who then chooses the other is not asked again."""
    habits = facts.habits
    usual = habits.date_format if habits is not None else ""
    dated = [each.name for each in attributes if each.dates is not None and each.formula is None]
    if not (facts.sheet and dated) or usual == DATE_FORMATS[0]:
        return []
    such = f", such as {in_example(usual)}" if usual else ""
    return [
        f"{', '.join(dated)}: where cells of the workbook hold dates, these are read as {in_example(DATE_FORMATS[0])}, "
        f"and where they hold text, as it is written{such}. Under the other form none counts as a date. A spreadsheet "
        "shows dates at the right of their cells, and text at the left."
    ]


def in_example(written: str) -> str:
    """A form of dates by the last day of a year."""
    return f"{written.replace('YYYY', '2026').replace('MM', '12').replace('DD', '31')} ({written})"


def doubts(universe: Universe) -> list[str]:
    """What in a declaration is allowed and seldom meant, in sentences: public, whatever the rows hold."""
    found = []
    for attribute in universe.attributes:
        found += [
            f"{attribute.name}: {each} lies in the declared range, and is a missing code: it never counts as a number."
            for each in codes_within(attribute)
        ]
        found += [
            f"{attribute.name}: “{each}” is one missing code. Write several between commas."
            for each in attribute.missing
            if len(each.split()) > 1 and all(map(is_number, each.split()))
        ]
        if (pair := last_pair(attribute)) is not None:
            first, second = pair
            found.append(
                f"{attribute.name}: {first} and {second} are counted together, in the last bin. Where each is to have "
                f"a bin of its own, end with {second + 1}, or choose the type categories."
            )
        joined = [each for each in attribute.categories if any(mark in each for mark in ";|")]
        if joined:
            found.append(
                f"{attribute.name}: “{joined[0]}” is one category. Write several one a line, or between commas."
            )
        elif len(attribute.categories) == 1 and attribute.outside == DROP and not attribute.has_grammar:
            only, one = attribute.categories[0], attribute.counted.one
            found.append(
                f"{attribute.name} has one category, “{only}”: a {one} with any other value is left out of every count."
            )
    return found
