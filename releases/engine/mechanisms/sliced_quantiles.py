"""Many quantiles of one column: a tree of noisy counts says where they are, and each has a slice of rows for itself.

Notation is that of `counted_quantiles`: q = a/b, n rows, H(e) = b (#{x < e} - q n), H' the same of noisy counts.

1.  *Tree*. The range, padded to k^h values, is cut in k parts, a part in k parts again, to single values. Of a part the
    k counts within it have noise, drawn once however many quantiles ask. For each quantile two paths lead from the
    range to one value. At a part that begins at c, H' is known at the edges inside it from the counts of all parts that
    were cut off on the way. The lower path goes on in the part before the first e with H'(e) >= -r(e), the last part
    if there is none; the upper one in the part from the last e with H'(e) <= r(e) on, or the first. J goes from the
    end of one path to that of the other.
2.  *Slices*. m - 1 cuts are drawn by `recursive_quantiles` for the shares midway between those asked for, and the rows
    of the m slices get noisy counts C. All of this is in places, in which equal rows are apart.
3.  *Values*. In a slice, for the share q, the wanted rank is q n - (rows before it), which is N/2 + s of its N rows
    with s = q n - (rows before) - N/2. With C for all of these s is public. A value is drawn by the exponential
    mechanism for the rank N/2 + s of the slice's own rows. s is cut to three eighths of C on either side, or a slice in
    which few rows lie would give an end of it.
4.  *Interval*. Each slice is cut by edges that are narrower towards its value, and its cells are counted, with fresh
    noise. H' at them, and at the cuts, is that of the counts of its own cells and of C of all other slices; the
    interval is as in `counted_quantiles`, and what of it is in J is given: all of J where nothing is. The value is cut
    to it.

Privacy, epsilon-DP for a unit of g rows and either relation, c = 1 under add/remove and 2 under replacement. The parts
of a level do not overlap, so a row is in one of them and the counts move by g c in L1 whichever of them are asked for;
which are, follows from the levels before. So does each level cost g c / scale. Slices do not overlap and are known, so
C, and the cells of all slices, move by g c each. For a share of 1/2 and any s known before, k rows that come to a slice
or leave it move every utility by k/2 at most, and the log ratio of the two laws of its draw keeps within an interval of
length k epsilon_1 / (g c); over all slices these k add up to g c, so the draws together are a bounded range of
epsilon_1 (`recursive_quantiles`). Sequential composition adds up levels, cuts, C, draws and cells (Dwork and Roth 2014,
Theorems 3.6, 3.10, 3.16). That draws in slices can have all of an epsilon each is from SliceQuantiles (NeurIPS 2025,
arXiv 2505.13662), whose slices need a least gap between quantiles; here nothing that is proved depends on the cuts.

J holds every quantile with probability 1 - beta_J. Think of the noise of all parts as drawn beforehand. Let Q be the
lowest quantile, and at each level e the end of the part that holds Q: H(e) >= 0. As long as the lower path is in the
parts that hold Q it leaves them upwards only if H'(e) < -r(e), for the e of that level, which is one of h edges that
are the same for every noise; once it has left them downwards it ends below Q. r(e) is exceeded in size with probability
at most beta_J / h, in one direction half as often: beta_J/2. The same from above.

In ranks, before the release: J, and with it all that is given, begins where at least q n - A rows are at or below, A =
(r + M)/b for the largest r. For let y be the highest edge with H(y) < -(r + M). The lower path comes to end before y
only if at some level, in the part that holds y, an edge e <= y has H'(e) >= -r, so noise above M: there are h (k - 1)
edges in these parts. M(e) is exceeded with probability beta over their number, in one direction half as often. The
same from above. The paths do not cross: where they part, every edge before the first with H' >= -r has H' < -r <= r.

The interval holds every quantile with probability 1 - beta_I for every choice of cuts and edges, as in
`counted_quantiles`; beta_I + beta_J = beta over the number of quantiles. In places a value v is v W, ..., v W + W - 1.
Each quantile has a quantile among its places, so an interval of places that holds all holds all values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from math import floor, sqrt

import numpy as np

from releases.engine.accounting.events import DiscreteLaplaceEvent, Event, RepeatedEvent
from releases.engine.bounds.accuracy import laplace_combination_quantile
from releases.engine.domain.attribute import Attribute
from releases.engine.domain.schema import Schema
from releases.engine.mechanisms.quantile_cells import Layout, at_share
from releases.engine.mechanisms.quantiles import Ends, draw_event, draw_place, values_of
from releases.engine.mechanisms.recursive_quantiles import (
    Recursion,
    bits_of_places,
    counts_moved,
    in_places,
    levels_of,
    places_of,
    sensitivity_in_parts,
)
from releases.engine.noise.discrete import discrete_laplace
from releases.engine.noise.randomness import Randomness
from releases.engine.tables.counts import Tally

#: Of epsilon, to the tree, to each level of the cuts and to the counts of slices and of cells; the draws have the rest.
#: Chosen with incomes, Adult's ages in days and wages made up from its ages and hours all in view, so that no table
#: confirms them. Of 1,000 rows values were 2.8 to 3.8 times as far off as by powers.
_TREE, _CUTS, COUNTS = Fraction(16, 160), Fraction(3, 160), Fraction(44, 160)
#: Of beta, to the tree.
TREE_BETA = Fraction(1, 10)
#: With fewer quantiles a recursion has few levels and is nearer.
FEWEST = 5
_MOST_BRANCHES = 100
_HALF = Fraction(1, 2)
#: How far from the middle of a slice, in shares of its rows, a value is wanted at most.
_ASIDE = Fraction(3, 8)


@dataclass(frozen=True, kw_only=True, slots=True)
class RankTree:
    """Noisy counts of parts of a range, level by level.

    Attributes:
        branches: k.
        levels: h.
        scale: of the noise on a count.
        beta: of J, for one quantile.
    """

    branches: int
    levels: int
    scale: Fraction
    beta: float

    @staticmethod
    def planned(attribute: Attribute, schema: Schema, *, epsilon: Fraction, beta: float) -> RankTree:
        """The one whose noise on H' is least, up to logarithms."""
        values = values_of(attribute)
        levels, branches = min(
            ((_levels_to(values, each), each) for each in range(2, _MOST_BRANCHES + 1)),
            key=lambda found: found[0] * sqrt(found[0] * (found[1] - 1) + 1),
        )
        return RankTree(branches=branches, levels=levels, scale=levels * counts_moved(schema) / epsilon, beta=beta)

    def off(self, at: Fraction, *, beta: float) -> Fraction:
        """A: how many rows J's ends are from the quantile at most."""
        worst = ((max(at.numerator, at.denominator - at.numerator), self.levels * (self.branches - 1) + 1),)
        tested = self._reach(worst, beta=self.beta)
        missed = self._reach(worst, beta=beta / (self.branches - 1))
        return Fraction(tested + missed, at.denominator)

    def located(
        self, tally: Tally, attribute: Attribute, shares: Sequence[Fraction], rng: Randomness
    ) -> list[tuple[int, int]]:
        """J of each share, in units of the last place."""
        order = np.argsort(tally.values[0])
        values, up_to = tally.values[0][order] - attribute.lowest, np.concatenate([[0], np.cumsum(tally.counts[order])])
        paths = [_Path(at=at, is_upper=is_upper) for at in shares for is_upper in (False, True)]
        width, most = self.branches**self.levels, values_of(attribute)
        for level in range(self.levels):
            width //= self.branches
            starts = sorted({path.start for path in paths})
            # As many draws whatever was chosen.
            noise = discrete_laplace(
                scale=self.scale, size=(1 if level == 0 else len(paths)) * self.branches, rng=rng
            ).reshape(-1, self.branches)
            known = {}
            for start, drawn in zip(starts, noise, strict=False):
                parts = min(self.branches, -(-(most - start) // width))
                ends = up_to[np.searchsorted(values, start + width * np.arange(parts + 1))]
                known[start] = (np.diff(ends) + drawn[:parts]).tolist()
            paths = [path.onward(known[path.start], width, self._reaches(path.at)) for path in paths]
        found = [attribute.lowest + path.start for path in paths]
        return list(zip(found[::2], found[1::2], strict=True))

    def _reaches(self, at: Fraction) -> Callable[[int, int], int]:
        """r of an edge between so many parts that are counted."""
        a, b = at.numerator, at.denominator
        return lambda below, above: self._reach(((b - a, below), (a, above)), beta=self.beta)

    def _reach(self, counts: tuple[tuple[int, int], ...], *, beta: float) -> int:
        return laplace_combination_quantile(scale=self.scale, counts=counts, beta=beta / self.levels, or_fewer=True)


@lru_cache(maxsize=1024)
def _levels_to(values: int, branches: int) -> int:
    levels = 1
    while branches**levels < values:
        levels += 1
    return levels


@dataclass(frozen=True, kw_only=True, slots=True)
class _Path:
    """From the range to one value, as far as it goes.

    Attributes:
        start: where its part begins, from the lowest value on.
        below, above: the noisy rows before and after the part.
        parts_below, parts_above: how many counts these are sums of.
    """

    at: Fraction
    is_upper: bool
    start: int = 0
    below: int = 0
    above: int = 0
    parts_below: int = 0
    parts_above: int = 0

    def onward(self, counts: Sequence[int], width: int, reach: Callable[[int, int], int]) -> _Path:
        """In one of the parts, of so many values each, that the path's own is cut in."""
        a, b, size = self.at.numerator, self.at.denominator, len(counts)
        up_to = np.concatenate([[0], np.cumsum(counts)]).tolist()

        def passes(edge: int) -> bool:
            height: int = (b - a) * (self.below + up_to[edge]) - a * (self.above + up_to[-1] - up_to[edge])
            reached = reach(self.parts_below + edge, self.parts_above + size - edge)
            return height <= reached if self.is_upper else height >= -reached

        if self.is_upper:
            chosen = next((edge for edge in reversed(range(1, size)) if passes(edge)), 0)
        else:
            chosen = next((edge for edge in range(1, size) if passes(edge)), size) - 1
        return _Path(
            at=self.at,
            is_upper=self.is_upper,
            start=self.start + chosen * width,
            below=self.below + up_to[chosen],
            above=self.above + up_to[-1] - up_to[chosen + 1],
            parts_below=self.parts_below + chosen,
            parts_above=self.parts_above + size - 1 - chosen,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Slices:
    """What is drawn and counted before the cells.

    Attributes:
        shares: asked for, rising.
        tree: says where the quantiles are.
        cuts: draws the ends of slices.
        draw: epsilon of the draws in all slices.
        scale: of the noise on the rows of a slice.
    """

    shares: tuple[Fraction, ...]
    tree: RankTree
    cuts: Recursion
    draw: Fraction
    scale: Fraction

    @staticmethod
    def planned(
        schema: Schema, attribute: Attribute, shares: tuple[Fraction, ...], *, epsilon: Fraction, beta: float
    ) -> Slices:
        """Beta is that of one quantile."""
        middles = tuple((low + high) / 2 for low, high in pairwise(shares))
        levels = levels_of(len(middles))
        return Slices(
            shares=shares,
            tree=RankTree.planned(attribute, schema, epsilon=_TREE * epsilon, beta=float(TREE_BETA) * beta),
            cuts=Recursion(shares=middles, epsilon=_CUTS * epsilon, schema=schema),
            draw=(1 - _TREE - levels * _CUTS - 2 * COUNTS) * epsilon,
            scale=counts_moved(schema) / (COUNTS * epsilon),
        )

    def events(self, epsilon: Fraction) -> tuple[Event, ...]:
        """What all of it costs, of the whole epsilon."""
        of_level = DiscreteLaplaceEvent(noise_multiplier=self.tree.levels / (_TREE * epsilon))
        return (
            RepeatedEvent(event=of_level, times=self.tree.levels),
            self.cuts.event,
            DiscreteLaplaceEvent(noise_multiplier=1 / (COUNTS * epsilon)),
            draw_event(self.draw),
        )

    def drawn(self, tally: Tally, attribute: Attribute, rng: Randomness) -> Sliced:
        """Everything but the cells."""
        located = self.tree.located(tally, attribute, self.shares, rng)
        bits = bits_of_places(attribute)
        rows, everything = in_places(tally, attribute.lowest, bits), places_of(attribute, bits)
        cuts = self.cuts.draw_places(rows, everything, rng)
        ends = [everything.lowest, *cuts, everything.highest + 1]
        own = [rows_between(rows, low, end) for low, end in pairwise(ends)]
        counts = [int(each.counts.sum()) for each in own]
        noisy = (np.array(counts) + discrete_laplace(scale=self.scale, size=len(counts), rng=rng)).tolist()
        values = []
        for place, (at, mine) in enumerate(zip(self.shares, own, strict=True)):
            values.append(
                draw_place(
                    mine,
                    Ends(lowest=ends[place], highest=max(ends[place], ends[place + 1] - 1)),
                    _HALF,
                    epsilon=self.draw,
                    sensitivity=sensitivity_in_parts(self.cuts.schema, _HALF),
                    rng=rng,
                    away=aside(at, noisy, place),
                )
            )
        return Sliced(located=located, bits=bits, cuts=cuts, rows=own, noisy=noisy, values=values)


@dataclass(frozen=True, kw_only=True, slots=True)
class Sliced:
    """What was drawn and counted; all but `rows` was paid for.

    Attributes:
        located: J of each quantile, in units of the last place.
        bits: the logarithm of W.
        cuts: the places at which slices begin, but the first.
        rows: of each slice, in places. As private as the table.
        noisy: C.
        values: the place drawn in each slice.
    """

    located: list[tuple[int, int]]
    bits: int
    cuts: list[int]
    rows: list[Tally]
    noisy: list[int]
    values: list[int]

    def edges(self, place: int, attribute: Attribute, layout: Layout) -> list[int]:
        """In places, closer together towards the value drawn; none but the slice's own and those within J."""
        everything = places_of(attribute, self.bits)
        starts = [everything.lowest, *self.cuts, everything.highest + 1]
        first, last = starts[place], max(starts[place], starts[place + 1] - 1)
        low, high = (end - attribute.lowest for end in self.located[place])
        value = self.values[place] >> self.bits
        low, high = min(max(low, first >> self.bits), value), max(min(high, last >> self.bits), value)
        edges = {end << self.bits for step in layout.steps for end in at_share(low, value, high, step)}
        return sorted(edge for edge in edges if first < edge <= last)

    def cut_to_tree(self, place: int, ends: tuple[int, int], attribute: Attribute) -> tuple[int, int, int]:
        """The value and the interval's ends in units of the last place, from the interval in places."""
        low, high = (attribute.lowest + (end >> self.bits) for end in ends)
        least, most = self.located[place]
        low, high = (max(low, least), min(high, most)) if low <= most and least <= high else (least, most)
        return min(max(attribute.lowest + (self.values[place] >> self.bits), low), high), low, high


def aside(at: Fraction, noisy: Sequence[int], place: int) -> int:
    """s: how far from the middle of its slice the wanted rank is, in whole rows, from noisy counts of all slices."""
    own = max(noisy[place], 0)
    wanted = floor(at * sum(noisy) - sum(noisy[:place]) - _HALF * noisy[place])
    return min(max(wanted, -floor(_ASIDE * own)), floor(_ASIDE * own))


def rows_between(rows: Tally, low: int, end: int) -> Tally:
    """Those from one place to the one before another."""
    inside = (rows.values[0] >= low) & (rows.values[0] < end)
    return Tally(values=(rows.values[0][inside],), counts=rows.counts[inside])
