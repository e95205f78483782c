"""Whether any value of a column can lie in what is declared of it: by its type or its formula, and never by its rows.

Where nothing is known of a column's values, everything can be met. Each answer is on the safe side: a declaration is
called one that no value meets only where that is certain.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from itertools import product
from math import ceil, floor, inf, isinf

from releases.engine.domain.attribute import FIRST, LAST, Attribute
from releases.engine.domain.columns import AttributeKind
from releases.engine.domain.dates import DATE_FORMATS, Dates
from releases.engine.domain.formula_tree import Call, Constant, Node, PerPerson, Read, Recode, Take, Type
from releases.engine.errors import InvalidInput

#: Doubles that are as near as this count as equal.
_NEARLY = 1e-9
#: The day as one number, the only form in which numbers are dates.
_IN_DIGITS = "YYYYMMDD"
_WHOLE = re.compile(r"-?(0|[1-9][0-9]*)")
_NUMBER = re.compile(r"[+-]?[0-9.,' ]*[0-9][0-9.,' ]*(e[+-]?[0-9]+)?", re.IGNORECASE)
_DAY = re.compile(r"[0-9]{4,}-[0-9]{2}-[0-9]{2}")


@dataclass(frozen=True, kw_only=True)
class Values:
    """The values that a column can have, as far as it is known without its rows.

    Attributes:
        type: of all of them; None where any text is possible.
        lowest, highest: of numbers.
        is_whole: numbers have no fraction.
        texts: all texts that there are; None where they are not known.
        longest: of texts, in characters.
        can_write: whether a text is possible in this file at all.
    """

    type: Type | None = None
    lowest: float = -inf
    highest: float = inf
    is_whole: bool = False
    texts: frozenset[str] | None = None
    longest: float = inf
    can_write: Callable[[str], bool] = lambda _text: True

    @property
    def in_words(self) -> str:
        if self.texts is not None:
            return f"only {', '.join(sorted(self.texts)[:5])}{', ...' if len(self.texts) > 5 else ''}"
        if self.type is Type.NUMBER:
            ends = [f" from {self.lowest:,.15g}" * (not isinf(self.lowest)), f" to {self.highest:,.15g}"]
            return f"{'whole ' * self.is_whole}numbers{ends[0]}{ends[1] * (not isinf(self.highest))}"
        if self.type is not None:
            return "dates with a time of day" if self.type is Type.MOMENT else f"{self.type}s"
        return "no such text" if isinf(self.longest) else f"texts of at most {self.longest:g} characters"


TRUTHS = Values(type=Type.TRUTH, texts=frozenset({"false", "true"}))


def check_can_be_met(attribute: Attribute, values: Values) -> None:
    """Refuse a declaration that no value of the column meets, so that every row would be outside of it.

    Args:
        values: of a column of the table; one with a formula has those that its formula gives.

    Raises:
        InvalidInput: naming the field, what is declared, and what the column holds.
    """
    if attribute.state_of is not None:
        return
    if attribute.formula is not None:
        values = values_of(attribute.formula.tree)
    if attribute.is_numeric:
        field, said, is_met = "edges", f"{attribute.edges[0]:f} to {attribute.edges[-1]:f}", _meets_range
    elif attribute.dates is not None:
        written = attribute.dates.written
        field, said, is_met = "format", f"{written}{' and a time of day' * attribute.dates.has_time}", _meets_dates
    else:
        field, said, is_met = "categories", ", ".join(attribute.categories[:5]), _meets_categories
    if not is_met(attribute, values):
        raise InvalidInput(field, said, f"can be met by no value: the column has {values.in_words}")


def _meets_range(attribute: Attribute, values: Values) -> bool:
    if values.type in (Type.TRUTH, Type.DATE, Type.MOMENT):
        return False
    if values.texts is not None:
        return any(any(map(str.isdigit, text)) for text in values.texts)
    low = -inf if FIRST in attribute.open_ends else float(attribute.edges[0])
    high = inf if LAST in attribute.open_ends else float(attribute.edges[-1])
    low, high = max(low, values.lowest), min(high, values.highest)
    if low - high > _NEARLY * max(1.0, abs(high)):
        return False
    if not (values.is_whole or attribute.kind is AttributeKind.INTEGER) or isinf(low) or isinf(high):
        return True
    first, last = ceil(low - _NEARLY), floor(high + _NEARLY)
    codes = {code for each in attribute.missing if (code := _whole(each)) is not None and first <= code <= last}
    return last - first + 1 > len(codes)


def _whole(text: str) -> int | None:
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    return int(number) if number.is_finite() and abs(number) < 1e30 and number == number.to_integral_value() else None


def _meets_dates(attribute: Attribute, values: Values) -> bool:
    dates = attribute.dates
    assert dates is not None
    if values.texts is not None:
        return any(any(map(str.isdigit, text)) for text in values.texts)
    if values.type is Type.NUMBER:
        first, last = (int(f"{day:%Y%m%d}") for day in (dates.first, dates.last))
        return _is_in_digits(dates) and values.lowest <= last and first <= values.highest
    # A table writes the dates of its own types in one form; a formula has no form.
    if attribute.formula is None and values.type in (Type.DATE, Type.MOMENT):
        return dates.written == DATE_FORMATS[0] and not (dates.has_time and values.type is Type.DATE)
    return values.can_write(dates.write(dates.days_of_range[0]))


def _is_in_digits(dates: Dates) -> bool:
    return dates.written == _IN_DIGITS and not dates.has_time


def _meets_categories(attribute: Attribute, values: Values) -> bool:
    """By one category at least, where there is any but those that take what is outside and what is missing."""
    named = [each for each in attribute.categories if each not in (attribute.outside, attribute.missing_as)]
    return not named or any(_can_be(each, values) for each in named)


def _can_be(text: str, values: Values) -> bool:
    if values.texts is not None:
        return text in values.texts
    if values.type is Type.NUMBER:
        if not values.is_whole:
            return _NUMBER.fullmatch(text) is not None
        return _WHOLE.fullmatch(text) is not None and values.lowest <= float(text) <= values.highest
    if values.type in (Type.DATE, Type.MOMENT):
        return _DAY.match(text) is not None
    return len(text) <= values.longest and values.can_write(text)


# What a formula gives


def values_of(node: Node) -> Values:
    """The values that a formula can give, whatever the rows."""
    if isinstance(node, Constant):
        return _of_constant(node)
    if isinstance(node, Read):
        return Values(type=node.type if node.type is Type.NUMBER else None)
    if isinstance(node, Recode):
        others = () if node.otherwise is None else (node.otherwise,)
        return Values(texts=frozenset([*(text for _, text in node.table), *others]))
    if isinstance(node, PerPerson):
        return _of_function(node)
    return _of_call(node)


def _of_constant(node: Constant) -> Values:
    if node.type is Type.NUMBER:
        number = float(node.value)
        return _numbers(number, number, is_whole=number.is_integer())
    if node.type is Type.TEXT:
        return Values(texts=frozenset({str(node.value)}))
    return TRUTHS if node.type is Type.TRUTH else Values()


def _of_function(node: PerPerson) -> Values:
    if node.take is Take.COUNT:
        return _numbers(0, inf, is_whole=True)
    if node.take is Take.SUM:
        # One row takes part at least, and any number more.
        lowest, highest = float(node.lowest), float(node.highest)
        return _numbers(lowest if lowest >= 0 else -inf, highest if highest <= 0 else inf)
    return TRUTHS if node.of is None or node.type is Type.TRUTH else values_of(node.of)


#: Of parts of a date, and of differences of dates from the year 1 to 9999.
_OF_DATES = {
    "year": (1, 9999),
    "month": (1, 12),
    "day": (1, 31),
    "weekday": (1, 7),
    "years_between": (-9998, 9998),
    "days_between": (-3_652_058, 3_652_058),
}


def _of_call(node: Call) -> Values:
    if node.name in ("if", "coalesce"):
        return _either(values_of(each) for each in node.arguments[node.name == "if" :])
    if node.type is Type.TRUTH:
        return TRUTHS
    if node.name == "prefix":
        of, length = node.arguments
        assert isinstance(length, Constant)
        found, most = values_of(of), int(length.value)
        texts = None if found.texts is None else frozenset(text[:most].strip() for text in found.texts)
        return replace(found, texts=texts, longest=min(found.longest, most))
    if node.name in _OF_DATES:
        return _numbers(*_OF_DATES[node.name], is_whole=True)
    return _of_arithmetic(node) if node.type is Type.NUMBER else Values()


def _of_arithmetic(node: Call) -> Values:
    found = [values_of(each) for each in node.arguments]
    lows, highs = [each.lowest for each in found], [each.highest for each in found]
    is_whole = all(each.is_whole for each in found)
    if node.name in ("min", "max"):
        chosen = min if node.name == "min" else max
        return _numbers(chosen(lows), chosen(highs), is_whole=is_whole)
    if node.name in ("floor", "round"):
        low, high = (end if isinf(end) else step(end) for end, step in ((lows[0], floor), (highs[0], ceil)))
        return _numbers(low, high, is_whole=True)
    if node.name == "abs":
        sizes = [abs(lows[0]), abs(highs[0])]
        return _numbers(0 if lows[0] <= 0 <= highs[0] else min(sizes), max(sizes), is_whole=is_whole)
    if node.name == "+":
        ends = [
            (-high, -low) if is_less else (low, high)
            for low, high, is_less in zip(lows, highs, node.minus or (False,) * len(found), strict=True)
        ]
        return _numbers(sum(low for low, _ in ends), sum(high for _, high in ends), is_whole=is_whole)
    if node.name == "*" and not any(map(isinf, [*lows, *highs])):
        ends_of_products = [one * other for one, other in product(*zip(lows, highs, strict=True))]
        return _numbers(min(ends_of_products), max(ends_of_products), is_whole=is_whole)
    # Of products without an end, and of quotients, the sign at most.
    return _numbers(0 if min(lows) >= 0 else -inf, inf, is_whole=is_whole and node.name == "*")


def _numbers(lowest: float, highest: float, *, is_whole: bool = False) -> Values:
    return Values(type=Type.NUMBER, lowest=lowest, highest=highest, is_whole=is_whole)


def _either(several: Iterable[Values]) -> Values:
    """The values of any of them."""
    found = list(several)
    types = {each.type for each in found}
    texts = [each.texts for each in found]
    return Values(
        type=types.pop() if len(types) == 1 else None,
        lowest=min(each.lowest for each in found),
        highest=max(each.highest for each in found),
        is_whole=all(each.is_whole for each in found),
        texts=None if None in texts else frozenset().union(*filter(None, texts)),
        longest=max(each.longest for each in found),
    )
