"""Live private multiplicative weights: what is free, what is paid, what is kept secret, and that bounds hold."""

from __future__ import annotations

import json
from fractions import Fraction
from math import log, sqrt

import numpy as np
import pytest

from releases.engine.accounting import accountant
from releases.engine.accounting.events import RepeatedEvent, SparseVectorEvent
from releases.engine.domain.privacy import ApproxDP, PureDP
from releases.engine.domain.universe import Schema
from releases.engine.mechanisms.base import mechanism
from releases.engine.mechanisms.pmw.online import ExactCounts, queries_of
from releases.engine.mechanisms.pmw.session import (
    AnswerKind,
    Exchange,
    Session,
    SessionOver,
    exchange_to_json,
    most_updates,
)
from releases.engine.noise.randomness import StreamRandomness
from releases.engine.tables.counts import Histogram
from releases.engine.workload.queries import Count, Workload, all_marginals

COLUMNS = [{"name": f"c{i}", "type": "categorical", "categories": ["a", "b", "c", "d"]} for i in range(4)]
PURE = PureDP(epsilon=Fraction(20))
APPROX = ApproxDP(epsilon=Fraction(10), delta=Fraction(1, 10**6))


def plan_for(budget=PURE, neighbours="add_remove", columns=COLUMNS, beta=Fraction(1, 20), **options):
    schema = Schema.from_json({"version": 1, "columns": columns, "neighbours": neighbours})
    given = {"population": 20_000, **options}
    return mechanism("pmw-online").plan(
        schema, all_marginals(schema.universe, 2), budget=budget, beta=beta, options=given
    )


def table(plan, seed=1, rows=20_000):
    universe = plan.schema.universe
    weights = np.random.default_rng(seed).dirichlet(np.full(universe.size, 0.01))
    counts = np.random.default_rng(seed + 1).multinomial(rows, weights).astype(np.int64)
    return Histogram(universe=universe, counts=counts.reshape(universe.shape))


def all_queries(plan):
    return [query for family in plan.workload.families for query in queries_of(family, plan.workload)]


def opened(plan, seed=b"session"):
    rng = StreamRandomness(seed)
    held = table(plan)
    return plan.open(held, rng=rng), ExactCounts(held), rng


class Forbidden:
    """A truth that must not be asked for."""

    def __call__(self, query):
        raise AssertionError("the session touched the data")


@pytest.mark.parametrize("budget", [PURE, APPROX], ids=["pure", "approx"])
def test_most_answers_are_free_and_paid_ones_are_at_most_those_reserved(budget):
    plan = plan_for(budget, updates=30)
    session, truth, rng = opened(plan)
    for query in all_queries(plan):
        session.ask(query, truth, rng=rng)
    kinds = [exchange.kind for exchange in session.exchanges]
    assert 0 < kinds.count(AnswerKind.PAID) <= plan.rules.updates
    assert kinds.count(AnswerKind.PUBLIC) > kinds.count(AnswerKind.PAID)
    assert session.updates_left == plan.rules.updates - kinds.count(AnswerKind.PAID)


def test_the_same_question_again_costs_nothing_and_touches_nothing():
    plan = plan_for()
    session, truth, rng = opened(plan)
    query = all_queries(plan)[3]
    first = session.ask(query, truth, rng=rng)
    again = session.ask(query, Forbidden(), rng=StreamRandomness(b"unused"))
    assert again.kind is AnswerKind.REPEATED
    assert (again.estimate, again.half_width) == (first.estimate, first.half_width)
    assert len(session.exchanges) == 1


@pytest.mark.parametrize("budget", [PURE, APPROX], ids=["pure", "approx"])
def test_a_session_resumed_from_its_transcript_and_threshold_goes_on_exactly_as_it_would_have(budget):
    plan = plan_for(budget)
    session, truth, rng = opened(plan)
    queries = all_queries(plan)
    for query in queries[:60]:
        session.ask(query, truth, rng=rng)
    resumed = Session(
        universe=session.universe,
        rules=session.rules,
        total=session.total,
        total_half_width=session.total_half_width,
        noisy_threshold=session.noisy_threshold,
        exchanges=list(session.exchanges),
    )
    np.testing.assert_array_equal(resumed.distribution(), session.distribution())
    assert resumed.updates_left == session.updates_left
    one, other = StreamRandomness(b"rest"), StreamRandomness(b"rest")
    for query in queries[60:]:
        assert session.ask(query, truth, rng=one) == resumed.ask(query, truth, rng=other)
    assert resumed.noisy_threshold == session.noisy_threshold


def test_what_is_published_does_not_hold_the_threshold():
    plan = plan_for()
    session, truth, rng = opened(plan)
    session.noisy_threshold = 987_654_321
    for query in all_queries(plan)[:20]:
        session.ask(query, truth, rng=rng)
    published = json.dumps([exchange_to_json(exchange, session.universe) for exchange in session.exchanges])
    assert "987654321" not in published


def test_after_the_last_update_no_data_are_touched():
    plan = plan_for(population=3000, updates=5)
    session, truth, rng = opened(plan)
    for query in all_queries(plan):
        if session.updates_left == 0:
            break
        session.ask(query, truth, rng=rng)
    assert session.updates_left == 0
    (left, *_) = [query for query in all_queries(plan) if query not in session._asked]
    with pytest.raises(SessionOver):
        session.ask(left, Forbidden(), rng=rng)
    # What is public stays public: the estimate needs no data.
    assert session.estimate(left) >= 0


def test_a_session_that_expected_fewer_rows_ends_rather_than_answer_without_a_bound():
    plan = plan_for(population=500, updates=2)
    session, truth, rng = opened(plan)
    asked = (session.ask(query, truth, rng=rng) for query in all_queries(plan))
    with pytest.raises(SessionOver, match="without a proved bound"):
        list(asked)


def test_no_more_updates_are_reserved_than_there_are_questions_and_few_questions_have_a_small_bound():
    few, many = plan_for(questions=100), plan_for(questions=100_000)
    asked = len(all_queries(few))
    assert few.rules.questions == max(asked, 100)
    assert few.rules.updates <= few.rules.questions
    assert plan_for(updates=4_000).rules.updates == plan_for().rules.questions
    assert few.expectation.alpha < many.expectation.alpha / 3
    # As many updates as questions: whatever the table, none is left without a proved bound.
    session, truth, rng = opened(plan_for(updates=4_000, population=10))
    for query in all_queries(few):
        session.ask(query, truth, rng=rng)


def test_more_questions_than_the_bound_speaks_of_are_refused():
    plan = plan_for(updates=30)
    session, truth, rng = opened(plan)
    for query in all_queries(plan):
        session.ask(query, truth, rng=rng)
    extra = Count(attributes=("c0", "c1", "c2"), bins=((0,), (1,), (2,)))
    with pytest.raises(SessionOver, match="All questions"):
        session.ask(extra, Forbidden(), rng=rng)


@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
def test_noise_scales_are_those_of_the_events_that_are_charged(neighbours):
    plan = plan_for(neighbours=neighbours)
    (event,) = [each for each in plan.events if isinstance(each, SparseVectorEvent)]
    assert plan.rules.threshold_scale == 1 / event.epsilon_threshold
    assert plan.rules.query_scale == 2 * event.answers / event.epsilon_queries
    assert plan.rules.answer_noise.scale == event.answers / event.epsilon_answers
    assert not plan.rules.renews_threshold
    concentrated = plan_for(APPROX, neighbours=neighbours)
    repeated = [each for each in concentrated.events if isinstance(each, RepeatedEvent)]
    above, gaussian = repeated
    assert above.times == gaussian.times == concentrated.rules.updates
    assert concentrated.rules.threshold_scale == 1 / above.event.epsilon_threshold
    assert concentrated.rules.query_scale == 2 / above.event.epsilon_queries
    assert concentrated.rules.answer_noise.exact_variance == gaussian.event.noise_variance
    assert concentrated.rules.renews_threshold


def test_a_person_of_three_rows_gets_three_times_the_noise():
    unit = {"kind": "person", "id": "p", "max_rows": 3}
    schema = Schema.from_json({"version": 1, "columns": COLUMNS, "unit": unit})
    plan = mechanism("pmw-online").plan(
        schema, all_marginals(schema.universe, 2), budget=PURE, beta=Fraction(1, 20), options={"updates": 5}
    )
    one = plan_for(updates=5)
    assert plan.rules.query_scale == 3 * one.rules.query_scale
    assert plan.rules.threshold_scale == 3 * one.rules.threshold_scale
    assert plan.rules.answer_noise.scale == 3 * one.rules.answer_noise.scale
    assert accountant.price(plan.events, delta=Fraction(0)).pure_epsilon <= 20 * 10**12


def test_the_potential_argument_holds_every_update_lowers_the_divergence_by_twice_the_squared_gap():
    plan = plan_for(APPROX)
    session, truth, rng = opened(plan)
    held = table(plan)
    true = held.counts / held.counts.sum()
    gap = session.rules.least_gap / session.most_rows

    def divergence():
        positive = true > 0
        return float((true[positive] * np.log(true[positive] / session.distribution()[positive])).sum())

    before = divergence()
    assert before <= log(held.universe.size)
    for query in all_queries(plan):
        exchange = session.ask(query, truth, rng=rng)
        if exchange.kind is AnswerKind.PAID:
            after = divergence()
            assert before - after >= 2 * gap**2 * 0.999
            before = after
    assert session.rules.updates - session.updates_left <= most_updates(
        held.universe.size, gap=session.rules.least_gap, rows=session.most_rows
    )


class Adversary:
    """Asks what is likeliest to hurt: cells and unions of cells that paid answers showed to be far off."""

    def __init__(self, universe, seed):
        self.universe, self.random = universe, np.random.default_rng(seed)
        self.suspects = []

    def next(self, session):
        if self.suspects and self.random.random() < 0.5:
            base = self.suspects[int(self.random.integers(len(self.suspects)))]
            grown = dict(zip(base.attributes, base.bins, strict=True))
            name = str(self.random.choice(self.universe.names))
            size = self.universe[name].size
            chosen = self.random.permutation(size)[: int(self.random.integers(1, size))]
            grown[name] = tuple(sorted(int(each) for each in chosen))
        else:
            names = self.random.permutation(self.universe.names)[: int(self.random.integers(1, 4))]
            grown = {str(name): (int(self.random.integers(self.universe[str(name)].size)),) for name in names}
        names = tuple(sorted(grown, key=self.universe.axis))
        return Count(attributes=names, bins=tuple(grown[name] for name in names))

    def learn(self, exchange):
        if exchange.kind is AnswerKind.PAID:
            self.suspects.append(exchange.query)


@pytest.mark.parametrize("budget", [PURE, APPROX], ids=["pure", "approx"])
def test_no_answer_leaves_its_bound_more_often_than_beta_however_the_questions_are_chosen(budget):
    """60 sessions of 400 adaptive questions at beta 0.2: a true bound fails this with probability below 1e-5."""
    beta, sessions, left = Fraction(1, 5), 60, 0
    plan = plan_for(budget, beta=beta, questions=400)
    held = table(plan)
    truth = ExactCounts(held)
    for number in range(sessions):
        rng = StreamRandomness(f"adversary {number}".encode())
        session = plan.open(held, rng=rng)
        adversary = Adversary(plan.schema.universe, number)
        missed = False
        for _ in range(400):
            query = adversary.next(session)
            try:
                exchange = session.ask(query, truth, rng=rng)
            except SessionOver:
                break
            adversary.learn(exchange)
            missed |= abs(exchange.estimate - truth(query)) > exchange.half_width
        left += missed
    assert left <= sessions * beta + 5 * sqrt(sessions * float(beta * (1 - beta)))


def test_bins_that_are_no_neighbours_are_updated_alike():
    plan = plan_for()
    session, _, _ = opened(plan)
    apart = Count(attributes=("c0", "c2"), bins=((0, 2), (1, 3)))
    before = session.distribution()
    assert session.estimate(apart) == round(session.total * float(before[[0, 2]][:, :, [1, 3]].sum()))
    session.record(Exchange(query=apart, kind=AnswerKind.PAID, estimate=0, half_width=1.0, sign=1))
    moved = session.distribution() / before
    inside = moved[0, 0, 1, 0]
    assert np.allclose(moved[[0, 2]][:, :, [1, 3]], inside)
    assert inside > moved[1, 0, 0, 0]
    assert np.isclose(session.distribution().sum(), 1)


def test_the_total_that_is_public_is_exact_and_free():
    columns = [{**column, "outside": "d"} for column in COLUMNS]
    plan = plan_for(neighbours="replace", columns=columns)
    session, _, _ = opened(plan)
    assert session.total == 20_000
    assert session.total_half_width == 0
    assert len(plan.events) == 1


def test_a_workload_of_prefixes_and_counts_is_asked_answer_by_answer():
    schema = Schema.from_json({"version": 1, "columns": [{"name": "age", "type": "integer", "edges": [0, 1, 2, 3]}]})
    workload = Workload.from_json(
        {"version": 1, "queries": [{"prefix": "age"}, {"count": {"age": {"from": 1}}}]}, schema.universe
    )
    asked = [query.bins for family in workload.families for query in queries_of(family, workload)]
    assert asked == [((0,),), ((0, 1),), ((0, 1, 2),), ((1, 2),)]


def test_the_last_state_agrees_with_what_was_paid_for_and_with_every_free_interval():
    plan = plan_for(updates=30)
    session, truth, rng = opened(plan)
    # Of one table: answers of overlapping tables contradict one another by their noise.
    for query in all_queries(plan)[:16]:
        session.ask(query, truth, rng=rng)
    paid = [each for each in session.exchanges if each.kind is AnswerKind.PAID and 0 < each.estimate < session.total]
    assert paid
    before = session.distribution()
    weights = session.agreeing()
    assert weights.sum() == pytest.approx(1)
    assert weights.min() >= 0

    def missed(state, exchange):
        return abs(float(state[session._index(exchange.query)].sum()) * session.total - exchange.estimate)

    assert max(missed(weights, each) for each in paid) < 1
    assert max(missed(before, each) for each in paid) > 100
    for each in session.exchanges:
        assert missed(weights, each) <= each.half_width + 1
    assert np.array_equal(session.distribution(), before)


def test_the_last_state_stays_as_it_is_where_nothing_was_paid_for():
    plan = plan_for()
    session, _, _ = opened(plan)
    assert np.array_equal(session.agreeing(), session.distribution())


@pytest.mark.parametrize("estimates", [(5_000, 9_000), (0, 0), (20_000, 0), (30_000, 30_000)])
def test_answers_that_contradict_one_another_leave_a_distribution(estimates):
    plan = plan_for()
    session, _, _ = opened(plan)
    lower = Count(attributes=("c0",), bins=((0, 1),))
    for query, estimate in zip((lower, Count(attributes=("c0",), bins=((0, 2),))), estimates, strict=True):
        session.record(Exchange(query=query, kind=AnswerKind.PAID, estimate=estimate, half_width=10.0, sign=1))
    weights = session.agreeing()
    assert np.isfinite(weights).all()
    assert weights.min() >= 0
    assert weights.sum() == pytest.approx(1)
