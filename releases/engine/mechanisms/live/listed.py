"""A list of questions answered when a session is opened, by the best design for them; others at a price, as asked.

Share s of what the number of rows leaves of the budget buys the list: by noise on each answer, or, where there is a
delta, by noise on what its tables have in common (`residual-queries`), whichever has the closer bound. The rest is cut
into parts, as in a session with plain noise (``noise.py``). What the list answers is answered for nothing from then on:
each of its answers, and each count that is a sum of cells of one of its tables.

**Privacy.** What is bought at the start is a release of its own, of (s ε)-DP, or (s ρ)-zCDP. All later answers together
are of what is left of ε, or of ρ, as ``noise.py`` proves whatever their questions depend on, so also on what was
bought. Both add up.

**Accuracy.** Three events have a share of β each, so none happens with probability 1 - β. A priced answer leaves its
half width: as in ``noise.py``. An answer of the list does: the bound of its own plan. A sum does: let q be a count over
the universe, with code length L(q) (``bounds/all_counts.py``), and let it be summed from one table of the list, which
q alone decides. Its noise is a sum of n independent draws, or normal to within what the lattice adds, of a variance in
closed form (``residual_queries.py``); so with probability 1 - β e^{-L(q)} it keeps the width w(q) of that law, and all
counts that there are keep theirs with probability 1 - β, as Σ e^{-L(q)} <= 1, whichever are asked. Each of n cells is
within α too, so their sum is within n α: the smaller of both is said.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from math import exp, floor, inf, log, prod, sqrt
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from releases.engine.accounting import accountant
from releases.engine.accounting.conversions import epsilon_of_rho
from releases.engine.accounting.events import ConcentratedEvent, Event, PureEvent
from releases.engine.bounds.accuracy import Bound, Proof, normal_max_quantile
from releases.engine.bounds.all_counts import code_length
from releases.engine.domain.privacy import ApproxDP, PrivacyBudget, PureDP, decimal_text
from releases.engine.domain.schema import Schema
from releases.engine.mechanisms.additive_noise import mean_of_normal
from releases.engine.mechanisms.answers import described
from releases.engine.mechanisms.base import (
    ROWS,
    SAME,
    Consistency,
    Mechanism,
    Option,
    Plan,
    PlanRequest,
    Work,
    infeasible,
    mechanism,
    register,
    too_many_cells,
)
from releases.engine.mechanisms.budget_split import ACCOUNTING, BY_RHO
from releases.engine.mechanisms.larger_tables import ASKED
from releases.engine.mechanisms.live.noise import FORMULA, NoiseOnline, NoiseRules, NoiseSession, noise_rules
from releases.engine.mechanisms.marginal_fit.common import TOO_NOISY
from releases.engine.mechanisms.pmw.online import POPULATION, QUESTIONS, OnlinePlan, Opened, SessionSetting
from releases.engine.mechanisms.pmw.session import (
    AnswerKind,
    AnswerPrice,
    Exchange,
    SessionOver,
    SessionUnderWay,
    Truth,
)
from releases.engine.mechanisms.queries import NoisyQueriesPlan
from releases.engine.mechanisms.residual_queries import ResidualQueriesPlan, answer_variances, lattice_slack
from releases.engine.noise.randomness import Randomness
from releases.engine.tables.counts import Counts
from releases.engine.tables.possible import only_possible
from releases.engine.workload.queries import Count, Family, Marginal, Prefix, Workload, unweighted

START = Option(
    name="start",
    help="How much of the budget, in percent, buys the answers to the list when the session is opened; the rest is for "
    "other questions.",
    lowest=1,
    highest=99,
    default=50,
)
#: What a list can be answered by, and with which options: sums of its answers have a law that is known.
_DESIGNS = {
    "laplace-queries": {"agree": "no", "rows_counted": SAME, "measured": ASKED},
    "gaussian-queries": {"agree": "no", "rows_counted": SAME, ACCOUNTING.name: BY_RHO},
    "residual-queries": {"agree": "no", ACCOUNTING.name: BY_RHO},
}
#: Shares of what the number of rows leaves of beta: priced answers, answers of the list, sums of them.
_PRICED, _LISTED, _SUMS = Fraction(1, 2), Fraction(1, 4), Fraction(1, 4)
#: Below e to it the law of a sum is not computed.
_RAREST = -600.0
_NONE_LEFT = (
    "Every answer with a price of its own was asked for. Only what follows from the answers bought at the start is "
    "still answered."
)


@dataclass(frozen=True, kw_only=True, slots=True)
class ListedRules(NoiseRules):
    """The public parameters of a session with a list: those of its priced answers, and

    Attributes:
        listed_half_width: of every answer of the list; None where it is known only once the session is opened.
    """

    listed_half_width: float | None

    @property
    def half_width(self) -> float:
        return max(self.listed_half_width or 0.0, self.paid_half_width)

    @property
    def is_endless(self) -> bool:
        return True

    def are_settled(self, *, updates_left: int, cells: int, rows: float) -> bool:
        return True


@dataclass(frozen=True, kw_only=True)
class StartPurchase(ABC):
    """What is bought when a session is opened: the answers to a list. Public but for what `plan` measures.

    Attributes:
        plan: of the answers to the list.
    """

    plan: Plan

    @property
    def workload(self) -> Workload:
        return self.plan.counts_asked

    @property
    @abstractmethod
    def half_widths(self) -> tuple[float, ...]:
        """Of the answers of each family of the list, before they are rounded."""

    @property
    @abstractmethod
    def variances(self) -> Sequence[float]:
        """The largest variance of an answer of each family, for a fit to them."""

    @abstractmethod
    def expected_error(self, query: Count) -> float | None:
        """The mean error of the answer to a count that the list answers; None where it depends on the table."""

    @abstractmethod
    def _width(self, query: Count, place: int) -> float | None:
        """What the answer to a count is within that a family answers."""

    @abstractmethod
    def buy(self, counts: Counts, rng: Randomness) -> NDArray[np.float64]:
        """The answers to the list, one after the other, and what else is measured then. Touches the data."""

    def known(self, bought: NDArray[np.float64]) -> StartPurchase:
        """The same with what is known of its answers since they were bought."""
        return self

    def answers(self, bought: NDArray[np.float64]) -> Sequence[NDArray[np.float64]]:
        """Of each family, of what was bought."""
        return self.workload.split(bought[: self.workload.size])

    def width_of(self, query: Count) -> float | None:
        """What the answer to a simplified count is within, as a whole count; None where the list does not answer it, or
        where that is not known yet."""
        place = self.place_of(query)
        return None if place is None else self._width(query, place)

    def estimate(self, query: Count, bought: NDArray[np.float64]) -> int:
        """The answer to a count that the list answers, not below 0."""
        place = self.place_of(query)
        assert place is not None
        family, own = self.workload.families[place], self.answers(bought)[place]
        if isinstance(family, Marginal):
            own = own.reshape(tuple(self.workload.universe[name].size for name in family.attributes))
            own = own[np.ix_(*self._bins(query, family))]
        elif isinstance(family, Prefix):
            own = own[len(query.bins[0]) - 1]
        return max(0, floor(float(own.sum()) + 0.5))

    def place_of(self, query: Count) -> int | None:
        """The family that answers a count, as one of its answers or as a sum of them: of several, that in which it has
        the least noise of its own. A function of the count alone."""
        found: dict[int, float] = {}
        for place, (family, weight) in enumerate(zip(self.workload.families, self.workload.weights, strict=True)):
            if self._answers(family, query):
                found[place] = self._cells(query, family) / weight**2
        return min(found, key=found.__getitem__, default=None)

    def _answers(self, family: Family, query: Count) -> bool:
        if isinstance(family, Marginal):
            return set(query.attributes) <= set(family.attributes)
        if isinstance(family, Count):
            return unweighted(family.simplified(self.workload.universe)) == query
        return query.attributes == family.attributes and query.bins[0] == tuple(range(len(query.bins[0])))

    def _cells(self, query: Count, family: Family) -> int:
        """How many answers of a family a count adds up."""
        if not isinstance(family, Marginal):
            return 1
        return prod(map(len, self._bins(query, family)))

    def _bins(self, query: Count, family: Family) -> list[tuple[int, ...]]:
        chosen = dict(zip(query.attributes, query.bins, strict=True))
        universe = self.workload.universe
        return [chosen.get(name, tuple(range(universe[name].size))) for name in family.attributes]


@dataclass(frozen=True, kw_only=True)
class ListPurchase(StartPurchase):
    """Answers with noise.

    Attributes:
        beta: the probability that any sum of them leaves its width.
    """

    plan: NoisyQueriesPlan | ResidualQueriesPlan
    beta: float

    @property
    def half_widths(self) -> tuple[float, ...]:
        assert self.plan.bound is not None
        return self.plan.bound.half_widths

    @property
    def variances(self) -> Sequence[float]:
        return self.plan.answer_variances

    def buy(self, counts: Counts, rng: Randomness) -> NDArray[np.float64]:
        return np.concatenate(self.plan.released(self.plan.measured(counts, rng)))

    def _width(self, query: Count, place: int) -> float:
        cells, width = self._cells(query, self.workload.families[place]), self.half_widths[place]
        if cells > 1:
            width = min(cells * width, self._width_of_sum(query, place, cells))
        return _rounded(width)

    def _width_of_sum(self, query: Count, place: int, cells: int) -> float:
        universe = self.workload.universe
        log_beta = log(self.beta) - code_length(query, universe)
        if log_beta < _RAREST:
            return inf
        if isinstance(self.plan, NoisyQueriesPlan):
            noise = self.plan.noise.of_weight(self.workload.weights[place])
            return noise.sum(count=cells, beta=exp(log_beta))
        plan, asked = self.plan, Workload(universe=universe, families=(query,))
        (slack,) = lattice_slack(asked, plan.residuals, plan.multipliers)
        return normal_max_quantile(count=1, beta=exp(log_beta)) * sqrt(_variance(plan, query)) + slack

    def expected_error(self, query: Count) -> float:
        if isinstance(self.plan, ResidualQueriesPlan):
            return mean_of_normal(_variance(self.plan, query))
        place = self.place_of(query)
        assert place is not None
        family = self.workload.families[place]
        return self.plan.noise.of_weight(self.workload.weights[place]).mean(count=self._cells(query, family))


def _rounded(width: float) -> float:
    """What a rounded answer is within: whole, as it and the truth are."""
    return float(floor(width + 0.5))


def _variance(plan: ResidualQueriesPlan, query: Count) -> float:
    """Of the noise in a count, summed from the residuals of its table."""
    asked = Workload(universe=plan.counts_asked.universe, families=(query,))
    (variance,) = answer_variances(asked, plan.residuals, plan.multipliers, plan.lattice_variance)
    return variance


@dataclass(kw_only=True)
class ListedSession(NoiseSession):
    """Answers are read off what was bought at the start, or measured.

    Attributes:
        start: what was bought, with what is known of its answers.
        numbers: that were released for it.
    """

    rules: ListedRules
    start: StartPurchase
    numbers: NDArray[np.float64]

    @property
    def bought(self) -> NDArray[np.float64]:
        return self.numbers

    @property
    def is_settled(self) -> bool:
        return True

    @property
    def is_used_up(self) -> bool:
        return False

    def _check_open(self) -> None:
        """What the list answers has no end; `_offered` refuses others."""

    def _offered(self, query: Count, within: int | None) -> AnswerPrice:
        bought = self.start.width_of(query)
        if bought is not None and bought <= (self.rules.half_width if within is None else within):
            return AnswerPrice(half_width=bought)
        if self.updates_left < 1:
            raise SessionOver(_NONE_LEFT)
        return super()._offered(query, within)

    def _answer(self, query: Count, truth: Truth, price: AnswerPrice, rng: Randomness) -> Exchange:
        if price.parts:
            return super()._answer(query, truth, price, rng)
        estimate = self.start.estimate(query, self.bought)
        return Exchange(query=query, kind=AnswerKind.PUBLIC, estimate=estimate, half_width=price.half_width)

    def listed(self) -> Iterator[tuple[Family, NDArray[np.float64], float]]:
        """The list: its families, their answers, and what these are within."""
        start = self.start
        return zip(start.workload.families, start.answers(self.bought), start.half_widths, strict=True)

    def released(self) -> Iterator[tuple[Family, NDArray[np.float64], float]]:
        """The list too, each of its counts with the closest answer that there is."""
        closest: dict[Family, Exchange] = {each.query: each for each in self.closest}
        for family, estimates, half_width in self.listed():
            asked = closest.pop(unweighted(family), None)
            if asked is not None and asked.half_width < half_width:
                yield asked.query, np.asarray([float(asked.estimate)]), asked.half_width
            else:
                yield unweighted(family), estimates, half_width
        for asked in closest.values():
            yield asked.query, np.asarray([float(asked.estimate)]), asked.half_width

    def to_agree(self) -> NDArray[np.float64]:
        """A distribution fitted to the list, uniform over columns that it does not ask about."""
        universe = self.universe
        rows = None if self.total_half_width else self.total
        _, fitted = described(
            self.start.workload,
            self.start.answers(self.bought),
            self.start.variances,
            lambda share: None,
            rows=rows,
            population=self.start.plan.schema.population,
        )
        if fitted is None:
            return super().to_agree()
        known = {name for component in fitted.components for name in component.names}
        table = fitted.marginal(tuple(name for name in universe.names if name in known))
        shape = tuple(size if name in known else 1 for name, size in zip(universe.names, universe.shape, strict=True))
        whole = only_possible(universe, np.broadcast_to(table.reshape(shape), universe.shape).copy())
        return np.asarray(whole / whole.sum())


@dataclass(frozen=True, kw_only=True)
class ListedPlan(OnlinePlan):
    """A session that buys the answers to a list when it is opened."""

    answers_at_start: ClassVar[bool] = True
    bought_as: ClassVar[str] = "<f8"
    rules: ListedRules
    start: StartPurchase

    def half_width_of(self, query: Count) -> float:
        bought = self._bought(query)
        return self.rules.paid_half_width if bought is None else bought

    def expected_error(self, query: Count) -> float | None:
        asked = query.simplified(self.schema.universe)
        is_open = self.start.place_of(asked) is not None and self.start.width_of(asked) is None
        if is_open or self._bought(query) is not None:
            return self.start.expected_error(asked)
        return self.rules.noise(self.rules.usual_parts).mean(count=1)

    def _bought(self, query: Count) -> float | None:
        """What the answer to a question is within that the list answers closely enough where its asker says nothing."""
        bought = self.start.width_of(query.simplified(self.schema.universe))
        return bought if bought is not None and bought <= self.rules.half_width else None

    def _open(self, counts: Counts, total: int, total_half_width: float, rng: Randomness) -> SessionUnderWay:
        bought = self.start.buy(counts, rng)
        return self.resumed(Opened(total=total, total_half_width=total_half_width, bought=bought), [])

    def opened(self, bought: NDArray[np.float64]) -> ListedPlan:
        """The plan with what is known of its answers since the session was opened."""
        return self if (start := self.start.known(bought)) is self.start else replace(self, start=start)

    def resumed(self, stored: Opened, exchanges: list[Exchange]) -> SessionUnderWay:
        assert stored.bought is not None
        bought = stored.bought.astype(np.float64)
        return ListedSession(
            universe=self.schema.universe,
            rules=self.rules,
            total=stored.total,
            total_half_width=stored.total_half_width,
            start=self.start.known(bought),
            numbers=bought,
            exchanges=exchanges,
        )


@register
class ListedOnline(Mechanism):
    name: ClassVar[str] = "listed-online"
    title: ClassVar[str] = "A list at the start, then noise on each answer, live"
    summary: ClassVar[str] = (
        "Answers a list of questions when the session is opened, and adds their answers up for nothing; other "
        "questions get noise of their own."
    )
    source: ClassVar[str] = (
        "Dwork and Roth (2014), Theorem 3.6; Xiao, He, Zhang and Kifer (2023); Canonne, Kamath and Steinke (2020), "
        "Theorem 4; Feldman and Zrnic (2021); the union bound over all counting queries"
    )
    options: ClassVar[tuple[Option, ...]] = (ROWS, QUESTIONS, POPULATION, START)
    consistency: ClassVar[Consistency | None] = Consistency.OWN_NOISE
    uses_weights = True
    drops_impossible = True
    is_offered = False

    def _plan(self, request: PlanRequest) -> Plan:
        universe = request.schema.universe
        if (refusal := too_many_cells(request, universe, bytes_each=24)) is not None:
            return refusal
        ways = [False, True] if isinstance(request.budget, ApproxDP) else [False]
        found = [_planned(request, is_concentrated=each) for each in ways]
        plans = [each for each in found if isinstance(each, ListedPlan)]
        return min(plans, key=lambda each: (each.rules.half_width, each.rules.listed_half_width), default=found[0])


def _planned(request: PlanRequest, *, is_concentrated: bool) -> Plan:
    """The plan with all of a budget's epsilon, or with its rho."""
    workload = request.counts_asked
    if not workload.is_weighted:
        workload = replace(workload, families=tuple(map(unweighted, workload.families)))
    setting = SessionSetting.of(request, questions=request.options["questions"] or 1, is_concentrated=is_concentrated)
    left = Fraction(setting.beta_of_answers)
    budget = budget_of_start(setting, Fraction(request.options["start"], 100))
    if budget is None:
        return infeasible(request, TOO_NOISY)
    bought = _bought(request.schema, workload, budget, left * _LISTED)
    if bought.infeasible:
        return infeasible(request, bought.infeasible)
    assert isinstance(bought, NoisyQueriesPlan | ResidualQueriesPlan)
    assert bought.bound is not None
    return with_priced_answers(
        request,
        setting,
        ListPurchase(plan=bought, beta=float(left * _SUMS)),
        bought=bought.events,
        beta=float(left * _PRICED),
        known=bought.bound,
        parameters={"the list is answered by": mechanism(bought.mechanism).title, **bought.parameters},
    )


def with_priced_answers(
    request: PlanRequest,
    setting: SessionSetting,
    start: StartPurchase,
    *,
    bought: Sequence[Event],
    beta: float,
    known: Bound | None,
    parameters: Mapping[str, str],
    bytes_beside: int = 0,
) -> Plan:
    """The plan of a session that buys answers when it is opened, and others at a price of what is left then.

    Args:
        setting: of the session, before anything is bought.
        bought: the events of what is bought.
        beta: of the priced answers.
        known: of the answers to the list; None where it is known only once the session is opened. An answer that is
            not as close is measured then, where its asker says nothing.
        bytes_beside: held beside what the plan of `start` and the priced answers hold.
    """
    setting, universe, work = what_is_left(setting, bought), request.schema.universe, start.plan.work
    whole = setting.rho if setting.is_concentrated else setting.epsilon
    if whole <= 0:
        return infeasible(request, TOO_NOISY)
    priced = noise_rules(setting, beta=beta)
    return ListedPlan(
        **request.inputs(),
        rules=ListedRules(
            **{name: getattr(priced, name) for name in NoiseRules.__dataclass_fields__},
            listed_half_width=None if known is None else _rounded(known.alpha),
        ),
        start=start,
        total_noise=setting.total_noise,
        events=setting.with_total(
            *bought, ConcentratedEvent(rho=whole) if setting.is_concentrated else PureEvent(epsilon=whole)
        ),
        parameters={
            **parameters,
            "questions": f"{setting.questions:,}",
            "priced answers, together": f"{'rho' if setting.is_concentrated else 'epsilon'} {decimal_text(whole)}",
        },
        expectation=Bound(
            beta=request.beta,
            half_widths=(priced.paid_half_width,) * len(request.counts_asked.families)
            if known is None
            else known.half_widths,
            proof=Proof.BEFORE,
            formula=FORMULA if known is None else known.formula,
            source=NoiseOnline.source if known is None else known.source,
        ),
        work=Work(
            cells=max(universe.size, work.cells),
            seconds=0.5 + work.seconds + universe.size * 4e-8,
            bytes=work.bytes - start.plan.bytes_of_rows + universe.size * 24 + bytes_beside,
        ),
    )


@lru_cache(maxsize=64)
def _bought(schema: Schema, workload: Workload, budget: PrivacyBudget, beta: Fraction) -> Plan:
    """The plan with the closest bound on the answers to a list, of those that spend what they get in one way; of the
    infeasible ones the first."""
    plans = [
        mechanism(name).plan(schema, workload, budget=budget, beta=beta, options=options)
        for name, options in _DESIGNS.items()
        if isinstance(budget, ApproxDP) == (name != "laplace-queries")
    ]
    able = [each for each in plans if not each.infeasible]
    return min(able, key=_largest, default=plans[0])


def _largest(plan: Plan) -> float:
    """The largest half width, each times its weight."""
    assert plan.bound is not None
    return max(weight * width for weight, width in zip(plan.counts_asked.weights, plan.bound.half_widths, strict=True))


def budget_of_start(setting: SessionSetting, share: Fraction) -> PrivacyBudget | None:
    """A share of what the number of rows leaves, as a budget; None where so little rho is no epsilon."""
    if not setting.is_concentrated:
        return PureDP(epsilon=setting.epsilon * share)
    assert isinstance(setting.budget, ApproxDP)
    epsilon = epsilon_of_rho(rho=setting.rho * share, delta=setting.budget.delta)
    return ApproxDP(epsilon=epsilon, delta=setting.budget.delta) if epsilon else None


def what_is_left(setting: SessionSetting, bought: Sequence[Event]) -> SessionSetting:
    """The setting of all later answers: what was bought at the start is gone."""
    prices = [accountant.forms(event) for event in bought]
    if setting.is_concentrated:
        return replace(setting, rho=setting.rho - sum(each.rho for each in prices))
    left = setting.budget.epsilon
    for each in prices:
        assert each.pure_epsilon is not None
        left -= each.pure_epsilon
    return replace(setting, budget=PureDP(epsilon=left))
