"""How far synthetic rows can be trusted: one column, a pair or three columns at a time. Post-processing only.

In: released tables with the intervals that hold for all their cells at once, the fitted distribution, and counts of the
synthetic rows. No data are seen and nothing is paid for, so two tables of people with the same release have the same
trust map. What is proved holds whenever the release's intervals hold: with its confidence, jointly with its answers.

Let t_c be the true counts of a set of columns, T = sum t_c, and l_c <= t_c <= u_c. Let s_c be the counts of the
synthetic rows, S = sum s_c, and f how many rows of the table one synthetic row stands for.

**Rows.** |f s_c - t_c| <= max(|f s_c - l_c|, |f s_c - u_c|), since a distance from a point is largest at an end of an
interval (`rows_off`).

**Shares.** With p = s/S and q = t/T the total variation is TV = (1/2) sum |p_c - q_c| = sum (p_c - q_c)+ =
sum (q_c - p_c)+, as p and q add up to 1. So for every weight w in [0, 1]

    TV = sum w (p_c - q_c)+ + (1 - w) (q_c - p_c)+  <=  F_w(T) = sum max(w (p_c - l_c/T), (1 - w) (u_c/T - p_c), 0),

since in each cell one of the two is 0, q_c >= l_c/T and q_c <= u_c/T. T is not known, only that it lies between sum l_c
and sum u_c, over this table or any other of the release. But F_w is a sum of maxima of affine functions of 1/T, so it
is convex in 1/T, and over all T from a to b it is at most max(F_w(a), F_w(b)). The range of T is cut into pieces, and
each piece has the weight that is best for it (`share_off`). The number of people is used nowhere: the proof is the same
where neighbours differ by a person added and where one is replaced.

**Margins.** A margin of a released table has the sums of its ends as ends. Where several released tables hold the same
columns, the true counts lie in all of their intervals, so the tightest ends hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from heapq import heappush, heapreplace
from itertools import chain, combinations, islice
from math import comb, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from releases.engine.domain.universe import Universe
from releases.engine.estimation.components import Names
from releases.engine.estimation.result import Distribution, MixtureComponent, TreeComponent

Floats = NDArray[np.float64]
#: Sets of columns that are listed: pairs, and sets of three.
MAX_PAIRS, MAX_TRIPLES = 50_000, 10_000
#: Released tables that one set is compared with; the smallest, whose margins are tightest.
_MAX_HOLDERS = 50
#: Values looked up for all comparisons together: half a minute.
MAX_WORK = 1e10
#: Weights of `share_off`, cuts of its range at most, and the gain in a share for which it is not worth to cut again.
_WEIGHTS = np.linspace(0, 1, 5)[:, None]
_MAX_CUTS, _GAIN = 60, 2e-5
#: A cell that is compared takes as long as so many look-ups, and one that is counted alone.
_COMPARED, _COUNTED = 100, 10
#: No table of more cells is compared: some arrays of five times as many numbers are held at once.
_MAX_CELLS = 10**6


class State(StrEnum):
    """What the synthetic rows can show of a set of columns.

    MEASURED: a table over all of them was measured with noise. MODELLED: the model links them through what was
    measured. INDEPENDENT: the model cannot hold a relation of all of them; for three columns, at least one of them has
    none with the other two.
    """

    MEASURED = "measured"
    MODELLED = "modelled"
    INDEPENDENT = "independent"


@dataclass(frozen=True, kw_only=True, eq=False)
class ReleasedTable:
    """A released table of counts, one axis a name.

    Attributes:
        lower, upper: hold every true count at once, with the release's confidence.
    """

    names: Names
    estimate: Floats
    lower: Floats
    upper: Floats

    def margin(self, names: Names) -> tuple[Floats, Floats, Floats]:
        """Estimates and ends over some of its columns, in the order given."""
        summed = tuple(axis for axis, name in enumerate(self.names) if name not in names)
        kept = [name for name in self.names if name in names]
        order = [kept.index(name) for name in names]
        estimate, lower, upper = (
            each.sum(axis=summed).transpose(order) for each in (self.estimate, self.lower, self.upper)
        )
        return estimate, lower, upper


@dataclass(frozen=True, kw_only=True, slots=True)
class Trust:
    """What is known of the synthetic rows over one, two or three columns. None where something is not known.

    Attributes:
        rows_off: certified: no count is further from the true one, in rows of the table.
        share_off: certified: the total variation to the true table is at most this.
        estimated: the total variation to the released estimates, no bound.
        association: Cramér's V of a pair in the synthetic rows, from 0 to 1.
    """

    names: Names
    state: State
    rows_off: float | None = None
    share_off: float | None = None
    estimated: float | None = None
    association: float | None = None


@dataclass(frozen=True, kw_only=True)
class TrustMap:
    """Every column, every pair and every three columns of synthetic rows, up to `MAX_PAIRS` and `MAX_TRIPLES`.

    Attributes:
        entries: columns first, then pairs, then threes; of those that are cut, measured ones are kept first.
        possible: how many sets of one, two and three columns there are.
        present: bins that occur in the synthetic rows, `declared` of all bins there are.
    """

    entries: tuple[Trust, ...]
    possible: tuple[int, int, int]
    present: int
    declared: int

    def of_order(self, order: int) -> tuple[Trust, ...]:
        return tuple(each for each in self.entries if len(each.names) == order)


def rows_off(counts: Floats, lower: Floats, upper: Floats) -> float:
    """The most rows that any count can be off, for true counts between `lower` and `upper`."""
    return float(np.maximum(np.abs(counts - lower), np.abs(upper - counts)).max())


def share_off(counts: Floats, lower: Floats, upper: Floats, *, least: float, most: float) -> float:
    """At least the total variation between counts and any true counts that lie between `lower` and `upper`, as shares.

    By F_w from the head of this file. The piece with the largest bound is cut in two until that gains next to nothing;
    every way to cut gives a bound.

    Args:
        counts: of the synthetic rows, not all 0.
        least, most: between which the number of rows lies.
    """
    shares = (counts / counts.sum()).reshape(-1)
    low, high = lower.reshape(-1), upper.reshape(-1)

    def bounds(total: float) -> Floats:
        """F_w for each weight."""
        each = np.maximum(_WEIGHTS * (shares - low / total), (1 - _WEIGHTS) * (high / total - shares))
        return np.asarray(np.maximum(each, 0.0).sum(axis=1))

    def piece(a: float, at_a: Floats, b: float, at_b: Floats) -> tuple[float, float, float, Floats, Floats]:
        return -float(np.maximum(at_a, at_b).min()), a, b, at_a, at_b

    start, stop = max(least, 1.0), max(most, least, 1.0)
    first, last = bounds(start), bounds(stop)
    pieces = [piece(start, first, stop, last)]
    reached = max(first.min(), last.min())
    for _ in range(_MAX_CUTS):
        largest, a, b, at_a, at_b = pieces[0]
        if -largest <= reached + _GAIN or b <= a:
            break
        middle = sqrt(a * b)
        at_middle = bounds(middle)
        reached = max(reached, at_middle.min())
        heapreplace(pieces, piece(a, at_a, middle, at_middle))
        heappush(pieces, piece(middle, at_middle, b, at_b))
    return min(1.0, -pieces[0][0])


def association(counts: Floats) -> float | None:
    """Cramér's V = sqrt(chi2 / (N (min(r, c) - 1))) of a table's r rows and c columns that are not empty; None where
    one of them has a single value."""
    table = counts[counts.sum(axis=1) > 0][:, counts.sum(axis=0) > 0]
    if min(table.shape) < 2:
        return None
    shares = table / table.sum()
    expected = np.outer(shares.sum(axis=1), shares.sum(axis=0))
    return float(min(1.0, np.sqrt(((shares - expected) ** 2 / expected).sum() / (min(table.shape) - 1))))


def linked(distribution: Distribution) -> list[frozenset[str]]:
    """The sets of columns within which the distribution can hold a relation; columns of two of them are independent."""
    found: list[frozenset[str]] = []
    for component in distribution.components:
        groups = [frozenset(component.names)]
        if isinstance(component, MixtureComponent) and component.mixture.shares.size == 1:
            groups = [frozenset((name,)) for name in component.names]
        elif isinstance(component, TreeComponent):
            groups = []
            for clique in component.cliques:
                own = frozenset(component.names[axis] for axis in clique.axes)
                groups = [*(each for each in groups if not each & own), own.union(*(g for g in groups if g & own))]
        found += groups
    return found


@dataclass(frozen=True, kw_only=True, eq=False)
class TrustInputs:
    """What a trust map is made of, all of it released.

    Attributes:
        universe: of the synthetic rows' columns.
        distribution: that the rows were drawn from.
        tables: released tables of counts.
        is_proved: whether their intervals are proved; else nothing is certified.
        measured: further sets of columns whose tables the model was fitted to.
        counts: of the synthetic rows over some columns, one axis a column.
        rows: how many synthetic rows there are, at least one.
        rows_of_one: how many rows of the table each stands for.
        most_work: values that may be looked up for all comparisons together.
    """

    universe: Universe
    distribution: Distribution
    tables: Sequence[ReleasedTable]
    is_proved: bool
    measured: Iterable[Names]
    counts: Callable[[Names], NDArray[Any]]
    rows: int
    rows_of_one: float
    most_work: float = MAX_WORK


def trust_map(given: TrustInputs) -> TrustMap:
    """State, certificate and estimate of every column, pair and three columns. See the head of this file.

    Comparisons stop where they would take too long: by numbers of rows and cells, which are released. What comes after
    that has a state alone.
    """
    return _Making(given).made()


class _Making:
    """One trust map at work."""

    def __init__(self, given: TrustInputs) -> None:
        self.given, self.work = given, given.most_work
        self.present = self.declared = 0
        self.tables = sorted(given.tables, key=lambda table: table.estimate.size)
        self.sets: list[Names] = [*(table.names for table in self.tables), *given.measured]
        held: dict[str, set[int]] = {name: set() for name in given.universe.names}
        for place, names in enumerate(self.sets):
            for name in names:
                held.setdefault(name, set()).add(place)
        self.held = held
        groups = enumerate(linked(given.distribution))
        self.groups = {name: number for number, names in groups for name in names}
        # Columns of a combination that cannot occur are not independent in rows.
        limits = [each.names for each in given.universe.impossible]
        for names in (*limits, *(each.names for each in given.universe.hierarchies)):
            joined = {self.groups[name] for name in names}
            self.groups |= {name: min(joined) for name, group in self.groups.items() if group in joined}
        ends = [(float(each.lower.sum()), float(each.upper.sum())) for each in self.tables]
        self.total = max((low for low, _ in ends), default=0.0), min((high for _, high in ends), default=np.inf)

    def made(self) -> TrustMap:
        names = self.given.universe.names
        singles = [self._entry((name,)) for name in names]
        pairs = [self._entry(each) for each in self._listed(2, MAX_PAIRS)]
        triples = [self._entry(each) for each in self._listed(3, MAX_TRIPLES)]
        return TrustMap(
            entries=(*singles, *pairs, *triples),
            possible=(len(names), comb(len(names), 2), comb(len(names), 3)),
            present=self.present,
            declared=self.declared,
        )

    def _listed(self, order: int, most: int) -> list[Names]:
        """Measured sets first, where they cannot all be listed; each set and all sets in the columns' order."""
        place = {name: number for number, name in enumerate(self.given.universe.names)}
        if comb(len(place), order) <= most:
            return list(combinations(self.given.universe.names, order))
        known = chain.from_iterable(
            combinations(sorted((name for name in names if name in place), key=place.__getitem__), order)
            for names in self.sets
        )
        kept = dict.fromkeys(islice(dict.fromkeys(islice(known, 10 * most)), most))
        for names in combinations(self.given.universe.names, order):
            if len(kept) >= most:
                break
            kept.setdefault(names)
        return sorted(kept, key=lambda names: [place[name] for name in names])

    def _entry(self, names: Names) -> Trust:
        holders = set.intersection(*(self.held[name] for name in names))
        state = State.MEASURED if holders else State.MODELLED
        if not holders and len({self.groups[name] for name in names}) > 1:
            state = State.INDEPENDENT
        tables = [self.tables[at] for at in islice(sorted(at for at in holders if at < len(self.tables)), _MAX_HOLDERS)]
        if not tables and len(names) > 2:
            return Trust(names=names, state=state)
        cells = self.given.universe.project(names).size
        self.work -= len(names) * self.given.rows + min(cells, _MAX_CELLS) * (_COMPARED if tables else _COUNTED)
        self.work -= sum(3 * table.estimate.size for table in tables)
        if self.work < 0 or cells > _MAX_CELLS:
            return Trust(names=names, state=state)
        counts = self.given.counts(names).astype(np.float64)
        if len(names) == 1:
            self.present, self.declared = self.present + int((counts > 0).sum()), self.declared + counts.size
        compared = self._compared(names, counts, tables) if tables else {}
        linked_by = association(counts) if len(names) == 2 else None
        return Trust(names=names, state=state, association=linked_by, **compared)

    def _compared(self, names: Names, counts: Floats, tables: Sequence[ReleasedTable]) -> dict[str, float | None]:
        estimate, lower, upper = tables[0].margin(names)
        likely = np.maximum(estimate, 0.0)
        found: dict[str, float | None] = {"estimated": None}
        if likely.sum() > 0:
            found["estimated"] = float(np.abs(counts / counts.sum() - likely / likely.sum()).sum() / 2)
        if not self.given.is_proved:
            return found
        for table in tables[1:]:
            _, low, high = table.margin(names)
            lower, upper = np.maximum(lower, low), np.minimum(upper, high)
        least, most = max(self.total[0], float(lower.sum())), min(self.total[1], float(upper.sum()))
        found["rows_off"] = rows_off(counts * self.given.rows_of_one, lower, upper)
        found["share_off"] = share_off(counts, lower, upper, least=least, most=most)
        return found
