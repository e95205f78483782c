"""Which tables to put noise on, where those asked for can be added up from fewer and larger ones.

One row changes one cell of each table, so noise on each of m tables has a scale of m times that on one. Fewer tables
have less noise in a cell, and a table that is added up from a larger one has the noise of several cells. All tables of
three of seven columns lie in twenty of four columns. There the scale is 20 and not 35, and where the fourth column has
two values, an answer adds up two cells; what tables have in common is taken from all of them.

The designs that are compared: to each table asked for the k columns of fewest values are joined, k = 0, 1, ..., and
a table that another one contains is left out. Only columns that tables asked for connect are joined, so that what is
fitted to the tables is as large as before. That of the least largest variance by least squares (`least_squares`) is
taken. All follows from the declared columns and the questions.

Privacy: that of noise on the larger tables as if they were asked for, calibrated to their sensitivity
(`Workload.sensitivity`). All else is post-processing. Every table counts the rows that those asked for count, as its
columns are among theirs, and where tables count rows of their own there is no such design.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod

from releases.engine.bounds.combinations import DISCRETE_LAPLACE
from releases.engine.estimation.components import connected_parts
from releases.engine.mechanisms.least_squares import LeastSquares
from releases.engine.mechanisms.level_squares import LevelSquares
from releases.engine.workload.queries import Marginal, Workload
from releases.engine.workload.residuals import Names

#: No more cells get noise, unless the tables asked for have more.
_MAX_CELLS = 1_000_000
#: Of the variance: a difference that is no rounding.
_BETTER = 1 - 1e-9
#: Residuals of tables asked for, times designs compared: about half a second.
_MAX_WORK = 20_000


@lru_cache(maxsize=64)
def larger_tables(workload: Workload) -> Workload | None:
    """The tables to put noise on; None where those asked for are best, or nothing is known of others.

    Args:
        workload: of questions of one weight.
    """
    universe = workload.universe
    if universe.own_rows or universe.counts_apart or workload.is_weighted:
        return None
    if not LeastSquares.can_combine(workload) or LevelSquares.can_combine(workload):
        return None
    designs = 1 + len(workload.columns)
    if designs * sum(1 << len(family.attributes) for family in workload.families) > _MAX_WORK:
        return None
    asked = workload.marginals
    found = {asked: _most_variance(workload, asked)}
    for count in range(designs):
        names = _joined(workload, count)
        cells = sum(prod(universe[name].size for name in table) for table in names)
        if names in found or cells > max(_MAX_CELLS, workload.size):
            continue
        if LeastSquares.can_combine(_of(workload, names)):
            found[names] = _most_variance(workload, names)
    best = min(found, key=lambda names: found[names])
    return _of(workload, best) if found[best] < _BETTER * found[asked] else None


def _of(workload: Workload, tables: tuple[Names, ...]) -> Workload:
    return Workload(universe=workload.universe, families=tuple(Marginal(attributes=names) for names in tables))


def _most_variance(workload: Workload, tables: tuple[Names, ...]) -> float:
    """The largest variance of an answer, in units of that of noise on one table alone."""
    variances = (float(len(tables)) ** 2,) * len(tables)
    squares = LeastSquares(workload=workload, measured=_of(workload, tables), law=DISCRETE_LAPLACE, variances=variances)
    return squares.most_variance()


def _joined(workload: Workload, count: int) -> tuple[Names, ...]:
    """The tables with the columns of fewest values joined to each, so many of all that are asked about."""
    universe = workload.universe
    fewest = sorted(workload.columns, key=lambda name: (universe[name].size, universe.axis(name)))[:count]
    sets = [
        frozenset(names) | (set(fewest) & set(part.universe.names))
        for part in connected_parts(workload)
        for names in part.asked
    ]
    largest = [each for each in dict.fromkeys(sets) if not any(each < other for other in sets)]
    return tuple(tuple(sorted(each, key=universe.axis)) for each in largest)
