"""What a formula gives for a row, in plain Python, and how it is written: as `docs/reference/counting.md` says.

It shares no code with the engine. A formula is a tuple: the name of an operation, and what it takes.
"""

from __future__ import annotations

import datetime
import math

from tests.engine.tables.reference import moment, number, read, trimmed

WHOLE = 2.0**53


def kept(value):
    if abs(value) < 1e-150:
        return 0.0
    return value if abs(value) <= 1e150 else None


def birthday(born, years):
    """The day on which so many years are over; that of a leap day is the first of March in other years."""
    try:
        return born.replace(year=born.year + years)
    except ValueError:
        return datetime.date(born.year + years, 3, 1)


def years(before, after):
    whole = after.year - before.year
    if not 1 <= before.year + whole <= 9999:
        return None
    return float(whole if birthday(before, whole) <= after else whole - 1)


def floored(value, more=0.0):
    return value if abs(value) >= WHOLE else float(math.floor(value + more))


def summed(signs, terms):
    total = 0.0
    for sign, term in zip(signs, terms, strict=True):
        total = total - term if sign == "-" else total + term
    return kept(total)


#: Operations that are missing where anything they take is.
STRICT = {
    "*": lambda a, b: kept(a * b),
    "/": lambda a, b: None if b == 0 else kept(a / b),
    "=": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "not": lambda a: not a,
    "abs": abs,
    "floor": floored,
    "round": lambda a: floored(a, 0.5),
    "min": min,
    "max": max,
    "year": lambda d: float(d.year),
    "month": lambda d: float(d.month),
    "day": lambda d: float(d.day),
    "weekday": lambda d: float(d.isoweekday()),
    "days_between": lambda a, b: float((b - a).days),
    "years_between": years,
    "prefix": lambda text, n: trimmed(text[:n]),
}


def as_day(value):
    """Of a date and time the day."""
    return value.date() if isinstance(value, datetime.datetime) else value


def is_of_times(tree, columns):
    """Whether each value has a time of day, whatever the row is."""
    name, *given = tree
    if name == "column":
        return columns[given[0]]["type"] == "datetime"
    if name == "time":
        return True
    if name == "of all":
        return given[0] in ("min", "max", "first", "last") and is_of_times(given[1], columns)
    if name in ("if", "coalesce"):
        return all(is_of_times(each, columns) for each in given[name == "if" :])
    return False


def of_column(column, row):
    """The value of a column of the table as it was declared; the text where it was not."""
    text = read(column, row[column["name"]])
    if column["type"] in ("integer", "number"):
        value = number(text)
        return None if value is None or (column["type"] == "integer" and value != math.floor(value)) else value
    if column["type"] in ("date", "datetime"):
        found = moment(column, text)
        if found is None or column["type"] == "date":
            return found and found[0]
        return datetime.datetime.combine(found[0], datetime.time()) + datetime.timedelta(seconds=found[1])
    return text


def value(tree, row, columns):
    """What a formula gives: a number, a text, a truth, a date or a time; None where it is missing."""
    found = any_value(tree, row, columns)
    return found if is_of_times(tree, columns) else as_day(found)


def any_value(tree, row, columns):
    name, *given = tree
    if name in ("number", "quoted", "truth", "day of", "time"):
        return given[0]
    if name == "column":
        return of_column(columns[given[0]], row)
    if name == "text":
        return read(columns[given[0]], row[given[0]])
    if name == "sum":
        terms = [value(each, row, columns) for each in given[1:]]
        return None if None in terms else summed(given[0], terms)
    if name == "prefix":
        text = value(given[0], row, columns)
        return None if text is None else STRICT[name](text, given[1])
    if name == "recode":
        text = value(given[0], row, columns)
        return None if text is None else given[1].get(text, given[2])
    found = [value(each, row, columns) for each in given]
    if name == "if":
        if found[0] is None:
            return None
        return found[1] if found[0] else (found[2] if len(found) == 3 else None)
    if name == "coalesce":
        return next((each for each in found if each is not None), None)
    if name == "is_missing":
        return found[0] is None
    if name in ("and", "or"):
        decided = name == "or"
        if decided in found:
            return decided
        return None if None in found else not decided
    return None if None in found else STRICT[name](*map(as_day, found))


def quoted(text):
    return '"' + text.replace('"', '""') + '"'


def written(tree):
    """A formula as text, each operation between brackets."""
    name, *given = tree
    if name == "as written":
        return given[0]
    if name == "number":
        return f"{given[0]:f}".rstrip("0").rstrip(".")
    if name == "truth":
        return str(given[0]).lower()
    if name == "day of":
        return given[0].isoformat()
    if name == "quoted":
        return quoted(given[0])
    if name in ("column", "text"):
        named = "[" + given[0].replace("]", "]]") + "]"
        return named if name == "column" else f"text({named})"
    if name == "sum":
        signs, *terms = given
        first, *rest = (f"{sign} {written(term)}" for sign, term in zip(signs, terms, strict=True))
        return "(" + " ".join([first.removeprefix("+ "), *rest]) + ")"
    if name == "prefix":
        return f"prefix({written(given[0])}, {given[1]})"
    if name == "recode":
        table = ", ".join(f"{quoted(key)}:{quoted(text)}" for key, text in given[1].items())
        rest = "" if given[2] is None else f", {quoted(given[2])}"
        return f"recode({written(given[0])}, {{{table}}}{rest})"
    if name == "not":
        return f"(not {written(given[0])})"
    if name in STRICT and not name[0].isalpha():
        return f"({written(given[0])} {name} {written(given[1])})"
    if name in ("and", "or"):
        return "(" + f" {name} ".join(map(written, given)) + ")"
    return f"{name}({', '.join(map(written, given))})"
