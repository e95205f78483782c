"""The plan by which every marginal of an array is summed: an elimination tree, made once from public shapes.

The axes are cut into blocks, one more than the largest wanted set has axes, so that every set misses a block whole.
Summing out one block at a time leaves parts much smaller than the array (about 4 N^(3/4) cells of N in all for
triples); each wanted set is given to one part that holds it, and the same is done within every part.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Axes = tuple[int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class RootChild:
    """A part of the array: its sum over one block of axes, seen as (pre, mid, post) with mid summed out."""

    axes: Axes
    offset: int
    size: int
    pre: int
    mid: int
    post: int
    slot: int


@dataclass(frozen=True, kw_only=True, slots=True)
class EliminationPlan:
    """The tree: where each part lives in one flat work space, and the steps that fill it.

    Attributes:
        offsets: of the asked marginals, which stand first in the space, in the order asked; one more at the end.
        space: cells in all.
        dims: the array as four axes when `fused`.
        children: the parts made straight from the array.
        steps: rows (source, target, pre, mid, post), in order.
        root_of: for each asked set the position of the child it comes from; -1 where it is the array itself.
    """

    offsets: tuple[int, ...]
    space: int
    dims: tuple[int, int, int, int]
    fused: bool
    children: tuple[RootChild, ...]
    steps: NDArray[np.int64]
    root_of: tuple[int, ...]


def _blocks(lengths: Sequence[int], count: int) -> list[tuple[int, int]]:
    """Cut axes into `count` runs [start, stop) such that the parts left by dropping one run are smallest in sum."""
    best: dict[tuple[int, int], tuple[float, list[tuple[int, int]]]] = {(0, 0): (0.0, [])}
    for used in range(1, count + 1):
        for stop in range(used, len(lengths) + 1):
            options = [
                (
                    best[used - 1, start][0] + 1.0 / math.prod(lengths[start:stop]),
                    best[used - 1, start][1] + [(start, stop)],
                )
                for start in range(used - 1, stop)
                if (used - 1, start) in best
            ]
            if options:
                best[used, stop] = min(options)
    return best[count, len(lengths)][1]


def _root_blocks(lengths: Sequence[int], count: int) -> list[tuple[int, int]]:
    """The same for the array itself. Where one pass serves four blocks, by what the pass was measured to cost.

    In nanoseconds a cell: 5.4 for each cell of the parts (made, and worked on further), 5.6 shared by an innermost loop
    of the last block, 50 shared by a tile of the last two, 0.3 where the tile does not stay in the nearest cache.
    """
    if count != 4:
        return _blocks(lengths, count)
    best: tuple[float, list[tuple[int, int]]] = (math.inf, [])
    ends = list(itertools.accumulate(lengths, operator.mul, initial=1))
    for cuts in itertools.combinations(range(1, len(lengths)), 3):
        at = (0, *cuts, len(lengths))
        sizes = [ends[stop] // ends[start] for start, stop in itertools.pairwise(at)]
        tile = sizes[2] * sizes[3]
        cost = 5.4 * sum(1 / size for size in sizes) + 5.6 / sizes[3] + 50 / tile + 0.3 * (tile > 2048)
        if cost < best[0]:
            best = cost, list(itertools.pairwise(at))
    return best[1]


class Planner:
    """Builds a `EliminationPlan`. Parts are told apart by their axes, ascending; each is made once."""

    def __init__(self, shape: Axes, sets: Sequence[Axes]) -> None:
        self.shape = shape
        self.asked = [tuple(sorted(axes)) for axes in sets]
        self.everything = tuple(range(len(shape)))
        self.steps: list[tuple[int, int, int, int, int]] = []
        self.children: list[RootChild] = []
        self.origin: dict[Axes, int] = {self.everything: -1}
        offsets = [0]
        for axes in self.asked:
            offsets.append(offsets[-1] + self.cells(axes))
        self.offsets = tuple(offsets)
        self.at = dict(zip(self.asked, offsets, strict=False))
        self.space = offsets[-1]

    def cells(self, axes: Axes) -> int:
        return math.prod([self.shape[a] for a in axes])

    def place(self, axes: Axes) -> int:
        if axes not in self.at:
            self.at[axes] = self.space
            self.space += self.cells(axes)
        return self.at[axes]

    def plan(self) -> EliminationPlan:
        proper = {axes for axes in self.asked if axes != self.everything}
        largest = [
            axes for axes in proper if not any(len(axes) < len(other) and set(axes) < set(other) for other in proper)
        ]
        dims, fused = (1, 1, 1, 1), True
        if largest:
            dims, fused = self.first_level(largest)
        for axes in sorted(proper - set(largest), key=lambda axes: (-len(axes), axes)):
            if axes not in self.origin:
                made = [part for part in self.origin if set(axes) < set(part) and part != self.everything]
                self.descend(min(made, key=self.cells), axes)
        return EliminationPlan(
            offsets=self.offsets,
            space=self.space,
            dims=dims,
            fused=fused,
            children=tuple(self.children),
            steps=np.array(self.steps, dtype=np.int64).reshape(-1, 5),
            root_of=tuple(self.origin[axes] for axes in self.asked),
        )

    def share_out(
        self, axes: Axes, wanted: Sequence[Axes], blocks: Sequence[tuple[int, int]]
    ) -> dict[tuple[int, int], list[Axes]]:
        """Give each wanted set to the largest block of `axes` it misses."""
        blocks = sorted(blocks, key=lambda block: -self.cells(axes[slice(*block)]))
        shares: dict[tuple[int, int], list[Axes]] = {}
        for one in sorted(wanted):
            block = next(block for block in blocks if not set(one) & set(axes[slice(*block)]))
            shares.setdefault(block, []).append(one)
        return shares

    def first_level(self, wanted: Sequence[Axes]) -> tuple[tuple[int, int, int, int], bool]:
        axes = self.everything
        count = min(max(map(len, wanted)) + 1, len(axes))
        blocks = _root_blocks(self.shape, count)
        fused = count <= 4
        slots = {1: (4,), 2: (1, 4), 3: (1, 2, 4), 4: (1, 2, 3, 4)}.get(count, (0,) * count)
        dims = [1, 1, 1, 1]
        for slot, block in zip(slots, blocks, strict=True):
            if fused:
                dims[slot - 1] = self.cells(axes[slice(*block)])
        for (start, stop), share in self.share_out(axes, wanted, blocks).items():
            rest = axes[:start] + axes[stop:]
            self.origin[rest] = len(self.children)
            self.children.append(
                RootChild(
                    axes=rest,
                    offset=self.place(rest),
                    size=self.cells(rest),
                    pre=self.cells(axes[:start]),
                    mid=self.cells(axes[start:stop]),
                    post=self.cells(axes[stop:]),
                    slot=slots[blocks.index((start, stop))],
                )
            )
            self.grow(rest, share)
        return (dims[0], dims[1], dims[2], dims[3]), fused

    def grow(self, axes: Axes, wanted: Sequence[Axes]) -> None:
        """Steps from the part over `axes` down to every wanted set."""
        below = [one for one in wanted if one != axes and one not in self.origin]
        if not below:
            return
        blocks = _blocks([self.shape[a] for a in axes], min(max(map(len, below)) + 1, len(axes)))
        for (start, stop), share in self.share_out(axes, below, blocks).items():
            rest = axes[:start] + axes[stop:]
            if rest not in self.origin:
                self.drop(axes, start, stop)
            self.grow(rest, share)

    def drop(self, axes: Axes, start: int, stop: int) -> Axes:
        rest = axes[:start] + axes[stop:]
        pre, mid, post = (self.cells(part) for part in (axes[:start], axes[start:stop], axes[stop:]))
        self.steps.append((self.place(axes), self.place(rest), pre, mid, post))
        self.origin[rest] = self.origin[axes]
        return rest

    def descend(self, axes: Axes, to: Axes) -> None:
        """Steps from the part over `axes` to the one over `to`, one run of axes at a time, the longest first."""
        while axes != to:
            gone = [position for position, a in enumerate(axes) if a not in to]
            runs: list[tuple[int, int]] = []
            for position in gone:
                if runs and runs[-1][1] == position:
                    runs[-1] = (runs[-1][0], position + 1)
                else:
                    runs.append((position, position + 1))
            start, stop = max(runs, key=lambda run: self.cells(axes[slice(*run)]))
            rest = axes[:start] + axes[stop:]
            axes = rest if rest in self.origin else self.drop(axes, start, stop)
