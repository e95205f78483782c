r"""Cauchy noise scaled to the smooth sensitivity of a quantile: pure epsilon-DP.

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

from fractions import Fraction
from functools import lru_cache

from releases.engine.accounting.events import PureEvent
from releases.engine.arithmetic.rounding import Interval, above, enclose, intervals
from releases.engine.mechanisms.base import Mechanism, Plan, Request, register
from releases.engine.mechanisms.smooth_median import BOUND, Calibration, plan_smooth_median
from releases.engine.noise.lattice import CAUCHY
from releases.engine.workload.statistics import Quantile

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

    def _plan(self, request: Request) -> Plan:
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
