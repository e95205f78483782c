"""What is made of all rows of a person, in plain Python: as `docs/reference/counting.md` says.

It shares no code with the engine. What is taken is a tuple: its name, a formula as in `reference_formulas`, and what
else it takes: the ends of each row's value, or the column of dates that puts rows in order.
"""

from __future__ import annotations

import math
from collections import Counter

from tests.engine.tables.reference import code, moment, read, trimmed
from tests.engine.tables.reference_formulas import value, written

MOST = 2**53


def people(rows, id_column):
    """The rows of each person: of those with an id."""
    found = {}
    for row in rows:
        if trimmed(row[id_column]) is not None:
            found.setdefault(trimmed(row[id_column]), []).append(row)
    return found


def place_of(column, given):
    """Of a value that a row has, its place among the categories; None where it takes no part."""
    found = code({**column, "missing_as": "drop"}, as_text(given))
    return None if found is None else found[0]


def as_text(given):
    return str(given).lower() if isinstance(given, bool) else given


def taken(what, rows, column, columns):
    """The value of one person: a number, a text, a day; None where there is none."""
    name, tree, *more = what
    if name == "count" and tree is None:
        return float(len(rows))
    given = [(value(tree, row, columns), row) for row in rows]
    found = [each for each, _ in given if each is not None]
    if name == "count":
        return float(sum(each is not False for each in found))
    if name in ("first", "last"):
        return at_the_end(name, given, column, columns[more[0]])
    if name == "most_frequent":
        votes = Counter(place for each in found if (place := place_of(column, each)) is not None)
        return column["categories"][min(votes, key=lambda place: (-votes[place], place))] if votes else None
    if not found:
        return None
    if name == "sum":
        unit = 10 ** column.get("decimals", 0)
        low, high = (round(end * unit) for end in more)
        whole = sum(math.floor(min(max(each * float(unit) + 0.5, float(low)), float(high))) for each in found)
        return min(max(whole, -MOST), MOST) / unit
    return {"any": any, "all": all, "min": min, "max": max}[name](found)


def when(dated, row):
    """The day, or of a date and time the second, at which a row is in the order; None where it has none."""
    found = moment(dated, read(dated, row[dated["name"]]))
    return found if found is None or dated["type"] == "datetime" else found[0]


def at_the_end(name, given, column, dated):
    is_named = column["type"] == "categorical"
    there = [
        (when(dated, row), place_of(column, each) if is_named else each) for each, row in given if each is not None
    ]
    there = [each for each in there if None not in each]
    if not there:
        return None
    then = (min if name == "first" else max)(at for at, _ in there)
    found = min(each for at, each in there if at == then)
    return column["categories"][found] if is_named else found


def in_words(what):
    """The formula as it is written."""
    name, tree, *more = what
    if name in ("first", "last"):
        more = [written(("column", each)) for each in more]
    return f"{name}_per_person({', '.join([*([written(tree)] if tree else []), *map(str, more)])})"
