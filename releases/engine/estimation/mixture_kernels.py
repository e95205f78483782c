"""The inner loops of `mixture_rows`, compiled by numba. Importing this imports numba: do it late."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np

_Function = Callable[..., Any]


def _jit(function: _Function) -> _Function:
    try:
        # Without the interpreter's lock: the thread that keeps a worker's lease must not wait for the end of a loop.
        kernel: _Function = numba.njit(cache=True, nogil=True)(function)
    except RuntimeError:  # nowhere to write a cache: compile again in each process
        kernel = numba.njit(nogil=True)(function)
    return kernel


def _inline(function: _Function) -> _Function:
    kernel: _Function = numba.njit(inline="always")(function)
    return kernel


@_inline
def _uniform(state: Any) -> float:
    """The next number in (0, 1) of an xorshift generator."""
    word = state[0]
    word ^= word << np.uint64(13)
    word ^= word >> np.uint64(7)
    word ^= word << np.uint64(17)
    state[0] = word
    return (float(word >> np.uint64(11)) + 0.5) / 9007199254740992.0


@_jit
def stratified(cumulative: Any, members: Any, state: Any, rows: Any) -> None:
    """Values of one attribute for rows that are grouped by component, each component's shares kept within one row.

    Args:
        cumulative: sums of P(. | k) over the bins, shape (K, bins).
        members: rows of each component, which lie one after the other.
        state: of the generator.
        rows: the values, written here.
    """
    bins, first = cumulative.shape[1], 0
    for component in range(len(members)):
        count = members[component]
        start, value = _uniform(state), 0
        for place in range(count):
            reached = (place + start) / count * cumulative[component, bins - 1]
            while value < bins - 1 and cumulative[component, value] <= reached:
                value += 1
            rows[first + place] = value
        for place in range(count - 1, 0, -1):
            other = int(_uniform(state) * (place + 1))
            rows[first + place], rows[first + other] = rows[first + other], rows[first + place]
        first += count


@_jit
def count_rows(rows: Any, axes: Any, strides: Any, starts: Any, table: Any) -> None:
    """Add 1 for each row in each set's table; all tables lie in one flat array, each from its start."""
    for one in range(len(axes)):
        first, second, third = axes[one]
        for row in range(len(rows)):
            at = starts[one] + rows[row, first] * strides[one, 0] + rows[row, second] * strides[one, 1]
            table[at + rows[row, third] * strides[one, 2]] += 1


@_jit
def sweep(
    rows: Any,
    excess: Any,
    sizes: Any,
    starts: Any,
    strides: Any,
    others: Any,
    other_strides: Any,
    order: Any,
    temperature: float,
    drop: float,
    state: Any,
) -> int:
    """Move each row, one attribute at a time, to the value that lowers the sum of squares of `excess` the most.

    Moving a row from u to v changes half of that sum by m + r(v) - r(u), with m the number of tables that hold the
    attribute and r the sum of their excess at the row. A move may raise it a little where `temperature` is above 0.

    Args:
        rows: shape (rows, d), changed in place, and `excess`, rows minus expected rows in every cell, with them.
        starts, strides: for each attribute and each table that holds it, where it begins and the attribute's stride.
        others, other_strides: the other two attributes of that table.
        order: of the rows.
        temperature: in units of m.
        drop: where r(u) is so far below what a gain needs, in units of m, the values are not looked at.

    Returns:
        the number of moves.
    """
    tables = starts.shape[1]
    base = np.empty(tables, np.int64)
    sums = np.empty(sizes.max(), np.float32)
    moved = 0
    for place in range(len(order)):
        row = order[place]
        for axis in range(rows.shape[1]):
            now, here = rows[row, axis], np.float32(0)
            for one in range(tables):
                at = starts[axis, one] + rows[row, others[axis, one, 0]] * other_strides[axis, one, 0]
                at += rows[row, others[axis, one, 1]] * other_strides[axis, one, 1]
                base[one] = at
                here += excess[at + now * strides[axis, one]]
            allowed = -temperature * tables * np.log(_uniform(state)) if temperature > 0 else 0.0
            if here + allowed < (1 - drop) * tables:
                continue
            size = sizes[axis]
            sums[:size] = 0
            for one in range(tables):
                stride = strides[axis, one]
                for value in range(size):
                    sums[value] += excess[base[one] + value * stride]
            best, least = now, allowed
            for value in range(size):
                if value != now:
                    change = tables + sums[value] - here
                    if change < least:
                        best, least = value, change
            if best != now:
                moved += 1
                for one in range(tables):
                    excess[base[one] + now * strides[axis, one]] -= 1
                    excess[base[one] + best * strides[axis, one]] += 1
                rows[row, axis] = best
    return moved
