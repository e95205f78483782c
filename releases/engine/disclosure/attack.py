"""CoBP-RA, the reconstruction attack of the team that came first in NIST's red-team exercise of 2025, for one hidden
column.

Source: "SoK: Reconstruction Attacks on Synthetic Tabular Data (Insights from Winning the NIST CRC)", arXiv 2606.08372
(2026): the posterior of a random forest for each hidden column, refined by belief propagation on the maximum spanning
tree of mutual information between columns. This is its strongest variant, in which known columns are nodes of the tree
whose values are observed and the weight of a message is the certainty of its sender. Its settings are kept: 25 trees at
most 25 deep, columns of more than 50 values outside of the tree, 1e-6 added to each cell. Tables are those of all
synthetic rows, its global mode.

With a single hidden column h every message comes from an observed column, so belief propagation is exact and short. Let
f(v | x) be the forest's posterior, N(h) the columns beside h in the tree, and P the shares among synthetic rows. The
guess is the v with the largest

    ln f(v | x) + sum over u in N(h) of ln P(h = v, u = x_u) / (P(h = v) P(u = x_u)).

A value x_u that no synthetic row has says nothing of v, and sends no message.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import isqrt

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import minimum_spanning_tree

from releases.engine.noise.randomness import Randomness

Bins = NDArray[np.int64]
TREES, DEPTH = 25, 25
#: Columns of more bins have no place in the tree, and cells get this much so that no logarithm is of 0.
MOST_JOINED, _ADDED = 50, 1e-6
_LEAST_SHARE = 1e-12


def guess(rows: Bins, targets: Bins, sizes: Sequence[int], hidden: Sequence[int], rng: Randomness) -> Bins:
    """The guess of each hidden column for each target, from synthetic rows and all other columns of the target.

    Args:
        rows: shape (synthetic rows, columns): numbers of bins.
        targets: shape (targets, columns), in the same columns. What a column holds is not looked at when it is guessed.
        sizes: bins of each column.
        hidden: columns to guess, each for itself.

    Returns:
        Shape (targets, hidden columns). Without any row the first bin is guessed.
    """
    from releases.engine.disclosure import forest_kernels

    found = np.zeros((len(targets), len(hidden)), dtype=np.int64)
    if not len(rows):
        return found
    beside = _tree(rows, sizes)
    for place, column in enumerate(hidden):
        known = np.arange(len(sizes)) != column
        shares = np.zeros((len(targets), sizes[column]))
        forest_kernels.posterior(
            np.ascontiguousarray(rows[:, known]),
            np.ascontiguousarray(rows[:, column]),
            np.ascontiguousarray(targets[:, known]),
            TREES,
            DEPTH,
            max(1, isqrt(len(sizes) - 1)),
            rng.words(1) | np.uint64(1),
            shares,
        )
        occurs = np.bincount(rows[:, column], minlength=sizes[column]) > 0
        belief = np.where(occurs, np.log(np.maximum(shares, _LEAST_SHARE)), -np.inf)
        for other in beside[column]:
            belief += _messages(rows, column, other, sizes)[targets[:, other]]
        found[:, place] = belief.argmax(axis=1)
    return found


def most_frequent(rows: Bins, sizes: Sequence[int], hidden: Sequence[int]) -> Bins:
    """The guess of somebody who knows nothing of the target: the most frequent bin of each hidden column."""
    return np.array([np.bincount(rows[:, column], minlength=sizes[column]).argmax() for column in hidden])


def _joint(rows: Bins, first: int, second: int, sizes: Sequence[int]) -> NDArray[np.int64]:
    cells = rows[:, first] * sizes[second] + rows[:, second]
    return np.bincount(cells, minlength=sizes[first] * sizes[second]).reshape(sizes[first], sizes[second])


def _messages(rows: Bins, column: int, other: int, sizes: Sequence[int]) -> NDArray[np.float64]:
    """For each bin of the other column what it says of each bin of the hidden one."""
    counts = _joint(rows, other, column, sizes)
    shares = counts + _ADDED
    shares /= shares.sum()
    found = np.log(shares) - np.log(shares.sum(axis=1, keepdims=True)) - np.log(shares.sum(axis=0, keepdims=True))
    return np.where(counts.sum(axis=1, keepdims=True) > 0, found, 0.0)


def _tree(rows: Bins, sizes: Sequence[int]) -> list[list[int]]:
    """The columns beside each one in the maximum spanning tree of mutual information."""
    joined = [column for column, size in enumerate(sizes) if size <= MOST_JOINED]
    pairs = list(combinations(joined, 2))
    beside: list[list[int]] = [[] for _ in sizes]
    if not pairs:
        return beside
    shared = np.array([_mutual_information(_joint(rows, *pair, sizes)) for pair in pairs])
    first, second = np.array(pairs).T
    # Lengths above 0, shorter the more two columns say of one another.
    lengths = coo_array((1.0 + shared.max() - shared, (first, second)), shape=(len(sizes), len(sizes)))
    for one, two in zip(*minimum_spanning_tree(lengths.tocsr()).nonzero(), strict=True):
        beside[one].append(int(two))
        beside[two].append(int(one))
    return beside


def _mutual_information(counts: NDArray[np.int64]) -> float:
    shares = counts / counts.sum()
    apart = np.outer(shares.sum(axis=1), shares.sum(axis=0))
    held = shares > 0
    return float((shares[held] * np.log(shares[held] / apart[held])).sum())
