"""A random forest over small whole numbers, compiled by numba. Importing this imports numba: do it late."""

from __future__ import annotations

from typing import Any

import numpy as np

from releases.engine.estimation.mixture_kernels import _jit, _uniform


@_jit
def posterior(
    known: Any, labels: Any, targets: Any, trees: int, depth: int, tries: int, state: Any, shares: Any
) -> None:
    """Add to `shares` what a forest takes the label of each target for: the mean over trees of the shares of labels in
    the target's leaf.

    Breiman (2001), "Random forests", Machine Learning 45: each tree is grown on as many rows drawn with replacement, up
    to leaves of one label; a node is cut where the Gini impurity falls the most, along some columns drawn at random.

    Args:
        known: shape (rows, columns).
        labels: shape (rows,), from 0 to below the number of columns of `shares`.
        targets: shape (targets, columns).
        tries: columns that a node looks along; more, until one can be cut.
        state: of the generator, shape (1,), not 0.
        shares: shape (targets, labels), 0.
    """
    rows, columns = known.shape
    kinds = shares.shape[1]
    order, spare = np.empty(rows, np.int64), np.empty(rows, np.int64)
    along = np.arange(columns)
    below, above = np.zeros(kinds, np.int64), np.zeros(kinds, np.int64)
    first, last = np.empty(2 * rows + 1, np.int64), np.empty(2 * rows + 1, np.int64)
    level, child = np.empty(2 * rows + 1, np.int64), np.empty(2 * rows + 1, np.int64)
    cut_along, cut_at = np.empty(2 * rows + 1, np.int64), np.empty(2 * rows + 1, np.int64)
    for _ in range(trees):
        for place in range(rows):
            order[place] = int(_uniform(state) * rows)
        first[0], last[0], level[0], nodes, node = 0, rows, 0, 1, 0
        while node < nodes:
            start, stop = first[node], last[node]
            cut_along[node] = -1
            is_pure = True
            for place in range(start + 1, stop):
                if labels[order[place]] != labels[order[start]]:
                    is_pure = False
                    break
            best, looked = -1.0, 0
            while not is_pure and level[node] < depth and looked < columns:
                if looked >= tries and best >= 0:
                    break
                other = looked + int(_uniform(state) * (columns - looked))
                along[looked], along[other] = along[other], along[looked]
                column = along[looked]
                looked += 1
                values = np.empty(stop - start, np.int64)
                squares_above = 0.0
                for place in range(start, stop):
                    values[place - start] = known[order[place], column]
                    kind = labels[order[place]]
                    squares_above += 2 * above[kind] + 1
                    above[kind] += 1
                sorted_places = np.argsort(values)
                squares_below = 0.0
                for count in range(1, stop - start):
                    moved = sorted_places[count - 1]
                    kind = labels[order[start + moved]]
                    squares_below += 2 * below[kind] + 1
                    squares_above -= 2 * above[kind] - 1
                    below[kind] += 1
                    above[kind] -= 1
                    value = values[moved]
                    if value != values[sorted_places[count]]:
                        gain = squares_below / count + squares_above / (stop - start - count)
                        if gain > best:
                            best = gain
                            cut_along[node], cut_at[node] = column, value
                for place in range(start, stop):
                    kind = labels[order[place]]
                    below[kind] = 0
                    above[kind] = 0
            if cut_along[node] >= 0:
                low, high = start, 0
                for place in range(start, stop):
                    row = order[place]
                    if known[row, cut_along[node]] <= cut_at[node]:
                        order[low] = row
                        low += 1
                    else:
                        spare[high] = row
                        high += 1
                order[low:stop] = spare[:high]
                child[node] = nodes
                first[nodes], last[nodes], level[nodes] = start, low, level[node] + 1
                first[nodes + 1], last[nodes + 1], level[nodes + 1] = low, stop, level[node] + 1
                nodes += 2
            node += 1
        for target in range(len(targets)):
            node = 0
            while cut_along[node] >= 0:
                node = child[node] + int(targets[target, cut_along[node]] > cut_at[node])
            share = 1.0 / (trees * (last[node] - first[node]))
            for place in range(first[node], last[node]):
                shares[target, labels[order[place]]] += share
