"""Plain noise on each answer of a session, each at a price of its own: as close as its asker needs, and no closer.

What the number of rows leaves of the budget, an epsilon or a rho, is cut into `PARTS` parts. An answer that takes j of
them is the exact count with noise of j parts: discrete Laplace of scale g/(ε j/PARTS), or discrete Gaussian of variance
g²/(2ρ j/PARTS), for a unit of g rows. Of a question nothing is asked that has taken more than the parts that are left.

**Privacy.** One unit moves a count by g at most under either neighbouring relation, so an answer of j parts is
(ε j/PARTS)-DP (Dwork and Roth 2014, Theorem 3.6), or (ρ j/PARTS)-zCDP (Canonne, Kamath and Steinke 2020, Theorem 4).
Question and j are functions of the answers before, and the parts of all answers never add up to more than `PARTS`. So

    ε   The likelihood ratio of a transcript on two neighbouring tables is the product of those of its answers, each
        given the answers before: at most e^(ε Σ j/PARTS) <= e^ε.
    ρ   For an order a, E[(product of the ratios)^(a-1)] over the first table: multiplied by e^(-a (a-1) ρ Σ j/PARTS) it
        is 1 before the first answer, and no answer makes its expectation larger given those before, as its noise is
        ρ j/PARTS-zCDP and j is known by then. At the end Σ j/PARTS <= 1, so the divergence is at most a ρ for every
        a > 1 (Feldman and Zrnic 2021; Whitehouse, Ramdas, Rogers and Wu 2023).

**Accuracy.** Each of the at most k answers has noise that is drawn after its question was chosen, whatever that is, and
leaves its half width with probability at most 1 - (1 - β)^(1/k). So all of them keep theirs with probability
(1 - (1 - (1 - β)^(1/k)))^k = 1 - β, though questions and half widths depend on earlier answers: given all that came
before, each answer keeps its own with that probability. Answers need nothing about the number of rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

from releases.engine.accounting.events import ConcentratedEvent, PureEvent
from releases.engine.bounds.accuracy import Bound, Proof
from releases.engine.domain.privacy import ApproxDP, decimal_text
from releases.engine.errors import InvalidInput
from releases.engine.mechanisms.additive_noise import GaussianNoise, LaplaceNoise
from releases.engine.mechanisms.base import (
    ROWS,
    Consistency,
    Mechanism,
    Option,
    Plan,
    PlanRequest,
    Work,
    register,
    too_many_cells,
)
from releases.engine.mechanisms.pmw.online import POPULATION, QUESTIONS, OnlinePlan, Opened, SessionSetting
from releases.engine.mechanisms.pmw.session import AnswerKind, AnswerPrice, Exchange, Rules, SessionUnderWay, Truth
from releases.engine.noise.randomness import Randomness
from releases.engine.tables.counts import Counts
from releases.engine.workload.queries import Count

#: Parts that a session's budget is cut into.
PARTS = 10**9


@dataclass(frozen=True, kw_only=True, slots=True)
class NoiseRules(Rules):
    """The public parameters of a session with plain noise.

    Attributes:
        whole: the noise of all parts on one answer.
        beta: the probability that any answer leaves its half width.
        usual_parts: what an answer takes where its asker says nothing: a k-th of all.
    """

    questions: int
    whole: LaplaceNoise | GaussianNoise
    beta: float
    usual_parts: int

    def are_settled(self, *, updates_left: int, cells: int, rows: float) -> bool:
        return updates_left > 0

    def noise(self, parts: int) -> LaplaceNoise | GaussianNoise:
        """What is added to an answer that takes so many parts."""
        share = Fraction(parts, PARTS)
        if isinstance(self.whole, LaplaceNoise):
            return LaplaceNoise(epsilon=self.whole.epsilon * share, l1_sensitivity=self.whole.l1_sensitivity)
        return GaussianNoise(rho=self.whole.rho * share, l2_sensitivity_squared=self.whole.l2_sensitivity_squared)

    def half_width_of(self, parts: int) -> int:
        """What an answer of so many parts is within, all at once."""
        return int(self.noise(parts).largest(count=self.questions, beta=self.beta))


@lru_cache(maxsize=4096)
def parts_within(rules: NoiseRules, within: int) -> int | None:
    """The fewest parts of which an answer is within so many rows; None where all are too few.

    Fewer parts never make an answer closer.
    """
    if rules.half_width_of(PARTS) > within:
        return None
    low, high = 0, PARTS
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if rules.half_width_of(middle) <= within else (middle, high)
    return high


@dataclass(kw_only=True)
class NoiseSession(SessionUnderWay):
    """Every answer is measured."""

    rules: NoiseRules

    @property
    def questions_left(self) -> int | None:
        """Of those that are measured."""
        return self.updates_left

    @property
    def parts_left(self) -> int:
        return PARTS - sum(each.parts for each in self.exchanges)

    @property
    def is_settled(self) -> bool:
        return super().is_settled and self.parts_left > 0

    def _offered(self, query: Count, within: int | None) -> AnswerPrice:
        parts = self.rules.usual_parts if within is None else parts_within(self.rules, within)
        if parts is None:
            closest = self.rules.half_width_of(PARTS)
            raise InvalidInput(
                "within", within, f"must be at least {closest:,}, the closest that all of the session is"
            )
        if parts > self.parts_left:
            width = self.rules.paid_half_width if within is None else within
            raise InvalidInput("within", f"{width:,.0f}", f"must be larger: {self._left()}")
        return AnswerPrice(half_width=float(self.rules.half_width_of(parts)), parts=parts)

    def _left(self) -> str:
        left = self.parts_left
        if left < 1:
            return "nothing of the session's budget is left"
        return f"what is left of the session answers within {self.rules.half_width_of(left):,} at best"

    def _answer(self, query: Count, truth: Truth, price: AnswerPrice, rng: Randomness) -> Exchange:
        # First, so that noise too wide to be drawn is refused before the table is read.
        noise = int(self.rules.noise(price.parts).draw(1, rng)[0])
        return Exchange(
            query=query,
            kind=AnswerKind.MEASURED,
            estimate=max(0, truth(query) + noise),
            half_width=price.half_width,
            parts=price.parts,
        )


@dataclass(frozen=True, kw_only=True)
class NoisePlan(OnlinePlan):
    """A session with plain noise. Opening touches the data for the total alone."""

    rules: NoiseRules

    def expected_error(self, query: Count) -> float:
        return self.rules.noise(self.rules.usual_parts).mean(count=1)

    def _open(self, counts: Counts, total: int, total_half_width: float, rng: Randomness) -> SessionUnderWay:
        return self.resumed(Opened(total=total, total_half_width=total_half_width), [])

    def resumed(self, stored: Opened, exchanges: list[Exchange]) -> SessionUnderWay:
        return NoiseSession(
            universe=self.schema.universe,
            rules=self.rules,
            total=stored.total,
            total_half_width=stored.total_half_width,
            exchanges=exchanges,
        )


@register
class NoiseOnline(Mechanism):
    name: ClassVar[str] = "noise-online"
    title: ClassVar[str] = "Noise on each answer, live"
    summary: ClassVar[str] = "Answers questions one at a time, each with noise of its own, as close as its asker needs."
    source: ClassVar[str] = (
        "Dwork and Roth (2014), Theorem 3.6; Canonne, Kamath and Steinke (2020), Theorem 4; Feldman and Zrnic (2021)"
    )
    options: ClassVar[tuple[Option, ...]] = (ROWS, QUESTIONS, POPULATION)
    consistency: ClassVar[Consistency | None] = Consistency.OWN_NOISE
    drops_impossible = True
    is_offered = False

    def _plan(self, request: PlanRequest) -> Plan:
        universe = request.schema.universe
        if (refusal := too_many_cells(request, universe, bytes_each=24)) is not None:
            return refusal
        workload = request.counts_asked
        questions = max(request.options["questions"] or 0, workload.size)
        ways = [False, True] if isinstance(request.budget, ApproxDP) else [False]
        settings = [SessionSetting.of(request, questions=questions, is_concentrated=each) for each in ways]
        plans = [(setting, noise_rules(setting, beta=setting.beta_of_answers)) for setting in settings]
        setting, rules = min(plans, key=lambda each: each[1].half_width)
        event = (
            PureEvent(epsilon=rules.whole.epsilon)
            if isinstance(rules.whole, LaplaceNoise)
            else ConcentratedEvent(rho=rules.whole.rho)
        )
        return NoisePlan(
            **request.inputs(),
            rules=rules,
            total_noise=setting.total_noise,
            events=setting.with_total(event),
            parameters={
                "questions": f"{questions:,}",
                "answers, together": f"{'epsilon' if isinstance(event, PureEvent) else 'rho'} "
                f"{decimal_text(event.epsilon if isinstance(event, PureEvent) else event.rho)}",
            },
            expectation=Bound(
                beta=request.beta,
                half_widths=(rules.half_width,) * len(workload.families),
                proof=Proof.BEFORE,
                formula=FORMULA,
                source=self.source,
            ),
            work=Work(
                cells=universe.size, seconds=0.5 + universe.size * 4e-8 + questions * 7e-5, bytes=universe.size * 24
            ),
        )


FORMULA = r"\alpha = \min\left\{w : \Pr\left[|X| > w\right] \le 1 - (1 - \beta)^{1/k}\right\}"


def noise_rules(setting: SessionSetting, *, beta: float) -> NoiseRules:
    """The rules of answers that have all of a setting's budget.

    Args:
        beta: the probability that any leaves its half width.
    """
    rows = setting.rows_a_unit
    whole: LaplaceNoise | GaussianNoise = (
        GaussianNoise(rho=setting.rho, l2_sensitivity_squared=rows * rows)
        if setting.is_concentrated
        else LaplaceNoise(epsilon=setting.epsilon, l1_sensitivity=rows)
    )
    usual = PARTS // setting.questions
    rules = NoiseRules(
        updates=setting.questions,
        questions=setting.questions,
        public_half_width=0.0,
        paid_half_width=0.0,
        whole=whole,
        beta=beta,
        usual_parts=usual,
    )
    return replace(rules, paid_half_width=float(rules.half_width_of(usual)))
