"""One contract for every mechanism that answers a statistic: what it draws and promises.

What its plan costs, and what a run keeps of it, is in `tests/engine/mechanisms/test_mechanisms.py`.

It finds the mechanisms by itself, and asks each of them the examples of every statistic it answers. A new statistic
needs an entry in `QUESTIONS` and in `HOLDS`, and each mechanism that answers it needs an attack on it, here or as its
case of `manage.py verify`: without them a test fails that names what is missing.
"""

import functools
import json
from dataclasses import replace
from fractions import Fraction
from math import sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta as beta_law

from releases.engine.domain.privacy import ApproxDP, NeighbouringRelation, PureDP
from releases.engine.mechanisms.base import mechanisms
from releases.engine.noise.randomness import StreamRandomness
from releases.engine.verification.cases import CASES as CASES_OF_ROWS
from releases.engine.verification.cases import CASES_OF_PERSONS, Case, NeighbouringTables
from releases.engine.verification.looks import along
from releases.engine.verification.recording import record, with_noise_scaled
from releases.engine.verification.tables import Remembered, rows_of
from releases.engine.verification.truths import HOLDS
from releases.engine.workload.kinds.survey import SurveyStatistic
from releases.engine.workload.parsing import read_question
from releases.engine.workload.statistic import statistics_by_word
from tests.engine import telling
from tests.engine.telling import FALSE_ALARM, RELATIONS

BUDGETS = [PureDP(epsilon=Fraction(1)), ApproxDP(epsilon=Fraction(1), delta=Fraction(1, 10**6))]
UNITS = [{"kind": "row"}, {"kind": "person", "id": "who", "max_rows": 3}]
YES_NO = {"type": "categorical", "categories": ["yes", "no"], "outside": "no"}
#: Two numbers, one with a decimal place and values below 0, and categories.
PEOPLE = [
    {"name": "age", "type": "integer", "edges": [0, 10, 20, 30]},
    {"name": "income", "type": "number", "edges": [-5, 0, 20], "decimals": 1},
    {"name": "town", "type": "categorical", "categories": ["a", "b", "c"], "outside": "c"},
    {"name": "tea", **YES_NO},
    {"name": "rice", **YES_NO},
    {"name": "fish", **YES_NO},
]
#: With weights of up to 2.5, in tenths.
WEIGHED = [*PEOPLE[:3], {"name": "weight", "type": "number", "edges": [0, 2.5], "decimals": 1}]
#: No value of these drops its row, so that under "replace" the number of rows is public.
TOWNS = PEOPLE[2:]
#: Dates on both sides of 1970, in bins that are in order of time and not. A day has so many seconds that its values
#: are weighed in stretches: those are in `test_counted_quantiles.py`.
VISITS = [
    {"name": "born", "type": "date", "first": "1969-12-20", "last": "1970-01-20", "by": "week"},
    {"name": "called", "type": "date", "first": "2024-02-20", "last": "2024-03-10", "by": "weekday"},
    {"name": "town", "type": "categorical", "categories": ["a", "b", "c"], "outside": "c"},
]
#: Nobody knows what it can hold; three texts occur.
SPOKEN = [{"name": "spoken", "type": "categorical", "categories": ["other"], "outside": "other"}]
LIKED = [{"tea": ["yes"]}, {"rice": ["yes"]}, {"town": ["a", "b"], "fish": ["no"]}]

#: What was published of somebody's release, for a certificate to be about.
PUBLISHED = {"version": 1, "queries": [{"marginal": ["town"]}, {"prefix": "age"}, {"count": {"tea": ["yes"]}}]}
NUMBERS = {"numbers": [[100, 90, 50], [100, 180, 240], [130]]}
BOTH = {"synthetic rows": NUMBERS, "released answers": NUMBERS}

#: For each statistic the columns and the question.
QUESTIONS = [
    (PEOPLE, {"sum": ["age", "income"]}),
    (PEOPLE, {"mean": ["income"]}),
    (PEOPLE, {"mean": ["age", "income"]}),
    (PEOPLE, {"mean": {"columns": ["age"], "by": ["town", "tea"]}}),
    (PEOPLE, {"sum": {"columns": ["age", "income"], "by": "tea"}}),
    (WEIGHED, {"sum": {"columns": ["age", "income"], "weighted_by": "weight"}}),
    (WEIGHED, {"mean": {"columns": ["income"], "weighted_by": "weight"}}),
    (WEIGHED, {"mean": {"columns": ["age", "income"], "by": "town", "weighted_by": "weight"}}),
    (WEIGHED, {"weighted_count": "weight"}),
    (WEIGHED, {"weighted_count": {"weighted_by": "weight", "by": "town"}}),
    (PEOPLE, {"second_moments": ["age", "income"]}),
    (PEOPLE, {"second_moments": {"columns": ["age"], "by": "tea"}}),
    (PEOPLE, {"variance": ["income"]}),
    (PEOPLE, {"variance": {"columns": ["age"], "by": ["town", "tea"]}}),
    (WEIGHED, {"variance": {"columns": ["age", "income"], "by": "town", "weighted_by": "weight"}}),
    (PEOPLE, {"regression": {"outcome": "income", "columns": ["age", "town"]}}),
    (PEOPLE, {"logistic_regression": {"outcome": "tea", "values": ["yes"], "columns": ["age", "town"]}}),
    (PEOPLE, {"votes": {"columns": ["tea", "rice", "fish"], "category": "yes", "ballots": 2}}),
    (PEOPLE, {"survey": "town"}),
    (TOWNS, {"survey": "tea"}),
    (PEOPLE, {"most_common": "town"}),
    (PEOPLE, {"top": {"column": "town", "k": 2}}),
    (PEOPLE, {"largest_count": LIKED}),
    (PEOPLE, {"median": "age"}),
    (PEOPLE, {"quantile": {"column": "income", "at": "0.9"}}),
    (PEOPLE, {"quantiles": {"column": "income", "at": ["0.25", "0.5", "0.75"]}}),
    (PEOPLE, {"quantiles": {"column": "age", "at": ["0.5"], "by": "tea"}}),
    (VISITS, {"median": "born"}),
    (VISITS, {"quantiles": {"column": "called", "at": ["0.25", "0.75"]}}),
    (VISITS, {"quantiles": {"column": "born", "at": ["0.5"], "by": "town"}}),
    (PEOPLE, {"range": {"column": "income", "inside": "0.98"}}),
    (SPOKEN, {"categories": "spoken"}),
    (PEOPLE, {"strongest_associations": {"columns": ["age", "town", "tea", "rice"], "k": 2}}),
    (TOWNS, {"strongest_associations": {"columns": ["town", "tea", "fish"]}}),
    (PEOPLE, {"threshold": {"counts": LIKED, "above": 120}}),
    (PEOPLE, {"threshold": {"counts": LIKED, "above": 120, "answers": 2}}),
    (PEOPLE, {"largest_error": {"workload": PUBLISHED, "released": BOTH}}),
    (PEOPLE, {"largest_error": {"workload": PUBLISHED, "released": BOTH, "means": ["asked"]}}),
]


def asked(columns, *queries):
    return read_question({"version": 1, "queries": list(queries)}, telling.schema_of(columns).universe)


CASES = [
    pytest.param(name, columns, query, id=f"{name} {json.dumps(query)[:50]} {len(columns)}")
    for name, each in mechanisms().items()
    for columns, query in QUESTIONS
    if each.can_answer(asked(columns, query))
]


def planned(name, columns, query, *, budget=None, **given):
    """A plan that can be run if there is one: with a pure budget, or else with an approximate one."""
    plans = [telling.planned(name, columns, query, budget=each, **given) for each in ([budget] if budget else BUDGETS)]
    return next((plan for plan in plans if not plan.infeasible), plans[-1])


def plan_for(name, columns, query, *, neighbours="add_remove", budget=None, beta=Fraction(1, 20), unit=UNITS[0]):
    """The same, planned once for all tests: a plan is frozen."""
    return _plan_for(name, *map(json.dumps, (columns, query, unit)), neighbours, budget, beta)


@functools.cache
def _plan_for(name, columns, query, unit, neighbours, budget, beta):
    columns, query, unit = map(json.loads, (columns, query, unit))
    return planned(name, columns, query, neighbours=neighbours, budget=budget, beta=beta, unit=unit)


RUNNABLE = [case for case in CASES if not plan_for(*case.values).infeasible]
in_every_runnable_case = pytest.mark.parametrize(("name", "columns", "query"), RUNNABLE)


def test_every_mechanism_can_answer_something_under_either_relation():
    able = {
        (case.values[0], neighbours)
        for case in RUNNABLE
        for neighbours in RELATIONS
        if not plan_for(*case.values, neighbours=neighbours).infeasible
    }
    assert able == {(name, relation) for name, each in mechanisms().items() if each.answers for relation in RELATIONS}


def test_every_statistic_has_a_question_and_a_truth_that_its_bound_is_compared_with():
    kinds = set(statistics_by_word().values())
    assert {type(asked(columns, query).statistic) for columns, query in QUESTIONS} == kinds
    assert set(HOLDS) == kinds


def test_every_mechanism_is_attacked_on_every_statistic_it_answers():
    answered = {(case.values[0], type(asked(*case.values[1:]).statistic)) for case in RUNNABLE}
    cases = [(name, case) for names, case in ATTACKS for name in names]
    attacked = {
        (name, type(getattr(asked(case.columns, *case.queries), "statistic", None)))
        for name, case in [*cases, *CASES_OF_ROWS.items(), *CASES_OF_PERSONS.items()]
    }
    assert {(name, kind.kind) for name, kind in answered - attacked} == set(ATTACKED_AS_ANOTHER)


def code_ranges(universe):
    """The lowest and the highest code of every column; beyond a category that stands alone, of texts not declared."""
    return [
        (each.lowest, each.highest) if each.has_values else (0, each.size - 1 if each.size > 1 else 3)
        for each in universe.attributes
    ]


def some_rows(universe, rows=240, seed=5):
    """A table with unlike columns: low values are likelier, by another power in each column."""
    rng = np.random.default_rng(seed)
    drawn = [
        low + np.floor((high - low + 1) * rng.random(rows) ** (1 + position % 3)).astype(np.int64)
        for position, (low, high) in enumerate(code_ranges(universe))
    ]
    return rows_of(universe, np.stack(drawn, axis=1))


#: Of each plan, to count how often its bound is broken.
BOUND_RUNS = 150
#: Mechanisms that answer after a test, or not at all: their own tests look at what they promise then.
MAY_REFUSE = {"propose-test-release"}


#: What has a bound to be counted, with each budget that it can be run with.
BOUNDED = [
    pytest.param(
        *case.values, neighbours, budget, id=f"{case.id} {neighbours} {'pure' if budget is BUDGETS[0] else 'approx'}"
    )
    for case in RUNNABLE
    for neighbours in RELATIONS
    for budget in BUDGETS
    if case.values[0] not in MAY_REFUSE and not plan_for(*case.values, neighbours=neighbours, budget=budget).infeasible
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "columns", "query", "neighbours", "budget"), BOUNDED)
def test_a_bound_is_broken_no_more_often_than_beta_allows(name, columns, query, neighbours, budget):
    """At beta 0.2 a true bound fails this test with probability below 1e-5."""
    beta, runs = Fraction(1, 5), BOUND_RUNS
    plan = plan_for(name, columns, query, neighbours=neighbours, budget=budget, beta=beta)
    holds = HOLDS[type(plan.workload.statistic)]
    rows = some_rows(plan.schema.universe)
    rng, counts = StreamRandomness(f"coverage {name} {query} {neighbours}".encode()), Remembered(rows)
    broken = sum(not holds(plan, plan.run(counts, rng=rng), rows) for _ in range(runs))
    assert broken <= runs * beta + 5 * sqrt(runs * beta * (1 - beta))


# Neighbours

#: Neighbouring pairs that Hypothesis draws for each mechanism, question and relation: the same in every run.
PAIRS = 30
#: And new ones in every run for each relation, over all mechanisms and questions.
NEW_PAIRS = 1_000


@st.composite
def neighbouring_tables(draw, schema):
    """Two tables that differ in one unit, each a list of tuples of codes; a row that a rule drops is not there."""
    columns = [st.integers(low, high) for low, high in code_ranges(schema.universe)]
    row, most = st.tuples(*columns), schema.unit.max_rows
    shared, one = draw(st.lists(row, max_size=6)), draw(st.lists(row, min_size=1, max_size=most))
    is_replaced, may_be_none = schema.neighbours.value == "replace", schema.rows_may_vanish
    other = draw(st.lists(row, min_size=0 if may_be_none else 1, max_size=most)) if is_replaced else []
    position = draw(st.integers(0, len(shared)))
    pair = tuple([*shared[:position], *rows, *shared[position:]] for rows in (one, other))
    return pair if draw(st.booleans()) else pair[::-1]


@pytest.mark.slow
@in_every_runnable_case
@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("unit", UNITS, ids=["row", "person"])
def test_neighbours_with_the_same_randomness_draw_the_same_noise(name, columns, query, neighbours, unit):
    plan = plan_for(name, columns, query, neighbours=neighbours, unit=unit)
    if plan.infeasible:
        return

    @settings(max_examples=PAIRS, database=None, derandomize=True)
    @given(neighbouring_tables(plan.schema), st.binary(min_size=1, max_size=4))
    def compared(pair, seed):
        draw_alike(plan, pair, seed)

    compared()


@pytest.mark.slow
@pytest.mark.parametrize("neighbours", RELATIONS)
def test_new_neighbours_draw_the_same_noise_whatever_the_mechanism(neighbours):
    plans = [plan_for(*case.values, neighbours=neighbours) for case in RUNNABLE]

    @settings(max_examples=NEW_PAIRS, database=None)
    @given(st.data(), st.sampled_from(plans), st.binary(min_size=1, max_size=4))
    def compared(data, plan, seed):
        draw_alike(plan, data.draw(neighbouring_tables(plan.schema)), seed)

    compared()


def draw_alike(plan, pair, seed):
    tables = [rows_of(plan.schema.universe, rows) for rows in pair]
    one, other = (record(lambda rng, each=each: plan.run(each, rng=rng), seed=seed) for each in tables)
    assert one.draws
    assert one.draws[:1] == other.draws[:1]
    # Of a survey the number of reports is published, and decides what is drawn after it.
    is_survey = isinstance(plan.workload.statistic, SurveyStatistic)
    if not is_survey or sum(one.result.notes["reports"]) == sum(other.result.notes["reports"]):
        assert one.flow == other.flow
    scores_move_within_what_is_paid_for(one, other)


def scores_move_within_what_is_paid_for(one, other):
    """What a choice is made by; once two runs chose otherwise, later scores need not be of the same candidates."""
    scores, others = iter(one.private), iter(other.private)
    for draw, drawn, another in zip(one.draws, one.drawn, other.drawn, strict=True):
        told = dict(draw.parameters)
        arrays = [
            (next(scores), next(others)) for value in told.values() if isinstance(value, tuple) and "array" in value
        ]
        if "sensitivity" in told:
            moved = arrays[0][0] - arrays[0][1]
            assert np.abs(moved).max() <= told["sensitivity"] * told.get("denominator", 1)
            assert not told.get("monotone") or (moved >= 0).all() or (moved <= 0).all()
            if drawn != another:
                return


def between(first, second, look):
    """How far each number that is looked at lies from its exact value on one table to that on the other, together.

    The likelihood ratio grows with it. Pure noise tells nothing more beyond the two exact values; Gaussian noise does.
    """
    first, second = np.array(first, dtype=float), np.array(second, dtype=float)
    moved = first != second

    def look_at(plan, *_):
        ends = (-10, 10) if plan.delta else (0, 1)
        step = (second - first)[moved]
        return lambda result: round(float(np.clip((look(result) - first)[moved] / step, *ends).sum()), 6)

    return look_at


def sums_and_count(result):
    return np.array([result.notes["noisy number of rows"], *result.notes["noisy sums about the middle"].values()])


def true_sums_and_count(rows):
    """Incomes from -5 to 20, in tenths."""
    return [len(rows), sum(row[1] / 10 - 7.5 for row in rows)]


def squares_and_product(result):
    """A, B and C of incomes, whose range is 25 wide, from their sums about the middle."""
    rows = result.notes["noisy number of rows"]
    about = result.notes["noisy sums about the middle"]["income"] / 25
    squares = result.notes["noisy sums of squares about the middle"]["income"] / 625
    return np.array([squares + about + rows / 4, rows / 2 - 2 * squares, squares - about + rows / 4])


def true_squares_and_product(rows):
    places = np.array([(row[1] + 50) / 250 for row in rows])
    return [(places**2).sum(), (2 * places * (1 - places)).sum(), ((1 - places) ** 2).sum()]


def apart(moments):
    """Of one predictor: the rows, the sums, the product and the squares about their middle, each with its own noise."""
    rows, age, income, of_age, both, of_income = np.array(moments)[np.triu_indices(3)].tolist()
    return np.array([rows, age, income, both, of_age - rows / 2, of_income - rows / 2])


def moments_of_scaled(result):
    return apart(result.notes["moments of scaled columns"]["sums"])


def true_moments_of_scaled(rows):
    """Ages from 0 to 30, incomes from -5 to 20 in tenths."""
    scaled = np.array([[1, row[0] / 15 - 1, row[1] / 125 - 0.6] for row in rows]).reshape(-1, 3)
    return apart(scaled.T @ scaled)


def cells_of_low_and_high(result):
    """Of ages below 10 in town a those with tea, and of ages from 20 in town a those without."""
    cells = result.notes["counts of cells"]
    return np.array([cells["with the outcome"][0], cells["without it"][6]])


def noisy_counts(result):
    return np.array(result.notes["noisy counts"])


def says_rice(*_):
    return lambda result: float(result.chosen[0].startswith("rice"))


def case(query, look_at, *, columns=PEOPLE, weakened=Fraction(1, 2), **tables):
    """What is asked, and for each relation two neighbouring tables, lists of tuples of codes."""
    pairs = {
        NeighbouringRelation(relation): NeighbouringTables(one=one, other=other, look_at=look_at, weakened=weakened)
        for relation, (one, other) in tables.items()
    }
    return Case(columns=columns, queries=[query], pairs=pairs)


LOW, HIGH = (0, -50, 0, 0, 0, 1), (30, 200, 0, 1, 1, 0)
#: Of `WEIGHED`, with the most weight.
HEAVY, HEAVY_ELSEWHERE = (30, 200, 0, 25), (30, 200, 1, 25)
TEA, RICE = (0, -50, 0, 0, 1, 1), (0, -50, 0, 1, 0, 1)
ON_NUMBERS = ("laplace-numbers", "gaussian-numbers")
WEIGHTS = {"weighted_count": {"weighted_by": "weight", "by": "town"}}
LINE = {"regression": {"outcome": "income", "columns": ["age"]}}
ODDS = {"logistic_regression": {"outcome": "tea", "values": ["yes"], "columns": ["age", "town"]}}
BIT, HALVES = [{"name": "x", "type": "integer", "edges": [0, 1]}], {"quantiles": {"column": "x", "at": ["0.25", "0.5"]}}
NONE_OR_HIGH = {"add_remove": ([], [HIGH])}
MIDDLE = between(true_sums_and_count([]), true_sums_and_count([HIGH]), sums_and_count)
MIDDLES = between(true_sums_and_count([LOW]), true_sums_and_count([HIGH]), sums_and_count)
SQUARE = between(true_squares_and_product([]), true_squares_and_product([HIGH]), squares_and_product)
SQUARES = between(true_squares_and_product([LOW]), true_squares_and_product([HIGH]), squares_and_product)
MOMENTS = between(true_moments_of_scaled([]), true_moments_of_scaled([HIGH]), moments_of_scaled)
#: By which mechanisms, and what these are asked.
ATTACKS = [
    (ON_NUMBERS, case(WEIGHTS, along, columns=WEIGHED, add_remove=([], [HEAVY]), replace=([HEAVY], [HEAVY_ELSEWHERE]))),
    (ON_NUMBERS, case({"mean": ["income"]}, MIDDLE, **NONE_OR_HIGH)),
    (ON_NUMBERS, case({"mean": ["income"]}, MIDDLES, replace=([LOW], [HIGH]))),
    (ON_NUMBERS, case({"variance": ["income"]}, SQUARE, **NONE_OR_HIGH)),
    (ON_NUMBERS, case({"variance": ["income"]}, SQUARES, replace=([LOW], [HIGH]))),
    (ON_NUMBERS, case({"second_moments": ["age"]}, along, **NONE_OR_HIGH)),
    (ON_NUMBERS, case(ODDS, between([0, 0], [0, 1], cells_of_low_and_high), **NONE_OR_HIGH)),
    (ON_NUMBERS, case(ODDS, between([1, 0], [0, 1], cells_of_low_and_high), replace=([LOW], [HIGH]))),
    (ON_NUMBERS, case(LINE, MOMENTS, weakened=Fraction(1, 4), **NONE_OR_HIGH)),
    (
        ("exponential-choice", "noisy-max-choice", "permute-and-flip-choice"),
        case(
            {"largest_count": [{"tea": ["yes"]}, {"rice": ["yes"]}]},
            says_rice,
            weakened=Fraction(1, 5),
            add_remove=([TEA], []),
            replace=([TEA], [RICE]),
        ),
    ),
    (("counted-quantile",), case(HALVES, between([0, 0], [0, 1], noisy_counts), columns=BIT, add_remove=([], [(1,)]))),
    (("counted-quantile",), case(HALVES, between([1, 0], [0, 1], noisy_counts), columns=BIT, replace=([(0,)], [(1,)]))),
]
#: Answers that a mechanism gives after one and the same test, which is attacked on another statistic.
ATTACKED_AS_ANOTHER = {("propose-test-release", "mean"): "quantile"}
ATTACKED = [
    pytest.param(name, each, relation, id=f"{name} {next(iter(each.queries[0]))} {relation.value}")
    for names, each in ATTACKS
    for name in names
    for relation in each.pairs
]
#: At a delta so large a thousand runs show what is spent.
VISIBLE = [PureDP(epsilon=Fraction(1)), ApproxDP(epsilon=Fraction(1), delta=Fraction(2, 5))]
ATTACK_RUNS = 2_500


def proved_excess(first, second, budget):
    """A lower bound of max Pr[E] - e^epsilon Pr'[E] - delta over events E = {look >= t}, at 1 - FALSE_ALARM.

    The event is picked on one half of the runs, and its probabilities are bounded on the other (Clopper and Pearson
    1934), each at half the false alarm.
    """
    growth, delta = float(np.exp(float(budget.epsilon))), float(budget.delta)
    half = len(first) // 2
    picked = max(
        np.unique(second[:half]), key=lambda t: (second[:half] >= t).mean() - growth * (first[:half] >= t).mean()
    )
    often, seldom = int((second[half:] >= picked).sum()), int((first[half:] >= picked).sum())
    runs, alarm = len(first) - half, FALSE_ALARM / 2
    low = beta_law.ppf(alarm, often, runs - often + 1) if often else 0.0
    high = beta_law.isf(alarm, seldom + 1, runs - seldom) if seldom < runs else 1.0
    return low - growth * high - delta


@pytest.mark.slow
@pytest.mark.parametrize(("name", "case", "neighbours"), ATTACKED)
def test_what_is_spent_is_not_seen_to_pass_the_claim_and_with_half_the_noise_it_is(name, case, neighbours):
    """A private mechanism fails the first assertion with probability at most 1e-6."""
    plans = [replace(case, budget=budget).plan(name, neighbours) for budget in VISIBLE]
    plan, pair = next(each for each in plans if not each.infeasible), case.pairs[neighbours]
    look = pair.look_at(plan, pair.one, pair.other)

    def looked(rows, label):
        rng = StreamRandomness(f"{name} {case.queries[0]} {label}".encode())
        counts = Remembered(rows_of(plan.schema.universe, rows))
        return np.array([look(plan.run(counts, rng=rng)) for _ in range(ATTACK_RUNS)])

    def excess():
        return proved_excess(looked(pair.one, 0), looked(pair.other, 1), plan.budget)

    assert excess() <= 0
    with with_noise_scaled(pair.weakened):
        assert excess() > 0
