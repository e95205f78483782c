"""How rows are counted, in plain Python from declarations as JSON: what `docs/reference/counting.md` says.

It shares no code with the engine. A row is a dictionary of texts; None is a missing value.
"""

from __future__ import annotations

import datetime
import functools
import hashlib
import math
from bisect import bisect_right
from collections import Counter
from fractions import Fraction
from zoneinfo import ZoneInfo

SPACES = b" \t\n\x0b\x0c\r"
DIGITS = b"0123456789"
PRIME = 1_000_003


def trimmed(given):
    # What a formula gives is no text, and stays what it is.
    if not isinstance(given, str):
        return given
    octets = given.encode()
    while octets and octets[0] in SPACES:
        octets = octets[1:]
    while octets and octets[-1] in SPACES:
        octets = octets[:-1]
    return octets.decode() or None


GROUPS = {",": ",", ".": ".", "'": "'\u2019", "space": " \u00a0\u202f"}


def plain(text, decimal, thousands):
    """The same number with a point and without groups; None where the text has not the form."""
    head = text
    for end in ("e", "E", decimal):
        head = head.partition(end)[0]
    digits = head.lstrip("+-")
    groups = digits
    for sign in GROUPS[thousands] if thousands else "":
        groups = groups.replace(sign, "\0")
    first, *rest = groups.split("\0")
    if rest and not (1 <= len(first) <= 3 and len(rest) <= 12 and all(len(each) == 3 for each in rest)):
        return None
    tail = text[len(head) :]
    if decimal != "." and "." in first + "".join(rest) + tail:
        return None
    return head[: len(head) - len(digits)] + first + "".join(rest) + tail.replace(decimal, ".", 1)


def number(text, form=(".", "")):
    """The double nearest to the number that the text writes; None where it writes none."""
    return _number(text, form) if isinstance(text, str) else text


@functools.lru_cache(maxsize=100_000)
def _number(text, form):
    text = text if form == (".", "") else plain(text, *form)
    if text is None:
        return None
    rest, exponent = text.encode(), 0
    sign = -1 if rest[:1] == b"-" else 1
    rest = rest[1:] if rest[:1] in (b"+", b"-") else rest
    for place, octet in enumerate(rest):
        if octet in b"eE":
            written = rest[place + 1 :]
            digits = written[1:] if written[:1] in (b"+", b"-") else written
            if not 1 <= len(digits) <= 2 or not all(each in DIGITS for each in digits):
                return None
            exponent, rest = int(written), rest[:place]
            break
    before, point, after = rest.partition(b".")
    if not all(each in DIGITS for each in before + after) or max(len(before), len(after)) > 40:
        return None
    if not before and not after:
        return None
    if before == b"" and not point:
        return None
    exact = sign * Fraction(int(before + after or b"0"), 10 ** len(after)) * Fraction(10) ** exponent
    return exact.numerator / exact.denominator


def clock(text):
    """Seconds of the day, of a time as it is written after a date; None where it is none."""
    hours, colon, rest = text.partition(":")
    minutes, has_seconds, rest = rest.partition(":")
    seconds, point, parts = rest.partition(".")
    fields = [hours, minutes, *([seconds] if has_seconds else [])]
    if not colon or not all(len(each) == 2 and all(octet in DIGITS for octet in each.encode()) for each in fields):
        return None
    if point and not (1 <= len(parts) <= 9 and all(octet in DIGITS for octet in parts.encode())):
        return None
    found = [int(each) for each in fields]
    if found[0] > 23 or max(found[1:]) > 59:
        return None
    return 3600 * found[0] + 60 * found[1] + sum(found[2:])


def without_offset(text):
    """A time without the offset from Greenwich behind it; as it is where what is there is none."""
    if text.endswith("Z"):
        return text[:-1]
    for sign in "+-":
        time, found, offset = text.partition(sign)
        digits = offset[:2] + offset[3:] if offset[2:3] == ":" and len(offset) == 5 else offset
        if found and len(digits) in (2, 4) and all(octet in DIGITS for octet in digits.encode()):
            return time
    return text


def moment(column, text):
    """The day that a text writes, and the second of it; None where it writes none as declared."""
    if isinstance(text, datetime.datetime):
        return text.date(), 3600 * text.hour + 60 * text.minute + text.second
    if isinstance(text, datetime.date):
        return text, 0
    form = column["format"]
    separator = next((sign for sign in form if sign not in "YMD"), None)
    for place, sign in enumerate(text or ""):
        if sign in " T":
            day, time = text[:place], text[place + 1 :]
            break
    else:
        day, time = text or "", None
    names = form.split(separator) if separator else ["YYYY", "MM", "DD"]
    parts = day.split(separator) if separator else [day[:4], day[4:6], day[6:]]
    if len(parts) != 3 or not all(part and all(octet in DIGITS for octet in part.encode()) for part in parts):
        return None
    named = dict(zip(names, parts, strict=True))
    short = (2,) if form[0] == "Y" else (1, 2)
    if len(named["YYYY"]) != 4 or len(named["MM"]) not in short or len(named["DD"]) not in short:
        return None
    try:
        found = datetime.date(*(int(named[each]) for each in ("YYYY", "MM", "DD")))
    except ValueError:
        return None
    if time is None:
        return None if column["type"] == "datetime" else (found, 0)
    wall = without_offset(time) if form == "YYYY-MM-DD" else time
    second = clock(wall)
    if second is None or not column.get("zone") or wall == time:
        return None if second is None else (found, second)
    return by_clock_of_zone(found, second, time[len(wall) :], column["zone"])


def by_clock_of_zone(day, second, offset, zone):
    """The day and second that the clocks of a zone showed; None where the offset is none of a day's hours."""
    digits = offset[1:].replace(":", "") or "00"
    if int(digits[:2]) > 23 or int(digits[2:] or 0) > 59:
        return None
    ahead = datetime.timedelta(hours=int(digits[:2]), minutes=int(digits[2:] or 0))
    written = datetime.datetime.combine(day, datetime.time(), datetime.UTC) + datetime.timedelta(seconds=second)
    instant = written + ahead if offset[0] == "-" else written - ahead
    there = instant.astimezone(ZoneInfo(zone))
    return there.date(), 3600 * there.hour + 60 * there.minute + there.second


def named_bin(column, day, second):
    """What the bin of a day is called, whether it is declared or not."""
    if column["by"] == "weekday":
        return day.strftime("%A")
    if column["by"] == "hour":
        return f"{second // 3600:02}:00 to {second // 3600:02}:59"
    week = day.isocalendar()
    return {
        "year": f"{day.year:04}",
        "quarter": f"{day.year:04} Q{1 + (day.month - 1) // 3}",
        "month": day.isoformat()[:7],
        "week": f"{week.year:04}-W{week.week:02}",
        "day": day.isoformat(),
    }[column["by"]]


def range_of(column):
    written = (column["edges"][0], column["edges"][-1]) if "edges" in column else (column["first"], column["last"])
    return tuple(map(datetime.date.fromisoformat, written))


def bins_of(column):
    """The names of all bins: those of every day from the first to the last, each once."""
    return _bins(column["by"], *range_of(column))


@functools.cache
def _bins(by, first, last):
    if by == "hour":
        return [named_bin({"by": by}, first, 3600 * hour) for hour in range(24)]
    if by == "weekday":
        return [datetime.date(2024, 1, day).strftime("%A") for day in range(1, 8)]
    days = map(datetime.date.fromordinal, range(first.toordinal(), last.toordinal() + 1))
    return list(dict.fromkeys(named_bin({"by": by}, day, 0) for day in days))


def code_of_date(column, text):
    read_as, bins = moment(column, text), len(column["edges"]) - 1 if "edges" in column else len(bins_of(column))
    if read_as is None:
        return bins if column.get("missing_as") == "no date" else None
    (day, second), (first, last) = read_as, range_of(column)
    if not first <= day <= last and column["outside"] == "drop":
        return None
    day = min(max(day, first), last)
    if "edges" in column:
        starts = [datetime.date.fromisoformat(each) for each in column["edges"][:-1]]
        return bisect_right(starts, day) - 1
    return bins_of(column).index(named_bin(column, day, second))


def exact_value(column, text):
    """Of a date that counts by itself: the day, or the second, from 1970-01-01, of the nearest in the range."""
    day, second = moment(column, text)
    first, last = range_of(column)
    if column["type"] == "date":
        return (min(max(day, first), last) - datetime.date(1970, 1, 1)).days
    start = datetime.datetime.combine(min(max(day, first), last), datetime.time())
    apart = start - datetime.datetime(1970, 1, 1)
    within = 0 if day < first else 86_399 if day > last else second
    return apart.days * 86_400 + within


def read(column, given):
    """The text of a column; None where it is missing: nothing, or a code, which in numbers may be written otherwise."""
    text, codes = trimmed(given), column.get("missing", ())
    if text in codes:
        return None
    if column["type"] in ("integer", "number") and number(text) is not None and number(text) in map(number, codes):
        return None
    return text


def code(column, given):
    """The number of a bin, and the value in units of its last place; None for a row that does not count."""
    if "state_of" in column:
        place = column["categories"].index(state(column["state_of"], given))
        return place, place
    text = read(column, given)
    if column["type"] == "categorical":
        names, outside = column["categories"], column.get("outside", "drop")
        if text is None:
            outside = column.get("missing_as", outside)
        if text in names:
            place = names.index(text)
        elif outside == "drop":
            return None
        else:
            place = names.index(outside)
        return place, place
    if column["type"] in ("date", "datetime"):
        place = code_of_date(column, text)
        if place is None:
            return None
        return place, exact_value(column, text) if column.get("exact") else place
    value, edges = number(text), column["edges"]
    if value is None or (column["type"] == "integer" and value != math.floor(value)):
        if column.get("missing_as") != "no number":
            return None
        return len(edges) - 1, round(edges[-1] * 10 ** column.get("decimals", 0)) + 1
    if column.get("outside") == "drop" and (value < edges[0] or value > edges[-1]):
        return None
    place = min(max(bisect_right(edges, value) - 1, 0), len(edges) - 2)
    unit = 10 ** column.get("decimals", 0)
    scaled = value * float(unit) + 0.5
    low, high = round(edges[0] * unit), round(edges[-1] * unit)
    return place, math.floor(min(max(scaled, low), high))


def state(column, given):
    """How a text reads as a column was declared."""
    text = read(column, given)
    if text is None:
        return "missing"
    if column["type"] == "categorical":
        return "as declared" if text in column["categories"] else "outside"
    if column["type"] in ("date", "datetime"):
        if moment(column, text) is None:
            return "unreadable"
        first, last = range_of(column)
        return "as declared" if first <= moment(column, text)[0] <= last else "outside"
    value = number(text)
    if value is None or (column["type"] == "integer" and value != math.floor(value)):
        return "unreadable"
    return "as declared" if column["edges"][0] <= value <= column["edges"][-1] else "outside"


def remainder(value):
    # Whole numbers alone: a double would not hold all of them.
    return abs(value) % PRIME * (1 if value >= 0 else -1)


def scramble(columns, values):
    whole = 0
    for column, value in zip(columns, values, strict=True):
        hashed = int.from_bytes(hashlib.sha256(column["name"].encode()).digest()[:4], "big")
        whole += remainder(remainder(value) * (1 + hashed % (PRIME - 1)))
    return remainder(whole)


def bounded(rows, most):
    """The first rows of each person, each row given as (person, what it is ordered by, ...)."""
    seen, kept = Counter(), []
    for row in sorted((each for each in rows if each[0] is not None), key=lambda each: each[:2]):
        seen[row[0]] += 1
        if seen[row[0]] <= most:
            kept.append(row)
    return kept


def ordered_by(column, given):
    """Of a row that a column leaves out: behind all bins; or the nearest number, behind all where there is none."""
    if column["type"] in ("date", "datetime"):
        return len(column["edges"]) - 1 if "edges" in column else len(bins_of(column))
    if column["type"] == "categorical":
        return len(column["categories"])
    edges, unit = column["edges"], 10 ** column.get("decimals", 0)
    low, high = round(edges[0] * unit), round(edges[-1] * unit)
    value = number(read(column, given))
    if value is None or (column["type"] == "integer" and value != math.floor(value)):
        return high + 1
    return math.floor(min(max(value * float(unit) + 0.5, low), high))


def place(columns, name, label):
    """The number of a bin of categories, or of whole numbers."""
    column = next(each for each in columns if each["name"] == name)
    if "categories" in column:
        return column["categories"].index(label)
    if label == "no number":
        return len(column["edges"]) - 1
    return bisect_right(column["edges"], int(label.split(" to ")[0])) - 1


class Reference:
    """The counts of rows; `made` are the formulas of columns, each a function of a row."""

    def __init__(self, declared, rows, made=None):
        self.columns, self.unit = declared["columns"], declared["unit"]
        rows = [{**row, **{name: value(row) for name, value in (made or {}).items()}} for row in rows]
        self.names = [column["name"] for column in self.columns]
        self.rows = rows
        self.own_rows = declared.get("rows_counted") == "by own columns"
        left_out = declared.get("impossible_rows") == "drop"
        self.impossible = [
            {
                self.names.index(name): {place(self.columns, name, label) for label in labels}
                for name, labels in each.items()
            }
            for each in (declared["impossible"] if left_out else [])
        ]
        self.codes = [[code(column, row[column["name"]]) for column in self.columns] for row in rows]
        self.counted = self._counted()

    def _person(self, row):
        return trimmed(row[self.unit["id"]]).encode() if trimmed(row[self.unit["id"]]) else None

    def _counted(self):
        found = []
        for row, found_at in zip(self.rows, self.codes, strict=True):
            if None in found_at and not self.own_rows:
                continue
            codes = tuple(None if each is None else each[0] for each in found_at)
            values = tuple(
                ordered_by(column, row[column["name"]]) if each is None else each[1]
                for column, each in zip(self.columns, found_at, strict=True)
            )
            if any(all(codes[axis] in bins for axis, bins in each.items()) for each in self.impossible):
                continue
            if self.unit["kind"] == "row":
                found.append((None, None, codes, values))
            else:
                behind = tuple(math.inf if each is None else each for each in codes)
                order = (scramble(self.columns, values), values, behind)
                found.append((self._person(row), order, codes, values))
        return found if self.unit["kind"] == "row" else bounded(found, self.unit["max_rows"])

    def cells(self, names):
        axes = [self.names.index(name) for name in names]
        return Counter(tuple(row[2][axis] for axis in axes) for row in self._with(axes))

    def tally(self, names):
        axes = [self.names.index(name) for name in names]
        return Counter(tuple(row[3][axis] for axis in axes) for row in self._with(axes))

    def _with(self, axes):
        """The rows that have a bin in each of some columns."""
        return [row for row in self.counted if all(row[2][axis] is not None for axis in axes)]

    def texts(self, name):
        found = []
        at = self.names.index(name)
        for row, codes in zip(self.rows, self.codes, strict=True):
            text = read(self.columns[at], row[name])
            others = [] if self.own_rows else codes[:at] + codes[at + 1 :]
            if text is None or None in others:
                continue
            if self.unit["kind"] == "row":
                found.append((None, None, text))
            else:
                order = (hashlib.sha256(text.encode()).hexdigest(), text.encode())
                found.append((self._person(row), order, text))
        kept = found if self.unit["kind"] == "row" else bounded(found, self.unit["max_rows"])
        return Counter(row[2] for row in kept)
