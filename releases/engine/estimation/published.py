"""Rows from tables that somebody else published: a fit of counts, without any person's record.

Nothing here reads a dataset, spends a budget or promises anything about people: what the published tables tell about a
person, the rows tell too. The fit is the one that releases use: of all distributions that the tables allow, the one of
largest entropy where its cells fit in memory (`fit`), and else a mixture of products (`mixture_fit`).

A table's counts are taken to have the noise that its publisher states, or the rounding of whole numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isfinite, prod, sqrt

import numpy as np
from numpy.typing import NDArray

from releases.engine.domain.attribute import Attribute
from releases.engine.domain.columns import AttributeKind, is_plain
from releases.engine.domain.universe import Universe
from releases.engine.errors import InvalidInput
from releases.engine.estimation.fit import NoisyMarginal, fit_marginals
from releases.engine.estimation.mixture_fit import fit_mixture
from releases.engine.estimation.result import Component, Distribution, MixtureComponent
from releases.engine.noise.randomness import Randomness

#: The last column of a table.
COUNT = "count"
#: Of whole numbers: a number rounded to the nearest is off by this in standard deviation.
ROUNDING = 12**-0.5
#: Cells of the columns together, up to which all of them are held; and of one table.
MAX_CELLS, MAX_TABLE = 2_000_000, 5_000_000
#: Columns of one table: a mixture is fitted to no more.
MAX_COLUMNS = 3
#: Totals of two tables differ by no more than so many standard deviations.
_DEVIATIONS = 6
#: Of a mixture: as for a table of a clear signal (`mechanisms.mixture_fit`).
_COMPONENTS, _STEPS, _RATE, _STRENGTH = 400, 1000, 0.1, 0.1


@dataclass(frozen=True, kw_only=True)
class PublishedTable:
    """Counts by up to three columns.

    Attributes:
        source: where it is from, for messages.
        names: of the columns.
        counts: one axis a column.
    """

    source: str
    names: tuple[str, ...]
    counts: NDArray[np.float64]

    @staticmethod
    def read(source: str, lines: Iterable[Sequence[str]], universe: Universe) -> PublishedTable:
        """From the lines of a CSV file: names of columns and `count`, then a line a cell; cells left out count 0.

        Raises:
            InvalidInput: naming the line, the value and the rule.
        """
        head, *cells = [*lines] or [[]]
        names = columns_of(source, head)
        for name in names:
            if name not in universe.names:
                raise InvalidInput(f"{source}, first line", name, "must be a column of the schema")
        if universe.project(names).size > MAX_TABLE:
            raise InvalidInput(source, f"{universe.project(names).size:,} cells", f"must be at most {MAX_TABLE:,}")
        places = [{label: code for code, label in enumerate(universe[name].labels)} for name in names]
        counts = np.full([universe[name].size for name in names], np.nan)
        for number, line in enumerate(cells, start=2):
            at = f"{source}, line {number}"
            if len(line) != len(head):
                raise InvalidInput(at, ", ".join(line), f"must have {len(head)} values")
            for name, label, place in zip(names, line, places, strict=False):
                if label not in place:
                    raise InvalidInput(f"{at}, {name}", label, "must be one of the bins declared in the schema")
            cell = tuple(place[label] for label, place in zip(line, places, strict=False))
            if not np.isnan(counts[cell]):
                raise InvalidInput(at, ", ".join(line[:-1]), "must be a cell that no line before has")
            counts[cell] = _count(line[-1], f"{at}, {COUNT}")
        order = np.argsort(universe.axes(names))
        return PublishedTable(
            source=source,
            names=tuple(names[place] for place in order),
            counts=np.nan_to_num(counts).transpose(order),
        )


def columns_of(source: str, head: Sequence[str]) -> list[str]:
    """The columns that the first line of a table names.

    Raises:
        InvalidInput: it is no list of a few different columns and then `count`.
    """
    *names, last = head or [""]
    if last != COUNT or not 1 <= len(names) <= MAX_COLUMNS or len(set(names)) < len(names):
        rule = f'must be 1 to {MAX_COLUMNS} different columns and then "{COUNT}"'
        raise InvalidInput(f"{source}, first line", ", ".join(head), rule)
    return names


def universe_of(tables: Mapping[str, Sequence[Sequence[str]]]) -> Universe:
    """The columns that tables name, each with the values of its lines as categories, in their order.

    A published table lists what its columns can hold, so nothing else has to be declared.

    Args:
        tables: the lines of each, by its source.

    Raises:
        InvalidInput: as of `columns_of`; or naming the table and the value that is no category, or the column that is
            no name.
    """
    categories: dict[str, dict[str, str]] = {}
    for source, lines in tables.items():
        for place, name in enumerate(columns_of(source, lines[0] if lines else ())):
            values = categories.setdefault(name, {})
            for line in lines[1:]:
                if place < len(line):
                    values.setdefault(line[place], source)
    for name, values in categories.items():
        for value, source in values.items():
            if not is_plain(value):
                rule = "must be printable text without spaces around it, and not empty"
                raise InvalidInput(f"{source}, {name}", value, rule)
    attributes = [
        Attribute(name=name, kind=AttributeKind.CATEGORICAL, categories=tuple(values))
        for name, values in categories.items()
    ]
    return Universe(attributes=tuple(attributes))


def _count(text: str, field: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = inf
    if not isfinite(value) or abs(value) > 2**53:
        raise InvalidInput(field, text, "must be a number of people, at most 2^53")
    return value


def fit_published(
    universe: Universe, tables: Sequence[PublishedTable], *, deviation: float, rng: Randomness
) -> tuple[Distribution, float]:
    """A distribution over the columns that the tables name, and how many people they count.

    Args:
        tables: at least one.
        deviation: standard deviation of the noise on each count, as its publisher states it; 0 where there is none.
        rng: for the start of a mixture.

    Raises:
        InvalidInput: no table; a deviation below 0; tables that do not count the same people.
    """
    if not tables:
        raise InvalidInput("tables", 0, "must be at least one")
    if not 0 <= deviation < inf:
        raise InvalidInput("deviation", deviation, "must be 0 or more")
    of_cell = sqrt(deviation**2 + ROUNDING**2)
    total = _total(tables, of_cell)
    told = tuple(sorted({name for table in tables for name in table.names}, key=universe.axis))
    shape = universe.project(told).shape
    measured = [
        NoisyMarginal(
            axes=tuple(map(told.index, table.names)), table=table.counts, variance=of_cell**2, population=None
        )
        for table in tables
    ]
    if prod(shape) <= MAX_CELLS:
        fit = fit_marginals(shape, measured, total=total)
        return Distribution(components=(Component(names=told, weights=fit.weights),)), total
    mixture = fit_mixture(
        shape,
        [*measured, *_alone(measured, len(told))],
        rows=total,
        components=_COMPONENTS,
        strength=_STRENGTH,
        steps=_STEPS,
        rate=_RATE,
        rng=rng,
    )
    return Distribution(components=(MixtureComponent(names=told, mixture=mixture),)), total


def _total(tables: Sequence[PublishedTable], of_cell: float) -> float:
    """The number of people, by the tables with the fewest cells the most."""
    sums, sizes = np.array([table.counts.sum() for table in tables]), np.array([table.counts.size for table in tables])
    total = float(np.average(sums, weights=1 / sizes))
    for table, counted in zip(tables, sums.tolist(), strict=True):
        if abs(counted - total) > _DEVIATIONS * of_cell * sqrt(table.counts.size + min(sizes)) + 1:
            rule = f"must be near {total:,.0f}, as in the other tables: all tables have to count the same people"
            raise InvalidInput(table.source, f"a total of {counted:,.0f}", rule)
    if total < 1:
        raise InvalidInput("tables", f"a total of {total:,.0f}", "must count at least one person")
    return total


def _alone(measured: Sequence[NoisyMarginal], attributes: int) -> Iterable[NoisyMarginal]:
    """Of each attribute its marginal, by the smallest of the tables that hold it."""
    for axis in range(attributes):
        table = min((each for each in measured if axis in each.axes), key=lambda each: each.table.size)
        others = tuple(place for place, other in enumerate(table.axes) if other != axis)
        summed = table.table.sum(axis=others)
        variance = table.variance * table.table.size / summed.size
        yield NoisyMarginal(axes=(axis,), table=summed, variance=variance, population=table.population)
