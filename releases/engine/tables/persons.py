"""Step 2 of columns that have one value a person: of each person one row, made from all of theirs.

Rows are grouped by the id, and every window is of one person, so no row of anybody else has a part in it. Sums are of
whole numbers, and where several values would do, their number or their place in the declaration decides: so nothing
depends on the order in which a database reads rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sqlglot import exp

from releases.engine.domain.attribute import DROP, LARGEST_POINT, Attribute
from releases.engine.domain.columns import FileColumn
from releases.engine.domain.formula_tree import PerPerson, Take, Type
from releases.engine.tables.code import code_of, codes
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
from releases.engine.tables.number import number_of
from releases.engine.tables.text import UNIT, text_of

_AGGREGATES: dict[Take, type[exp.AggFunc]] = {
    **dict.fromkeys((Take.MIN, Take.ALL, Take.FIRST), exp.Min),
    **dict.fromkeys((Take.MAX, Take.ANY, Take.LAST), exp.Max),
}


def taken_of(axis: int) -> str:
    """A person's value: a number, a day, or a text."""
    return f"taken_{axis}"


def one_row_of_each(
    rows: exp.Select,
    attributes: Mapping[int, Attribute],
    axes: Mapping[FileColumn, int],
    dialect: Dialect,
    parameters: list[list[str]],
) -> exp.Select:
    """One row of each person, with the values that are taken.

    Args:
        rows: with the value of each row in the columns of numbers and of texts.
        attributes: of persons, by axis.
        axes: of the columns of the table.
    """
    taken = {axis: each.per_person for axis, each in attributes.items() if each.per_person is not None}
    voting = {axis: _voting(attributes[axis]) for axis, each in taken.items() if each.is_of_categories}
    rows = codes(rows, voting, dialect, parameters) if voting else rows
    when = {_when(axis): _dated(axis, each, axes[each.by]) for axis, each in taken.items() if each.by is not None}
    windows = {_window(axis): window for axis, each in taken.items() if (window := _window_of(axis, each)) is not None}
    for made in (when, windows):
        rows = step(rows, _named(made), dialect) if made else rows
    values = {_value(axis): _aggregate(axis, each, attributes[axis]) for axis, each in taken.items()}
    rows = step(rows, [column(UNIT), *_named(values)], dialect, keep=False).group_by(column(UNIT), copy=False)
    found = {taken_of(axis): _found(axis, each, attributes[axis]) for axis, each in taken.items() if axis not in voting}
    rows = step(rows, _named(found), dialect) if found else rows
    for axis, each in voting.items():
        is_it = exp.EQ(this=_place(axis, taken[axis], each), expression=column("position"))
        text = exp.alias_(dialect.as_text(column("category")), taken_of(axis), quoted=True)
        rows = joined(rows, each.categories, is_it, text, dialect, parameters)
    return rows


def _voting(attribute: Attribute) -> Attribute:
    """How a row's text is read: as declared, except that one without a value takes no part."""
    declared = attribute.state_of or attribute
    return replace(declared, formula=None, missing_as=DROP)


def _named(made: Mapping[str, exp.Expr]) -> list[exp.Expr]:
    return [exp.alias_(each, name, quoted=True) for name, each in made.items()]


def _when(axis: int) -> str:
    return f"when_{axis}"


def _window(axis: int) -> str:
    return f"window_{axis}"


def _value(axis: int) -> str:
    return f"value_of_person_{axis}"


def _given(axis: int, taken: PerPerson) -> exp.Column:
    """Where a row's value is: its place among the categories where that decides, else a number or a text."""
    if taken.is_of_categories:
        return column(code_of(axis))
    is_text = taken.of is not None and taken.of.type in (Type.TEXT, Type.TRUTH)
    return column(text_of(axis) if is_text else number_of(axis))


def _dated(axis: int, taken: PerPerson, axis_of_date: int) -> exp.Expr:
    """The day or the second of a row that has a value."""
    return exp.case().when(is_there(_given(axis, taken).name), column(number_of(axis_of_date)), copy=False)


def _window_of(axis: int, taken: PerPerson) -> exp.Expr | None:
    """Of a row the first or the last day of its person; or how many rows of its person have its category."""
    if taken.is_of_categories and not taken.take.is_in_time:
        votes = exp.Count(this=column(code_of(axis)), big_int=True)
        return exp.Window(this=votes, partition_by=[column(UNIT), column(code_of(axis))])
    if not taken.take.is_in_time:
        return None
    return exp.Window(this=_AGGREGATES[taken.take](this=column(_when(axis))), partition_by=[column(UNIT)])


def _aggregate(axis: int, taken: PerPerson, attribute: Attribute) -> exp.Expr:
    given = _given(axis, taken)
    if taken.take is Take.COUNT:
        return exp.Count(this=_counted(given, taken), big_int=True)
    if taken.take is Take.SUM:
        return exp.Sum(this=exp.cast(_in_last_places(given, taken, attribute), exp.DataType.build("DECIMAL(18, 0)")))
    if taken.take is Take.MOST_FREQUENT:
        # The most votes; of several such categories the one that is declared first has the highest number.
        bins = (attribute.state_of or attribute).size
        votes = column(_window(axis)) * whole(bins) + (whole(bins - 1) - given)
        return exp.Max(this=exp.case().when(is_there(given.name), votes, copy=False))
    if taken.take.is_in_time:
        is_then = exp.EQ(this=column(_when(axis)), expression=column(_window(axis)))
        return exp.Min(this=exp.case().when(is_then, given, copy=False))
    # Of truths, "false" comes before "true".
    return _AGGREGATES[taken.take](this=given)


def _counted(given: exp.Column, taken: PerPerson) -> exp.Expr:
    if taken.of is None:
        return exp.Star()
    if taken.of.type is not Type.TRUTH:
        return given
    is_true = exp.EQ(this=given, expression=exp.Literal.string("true"))
    return exp.case().when(is_true, whole(1), copy=False)


def _in_last_places(given: exp.Column, taken: PerPerson, attribute: Attribute) -> exp.Expr:
    """A row's value in units of the column's last place, clamped to its ends before the floor."""
    decimals = (attribute.state_of or attribute).decimals
    lowest, highest = (float(end.scaleb(decimals)) for end in (taken.lowest, taken.highest))
    return floor(clamped(given * double(float(10**decimals)) + double(0.5), lowest, highest))


def _place(axis: int, taken: PerPerson, declared: Attribute) -> exp.Expr:
    """The place of a person's category."""
    value = column(_value(axis))
    if taken.take.is_in_time:
        return value
    return whole(declared.size - 1) - exp.Anonymous(this="MOD", expressions=[value, whole(declared.size)])


def _found(axis: int, taken: PerPerson, attribute: Attribute) -> exp.Expr:
    value = column(_value(axis))
    if taken.take is Take.COUNT:
        return as_double(value)
    if taken.take is not Take.SUM:
        return value
    # As large as doubles hold every whole number; what a column declares is within.
    ends = {sign: exp.cast(exp.convert(sign * LARGEST_POINT), exp.DataType.build("DECIMAL(38, 0)")) for sign in (-1, 1)}
    within = exp.case().when(exp.LT(this=value, expression=ends[-1].copy()), ends[-1], copy=False)
    within = within.when(exp.GT(this=value.copy(), expression=ends[1].copy()), ends[1], copy=False)
    exact = exp.cast(within.else_(value.copy(), copy=False), exp.DataType.Type.BIGINT)
    return exp.Paren(this=as_double(exact) / double(float(10 ** (attribute.state_of or attribute).decimals)))
