"""Noisy answers that are made to agree: they are the best linear estimate, and are within what is said as often."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy.stats import binom

from releases.engine.bounds.combinations import DISCRETE_GAUSSIAN, DISCRETE_LAPLACE
from releases.engine.domain.privacy import ApproxDP, PureDP
from releases.engine.domain.universe import Schema
from releases.engine.mechanisms.base import Consistency, mechanism, plan_from_json
from releases.engine.mechanisms.least_squares import LeastSquares
from releases.engine.noise.randomness import StreamRandomness
from releases.engine.tables.counts import Histogram
from releases.engine.workload.queries import Workload

BUDGETS = {
    "gaussian-queries": ApproxDP(epsilon=Fraction(1), delta=Fraction(1, 10**9)),
    "laplace-queries": PureDP(epsilon=Fraction(1)),
}
LAWS = {"gaussian-queries": DISCRETE_GAUSSIAN, "laplace-queries": DISCRETE_LAPLACE}
BOTH = pytest.mark.parametrize("name", BUDGETS)
#: The bins of the columns of the reduced Adult table.
ADULT = (16, 7, 15, 5, 2, 2, 10)
PAIRS = [{"marginals": 2}, {"marginal": ["c0"]}]


def schema_of(sizes):
    columns = [{"name": f"c{i}", "type": "integer", "edges": list(range(size + 1))} for i, size in enumerate(sizes)]
    return Schema.from_json({"version": 1, "columns": columns, "neighbours": "add_remove", "unit": {"kind": "row"}})


def workload_of(schema, queries):
    return Workload.from_json({"version": 1, "queries": queries}, schema.universe)


def planned(schema, queries, beta=Fraction(1, 20), agree="yes", name="gaussian-queries", budget=None):
    workload = Workload.from_json({"version": 1, "queries": queries}, schema.universe)
    budget = budget or BUDGETS[name]
    return mechanism(name).plan(schema, workload, budget=budget, beta=beta, options={"agree": agree})


def table_of(schema, seed=1):
    counts = np.random.default_rng(seed).integers(0, 90, schema.universe.shape)
    return Histogram(universe=schema.universe, counts=counts)


def matrix_of(schema, workload):
    """Each answer as the cells of the universe it counts, one by one."""
    names, shape = schema.universe.names, schema.universe.shape
    lines = []
    for family in workload.families:
        axes = [names.index(name) for name in family.attributes]
        for answer in product(*(range(shape[axis]) for axis in axes)):
            cells = product(*map(range, shape))
            lines.append([float(all(cell[a] == v for a, v in zip(axes, answer, strict=True))) for cell in cells])
    return np.array(lines)


@BOTH
def test_what_agrees_is_the_weighted_least_squares_estimate_and_its_variance_is_what_is_said(name):
    schema = schema_of((3, 2, 4))
    workload = workload_of(schema, PAIRS)
    variances = (9.0, 25.0, 4.0, 49.0)
    squares = LeastSquares(workload=workload, law=LAWS[name], variances=variances)
    cells = [family.cells(schema.universe) for family in workload.families]
    roots = np.repeat(np.sqrt(variances), cells)
    matrix = matrix_of(schema, workload)
    noisy = np.random.default_rng(3).normal(50, 20, len(matrix))
    onto = matrix @ np.linalg.pinv(matrix / roots[:, None])
    expected = onto @ (noisy / roots)
    found = squares.combined(np.split(noisy, np.cumsum(cells)[:-1]))
    np.testing.assert_allclose(np.concatenate(found), expected, atol=1e-8)
    covariance = np.split((onto**2).sum(axis=1), np.cumsum(cells)[:-1])
    np.testing.assert_allclose(squares.answer_variances, [each.max() for each in covariance], rtol=1e-6)


@pytest.mark.parametrize("queries", [PAIRS, [{"marginals": 3}, {"marginals": 1}], [{"marginals": 2}, {"marginals": 2}]])
def test_an_error_is_made_of_the_noise_that_the_least_squares_matrix_takes(queries):
    """Every answer of a table, draw by draw; one column has a single bin."""
    schema = schema_of((3, 1, 2, 4))
    workload = workload_of(schema, queries)
    variances = tuple(float(4 + place) for place in range(len(workload.families)))
    squares = LeastSquares(workload=workload, law=DISCRETE_LAPLACE, variances=variances)
    cells = [family.cells(schema.universe) for family in workload.families]
    of_cell = np.repeat(variances, cells)
    matrix = matrix_of(schema, workload)
    onto = matrix @ np.linalg.pinv(matrix / np.sqrt(of_cell)[:, None]) / np.sqrt(of_cell)
    for error, lines in zip(squares.errors, np.split(onto, np.cumsum(cells)[:-1]), strict=True):
        kinds = np.column_stack([error.variances, error.factors])
        said = np.repeat(kinds, np.rint(error.numbers).astype(int), axis=0)
        np.testing.assert_allclose(error.numbers, np.rint(error.numbers), rtol=1e-9)
        for line in lines:
            found = np.column_stack([of_cell, np.abs(line)])[np.abs(line) > 1e-12]
            order, other = np.lexsort(found.round(9).T[::-1]), np.lexsort(said.round(9).T[::-1])
            kept = said[other][said[other][:, 1] > 1e-12]
            np.testing.assert_allclose(found[order], kept, atol=1e-8)


def failures(plan, runs, factor):
    table = table_of(plan.schema)
    exact = plan.counts_asked.answer(table.marginal)
    failed = 0
    for seed in range(runs):
        noisy = plan.noisy_answers(table, StreamRandomness(seed.to_bytes(4, "little")))
        pairs = zip(plan.released(noisy), exact, plan.bound.half_widths, strict=True)
        failed += any(np.abs(one - other).max() > factor * width for one, other, width in pairs)
    return failed


@BOTH
@pytest.mark.parametrize("weight", [1, 3])
def test_all_answers_are_within_the_bound_as_often_as_it_says_and_a_narrower_one_is_noticed(name, weight):
    """Of 1,000 runs at 1 - beta = 0.8, more failures than this have a probability below 10^-6 if the bound holds."""
    queries = [{"marginals": 2}, {"marginal": ["c0"], "weight": weight}]
    plan = planned(schema_of((3, 2, 4)), queries, beta=Fraction(1, 5), name=name)
    most = int(binom.isf(1e-6, 1000, 0.2))
    assert failures(plan, 1000, 1.0) <= most
    assert failures(plan, 1000, 0.7) > most


@pytest.mark.parametrize(
    ("name", "agreeing_below", "plain_above"), [("gaussian-queries", 143, 158), ("laplace-queries", 361, 439)]
)
def test_thirty_five_triples_of_adult_get_closer_for_nothing(name, agreeing_below, plain_above):
    plain, agreeing = (planned(schema_of(ADULT), [{"marginals": 3}], agree=agree, name=name) for agree in ("no", ""))
    assert agreeing.events == plain.events
    assert max(agreeing.bound.half_widths) < agreeing_below < plain_above < min(plain.bound.half_widths)
    # Means over the tables of unbiased normal answers: 0.1135 and 0.0941 in total variation were computed elsewhere.
    cells = np.array([family.cells(agreeing.schema.universe) for family in agreeing.counts_asked.families])
    before, after = (np.mean(cells * np.sqrt(each.answer_variances)) for each in (plain, agreeing.together))
    assert name == "laplace-queries" or after / before == pytest.approx(0.0941 / 0.1135, abs=0.01)


@BOTH
def test_left_to_the_mechanism_the_narrower_bound_is_chosen_before_the_release(name):
    schema = schema_of((3, 2, 4))
    for queries in (PAIRS, [{"marginal": ["c0", "c1"]}], [{"prefix": "c0"}, {"marginals": 2}]):
        plain, decided = (planned(schema, queries, agree=agree, name=name) for agree in ("no", ""))
        assert decided.bound.alpha <= plain.bound.alpha
        assert (decided.together is not None) is (decided.bound.alpha < plain.bound.alpha) is (queries == PAIRS)
        assert decided.events == plain.events


@BOTH
@pytest.mark.parametrize("agree", ["", "yes"])
def test_it_costs_what_the_noise_costs_and_comes_out_of_its_json_the_same(name, agree):
    plan, plain = (planned(schema_of((3, 2, 4)), PAIRS, agree=each, name=name) for each in (agree, "no"))
    assert plan.events == plain.events
    assert plan_from_json(plan.to_json()) == plan
    # Stored without the option, it is read as one that leaves its noise.
    stored = plain.to_json()
    del stored["options"]["agree"]
    assert plan_from_json(stored) == plain
    assert plain.together is None


@pytest.mark.parametrize("queries", [[{"prefix": "c0"}], [{"count": {"c0": ["0"]}}]])
@BOTH
def test_questions_that_are_no_tables_are_refused_in_a_sentence(queries, name):
    assert "Only whole tables" in planned(schema_of((3, 2, 4)), queries, name=name).infeasible


def test_so_many_tables_that_a_bound_takes_long_are_refused_and_left_as_they_are_where_that_is_not_asked_for():
    schema = schema_of((2,) * 26)
    assert "not too many" in planned(schema, [{"marginals": 2}]).infeasible
    assert planned(schema, [{"marginals": 2}], agree="").together is None


def test_where_there_is_next_to_no_noise_nothing_is_promised():
    large = ApproxDP(epsilon=Fraction(20), delta=Fraction(1, 10**9))
    plan, left = (planned(schema_of((3, 2)), PAIRS, budget=large, agree=agree) for agree in ("yes", ""))
    assert "so little noise" in plan.infeasible
    assert not left.infeasible
    assert left.together is None


@BOTH
def test_what_agrees_is_made_of_the_noisy_answers_alone(name):
    schema = schema_of((3, 2, 4))
    plain, agreeing = (planned(schema, PAIRS, agree=agree, name=name) for agree in ("no", "yes"))
    noisy = plain.run(table_of(schema), rng=StreamRandomness(b"same")).estimates
    released = agreeing.run(table_of(schema), rng=StreamRandomness(b"same")).estimates
    for one, other in zip(agreeing.together.combined(noisy), released, strict=True):
        np.testing.assert_array_equal(one, other)


@BOTH
@pytest.mark.parametrize("agree", ["no", "", "yes"])
def test_it_says_truly_whether_its_tables_have_the_same_total(agree, name):
    plan = planned(schema_of((3, 2, 4)), PAIRS, agree=agree, name=name)
    totals = [table.sum() for table in plan.run(table_of(plan.schema), rng=StreamRandomness(b"sum")).estimates]
    says = mechanism(name).consistency_under(plan.parameters)
    assert bool(max(totals) - min(totals) < 1e-6) is (says is Consistency.MADE_TO_AGREE) is (agree != "no")
    assert mechanism(name).consistency_under({}) is Consistency.OWN_NOISE
