"""Counts that share one draw: what one unit moves beside the noise's covariance, and how much narrower they get."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations_with_replacement, product
from math import sqrt

import numpy as np
import pytest

from releases.engine.domain.privacy import ApproxDP
from releases.engine.mechanisms.correlated_queries import Overlap, is_fine
from releases.engine.noise.randomness import StreamRandomness
from releases.engine.tables.counts import Histogram
from tests.engine import telling

BUDGET = ApproxDP(epsilon=Fraction(1), delta=Fraction(1, 10**9))
NO_YES = {"type": "categorical", "categories": ["no", "yes"], "outside": "no"}
MANY = [{"count": {f"c{i}": ["yes"]}} for i in range(25)]
MIXED = [
    {"count": {"c0": ["yes"]}, "weight": 3},
    {"count": {"c1": ["yes"]}},
    {"count": {"c0": ["no"], "c2": ["yes"]}, "weight": 2},
    {"prefix": "c1"},
    {"marginal": ["c0", "c2"], "weight": 2},
]


def planned(queries, columns=25, neighbours="add_remove", unit=None, name="correlated-queries"):
    declared = [{"name": f"c{i}", **NO_YES} for i in range(columns)]
    return telling.planned(name, declared, queries, neighbours, budget=BUDGET, unit=unit)


def covariance(plan):
    """Of all answers together, as the plan says that noise is drawn."""
    sizes = [family.cells(plan.schema.universe) for family in plan.workload.families]
    weights = np.repeat(plan.workload.weights, sizes)
    shares = np.repeat([family.kind != "marginal" for family in plan.workload.families], sizes)
    own = np.diag(plan.lattice_variance / weights.astype(float) ** 2)
    return (own + float(plan.share) * plan.lattice_variance * np.outer(shares, shares)) / plan.scale**2


@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
@pytest.mark.parametrize("unit", [None, telling.PERSON], ids=["row", "person"])
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
    most = 2 if unit else 1
    sums = [
        sum(chosen, np.zeros(len(rows[0])))
        for g in range(most + 1)
        for chosen in combinations_with_replacement(rows, g)
    ]
    # Each row stays somewhere, but a person may have none.
    replaced = [one - other for one, other in product(sums if unit else rows, repeat=2)]
    changes = sums if neighbours == "add_remove" else replaced
    inverse = np.linalg.inv(covariance(plan))
    worst = max(float(change @ inverse @ change) for change in changes)
    paid = 1 / float(plan.events[0].noise_variance)
    assert is_fine(Overlap.of(plan.workload, plan.schema), plan.share, plan.lattice_variance)
    assert worst <= paid * (1 + 1e-9)
    assert worst >= 0.7 * paid


def test_twenty_five_counts_that_one_person_can_be_in_get_three_fifths_of_the_noise():
    ours, each = planned(MANY), planned(MANY, name="gaussian-queries")
    # Of noise on each answer that costs the same rho; both spend all of epsilon, which leaves them a little apart.
    deviation = sqrt(25 * ours.events[0].noise_variance)
    assert sqrt(ours.variances[0]) == pytest.approx(deviation * (sqrt(25) + 1) / 2 / sqrt(25), rel=1e-3)
    assert ours.bound.alpha < 0.62 * each.bound.alpha


def test_answers_are_unbiased_have_the_covariance_stated_and_keep_their_bound():
    """1,500 runs: a covariance is off by a fifth of the variances with probability below 1e-6; the stream is fixed."""
    plan = planned([*MANY[:6], {"marginal": ["c0"]}], 6)
    universe, rng, runs = plan.schema.universe, StreamRandomness(b"shared"), 1_500
    table = telling.some_counts(universe, 9)
    truth = np.concatenate(plan.workload.answer(table.marginal))
    # What a run hands out, without the table that it fits to it for synthetic rows.
    given = [plan.released(plan.noisy_answers(table, rng)) for _ in range(runs)]
    drawn = np.array([np.concatenate(each) for each in given]) - truth
    stated = covariance(plan)
    assert np.abs(np.cov(drawn.T) - stated).max() < 0.2 * stated.max()
    assert stated[0, 1] > 0.2 * stated[0, 0]
    assert np.abs(drawn.mean(axis=0)).max() < 6 * sqrt(stated.max() / runs)
    assert (np.abs(drawn) > plan.bound.alpha).any(axis=1).mean() < 0.09
