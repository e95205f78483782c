"""Private multiplicative weights for questions that arrive one at a time (Hardt and Rothblum 2010).

Plans a `SessionUnderWay` (``engine/mechanisms/pmw/session.py``): c paid updates reserved up front, k questions in all.
Run on a workload, it asks every answer of it in order, as an analyst would.

**Privacy.** Neighbours change a count by Δ = 1 (a person's rows: by as many) and nothing else the session compares, for
the estimate it is compared with is public. The session is therefore: one noisy total (free where the total is public),
and a sparse vector over the pairs of queries f(D) - e >= T, e - f(D) >= T for adaptively chosen public e, with c
answers, each followed by a noisy count. Pure: Lyu, Su and Li (2017), Algorithm 1, with noise Lap(Δ/ε1) on the threshold
once, Lap(2cΔ/ε2) on each comparison and Lap(cΔ/ε3) on each paid count: (ε1 + ε2 + ε3)-DP. The proof shifts the
threshold's noise by Δ and the noise of each of the c comparisons that pass by 2Δ, whole numbers, so it holds for
discrete Laplace noise and whole thresholds as it stands. With a delta: c times AboveThreshold, each pure, with its
threshold drawn again, and c discrete Gaussian counts, adding up in ρ.

**Accuracy.** Let A bound the threshold's noise, B every comparison's, V every paid answer's, τ the total's, all at once
at 1 - β. Not passing means |f(D) - ñf(h)| < T + A + B: that is the half width of an answer from the public state.
Passing means |f(D) - ñf(h)| >= T - A - B in the direction found, so f is off by that much less τ in the true
direction: gap = T - A - B - τ rows. Write p = D/n. A step exp(η s f) on h lowers KL(p || h) by at least
η gap/n - η²/8 (Hoeffding's lemma for f in [0, 1]), which at η = 4 gap/m, m >= n, is 2 (gap/m)² or more. As
KL(p || uniform) <= ln|X| and KL >= 0, at most ln|X| m²/(2 gap²) updates happen: 8 times fewer than in Dwork and Roth
(2014), Theorem 4.10, and the constant 32 of their Theorem 4.14 (a misprint for 36) does not arise. T is chosen such
that c updates suffice for a table of the size the curator expects; a larger one may end the session early, and loses no
privacy and no bound by it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from math import ceil, exp, floor, log, sqrt
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from releases.engine.accounting.calibration import zcdp_budget
from releases.engine.accounting.conversions import rho_of_pure
from releases.engine.accounting.events import Event, RepeatedEvent, SparseVectorEvent
from releases.engine.bounds.accuracy import Bound, Proof, gaussian_max_quantile, laplace_max_quantile
from releases.engine.domain.privacy import ApproxDP, PureDP, decimal_text
from releases.engine.domain.universe import Universe
from releases.engine.estimation.result import Result, whole_universe
from releases.engine.mechanisms.additive_noise import GaussianNoise, LaplaceNoise
from releases.engine.mechanisms.base import (
    ROWS,
    Consistency,
    Mechanism,
    Option,
    Plan,
    PlanRequest,
    Progress,
    Work,
    register,
    too_many_cells,
)
from releases.engine.mechanisms.pmw.session import (
    AnswerKind,
    Exchange,
    Rules,
    SessionOver,
    SessionUnderWay,
    UpdateRules,
    UpdateSession,
    draw_threshold,
    most_updates,
)
from releases.engine.noise.randomness import Randomness
from releases.engine.tables.counts import Counts, Histogram
from releases.engine.workload.queries import Count, Family, Marginal, Prefix, Workload

QUESTIONS = Option(
    name="questions",
    help="How many questions the session's bound should hold for; left empty, those of the workload.",
    lowest=1,
    highest=10_000_000,
)
POPULATION = Option(
    name="population",
    help="About how many rows the table has: a public guess, to choose parameters by; privacy needs none.",
    lowest=1,
    highest=10_000_000_000,
    default=10_000,
)
#: Shares of beta: the total, the threshold's noise, the comparisons' noise, the paid answers' noise.
_BETA = {"total": Fraction(1, 20), "threshold": Fraction(1, 20), "queries": Fraction(13, 20), "answers": Fraction(1, 4)}
#: Share of epsilon for the noisy total, where it is not public.
_TOTAL_SHARE = Fraction(1, 50)
#: How many updates are considered; more than a few thousand leave each too little budget to be of use.
_MAX_UPDATES = 4000


@register
class PrivateMultiplicativeWeightsOnline(Mechanism):
    name: ClassVar[str] = "pmw-online"
    title: ClassVar[str] = "Private multiplicative weights, live"
    summary: ClassVar[str] = (
        "Answers questions one at a time; those that what is public already answers well enough cost nothing more."
    )
    source: ClassVar[str] = (
        "Hardt and Rothblum (2010); Dwork and Roth (2014), Algorithm 6; Lyu, Su and Li (2017), Algorithm 1"
    )
    options: ClassVar[tuple[Option, ...]] = (
        ROWS,
        QUESTIONS,
        POPULATION,
        Option(
            name="updates",
            help="How many paid updates to reserve; left empty, the number with the best bound.",
            lowest=1,
            highest=_MAX_UPDATES,
        ),
    )
    consistency: ClassVar[Consistency | None] = Consistency.PAID_NOISE
    drops_impossible = True

    def _plan(self, request: PlanRequest) -> Plan:
        universe = request.schema.universe
        if (refusal := too_many_cells(request, universe, bytes_each=24)) is not None:
            return refusal
        workload = request.counts_asked
        questions = max(request.options["questions"] or 0, workload.size)
        setting = SessionSetting.of(request, questions=questions, is_concentrated=isinstance(request.budget, ApproxDP))
        # More updates than questions can never be used.
        reserved = request.options["updates"]
        candidates = [min(reserved, questions)] if reserved else _numbers_of_updates(questions)
        priced = min((_priced(setting, updates) for updates in candidates), key=lambda each: each.half_width)
        width = priced.half_width
        return UpdatePlan(
            **request.inputs(),
            rules=priced.rules,
            total_noise=setting.total_noise,
            events=priced.events,
            parameters={
                "updates reserved": str(priced.rules.updates),
                "questions": f"{questions:,}",
                "threshold": f"{priced.rules.threshold:,} {request.schema.counted.many}",
                "threshold noise scale": decimal_text(priced.rules.threshold_scale, places=6),
                "comparison noise scale": decimal_text(priced.rules.query_scale, places=6),
                f"expected {request.schema.counted.many}": f"{setting.expected_rows:,}",
            },
            expectation=Bound(
                beta=request.beta,
                half_widths=(width,) * len(workload.families),
                proof=Proof.ASSUMED,
                formula=_FORMULA,
                source=self.source,
            ),
            work=Work(
                cells=universe.size, seconds=0.5 + universe.size * 4e-8 + questions * 7e-5, bytes=universe.size * 24
            ),
        )


_FORMULA = (
    r"\alpha = T + A + B, \quad T = A + B + \tau + n\sqrt{\frac{\ln|X|}{2c}}, \quad"
    r" A = \frac{1}{\varepsilon_1}\ln\frac{1}{\beta_1},\ B = \frac{2c}{\varepsilon_2}\ln\frac{2k}{\beta_2}"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Opened:
    """What a session has from the data when it is opened, and is stored with it.

    Attributes:
        total, total_half_width, noisy_threshold: see `SessionUnderWay`.
        bought: of a session that buys something then: the noisy cells of its histogram, or the answers to its list, one
            after the other; else None.
    """

    total: int
    total_half_width: float
    noisy_threshold: int = 0
    bought: NDArray[np.float64] | NDArray[np.int64] | None = None


@dataclass(frozen=True, kw_only=True)
class OnlinePlan(Plan):
    """A session's plan.

    Attributes:
        rules: of the session.
        total_noise: on the number of rows; None where it is public.

    Class attributes:
        answers_at_start: whether it has answers to be released before any question is asked.
        bought_as: how the numbers that it buys then are stored.
    """

    answers_at_start: ClassVar[bool] = False
    bought_as: ClassVar[str] = "<i8"
    rules: Rules
    total_noise: LaplaceNoise | None

    def open(self, counts: Counts, *, rng: Randomness) -> SessionUnderWay:
        """Open the session on data: its charge has been made."""
        exact = int(counts.marginal(self.schema.universe.names[:1]).sum())
        total, width = exact, 0.0
        if self.total_noise is not None:
            total = max(1, exact + int(self.total_noise.draw(1, rng)[0]))
            width = total_half_width(self.total_noise, self.beta)
        return self._open(counts, total, width, rng)

    def half_width_of(self, query: Count) -> float:
        """What the answer to a question is within, where its asker says nothing."""
        return self.rules.half_width

    def expected_error(self, query: Count) -> float | None:
        """The mean error of the answer to a question, where its asker says nothing: that of its noise. None where it
        depends on the table."""
        return None

    @abstractmethod
    def _open(self, counts: Counts, total: int, total_half_width: float, rng: Randomness) -> SessionUnderWay: ...

    @abstractmethod
    def resumed(self, stored: Opened, exchanges: list[Exchange]) -> SessionUnderWay:
        """The session as its transcript leaves it."""

    def _run(self, counts: Counts, rng: Randomness, progress: Progress) -> Result:
        progress("Counting the table", 0.0)
        held = Histogram(universe=self.schema.universe, counts=counts.histogram())
        session = self.open(held, rng=rng)
        workload = self.counts_asked
        truth = ExactCounts(held)
        estimates, widths, asked = [], [], 0
        for family in workload.families:
            answers, width = [], 0.0
            for query in queries_of(family, workload):
                estimate, half_width = self._one(session, query, truth, rng)
                answers.append(float(estimate))
                width = max(width, half_width)
                asked += 1
                if asked % 500 == 0:
                    progress("Answering", 0.1 + 0.9 * asked / workload.size)
            estimates.append(np.asarray(answers))
            widths.append(width)
        assert self.expectation is not None
        return Result(
            estimates=tuple(estimates),
            bound=replace(self.expectation, half_widths=tuple(widths), proof=Proof.AFTER),
            total=float(session.total),
            distribution=whole_universe(self.schema.universe, session.to_agree()),
            notes={
                "updates used": self.rules.updates - session.updates_left,
                "answered for free": sum(each.kind is AnswerKind.PUBLIC for each in session.exchanges),
            },
        )

    def _one(self, session: SessionUnderWay, query: Count, truth: ExactCounts, rng: Randomness) -> tuple[int, float]:
        """An answer and its half width; when the session is over the public estimate, known to within the total."""
        try:
            exchange = session.ask(query, truth, rng=rng)
        except SessionOver:
            estimate = session.estimate(query)
            return estimate, float(max(estimate, session.total + session.total_half_width - estimate))
        return exchange.estimate, exchange.half_width


@dataclass(frozen=True, kw_only=True)
class UpdatePlan(OnlinePlan):
    """Private multiplicative weights. Opening touches the data for the total alone."""

    rules: UpdateRules

    def _open(self, counts: Counts, total: int, total_half_width: float, rng: Randomness) -> SessionUnderWay:
        opened = Opened(total=total, total_half_width=total_half_width, noisy_threshold=draw_threshold(self.rules, rng))
        return self.resumed(opened, [])

    def resumed(self, stored: Opened, exchanges: list[Exchange]) -> SessionUnderWay:
        return UpdateSession(
            universe=self.schema.universe,
            rules=self.rules,
            total=stored.total,
            total_half_width=stored.total_half_width,
            noisy_threshold=stored.noisy_threshold,
            exchanges=exchanges,
        )


class ExactCounts:
    """Exact counts of queries, from marginals each computed once."""

    def __init__(self, counts: Counts) -> None:
        self.counts = counts
        self.tables: dict[tuple[str, ...], NDArray[np.int64]] = {}

    def __call__(self, query: Count) -> int:
        table = self.tables.get(query.attributes)
        if table is None:
            table = self.tables[query.attributes] = self.counts.marginal(query.attributes)
        return int(query.answer(table)[0])


def queries_of(family: Family, workload: Workload) -> Iterator[Count]:
    """The answers of a family as single counting queries, in order."""
    if isinstance(family, Count):
        yield family
    elif isinstance(family, Prefix):
        for last in range(family.cells(workload.universe)):
            yield Count(attributes=family.attributes, bins=(tuple(range(last + 1)),))
    else:
        assert isinstance(family, Marginal)
        for index in np.ndindex(*(workload.universe[name].size for name in family.attributes)):
            yield Count(attributes=family.attributes, bins=tuple((each,) for each in index))


def total_half_width(noise: LaplaceNoise, beta: Fraction) -> float:
    return noise.largest(count=1, beta=float(beta * _BETA["total"]))


@dataclass(frozen=True, kw_only=True)
class SessionSetting:
    """What every session is planned from, with the budget that the number of rows has left."""

    cells: int
    questions: int
    expected_rows: int
    rows_a_unit: int
    beta: Fraction
    budget: PureDP | ApproxDP
    total_noise: LaplaceNoise | None
    is_concentrated: bool
    rho: Fraction

    @staticmethod
    def of(request: PlanRequest, *, questions: int, is_concentrated: bool) -> SessionSetting:
        """
        Args:
            is_concentrated: whether it is the budget's rho that is spent; else its epsilon, with no delta.
        """
        rows = request.schema.rows_of_unit
        noise, rho = None, Fraction(0)
        if not request.schema.total_is_public:
            noise = LaplaceNoise(epsilon=request.budget.epsilon * _TOTAL_SHARE, l1_sensitivity=rows)
        if is_concentrated:
            assert isinstance(request.budget, ApproxDP)
            rho = zcdp_budget(epsilon=request.budget.epsilon, delta=request.budget.delta).rho
            if noise is not None:
                # In rho the total costs little: give it a share of epsilon whose rho is one part in fifty.
                noise = LaplaceNoise(epsilon=_epsilon_of_share(rho * _TOTAL_SHARE), l1_sensitivity=rows)
                rho -= rho_of_pure(epsilon=noise.epsilon)
        return SessionSetting(
            cells=request.schema.universe.size,
            questions=questions,
            expected_rows=request.options["population"],
            rows_a_unit=rows,
            beta=request.beta,
            budget=request.budget,
            total_noise=noise,
            is_concentrated=is_concentrated,
            rho=rho,
        )

    def beta_of(self, share: str) -> float:
        return float(self.beta * _BETA[share])

    @property
    def epsilon(self) -> Fraction:
        """What the number of rows has left of it."""
        return self.budget.epsilon - (0 if self.total_noise is None else self.total_noise.epsilon)

    @property
    def beta_of_answers(self) -> float:
        """The probability left for what answers come from, where the rest is that of the number of rows."""
        return float(self.beta * (1 if self.total_noise is None else 1 - _BETA["total"]))

    def with_total(self, *events: Event) -> tuple[Event, ...]:
        """All that a session is, with the number of rows that it begins with."""
        return events if self.total_noise is None else (self.total_noise.event, *events)

    @property
    def total_half_width(self) -> float:
        return 0.0 if self.total_noise is None else total_half_width(self.total_noise, self.beta)


@dataclass(frozen=True, kw_only=True)
class _Priced:
    rules: UpdateRules
    events: tuple[Event, ...]

    @property
    def half_width(self) -> float:
        return self.rules.half_width


def _priced(setting: SessionSetting, updates: int) -> _Priced:
    """The rules and events of a session with so many updates: the better of the shares tried for paid answers."""
    shares = (Fraction(1, 20), Fraction(1, 10), Fraction(1, 5), Fraction(1, 3))
    make = _concentrated if isinstance(setting.budget, ApproxDP) else _pure
    return min((make(setting, updates, share) for share in shares), key=lambda each: each.half_width)


def _pure(setting: SessionSetting, updates: int, answers_share: Fraction) -> _Priced:
    """One sparse vector with c answers, the split of Lyu, Su and Li: ε2/ε1 = (2c)^(2/3)."""
    epsilon = setting.epsilon
    for_answers = epsilon * answers_share
    for_threshold = _rounded((epsilon - for_answers) / (1 + Fraction((2 * updates) ** (2 / 3))))
    for_queries = epsilon - for_answers - for_threshold
    rows = setting.rows_a_unit
    noise = LaplaceNoise(epsilon=for_answers / updates, l1_sensitivity=rows)
    rules = _rules(
        setting,
        updates,
        threshold_scale=rows / for_threshold,
        query_scale=2 * updates * rows / for_queries,
        thresholds=1,
        noise=noise,
        paid=noise.largest(count=updates, beta=setting.beta_of("answers")),
    )
    event = SparseVectorEvent(
        epsilon_threshold=for_threshold, epsilon_queries=for_queries, epsilon_answers=for_answers, answers=updates
    )
    return _Priced(rules=rules, events=setting.with_total(event))


def _concentrated(setting: SessionSetting, updates: int, answers_share: Fraction) -> _Priced:
    """c times AboveThreshold, its threshold drawn again each time, and c Gaussian counts."""
    each = setting.rho / updates
    epsilon = _epsilon_of_share(each * (1 - answers_share))
    for_threshold = _rounded(epsilon / (1 + Fraction(2 ** (2 / 3))))
    for_queries = epsilon - for_threshold
    rows = setting.rows_a_unit
    noise = GaussianNoise(rho=each * answers_share, l2_sensitivity_squared=rows * rows)
    rules = _rules(
        setting,
        updates,
        threshold_scale=rows / for_threshold,
        query_scale=2 * rows / for_queries,
        thresholds=updates,
        noise=noise,
        paid=float(
            gaussian_max_quantile(variance=noise.exact_variance, count=updates, beta=setting.beta_of("answers"))
        ),
    )
    above = SparseVectorEvent(
        epsilon_threshold=for_threshold, epsilon_queries=for_queries, epsilon_answers=Fraction(0), answers=1
    )
    return _Priced(
        rules=rules,
        events=setting.with_total(
            RepeatedEvent(event=above, times=updates), RepeatedEvent(event=noise.event, times=updates)
        ),
    )


def _rules(
    setting: SessionSetting,
    updates: int,
    *,
    threshold_scale: Fraction,
    query_scale: Fraction,
    thresholds: int,
    noise: LaplaceNoise | GaussianNoise,
    paid: float,
) -> UpdateRules:
    slack = laplace_max_quantile(
        scale=threshold_scale, count=thresholds, beta=setting.beta_of("threshold")
    ) + laplace_max_quantile(scale=query_scale, count=2 * setting.questions, beta=setting.beta_of("queries"))
    # c updates suffice for the expected table: ln|X| n² / (2 gap²) < c. As many as there are questions always do.
    gap = 1
    if updates < setting.questions:
        gap = ceil(setting.expected_rows * sqrt(log(setting.cells) / (2 * updates)) * 1.0001) + 1
        assert most_updates(setting.cells, gap=gap - 0.5, rows=setting.expected_rows) < updates
    threshold = slack + ceil(setting.total_half_width) + gap
    return UpdateRules(
        updates=updates,
        questions=setting.questions,
        threshold=threshold,
        threshold_scale=threshold_scale,
        query_scale=query_scale,
        renews_threshold=thresholds > 1,
        answer_noise=noise,
        # The public estimate is rounded to a whole count, which can cost half a row here and there.
        public_half_width=float(threshold + slack + 1),
        paid_half_width=paid,
        least_gap=gap - 0.5,
    )


def _numbers_of_updates(questions: int) -> list[int]:
    most = min(questions, _MAX_UPDATES)
    return sorted({most, *(floor(exp(step / 8)) for step in range(8 * 9) if exp(step / 8) <= most)})


@lru_cache(maxsize=4096)
def _epsilon_of_share(rho: Fraction) -> Fraction:
    """The largest epsilon, to nine digits, whose pure mechanism costs at most rho."""
    low, high = Fraction(0), Fraction(ceil(sqrt(2 * float(rho)) * 2) + 1)
    while high - low > Fraction(1, 10**12) + high / 10**6:
        middle = (low + high) / 2
        low, high = (middle, high) if rho_of_pure(epsilon=middle) <= rho else (low, middle)
    return _rounded(low)


def _rounded(value: Fraction) -> Fraction:
    """A shorter fraction, not larger, so that receipts can be read."""
    unit = 10 ** max(0, 9 - floor(log(float(value), 10)))
    return Fraction(floor(value * unit), unit)


def one_count(universe: Universe) -> Workload:
    """What a session is planned with, whose questions are not known yet: one count, which merely names the columns."""
    return Workload(universe=universe, families=(Count(attributes=universe.names, bins=((0,),) * len(universe.names)),))
