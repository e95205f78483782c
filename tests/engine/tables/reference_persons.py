"""What is made of all rows of a person, in plain Python: as `docs/reference/counting.md` says.

It shares no code with the engine. What is taken is a tuple: its name, a formula as in `reference_formulas`, and what
else it takes: the ends of each row's value, or the column of dates that puts rows in order. With something around it,
it begins with `of all`, and the whole is a tuple of `formula` and a formula.
"""

from __future__ import annotations

import math
from collections import Counter

from tests.engine.tables.reference import code, moment, read, trimmed
from tests.engine.tables.reference_formulas import is_of_times, value, written

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


def made(what, rows, column, columns):
    """The value of one person: of a formula with such functions in it, or of one function with nothing around it."""
    if what[0] != "formula":
        return taken(what, rows, column, columns)

    def known(tree):
        return ("time" if is_of_times(tree, columns) else "number", within(tree[1:], rows, columns))

    return value(around(what[1], known), {}, columns)


def around(tree, instead):
    """A formula with something in the place of each function."""
    if not isinstance(tree, tuple) or not tree:
        return tree
    return instead(tree) if tree[0] == "of all" else tuple(around(each, instead) for each in tree)


def within(what, rows, columns):
    """The value of one person for a function that has something around it: texts are as they are."""
    name, tree, *more = what
    if name not in ("most_frequent", "first", "last"):
        places = {"decimals": places_within(*more)} if name == "sum" else {}
        return taken(what, rows, places, columns)
    given = [(value(tree, row, columns), row) for row in rows]
    given = [(when(columns[more[0]], row) if more else 0, each) for each, row in given if each is not None]
    given = [(at, each) for at, each in given if at is not None]
    if not given:
        return None
    votes = Counter(each for _, each in given)
    end = (min if name == "first" else max)(at for at, _ in given)
    return min(
        (each for at, each in given if (votes[each] == max(votes.values()) if name == "most_frequent" else at == end)),
        key=lambda each: each.encode() if isinstance(each, str) else each,
    )


def places_within(low, high):
    """How many places each row has in such a sum: the larger end has ten digits, or its own."""
    digits = max(len(str(int(abs(end)))) for end in (low, high))
    return min(9, max(10 - digits, *(len(str(end).partition(".")[2]) for end in (low, high))))


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
    if what[0] != "formula":
        return function_in_words(what)
    return written(around(what[1], lambda each: ("as written", function_in_words(each[1:]))))


def function_in_words(what):
    name, tree, *more = what
    if name in ("first", "last"):
        more = [written(("column", each)) for each in more]
    return f"{name}_per_person({', '.join([*([written(tree)] if tree else []), *map(str, more)])})"
