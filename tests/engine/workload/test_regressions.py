"""Regressions from noisy numbers, linear and logistic: what they find without noise, and when they say nothing."""

import json
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from releases.engine.bounds.accuracy import Proof, laplace_and_normal_quantile
from releases.engine.errors import InvalidInput
from releases.engine.mechanisms.base import plan_from_json
from releases.engine.noise.randomness import StreamRandomness
from releases.engine.tables.counts import Rows
from releases.engine.workload.parsing import read_question
from tests.engine import telling

EDGES = [18, 28, 38, 48, 58, 68, 78, 88, 98]
COLUMNS = [
    {"name": "sick", "type": "categorical", "categories": ["no", "a bit", "very"], "outside": "no"},
    {"name": "income", "type": "number", "edges": [-50, 20.5, 450], "decimals": 1},
    {"name": "age", "type": "integer", "edges": EDGES},
    {"name": "copy", "type": "integer", "edges": EDGES},
    {"name": "flat", "type": "integer", "edges": [0, 9]},
    {"name": "born", "type": "date", "first": "2000-01-01", "last": "2000-12-31", "by": "month"},
    {"name": "one", "type": "categorical", "categories": ["only"], "outside": "only"},
    {"name": "town", "type": "categorical", "categories": ["a", "b", "c"], "outside": "a"},
    {"name": "fine", "type": "integer", "edges": [*range(1001)]},
    {"name": "many", "type": "categorical", "categories": [f"k{i}" for i in range(22)], "outside": "k0"},
]
LINEAR = {"outcome": "income", "columns": ["age", "town"]}
ODDS = {"outcome": "sick", "values": ["a bit", "very"], "columns": ["age", "town"]}
LARGEST = np.log(10_000)
EACH = pytest.mark.parametrize("asked", [LINEAR, ODDS], ids=["linear", "logistic"])


def planned(asked, *, epsilon=1, neighbours="add_remove", rows=1, **options):
    kind = "regression" if asked.get("outcome") != "sick" and "values" not in asked else "logistic_regression"
    unit = telling.unit_of(rows)
    return telling.planned("laplace-numbers", COLUMNS, {kind: asked}, neighbours, epsilon=epsilon, unit=unit, **options)


def people(universe, rows, *, worst=1.0):
    """Incomes that rise by 2 for each year, are 30 more in town b and 10 less in town c, and 20 at age 0 in town a.
    Odds that are half as high for each 10 years, thrice as high in town b, `worst` times in c, and 2 at 58 in a.

    For the odds, a person is as old as the middle of the bin, so that the log odds are a line.
    """
    rng = np.random.default_rng(2)
    age, town = rng.integers(18, 99, rows), rng.integers(0, 3, rows)
    income = 20 + 2 * age + np.array([0, 30, -10])[town] + rng.uniform(-30, 30, rows)
    odds = 2 * 0.5 ** ((middle_of(age) - 58) / 10) * np.array([1, 3, worst])[town]
    sick = (rng.random(rows) < odds / (1 + odds)) * rng.integers(1, 3, rows)
    others = {each["name"]: np.zeros(rows, dtype=np.int64) for each in COLUMNS}
    income = np.rint(10 * income).astype(np.int64)
    found = {"income": income, "age": age, "copy": age, "town": town, "sick": sick}
    return Rows(universe=universe, columns=others | found)


def middle_of(age):
    bins = np.minimum((age - 18) // 10, 7)
    return np.array([22.5, 32.5, 42.5, 52.5, 62.5, 72.5, 82.5, 93])[bins]


def run(plan, rows, seed=b"run", **how):
    return plan.run(people(plan.schema.universe, rows, **how), rng=StreamRandomness(seed))


def half_widths(result):
    """Of coefficients; of odds, of their logarithms, which are behind them."""
    return np.diff(result.spans[0])[-4:, 0] / 2


@pytest.mark.parametrize("neighbours", telling.RELATIONS)
def test_with_next_to_no_noise_the_coefficients_are_those_of_the_rows_in_their_own_units(neighbours):
    result = run(planned(LINEAR, epsilon=100, neighbours=neighbours), 40_000)
    ((low, high),) = (each.T for each in result.spans)
    truth = np.array([2, 30, -10, 20])
    assert ((low <= truth) & (truth <= high)).all()
    assert (half_widths(result) < [0.1, 2, 2, 2]).all()
    assert result.bound.proof is Proof.TESTED
    assert result.notes["noisy number of rows"] == pytest.approx(40_000, abs=3)


@pytest.mark.parametrize("neighbours", telling.RELATIONS)
def test_with_next_to_no_noise_the_odds_are_those_of_the_rows_and_logarithms_stand_behind_them(neighbours):
    result = run(planned(ODDS, epsilon=100, neighbours=neighbours), 100_000)
    (spans,), (estimates,) = result.spans, result.estimates
    truth = np.array([0.5, 3, 1, 2])
    assert ((spans[:4, 0] <= truth) & (truth <= spans[:4, 1])).all()
    assert estimates[:4] == pytest.approx(truth, rel=0.06)
    assert np.exp(estimates[4:]) == pytest.approx(estimates[:4], abs=1e-3)
    assert np.exp(spans[4:]) == pytest.approx(spans[:4], abs=1e-3)
    assert result.bound.proof is Proof.TESTED
    assert result.notes["noisy number of rows"] == pytest.approx(100_000, abs=3)


def design_of(age, town):
    return np.stack([age, town == 1, town == 2, np.ones(len(age))], axis=1).astype(float)


def test_with_next_to_no_noise_an_interval_is_that_of_the_textbook_for_a_scatter_three_times_as_uneven():
    plan = planned(LINEAR, epsilon=100)
    table = people(plan.schema.universe, 40_000).columns
    design = design_of(table["age"], table["town"])
    outcome = table["income"] / 10
    fit, (squares,), *_ = np.linalg.lstsq(design, outcome, rcond=None)
    errors = np.sqrt(squares / 40_000 * np.diag(np.linalg.inv(design.T @ design)))
    result = run(plan, 40_000)
    assert np.concatenate(result.estimates) == pytest.approx(fit, rel=0.01, abs=0.1)
    assert half_widths(result) == pytest.approx(np.sqrt(3) * norm.isf(0.05 / 4 / 2) * errors, rel=0.03)


def test_with_next_to_no_noise_an_interval_of_log_odds_is_that_of_the_textbook():
    """From the inverse of the information, by differences of the likelihood of single rows."""
    plan = planned(ODDS, epsilon=100)
    table = people(plan.schema.universe, 100_000).columns
    design = design_of((middle_of(table["age"]) - 58) / 10, table["town"])
    truth = np.log([0.5, 3, 1, 2])

    def share(b):
        return 1 / (1 + np.exp(-design @ b))

    steps = 1e-5 * np.eye(4)
    information = np.stack([design.T @ (share(truth + step) - share(truth - step)) / 2e-5 for step in steps], axis=1)
    errors = np.sqrt(np.diag(np.linalg.inv(information)))
    assert half_widths(run(plan, 100_000)) == pytest.approx(norm.isf(0.05 / 4 / 2) * errors, rel=0.03)


@EACH
def test_rows_of_one_person_may_go_together_so_that_the_interval_is_wider(asked):
    one, many = (half_widths(run(planned(asked, epsilon=100, rows=rows), 100_000)) for rows in (1, 4))
    assert many == pytest.approx(2 * one, rel=0.03)


def test_an_interval_of_a_category_in_which_nobody_has_the_outcome_goes_on_to_the_end():
    low, high = run(planned(ODDS, epsilon=4), 3_000, worst=0.0).spans[0][6]
    assert low == pytest.approx(-LARGEST, abs=0.01)
    assert high < -2


@EACH
@pytest.mark.parametrize(("columns", "rows"), [(["age", "copy"], 10_000), (["age", "town"], 100), (["age"], 0)])
def test_where_predictors_cannot_be_set_apart_or_noise_hides_them_nothing_is_said(asked, columns, rows):
    plan = planned({**asked, "columns": columns})
    for seed in range(20):
        result = run(plan, rows, seed=bytes([seed]))
        assert result.notes["answered"] is False
        assert set(result.chosen) == {"cannot be said"}
        assert result.bound.bounds_nothing
        json.dumps(result.bound.to_json(), allow_nan=False)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("epsilon", [Fraction(1, 100), 1, 100])
@pytest.mark.parametrize("rows", [0, 1, 30])
def test_no_noise_on_next_to_no_rows_makes_a_run_fail_or_warn(rows, epsilon):
    """What would fail would tell of the rows."""
    plan = planned(ODDS, epsilon=epsilon)
    table = people(plan.schema.universe, rows)
    for seed in range(40):
        assert plan.run(table, rng=StreamRandomness(bytes([seed]))).bound.says


@EACH
def test_a_plan_refuses_so_few_rows_that_nothing_could_be_said_and_promises_nothing_but_an_example(asked):
    plan = planned(asked)
    assert plan_from_json(json.loads(json.dumps(plan.to_json()))) == plan
    assert plan.bound is plan.expectation is None
    least = int(plan.parameters["rows below which nothing is said"].replace(",", ""))
    assert "nothing could be said" in planned(asked, expected_rows=least - 1).infeasible
    assert not planned(asked, expected_rows=least).infeasible
    example = planned(asked, expected_rows=20_000).expectation
    assert example.proof is Proof.EXPECTED
    they = "their values" if asked is LINEAR else "they"
    assert example.says.startswith(f"For example, if 20,000 rows are counted, {they} are evenly spread")
    assert max(planned(asked, expected_rows=40_000).expectation.half_widths) < max(example.half_widths)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"outcome": "income", "values": ["[-50, 20.5)"], "columns": ["age"]}, {"from": -50, "to": 20.5}),
        ({"outcome": "age", "values": {"from": 78, "to": 98}, "columns": ["town"]}, {"from": 78, "to": 98}),
        ({"outcome": "born", "values": ["2000-01"], "columns": ["age"]}, ["2000-01"]),
        ({"outcome": "sick", "values": "very", "columns": ["age"]}, ["very"]),
    ],
)
def test_the_outcome_is_any_set_of_bins_of_any_column_and_is_read_again(asked, said):
    plan = planned(asked)
    written = plan.workload.to_json()
    assert written["queries"][0]["logistic_regression"]["values"] == said
    assert read_question(written, plan.schema.universe) == plan.workload


@pytest.mark.parametrize(
    ("asked", "rule"),
    [
        ({"outcome": "town", "columns": ["age"]}, "regression.outcome: 'town' must be a numeric column"),
        ({"outcome": "income", "columns": ["income"]}, "'income' must be another column than the outcome"),
        ({"outcome": "income", "columns": ["born"]}, "'born' must be a column of numbers or of listed categories"),
        ({"outcome": "income", "columns": ["one"]}, "'one' must have two categories or more"),
        ({"outcome": "income", "columns": ["many"]}, "21 slopes' must make at most 8 slopes"),
        ({"outcome": "income", "columns": []}, "regression.columns"),
        ({"columns": ["age"]}, "regression.outcome"),
        ({"outcome": "income", "columns": ["age"], "by": "town"}, "is not a known field"),
        ({"outcome": "sick", "values": ["mad"], "columns": ["age"]}, "values: 'mad' must be one of no, a bit, very"),
        ({"outcome": "sick", "values": [], "columns": ["age"]}, "logistic_regression.values"),
        ({"outcome": "sick", "values": ["no", "a bit", "very"], "columns": ["age"]}, "must leave out some of what"),
        ({"outcome": "age", "values": {"from": 19}, "columns": ["town"]}, "logistic_regression.values"),
        ({"outcome": "sick", "values": ["no"], "columns": ["sick"]}, "'sick' must be another column than the outcome"),
        ({"outcome": "sick", "values": ["no"], "columns": ["born"]}, "must be a column of numbers or of listed"),
        ({"outcome": "sick", "values": ["no"], "columns": ["flat"]}, "'flat' must have two bins or more"),
        ({"outcome": "sick", "values": ["no"], "columns": ["many"]}, "21 slopes' must make at most 20 slopes"),
        ({"outcome": "sick", "values": ["no"], "columns": ["fine", "town"]}, "6,000 counts' must make at most 5,000"),
        ({"outcome": "sick", "values": ["no"], "columns": []}, "logistic_regression.columns"),
        ({"values": ["no"], "columns": ["age"]}, "logistic_regression.outcome"),
        ({"outcome": "sick", "columns": ["age"]}, "logistic_regression.values"),
        ({**ODDS, "by": "town"}, "is not a known field"),
    ],
)
def test_a_question_that_breaks_a_rule_is_refused_by_name(asked, rule):
    with pytest.raises(InvalidInput, match=rule):
        planned(asked)


@pytest.mark.parametrize("beta", [0.2, 0.05, 0.001])
@pytest.mark.parametrize("deviation", [0.0, 0.5, 3.0])
def test_a_laplace_and_a_normal_variable_stay_together_within_their_quantile_as_often_as_said(beta, deviation):
    """Against an integral over the density of the Laplace variable, whose deviation is 2."""
    scale = 2 / np.sqrt(2)

    def missed(reach):
        def beyond(x):
            tails = norm.sf(reach - x, scale=deviation) + norm.cdf(-reach - x, scale=deviation)
            return np.exp(-abs(x) / scale) / (2 * scale) * tails

        edges = [-80.0, -reach, 0.0, reach, 80.0]
        return sum(quad(beyond, low, high, limit=400)[0] for low, high in pairwise(edges))

    found = laplace_and_normal_quantile(np.array([2.0]), deviation**2, beta)
    rarely = np.exp(-found / scale) if not deviation else missed(found)
    assert beta * 0.98 < rarely <= beta * (1 + 1e-6)


def test_many_equal_laplace_variables_are_next_to_normal_and_a_tiny_beta_has_a_bound_that_holds():
    normal = norm.isf(0.025) * 3 * 20
    assert normal < laplace_and_normal_quantile(np.full(400, 3.0), 0.0, 0.05) < 1.003 * normal
    assert laplace_and_normal_quantile(np.array([0.0]), 0.0, 0.05) == 0
    # Of one alone the quantile is known; Chernoff's bound is above it.
    exact = np.log(1e9) / np.sqrt(2)
    assert exact < laplace_and_normal_quantile(np.array([1.0]), 0.0, 1e-9) < 1.3 * exact
