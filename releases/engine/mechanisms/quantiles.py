"""A quantile by the exponential mechanism: a value is the likelier, the nearer its rank is to the one asked for.

The range is every fixed point from the column's lowest to its highest declared value, so the answer shows nothing of
which values occur. With q the share asked for, n the rows, L(y), E(y), G(y) the rows below y, at y and above y, the
utility of y is minus the distance of q n from the ranks that y has,

    u(y) = -max(L - q n, q n - L - E, 0) = -max((1 - q) L - q (E + G), q G - (1 - q) (L + E), 0).

A value has every rank from L to L + E: with the more usual -|(1 - q) L - q G| (Smith 2011, where no two values tie) the
value just below a pile of equal rows may beat the pile that holds the quantile.

Sensitivity, for a unit of g rows. n is private, so each of the two forms is written with rows alone. A row added below
y adds 1 - q to the first and takes it from the second; one at y takes q from the first and 1 - q from the second; one
above y takes q from the first and adds it to the second. The larger of both and 0 moves by at most what they move:

*   add or remove: g max(q, 1 - q); for a median half a row;
*   replace: a row from below y to above it takes 1 from the first and adds 1 to the second, and no change is larger:
    g. A row that a declared rule drops comes or goes alone, which is the case above: no more.

Both are reached (a test looks at all neighbours of small tables), and at once in both directions, below and above the
quantile, so 2 * sensitivity in the exponent cannot be improved: P(y) proportional to exp(epsilon u(y) / (2
sensitivity)) is a bounded range of epsilon (McSherry and Talwar 2007, Theorem 6; Dwork and Roth 2014, Theorem 3.10).

Accuracy. Some value has u = 0, so with |R| fixed points u(y) < -alpha has probability at most odds / (1 + odds), odds =
(|R| - 1) exp(-epsilon alpha' / (2 sensitivity)), alpha' the least value above alpha that u takes. For the median this
is reached by 2 alpha' rows with one value in common. The bound is in rows: how far the answer is from the quantile
on the column's own scale depends on how close together the rows lie there, which is private.

`exponential-range`:
Both ends of a column's range by the exponential mechanism on ranks: two quantiles of one column, in one release.

The lower end is drawn for the share (1 - s) / 2 of the rows and the upper for (1 + s) / 2, s the share to keep inside,
each as `exponential-quantile` draws one: from every fixed point of the declared range, the widest that certainly holds
everything, so that the answer shows nothing of which values occur. Smith (2011) learns a range in this way before he
clamps to it.

Privacy. Two draws from the same table, each a bounded range of epsilon_0, in sequence: epsilon_0 = epsilon / 2 of a
pure budget, more of an approximate one where rho gives more (`epsilon_of_each`). The shares are q and 1 - q, so that
the sensitivity, g max(q, 1 - q) or g, is the same for both, and so is the error in ranks.

The draws may cross. Then the lower is the smaller of them: post-processing.

Accuracy. For one draw, L rows below the value and E at it, u >= -alpha says L <= q n + alpha and L + E >= q n - alpha.
Either fails to hold with probability at most beta' (`rank_error`), and the draws are independent given the table: with
beta' = 1 - sqrt(1 - beta) both hold at once with probability 1 - beta. Crossing breaks nothing: where the draw x for p
is above the draw y for q > p, y has no more rows below it than x, so at most p n + alpha, and at least q n - alpha >=
p n - alpha at or below it; and x has no fewer rows at or below it than y, so at least q n - alpha, and at most p n +
alpha <= q n + alpha below it.

`exponential-metric`:
A quantile by the exponential mechanism of a metric space: likelier the nearer to the true one on the column's scale.

P(y) proportional to exp(-|y - f(D)| / alpha') over all fixed points y of the declared range 0 ... M (in units of the
last place, from its lower end), f(D) the quantile: the least value with a share q of the rows at or below it, and the
lower end for a table without rows. It stands here as the lecture notes teach it and to be compared: f has global
sensitivity M, because one row can carry a quantile from one end to the other, whichever the neighbours are. So at
epsilon 1 the draw is nearly uniform over the range, however many rows there are, where `exponential-quantile` errs by a
few rows. (One row of n = 1 replaced; or with ceil(q n) rows at the lower end and the others at the upper, n such that
ceil(q (n + 1)) > ceil(q n), one more at the upper.)

The constant. The notes' theorem: alpha' >= 2 M / epsilon gives epsilon-DP, for exp(|f - f'| / alpha') may enter twice,
in the density and in its normaliser Z; and alpha' >= M / epsilon does if Z does not depend on the table. (The printed
"2 Delta f / (epsilon f)" has an f too many. The form of the mechanism is due to McSherry and Talwar 2007, not to Dwork,
McSherry, Nissim and Smith 2006.) On an interval Z does depend on it: Z is larger for f in the middle than at an end,
and where the sensitivity is less than the range M / epsilon would not do. Here it is the whole range, and it does:

    ln P_f(y) / P_f'(y) <= |f - f'| / alpha' + ln Z(f') - ln Z(f).

Let f <= f' (otherwise turn the range round). Z(f' + 1) >= Z(f') exp(-1 / alpha') by the triangle inequality, term by
term, so the right side does not fall as f' rises, nor, by the same, as f falls: it is largest at f = 0, f' = M, where
Z(0) = Z(M) by symmetry and it is M / alpha' = epsilon. That is epsilon-DP and no bounded range of epsilon: the log
ratio runs over an interval of length 2 epsilon. With 2 M / epsilon it is a bounded range of epsilon.

Accuracy: alpha is the least number that is exceeded with probability at most beta for every f; the worst f is at an end
or in the middle (`selection_error.nearness_miss`).
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from math import ceil

import numpy as np
from numpy.typing import NDArray

from releases.engine.accounting.events import Event, ExponentialMechanismEvent, PureEvent, RepeatedEvent
from releases.engine.bounds.accuracy import Bound, Proof
from releases.engine.bounds.selection_error import exponential_miss, least_alpha, nearness_miss, share_of_each
from releases.engine.domain.attribute import Attribute, plain
from releases.engine.domain.counted import Counted
from releases.engine.domain.privacy import NeighbouringRelation, decimal_text
from releases.engine.domain.schema import Schema
from releases.engine.estimation.result import Result
from releases.engine.mechanisms.base import Mechanism, Option, Plan, PlanRequest, Progress, Work, infeasible, register
from releases.engine.mechanisms.choices import epsilon_of_each, statistic_of
from releases.engine.noise.randomness import Randomness, random_below
from releases.engine.noise.selection import exponential_mechanism
from releases.engine.tables.counts import Counts, Tally
from releases.engine.workload.kinds.quantile import Quantile
from releases.engine.workload.kinds.range import Range

#: Ranks are counted in units of 1 / the denominator of q, which so stay whole numbers of 64 bits.
LARGEST_DENOMINATOR = 10**6
#: As many pieces are made of the range at least, where it has so many values: see `pad`.
FEWEST_PIECES = 1 << 12


@register
class ExponentialQuantile(Mechanism):
    name = "exponential-quantile"
    title = "Exponential mechanism on ranks"
    summary = "Draws a value, likelier the nearer its rank is to the one asked for; does not add noise to the value."
    source = "McSherry and Talwar (2007), Theorem 6; Smith, Privacy-preserving Statistical Estimation (2011)"
    options = ()
    answers = (Quantile,)

    def _plan(self, request: PlanRequest) -> Plan:
        quantile = request.statistic
        assert isinstance(quantile, Quantile)
        if quantile.at.denominator > LARGEST_DENOMINATOR:
            return infeasible(request, "It takes a share of the rows with at most six decimals.")
        attribute = request.schema.universe[quantile.attributes[0]]
        sensitivity = rank_sensitivity(request.schema, quantile.at)
        epsilon = epsilon_of_each(request.budget, draw_event, rounds=1)
        alpha = rank_error(attribute, quantile.at, epsilon=epsilon, sensitivity=sensitivity, beta=float(request.beta))
        return ExponentialQuantilePlan(
            **request.inputs(),
            epsilon=epsilon,
            sensitivity=sensitivity,
            events=(draw_event(epsilon),),
            parameters={
                "values it may draw": f"{values_of(attribute):,}",
                "epsilon": decimal_text(epsilon),
                "sensitivity of a rank": decimal_text(sensitivity),
            },
            bound=_bound(request, alpha),
            work=draws_work(1),
        )


@dataclass(frozen=True, kw_only=True)
class ExponentialQuantilePlan(Plan):
    """Draw one value.

    Attributes:
        epsilon: of the draw.
        sensitivity: the most a rank's distance moves between neighbours, in rows.
    """

    epsilon: Fraction
    sensitivity: Fraction

    def _run(self, counts: Counts, rng: Randomness, progress: Progress) -> Result:
        """The estimate is the value in the column's units, and `chosen` the same as text: the bound is in rows, so
        the value plus or minus alpha would mean nothing.
        """
        progress("Counting the table", 0.0)
        quantile = statistic_of(self)
        assert isinstance(quantile, Quantile)
        attribute = self.schema.universe[quantile.attributes[0]]
        tally = counts.tally(quantile.attributes)
        progress("Choosing", 0.5)
        value = draw_value(tally, attribute, quantile.at, epsilon=self.epsilon, sensitivity=self.sensitivity, rng=rng)
        assert self.bound is not None
        chosen = attribute.point(int(value.scaleb(attribute.decimals)))
        return Result(estimates=(np.array([float(value)]),), bound=self.bound, total=0.0, chosen=(chosen,))


def values_of(attribute: Attribute) -> int:
    """|R|: how many fixed points the declared range has."""
    return attribute.highest - attribute.lowest + 1


def draw_event(epsilon: Fraction) -> Event:
    """One draw."""
    return ExponentialMechanismEvent(epsilon=epsilon)


def draws_work(draws: int) -> Work:
    """What so many draws from one column take, one after the other."""
    return Work(cells=FEWEST_PIECES, seconds=0.4 + 0.1 * draws, bytes=FEWEST_PIECES * 200)


def rank_error(
    attribute: Attribute, at: Fraction, *, epsilon: Fraction, sensitivity: Fraction, beta: float
) -> Fraction:
    """The least alpha, in rows, such that u is below -alpha with probability at most beta, whatever the table."""
    rate = epsilon / (2 * sensitivity * at.denominator)
    values = values_of(attribute)
    off = least_alpha(lambda units: exponential_miss(candidates=values, rate=float(rate), gap=units + 1), beta=beta)
    return Fraction(off, at.denominator)


def draw_value(
    tally: Tally,
    attribute: Attribute,
    at: Fraction,
    *,
    epsilon: Fraction,
    sensitivity: Fraction,
    rng: Randomness,
    away: int = 0,
) -> Decimal:
    """One value of the declared range with probability proportional to exp(epsilon u / (2 sensitivity)).

    Args:
        away: how many rows above q n the wanted rank is: a public number, which moves no difference of utilities.
    """
    ends = Ends(lowest=attribute.lowest, highest=attribute.highest)
    place = draw_place(tally, ends, at, epsilon=epsilon, sensitivity=sensitivity, rng=rng, away=away)
    return Decimal(place).scaleb(-attribute.decimals)


def draw_place(
    tally: Tally,
    ends: Ends,
    at: Fraction,
    *,
    epsilon: Fraction,
    sensitivity: Fraction,
    rng: Randomness,
    away: int = 0,
) -> int:
    """The same of any whole numbers: one from the lowest to the highest."""
    pieces = pad(ranked(tally, ends, at, away=away))
    values = ends.highest - ends.lowest + 1
    index = exponential_mechanism(
        pieces.scores,
        epsilon=epsilon,
        sensitivity=sensitivity,
        denominator=at.denominator,
        weights=None if pieces.scores.size == values else pieces.widths,
        rng=rng,
    )
    # Every value of a piece is equally likely.
    within = random_below(int(pieces.widths[index]), rng, most=values)
    return int(pieces.starts[index]) + within


def rank_sensitivity(schema: Schema, at: Fraction) -> Fraction:
    """The most u moves between neighbours, in rows (proved at the head of this file)."""
    if schema.neighbours is NeighbouringRelation.ADD_REMOVE:
        return schema.rows_of_unit * max(at, 1 - at)
    return Fraction(schema.rows_of_unit)


@dataclass(frozen=True, kw_only=True, slots=True)
class Ends:
    """Whole numbers from one to another, both included, that may be drawn."""

    lowest: int
    highest: int


@dataclass(frozen=True, kw_only=True)
class Pieces:
    """The declared range, cut into pieces of neighbouring values of one utility. As private as the table.

    Attributes:
        starts: the first value of each piece, in units of the last place.
        widths: how many values it has, at least 1; together they are all values of the range.
        scores: the utility of each, in units of 1 / the denominator of q.
    """

    starts: NDArray[np.int64]
    widths: NDArray[np.int64]
    scores: NDArray[np.int64]


def ranked(tally: Tally, attribute: Attribute | Ends, at: Fraction, *, away: int = 0) -> Pieces:
    """u on the whole range: on every value that occurs, and on the stretches before, between and after them.

    With `away` the distance is that from q n + away.
    """
    order = np.argsort(tally.values[0])
    occurring, counts = tally.values[0][order], tally.counts[order]
    up_to = np.concatenate([[0], np.cumsum(counts)])
    starts = np.empty(2 * occurring.size + 1, dtype=np.int64)
    below, at_it = np.empty_like(starts), np.zeros_like(starts)
    # Stretch, value, stretch, value, ..., stretch.
    starts[0::2] = np.concatenate([[attribute.lowest], occurring + 1])
    starts[1::2], at_it[1::2] = occurring, counts
    below[0::2], below[1::2] = up_to, up_to[:-1]
    widths = np.diff(starts, append=attribute.highest + 1)
    above = up_to[-1] - below - at_it
    a, b = at.numerator, at.denominator
    too_high, too_low = (b - a) * below - a * (at_it + above), a * above - (b - a) * (below + at_it)
    scores = -np.maximum(np.maximum(too_high - b * away, too_low + b * away), 0)
    there = widths > 0
    return Pieces(starts=starts[there], widths=widths[there], scores=scores[there])


def pad(pieces: Pieces) -> Pieces:
    """The same in as many pieces as the next power of two, at least 4,096, or as the range has values.

    How many values occur is private, and the work of the draw grows with the number of pieces: so it says nothing for
    a short range or a small table, and no more than its order of size otherwise. Single values are cut off the pieces,
    from the first on.
    """
    values = int(pieces.widths.sum())
    wanted = min(values, 1 << max(FEWEST_PIECES.bit_length() - 1, (pieces.widths.size - 1).bit_length()))
    spare = pieces.widths - 1
    cut = np.clip(wanted - pieces.widths.size - (np.cumsum(spare) - spare), 0, spare)
    origin = np.repeat(np.arange(pieces.widths.size), 1 + cut)
    place = np.arange(wanted) - np.repeat(np.cumsum(1 + cut) - (1 + cut), 1 + cut)
    widths = np.where(place == cut[origin], pieces.widths[origin] - cut[origin], 1)
    return Pieces(starts=pieces.starts[origin] + place, widths=widths, scores=pieces.scores[origin])


def _bound(request: PlanRequest, alpha: Fraction) -> Bound:
    assert isinstance(request.statistic, Quantile)
    return Bound(
        beta=request.beta,
        half_widths=(float(alpha),),
        proof=Proof.BEFORE,
        formula=r"\alpha < \frac{2 \Delta}{\varepsilon} \ln \frac{(|R| - 1)(1 - \beta)}{\beta} + \frac{1}{b},"
        r"\quad \Delta = g \max(q, 1 - q) \text{ or } g, \quad q = \frac{a}{b}",
        source="Derived; sharpens Dwork and Roth (2014), Corollary 3.12",
        says=rank_says(request.statistic, alpha, request.schema.counted),
    )


def rank_says(quantile: Quantile, alpha: Fraction, counted: Counted) -> str:
    """That the value given has some rank within so many rows of the one asked for.

    With #{x <= y} >= q n - alpha and #{x < y} <= q n + alpha for the value y, and #{x < m} <= q n <= #{x <= m} for the
    quantile m, at most alpha rows are above the lower one of y and m and below the other.
    """
    return f"at most {rank_text(alpha, counted)} are between the value given and the true {quantile.title}."


def rank_text(alpha: Fraction, counted: Counted) -> str:
    """So many rows to one decimal, rounded up: a smaller number would not be true."""
    shown = ceil(alpha * 10)
    return counted.text(shown // 10 if shown % 10 == 0 else f"{shown / 10:,.1f}")


_ENDS = 2


@register
class ExponentialRange(Mechanism):
    name = "exponential-range"
    title = "Exponential mechanism on ranks, for both ends"
    summary = "Draws two values, each likelier the nearer its rank is to the one asked for; does not add noise to them."
    source = "McSherry and Talwar (2007), Theorem 6; Smith, Privacy-preserving Statistical Estimation (2011)"
    options = ()
    answers = (Range,)

    def _plan(self, request: PlanRequest) -> Plan:
        asked = request.statistic
        assert isinstance(asked, Range)
        low, _ = asked.ends
        if low.denominator > LARGEST_DENOMINATOR:
            return infeasible(request, "It takes a share inside whose two halves outside have at most six decimals.")
        attribute = request.schema.universe[asked.attributes[0]]
        # Those of the upper end are the same.
        sensitivity = rank_sensitivity(request.schema, low)
        epsilon = epsilon_of_each(request.budget, draw_event, rounds=_ENDS)
        beta = share_of_each(float(request.beta), rounds=_ENDS)
        alpha = rank_error(attribute, low, epsilon=epsilon, sensitivity=sensitivity, beta=beta)
        return ExponentialRangePlan(
            **request.inputs(),
            epsilon=epsilon,
            sensitivity=sensitivity,
            events=(RepeatedEvent(event=draw_event(epsilon), times=_ENDS),),
            parameters={
                "values it may draw": f"{values_of(attribute):,}",
                "epsilon of each end": decimal_text(epsilon),
                "sensitivity of a rank": decimal_text(sensitivity),
            },
            bound=_range_bound(request, asked, alpha),
            work=draws_work(_ENDS),
        )


@dataclass(frozen=True, kw_only=True)
class ExponentialRangePlan(Plan):
    """Draw both ends.

    Attributes:
        epsilon: of each draw.
        sensitivity: the most a rank's distance moves between neighbours, in rows.
    """

    epsilon: Fraction
    sensitivity: Fraction

    def _run(self, counts: Counts, rng: Randomness, progress: Progress) -> Result:
        """The estimates are the values in the column's units, the lower first, and `chosen` the same as text."""
        progress("Counting the table", 0.0)
        asked = statistic_of(self)
        assert isinstance(asked, Range)
        attribute = self.schema.universe[asked.attributes[0]]
        tally = counts.tally(asked.attributes)
        drawn = []
        for place, at in enumerate(asked.ends, start=1):
            progress("Choosing", place / (_ENDS + 1))
            drawn.append(draw_value(tally, attribute, at, epsilon=self.epsilon, sensitivity=self.sensitivity, rng=rng))
        ends = sorted(drawn)
        lowest, highest = map(plain, ends)
        assert self.bound is not None
        return Result(
            estimates=(np.array([float(end) for end in ends]),),
            bound=self.bound,
            total=0.0,
            chosen=(lowest, highest),
            # In the receipt: whoever declares the range says by it where it comes from.
            notes={"lowest": lowest, "highest": highest},
        )


def _range_bound(request: PlanRequest, asked: Range, alpha: Fraction) -> Bound:
    return Bound(
        beta=request.beta,
        half_widths=(float(alpha),),
        proof=Proof.BEFORE,
        formula=r"\alpha < \frac{2 \Delta}{\varepsilon_0} \ln \frac{(|R| - 1)(1 - \beta')}{\beta'} + \frac{1}{b},"
        r"\quad 1 - \beta' = \sqrt{1 - \beta}, \quad \Delta = g \max(q, 1 - q) \text{ or } g, \quad q = \frac{a}{b}",
        source="Derived; sharpens Dwork and Roth (2014), Corollary 3.12, at both ends at once",
        says=_range_says(asked, alpha, request.schema.counted),
    )


def _range_says(asked: Range, alpha: Fraction, counted: Counted) -> str:
    rows = rank_text(alpha, counted)
    share = f"{decimal_text(asked.ends[0] * 100, places=6)}% of the {counted.many}"
    return (
        f"at most {share} and {rows} more lie below the range given, and at most as many above it; at least {share} "
        f"less {rows} are at or below its lowest value, and at least as many at or above its highest, all at once."
    )


#: Every value of the range is weighed.
_MAX_VALUES = 10_000_000

INTERVAL, THEOREM = "interval", "theorem"
CONSTANT = Option(
    name="constant",
    help="How spread out the draw is: as much as an interval needs, or twice that, as the general theorem asks for.",
    choices=(INTERVAL, THEOREM),
    default=INTERVAL,
)


@register
class ExponentialMetric(Mechanism):
    name = "exponential-metric"
    title = "Exponential mechanism on distances"
    summary = "Draws a value, likelier the nearer it is to the true one; to compare, for it knows no small error."
    source = "Lecture notes, The exponential mechanism in metric spaces; McSherry and Talwar (2007), Theorem 6"
    options = (CONSTANT,)
    answers = (Quantile,)

    def _plan(self, request: PlanRequest) -> Plan:
        quantile = request.statistic
        assert isinstance(quantile, Quantile)
        attribute = request.schema.universe[quantile.attributes[0]]
        steps = attribute.highest - attribute.lowest
        if steps >= _MAX_VALUES:
            fewer = "fewer decimals" if attribute.dates is None else "a shorter range"
            return infeasible(
                request,
                f"It weighs each of the {steps + 1:,} values that {attribute.name} may have, and the most is "
                f"{_MAX_VALUES:,}; declare {fewer}.",
            )
        is_theorem = request.options["constant"] == THEOREM
        event = _bounded_range if is_theorem else _pure
        epsilon = epsilon_of_each(request.budget, event, rounds=1)
        scale = (2 if is_theorem else 1) * steps / epsilon
        off = least_alpha(
            lambda far: nearness_miss(steps=steps, rate=float(1 / scale), gap=far + 1), beta=float(request.beta)
        )
        return ExponentialMetricPlan(
            **request.inputs(),
            scale=scale,
            events=(event(epsilon),),
            parameters={
                "values it may draw": f"{steps + 1:,}",
                "sensitivity": attribute.span(steps),
                "scale": decimal_text(scale / 10**attribute.decimals),
            },
            bound=_distance_bound(request, attribute, off),
            work=Work(cells=steps + 1, seconds=0.3 + steps * 2e-7, bytes=(steps + 1) * 40),
        )


@dataclass(frozen=True, kw_only=True)
class ExponentialMetricPlan(Plan):
    """Draw one value.

    Attributes:
        scale: alpha' above, in units of the last place.
    """

    scale: Fraction

    def _run(self, counts: Counts, rng: Randomness, progress: Progress) -> Result:
        """The estimate is the value in the column's units; so is the bound."""
        progress("Counting the table", 0.0)
        quantile = statistic_of(self)
        assert isinstance(quantile, Quantile)
        attribute = self.schema.universe[quantile.attributes[0]]
        true = true_quantile(counts.tally(quantile.attributes), attribute, quantile.at)
        progress("Choosing", 0.5)
        distances = np.abs(np.arange(attribute.lowest, attribute.highest + 1) - true)
        steps = attribute.highest - attribute.lowest
        # The exponent is epsilon * score / (2 sensitivity).
        index = exponential_mechanism(-distances, epsilon=2 * steps / self.scale, sensitivity=Fraction(steps), rng=rng)
        value = Decimal(attribute.lowest + index).scaleb(-attribute.decimals)
        assert self.bound is not None
        return Result(estimates=(np.array([float(value)]),), bound=self.bound, total=0.0)


def _bounded_range(epsilon: Fraction) -> Event:
    return ExponentialMechanismEvent(epsilon=epsilon)


def _pure(epsilon: Fraction) -> Event:
    return PureEvent(epsilon=epsilon)


def _distance_bound(request: PlanRequest, attribute: Attribute, off: int) -> Bound:
    of_column = "" if attribute.dates is not None else f", in units of {attribute.name}"
    return Bound(
        beta=request.beta,
        half_widths=(float(Decimal(off).scaleb(-attribute.decimals)),),
        proof=Proof.BEFORE,
        formula=r"\alpha = \min\left\{a : \max_f \Pr[|Y - f| > a] \le \beta\right\},"
        r"\quad \Pr[Y = y] \propto e^{-|y - f| / \lambda},"
        r"\quad \lambda = \frac{\Delta}{\varepsilon} \text{ or } \frac{2 \Delta}{\varepsilon}",
        source="Derived; the exact law for the worst value",
        says=f"the value given is within {attribute.span(off)} of the true one{of_column}.",
    )


def true_quantile(tally: Tally, attribute: Attribute, at: Fraction) -> int:
    """The ceil(q n)-th lowest value, in units of the last place; the lower end where there are no rows. Private."""
    order = np.argsort(tally.values[0])
    up_to = np.cumsum(tally.counts[order])
    if up_to.size == 0:
        return attribute.lowest
    rank = -(-at.numerator * int(up_to[-1]) // at.denominator)
    return int(tally.values[0][order][np.searchsorted(up_to, rank)])
