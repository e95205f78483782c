"""Which cells of a table over declared bins, and which rows, have a combination that is declared impossible."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from releases.engine.domain.attribute import Attribute
from releases.engine.domain.impossible import Combination
from releases.engine.domain.universe import Universe

#: Turns of scaling a table to all of its columns.
_TURNS = 50
#: For each combination, by column, which bins it names.
Named = list[dict[str, NDArray[np.bool_]]]


def named_bins(combinations: Sequence[Combination], attributes: Sequence[Attribute]) -> Named:
    sizes = {each.name: each.size for each in attributes}
    found: Named = []
    for each in combinations:
        named = {name: np.zeros(sizes[name], dtype=bool) for name in each.names}
        for name, places in each.places(attributes).items():
            named[name][list(places)] = True
        found.append(named)
    return found


def is_impossible(named: Named, columns: Mapping[str, NDArray[np.integer]], rows: int) -> NDArray[np.bool_]:
    """Of each row, given by the numbers of its bins, whether it has one of the combinations.

    Those about a column that is not given say nothing.
    """
    found = np.zeros(rows, dtype=bool)
    for combination in named:
        if set(combination) <= set(columns):
            has = np.ones(rows, dtype=bool)
            for name, bins in combination.items():
                has &= bins[columns[name]]
            found |= has
    return found


def clear_impossible(
    universe: Universe, table: NDArray[np.float64] | NDArray[np.int64], combinations: Sequence[Combination]
) -> None:
    """Set the cells of a table over the universe that have one of the combinations to 0, in place.

    The cells of a combination are a product of bins, so nothing of the table's size is made.
    """
    for each in combinations:
        places = each.places(universe.attributes)
        axes = universe.axes(places)
        turned = np.moveaxis(table, axes, range(len(axes)))
        turned[np.ix_(*places.values())] = 0


def clear_outside_levels(universe: Universe, table: NDArray[np.float64] | NDArray[np.int64]) -> None:
    """Set the cells of a table over the universe to 0, in place, whose bins are none of the ways of a hierarchy."""
    for each in universe.hierarchies:
        is_outside = np.ones([attribute.size for attribute in each.attributes], dtype=bool)
        is_outside[tuple(np.array(each.ways, dtype=np.int64).reshape(-1, is_outside.ndim).T)] = False
        np.moveaxis(table, universe.axes(each.names), range(is_outside.ndim))[is_outside] = 0


def only_possible(universe: Universe, weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Weights over the universe as they are in possible cells, and 0 in the others; even ones where none is left.

    Between possible cells ratios stay what they are: it is the distribution given that no combination of the universe
    occurs.
    """
    if not universe.is_limited:
        return weights
    kept = weights.copy()
    _clear(universe, kept)
    if not kept.any():
        kept = np.ones_like(weights)
        _clear(universe, kept)
    return kept


def _clear(universe: Universe, table: NDArray[np.float64]) -> None:
    clear_impossible(universe, table, universe.impossible)
    clear_outside_levels(universe, table)


def nearest_possible(universe: Universe, table: NDArray[np.float64]) -> NDArray[np.float64]:
    """The table over possible cells that is nearest in Kullback-Leibler divergence and has, as far as these cells
    allow, the sums over each column that the given one has: iterative proportional fitting (Deming and Stephan 1940).
    """
    if not universe.is_limited:
        return table
    kept = only_possible(universe, table)
    others = [tuple(other for other in range(table.ndim) if other != axis) for axis in range(table.ndim)]
    wanted = [table.sum(axis=each, keepdims=True) for each in others]
    for _ in range(_TURNS):
        for each, sums in zip(others, wanted, strict=True):
            held = kept.sum(axis=each, keepdims=True)
            kept = kept * (sums / np.where(held > 0, held, 1.0))
    return kept
