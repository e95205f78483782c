"""Workloads with few queries open at a time, counted in whole numbers: prefixes with ranges, sliding windows, ....

Kinds of cells are gone through in order. After kind c a query is *open* if it counts some kind up to c and some after.
Queries that agree on the kinds up to c have the same count so far, so what must be known of a partial database is its
total and one count for each different open restriction: its *state*. With B_c(s) the weight of all ways to go on from
state s after kind c so that every query ends within the level,

    B_c(s) = sum over y of g(w, y) B_(c+1)(s with y rows of the next kind),    B_last = 1,

a step being left out where a query that closes ends outside its window, or an open one can no longer end inside.
A database is drawn from the first kind to the last, y with probability g(w, y) B(next) / B(here). All numbers are
integers (`whole_ways`), so nothing is rounded.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from releases.engine.noise.randomness import Randomness, SamplerFailure, random_below
from releases.engine.smalldb.candidates import Candidate, Databases, Scaled, all_candidates, draw_evenly, whole_ways
from releases.engine.smalldb.enumeration import Signatures

#: (total, count of each open restriction).
State: TypeAlias = tuple[int, ...]
_Window: TypeAlias = tuple[int, int]


@dataclass(frozen=True, kw_only=True, slots=True)
class KindStep:
    """What happens at one kind.

    Attributes:
        sources: for each entry of the new state, the old entry it continues (-1: none, so far 0).
        adds: for each entry, whether it counts this kind.
        closing: (old entry or -1, whether it counts this kind, query) of queries that end here.
        open: for each entry after the first, the queries it stands for.
    """

    sources: tuple[int, ...]
    adds: tuple[bool, ...]
    closing: tuple[tuple[int, bool, int], ...]
    open: tuple[tuple[int, ...], ...]


def read_steps(incidence: NDArray[np.bool_]) -> tuple[KindStep, ...]:
    """The steps of a workload, one for each kind (column)."""
    queries, kinds = incidence.shape
    last = [int(np.flatnonzero(row).max()) for row in incidence]
    # What each query counts of the kinds so far, as a set of bits.
    so_far = [0] * queries
    entries: dict[int, int] = {}
    steps = []
    for kind in range(kinds):
        # No kind so far: nothing counted yet. All kinds so far: the total, which is entry 0.
        known = {0: -1, (1 << kind) - 1: 0 if kind else -1, **entries}
        source = [known.get(bits, -1) for bits in so_far]
        counts: list[bool] = incidence[:, kind].tolist()
        so_far = [bits | counted << kind for bits, counted in zip(so_far, counts, strict=True)]
        groups: dict[int, list[int]] = {(2 << kind) - 1: []}
        for query in range(queries):
            if last[query] > kind and so_far[query]:
                groups.setdefault(so_far[query], []).append(query)
        total, *others = groups.values()
        steps.append(
            KindStep(
                sources=(0, *(source[group[0]] for group in others)),
                adds=(True, *(counts[group[0]] for group in others)),
                closing=tuple((source[query], counts[query], query) for query in range(queries) if last[query] == kind),
                open=(tuple(total), *map(tuple, others)),
            )
        )
        entries = {bits: index for index, bits in enumerate(groups)}
    return tuple(steps)


def most_work(steps: tuple[KindStep, ...], *, size: int, limit: int = 1 << 62) -> int:
    """At least the number of pairs (state, y) that any level can have, or any number above the limit.

    There are m + 1 counts, and after c kinds at most (m + 1)^entries states, and no more than vectors of c + 1 counts,
    which are C(m + c + 1, c + 1). Nothing far above the limit is worked out: it would have thousands of digits.
    """
    work, vectors = 0, 1
    for kind, step in enumerate(steps):
        if vectors <= limit:
            vectors = vectors * (size + kind + 1) // (kind + 1)
        # Of bases above 1 a power of as many as the limit has bits is above it.
        power = int((size + 1) ** min(len(step.sources), limit.bit_length()))
        work += (size + 1) * min(power, vectors)
        if work > limit:
            break
    return work


class FrontierCounter:
    """Small databases within any level of largest error on one table of data (see `level_sampler.CountedLevels`).

    Args:
        signatures: the workload.
        steps: of its incidence.
        databases: which candidates.
        outside: how many cells of the universe each cell stands for.
        size: m, rows of a candidate.
        rows: W, above 0.
        counts: x, the counts of the kinds.
    """

    def __init__(
        self,
        signatures: Signatures,
        *,
        steps: tuple[KindStep, ...],
        databases: Databases,
        outside: int,
        size: int,
        rows: int,
        counts: NDArray[np.int64],
    ) -> None:
        self.signatures, self.databases, self.size, self.rows = signatures, databases, size, rows
        self._cells = [outside * each for each in signatures.cells_of_kind.tolist()]
        self._steps = steps
        self._goal = size * (signatures.incidence.astype(np.int64) @ counts)
        self._completions = lru_cache(maxsize=4)(self._complete)

    def everything(self) -> Scaled:
        cells, kinds = sum(self._cells), self.signatures.kinds
        return all_candidates(self.databases, cells=cells, kinds=kinds, size=self.size), 0

    def draw_any(self, rng: Randomness) -> Candidate:
        return draw_evenly(self.databases, cells=self._cells, size=self.size, rng=rng)

    def error(self, candidate: Candidate) -> int:
        answers = self.signatures.incidence.astype(np.int64) @ candidate
        return int(np.abs(self.rows * answers - self._goal).max(initial=0))

    def within(self, level: int) -> Scaled:
        return self._completions(level)[0].get((0,), 0), 0

    def draw(self, level: int, rng: Randomness) -> Candidate | None:
        completions = self._completions(level)
        windows = self._windows(level)
        state: State = (0,)
        counts = []
        for kind, after in enumerate(completions[1:]):
            point = random_below(completions[kind][state], rng)
            for count, following in self._ways_on(kind, state, windows):
                point -= self._ways(kind, state[0], count) * after.get(following, 0)
                if point < 0:
                    break
            else:
                raise SamplerFailure("a database was asked for where there is none")
            counts.append(count)
            state = following
        return np.array(counts, dtype=np.int64)

    def _complete(self, level: int) -> list[dict[State, int]]:
        """For each number of kinds done, the weight of all completions of every state that has any."""
        windows = self._windows(level)
        reached: list[set[State]] = [{(0,)}]
        for kind in range(len(self._steps)):
            reached.append({following for state in reached[-1] for _, following in self._ways_on(kind, state, windows)})
        completions: list[dict[State, int]] = [dict.fromkeys(reached[-1], 1)]
        for kind in range(len(self._steps) - 1, -1, -1):
            after, here = completions[-1], {}
            for state in reached[kind]:
                weight = sum(
                    self._ways(kind, state[0], count) * after[following]
                    for count, following in self._ways_on(kind, state, windows)
                    if following in after
                )
                if weight:
                    here[state] = weight
            completions.append(here)
        return completions[::-1]

    def _windows(self, level: int) -> list[_Window]:
        # No error is beyond the second; a larger level might pass 64 bits.
        level = min(level, self.rows * self.size + int(self._goal.max(initial=0)))
        low = -((level - self._goal) // self.rows)
        high = (level + self._goal) // self.rows
        return list(zip(low.tolist(), high.tolist(), strict=True))

    def _ways(self, kind: int, done: int, count: int) -> int:
        """g(w, y) of the next kind, in whole numbers."""
        return whole_ways(self.databases, cells=self._cells[kind], count=count, left=self.size - done)

    def _ways_on(self, kind: int, state: State, windows: list[_Window]) -> list[tuple[int, State]]:
        """The counts the next kind may have, and the state after each."""
        step, left = self._steps[kind], self.size - state[0]
        last = kind == len(self._steps) - 1
        found = []
        for count in range(left if last else 0, left + 1):
            ends = ((0 if source < 0 else state[source]) + (count if adds else 0) for source, adds, _ in step.closing)
            if not all(
                windows[query][0] <= end <= windows[query][1]
                for end, (_, _, query) in zip(ends, step.closing, strict=True)
            ):
                continue
            following = tuple(
                (0 if source < 0 else state[source]) + (count if adds else 0)
                for source, adds in zip(step.sources, step.adds, strict=True)
            )
            rest = left - count
            if all(
                value <= windows[query][1] and value + rest >= windows[query][0]
                for value, group in zip(following, step.open, strict=True)
                for query in group
            ):
                found.append((count, following))
        return found
