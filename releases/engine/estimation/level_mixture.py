"""A mixture of products over a column and its levels: their laws within each component, made to add up.

A mixture has a law P_a(. | k) of each column in each component, and takes columns for independent there. Where one
column of a hierarchy (`domain.levels`) has all others as levels, the *finest*, all laws of the hierarchy follow from
its law F: P_c(r | k) = Σ over its bins t in r of F(t | k). So tables over levels, alone or with other columns, are sums
of tables over the finest column, exactly.

Both laws were fitted to noisy tables. Let p_a be the precision of what these say of one bin of column a: Σ over tables
with a, and no other column of its hierarchy, of d_a / (cells times variance). The n_r bins of F in r then say of r what
one number of precision p_F / n_r does. Two unbiased numbers with independent noise are best put together by precision
(Aitken 1936), so the law of r becomes

    (p_c P_c(r | k) + p_F / n_r Σ F(t | k)) / (p_c + p_F / n_r),

brought to sum 1, and F is scaled to that within each r. The weights are the same for all components, so that is what is
done to the mixture's own tables too, whatever other columns they have. Several levels follow one after the other, the
finest of them first. Only the fit and public numbers are used.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from releases.engine.domain.levels import Hierarchy
from releases.engine.domain.universe import Universe
from releases.engine.estimation.fit import NoisyMarginal
from releases.engine.estimation.marginals import Axes
from releases.engine.estimation.mixture import Mixture

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class LevelMixture:
    """A mixture whose hierarchies have a finest column each.

    Attributes:
        mixture: over columns, those of one hierarchy taken for independent within a component.
        within: of each column of such a hierarchy, the finest included, the axis of the finest one, and of each bin of
            that its own bin; -1 where no row is in it.
    """

    mixture: Mixture
    within: Mapping[int, tuple[int, NDArray[np.int64]]]

    @staticmethod
    def of(universe: Universe, mixture: Mixture, measured: Sequence[NoisyMarginal]) -> LevelMixture:
        """The mixture, its levels made to add up.

        Args:
            measured: what it was fitted to.
        """
        within: dict[int, tuple[int, NDArray[np.int64]]] = {}
        stacked = mixture.stacked.astype(np.float64)
        blocks = [slice(*mixture.starts[axis : axis + 2]) for axis in range(len(mixture.shape))]
        for each in universe.hierarchies:
            if (finest := _finest(each)) is None:
                continue
            fine = universe.axis(finest)
            maps = {
                universe.axis(name): np.array(each.map_between(finest, name), dtype=np.int64) for name in each.names
            }
            within |= {axis: (fine, bins) for axis, bins in maps.items()}
            law = stacked[blocks[fine]]
            for place in reversed(each.from_coarse_to_fine):
                axis = universe.axis(each.names[place])
                if axis != fine:
                    of_level, of_finest = (_precision(one, maps, mixture.shape, measured) for one in (axis, fine))
                    law = _scaled(law, maps[axis], stacked[blocks[axis]], of_level, of_finest)
            for axis, bins in maps.items():
                stacked[blocks[axis]] = _summed(law, bins, mixture.shape[axis])
        if not within:
            return LevelMixture(mixture=mixture, within={})
        made = Mixture(shape=mixture.shape, shares=mixture.shares, stacked=stacked.astype(np.float32))
        return LevelMixture(mixture=made, within=within)

    def holds(self, universe: Universe) -> bool:
        """Whether all hierarchies have a finest column."""
        return {universe.axis(name) for each in universe.hierarchies for name in each.names} <= self.within.keys()

    def marginal(self, axes: Axes) -> Floats:
        """The probabilities of a marginal, one axis a column, in the order given; 0 where no row can be."""
        groups: dict[int, list[int]] = {}
        for axis in axes:
            if axis in self.within:
                groups.setdefault(self.within[axis][0], []).append(axis)
        several = {fine: own for fine, own in groups.items() if len(own) > 1}
        if not several:
            return self.mixture.marginal(axes)
        joint = {axis for own in several.values() for axis in own}
        alone = [axis for axis in axes if axis not in joint]
        laws, places, order = [self.mixture.conditionals(axis) for axis in alone], [], list(alone)
        for fine, own in several.items():
            bins = np.stack([self.within[axis][1] for axis in own])
            shape = tuple(self.mixture.shape[axis] for axis in own)
            kept = np.flatnonzero((bins >= 0).all(axis=0))
            cells = np.ravel_multi_index(tuple(bins[:, kept]), shape)
            lines, of_bin = np.unique(cells, return_inverse=True)
            laws.append(_summed(self.mixture.conditionals(fine)[kept], of_bin, lines.size).astype(np.float32))
            places.append((lines, shape))
            order += own
        # The combinations of bins of one hierarchy that occur are the bins of one column.
        collapsed = Mixture(
            shape=tuple(map(len, laws)), shares=self.mixture.shares, stacked=np.concatenate(laws).astype(np.float32)
        )
        table = collapsed.marginal(tuple(range(len(laws))))
        for number, (lines, shape) in enumerate(places, start=len(alone)):
            spread = np.zeros((*table.shape[:number], prod(shape), *table.shape[number + 1 :]))
            spread[(slice(None),) * number + (lines,)] = table
            table = spread
        whole = table.reshape([self.mixture.shape[axis] for axis in order])
        return whole.transpose([order.index(axis) for axis in axes])


def _finest(hierarchy: Hierarchy) -> str | None:
    """The column whose bins all others follow from; None where there is none."""
    names = hierarchy.names
    return next((one for one in names if all(hierarchy.map_between(one, other) is not None for other in names)), None)


def _precision(axis: int, hierarchy: Iterable[int], shape: Axes, measured: Sequence[NoisyMarginal]) -> float:
    """p_a of the head of this file."""
    alone = (each for each in measured if set(each.axes).intersection(hierarchy) == {axis})
    return sum(shape[axis] / (each.table.size * each.variance) for each in alone)


def _summed(law: NDArray[np.floating], bins: NDArray[np.int64], size: int) -> Floats:
    """The law of a level, shape (bins, K), from that of the finest column."""
    found = np.zeros((size, law.shape[1]))
    np.add.at(found, bins[bins >= 0], law[bins >= 0])
    return found


def _scaled(law: Floats, bins: NDArray[np.int64], level: Floats, of_level: float, of_finest: float) -> Floats:
    """The law of the finest column, scaled to the law of a level as above."""
    many = np.bincount(bins[bins >= 0], minlength=len(level))[:, None]
    held = _summed(law, bins, len(level))
    precision = np.divide(of_finest, many, out=np.zeros(many.shape), where=many > 0)
    wanted = np.where(many > 0, (of_level * level + precision * held) / (of_level + precision), 0.0)
    wanted /= np.maximum(wanted.sum(axis=0), np.finfo(np.float64).tiny)
    # Where the finest column has nothing of a bin that the level has, it is spread evenly.
    even = np.divide(wanted, many, out=np.zeros_like(wanted), where=many > 0)
    ratio = np.divide(wanted, held, out=np.zeros_like(wanted), where=held > 0)
    found = np.where((held > 0)[bins], law * ratio[bins], even[bins])
    found[bins < 0] = 0.0
    return found
