"""Step 3: of every declared column the number of its bin; null where the row does not count."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import pairwise

from sqlglot import exp

from releases.engine.domain.attribute import AS_DECLARED, CLAMP, DROP, MISSING, OUTSIDE, UNREADABLE, Attribute
from releases.engine.domain.columns import AttributeKind, FileColumn
from releases.engine.domain.dates import SECONDS_OF_DAY, By, Dates
from releases.engine.errors import InvalidInput
from releases.engine.tables.dialects import (
    Dialect,
    as_double,
    clamped,
    column,
    double,
    floor,
    is_there,
    joined,
    step,
    whole,
)
from releases.engine.tables.number import is_missing_number, number_of
from releases.engine.tables.text import text_of
from releases.engine.tables.typed import ColumnType

#: Up to here a code is a chain of comparisons; beyond, categories are joined and bins searched.
_SHORT_CHAIN = 64


def code_of(axis: int) -> str:
    return f"code_{axis}"


def whole_of(axis: int) -> str:
    return f"whole_{axis}"


def codes(
    rows: exp.Select,
    attributes: Mapping[int, Attribute],
    dialect: Dialect,
    parameters: list[list[str]],
    *,
    taken: Collection[int] = (),
) -> exp.Select:
    """The rows with the code of each of some attributes, by axis.

    Args:
        taken: the axes of columns that are taken by their type; of those with categories the rows have the whole
            numbers, from `typed_categories`.
    """
    # All in one select: one select a column takes a database longer to plan than the rows take to read.
    within = [
        exp.alias_(_code_within(axis, each, is_taken=axis in taken), code_of(axis), quoted=True)
        for axis, each in attributes.items()
        if not _is_joined(each)
    ]
    rows = step(rows, within, dialect) if within else rows
    for axis, attribute in attributes.items():
        if _is_joined(attribute):
            rows = _with_joined_code(rows, axis, attribute, dialect, parameters)
    return rows


def typed_categories(columns: Mapping[int, FileColumn], taken: Mapping[int, ColumnType]) -> list[exp.Expr]:
    """The whole numbers of columns with categories, null where a missing code writes them."""
    found = list[exp.Expr]()
    for axis, each in columns.items():
        if each.kind is AttributeKind.CATEGORICAL and axis in taken:
            value: exp.Expr = column(each.name)
            for number in filter(None, map(_whole_written, each.missing)):
                value = exp.Nullif(this=value, expression=number)
            found.append(exp.alias_(value, whole_of(axis), quoted=True))
    return found


def _whole_written(text: str) -> exp.Expr | None:
    """The whole number whose text this is, of 64 bits; None where it is the text of none, as `01` and `1.0` are."""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= 19 and str(int(text)) == text):
        return None
    return whole(int(text)) if -(1 << 63) <= int(text) < 1 << 63 else None


def _is_joined(attribute: Attribute) -> bool:
    declared = attribute.state_of or attribute
    return not declared.has_grammar and declared.size > _SHORT_CHAIN


def _code_within(axis: int, attribute: Attribute, *, is_taken: bool) -> exp.Expr:
    """A bin number, or that of a category among few, by comparisons in the row itself."""
    if attribute.state_of is not None:
        return _state_within(axis, attribute, attribute.state_of)
    if attribute.dates is not None:
        return _bin_of_date(column(number_of(axis)), attribute, attribute.dates)
    if attribute.is_numeric:
        return _bin(column(number_of(axis)), attribute)
    name = whole_of(axis) if is_taken else text_of(axis)
    chain = exp.case()
    for position, category in enumerate(attribute.categories):
        value = _whole_written(category) if is_taken else exp.Literal.string(category)
        if value is not None:
            chain = chain.when(exp.EQ(this=column(name), expression=value), whole(position), copy=False)
    rest = _rest(name, attribute)
    return chain.else_(rest, copy=False) if chain.args["ifs"] else rest


def _with_joined_code(
    rows: exp.Select, axis: int, attribute: Attribute, dialect: Dialect, parameters: list[list[str]]
) -> exp.Select:
    """That of a category among many, looked up in a table of them."""
    declared = attribute.state_of or attribute
    if attribute.state_of is not None:
        code = _state(axis, attribute, is_read=is_there("position"))
    else:
        code = exp.func("COALESCE", column("position"), _rest(text_of(axis), attribute))
    found = exp.alias_(code, code_of(axis), quoted=True)
    is_it = exp.EQ(this=column(text_of(axis)), expression=column("category"))
    return joined(rows, declared.categories, is_it, found, dialect, parameters)


def _state_within(axis: int, attribute: Attribute, declared: Attribute) -> exp.Expr:
    """How a value reads as declared: a number by its ends, a category among few by comparison."""
    if declared.dates is not None:
        is_read = _is_in_range(column(number_of(axis)), declared.dates)
        return _state(axis, attribute, is_read=is_read, is_number=is_there(number_of(axis)))
    if not declared.is_numeric:
        named = [exp.Literal.string(category) for category in declared.categories]
        return _state(axis, attribute, is_read=exp.In(this=column(text_of(axis)), expressions=named))
    value, edges = column(number_of(axis)), declared.edges
    above = exp.GTE(this=value, expression=double(float(edges[0])))
    below = exp.LTE(this=value.copy(), expression=double(float(edges[-1])))
    return _state(axis, attribute, is_read=exp.And(this=above, expression=below), is_number=is_there(number_of(axis)))


def _state(axis: int, attribute: Attribute, *, is_read: exp.Expr, is_number: exp.Expr | None = None) -> exp.Expr:
    place = {state: whole(position) for position, state in enumerate(attribute.categories)}
    chain = exp.case().when(exp.Not(this=is_there(text_of(axis))), place[MISSING], copy=False)
    if is_number is not None:
        declared = attribute.state_of
        missing = declared.missing if declared is not None and declared.is_numeric else ()
        if (is_coded := is_missing_number(axis, missing)) is not None:
            chain = chain.when(is_coded, place[MISSING], copy=False)
        chain = chain.when(exp.Not(this=is_number), place[UNREADABLE], copy=False)
    return chain.when(is_read, place[AS_DECLARED], copy=False).else_(place[OUTSIDE], copy=False)


def _rest(name: str, attribute: Attribute) -> exp.Expr:
    """The code of a value that is no declared category, and of none.

    Args:
        name: of the column that has the value.
    """
    others = _by_rule(attribute.outside, attribute)
    if not attribute.missing_as:
        return others
    is_missing = exp.Is(this=column(name), expression=exp.null())
    return exp.case().when(is_missing, _by_rule(attribute.missing_as, attribute), copy=False).else_(others, copy=False)


def _by_rule(rule: str, attribute: Attribute) -> exp.Expr:
    """The code of the category that takes such values; null where they drop their row."""
    if rule == DROP:
        return exp.cast(exp.null(), exp.DataType.Type.BIGINT)
    return whole(attribute.categories.index(rule))


def _bin(value: exp.Expr, attribute: Attribute) -> exp.Expr:
    """The bin of a number: lower edge inclusive, upper exclusive, the last bin closed; null has a bin behind
    them, or is dropped."""
    edges = [float(edge) for edge in attribute.edges]
    inside = _search(value, edges, 0, attribute.ranges - 1)
    chain = exp.case()
    if attribute.missing_as:
        chain = chain.when(exp.Not(this=is_there(value.name)), whole(attribute.ranges), copy=False)
    if attribute.outside == CLAMP:
        return chain.when(is_there(value.name), inside, copy=False)
    above = exp.GTE(this=value.copy(), expression=double(edges[0]))
    below = exp.LTE(this=value.copy(), expression=double(edges[-1]))
    return chain.when(exp.And(this=above, expression=below), inside, copy=False)


def _bin_of_date(value: exp.Expr, attribute: Attribute, dates: Dates) -> exp.Expr:
    """The bin of a day or a second; null has a bin behind the others, or is dropped."""
    chain = exp.case()
    if attribute.missing_as:
        chain = chain.when(exp.Not(this=is_there(value.name)), whole(dates.size), copy=False)
    if dates.by is By.HOUR:
        inside = floor(_rest_of(value, SECONDS_OF_DAY) / double(3600.0))
    elif dates.by is By.WEEKDAY:
        # The first day that is counted from was a Thursday.
        days = as_double(exp.Floor(this=value.copy() / double(float(dates.unit))))
        inside = floor(_rest_of(exp.Paren(this=days + double(3.0)), 7))
    else:
        inside = _search(value, [float(edge) for edge in dates.edges], 0, dates.size - 1)
    if attribute.outside == CLAMP:
        return chain.when(is_there(value.name), inside, copy=False)
    return chain.when(_is_in_range(value, dates), inside, copy=False)


def _is_in_range(value: exp.Expr, dates: Dates) -> exp.Expr:
    begun = exp.GTE(this=value.copy(), expression=double(float(dates.lowest)))
    not_over = exp.LT(this=value.copy(), expression=double(float(dates.above)))
    return exp.And(this=begun, expression=not_over)


def _rest_of(value: exp.Expr, divisor: int) -> exp.Expr:
    """What is left after division by a whole number, from 0 to below it, of whole numbers below zero too."""
    times = as_double(exp.Floor(this=value.copy() / double(float(divisor))))
    return exp.Paren(this=value.copy() - times * double(float(divisor)))


def _search(value: exp.Expr, edges: list[float], low: int, high: int) -> exp.Expr:
    """The bin among low..high, clamped at both ends: a balanced chain of comparisons, or arithmetic."""
    if high - low >= _SHORT_CHAIN * _SHORT_CHAIN:
        return _equal_width(value, edges)
    if low == high:
        return whole(low)
    middle = (low + high + 1) // 2
    upper, lower = _search(value, edges, middle, high), _search(value, edges, low, middle - 1)
    is_upper = exp.GTE(this=value.copy(), expression=double(edges[middle]))
    return exp.case().when(is_upper, upper, copy=False).else_(lower, copy=False)


def _equal_width(value: exp.Expr, edges: list[float]) -> exp.Expr:
    """Thousands of bins must be of one width; then the bin is a division, clamped."""
    width = (edges[-1] - edges[0]) / (len(edges) - 1)
    if any(abs(high - low - width) > 1e-9 * abs(width) for low, high in pairwise(edges)):
        raise InvalidInput("edges", f"{len(edges) - 1:,} bins", "must be of equal width when there are so many")
    return floor(clamped((value - double(edges[0])) / double(width), 0.0, float(len(edges) - 2)))
