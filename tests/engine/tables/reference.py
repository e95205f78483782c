"""How rows are counted, in plain Python from declarations as JSON: what `docs/reference/counting.md` says.

It shares no code with the engine. A row is a dictionary of texts; None is a missing value.
"""

from __future__ import annotations

import hashlib
import math
from bisect import bisect_right
from collections import Counter
from fractions import Fraction

SPACES = b" \t\n\x0b\x0c\r"
DIGITS = b"0123456789"
PRIME = 1_000_003


def trimmed(given):
    if given is None:
        return None
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
    text = text if text is None or form == (".", "") else plain(text, *form)
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


def read(column, given):
    """The text of a column; None where it is missing: nothing, or a code, which in numbers may be written otherwise."""
    text, codes = trimmed(given), column.get("missing", ())
    if text in codes:
        return None
    if column["type"] != "categorical" and number(text) is not None and number(text) in map(number, codes):
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
    value = number(text)
    if value is None or (column["type"] == "integer" and value != math.floor(value)):
        return "unreadable"
    return "as declared" if column["edges"][0] <= value <= column["edges"][-1] else "outside"


def remainder(value):
    return int(math.fmod(value, PRIME))


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


class Reference:
    def __init__(self, declared, rows):
        self.columns, self.unit = declared["columns"], declared["unit"]
        self.names = [column["name"] for column in self.columns]
        self.rows = rows
        self.counted = self._counted()

    def _person(self, row):
        return trimmed(row[self.unit["id"]]).encode() if trimmed(row[self.unit["id"]]) else None

    def _counted(self):
        found = []
        for row in self.rows:
            found_at = [code(column, row[column["name"]]) for column in self.columns]
            if None in found_at:
                continue
            codes, values = zip(*found_at, strict=True)
            if self.unit["kind"] == "row":
                found.append((None, None, codes, values))
            else:
                order = (scramble(self.columns, values), values, codes)
                found.append((self._person(row), order, codes, values))
        return found if self.unit["kind"] == "row" else bounded(found, self.unit["max_rows"])

    def cells(self, names):
        axes = [self.names.index(name) for name in names]
        return Counter(tuple(row[2][axis] for axis in axes) for row in self.counted)

    def tally(self, names):
        axes = [self.names.index(name) for name in names]
        return Counter(tuple(row[3][axis] for axis in axes) for row in self.counted)

    def texts(self, name):
        found = []
        for row in self.rows:
            text = read(self.columns[self.names.index(name)], row[name])
            others = [code(each, row[each["name"]]) for each in self.columns if each["name"] != name]
            if text is None or None in others:
                continue
            if self.unit["kind"] == "row":
                found.append((None, None, text))
            else:
                order = (hashlib.sha256(text.encode()).hexdigest(), text.encode())
                found.append((self._person(row), order, text))
        kept = found if self.unit["kind"] == "row" else bounded(found, self.unit["max_rows"])
        return Counter(row[2] for row in kept)
