"""Logistic regression from noisy counts: what it finds without noise, when it says nothing, and how wide it is."""

from __future__ import annotations

import json
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import norm

from releases.engine.bounds.accuracy import Bound, Proof
from releases.engine.domain.privacy import PureDP
from releases.engine.domain.schema import Schema
from releases.engine.errors import InvalidInput
from releases.engine.mechanisms.base import mechanism, plan_from_json
from releases.engine.noise.randomness import StreamRandomness
from releases.engine.tables.counts import Rows
from releases.engine.workload.parsing import read_question

COLUMNS = [
    {"name": "sick", "type": "categorical", "categories": ["no", "a bit", "very"], "outside": "no"},
    {"name": "income", "type": "number", "edges": [0, 20.5, 100], "decimals": 1},
    {"name": "age", "type": "integer", "edges": [18, 28, 38, 48, 58, 68, 78, 88, 98]},
    {"name": "copy", "type": "integer", "edges": [18, 28, 38, 48, 58, 68, 78, 88, 98]},
    {"name": "flat", "type": "integer", "edges": [0, 9]},
    {"name": "born", "type": "date", "first": "2000-01-01", "last": "2000-12-31", "by": "month"},
    {"name": "town", "type": "categorical", "categories": ["a", "b", "c"], "outside": "a"},
    {"name": "fine", "type": "integer", "edges": [*range(1001)]},
    {"name": "many", "type": "categorical", "categories": [f"k{i}" for i in range(22)], "outside": "k0"},
]
ASKED = {"outcome": "sick", "values": ["a bit", "very"], "columns": ["age", "town"]}
LARGEST = np.log(10_000)


def planned(asked=ASKED, *, name="laplace-numbers", epsilon=1, neighbours="add_remove", rows=1, **options):
    unit = {"kind": "row"} if rows == 1 else {"kind": "person", "id": "who", "max_rows": rows}
    schema = Schema.from_json({"version": 1, "columns": COLUMNS, "neighbours": neighbours, "unit": unit})
    question = read_question({"version": 1, "queries": [{"logistic_regression": asked}]}, schema.universe)
    budget = PureDP(epsilon=Fraction(epsilon))
    return mechanism(name).plan(schema, question, budget=budget, beta=Fraction(1, 20), options=options)


def people(universe, rows, *, seed=1, worst=1.0):
    """Odds that are half as high for each 10 years, thrice as high in town b, `worst` times in c, and 2 at 57.5 in a.

    A person is as old as the middle of the bin, so that the log odds are a line.
    """
    rng = np.random.default_rng(seed)
    bins, town = rng.integers(0, 8, rows), rng.integers(0, 3, rows)
    middle = np.array([22.5, 32.5, 42.5, 52.5, 62.5, 72.5, 82.5, 93])[bins]
    odds = 2 * 0.5 ** ((middle - 58) / 10) * np.array([1, 3, worst])[town]
    sick = (rng.random(rows) < odds / (1 + odds)) * rng.integers(1, 3, rows)
    age = (18 + 10 * bins).astype(np.int64)
    others = {each["name"]: np.zeros(rows, dtype=np.int64) for each in COLUMNS}
    return Rows(universe=universe, columns=others | {"sick": sick, "age": age, "copy": age, "town": town})


def run(plan, rows, seed=b"run", **how):
    return plan.run(people(plan.schema.universe, rows, **how), rng=StreamRandomness(seed))


def logarithms(result):
    """The ends of the intervals of the logarithms."""
    return result.spans[0][len(result.spans[0]) // 2 :]


@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
def test_with_next_to_no_noise_the_odds_are_those_of_the_rows_and_logarithms_stand_behind_them(neighbours):
    result = run(planned(epsilon=100, neighbours=neighbours), 100_000)
    (spans,), (estimates,) = result.spans, result.estimates
    truth = np.array([0.5, 3, 1, 2])
    assert ((spans[:4, 0] <= truth) & (truth <= spans[:4, 1])).all()
    assert estimates[:4] == pytest.approx(truth, rel=0.06)
    assert np.exp(estimates[4:]) == pytest.approx(estimates[:4], abs=1e-3)
    assert np.exp(spans[4:]) == pytest.approx(spans[:4], abs=1e-3)
    assert result.bound.proof is Proof.TESTED
    assert result.notes["noisy number of rows"] == pytest.approx(100_000, abs=3)


def test_with_next_to_no_noise_an_interval_is_that_of_the_textbook():
    """From the inverse of the information, by differences of the likelihood of single rows."""
    plan = planned(epsilon=100)
    table = people(plan.schema.universe, 100_000).columns
    middle = np.where(table["age"] == 88, 93, table["age"] + 4.5)
    ages, towns = [(middle - 58) / 10], [table["town"] == 1, table["town"] == 2]
    design = np.stack([*ages, *towns, np.ones(len(middle))], axis=1).astype(float)
    truth = np.log([0.5, 3, 1, 2])

    def share(b):
        return 1 / (1 + np.exp(-design @ b))

    steps = 1e-5 * np.eye(4)
    information = np.stack(
        [design.T @ (share(truth + step) - share(truth - step)) / 2e-5 for step in steps],
        axis=1,
    )
    errors = np.sqrt(np.diag(np.linalg.inv(information)))
    widths = np.diff(logarithms(run(plan, 100_000)))[:, 0] / 2
    assert widths == pytest.approx(norm.isf(0.05 / 4 / 2) * errors, rel=0.03)


def test_rows_of_one_person_may_go_together_so_that_the_interval_is_wider():
    one, many = (np.diff(logarithms(run(planned(epsilon=100, rows=rows), 100_000))) for rows in (1, 4))
    assert many == pytest.approx(2 * one, rel=0.05)


def test_an_interval_of_a_category_in_which_nobody_has_the_outcome_goes_on_to_the_end():
    low, high = logarithms(run(planned(epsilon=4), 3_000, worst=0.0))[2]
    assert low == pytest.approx(-LARGEST, abs=0.01)
    assert high < -2


@pytest.mark.parametrize(("columns", "rows"), [(["age", "copy"], 10_000), (["age", "town"], 100), (["age"], 0)])
def test_where_predictors_cannot_be_set_apart_or_noise_hides_them_nothing_is_said(columns, rows):
    plan = planned({**ASKED, "columns": columns})
    for seed in range(20):
        result = run(plan, rows, seed=bytes([seed]))
        assert result.notes["answered"] is False
        assert set(result.chosen) == {"cannot be said"}
        assert result.bound.bounds_nothing
        assert Bound.from_json(json.loads(json.dumps(result.bound.to_json(), allow_nan=False))) == result.bound


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("epsilon", [Fraction(1, 100), 1, 100])
@pytest.mark.parametrize("rows", [0, 1, 30])
def test_no_noise_on_next_to_no_rows_makes_a_run_fail_or_warn(rows, epsilon):
    """What would fail would tell of the rows."""
    plan = planned(epsilon=epsilon)
    table = people(plan.schema.universe, rows)
    for seed in range(40):
        assert plan.run(table, rng=StreamRandomness(bytes([seed]))).bound.says


def test_a_plan_refuses_so_few_rows_that_nothing_could_be_said_and_promises_nothing_but_an_example():
    assert planned().bound is planned().expectation is None
    least = int(planned().parameters["rows below which nothing is said"].replace(",", ""))
    assert "nothing could be said" in planned(expected_rows=least - 1).infeasible
    assert not planned(expected_rows=least).infeasible
    example = planned(expected_rows=20_000).expectation
    assert example.proof is Proof.EXPECTED
    assert example.says.startswith("For example, if 20,000 rows are counted, they are evenly spread over all")
    assert max(planned(expected_rows=40_000).expectation.half_widths) < max(example.half_widths)


def test_a_plan_is_made_again_from_its_json():
    plan = planned()
    assert plan_from_json(json.loads(json.dumps(plan.to_json()))) == plan


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"outcome": "income", "values": ["[0, 20.5)"], "columns": ["age"]}, {"from": 0, "to": 20.5}),
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
        ({"outcome": "sick", "values": ["mad"], "columns": ["age"]}, "values: 'mad' must be one of no, a bit, very"),
        ({"outcome": "sick", "values": [], "columns": ["age"]}, "logistic_regression.values"),
        (
            {"outcome": "sick", "values": ["no", "a bit", "very"], "columns": ["age"]},
            "must leave out some of what",
        ),
        ({"outcome": "age", "values": {"from": 19}, "columns": ["town"]}, "logistic_regression.values"),
        ({"outcome": "sick", "values": ["no"], "columns": ["sick"]}, "'sick' must be another column than the outcome"),
        ({"outcome": "sick", "values": ["no"], "columns": ["born"]}, "must be a column of numbers or of listed"),
        ({"outcome": "sick", "values": ["no"], "columns": ["flat"]}, "'flat' must have two bins or more"),
        ({"outcome": "sick", "values": ["no"], "columns": ["many"]}, "21 slopes' must make at most 20 slopes"),
        ({"outcome": "sick", "values": ["no"], "columns": ["fine", "town"]}, "6,000 counts' must make at most 5,000"),
        ({"outcome": "sick", "values": ["no"], "columns": []}, "logistic_regression.columns"),
        ({"values": ["no"], "columns": ["age"]}, "logistic_regression.outcome"),
        ({"outcome": "sick", "columns": ["age"]}, "logistic_regression.values"),
        ({**ASKED, "by": "town"}, "is not a known field"),
    ],
)
def test_a_question_that_breaks_a_rule_is_refused_by_name(asked, rule):
    with pytest.raises(InvalidInput, match=rule):
        planned(asked)
