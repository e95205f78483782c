r"""Gaussian noise scaled to the smooth sensitivity of a quantile: (epsilon, delta)-DP.

Nissim, Raskhodnikova and Smith (2007), Lemma 2.6 and the Gaussian case after Lemma 2.9, take multiplier
5 sqrt(2 ln(2 / delta)) / epsilon and smoothness epsilon / (4 (1 + ln(2 / delta))); their composition of two
(epsilon/2, delta/2) steps is off in delta as in `smooth_median_laplace`. (The lecture notes' third case prints Lap(1)
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
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

from releases.engine.accounting.calibration import analytic_gaussian_sigma
from releases.engine.accounting.events import ApproximateEvent
from releases.engine.arithmetic.rounding import above_number, number, reals
from releases.engine.domain.privacy import ApproxDP
from releases.engine.mechanisms.base import NEEDS_DELTA, Mechanism, Plan, Request, infeasible, register
from releases.engine.mechanisms.smooth_median import BOUND, Calibration, plan_smooth_median
from releases.engine.mechanisms.smooth_median_laplace import largest_smoothness
from releases.engine.noise.lattice import GAUSSIAN
from releases.engine.workload.statistics import Quantile


@register
class SmoothMedianGaussian(Mechanism):
    name = "smooth-median-gaussian"
    title = "Median with adaptive Gaussian noise"
    summary = "The same with Gaussian noise, for comparison: about four times as wide as Laplace noise for one number."
    source = "Nissim, Raskhodnikova and Smith, Smooth Sensitivity and Sampling (2007), Lemma 2.6, corrected"
    options = (BOUND,)
    answers = (Quantile,)

    def _plan(self, request: Request) -> Plan:
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
