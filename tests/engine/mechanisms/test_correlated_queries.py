"""Counts that share one draw: what one unit moves beside the noise's covariance, and how much narrower they get."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations_with_replacement, product
from math import sqrt

import numpy as np
import pytest

from releases.engine.accounting import accountant
from releases.engine.domain.privacy import ApproxDP, PureDP
from releases.engine.domain.universe import Schema
from releases.engine.mechanisms.base import mechanism
from releases.engine.mechanisms.correlated_queries import Overlap, is_fine
from releases.engine.noise.randomness import StreamRandomness
from releases.engine.tables.counts import Histogram
from releases.engine.workload.queries import Workload

ROW = {"kind": "row"}
PERSON = {"kind": "person", "id": "who", "max_rows": 2}
BUDGET = ApproxDP(epsilon=Fraction(1), delta=Fraction(1, 10**9))
MANY = [{"count": {f"c{i}": ["yes"]}} for i in range(25)]
MIXED = [
    {"count": {"c0": ["yes"]}, "weight": 3},
    {"count": {"c1": ["yes"]}},
    {"count": {"c0": ["no"], "c2": ["yes"]}, "weight": 2},
    {"prefix": "c1"},
    {"marginal": ["c0", "c2"], "weight": 2},
]


def planned(queries, columns=25, neighbours="add_remove", unit=ROW, budget=BUDGET, name="correlated-queries"):
    declared = [
        {"name": f"c{i}", "type": "categorical", "categories": ["no", "yes"], "outside": "no"} for i in range(columns)
    ]
    schema = Schema.from_json({"version": 1, "columns": declared, "neighbours": neighbours, "unit": unit})
    workload = Workload.from_json({"version": 1, "queries": queries}, schema.universe)
    return mechanism(name).plan(schema, workload, budget=budget, beta=Fraction(1, 20), options={})


def covariance(plan):
    """Of all answers together, as the plan says that noise is drawn."""
    sizes = [family.cells(plan.schema.universe) for family in plan.workload.families]
    weights = np.repeat(plan.workload.weights, sizes)
    shares = np.repeat([family.kind != "marginal" for family in plan.workload.families], sizes)
    own = np.diag(plan.lattice_variance / weights.astype(float) ** 2)
    return (own + float(plan.share) * plan.lattice_variance * np.outer(shares, shares)) / plan.scale**2


@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
@pytest.mark.parametrize("unit", [ROW, PERSON], ids=["row", "person"])
@pytest.mark.parametrize("queries", [MIXED, MANY[:3], MIXED[:3]], ids=["mixed", "three", "weighted"])
def test_no_unit_moves_the_answers_further_against_their_covariance_than_is_paid_for(queries, unit, neighbours):
    plan = planned(queries, 3, neighbours, unit)
    universe = plan.schema.universe
    rows = []
    for cell in product(*map(range, universe.shape)):
        counts = np.zeros(universe.shape, dtype=np.int64)
        counts[cell] = 1
        table = Histogram(universe=universe, counts=counts)
        rows.append(np.concatenate(plan.workload.answer(table.marginal)).astype(float))
    most = unit.get("max_rows", 1)
    sums = [
        sum(chosen, np.zeros(len(rows[0])))
        for g in range(most + 1)
        for chosen in combinations_with_replacement(rows, g)
    ]
    exactly = [sum(chosen) for chosen in combinations_with_replacement(rows, most)]
    if neighbours == "add_remove":
        changes = sums
    else:
        changes = [one - other for one, other in product(exactly if most == 1 else sums, repeat=2)]
    inverse = np.linalg.inv(covariance(plan))
    worst = max(float(change @ inverse @ change) for change in changes)
    paid = 1 / float(plan.events[0].noise_variance)
    assert worst <= paid * (1 + 1e-9)
    assert worst >= 0.7 * paid


def test_a_plan_costs_its_budget_and_its_lattice_is_fine():
    for queries in (MANY, MIXED, [{"marginals": 1}]):
        plan = planned(queries)
        paid = accountant.price(plan.events, delta=plan.delta, neighbours=plan.schema.neighbours)
        whole = 10**accountant.EPSILON_PLACES
        assert 0.999999 * whole < paid.epsilon <= whole
        assert is_fine(Overlap.of(plan.workload, plan.schema), plan.share, plan.lattice_variance)


def test_twenty_five_counts_that_one_person_can_be_in_get_three_fifths_of_the_noise():
    ours, each = planned(MANY), planned(MANY, name="gaussian-queries")
    deviation = sqrt(each.noise.variance)
    assert sqrt(ours.variances[0]) == pytest.approx(deviation * (sqrt(25) + 1) / 2 / sqrt(25), rel=1e-3)
    assert ours.bound.alpha < 0.62 * each.bound.alpha


@pytest.mark.parametrize(("queries", "neighbours"), [(MANY, "replace"), ([{"marginals": 2}], "add_remove")])
def test_where_nothing_is_in_common_nothing_is_shared(queries, neighbours):
    ours, each = (planned(queries, 25, neighbours, name=name) for name in ("correlated-queries", "gaussian-queries"))
    assert ours.share == 0
    assert sqrt(ours.variances[0]) == pytest.approx(sqrt(each.noise.variance), rel=1e-4)


def test_answers_are_unbiased_have_the_covariance_stated_and_keep_their_bound():
    """1,500 runs: a covariance is off by a fifth of the variances with probability below 1e-6; the stream is fixed."""
    plan = planned([*MANY[:6], {"marginal": ["c0"]}], 6)
    universe, rng, runs = plan.schema.universe, StreamRandomness(b"shared"), 1_500
    counts = np.random.default_rng(3).integers(0, 9, universe.shape)
    table = Histogram(universe=universe, counts=counts)
    truth = np.concatenate(plan.workload.answer(table.marginal))
    # What a run hands out, without the table that it fits to it for synthetic rows.
    given = [plan.released(plan.noisy_answers(table, rng)) for _ in range(runs)]
    drawn = np.array([np.concatenate(each) for each in given]) - truth
    stated = covariance(plan)
    assert np.abs(np.cov(drawn.T) - stated).max() < 0.2 * stated.max()
    assert stated[0, 1] > 0.2 * stated[0, 0]
    assert np.abs(drawn.mean(axis=0)).max() < 6 * sqrt(stated.max() / runs)
    assert (np.abs(drawn) > plan.bound.alpha).any(axis=1).mean() < 0.09


def test_a_budget_without_a_delta_is_refused():
    assert "delta" in planned(MANY, budget=PureDP(epsilon=Fraction(1))).infeasible
