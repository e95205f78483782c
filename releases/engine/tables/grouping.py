"""Step 5: counts of rows, by cells of marginals or by values."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import prod

from sqlglot import exp

from releases.engine.tables.code import code_of
from releases.engine.tables.dialects import CELL, Dialect, column, filtered, is_there, number_of_rows, step, whole

#: Marginals that one statement counts: PostgreSQL takes 4,096.
MOST_SETS = 256


def by_cells(
    rows: exp.Select, sets: Sequence[tuple[int, ...]], shape: Sequence[int], dialect: Dialect, *, own_rows: bool
) -> exp.Select:
    """The rows in each cell of several marginals, each given by its axes, in one reading: the cell's number, and the
    count.

    Cells are numbered through all marginals, each in the order of its axes with the last one fastest. So a marginal is
    grouped by one whole number: by several columns of unknown statistics, PostgreSQL would sort all rows for each.

    Args:
        rows: each of which has the codes of all axes, except with `own_rows`.
        shape: bins of each axis.
        own_rows: whether a row counts in those marginals alone of which it has all codes: without one, it has no cell.
    """
    cells = [column(f"cell_{place}") for place in range(len(sets))]
    named = [
        exp.alias_(_cell(axes, shape, first), each.name, quoted=True)
        for axes, first, each in zip(sets, first_cells(sets, shape), cells, strict=True)
    ]
    grouped = dialect.grouped(step(rows, named, dialect, keep=False), cells)
    return filtered(grouped, [is_there(CELL)], dialect) if own_rows else grouped


def first_cells(sets: Sequence[tuple[int, ...]], shape: Sequence[int]) -> list[int]:
    """The number of each marginal's first cell."""
    return list(accumulate((prod(shape[axis] for axis in axes) for axes in sets[:-1]), initial=0))


def _cell(axes: Sequence[int], shape: Sequence[int], first: int) -> exp.Expr:
    cell = whole(first)
    for place, axis in enumerate(axes):
        stride = prod(shape[after] for after in axes[place + 1 :])
        cell = cell + column(code_of(axis)) * whole(stride)
    return cell


def by_values(rows: exp.Select, values: Sequence[exp.Expr], dialect: Dialect) -> exp.Select:
    """The rows of each combination of values: these, and the count."""
    names = [f"by_{place}" for place in range(len(values))]
    named = [exp.alias_(value, name, quoted=True) for name, value in zip(names, values, strict=True)]
    by = [column(name) for name in names]
    grouped = step(step(rows, named, dialect, keep=False), [*by, number_of_rows()], dialect, keep=False)
    return grouped.group_by(*(each.copy() for each in by), copy=False)


def by_text(rows: exp.Select, text: exp.Expr, dialect: Dialect) -> exp.Select:
    """The rows of each text: it, and the count."""
    named = [exp.alias_(text, "text", quoted=True), exp.alias_(dialect.identity(text.copy()), "key", quoted=True)]
    selected = [exp.Min(this=column("text")), number_of_rows()]
    grouped = step(step(rows, named, dialect, keep=False), selected, dialect, keep=False)
    return grouped.group_by(column("key"), copy=False)
