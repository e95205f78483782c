"""Step 2: of numeric columns the number that the text writes, as a double; null where it writes none, and where it is
that of a missing code.

A column of numbers by its type is taken as it is, where its text would write the same double.

The cast is that of IEEE 754 to the nearest double, ties to even, in every database. A table has one form of
numbers: its decimal sign, and perhaps a sign between thousands. The text is rewritten here and nowhere else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from releases.engine.domain.columns import AttributeKind, FileColumn
from releases.engine.tables.dialects import Dialect, as_double, clamped, column, double, step
from releases.engine.tables.text import text_of
from releases.engine.tables.typed import ColumnType

#: A number: plain digits with an optional point and a short exponent. Neither "nan", "inf" nor hexadecimal is one,
#: and nothing that matches can overflow a double, so the cast never fails.
NUMBER_GRAMMAR = r"^[+-]?([0-9]{1,40}([.][0-9]{0,40})?|[.][0-9]{1,40})([eE][+-]?[0-9]{1,2})?$"
#: What may stand between thousands, by what is declared.
THOUSANDS = {",": ",", ".": ".", "'": "'\u2019", "space": " \u00a0\u202f"}
#: The text of a double from here on, or below here, has an exponent of three digits, and is no number.
_LONG_EXPONENT, _LONG_NEGATIVE_EXPONENT = 1e100, 1e-99
#: Beyond it a double has no places after the point.
_ALL_WHOLE = float(1 << 53)


@dataclass(frozen=True, kw_only=True, slots=True)
class NumberForm:
    """How the numbers of a table are written.

    Attributes:
        decimal: a point or a comma.
        thousands: one of `THOUSANDS`, or empty; groups have three digits, and a number may also be without them.
    """

    decimal: str = "."
    thousands: str = ""

    @property
    def grammar(self) -> str:
        whole = "[0-9]{1,40}"
        if self.thousands:
            whole = f"({whole}|[0-9]{{1,3}}([{THOUSANDS[self.thousands]}][0-9]{{3}}){{1,12}})"
        return NUMBER_GRAMMAR.replace("[.]", f"[{self.decimal}]").replace("[0-9]{1,40}", whole, 1)

    @property
    def rewritten(self) -> list[tuple[str, str]]:
        """What is replaced, in this order, in text that matches the grammar, to make a number of the plain form."""
        signs = [(sign, "") for sign in THOUSANDS.get(self.thousands, "")]
        return signs if self.decimal == "." else [*signs, (self.decimal, ".")]


PLAIN = NumberForm()


def number_of(axis: int) -> str:
    return f"number_{axis}"


def is_number(text: str) -> bool:
    return re.fullmatch(NUMBER_GRAMMAR, text) is not None


def numbers(
    rows: exp.Select,
    columns: Mapping[int, FileColumn],
    dialect: Dialect,
    form: NumberForm = PLAIN,
    *,
    taken: Mapping[int, ColumnType],
) -> exp.Select:
    """The rows with the number of each numeric column.

    Args:
        taken: the axes of columns whose numbers the rows have already, from `typed_numbers`.
    """
    numeric = {axis: each for axis, each in columns.items() if each.is_numeric}
    cast = [
        exp.alias_(_number(column(text_of(axis)), dialect, form), _first_name(axis, each, None), quoted=True)
        for axis, each in numeric.items()
        if axis not in taken
    ]
    rows = step(rows, cast, dialect) if cast else rows
    checked = [
        exp.alias_(_checked(column(_any(axis)), each, taken.get(axis)), number_of(axis), quoted=True)
        for axis, each in numeric.items()
        if _is_checked(each, taken.get(axis))
    ]
    return step(rows, checked, dialect) if checked else rows


def typed_numbers(columns: Mapping[int, FileColumn], taken: Mapping[int, ColumnType]) -> list[exp.Expr]:
    """The numbers of numeric columns that are taken by their type, as doubles."""
    return [
        exp.alias_(_of_type(column(each.name), taken[axis]), _first_name(axis, each, taken[axis]), quoted=True)
        for axis, each in columns.items()
        if each.is_numeric and axis in taken
    ]


def is_missing_number(axis: int, missing: Sequence[str]) -> exp.Expr | None:
    """Whether a number is one of the missing codes, however it is written; None where no code is a number."""
    if not _codes(missing):
        return None
    return exp.In(this=column(_any(axis)), expressions=[double(code) for code in _codes(missing)])


def _any(axis: int) -> str:
    return f"any_number_{axis}"


def _codes(missing: Sequence[str]) -> list[float]:
    """The missing codes that are numbers: a table may write -9 as -9.0."""
    return sorted({float(each) for each in missing if is_number(each)})


def _first_name(axis: int, read: FileColumn, type_: ColumnType | None) -> str:
    return _any(axis) if _is_checked(read, type_) else number_of(axis)


def _is_checked(read: FileColumn, type_: ColumnType | None) -> bool:
    """Whether not every number that is written is one of the column."""
    return _may_have_fractions(read, type_) or bool(_codes(read.missing))


def _may_have_fractions(read: FileColumn, type_: ColumnType | None) -> bool:
    return read.kind is AttributeKind.INTEGER and type_ is not ColumnType.WHOLE


def _checked(number: exp.Expr, declared: FileColumn, type_: ColumnType | None) -> exp.Expr:
    """A missing code that is the text of a number is that number, so the number alone is asked."""
    read = whole_number(number) if _may_have_fractions(declared, type_) else number
    for code in _codes(declared.missing):
        read = exp.Nullif(this=read, expression=double(code))
    return read


def _number(text: exp.Expr, dialect: Dialect, form: NumberForm) -> exp.Expr:
    plain: exp.Expr = text.copy()
    for sign, instead in form.rewritten:
        plain = exp.Anonymous(this="REPLACE", expressions=[plain, *map(exp.Literal.string, (sign, instead))])
    return exp.case().when(dialect.matches(text, form.grammar), dialect.read_double(plain), copy=False)


def _of_type(given: exp.Expr, type_: ColumnType) -> exp.Expr:
    if type_ is ColumnType.WHOLE:
        return as_double(given)
    if type_ is ColumnType.DECIMAL:
        # PostgreSQL has a decimal fraction that is none.
        return exp.Nullif(this=as_double(given), expression=double(float("nan")))
    size = exp.Abs(this=given.copy())
    is_short = exp.And(
        this=exp.GTE(this=size, expression=double(_LONG_NEGATIVE_EXPONENT)),
        # Not of what is no number either: every database has it behind all others.
        expression=exp.LT(this=size.copy(), expression=double(_LONG_EXPONENT)),
    )
    is_number = exp.Or(this=exp.EQ(this=given.copy(), expression=double(0.0)), expression=is_short)
    return exp.case().when(is_number, given, copy=False)


def whole_number(number: exp.Expr) -> exp.Expr:
    """The number where it is a whole one, else null.

    From 2^53 on every double is whole. They are clamped before the floor, which databases cast to 64 bits: one number
    beyond those must not end a run. What is compared is clamped, and not the number.
    """
    within = clamped(number, -_ALL_WHOLE, _ALL_WHOLE)
    is_whole = exp.EQ(this=within, expression=as_double(exp.Floor(this=within.copy())))
    return exp.case().when(is_whole, number.copy(), copy=False)
