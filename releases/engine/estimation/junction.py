"""A junction tree: exact sums over a universe of any size whose questions hang together in small groups of columns.

For p[x] proportional to exp(sum over S of t_S[x_S]) the graph that joins the attributes of every S is made chordal, by
eliminating first the attribute that leaves the smallest table. Its largest cliques C form a tree in which those that
hold an attribute are connected, and then (Lauritzen and Spiegelhalter 1988)

    p[x] = product over cliques of p_C[x_C] / product over edges of p_R[x_R],    R = what two neighbours share.

So nothing larger than a clique is ever held. Two sweeps over the tree, up and down, give every p_C from the potentials;
two more give the derivative of every marginal along a change of the potentials (`CliqueGibbs.covariance`). All of it
agrees with what `marginals.MarginalTree` computes on the whole universe, where that can be held.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from releases.engine.errors import InvalidInput
from releases.engine.estimation.marginals import Axes, MarginalTree, compiled_kernels, marginal_tree

Floats = NDArray[np.float64]

#: exp of less is far below what matters beside 1, and one divided by it is still finite.
_FAINT = -600.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Clique:
    """One table of the tree.

    Attributes:
        axes: its attributes, ascending.
        parent: the position of the clique before it that it is joined to; -1 for the first one.
        shared: the attributes that it has in common with its parent, ascending.
    """

    axes: Axes
    parent: int
    shared: Axes

    @property
    def kept(self) -> tuple[int, ...]:
        """Where its shared attributes are among its own."""
        return tuple(self.axes.index(axis) for axis in self.shared)

    @property
    def summed(self) -> tuple[int, ...]:
        """Where the others are."""
        return tuple(place for place, axis in enumerate(self.axes) if axis not in self.shared)


@lru_cache(maxsize=64)
def junction_tree(shape: Axes, sets: tuple[Axes, ...], most_cells: int) -> tuple[Clique, ...]:
    """Cliques of a chordal graph in which every set is complete, each after its parent; none where they are too large.

    Args:
        shape: lengths of the attributes.
        sets: of attributes; together they cover all of these.
        most_cells: of all cliques together.
    """
    near: dict[int, set[int]] = {axis: set() for axis in range(len(shape))}
    for axes in sets:
        for one, other in combinations(axes, 2):
            near[one].add(other)
            near[other].add(one)
    found: list[frozenset[int]] = []
    left = most_cells
    while near:
        cells = {axis: shape[axis] * math.prod(shape[other] for other in others) for axis, others in near.items()}
        gone = min(near, key=lambda axis: (cells[axis], axis))
        others = near.pop(gone)
        clique = frozenset((gone, *others))
        if not any(clique <= each for each in found):
            found.append(clique)
            left -= cells[gone]
            if left < 0:
                return ()
        for axis in others:
            near[axis] = (near[axis] | others) - {gone, axis}
    return _joined(found)


def _joined(found: Sequence[frozenset[int]]) -> tuple[Clique, ...]:
    """A tree of greatest separators (Prim), which has the running intersection property as the graph is chordal."""
    first, *left = sorted(found, key=lambda each: (-len(each), sorted(each)))
    order = [(tuple(sorted(first)), -1)]
    while left:
        pairs = [(len(each & set(axes)), each, parent) for each in left for parent, (axes, _) in enumerate(order)]
        _, chosen, parent = max(pairs, key=lambda pair: pair[0])
        left.remove(chosen)
        order.append((tuple(sorted(chosen)), parent))
    return joined(order)


def joined(order: Sequence[tuple[Axes, int]]) -> tuple[Clique, ...]:
    """The cliques of these attributes and parents, in order."""
    return tuple(
        Clique(
            axes=axes,
            parent=parent,
            shared=tuple(axis for axis in axes if axis in order[parent][0]) if parent >= 0 else (),
        )
        for axes, parent in order
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class CliqueGibbs:
    """The distribution p[x] proportional to exp(sum over S of t_S[x_S]), known by its marginals.

    Attributes:
        marginals: of p, one vector.
        tables: p over each clique.
    """

    marginals: Floats
    tables: tuple[Floats, ...]
    _tree: CliqueTree

    def covariance(self, vector: Floats) -> Floats:
        """Covariances under p of a[x] = sum of v_S[x_S] with every cell's indicator."""
        first = self._tree.expectations(self.tables, vector)
        return first - self.marginals * float((self.marginals * vector).sum())


class CliqueTree:
    """The marginals of `sets` under distributions of that form, as `marginals.MarginalTree` has them, clique by clique.

    Args:
        shape: lengths of the attributes.
        cliques: a junction tree.
        sets: tuples of ascending axes, each within one clique; no two name the same axes.
    """

    def __init__(self, shape: Axes, cliques: tuple[Clique, ...], sets: tuple[Axes, ...]) -> None:
        self.shape, self.sets, self.cliques = shape, sets, cliques
        sizes = [math.prod(shape[axis] for axis in axes) for axes in sets]
        self.offsets: tuple[int, ...] = (0, *np.cumsum(sizes).tolist())
        self.cells: int = self.offsets[-1]
        self._kernels = compiled_kernels()
        mine: list[list[int]] = [[] for _ in cliques]
        for place, axes in enumerate(sets):
            homes = [k for k, clique in enumerate(cliques) if set(axes) <= set(clique.axes)]
            if not homes:
                raise InvalidInput("sets", axes, "must lie within one clique")
            mine[min(homes, key=lambda k: self._cells(cliques[k].axes))].append(place)
        self._lengths = [tuple(shape[axis] for axis in axes) for axes in sets]
        #: Where the tables that each clique answers are in a vector.
        self._mine = [
            np.concatenate([np.arange(*self.offsets[place : place + 2]) for place in places] or [np.arange(0)])
            for places in mine
        ]
        self._outer = [self._placed(each, cliques[each.parent].axes) for each in cliques]
        self._inner = [self._placed(each, each.axes) for each in cliques]
        self._summed = [each.summed for each in cliques]
        self._beyond = [
            tuple(k for k, axis in enumerate(cliques[each.parent].axes) if axis not in each.shared) for each in cliques
        ]
        self._trees: list[MarginalTree] = [
            marginal_tree(
                tuple(shape[axis] for axis in clique.axes),
                tuple(tuple(clique.axes.index(axis) for axis in sets[place]) for place in places),
            )
            for clique, places in zip(cliques, mine, strict=True)
        ]
        self._children: list[list[int]] = [[] for _ in cliques]
        for place, clique in enumerate(cliques):
            if clique.parent >= 0:
                self._children[clique.parent].append(place)

    def _cells(self, axes: Axes) -> int:
        return math.prod(self.shape[axis] for axis in axes)

    def _placed(self, clique: Clique, axes: Axes) -> tuple[int, ...]:
        """The shape among these axes of a table over what a clique shares with its parent."""
        return tuple(self.shape[axis] if axis in clique.shared else 1 for axis in axes)

    def tables(self, vector: NDArray[Any]) -> list[NDArray[Any]]:
        """The tables of a vector, as views of it."""
        ends = pairwise(self.offsets)
        return [vector[a:b].reshape(each) for (a, b), each in zip(ends, self._lengths, strict=True)]

    def gibbs(self, potentials: Floats) -> CliqueGibbs:
        """The distribution proportional to exp(sum of potentials)."""
        tables = self.densities(potentials)
        return CliqueGibbs(marginals=self._answered(tables), tables=tables, _tree=self)

    def densities(self, potentials: Floats) -> tuple[Floats, ...]:
        """The distribution over each clique; all agree on what they share."""
        tables = self._spread(potentials)
        inside: list[Floats] = [np.zeros(())] * len(tables)
        for place in reversed(range(len(tables))):
            clique, table = self.cliques[place], tables[place]
            table -= table.max()
            highest = table.max(axis=self._summed[place], keepdims=True)
            # What a parent makes likely can be nearly impossible here: its exp would be 0, or a number with few digits.
            lift = np.where(highest < _FAINT, highest, 0.0)
            table -= lift
            np.exp(table, out=table)
            if clique.parent >= 0:
                inside[place] = table.sum(axis=self._summed[place])
                message = np.log(inside[place]) + lift.reshape(inside[place].shape)
                tables[clique.parent] += self._widened(place, message)
        for place, (clique, table) in enumerate(zip(self.cliques, tables, strict=True)):
            if clique.parent >= 0:
                table *= self._over(place, self._shared(place, tables[clique.parent]), inside[place])
            else:
                table /= table.sum()
        return tuple(tables)

    def expectations(self, tables: Sequence[Floats], vector: Floats) -> Floats:
        """For every cell of every set the expectation of a[x], times whether x is in it, a[x] = sum of v_S[x_S].

        Up: what a subtree adds to a on average, given what it shares with its parent. Down: what all the rest adds.
        """
        below = self._spread(vector)
        up: list[Floats] = [np.zeros(())] * len(tables)
        shared: list[Floats] = [np.zeros(())] * len(tables)
        for place in reversed(range(len(tables))):
            clique = self.cliques[place]
            if clique.parent >= 0:
                summed = self._summed[place]
                shared[place] = tables[place].sum(axis=summed)
                up[place] = _ratio((tables[place] * below[place]).sum(axis=summed), shared[place])
                below[clique.parent] += self._widened(place, up[place])
        for place, clique in enumerate(self.cliques):
            if clique.parent >= 0:
                whole = _ratio(self._shared(place, tables[clique.parent] * below[clique.parent]), shared[place])
                below[place] += (whole - up[place]).reshape(self._inner[place])
        return self._answered([table * each for table, each in zip(tables, below, strict=True)])

    def _spread(self, vector: Floats) -> list[Floats]:
        """The sum of the tables given to each clique, over the clique."""
        return [
            tree.adjoint(vector[mine]) if mine.size else np.zeros(tree.shape)
            for tree, mine in zip(self._trees, self._mine, strict=True)
        ]

    def _answered(self, tables: Sequence[Floats]) -> Floats:
        found = np.empty(self.cells)
        for tree, mine, table in zip(self._trees, self._mine, tables, strict=True):
            found[mine] = tree.answer_vector(np.ascontiguousarray(table))
        return found

    def _shared(self, place: int, table: Floats) -> Floats:
        """A table over the parent of a clique, summed to what both share."""
        return np.asarray(table.sum(axis=self._beyond[place]))

    def _widened(self, place: int, table: Floats) -> Floats:
        """A table over what a clique shares with its parent, to be added to one over the parent."""
        return table.reshape(self._outer[place])

    def _over(self, place: int, above: Floats, own: Floats) -> Floats:
        return _ratio(above, own).reshape(self._inner[place])


def _ratio(above: Floats, below: Floats) -> Floats:
    """0 where nothing is below: nothing is above there either."""
    return np.divide(above, below, out=np.zeros_like(above), where=below > 0)
