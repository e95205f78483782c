"""Which marginals of three attributes to measure, once noisy distances from the truth to a fit are known.

For each triple S there is e_S, the noisy total variation between the truth and the fit. Measuring it with noise of
standard deviation s tells little of the cells with fewer rows than about 4/5 s, which hold a share h of the rows, and
leaves noise in the others. What is left is about

    min(e_S, h e_S / 4 + half of sum over its cells c of min(4/5 s, n p_c) / (2 n)),

a quarter and half because tables that overlap help each other. The triples with the largest e_S / cells^(2/3) are
measured, each with a weight of cells^(2/3), as many of them as make the sum over all triples least: measuring one more
takes from the others. An error counts as much as it is worth to what is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from math import log2, prod

import numpy as np
from numpy.typing import NDArray

from releases.engine.estimation.marginals import Axes
from releases.engine.estimation.mixture import Mixture

#: See the head of this file.
_HIDDEN, _OVERLAP, _MEAN_SIZE, _POWER = 0.25, 0.5, 0.8, 2 / 3
#: What has to be gained at least, as a share of the sum over all triples. On seven tables triples were worth it from a
#: twentieth on, and below a fiftieth it was better to measure pairs again.
_MIN_GAIN = 0.03
#: Numbers of triples that are tried.
_TRIED = 40


def triples_to_measure(
    distances: NDArray[np.float64],
    cells: NDArray[np.int64],
    *,
    worth: NDArray[np.float64],
    expected: Callable[[int], NDArray[np.float64]],
    deviations: Callable[[Sequence[float]], NDArray[np.float64]],
    rows: float,
    most_cells: float,
) -> list[tuple[int, float]]:
    """Positions of the triples to measure, and the weight of each. None may be worth it.

    Args:
        distances: noisy total variation between truth and fit, of each candidate.
        cells: of each candidate.
        worth: of a smaller error of each candidate, from 0 to 1.
        expected: the fit's counts of a candidate.
        deviations: of the noise on tables that share what there is by these weights.
        rows: number of rows.
        most_cells: of all chosen tables together.
    """
    powers = np.array([rounded_size(int(each)) for each in cells]) ** _POWER
    order = np.argsort(-worth * distances / powers, kind="stable")
    most = int(np.searchsorted(np.cumsum(cells[order]), most_cells, side="right"))
    missed, worth = np.maximum(distances[order], 0.0), worth[order]
    counts = [_Counts(expected(int(at))) for at in order[:most]]
    best: list[tuple[int, float]] = []
    everything = least = float(worth @ missed)
    for number in sorted({round(each) for each in np.linspace(1, most, _TRIED)}) if most else ():
        weights = powers[order[:number]].tolist()
        found = zip(counts, missed.tolist(), deviations(weights), worth.tolist(), strict=False)
        left = sum(value * one.left(error, each, rows) for one, error, each, value in found)
        left += float(worth[number:] @ missed[number:])
        if left < least:
            least, best = left, list(zip(order[:number].tolist(), weights, strict=True))
    return best if least < (1 - _MIN_GAIN) * everything else []


def rounded_size(cells: int) -> float:
    """A number of cells up to a factor of 2^(1/4): tables of about one size share a law of noise, which is costly to
    prepare."""
    return float(2 ** (round(2 * log2(max(1, cells))) / 2))


def promising(mixture: Mixture, triples: Sequence[Axes], *, most: int, most_cells: int) -> list[Axes]:
    """The triples to look at, in order: of two of whose pairs a fit says that they are far from independent.

    Where neither has to do with the other two attributes there is nothing in a triple that its pairs do not tell.

    Args:
        mixture: fitted to noisy pairs.
        triples: all of them.
        most, most_cells: that are looked at, and of all of them together.
    """
    shape = mixture.shape
    cells = np.array([prod(shape[axis] for axis in axes) for axes in triples])
    if len(triples) <= most and cells.sum() <= most_cells:
        return list(triples)
    apart = np.zeros((len(shape), len(shape)))
    alone = [mixture.marginal((axis,)) for axis in range(len(shape))]
    for one, other in combinations(range(len(shape)), 2):
        table = mixture.marginal((one, other))
        apart[one, other] = np.abs(table - np.outer(alone[one], alone[other])).sum() / 2
    first, second, third = np.array(triples).T
    three = np.sort([apart[first, second], apart[first, third], apart[second, third]], axis=0)
    order = np.argsort(-(three[1] + three[2]), kind="stable")[:most]
    kept = order[np.cumsum(cells[order]) <= most_cells]
    return [triples[at] for at in sorted(kept.tolist())]


class _Counts:
    """Expected counts of a table's cells, rising, with their running sums."""

    def __init__(self, table: NDArray[np.float64]) -> None:
        self._counts = np.sort(table, axis=None)
        self._below = np.concatenate([[0.0], np.cumsum(self._counts)])

    def left(self, error: float, deviation: float, rows: float) -> float:
        """The error that is left of a table once it is measured with noise of this standard deviation."""
        reach = _MEAN_SIZE * deviation
        small = int(np.searchsorted(self._counts, reach))
        hidden = float(self._below[small])
        noise = _OVERLAP * (hidden + reach * (len(self._counts) - small)) / (2 * rows)
        return min(error, _HIDDEN * error * hidden / rows + noise)
