"""The inner loop of counting, compiled by numba. Importing this imports numba: do it late."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np

_Function = Callable[..., Any]
#: Rows whose cell numbers are worked out together: they stay in the nearest cache.
_ROWS_AT_ONCE = 2048
#: Below all cells, and stays so whatever is added for the columns there can be.
_NOWHERE = -(2**40)


def jit(function: _Function) -> _Function:
    try:
        # Without the interpreter's lock: the thread that keeps a worker's lease must not wait for the end of a loop.
        kernel: _Function = numba.njit(cache=True, nogil=True)(function)
    except RuntimeError:  # nowhere to write a cache: compile again in each process
        kernel = numba.njit(nogil=True)(function)
    return kernel


@jit
def count_cells(codes: Any, columns: Any, sizes: Any, strides: Any, cells: Any) -> None:
    """Add 1 for each row to its cell of a marginal, unless it has no bin in one of the columns.

    Args:
        codes: bin numbers, shape (columns, rows); that of no bin is the number of bins.
        columns, sizes, strides: those of the marginal, how many bins they have, and how far apart the cells of these
            lie.
        cells: of the marginal; changed in place.
    """
    at = np.empty(_ROWS_AT_ONCE, np.int64)
    for first in range(0, codes.shape[1], _ROWS_AT_ONCE):
        length = min(_ROWS_AT_ONCE, codes.shape[1] - first)
        at[:length] = 0
        for place in range(len(columns)):
            column, size, stride = columns[place], sizes[place], strides[place]
            for row in range(length):
                code = codes[column, first + row]
                at[row] += code * stride if code < size else _NOWHERE
        for row in range(length):
            if at[row] >= 0:
                cells[at[row]] += 1
