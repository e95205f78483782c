"""Noisy counts of many groups that lean towards what all groups have in common: post-processing.

The counts C of the values of a column in many groups have noise of variance s². Of a group of N rows p_v N have the
value v, if it is like all rows together, and its own count differs from that by a deviation of sqrt(p_v N +
K (p_v N)²), as counts of a gamma mixture of Poisson laws do, so that

    p_v N + w (C - p_v N),   w = d² / (d² + s²),   d² = p_v N + K (p_v N)²,

has the least mean squared error of all that are linear in C (Bühlmann 1967). A group of few rows leans towards all
rows, and one of many keeps its own counts.
"""

from __future__ import annotations

from fractions import Fraction
from math import exp

import numpy as np
from numpy.typing import NDArray

#: K: groups differ from all rows together by a factor of 1 + 1.7 or so. Chosen on Adult's ages by native country.
_MIXED = 3
#: A count of all rows together is no less than this.
_FEWEST = 0.5


def leaning(noisy: NDArray[np.int64], *, scale: Fraction) -> NDArray[np.float64]:
    """Counts of the values in each group that lean towards those of all groups.

    Args:
        noisy: one row for each group, of as many counts.
        scale: of the discrete Laplace noise on them.
    """
    ratio = exp(-1 / float(scale))
    variance = 2 * ratio / (1 - ratio) ** 2
    together = np.maximum(noisy.sum(axis=0), _FEWEST)
    expected = np.maximum(noisy.sum(axis=1, keepdims=True), 1) * (together / together.sum())
    deviation = expected + _MIXED * expected**2
    found: NDArray[np.float64] = np.maximum(expected + deviation / (deviation + variance) * (noisy - expected), 0.0)
    return found
