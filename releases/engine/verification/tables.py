"""Small tables, as the counts that mechanisms take of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from releases.engine.domain.universe import Universe
from releases.engine.tables.counts import Counts, CountsApart, Rows, Tally, Texts

#: Rows as tuples of codes (`Tally`), in the order of the columns. Where some columns have one value a person, the first
#: row of each person has it, and the others have `NO_PERSON` there.
Table: TypeAlias = Sequence[tuple[int, ...]]
NO_PERSON = -1


class Remembered:
    """Counts that are taken once, for thousands of runs on one table."""

    def __init__(self, rows: Rows | CountsApart) -> None:
        self.universe, self.population = rows.universe, rows.population
        self._rows = rows
        self._marginal, self._tally, self._texts = cache(rows.marginal), cache(rows.tally), cache(rows.texts)

    def marginal(self, names: tuple[str, ...]) -> NDArray[np.int64]:
        return self._marginal(names)

    def marginals(self, sets: Sequence[tuple[str, ...]]) -> list[NDArray[np.int64]]:
        return [self._marginal(names) for names in sets]

    def tally(self, names: tuple[str, ...]) -> Tally:
        return self._tally(names)

    def texts(self, name: str) -> Texts:
        return self._texts(name)

    def histogram(self) -> NDArray[np.int64]:
        return self._marginal(self.universe.names)


def counted_rows(universe: Universe, table: Table) -> Rows | CountsApart:
    """A table in memory; persons are counted apart from rows where some columns have one value a person."""
    if not universe.counts_apart:
        return rows_of(universe, table)
    parts = []
    for part in universe.populations:
        axes = universe.axes(part.names)
        held = [tuple(row[axis] for axis in axes) for row in table]
        parts.append(rows_of(part, [row for row in held if NO_PERSON not in row]))
    return CountsApart(universe=universe, parts=(parts[0], parts[1]))


def rows_of(universe: Universe, table: Table) -> Rows:
    """A table in memory. A code beyond those of a column's categories is a text that its catch-all takes in."""
    stacked = np.array(list(table), dtype=np.int64).reshape(len(table), len(universe.names))
    columns = dict(zip(universe.names, stacked.T.copy(), strict=True))
    written = {}
    for attribute in universe.attributes:
        codes = columns[attribute.name]
        if not attribute.has_values and (codes >= attribute.size).any():
            texts = [*attribute.categories, *(f"text {code}" for code in range(attribute.size, int(codes.max()) + 1))]
            written[attribute.name] = np.array(texts, dtype=object)[codes]
            caught = attribute.categories.index(attribute.outside)
            columns[attribute.name] = np.where(codes < attribute.size, codes, caught)
    return Rows(universe=universe, columns=columns, written=written)


def counts_of(universe: Universe, table: Table) -> Counts:
    return Remembered(counted_rows(universe, table))
