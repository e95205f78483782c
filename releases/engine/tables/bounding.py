"""Step 4: at most so many rows of each person, before anything is counted.

Which rows are kept depends on that person's rows alone, so a neighbour changes nobody else's. Rows that are alike in
the whole order are interchangeable.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from sqlglot import exp

from releases.engine.domain.attribute import Attribute
from releases.engine.domain.schema import Schema
from releases.engine.domain.universe import Universe
from releases.engine.tables.code import code_of
from releases.engine.tables.dialects import Dialect, clamped, column, double, filtered, floor, is_there, step, whole
from releases.engine.tables.number import number_of
from releases.engine.tables.text import UNIT, text_of

#: A prime below 2**20, so that the product of two remainders fits.
_SCRAMBLE = 1_000_003
_RANK = "rank_of_row"


def value_of(axis: int) -> str:
    return f"value_{axis}"


def fixed_point(axis: int, attribute: Attribute) -> exp.Expr:
    """A category's position, or a number in units of its last place, clamped to its range; behind all of them what is
    no number and counts. Of exact dates the day or the second, which is a whole number of its range likewise."""
    if not attribute.has_values:
        return column(code_of(axis))
    scaled = column(number_of(axis)) * double(float(10**attribute.decimals)) + double(0.5)
    # Clamped before the floor, as in `number`; the ends are whole, so the order does not matter.
    value = floor(clamped(scaled, float(attribute.lowest), float(attribute.highest)))
    if not attribute.missing_as:
        return value
    return exp.case().when(is_there(number_of(axis)), value, copy=False).else_(whole(attribute.highest + 1), copy=False)


def bounded_by_values(rows: exp.Select, schema: Schema, dialect: Dialect) -> exp.Select:
    """Each person's first rows by a fixed scramble of a row's values, which favours none, and then by these and their
    codes: codes alone would leave it to the database which of two numbers in one bin counts.
    """
    attributes, own_rows = schema.universe.attributes, schema.universe.own_rows
    values = [
        exp.alias_(_ordered_by(axis, each, own_rows=own_rows), value_of(axis), quoted=True)
        for axis, each in enumerate(attributes)
    ]
    order = [
        _scramble(schema.universe),
        *(column(value_of(axis)) for axis in range(len(attributes))),
        *(column(code_of(axis)) for axis in range(len(attributes))),
    ]
    return _bounded(step(rows, values, dialect), order, schema, dialect)


def _ordered_by(axis: int, attribute: Attribute, *, own_rows: bool) -> exp.Expr:
    """Where tables have own rows, some rows have no value in a column: they are behind those that have."""
    value = fixed_point(axis, attribute)
    if not (own_rows and attribute.may_drop):
        return value
    behind = attribute.highest + 1 if attribute.has_values else attribute.size
    return exp.func("COALESCE", value, whole(behind))


def bounded_by_text(rows: exp.Select, axis: int, schema: Schema, dialect: Dialect) -> exp.Select:
    """Each person's first rows by the hash of one column's text, which prefers no place in the alphabet."""
    return _bounded(rows, [dialect.sha256(column(text_of(axis))), column(text_of(axis))], schema, dialect)


def _bounded(rows: exp.Select, order: Sequence[exp.Expr], schema: Schema, dialect: Dialect) -> exp.Select:
    ordered = exp.Order(expressions=[exp.Ordered(this=each, nulls_first=False) for each in order])
    rank = exp.Window(this=exp.RowNumber(), partition_by=[column(UNIT)], order=ordered)
    ranked = step(rows, [exp.alias_(rank, _RANK, quoted=True)], dialect)
    return filtered(ranked, [exp.LTE(this=column(_RANK), expression=whole(schema.rows_of_unit))], dialect)


def _scramble(universe: Universe) -> exp.Expr:
    """Remainders keep the sign of what is divided, in every database."""
    terms = [
        _remainder(_remainder(column(value_of(axis))) * whole(_multiplier(each.name)))
        for axis, each in enumerate(universe.attributes)
    ]
    return _remainder(_total(terms))


def _total(terms: Sequence[exp.Expr]) -> exp.Expr:
    """A sum whose depth grows with the logarithm of its length: databases refuse deep expressions."""
    if len(terms) == 1:
        return terms[0]
    half = len(terms) // 2
    return exp.Paren(this=exp.Add(this=_total(terms[:half]), expression=_total(terms[half:])))


def _remainder(value: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this="MOD", expressions=[value, whole(_SCRAMBLE)])


def _multiplier(name: str) -> int:
    return 1 + int.from_bytes(hashlib.sha256(name.encode()).digest()[:4]) % (_SCRAMBLE - 1)
