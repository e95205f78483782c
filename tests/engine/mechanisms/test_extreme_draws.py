"""No draw decides whether a run fails: every registered mechanism, with draws at the ends of their laws.

A run that failed for some draws would be tried again with others, under the same charge: docs/explanation/retries.md.
"""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
import tracemalloc
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from releases.engine.domain.privacy import ApproxDP, NeighbouringRelation, PureDP
from releases.engine.domain.universe import Schema
from releases.engine.errors import InvalidInput
from releases.engine.estimation import synthetic
from releases.engine.mechanisms import randomized_response
from releases.engine.mechanisms.base import mechanism, mechanisms
from releases.engine.noise.discrete import discrete_gaussian, discrete_laplace
from releases.engine.noise.randomness import StreamRandomness
from releases.engine.run import run_release
from releases.engine.verification.cases import case_for, counts_of, ways_of
from releases.engine.verification.recording import with_extreme_draws
from releases.engine.workload.queries import Workload

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
    for plan, table in found:
        run_at_extremes(plan, counts_of(plan.schema.universe, table))


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
            json.dumps(made.result.to_json(), allow_nan=False)
            assert all(np.isfinite(each).all() for each in made.result.estimates)
            rows = 0 if made.records is None else made.records.rows
            assert rows <= plan.most_synthetic_rows
            assert peak <= plan.work.bytes + _AROUND


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("epsilon", [Fraction(1), Fraction(1, 100)], ids=["1", "0.01"])
@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
def test_no_draw_makes_a_fit_fail_whose_universe_is_too_large_to_be_held(neighbours, epsilon):
    columns = [{"name": f"c{i}", "type": "integer", "edges": [0, 1, 2]} for i in range(27)]
    schema = Schema.from_json({"version": 1, "columns": columns, "neighbours": neighbours, "unit": {"kind": "row"}})
    queries = [{"marginal": [f"c{i}", f"c{i + 1}"]} for i in range(26)]
    workload = Workload.from_json({"version": 1, "queries": queries}, schema.universe)
    budget = ApproxDP(epsilon=epsilon, delta=Fraction(1, 10**9))
    plan = mechanism("marginal-fit").plan(schema, workload, budget=budget, beta=Fraction(1, 20), options={})
    assert not plan.infeasible
    run_at_extremes(plan, counts_of(schema.universe, [(0,) * 27, (1,) * 27] * 20))


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


def test_draws_are_replaced_by_extremes_where_mechanisms_use_them():
    """Else the test above would show nothing."""
    from releases.engine.mechanisms import additive_noise, smooth_median

    with with_extreme_draws(None, (1, -1), 0):
        rng = StreamRandomness(b"x")
        assert additive_noise.discrete_laplace(scale=Fraction(3), size=3, rng=rng).tolist() == [150, -150, 150]
        assert additive_noise.discrete_gaussian(variance=Fraction(9), size=2, rng=rng).tolist() == [200, -200]
        assert smooth_median.discrete_laplace is not discrete_laplace
    assert additive_noise.discrete_gaussian is discrete_gaussian


@pytest.mark.parametrize(
    ("draw", "argument", "widest"),
    [(discrete_laplace, "scale", [180, 2**52]), (discrete_gaussian, "variance", [850**2, 2**104])],
)
def test_what_draws_noise_fits_into_the_memory_left_around_a_run_whatever_its_scale(draw, argument, widest):
    """The runs above draw none: of the widest law of one table, and of the widest of all."""
    for parameter in widest:
        tracemalloc.start()
        draw(**{argument: Fraction(parameter)}, size=1, rng=StreamRandomness(b"x"))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < _AROUND / 2


@pytest.mark.parametrize(("name", "too_much"), [("discrete_laplace", 2**52 + 1), ("discrete_gaussian", 2**104 + 1)])
def test_a_scale_at_which_noise_would_not_fit_is_refused_where_draws_are_replaced_too(name, too_much):
    """A plan whose run is refused for its scale fails the test above."""
    from releases.engine.mechanisms import additive_noise

    argument = "scale" if name == "discrete_laplace" else "variance"
    with with_extreme_draws(None, (1,), 0), pytest.raises(InvalidInput, match=argument):
        getattr(additive_noise, name)(**{argument: Fraction(too_much)}, size=1, rng=StreamRandomness(b"x"))


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


@pytest.mark.parametrize("budget", [PureDP(epsilon=Fraction(1)), ApproxDP(epsilon=Fraction(1), delta=Fraction(1, 9))])
def test_a_plan_without_synthetic_rows_has_no_limit_of_them(budget):
    case = case_for("laplace-numbers")
    assert replace(case, budget=budget).plan("laplace-numbers", NeighbouringRelation.REPLACE).most_synthetic_rows == 0


@pytest.mark.slow
def test_noise_of_a_thousand_million_rows_is_met_within_the_memory_that_was_planned():
    """Fifty rows at epsilon 0.01 were 803,449,950 synthetic rows, by chance, and memory ran out. In a process whose
    memory the system limits to what the plan says."""
    program = """
        import resource
        from fractions import Fraction
        from releases.engine.domain.privacy import NeighbouringRelation, PureDP
        from releases.engine.noise.randomness import OperatingSystemRandomness
        from releases.engine.run import run_release
        from releases.engine.verification.cases import case_for, counts_of
        from releases.engine.verification.recording import with_extreme_draws
        from dataclasses import replace

        case = replace(case_for("laplace-histogram"), budget=PureDP(epsilon=Fraction(1, 100)))
        plan = case.plan("laplace-histogram", NeighbouringRelation.ADD_REMOVE)
        counts = counts_of(plan.schema.universe, case.pairs[NeighbouringRelation.ADD_REMOVE].one)
        run_release(plan, counts, rng=OperatingSystemRandomness())
        held = int(next(line for line in open("/proc/self/status") if line.startswith("VmSize")).split()[1]) * 1024
        resource.setrlimit(resource.RLIMIT_AS, (held + plan.work.bytes,) * 2)
        with with_extreme_draws(10**9, (1,), -1):
            made = run_release(plan, counts, rng=OperatingSystemRandomness())
        print(made.records.rows == plan.most_synthetic_rows, made.result.total >= 10**9)
    """
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        cwd=Path(__file__).resolve().parents[3],
    )
    assert (ran.stdout.split(), ran.returncode) == (["True", "True"], 0), ran.stderr[-2000:]
