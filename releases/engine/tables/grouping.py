"""Step 5: counts of rows, by cells of marginals or by values."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from sqlglot import exp

from releases.engine.domain.universe import Universe
from releases.engine.tables.bounding import total
from releases.engine.tables.code import code_of
from releases.engine.tables.dialects import Dialect, column, step, whole

#: Marginals that one statement counts: PostgreSQL takes 4,096.
MOST_SETS = 256


def by_cells(rows: exp.Select, universe: Universe, sets: Sequence[tuple[str, ...]], dialect: Dialect) -> exp.Select:
    """The rows in each cell of each marginal, in one reading: the marginal's position, the cell's number, the count."""
    numbered = [exp.alias_(_cell(universe, names), _cell_of(place), quoted=True) for place, names in enumerate(sets)]
    cells = [column(_cell_of(place)) for place in range(len(sets))]
    which = exp.case()
    for place, cell in enumerate(cells):
        # Of all cells' numbers one is there in each group.
        which = which.when(exp.Not(this=exp.Is(this=cell.copy(), expression=exp.null())), whole(place), copy=False)
    found = exp.func("COALESCE", *cells, whole(0))
    counted = [which.else_(whole(0), copy=False), found, _rows()]
    grouped = step(step(rows, numbered, dialect, keep=False), counted, dialect, keep=False)
    by = exp.GroupingSets(expressions=[exp.Tuple(expressions=[cell.copy()]) for cell in cells])
    return grouped.group_by(by, copy=False)


def by_values(rows: exp.Select, values: Sequence[exp.Expr], dialect: Dialect) -> exp.Select:
    """The rows of each combination of values: these, and the count."""
    names = [f"by_{place}" for place in range(len(values))]
    named = [exp.alias_(value, name, quoted=True) for name, value in zip(names, values, strict=True)]
    by = [column(name) for name in names]
    grouped = step(step(rows, named, dialect, keep=False), [*by, _rows()], dialect, keep=False)
    return grouped.group_by(*(each.copy() for each in by), copy=False)


def _rows() -> exp.Expr:
    return exp.Count(this=exp.Star(), big_int=True)


def _cell_of(place: int) -> str:
    return f"cell_{place}"


def _cell(universe: Universe, names: tuple[str, ...]) -> exp.Expr:
    """The last attribute fastest."""
    shape = universe.project(names).shape
    terms = [column(code_of(universe.axis(name))) * whole(prod(shape[place + 1 :])) for place, name in enumerate(names)]
    return total(terms)
