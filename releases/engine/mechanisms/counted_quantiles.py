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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from releases.engine.accounting.accountant import EPSILON_PLACES, forms
from releases.engine.accounting.events import DiscreteLaplaceEvent, Event, PureAndConcentratedEvent, RepeatedEvent
from releases.engine.arithmetic.rounding import ceiling
from releases.engine.bounds.accuracy import Bound, Proof
from releases.engine.domain.attribute import Attribute
from releases.engine.domain.counted import Counted
from releases.engine.domain.privacy import decimal_text
from releases.engine.domain.universe import Universe
from releases.engine.estimation.result import Result
from releases.engine.mechanisms.base import Mechanism, Option, Plan, PlanRequest, Progress, infeasible, register
from releases.engine.mechanisms.choices import statistic_of
from releases.engine.mechanisms.leaning_counts import leaning
from releases.engine.mechanisms.quantile_cells import (
    BY_POWERS,
    BY_SQUARES,
    CellNoise,
    Layout,
    Window,
    counted,
    heights,
    in_group,
    interval,
    read_off,
)
from releases.engine.mechanisms.quantiles import (
    LARGEST_DENOMINATOR,
    draw_event,
    draws_work,
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
from releases.engine.mechanisms.sliced_quantiles import COUNTS, FEWEST, TREE_BETA, Slices
from releases.engine.noise.discrete import LARGEST_SCALE, discrete_laplace
from releases.engine.noise.randomness import Randomness
from releases.engine.tables.counts import Counts, Tally
from releases.engine.workload.kinds.quantile import Quantile
from releases.engine.workload.kinds.quantiles import Quantiles
from releases.engine.workload.row_sentences import after_clamping, in_one_line
from releases.engine.workload.statistic import Statistic

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


SQUARES, POWERS, SLICES, BY_ROWS = "squares", "powers", "slices", "chosen"
STEPS = Option(
    name="steps",
    help="Where rows are counted around each of several quantiles: “powers” for few cells that get narrow fast towards "
    "it, “slices” for such cells in a part of the rows that each quantile has for itself, or “squares” for more cells "
    "of more even widths. Slices help with five or more quantiles of many rows; in small tables they are farther off. "
    "“chosen” takes slices where a noisy number of rows is large enough, and else powers; the plan says from how many. "
    "By group, of fewer quantiles or values, and where the ranks stated before would be larger, powers are used "
    "instead. Around a single quantile it is always squares.",
    choices=(BY_ROWS, POWERS, SLICES, SQUARES),
    default=BY_ROWS,
    before=SQUARES,
)
#: Of epsilon, to the number of rows that chooses: its noise is about 2% of the least that slices are used from.
_CHOICE = Fraction(1, 200)
#: So many rows for each quantile, times epsilon, are slices used from. Chosen on incomes, and the same on Adult's ages
#: in days: with 200 to 550 nine and nineteen slices were up to 5 times as far off as powers, with 1,050 to 1,100 they
#: were 0.6 to 0.9 times as far.
_ROWS_IN_SLICE = 1_000


@register
class CountedQuantile(Mechanism):
    name = "counted-quantile"
    title = "Counts around the quantile"
    summary = "Gives a value and the range in which the true one lies, from noisy counts of the rows around it."
    source = "McSherry and Talwar (2007), Theorem 6; Dwork and Roth (2014), Theorem 3.6; interval derived"
    options = (STEPS,)
    answers = (Quantile, Quantiles)

    def _plan(self, request: PlanRequest) -> Plan:
        if request.options[STEPS.name] != BY_ROWS:
            return self._plan_one_way(request)
        whole, asked = request.budget.epsilon, quantiles_of(request.statistic)
        groups = groups_of(request.statistic, request.schema.universe)
        if len(asked) >= FEWEST and groups == 1 and request.schema.rows_of_unit <= LARGEST_SCALE * _CHOICE * whole:
            left = (1 - _CHOICE) * whole
            few, many = (self._plan_one_way(_instead(request, steps, left)) for steps in (POWERS, SLICES))
            if isinstance(few, CountedQuantilePlan) and isinstance(many, CountedQuantilePlan) and many.slices:
                return _by_rows(request, few, many)
        return replace(self._plan_one_way(_instead(request, POWERS, whole)), options=request.options)

    def _plan_one_way(self, request: PlanRequest) -> Plan:
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
        ranks = [window.away + window.off for window in windows] or [_ranks_of_all(each.at, noise) for each in asked]
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
            ranks=ranks,
            expectation=_bound_in_ranks(request, asked, ranks),
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
        ranks = [slices.tree.off(at, beta=each) for at in shares]
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
            ranks=ranks,
            expectation=_bound_in_ranks(request, asked, ranks),
            formula=_FORMULA,
            source=_SOURCE,
            work=draws_work(3 * len(asked)),
        )


def _instead(request: PlanRequest, steps: str, epsilon: Fraction) -> PlanRequest:
    """The same asked for in one way, within so much of the budget."""
    options = {**request.options, STEPS.name: steps}
    return replace(request, options=options, budget=replace(request.budget, epsilon=epsilon))


def _by_rows(request: PlanRequest, few: CountedQuantilePlan, many: CountedQuantilePlan) -> QuantilesByRowsPlan:
    """
    Args:
        few, many: the ways to choose between, each at the whole epsilon that is left.
    """
    asked, ways, left = quantiles_of(request.statistic), (few, many), few.budget.epsilon
    scale = request.schema.rows_of_unit / (_CHOICE * request.budget.epsilon)
    least = ceil(_ROWS_IN_SLICE * len(asked) * counts_moved(request.schema) / left)
    rho = max(sum((forms(event).rho for event in way.events), Fraction(0)) for way in ways)
    rounded_up = Fraction(ceiling(rho, places=EPSILON_PLACES), 10**EPSILON_PLACES)
    counted = request.schema.counted.many
    return QuantilesByRowsPlan(
        **request.inputs(),
        ways=ways,
        least=least,
        scale=scale,
        events=(
            DiscreteLaplaceEvent(noise_multiplier=1 / (_CHOICE * request.budget.epsilon)),
            PureAndConcentratedEvent(epsilon=left, rho=rounded_up),
        ),
        parameters={
            f"{counted} from which slices are used": f"{least:,}",
            f"scale of the noise on the number of {counted}": decimal_text(scale),
            **{f"{name}, by {way.options[STEPS.name]}": text for way in ways for name, text in way.parameters.items()},
        },
        expectation=_bound_in_ranks(request, asked, list(map(max, few.ranks, many.ranks))),
        formula=_FORMULA,
        source=_SOURCE,
        work=max((way.work for way in ways), key=lambda work: work.seconds),
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
    return BY_POWERS if quantiles > 1 and options[STEPS.name] != SQUARES else BY_SQUARES


def is_sliced(options: Mapping[str, Any], quantiles: int, groups: int) -> bool:
    """Whether each quantile has a slice of the rows for itself, where not every value is an edge."""
    return options[STEPS.name] == SLICES and quantiles >= FEWEST and groups == 1


@dataclass(frozen=True, kw_only=True)
class CountedQuantilePlan(Plan):
    """Count in cells around quantiles.

    Attributes:
        windows: what the outer edges for each quantile are drawn by; none where every value is an edge.
        between: the draws between them, one for each quantile.
        noise: on the counts.
        ranks: how many rows from each quantile what is given is at most.
        slices: what is drawn and counted in the place of windows; None where the rows are not cut.
    """

    windows: tuple[Window, ...]
    between: Recursion | None
    noise: CellNoise
    ranks: Sequence[Fraction]
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
        edges = [sliced.edges(place, attribute, layout) for place in range(len(slices.shares))]
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
            ends = interval(heights(up_to, range(len(own)), at), reaches, own, places_of(attribute, sliced.bits))
            found.append([sliced.cut_to_tree(place, ends, attribute)])
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


@dataclass(frozen=True, kw_only=True)
class QuantilesByRowsPlan(Plan):
    """Choose between two ways by the number of rows.

    Attributes:
        ways: of few rows, and of many.
        least: so many are many.
        scale: of the noise on the number of rows with a value. A unit, added, removed or replaced, moves it by its rows
            at most.
    """

    ways: tuple[CountedQuantilePlan, CountedQuantilePlan]
    least: int
    scale: Fraction

    def _run(self, counts: Counts, rng: Randomness, progress: Progress) -> Result:
        true = int(counts.tally(statistic_of(self).attributes).counts.sum())
        (noise,) = discrete_laplace(scale=self.scale, size=1, rng=rng).tolist()
        few, many = self.ways
        way = many if true + noise >= self.least else few
        result = way.run(counts, rng=rng, progress=progress)
        chosen = {"number that chose": true + noise, "steps": way.options[STEPS.name]}
        return replace(result, notes={**chosen, **result.notes})


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
