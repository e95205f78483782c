"""Small workloads of any kind: the cells that no query tells apart, and every candidate weighed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import comb

import numpy as np
from numpy.typing import NDArray

from releases.engine.domain.universe import Universe
from releases.engine.noise.randomness import Randomness
from releases.engine.noise.selection import exponential_mechanism
from releases.engine.smalldb.candidates import Candidate, Databases, whole_ways
from releases.engine.smalldb.tree import Indices, labels_of, mask_of
from releases.engine.workload.queries import Count, Family, Prefix

#: Families times cells, and queries times kinds, that are looked at.
_MAX_ENTRIES = 40_000_000


@dataclass(frozen=True, kw_only=True, eq=False)
class Signatures:
    """The kinds of cells a workload tells apart.

    Attributes:
        kind_of_cell: for each cell of the universe its kind; kinds are numbered by their first cell.
        cells_of_kind: how many cells each has.
        incidence: for each different query that is not about all cells (rows), which kinds it counts.
    """

    kind_of_cell: Indices
    cells_of_kind: Indices
    incidence: NDArray[np.bool_]

    @property
    def kinds(self) -> int:
        return self.cells_of_kind.size


def read_signatures(families: Sequence[Family], universe: Universe) -> Signatures | None:
    """The kinds of cells by the queries that count them; None where that is too much to look at.

    A family tells two cells apart where it labels them differently: a predicate as counted or not, a marginal and the
    prefixes of an attribute by bins. One family after another divides the kinds that those before it left together.
    """
    if len(families) * universe.size > _MAX_ENTRIES:
        return None
    kind_of_cell = np.zeros(universe.size, dtype=np.int64)
    for family in families:
        labels = _labels_by(family, universe)
        found, kind_of_cell = np.unique(kind_of_cell * (int(labels.max()) + 1) + labels, return_inverse=True)
        if found.size == universe.size:
            # Every cell is a kind of its own already.
            break
    _, first, which, count = np.unique(kind_of_cell, return_index=True, return_inverse=True, return_counts=True)
    if sum(family.cells(universe) for family in families) * count.size > _MAX_ENTRIES:
        return None
    order = np.argsort(first)
    place = np.empty_like(order)
    place[order] = np.arange(order.size)
    rows = np.concatenate([_rows(family, universe, first[order]) for family in families])
    rows = rows[~rows.all(axis=1)]
    # Each once, in the order of their bits: `np.unique` takes seconds where the rows are long.
    different = {packed.tobytes(): row for row, packed in enumerate(np.packbits(rows, axis=1))}
    return Signatures(
        kind_of_cell=place[which],
        cells_of_kind=count[order],
        incidence=rows[[different[bits] for bits in sorted(different)]],
    )


def _labels_by(family: Family, universe: Universe) -> Indices:
    """For each cell the answer of the family that counts it; of prefixes the first that does."""
    if isinstance(family, Count):
        return (~mask_of(family, universe)).astype(np.int64)
    return labels_of(family.attributes, universe)


def _rows(family: Family, universe: Universe, cells: Indices) -> NDArray[np.bool_]:
    """Which of some cells each query of the family counts."""
    labels = _labels_by(family, universe)[cells]
    answers = np.arange(family.cells(universe)).reshape(-1, 1)
    rows: NDArray[np.bool_] = labels <= answers if isinstance(family, Prefix) else labels == answers
    return rows


def vectors(*, kinds: int, size: int) -> int:
    """How many vectors of counts there are."""
    return comb(kinds + size - 1, size)


@lru_cache(maxsize=4)
def all_vectors(*, kinds: int, size: int) -> NDArray[np.int64]:
    """Every vector of `kinds` counts with sum `size`, one a row."""
    left = np.array([size])
    columns: list[NDArray[np.int64]] = []
    for _ in range(kinds - 1):
        repeats = left + 1
        rows = np.repeat(np.arange(left.size), repeats)
        count = np.arange(rows.size) - np.repeat(np.cumsum(repeats) - repeats, repeats)
        columns = [column[rows] for column in columns]
        columns.append(count)
        left = left[rows] - count
    return np.stack([*columns, left], axis=1)


class Enumerated:
    """All candidates of a small workload, weighed. What does not depend on the data is made once.

    Args:
        signatures: the workload.
        databases: which candidates.
        outside: how many cells of the universe each cell stands for.
        size: m, rows of a candidate.
    """

    def __init__(self, signatures: Signatures, *, databases: Databases, outside: int, size: int) -> None:
        self.signatures, self.size = signatures, size
        self._vectors = all_vectors(kinds=signatures.kinds, size=size)
        self._answers = self._vectors @ signatures.incidence.T.astype(np.int64)
        cells = [outside * each for each in signatures.cells_of_kind.tolist()]
        self._weights = None
        if databases is Databases.SEQUENCES or (databases is Databases.MULTISETS and max(cells) > 1):
            self._weights = _weights(self._vectors, databases, cells, size)

    def draw(self, counts: NDArray[np.int64], *, rows: int, epsilon: Fraction, unit: int, rng: Randomness) -> Candidate:
        """Counts of the kinds, with probability proportional to g(y) exp(-epsilon L(y) / (2 m g)) exactly."""
        goal = self.size * (self.signatures.incidence.astype(np.int64) @ counts)
        off = np.abs(rows * self._answers - goal).max(axis=1, initial=0)
        chosen = exponential_mechanism(
            -off, epsilon=epsilon, sensitivity=Fraction(self.size * unit), rng=rng, weights=self._weights
        )
        candidate: Candidate = self._vectors[chosen]
        return candidate


def _weights(all_counts: NDArray[np.int64], databases: Databases, cells: list[int], size: int) -> list[int]:
    """g(y) of every vector, in whole numbers."""
    product = np.full(all_counts.shape[0], 1, dtype=object)
    left = np.full(all_counts.shape[0], size)
    for kind, of_kind in enumerate(cells):
        known: dict[tuple[int, int], int] = {}
        pairs = np.stack([all_counts[:, kind], left], axis=1)
        for count, rest in np.unique(pairs, axis=0).tolist():
            known[count, rest] = whole_ways(databases, cells=of_kind, count=count, left=rest)
        product *= np.array([known[count, rest] for count, rest in pairs.tolist()], dtype=object)
        left = left - all_counts[:, kind]
    weights: list[int] = product.tolist()
    return weights
