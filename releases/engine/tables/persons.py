"""Step 2 of columns that have one value a person: of each person one row, made from all of theirs.

Rows are grouped by the id, and every window is of one person, so no row of anybody else has a part in it. Sums are of
whole numbers, and where several values would do, the least one or the place in the declaration decides: so nothing
depends on the order in which a database reads rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from releases.engine.domain.attribute import DROP, LARGEST_POINT, Attribute, decimals_within
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
    **dict.fromkeys((Take.MAX, Take.ANY, Take.LAST, Take.MOST_FREQUENT), exp.Max),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class PersonFunction:
    """A function of all rows of a person.

    Attributes:
        alone: the column whose formula it is, with nothing around it: whose decimal places a sum has, and among whose
            categories a row's text is. None within an expression, where texts are as they are.
    """

    taken: PerPerson
    alone: Attribute | None

    @property
    def declared(self) -> Attribute | None:
        return self.alone and (self.alone.state_of or self.alone)

    @property
    def is_ranked(self) -> bool:
        """Whether one of a person's rows has the value: the first or the last of them, in some order."""
        return self.taken.take.is_in_time or self.taken.take is Take.MOST_FREQUENT

    @property
    def is_of_text(self) -> bool:
        return self.taken.of is not None and self.taken.of.type in (Type.TEXT, Type.TRUTH)

    @property
    def voting(self) -> Attribute | None:
        """How a row's text is read where its place among the categories decides: as declared, except that one without
        a value takes no part."""
        if self.declared is None or not (self.is_of_text and self.is_ranked):
            return None
        return replace(self.declared, formula=None, missing_as=DROP)

    @property
    def decimals(self) -> int:
        """The places that each row of a sum has."""
        return decimals_within(self.taken) if self.declared is None else self.declared.decimals


def taken_of(place: int) -> str:
    """A person's value: a number, a day, a second, or a text; of truths ``true`` or ``false``."""
    return f"taken_{place}"


def one_row_of_each(
    rows: exp.Select,
    asked: Mapping[int, PersonFunction],
    axes: Mapping[FileColumn, int],
    dialect: Dialect,
    parameters: list[list[str]],
) -> exp.Select:
    """One row of each person, with the values that are taken.

    Args:
        rows: with the value of each row in the columns of numbers and of texts, by place.
        asked: by place; the axes of the columns of the table are no places.
        axes: of the columns of the table.
    """
    voting = {place: read for place, each in asked.items() if (read := each.voting) is not None}
    rows = codes(rows, voting, dialect, parameters) if voting else rows
    ranked = {place: each for place, each in asked.items() if each.is_ranked}
    ranks = {_rank(place): _ranked(place, each, axes) for place, each in ranked.items()}
    ends = {_end(place): _end_of_person(place, each) for place, each in ranked.items()}
    for made in filter(None, (ranks, ends)):
        rows = step(rows, _named(made), dialect)
    values = {_value(place): _aggregate(place, each) for place, each in asked.items()}
    rows = step(rows, [column(UNIT), *_named(values)], dialect, keep=False).group_by(column(UNIT), copy=False)
    found = {taken_of(place): _found(place, each) for place, each in asked.items() if place not in voting}
    rows = step(rows, _named(found), dialect) if found else rows
    for place, read in voting.items():
        is_it = exp.EQ(this=column(_value(place)), expression=column("position"))
        text = exp.alias_(dialect.as_text(column("category")), taken_of(place), quoted=True)
        rows = joined(rows, read.categories, is_it, text, dialect, parameters)
    return rows


def _named(made: Mapping[str, exp.Expr]) -> list[exp.Expr]:
    return [exp.alias_(each, name, quoted=True) for name, each in made.items()]


def _rank(place: int) -> str:
    return f"rank_of_value_{place}"


def _end(place: int) -> str:
    return f"end_of_person_{place}"


def _value(place: int) -> str:
    return f"value_of_person_{place}"


def _given(place: int, asked: PersonFunction) -> exp.Column:
    """Where a row's value is: its place among the categories where that decides, else a number or a text."""
    if asked.voting is not None:
        return column(code_of(place))
    return column(text_of(place) if asked.is_of_text else number_of(place))


def _ranked(place: int, asked: PersonFunction, axes: Mapping[FileColumn, int]) -> exp.Expr:
    """What puts a person's rows in order: the day or the second of a row that has a value; or how many rows of the
    person have its value."""
    given = _given(place, asked)
    if asked.taken.by is not None:
        return exp.case().when(is_there(given.name), column(number_of(axes[asked.taken.by])), copy=False)
    return exp.Window(this=exp.Count(this=given, big_int=True), partition_by=[column(UNIT), given.copy()])


def _end_of_person(place: int, asked: PersonFunction) -> exp.Expr:
    """The first or the last of these among the rows of one person."""
    return exp.Window(this=_AGGREGATES[asked.taken.take](this=column(_rank(place))), partition_by=[column(UNIT)])


def _aggregate(place: int, asked: PersonFunction) -> exp.Expr:
    given, taken = _given(place, asked), asked.taken
    if taken.take is Take.COUNT:
        return exp.Count(this=_counted(given, taken), big_int=True)
    if taken.take is Take.SUM:
        return exp.Sum(this=exp.cast(_in_last_places(given, asked), exp.DataType.build("DECIMAL(18, 0)")))
    if asked.is_ranked:
        is_it = exp.EQ(this=column(_rank(place)), expression=column(_end(place)))
        return exp.Min(this=exp.case().when(is_it, given, copy=False))
    # Of truths, "false" comes before "true".
    return _AGGREGATES[taken.take](this=given)


def _counted(given: exp.Column, taken: PerPerson) -> exp.Expr:
    if taken.of is None:
        return exp.Star()
    if taken.of.type is not Type.TRUTH:
        return given
    is_true = exp.EQ(this=given, expression=exp.Literal.string("true"))
    return exp.case().when(is_true, whole(1), copy=False)


def _in_last_places(given: exp.Column, asked: PersonFunction) -> exp.Expr:
    """A row's value in units of the last place, clamped to its ends before the floor."""
    lowest, highest = (float(end.scaleb(asked.decimals)) for end in (asked.taken.lowest, asked.taken.highest))
    return floor(clamped(given * double(float(10**asked.decimals)) + double(0.5), lowest, highest))


def _found(place: int, asked: PersonFunction) -> exp.Expr:
    value = column(_value(place))
    if asked.taken.take is Take.COUNT:
        return as_double(value)
    if asked.taken.take is not Take.SUM:
        return value
    # As large as doubles hold every whole number; what a column declares is within.
    ends = {sign: exp.cast(exp.convert(sign * LARGEST_POINT), exp.DataType.build("DECIMAL(38, 0)")) for sign in (-1, 1)}
    within = exp.case().when(exp.LT(this=value, expression=ends[-1].copy()), ends[-1], copy=False)
    within = within.when(exp.GT(this=value.copy(), expression=ends[1].copy()), ends[1], copy=False)
    exact = exp.cast(within.else_(value.copy(), copy=False), exp.DataType.Type.BIGINT)
    return exp.Paren(this=as_double(exact) / double(float(10**asked.decimals)))
