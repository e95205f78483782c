"""Lookup tables that are uploaded: public information, such as which region a postcode lies in."""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from releases.engine.domain.columns import is_plain
from releases.engine.domain.formula_parser import MAX_ENTRIES, table_text
from releases.engine.errors import InvalidInput

MAX_BYTES = 500_000
#: What stands in a formula where the table is to be put.
EMPTY = "{}"
#: The bin of a level for what is not in the table.
OTHERS = "other"
_FIELD = "lookup table"


@dataclass(frozen=True, kw_only=True, slots=True)
class LookupColumn:
    """A column that looks up the texts of another.

    Attributes:
        name: of the new column.
        formula: by which it is made.
        categories: that the table has, in the order of their first line, and `OTHERS`.
    """

    name: str
    formula: str
    categories: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class LookupColumns:
    """The columns that a table of several columns makes.

    Attributes:
        source: the column of the table whose texts are looked up.
        texts: all that are in the table, in its order.
        levels: one for each other column of the table.
    """

    source: str
    texts: tuple[str, ...]
    levels: tuple[LookupColumn, ...]


def with_table(formula: str, content: bytes) -> str:
    """A formula in which the uploaded table stands where there was an empty one.

    Raises:
        InvalidInput: the formula has no place for it, or the file is no such table.
    """
    if formula.count(EMPTY) != 1:
        rule = 'must have {} once, where the lookup table goes, such as recode(postcode, {}, "other")'
        raise InvalidInput(_FIELD, formula or "no formula", rule)
    return formula.replace(EMPTY, table_text(_entries(content)))


def levels_of(content: bytes, *, columns: Collection[str]) -> LookupColumns:
    """Read a table of a column and its levels, such as municipality, district and region.

    Args:
        columns: of the table that is declared; the first name in the first line is one of them, the others are none.

    Raises:
        InvalidInput: naming the line, and what is wrong there.
    """
    head, lines = _read(content)
    names = [each.strip() for each in head]
    if len(names) < 2:
        raise InvalidInput(_FIELD, "line 1", "must name a column of the table and, behind it, one level or more")
    if names[0] not in columns:
        raise InvalidInput(f"{_FIELD}, line 1", names[0], "must be a column of the table: its values are looked up")
    for place, name in enumerate(names[1:], start=1):
        if not is_plain(name):
            raise InvalidInput(f"{_FIELD}, line 1", name, "must be printable text: the name of a level")
        if name in columns:
            raise InvalidInput(f"{_FIELD}, line 1", name, "is a column of the table; a level needs another name")
        if name in names[:place]:
            raise InvalidInput(f"{_FIELD}, line 1", name, "is there twice")
    found: dict[str, tuple[str, ...]] = {}
    for number, cells in lines:
        if len(cells) != len(names):
            rule = f"has {len(cells)} cells; each line must have {len(names)}, as line 1 has"
            raise InvalidInput(_FIELD, f"line {number}", rule)
        for name, cell in zip(names, cells, strict=True):
            if not is_plain(cell):
                raise InvalidInput(f"{_FIELD}, line {number}", cell or None, f"must be printable text: the {name}")
        _add(found, number, *cells)
    if not found:
        raise InvalidInput(_FIELD, "the file", "must have a line with names, and lines of cells below it")
    return LookupColumns(
        source=names[0],
        texts=tuple(found),
        levels=tuple(
            _level(name, names[0], {text: cells[place] for text, cells in found.items()})
            for place, name in enumerate(names[1:])
        ),
    )


def _level(name: str, source: str, table: dict[str, str]) -> LookupColumn:
    read = "[" + source.replace("]", "]]") + "]"
    return LookupColumn(
        name=name,
        formula=f'recode({read}, {table_text(table)}, "{OTHERS}")',
        categories=tuple(dict.fromkeys([*table.values(), OTHERS])),
    )


def _entries(content: bytes) -> dict[str, str]:
    """From what is looked up to what is found. The first line names the two columns."""
    _, lines = _read(content)
    found: dict[str, tuple[str, ...]] = {}
    for number, cells in lines:
        if len(cells) != 2:
            raise InvalidInput(_FIELD, f"line {number}", f"has {len(cells)} cells; each line must have two")
        _add(found, number, *cells)
    if not found:
        raise InvalidInput(_FIELD, "the file", "must have a line with names, and lines of two cells below it")
    return {looked_up: becomes for looked_up, (becomes,) in found.items()}


def _add(found: dict[str, tuple[str, ...]], number: int, looked_up: str, *becomes: str) -> None:
    if found.setdefault(looked_up, becomes) != becomes:
        raise InvalidInput(_FIELD, looked_up, f"is there twice, and differs in line {number}")
    if len(found) > MAX_ENTRIES:
        raise InvalidInput(_FIELD, f"more than {MAX_ENTRIES:,} lines", f"must be at most {MAX_ENTRIES:,}")


def _read(content: bytes) -> tuple[list[str], Iterator[tuple[int, list[str]]]]:
    """The cells of the first line, and those of each other line with its number, without spaces around them."""
    try:
        text = content.decode("utf-8-sig")
        head = text.partition("\n")[0]
        delimiter = next((each for each in ("\t", ";") if each in head), ",")
        lines = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True))
    except (UnicodeDecodeError, csv.Error):
        raise InvalidInput(_FIELD, "the file", "must be a table as CSV, in UTF-8") from None
    trimmed = ([cell.strip() for cell in cells] for cells in lines[1:])
    return lines[0] if lines else [], ((number, cells) for number, cells in enumerate(trimmed, start=2) if any(cells))
