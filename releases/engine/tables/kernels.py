"""The inner loop of counting, compiled by numba. Importing this imports numba: do it late."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np

_Function = Callable[..., Any]
#: Rows whose cell numbers are worked out together: they stay in the nearest cache.
_ROWS_AT_ONCE = 2048


def jit(function: _Function) -> _Function:
    try:
        # Without the interpreter's lock: the thread that keeps a worker's lease must not wait for the end of a loop.
        kernel: _Function = numba.njit(cache=True, nogil=True)(function)
    except RuntimeError:  # nowhere to write a cache: compile again in each process
        kernel = numba.njit(nogil=True)(function)
    return kernel


@jit
def count_cells(codes: Any, columns: Any, strides: Any, cells: Any) -> None:
    """Add 1 for each row to its cell of a marginal.

    Args:
        codes: bin numbers, shape (columns, rows).
        columns, strides: those of the marginal, and how far apart the cells of their bins lie.
        cells: of the marginal; changed in place.
    """
    at = np.empty(_ROWS_AT_ONCE, np.int64)
    for first in range(0, codes.shape[1], _ROWS_AT_ONCE):
        length = min(_ROWS_AT_ONCE, codes.shape[1] - first)
        at[:length] = 0
        for place in range(len(columns)):
            column, stride = columns[place], strides[place]
            for row in range(length):
                at[row] += codes[column, first + row] * stride
        for row in range(length):
            cells[at[row]] += 1
