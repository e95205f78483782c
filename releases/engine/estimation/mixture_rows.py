"""Whole rows from a mixture of products, with marginals as near to the mixture's as whole numbers allow.

Independent draws would add sampling noise of their own. Instead

1. each component gets its share of the rows by systematic sampling, and within a component each attribute's values
   are stratified: their counts are within one row of what the component expects;
2. rows then move, one attribute at a time, to the values that lower the sum of squares of (rows minus expected rows)
   over all two-way or three-way marginals the most; early on also where that raises it a little.

Three-way marginals are kept where there is the time for it, and two-way ones where there are too many of those. One
sweep looks up a number for each row, attribute, and table that holds the attribute.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb, sqrt

import numpy as np
from numpy.typing import NDArray

from releases.engine.estimation.marginals import Axes
from releases.engine.estimation.mixture import Mixture
from releases.engine.estimation.rounding import systematic_counts
from releases.engine.noise.randomness import Randomness

#: Look-ups by all sweeps together, of tables of a million cells together; they take five to ten seconds. Larger ones
#: stay in no cache, and each look-up takes longer.
_MAX_WORK, _NEAR = 1e9, 1e6
#: Cells of the tables that rows are kept close to, 4 bytes each.
_MAX_CELLS = 20_000_000
#: Sweeps at most, and the fewest that are worth their tables.
_SWEEPS, _FEWEST = 8, 3
#: Temperatures of the sweeps, from the first to the last but one; the last allows no rise.
_HOTTEST, _COLDEST = 0.1, 0.02
#: See `mixture_kernels.sweep`: about one row in fifty is looked at, and nothing that can be measured is lost.
_DROP = 0.55


def mixture_rows(mixture: Mixture, rows: int, rng: Randomness) -> NDArray[np.int32]:
    """Bins of `rows` rows, shape (rows, attributes), in an order that tells nothing."""
    first, second = rng.words(2).tolist()
    state = np.array([second | 1], dtype=np.uint64)
    made = _stratified(mixture, rows, first / 2.0**64, state)
    if rows and (order := _order_kept(mixture.shape, rows)):
        _move(mixture, made, list(combinations(range(len(mixture.shape)), order)), state, rng)
    return made[_order(rows, rng)]


def rows_look_ups(shape: Sequence[int], rows: int) -> float:
    """Numbers looked up to make so many rows: for each row, attribute and table kept, once a sweep."""
    if not rows or not (order := _order_kept(shape, rows)):
        return float(rows * len(shape))
    sets = comb(len(shape), order)
    each = len(shape) * comb(len(shape) - 1, order - 1) * sqrt(max(1.0, _cells(shape, order) / _NEAR))
    return rows * (len(shape) + sets + each * max(1.0, _sweeps(shape, order, rows)))


def rows_bytes(shape: Sequence[int], rows: int) -> int:
    """Memory that making so many rows takes: the rows, and the tables they are kept close to."""
    order = _order_kept(shape, rows)
    return rows * (4 * len(shape) + 16) + 4 * (_cells(shape, order) if order else 0)


def _cells(shape: Sequence[int], order: int) -> int:
    """Of all tables of so many attributes: the elementary symmetric polynomial of their lengths."""
    sums = [1, *[0] * order]
    for length in shape:
        for size in range(order, 0, -1):
            sums[size] += length * sums[size - 1]
    return sums[order]


def _stratified(mixture: Mixture, rows: int, start: float, state: NDArray[np.uint64]) -> NDArray[np.int32]:
    from releases.engine.estimation import mixture_kernels

    members = systematic_counts(mixture.shares.astype(np.float64), rows, start)
    made = np.empty((rows, len(mixture.shape)), dtype=np.int32)
    for axis in range(len(mixture.shape)):
        cumulative = np.cumsum(mixture.conditionals(axis).T.astype(np.float64), axis=1)
        mixture_kernels.stratified(cumulative, members, state, made[:, axis])
    return made


def _order_kept(shape: Sequence[int], rows: int) -> int:
    """Of how many attributes the marginals are that rows are kept close to: 3 or 2; 0 where even these are too many."""
    for order in (3, 2):
        if len(shape) < order or _cells(shape, order) > _MAX_CELLS:
            continue
        if order == 2 or _sweeps(shape, order, rows) >= _FEWEST:
            return order
    return 0


def _sweeps(shape: Sequence[int], order: int, rows: int) -> float:
    """How many sweeps over all rows there is time for."""
    farther = sqrt(max(1.0, _cells(shape, order) / _NEAR))
    looked_up = rows * len(shape) * comb(len(shape) - 1, order - 1) * farther
    return min(_SWEEPS, _MAX_WORK / looked_up)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Tables:
    """Where the tables of some sets of attributes lie in one flat array.

    Attributes:
        axes: three attributes of each set; of a pair the second stands twice, the second time with stride 0.
        strides: of each.
        starts: of each table.
        cells: of all of them.
    """

    axes: NDArray[np.int64]
    strides: NDArray[np.int64]
    starts: NDArray[np.int64]
    cells: int

    @staticmethod
    def of(shape: Sequence[int], sets: Sequence[Axes]) -> _Tables:
        sizes = np.array(shape)
        axes = np.array([(*each, each[-1])[:3] for each in sets], dtype=np.int64)
        strides = np.ones_like(axes)
        if len(sets[0]) == 2:
            strides[:, 0], strides[:, 2] = sizes[axes[:, 1]], 0
            cells = sizes[axes[:, 0]] * sizes[axes[:, 1]]
        else:
            strides[:, 1] = sizes[axes[:, 2]]
            strides[:, 0] = sizes[axes[:, 1]] * strides[:, 1]
            cells = sizes[axes[:, 0]] * strides[:, 0]
        ends = np.cumsum(cells)
        return _Tables(axes=axes, strides=strides, starts=ends - cells, cells=int(ends[-1]))

    def by_attribute(self, attribute: int, order: int) -> tuple[NDArray[np.int64], ...]:
        """For the tables that hold an attribute: start, its stride, and the other attributes with theirs."""
        at, place = np.nonzero(self.axes[:, :order] == attribute)
        other = np.array([[each for each in range(3) if each != one] for one in place])
        rows = np.arange(len(at))[:, None]
        axes, strides = self.axes[at], self.strides[at]
        return self.starts[at], strides[rows[:, 0], place], axes[rows, other], strides[rows, other]


def _move(
    mixture: Mixture, made: NDArray[np.int32], sets: Sequence[Axes], state: NDArray[np.uint64], rng: Randomness
) -> None:
    from releases.engine.estimation import mixture_kernels

    rows, attributes = made.shape
    order = len(sets[0])
    tables = _Tables.of(mixture.shape, sets)
    excess = np.empty(tables.cells, dtype=np.float32)
    for axes, start in zip(sets, tables.starts, strict=True):
        expected = mixture.marginal(axes).reshape(-1)
        excess[start : start + expected.size] = expected * -rows
    mixture_kernels.count_rows(made, tables.axes, tables.strides, tables.starts, excess)
    found = [tables.by_attribute(attribute, order) for attribute in range(attributes)]
    looked_up = [np.ascontiguousarray(np.stack(each)) for each in zip(*found, strict=True)]
    sizes, sweeps = np.array(mixture.shape), _sweeps(mixture.shape, len(sets[0]), rows)
    temperatures = [*np.geomspace(_HOTTEST, _COLDEST, max(1, int(sweeps)))[:-1], 0.0]
    for temperature in temperatures:
        some = _order(rows, rng)[: int(rows * min(1.0, sweeps))]
        mixture_kernels.sweep(made, excess, sizes, *looked_up, some, float(temperature), _DROP, state)


def _order(rows: int, rng: Randomness) -> NDArray[np.intp]:
    return np.argsort(rng.words(rows), kind="stable")
