"""Noise on residuals: what one unit moves in them, what a release shows of a table, and how close it is."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, combinations_with_replacement, product
from math import prod, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp
from scipy.sparse import csr_matrix

from releases.engine.accounting import accountant
from releases.engine.accounting.conversions import rho_of_projected_gaussian
from releases.engine.domain.privacy import ApproxDP
from releases.engine.estimation.residuals import whole_residual
from releases.engine.mechanisms.residual_design import Answers, variances
from releases.engine.mechanisms.residual_queries import is_fine
from releases.engine.noise.randomness import StreamRandomness
from releases.engine.tables.counts import Histogram
from releases.engine.workload.residuals import Residuals
from tests.engine import telling

BUDGET = ApproxDP(epsilon=Fraction(1), delta=Fraction(1, 10**9))
#: The bins of the columns of the reduced Adult table.
ADULT = (16, 7, 15, 5, 2, 2, 10)


def schema_of(sizes, neighbours="add_remove", unit=None, *, may_drop=False):
    columns = [
        {"name": f"c{i}", "type": "categorical", "categories": [f"v{j}" for j in range(size)]}
        | ({} if may_drop and i == 0 else {"outside": "v0"})
        for i, size in enumerate(sizes)
    ]
    return telling.schema_of(columns, neighbours, unit)


def planned(schema, queries, budget=BUDGET, name="residual-queries", **options):
    return telling.planned(name, schema, queries, budget=budget, **options)


def residual_by_hand(table):
    """The table with the mean over each attribute taken away, one after the other."""
    found = table.astype(float)
    for axis in range(table.ndim):
        found = found - found.mean(axis=axis, keepdims=True)
    return found


@pytest.mark.parametrize("kind", [np.int64, object])
@given(shape=st.lists(st.integers(2, 4), min_size=1, max_size=3), seed=st.integers(0, 2**32 - 1))
def test_what_is_kept_of_a_noisy_table_is_a_function_of_its_residual_to_the_last_bit(kind, shape, seed):
    """Tables that differ by what has no residual, however large, give the same whole numbers."""
    rng = np.random.default_rng(seed)
    table = rng.integers(-(10**6), 10**6, shape).astype(kind)
    other = table.copy()
    for axis in range(len(shape)):
        flat = [1 if i == axis else size for i, size in enumerate(shape)]
        other = other + rng.integers(-(2**62), 2**62, flat).astype(kind)
    np.testing.assert_array_equal(whole_residual(table), whole_residual(other))


def neighbouring_changes(cells, schema):
    """How the histograms of two neighbouring tables may differ, by trying all."""
    most = schema.unit.max_rows
    fewest = 0 if schema.unit.kind == "person" or schema.universe.may_drop else most
    for count in range(1, most + 1):
        for gone in combinations_with_replacement(range(cells), count):
            left = np.bincount(gone, minlength=cells)
            if schema.neighbours.value == "add_remove":
                yield left
                continue
            for new in range(fewest, most + 1):
                for come in combinations_with_replacement(range(cells), new):
                    yield left - np.bincount(come, minlength=cells) if come else left


@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
@pytest.mark.parametrize(
    ("unit", "may_drop"),
    [(None, False), (None, True), (telling.PERSON, False)],
    ids=["row", "row that may vanish", "person"],
)
@pytest.mark.parametrize("sizes", [(2, 3), (2, 2, 2), (3, 1, 2)])
def test_no_unit_moves_the_residuals_further_than_is_paid_for_and_some_do_move_them_so_far(
    neighbours, unit, may_drop, sizes
):
    schema = schema_of(sizes, neighbours, unit, may_drop=may_drop)
    names = schema.universe.names
    residuals = Residuals.of(schema.universe, list(combinations(names, 2)))
    multipliers = np.random.default_rng(len(sizes)).integers(1, 20, len(residuals.sets)).tolist()
    maps = []
    cells = prod(sizes)
    for kept, multiplier in zip(residuals.sets, multipliers, strict=True):
        gone = tuple(i for i, name in enumerate(names) if name not in kept)
        rows = [residual_by_hand(np.eye(cells)[i].reshape(sizes).sum(axis=gone)).ravel() for i in range(cells)]
        maps.append(multiplier * np.array(rows).T)
    whole = np.vstack(maps)
    worst = max(float(((whole @ change) ** 2).sum()) for change in neighbouring_changes(cells, schema))
    claimed = float(residuals.moved(multipliers, schema))
    if schema.total_is_public:
        assert multipliers[0] > 0  # the number of rows does not move, whatever it is multiplied by
    assert worst <= claimed * (1 + 1e-12)
    assert claimed <= worst * (1 + 1e-5)


def test_beyond_what_is_enumerated_the_price_is_an_upper_bound(monkeypatch):
    from releases.engine.workload import residuals as module

    schema = schema_of((2, 3, 2), "replace")
    residuals = Residuals.of(schema.universe, list(combinations(schema.universe.names, 2)))
    multipliers = [3, 5, 7, 2, 4, 6, 1]
    exact = residuals.moved(multipliers, schema)
    monkeypatch.setattr(module, "_MAX_COMBINATIONS", 0)
    assert exact <= residuals.moved(multipliers, schema) <= 3 * exact


@pytest.mark.parametrize("bins", [2, 3])
def test_the_exact_law_of_a_projected_draw_costs_what_is_charged_and_no_less(bins):
    """All Rényi divergences of ⊗(d I - J) of discrete Gaussian noise on a few cells, by summing over the lattice."""
    variance, reach = 6, range(-24, 25)
    with mp.workdps(40):
        law = {}
        single = {n: mp.exp(-mp.mpf(n * n) / (2 * variance)) for n in reach}
        for point in product(reach, repeat=bins):
            image = tuple((bins * np.array(point) - sum(point)).tolist())
            law[image] = law.get(image, 0) + mp.fprod(single[n] for n in point)
        total = mp.fsum(law.values())
        shift = tuple((bins * np.eye(bins, dtype=int)[0] - 1).tolist())
        pairs = []
        for image, mass in law.items():
            other = law.get(tuple(a - b for a, b in zip(image, shift, strict=True)))
            if other is not None:
                pairs.append((mass / total, other / total))
        claimed = mp.mpf(1) / (2 * variance) * (1 - mp.mpf(1) / bins)
        charged = rho_of_projected_gaussian(noise_variance=Fraction(variance * bins, bins - 1))
        assert claimed < mp.mpf(charged.numerator) / charged.denominator < claimed * (1 + mp.mpf(10) ** -9)
        for order in (1.5, 4):
            moment = mp.fsum(one**order * other ** (1 - order) for one, other in pairs)
            divergence = mp.log(moment) / (order - 1) / order
            assert 0.99 * claimed < divergence < claimed * (1 + mp.mpf(10) ** -6)


@pytest.mark.parametrize("bins", [2, 5, 100])
def test_noise_that_is_called_fine_enough_makes_eta_as_small_as_the_proof_asks(bins):
    residuals = Residuals.of(schema_of((bins,)).universe, [("c0",)])
    variance = next(v for v in range(4, 10**6) if is_fine(residuals, v))
    with mp.workdps(60):
        # One attribute: what has no residual are the multiples of (1, ..., 1), whose dual has length n s / √d.
        eta = 2 * mp.nsum(lambda n: mp.exp(-2 * mp.pi**2 * variance * n * n / bins), [1, mp.inf])
        assert eta <= mp.mpf(2) ** -102
    assert not is_fine(residuals, bins)


def test_tables_of_the_same_columns_get_narrower_bounds_than_by_noise_on_each_answer():
    schema = schema_of(ADULT)
    each = planned(schema, [{"marginals": 2}], name="gaussian-queries", agree="no").bound
    shared = planned(schema, [{"marginals": 2}]).bound
    assert max(shared.half_widths) < 0.80 * max(each.half_widths)
    assert max(shared.half_widths) < 1.002 * min(shared.half_widths)


def test_either_aim_is_met_better_by_its_own_plan():
    schema = schema_of((2, 3, 5))
    queries = [{"marginals": 2}, {"count": {"c2": ["v0", "v1"]}, "weight": 3}]
    largest, total = (planned(schema, queries, least=least) for least in ("largest error", "total error"))

    def worth(plan):
        asked = zip(plan.workload.families, plan.variances, strict=True)
        found = [(family.cells(schema.universe), family.weight**2 * variance) for family, variance in asked]
        return max(one for _, one in found), sum(cells * one for cells, one in found)

    assert worth(largest)[0] < worth(total)[0]
    assert worth(total)[1] < worth(largest)[1]


QUERIES = [{"marginals": 2}, {"marginal": ["c0"]}, {"prefix": "c1"}, {"count": {"c0": ["v1"], "c2": ["v0", "v3"]}}]


@pytest.mark.parametrize("is_largest", [False, True], ids=["total", "largest"])
@pytest.mark.parametrize("seed", range(20))
def test_no_other_precision_of_the_residuals_serves_the_importance_of_answers_better(is_largest, seed):
    """The aim is linear, or the largest of linear ones, the price convex: the best is what no small step betters."""
    rng = np.random.default_rng(seed)
    factors, costs = rng.random((5, 4)) + 0.05, rng.random(4) + 0.1
    numbers, weights = rng.integers(1, 20, 5).astype(float), rng.integers(1, 6, 5).astype(float)
    answers = Answers(factors=csr_matrix(factors), numbers=numbers, families=np.arange(5), weights=weights)
    chosen = variances(answers, costs, is_largest=is_largest)
    assert (costs / chosen).sum() == pytest.approx(1)
    tried = chosen * np.exp(rng.choice([0.02, 0.1, 0.5], (2000, 1)) * rng.standard_normal((2000, 4)))
    tried *= (costs / tried).sum(axis=1, keepdims=True)
    said, tries = (weights * weights * (each @ factors.T) for each in (chosen, tried))
    if is_largest:
        assert said.max() <= tries.max(axis=1).min() * 1.001
    else:
        assert said @ numbers <= (tries @ numbers).min() * (1 + 1e-9)


def test_answers_are_unbiased_and_have_the_variances_stated():
    """1,500 runs: a variance is off by a fifth with probability below 1e-6 each; the stream is fixed."""
    schema = schema_of((3, 4, 5))
    plan = planned(schema, QUERIES)
    table, rng, runs = telling.some_counts(schema.universe, 30), StreamRandomness(b"residuals"), 1_500
    exact = plan._exact(table)
    truth = [np.asarray(each, dtype=float) for each in plan.workload.answer(table.marginal)]
    drawn = [[] for _ in truth]
    for _ in range(runs):
        found = plan._measured(exact, rng)
        for place, each in enumerate(plan._answers(found)):
            drawn[place].append(each - truth[place])
    for errors, variance, width in zip(map(np.array, drawn), plan.variances, plan.bound.half_widths, strict=True):
        own = errors.var(axis=0)
        assert own.max() < 1.2 * variance
        assert own.max() > 0.8 * variance
        assert np.abs(errors.mean(axis=0)).max() < 6 * sqrt(variance / runs)
        assert (np.abs(errors) > width).mean() < 0.01


def test_counts_too_large_for_sixty_four_bits_are_taken_whole():
    schema = schema_of((40, 50, 60))
    plan = planned(schema, [{"marginals": 3}], budget=ApproxDP(epsilon=Fraction(1, 10**5), delta=Fraction(1, 10**9)))
    counts = np.zeros(schema.universe.shape, dtype=np.int64)
    counts[0, 0, 0] = 10**10
    result = plan.run(Histogram(universe=schema.universe, counts=counts), rng=StreamRandomness(b"large"))
    assert abs(result.estimates[0][0] - 10**10) <= plan.bound.half_widths[0]


@settings(max_examples=25, deadline=None)
@given(
    weights=st.lists(st.sampled_from([1, 5, 1000]), min_size=3, max_size=3),
    epsilon=st.sampled_from(["1/1000000", "1/10", "3", "100"]),
)
def test_any_importance_and_any_budget_is_planned_within_the_price(weights, epsilon):
    schema = schema_of((2, 3, 70))
    queries = [
        {"marginal": list(names), "weight": weight}
        for names, weight in zip(combinations(("c0", "c1", "c2"), 2), weights, strict=True)
    ]
    budget = ApproxDP(epsilon=Fraction(epsilon), delta=Fraction(1, 10**6))
    plan = planned(schema, queries, budget=budget)
    assert is_fine(plan.residuals, plan.lattice_variance)
    # The event says no more noise than is drawn.
    drawn = plan.lattice_variance / plan.residuals.moved(plan.multipliers, plan.schema)
    assert plan.events[0].noise_variance <= drawn
    assert accountant.price(plan.events, delta=plan.delta).epsilon <= budget.epsilon * 10**accountant.EPSILON_PLACES


def test_questions_on_too_many_columns_are_refused():
    schema = schema_of((2,) * 12)
    assert "Ask about fewer" in planned(schema, [{"count": {f"c{i}": ["v1"] for i in range(12)}}]).infeasible
