"""Counts: what a mechanism may see of a table, and the dense histogram over a universe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import prod
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from releases.engine.domain.attribute import Attribute
from releases.engine.domain.dates import SECONDS_OF_DAY, By, Dates
from releases.engine.domain.population import Population
from releases.engine.domain.universe import Universe
from releases.engine.errors import InvalidInput
from releases.engine.tables.possible import clear_impossible, is_impossible, named_bins

#: A dense histogram of more cells than this is not offered (8 bytes a cell, two at a time).
MAX_DENSE_CELLS = 100_000_000


@runtime_checkable
class Counts(Protocol):
    """The private table as mechanisms see it: exact counts over declared bins.

    Implementations are `Histogram`, `Rows` and `CountsApart` here and `TableCounts` in ``query.py``. Only `Plan.run`
    calls them.
    """

    @property
    def universe(self) -> Universe: ...

    @property
    def population(self) -> Population | None:
        """What is counted; None of counts that are made up, which bound nobody's rows."""
        ...

    def marginal(self, names: tuple[str, ...]) -> NDArray[np.int64]:
        """The exact counts over the named attributes, one axis each, in the order named."""
        ...

    def marginals(self, sets: Sequence[tuple[str, ...]]) -> list[NDArray[np.int64]]:
        """Several marginals, each as `marginal` has it; a table is read once for all of them."""
        ...

    def histogram(self) -> NDArray[np.int64]:
        """The exact counts over the whole universe, shape `universe.shape`."""
        ...

    def tally(self, names: tuple[str, ...]) -> Tally:
        """How many rows have each combination of values of the named attributes."""
        ...

    def texts(self, name: str) -> Texts:
        """How many rows have each text in a categorical column, as it stands in the table, declared or not."""
        ...


@dataclass(frozen=True, kw_only=True)
class Tally:
    """Distinct combinations of values, and how many rows have each. Exact, and as private as the table.

    Attributes:
        values: for each attribute an array with one entry a combination: the position of a category, or a number in
            units of its last place (`Attribute.decimals`), clamped to its range; of exact dates the day or the second.
        counts: how many rows, above 0.
    """

    values: tuple[NDArray[np.int64], ...]
    counts: NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Texts:
    """Distinct texts of one column, and how many rows have each. Exact, and as private as the table.

    A row counts unless it is empty there, or the declared rule of another column drops it.

    Attributes:
        texts: without spaces around them, none empty, in no order.
        counts: how many rows, above 0.
    """

    texts: NDArray[np.object_]
    counts: NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Histogram:
    """A dense histogram held in memory; the `Counts` of simulations, tests and small tables.

    Attributes:
        universe: the cells.
        counts: non-negative integers, shape `universe.shape`; where the universe leaves impossible combinations out,
            their cells are set to 0.
        population: what was counted; None where the counts are made up.
    """

    universe: Universe
    counts: NDArray[np.int64]
    population: Population | None = None

    def __post_init__(self) -> None:
        if self.counts.shape != self.universe.shape:
            raise InvalidInput("counts", self.counts.shape, f"must have the universe's shape {self.universe.shape}")
        if self.counts.dtype != np.int64:
            raise InvalidInput("counts", self.counts.dtype, "must be 64-bit integers")
        if self.universe.left_out:
            kept = self.counts.copy()
            clear_impossible(self.universe, kept, self.universe.left_out)
            object.__setattr__(self, "counts", kept)

    def marginal(self, names: tuple[str, ...]) -> NDArray[np.int64]:
        return marginal(self.counts, self.universe.axes(names))

    def marginals(self, sets: Sequence[tuple[str, ...]]) -> list[NDArray[np.int64]]:
        return [self.marginal(names) for names in sets]

    def histogram(self) -> NDArray[np.int64]:
        return self.counts

    def tally(self, names: tuple[str, ...]) -> Tally:
        """Combinations of categories; numbers and dates too where every bin holds a single value.

        Raises:
            InvalidInput: an attribute that counts by its values has a bin of several values, so the histogram does not
                know them.
        """
        table = self.marginal(names)
        cells = np.nonzero(table)
        values = tuple(
            _values_of_bins(self.universe[name])[indices] for name, indices in zip(names, cells, strict=True)
        )
        return Tally(values=values, counts=table[cells])

    def texts(self, name: str) -> Texts:
        """Categories alone: a row that a catch-all took in has its name here."""
        counts = self.marginal((name,))
        labels = np.array(self.universe[name].labels, dtype=object)
        return Texts(texts=labels[counts > 0], counts=counts[counts > 0])


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Rows held in memory, a column at a time; the `Counts` of simulations and tests of numeric statistics.

    Attributes:
        universe: declares the columns.
        columns: for each attribute its values, coded as in `Tally`.
        written: for a categorical attribute what stands in the table, where that is not always the category.
        population: as of `Histogram`.
    """

    universe: Universe
    columns: dict[str, NDArray[np.int64]]
    written: dict[str, NDArray[np.object_]] = field(default_factory=dict)
    population: Population | None = None

    def __post_init__(self) -> None:
        if set(self.columns) != set(self.universe.names):
            raise InvalidInput("columns", ", ".join(self.columns), "must be those of the universe")
        if self.universe.left_out:
            named = named_bins(self.universe.left_out, self.universe.attributes)
            used = {name for each in named for name in each}
            coded = {name: _bins_of_values(self.universe[name], self.columns[name]) for name in used}
            kept = ~is_impossible(named, coded, len(next(iter(coded.values()))))
            object.__setattr__(self, "columns", {name: each[kept] for name, each in self.columns.items()})
            object.__setattr__(self, "written", {name: each[kept] for name, each in self.written.items()})

    def marginal(self, names: tuple[str, ...]) -> NDArray[np.int64]:
        (table,) = self.marginals([names])
        return table

    def marginals(self, sets: Sequence[tuple[str, ...]]) -> list[NDArray[np.int64]]:
        used = {name for names in sets for name in names}
        coded = {name: _bins_of_values(self.universe[name], self.columns[name]) for name in used}
        tables = empty_tables(self.universe, sets)
        count_codes(coded, sets, tables)
        return tables

    def histogram(self) -> NDArray[np.int64]:
        return self.marginal(self.universe.names)

    def tally(self, names: tuple[str, ...]) -> Tally:
        columns = [self.columns[name] for name in names]
        # Sorting by one column after another is many times as fast as `np.unique` of them side by side.
        order = np.lexsort(columns[::-1])
        ordered = [each[order] for each in columns]
        is_new = np.any([np.diff(each, prepend=each[:1] - 1) != 0 for each in ordered], axis=0)
        starts = np.flatnonzero(is_new)
        counts = np.diff(starts, append=len(order))
        return Tally(values=tuple(each[starts] for each in ordered), counts=counts.astype(np.int64))

    def texts(self, name: str) -> Texts:
        written = self.written.get(name)
        if written is None:
            written = np.array(self.universe[name].labels, dtype=object)[self.columns[name]]
        texts, counts = np.unique(written, return_counts=True)
        return Texts(texts=texts, counts=counts.astype(np.int64))


@dataclass(frozen=True, kw_only=True)
class CountsApart:
    """Rows and persons of one table: each count is of one of both, by the columns that it is about.

    Attributes:
        universe: of all columns.
        parts: the counts of rows, and those of persons, of the universes in `Universe.populations`.
    """

    universe: Universe
    parts: tuple[Counts, Counts]

    def __post_init__(self) -> None:
        if tuple(each.universe for each in self.parts) != self.universe.populations:
            raise InvalidInput("counts", "other universes", "must be of rows and of persons of the universe")

    @property
    def population(self) -> Population | None:
        of_rows, of_persons = (each.population for each in self.parts)
        return None if of_rows is None else replace(of_rows, beside=of_persons)

    def marginal(self, names: tuple[str, ...]) -> NDArray[np.int64]:
        return self._part(names).marginal(names)

    def marginals(self, sets: Sequence[tuple[str, ...]]) -> list[NDArray[np.int64]]:
        """A table is read once for those of rows, and once for those of persons."""
        found: dict[tuple[str, ...], NDArray[np.int64]] = {}
        for part in self.parts:
            own = [names for names in sets if self._part(names) is part]
            found.update(zip(own, part.marginals(own), strict=True) if own else ())
        return [found[names] for names in sets]

    def histogram(self) -> NDArray[np.int64]:
        """
        Raises:
            InvalidInput: no table is of rows and of persons.
        """
        return self.marginal(self.universe.names)

    def tally(self, names: tuple[str, ...]) -> Tally:
        return self._part(names).tally(names)

    def texts(self, name: str) -> Texts:
        return self._part((name,)).texts(name)

    def _part(self, names: tuple[str, ...]) -> Counts:
        return self.parts[self.universe.project(names).is_of_persons]


def empty_tables(universe: Universe, sets: Sequence[tuple[str, ...]]) -> list[NDArray[np.int64]]:
    """Zeros in the shape of each marginal.

    Raises:
        InvalidInput: one has too many cells to count.
    """
    shapes = [universe.project(names).shape for names in sets]
    for names, shape in zip(sets, shapes, strict=True):
        if prod(shape) > MAX_DENSE_CELLS:
            raise InvalidInput(
                "marginal", f"{' × '.join(names)}, {prod(shape):,} cells", f"must have at most {MAX_DENSE_CELLS:,}"
            )
    return [np.zeros(shape, dtype=np.int64) for shape in shapes]


def count_codes(
    coded: Mapping[str, NDArray[np.int64]], sets: Sequence[tuple[str, ...]], tables: Sequence[NDArray[np.int64]]
) -> None:
    """Add rows, given by the bin numbers of each column, to their cells of each marginal.

    Marginals that begin with the same attributes share the cell numbers of these: sets in order are the quickest.
    """
    before: tuple[str, ...] = ()
    cells: list[NDArray[np.int64]] = []
    for names, table in zip(sets, tables, strict=True):
        same = next((i for i, pair in enumerate(zip(before, names, strict=False)) if pair[0] != pair[1]), None)
        cells = cells[: min(len(before), len(names)) if same is None else same]
        for place in range(len(cells), len(names)):
            code = coded[names[place]]
            cells.append(cells[-1] * table.shape[place] + code if place else code)
        before = names
        if table.size > 4 * cells[-1].size:
            np.add.at(table.reshape(-1), cells[-1], 1)
        else:
            table += np.bincount(cells[-1], minlength=table.size).reshape(table.shape)


def _bins_of_values(attribute: Attribute, values: NDArray[np.int64]) -> NDArray[np.int64]:
    if not attribute.has_values:
        return values
    if attribute.dates is not None:
        return _bins_of_dates(attribute.dates, values)
    edges = [int(edge.scaleb(attribute.decimals)) for edge in attribute.edges]
    return np.clip(np.searchsorted(edges, values, side="right") - 1, 0, attribute.ranges - 1)


def _bins_of_dates(dates: Dates, values: NDArray[np.int64]) -> NDArray[np.int64]:
    if dates.is_ordered:
        return np.searchsorted(np.asarray(dates.edges[1:-1], dtype=np.int64), values, side="right")
    if dates.by is By.HOUR:
        return values % SECONDS_OF_DAY // 3600
    return (values // dates.unit + 3) % 7


def _values_of_bins(attribute: Attribute) -> NDArray[np.int64]:
    if not attribute.has_values:
        return np.arange(attribute.size, dtype=np.int64)
    if attribute.dates is not None:
        edges = list(attribute.dates.edges) if attribute.dates.is_ordered else [attribute.lowest, attribute.highest + 1]
    else:
        edges = [int(edge.scaleb(attribute.decimals)) for edge in attribute.edges]
        edges[-1] += 1  # the last bin is closed
    if any(high - low != 1 for low, high in pairwise(edges)):
        raise InvalidInput(attribute.name, "a bin of several values", "does not tell the values in it")
    return np.asarray(edges[:-1], dtype=np.int64)


def marginal(array: NDArray[Any], axes: tuple[int, ...]) -> NDArray[Any]:
    """Sum an array over all axes but `axes`, which the result has in the order given."""
    others = tuple(axis for axis in range(array.ndim) if axis not in axes)
    kept = sorted(axes)
    table: NDArray[Any] = array.sum(axis=others).transpose([kept.index(axis) for axis in axes])
    return table
