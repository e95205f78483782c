"""`counted-quantile`: a quantile with an interval on the column's own scale, from a few noisy counts around it.

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

The value given is in the interval that r = 0 gives, where H' drawn as a line from one end to the other passes 0.

Edges. Of a range of few values: every value. Of others: two values a' <= b' are drawn first by the exponential
mechanism on ranks, for the ranks q n - s and q n + s, and one c between them for the rank q n. The edges cut a' ... b'
into c alone and K cells, K/2 on either side, that are narrower the nearer they are to c: the j-th edge from it is at
(2 j / K)^2 of the way to a', or to b' + 1.

Privacy, epsilon-DP for neighbours of either kind, the unit g rows. A draw on ranks costs epsilon_0 as in `quantiles`:
moving the wanted rank by s, a public number, moves no difference of utilities. The cells do not overlap, so a row added
or removed moves one count by 1 and a row replaced two: by g, or 2 g, in L1 (`Schema.changes_of_a_row`), whatever the
edges are. They are chosen from what was paid for, so sequential composition adds the draws' epsilons and g/t, or 2 g/t
(Dwork and Roth 2014, Theorems 3.6, 3.10, 3.16). All else is post-processing.

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

What the interval is wide is not known before: how close together rows lie is private. Its ends are about (r + cell)/b
rows from the quantile, a cell being a few of the 2 s rows between a' and b': where three draws on ranks would have to
keep a distance of alpha = 2 Delta/epsilon_0 ln(|R|/beta), the logarithm of the number of values, here only s does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from math import floor

import numpy as np
from numpy.typing import NDArray

from releases.engine.accounting.events import DiscreteLaplaceEvent, Event, RepeatedEvent
from releases.engine.bounds.accuracy import Bound, Proof, laplace_combination_quantile
from releases.engine.domain.privacy import decimal_text
from releases.engine.domain.universe import Attribute, plain
from releases.engine.estimation.result import Result
from releases.engine.mechanisms.base import Mechanism, Plan, Progress, Request, infeasible, register
from releases.engine.mechanisms.choices import statistic_of
from releases.engine.mechanisms.quantiles import (
    LARGEST_DENOMINATOR,
    draw_event,
    draw_value,
    draws_work,
    rank_error,
    rank_says,
    rank_sensitivity,
    values_of,
)
from releases.engine.noise.discrete import LARGEST_SCALE, discrete_laplace
from releases.engine.noise.randomness import Randomness
from releases.engine.tables.counts import Counts, Tally
from releases.engine.workload.kinds.quantile import Quantile
from releases.engine.workload.row_sums import after_clamping

#: K, even: cells beside the value drawn for the quantile itself.
_CELLS = 16
#: Of epsilon, to each of the two draws that are far away, and to the one between them. Chosen on incomes and ages of
#: the American Community Survey 2019, 1,000 to 27,253 rows, at epsilon 0.1 and 1. Without the draw between them most
#: intervals were a sixth narrower, but that of the 90% quantile of incomes at epsilon 0.1 was five times as wide.
_FAR_SHARE, _NEAR_SHARE = Fraction(1, 8), Fraction(1, 10)
_DRAWS_SHARE = 2 * _FAR_SHARE + _NEAR_SHARE
#: With the value drawn, and what is outside on either side.
_MOST_CELLS = _CELLS + 3
#: Up to so many values every value is an edge: the deviation of H' grows with the square root of the cells, and that of
#: this many at the whole epsilon is that of `_MOST_CELLS` at what the draws leave.
_FEW_VALUES = floor(_MOST_CELLS / (1 - _DRAWS_SHARE) ** 2)
_FORMULA = (
    r"\alpha = \max_{\pm} |\hat y - e_\pm|,\quad e_- < \min\{e : \tilde H(e) \ge -r\},\ "
    r"e_+ > \max\{e : \tilde H(e) \le r\},\quad \Pr\left[\left|(b - a) \textstyle\sum_{x < e} X"
    r" - a \sum_{x \ge e} X\right| > r\right] \le \beta"
)
_RANKS_FORMULA = r"\alpha = \max_e \frac{r(e) + M(e)}{b} \text{ or } 2 \alpha_0 + \frac{r + M}{b} + 1"
_SOURCE = "Derived: inversion of a test at each edge; the ranks by Dwork and Roth (2014), Theorem 3.10"


@register
class CountedQuantile(Mechanism):
    name = "counted-quantile"
    title = "Counts around the quantile"
    summary = "Gives a value and the range in which the true one lies, from noisy counts of the rows around it."
    source = "McSherry and Talwar (2007), Theorem 6; Dwork and Roth (2014), Theorem 3.6; interval derived"
    options = ()
    answers = (Quantile,)

    def _plan(self, request: Request) -> Plan:
        quantile = request.statistic
        assert isinstance(quantile, Quantile)
        if quantile.at.denominator > LARGEST_DENOMINATOR:
            return infeasible(request, "It takes a share of the rows with at most six decimals.")
        schema, whole = request.schema, request.budget.epsilon
        attribute = schema.universe[quantile.attributes[0]]
        has_window = values_of(attribute) > _FEW_VALUES
        spent = _DRAWS_SHARE * whole if has_window else Fraction(0)
        moved = schema.unit.max_rows * max(schema.changes_of_a_row(added=1, replaced=lambda: 2))
        noise = CellNoise(at=quantile.at, scale=moved / (whole - spent), beta=float(request.beta))
        if noise.scale > LARGEST_SCALE:
            return infeasible(request, "Its noise would not fit 64 bits at so small an epsilon. Spend more.")
        events: tuple[Event, ...] = (DiscreteLaplaceEvent(noise_multiplier=1 / (whole - spent)),)
        parameters = {"scale of the noise on a count": decimal_text(noise.scale)}
        window = None
        if has_window:
            window = Window.planned(attribute, noise, epsilon=whole, sensitivity=rank_sensitivity(schema, quantile.at))
            events = (RepeatedEvent(event=draw_event(window.far), times=2), draw_event(window.near), *events)
            parameters |= {
                "epsilon of two draws far away": decimal_text(window.far),
                "epsilon of one between them": decimal_text(window.near),
                "sensitivity of a rank": decimal_text(window.sensitivity),
                "ranks drawn for": f"the quantile's, {window.away:,} rows below it and as many above",
            }
        cells = _MOST_CELLS if has_window else values_of(attribute)
        return CountedQuantilePlan(
            **request.inputs(),
            window=window,
            noise=noise,
            events=events,
            parameters={**parameters, "counts": f"{cells:,}"},
            expectation=_bound_in_ranks(request, quantile, noise, window, cells=cells),
            formula=_FORMULA,
            source=_SOURCE,
            work=draws_work(3 if has_window else 0),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class CellNoise:
    """The noise on counts of cells, and what it makes of H.

    Attributes:
        at: q.
        scale: t.
        beta: how often an interval may miss a quantile.
    """

    at: Fraction
    scale: Fraction
    beta: float

    def reach(self, below: int, above: int, *, beta: float) -> int:
        """What the noise on H' exceeds in size with probability at most beta, at an edge between so many cells."""
        a, b = self.at.numerator, self.at.denominator
        return laplace_combination_quantile(scale=self.scale, counts=((b - a, below), (a, above)), beta=beta)

    def reaches(self, edges: int) -> list[int]:
        """r of each of so many edges."""
        return [self.reach(place, edges + 1 - place, beta=self.beta) for place in range(1, edges + 1)]


@dataclass(frozen=True, kw_only=True, slots=True)
class Window:
    """Three values to be drawn on ranks: one on either side of the quantile, and one for itself.

    Attributes:
        far: epsilon of either draw on one side.
        near: epsilon of the draw between them.
        sensitivity: the most a rank's distance moves between neighbours, in rows.
        away: s, how many rows the ranks on either side are from that of the quantile.
        off: alpha, how many rows either of them is off by at most.
    """

    far: Fraction
    near: Fraction
    sensitivity: Fraction
    away: int
    off: Fraction

    @staticmethod
    def planned(attribute: Attribute, noise: CellNoise, *, epsilon: Fraction, sensitivity: Fraction) -> Window:
        far, near = _FAR_SHARE * epsilon, _NEAR_SHARE * epsilon
        off = rank_error(attribute, noise.at, epsilon=far, sensitivity=sensitivity, beta=noise.beta / 4)
        outer = [pair for edges in range(1, _MOST_CELLS) for pair in ((1, edges), (edges, 1))]
        # One sign of the noise at beta/4 is both at beta/2.
        kept = max(noise.reach(*pair, beta=noise.beta) + noise.reach(*pair, beta=noise.beta / 2) for pair in outer)
        away = floor(off + Fraction(kept, noise.at.denominator)) + 1
        return Window(far=far, near=near, sensitivity=sensitivity, away=away, off=off)

    def draw(self, tally: Tally, attribute: Attribute, at: Fraction, rng: Randomness) -> list[int]:
        """Edges from one value drawn to the other, in units of the last place."""
        first, middle, second = (
            int(
                draw_value(
                    tally, attribute, at, epsilon=epsilon, sensitivity=self.sensitivity, away=away, rng=rng
                ).scaleb(attribute.decimals)
            )
            for epsilon, away in ((self.far, -self.away), (self.near, 0), (self.far, self.away))
        )
        low, high = sorted((first, second))
        return edges_between(low, min(max(middle, low), high), high, attribute)


def edges_between(low: int, middle: int, high: int, attribute: Attribute) -> list[int]:
    """K + 2 edges from `low` to `high` + 1, closer together towards `middle`; fewer of few values."""
    half = _CELLS // 2
    edges = {end for j in range(half + 1) for end in _at_share(low, middle, high, (j * j, half * half))}
    return sorted(edge for edge in edges if attribute.lowest < edge <= attribute.highest)


def _at_share(low: int, middle: int, high: int, share: tuple[int, int]) -> tuple[int, int]:
    """What is so far on the way from `middle` to `low`, and from the value after it to the one after `high`."""
    part, whole = share
    return middle - (middle - low) * part // whole, middle + 1 + (high - middle) * part // whole


@dataclass(frozen=True, kw_only=True)
class CountedQuantilePlan(Plan):
    """Count in cells around a quantile.

    Attributes:
        window: what the edges are drawn by; None where every value is an edge.
        noise: on the counts.
    """

    window: Window | None
    noise: CellNoise

    def _run(self, counts: Counts, rng: Randomness, progress: Progress) -> Result:
        """The estimate is in the column's units, and so are the ends of its interval, `spans`."""
        progress("Counting the table", 0.0)
        quantile = statistic_of(self)
        assert isinstance(quantile, Quantile)
        attribute = self.schema.universe[quantile.attributes[0]]
        tally = counts.tally(quantile.attributes)
        progress("Choosing", 0.4)
        if self.window is None:
            edges = list(range(attribute.lowest + 1, attribute.highest + 1))
        else:
            edges = self.window.draw(tally, attribute, quantile.at, rng)
        progress("Adding noise", 0.7)
        # As many draws whatever was chosen; of a narrow window the last are not used.
        size = len(edges) + 1 if self.window is None else _MOST_CELLS
        noise = discrete_laplace(scale=self.noise.scale, size=size, rng=rng)
        noisy = counted(tally, edges) + noise[: len(edges) + 1]
        # From here on only what was paid for and public numbers.
        value, low, high = read_off(noisy, edges, attribute, self.noise)
        estimate, lower, upper = (Decimal(each).scaleb(-attribute.decimals) for each in (value, low, high))
        bound = Bound(
            beta=self.beta,
            half_widths=(float(max(upper - estimate, estimate - lower)),),
            proof=Proof.AFTER,
            formula=self.formula,
            source=self.source,
            says=_says(self.workload.families[0].title(self.schema.universe), attribute, lower, upper),
        )
        return Result(
            estimates=(np.array([float(estimate)]),),
            bound=bound,
            total=0.0,
            spans=(np.array([[float(lower), float(upper)]]),),
            notes={
                "noisy counts": noisy.tolist(),
                "cells begin at": [plain(Decimal(each).scaleb(-attribute.decimals)) for each in edges],
            },
        )


def counted(tally: Tally, edges: Sequence[int]) -> NDArray[np.int64]:
    """How many rows lie in each cell. As private as the table."""
    found = np.zeros(len(edges) + 1, dtype=np.int64)
    np.add.at(found, np.searchsorted(edges, tally.values[0], side="right"), tally.counts)
    return found


def read_off(
    noisy: NDArray[np.int64], edges: Sequence[int], attribute: Attribute, noise: CellNoise
) -> tuple[int, int, int]:
    """The value given and the ends of its interval, in units of the last place."""
    a, b = noise.at.numerator, noise.at.denominator
    below = np.cumsum(noisy)
    heights = [b * up_to - a * int(below[-1]) for up_to in below.tolist()][:-1]
    low, high = interval(heights, noise.reaches(len(edges)), edges, attribute)
    first, last = interval(heights, [0] * len(edges), edges, attribute)
    known = {attribute.lowest: -a * int(below[-1]), **dict(zip(edges, heights, strict=True))}
    known[attribute.highest + 1] = (b - a) * int(below[-1])
    start, stop = known[first], known[last + 1]
    crossed = Fraction(-start, stop - start) if start < stop else Fraction(1, 2)
    value = first + floor(min(max(crossed, Fraction(0)), Fraction(1)) * (last + 1 - first))
    return min(value, last), low, high


def interval(
    heights: Sequence[int], reaches: Sequence[int], edges: Sequence[int], attribute: Attribute
) -> tuple[int, int]:
    """Between which values no edge's H' is too far from 0 to leave a quantile on its other side."""
    known = list(zip(heights, reaches, strict=True))
    first = next((place for place, (height, reach) in enumerate(known) if height >= -reach), len(edges))
    last = next((place for place in reversed(range(len(edges))) if heights[place] <= reaches[place]), -1)
    low = edges[first - 1] if first else attribute.lowest
    high = edges[last + 1] - 1 if last + 1 < len(edges) else attribute.highest
    return low, high


def _says(title: str, attribute: Attribute, lower: Decimal, upper: Decimal) -> str:
    ends = f"is {plain(lower)}" if lower == upper else f"lies between {plain(lower)} and {plain(upper)}"
    return f"the true {title} {ends}{after_clamping((attribute,))}."


def _bound_in_ranks(
    request: Request, quantile: Quantile, noise: CellNoise, window: Window | None, *, cells: int
) -> Bound:
    if window is not None:
        alpha = window.away + window.off
    else:
        share = noise.beta / max(1, cells - 1)
        pairs = [(place, cells - place) for place in range(1, cells)]
        most = [noise.reach(*pair, beta=noise.beta) + noise.reach(*pair, beta=share) for pair in pairs]
        alpha = Fraction(max(most, default=0), quantile.at.denominator)
    return Bound(
        beta=request.beta,
        half_widths=(float(alpha),),
        proof=Proof.BEFORE,
        formula=_RANKS_FORMULA,
        source=_SOURCE,
        says=f"{rank_says(quantile, alpha)[:-1]}; the release says between which values the true one lies.",
    )
