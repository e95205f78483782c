"""The yardstick of a session: what its questions would be within in one release, whatever they are."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, product

import pytest

from releases.engine.domain.privacy import ApproxDP, PureDP
from releases.engine.domain.universe import Schema
from releases.engine.mechanisms.base import mechanism
from releases.engine.mechanisms.prepared_baseline import within_if_prepared
from releases.engine.workload.queries import Count, Workload

BETA = Fraction(1, 20)
PURE, APPROXIMATE = PureDP(epsilon=Fraction(1)), ApproxDP(epsilon=Fraction(1), delta=Fraction(1, 10**6))


def schema(*, neighbours="add_remove", max_rows=1, sizes=(4, 3)):
    columns = [
        {"name": f"c{number}", "type": "categorical", "categories": [f"v{value}" for value in range(size)]}
        for number, size in enumerate(sizes)
    ]
    unit = {"kind": "row"} if max_rows == 1 else {"kind": "person", "id": "id", "max_rows": max_rows}
    return Schema.from_json({"version": 1, "unit": unit, "neighbours": neighbours, "columns": columns})


def subsets(size):
    return [bins for length in range(1, size + 1) for bins in combinations(range(size), length)]


def all_counts(universe):
    """Every counting question of both columns that a person can ask."""
    names = universe.names
    return [Count(attributes=names, bins=bins) for bins in product(*(subsets(size) for size in universe.shape))]


def planned(schema, counts, budget):
    workload = Workload(universe=schema.universe, families=tuple(counts))
    names = within_if_prepared(schema, questions=len(counts), budget=budget, beta=BETA)
    return {name: mechanism(name).plan(schema, workload, budget=budget, beta=BETA).bound.alpha for name in names}, names


@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
@pytest.mark.parametrize("max_rows", [1, 3])
@pytest.mark.parametrize("budget", [PURE, APPROXIMATE], ids=["pure", "approximate"])
def test_questions_that_all_hold_one_row_and_every_row_are_planned_with_exactly_this_bound(
    neighbours, max_rows, budget
):
    given = schema(neighbours=neighbours, max_rows=max_rows)
    # All hold the cell (0, 0), one of them every cell, and none but that one the cell (3, 2).
    whole = Count(attributes=given.universe.names, bins=((0, 1, 2, 3), (0, 1, 2)))
    asked = [each for each in all_counts(given.universe) if each.bins[0][0] == each.bins[1][0] == 0]
    counts = [*[each for each in asked if 3 not in each.bins[0]][:9], whole]
    found, said = planned(given, counts, budget)
    assert found.keys() == said.keys()
    for name in said:
        # Two rows differ in one question less where one holds them all.
        slack = 1 if neighbours == "replace" and name.endswith("queries") else 0
        exact = within_if_prepared(given, questions=len(counts), budget=budget, beta=BETA)[name]
        assert found[name] <= exact
        assert found[name] >= exact * (len(counts) - slack) / len(counts) - 1


@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
def test_no_questions_are_planned_with_a_wider_bound(neighbours):
    given = schema(neighbours=neighbours)
    asked = all_counts(given.universe)
    for counts in (asked[:1], asked[:7], asked[40:60], asked[::5], asked):
        found, said = planned(given, counts, APPROXIMATE)
        assert all(found[name] <= said[name] for name in said), len(counts)


def test_gaussian_noise_is_left_out_of_a_pure_budget_and_a_histogram_that_cannot_be_held():
    large = schema(sizes=(3000, 3000, 3000))
    assert list(within_if_prepared(large, questions=10, budget=PURE, beta=BETA)) == ["laplace-queries"]
    assert list(within_if_prepared(large, questions=10, budget=APPROXIMATE, beta=BETA)) == [
        "laplace-queries",
        "gaussian-queries",
    ]
    assert set(within_if_prepared(schema(), questions=10, budget=PURE, beta=BETA)) == {
        "laplace-queries",
        "laplace-histogram",
    }
