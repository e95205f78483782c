"""Propose, test, release: its distances against brute force, its threshold, what it refuses and what it answers."""

from __future__ import annotations

import json
from fractions import Fraction
from math import exp, sqrt
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from latex2mathml.converter import convert
from scipy.stats import binom

from releases.engine.accounting import accountant
from releases.engine.accounting.calibration import laplace_passes
from releases.engine.bounds.accuracy import Proof
from releases.engine.domain.privacy import ApproxDP, PureDP
from releases.engine.domain.universe import Schema
from releases.engine.errors import InvalidInput
from releases.engine.estimation.result import Result
from releases.engine.mechanisms import propose_test_release
from releases.engine.mechanisms.base import mechanism, plan_from_json
from releases.engine.mechanisms.propose_test_release import NO_ANSWER, distance_of_trimmed_mean, trimmed_mean
from releases.engine.noise.randomness import StreamRandomness
from releases.engine.tables.counts import Rows
from releases.engine.verification.recording import record
from releases.engine.workload.parsing import read_question
from releases.engine.workload.smooth_sensitivity import distance_to_instability
from tests.engine.goodness import FALSE_ALARM
from tests.engine.mechanisms.test_smooth_median import schema_of
from tests.engine.workload.test_smooth_sensitivity import (
    QUANTILES,
    RELATIONS,
    column_of,
    neighbours_of,
    small_column,
    small_tables,
    values_of_a_column,
)

NAME = "propose-test-release"
BUDGET = ApproxDP(epsilon=Fraction(1), delta=Fraction(1, 10**6))
MEDIAN, MEAN = {"median": "x"}, {"mean": "x"}


def planned(query=MEDIAN, *, schema=None, budget=BUDGET, beta=Fraction(1, 20), **options):
    schema = schema or schema_of()
    question = read_question({"version": 1, "queries": [query]}, schema.universe)
    return mechanism(NAME).plan(schema, question, budget=budget, beta=beta, options=options)


def run(plan, values, seed):
    rows = Rows(universe=plan.schema.universe, columns={"x": np.asarray(values, dtype=np.int64)})
    rng = StreamRandomness(seed) if isinstance(seed, bytes) else seed
    return plan.run(rows, rng=rng)


units = st.integers(1, 3)


@settings(max_examples=80)
@given(
    values_of_a_column,
    small_tables,
    st.sampled_from(RELATIONS),
    units,
    st.integers(0, 2),
    st.fractions(Fraction(1, 2), Fraction(60), max_denominator=4),
)
def test_far_from_instability_no_unit_moves_a_trimmed_mean_by_more_than_proposed(
    values, table, relation, rows, trim, eta
):
    column = small_column(values, table)
    here, mean = distance_of_trimmed_mean(column, trim=trim, bound=eta / rows), trimmed_mean(column, trim=trim)
    for other in neighbours_of(table, relation, rows):
        moved = small_column(values, other)
        assert abs(distance_of_trimmed_mean(moved, trim=trim, bound=eta / rows) // rows - here // rows) <= 1
        if here // rows:
            assert abs(trimmed_mean(moved, trim=trim) - mean) <= eta


@settings(max_examples=80)
@given(
    values_of_a_column, small_tables, st.sampled_from(RELATIONS), units, st.integers(1, 40), st.sampled_from(QUANTILES)
)
def test_far_from_instability_no_unit_moves_a_quantile_by_more_than_proposed(values, table, relation, rows, eta, q):
    def distance_of(column):
        return distance_to_instability(column, q=q, neighbours=relation, bound=eta) // rows

    column = small_column(values, table)
    for other in neighbours_of(table, relation, rows):
        moved = small_column(values, other)
        assert abs(distance_of(moved) - distance_of(column)) <= 1
        if distance_of(column):
            assert abs(moved.quantile(q) - column.quantile(q)) <= eta


@given(st.lists(st.integers(0, 30), max_size=20), st.integers(0, 8))
def test_a_trimmed_mean_is_that_of_the_values_left(values, trim):
    left = sorted(values)[trim : len(values) - trim] if 2 * trim < len(values) else []
    expected = Fraction(sum(left), len(left)) if left else Fraction(15)
    assert trimmed_mean(column_of(values, 0, 30), trim=trim) == expected


def test_sums_beyond_64_bits_are_exact():
    column = column_of([2**53] * 5, -(2**53), 2**53)
    big = type(column)(
        values=column.values, last=np.array([10**9], dtype=np.int64), lowest=column.lowest, highest=column.highest
    )
    assert trimmed_mean(big, trim=7) == 2**53


def test_the_plain_mean_is_tested_for_its_number_of_rows_alone():
    # Without trimming the gap is the whole range whatever the values are: there is nothing to adapt to.
    distances = {
        distance_of_trimmed_mean(column_of(values, 0, 100), trim=0, bound=Fraction(2))
        for values in ([50] * 90, [0] * 45 + [100] * 45, list(range(90)))
    }
    assert distances == {41}


@pytest.mark.parametrize("epsilon", [Fraction(1, 2), Fraction(1, 100), Fraction(7)])
@pytest.mark.parametrize("delta", [Fraction(1, 20), Fraction(1, 10**6), Fraction(1, 10**12)])
def test_the_threshold_is_the_least_that_an_unstable_table_passes_with_delta(epsilon, delta):
    threshold, r = laplace_passes(scale=1 / epsilon, probability=delta), exp(-float(epsilon))
    assert r**threshold / (1 + r) <= float(delta)
    assert threshold == 1 or r ** (threshold - 1) / (1 + r) > float(delta)


@pytest.mark.parametrize("query", [MEDIAN, MEAN])
def test_an_unstable_table_is_answered_as_often_as_delta_says_and_no_more(query):
    """4000 runs; each assertion fails by chance with probability below 1e-6. A threshold too low by 2 is seen."""
    delta, rng = Fraction(1, 20), StreamRandomness(b"unstable")
    plan = planned(query, budget=ApproxDP(epsilon=Fraction(2), delta=delta), propose="1", trim=0)
    threshold = plan.proposal.threshold
    notes = [run(plan, [0, 100], rng).notes for _ in range(4000)]
    answered, lower = (sum(each["noisy distance"] >= least for each in notes) for least in (threshold, threshold - 2))
    assert answered == sum(each["answered"] for each in notes)
    passes = exp(-threshold) / (1 + exp(-1))
    assert passes <= delta
    assert binom.sf(answered - 1, 4000, float(delta)) > FALSE_ALARM
    assert binom.cdf(answered, 4000, passes) > FALSE_ALARM
    assert binom.sf(lower - 1, 4000, float(delta)) < FALSE_ALARM


def stable_values(rows=4000, highest=100_000):
    return np.sort(np.random.default_rng(6).integers(0, highest, rows))


@pytest.mark.parametrize("query", [MEDIAN, {"quantile": {"column": "x", "at": "0.8"}}, MEAN])
@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
def test_a_good_proposal_is_answered_within_its_bound(query, neighbours):
    """250 runs at beta 0.2; a true bound fails with probability below 1e-6. It is not loose either."""
    proposal = {"mean": "60", "median": "2000", "quantile": "2500"}[next(iter(query))]
    schema = schema_of(100_000, neighbours)
    plan = planned(query, schema=schema, beta=Fraction(1, 5), propose=proposal)
    values, rng = stable_values(), StreamRandomness(f"good {query} {neighbours}".encode())
    column, trim = column_of(values, 0, 100_000), plan.proposal.trim
    truth = float(trimmed_mean(column, trim=trim)) if query is MEAN else column.quantile(plan.workload.statistic.at)
    results = [run(plan, values, rng) for _ in range(250)]
    assert all(result.bound == plan.bound and result.bound.proof is Proof.BEFORE for result in results)
    assert sum(result.notes["answered"] for result in results) == 250
    off = sum(abs(result.estimates[0][0] - truth) > plan.bound.alpha + 1e-6 for result in results)
    assert 50 - 5 * sqrt(40) <= off <= 50 + 5 * sqrt(40)
    assert plan.bound.alpha < 5 * float(proposal)
    convert(plan.bound.formula)


def test_a_refused_proposal_is_an_output_at_the_same_price():
    plan = planned(MEDIAN, propose="1")
    refused = run(plan, [0, 100] * 60, b"refused")
    assert refused.chosen == (NO_ANSWER,)
    assert refused.notes["answered"] is False
    assert refused.notes["noisy distance"] < refused.notes["threshold"] == plan.proposal.threshold
    assert (refused.estimates[0].tolist(), refused.bound.half_widths) == ([50.0], (50.0,))
    convert(refused.bound.formula)
    again = Result.from_json(json.loads(json.dumps(refused.to_json())))
    assert (again.chosen, again.bound, again.notes) == (refused.chosen, refused.bound, refused.notes)
    price = accountant.price(plan.events, delta=plan.delta)
    assert (price.epsilon, price.delta) == (10**12, 10**12)


def test_the_same_samplers_and_words_are_drawn_whether_it_answers_or_not():
    plan = planned(MEDIAN, propose="1")
    tables = [[0, 100] * 60, [50] * 120, []]
    runs = [record(lambda rng, values=values: run(plan, values, rng), seed=b"x") for values in tables]
    assert [each.result.notes["answered"] for each in runs] == [False, True, False]
    assert runs[0].flow == runs[1].flow == runs[2].flow
    assert [draw.sampler for draw in runs[0].draws] == ["discrete_laplace"] * 2


@settings(max_examples=60, derandomize=True, database=None)
@given(
    st.lists(st.integers(0, 20), max_size=12),
    st.lists(st.integers(0, 20), max_size=2),
    st.lists(st.integers(0, 20), max_size=2),
    st.sampled_from(["add_remove", "replace"]),
    st.sampled_from([MEDIAN, MEAN]),
)
def test_before_noise_neighbours_differ_by_one_in_distance_and_where_answered_by_the_proposal(
    shared, gone, come, neighbours, query
):
    plan = planned(query, schema=schema_of(20, neighbours, 2), propose="3", trim=1)
    pair = (shared + (gone if neighbours == "replace" else []), shared + come)
    with patch.object(propose_test_release, "discrete_laplace", lambda **kwargs: np.zeros(1, dtype=np.int64)):
        one, other = (run(plan, values, b"none").notes["noisy distance"] for values in pair)
        assert abs(one - other) <= 1
        object.__setattr__(plan.proposal, "threshold", 1)
        answers = [run(plan, values, b"none") for values in pair]
    if all(each.notes["answered"] for each in answers):
        assert abs(answers[0].estimates[0][0] - answers[1].estimates[0][0]) <= 3 + 1e-9


def test_more_noise_than_the_range_is_never_claimed_and_defaults_come_from_the_range_alone():
    median, mean = (planned(each, schema=schema_of(1234, decimals=1)) for each in (MEDIAN, MEAN))
    assert median.proposal.eta == 124
    assert mean.proposal.eta == Fraction(1234, 100)
    assert mean.proposal.trim == 2 * mean.proposal.threshold
    assert planned(MEDIAN, schema=schema_of(3)).bound.alpha == 3
    assert planned(MEAN, schema=schema_of(10, max_rows=4)).proposal.trim == 8 * mean.proposal.threshold


def test_a_proposal_is_a_decimal_number_kept_as_text():
    plan = planned(MEAN, schema=schema_of(10, decimals=2), propose=" 0.250 ", trim=3)
    assert plan.options == {"propose": "0.25", "trim": 3}
    assert plan.parameters["proposal"] == "0.25"
    assert plan_from_json(json.loads(json.dumps(plan.to_json()))) == plan
    assert [planned(MEDIAN, propose=each).options["propose"] for each in (7, "")] == ["7", None]
    for wrong in ("0", "-1", "nan", "1,5", True, 0.5):
        with pytest.raises(InvalidInput, match=r"options\.propose"):
            planned(MEDIAN, propose=wrong)


def test_what_cannot_be_run_says_why():
    many = Schema.from_json(
        {"version": 1, "columns": [{"name": name, "type": "integer", "edges": [0, 9]} for name in "xy"]}
    )
    for plan, reason in (
        (planned(budget=PureDP(epsilon=Fraction(1))), "needs a delta"),
        (planned({"mean": ["x", "y"]}, schema=many), "one mean at a time"),
        (planned(MEDIAN, propose="0.5"), "must be at least 1, the last place"),
        (planned(MEDIAN, budget=ApproxDP(epsilon=Fraction(1, 10**16), delta=Fraction(1, 2))), "64-bit"),
    ):
        assert reason in plan.infeasible
        assert plan.infeasible.endswith(".")
        assert not plan.events
    assert not planned(MEAN, propose="0.5").infeasible
