r"""Laplace noise scaled to the smooth sensitivity of a quantile: (epsilon, delta)-DP.

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
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

from releases.engine.accounting.events import ApproximateEvent
from releases.engine.arithmetic.rounding import above, enclose, intervals
from releases.engine.domain.privacy import ApproxDP
from releases.engine.mechanisms.base import Mechanism, Plan, Request, infeasible, register
from releases.engine.mechanisms.smooth_median import BOUND, Calibration, plan_smooth_median
from releases.engine.noise.lattice import LAPLACE
from releases.engine.workload.statistics import Quantile

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

    def _plan(self, request: Request) -> Plan:
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
