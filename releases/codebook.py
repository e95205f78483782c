"""A codebook as a table: one declared column a line, in CSV, read into the columns of the schema format.

    name,type,categories or edges,outside
    sex,categorical,female|male,drop
    age,integer,"18, 25, 35, 65",clamp
    income,number,0 to 100000 in 20 bins,

The header names the columns, in any order: `name` and `type`; `values` (or `categories`, `edges`, `categories or
edges`); `outside` and `decimals` where wanted. Categories and edges stand in one cell: one a line, or between bars, or
between commas. Lines may be separated by commas, semicolons or tabs, as the spreadsheet at hand writes them.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any

from releases.engine.errors import InvalidInput
from releases.engine.universe import (
    DROP,
    LARGEST_POINT,
    MOST_DECIMALS,
    Attribute,
    AttributeKind,
    Universe,
    number,
    places,
)

#: The heads understood, and the field of the schema format that each fills.
_HEADS = {
    "name": "name",
    "type": "type",
    "values": "values",
    "categories": "values",
    "edges": "values",
    "categories or edges": "values",
    "outside": "outside",
    "decimals": "decimals",
}
_DELIMITERS = (",", ";", "\t")
#: More bins than this are a slip of the pen.
_MOST_BINS = 1_000_000


def is_csv_codebook(text: str) -> bool:
    """Whether a pasted text begins with the heads of a codebook in CSV, rather than being JSON."""
    return _delimiter(text) is not None


def codebook_from_csv(text: str) -> dict[str, Any]:
    """The codebook in the schema format, without unit and neighbours.

    Raises:
        InvalidInput: naming the line, the column and the field (``line 3 (age).edges``), the value and the rule.
    """
    delimiter = _delimiter(text)
    if delimiter is None:
        first = text.strip().split("\n", 1)[0][:100]
        raise InvalidInput("line 1", first, "must name the columns, such as: name,type,values,outside")
    lines = _lines(text, delimiter)
    _, head = next(lines)
    fields = _fields(head)
    columns: list[dict[str, Any]] = []
    found_at: dict[str, int] = {}
    for line, cells in lines:
        if len(cells) > len(fields):
            raise InvalidInput(f"line {line}", f"{len(cells)} cells", f"must have {len(fields)}, as the first line has")
        attribute = _attribute(line, dict(zip(fields, cells, strict=False)))
        if attribute.name in found_at:
            before = found_at[attribute.name]
            raise InvalidInput(f"line {line}.name", attribute.name, f"is declared twice, first in line {before}")
        found_at[attribute.name] = line
        columns.append(attribute.to_json())
    return {"version": 1, "columns": columns}


def categories_from_text(text: str) -> list[str]:
    """One category a line; or, on a single line, between bars or between commas."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for separator in ("|", ","):
        if len(lines) == 1 and separator in lines[0]:
            return [part.strip() for part in lines[0].split(separator) if part.strip()]
    return lines


def edges_from_text(text: str) -> list[Decimal]:
    """Edges between commas, bars or spaces; `18 to 65 by 5`, a width; or `0 to 100 in 20 bins`, how many."""
    match = re.fullmatch(r"\s*(\S+)\s+to\s+(\S+)\s+(by|in)\s+(\S+?)(?:\s+bins?)?\s*", text)
    if match is None:
        return [number(part, field="edges") for part in re.split(r"[,;|\s]+", text.strip()) if part]
    low, high, last = (number(match[group], field="edges") for group in (1, 2, 4))
    return _by_width(text, low, high, last) if match[3] == "by" else _by_number(text, low, high, last)


def decimals_kept(decimals: int, edges: list[Decimal]) -> dict[str, int]:
    """The places declared before, or more where new edges have more; left to the default where they no longer fit."""
    kept = max([decimals, *map(places, edges)])
    fits = kept <= MOST_DECIMALS and max(map(abs, edges), default=Decimal(0)) * 10**kept <= LARGEST_POINT
    return {"decimals": kept} if fits else {}


def _by_width(text: str, low: Decimal, high: Decimal, step: Decimal) -> list[Decimal]:
    if step <= 0 or high <= low or (high - low) / step > _MOST_BINS:
        raise InvalidInput("edges", text.strip(), "must go up from the first number to the second, in steps")
    edges = [low + step * index for index in range(int((high - low) / step) + 1)]
    return edges if edges[-1] == high else [*edges, high]


def _by_number(text: str, low: Decimal, high: Decimal, bins: Decimal) -> list[Decimal]:
    """Edges of bins of exactly equal width; a width that no decimal can write is refused."""
    if high <= low or bins != bins.to_integral_value() or not 1 <= bins <= _MOST_BINS:
        rule = f"must go up from the first number to the second, in 1 to {_MOST_BINS:,} bins"
        raise InvalidInput("edges", text.strip(), rule)
    width = (high - low) / bins
    # The quotient is rounded where no decimal can write it; rational numbers see that, decimals may not.
    if Fraction(width) * int(bins) != Fraction(high) - Fraction(low):
        rule = "cannot be cut into so many bins of exactly equal width; choose another number"
        raise InvalidInput("edges", text.strip(), rule)
    return [low + width * index for index in range(int(bins))] + [high]


def _delimiter(text: str) -> str | None:
    """What separates the heads, if the first line holds heads."""
    first = text.lstrip("\ufeff \n\r").split("\n", 1)[0]
    for delimiter in _DELIMITERS:
        heads = [_head(cell) for cell in first.split(delimiter)]
        if "name" in heads and "type" in heads:
            return delimiter
    return None


def _head(cell: str) -> str:
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
    fields = []
    for cell in head:
        field = _HEADS.get(_head(cell))
        if field is None:
            raise InvalidInput("line 1", cell, f"is not a known head; they are {', '.join(_HEADS)}")
        fields.append(field)
    for field in ("name", "type", "values", "outside", "decimals"):
        if fields.count(field) > 1:
            raise InvalidInput("line 1", field, "stands there twice")
    if "values" not in fields:
        raise InvalidInput("line 1", ", ".join(head), "must have a column for categories or edges, named values")
    return fields


def _attribute(line: int, cells: dict[str, str]) -> Attribute:
    name, kind = cells.get("name", "").strip(), cells.get("type", "").strip().lower()
    described: dict[str, Any] = {"name": name, "type": kind}
    values = cells.get("values", "")
    try:
        if kind == AttributeKind.CATEGORICAL:
            described["categories"] = categories_from_text(values)
        else:
            described["edges"] = edges_from_text(values) if kind in set(AttributeKind) else []
        if outside := cells.get("outside", "").strip():
            described["outside"] = outside
        if decimals := cells.get("decimals", "").strip():
            described["decimals"] = _whole(decimals)
        return Attribute.from_json(described)
    except InvalidInput as error:
        where = f"line {line} ({name})" if name else f"line {line}"
        raise InvalidInput(f"{where}.{error.field}", error.value, error.rule) from None


def _whole(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,4}", text):
        raise InvalidInput("decimals", text, "must be a whole number, 0 or more")
    return int(text)


def doubts(universe: Universe) -> list[str]:
    """What in a declaration is allowed and seldom meant, in sentences: public, whatever the rows hold."""
    found = []
    for attribute in universe.attributes:
        joined = [each for each in attribute.categories if any(mark in each for mark in ";|")]
        if joined:
            found.append(
                f"{attribute.name}: “{joined[0]}” is one category. Several stand one a line, or between commas."
            )
        elif len(attribute.categories) == 1:
            only, other = attribute.categories[0], attribute.outside
            becomes = "is left out of every count" if other == DROP else f"counts as {other}"
            found.append(f"{attribute.name} has one category, “{only}”: a row with any other value {becomes}.")
    return found
