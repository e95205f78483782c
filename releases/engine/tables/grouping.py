"""Step 5: counts of rows, by cells of marginals or by values."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from releases.engine.tables.code import code_of
from releases.engine.tables.dialects import Dialect, column, step, whole

#: Marginals that one statement counts: PostgreSQL takes 4,096.
MOST_SETS = 256


def by_codes(rows: exp.Select, sets: Sequence[tuple[int, ...]], dialect: Dialect) -> exp.Select:
    """The rows in each cell of several marginals, each given by its axes, in one reading.

    Of each axis that some marginal has the code, or -1 where the group's marginal has not, in ascending order; and the
    count. By which codes are there one sees whose cell it is, so no two sets may be alike.
    """
    used = [column(code_of(axis)) for axis in sorted({axis for each in sets for axis in each})]
    named = step(rows, [each.copy() for each in used], dialect, keep=False)
    counted = [exp.func("COALESCE", each, whole(-1)) for each in used]
    by = exp.GroupingSets(
        expressions=[exp.Tuple(expressions=[column(code_of(axis)) for axis in each]) for each in sets]
    )
    return step(named, [*counted, _rows()], dialect, keep=False).group_by(by, copy=False)


def by_values(rows: exp.Select, values: Sequence[exp.Expr], dialect: Dialect) -> exp.Select:
    """The rows of each combination of values: these, and the count."""
    names = [f"by_{place}" for place in range(len(values))]
    named = [exp.alias_(value, name, quoted=True) for name, value in zip(names, values, strict=True)]
    by = [column(name) for name in names]
    grouped = step(step(rows, named, dialect, keep=False), [*by, _rows()], dialect, keep=False)
    return grouped.group_by(*(each.copy() for each in by), copy=False)


def _rows() -> exp.Expr:
    return exp.Count(this=exp.Star(), big_int=True)
