"""A quantile by the exponential mechanism of a metric space: likelier the nearer to the true one on the column's scale.

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

import numpy as np

from releases.engine.accounting.events import Event, ExponentialMechanismEvent, PureEvent
from releases.engine.bounds.accuracy import Bound, Proof
from releases.engine.bounds.selection_error import least_alpha, nearness_miss
from releases.engine.domain.privacy import decimal_text
from releases.engine.domain.universe import Attribute, plain
from releases.engine.estimation.result import Result
from releases.engine.mechanisms.base import Mechanism, Option, Plan, Progress, Request, Work, infeasible, register
from releases.engine.mechanisms.choices import epsilon_of_each, statistic_of
from releases.engine.noise.randomness import Randomness
from releases.engine.noise.selection import exponential_mechanism
from releases.engine.tables.counts import Counts, Tally
from releases.engine.workload.statistics import Quantile

#: Every value of the range is weighed.
_MOST_VALUES = 10_000_000

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

    def _plan(self, request: Request) -> Plan:
        quantile = request.statistic
        assert isinstance(quantile, Quantile)
        attribute = request.schema.universe[quantile.attributes[0]]
        steps = attribute.highest - attribute.lowest
        if steps >= _MOST_VALUES:
            return infeasible(
                request,
                f"It weighs each of the {steps + 1:,} values that {attribute.name} may have, and the most is "
                f"{_MOST_VALUES:,}; declare fewer decimals.",
            )
        is_theorem = request.options["constant"] == THEOREM
        event = _bounded_range if is_theorem else _pure
        epsilon = epsilon_of_each(request.budget, event, rounds=1)
        scale = (2 if is_theorem else 1) * steps / epsilon
        off = least_alpha(
            lambda far: nearness_miss(steps=steps, rate=float(1 / scale), gap=far + 1), beta=float(request.beta)
        )
        alpha = Decimal(off).scaleb(-attribute.decimals)
        return ExponentialMetricPlan(
            **request.inputs(),
            scale=scale,
            events=(event(epsilon),),
            parameters={
                "values it may draw": f"{steps + 1:,}",
                "sensitivity": plain(Decimal(steps).scaleb(-attribute.decimals)),
                "scale": decimal_text(scale / 10**attribute.decimals),
            },
            bound=_bound(request, attribute, alpha),
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


def _bound(request: Request, attribute: Attribute, alpha: Decimal) -> Bound:
    return Bound(
        beta=request.beta,
        half_widths=(float(alpha),),
        proof=Proof.BEFORE,
        formula=r"\alpha = \min\left\{a : \max_f \Pr[|Y - f| > a] \le \beta\right\},"
        r"\quad \Pr[Y = y] \propto e^{-|y - f| / \lambda},"
        r"\quad \lambda = \frac{\Delta}{\varepsilon} \text{ or } \frac{2 \Delta}{\varepsilon}",
        source="Derived; the exact law for the worst value",
        says=f"the value given is within {plain(alpha)} of the true one, in units of {attribute.name}.",
    )


def true_quantile(tally: Tally, attribute: Attribute, at: Fraction) -> int:
    """The ceil(q n)-th lowest value, in units of the last place; the lower end where there are no rows. Private."""
    order = np.argsort(tally.values[0])
    up_to = np.cumsum(tally.counts[order])
    if up_to.size == 0:
        return attribute.lowest
    rank = -(-at.numerator * int(up_to[-1]) // at.denominator)
    return int(tally.values[0][order][np.searchsorted(up_to, rank)])
