"""Public pseudo-random small databases: the candidates of `smalldb-net`.

Candidate i is a function of (seed, i, the bins of the attributes, m) and of nothing else. It is a mixture of 1, 2 or 4
products of random one-way distributions, more or less even ones, from which m rows are drawn: databases of one kind
would all look like the even one, and any real table is far from that. Nothing private depends on how well these are
distributed, so the numbers come from a counter-based generator (Philox, by NumPy) and floating point.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from releases.engine.domain.universe import Universe
from releases.engine.workload.queries import Family, Marginal, Prefix, Workload

#: Answers held at a time: candidates are weighed in batches of so many.
BATCH = 4_000_000
#: Answers of a whole net that are kept between runs of one plan.
_KEPT = 4_000_000
#: How uneven a candidate's one-way distributions are: weights are powers of exponential variables.
_POWERS = (0.5, 1.0, 2.0, 4.0)
_MIXTURES = (1, 2, 4)

Bins = NDArray[np.int64]


def candidate(universe: Universe, *, seed: int, index: int, size: int) -> Bins:
    """The rows of one candidate: shape (attributes, m), the bin of each row in each attribute."""
    key = hashlib.sha256(f"smalldb-net {seed} {index}".encode()).digest()
    stream = np.random.Philox(key=np.frombuffer(key[:16], dtype="<u8"))
    parts = _MIXTURES[index % len(_MIXTURES)]
    power = _POWERS[index // len(_MIXTURES) % len(_POWERS)]
    part = (_uniforms(stream, size) * parts).astype(np.int64)
    rows = np.empty((len(universe.shape), size), dtype=np.int64)
    for axis, bins in enumerate(universe.shape):
        weights = (-np.log(_uniforms(stream, parts * bins))).reshape(parts, bins) ** power
        ends = np.cumsum(weights, axis=1)
        points = _uniforms(stream, size) * ends[part, -1]
        for each in range(parts):
            mine = part == each
            rows[axis, mine] = np.minimum(np.searchsorted(ends[each], points[mine], side="right"), bins - 1)
    return rows


def _uniforms(stream: np.random.Philox, count: int) -> NDArray[np.float64]:
    """Numbers in (0, 1)."""
    return ((stream.random_raw(count) >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53


def answers(workload: Workload, universe: Universe, rows: Sequence[Bins]) -> NDArray[np.int64]:
    """The answers of candidates with the given rows over `universe`: one candidate a row, all families in order."""
    together = np.stack(rows, axis=1)
    return np.concatenate([_of_family(family, universe, together) for family in workload.families], axis=1)


def _of_family(family: Family, universe: Universe, rows: Bins) -> NDArray[np.int64]:
    axes = universe.axes(family.attributes)
    candidates = rows.shape[1]
    if isinstance(family, (Marginal, Prefix)):
        cells = family.cells(universe)
        cell = np.ravel_multi_index(tuple(rows[list(axes)]), [universe.shape[axis] for axis in axes])
        cell = cell + cells * np.arange(candidates).reshape(-1, 1)
        counts: NDArray[np.int64] = np.bincount(cell.reshape(-1), minlength=cells * candidates)
        counts = counts.reshape(candidates, cells)
        return counts if isinstance(family, Marginal) else np.cumsum(counts, axis=1)
    counted = np.ones(rows.shape[1:], dtype=np.bool_)
    for axis, bins in zip(axes, family.bins, strict=True):
        counted &= np.isin(rows[axis], bins)
    answer: NDArray[np.int64] = counted.sum(axis=1, keepdims=True, dtype=np.int64)
    return answer


class Net:
    """The candidates of one plan, weighed in batches.

    Args:
        workload: what is asked.
        universe: of the attributes that are asked about.
        seed, count, size: which candidates, how many, of how many rows.
    """

    def __init__(self, workload: Workload, universe: Universe, *, seed: int, count: int, size: int) -> None:
        self.workload, self.universe, self.seed, self.count, self.size = workload, universe, seed, count, size
        self._kept = count * workload.size <= _KEPT
        self._batch_at = lru_cache(maxsize=None)(self._answers) if self._kept else self._answers

    def errors(self, exact: NDArray[np.int64], *, rows: int) -> Iterator[NDArray[np.int64]]:
        """For each batch of candidates max over q of |W q(y) - m q(x)|, W being `rows`."""
        step = max(1, BATCH // self.workload.size)
        for start in range(0, self.count, step):
            off = self._batch_at(start, min(start + step, self.count)) * rows
            off -= self.size * exact
            yield np.maximum(off.max(axis=1), -off.min(axis=1))

    def rows(self, index: int) -> Bins:
        return candidate(self.universe, seed=self.seed, index=index, size=self.size)

    def _answers(self, start: int, stop: int) -> NDArray[np.int64]:
        return answers(self.workload, self.universe, [self.rows(index) for index in range(start, stop)])
