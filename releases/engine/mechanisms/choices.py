"""What `exponential-choice`, `noisy-max-choice` and `permute-and-flip-choice` share: the best of several counts.

The candidates are the bins of one column (`MostCommon`), or predicates of which a row may meet any number
(`LargestCount`); the score of a candidate is its count.

Sensitivity. A privacy unit has at most g rows (`PrivacyUnit.max_rows`), and a row counts 0 or 1 towards a candidate.

*   Add or remove: the unit's rows come or go together, so every count moves by 0 ... g, all the same way. Scores are
    monotone: the exponent may be epsilon * count / g, and noise of scale g / epsilon is enough (Dwork and Roth 2014,
    Claim 3.9; McKenna and Sheldon 2020, section 2).
*   Replace: g rows go and g others come, and a row that a declared rule drops comes or goes alone. Every count moves
    by -g ... g, some up and some down, so the halving is not to be had: epsilon * count / (2 g), scale 2 g / epsilon.
    Claim 3.9 as printed does not name its relation; under replacing it is false (a test shows the loss).

The k most common are chosen one after the other, each among those that are left ("peeling"; Durfee and Rogers 2019):
k choices of epsilon_0 each, in sequence. A pure budget gives epsilon_0 = epsilon / k; an approximate one the larger of
that and what k times the choice's rho leaves of the budget's. A bounded range has rho epsilon_0^2 / 8, four times less
than what is proved of the others (`accountant`).

`exponential-choice`. The most common value, or the largest of several counts, by the exponential mechanism.

Chosen with probability proportional to exp(lambda * count), lambda = epsilon / (2 g) or, where all counts move the same
way, epsilon / g (see `choices` for g and for when that is): epsilon-DP by McSherry and Talwar (2007), Theorem 6, and
Dwork and Roth (2014), Theorem 3.10. The log ratio of the probabilities of two neighbours lies in an interval of length
epsilon: lambda times the counts' changes lie in one, and the normaliser shifts all alike. So it is a bounded range
(Durfee and Rogers 2019), which composes better than epsilon-DP does.

Accuracy: with m candidates, alpha rows or fewer are missed but for at most beta, where alpha is the least number with
(m - 1) exp(-lambda (alpha + 1)) / (1 + (m - 1) exp(-lambda (alpha + 1))) <= beta. It is reached when one candidate has
alpha + 1 rows more than all others, so no smaller number is true of every table. Dwork and Roth's Corollary 3.12 gives
(2 g / epsilon) ln(m / beta), which sums where this divides.

`noisy-max-choice`. The most common value, or the largest of several counts, by report-noisy-max.

Discrete Laplace noise of scale 2 g / epsilon on every count, or of g / epsilon where all counts move the same way (see
`choices`); the largest wins, ties broken evenly, and nothing but its name is told. epsilon-DP: Dwork and Roth (2014),
Claim 3.9, which is stated with scale 1 / epsilon and proved for counts when a row is added or removed; between tables
that replace a row it needs the factor 2. That the noise is whole, and that numbers tie, costs nothing
(`selection.report_noisy_max`). The noise does not grow with how many candidates a row counts for: noise on a histogram
of m overlapping counts would have scale m / epsilon.

Accuracy: alpha is the least number for which the exact probability of missing by more, over the worst table, is at most
beta (`selection_error.noisy_max_miss`).

`permute-and-flip-choice`. The most common value, or the largest of several counts, by permute-and-flip.

Candidates in random order each toss a coin that comes up with probability exp(lambda (count - largest)), and the first
whose coin does is chosen; lambda = epsilon / (2 g), or epsilon / g where all counts move the same way (see `choices`).
epsilon-DP and never worse than the exponential mechanism, in expectation and in every tail: McKenna and Sheldon (2020),
Theorems 1 and 2. It has the law of report-noisy-max with exponential noise (Ding et al. 2021); Dwork and Roth (2014),
Theorem 3.13, say that this is the exponential mechanism, which is a slip: that takes Gumbel noise.

Accuracy: with m candidates and q = exp(-lambda (alpha + 1)), alpha is the least number with
1 - (1 - (1 - q)^m) / (m q) <= beta. It is reached when one candidate has alpha + 1 rows more than all others; about
half of what the exponential mechanism then misses.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from releases.engine.accounting.accountant import forms
from releases.engine.accounting.calibration import zcdp_budget
from releases.engine.accounting.events import (
    Event,
    ExponentialMechanismEvent,
    PermuteAndFlipEvent,
    RepeatedEvent,
    ReportNoisyMaxEvent,
)
from releases.engine.bounds.accuracy import Bound, Proof
from releases.engine.bounds.selection_error import (
    exponential_miss,
    least_alpha,
    noisy_max_miss,
    permute_and_flip_miss,
    share_of_each,
)
from releases.engine.domain.counted import Counted
from releases.engine.domain.privacy import LARGEST_EPSILON, ApproxDP, NeighbouringRelation, PrivacyBudget, decimal_text
from releases.engine.domain.schema import Schema
from releases.engine.domain.universe import Universe
from releases.engine.estimation.result import Result
from releases.engine.mechanisms.base import (
    InfeasiblePlan,
    Mechanism,
    Plan,
    PlanRequest,
    Progress,
    Work,
    infeasible,
    register,
)
from releases.engine.noise.discrete import LARGEST_SCALE
from releases.engine.noise.randomness import Randomness
from releases.engine.noise.selection import exponential_mechanism, permute_and_flip, report_noisy_max
from releases.engine.tables.counts import MAX_DENSE_CELLS, Counts
from releases.engine.workload.kinds.largest_count import LargestCount
from releases.engine.workload.kinds.most_common import MostCommon
from releases.engine.workload.queries import Count
from releases.engine.workload.questions import Inquiry
from releases.engine.workload.statistic import Statistic

#: One candidate of a `LargestCount`, or one question of a `Threshold`.
Predicate = tuple[tuple[str, ...], tuple[tuple[int, ...], ...]]
#: Digits after the point of an epsilon that is found by search.
_EPSILON_PLACES = 9
#: Said where noise would pass 64 bits.
TOO_MUCH_NOISE = "Its epsilon is so small that the noise would be larger than any table."


def score_sensitivity(schema: Schema) -> tuple[int, bool]:
    """The most a count of rows moves between neighbours, and whether all counts move the same way."""
    return schema.rows_of_unit, schema.neighbours is NeighbouringRelation.ADD_REMOVE


def epsilon_of_each(budget: PrivacyBudget, event: Callable[[Fraction], Event], *, rounds: int) -> Fraction:
    """The largest epsilon_0 such that `rounds` events of it, in sequence, stay within the budget.

    Exact for a pure budget; of an approximate one rounded down to 10**-9 where composition by rho gives more. With a
    large delta epsilon_0 may exceed the budget's epsilon even for a single event.
    """
    basic = budget.epsilon / rounds
    if not isinstance(budget, ApproxDP):
        return basic
    rho = zcdp_budget(epsilon=budget.epsilon, delta=budget.delta).rho / rounds
    scale = 10**_EPSILON_PLACES
    low, high = 0, LARGEST_EPSILON * scale
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if forms(event(Fraction(middle, scale))).rho <= rho else (low, middle - 1)
    return max(basic, Fraction(low, scale))


def labels_of(statistic: Statistic, universe: Universe) -> tuple[str, ...]:
    """How each candidate is named."""
    if isinstance(statistic, MostCommon):
        return universe[statistic.attributes[0]].labels
    assert isinstance(statistic, LargestCount)
    return tuple(Count(attributes=names, bins=bins).title(universe) for names, bins in statistic.predicates)


def scores_of(statistic: Statistic, counts: Counts) -> NDArray[np.int64]:
    """The exact count of each candidate, shape (candidates,)."""
    if isinstance(statistic, MostCommon):
        return counts.marginal(statistic.attributes).reshape(-1)
    assert isinstance(statistic, LargestCount)
    return predicate_counts(statistic.predicates, counts)


def predicate_counts(predicates: Sequence[Predicate], counts: Counts) -> NDArray[np.int64]:
    """How many rows meet each predicate, shape (predicates,). Each marginal is counted once and let go."""
    met = np.zeros(len(predicates), dtype=np.int64)
    for names in dict.fromkeys(names for names, _ in predicates):
        table = counts.marginal(names)
        for index, (used, bins) in enumerate(predicates):
            if used == names:
                met[index] = Count(attributes=names, bins=bins).answer(table)[0]
    return met


def uncountable(request: PlanRequest, predicates: Sequence[Predicate]) -> InfeasiblePlan | None:
    """The refusal where a predicate is over too many columns to be counted."""
    universe = request.schema.universe
    for place, (names, _) in enumerate(predicates, start=1):
        cells = universe.project(names).size
        if cells > MAX_DENSE_CELLS:
            return infeasible(
                request,
                f"Its predicate {place} is over columns that have {cells:,} cells together, and the most that can be "
                f"counted is {MAX_DENSE_CELLS:,}.",
            )
    return None


@dataclass(frozen=True, kw_only=True)
class ChoicePlan(Plan):
    """Choose the candidate of the largest count, or k of them one after the other.

    Attributes:
        epsilon: of each choice.
        sensitivity: the most a count moves between neighbours.
        monotone: whether all counts move the same way.
    """

    epsilon: Fraction
    sensitivity: int
    monotone: bool

    @abstractmethod
    def _select(self, scores: NDArray[np.int64], rng: Randomness) -> int:
        """The index of one score, epsilon-DP for scores of this sensitivity."""

    def _run(self, counts: Counts, rng: Randomness, progress: Progress) -> Result:
        """Estimates are zeros: a choice measures nothing, and what it chose stands in `chosen`."""
        progress("Counting the table", 0.0)
        statistic = statistic_of(self)
        labels, scores = labels_of(statistic, self.schema.universe), scores_of(statistic, counts)
        rounds = rounds_of(statistic)
        left = np.arange(scores.size)
        chosen = []
        for place in range(rounds):
            progress("Choosing", 0.5 + 0.5 * place / rounds)
            index = self._select(scores[left], rng)
            chosen.append(labels[left[index]])
            left = np.delete(left, index)
        assert self.bound is not None
        return Result(estimates=(np.zeros(rounds),), bound=self.bound, total=0.0, chosen=tuple(chosen))


def statistic_of(plan: Plan) -> Statistic:
    """The statistic a plan answers."""
    assert isinstance(plan.workload, Inquiry)
    return plan.workload.statistic


def rounds_of(statistic: Statistic) -> int:
    """How many are to be chosen."""
    return statistic.k if isinstance(statistic, MostCommon) else 1


def candidates_of(statistic: Statistic, universe: Universe) -> int:
    """Among how many."""
    if isinstance(statistic, MostCommon):
        return universe[statistic.attributes[0]].size
    assert isinstance(statistic, LargestCount)
    return len(statistic.predicates)


def plan_choice(
    request: PlanRequest,
    plan: type[ChoicePlan],
    *,
    event: Callable[[Fraction], Event],
    miss: Callable[[int, float, int, float], float],
    formula: str,
    source: str,
) -> Plan:
    """Plan k choices of one kind.

    Args:
        event: one choice of this epsilon.
        miss: from the number of candidates, the factor of the score in the exponent (or 1 / scale), a gap and a small
            probability that may be left out: the greatest probability, over all tables, that the chosen count is that
            gap or more below the largest.
        formula: of the least alpha, in LaTeX.
    """
    statistic, universe = request.statistic, request.schema.universe
    candidates, rounds = candidates_of(statistic, universe), rounds_of(statistic)
    sensitivity, monotone = score_sensitivity(request.schema)
    epsilon = epsilon_of_each(request.budget, event, rounds=rounds)
    rate = epsilon / (sensitivity if monotone else 2 * sensitivity)
    if refused := _refusal(request, candidates, 1 / rate):
        return refused
    beta = share_of_each(float(request.beta), rounds=rounds)
    alpha = least_alpha(lambda off: miss(candidates, float(rate), off + 1, beta * 1e-9), beta=beta)
    bound = Bound(
        beta=request.beta,
        half_widths=(float(alpha),),
        proof=Proof.BEFORE,
        formula=formula,
        source=source,
        says=_says(statistic, alpha, request.schema.counted),
    )
    once = event(epsilon)
    return plan(
        **request.inputs(),
        epsilon=epsilon,
        sensitivity=sensitivity,
        monotone=monotone,
        events=(once if rounds == 1 else RepeatedEvent(event=once, times=rounds),),
        parameters={
            "candidates": f"{candidates:,}",
            "choices": f"{rounds:,}",
            "epsilon of each choice": decimal_text(epsilon),
            "sensitivity of a count": str(sensitivity),
            f"scale, in {request.schema.counted.many}": decimal_text(1 / rate),
        },
        bound=bound,
        work=Work(cells=candidates, seconds=0.2 + rounds * (1e-3 + candidates * 1e-7), bytes=candidates * 100),
    )


def _refusal(request: PlanRequest, candidates: int, scale: Fraction) -> InfeasiblePlan | None:
    if candidates == 1:
        return infeasible(request, "There is a single candidate, so nothing is to be chosen.")
    if scale > LARGEST_SCALE:
        return infeasible(request, TOO_MUCH_NOISE)
    statistic = request.statistic
    return uncountable(request, statistic.predicates) if isinstance(statistic, LargestCount) else None


def _says(statistic: Statistic, alpha: int, counted: Counted) -> str:
    """What alpha bounds, in words. Being within 0 of the largest is being the largest."""
    some, rows = counted.text(alpha), counted.many
    if isinstance(statistic, LargestCount):
        return (
            f"at most {some} fewer meet the predicate named than the one that most {rows} meet."
            if alpha
            else f"the predicate named is one that most {rows} meet."
        )
    assert isinstance(statistic, MostCommon)
    if statistic.k == 1:
        return (
            f"at most {some} fewer have the value named than the most common one."
            if alpha
            else "the value named is a most common one."
        )
    return (
        f"in each of the {statistic.k:,} places, all at once, at most {some} fewer have the value named than any value "
        f"not named above it; so at most {some} fewer than the value that truly belongs in that place."
        if alpha
        else f"the {statistic.k:,} values named are the most common ones, in their true order, except for ties."
    )


@register
class ExponentialChoice(Mechanism):
    name = "exponential-choice"
    title = "Exponential mechanism on counts"
    summary = "Chooses a value with a probability that grows with its count; best when several are to be chosen."
    source = "McSherry and Talwar, Mechanism Design via Differential Privacy (2007), Theorem 6"
    options = ()
    answers = (MostCommon, LargestCount)

    def _plan(self, request: PlanRequest) -> Plan:
        return plan_choice(
            request,
            ExponentialChoicePlan,
            event=lambda epsilon: ExponentialMechanismEvent(epsilon=epsilon),
            miss=lambda candidates, rate, gap, left_out: exponential_miss(candidates=candidates, rate=rate, gap=gap),
            formula=r"\alpha = \left\lceil \frac{1}{\lambda} \ln \frac{(m - 1)(1 - \beta_k)}{\beta_k} \right\rceil - 1,"
            r"\quad \lambda = \frac{\varepsilon_0}{2 \Delta} \text{ or } \frac{\varepsilon_0}{\Delta},"
            r"\quad \beta_k = 1 - (1 - \beta)^{1/k}",
            source="Derived; sharpens Dwork and Roth (2014), Corollary 3.12",
        )


class ExponentialChoicePlan(ChoicePlan):
    def _select(self, scores: NDArray[np.int64], rng: Randomness) -> int:
        return exponential_mechanism(
            scores, epsilon=self.epsilon, sensitivity=Fraction(self.sensitivity), monotone=self.monotone, rng=rng
        )


@register
class NoisyMaxChoice(Mechanism):
    name = "noisy-max-choice"
    title = "Report noisy max"
    summary = "Adds noise to every count and names the largest; the textbook way, beaten by permute-and-flip."
    source = "Dwork and Roth, The Algorithmic Foundations of Differential Privacy (2014), Claim 3.9"
    options = ()
    answers = (MostCommon, LargestCount)

    def _plan(self, request: PlanRequest) -> Plan:
        return plan_choice(
            request,
            NoisyMaxChoicePlan,
            event=lambda epsilon: ReportNoisyMaxEvent(epsilon=epsilon),
            miss=lambda candidates, rate, gap, left_out: noisy_max_miss(
                candidates=candidates, scale=1 / rate, gap=gap, left_out=left_out
            ),
            formula=r"\alpha = \min\left\{a : \Pr\left[\max_{1 < i \le m} X_i - X_1 > a\right] \le \beta_k\right\},"
            r"\quad X_i \sim \mathrm{Lap}\left(\frac{2 \Delta}{\varepsilon_0} \text{ or }"
            r" \frac{\Delta}{\varepsilon_0}\right), \quad \beta_k = 1 - (1 - \beta)^{1/k}",
            source="Derived; the exact law over the worst table",
        )


class NoisyMaxChoicePlan(ChoicePlan):
    def _select(self, scores: NDArray[np.int64], rng: Randomness) -> int:
        return report_noisy_max(
            scores, epsilon=self.epsilon, sensitivity=Fraction(self.sensitivity), monotone=self.monotone, rng=rng
        )


@register
class PermuteAndFlipChoice(Mechanism):
    name = "permute-and-flip-choice"
    title = "Permute and flip"
    summary = "Chooses a value with a probability that grows with its count; never misses more than the others."
    source = "McKenna and Sheldon, Permute-and-Flip (2020), Theorems 1 and 2"
    options = ()
    answers = (MostCommon, LargestCount)

    def _plan(self, request: PlanRequest) -> Plan:
        return plan_choice(
            request,
            PermuteAndFlipChoicePlan,
            event=lambda epsilon: PermuteAndFlipEvent(epsilon=epsilon),
            miss=lambda candidates, rate, gap, left_out: permute_and_flip_miss(
                candidates=candidates, rate=rate, gap=gap
            ),
            formula=r"\alpha = \min\left\{a : 1 - \frac{1 - (1 - q_a)^m}{m q_a} \le \beta_k\right\},"
            r"\quad q_a = e^{-\lambda (a + 1)},"
            r"\quad \lambda = \frac{\varepsilon_0}{2 \Delta} \text{ or } \frac{\varepsilon_0}{\Delta},"
            r"\quad \beta_k = 1 - (1 - \beta)^{1/k}",
            source="Derived; the exact law over the worst table",
        )


class PermuteAndFlipChoicePlan(ChoicePlan):
    def _select(self, scores: NDArray[np.int64], rng: Randomness) -> int:
        return permute_and_flip(
            scores, epsilon=self.epsilon, sensitivity=Fraction(self.sensitivity), monotone=self.monotone, rng=rng
        )
