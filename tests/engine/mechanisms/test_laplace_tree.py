"""Cumulative counts from a tree of ranges: what one unit moves, which ranges an answer adds up, and what it is for."""

from itertools import product

import numpy as np
import pytest

from releases.engine.mechanisms.laplace_tree import Ranges, ranges_of
from tests.engine import telling

SIZES = [1, 2, 3, 4, 5, 7, 8, 11, 16]
X = {"name": "x", "type": "integer"}
TOWN = {"name": "town", "type": "categorical", "categories": ["a", "b", "c"]}


def planned(bins, queries=({"prefix": "x"},), unit=None):
    return telling.planned("laplace-tree", [{**X, "edges": list(range(bins + 1))}, TOWN], list(queries), unit=unit)


def counted(tree):
    """Which bins each range holds, a line a range, as the tree is described: level l has ranges of k^l bins."""
    lines = []
    for level, size in enumerate(tree.sizes):
        width = tree.branches**level
        lines.extend([float(place // width == number) for place in range(tree.bins)] for number in range(size))
    return np.array(lines)


def added(tree):
    """How often each answer adds each range, a line an answer: found by giving one range a 1 after the other."""
    return np.array([tree.sums(one) for one in np.eye(sum(tree.sizes), dtype=np.int64)]).T


TREES = [
    Ranges(bins=bins, branches=branches, levels=levels)
    for bins in SIZES
    for branches in (3, 5, 7, 33)
    for levels in (1, 2, 3)
    if (branches**levels - 1) // 2 >= bins
]


@pytest.mark.parametrize("tree", TREES, ids=lambda tree: f"{tree.bins}-{tree.branches}-{tree.levels}")
def test_the_ranges_of_a_tree_add_up_to_the_cumulative_counts(tree):
    how_often = added(tree)
    assert set(how_often.ravel().tolist()) <= {-1, 0, 1}
    np.testing.assert_array_equal(how_often @ counted(tree), np.tri(tree.bins))
    assert np.abs(how_often).sum(axis=1).max() == tree.most
    assert tree.most <= tree.levels * (tree.branches - 1) // 2


@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
@pytest.mark.parametrize("may_drop", [True, False])
@pytest.mark.parametrize("tree", TREES, ids=lambda tree: f"{tree.bins}-{tree.branches}-{tree.levels}")
def test_no_row_moves_the_ranges_by_more_than_the_noise_is_made_for(tree, neighbours, may_drop):
    # The counts of ranges of a table of one row, by the bin it lies in, and of an empty table.
    tables, empty = list(counted(tree).T), np.zeros(sum(tree.sizes))
    schema = telling.schema_of([TOWN if may_drop else {**TOWN, "outside": "a"}], neighbours)
    assert schema.rows_may_vanish is may_drop
    pairs = [(each, empty) for each in tables]
    if neighbours == "replace":
        pairs = [*product(tables, tables), *(pairs if may_drop else [])]
    worst = max(np.abs(one - other).sum() for one, other in pairs)
    claimed = tree.changed(schema)
    assert worst <= claimed
    assert claimed <= worst + (neighbours == "replace")


@pytest.mark.parametrize("bins", SIZES)
def test_the_noise_of_a_plan_is_made_for_the_ranges_that_it_draws_for(bins):
    plan = planned(bins)
    tree = ranges_of(bins, plan.schema)
    assert (tree.branches**tree.levels - 1) // 2 >= bins
    assert plan.noise.l1_sensitivity == counted(tree).sum(axis=0).max()


def test_questions_weights_and_rows_of_a_person_add_up():
    person = {"kind": "person", "id": "who", "max_rows": 3}
    queries = [{"prefix": "x", "weight": 5}, {"marginal": ["town"], "weight": 2}, {"count": {"town": ["a"]}}]
    plan = planned(8, queries, unit=person)
    # One range, one cell of a marginal and one count, of three rows.
    assert ranges_of(8, plan.schema).levels == 1
    assert plan.noise.l1_sensitivity == 3 * (5 * 1 + 2 * 1 + 1)
    assert [event.to_json() for event in plan.events] == [
        {"kind": "weighted_discrete_laplace", "noise_multiplier": "1"}
    ]
