"""The inner loops of `marginals.py` and `rounding.py`, compiled by numba. Importing this imports numba: do it late.

A dense array is seen as four axes b1 x b2 x b3 x b4, some of length 1. *Child* i is its sum over axis i; *factor* i
is an array that does not depend on axis i; both are flat over the other three axes, in order. A child or a factor
of length 0 is not wanted. One pass over the array serves all of them, a tile of b3 x b4 cells at a time, so that a
tile is read from memory once and stays in the nearest cache while it is multiplied, summed four ways and put back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np

#: Sums may be reassociated, so that they use vector registers; nothing else of IEEE arithmetic is given up.
_FAST = {"reassoc", "contract", "nsz"}

_Function = Callable[..., Any]


def _jit(function: _Function) -> _Function:
    try:
        # Without the interpreter's lock: the thread that keeps a worker's lease must not wait for the end of a loop.
        kernel: _Function = numba.njit(cache=True, fastmath=_FAST, nogil=True)(function)
    except RuntimeError:  # nowhere to write a cache: compile again in each process
        kernel = numba.njit(fastmath=_FAST, nogil=True)(function)
    return kernel


def _inline(function: _Function) -> _Function:
    kernel: _Function = numba.njit(fastmath=_FAST, inline="always")(function)
    return kernel


@_inline
def _sum_rows(rows: Any, total: Any, count: int, length: int) -> None:
    """total = sum of `count` rows, four at a time: the total is then read and written a quarter as often."""
    if count >= 4:
        first = 4
        for q in range(length):
            total[q] = rows[q] + rows[length + q] + rows[2 * length + q] + rows[3 * length + q]
    else:
        first = 1
        for q in range(length):
            total[q] = rows[q]
    while first + 4 <= count:
        at = first * length
        for q in range(length):
            total[q] += rows[at + q] + rows[at + length + q] + rows[at + 2 * length + q] + rows[at + 3 * length + q]
        first += 4
    while first < count:
        at = first * length
        for q in range(length):
            total[q] += rows[at + q]
        first += 1


@_inline
def _sum_axis(source: Any, target: Any, pre: int, mid: int, post: int) -> None:
    for i in range(pre):
        if post == 1:
            total = source.dtype.type(0)
            for j in range(mid):
                total += source[i * mid + j]
            target[i] = total
        else:
            _sum_rows(source[i * mid * post : (i + 1) * mid * post], target[i * post : (i + 1) * post], mid, post)


@_inline
def _sum_tile(row: Any, i: int, j: int, b2: int, b3: int, b4: int, c1: Any, c2: Any, c3: Any, c4: Any) -> None:
    tile = b3 * b4
    if c1.size > 0:
        to = j * tile
        for t in range(tile):
            c1[to + t] += row[t]
    if c2.size > 0:
        to = i * tile
        for t in range(tile):
            c2[to + t] += row[t]
    if c3.size > 0:
        to = (i * b2 + j) * b4
        _sum_rows(row, c3[to : to + b4], b3, b4)
    if c4.size > 0:
        to = (i * b2 + j) * b3
        for k in range(b3):
            total = row.dtype.type(0)
            for q in range(b4):
                total += row[k * b4 + q]
            c4[to + k] = total


@_inline
def _scale_tile(row: Any, i: int, j: int, b2: int, b3: int, b4: int, f1: Any, f2: Any, f3: Any, f4: Any) -> None:
    tile = b3 * b4
    if f1.size > 0:
        of = j * tile
        for t in range(tile):
            row[t] *= f1[of + t]
    if f2.size > 0:
        of = i * tile
        for t in range(tile):
            row[t] *= f2[of + t]
    if f3.size > 0:
        of = (i * b2 + j) * b4
        for k in range(b3):
            for q in range(b4):
                row[k * b4 + q] *= f3[of + q]
    if f4.size > 0:
        of = (i * b2 + j) * b3
        for k in range(b3):
            value = f4[of + k]
            for q in range(b4):
                row[k * b4 + q] *= value


@_inline
def _add_tile(row: Any, i: int, j: int, b2: int, b3: int, b4: int, f1: Any, f2: Any, f3: Any, f4: Any) -> None:
    tile = b3 * b4
    if f1.size > 0:
        of = j * tile
        for t in range(tile):
            row[t] += f1[of + t]
    if f2.size > 0:
        of = i * tile
        for t in range(tile):
            row[t] += f2[of + t]
    if f3.size > 0:
        of = (i * b2 + j) * b4
        for k in range(b3):
            for q in range(b4):
                row[k * b4 + q] += f3[of + q]
    if f4.size > 0:
        of = (i * b2 + j) * b3
        for k in range(b3):
            value = f4[of + k]
            for q in range(b4):
                row[k * b4 + q] += value


@_jit
def reduce_steps(space: Any, steps: Any) -> None:
    """For each row (source, target, pre, mid, post): target[pre, post] = sum over mid of source[pre, mid, post]."""
    for s in range(steps.shape[0]):
        start, to, pre, mid, post = steps[s, 0], steps[s, 1], steps[s, 2], steps[s, 3], steps[s, 4]
        # two views, so that the compiler can tell that they do not overlap
        _sum_axis(space[start : start + pre * mid * post], space[to : to + pre * post], pre, mid, post)


@_jit
def spread_steps(space: Any, steps: Any) -> None:
    """The transposed map of `reduce_steps`, last step first: source[pre, mid, post] += target[pre, post]."""
    for s in range(steps.shape[0] - 1, -1, -1):
        start, to, pre, mid, post = steps[s, 0], steps[s, 1], steps[s, 2], steps[s, 3], steps[s, 4]
        source, target = space[start : start + pre * mid * post], space[to : to + pre * post]
        for i in range(pre):
            if post == 1:
                value = target[i]
                for j in range(mid):
                    source[i * mid + j] += value
            else:
                row = i * mid * post
                at = i * post
                for _ in range(mid):
                    for q in range(post):
                        source[row + q] += target[at + q]
                    row += post


@_jit
def sum_axis(array: Any, target: Any, pre: int, mid: int, post: int) -> None:
    """target[pre, post] = sum over mid of array[pre, mid, post]."""
    _sum_axis(array, target, pre, mid, post)


@_jit
def sum_blocks(array: Any, b1: int, b2: int, b3: int, b4: int, c1: Any, c2: Any, c3: Any, c4: Any) -> None:
    """Write the wanted children of `array`."""
    tile = b3 * b4
    c1[:] = 0
    c2[:] = 0
    for i in range(b1):
        for j in range(b2):
            at = (i * b2 + j) * tile
            _sum_tile(array[at : at + tile], i, j, b2, b3, b4, c1, c2, c3, c4)


@_jit
def add_blocks(array: Any, b1: int, b2: int, b3: int, b4: int, f1: Any, f2: Any, f3: Any, f4: Any) -> None:
    """array[i, j, k, l] += f1[j, k, l] + f2[i, k, l] + f3[i, j, l] + f4[i, j, k], of the factors given."""
    tile = b3 * b4
    for i in range(b1):
        for j in range(b2):
            at = (i * b2 + j) * tile
            _add_tile(array[at : at + tile], i, j, b2, b3, b4, f1, f2, f3, f4)


@_jit
def scale_blocks(
    array: Any, b1: int, b2: int, b3: int, b4: int,
    f1: Any, f2: Any, f3: Any, f4: Any, c1: Any, c2: Any, c3: Any, c4: Any,
) -> None:  # fmt: skip
    """Multiply `array` in place by the product of the given factors and write the wanted children of the result."""
    tile = b3 * b4
    c1[:] = 0
    c2[:] = 0
    for i in range(b1):
        for j in range(b2):
            at = (i * b2 + j) * tile
            row = array[at : at + tile]
            _scale_tile(row, i, j, b2, b3, b4, f1, f2, f3, f4)
            _sum_tile(row, i, j, b2, b3, b4, c1, c2, c3, c4)


@_inline
def _product_tile(row: Any, i: int, j: int, b2: int, b3: int, b4: int, f1: Any, f2: Any, f3: Any, f4: Any) -> None:
    tile = b3 * b4
    if f1.size > 0 and f2.size > 0:
        for t in range(tile):
            row[t] = f1[j * tile + t] * f2[i * tile + t]
    elif f1.size > 0:
        for t in range(tile):
            row[t] = f1[j * tile + t]
    elif f2.size > 0:
        for t in range(tile):
            row[t] = f2[i * tile + t]
    else:
        row[:] = 1.0
    if f3.size > 0 and f4.size > 0:
        of, at = (i * b2 + j) * b4, (i * b2 + j) * b3
        for k in range(b3):
            value = f4[at + k]
            for q in range(b4):
                row[k * b4 + q] *= f3[of + q] * value
    else:
        _scale_tile(row, i, j, b2, b3, b4, f1[:0], f2[:0], f3, f4)


@_jit
def product_blocks(
    b1: int, b2: int, b3: int, b4: int, f1: Any, f2: Any, f3: Any, f4: Any, c1: Any, c2: Any, c3: Any, c4: Any
) -> None:
    """Write the wanted children of the product of the given factors; the product itself is never stored."""
    row = np.empty(b3 * b4)
    c1[:] = 0
    c2[:] = 0
    for i in range(b1):
        for j in range(b2):
            _product_tile(row, i, j, b2, b3, b4, f1, f2, f3, f4)
            _sum_tile(row, i, j, b2, b3, b4, c1, c2, c3, c4)


@_jit
def tangent_blocks(
    b1: int, b2: int, b3: int, b4: int, f1: Any, f2: Any, f3: Any, f4: Any,
    g1: Any, g2: Any, g3: Any, g4: Any, c1: Any, c2: Any, c3: Any, c4: Any,
) -> None:  # fmt: skip
    """Write the wanted children of (the product of the factors f) x (the sum of the terms g), cell by cell."""
    tile = b3 * b4
    row = np.empty(tile)
    slope = np.empty(tile)
    c1[:] = 0
    c2[:] = 0
    whole = g1.size > 0 and g2.size > 0 and g3.size > 0 and g4.size > 0
    for i in range(b1):
        for j in range(b2):
            _product_tile(row, i, j, b2, b3, b4, f1, f2, f3, f4)
            if whole:
                for t in range(tile):
                    slope[t] = g1[j * tile + t] + g2[i * tile + t]
                of, at = (i * b2 + j) * b4, (i * b2 + j) * b3
                for k in range(b3):
                    value = g4[at + k]
                    for q in range(b4):
                        row[k * b4 + q] *= slope[k * b4 + q] + g3[of + q] + value
            else:
                slope[:] = 0.0
                _add_tile(slope, i, j, b2, b3, b4, g1, g2, g3, g4)
                for t in range(tile):
                    row[t] *= slope[t]
            _sum_tile(row, i, j, b2, b3, b4, c1, c2, c3, c4)


@_jit
def rotate_tables(vector: Any, plan: Any, factors: Any, spare: Any) -> None:
    """For each row (start, pre, n, post, factor): block[pre, :, post] = L block[pre, :, post], L n x n, symmetric."""
    for s in range(plan.shape[0]):
        start, pre, n, post, factor = plan[s, 0], plan[s, 1], plan[s, 2], plan[s, 3], plan[s, 4]
        for i in range(pre):
            at = start + i * n * post
            for t in range(n * post):
                spare[t] = vector[at + t]
                vector[at + t] = 0.0
            if post == 1:
                for k in range(n):
                    value = spare[k]
                    for j in range(n):
                        vector[at + j] += value * factors[factor + k * n + j]
            else:
                for j in range(n):
                    for k in range(n):
                        value = factors[factor + j * n + k]
                        for q in range(post):
                            vector[at + j * post + q] += value * spare[k * post + q]


@_jit
def anneal_rows(
    rows: Any, residual: Any, expected: Any, shape: Any, cell_strides: Any,
    set_axes: Any, set_strides: Any, set_starts: Any, sets_of: Any, counts_of: Any,
    temperature: float, drop: float, possible: float, state: Any,
) -> Any:  # fmt: skip
    """One sweep of `rounding.py` over rows (n x d, attribute values), which with `residual` is changed in place.

    Set s has attributes set_axes[s, k] (-1 past its end) with strides set_strides[s, k] into its table, which starts at
    set_starts[s]; attribute a is in the sets sets_of[a, : counts_of[a]]. `state` is that of an xorshift generator.
    """
    n, d = rows.shape
    sets = set_axes.shape[0]
    here = np.empty(sets, np.int64)
    value = np.empty(sets)
    base = np.empty(sets, np.int64)
    step = np.empty(sets, np.int64)
    for i in range(n):
        cell = 0
        for a in range(d):
            cell += rows[i, a] * cell_strides[a]
        for s in range(sets):
            at = set_starts[s]
            for k in range(set_axes.shape[1]):
                if set_axes[s, k] >= 0:
                    at += rows[i, set_axes[s, k]] * set_strides[s, k]
            here[s] = at
            value[s] = residual[at]
        for a in range(d):
            m = counts_of[a]
            mine = 0.0
            for j in range(m):
                mine += value[sets_of[a, j]]
            state ^= state << np.uint64(13)
            state ^= state >> np.uint64(7)
            state ^= state << np.uint64(17)
            uniform = (np.float64(state >> np.uint64(11)) + 0.5) / 9007199254740992.0
            needed = m + temperature * np.log(uniform)  # what must be gained, less an exponential allowance
            if mine + drop < needed:
                continue
            old = rows[i, a]
            for j in range(m):
                s = sets_of[a, j]
                for k in range(set_axes.shape[1]):
                    if set_axes[s, k] == a:
                        step[j] = set_strides[s, k]
                base[j] = here[s] - old * step[j]
            origin = cell - old * cell_strides[a]
            best = -1
            lowest = mine - needed
            for new in range(shape[a]):
                if new == old or expected[origin + new * cell_strides[a]] < possible:
                    continue
                there = 0.0
                for j in range(m):
                    there += residual[base[j] + new * step[j]]
                if there < lowest:
                    lowest = there
                    best = new
            if best < 0:
                continue
            for j in range(m):
                s = sets_of[a, j]
                residual[here[s]] -= 1.0
                here[s] = base[j] + best * step[j]
                residual[here[s]] += 1.0
            for s in range(sets):
                value[s] = residual[here[s]]
            rows[i, a] = best
            cell = origin + best * cell_strides[a]
    return state
