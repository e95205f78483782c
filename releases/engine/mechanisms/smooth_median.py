"""What the three smooth-median mechanisms share: a quantile with noise scaled to its smooth sensitivity.

The answer is f + round(c S Z), clamped to the declared range: f the table's quantile at q, S its smooth sensitivity of
smoothness s (`smooth_sensitivity`), Z of a law and c a multiplier that the mechanism's file chooses and proves. The
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
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from math import ceil, exp, log, log1p

import numpy as np

from releases.engine.accounting.events import DiscreteLaplaceEvent, Event
from releases.engine.bounds.accuracy import Bound, Proof
from releases.engine.domain.privacy import decimal_text
from releases.engine.domain.universe import Attribute, Schema, plain
from releases.engine.estimation.result import Result
from releases.engine.mechanisms.base import Option, Plan, Progress, Request, Work, infeasible
from releases.engine.noise.discrete import LARGEST_SCALE, discrete_laplace
from releases.engine.noise.lattice import Law, largest_rounded, rounded_noise
from releases.engine.noise.randomness import Randomness
from releases.engine.tables.counts import Counts
from releases.engine.workload.questions import Inquiry
from releases.engine.workload.smooth_sensitivity import SortedColumn, smooth_sensitivity
from releases.engine.workload.statistics import Quantile, Statistic

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


def plan_smooth_median(request: Request, calibrate: Callable[[Fraction], Calibration]) -> Plan:
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
        "answer": quantile_in_words(request.statistic),
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
            rows_of_unit=self.schema.unit.max_rows,
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
            rows_of_unit=self.schema.unit.max_rows,
            smoothness=self.bound_smoothness,
        )
        scale = _FINENESS / self.bound_epsilon
        noisy = sensitivity.log_ceiling(step) + int(discrete_laplace(scale=scale, size=1, rng=rng)[0])
        # From here on only what was paid for and public numbers.
        share = float(self.beta) / 2
        rows = self.schema.unit.max_rows
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
            says=f"the answer is within {in_words(width, attribute)} of the {title_of(self)} of the table.",
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


def quantile_in_words(statistic: Statistic) -> str:
    assert isinstance(statistic, Quantile)
    share = "half" if statistic.at == Fraction(1, 2) else f"{decimal_text(statistic.at * 100, places=6)}%"
    return f"the least value with at least {share} of the rows at or below it"


def title_of(plan: Plan) -> str:
    (part,) = plan.workload.families
    return part.title(plan.schema.universe)


def in_words(units: int, attribute: Attribute) -> str:
    """A number in units of the last place, as a person writes it."""
    return plain(Decimal(units).scaleb(-attribute.decimals))


def _in_units(units: int, attribute: Attribute) -> float:
    """As a number of the column, rounded to the nearest double (a half width is exact to 15 digits)."""
    return float(Fraction(units, 10**attribute.decimals))


def _attribute(schema: Schema, statistic: Statistic) -> Attribute:
    (name,) = statistic.attributes
    return schema.universe[name]


def _range_bound(request: Request, attribute: Attribute) -> Bound:
    """What is known without paying: answer and truth both lie in the declared range."""
    low, high = in_words(attribute.lowest, attribute), in_words(attribute.highest, attribute)
    return Bound(
        beta=request.beta,
        half_widths=(_in_units(attribute.highest - attribute.lowest, attribute),),
        proof=Proof.BEFORE,
        formula=r"\alpha = U - L",
        source="the declared range",
        says=f"nothing closer is known than that answer and truth lie from {low} to {high}: the noise adapts to the "
        f"table, and no bound on it was paid for.",
    )
