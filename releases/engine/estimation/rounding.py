"""Whole rows from a fitted distribution, with marginals as near as whole numbers allow.

Independent draws would add sampling noise of their own: a table of n rows drawn from its own distribution misses
its three-way marginals by more than a fit at epsilon 1 does. Here the weights are rounded under control instead:

1. systematic sampling: one uniform number u, and count_i = floor(W_i + u) - floor(W_(i-1) + u) with W the running
   sum of the expected counts. The counts sum to the rows exactly, each is within one of its expectation, and each
   has its expectation on average;
2. descent on Q = sum over marginals S, cells c of (rows in c - expected in c)^2: a row is moved along one attribute
   at a time to the value that lowers Q most; early on also when that raises Q a little (simulated annealing, a cooling
   temperature), for the first minimum met is a poor one. Rows only move to cells that the weights hold possible.

Moving a row from u to v along attribute a changes Q by 2 (m + r(v) - r(u)), with m the number of marginals that contain
a, and r the sum of their residuals at the row; so all values of an attribute are compared by m table look-ups each,
and rows whose r(u) is too low to gain anything are passed over. How many those are, some rows tell beforehand: of few
columns with many bins nearly none, since most rows are alone in their cell, and then fewer sweeps are made, or one over
fewer rows. Where numba is not installed the systematic sample is returned as it is.
"""

from __future__ import annotations

import math
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from releases.engine.errors import InvalidInput
from releases.engine.estimation.marginals import Axes, compiled_kernels, marginal_tree

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

    from numpy.typing import NDArray

    from releases.engine.noise.randomness import Randomness

#: Temperatures of the sweeps, in units of the number of marginals an attribute is in: from the first to the last.
_HOTTEST, _COLDEST, _SWEEPS = 0.10, 0.02, 30

#: How far below zero the residuals at a better place are expected at most, in the same unit. Lower passes over more
#: rows unexamined; at 0.55 about one row in fifty is examined and nothing measurable is lost.
_DROP = 0.55

#: Multiples of it are spread evenly over the unit interval.
_GOLDEN = 0.6180339887498949

#: A row may move to a cell that expects at least this many rows.
_POSSIBLE = 0.02

#: Cells sampled at a time.
_CHUNK = 1 << 20

#: Look-ups by all sweeps together, about four seconds of work: fewer sweeps, or of fewer rows, are made beyond.
_MAX_WORK = 4e8

#: Rows that tell how much work the others are.
_TRIED = 4096

#: Cells of a table that stays in a processor's cache, where all values of an attribute are looked up so much faster.
_CACHED, _FASTER = 1 << 20, 8


def controlled_counts(weights: NDArray[np.float64], rows: int, rng: Randomness) -> NDArray[np.int64]:
    """Whole counts over the universe, summing to `rows`, whose marginals over three attributes (or over all, where
    there are fewer) are close to the weights'.

    Args:
        weights: non-negative, any positive sum, over the universe.
        rows: how many.
        rng: of which one word is used for the start of the systematic sample and one for the annealing.
    """
    if rows < 0:
        raise InvalidInput("rows", rows, "must be at least 0")
    first, second = rng.words(2).tolist()
    counts = systematic_counts(weights, rows, first / 2.0**64)
    kernels = compiled_kernels()
    if rows and kernels:
        _anneal(counts, weights, _triples(weights.ndim), second | 1, kernels)
    return counts


def split_counts(weights: NDArray[np.float64], held: NDArray[np.int64], rng: Randomness) -> NDArray[np.int64]:
    """Whole counts of which the first axes, as many as `held` has cells, sum to `held`, close to the weights' shares.

    Each value of the first axes is a systematic sample of its own, with starts spread evenly over the values: with one
    start for all, values of one row would all get the same place. Where the weights have nothing for rows that are
    there, they are spread evenly.

    Args:
        weights: non-negative; the cells of one value of the first axes lie together.
        held: rows of each value, in order.
        rng: of which two words are used.
    """
    first, second = rng.words(2).tolist()
    table = weights.reshape(held.size, -1)
    sums = np.cumsum(np.where(table.sum(axis=1, keepdims=True) > 0, table, 1.0), axis=1)
    starts = (first / 2.0**64 + np.arange(held.size) * _GOLDEN) % 1.0
    reached = np.floor(sums / sums[:, -1:] * held[:, None] + starts[:, None]).astype(np.int64)
    np.minimum(reached, held[:, None], out=reached)
    reached[:, -1] = held
    counts: NDArray[np.int64] = np.diff(reached, axis=1, prepend=0).reshape(weights.shape)
    kernels = compiled_kernels()
    if held.any() and kernels and weights.ndim > 2:
        means = table * (held / np.maximum(table.sum(axis=1), 1e-300))[:, None]
        fixed = _first_axes(weights.shape, held.size)
        _anneal(counts, means.reshape(weights.shape), _triples(weights.ndim), second | 1, kernels, fixed=fixed)
    return counts


def _first_axes(shape: Axes, cells: int) -> int:
    """How many axes have so many cells together, from the first."""
    return next(number for number in range(len(shape) + 1) if math.prod(shape[:number]) == cells)


def systematic_counts(weights: NDArray[np.float64], rows: int, start: float) -> NDArray[np.int64]:
    """count_i = floor(W_i + start) - floor(W_(i-1) + start), with W the running sums of weights * rows / sum(weights).

    With `start` uniform on [0, 1) every count has its expectation on average and is within one of it always.
    """
    if not (weights >= 0).all() or not 0 < float(weights.sum()) < math.inf:
        raise InvalidInput("weights", weights.shape, "must hold non-negative finite numbers, not all 0")
    flat, counts = weights.reshape(-1), np.empty(weights.size, dtype=np.int64)
    scale, before, reached_before = rows / float(weights.sum()), 0.0, 0
    for first in range(0, flat.size, _CHUNK):
        sums = np.cumsum(flat[first : first + _CHUNK])
        sums += before
        reached = np.floor(sums * scale + start).astype(np.int64)
        np.minimum(reached, rows, out=reached)  # rows + start may round up to rows + 1
        if first + _CHUNK >= flat.size:
            reached[-1] = rows
        counts[first : first + _CHUNK] = np.diff(reached, prepend=np.int64(reached_before))
        before, reached_before = float(sums[-1]), int(reached[-1])
    return counts.reshape(weights.shape)


def _triples(axes: int) -> list[Axes]:
    return list(combinations(range(axes), min(3, axes)))


def _anneal(
    counts: NDArray[np.int64],
    weights: NDArray[np.float64],
    sets: Sequence[Axes],
    seed: int,
    kernels: ModuleType,
    *,
    fixed: int = 0,
) -> None:
    """Move rows of `counts`, in place: at most one of each occupied cell, for none needs to move further than that.

    Along the first `fixed` axes no row moves.

    Where the sample was nearer than what the annealing found, as with weights that are whole already, it stays.
    """
    shape = counts.shape
    flat = counts.reshape(-1)
    cells = np.flatnonzero(flat)
    rows = np.stack(np.unravel_index(cells, shape), axis=1).astype(np.int32)
    tree = marginal_tree(shape, tuple(tuple(sorted(axes)) for axes in sets))
    each = float(counts.sum()) / float(weights.sum()) if weights.any() else 0.0
    if not each:
        return
    residual = tree.answer_vector(counts) - tree.answer_vector(weights) * each
    sampled = float(residual @ residual)
    tables = _tables(shape, tree.sets, tree.offsets)
    unit = int(tables[-1].max())
    tables[0][:fixed] = 0  # no other value is looked at
    work = len(rows) * _look_ups(rows, residual, weights.size, tables, unit)
    sweeps = min(_SWEEPS, max(1, int(_MAX_WORK / work)))
    # All rows, or where that is too much, one in so many from all over the universe.
    part = np.s_[:: max(1, math.ceil(work / _MAX_WORK))]
    swept = rows[part].copy()
    state = np.uint64(seed)
    # A single sweep is a cold one.
    for temperature in np.geomspace(_COLDEST * unit, _HOTTEST * unit, sweeps)[::-1]:
        state = np.uint64(
            kernels.anneal_rows(
                swept, residual, weights.reshape(-1), *tables, temperature, _DROP * unit, _POSSIBLE / each, state
            )
        )
    rows[part] = swept
    if residual @ residual >= sampled:
        return
    flat[cells] -= 1
    np.add.at(flat, np.ravel_multi_index(tuple(rows.T), shape), 1)


def _look_ups(
    rows: NDArray[np.int32],
    residual: NDArray[np.float64],
    cells: int,
    tables: tuple[NDArray[np.int64], ...],
    unit: int,
) -> float:
    """How many a row takes in one sweep, on average: one of each set, and those of every value of the attributes at
    which it is examined. That is when an exponential allowance is large enough, so with a probability known here."""
    lengths, _, axes, strides, starts, sets_of, counts = tables
    some = rows[:: max(1, len(rows) // _TRIED)].astype(np.int64)
    # Past the end of a set its strides are 0.
    values = residual[starts + (some[:, axes] * strides).sum(axis=2)]
    found = float(len(axes))
    for length, members, count in zip(lengths, sets_of, counts, strict=True):
        missing = count - _DROP * unit - values[:, members[:count]].sum(axis=1)
        examined = np.exp(-np.maximum(missing, 0.0) / (_HOTTEST * unit)).mean()
        found += float(examined * length * (count * _share(residual.size) + _share(cells)))
    return found


def _share(cells: int) -> float:
    """Of a look-up among so many cells, when one value after the other is looked up."""
    return 1.0 if cells > _CACHED else 1.0 / _FASTER


def _tables(shape: Axes, sets: Sequence[Axes], offsets: Sequence[int]) -> tuple[NDArray[np.int64], ...]:
    """What the sweep looks up: shape, strides of cells; axes, strides and starts of sets; the sets of each axis."""
    longest = max(map(len, sets))
    axes, strides = np.full((len(sets), longest), -1, dtype=np.int64), np.zeros((len(sets), longest), dtype=np.int64)
    members: list[list[int]] = [[] for _ in shape]
    for index, one in enumerate(sets):
        for k, axis in enumerate(one):
            axes[index, k] = axis
            strides[index, k] = math.prod(shape[other] for other in one[k + 1 :])
            members[axis].append(index)
    sets_of = np.full((len(shape), max(1, max(map(len, members)))), -1, dtype=np.int64)
    for axis, mine in enumerate(members):
        sets_of[axis, : len(mine)] = mine
    cell_strides = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    counts_of = [len(mine) for mine in members]
    starts = list(offsets[:-1])
    small = (np.array(each, dtype=np.int64) for each in (shape, cell_strides, starts, counts_of))
    lengths, cell, start, count = small
    return lengths, cell, axes, strides, start, sets_of, count
