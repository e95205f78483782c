"""`counted-quantile`: quantiles with intervals on the column's own scale, from a few noisy counts around them.

Notation. q = a/b is the share asked for, n the number of rows, and the quantiles of a table are all values y of the
declared range with #{x < y} <= q n <= #{x <= y}: those from the lowest, Q, to the highest, P; of an even number of rows
the medians from one middle row to the other, of no rows the whole range. For a value e of the range,

    H(e) = b (#{x < e} - q n) = (b - a) #{x < e} - a #{x >= e},

a whole number that does not fall as e grows. H(e) >= 0 for every e > Q, and H(e) <= 0 for every e <= P.

Run. Edges e_1 < ... < e_k cut the range into m = k + 1 cells, [lowest, e_1 - 1], ..., [e_k, highest]. Every cell's
count gets discrete Laplace noise of scale t; H'(e) is H(e) of the noisy counts, and r(e) what its noise exceeds in size
with probability at most beta. The interval is

    from the edge before the first e with H'(e) >= -r(e)      (the lowest value if that is e_1; e_k if there is none),
    to the value before the edge after the last e with H'(e) <= r(e)      (the highest value if that is e_k).

The value given is in the interval that r = 0 gives, where H' drawn as a line from one end to the other passes 0. By
group, of a range of few values, H' of counts that lean towards those of all groups is drawn (`leaning_counts`), and the
value is cut to its interval.

Edges. Of a range of few values: every value. Of others: two values a' <= b' are drawn first by the exponential
mechanism on ranks, for the ranks q n - s and q n + s, and one c between them for the rank q n. The edges cut a' ... b'
into c alone and K cells, K/2 on either side, that are narrower the nearer they are to c: the j-th edge from it is at
(2 j / K)^2 of the way to a', or to b' + 1. Of several quantiles a' and b' are farther apart, and c has more of epsilon:
there the edge is at (2/5)^(K/2 - j) of the way, which takes fewer cells (`Layout`).

Privacy, epsilon-DP for neighbours of either kind, the unit g rows. A draw on ranks costs epsilon_0 as in `quantiles`:
moving the wanted rank by s, a public number, moves no difference of utilities. The cells do not overlap, so a row added
or removed moves one count by 1 and a row replaced two: by g, or 2 g, in L1 (`Schema.changes_of_a_row`), whatever the
edges are. They are chosen from what was paid for, so sequential composition adds the draws' epsilons and g/t, or 2 g/t
(Dwork and Roth 2014, Theorems 3.6, 3.10, 3.16). The far draws cost a quarter of epsilon together and those between them
a tenth, or three twentieths of several quantiles; t is such that the counts cost the rest. All else is post-processing.

Coverage: with probability at least 1 - beta every quantile of the table lies in the interval, for every table, also of
no rows and of equal ones, and every choice of edges. Given the edges let e be the first above Q, so that H(e) >= 0. The
noise on H'(e) is symmetric, so H'(e) < -r(e) has probability at most beta/2; otherwise the first edge with H' >= -r is
e or comes before it, and the interval begins at the edge before e, which is at most Q, or lower. If there is no such e
every edge is at most Q. The same from above, with P and the last edge that is at most P: beta/2. That needs one edge on
either side, so no allowance for many edges. The two ends do not cross: every edge before the first with H' >= -r has
H' < -r, so it is not after the last with H' <= r.

Before the release, in ranks: with probability 1 - beta at least q n - A rows are at or below the interval's lowest
value, and so at or below the value given, and at most q n + A below its highest.

*   Every value an edge: A = max (r + M)/b, M(e) what the noise on H'(e) exceeds with probability beta / k at most. The
    first e with H'(e) >= -r(e) has H(e) >= -r - M, and the interval begins at e - 1.
*   Edges drawn: a' and b' are within alpha rows of the best rank (`quantiles.rank_error`, beta/4 each), and the noise
    on the two outermost edges within M (beta/4 each, of one sign). s is the least whole number above alpha + (r + M)/b,
    and A = s + alpha. If q n >= s, a' has at most q n - s + alpha rows below it, so H(a') < -r - M, H'(a') < -r, and
    the interval begins at a' or later; and q n - A rows at least are at or below a'. If q n < s, q n - A < 0. The same
    from above.

Several quantiles share the counts: the cells are cut by the edges of all. Each has two far draws of its own, at an
equal part of their epsilon; the values c are drawn from the rows between one another, so that each has epsilon over the
logarithm of their number (`recursive_quantiles`). Its interval, from its own edges, and its ranks hold at beta over
their number, so that all hold at once. The noise on H grows with the square root of their number, where releases one by
one would have noise in proportion. Coverage and ranks hold for every c: they need only that edges were paid for. Of
five or more each may have a slice of the rows for itself (`sliced_quantiles`).

By group, one of the categories of a column: each group's rows are a table of their own, with draws, edges and counts of
its own, at the same s and t. What a group's draw costs grows in proportion to the rows that come to it or leave it, as
does what its counts cost. Of g rows added or removed all may be in one group, and then each costs what it costs
without groups; spread over several, no more together. A row replaced may leave one group and come to another: counts
move by 2 as before, and the utilities of the two groups' draws by max(q, 1 - q) each, so the sensitivity is 2 g
max(q, 1 - q), which is at least the g of a row that stays. Ratios of independent draws multiply, so the two together
are a bounded range of the sum. beta is divided by the groups, so that all intervals hold at once.

How wide the interval is, is not known before: how close together rows lie is private. Its ends are about (r + cell)/b
rows from the quantile, a cell being a few of the 2 s rows between a' and b': where three draws on ranks would have to
keep a distance of alpha = 2 Delta/epsilon_0 ln(|R|/beta), the logarithm of the number of values, here only s does.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import floor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from releases.engine.accounting.events import DiscreteLaplaceEvent, Event, RepeatedEvent
from releases.engine.bounds.accuracy import Bound, Proof, laplace_combination_quantile
from releases.engine.domain.attribute import Attribute
from releases.engine.domain.counted import Counted
from releases.engine.domain.privacy import decimal_text
from releases.engine.domain.universe import Universe
from releases.engine.estimation.result import Result
from releases.engine.mechanisms.base import Mechanism, Option, Plan, PlanRequest, Progress, infeasible, register
from releases.engine.mechanisms.choices import statistic_of
from releases.engine.mechanisms.leaning_counts import leaning
from releases.engine.mechanisms.quantiles import (
    LARGEST_DENOMINATOR,
    Ends,
    draw_event,
    draw_value,
    draws_work,
    rank_error,
    rank_says,
    rank_sensitivity,
    values_of,
)
from releases.engine.mechanisms.recursive_quantiles import (
    Recursion,
    counts_moved,
    levels_of,
    places_of,
    sensitivity_in_parts,
)
from releases.engine.mechanisms.sliced_quantiles import COUNTS, FEWEST, TREE_BETA, Sliced, Slices
from releases.engine.noise.discrete import LARGEST_SCALE, discrete_laplace
from releases.engine.noise.randomness import Randomness
from releases.engine.tables.counts import Counts, Tally
from releases.engine.workload.kinds.quantile import Quantile
from releases.engine.workload.kinds.quantiles import Quantiles
from releases.engine.workload.row_sums import after_clamping, in_one_line
from releases.engine.workload.statistic import Statistic

#: Of epsilon, to each of the two draws that are far away.
_FAR_SHARE = Fraction(1, 8)
_FORMULA = (
    r"\alpha = \max_{\pm} |\hat y - e_\pm|,\quad e_- < \min\{e : \tilde H(e) \ge -r\},\ "
    r"e_+ > \max\{e : \tilde H(e) \le r\},\quad \Pr\left[\left|(b - a) \textstyle\sum_{x < e} X"
    r" - a \sum_{x \ge e} X\right| > r\right] \le \beta"
)
#: Of how many quantiles the intervals are written out in a sentence.
_MOST_NAMED = 6
#: A release of more quantiles than this is a mistake.
_MOST_ANSWERS = 1_000
#: Distances of ranks, times the share's denominator, stay within 64 bits with this added.
_LARGEST_OFFSET = 1 << 58
_RANKS_FORMULA = r"\alpha = \max_e \frac{r(e) + M(e)}{b} \text{ or } 2 \alpha_0 + \frac{r + M}{b} + 1"
_SOURCE = "Derived: inversion of a test at each edge; the ranks by Dwork and Roth (2014), Theorem 3.10"


SQUARES, POWERS, SLICES = "squares", "powers", "slices"
STEPS = Option(
    name="steps",
    help="Where rows are counted around each of several quantiles: “powers” for few cells that get narrow fast towards "
    "it, “slices” for such cells in a part of the rows that each quantile has for itself, or “squares” for more cells "
    "of more even widths. Slices help with five or more quantiles of some ten thousand rows or more; in small tables "
    "they are farther off. By group, of fewer quantiles or values, and where the ranks stated before would be larger, "
    "powers are used instead. Around a single quantile it is always squares.",
    choices=(POWERS, SLICES, SQUARES),
    default=POWERS,
    before=SQUARES,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """Which edges are made of draws, and what of epsilon the draws have.

    Attributes:
        steps: how far from the value drawn for the quantile itself the edges on either side are: shares of the whole
            way, as two numbers each. K/2 of them, and none at all.
        near: of epsilon, to the draws between the far ones.
    """

    steps: tuple[tuple[int, int], ...]
    near: Fraction

    @property
    def draws(self) -> Fraction:
        """Of epsilon, to all draws."""
        return 2 * _FAR_SHARE + self.near

    def most_cells(self, quantiles: int) -> int:
        """For each quantile those beside the value drawn for it, that value's, and the one after; and the first."""
        return quantiles * 2 * len(self.steps) + 1

    def few_values(self, quantiles: int) -> int:
        """Up to so many values every value is an edge.

        The deviation of H' grows with the square root of the cells: that of so many at the whole epsilon is that of
        `most_cells` at what the draws leave.
        """
        return floor(self.most_cells(quantiles) / (1 - self.draws) ** 2)


#: Chosen on incomes and ages of the American Community Survey 2019, 1,000 to 27,253 rows, at epsilon 0.1 and 1. Without
#: the draw between the far ones most intervals were a sixth narrower, but that of the 90% quantile of incomes at
#: epsilon 0.1 was five times as wide.
_BY_SQUARES = Layout(steps=tuple((j**2, 8**2) for j in range(9)), near=Fraction(1, 10))
#: Chosen on Adult's ages in days and on wages made up from its ages and hours: by squares several quantiles were 3 to
#: 26% farther off. Alone, the 90% quantile of 1,000 incomes was nearly twice as far off by such powers.
_BY_POWERS = Layout(steps=((0, 1), *((2 ** (6 - j), 5 ** (6 - j)) for j in range(1, 7))), near=Fraction(3, 20))


@register
class CountedQuantile(Mechanism):
    name = "counted-quantile"
    title = "Counts around the quantile"
    summary = "Gives a value and the range in which the true one lies, from noisy counts of the rows around it."
    source = "McSherry and Talwar (2007), Theorem 6; Dwork and Roth (2014), Theorem 3.6; interval derived"
    options = (STEPS,)
    answers = (Quantile, Quantiles)

    def _plan(self, request: PlanRequest) -> Plan:
        asked = quantiles_of(request.statistic)
        if any(each.at.denominator > LARGEST_DENOMINATOR for each in asked):
            return infeasible(request, "It takes a share of the rows with at most six decimals.")
        schema, whole = request.schema, request.budget.epsilon
        attribute = schema.universe[asked[0].attributes[0]]
        groups = groups_of(request.statistic, schema.universe)
        if groups * len(asked) > _MOST_ANSWERS:
            reason = (
                f"It would release {groups * len(asked):,} quantiles; the most is {_MOST_ANSWERS:,}. Ask for fewer."
            )
            return infeasible(request, reason)
        layout = layout_of(request.options, len(asked))
        has_windows = values_of(attribute) > layout.few_values(len(asked))
        cells = layout.most_cells(len(asked)) if has_windows else values_of(attribute)
        left = (1 - layout.draws) * whole if has_windows else whole
        noise = CellNoise(
            scale=counts_moved(schema) / left, cells=cells, beta=float(request.beta) / (groups * len(asked))
        )
        if noise.scale > LARGEST_SCALE:
            return infeasible(request, "Its noise would not fit 64 bits at so small an epsilon. Spend more.")
        windows = _windows(request, asked, noise, groups=groups) if has_windows else ()
        between = _draws_between(request, asked, near=layout.near, groups=groups) if has_windows else None
        if windows and is_sliced(request.options, len(asked), groups):
            plan = self._plan_in_slices(request, asked, layout)
            # Its ranks grow with the range, and those of windows with the number of quantiles.
            if plan.expectation is not None and plan.expectation.alpha <= max(each.away + each.off for each in windows):
                return plan
        if any(each.away * each.at.denominator > _LARGEST_OFFSET for each in windows):
            return infeasible(request, "Its ranks would not fit 64 bits at so small an epsilon. Spend more.")
        return CountedQuantilePlan(
            **request.inputs(),
            windows=windows,
            between=between,
            noise=noise,
            events=(*_draw_events(windows, between), DiscreteLaplaceEvent(noise_multiplier=1 / left)),
            parameters={
                "counts": f"{cells:,}",
                "scale of the noise on a count": decimal_text(noise.scale),
                **_described(windows, between, request.schema.counted),
            },
            expectation=_bound_in_ranks(
                request,
                asked,
                [window.away + window.off for window in windows] or [_ranks_of_all(each.at, noise) for each in asked],
            ),
            formula=_FORMULA,
            source=_SOURCE,
            work=draws_work(3 * len(windows) * groups),
        )

    def _plan_in_slices(self, request: PlanRequest, asked: Sequence[Quantile], layout: Layout) -> Plan:
        schema, whole, each = request.schema, request.budget.epsilon, float(request.beta) / len(asked)
        attribute, shares = schema.universe[asked[0].attributes[0]], tuple(quantile.at for quantile in asked)
        slices = Slices.planned(schema, attribute, shares, epsilon=whole, beta=each)
        # Those of the slice that a quantile lies in, and one of every other.
        cells = layout.most_cells(1) + len(asked) - 1
        noise = CellNoise(scale=slices.scale, cells=cells, beta=float(1 - TREE_BETA) * each)
        if slices.tree.scale > LARGEST_SCALE:
            return infeasible(request, "Its noise would not fit 64 bits at so small an epsilon. Spend more.")
        return CountedQuantilePlan(
            **request.inputs(),
            windows=(),
            between=None,
            slices=slices,
            noise=noise,
            events=(*slices.events(whole), DiscreteLaplaceEvent(noise_multiplier=1 / (COUNTS * whole))),
            parameters={
                "counts": f"{layout.most_cells(1) * len(asked):,}",
                "scale of the noise on a count": decimal_text(noise.scale),
                "levels of ranges counted before": f"{slices.tree.levels}",
                "scale of the noise on a range": decimal_text(slices.tree.scale),
                "levels of draws that cut the rows": f"{slices.cuts.levels}",
                "epsilon of one of these": decimal_text(slices.cuts.epsilon),
                "epsilon of the draws between the cuts": decimal_text(slices.draw),
            },
            expectation=_bound_in_ranks(request, asked, [slices.tree.off(at, beta=each) for at in shares]),
            formula=_FORMULA,
            source=_SOURCE,
            work=draws_work(3 * len(asked)),
        )


def _windows(request: PlanRequest, asked: Sequence[Quantile], noise: CellNoise, *, groups: int) -> tuple[Window, ...]:
    """One for each quantile, at equal parts of epsilon."""
    schema, epsilon = request.schema, request.budget.epsilon / len(asked)
    attribute = schema.universe[asked[0].attributes[0]]
    moved = sensitivity_in_parts if groups > 1 else rank_sensitivity
    return tuple(
        Window.planned(attribute, each.at, noise, epsilon=epsilon, sensitivity=moved(schema, each.at)) for each in asked
    )


def _draws_between(request: PlanRequest, asked: Sequence[Quantile], *, near: Fraction, groups: int) -> Recursion:
    """At equal parts of epsilon for each of its levels."""
    epsilon = near * request.budget.epsilon / levels_of(len(asked))
    return Recursion(shares=tuple(each.at for each in asked), epsilon=epsilon, schema=request.schema, groups=groups)


def _draw_events(windows: Sequence[Window], between: Recursion | None) -> tuple[Event, ...]:
    if between is None:
        return ()
    return RepeatedEvent(event=draw_event(windows[0].far), times=2 * len(windows)), between.event


def _described(windows: Sequence[Window], between: Recursion | None, counted: Counted) -> dict[str, str]:
    if between is None:
        return {}
    levels = {"levels of draws between them": f"{between.levels}"} if between.levels > 1 else {}
    return {
        "epsilon of two draws far away": decimal_text(windows[0].far),
        "epsilon of one between them": decimal_text(between.epsilon),
        **levels,
        "sensitivity of a rank": " and ".join(decimal_text(each.sensitivity) for each in windows),
        f"ranks of those far away, in {counted.many} from the quantile's": " and ".join(
            f"{each.away:,}" for each in windows
        ),
    }


def quantiles_of(statistic: Statistic) -> tuple[Quantile, ...]:
    """What is asked for, one by one."""
    if isinstance(statistic, Quantiles):
        return statistic.each
    assert isinstance(statistic, Quantile)
    return (statistic,)


def groups_of(statistic: Statistic, universe: Universe) -> int:
    """How many groups the rows are in; 1 where they are not asked about by group."""
    return universe[statistic.by].size if isinstance(statistic, Quantiles) and statistic.by else 1


def layout_of(options: Mapping[str, Any], quantiles: int) -> Layout:
    return _BY_POWERS if quantiles > 1 and options[STEPS.name] != SQUARES else _BY_SQUARES


def is_sliced(options: Mapping[str, Any], quantiles: int, groups: int) -> bool:
    """Whether each quantile has a slice of the rows for itself, where not every value is an edge."""
    return options[STEPS.name] == SLICES and quantiles >= FEWEST and groups == 1


@dataclass(frozen=True, kw_only=True, slots=True)
class CellNoise:
    """The noise on counts of cells, and what it makes of H.

    Attributes:
        scale: t.
        cells: how many there are at most.
        beta: how often one interval may miss a quantile.
    """

    scale: Fraction
    cells: int
    beta: float

    def reach(self, at: Fraction, below: int, above: int, *, beta: float, or_fewer: bool = False) -> int:
        """What the noise on H' exceeds in size with probability at most beta, at an edge between so many cells."""
        a, b = at.numerator, at.denominator
        return laplace_combination_quantile(
            scale=self.scale, counts=((b - a, below), (a, above)), beta=beta, or_fewer=or_fewer
        )

    def farthest(self, at: Fraction, *, beta: float) -> int:
        """The same at any edge, however many cells there are."""
        edges = range(1, self.cells)
        return max(self.reach(at, below, self.cells - below, beta=beta, or_fewer=True) for below in edges)


@dataclass(frozen=True, kw_only=True, slots=True)
class Window:
    """Two values to be drawn on ranks, one on either side of the quantile.

    Attributes:
        at: q.
        far: epsilon of either draw on one side.
        sensitivity: the most a rank's distance moves between neighbours, in rows.
        away: s, how many rows the ranks on either side are from that of the quantile.
        off: alpha, how many rows either of them is off by at most.
    """

    at: Fraction
    far: Fraction
    sensitivity: Fraction
    away: int
    off: Fraction

    @staticmethod
    def planned(
        attribute: Attribute, at: Fraction, noise: CellNoise, *, epsilon: Fraction, sensitivity: Fraction
    ) -> Window:
        far = _FAR_SHARE * epsilon
        off = rank_error(attribute, at, epsilon=far, sensitivity=sensitivity, beta=noise.beta / 4)
        # One sign of the noise at beta/4 is both at beta/2.
        kept = noise.farthest(at, beta=noise.beta) + noise.farthest(at, beta=noise.beta / 2)
        away = floor(off + Fraction(kept, at.denominator)) + 1
        return Window(at=at, far=far, sensitivity=sensitivity, away=away, off=off)

    def draw(self, tally: Tally, attribute: Attribute, middle: int, layout: Layout, rng: Randomness) -> list[int]:
        """Edges from one value drawn to the other, closer together towards `middle`, in units of the last place."""
        first, second = (
            int(
                draw_value(
                    tally, attribute, self.at, epsilon=self.far, sensitivity=self.sensitivity, away=away, rng=rng
                ).scaleb(attribute.decimals)
            )
            for away in (-self.away, self.away)
        )
        low, high = sorted((first, second))
        return edges_between(low, min(max(middle, low), high), high, layout, attribute)


def edges_between(low: int, middle: int, high: int, layout: Layout, attribute: Attribute) -> list[int]:
    """K + 2 edges from `low` to `high` + 1, closer together towards `middle`; fewer of few values."""
    edges = {end for step in layout.steps for end in _at_share(low, middle, high, step)}
    return sorted(edge for edge in edges if attribute.lowest < edge <= attribute.highest)


def _edges_in_slice(sliced: Sliced, place: int, attribute: Attribute, layout: Layout) -> list[int]:
    """In places, closer together towards the value drawn; none but the slice's own and those within J."""
    bits, everything = sliced.bits, places_of(attribute, sliced.bits)
    starts = [everything.lowest, *sliced.cuts, everything.highest + 1]
    first, last = starts[place], max(starts[place], starts[place + 1] - 1)
    low, high = (end - attribute.lowest for end in sliced.located[place])
    value = sliced.values[place] >> bits
    low, high = min(max(low, first >> bits), value), max(min(high, last >> bits), value)
    edges = {end << bits for step in layout.steps for end in _at_share(low, value, high, step)}
    return sorted(edge for edge in edges if first < edge <= last)


def _cut_to_tree(sliced: Sliced, place: int, ends: tuple[int, int], attribute: Attribute) -> tuple[int, int, int]:
    """The value and the interval's ends in units of the last place, from the interval in places."""
    low, high = (attribute.lowest + (end >> sliced.bits) for end in ends)
    least, most = sliced.located[place]
    low, high = (max(low, least), min(high, most)) if low <= most and least <= high else (least, most)
    return min(max(attribute.lowest + (sliced.values[place] >> sliced.bits), low), high), low, high


def _at_share(low: int, middle: int, high: int, share: tuple[int, int]) -> tuple[int, int]:
    """What is so far on the way from `middle` to `low`, and from the value after it to the one after `high`."""
    part, whole = share
    return middle - (middle - low) * part // whole, middle + 1 + (high - middle) * part // whole


@dataclass(frozen=True, kw_only=True)
class CountedQuantilePlan(Plan):
    """Count in cells around quantiles.

    Attributes:
        windows: what the outer edges for each quantile are drawn by; none where every value is an edge.
        between: the draws between them, one for each quantile.
        noise: on the counts.
        slices: what is drawn and counted in the place of windows; None where the rows are not cut.
    """

    windows: tuple[Window, ...]
    between: Recursion | None
    noise: CellNoise
    slices: Slices | None = None

    def _run(self, counts: Counts, rng: Randomness, progress: Progress) -> Result:
        """The estimates are in the column's units, and so are the ends of their intervals, `spans`."""
        progress("Counting the table", 0.0)
        statistic = statistic_of(self)
        attribute = self.schema.universe[statistic.attributes[0]]
        tally, groups = counts.tally(statistic.attributes), groups_of(statistic, self.schema.universe)
        tallies = [in_group(tally, group) for group in range(groups)] if len(statistic.attributes) > 1 else [tally]
        progress("Choosing", 0.4)
        if self.slices is not None:
            return self._run_in_slices(self.slices, tally, attribute, rng, progress)
        own = [self._edges(each, attribute, rng) for each in tallies]
        progress("Adding noise", 0.7)
        # As many draws whatever was chosen; of narrow windows the last are not used.
        noise = discrete_laplace(scale=self.noise.scale, size=groups * self.noise.cells, rng=rng)
        edges = [sorted({edge for each in mine for edge in each}) for mine in own]
        noisy = [
            counted(each, between) + drawn[: len(between) + 1]
            for each, between, drawn in zip(tallies, edges, noise.reshape(groups, -1), strict=True)
        ]
        # From here on only what was paid for and public numbers.
        shown: Sequence[NDArray[np.int64] | NDArray[np.float64]] = noisy
        if self.between is None and groups > 1:
            shown = list(leaning(np.array(noisy), scale=self.noise.scale))
        found = [
            [
                read_off(sums, between, attribute, self.noise, at=quantile.at, own=mine[place], shown=likely)
                for sums, between, mine, likely in zip(noisy, edges, own, shown, strict=True)
            ]
            for place, quantile in enumerate(quantiles_of(statistic))
        ]
        return self._result(found, noisy, edges, attribute)

    def _run_in_slices(
        self, slices: Slices, tally: Tally, attribute: Attribute, rng: Randomness, progress: Progress
    ) -> Result:
        sliced, layout = slices.drawn(tally, attribute, rng), layout_of(self.options, len(slices.shares))
        progress("Adding noise", 0.7)
        edges = [_edges_in_slice(sliced, place, attribute, layout) for place in range(len(slices.shares))]
        noise = discrete_laplace(scale=self.noise.scale, size=len(edges) * layout.most_cells(1), rng=rng)
        cells = [
            counted(rows, mine) + drawn[: len(mine) + 1]
            for rows, mine, drawn in zip(sliced.rows, edges, noise.reshape(len(edges), -1), strict=True)
        ]
        # From here on only what was paid for and public numbers.
        found = []
        for place, at in enumerate(slices.shares):
            before, after = sliced.noisy[:place], sliced.noisy[place + 1 :]
            own = [*sliced.cuts[:place], *edges[place], *sliced.cuts[place:]]
            up_to = np.cumsum([*before, *cells[place].tolist(), *after]).tolist()
            reaches = [
                self.noise.reach(at, below + 1, len(own) - below, beta=self.noise.beta) for below in range(len(own))
            ]
            ends = interval(_heights(up_to, range(len(own)), at), reaches, own, places_of(attribute, sliced.bits))
            found.append([_cut_to_tree(sliced, place, ends, attribute)])
        every = [each for place, mine in enumerate(edges) for each in (*mine, *sliced.cuts[place : place + 1])]
        begin = [attribute.lowest + (edge >> sliced.bits) for edge in every]
        return self._result(found, [np.concatenate(cells)], [begin], attribute)

    def _edges(self, tally: Tally, attribute: Attribute, rng: Randomness) -> list[list[int]]:
        """The edges for each quantile of some rows."""
        if self.between is None:
            every = list(range(attribute.lowest + 1, attribute.highest + 1))
            return [every] * len(quantiles_of(statistic_of(self)))
        middles = self.between.draw(tally, attribute, rng)
        layout = layout_of(self.options, len(middles))
        return [
            window.draw(tally, attribute, middle, layout, rng)
            for window, middle in zip(self.windows, middles, strict=True)
        ]

    def _result(
        self,
        found: Sequence[Sequence[tuple[int, int, int]]],
        noisy: Sequence[NDArray[np.int64]],
        edges: Sequence[Sequence[int]],
        attribute: Attribute,
    ) -> Result:
        """From the value and its interval's ends for each quantile and each group, in units of the last place."""
        places, parts = 10**attribute.decimals, self.workload.families
        told = [each.tolist() for each in noisy]
        begin = [[attribute.point(edge) for edge in between] for between in edges]
        ends = [(low, high) for each in found for _, low, high in each]
        titles = [
            part.title(self.schema.universe) + (f": {row}" if len(noisy) > 1 else "")
            for part in parts
            for (row,) in part.labels(self.schema.universe)
        ]
        return Result(
            estimates=tuple(np.array([value / places for value, _, _ in each]) for each in found),
            bound=Bound(
                beta=self.beta,
                half_widths=tuple(
                    max(max(high - value, value - low) for value, low, high in each) / places for each in found
                ),
                proof=Proof.AFTER,
                formula=self.formula,
                source=self.source,
                says=_says(titles, ends, attribute),
            ),
            total=0.0,
            spans=tuple(np.array([[low / places, high / places] for _, low, high in each]) for each in found),
            notes={
                "noisy counts": told if len(told) > 1 else told[0],
                "cells begin at": begin if len(begin) > 1 else begin[0],
            },
        )


def in_group(tally: Tally, group: int) -> Tally:
    """The rows of one group, of a tally of values and groups. As private as the table."""
    values, groups = tally.values
    return Tally(values=(values[groups == group],), counts=tally.counts[groups == group])


def counted(tally: Tally, edges: Sequence[int]) -> NDArray[np.int64]:
    """How many rows lie in each cell. As private as the table."""
    found = np.zeros(len(edges) + 1, dtype=np.int64)
    np.add.at(found, np.searchsorted(edges, tally.values[0], side="right"), tally.counts)
    return found


def read_off(
    noisy: NDArray[np.int64],
    edges: Sequence[int],
    attribute: Attribute,
    noise: CellNoise,
    *,
    at: Fraction,
    own: Sequence[int],
    shown: NDArray[np.int64] | NDArray[np.float64] | None = None,
) -> tuple[int, int, int]:
    """The value given and the ends of its interval, in units of the last place.

    Args:
        own: those of the edges that were drawn for this quantile; its interval goes from one of them to another.
        shown: counts that the value is read off, where they are not the noisy ones.
    """
    up_to, places = np.cumsum(noisy).tolist(), [bisect_left(edges, edge) for edge in own]
    reaches = [noise.reach(at, place + 1, len(edges) - place, beta=noise.beta) for place in places]
    low, high = interval(_heights(up_to, places, at), reaches, own, attribute)
    value = _crossing(up_to if shown is None else np.cumsum(shown).tolist(), places, own, attribute, at)
    return min(max(value, low), high), low, high


def _heights(up_to: Sequence[float], places: Iterable[int], at: Fraction) -> list[float]:
    """H at so many edges, of sums of counts up to each."""
    return [at.denominator * up_to[place] - at.numerator * up_to[-1] for place in places]


def _crossing(
    up_to: Sequence[float], places: Sequence[int], own: Sequence[int], attribute: Attribute, at: Fraction
) -> int:
    """Where H as a line from edge to edge passes 0."""
    heights = _heights(up_to, places, at)
    first, last = interval(heights, [0] * len(own), own, attribute)
    known = {attribute.lowest: -at.numerator * up_to[-1]}
    known |= {attribute.highest + 1: (at.denominator - at.numerator) * up_to[-1]}
    known |= dict(zip(own, heights, strict=True))
    start, stop = Fraction(known[first]), Fraction(known[last + 1])
    crossed = -start / (stop - start) if start < stop else Fraction(1, 2)
    value = first + floor(min(max(crossed, Fraction(0)), Fraction(1)) * (last + 1 - first))
    return min(value, last)


def interval(
    heights: Sequence[float], reaches: Sequence[int], edges: Sequence[int], attribute: Attribute | Ends
) -> tuple[int, int]:
    """Between which values no edge's H' is too far from 0 to leave a quantile on its other side."""
    known = list(zip(heights, reaches, strict=True))
    first = next((place for place, (height, reach) in enumerate(known) if height >= -reach), len(edges))
    last = next((place for place in reversed(range(len(edges))) if heights[place] <= reaches[place]), -1)
    low = edges[first - 1] if first else attribute.lowest
    high = edges[last + 1] - 1 if last + 1 < len(edges) else attribute.highest
    return low, high


def _says(titles: Sequence[str], ends: Sequence[tuple[int, int]], attribute: Attribute) -> str:
    after = after_clamping((attribute,))
    if len(titles) > _MOST_NAMED:
        every = f"every one of the {len(titles):,} true quantiles"
        return f"{every} lies between the two values given for it{after}, all at once."
    listed = []
    for title, (low, high) in zip(titles, ends, strict=True):
        lower, upper = attribute.point(low), attribute.point(high)
        listed.append(f"the true {title} " + (f"is {lower}" if low == high else f"lies between {lower} and {upper}"))
    return f"{in_one_line(listed)}{after}{', all at once' if len(listed) > 1 else ''}."


def _bound_in_ranks(request: PlanRequest, asked: Sequence[Quantile], ranks: Sequence[Fraction]) -> Bound:
    counted = request.schema.counted
    listed = in_one_line([rank_says(each, alpha, counted)[:-1] for each, alpha in zip(asked, ranks, strict=True)])
    return Bound(
        beta=request.beta,
        half_widths=tuple(map(float, ranks)),
        proof=Proof.BEFORE,
        formula=_RANKS_FORMULA,
        source=_SOURCE,
        says=f"the release says between which values the truth lies; {listed}.",
    )


def _ranks_of_all(at: Fraction, noise: CellNoise) -> Fraction:
    """A where every value is an edge."""
    pairs = [(below, noise.cells - below) for below in range(1, noise.cells)]
    share = noise.beta / max(1, len(pairs))
    most = [noise.reach(at, *pair, beta=noise.beta) + noise.reach(at, *pair, beta=share) for pair in pairs]
    return Fraction(max(most, default=0), at.denominator)
