"""The edges of a column's bins, in the ways people write them. Read exactly, or refused with what to type instead.

    18, 25, 35, 65           edges: a bin includes its lower edge and excludes its upper one; the last includes both
    18-24, 25-34, 35-65      bins of whole numbers by the lowest and the highest in each: the same edges
    18-65, 18 to 65          one bin, which holds both ends
    0-10, 10-20              bins of other numbers: each begins where the one before it ends
    [0, 10.5), [10.5, 20]    bins as the pages write them
    <18 (0), 18-64, 65+ (95) the first or the last bin is open: most of its values lie from 0, or up to 95
    0 to 100 by 10           bins of equal width; or 0 to 100 in 20 bins; 0 to 6 000 by 500 is 0 to 6000 by 500

Commas, semicolons, bars, spaces or line ends stand between them. A hyphen means "to" where it follows a number at once
or has a space on both sides; else it is the sign of the number behind it: -5-5 is -5 to 5, and -10 -5 are two edges. A
dash always means "to". What else separates thousands, or
stands for the point, could be meant otherwise and is refused.

Bins of dates are written so, each date as in ISO 8601 or as the table writes it:

    2020-01-01 to 2024-12-31 by month       from the first to the last date; by year, quarter, month, week, day, weekday
                                            or hour
    2020-01-01, 2020-07-01, 2020-12-31      edges: the first day of each bin, and the last day of the last
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Any

from releases.engine.domain.attribute import CLAMP, DROP, FIRST, LAST, Attribute, number, plain
from releases.engine.domain.columns import AttributeKind
from releases.engine.domain.dates import By, Dates
from releases.engine.errors import InvalidInput
from releases.engine.tables.number import is_number

#: More bins than this are a slip of the pen.
_MAX_BINS = 1_000_000
#: Bins written out where a person is told how a text was read.
_MAX_TOLD = 12

_NUMBER = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_TO = r"(?:[ \t]+[tT][oO][ \t]+|[ \t]*-[ \t]+|-)"
_ITEM = re.compile(rf"({_NUMBER})(?:{_TO}({_NUMBER}))?")
_BETWEEN = re.compile(r"[\s,;|]+")
_INTERVAL = re.compile(rf"\[\s*({_NUMBER})\s*,\s*({_NUMBER})\s*([\])])[\s,;|]*")
_OPEN_FIRST = re.compile(rf"(?:<|under\b|below\b)\s*({_NUMBER})\s*\(\s*(?:from\s+)?({_NUMBER})\s*\)", re.IGNORECASE)
_OPEN_LAST = re.compile(rf"({_NUMBER})\s*\+\s*\(\s*(?:to\s+)?({_NUMBER})\s*\)$", re.IGNORECASE)
_EQUAL = re.compile(rf"({_NUMBER}){_TO}({_NUMBER})\s+(by|in)\s+({_NUMBER})(?:\s+bins?)?", re.IGNORECASE)
_EQUAL_IN_WORDS = re.compile(r"(\S+)\s+to\s+(\S+)\s+(by|in)\s+(\S+?)(?:\s+bins?)?", re.IGNORECASE)
#: Bins of equal width with spaces between thousands: no two numbers follow each other there, so it has one meaning.
_SPACED = rf"(?:[+-]?[0-9]{{1,3}}(?: [0-9]{{3}})+(?:\.[0-9]*)?|{_NUMBER})"
_EQUAL_SPACED = re.compile(rf"{_SPACED}{_TO}{_SPACED}\s+(?:by|in)\s+{_SPACED}(?:\s+bins?)?", re.IGNORECASE)
_BETWEEN_THOUSANDS = re.compile(r"(?<=[0-9]) (?=[0-9]{3}(?![0-9]))")
_SPACES = re.compile("[\N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}\N{THIN SPACE}]")
#: A thousand with a point, as some countries write it; elsewhere it is 1.
_GROUPED = re.compile(r"(?<![0-9.])[0-9]{1,3}(?:\.[0-9]{3})+(?![0-9.])")
#: The same where no decimal is likely to be meant: 0.125 is one.
_THOUSAND = re.compile(r"(?<![0-9.])[1-9][0-9]{0,2}(?:\.[0-9]{3})+(?![0-9.])")
_OPEN_END = re.compile(r"[<>≤≥]|[0-9]\s*\+|\b(over|under|above|below|more|less|older|younger|up)\b", re.IGNORECASE)

_HOW = "write edges as 18, 25, 65, bins as 18-24, 25-65, or bins of equal width as 0 to 100 by 10"


@dataclass(frozen=True, kw_only=True)
class _Item:
    """A number, or two of them with "to" between."""

    low: Decimal
    high: Decimal | None
    text: str


def edges_from_text(text: str, *, kind: AttributeKind = AttributeKind.NUMBER) -> list[Decimal]:
    """The edges that a text says for a column of a kind, which decides where bins meet.

    Raises:
        InvalidInput: it could be meant in another way, or in none.
    """
    text, _ = _closed(_in_plain_signs(text), kind)
    if not text:
        raise InvalidInput("edges", None, f"must be at least two numbers; {_HOW}")
    if kind is AttributeKind.INTEGER and (match := _GROUPED.search(text)):
        raise InvalidInput("edges", match[0], "must be a whole number; a point does not separate thousands")
    if match := _EQUAL.fullmatch(text) or _EQUAL_IN_WORDS.fullmatch(text):
        low, high, last = (number(match[group], field="edges") for group in (1, 2, 4))
        by_width = match[3].lower() == "by"
        return _by_width(text, low, high, last) if by_width else _by_number(text, low, high, last)
    if text.startswith("["):
        return _of_intervals(text)
    items = _items(text)
    if any(item.high is not None for item in items):
        return _of_whole_bins(items) if kind is AttributeKind.INTEGER else _of_bins(items)
    if len(items) == 1:
        raise InvalidInput("edges", text, f"must be at least two numbers; {_HOW}")
    return [item.low for item in items]


def bins_from_text(text: str, *, kind: AttributeKind) -> dict[str, Any]:
    """The fields of the schema format that a text says for a column of numbers.

    Raises:
        InvalidInput: as `edges_from_text`.
    """
    _, ends = _closed(_in_plain_signs(text), kind)
    return {"edges": edges_from_text(text, kind=kind), **({"open": ends} if ends else {})}


def bins_in_text(attribute: Attribute) -> str:
    """What `bins_from_text` reads: edges, or bins where one is open."""
    if not attribute.open_ends:
        return ", ".join(plain(edge) for edge in attribute.edges)
    step = 1 if attribute.kind is AttributeKind.INTEGER else 0
    pairs = list(pairwise(attribute.edges))
    bins = [plain(low) if step and high == low + 1 else f"{plain(low)} to {plain(high - step)}" for low, high in pairs]
    bins[-1] = " to ".join(map(plain, pairs[-1]))
    if FIRST in attribute.open_ends:
        bins[0] = f"<{plain(pairs[0][1])} ({plain(pairs[0][0])})"
    if LAST in attribute.open_ends:
        bins[-1] = f"{plain(pairs[-1][0])}+ ({plain(pairs[-1][1])})"
    return ", ".join(bins)


def _closed(text: str, kind: AttributeKind) -> tuple[str, list[str]]:
    """A text in which bins that are open have their typical ends as ends, and which of the outer ones were open."""
    ends = []
    if match := _OPEN_FIRST.match(text):
        above, low = (number(match[group], field="edges") for group in (1, 2))
        if low >= above:
            raise InvalidInput("edges", match[0], "must have a typical end below the other, such as <18 (0)")
        high = above - 1 if kind is AttributeKind.INTEGER else above
        text, ends = f"{plain(low)} to {plain(high)}{text[match.end() :]}", [FIRST]
    if match := _OPEN_LAST.search(text):
        low, high = (number(match[group], field="edges") for group in (1, 2))
        if low >= high:
            raise InvalidInput("edges", match[0], "must have a typical end above the other, such as 65+ (95)")
        text, ends = f"{text[: match.start()]}{plain(low)} to {plain(high)}", [*ends, LAST]
    return text, ends


_DATES_BY = re.compile(r"(\S+)\s+to\s+(\S+)\s+by\s+([a-z]+)", re.IGNORECASE)
_HOW_DATES = "write 2020-01-01 to 2024-12-31 by month, or edges as 2020-01-01, 2020-07-01, 2020-12-31"


def dates_from_text(text: str, *, written: str) -> dict[str, Any]:
    """The fields of the schema format that a text says for a column of dates.

    Args:
        written: how the table writes dates; the text may do so too.

    Raises:
        InvalidInput: it is of neither form.
    """
    text = _with_plain_dashes(text) if "–" in text or "—" in text else text.strip()
    if match := _DATES_BY.fullmatch(text):
        first, last = (_in_iso(match[place], written) for place in (1, 2))
        return {"first": first, "last": last, "by": match[3].lower().removesuffix("s")}
    parts = [each for each in re.split(r"[\s,;|]+", text) if each]
    if len(parts) < 2 or not all(any(sign.isdigit() for sign in each) for each in parts):
        raise InvalidInput("edges", text or None, f"must be a range of dates; {_HOW_DATES}")
    return {"edges": [_in_iso(each, written) for each in parts]}


def _in_iso(text: str, written: str) -> str:
    """A date of either form, as in ISO 8601; what is of neither as it is, to be refused by who reads it."""
    separator = next((sign for sign in written if sign not in "YMD"), "")
    if not separator:
        return f"{text[:4]}-{text[4:6]}-{text[6:]}" if re.fullmatch(r"[0-9]{8}", text) else text
    parts = dict(zip(written.split(separator), text.split(separator), strict=False))
    if set(parts) != {"YYYY", "MM", "DD"} or text.count(separator) != 2 or len(parts["YYYY"]) != 4:
        return text
    return f"{parts['YYYY']}-{parts['MM']:0>2}-{parts['DD']:0>2}"


def dates_in_text(dates: Dates) -> str:
    """What `dates_from_text` reads."""
    if dates.by is By.EDGES:
        return ", ".join(map(str, (*dates.starts, dates.last)))
    return f"{dates.first} to {dates.last} by {dates.by}"


def range_in_words(dates: Dates) -> str:
    """From when to when dates are declared, how they are put together, and how they are written."""
    grouped = (
        "between edges" if dates.by is By.EDGES else f"by {'hour of the day' if dates.by is By.HOUR else dates.by}"
    )
    zone = f", times with an offset by the clocks of {dates.zone}" if dates.zone else ""
    return f"from {dates.first} to {dates.last}, {grouped}, written {dates.written}{zone}"


def names_bins(text: str) -> bool:
    """Whether a text that can be read names bins rather than their edges, or has 1.500, which is 1500 for many; a
    person should see how it was read."""
    text = _in_plain_signs(text)
    if _THOUSAND.search(text) or _OPEN_FIRST.match(text) or _OPEN_LAST.search(text):
        return True
    if not text or _EQUAL.fullmatch(text) or _EQUAL_IN_WORDS.fullmatch(text):
        return False
    return text.startswith("[") or any(item.high is not None for item in _items(text))


def bins_in_words(attribute: Attribute) -> str:
    """The bins of a column: how many, and which; of numbers those between edges."""
    labels = attribute.ordered.labels
    told = ", ".join(labels[:_MAX_TOLD])
    more = f", … {labels[-1]}" if len(labels) > _MAX_TOLD else ""
    return f"{len(labels):,} bin{'' if len(labels) == 1 else 's'}: {told}{more}"


def ends_in_words(attribute: Attribute) -> str:
    """Which bins hold more than their labels say, because values from outside are moved into them; else empty."""
    if attribute.dates is not None and attribute.outside == CLAMP:
        first, last = attribute.labels[0], attribute.labels[attribute.in_time - 1]
        if first == last:
            return f"dates before {attribute.dates.first} and after {attribute.dates.last} are counted in it too"
        return (
            f"dates before {attribute.dates.first} are counted in the first bin ({first}), dates after "
            f"{attribute.dates.last} in the last ({last})"
        )
    if not attribute.is_numeric or attribute.outside != CLAMP:
        return ""
    lowest, highest = plain(attribute.edges[0]), plain(attribute.edges[-1])
    if attribute.ranges == 1:
        return f"values below {lowest} and values above {highest} are counted in it too"
    first, last = attribute.labels[0], attribute.labels[attribute.ranges - 1]
    return f"values below {lowest} are counted in the first bin ({first}), values above {highest} in the last ({last})"


def codes_in_words(attribute: Attribute) -> str:
    """Which texts of a column mean that a value is missing; empty where none is declared."""
    if not attribute.missing:
        return ""
    return f"{', '.join(attribute.missing)} mean{'s' if len(attribute.missing) == 1 else ''} that a value is missing"


def made_in_words(attribute: Attribute) -> str:
    """Of a column that is made from others, how; else empty."""
    formula = (attribute.state_of or attribute).formula
    if formula is None:
        return ""
    if formula.per_person is not None:
        return f"one value a person, made from all of the person's rows by the formula {formula.shown}"
    names = ", ".join(each.name for each in formula.reads)
    return f"made from {names}, each row's from that row alone, by the formula {formula.shown}"


def missing_in_words(attribute: Attribute) -> str:
    """What becomes of missing values, where it is not what becomes of other values outside; else empty."""
    if not attribute.missing_as or attribute.has_grammar:
        return ""
    rule = "is left out of every count" if attribute.missing_as == DROP else f"counts as {attribute.missing_as}"
    return f"a {attribute.counted.one} without a value of {attribute.name} {rule}"


def where_tables_have_own_rows(said: str) -> str:
    """A sentence on what a rule leaves out, where each rule holds for tables over its own column alone."""
    return said.replace("out of every count", "out of every count about that column")


def last_pair(attribute: Attribute) -> tuple[int, int] | None:
    """The two whole numbers of a last bin behind bins of one: who lists 1, 2, 3 may mean three bins, and has two."""
    if attribute.kind is not AttributeKind.INTEGER or attribute.dates is not None:
        return None
    if LAST in attribute.open_ends:
        return None
    widths = {upper - lower for lower, upper in pairwise(attribute.edges)}
    return (int(attribute.edges[-2]), int(attribute.edges[-1])) if widths == {1} else None


def codes_within(attribute: Attribute) -> list[str]:
    """The missing codes of a column that are numbers of its declared range."""
    if not attribute.is_numeric:
        return []
    lowest, highest = attribute.edges[0], attribute.edges[-1]
    return [each for each in attribute.missing if is_number(each) and lowest <= Decimal(each) <= highest]


def _in_plain_signs(text: str) -> str:
    """With plain dashes and spaces, and without the spaces between thousands where these have one meaning."""
    text = _SPACES.sub(" ", _with_plain_dashes(text))
    return _BETWEEN_THOUSANDS.sub("", text) if _EQUAL_SPACED.fullmatch(text) else text


def _with_plain_dashes(text: str) -> str:
    return re.sub(r"[ \t]*[–—][ \t]*", " to ", text.replace("\N{MINUS SIGN}", "-")).strip()


def _items(text: str) -> list[_Item]:
    items, between, position = [], [], 0
    while position < len(text):
        match = _ITEM.match(text, position)
        gap = _BETWEEN.match(text, match.end()) if match else None
        if match is None or (gap is None and match.end() < len(text)):
            raise _unreadable(re.split(r"[,;|\n]", text[position:], maxsplit=1)[0].strip() or text)
        items.append(_Item(low=_read(match[1], text), high=_read(match[2], text) if match[2] else None, text=match[0]))
        position = match.end()
        if gap is not None:
            position = gap.end()
            between.append(gap[0] + text[position : position + 4])
    _check_separators(between, text)
    return items


def _read(token: str, text: str) -> Decimal:
    """
    Args:
        text: all of it, which an error quotes where a part alone could not be found in it.
    """
    if re.match(r"[+-]?0[0-9]", token):
        rule = f"must be numbers without leading zeros or separators of thousands, such as 0, 1000, 2500; {_HOW}"
        raise InvalidInput("edges", text, rule)
    return number(token, field="edges")


def _unreadable(part: str) -> InvalidInput:
    if _OPEN_END.search(part):
        rule = "must have two ends, such as 65-120, or where most of its values end, such as 65+ (95) or <18 (0)"
        return InvalidInput("edges", part, rule)
    try:
        number(part, field="edges")
    except InvalidInput as error:
        if error.rule != "must be a number":
            return error
    return InvalidInput("edges", part, f"must be a number; {_HOW}")


def _check_separators(between: list[str], text: str) -> None:
    """Refuse a comma that may separate thousands or stand for a point, and a space that may separate thousands.

    Args:
        between: what separates the items, each with the characters behind it.
    """
    tight = [each for each in between if re.match(r",[^\s,;|]", each)]
    loose = [each for each in between if re.match(r"\s*,", each) and each not in tight]
    spaces = [each for each in between if re.match(r"[ \t]+[^\s,;|]", each)]
    others = len(between) - len(tight) - len(loose) - len(spaces)
    grouped = [each for each in tight if re.fullmatch(r",[0-9]{3}(?:[^0-9].*)?", each, flags=re.DOTALL)]
    if (spaces and len(spaces) < len(between)) or (tight and others) or (grouped and loose):
        rule = "must have one separator: a comma and a space, such as 0, 0.5, 1000, with no other comma in a number"
        raise InvalidInput("edges", text, rule)


def _of_whole_bins(items: list[_Item]) -> list[Decimal]:
    """Bins by their lowest and highest whole number: each begins right after the one before."""
    bins = [(item.low, item.low if item.high is None else item.high) for item in items]
    for low, high in bins:
        for end in (low, high):
            if end != end.to_integral_value():
                raise InvalidInput("edges", plain(end), "must be whole numbers in an integer column")
    _check_rising(items)
    for (low, high), (following, upper) in pairwise(bins):
        if following != high + 1:
            said = f"{plain(low)}-{plain(high)}, {plain(following)}-{plain(upper)}"
            rule = f"must meet: behind a bin of whole numbers up to {plain(high)} comes one from {plain(high + 1)}"
            raise InvalidInput("edges", said, rule)
    low, high = bins[-1]
    if low == high:
        raise InvalidInput("edges", items[-1].text, "must hold at least two whole numbers where it is the last bin")
    return [*(low for low, _ in bins), high]


def _of_bins(items: list[_Item]) -> list[Decimal]:
    """Bins of numbers: each begins where the one before it ends."""
    for item in items:
        if item.high is None:
            raise InvalidInput("edges", item.text, f"must be a bin, as the others are; {_HOW}")
    _check_rising(items)
    for before, after in pairwise(items):
        if before.high != after.low:
            assert before.high is not None
            end = plain(before.high)
            rule = f"must meet: behind a bin of numbers up to {end} comes one from {end}, which holds {end} itself"
            raise InvalidInput("edges", f"{before.text}, {after.text}", rule)
    return [*(item.low for item in items), *(item.high for item in items[-1:] if item.high is not None)]


def _check_rising(items: list[_Item]) -> None:
    for item in items:
        if item.high is not None and item.high < item.low:
            raise InvalidInput("edges", item.text, "must go up from the first number to the second")


def _of_intervals(text: str) -> list[Decimal]:
    found, position = [], 0
    while match := _INTERVAL.match(text, position):
        found.append((_read(match[1], text), _read(match[2], text), match[3]))
        position = match.end()
    meet = all(before[1] == after[0] for before, after in pairwise(found))
    closed = [end for _, _, end in found] == [")"] * (len(found) - 1) + ["]"]
    if position < len(text) or not meet or not closed:
        raise InvalidInput("edges", text, f"must be bins such as [0, 10), [10, 20] without gaps between; or {_HOW}")
    return [*(low for low, _, _ in found), found[-1][1]]


def _by_width(text: str, low: Decimal, high: Decimal, step: Decimal) -> list[Decimal]:
    if step <= 0 or high <= low or (high - low) / step > _MAX_BINS:
        raise InvalidInput("edges", text, "must go up from the first number to the second, in steps")
    edges = [low + step * index for index in range(int((high - low) / step) + 1)]
    return edges if edges[-1] == high else [*edges, high]


def _by_number(text: str, low: Decimal, high: Decimal, bins: Decimal) -> list[Decimal]:
    """Edges of bins of exactly equal width; a width that no decimal can write is refused."""
    if high <= low or bins != bins.to_integral_value() or not 1 <= bins <= _MAX_BINS:
        rule = f"must go up from the first number to the second, in 1 to {_MAX_BINS:,} bins"
        raise InvalidInput("edges", text, rule)
    width = (high - low) / bins
    # The quotient is rounded where no decimal can write it; rational numbers see that, decimals may not.
    if Fraction(width) * int(bins) != Fraction(high) - Fraction(low):
        rule = "cannot be cut into so many bins of exactly equal width; choose another number"
        raise InvalidInput("edges", text, rule)
    return [low + width * index for index in range(int(bins))] + [high]
