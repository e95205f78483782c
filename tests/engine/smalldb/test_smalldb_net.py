"""The public net: its candidates are public, one is chosen with exactly the claimed law, and its bound is true.

Statistical tests run on fixed streams; on a fresh one a right mechanism would fail each with probability at most 1e-6.
"""

from math import log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from releases.engine.errors import Infeasible, InvalidInput
from releases.engine.noise.randomness import StreamRandomness
from releases.engine.smalldb import net
from releases.engine.smalldb.net import Net, candidate
from releases.engine.tables.counts import marginal
from tests.engine.goodness import FALSE_ALARM, p_value
from tests.engine.small_databases import predicate, span
from tests.engine.smalldb.test_smalldb import (
    RELATIONS,
    UNITS,
    histogram,
    neighbouring_cells,
    recorded,
    uneven,
)
from tests.engine.smalldb.test_smalldb import planned as planned_of

#: Questions of every kind, that cross each other.
SIZES = (4, 3, 2)
QUERIES = [{"marginals": 2}, {"prefix": "a"}, predicate(a=(1, 3), c=(0, 1)), span("b", 1, 3)]


def planned(neighbours="replace", *, sizes=SIZES, queries=QUERIES, **given_):
    return planned_of(sizes, queries, neighbours, name="smalldb-net", **given_)


def tables_of_candidates(plan):
    """The histogram of every candidate, row by row."""
    universe, options = plan.asked, plan.options
    tables = []
    for index in range(plan.candidates):
        rows = candidate(universe, seed=options["seed"], index=index, size=options["size"])
        table = np.zeros(universe.shape, dtype=np.int64)
        for cell in rows.T.tolist():
            table[tuple(cell)] += 1
        tables.append(table)
    return tables


def errors_of(plan, cells, *, rows):
    """L of every candidate, by asking the workload about it."""
    size, truth = plan.options["size"], histogram(plan, cells)
    exact = np.concatenate(plan.workload.answer(truth.marginal))
    return np.array([np.abs(rows * _answers(plan, table) - size * exact).max() for table in tables_of_candidates(plan)])


def _answers(plan, table):
    return np.concatenate(plan.workload.answer(lambda names: marginal(table, plan.asked.axes(names))))


def law_of_net(plan, cells, *, rows, epsilon=None):
    rate = (epsilon or plan.split.choice) / (2 * plan.options["size"] * plan.schema.unit.max_rows)
    errors = errors_of(plan, cells, rows=rows)
    masses = np.exp(-float(rate) * (errors - errors.min()))
    return masses / masses.sum()


def test_a_candidate_is_a_function_of_public_numbers_alone():
    universe = planned().asked
    rows = candidate(universe, seed=3, index=7, size=50)
    assert rows.shape == (3, 50)
    for bins, column in zip(universe.shape, rows, strict=True):
        assert column.min() >= 0
        assert column.max() < bins
    np.testing.assert_array_equal(rows, candidate(universe, seed=3, index=7, size=50))
    for other in ({"seed": 4}, {"index": 8}):
        assert (rows != candidate(universe, **{"seed": 3, "index": 7, "size": 50, **other})).any()


def test_candidates_are_unlike_each_other_and_reach_every_cell():
    plan = planned(candidates=300, size=40)
    tables = tables_of_candidates(plan)
    assert len({table.tobytes() for table in tables}) == 300
    assert (sum(tables) > 0).all()
    # Some are nearly even and some nearly all in one cell: a real table may be either.
    largest = [table.max() for table in tables]
    assert min(largest) <= 8
    assert max(largest) >= 30


@given(
    st.integers(1, 40),
    st.integers(1, 30),
    st.integers(0, 99),
    st.sampled_from([1, 70, 4_000_000]),
    st.sampled_from([0, net._KEPT]),
)
@settings(max_examples=20)
def test_errors_are_the_same_in_batches_of_any_size_whether_a_net_is_kept_or_not(count, size, rows, batch, kept):
    plan = planned(candidates=max(2, count), size=size)
    cells = uneven(24, rows)
    exact = np.concatenate(plan.workload.answer(histogram(plan, cells).marginal))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(net, "BATCH", batch)
        patch.setattr(net, "_KEPT", kept)
        weighed = Net(plan.workload, plan.asked, seed=1, count=plan.candidates, size=size)
        errors = np.concatenate(list(weighed.errors(exact, rows=rows + 5)))
        again = np.concatenate(list(weighed.errors(exact, rows=rows + 5)))
    np.testing.assert_array_equal(errors, errors_of(plan, cells, rows=rows + 5))
    np.testing.assert_array_equal(again, errors)


@pytest.mark.parametrize("unit", UNITS, ids=["row", "person"])
def test_a_candidate_is_chosen_with_exactly_the_claimed_law(unit):
    """Chi-square of 800 runs on a table with a public number of rows, or given the noisy one."""
    plan = planned(unit=unit, candidates=12, size=6, epsilon=2)
    cells, counts = uneven(24, 30), histogram(plan, uneven(24, 30))
    rng = StreamRandomness(f"law {unit}".encode())
    chosen = []
    for _ in range(800):
        result = plan.run(counts, rng=rng)
        if unit["kind"] == "row" or abs(result.total - 30) <= 200:
            chosen.append((result.total, result.notes["candidate chosen"]))
    expected, thrice, observed = np.zeros(12), np.zeros(12), np.zeros(12)
    laws = {}
    for total, index in chosen:
        if total not in laws:
            laws[total] = [
                law_of_net(plan, cells, rows=round(total), epsilon=factor * plan.split.choice) for factor in (1, 3)
            ]
        expected, thrice = expected + laws[total][0], thrice + laws[total][1]
        observed[index] += 1
    assert p_value(observed, expected) > FALSE_ALARM
    assert p_value(observed, thrice) < FALSE_ALARM
    assert (len(laws) == 1) == (unit["kind"] == "row")


@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("unit", UNITS, ids=["row", "person"])
def test_neighbours_with_the_same_randomness_draw_the_same_noise(neighbours, unit):
    """All that is drawn, how many words it takes and what is shown meanwhile; errors differ by a unit at most."""
    plan = planned(neighbours, unit=unit, candidates=20, size=5)
    most = plan.schema.unit.max_rows

    @settings(max_examples=15, database=None, derandomize=True)
    @given(st.lists(st.integers(0, 9), min_size=24, max_size=24), st.integers(0, 23), st.binary(max_size=3))
    def compared(cells, place, seed):
        one, other = neighbouring_cells(cells, place, (place + 7) % 24, neighbours=neighbours, rows=most)
        (first, steps), (second, steps_of_second) = (recorded(plan, table, seed) for table in (one, other))
        assert first.flow == second.flow
        total = ["discrete_laplace"] if plan.split.total else []
        assert [each.sampler for each in first.draws] == [*total, "exponential_mechanism", "discrete_laplace"]
        assert steps == steps_of_second
        parameters = dict(first.draws[-2].parameters)
        assert parameters["epsilon"] == plan.split.choice
        for rows in (1, 50):
            moved = np.abs(errors_of(plan, one, rows=rows) - errors_of(plan, other, rows=rows)).max()
            assert moved <= parameters["sensitivity"] == 5 * most

    compared()


def test_the_best_candidate_is_missed_by_no_more_than_the_plan_says():
    """Summed over the exact law, for tables and budgets of several kinds."""
    for epsilon, beta, seed in ((1, "1/20", 1), (5, "1/2", 2), ("0.2", "1/5", 3)):
        plan = planned(candidates=50, size=8, epsilon=epsilon, beta=beta)
        cells = uneven(24, 400, seed)
        beyond = 2 / float(plan.split.choice) * (log(50) - log(float(plan.beta)))
        assert plan.parameters["beyond the best candidate"].startswith(f"at most {beyond:,.1f} counts")
        errors = errors_of(plan, cells, rows=400) / 8
        law = law_of_net(plan, cells, rows=400)
        assert law[errors > errors.min() + beyond].sum() <= float(plan.beta)


def test_the_error_of_the_candidate_is_always_measured():
    with pytest.raises(InvalidInput, match=r"options\.measure"):
        planned(measure=0)


def test_the_usual_net_shrinks_as_more_is_asked_and_a_larger_one_than_can_be_weighed_is_refused():
    wide = {"sizes": (300, 300, 3), "queries": [{"marginals": 2}]}
    assert planned().candidates == 10_000
    assert 2 <= planned(**wide).candidates < 2000
    refused = planned(**wide, candidates=1_000_000)
    assert "at most 10,000,000,000" in refused.infeasible
    with pytest.raises(Infeasible):
        refused.run(histogram(refused, np.zeros(270_000)), rng=StreamRandomness(b"x"))


def test_what_is_released_is_the_candidate_chosen():
    plan = planned(candidates=40, size=10)
    result = plan.run(histogram(plan, uneven(24, 500)), rng=StreamRandomness(b"one"))
    table = tables_of_candidates(plan)[result.notes["candidate chosen"]]
    np.testing.assert_allclose(np.concatenate(result.estimates), _answers(plan, table) * 50.0)
    np.testing.assert_allclose(result.distribution.marginal(("a", "b", "c")), table / 10)
