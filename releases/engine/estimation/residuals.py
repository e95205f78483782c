"""From noisy marginals to their residuals in whole numbers, and from residuals back to marginals.

A release shows residuals alone, so what is computed here of a noisy marginal has to be a function of its residual to
the last bit: the residual is taken in whole numbers, and all rounding comes after it.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from releases.engine.workload.residuals import Names, Residuals

#: Counts that a table of whole numbers is sure to hold.
_MOST_ROWS = 1 << 36


def whole_residual(table: NDArray[Any]) -> NDArray[Any]:
    """⊗ (d_i I - J) of a table, J all ones: the residual times the number of cells.

    In 64 bits sums wrap around, and then what comes out is still a function of the residual alone.
    """
    found = table
    for axis, size in enumerate(table.shape):
        found = size * found - found.sum(axis=axis, keepdims=True)
    return found


def holds(shape: tuple[int, ...], *, multiplier: int, deviation: float) -> bool:
    """Whether 64 bits hold the residual of `multiplier` times the counts of 2^36 rows, with noise of this deviation."""
    largest = multiplier * _MOST_ROWS + 40 * deviation
    return float(prod(2 * size for size in shape)) * largest < 2**63


def marginal_of(residuals: Residuals, names: Names, found: Mapping[Names, NDArray[np.float64]]) -> NDArray[np.float64]:
    """A marginal from its residuals: each spread evenly over the attributes that it does not have."""
    shape = residuals.shape(names)
    table = np.zeros(shape)
    for _, part in residuals.parts(names):
        spread = prod(size for name, size in zip(names, shape, strict=True) if name not in part)
        own = [size if name in part else 1 for name, size in zip(names, shape, strict=True)]
        table += (found[part] / spread).reshape(own)
    return table
