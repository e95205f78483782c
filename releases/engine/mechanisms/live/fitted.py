"""A distribution fitted to noisy tables when a session is opened, its errors measured; others at a price, as asked.

Share s of what the number of rows leaves of the budget buys a fit to a list of tables and counts: by `marginal-fit`, or
by `mixture-fit` where the noise on the tables would be too much for it, by the declared columns and the number of rows
that the session is planned for. The rest is cut into parts, as in a session with plain noise (``noise.py``).

Nothing useful is known of a fit before it is made, so what it answers is known once the session is open: the fit has
its answers to the list certified, and of a tenth of the share the largest error of their sums is measured too. A
question that the list answers as closely as its asker needs is answered for nothing; any other is measured.

**Sums.** Let r be the released table of a marginal of the list, in whole rows, and a the exact one. Over all sets A of
its cells, the sum over A of r - a is the largest where A are the cells in which r - a is positive, and the least where
it is negative; so S, the larger of these two in absolute value, over all tables, is the largest error of any sum of
cells of one table. One unit of g rows moves the exact sum over any A by at most g under either neighbouring relation:
a row is in one cell of a table, so it counts 0 or 1 for A. A largest value moves no further than what it is taken over,
so S moves by at most g. It is a whole number, and S + X is released, with discrete noise of that sensitivity (Dwork and
Roth 2014, Theorem 3.6; Canonne, Kamath and Steinke 2020, Theorem 4).

**Privacy.** The fit, S + X and all priced answers are each private for any outcome of those before: the fit by its own
plan, the answers as ``noise.py`` proves whatever their questions and prices depend on, so also on what was bought.
Their epsilons, or their rhos, add up to what is charged.

**Accuracy.** Three events have a share of β each, so none happens with probability 1 - β. A priced answer leaves its
half width. L, the largest error of the fit's answers, is above what its certificate says (`error_certificate`). S is
above S + X + t, where Pr[X < -t] is at most its share. Where none happens, a count that is summed from n cells of one
table of the list is within the smaller of n (L + X' + t') and S + X + t. All counts keep that at once, whichever are
asked: there are two numbers, whatever their number. Cutting an answer at 0 brings it nearer to what is not below 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from math import floor, inf
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from releases.engine.domain.privacy import ApproxDP, PrivacyBudget
from releases.engine.domain.schema import Schema
from releases.engine.estimation.components import exact_answers
from releases.engine.mechanisms.base import (
    ROWS,
    Consistency,
    Mechanism,
    Option,
    Plan,
    PlanRequest,
    infeasible,
    mechanism,
    register,
    too_many_cells,
)
from releases.engine.mechanisms.budget_split import ACCOUNTING, BY_RHO, Allowance
from releases.engine.mechanisms.error_certificate import Certificate
from releases.engine.mechanisms.live.listed import (
    START,
    ListedPlan,
    StartPurchase,
    budget_of_start,
    with_priced_answers,
)
from releases.engine.mechanisms.marginal_fit.common import TOO_NOISY, refused_noise
from releases.engine.mechanisms.marginal_fit.mechanism import MarginalFit, MarginalFitPlan
from releases.engine.mechanisms.mixture_fit import MixtureFit, MixtureFitPlan
from releases.engine.mechanisms.pmw.online import POPULATION, QUESTIONS, SessionSetting
from releases.engine.noise.randomness import Randomness
from releases.engine.tables.counts import Counts
from releases.engine.workload.queries import Count, Marginal, Workload, unweighted

#: What measuring the largest error of its answers takes of what the fit may spend, in percent; and what measuring that
#: of their sums takes of the share before it.
_MEASURED, _SUMS_MEASURED = 10, Fraction(1, 10)
#: Shares of what the number of rows leaves of beta: priced answers, answers of the fit, sums of them.
_PRICED, _FITTED, _SUMS = Fraction(1, 2), Fraction(1, 4), Fraction(1, 4)
#: Of an answer that is rounded to whole rows.
_VARIANCE_OF_ROUNDING = 1 / 12


@dataclass(frozen=True, kw_only=True)
class FitPurchase(StartPurchase):
    """Answers of a fit. Public, as `largest` and `largest_sum` are once they were bought.

    Attributes:
        plan: of the fit.
        sums: how the largest error of a sum of cells of one table is measured.
        largest: what every answer to the list is within; None before the session is opened.
        largest_sum: what every sum of cells of one of its tables is within; None likewise.
    """

    plan: MarginalFitPlan | MixtureFitPlan
    sums: Certificate
    largest: float | None = None
    largest_sum: float | None = None

    @property
    def half_widths(self) -> tuple[float, ...]:
        return (inf if self.largest is None else self.largest,) * len(self.workload.families)

    @property
    def variances(self) -> Sequence[float]:
        return (_VARIANCE_OF_ROUNDING,) * len(self.workload.families)

    def buy(self, counts: Counts, rng: Randomness) -> NDArray[np.float64]:
        """The answers, then what is known of them: whole numbers, as an error in whole rows is one."""
        result = self.plan.run(counts, rng=rng)
        exact = exact_answers(self.workload, counts)
        worst = largest_sum(self.workload, result.estimates, exact)
        measured = floor(result.bound.alpha), floor(self.sums.proves(worst, rng))
        return np.concatenate([*result.estimates, np.array(measured, dtype=np.float64)])

    def known(self, bought: NDArray[np.float64]) -> StartPurchase:
        return replace(self, largest=float(bought[-2]), largest_sum=float(bought[-1]))

    def expected_error(self, query: Count) -> None:
        """Of a fit it depends on the table."""

    def _width(self, query: Count, place: int) -> float | None:
        if self.largest is None or self.largest_sum is None:
            return None
        family = self.workload.families[place]
        one_by_one = self._cells(query, family) * self.largest
        return min(one_by_one, self.largest_sum) if isinstance(family, Marginal) else one_by_one


class _FitOfRho(MarginalFit):
    """The same, that spends rho wherever there is a delta: all of the epsilon that a share of rho is worth by itself
    would be more than that share."""

    takes_epsilon = False


def largest_sum(workload: Workload, released: Sequence[NDArray[np.float64]], exact: Sequence[NDArray[np.int64]]) -> int:
    """S at the head of this file; 0 where the list has no tables.

    Args:
        released: whole numbers, of each family of the workload.
    """
    families = zip(workload.families, released, exact, strict=True)
    errors = [one - other for family, one, other in families if isinstance(family, Marginal)]
    return max((int(np.abs(each[each * sign > 0].sum())) for each in errors for sign in (1, -1)), default=0)


@register
class FittedOnline(Mechanism):
    name: ClassVar[str] = "fitted-online"
    title: ClassVar[str] = "A fit at the start, then noise on each answer, live"
    summary: ClassVar[str] = (
        "Fits one distribution to noisy tables when the session is opened, measures how far it is off, and answers for "
        "nothing what it knows closely enough; other questions get noise of their own."
    )
    source: ClassVar[str] = (
        "Dwork and Roth (2014), Theorem 3.6, for the largest error as one query; Canonne, Kamath and Steinke (2020), "
        "Theorem 4; Feldman and Zrnic (2021)"
    )
    options: ClassVar[tuple[Option, ...]] = (ROWS, QUESTIONS, POPULATION, START)
    consistency: ClassVar[Consistency | None] = Consistency.OWN_NOISE
    drops_impossible = True
    is_offered = False

    def _plan(self, request: PlanRequest) -> Plan:
        if (refusal := too_many_cells(request, request.schema.universe, bytes_each=24)) is not None:
            return refusal
        ways = [False, True] if isinstance(request.budget, ApproxDP) else [False]
        found = [_planned(request, is_concentrated=each) for each in ways]
        plans = [each for each in found if isinstance(each, ListedPlan)]
        return min(plans, key=lambda each: each.rules.half_width, default=found[0])


def _planned(request: PlanRequest, *, is_concentrated: bool) -> Plan:
    """The plan with all of a budget's epsilon, or with its rho."""
    asked, share = request.counts_asked, Fraction(request.options["start"], 100)
    workload = replace(asked, families=tuple(map(unweighted, asked.families)))
    setting = SessionSetting.of(request, questions=request.options["questions"] or 1, is_concentrated=is_concentrated)
    left = Fraction(setting.beta_of_answers)
    budget = budget_of_start(setting, share * (1 - _SUMS_MEASURED))
    if budget is None:
        return infeasible(request, TOO_NOISY)
    fits = _fits(request.schema, workload, budget, left * _FITTED)
    fit = _closer(*fits, rows=setting.expected_rows)
    if not isinstance(fit, MarginalFitPlan | MixtureFitPlan):
        return infeasible(request, fit.infeasible)
    whole = setting.rho if is_concentrated else setting.epsilon
    allowance = Allowance(amount=whole, is_pure=not is_concentrated).share(share * _SUMS_MEASURED)
    sums = Certificate.of(allowance, schema=request.schema, beta=left * _SUMS)
    if (refusal := refused_noise(request, [sums.noise])) is not None:
        return refusal
    return with_priced_answers(
        request,
        setting,
        FitPurchase(plan=fit, sums=sums),
        bought=(*fit.events, sums.noise.event),
        beta=float(left * _PRICED),
        known=None,
        parameters={
            "the fit is made by": mechanism(fit.mechanism).title,
            **fit.parameters,
            "noise can add to what a sum of its cells is within, at most": request.schema.counted.text(
                2 * floor(sums.tail)
            ),
        },
        bytes_beside=workload.size * 24,
    )


@lru_cache(maxsize=64)
def _fits(schema: Schema, workload: Workload, budget: PrivacyBudget, beta: Fraction) -> tuple[Plan, Plan]:
    fit, mixture = (
        each.plan(schema, workload, budget=budget, beta=beta, options={"measure": _MEASURED, ACCOUNTING.name: BY_RHO})
        for each in (_FitOfRho(), mechanism(MixtureFit.name))
    )
    return fit, mixture


def _closer(fit: Plan, mixture: Plan, *, rows: int) -> Plan:
    """The fit that is closer for about so many rows; of those that cannot be run the first."""
    is_taken = fit.suits(rows) if isinstance(fit, MarginalFitPlan) else bool(mixture.infeasible)
    return fit if is_taken else mixture
