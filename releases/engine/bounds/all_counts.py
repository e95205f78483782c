"""A bound on the noise in every counting query over a noisy histogram at once, whichever are asked, and in any order.

A counting query names a set of bins for some attributes, and sums the cells of their product. Give each query q a code
length L(q) >= 0 with Σ_q e^{-L(q)} <= 1. If Pr[|noise of q| > w(q)] <= β e^{-L(q)} for each q, then with probability
1 - β no query at all is further off than its w(q): the union bound over all queries that there are, not only over those
asked. So whoever asks may choose the next question by the answers before it.

Queries that people ask get short codes. Of p attributes with two bins or more, r are restricted: ln(p + 1) for r, which
is from 0 to p, and ln C(p, r) for which. An attribute of d bins, of which s are named, 0 < s < d, adds the least of

    ln 3 + ln d                          one bin
    ln 3 + ln(d (d + 1) / 2 - 1)         neighbouring bins
    ln 3 + ln(d - 1) + ln C(d, s)        any bins

whose e^{-L} over all proper sets add up to some Z <= 1, as each of the three lists has as many entries as its number
says; ln Z, which is not above 0, is added, so that they add up to 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from math import ceil, comb, exp, inf, lgamma, log, prod

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from releases.engine.bounds.accuracy import laplace_chernoff_width, laplace_sum_quantile
from releases.engine.domain.universe import Universe
from releases.engine.workload.queries import Count

#: Added to every code length, far above what rounding loses of it.
_SLACK = 1e-6
#: Below e to it the law of a sum is not computed.
_RAREST = -600.0
#: Steps of the logarithm of a number of cells, rounded up, among which the widest query is looked for; and about how
#: many of the numbers found are bounded, others with the one before.
_STEP, _BOUNDED = log(2) / 64, 400
#: Widths from which on Chernoff's bound is enough.
_LARGEST = 50_000


def code_length(query: Count, universe: Universe) -> float:
    """L(q) of a simplified query, in nats."""
    sizes = [size for size in universe.shape if size > 1]
    restricted = [
        (universe[name].size, bins)
        for name, bins in zip(query.attributes, query.bins, strict=True)
        if len(bins) < universe[name].size
    ]
    named = sum(_length_of_bins(size, bins) for size, bins in restricted)
    return _length_of_choice(len(sizes), len(restricted)) + named


def _length_of_choice(attributes: int, restricted: int) -> float:
    return log(attributes + 1) + log(comb(attributes, restricted)) + _SLACK


def _length_of_bins(size: int, bins: Sequence[int]) -> float:
    if len(bins) == 1:
        return log(size) - _excess(size)
    number = len(bins)
    anything = log(size - 1) + lgamma(size + 1) - lgamma(number + 1) - lgamma(size - number + 1)
    if all(after - before == 1 for before, after in pairwise(sorted(bins))):
        anything = min(_length_of_neighbours(size), anything)
    return anything - _excess(size)


def _length_of_neighbours(size: int) -> float:
    return log(size * (size + 1) / 2 - 1)


def _lengths_of_numbers(size: int) -> NDArray[np.float64]:
    """ln(d - 1) + ln C(d, s) for s from 1 to d - 1."""
    numbers = np.arange(1, size, dtype=np.float64)
    chosen = gammaln(size + 1) - gammaln(numbers + 1) - gammaln(size - numbers + 1)
    return np.asarray(log(size - 1) + chosen)


@lru_cache(maxsize=1024)
def _excess(size: int) -> float:
    """-ln(3 Z): what a proper set of bins has less than the least of its three lengths without their ln 3."""
    anything = _lengths_of_numbers(size)[1:]
    # Of each number of bins from two on, neighbouring ones, and all others.
    neighbours = size - np.arange(1.0, size - 1)
    more = np.exp(-np.minimum(_length_of_neighbours(size), anything)) - np.exp(-anything)
    return -log(1 + float((neighbours * more).sum()) + len(anything) / (size - 1))


def width_of_count(query: Count, universe: Universe, *, scale: Fraction, beta: float) -> float:
    """w(q): how far the noise in a simplified query can be off, where every query of the universe keeps its own w with
    probability 1 - beta.

    Args:
        scale: of the discrete Laplace noise on every cell.
    """
    return _width(scale, query.summed(universe), log(beta) - code_length(query, universe))


def _width(scale: Fraction, cells: int, log_beta: float) -> float:
    if log_beta < _RAREST:
        return laplace_chernoff_width(scale=scale, count=cells, log_beta=log_beta)
    return laplace_sum_quantile(scale=scale, count=cells, beta=exp(log_beta))


@lru_cache(maxsize=256)
def widest_count(shape: tuple[int, ...], *, scale: Fraction, beta: float) -> float:
    """At least w(q) of every query q over a universe of that shape.

    Both the number of cells and the code length make w larger. So of each number of restricted attributes and each
    number of cells, rounded up, the longest code is enough, and it adds up over attributes.
    """
    sizes = [size for size in shape if size > 1]
    steps = ceil(log(max(prod(sizes), 1)) / _STEP) + len(sizes) + 1
    longest = np.full((len(sizes) + 1, steps), -inf)
    longest[0, 0] = 0.0
    for size in sizes:
        found = np.full_like(longest, -inf)
        _raise(found[:, ceil(log(size) / _STEP) :], longest, 0.0)
        for step, length in _longest_of(size):
            _raise(found[1:, step:], longest[:-1], length)
        longest = found
    for restricted in range(len(sizes) + 1):
        longest[restricted] += _length_of_choice(len(sizes), restricted)
    lengths = longest.max(axis=0)
    # Of the most cells first: what is shorter than the longest so far is narrower.
    ahead = np.concatenate([[-inf], np.maximum.accumulate(lengths[::-1])[:-1]])[::-1]
    kept = np.flatnonzero(lengths > ahead)[::-1]
    bounded, together = [], 1 + len(kept) // _BOUNDED
    for group in (kept[first : first + together] for first in range(0, len(kept), together)):
        cells = min(prod(sizes), ceil(exp(float(group[0]) * _STEP)))
        log_beta = log(beta) - float(lengths[group].max())
        bounded.append((laplace_chernoff_width(scale=scale, count=cells, log_beta=log_beta), cells, log_beta))
    widest = 0.0
    for at_most, cells, log_beta in sorted(bounded, reverse=True):
        if at_most <= widest:
            break
        # The law of a sum of large values takes long, and is close to its bound.
        widest = max(widest, _width(scale, cells, log_beta) if at_most < _LARGEST else at_most)
    return widest


def _longest_of(size: int) -> list[tuple[int, float]]:
    """For each number of bins that is less than all, rounded up, the longest code of such a set."""
    lengths = _lengths_of_numbers(size) - _excess(size)
    lengths[0] = log(size) - _excess(size)
    steps = np.ceil(np.log(np.arange(1, size)) / _STEP).astype(np.int64)
    longest = np.full(int(steps.max()) + 1, -inf)
    np.maximum.at(longest, steps, lengths)
    return [(step, float(length)) for step, length in enumerate(longest) if length > -inf]


def _raise(found: NDArray[np.float64], by: NDArray[np.float64], length: float) -> None:
    """The larger of what is found and of what is had, moved and longer by a code."""
    np.maximum(found, by[: found.shape[0], : found.shape[1]] + length, out=found)
