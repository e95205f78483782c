"""No draw decides whether a run fails: every registered mechanism, with draws at the ends of their laws.

A run that failed for some draws would be tried again with others, under the same charge: docs/explanation/retries.md.
"""

import json
import tracemalloc
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from releases.engine.domain.privacy import ApproxDP, NeighbouringRelation
from releases.engine.estimation import synthetic
from releases.engine.mechanisms import randomized_response
from releases.engine.mechanisms.base import mechanisms
from releases.engine.noise.randomness import StreamRandomness
from releases.engine.run import run_release
from releases.engine.verification.cases import case_for, ways_of
from releases.engine.verification.recording import with_extreme_draws
from releases.engine.verification.tables import counts_of
from tests.engine import telling

#: A thousand million, or fifty scales.
SIZES = [10**9, None]
#: All up, all down, one way after the other; with them the best candidate, the worst, and one between.
SIGNS = [((1,), -1), ((-1,), 0), ((1, -1), 0), ((-1, 1, 1), 1)]
#: What the rest of a process may take meanwhile, in bytes.
_AROUND = 64_000_000


def plans(name, way, of_persons, neighbours):
    """Of the mechanism's case: at its own budget, and at a hundredth and a millionth of its epsilon."""
    case = case_for(name, way=way, of_persons=of_persons)
    for factor in (Fraction(1), Fraction(1, 100), Fraction(1, 10**6)):
        budget = replace(case.budget, epsilon=case.budget.epsilon * factor)
        plan = replace(case, budget=budget).plan(name, neighbours)
        if not plan.infeasible:
            yield plan, case.pairs[neighbours].one


@pytest.fixture(autouse=True)
def few_rows(monkeypatch):
    """A low limit, so that a thousand runs that reach it take no time; the real one has a test of its own."""
    monkeypatch.setattr(synthetic, "MAX_ROWS", 2_000)
    monkeypatch.setattr(randomized_response, "MAX_REPORTS", 100_000)


# A number that is none is no failure by itself: a fit that begins with one comes to nothing and says so nowhere.
@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("of_persons", [False, True], ids=["row", "person"])
@pytest.mark.parametrize("neighbours", NeighbouringRelation)
@pytest.mark.parametrize(("name", "way"), [(name, way) for name in mechanisms() for way in ways_of(name)])
def test_no_draw_makes_a_run_fail_or_take_more_rows_or_memory_than_its_plan_says(name, way, neighbours, of_persons):
    found = list(plans(name, way, of_persons, neighbours))
    assert found, "nothing was run"
    compile_loops_of(found[0][0], counts_of(found[0][0].schema.universe, found[0][1]))
    for plan, table in found:
        run_at_extremes(plan, counts_of(plan.schema.universe, table))


def compile_loops_of(plan, counts):
    """Compiling is not the run's own work, and takes a minute while memory is followed."""
    run_release(plan, counts, rng=StreamRandomness(b"extreme"))


def run_at_extremes(plan, counts):
    for size in SIZES:
        for signs, place in SIGNS:
            with with_extreme_draws(size, signs, place):
                # Everything takes several times as long while memory is followed.
                tracemalloc.start()
                made = run_release(plan, counts, rng=StreamRandomness(b"extreme"))
                peak = tracemalloc.get_traced_memory()[1]
                tracemalloc.stop()
            # Neither a database nor a page takes a number that is none.
            said = made.result
            json.dumps([said.bound.to_json(), said.total, said.notes, said.most_rows], allow_nan=False)
            assert all(np.isfinite(each).all() for each in said.estimates)
            rows = 0 if made.records is None else made.records.rows
            assert rows <= plan.most_synthetic_rows
            assert peak <= plan.work.bytes + _AROUND


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("epsilon", [Fraction(1), Fraction(1, 100)], ids=["1", "0.01"])
@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
def test_no_draw_makes_a_fit_fail_whose_universe_is_too_large_to_be_held(neighbours, epsilon):
    queries = [{"marginal": [f"c{i}", f"c{i + 1}"]} for i in range(26)]
    budget = ApproxDP(epsilon=epsilon, delta=Fraction(1, 10**9))
    plan = telling.planned("marginal-fit", telling.integers([2] * 27), queries, neighbours, budget=budget)
    assert not plan.infeasible
    counts = counts_of(plan.schema.universe, [(0,) * 27, (1,) * 27] * 20)
    compile_loops_of(plan, counts)
    run_at_extremes(plan, counts)


def test_a_total_above_the_limit_gives_as_many_rows_as_the_limit_and_the_same_shares(monkeypatch):
    """Two categories at a million rows and at none: 100 rows, all of the first."""
    monkeypatch.setattr(synthetic, "MAX_ROWS", 100)
    case = case_for("laplace-queries")
    plan = case.plan("laplace-queries", NeighbouringRelation.ADD_REMOVE)
    counts = counts_of(plan.schema.universe, case.pairs[NeighbouringRelation.ADD_REMOVE].one)
    with with_extreme_draws(10**6, (1, -1), 0):
        made = run_release(plan, counts, rng=StreamRandomness(b"extreme"))
    with with_extreme_draws(10**6, (1,), 0):
        even = run_release(plan, counts, rng=StreamRandomness(b"extreme"))
    assert (even.result.total, even.records.rows) == (2 * 10**6 + 40, 100)
    assert np.bincount(even.records.columns["town"], minlength=2).tolist() == [50, 50]
    assert made.records.rows <= 100


@pytest.mark.parametrize("columns", [1, 6, 300])
def test_the_limit_of_synthetic_rows_follows_from_the_declared_columns_alone(monkeypatch, columns):
    monkeypatch.undo()
    case = case_for("laplace-histogram")
    many = [{**case.columns[0], "name": f"c{i}"} for i in range(columns)]
    asked = [{"marginal": ["c0"]}]
    plan = replace(case, columns=many, queries=asked).plan("laplace-queries", NeighbouringRelation.ADD_REMOVE)
    assert 0 < plan.most_synthetic_rows <= synthetic.MAX_ROWS
    # 64 bytes a row, 32 a column and those of the longest category, and the plan's memory has room for them.
    assert plan.most_synthetic_rows * (64 + 33 * columns) <= min(synthetic.MAX_BYTES, plan.work.bytes)
    chosen = replace(case, options={"rows": 12}).plan("laplace-histogram", NeighbouringRelation.ADD_REMOVE)
    assert chosen.most_synthetic_rows == 12
