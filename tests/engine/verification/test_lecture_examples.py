"""The worked examples of lectures on differential privacy, as this software answers them.

Where a slide and the product differ, the test says why: the product's bounds are exact quantiles, and its neighbours
are told apart.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import ceil, comb, exp, log, sqrt

import mpmath
import numpy as np
import pytest
from scipy.stats import binom

from releases.engine.accounting import accountant
from releases.engine.accounting.events import DiscreteLaplaceEvent, ParallelEvent
from releases.engine.bounds import theory
from releases.engine.domain.privacy import NeighbouringRelation, privacy_budget
from releases.engine.domain.universe import Attribute, Schema
from releases.engine.mechanisms.base import mechanism
from releases.engine.mechanisms.choices import predicate_counts
from releases.engine.mechanisms.histogram import histogram_sensitivity
from releases.engine.noise.randomness import StreamRandomness
from releases.engine.noise.selection import exponential_mechanism
from releases.engine.tables.counts import Rows
from releases.engine.verification.composition_theorems import Step, advanced, basic, optimal
from releases.engine.workload.parsing import read_question
from releases.engine.workload.sensitivity import column_span, vote_changes
from releases.engine.workload.smooth_sensitivity import (
    SortedColumn,
    local_sensitivity,
    sensitivity_at_distance,
    smooth_sensitivity,
)

ADD_REMOVE, REPLACE = NeighbouringRelation.ADD_REMOVE, NeighbouringRelation.REPLACE
MEDIAN = Fraction(1, 2)
#: A test that is true fails as rarely as this.
FALSE_ALARM = 1e-9


def schema_of(columns, neighbours=ADD_REMOVE):
    return Schema.from_json({"version": 1, "columns": columns, "neighbours": neighbours.value})


def planned(name, columns, query, *, epsilon="1", neighbours=ADD_REMOVE, beta=Fraction(1, 20), **options):
    schema = schema_of(columns, neighbours)
    question = read_question({"version": 1, "queries": [query]}, schema.universe)
    plan = mechanism(name).plan(schema, question, budget=privacy_budget(epsilon=epsilon), beta=beta, options=options)
    assert not plan.infeasible
    return plan


def rows_of(universe, values):
    array = np.array(values, dtype=np.int64).reshape(-1, len(universe.names))
    return Rows(universe=universe, columns={name: array[:, i].copy() for i, name in enumerate(universe.names)})


def categories(name, labels):
    return {"name": name, "type": "categorical", "categories": list(labels), "outside": labels[-1]}


# Counts: how many have the flu, and which of 10,000 family names is the most common


def test_one_count_at_epsilon_a_tenth_gets_laplace_noise_of_scale_ten():
    flu = [categories("flu", ["1", "0"])]
    plan = planned("laplace-queries", flu, {"count": {"flu": ["1"]}}, epsilon="0.1")
    assert plan.parameters["l1 sensitivity"] == "1"
    assert plan.parameters["noise scale"] == "10"
    histogram = planned("laplace-histogram", flu, {"marginal": ["flu"]}, epsilon="0.1")
    assert histogram.parameters["noise scale"] == "10"


def test_ten_thousand_family_names_at_epsilon_one_and_95_percent_are_within_12_2():
    numbers = theory.Numbers(
        neighbours=NeighbouringRelation.ADD_REMOVE,
        rows=300_000,
        cells=10_000,
        queries=10_000,
        changed=1,
        epsilon=Fraction(1),
        delta=Fraction(0),
        beta=Fraction(1, 20),
    )
    stated = theory.bounds(numbers)[0].published
    assert stated == pytest.approx(log(10_000 / 0.05))
    assert round(stated, 1) == 12.2
    names = [categories("name", [f"n{i}" for i in range(10_000)])]
    plan = planned("laplace-queries", names, {"marginal": ["name"]})
    # The exact quantile of whole noise: 12 keeps 95%, 11 does not.
    assert plan.bound.alpha == 12
    for most, keeps in ((12, True), (11, False)):
        beyond = 2 * mpmath.exp(-(most + 1)) / (1 + mpmath.exp(-1))
        assert ((1 - beyond) ** 10_000 >= mpmath.mpf("0.95")) == keeps
    assert plan.bound.alpha / 300_000 < 0.0001


# Which food is the most popular, where everybody may like several

FOODS = ["Salad", "BBQ", "Noodle", "Rice", "Milk"]
LIKES = [(1, 0, 1, 1, 1), (0, 1, 0, 1, 1), (0, 0, 1, 0, 1), (1, 1, 0, 0, 0), (1, 1, 0, 1, 1)]
FOOD_COLUMNS = [categories(food, ["1", "0"]) for food in FOODS]
MAX_POPULAR = {"largest_count": [{food: ["1"]} for food in FOODS]}


def test_the_foods_of_the_notes_are_liked_by_3_3_2_3_and_4():
    plan = planned("noisy-max-choice", FOOD_COLUMNS, MAX_POPULAR)
    counts = rows_of(plan.schema.universe, [[1 - liked for liked in row] for row in LIKES])
    assert predicate_counts(plan.workload.statistic.predicates, counts).tolist() == [3, 3, 2, 3, 4]


@pytest.mark.parametrize("foods", [2, 5, 12])
def test_counting_m_foods_costs_m_times_the_noise_of_naming_the_most_popular(foods):
    columns = [categories(f"food {i}", ["1", "0"]) for i in range(foods)]
    names = [each["name"] for each in columns]
    votes = {"votes": {"columns": names, "category": "1", "ballots": foods}}
    counted = planned("laplace-numbers", columns, votes, epsilon="0.1")
    assert counted.parameters["l1 sensitivity"] == str(foods)
    deviation = float(counted.parameters["standard deviation of the noise on votes for food 0"])
    assert deviation == pytest.approx(sqrt(2) * 10 * foods, rel=1e-3)
    named = planned("noisy-max-choice", columns, {"largest_count": [{name: ["1"]} for name in names]}, epsilon="0.1")
    assert named.parameters["scale, in rows"] == "10"
    # What naming may lose to the best is less than twice what counting may be off by.
    assert named.bound.alpha < 2 * counted.bound.alpha


def test_with_at_most_k_ballots_the_sensitivity_is_k_and_where_a_row_is_replaced_twice_that():
    for ballots in (1, 2, 3):
        assert vote_changes(schema_of(FOOD_COLUMNS), columns=5, ballots=ballots).sensitivity().l1 == ballots
        replaced = vote_changes(schema_of(FOOD_COLUMNS, REPLACE), columns=5, ballots=ballots).sensitivity()
        assert replaced.l1 == min(2 * ballots, 5)


def test_naming_the_most_popular_needs_twice_the_noise_where_a_row_is_replaced():
    """The slide's Lap(1/epsilon) is proved where rows are added or removed, which moves all counts one way."""
    plan = planned("noisy-max-choice", FOOD_COLUMNS, MAX_POPULAR, epsilon="0.1", neighbours=REPLACE)
    assert plan.parameters["scale, in rows"] == "20"


def test_a_histogram_has_sensitivity_1_and_where_a_row_is_replaced_2():
    assert histogram_sensitivity(schema_of(FOOD_COLUMNS)).l1 == 1
    assert histogram_sensitivity(schema_of(FOOD_COLUMNS, REPLACE)).l1 == 2


# Salaries in [10000, 100000]

SALARY = Attribute.from_json({"name": "salary", "type": "integer", "edges": [10_000, 100_000]})
SALARIES = [(50_000, 50_000, 20_000, 100_000, 60_000), (80_000, 50_000, 10_000, 100_000, 60_000)]


def test_the_total_salary_has_sensitivity_90_000_whatever_the_table():
    assert column_span(SALARY).width == 90_000
    for salaries in SALARIES:
        # By brute force: replace any one salary by either end.
        changes = [abs(new - old) for old in salaries for new in (10_000, 100_000)]
        assert max(changes) <= 90_000
    assert max(abs(new - old) for old in SALARIES[1] for new in (10_000, 100_000)) == 90_000


def test_adding_or_removing_somebody_moves_the_total_by_up_to_100_000():
    assert column_span(SALARY).largest == 100_000
    plan = planned("laplace-numbers", [SALARY.to_json()], {"sum": ["salary"]})
    assert plan.parameters["sensitivity of the sum of salary"] == "100000"


# The median: of an extreme table, and of 1 to 9 in [0, 10]


def column_of(rows, lowest, highest):
    values, counts = np.unique(np.asarray(rows, dtype=np.int64), return_counts=True)
    return SortedColumn(values=values, last=np.cumsum(counts).astype(np.int64), lowest=lowest, highest=highest)


ONE_TO_NINE = column_of(range(1, 10), 0, 10)


def slide_sensitivity(k):
    """The slide's A^(k): up to t of the k changed values go to 10 and the others to 0."""
    x = [0] * 20 + list(range(10)) + [10] * 20
    m = 20 + 5
    return max(max(x[m + t] - x[m + t - k - 1], x[m + t + 1] - x[m + t]) for t in range(k + 2))


def test_the_median_of_an_extreme_table_moves_by_the_whole_range():
    extreme = column_of([0, 0, 0, 7, 7], 0, 7)
    assert extreme.quantile(MEDIAN) == 0
    assert local_sensitivity(extreme, q=MEDIAN, neighbours=REPLACE) == 7


def test_the_local_sensitivity_can_be_0_beside_a_table_where_it_is_everything():
    calm, edge = column_of([0, 0, 0, 0, 0, 9, 9], 0, 9), column_of([0, 0, 0, 0, 9, 9, 9], 0, 9)
    assert (calm.quantile(MEDIAN), edge.quantile(MEDIAN)) == (0, 0)
    assert local_sensitivity(calm, q=MEDIAN, neighbours=REPLACE) == 0
    assert local_sensitivity(edge, q=MEDIAN, neighbours=REPLACE) == 9


def test_the_median_of_1_to_9_has_the_sensitivities_at_distance_of_the_slides():
    assert ONE_TO_NINE.quantile(MEDIAN) == 5
    found = [sensitivity_at_distance(ONE_TO_NINE, k, q=MEDIAN, neighbours=REPLACE) for k in range(12)]
    assert found[:3] == [1, 2, 3]
    assert found == [min(k + 1, 10) for k in range(12)]
    assert found == [slide_sensitivity(k) for k in range(12)]


def test_the_sensitivity_at_distance_one_of_1_to_9_is_that_of_brute_force():
    """Every table one replaced value away, and every one a second away from that."""

    def median(values):
        return sorted(values)[4]

    most = 0
    for place, value in product(range(9), range(11)):
        near = [*range(1, 10)]
        near[place] = value
        for other, moved in product(range(9), (0, 10)):
            far = list(near)
            far[other] = moved
            most = max(most, abs(median(far) - median(near)))
    assert most == sensitivity_at_distance(ONE_TO_NINE, 1, q=MEDIAN, neighbours=REPLACE) == 2


@pytest.mark.parametrize("smoothness", ["0.05", "0.1", "0.3", "0.5", "1", "2"])
def test_the_smooth_sensitivity_of_the_median_of_1_to_9_is_the_slide_s_maximum(smoothness):
    found = smooth_sensitivity(
        ONE_TO_NINE, q=MEDIAN, neighbours=REPLACE, rows_of_unit=1, smoothness=Fraction(smoothness)
    )
    rate = float(smoothness)
    assert found.gap * exp(-rate * found.steps) == pytest.approx(
        max(exp(-rate * k) * slide_sensitivity(k) for k in range(20))
    )
    assert 1 <= found.gap * exp(-rate * found.steps) <= 10


# A against B, and T-shirts for the largest class


@pytest.mark.parametrize("epsilon", ["0.5", "1", "2"])
def test_of_two_bs_the_exponential_mechanism_names_a_with_probability_1_over_1_plus_e_to_the_epsilon(epsilon):
    """20,000 draws; a true law is refused with probability below 1e-9."""
    draws, rng = 20_000, StreamRandomness(f"A against B {epsilon}".encode())
    scores = np.array([0, 2], dtype=np.int64)
    named_a = sum(
        exponential_mechanism(scores, epsilon=Fraction(epsilon), sensitivity=Fraction(1), rng=rng) == 0
        for _ in range(draws)
    )
    law = binom(draws, 1 / (1 + exp(float(epsilon))))
    assert law.ppf(FALSE_ALARM / 2) <= named_a <= law.isf(FALSE_ALARM / 2)
    # And it would be noticed if the score counted twice, as it may where all counts move one way.
    doubled = binom(draws, 1 / (1 + exp(2 * float(epsilon))))
    assert not doubled.ppf(FALSE_ALARM / 2) <= named_a <= doubled.isf(FALSE_ALARM / 2)


@pytest.mark.parametrize("beta", ["0.2", "0.05", "0.001"])
@pytest.mark.parametrize("epsilon", ["0.1", "1"])
def test_the_wrong_letter_is_named_more_rarely_than_the_tail_says(epsilon, beta):
    """With c more of B: exactly 1/(1 + e^(c epsilon/2)), below the slide's 2 e^(-c epsilon/2)."""
    letters = [categories("letter", ["A", "B"])]
    plan = planned(
        "exponential-choice",
        letters,
        {"most_common": "letter"},
        epsilon=epsilon,
        neighbours=REPLACE,
        beta=Fraction(beta),
    )
    wrong = lambda c: 1 / (1 + exp(c * float(epsilon) / 2))  # noqa: E731
    alpha = int(plan.bound.alpha)
    assert wrong(alpha + 1) <= float(beta) * (1 + 1e-9)
    assert wrong(alpha) > float(beta)
    for c in (1, alpha, 5 * alpha):
        assert wrong(c) <= 2 * exp(-c * float(epsilon) / 2)
    by_the_tail = 2 / float(epsilon) * (log(2) + log(1 / float(beta)))
    assert alpha <= ceil(by_the_tail)


def test_t_shirts_go_to_the_largest_class_by_name_and_no_number_is_told():
    """Classes of 50, 31 and 30; at epsilon 1 another is named with probability below 2 e^-19."""
    classes = [categories("class", ["A", "B", "C"])]
    plan = planned("exponential-choice", classes, {"most_common": "class"})
    pupils = [(0,)] * 50 + [(1,)] * 31 + [(2,)] * 30
    named = plan.run(rows_of(plan.schema.universe, pupils), rng=StreamRandomness(b"T-shirts"))
    assert named.chosen == ("A",)
    assert all((estimate == 0).all() for estimate in named.estimates)
    assert named.total == 0


# Composition


def test_a_count_a_sum_and_an_average_of_one_table_add_up():
    parts = [Fraction("0.2"), Fraction("0.3"), Fraction("0.5")]
    assert basic([Step(epsilon=each) for each in parts]).epsilon == 1
    events = [DiscreteLaplaceEvent(noise_multiplier=1 / each) for each in parts]
    price = accountant.price(events, delta=Fraction(0), neighbours=ADD_REMOVE)
    assert price.pure_epsilon == 10**accountant.EPSILON_PLACES


def test_sums_of_three_disjoint_parts_cost_the_most_and_two_of_them_where_rows_move():
    parts = [DiscreteLaplaceEvent(noise_multiplier=1 / Fraction(each)) for each in ("0.2", "0.3", "0.5")]
    for neighbours, cost in ((ADD_REMOVE, "0.5"), (REPLACE, "0.8")):
        event = ParallelEvent(events=tuple(parts), neighbours=neighbours)
        price = accountant.price([event], delta=Fraction(0), neighbours=neighbours)
        assert Fraction(price.pure_epsilon, 10**accountant.EPSILON_PLACES) == Fraction(cost)


@pytest.mark.parametrize(("epsilon", "times"), [("0.1", 100), ("0.01", 1_000), ("0.5", 30)])
def test_k_fold_composition_is_the_theorem_s_and_the_optimum_is_below_it(epsilon, times):
    slack, each = Fraction(1, 10**6), float(epsilon)
    steps = [Step(epsilon=Fraction(epsilon), times=times)]
    by_hand = sqrt(2 * times * log(10**6)) * each + times * each * (exp(each) - 1)
    assert float(advanced(steps, slack=slack).epsilon) == pytest.approx(by_hand, abs=1e-8)
    assert advanced(steps, slack=slack).delta == slack
    assert basic(steps).epsilon == times * Fraction(epsilon)
    best = optimal(steps, slack=slack)
    assert best.epsilon <= min(advanced(steps, slack=slack).epsilon, basic(steps).epsilon)


def test_each_of_k_mechanisms_may_spend_what_the_slides_say_for_a_total_below_1():
    """epsilon = epsilon' / (2 sqrt(k ln(1/delta'))), for 0 < epsilon' < 1."""
    for total, times in (("0.5", 10), ("0.99", 100), ("0.99", 10_000)):
        each = Fraction(total) / Fraction(2 * sqrt(times * log(10**6)))
        spent = advanced([Step(epsilon=each.limit_denominator(10**9), times=times)], slack=Fraction(1, 10**6))
        assert spent.epsilon <= Fraction(total)


def test_the_optimal_composition_is_that_of_a_sum_over_all_outcomes():
    """Kairouz, Oh and Viswanath (2017), Theorem 3.3, term by term for k = 12."""
    epsilon, times = 0.1, 12
    slack = Fraction(1, 10**3)
    found = float(optimal([Step(epsilon=Fraction("0.1"), times=times)], slack=slack).epsilon)

    def delta_at(total):
        terms = (
            comb(times, i) * max(0.0, exp((times - i) * epsilon) - exp(total + i * epsilon)) for i in range(times + 1)
        )
        return sum(terms) / (1 + exp(epsilon)) ** times

    assert delta_at(found + 1e-6) <= float(slack)
    assert delta_at(found - 0.21) > float(slack)


# Randomised response


@pytest.mark.parametrize("told", ["0.1", "0.5", "0.9"])
def test_telling_the_truth_with_probability_p_and_else_tossing_a_coin_is_ln_1_plus_2p_over_1_minus_p(told):
    p = float(told)
    epsilon = log(1 + 2 * p / (1 - p))
    columns = [categories("answer", ["yes", "no"])]
    plan = planned("randomized-response", columns, {"survey": "answer"}, epsilon=f"{epsilon:.9f}", neighbours=REPLACE)
    assert float(plan.parameters["chance that a row tells its own category"]) == pytest.approx(
        p + (1 - p) / 2, abs=2e-5
    )
    assert float(plan.parameters["chance of each other category"]) == pytest.approx((1 - p) / 2, abs=2e-5)
