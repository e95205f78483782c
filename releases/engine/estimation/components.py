"""The parts of a universe that a workload's questions connect: each small enough to hold whole, or not at all.

Questions about (age, sex) and (region, income) never meet, so a distribution that answers them needs no joint table
of the four: the universe falls into the connected parts of the graph whose edges are the questions' attribute sets.
Public declarations only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from releases.engine.domain.universe import Universe
from releases.engine.estimation.junction import Clique, junction_tree
from releases.engine.estimation.marginals import Axes, MarginalTree, marginal_tree
from releases.engine.estimation.result import Component, Distribution, TreeComponent
from releases.engine.estimation.ways import WayAxes
from releases.engine.tables.counts import MAX_DENSE_CELLS, Counts
from releases.engine.workload.queries import Workload

Names = tuple[str, ...]
#: A table over a part: whole, or one for each clique of its junction tree.
Joint = NDArray[Any] | tuple[NDArray[Any], ...]

#: Cells of all cliques of a part that is not held whole.
MAX_CLIQUE_CELLS = 10_000_000
#: Joint tables of several parts, joined by a hierarchy, have no more; beyond, they are held by cliques.
MAX_JOINED_CELLS = 10_000_000
#: Larger joint tables take longer to sum than their marginals take to count.
_MAX_COUNTED_CELLS = 10_000_000


@dataclass(frozen=True, kw_only=True)
class ConnectedAttributes:
    """Attributes that questions connect.

    Attributes:
        universe: of these attributes alone.
        asked: the attribute sets of the questions in it, in universe order, none twice.
        joined: cliques to be held in place of those of the questions, where they hold hierarchies whole.
    """

    universe: Universe
    asked: tuple[Names, ...]
    joined: tuple[Clique, ...] = ()

    @cached_property
    def sets(self) -> tuple[Axes, ...]:
        """The asked sets as axes of the part."""
        return tuple(self.universe.axes(names) for names in self.asked)

    @property
    def tree(self) -> MarginalTree:
        """Every asked marginal of a table over the part."""
        return marginal_tree(self.universe.shape, self.sets)

    @cached_property
    def largest(self) -> tuple[Axes, ...]:
        """The asked sets that lie in no other."""
        # Looked for among those that hold its first attribute alone: there can be tens of thousands of sets.
        holders: dict[int, list[frozenset[int]]] = {axis: [] for axis in range(len(self.universe.names))}
        for axes in self.sets:
            for axis in axes:
                holders[axis].append(frozenset(axes))
        most = max(map(len, self.sets), default=0)
        return tuple(
            axes
            for axes in self.sets
            if len(axes) == most or (bool(axes) and not any(frozenset(axes) < each for each in holders[axes[0]]))
        )

    @cached_property
    def cliques(self) -> tuple[Clique, ...]:
        """Of a junction tree in which every asked set lies in a clique, where the part is too large to be held whole;
        none where it is held whole, and none where the cliques are too large as well."""
        if self.joined or self.is_whole:
            return self.joined
        return junction_tree(self.universe.shape, self.largest, MAX_CLIQUE_CELLS)

    @property
    def is_whole(self) -> bool:
        """Whether its joint table can be held."""
        return not self.joined and self.universe.size <= MAX_DENSE_CELLS

    @cached_property
    def ways(self) -> WayAxes | None:
        """What its hierarchies leave, where each of them is held whole; None elsewhere."""
        if not self.universe.hierarchies or not (self.is_whole or self.joined):
            return None
        return WayAxes.of(self.universe)

    @property
    def cells(self) -> int:
        """That are held: of the joint table, or of all cliques."""
        if not self.cliques:
            return self.universe.size
        return _cells(self.universe.shape, self.cliques)

    @property
    def fitted_cells(self) -> int:
        """Of these, without those that its hierarchies leave out."""
        if self.ways is None:
            return self.cells
        return _cells(self.ways.shape, self.ways.collapsed(self.cliques)) if self.cliques else self.ways.size

    def histogram(self, counts: Counts) -> NDArray[np.int64]:
        """The exact joint table over the part."""
        return np.ascontiguousarray(counts.marginal(self.universe.names))

    def marginals(self, joint: Joint) -> list[NDArray[Any]]:
        """Those asked about, from a table over the part."""
        if not isinstance(joint, tuple):
            return self.tree.answer(joint)
        found = []
        for axes in self.sets:
            home = next(k for k, clique in enumerate(self.cliques) if set(axes) <= set(clique.axes))
            others = tuple(place for place, axis in enumerate(self.cliques[home].axes) if axis not in axes)
            found.append(joint[home].sum(axis=others))
        return found


def connected_parts(workload: Workload) -> tuple[ConnectedAttributes, ...]:
    """The parts that the questions of `workload` fall into, in universe order."""
    group_of: dict[str, list[str]] = {}
    for names in workload.marginals:
        met = {id(group): group for group in map(group_of.get, names) if group is not None}.values()
        # The smaller groups go into the largest: there can be thousands of columns.
        joined = max(met, key=len, default=[])
        added = [name for group in met if group is not joined for name in group]
        added += [name for name in names if name not in group_of]
        joined += added
        group_of |= dict.fromkeys(added, joined)
    asked: dict[int, list[tuple[str, ...]]] = {}
    for names in workload.marginals:
        asked.setdefault(id(group_of[names[0]]), []).append(names)
    universe = workload.universe
    parts = ((sorted(group_of[sets[0][0]], key=universe.axis), sets) for sets in asked.values())
    return tuple(
        ConnectedAttributes(universe=universe.project(names), asked=tuple(sets))
        for names, sets in sorted(parts, key=lambda part: universe.axis(part[0][0]))
    )


def _cells(shape: Axes, cliques: Sequence[Clique]) -> int:
    return sum(prod(shape[axis] for axis in clique.axes) for clique in cliques)


def joined_by_levels(universe: Universe, parts: Sequence[ConnectedAttributes]) -> tuple[ConnectedAttributes, ...]:
    """The parts as they are fitted: those that have columns of one hierarchy joined, so that tables over levels are
    read off one estimate. Where what they become cannot be held they stay apart.

    Args:
        universe: of the workload.
    """
    if not universe.hierarchies:
        return tuple(parts)
    groups: list[list[ConnectedAttributes]] = [[part] for part in parts]
    asked = {name for part in parts for name in part.universe.names}
    for each in universe.project(name for name in universe.names if name in asked).hierarchies:
        met = [group for group in groups if any(set(each.names) & set(part.universe.names) for part in group)]
        groups = [group for group in groups if not any(group is other for other in met)]
        groups.append([part for group in met for part in group])
    found = [part for group in groups for part in _joined_part(universe, group)]
    return tuple(sorted(found, key=lambda part: universe.axis(part.universe.names[0])))


def _joined_part(universe: Universe, parts: Sequence[ConnectedAttributes]) -> Sequence[ConnectedAttributes]:
    names = sorted((name for part in parts for name in part.universe.names), key=universe.axis)
    whole = ConnectedAttributes(
        universe=universe.project(names), asked=tuple(asked for part in parts for asked in part.asked)
    )
    if not whole.universe.hierarchies or (len(parts) == 1 and whole.is_whole):
        return parts
    if whole.universe.size <= MAX_JOINED_CELLS:
        return [whole]
    ways = WayAxes.of(whole.universe)
    held = [
        tuple(part.universe.names[axis] for axis in axes)
        for part in parts
        for axes in ([clique.axes for clique in part.cliques] or [tuple(range(len(part.universe.names)))])
    ]
    images = tuple(dict.fromkeys(ways.image(whole.universe.axes(each)) for each in held))
    cliques = ways.cliques(junction_tree(ways.shape, images, MAX_CLIQUE_CELLS))
    if not cliques or _cells(whole.universe.shape, cliques) > MAX_CLIQUE_CELLS:
        return parts
    return [replace(whole, joined=cliques)]


def are_levels_joined(universe: Universe, parts: Sequence[ConnectedAttributes]) -> bool:
    """Whether each hierarchy of the parts is held whole by one, so that tables over levels are read off one estimate.

    Args:
        universe: of the workload.
        parts: as they are fitted.
    """
    held = {each for part in parts if part.ways for each in part.universe.hierarchies}
    asked = {name for part in parts for name in part.universe.names}
    return held >= set(universe.project(name for name in universe.names if name in asked).hierarchies)


def answers(workload: Workload, parts: Sequence[ConnectedAttributes], tables: Iterable[Joint]) -> list[NDArray[Any]]:
    """The answers of each family of the workload from one joint table a part."""
    marginals: dict[Names, NDArray[Any]] = {}
    for part, table in zip(parts, tables, strict=True):
        marginals.update(zip(part.asked, part.marginals(table), strict=True))
    return workload.answer(marginals.__getitem__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Counting:
    """What `exact_answers` counts; a function of the questions and the declared bins.

    Attributes:
        readings: how many times it goes through the table as it lies there.
        tables: counted from bin numbers, all of them in one of these readings; 0 where there are none.
        columns: whose bin numbers are put aside for that.
    """

    readings: int
    tables: int
    columns: int

    @staticmethod
    def of(workload: Workload) -> Counting:
        parts = _counted_together(workload)
        apart = [names for part in parts if not _is_counted_once(part) for names in part.asked]
        joint = len(parts) - sum(not _is_counted_once(part) for part in parts)
        coded = len(apart) > 1
        return Counting(
            readings=joint + bool(apart),
            tables=len(apart) if coded else 0,
            columns=len(workload.universe.names) if coded else 0,
        )


def _counted_together(workload: Workload) -> list[ConnectedAttributes]:
    """The parts, of families that count the same rows: those of a joint table are counted by all of its columns."""
    return [part for group in workload.by_rules for part in connected_parts(group)]


def _is_counted_once(part: ConnectedAttributes) -> bool:
    return len(part.asked) > 1 and part.universe.size <= _MAX_COUNTED_CELLS


def exact_answers(workload: Workload, counts: Counts) -> list[NDArray[np.int64]]:
    """The answers of each family on a table. A part whose joint table is small is counted once, not once a marginal;
    what is left is counted many marginals at a time."""
    marginals: dict[Names, NDArray[np.int64]] = {}
    for part in _counted_together(workload):
        if _is_counted_once(part):
            marginals.update(zip(part.asked, part.tree.answer(part.histogram(counts)), strict=True))
    others = counted(counts, [names for names in workload.marginals if names not in marginals], workload.universe)
    return workload.answer(lambda names: marginals[names] if names in marginals else next(others))


def counted(counts: Counts, sets: Sequence[Names], universe: Universe) -> Iterator[NDArray[np.int64]]:
    """The exact marginals over `sets`, in order: as many in one reading of the table as memory allows."""
    block: list[Names] = []
    cells = 0
    for names in sets:
        size = universe.project(names).size
        if block and cells + size > _MAX_COUNTED_CELLS:
            yield from _read_once(counts, block)
            block, cells = [], 0
        block.append(names)
        cells += size
    yield from _read_once(counts, block)


def _read_once(counts: Counts, sets: Sequence[Names]) -> Iterator[NDArray[np.int64]]:
    """A single one is grouped where the table lies; many are counted here."""
    tables = [counts.marginal(names) for names in sets] if len(sets) < 2 else counts.marginals(sets)
    while tables:
        yield tables.pop(0)


def distribution(described: Sequence[ConnectedAttributes | Universe], tables: Iterable[Joint]) -> Distribution:
    """Tables over some attributes each as independent components. Of attributes in none of them it says nothing."""
    return Distribution(components=tuple(_component(*each) for each in zip(described, tables, strict=True)))


def _component(described: ConnectedAttributes | Universe, table: Joint) -> Component | TreeComponent:
    if not isinstance(table, tuple):
        names = described.names if isinstance(described, Universe) else described.universe.names
        return Component(names=names, weights=table)
    assert isinstance(described, ConnectedAttributes)
    return TreeComponent(names=described.universe.names, cliques=described.cliques, tables=table)
