"""Strongest associations: how far a unit moves a score, the law of the choice, what is found and what is said of it."""

from fractions import Fraction
from itertools import combinations, combinations_with_replacement, product
from math import floor

import numpy as np
import pytest

from releases.engine.domain.attribute import Attribute
from releases.engine.domain.privacy import ApproxDP
from releases.engine.domain.universe import Universe
from releases.engine.errors import InvalidInput
from releases.engine.mechanisms.strongest_associations import (
    association,
    more_frequent,
    score_sensitivity,
    tables_sensitivity,
)
from releases.engine.noise.randomness import StreamRandomness
from releases.engine.tables.counts import Rows
from releases.engine.workload.kinds.strongest_associations import level_labels, levels_of, refused
from tests.engine.goodness import p_value
from tests.engine.telling import FALSE_ALARM, PERSON, RELATIONS, all_neighbours, planned, table

THREE = [{"name": name, "type": "categorical", "categories": ["no", "yes"], "outside": "no"} for name in "pqr"]
ASKED = {"strongest_associations": {"columns": ["p", "q", "r"], "k": 1}}
both = pytest.mark.parametrize("neighbours", RELATIONS)


def plan_of(neighbours="add_remove", *, columns=THREE, query=ASKED, **more):
    return planned("strongest-associations", columns, query, neighbours, **more)


def from_independent(rows):
    """In how many rows pairs of values differ from what they would be if independent, in exact fractions."""
    if not rows:
        return Fraction(0)
    apart = Fraction(0)
    for one in {first for first, _ in rows}:
        for other in {second for _, second in rows}:
            of_both = sum(row == (one, other) for row in rows)
            of_one, of_other = (sum(row[place] == value for row in rows) for place, value in ((0, one), (1, other)))
            apart += abs(of_both - Fraction(of_one * of_other, len(rows)))
    return apart / 2


def counted(rows, shape):
    counts = np.zeros(shape, dtype=np.int64)
    for row in rows:
        counts[row] += 1
    return counts


@pytest.mark.parametrize(("shape", "most"), [((2, 2), 7), ((2, 3), 5), ((3, 3), 4)])
def test_a_score_is_the_rows_in_which_a_table_differs_from_the_product_of_its_margins(shape, most):
    cells = list(product(*map(range, shape)))
    for size in range(most + 1):
        for rows in combinations_with_replacement(cells, size):
            assert association(counted(rows, shape)) == floor(from_independent(rows))
    n = 1 << 33
    assert association(np.array([[n, 0], [0, n]])) == n


@both
@pytest.mark.parametrize(("shape", "most"), [((2, 2), 9), ((2, 3), 6), ((3, 3), 5)])
def test_no_row_moves_a_score_further_than_is_paid_for(shape, most, neighbours):
    claimed = score_sensitivity(plan_of(neighbours).schema)
    pairs = all_neighbours(product(*map(range, shape)), most_rows=most, neighbours=neighbours)
    moved = [abs(association(counted(one, shape)) - association(counted(other, shape))) for one, other in pairs]
    assert 0 < max(moved) <= claimed


@both
def test_in_large_tables_a_row_moves_a_score_nearly_as_far_as_is_paid_for(neighbours):
    """Of many equal rows and few others a row in a cell of its own is far from what the margins make expect."""
    claimed = score_sensitivity(plan_of(neighbours).schema)
    moved = 0
    for n, other in product((50, 100, 1000), (0, 1, 2)):
        before = np.array([[n, 0], [0, other]])
        for i, j in product(range(2), repeat=2):
            after = before.copy()
            after[i, j] += 1
            after[0, 0] -= neighbours == "replace"
            moved = max(moved, abs(association(after) - association(before)))
    assert claimed / 2 <= moved <= claimed


@both
@pytest.mark.parametrize("seed", range(5))
def test_no_person_moves_a_score_or_the_tables_further_than_is_paid_for(neighbours, seed):
    random = np.random.default_rng(seed)
    schema = plan_of(neighbours, unit=PERSON).schema
    claimed, tables = score_sensitivity(schema), tables_sensitivity(schema, tables=3)
    for _ in range(2_000):
        before = random.integers(0, 4, size=(3, 3)) * random.integers(0, 2)
        gone = [tuple(random.integers(0, 3, 2)) for _ in range(2 if neighbours == "replace" else 0)]
        come = [tuple(random.integers(0, 3, 2)) for _ in range(2)]
        one, other = (before + counted(rows, (3, 3)) for rows in (gone, come))
        assert abs(association(one) - association(other)) <= claimed
        assert 3 * np.abs(one - other).sum() <= tables.l1
        assert 3 * ((one - other) ** 2).sum() <= tables.l2_squared


def scores(rows):
    """Of pairs of three columns of two values, with the penalty of each pair left out: it is the same for all."""
    return [
        floor(from_independent([(row[one], row[other]) for row in rows])) for one, other in combinations(range(3), 2)
    ]


def law(rows, *, epsilon, sensitivity):
    weights = np.exp(float(epsilon) * np.array(scores(rows)) / (2 * sensitivity))
    return weights / weights.sum()


@both
def test_the_exact_law_of_the_choice_keeps_its_epsilon_for_all_small_neighbours(neighbours):
    plan, worst = plan_of(neighbours, epsilon=8), 0.0
    for one, other in all_neighbours(product((0, 1), repeat=3), most_rows=4, neighbours=neighbours):
        laws = [law(rows, epsilon=plan.epsilon, sensitivity=plan.sensitivity) for rows in (one, other)]
        worst = max(worst, float(np.abs(np.log(laws[0]) - np.log(laws[1])).max()))
    assert 0 < worst <= float(plan.epsilon)


@both
def test_the_choice_is_drawn_from_the_exact_law(neighbours):
    rows = [(0, 0, 0), (1, 1, 0), (0, 0, 1), (1, 1, 1)] * 4 + [(0, 0, 0), (1, 1, 1)] * 3
    plan, rng = plan_of(neighbours, epsilon=2), StreamRandomness(b"law")
    counts, names = table(plan, rows), [" × ".join(pair) for pair in combinations("pqr", 2)]
    drawn = [names.index(plan.run(counts, rng=rng).chosen[0]) for _ in range(4_000)]
    seen = np.bincount(drawn, minlength=3)
    assert p_value(seen, law(rows, epsilon=plan.epsilon, sensitivity=plan.sensitivity)) > FALSE_ALARM
    assert p_value(seen, law(rows, epsilon=2 * plan.epsilon, sensitivity=plan.sensitivity)) < FALSE_ALARM


def test_choices_and_tables_cost_the_budget_together_and_share_it_as_was_asked():
    query = {"strongest_associations": {"columns": ["p", "q", "r"], "k": 2}}
    pure = plan_of(query=query, choosing=20)
    assert [event.to_json() for event in pure.events] == [
        {"kind": "repeated", "event": {"kind": "exponential_mechanism", "epsilon": "1/10"}, "times": 2},
        {"kind": "discrete_laplace", "noise_multiplier": "5/4"},
    ]
    # Two tables of a row each, at four fifths of epsilon.
    assert pure.noise.scale == Fraction(2) / Fraction(4, 5)
    approximate = plan_of(query=query, budget=ApproxDP(epsilon=Fraction(1), delta=Fraction(1, 10**6)))
    rho = 2 * approximate.epsilon**2 / 8
    assert float(approximate.noise.rho) == pytest.approx(float(rho), rel=1e-9)


def wide(columns=12, rows=20_000):
    """Columns of numbers in ten bins and of categories, all independent but for two."""
    random = np.random.default_rng(3)
    declared = [
        {"name": f"n{place}", "type": "integer", "edges": list(range(0, 101, 10))}
        if place % 2
        else {"name": f"c{place}", "type": "categorical", "categories": list("abcde"), "outside": "e"}
        for place in range(columns)
    ]
    values = {
        each["name"]: random.integers(0, 100 if place % 2 else 5, rows).astype(np.int64)
        for place, each in enumerate(declared)
    }
    same = random.random(rows) < 0.5
    values["n5"] = np.where(same, values["c2"] * 20 + values["n5"] // 5, values["n5"])
    return declared, values


@pytest.mark.parametrize("seed", range(3))
def test_a_planted_association_is_found_among_independent_columns_and_said(seed):
    declared, values = wide()
    query = {"strongest_associations": {"columns": [each["name"] for each in declared], "k": 3}}
    plan = plan_of(columns=declared, query=query)
    result = plan.run(Rows(universe=plan.schema.universe, columns=values), rng=StreamRandomness(bytes([seed])))
    assert result.chosen[0] == "c2 × n5"
    assert len(set(result.chosen)) == 3
    said, others = result.notes["associations"][0]["more_frequent"], result.notes["associations"][1:]
    assert said["share"][1] > said["others"][2]
    # What is said: a category and the numbers that half of its rows have.
    columns = result.notes["associations"][0]["levels"]
    assert "abcde".index(columns[0][said["first"]]) * 20 in range(*_span(columns[1][said["second"]]))
    assert [each["more_frequent"] for each in others] == [None, None]


def _span(label):
    ends = label.replace(" … ", " to ").split(" to ")
    return int(ends[0]) - 9, int(ends[-1]) + 10


def test_what_is_said_holds_wherever_the_counts_lie_in_their_intervals():
    """On the edge: with one more row of error it would no longer be sure."""
    plan = plan_of(epsilon=2)
    cell, line = plan.reach.cell, plan.reach.of_sum(2)
    assert line >= plan.reach.of_sum(1)
    surely = np.array([[2000, 1000], [1000, 2000]])
    said = more_frequent(surely, plan.reach)
    assert (said["first"], said["second"]) in ((0, 0), (1, 1))
    about, low, high = said["share"]
    assert about == pytest.approx(2 / 3, abs=1e-4)
    assert low <= (2000 - cell) / (3000 + line)
    assert high >= (2000 + cell) / (3000 - line)
    assert more_frequent(np.array([[2000, 2000], [2000, 2000 + int(cell)]]), plan.reach) is None


@pytest.mark.parametrize(
    ("declared", "levels", "labels"),
    [
        ({"type": "categorical", "categories": list("abc")}, ((0, 0), (1, 1), (2, 2)), ("a", "b", "c")),
        (
            {"type": "integer", "edges": list(range(0, 90, 10)), "missing_as": "no number"},
            ((0, 0), (1, 2), (3, 3), (4, 5), (6, 7), (8, 8)),
            ("0 to 9", "10 to 19 … 20 to 29", "30 to 39", "40 to 49 … 50 to 59", "60 to 69 … 70 to 80", "no number"),
        ),
    ],
)
def test_neighbouring_bins_are_put_together_by_what_is_declared(declared, levels, labels):
    attribute = Attribute.from_json({"name": "x", **declared})
    assert levels_of(attribute) == levels
    assert level_labels(attribute) == labels


@pytest.mark.parametrize(("columns", "k", "field"), [("pq", 1, "columns"), ("pqr", 3, "k"), ("pqx", 1, "columns")])
def test_what_cannot_be_compared_is_refused(columns, k, field):
    with pytest.raises(InvalidInput, match=f"strongest_associations.{field}"):
        plan_of(query={"strongest_associations": {"columns": list(columns), "k": k}})


def test_columns_that_would_take_too_long_are_refused_by_public_facts_alone():
    def said(columns, bins):
        edges = list(range(bins + 1))
        declared = [{"name": f"c{place}", "type": "integer", "edges": edges} for place in range(columns)]
        universe = Universe(attributes=tuple(map(Attribute.from_json, declared)))
        return refused(universe.names, universe)

    assert said(200, 100) == ""
    assert "pairs" in said(600, 2)
    assert "cells in all pairs" in said(40, 2_000)
    assert "cells in each pair" in said(3, 12_000)
    assert "two bins" in said(3, 1)
