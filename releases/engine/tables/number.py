"""Step 2: of numeric columns the number that the text writes, as a double; null where it writes none.

The cast is that of IEEE 754 to the nearest double, ties to even, in every database.
"""

from __future__ import annotations

from sqlglot import exp

from releases.engine.domain.universe import AttributeKind, Universe
from releases.engine.tables.dialects import Dialect, as_double, clamped, column, step
from releases.engine.tables.text import text_of

#: A number: plain digits with an optional point and a short exponent. Neither "nan", "inf" nor hexadecimal is one,
#: and nothing that matches can overflow a double, so the cast never fails.
NUMBER_GRAMMAR = r"^[+-]?([0-9]{1,40}([.][0-9]{0,40})?|[.][0-9]{1,40})([eE][+-]?[0-9]{1,2})?$"
#: Beyond it a double has no places after the point.
_ALL_WHOLE = float(1 << 53)


def number_of(axis: int) -> str:
    return f"number_{axis}"


def numbers(rows: exp.Select, universe: Universe, dialect: Dialect) -> exp.Select:
    declared = [each.state_of or each for each in universe.attributes]
    numeric = {axis: each.kind for axis, each in enumerate(declared) if each.is_numeric}
    if not numeric:
        return rows
    read = {axis: number_of(axis) if kind is AttributeKind.NUMBER else _any(axis) for axis, kind in numeric.items()}
    cast = [exp.alias_(_number(column(text_of(axis)), dialect), name, quoted=True) for axis, name in read.items()]
    rows = step(rows, cast, dialect)
    checked = [
        exp.alias_(_whole(column(_any(axis))), number_of(axis), quoted=True)
        for axis, kind in numeric.items()
        if kind is AttributeKind.INTEGER
    ]
    return step(rows, checked, dialect) if checked else rows


def _any(axis: int) -> str:
    return f"any_number_{axis}"


def _number(text: exp.Expr, dialect: Dialect) -> exp.Expr:
    return exp.case().when(dialect.matches(text, NUMBER_GRAMMAR), dialect.read_double(text.copy()), copy=False)


def _whole(number: exp.Expr) -> exp.Expr:
    """The number where it is a whole one, else null.

    From 2^53 on every double is whole. They are clamped before the floor, which databases cast to 64 bits: one number
    beyond those must not end a run. What is compared is clamped, and not the number.
    """
    within = clamped(number, -_ALL_WHOLE, _ALL_WHOLE)
    is_whole = exp.EQ(this=within, expression=as_double(exp.Floor(this=within.copy())))
    return exp.case().when(is_whole, number.copy(), copy=False)
