"""Sessions that answer by plain noise: what each answer costs, that no more is spent, and that bounds hold."""

from fractions import Fraction
from math import inf, sqrt

import numpy as np
import pytest

from releases.engine.accounting import accountant
from releases.engine.accounting.events import ConcentratedEvent, event_from_json
from releases.engine.domain.privacy import ApproxDP, PureDP
from releases.engine.errors import InvalidInput
from releases.engine.mechanisms.additive_noise import GaussianNoise, LaplaceNoise
from releases.engine.mechanisms.live.noise import PARTS
from releases.engine.mechanisms.live.ways import WAYS, plan_of_way
from releases.engine.mechanisms.pmw.online import ExactCounts, Opened
from releases.engine.mechanisms.pmw.session import AnswerKind, SessionOver
from releases.engine.noise.randomness import StreamRandomness
from releases.engine.tables.counts import Histogram
from releases.engine.workload.queries import Count
from tests.engine.mechanisms.test_pmw_online import Forbidden
from tests.engine.telling import PERSON, RELATIONS, categories, planned, schema_of, some_counts

COLUMNS = categories((4, 3, 2))
PURE = PureDP(epsilon=Fraction(1))
APPROX = ApproxDP(epsilon=Fraction(1), delta=Fraction(1, 10**9))
BUDGETS = pytest.mark.parametrize("budget", [PURE, APPROX], ids=["pure", "approx"])


def plan_for(name, budget=PURE, neighbours="add_remove", **given):
    return planned(name, COLUMNS, {"count": {"c0": ["v0"]}}, neighbours, budget=budget, **given)


def opened(name, budget=PURE, **given):
    return open_(plan_for(name, budget, **given))


def open_(plan):
    seed = plan.mechanism.removesuffix("-online").encode()
    held, rng = some_counts(plan.schema.universe, 100), StreamRandomness(seed)
    return plan, plan.open(held, rng=rng), ExactCounts(held), rng


def stored_of(session):
    """What a session keeps of its opening."""
    names = ("total", "total_half_width", "noisy_threshold", "bought")
    return Opened(**{name: getattr(session, name) for name in names if getattr(session, name, None) is not None})


@pytest.fixture
def drawn(monkeypatch):
    """The noise of every draw from here on."""
    found = []
    for law in (LaplaceNoise, GaussianNoise):
        real = law.draw
        monkeypatch.setattr(law, "draw", lambda self, size, rng, real=real: found.append(self) or real(self, size, rng))
    return found


def worth(drawn, rows):
    """What each draw is worth by the scale it has, on a count that one unit moves by so many rows."""
    return sum(
        Fraction(rows) / each.scale
        if isinstance(each, LaplaceNoise)
        else Fraction(rows * rows) / (2 * each.exact_variance)
        for each in drawn
    )


def cell(number):
    return Count(attributes=("c0", "c1"), bins=((number // 3,), (number % 3,)))


@BUDGETS
@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("unit", [None, PERSON], ids=["row", "person"])
def test_the_noise_of_all_answers_together_is_what_was_charged(budget, neighbours, unit, drawn):
    plan, session, truth, rng = opened("noise-online", budget, questions=40, neighbours=neighbours, unit=unit)
    # The noise on the number of rows is not of an answer.
    drawn.clear()
    chooses = np.random.default_rng(4)
    for number in range(12):
        try:
            session.ask(cell(number), truth, rng=rng, within=int(chooses.integers(20, 2000)))
        except InvalidInput:
            continue
    assert len(drawn) == len(session.exchanges) > 3
    spent = worth(drawn, 2 if unit else 1)
    *_, event = plan.events
    assert 0 < spent <= (event.epsilon if budget is PURE else event.rho)
    assert spent == (event.epsilon if budget is PURE else event.rho) * (PARTS - session.parts_left) / PARTS
    price = accountant.price(plan.events, delta=plan.delta, neighbours=plan.schema.neighbours)
    assert price.epsilon <= budget.epsilon * 10**accountant.EPSILON_PLACES


@BUDGETS
def test_what_is_left_answers_no_closer_and_a_refusal_touches_no_data(budget):
    plan, session, truth, rng = opened("noise-online", budget, questions=30)
    closest = plan.rules.half_width_of(PARTS)
    with pytest.raises(InvalidInput, match=rf"within: {closest - 1} must be at least {closest}"):
        session.ask(cell(0), Forbidden(), rng=rng, within=closest - 1)
    first = session.ask(cell(0), truth, rng=rng, within=closest + 1)
    assert first.half_width == closest + 1
    with pytest.raises(InvalidInput, match=r"within: .* must be larger"):
        session.ask(cell(1), Forbidden(), rng=rng, within=closest + 1)
    assert session.exchanges == [first]
    wide = session.ask(cell(1), truth, rng=rng, within=100_000)
    assert 0 < wide.parts < first.parts
    assert wide.half_width <= 100_000


@BUDGETS
def test_every_question_can_be_asked_at_the_usual_price_and_none_more(budget):
    plan, session, truth, rng = opened("noise-online", budget, questions=12)
    for number in range(12):
        answer = session.ask(cell(number), truth, rng=rng)
        assert (answer.kind, answer.parts, answer.half_width) == (
            AnswerKind.MEASURED,
            PARTS // 12,
            plan.rules.half_width,
        )
    with pytest.raises(SessionOver, match="All questions"):
        session.ask(Count(attributes=("c2",), bins=((0,),)), Forbidden(), rng=rng)


def test_a_closer_answer_is_measured_again_and_a_wider_one_is_the_one_there_is():
    _, session, truth, rng = opened("noise-online", questions=20)
    first = session.ask(cell(0), truth, rng=rng, within=500)
    assert session.ask(cell(0), Forbidden(), rng=rng, within=900).kind is AnswerKind.REPEATED
    assert session.ask(cell(0), Forbidden(), rng=rng).estimate == first.estimate
    closer = session.ask(cell(0), truth, rng=rng, within=50)
    assert closer.kind is AnswerKind.MEASURED
    assert closer.parts > first.parts
    assert session.ask(cell(0), Forbidden(), rng=rng, within=400).half_width == closer.half_width
    assert [each.half_width for each in session.closest] == [closer.half_width]
    assert session.parts_left == PARTS - first.parts - closer.parts


@BUDGETS
def test_noise_leaves_no_half_width_more_often_than_beta_whatever_errors_are_asked_for(budget):
    """1,000 sessions at beta 0.2, whose asker looks at answers: fails below 1e-6 where the bound holds."""
    beta, runs, left, close = Fraction(1, 5), 1000, 0, 0
    plan = plan_for("noise-online", budget, questions=6, beta=beta)
    held = some_counts(plan.schema.universe, 100)
    truth = ExactCounts(held)
    for number in range(runs):
        rng = StreamRandomness(b"noise %d" % number)
        session = plan.open(held, rng=rng)
        answers = []
        for question in range(6):
            wanted = 900 if answers and answers[-1].estimate > 100 else int(plan.rules.half_width)
            answers.append(session.ask(cell(question), truth, rng=rng, within=wanted))
        off = [abs(each.estimate - truth(each.query)) / each.half_width for each in answers]
        left += max(off) > 1
        close += max(off) > 0.5
    most = runs * beta + 5 * sqrt(runs * beta * (1 - beta))
    assert left <= most < close


@BUDGETS
@pytest.mark.parametrize("neighbours", RELATIONS)
def test_a_bought_histogram_answers_everything_without_the_table(budget, neighbours):
    plan, session, truth, rng = opened("histogram-online", budget, neighbours=neighbours)
    *_, event = plan.events
    scale = (1 if neighbours == "add_remove" else 2) * event.noise_multiplier
    assert plan.rules.noise.scale == event.noise_multiplier * plan.rules.noise.l1_sensitivity == scale
    for number in range(12):
        query = cell(number)
        answer = session.ask(query, Forbidden(), rng=rng)
        assert answer.kind is AnswerKind.PUBLIC
        assert answer.estimate == max(0, session.noisy_cells[number // 3, number % 3].sum())
        assert answer.half_width == plan.half_width_of(query) <= plan.rules.half_width
        assert abs(answer.estimate - truth(query)) <= answer.half_width
    assert session.questions_left is None
    with pytest.raises(InvalidInput, match="within: 1 must be at least"):
        session.ask(Count(attributes=("c2",), bins=((0,),)), Forbidden(), rng=rng, within=1)


def test_the_noise_of_a_histogram_is_on_every_cell_and_is_as_large_as_charged():
    plan = plan_for("histogram-online", ApproxDP(epsilon=Fraction(1, 10), delta=Fraction(1, 100)))
    empty = Histogram(universe=plan.schema.universe, counts=np.zeros((4, 3, 2), dtype=np.int64))
    rng = StreamRandomness(b"cells")
    drawn = np.array([plan.open(empty, rng=rng).noisy_cells.ravel() for _ in range(2000)])
    scale = float(plan.rules.noise.scale)
    # Mean absolute values of Laplace noise; each of 24 deviates by 0.1 with probability below 1e-5.
    assert np.abs(np.abs(drawn).mean(axis=0) / scale - 1).max() < 0.1
    assert np.abs(np.corrcoef(drawn.T) - np.eye(24)).max() < 0.13


@pytest.mark.parametrize("name", WAYS)
def test_a_resumed_session_goes_on_as_it_would_have(name):
    plan, session, truth, rng = opened(name, questions=20, budget=PureDP(epsilon=Fraction(20)))
    for number in range(6):
        session.ask(cell(number), truth, rng=rng)
    resumed = plan.resumed(stored_of(session), list(session.exchanges))
    np.testing.assert_array_equal(resumed.agreeing(), session.agreeing())
    one, other = StreamRandomness(b"rest"), StreamRandomness(b"rest")
    for number in range(6, 12):
        assert session.ask(cell(number), truth, rng=one) == resumed.ask(cell(number), truth, rng=other)


@BUDGETS
@pytest.mark.parametrize("questions", [1, 30, 10_000])
@pytest.mark.parametrize("shape", [(4, 3), (40, 30, 20)], ids=str)
def test_the_way_with_the_closest_bound_is_taken(budget, questions, shape):
    schema = schema_of(categories(shape))
    given = {"budget": budget, "beta": Fraction(1, 20), "options": {"questions": questions, "population": 1000}}
    bounds = {}
    for name in WAYS:
        plan = plan_of_way(name, schema, **given)
        bounds[name] = inf if plan.expectation is None else plan.expectation.alpha
    chosen = plan_of_way("", schema, **given)
    assert bounds[chosen.mechanism] == min(bounds.values()) == chosen.expectation.alpha


def test_each_way_is_the_closest_of_some_session():
    def taken(shape, *, delta=0, **options):
        budget = ApproxDP(epsilon=Fraction(1), delta=Fraction(1, 10**9)) if delta else PURE
        schema = schema_of(categories(shape))
        return plan_of_way("", schema, budget=budget, beta=Fraction(1, 20), options=options).mechanism

    assert taken((4, 3), questions=1000) == "histogram-online"
    assert taken((30,) * 3, questions=10, delta=1) == "noise-online"
    # So many questions, of so many cells, that neither noise on each nor on all is small.
    assert taken((100, 100, 300), questions=100_000, population=1000) == "pmw-online"
    assert taken((4, 3), questions=10, updates=5) == "pmw-online"


def test_options_and_ways_that_there_are_not_are_refused():
    def refused(field, way="", **options):
        with pytest.raises(InvalidInput, match=field):
            plan_of_way(way, schema_of(COLUMNS), budget=PURE, beta=Fraction(1, 20), options=options)

    refused("way", way="laplace-queries")
    refused("options", way="noise-online", colour=1)
    refused("options.updates", way="noise-online", updates=0)


def test_a_concentrated_event_costs_its_rho():
    event = ConcentratedEvent(rho=Fraction(1, 8))
    assert event_from_json(event.to_json()) == event
    price = accountant.price([event, event], delta=Fraction(1, 10**6))
    assert price.rho == 10**accountant.EPSILON_PLACES // 4
    assert price.pure_epsilon is None
    with pytest.raises(InvalidInput, match=r"concentrated\.rho"):
        ConcentratedEvent(rho=Fraction(0))
