"""Hierarchies inside a fit: the columns of each are one axis, whose bins are its ways; tables over levels are sums.

Over a universe with hierarchies (`domain.levels`) only some cells can hold rows: those of the *ways*. Let w run over
the cells of the collapsed universe, which has one axis for each hierarchy and the other axes as they are. A table over
the axes S is G_S p_I, with p_I that over the image I of S, the collapsed axes that hold S: G_S has a single 1 in each
column, in the line of the bins that the way has. So for p[w] proportional to exp(sum over S of t_S[bins of w])

    the marginals are   G_S p_I,      the exponent is   sum over S of G_Sᵀ t_S,

a sparse matrix beside what `MarginalTree` and `CliqueTree` do on the collapsed universe.

Levels add up: where region is a level of town, each way has the region of its town, so G_region = R G_town on the ways,
R one 1 in each column, and the table over region is R times that over town, exactly.

Weights: the objective of a fit (`fit`) has |n G_S p_I - y_S|² / (2 v_S) for each noisy table, so it is the likelihood
of all of them given one p. A table over a column and one over its level weigh as their noise does: to second order in
p that is generalised least squares. To fit the tables as if crossed, and to scale that to possible cells, was not: the
scaling met all tables alike, whatever their noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from releases.engine.domain.universe import Universe
from releases.engine.estimation.junction import Clique, CliqueGibbs, CliqueTree, joined
from releases.engine.estimation.marginals import Axes, Gibbs, MarginalTree, compiled_kernels, marginal_tree

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class WayAxes:
    """The axes of the collapsed universe.

    Attributes:
        outer: bins of each axis of the universe.
        shape: bins of each collapsed axis: the axes outside of hierarchies first, as they come, then the hierarchies.
        home: of each axis of the universe its collapsed axis.
        bins: of each axis of the universe its bin in each bin of its collapsed axis.
    """

    outer: Axes
    shape: Axes
    home: Axes
    bins: tuple[NDArray[np.int64], ...]

    @staticmethod
    def of(universe: Universe) -> WayAxes:
        within = {name: each for each in universe.hierarchies for name in each.names}
        plain = [name for name in universe.names if name not in within]
        home = {name: place for place, name in enumerate(plain)}
        bins = {name: np.arange(universe[name].size) for name in plain}
        for place, each in enumerate(universe.hierarchies, start=len(plain)):
            ways = np.array(each.ways, dtype=np.int64).reshape(-1, len(each.names))
            home |= dict.fromkeys(each.names, place)
            bins |= zip(each.names, ways.T, strict=True)
        return WayAxes(
            outer=universe.shape,
            shape=(*(universe[name].size for name in plain), *(len(each.ways) for each in universe.hierarchies)),
            home=tuple(home[name] for name in universe.names),
            bins=tuple(bins[name] for name in universe.names),
        )

    @property
    def size(self) -> int:
        """How many cells can hold rows."""
        return math.prod(self.shape)

    def image(self, axes: Axes) -> Axes:
        """The collapsed axes that hold these, ascending."""
        return tuple(sorted({self.home[axis] for axis in axes}))

    def whole(self, inner: Axes) -> Axes:
        """The axes that these collapsed ones hold, ascending."""
        return tuple(axis for axis, home in enumerate(self.home) if home in inner)

    def places(self, inner: Axes, axes: Axes) -> NDArray[np.int64]:
        """Of each cell of a table over collapsed axes its place in the flat table over some axes that these hold."""
        found = np.zeros([self.shape[axis] for axis in inner], dtype=np.int64)
        for axis in axes:
            own = self.bins[axis].reshape([-1 if each == self.home[axis] else 1 for each in inner])
            found *= self.outer[axis]
            found += own
        return found

    def spread(self, table: Floats, inner: Axes) -> Floats:
        """A table over collapsed axes as one over all axes that these hold, 0 where no row can be."""
        axes = self.whole(inner)
        found = np.zeros([self.outer[axis] for axis in axes])
        found.reshape(-1)[self.places(inner, axes)] = table
        return found

    def cliques(self, collapsed: Sequence[Clique]) -> tuple[Clique, ...]:
        """A junction tree over the axes, from one over the collapsed axes."""
        return joined([(self.whole(each.axes), each.parent) for each in collapsed])

    def collapsed(self, cliques: Sequence[Clique]) -> tuple[Clique, ...]:
        """The other way round."""
        return joined([(self.image(each.axes), each.parent) for each in cliques])


@dataclass(frozen=True, kw_only=True, slots=True)
class WayGibbs:
    """The distribution p[w] proportional to exp(sum over S of t_S[bins of w]), known by its marginals.

    Attributes:
        marginals: of p, one vector.
    """

    marginals: Floats
    _inner: Gibbs | CliqueGibbs
    _tree: WayTree

    def covariance(self, vector: Floats) -> Floats:
        """Covariances under p of a[w] = sum of v_S[bins of w] with every cell's indicator."""
        return self._tree.summed(self._inner.covariance(self._tree.exponents(vector)))


class WayTree:
    """The marginals of `sets` under distributions of that form.

    Args:
        axes: of the collapsed universe.
        sets: tuples of ascending axes of the universe; no two name the same.
        cliques: of a junction tree over the collapsed axes, the image of each set within one; none where the collapsed
            universe is held whole.
    """

    def __init__(self, axes: WayAxes, sets: tuple[Axes, ...], cliques: tuple[Clique, ...] = ()) -> None:
        self.shape, self.sets, self._axes = axes.outer, sets, axes
        self._lengths = [tuple(axes.outer[axis] for axis in each) for each in sets]
        self.offsets: tuple[int, ...] = (0, *np.cumsum([math.prod(each) for each in self._lengths]).tolist())
        self.cells: int = self.offsets[-1]
        self._kernels = compiled_kernels()
        images = tuple(dict.fromkeys(axes.image(each) for each in sets))
        self._cliques = cliques
        self._inner: MarginalTree | CliqueTree = (
            CliqueTree(axes.shape, cliques, images) if cliques else marginal_tree(axes.shape, images)
        )
        starts = dict(zip(images, self._inner.offsets, strict=False))
        rows, columns = [], []
        for each, offset in zip(sets, self.offsets, strict=False):
            image = axes.image(each)
            rows.append(offset + axes.places(image, each).reshape(-1))
            columns.append(np.arange(starts[image], starts[image] + rows[-1].size))
        row, column = np.concatenate(rows), np.concatenate(columns)
        self._sums = csr_array((np.ones(row.size), (row, column)), shape=(self.cells, self._inner.cells))
        self._spread = self._sums.T.tocsr()

    def tables(self, vector: NDArray[Any]) -> list[NDArray[Any]]:
        """The tables of a vector, as views of it."""
        return [vector[a:b].reshape(each) for (a, b), each in zip(pairwise(self.offsets), self._lengths, strict=True)]

    def gibbs(self, potentials: Floats) -> WayGibbs:
        """The distribution proportional to exp(sum of potentials)."""
        inner = self._inner.gibbs(self.exponents(potentials))
        return WayGibbs(marginals=self.summed(inner.marginals), _inner=inner, _tree=self)

    def exponents(self, vector: Floats) -> Floats:
        """Tables over `sets` as tables over their images, those of one image added up."""
        return np.asarray(self._spread @ vector)

    def summed(self, collapsed: Floats) -> Floats:
        """The marginals of `sets`, from those of their images."""
        return np.asarray(self._sums @ collapsed)

    def density(self, potentials: Floats) -> Floats:
        """The same over the universe, 0 where no row can be; summing to 1."""
        assert isinstance(self._inner, MarginalTree)
        found = self._inner.density(self.exponents(potentials))
        return self._axes.spread(found, tuple(range(found.ndim)))

    def densities(self, potentials: Floats) -> tuple[Floats, ...]:
        """The same over all axes that each clique holds."""
        assert isinstance(self._inner, CliqueTree)
        found = self._inner.densities(self.exponents(potentials))
        return tuple(self._axes.spread(each, clique.axes) for each, clique in zip(found, self._cliques, strict=True))
