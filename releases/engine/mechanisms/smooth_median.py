r"""What the three smooth-median mechanisms share: a quantile with noise scaled to its smooth sensitivity.

The answer is f + round(c S Z), clamped to the declared range: f the table's quantile at q, S its smooth sensitivity of
smoothness s (`smooth_sensitivity`), Z of a law and c a multiplier that each mechanism chooses and proves below. The
proofs use two facts about neighbours D, D' (adding, removing or replacing one unit, whatever the relation is):

    |f(D) - f(D')| <= min(S(D), S(D'))     and     |ln S(D) - ln S(D')| <= s.

The first holds with the smaller of the two, since each bounds what a unit can change from its own table. Rounding to
units of the column's last place and clamping are post-processing (`noise.lattice`). S is never released.

The bound. S is private, so the width of the noise is too. A share of epsilon may pay for an upper bound: ln of a
smooth sensitivity of smoothness s' <= s moves by at most s' between neighbours, so L = ceil(ln(S') / (s' / 16)) moves
by at most 16, and L with discrete Laplace noise of scale 16 / epsilon' is epsilon'-DP (Dwork and Roth 2014, Theorem
3.6). With l the quantile of the noise's lower tail, S' <= exp((s' / 16) (L~ + l)) but for a probability beta / 2, and
S <= e^((s - s') (g - 1) / g) S' for units of g rows, because no exponent of S is above s (g - 1) / g. So but for
another beta / 2 the error is at most floor(c S~ z + 1/2), z the quantile of |Z|. A separate s' serves because noise
wants s large and a bound of ln S wants it small: for evenly spread values S' is proportional to 1 / s', and
exp(s' l / 16) / s' is least near s' = epsilon' / ln(1 / beta), a third of epsilon' at 95%.

`smooth-median-laplace`. Laplace noise scaled to the smooth sensitivity of a quantile: (epsilon, delta)-DP.

Nissim, Raskhodnikova and Smith (2007), Lemmas 2.6 and 2.9 (the lecture notes' second case), take multiplier
2 / epsilon and smoothness epsilon / (2 ln(2 / delta)). They compose two steps of (epsilon/2, delta/2), which give
(epsilon, (1 + e^(epsilon/2)) delta / 2) and not (epsilon, delta) as printed. Here the delta is computed for shift and
change of scale together, exactly, and the smoothness is the largest that keeps it.

Proof. Let neighbours have answers before rounding of densities p, p', Laplace of centres f, f' and scales t = c S,
t' = c S', c = 2 / epsilon, |f - f'| <= min(S, S'), |ln(t / t')| = v <= s <= epsilon / 2.

1.  Where p is the narrower (t <= t'), ln(p / p') is largest at y = f, and there at most v + |f - f'| / t'
    <= s + 1 / c <= epsilon. So this direction is pure.
2.  Where p is the wider, take t' = 1, f' = 0, t = e^v, d = f >= 0, d <= S' / t' = 1 / c = epsilon / 2 in these units.
    ln(p / p') = -v + |y| - |y - d| / t exceeds epsilon in two tails only: for y > y2 and y < -y1 with
    y2 (t - 1) = t (epsilon + v) - d and y1 (t - 1) = t (epsilon + v) + d (between 0 and d it is at most d - v).
    Where p = e^epsilon p', the tail of p beyond is t times that of e^epsilon p', so the largest
    Pr_p[A] - e^epsilon Pr_p'[A] is (t - 1) e^epsilon (e^-y1 + e^-y2) / 2. With r = 1 / (t - 1), t / (t - 1) = 1 + r,

        delta(v, d) = (e^v - 1) / 2 * (e^(-v - r (epsilon + v - d)) + e^(-v - r (epsilon + v + d))).

    Its derivative by d is positive. The logarithm of each term is -ln(2 r) - v - r (epsilon + v -+ d), where
    dv / dr = -1 / (r (1 + r)); its derivative by r is -(epsilon + v -+ d) < 0, so it grows with v. The largest delta
    is therefore delta(s, epsilon / 2), and s is the largest of 2^20 steps up to epsilon / 2 at which that is certified
    to be at most the budget's.

The multiplier 2 / epsilon: for small delta s is near (epsilon - 1 / c) / ln(1 / delta), and for evenly spread values
c S is proportional to c / s, which is least at 1 / c = epsilon / 2.

`smooth-median-gaussian`. Gaussian noise scaled to the smooth sensitivity of a quantile: (epsilon, delta)-DP.

Nissim, Raskhodnikova and Smith (2007), Lemma 2.6 and the Gaussian case after Lemma 2.9, take multiplier
5 sqrt(2 ln(2 / delta)) / epsilon and smoothness epsilon / (4 (1 + ln(2 / delta))); their composition of two
(epsilon/2, delta/2) steps is off in delta as in the Laplace case. (The lecture notes' third case prints Lap(1)
as the law of Z where N(0, 1) is meant.) Here both steps have their exact deltas, composed rightly.

Proof. Let neighbours' answers before rounding be P = N(f, t^2), P' = N(f', t'^2), t = c S, t' = c S', and
Q = N(f', t^2) between them; |f - f'| <= S = t / c and |ln(t / t')| = v <= s <= epsilon / 2.

1.  P and Q differ by a shift of at most 1 / c standard deviations. c is the least for which that is
    (epsilon/2, delta/2)-DP (Balle and Wang 2018, Theorem 8), rounded up.
2.  Q and P' have one centre. If t <= t', Q's density is at most e^v <= e^(epsilon/2) times that of P'. If t > t' (take
    t' = 1, t = e^v), ln(Q / P') = -v + y^2 (1 - e^(-2v)) / 2 exceeds epsilon/2 for |y| > y0 only,
    y0^2 = (epsilon + 2 v) / (1 - e^(-2v)), so the largest Q[A] - e^(epsilon/2) P'[A] is

        delta2(v) = erfc(y0 e^-v / sqrt 2) - e^(epsilon/2) erfc(y0 / sqrt 2).

    As A is the best event at each v, the derivative is that of Q[|y| > y0] with y0 fixed, which is positive.
3.  P[A] <= e^(epsilon/2) Q[A] + delta/2 <= e^epsilon P'[A] + e^(epsilon/2) delta2 + delta/2. So s is the largest of
    2^20 steps up to epsilon / 2 at which e^(epsilon/2) delta2(s) <= delta / 2.

In one dimension it is never the best of the three: its tails are lighter than Laplace's, its scale four times as large.

`smooth-median-cauchy`. Cauchy noise scaled to the smooth sensitivity of a quantile: pure epsilon-DP.

Nissim, Raskhodnikova and Smith (2007), Lemmas 2.6 and 2.7, take noise of density proportional to 1 / (1 + |z|^gamma),
smoothness epsilon / (2 (gamma + 1)) and multiplier 2 (gamma + 1) / epsilon: 6 / epsilon for the Cauchy law, gamma = 2.
That splits epsilon between a shift and a change of scale. Taken together they have an exact answer for the Cauchy law,
and the multiplier here is the least that is private at the smoothness taken: at epsilon = 1 it is 0.96 in place of 6.

Proof. Let neighbours have answers before rounding of densities p, p', Cauchy of centres f, f' and scales t = c S,
t' = c S'. Claim: p(y) <= e^u p'(y) for all y exactly if cosh u >= 1 + ((f - f')^2 + (t - t')^2) / (2 t t'), u >= 0
(u is then at least the hyperbolic distance of f + i t and f' + i t' in the upper half plane, and this is Harnack's
inequality for Poisson's kernel). With d = f' - f and y = f + x, e^u p' - p has the sign of

    e^u t' (x^2 + t^2) - t ((x - d)^2 + t'^2) = (A - B) x^2 + 2 B d x - B d^2 + A t^2 - B t'^2,   A = e^u t', B = t.

As cosh u >= cosh ln(t / t'), A >= B. Its minimum over x is A t^2 - B t'^2 - A B d^2 / (A - B), which is not below 0 if
(A - B) (A t^2 - B t'^2) >= A B d^2; divided by e^u t t', e^u t t' + e^-u t t' - t^2 - t'^2 >= d^2. That is the claim.

Now |f - f'| <= min(S, S') and t' / t = e^v with |v| <= s, say v >= 0. So the right side is at most

    cosh v + e^-v / (2 c^2),

a convex function of v, largest at v = 0 or v = s. Hence epsilon-DP if 2 c^2 (cosh epsilon - 1) >= 1 and
2 c^2 e^s (cosh epsilon - cosh s) >= 1, which is where c is taken, rounded up. By the claim nothing smaller will do.

The smoothness is 7/10 of epsilon: for evenly spread values S is proportional to 1 / s and c, for small epsilon, to
1 / sqrt(epsilon^2 - s^2), whose product is least at s = epsilon / sqrt 2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import ceil, exp, log, log1p

import numpy as np

from releases.engine.accounting.calibration import analytic_gaussian_sigma
from releases.engine.accounting.events import ApproximateEvent, DiscreteLaplaceEvent, Event, PureEvent
from releases.engine.arithmetic.rounding import Interval, above, above_number, enclose, intervals, number, reals
from releases.engine.bounds.accuracy import Bound, Proof
from releases.engine.domain.attribute import Attribute
from releases.engine.domain.counted import Counted
from releases.engine.domain.privacy import ApproxDP, decimal_text
from releases.engine.domain.schema import Schema
from releases.engine.estimation.result import Result
from releases.engine.mechanisms.base import (
    NEEDS_DELTA,
    Mechanism,
    Option,
    Plan,
    PlanRequest,
    Progress,
    Work,
    infeasible,
    register,
)
from releases.engine.noise.discrete import LARGEST_SCALE, discrete_laplace
from releases.engine.noise.lattice import CAUCHY, GAUSSIAN, LAPLACE, Law, largest_rounded, rounded_noise
from releases.engine.noise.randomness import Randomness
from releases.engine.tables.counts import Counts
from releases.engine.workload.kinds.quantile import Quantile
from releases.engine.workload.questions import Inquiry
from releases.engine.workload.smooth_sensitivity import SortedColumn, smooth_sensitivity
from releases.engine.workload.statistic import Statistic

BOUND = Option(
    name="bound",
    help="Percent of epsilon that pays for a bound on the answer's error; with 0 none is known but the declared range.",
    lowest=0,
    highest=50,
    default=20,
)
#: ln S is measured in units of 1/16 of what one unit of the table can move it.
_FINENESS = 16
#: Relative allowance for rounding in the bound, far above what double precision loses.
_SLACK = 1e-9
_FORMULA = (
    r"\alpha = \left\lfloor c\, \tilde{S}\, z_{\beta/2} + \tfrac{1}{2} \right\rfloor , \quad "
    r"\ln \tilde{S} = \tfrac{s'}{16} \left( \tilde{L} + \ell_{\beta/2} \right)"
)
_SOURCE = "Nissim, Raskhodnikova and Smith (2007), Definition 2.2: ln S moves by s at most; Dwork and Roth (2014), 3.6"


@dataclass(frozen=True, kw_only=True, slots=True)
class Calibration:
    """What makes the answer private.

    Attributes:
        law: of Z.
        multiplier: c, above 0.
        smoothness: s, above 0.
        event: what it then is, for the accountant.
    """

    law: Law
    multiplier: Fraction
    smoothness: Fraction
    event: Event


def plan_smooth_median(request: PlanRequest, calibrate: Callable[[Fraction], Calibration]) -> Plan:
    """Plan an answer whose noise `calibrate(epsilon)` describes, epsilon being what the bound leaves."""
    percent = request.options["bound"]
    assert isinstance(percent, int)
    bound_epsilon = request.budget.epsilon * percent / 100
    if percent and _FINENESS / bound_epsilon > LARGEST_SCALE:
        return infeasible(request, "Its noise would not fit 64-bit numbers at so small an epsilon.")
    calibration = calibrate(request.budget.epsilon - bound_epsilon)
    attribute = _attribute(request.schema, request.statistic)
    values = attribute.highest - attribute.lowest + 1
    events: tuple[Event, ...] = (calibration.event,)
    parameters = {
        "answer": quantile_in_words(request.statistic, request.schema.counted),
        "noise": f"{calibration.law.name}, {decimal_text(calibration.multiplier)} times the smooth sensitivity",
        "smoothness": decimal_text(calibration.smoothness),
    }
    if percent:
        events += (DiscreteLaplaceEvent(noise_multiplier=1 / bound_epsilon),)
        parameters["epsilon of the bound"] = decimal_text(bound_epsilon)
    return SmoothMedianPlan(
        **request.inputs(),
        calibration=calibration,
        bound_epsilon=bound_epsilon,
        events=events,
        parameters=parameters,
        bound=None if percent else _range_bound(request, attribute),
        formula=_FORMULA,
        source=_SOURCE,
        work=Work(cells=min(values, 10**9), seconds=1.0, bytes=min(values, 10**8) * 80),
    )


@dataclass(frozen=True, kw_only=True)
class SmoothMedianPlan(Plan):
    """A quantile with noise that adapts to the table.

    Attributes:
        calibration: law, multiplier and smoothness of the noise.
        bound_epsilon: what the bound on the error costs; 0 where there is none.
    """

    calibration: Calibration
    bound_epsilon: Fraction

    @property
    def bound_smoothness(self) -> Fraction:
        """s', data-free (see the head of this file)."""
        return min(self.calibration.smoothness, self.bound_epsilon / 3)

    def _run(self, counts: Counts, rng: Randomness, progress: Progress) -> Result:
        statistic = quantile_of(self)
        attribute = _attribute(self.schema, statistic)
        progress("Counting the table", 0.0)
        column = SortedColumn.of(counts.tally(statistic.attributes), attribute)
        progress("Measuring how much one unit can change", 0.4)
        sensitivity = smooth_sensitivity(
            column,
            q=statistic.at,
            neighbours=self.schema.neighbours,
            rows_of_unit=self.schema.rows_of_unit,
            smoothness=self.calibration.smoothness,
        )
        progress("Adding noise", 0.7)
        noisy = column.quantile(statistic.at) + rounded_noise(
            self.calibration.law,
            multiplier=self.calibration.multiplier,
            scale_at=sensitivity.interval,
            most=attribute.highest - attribute.lowest,
            rng=rng,
        )
        answer = min(max(noisy, attribute.lowest), attribute.highest)
        bound = self.bound if self.bound is not None else self._paid_bound(column, statistic, attribute, rng)
        return Result(estimates=(np.array([_in_units(answer, attribute)]),), bound=bound, total=0.0)

    def _paid_bound(self, column: SortedColumn, statistic: Quantile, attribute: Attribute, rng: Randomness) -> Bound:
        """floor(c S~ z + 1/2), from a noisy logarithm of a smooth sensitivity."""
        step = self.bound_smoothness / _FINENESS
        sensitivity = smooth_sensitivity(
            column,
            q=statistic.at,
            neighbours=self.schema.neighbours,
            rows_of_unit=self.schema.rows_of_unit,
            smoothness=self.bound_smoothness,
        )
        scale = _FINENESS / self.bound_epsilon
        noisy = sensitivity.log_ceiling(step) + int(discrete_laplace(scale=scale, size=1, rng=rng)[0])
        # From here on only what was paid for and public numbers.
        share = float(self.beta) / 2
        rows = self.schema.rows_of_unit
        excess = (self.calibration.smoothness - self.bound_smoothness) * (rows - 1) / rows
        exponent = float(step * (noisy + laplace_lower_quantile(scale=scale, beta=share)) + excess)
        largest = float(self.calibration.multiplier) * exp(min(exponent, 600.0)) * (1 + _SLACK)
        most = attribute.highest - attribute.lowest
        width = largest_rounded(self.calibration.law, scale=largest, beta=share, most=most)
        return Bound(
            beta=self.beta,
            half_widths=(_in_units(width, attribute),),
            proof=Proof.AFTER,
            formula=_FORMULA,
            source=_SOURCE,
            says=f"the answer is within {attribute.span(width)} of the {title_of(self)} of the table.",
        )


def laplace_lower_quantile(*, scale: Fraction, beta: float) -> int:
    """The least l with Pr[X < -l] <= beta, X discrete Laplace: Pr[X <= -m] = e^(-m/t) / (1 + e^(-1/t))."""
    t = float(scale)
    least = -t * (log(beta * (1 - _SLACK)) + log1p(exp(-1 / t))) - 1
    return max(0, ceil(least * (1 + _SLACK)))


def quantile_of(plan: Plan) -> Quantile:
    """What a plan of these mechanisms was asked."""
    assert isinstance(plan.workload, Inquiry)
    assert isinstance(plan.workload.statistic, Quantile)
    return plan.workload.statistic


def quantile_in_words(statistic: Statistic, counted: Counted) -> str:
    assert isinstance(statistic, Quantile)
    share = "half" if statistic.at == Fraction(1, 2) else f"{decimal_text(statistic.at * 100, places=6)}%"
    return f"the least value with at least {share} of the {counted.many} at or below it"


def title_of(plan: Plan) -> str:
    (part,) = plan.workload.families
    return part.title(plan.schema.universe)


def _in_units(units: int, attribute: Attribute) -> float:
    """As a number of the column, rounded to the nearest double (a half width is exact to 15 digits)."""
    return float(Fraction(units, 10**attribute.decimals))


def _attribute(schema: Schema, statistic: Statistic) -> Attribute:
    (name,) = statistic.attributes
    return schema.universe[name]


def _range_bound(request: PlanRequest, attribute: Attribute) -> Bound:
    """What is known without paying: answer and truth both lie in the declared range."""
    low, high = attribute.point(attribute.lowest), attribute.point(attribute.highest)
    return Bound(
        beta=request.beta,
        half_widths=(_in_units(attribute.highest - attribute.lowest, attribute),),
        proof=Proof.BEFORE,
        formula=r"\alpha = U - L",
        source="the declared range",
        says=f"nothing closer is known than that answer and truth lie from {low} to {high}: the noise adapts to the "
        f"table, and no bound on it was paid for.",
    )


#: Steps in which a smoothness is looked for: fine enough to lose a ten-thousandth.
STEPS = 2**20


@register
class SmoothMedianLaplace(Mechanism):
    name = "smooth-median-laplace"
    title = "Median with adaptive Laplace noise"
    summary = "Noise that is small where no few units can move the median much; it needs a delta."
    source = "Nissim, Raskhodnikova and Smith, Smooth Sensitivity and Sampling (2007), Lemmas 2.6 and 2.9, corrected"
    options = (BOUND,)
    answers = (Quantile,)

    def _plan(self, request: PlanRequest) -> Plan:
        if not isinstance(request.budget, ApproxDP):
            return infeasible(
                request,
                "It needs a delta above 0: Laplace noise of an adapted scale has no pure epsilon, Cauchy noise has.",
            )
        delta = request.budget.delta
        return plan_smooth_median(request, lambda epsilon: laplace_calibration(epsilon=epsilon, delta=delta))


def laplace_calibration(*, epsilon: Fraction, delta: Fraction) -> Calibration:
    return Calibration(
        law=LAPLACE,
        multiplier=2 / epsilon,
        smoothness=laplace_smoothness(epsilon=epsilon, delta=delta),
        event=ApproximateEvent(epsilon=epsilon, delta=delta),
    )


@lru_cache(maxsize=256)
def laplace_smoothness(*, epsilon: Fraction, delta: Fraction) -> Fraction:
    """The largest s of the grid whose delta is certified to be within the budget's."""
    return largest_smoothness(lambda s: laplace_delta(epsilon=epsilon, smoothness=s) <= delta, most=epsilon / 2)


def laplace_delta(*, epsilon: Fraction, smoothness: Fraction) -> Fraction:
    """delta(s, epsilon / 2) of the proof, from above."""
    context, s, e = intervals(), enclose(smoothness), enclose(epsilon)
    growth = context.exp(s) - 1
    near, far = context.exp(-s - (e / 2 + s) / growth), context.exp(-s - (3 * e / 2 + s) / growth)
    return above(growth / 2 * (near + far))


def largest_smoothness(holds: Callable[[Fraction], bool], *, most: Fraction) -> Fraction:
    """The largest j with `holds(most j / STEPS)`, which must be monotone, as that smoothness; at least one step.

    One step always holds for a delta of ordinary size: at s = epsilon / 2^21 deltas are below e^-100000.
    """
    low, high = 1, STEPS
    assert holds(most / STEPS)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if holds(most * middle / STEPS) else (low, middle - 1)
    return most * low / STEPS


@register
class SmoothMedianGaussian(Mechanism):
    name = "smooth-median-gaussian"
    title = "Median with adaptive Gaussian noise"
    summary = "The same with Gaussian noise, for comparison: about four times as wide as Laplace noise for one number."
    source = "Nissim, Raskhodnikova and Smith, Smooth Sensitivity and Sampling (2007), Lemma 2.6, corrected"
    options = (BOUND,)
    answers = (Quantile,)

    def _plan(self, request: PlanRequest) -> Plan:
        if not isinstance(request.budget, ApproxDP):
            return infeasible(request, NEEDS_DELTA)
        delta = request.budget.delta
        return plan_smooth_median(request, lambda epsilon: gaussian_calibration(epsilon=epsilon, delta=delta))


@lru_cache(maxsize=256)
def gaussian_calibration(*, epsilon: Fraction, delta: Fraction) -> Calibration:
    return Calibration(
        law=GAUSSIAN,
        multiplier=analytic_gaussian_sigma(epsilon=epsilon / 2, delta=delta / 2),
        smoothness=largest_smoothness(
            lambda s: dilation_delta(epsilon=epsilon, smoothness=s) <= delta / 2, most=epsilon / 2
        ),
        event=ApproximateEvent(epsilon=epsilon, delta=delta),
    )


def dilation_delta(*, epsilon: Fraction, smoothness: Fraction) -> Fraction:
    """e^(epsilon/2) delta2(s) of the proof, from above: erfc is computed to sixty digits and trusted to 39."""
    context, s, half = reals(), number(smoothness), number(epsilon / 2)
    y = context.sqrt(2 * (half + s) / -context.expm1(-2 * s))
    root = context.sqrt(2)
    excess = context.erfc(y * context.exp(-s) / root) - context.exp(half) * context.erfc(y / root)
    return above_number(context.exp(half) * excess)


_SMOOTHNESS = Fraction(7, 10)
#: Significant bits of a multiplier.
_BITS = 60


@register
class SmoothMedianCauchy(Mechanism):
    name = "smooth-median-cauchy"
    title = "Median with adaptive Cauchy noise"
    summary = (
        "Noise that is small where no one unit can move the median much, at a pure epsilon; rare answers are far off."
    )
    source = "Nissim, Raskhodnikova and Smith, Smooth Sensitivity and Sampling (2007), Lemmas 2.6 and 2.7, sharpened"
    options = (BOUND,)
    answers = (Quantile,)

    def _plan(self, request: PlanRequest) -> Plan:
        return plan_smooth_median(request, cauchy_calibration)


def cauchy_calibration(epsilon: Fraction) -> Calibration:
    smoothness = _SMOOTHNESS * epsilon
    multiplier = cauchy_multiplier(epsilon=epsilon, smoothness=smoothness)
    return Calibration(law=CAUCHY, multiplier=multiplier, smoothness=smoothness, event=PureEvent(epsilon=epsilon))


@lru_cache(maxsize=256)
def cauchy_multiplier(*, epsilon: Fraction, smoothness: Fraction) -> Fraction:
    """The least c for epsilon-DP at a smoothness below epsilon, rounded up to 60 bits.

    cosh a - cosh b = 2 sinh((a + b) / 2) sinh((a - b) / 2), which does not cancel for small arguments.
    """
    shift = 1 / (2 * _sinh(epsilon / 2))
    together = 4 * intervals().exp(enclose(smoothness))
    together *= _sinh((epsilon + smoothness) / 2) * _sinh((epsilon - smoothness) / 2)
    return coarsely_above(max(above(shift), above(1 / intervals().sqrt(together))))


def coarsely_above(value: Fraction) -> Fraction:
    """A rational of at most 60 significant bits that is not below `value`, which is above 0."""
    shift = _BITS - (value.numerator.bit_length() - value.denominator.bit_length())
    scaled = value * Fraction(2) ** shift
    return Fraction(-(-scaled.numerator // scaled.denominator)) / Fraction(2) ** shift


def _sinh(value: Fraction) -> Interval:
    e = intervals().exp(enclose(value))
    return (e - 1 / e) / 2
