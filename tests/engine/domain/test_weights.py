"""Weights of questions: the price stays the same, noise moves from what matters to what matters less, bounds follow.

Privacy is held against brute force: all neighbours of a small universe, and the scales that samplers were given.
"""

import itertools
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from releases.engine.accounting import accountant
from releases.engine.bounds.accuracy import gaussian_weighted_quantile, laplace_weighted_quantile
from releases.engine.domain.privacy import ApproxDP, PureDP
from releases.engine.errors import InvalidInput
from releases.engine.mechanisms.base import mechanisms
from releases.engine.noise.randomness import StreamRandomness
from releases.engine.verification.recording import record
from releases.engine.verification.tables import counts_of
from releases.engine.workload.queries import Marginal, Workload
from tests.engine import telling
from tests.engine.telling import RELATIONS

COLUMNS = [
    {"name": "age", "type": "integer", "edges": [0, 10, 20, 30]},
    {"name": "sex", "type": "categorical", "categories": ["f", "m"], "outside": "m"},
]
ASKED = [{"marginal": ["age", "sex"]}, {"prefix": "age"}, {"count": {"sex": ["f"]}}]
PURE, APPROXIMATE = PureDP(epsilon=Fraction(1)), ApproxDP(epsilon=Fraction(1), delta=Fraction(1, 10**6))
NOISY = ["laplace-queries", "gaussian-queries"]
COUNTING = [name for name, each in mechanisms().items() if not each.answers]

weights = st.one_of(st.integers(1, 4), st.integers(1, 1000))


def schema_of(neighbours="add_remove", max_rows=1):
    return telling.schema_of(COLUMNS, neighbours, telling.unit_of(max_rows))


def weighted(given_weights, asked=ASKED):
    return [{**query, "weight": each} for query, each in zip(asked, given_weights, strict=True)]


def planned(name, queries, *, schema=None, budget=None, beta=Fraction(1, 20), options=None):
    budget = budget or (PURE if name.startswith("laplace") else APPROXIMATE)
    return telling.planned(name, schema or schema_of(), queries, budget=budget, beta=beta, **(options or {}))


def all_changes(plan):
    """How the answers differ between neighbours that are one row, or a pair of rows, long."""
    universe = plan.schema.universe
    rows = [[row] for row in itertools.product((0, 10, 20), (0, 1))]
    answers = [np.concatenate(plan.workload.answer(counts_of(universe, each).marginal)) for each in [*rows, []]]
    if plan.schema.neighbours == "add_remove":
        return [each * plan.schema.unit.max_rows for each in answers]
    pairs = itertools.combinations(answers, 2)
    return [(one - other) * plan.schema.unit.max_rows for one, other in pairs]


def drawn_scales(plan, sampler, parameter):
    """For each answer, the exact scale or variance of the noise that a run drew for it."""
    recording = record(lambda rng: plan.run(counts_of(plan.schema.universe, [(0, 0)] * 5), rng=rng), seed=b"scales")
    of_weights = sorted(set(plan.workload.weights))
    draws = [dict(draw.parameters) for draw in recording.draws if draw.sampler == sampler]
    by_weight = {weight: Fraction(draw[parameter]) for weight, draw in zip(of_weights, draws, strict=True)}
    cells = [family.cells(plan.schema.universe) for family in plan.workload.families]
    return [by_weight[weight] for weight, size in zip(plan.workload.weights, cells, strict=True) for _ in range(size)]


weighted_plans = given(st.tuples(weights, weights, weights), st.sampled_from(RELATIONS), st.integers(1, 3))


@settings(max_examples=40)
@weighted_plans
def test_laplace_noise_as_drawn_loses_at_most_epsilon_on_all_neighbours_and_all_of_it_on_some(given, relation, rows):
    plan = planned("laplace-queries", weighted(given), schema=schema_of(relation, rows))
    scales = drawn_scales(plan, "discrete_laplace", "scale")
    losses = [sum(abs(int(d)) / scale for d, scale in zip(change, scales, strict=True)) for change in all_changes(plan)]
    assert max(losses) == 1


@settings(max_examples=40)
@weighted_plans
def test_gaussian_noise_as_drawn_costs_at_most_rho_on_all_neighbours_and_all_of_it_on_some(given, relation, rows):
    plan = planned("gaussian-queries", weighted(given), schema=schema_of(relation, rows))
    variances = drawn_scales(plan, "discrete_gaussian", "variance")
    costs = [sum(int(d) ** 2 / (2 * v) for d, v in zip(change, variances, strict=True)) for change in all_changes(plan)]
    assert max(costs) == plan.noise.rho


def test_noise_is_drawn_at_one_scale_over_each_importance():
    """A row of age 0 and sex f is in a cell of weight 1, in 3 running totals of weight 4 and in a count of weight 2."""
    plan = planned("laplace-queries", weighted((1, 4, 2)))
    scales = [Fraction(15)] * 6 + [Fraction(15, 4)] * 3 + [Fraction(15, 2)]
    assert drawn_scales(plan, "discrete_laplace", "scale") == scales


@settings(max_examples=60)
@given(st.tuples(weights, weights, weights), st.sampled_from(RELATIONS), st.sampled_from(NOISY))
def test_a_weighted_plan_is_priced_at_its_budget_and_wastes_less_than_a_hair(given, relation, name):
    plan = planned(name, weighted(given), schema=schema_of(relation))
    price = accountant.price(plan.events, delta=plan.delta, neighbours=plan.schema.neighbours)
    unit = 10**accountant.EPSILON_PLACES
    if name == "laplace-queries":
        assert price.pure_epsilon == unit
    else:
        assert unit * (1 - 1e-6) <= price.epsilon <= unit
        assert price.delta <= plan.delta * 10**accountant.DELTA_PLACES


@pytest.mark.parametrize("name", COUNTING)
def test_equal_weights_leave_every_plan_as_it_is_without_weights(name):
    plain, ones, threes = (
        planned(name, queries, budget=APPROXIMATE) for queries in (ASKED, weighted((1, 1, 1)), weighted((3, 3, 3)))
    )
    assert ones == plain
    assert ones.to_json() == plain.to_json()
    assert replace(threes, workload=plain.workload) == plain


@pytest.mark.parametrize("name", [name for name in COUNTING if not mechanisms()[name].uses_weights])
def test_a_mechanism_that_uses_no_weights_says_so_and_changes_no_number(name):
    plain, plan = (planned(name, queries, budget=APPROXIMATE) for queries in (ASKED, weighted((5, 1, 2))))
    assert all(getattr(plan, each) == getattr(plain, each) for each in ("events", "bound", "expectation", "work"))
    more = plan.parameters.keys() - plain.parameters.keys()
    assert plan.parameters == {**plain.parameters, **{key: plan.parameters[key] for key in more}}
    assert more == (set() if plan.infeasible else {"importance"})


def test_a_weight_survives_json_and_is_left_out_at_1():
    universe = schema_of().universe
    stored = {"version": 1, "queries": [*weighted((2, 1000), ASKED[:2]), ASKED[2]]}
    asked = Workload.from_json(stored, universe)
    assert asked.to_json() == stored
    assert asked.weights == (2, 1000, 1)
    ones = Workload.from_json({"version": 1, "queries": weighted((1, 1, 1))}, universe)
    assert ones.to_json() == {"version": 1, "queries": ASKED}


def test_a_question_asked_twice_is_kept_once_with_the_last_weight_and_a_weight_out_of_range_is_refused():
    universe = schema_of().universe

    def weights_of(*queries):
        asked = Workload.from_json({"version": 1, "queries": list(queries)}, universe)
        return [(family.title(universe), family.weight) for family in asked.families]

    age = {"marginal": ["age"]}
    assert weights_of({"marginals": 1}, {**age, "weight": 5}) == [("age", 5), ("sex", 1)]
    assert weights_of({**age, "weight": 5}, {"marginals": 1}) == [("age", 5), ("sex", 1)]
    assert weights_of({**age, "weight": 5}, {**age, "weight": 1}) == [("age", 1)]
    for weight in (0, 1001, 2.0, True, "3", None):
        with pytest.raises(InvalidInput, match=r"weight: .* must be a whole number from 1 to 1,000"):
            Workload(universe=universe, families=(Marginal(attributes=("age",), weight=weight),))


@pytest.mark.parametrize("name", NOISY)
def test_an_important_question_is_closer_to_the_truth_by_its_importance(name):
    # Made to agree, an answer is made of others' noise too.
    plan = planned(name, weighted((1, 4, 2)), options={"agree": "no"})
    least, greatest, middle = plan.bound.half_widths
    # A half width is rounded down to a whole count where the next lower one would not hold.
    assert least // 4 == greatest
    assert least // 2 == middle
    assert plan.bound.alpha == least


def miss_probability(tail, reach, counts):
    """Pr[some draw of weight w is above reach // w], from the tail of one draw."""
    return -np.expm1(sum(count * np.log1p(-tail(weight, reach // weight)) for weight, count in counts.items()))


def laplace_tail(scale, weight, most):
    t = float(scale) / weight
    return 2 * np.exp(-(most + 1) / t) / (1 + np.exp(-1 / t))


def gaussian_tail(variance, weight, most):
    law = np.exp(-(np.arange(-800, 801, dtype=float) ** 2) * weight**2 / (2 * float(variance)))
    return law[np.abs(np.arange(-800, 801)) > most].sum() / law.sum()


@pytest.mark.parametrize("counts", [{1: 500, 7: 1}, {3: 10, 5: 10, 11: 10}, {1: 1, 1000: 10**6}])
@pytest.mark.parametrize("beta", [0.2, 1e-6])
def test_the_weighted_quantiles_are_the_least_that_hold(counts, beta):
    laplace = laplace_weighted_quantile(scale=Fraction(20), counts=counts, beta=beta)
    gaussian = gaussian_weighted_quantile(variance=Fraction(500), counts=counts, beta=beta)
    for tail, found in ((partial(laplace_tail, 20), laplace), (partial(gaussian_tail, 500), gaussian)):
        assert miss_probability(tail, found, counts) <= beta
        assert miss_probability(tail, found - 1, counts) > beta * (1 - 1e-6)


def test_a_gaussian_law_of_too_many_points_is_bounded_by_the_normal_one_at_most_one_count_wider():
    summed = gaussian_weighted_quantile(variance=Fraction(30_000) ** 2, counts={1: 50, 2: 50}, beta=0.05)
    bounded = gaussian_weighted_quantile(variance=Fraction(30_000) ** 2, counts={1: 50, 2: 50, 900: 1}, beta=0.05)
    assert summed <= bounded <= summed * 1.001
    found = gaussian_weighted_quantile(variance=Fraction(10**7) ** 2, counts={1: 10, 3: 10}, beta=0.05)
    within_normal = miss_probability(lambda weight, most: 2 * norm.sf(most * weight / 10**7), found, {1: 10, 3: 10})
    assert within_normal == pytest.approx(0.05, rel=1e-4)


@pytest.mark.parametrize("name", NOISY)
def test_synthetic_rows_are_fitted_with_the_variance_of_each_measurement(name, monkeypatch):
    seen = []

    def fitted(parts, measured, rows, progress):
        seen.extend(each.variance for tables in measured for each in tables)
        return [np.ones(part.universe.shape) for part in parts]

    monkeypatch.setattr("releases.engine.mechanisms.answers.fit_parts", fitted)
    plan = planned(name, weighted((2, 3, 9)), options={"rows_counted": "same"})
    plan.run(counts_of(plan.schema.universe, [(1, 1)] * 50), rng=StreamRandomness(b"fit"))
    # A prefix is the table of its steps, with the noise of two answers in each.
    assert seen == [plan.noise.of_weight(2).variance, 2 * plan.noise.of_weight(3).variance]
    assert seen[0] != plan.noise.variance
