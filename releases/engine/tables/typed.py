"""Columns that are read by the type that the table's catalogue gives them, and not as text.

Only where every value counts as its text would by ``docs/reference/counting.md``; that page lists the types. What is
decided here depends on the catalogue and the declaration alone, and never on a row.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import Enum

from releases.engine.domain.columns import AttributeKind, FileColumn
from releases.engine.domain.dates import DATE_FORMATS


class ColumnType(Enum):
    """What the values of a column are, where its type is one that is read."""

    WHOLE = "whole numbers of 64 bits with a sign, or fewer"
    DECIMAL = "decimal fractions whose nearest double the database finds"
    DOUBLE = "doubles of IEEE 754"
    TRUTH = "truths"
    DATE = "days"
    TIME = "days with a time of day"
    INSTANT = "days with a time of day, written in UTC"


_NUMBERS = (ColumnType.WHOLE, ColumnType.DECIMAL, ColumnType.DOUBLE)
_TIMES = (ColumnType.TIME, ColumnType.INSTANT)

#: Single floats are not here: their text is that of another double.
_PLAIN_TYPES = {
    **dict.fromkeys(("tinyint", "smallint", "int", "integer", "bigint"), ColumnType.WHOLE),
    "double": ColumnType.DOUBLE,
    "boolean": ColumnType.TRUTH,
    "date": ColumnType.DATE,
}
_OF_DUCKDB = {
    **_PLAIN_TYPES,
    **dict.fromkeys(("utinyint", "usmallint", "uinteger"), ColumnType.WHOLE),
    # Of microseconds. Others could be beyond their ends, and a cast would end the run.
    "timestamp": ColumnType.TIME,
}
#: By the numbers of the types, which are the same in every server. A domain is named by what it is made from.
_OF_POSTGRESQL = {
    **dict.fromkeys((20, 21, 23), ColumnType.WHOLE),
    701: ColumnType.DOUBLE,
    16: ColumnType.TRUTH,
    1082: ColumnType.DATE,
    1114: ColumnType.TIME,
    1184: ColumnType.INSTANT,
}
_NUMERIC = 1700
#: Digits of a decimal fraction that make a whole number below 2^53: its double is exact, and one division by a power
#: of ten is rounded once.
_EXACT_DIGITS = 15
#: Digits before and after the point that the grammar of numbers takes.
_MOST_DIGITS = 40


def of_duckdb(columns: Iterable[tuple[str, str]]) -> dict[str, ColumnType]:
    """The types that are read, of columns by name.

    Args:
        columns: names, and types as DESCRIBE writes them.
    """
    return _named(columns, _OF_DUCKDB)


def of_spark(columns: Iterable[tuple[str, str]]) -> dict[str, ColumnType]:
    """As `of_duckdb`, of types as a session's catalogue writes them. How it writes a time depends on its settings."""
    return _named(columns, _PLAIN_TYPES)


def of_postgresql(
    columns: Iterable[tuple[str, int, int | None, int | None]],
) -> dict[str, ColumnType]:
    """As `of_duckdb`, of the numbers of types with the digits of decimal fractions, all and after the point."""
    found = dict[str, ColumnType]()
    for name, number, digits, places in columns:
        if number in _OF_POSTGRESQL:
            found[name] = _OF_POSTGRESQL[number]
        elif number == _NUMERIC and _has_short_text(digits, places):
            found[name] = ColumnType.DECIMAL
    return found


def _has_short_text(digits: int | None, places: int | None) -> bool:
    """Whether each text is a number, if it is not that of no number: the server finds its double by reading it."""
    if digits is None or places is None:
        return False
    return 0 <= places <= _MOST_DIGITS and digits - places <= _MOST_DIGITS


def read_by_type(
    types: Mapping[str, ColumnType], columns: Mapping[int, FileColumn], *, is_plain: bool
) -> dict[int, ColumnType]:
    """The axes of columns whose values are taken as they are, with their types.

    Args:
        columns: by axis.
        is_plain: numbers of the table are written in the plain form.
    """
    return {
        axis: type_
        for axis, each in columns.items()
        if (type_ := types.get(each.name)) is not None and _is_taken(type_, each, is_plain=is_plain)
    }


def _is_taken(type_: ColumnType, read: FileColumn, *, is_plain: bool) -> bool:
    if read.kind is AttributeKind.CATEGORICAL:
        return type_ is ColumnType.WHOLE
    if read.is_numeric:
        return type_ in _NUMBERS and is_plain
    # In another form no text of these types is a date; nor is a day alone where a time has to be there.
    return read.written == DATE_FORMATS[0] and (type_ in _TIMES or (type_ is ColumnType.DATE and not read.has_time))


def _named(columns: Iterable[tuple[str, str]], types: Mapping[str, ColumnType]) -> dict[str, ColumnType]:
    found = dict[str, ColumnType]()
    for name, said in columns:
        written = said.lower()
        if written in types:
            found[name] = types[written]
        elif (decimal := re.fullmatch(r"decimal\((\d+),\s*\d+\)", written)) and int(decimal[1]) <= _EXACT_DIGITS:
            found[name] = ColumnType.DECIMAL
    return found
