"""Rows without the combinations that are declared impossible: as few values as possible of the others are changed.

A fit that holds every cell gives impossible ones no weight, and makes no such row. Rows of a junction tree, of a
mixture, and of several components that have an impossible combination are mended here, in three steps.

1. Where the columns of a hierarchy (`domain.levels`) contradict one another, the coarsest keeps its bin, for fewer bins
   are known better. Each finer one keeps its bin where it fits those above it, and else takes one that does, with
   probability in proportion to its law given all others. No later step leaves the ways of a hierarchy.
2. A row x is moved to a row y that differs in one value and has no such combination, with probability in proportion to
   p(y_a | x without a), the law of that value given all others in the distribution that was fitted. Where no single
   value will do, the row takes its values of all columns in some combination from another row, one of those that differ
   in the fewest among the rows looked at.
3. That changes the tables of these columns with others. So rows move along these columns, those of hierarchies left
   out, to possible rows alone, as long as it brings the tables of pairs nearer to the fitted ones. Where numba is not
   installed this step is left out.

Post-processing: nothing here sees data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from releases.engine.domain.universe import Universe
from releases.engine.estimation.level_rows import Ways
from releases.engine.estimation.marginals import compiled_kernels
from releases.engine.estimation.result import AnyComponent, Distribution, MixtureComponent, TreeComponent
from releases.engine.noise.randomness import Randomness
from releases.engine.tables.possible import Named, is_impossible, named_bins, nearest_possible

Bins = dict[str, NDArray[np.int64]]
#: Numbers held at once, and rows.
_WORKED_ON, _MOST_ROWS = 1 << 22, 1 << 13
#: Of what the fit holds for possible: a value that it gives no weight is taken only where all others have none.
_LEAST = 1e-12
#: Rows without an impossible combination that are looked at where no single value will do.
_DONORS = 1000
#: Sweeps over the rows, and the look-ups of all of them together: a few seconds of work.
_SWEEPS, _MAX_WORK = 12, 2e9
#: Cells of all tables of pairs; where there would be more, rows stay as they are after the first step.
_MAX_CELLS = 5_000_000
#: Temperatures of the sweeps, from the first to the last but one; the last allows no rise.
_HOTTEST, _COLDEST = 1.0, 0.02


#: Of some rows, by their places, the probabilities of one attribute's bins given all their other values.
_Law = Callable[[NDArray[np.int64]], NDArray[np.float64]]


def mend(universe: Universe, distribution: Distribution, bins: Bins, rng: Randomness) -> None:
    """Change the rows, in place, that have a combination declared impossible.

    Args:
        universe: declares the combinations; those about attributes that the rows do not have say nothing.
        distribution: that the rows were made from.
        bins: of each attribute, row by row.
    """
    universe = universe.project(name for name in universe.names if name in bins)
    if not universe.is_limited:
        return
    home = {name: each for each in distribution.components for name in each.names}
    laws: dict[str, _Law] = {name: partial(_given_others, home[name], name, bins) for name in bins}
    rows = len(next(iter(bins.values())))
    levels = [Ways.of(each) for each in universe.hierarchies]
    for each in levels:
        _fit_levels(each, laws, bins, rng)
    named = named_bins(universe.impossible, universe.attributes)
    broken = np.flatnonzero(is_impossible(named, bins, rows))
    if not broken.size:
        return
    columns = [name for name in bins if any(name in each for each in named)]
    sizes = {name: universe[name].size for name in columns}
    step = max(1, min(_MOST_ROWS, _WORKED_ON // sum(sizes.values())))
    clean = np.setdiff1d(np.arange(rows), broken, assume_unique=True)
    for first in range(0, broken.size, step):
        some = broken[first : first + step]
        left = some[~_move_one_value(named, levels, sizes, laws, bins, some, rng)]
        if left.size:
            spare = universe.possible_row
            assert spare is not None
            joined = [name for each in levels if set(each.names) & set(columns) for name in each.names]
            _take_values(list(dict.fromkeys([*columns, *joined])), bins, left, clean, spare, rng)
    free = [name for name in columns if not any(name in each.names for each in levels)]
    if free and compiled_kernels():
        _settle(universe, distribution, named, free, bins, rng)


def _fit_levels(ways: Ways, laws: Mapping[str, _Law], bins: Bins, rng: Randomness) -> None:
    """Give every row one of the ways of a hierarchy, in place, from its coarsest column to its finest."""
    broken = np.flatnonzero(ways.places(bins) < 0)
    step = max(1, min(_MOST_ROWS, _WORKED_ON // max(each.size for each in ways.steps)))
    for first in range(0, broken.size, step):
        some = broken[first : first + step]
        place = np.zeros(some.size, dtype=np.int64)
        for each in ways.steps:
            own = bins[each.name][some]
            at = each.after(place, own)
            lost = np.flatnonzero(at < 0)
            if lost.size:
                weights = np.where(each.allowed(place[lost]), laws[each.name](some[lost]) + _LEAST, 0.0)
                own[lost] = _drawn(weights, rng)
                bins[each.name][some] = own
                at = each.after(place, own)
            place = at


def _drawn(weights: NDArray[np.float64], rng: Randomness) -> NDArray[np.int64]:
    """Of each line of weights, some of them above 0, the place of one with probability in proportion to it."""
    sums = np.cumsum(weights, axis=1)
    reach = sums[:, -1] * (rng.words(len(sums)) / 2.0**64)
    # Past the end once in 2^53 draws, by rounding.
    last = weights.shape[1] - 1 - np.argmax(weights[:, ::-1] > 0, axis=1)
    drawn: NDArray[np.int64] = np.minimum((sums <= reach[:, None]).sum(axis=1), last)
    return drawn


def _settle(
    universe: Universe, distribution: Distribution, named: Named, columns: Sequence[str], bins: Bins, rng: Randomness
) -> None:
    """Bring the tables of every column in some combination with others back to what was fitted, as far as possible
    rows allow: rows move along these columns alone."""
    from releases.engine.estimation import possible_kernels

    pairs = _Pairs.of(universe, distribution, named, columns, bins)
    if pairs is None:
        return
    place = {name: at for at, name in enumerate(bins)}
    rows = np.stack(list(bins.values()), axis=1).astype(np.int32)
    rules = _rules(named, place)
    state = rng.words(1) | np.uint64(1)
    sizes = np.array([universe[name].size for name in columns])
    sweeps = _MAX_WORK / (len(rows) * int((pairs.counts * (1 + sizes)).sum()))
    # The last allows no rise; the only one, of some rows, where there is no time for all of them.
    temperatures = [*np.geomspace(_HOTTEST, _COLDEST, max(1, min(_SWEEPS, int(sweeps))))[:-1], 0.0]
    for temperature in temperatures:
        order = np.argsort(rng.words(len(rows)), kind="stable")[: int(len(rows) * min(1.0, sweeps))]
        moving = np.array([place[name] for name in columns])
        possible_kernels.settle(
            rows, moving, pairs.counts, *pairs.others, sizes, pairs.excess, *rules, order, float(temperature), state
        )
    for name in columns:
        bins[name][:] = rows[:, place[name]]


@dataclass(frozen=True, kw_only=True, eq=False)
class _Pairs:
    """The tables of pairs that rows are kept close to.

    Attributes:
        counts: how many hold each of the columns along which rows move.
        others: for each of these columns and its pairs the other column, where the table begins, and both strides.
        excess: rows minus expected rows in every cell of all tables.
    """

    counts: NDArray[np.int64]
    others: tuple[NDArray[np.int64], ...]
    excess: NDArray[np.float64]

    @staticmethod
    def of(
        universe: Universe, distribution: Distribution, named: Named, columns: Sequence[str], bins: Bins
    ) -> _Pairs | None:
        """Those of columns that the fit, or a combination, joins; None where their tables are too large."""
        joined = [*(told for each in distribution.components for told in _together(each)), *map(set, named)]
        others = {
            name: [other for other in bins if other != name and any({name, other} <= each for each in joined)]
            for name in columns
        }
        sizes = {name: universe[name].size for name in bins}
        if sum(sizes[name] * sizes[other] for name, mine in others.items() for other in mine) > _MAX_CELLS:
            return None
        place = {name: at for at, name in enumerate(bins)}
        tables: list[NDArray[np.float64]] = []
        starts: dict[tuple[str, ...], int] = {}
        found = np.zeros((4, len(columns), max(map(len, others.values()))), dtype=np.int64)
        for row, (name, mine) in enumerate(others.items()):
            for at, other in enumerate(mine):
                pair = tuple(sorted((name, other), key=place.__getitem__))
                if pair not in starts:
                    starts[pair] = sum(each.size for each in tables)
                    tables.append(_excess(universe.project(pair), distribution, bins))
                strides = (sizes[other], 1) if pair[0] == name else (1, sizes[name])
                found[:, row, at] = place[other], starts[pair], *strides
        return _Pairs(
            counts=np.array([len(mine) for mine in others.values()]),
            others=tuple(found),
            excess=np.concatenate([each.reshape(-1) for each in tables]),
        )


def _rules(named: Named, place: Mapping[str, int]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """The columns of each combination, -1 behind them; where the bins of each begin; and which bins are named."""
    columns, starts = (np.full((len(named), max(map(len, named))), -1, dtype=np.int64) for _ in range(2))
    flat: list[NDArray[np.bool_]] = []
    for number, combination in enumerate(named):
        for member, (name, has) in enumerate(combination.items()):
            columns[number, member], starts[number, member] = place[name], sum(map(len, flat))
            flat.append(has)
    return columns, starts, np.concatenate(flat)


def _together(component: AnyComponent) -> list[set[str]]:
    """Attributes between which a component holds what tables said; of a junction tree those of each clique."""
    if isinstance(component, TreeComponent):
        return [{component.names[axis] for axis in clique.axes} for clique in component.cliques]
    return [set(component.names)]


def _excess(pair: Universe, distribution: Distribution, bins: Bins) -> NDArray[np.float64]:
    """Rows minus expected rows in every cell of a pair. In impossible cells none are expected."""
    expected = nearest_possible(pair, distribution.marginal(pair.names))
    rows = len(bins[pair.names[0]])
    cells = np.ravel_multi_index([bins[name] for name in pair.names], pair.shape)
    counted = np.bincount(cells, minlength=pair.size).reshape(pair.shape)
    return counted - expected * (rows / float(expected.sum()))


def _move_one_value(
    named: Named,
    levels: Sequence[Ways],
    sizes: Mapping[str, int],
    laws: Mapping[str, _Law],
    bins: Bins,
    some: NDArray[np.int64],
    rng: Randomness,
) -> NDArray[np.bool_]:
    """Of each row, whether a change of one value was enough."""
    here = {name: bins[name][some] for name in sizes}
    weights = []
    for name in sizes:
        allowed = _allowed(named, name, sizes[name], here)
        for each in levels:
            if name in each.names:
                allowed &= each.beside_others(name, {other: bins[other][some] for other in each.names})
        # Only the values that are allowed have a weight, and each of them some.
        weights.append(np.where(allowed, laws[name](some) + _LEAST, 0.0))
    sums = np.cumsum(np.concatenate(weights, axis=1), axis=1)
    reach = sums[:, -1] * (rng.words(some.size) / 2.0**64)
    chosen = (sums <= reach[:, None]).sum(axis=1)
    # Past the end where nothing is allowed; and, once in 2^53 draws, by rounding.
    is_enough: NDArray[np.bool_] = (sums[:, -1] > 0) & (chosen < sums.shape[1])
    start = 0
    for name, size in sizes.items():
        mine = is_enough & (chosen >= start) & (chosen < start + size)
        bins[name][some[mine]] = chosen[mine] - start
        start += size
    return is_enough


def _allowed(named: Named, name: str, size: int, here: Bins) -> NDArray[np.bool_]:
    """Of each row and value of a column, whether the row would have no impossible combination with that value."""
    rows = len(here[name])
    allowed = np.ones((rows, size), dtype=bool)
    for combination in named:
        others = {other: bins for other, bins in combination.items() if other != name}
        has_others = is_impossible([others], here, rows)
        allowed[has_others] &= ~combination[name] if name in combination else False
    return allowed


def _take_values(
    columns: Sequence[str],
    bins: Bins,
    left: NDArray[np.int64],
    clean: NDArray[np.int64],
    spare: Mapping[str, int],
    rng: Randomness,
) -> None:
    """The values of all columns in some combination, from a row that differs in the fewest of them."""
    donors = clean[np.argsort(rng.words(clean.size), kind="stable")[:_DONORS]]
    given = {name: bins[name][donors] if donors.size else np.array([spare[name]]) for name in columns}
    patterns, which = np.unique(np.stack([bins[name][left] for name in columns]), axis=1, return_inverse=True)
    for number, pattern in enumerate(patterns.T):
        differ = sum((given[name] != value).astype(np.int64) for name, value in zip(columns, pattern, strict=True))
        nearest, rows = np.flatnonzero(differ == np.min(differ)), left[which == number]
        taken = nearest[(rng.words(rows.size) % np.uint64(nearest.size)).astype(np.int64)]
        for name in columns:
            bins[name][rows] = given[name][taken]


def _given_others(component: AnyComponent, name: str, bins: Bins, some: NDArray[np.int64]) -> NDArray[np.float64]:
    """The law of one attribute given all others of its component, shape (rows, bins); no weight where the others
    themselves have none."""
    at = [bins[each][some] for each in component.names]
    axis = component.names.index(name)
    if isinstance(component, MixtureComponent):
        law = _of_mixture(component, axis, at)
    elif isinstance(component, TreeComponent):
        law = _of_tree(component, axis, at)
    else:
        law = _line(component.weights, range(len(at)), axis, at)
    sums = law.sum(axis=1, keepdims=True)
    shares: NDArray[np.float64] = law / np.where(sums > 0, sums, 1.0)
    return shares


def _line(
    table: NDArray[np.float64], axes: Sequence[int], axis: int, at: Sequence[NDArray[np.int64]]
) -> NDArray[np.float64]:
    """Of each row the cells of a table that differ from its own along one axis alone."""
    line: NDArray[np.float64] = np.moveaxis(table, list(axes).index(axis), -1)[
        tuple(at[each] for each in axes if each != axis)
    ]
    return np.broadcast_to(line, (len(at[axis]), line.shape[-1]))


def _of_mixture(component: MixtureComponent, axis: int, at: Sequence[NDArray[np.int64]]) -> NDArray[np.float64]:
    mixture = component.mixture
    held = np.tile(mixture.shares.astype(np.float64), (len(at[axis]), 1))
    for other, values in enumerate(at):
        if other != axis:
            held *= mixture.conditionals(other)[values]
            # Only their ratios matter; a product over hundreds of attributes would be lost below the least double.
            held /= np.maximum(held.max(axis=1, keepdims=True), np.finfo(np.float64).tiny)
    return held @ mixture.conditionals(axis).T.astype(np.float64)


def _of_tree(component: TreeComponent, axis: int, at: Sequence[NDArray[np.int64]]) -> NDArray[np.float64]:
    """Over the cliques that hold the attribute, what is in them, divided by what neighbours share of it."""
    law: NDArray[np.float64] = np.ones(())
    for clique, table in zip(component.cliques, component.tables, strict=True):
        if axis in clique.axes:
            law = law * _line(table, clique.axes, axis, at)
            if axis in clique.shared:
                shared = _line(table.sum(axis=clique.summed), clique.shared, axis, at)
                law = law / np.where(shared > 0, shared, 1.0)
    return law
