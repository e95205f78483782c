"""Lookup tables that are uploaded: public information, such as which region a postcode lies in."""

from __future__ import annotations

import csv
import io

from releases.engine.domain.formula_parser import MAX_ENTRIES, table_text
from releases.engine.errors import InvalidInput

MAX_BYTES = 500_000
#: What stands in a formula where the table is to be put.
EMPTY = "{}"


def with_table(formula: str, content: bytes) -> str:
    """A formula in which the uploaded table stands where there was an empty one.

    Raises:
        InvalidInput: the formula has no place for it, or the file is no such table.
    """
    if formula.count(EMPTY) != 1:
        rule = 'must have {} once, where the lookup table goes, such as recode(postcode, {}, "other")'
        raise InvalidInput("lookup table", formula or "no formula", rule)
    return formula.replace(EMPTY, table_text(_entries(content)))


def _entries(content: bytes) -> dict[str, str]:
    """From what is looked up to what is found. The first line names the two columns."""
    try:
        text = content.decode("utf-8-sig")
        head = text.partition("\n")[0]
        delimiter = next((each for each in ("\t", ";") if each in head), ",")
        lines = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True))
    except (UnicodeDecodeError, csv.Error):
        raise InvalidInput("lookup table", "the file", "must be a table as CSV, in UTF-8") from None
    found: dict[str, str] = {}
    for number, cells in enumerate(lines[1:], start=2):
        if not any(each.strip() for each in cells):
            continue
        if len(cells) != 2:
            raise InvalidInput("lookup table", f"line {number}", f"has {len(cells)} cells; each line must have two")
        looked_up, becomes = (each.strip() for each in cells)
        if found.setdefault(looked_up, becomes) != becomes:
            raise InvalidInput("lookup table", looked_up, f"is there twice, and differs in line {number}")
        if len(found) > MAX_ENTRIES:
            raise InvalidInput("lookup table", f"more than {MAX_ENTRIES:,} lines", f"must be at most {MAX_ENTRIES:,}")
    if not found:
        raise InvalidInput("lookup table", "the file", "must have a line with names, and lines of two cells below it")
    return found
