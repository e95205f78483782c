"""Whole rows from tables over the cliques of a junction tree.

The first clique's rows are rounded under control (`rounding.py`). Every other clique has its rows already as far as it
shares columns with the clique before it: for each value of these, its m rows are split over the clique's other columns
in proportion to the fitted table, in whole rows that add up to m. Within the value they are paired at random, which is
what the tree says: given what two cliques share, they are independent.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray

from releases.engine.estimation.junction import Clique
from releases.engine.estimation.rounding import controlled_counts, split_counts
from releases.engine.noise.randomness import Randomness


def tree_rows(
    cliques: Sequence[Clique], tables: Sequence[NDArray[np.float64]], rows: int, rng: Randomness
) -> NDArray[np.int64]:
    """The bins of each attribute, one line an attribute, rows in random order."""
    columns = np.zeros((1 + max(axis for clique in cliques for axis in clique.axes), rows), dtype=np.int64)
    for clique, table in zip(cliques, tables, strict=True):
        own = [clique.axes[place] for place in clique.summed]
        # What is shared first, so that the cells of one value lie together.
        turned = np.ascontiguousarray(table.transpose(clique.kept + clique.summed))
        values = turned.shape[: len(clique.shared)]
        value = np.zeros(rows, dtype=np.int64)
        if values:
            value = np.ravel_multi_index(tuple(columns[list(clique.shared)]), values)
            held = np.bincount(value, minlength=prod(values))
            counts = split_counts(turned, held, rng)
        else:
            counts = controlled_counts(turned, rows, rng)
        flat = counts.reshape(-1)
        occupied = np.flatnonzero(flat)
        cells = np.repeat(occupied, flat[occupied])
        found = np.unravel_index(cells, turned.shape)[len(values) :]
        # Rows by value, in random order within each: as the cells lie.
        order = np.lexsort((rng.words(rows), value))
        for axis, bins in zip(own, found, strict=True):
            columns[axis, order] = bins
    return columns
