"""Linear regression from noisy moments: what it finds without noise, when it says nothing, and how wide it is."""

from __future__ import annotations

import json
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from releases.engine.bounds.accuracy import Bound, Proof, laplace_and_normal_quantile
from releases.engine.domain.privacy import PureDP
from releases.engine.domain.schema import Schema
from releases.engine.errors import InvalidInput
from releases.engine.mechanisms.base import mechanism
from releases.engine.noise.randomness import StreamRandomness
from releases.engine.tables.counts import Rows
from releases.engine.workload.parsing import read_question

COLUMNS = [
    {"name": "income", "type": "number", "edges": [-50, 0, 450], "decimals": 1},
    {"name": "age", "type": "integer", "edges": [18, 40, 98]},
    {"name": "copy", "type": "integer", "edges": [18, 98]},
    {"name": "born", "type": "date", "first": "2000-01-01", "last": "2000-12-31", "by": "month"},
    {"name": "one", "type": "categorical", "categories": ["only"], "outside": "only"},
    {"name": "town", "type": "categorical", "categories": ["a", "b", "c"], "outside": "a"},
    {"name": "many", "type": "categorical", "categories": [*"abcdefghij"], "outside": "a"},
]
ASKED = {"outcome": "income", "columns": ["age", "town"]}


def planned(asked=ASKED, *, epsilon=1, neighbours="add_remove", rows=1, **options):
    unit = {"kind": "row"} if rows == 1 else {"kind": "person", "id": "who", "max_rows": rows}
    schema = Schema.from_json({"version": 1, "columns": COLUMNS, "neighbours": neighbours, "unit": unit})
    question = read_question({"version": 1, "queries": [{"regression": asked}]}, schema.universe)
    budget = PureDP(epsilon=Fraction(epsilon))
    return mechanism("laplace-numbers").plan(schema, question, budget=budget, beta=Fraction(1, 20), options=options)


def people(universe, rows, *, seed=1):
    """Incomes that rise by 2 for each year, are 30 more in town b and 10 less in town c, and 20 at age 0 in town a."""
    rng = np.random.default_rng(seed)
    age, town = rng.integers(18, 99, rows), rng.integers(0, 3, rows)
    income = 20 + 2 * age + np.array([0, 30, -10])[town] + rng.uniform(-30, 30, rows)
    others = {name: np.zeros(rows, dtype=np.int64) for name in ("one", "many", "born")}
    income = np.rint(10 * income).astype(np.int64)
    return Rows(universe=universe, columns={"income": income, "age": age, "copy": age, "town": town, **others})


def run(plan, rows, seed=b"run"):
    return plan.run(people(plan.schema.universe, rows), rng=StreamRandomness(seed))


def half_widths(result):
    return np.diff(result.spans[0])[:, 0] / 2


@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
def test_with_next_to_no_noise_the_coefficients_are_those_of_the_rows_in_their_own_units(neighbours):
    result = run(planned(epsilon=100, neighbours=neighbours), 40_000)
    ((low, high),) = (each.T for each in result.spans)
    truth, widths = np.array([2, 30, -10, 20]), (high - low) / 2
    assert ((low <= truth) & (truth <= high)).all()
    assert (widths < [0.1, 2, 2, 2]).all()
    assert result.bound.proof is Proof.TESTED
    assert result.notes["noisy number of rows"] == pytest.approx(40_000, abs=3)


def test_with_next_to_no_noise_an_interval_is_that_of_the_textbook_for_a_scatter_three_times_as_uneven():
    plan = planned(epsilon=100)
    table = people(plan.schema.universe, 40_000).columns
    design = np.stack([table["age"], table["town"] == 1, table["town"] == 2, np.ones(40_000)], axis=1).astype(float)
    outcome = table["income"] / 10
    fit, (squares,), *_ = np.linalg.lstsq(design, outcome, rcond=None)
    errors = np.sqrt(squares / 40_000 * np.diag(np.linalg.inv(design.T @ design)))
    result = run(plan, 40_000)
    assert np.concatenate(result.estimates) == pytest.approx(fit, rel=0.01, abs=0.1)
    assert half_widths(result) == pytest.approx(np.sqrt(3) * norm.isf(0.05 / 4 / 2) * errors, rel=0.03)


def test_rows_of_one_person_may_go_together_so_that_the_interval_is_wider():
    one, many = (half_widths(run(planned(epsilon=100, rows=rows), 40_000)) for rows in (1, 4))
    assert many == pytest.approx(2 * one, rel=0.03)


@pytest.mark.parametrize(("columns", "rows"), [(["age", "copy"], 20_000), (["age", "town"], 100), (["age"], 0)])
def test_where_predictors_cannot_be_set_apart_or_noise_hides_them_nothing_is_said(columns, rows):
    plan = planned({"outcome": "income", "columns": columns})
    for seed in range(20):
        result = run(plan, rows, seed=bytes([seed]))
        assert result.notes["answered"] is False
        assert set(result.chosen) == {"cannot be said"}
        assert result.bound.bounds_nothing
        assert Bound.from_json(json.loads(json.dumps(result.bound.to_json(), allow_nan=False))) == result.bound


def test_a_plan_refuses_so_few_rows_that_nothing_could_be_said_and_promises_nothing_but_an_example():
    assert planned().bound is planned().expectation is None
    least = int(planned().parameters["rows below which nothing is said"].replace(",", ""))
    assert "nothing could be said" in planned(expected_rows=least - 1).infeasible
    assert not planned(expected_rows=least).infeasible
    example = planned(expected_rows=20_000).expectation
    assert example.proof is Proof.EXPECTED
    assert example.says.startswith("For example, if 20,000 rows are counted, their values are evenly spread")
    assert max(planned(expected_rows=40_000).expectation.half_widths) < max(example.half_widths)


@pytest.mark.parametrize(
    ("asked", "rule"),
    [
        ({"outcome": "town", "columns": ["age"]}, "regression.outcome: 'town' must be a numeric column"),
        ({"outcome": "income", "columns": ["income"]}, "'income' must be another column than the outcome"),
        ({"outcome": "income", "columns": ["born"]}, "'born' must be a column of numbers or of listed categories"),
        ({"outcome": "income", "columns": ["one"]}, "'one' must have two categories or more"),
        ({"outcome": "income", "columns": ["many"]}, "9 slopes' must make at most 8 slopes"),
        ({"outcome": "income", "columns": []}, "regression.columns"),
        ({"columns": ["age"]}, "regression.outcome"),
        ({"outcome": "income", "columns": ["age"], "by": "town"}, "is not a known field"),
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
