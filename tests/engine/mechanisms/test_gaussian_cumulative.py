"""Cumulative counts by a square root: what one unit moves, what comes back, and how close it is."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from releases.engine.domain.privacy import ApproxDP
from releases.engine.mechanisms import gaussian_cumulative
from releases.engine.mechanisms.gaussian_cumulative import moved, noisy
from tests.engine import telling

BUDGET = ApproxDP(epsilon=Fraction(1), delta=Fraction(1, 10**9))


def planned(bins, neighbours="add_remove", unit=None, **outside):
    categories = [f"v{i:05}" for i in range(bins)]
    columns = [{"name": "x", "type": "categorical", "categories": categories, **outside}]
    return telling.planned("gaussian-cumulative", columns, {"prefix": "x"}, neighbours, budget=BUDGET, unit=unit)


def rows_moved(plan):
    """What noise is added to on a table of one row, for each bin of x that it may lie in."""
    (family,), (measure,) = plan.workload.families, plan.measures
    bins = family.cells(plan.schema.universe)
    return [noisy(np.cumsum(np.eye(bins, dtype=np.int64)[place]), family, measure) for place in range(bins)]


@pytest.mark.parametrize("bins", [1, 2, 3, 8, 17, 60])
@pytest.mark.parametrize(
    ("neighbours", "outside"), [("add_remove", {}), ("replace", {}), ("replace", {"outside": "v00000"})]
)
@pytest.mark.parametrize("unit", [None, telling.PERSON], ids=["row", "person"])
def test_no_unit_moves_what_is_measured_further_than_is_paid_for_and_one_does_so_far(bins, neighbours, outside, unit):
    plan = planned(bins, neighbours=neighbours, unit=unit, **outside)
    if plan.infeasible:
        assert bins == 1
        return
    tables, rows = rows_moved(plan), 2 if unit else 1
    pairs = [(each, np.zeros(bins, dtype=np.int64)) for each in tables]
    if neighbours == "replace":
        pairs = [*product(tables, tables), *(pairs if plan.schema.rows_may_vanish else [])]
    # All rows of a person at once, which is the furthest: the length of a sum is at most the sum of the lengths.
    worst = max(int(((rows * (one - other)) ** 2).sum()) for one, other in pairs)
    assert moved(plan.workload, plan.measures, plan.schema) == worst
    assert plan.events[0].noise_variance <= Fraction(plan.lattice_variance, worst)


def test_beyond_what_is_compared_the_price_is_an_upper_bound(monkeypatch):
    exact = planned(90, neighbours="replace", outside="v00000")
    monkeypatch.setattr(gaussian_cumulative, "_MAX_EXACT_BINS", 3)
    gaussian_cumulative._moved_by_replacing.cache_clear()
    more = planned(90, neighbours="replace", outside="v00000")
    gaussian_cumulative._moved_by_replacing.cache_clear()
    assert exact.lattice_variance < more.lattice_variance < 2 * exact.lattice_variance


def test_too_many_bins_are_refused():
    assert "the most is 30,000" in planned(30_001).infeasible
