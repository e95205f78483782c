"""Both ends of a column's range by the exponential mechanism on ranks: two quantiles of one column, in one release.

The lower end is drawn for the share (1 - s) / 2 of the rows and the upper for (1 + s) / 2, s the share to keep inside,
each as `exponential_quantile` draws one: from every fixed point of the declared range, the widest that certainly holds
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
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from releases.engine.accounting.events import RepeatedEvent
from releases.engine.bounds.accuracy import Bound, Proof
from releases.engine.bounds.selection_error import share_of_each
from releases.engine.domain.privacy import decimal_text
from releases.engine.domain.universe import plain
from releases.engine.estimation.result import Result
from releases.engine.mechanisms.base import Mechanism, Plan, Progress, Request, infeasible, register
from releases.engine.mechanisms.choices import epsilon_of_each, statistic_of
from releases.engine.mechanisms.exponential_quantile import (
    LARGEST_DENOMINATOR,
    draw_event,
    draw_value,
    draws_work,
    rank_error,
    rank_sensitivity,
    rank_text,
    values_of,
)
from releases.engine.noise.randomness import Randomness
from releases.engine.tables.counts import Counts
from releases.engine.workload.statistics import Range

_ENDS = 2


@register
class ExponentialRange(Mechanism):
    name = "exponential-range"
    title = "Exponential mechanism on ranks, for both ends"
    summary = "Draws two values, each likelier the nearer its rank is to the one asked for; does not add noise to them."
    source = "McSherry and Talwar (2007), Theorem 6; Smith, Privacy-preserving Statistical Estimation (2011)"
    options = ()
    answers = (Range,)

    def _plan(self, request: Request) -> Plan:
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
            bound=_bound(request, asked, alpha),
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


def _bound(request: Request, asked: Range, alpha: Fraction) -> Bound:
    return Bound(
        beta=request.beta,
        half_widths=(float(alpha),),
        proof=Proof.BEFORE,
        formula=r"\alpha < \frac{2 \Delta}{\varepsilon_0} \ln \frac{(|R| - 1)(1 - \beta')}{\beta'} + \frac{1}{b},"
        r"\quad 1 - \beta' = \sqrt{1 - \beta}, \quad \Delta = g \max(q, 1 - q) \text{ or } g, \quad q = \frac{a}{b}",
        source="Derived; sharpens Dwork and Roth (2014), Corollary 3.12, at both ends at once",
        says=_says(asked, alpha),
    )


def _says(asked: Range, alpha: Fraction) -> str:
    rows = rank_text(alpha)
    share = f"{decimal_text(asked.ends[0] * 100, places=6)}% of the rows"
    return (
        f"at most {share} and {rows} more lie below the range given, and at most as many above it; at least {share} "
        f"less {rows} are at or below its lowest value, and at least as many at or above its highest, all at once."
    )
