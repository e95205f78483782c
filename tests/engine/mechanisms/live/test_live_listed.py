"""Sessions that buy the answers to a list: what all of it costs, what follows for nothing, and that bounds hold."""

from fractions import Fraction
from itertools import chain, combinations, product
from math import prod, sqrt

import numpy as np
import pytest

from releases.engine.accounting import accountant
from releases.engine.domain.privacy import ApproxDP, PureDP
from releases.engine.errors import InvalidInput
from releases.engine.mechanisms.base import plan_from_json
from releases.engine.mechanisms.live.noise import PARTS
from releases.engine.mechanisms.live.ways import plan_of_way
from releases.engine.mechanisms.pmw.online import ExactCounts
from releases.engine.mechanisms.pmw.session import AnswerKind, SessionOver
from releases.engine.noise.randomness import StreamRandomness
from releases.engine.tables.counts import Histogram
from releases.engine.workload.parsing import read_question
from releases.engine.workload.queries import Count, Marginal
from tests.engine.mechanisms.live.test_live_noise import APPROX, BUDGETS, PURE, drawn, open_, stored_of, worth
from tests.engine.mechanisms.test_pmw_online import Forbidden
from tests.engine.telling import PERSON, RELATIONS, categories, planned, schema_of, some_counts

__all__ = ["drawn"]
SHAPE = (4, 3, 2)
COLUMNS = categories(SHAPE)
NAME, FITTED = "listed-online", "fitted-online"
PAIRS = [{"marginal": list(pair)} for pair in combinations(("c0", "c1", "c2"), 2)]
SINGLES = [{"marginal": [name]} for name in ("c0", "c1", "c2")]


def plan_for(budget=PURE, asked=PAIRS, neighbours="add_remove", name=NAME, **given):
    return planned(name, COLUMNS, asked, neighbours, budget=budget, **given)


def opened(budget=PURE, **given):
    return open_(plan_for(budget, **given))


def subsets(size):
    """Sets of some bins of an attribute, but not of all."""
    return list(chain.from_iterable(combinations(range(size), number) for number in range(1, size)))


def sums_of(columns):
    """Every count that restricts just these columns."""
    names = tuple(f"c{column}" for column in columns)
    return [Count(attributes=names, bins=bins) for bins in product(*(subsets(SHAPE[each]) for each in columns))]


ALL_SUMS = [query for number in (1, 2) for columns in combinations(range(3), number) for query in sums_of(columns)]


def truth_of(query, cells):
    index = [range(size) for size in SHAPE]
    for name, bins in zip(query.attributes, query.bins, strict=True):
        index[int(name[1])] = bins
    return int(cells[np.ix_(*index)].sum())


@BUDGETS
@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("unit", [None, PERSON], ids=["row", "person"])
def test_the_list_and_all_later_answers_together_cost_what_was_charged(budget, neighbours, unit, drawn):
    plan, session, truth, rng = opened(budget, questions=40, neighbours=neighbours, unit=unit)
    price = accountant.price(plan.events, delta=plan.delta, neighbours=plan.schema.neighbours)
    most = budget.epsilon * 10**accountant.EPSILON_PLACES
    assert 0.999 * most <= price.epsilon <= most
    drawn.clear()
    for number in range(4):
        asked = Count(attributes=("c0", "c1", "c2"), bins=((number,), (0,), (0,)))
        session.ask(asked, truth, rng=rng)
    session.ask(Count(attributes=("c0", "c1", "c2"), bins=((0,), (1,), (1,))), truth, rng=rng, within=2000)
    assert len(drawn) == 5
    *bought, event = plan.events
    whole = event.epsilon if budget is PURE else event.rho
    assert worth(drawn, 2 if unit else 1) == whole * (PARTS - session.parts_left) / PARTS
    # What the list cost by itself is about half, and is not in what is left.
    alone = accountant.price(bought, delta=plan.delta, neighbours=plan.schema.neighbours)
    unit_of = 10**accountant.EPSILON_PLACES
    if budget is PURE:
        assert alone.pure_epsilon + whole * unit_of <= most
        assert 0.4 * most < alone.pure_epsilon < 0.6 * most
    else:
        assert (alone.rho + whole * unit_of) <= price.rho + 1
        assert 0.4 * price.rho < alone.rho < 0.6 * price.rho


def test_the_share_that_is_chosen_buys_the_list():
    widths = [plan_for(start=start).rules for start in (20, 50, 80)]
    listed = [each.listed_half_width for each in widths]
    priced = [each.paid_half_width for each in widths]
    assert listed == sorted(listed, reverse=True)
    assert priced == sorted(priced)
    assert len({*listed}) == len({*priced}) == 3


@BUDGETS
def test_what_adds_up_cells_of_one_table_is_answered_without_the_rows(budget):
    plan, session, _, rng = opened(budget, questions=1)
    tables = dict(zip(plan.counts_asked.families, plan.counts_asked.split(session.bought), strict=True))
    asked = Count(attributes=("c0", "c1"), bins=((1, 3), (0, 2)))
    table = tables[Marginal(attributes=("c0", "c1"))].reshape(4, 3)
    answer = session.ask(asked, Forbidden(), rng=rng, within=10**6)
    assert answer.kind is AnswerKind.PUBLIC
    assert answer.estimate == max(0, round(float(sum(table[i, j] for i in (1, 3) for j in (0, 2)))))
    one = session.ask(Count(attributes=("c0", "c1"), bins=((0,), (0,))), Forbidden(), rng=rng)
    assert one.half_width == plan.half_width_of(one.query) == plan.rules.listed_half_width
    assert one.half_width < answer.half_width <= 4 * one.half_width
    # A count of one column is summed from the table in which it has the fewest cells.
    alone = session.ask(Count(attributes=("c0",), bins=((2,),)), Forbidden(), rng=rng, within=10**6)
    smaller = tables[Marginal(attributes=("c0", "c2"))].reshape(4, 2)
    assert alone.estimate == max(0, round(float(smaller[2].sum())))
    assert session.questions_left == 1
    assert session.parts_left == PARTS


def test_other_questions_are_measured_until_none_is_left_and_the_list_goes_on():
    plan, session, truth, rng = opened(questions=1)
    whole = Count(attributes=("c0", "c1", "c2"), bins=((0,), (0,), (0,)))
    answer = session.ask(whole, truth, rng=rng)
    assert (answer.kind, answer.half_width) == (AnswerKind.MEASURED, plan.rules.paid_half_width)
    other = Count(attributes=("c0", "c1", "c2"), bins=((1,), (0,), (0,)))
    with pytest.raises(SessionOver, match="bought at the start"):
        session.ask(other, Forbidden(), rng=rng)
    with pytest.raises(SessionOver):
        session.price(other, 10**6)
    assert not session.is_used_up
    assert session.ask(Count(attributes=("c1", "c2"), bins=((0,), (0,))), Forbidden(), rng=rng).parts == 0


def test_what_is_asked_for_closer_than_it_was_bought_is_measured():
    _, session, truth, rng = opened(questions=2, start=5)
    asked = Count(attributes=("c0", "c1"), bins=((0,), (0,)))
    bought = session.ask(asked, Forbidden(), rng=rng, within=10**6)
    closer = session.ask(asked, truth, rng=rng, within=int(bought.half_width) - 1)
    assert (bought.kind, closer.kind) == (AnswerKind.PUBLIC, AnswerKind.MEASURED)
    assert closer.half_width < bought.half_width
    assert session.ask(asked, Forbidden(), rng=rng).estimate == closer.estimate


@pytest.mark.parametrize(
    ("budget", "asked", "weighted"),
    [(PURE, PAIRS, False), (APPROX, PAIRS, False), (PURE, [{**PAIRS[0], "weight": 3}, *PAIRS[1:]], True)],
    ids=["pure", "approx", "weighted"],
)
def test_all_sums_of_the_list_keep_their_widths_at_once(budget, asked, weighted):
    """300 sessions at beta 0.2, of which a quarter is for sums and a quarter for cells: fails below 1e-6.

    Widths of sums as if each were alone, or as if it had one cell, are left far more often.
    """
    beta, runs = Fraction(1, 5), 300
    plan = plan_for(budget, asked=asked, beta=beta, questions=1)
    held = some_counts(plan.schema.universe, 100)
    widths = np.array([plan.start.width_of(query) for query in ALL_SUMS])
    exact = np.array([truth_of(query, held.counts) for query in ALL_SUMS])
    cells = np.array([prod(map(len, query.bins)) for query in ALL_SUMS])
    left = wrong = 0
    for number in range(runs):
        session = plan.open(held, rng=StreamRandomness(b"sums %d" % number))
        found = np.array([plan.start.estimate(query, session.bought) for query in ALL_SUMS])
        left += bool((np.abs(found - exact) > widths).any())
        wrong += bool((np.abs(found - exact)[cells > 2] > widths[cells > 2] / 2).any())
    most = runs * beta / 2 + 5 * sqrt(runs * beta / 2 * (1 - beta / 2))
    assert left <= most < wrong
    assert weighted is plan.counts_asked.is_weighted


@BUDGETS
def test_the_widths_of_sums_are_no_wider_than_they_need(budget):
    """A sum of n cells of one table has the noise of √n of them, or of fewer where tables share it."""
    plan = planned(NAME, categories((60, 3)), [{"marginal": ["c0", "c1"]}, {"marginal": ["c0"]}], budget=budget)
    one = plan.start.width_of(Count(attributes=("c0", "c1"), bins=((0,), (0,))))
    many = plan.start.width_of(Count(attributes=("c0", "c1"), bins=(tuple(range(40)), (0, 1))))
    assert one * 2 < many < one * sqrt(80) * 2


@BUDGETS
def test_a_listed_count_is_answered_as_it_was_bought(budget):
    count = {"count": {"c0": ["v0", "v2"], "c1": ["v1"]}}
    plan, session, _, rng = opened(budget, asked=[count, *SINGLES])
    asked = Count(attributes=("c0", "c1"), bins=((0, 2), (1,)))
    answer = session.ask(asked, Forbidden(), rng=rng)
    assert answer.estimate == max(0, round(float(session.bought[0])))
    assert answer.half_width <= plan.rules.listed_half_width
    assert plan.start.width_of(Count(attributes=("c0", "c1"), bins=((0,), (1,)))) is None


@BUDGETS
@pytest.mark.parametrize("name", [NAME, FITTED])
def test_a_resumed_session_has_what_was_bought_and_its_rows_follow_from_it(budget, name):
    plan, session, truth, rng = opened(budget, questions=20, name=name)
    for query in (*ALL_SUMS[:4], Count(attributes=("c0", "c1", "c2"), bins=((0,), (0,), (0,)))):
        session.ask(query, truth, rng=rng)
    resumed = plan_from_json(plan.to_json()).resumed(stored_of(session), list(session.exchanges))
    assert resumed.rules == session.rules
    assert resumed.start.half_widths == session.start.half_widths
    if name == FITTED:
        assert session.start.half_widths == (session.bought[-2],) * 3
    assert list(map(str, resumed.released())) == list(map(str, session.released()))
    agreeing = session.agreeing()
    np.testing.assert_array_equal(resumed.agreeing(), agreeing)
    assert agreeing.sum() == pytest.approx(1)
    assert (agreeing >= 0).all()


@pytest.mark.parametrize("given", [{}, {"name": FITTED, "population": 10**6}], ids=str)
def test_the_rows_of_a_closed_session_are_near_to_the_tables_that_were_bought(given):
    _, session, _, _ = opened(PureDP(epsilon=Fraction(50)), **given)
    share, bought = session.agreeing().sum(axis=2), session.bought[:12].reshape(4, 3)
    np.testing.assert_allclose(share, bought / bought.sum(), atol=0.01)


def test_what_is_released_at_the_end_is_the_list_and_what_was_asked_the_closest_of_each():
    count = {"count": {"c0": ["v0"], "c1": ["v1"]}}
    plan, session, truth, rng = opened(asked=[count, *SINGLES], questions=2, start=2)
    asked = Count(attributes=("c0", "c1"), bins=((0,), (1,)))
    closer = session.ask(asked, truth, rng=rng, within=int(plan.start.half_widths[0]) - 1)
    alone = session.ask(Count(attributes=("c0", "c1"), bins=((3,), (1,))), truth, rng=rng)
    families, estimates, half_widths = zip(*session.released(), strict=True)
    assert families == (*plan.counts_asked.families, alone.query)
    assert (estimates[0].tolist(), half_widths[0]) == ([closer.estimate], closer.half_width)
    np.testing.assert_array_equal(np.concatenate(estimates[1:4]), session.bought[1:])
    assert half_widths[1:] == (*plan.start.half_widths[1:], alone.half_width)


def test_released_tables_are_not_rounded_and_keep_the_bound_of_their_own_plan():
    """Rounded down, the half width of answers that are no whole counts would be too small."""
    plan, session, _, _ = opened(APPROX)
    _, estimates, half_widths = zip(*session.released(), strict=True)
    assert any(not float(each).is_integer() for each in np.concatenate(estimates))
    assert half_widths == plan.start.plan.bound.half_widths
    assert any(not width.is_integer() for width in half_widths)


@BUDGETS
def test_a_running_total_is_answered_as_it_was_bought_and_a_range_is_not(budget):
    plan, session, _, rng = opened(budget, asked=[{"prefix": "c0"}])
    answer = session.ask(Count(attributes=("c0",), bins=((0, 1),)), Forbidden(), rng=rng)
    assert answer.estimate == max(0, round(float(session.bought[1])))
    assert answer.half_width == plan.rules.listed_half_width
    assert plan.start.width_of(Count(attributes=("c0",), bins=((1, 2),))) is None


@pytest.mark.parametrize("name", [NAME, FITTED])
def test_too_many_cells_are_refused_with_what_to_do(name):
    wide = planned(name, categories((1000, 1000, 1000, 1000)), [{"marginal": ["c0"]}])
    assert "fewer columns" in wide.infeasible


@BUDGETS
@pytest.mark.parametrize("shape", [(4, 3), (40, 30, 20)], ids=str)
def test_the_way_whose_answers_to_the_list_are_closest_is_taken(budget, shape):
    schema = schema_of(categories(shape))
    listed = read_question({"version": 1, "queries": [{"marginals": 2}]}, schema.universe)
    given = {"budget": budget, "beta": Fraction(1, 20), "options": {"questions": 10}, "listed": listed}
    widest = {}
    for name in (NAME, "histogram-online"):
        plan = plan_of_way(name, schema, **given)
        cells = [
            Count(attributes=family.attributes, bins=((0,),) * len(family.attributes)) for family in listed.families
        ]
        widest[name] = max(map(plan.half_width_of, cells))
    assert widest[plan_of_way("", schema, **given).mechanism] == min(widest.values())


def test_a_list_and_a_way_that_do_not_go_together_are_refused_and_a_fit_is_taken_only_where_it_is_chosen():
    schema = schema_of(COLUMNS)
    given = {"budget": APPROX, "beta": Fraction(1, 20), "options": {}}
    listed = read_question({"version": 1, "queries": PAIRS}, schema.universe)
    assert plan_of_way(FITTED, schema, **given, listed=listed).mechanism == FITTED
    assert plan_of_way("", schema, **given, listed=listed).mechanism != FITTED
    for name in (NAME, FITTED):
        with pytest.raises(InvalidInput, match="workload"):
            plan_of_way(name, schema, **given)
    with pytest.raises(InvalidInput, match="way"):
        plan_of_way("noise-online", schema, **given, listed=listed)


def test_with_a_delta_what_tables_share_is_bought_once():
    budget = ApproxDP(epsilon=Fraction(1), delta=Fraction(1, 10**9))
    columns = categories((6, 5, 4, 3))
    tables = [{"marginals": 1}, {"marginals": 2}, {"marginals": 3}]
    plan = planned(NAME, columns, tables, budget=budget)
    assert plan.start.plan.mechanism == "residual-queries"
    empty = Histogram(universe=plan.schema.universe, counts=np.zeros((6, 5, 4, 3), dtype=np.int64))
    session = plan.open(empty, rng=StreamRandomness(b"share"))
    parts = dict(zip(plan.counts_asked.families, plan.counts_asked.split(session.bought), strict=True))
    pair, single = parts[Marginal(attributes=("c0", "c1"))], parts[Marginal(attributes=("c0",))]
    np.testing.assert_allclose(pair.reshape(6, 5).sum(axis=1), single, atol=1e-6)


@BUDGETS
@pytest.mark.parametrize("name", [NAME, "histogram-online", "noise-online"])
def test_the_usual_error_is_the_mean_of_what_the_noise_does(name, budget):
    """1,000 sessions over a table of large counts, none of which is cut at 0: within 19%, by six deviations."""
    plan = planned(name, categories((4, 3)), [{"marginal": ["c0", "c1"]}], budget=budget, questions=8)
    held = some_counts(plan.schema.universe, 2)
    held = Histogram(universe=held.universe, counts=held.counts + 10**6)
    queries = [Count(attributes=("c0", "c1"), bins=((0,), (0,))), Count(attributes=("c0",), bins=((1,),))]
    errors, truth = np.zeros((1000, 2)), ExactCounts(held)
    for number in range(1000):
        rng = StreamRandomness(b"usual %d" % number)
        session = plan.open(held, rng=rng)
        for place, query in enumerate(queries):
            errors[number, place] = abs(session.ask(query, truth, rng=rng).estimate - truth(query))
    expected = [plan.expected_error(query) for query in queries]
    np.testing.assert_allclose(errors.mean(axis=0), expected, rtol=0.19)
    assert abs(errors.mean(axis=0)[0] - expected[0] / sqrt(2)) > 0.08 * expected[0]


def test_of_multiplicative_weights_the_usual_error_depends_on_the_table():
    plan = planned("pmw-online", COLUMNS, {"count": {"c0": ["v0"]}})
    assert plan.expected_error(ALL_SUMS[0]) is None
