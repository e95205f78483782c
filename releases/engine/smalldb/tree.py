"""Workloads whose queries are nested in or disjoint from each other, seen as a forest. Public declarations only.

Any one marginal is such a workload, and a marginal with coarser ones above it, trees of ranges, disjoint predicates. So
are all prefixes of one attribute, with whatever lies within one bin of it each: there the tree is a path as long as the
attribute has bins, and is kept as a *chain* of small trees instead.

Counts of a small database in such a forest are made of *slots*. A leaf slot is a kind of cell: cells that the same
queries count. Every other slot is the sum of two slots below it, so that a query with many parts is a balanced tree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from releases.engine.domain.universe import Universe
from releases.engine.workload.queries import Count, Family, Marginal, Prefix

Indices: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Forest:
    """A laminar workload over the cells of some attributes.

    Attributes:
        kind_of_cell: for each cell of these attributes, the last fastest, its kind.
        cells_of_kind: how many of these cells each kind has.
        left, right: the two slots that make each slot that is not a leaf, in order after the leaves.
        rounds: (first, last) slots such that both parts of each are made in earlier rounds.
        is_answer: for each slot, whether its count is an answer asked for.
        roles: leaf slots of the same role may be exchanged with each other: same parent, cells and `is_answer`.
        chain: the slots whose cumulative counts are asked for, in order; empty where the last slot is the whole.
        nested: whether some answer other than a cumulative count contains another, so that it is not a partition.
    """

    kind_of_cell: Indices
    cells_of_kind: Indices
    left: Indices
    right: Indices
    rounds: tuple[tuple[int, int], ...]
    is_answer: NDArray[np.bool_]
    roles: Indices
    chain: Indices
    nested: bool

    @property
    def kinds(self) -> int:
        return self.cells_of_kind.size

    @property
    def answers(self) -> int:
        """How many answers there are that differ from the total and from each other."""
        asked = int(self.is_answer.sum())
        if self.chain.size > 1:
            # The first part is the first prefix too.
            asked += self.chain.size - 1 - int(self.is_answer[self.chain[0]])
        return asked

    @property
    def is_chain_alone(self) -> bool:
        return self.chain.size > 0 and not self.is_answer.any()

    def sums(self, leaf_counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """The count of every slot, from those of the leaf slots."""
        counts = np.empty(self.is_answer.size, dtype=np.int64)
        counts[: self.kinds] = leaf_counts
        for first, last in self.rounds:
            pairs = slice(first - self.kinds, last - self.kinds)
            counts[first:last] = counts[self.left[pairs]] + counts[self.right[pairs]]
        return counts


def read_forest(families: Sequence[Family], universe: Universe) -> Forest | None:
    """The forest of a workload over `universe`, all of whose attributes are asked about; None where queries cross.

    Sets are entered from large to small. A set fits if all its cells have the same *owner*, the smallest set entered
    so far that contains them: any earlier set that meets it contains that owner, so it contains the set. If the owners
    differ, one of them crosses the set.
    """
    shape = universe.shape
    ordered = {family.attributes[0] for family in families if isinstance(family, Prefix)}
    ordered = {name for name in ordered if universe[name].size > 1}
    if len(ordered) > 1:
        return None
    nodes = _Nodes(prod(shape))
    steps = np.zeros(0, dtype=np.int64)
    if ordered:
        (name,) = ordered
        steps = _labels((name,), universe)
        nodes.enter_steps(steps, universe[name].size)
    for _, labels, mask in _sets(families, universe):
        if labels is not None:
            fits = nodes.enter_partition(labels)
        else:
            assert mask is not None
            fits = _is_prefix(mask, steps) or nodes.enter_set(np.flatnonzero(mask))
        if not fits:
            return None
    return nodes.forest()


def labels_of(names: tuple[str, ...], universe: Universe) -> Indices:
    """For each cell of the universe, the cell of the marginal over `names` in which it lies."""
    return _labels(names, universe)


def mask_of(family: Count, universe: Universe) -> NDArray[np.bool_]:
    """For each cell of the universe, whether the predicate counts it."""
    shape = [1] * len(universe.shape)
    mask = np.ones(shape, dtype=np.bool_)
    for name, bins in zip(family.attributes, family.bins, strict=True):
        accepted = np.zeros(universe[name].size, dtype=np.bool_)
        accepted[list(bins)] = True
        own = list(shape)
        own[universe.axis(name)] = universe[name].size
        mask = mask & accepted.reshape(own)
    return np.broadcast_to(mask, universe.shape).reshape(-1)


def _labels(names: tuple[str, ...], universe: Universe) -> Indices:
    sizes = [universe[name].size for name in names]
    own = [universe.shape[axis] if name in names else 1 for axis, name in enumerate(universe.names)]
    in_order = sorted(range(len(names)), key=lambda position: universe.axis(names[position]))
    labels = np.arange(prod(sizes), dtype=np.int64).reshape(sizes).transpose(in_order).reshape(own)
    return np.broadcast_to(labels, universe.shape).reshape(-1)


_Set: TypeAlias = "tuple[int, Indices | None, NDArray[np.bool_] | None]"


def _sets(families: Sequence[Family], universe: Universe) -> list[_Set]:
    """(cells of a set, labels of a partition or a mask of one set), the largest sets first."""
    sets: list[_Set] = []
    for family in families:
        if isinstance(family, Marginal) and family.cells(universe) > 1:
            size = universe.size // family.cells(universe)
            sets.append((size, _labels(family.attributes, universe), None))
        elif isinstance(family, Count):
            mask = mask_of(family, universe)
            if not mask.all():
                sets.append((int(mask.sum()), None, mask))
    return sorted(sets, key=lambda each: -each[0])


def _is_prefix(mask: NDArray[np.bool_], steps: Indices) -> bool:
    """Whether the set is all cells up to some step of the chain, and so asked for already."""
    if steps.size == 0:
        return False
    return bool(np.array_equal(mask, steps <= steps[mask].max()))


class _Nodes:
    """The sets entered so far, as nodes of a tree; node 0 is the whole universe."""

    def __init__(self, cells: int) -> None:
        self.owner = np.zeros(cells, dtype=np.int64)
        self.parent = np.array([-1])
        self.size = np.array([cells])
        self.asked = np.array([False])
        self.steps = 0

    def enter_steps(self, labels: Indices, count: int) -> None:
        """The bins of a chain: nodes 1 ... `count`, not asked about themselves."""
        self.steps = count
        self.owner = 1 + labels
        self._append(np.zeros(count, dtype=np.int64), np.full(count, labels.size // count), asked=False)

    def enter_partition(self, labels: Indices) -> bool:
        blocks = int(labels.max()) + 1
        owners = np.empty(blocks, dtype=np.int64)
        owners[labels] = self.owner
        if not np.array_equal(owners[labels], self.owner):
            return False
        size = labels.size // blocks
        known = self.size[owners] == size
        self.asked[owners[known]] = True
        nodes = np.where(known, owners, self.parent.size - 1 + np.cumsum(~known))
        self._append(owners[~known], np.full(int((~known).sum()), size), asked=True)
        self.owner = nodes[labels]
        return True

    def enter_set(self, cells: Indices) -> bool:
        owner = int(self.owner[cells[0]])
        if not (self.owner[cells] == owner).all():
            return False
        if self.size[owner] == cells.size:
            self.asked[owner] = True
        else:
            self.owner[cells] = self.parent.size
            self._append(np.array([owner]), np.array([cells.size]), asked=True)
        return True

    def _append(self, parents: Indices, sizes: Indices, *, asked: bool) -> None:
        self.parent = np.concatenate([self.parent, parents])
        self.size = np.concatenate([self.size, sizes])
        self.asked = np.concatenate([self.asked, np.full(parents.size, asked)])

    def forest(self) -> Forest:
        own = np.bincount(self.owner, minlength=self.parent.size)
        children = np.bincount(self.parent[1:], minlength=self.parent.size)
        leaves = np.flatnonzero(own)
        # A node without parts is its leaf, and stands among the parts of its parent; other leaves stand in their node.
        alone = children[leaves] == 0
        pool = np.where(alone, self.parent[leaves], leaves)
        fixed = alone & (leaves <= self.steps) & (self.steps > 0)
        role_keys = [own[leaves], self.asked[leaves] & alone, np.where(fixed, leaves, 0), pool]
        order = np.lexsort(role_keys)
        leaves = leaves[order]
        keys = np.stack([key[order] for key in role_keys])
        roles = np.concatenate([[0], np.cumsum((keys[:, 1:] != keys[:, :-1]).any(axis=0))])
        kind_of_node = np.zeros(self.parent.size, dtype=np.int64)
        kind_of_node[leaves] = np.arange(leaves.size)
        slots = _Slots(leaves=leaves.size)
        slot_of_node = self._gather(slots, leaves, children)
        is_answer = np.zeros(slots.count, dtype=np.bool_)
        is_answer[slot_of_node[np.flatnonzero(self.asked)]] = True
        return Forest(
            kind_of_cell=kind_of_node[self.owner],
            cells_of_kind=own[leaves],
            left=np.concatenate([*slots.left, np.zeros(0, dtype=np.int64)]),
            right=np.concatenate([*slots.right, np.zeros(0, dtype=np.int64)]),
            rounds=tuple(slots.rounds),
            is_answer=is_answer,
            roles=roles,
            chain=slot_of_node[1 : self.steps + 1],
            nested=bool((self.asked & (children > 0))[1:].any()),
        )

    def _gather(self, slots: _Slots, leaves: Indices, children: Indices) -> Indices:
        """Make every node's slot out of those of its parts, the deepest first."""
        slot_of_node = np.full(self.parent.size, -1, dtype=np.int64)
        depth = self._depths()
        alone = children[leaves] == 0
        slot_of_node[leaves[alone]] = np.flatnonzero(alone)
        for level in range(int(depth.max()), -1, -1):
            here = (depth == level) & (children > 0)
            if not here.any() or (level == 0 and self.steps):
                continue
            inner = np.flatnonzero(~alone & here[leaves])
            parts = np.flatnonzero(np.concatenate([[False], here[self.parent[1:]]]))
            owners = np.concatenate([leaves[inner], self.parent[parts]])
            members = np.concatenate([inner, slot_of_node[parts]])
            # Leaves of one role stand together, so that exchanging them keeps equal ones side by side.
            order = np.lexsort([members, owners])
            owners, members = slots.gather(owners[order], members[order])
            slot_of_node[owners] = members
        return slot_of_node

    def _depths(self) -> Indices:
        depth = np.zeros(self.parent.size, dtype=np.int64)
        above = self.parent.copy()
        while (above > 0).any():
            depth += above > 0
            above = np.where(above > 0, self.parent[above], above)
        depth[1:] += 1
        return depth


class _Slots:
    """Slots made so far."""

    def __init__(self, *, leaves: int) -> None:
        self.count = leaves
        self.left: list[Indices] = []
        self.right: list[Indices] = []
        self.rounds: list[tuple[int, int]] = []

    def gather(self, owners: Indices, members: Indices) -> tuple[Indices, Indices]:
        """Join the members of each owner two by two until one is left each; `owners` is sorted."""
        while (same := owners[1:] == owners[:-1]).any():
            starts = np.concatenate([[True], ~same])
            places = np.arange(owners.size)
            rank = places - np.maximum.accumulate(np.where(starts, places, 0))
            joins = np.flatnonzero((rank[:-1] % 2 == 0) & same)
            self.left.append(members[joins])
            self.right.append(members[joins + 1])
            self.rounds.append((self.count, self.count + joins.size))
            members = members.copy()
            members[joins] = np.arange(self.count, self.count + joins.size)
            self.count += joins.size
            kept = rank % 2 == 0
            owners, members = owners[kept], members[kept]
        return owners, members
