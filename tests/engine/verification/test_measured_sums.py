"""What a unit moves of the exact sums that noise is added to, beside that noise, is what is charged and no more.

Plans are drawn at random: statistics, groups, weights, units, relations. Where d is how far the sums of two tables are
apart, Laplace noise tells them apart by the sum of |d_i| over its scales, and Gaussian noise by that of d_i² over its
variances, twice the rho that is charged.
"""

from __future__ import annotations

import random
from fractions import Fraction

import pytest

from releases.engine.accounting.accountant import price
from releases.engine.domain.privacy import ApproxDP, PureDP
from releases.engine.mechanisms.base import mechanism
from releases.engine.verification.tables import rows_of
from tests.engine.telling import RELATIONS, schema_of, workload_of

PLANS, PAIRS = 24, 40
BUDGETS = {
    "laplace-numbers": PureDP(epsilon=Fraction(1)),
    "gaussian-numbers": ApproxDP(epsilon=Fraction(1), delta=Fraction(1, 10**6)),
}
KINDS = ["sum", "mean", "variance", "second_moments", "weighted_count", "votes", "regression"]


def query_of(kind, chance):
    of = chance.choice([["x"], ["y"], ["x", "y"]])
    by = {"by": "town"} if chance.random() < 0.6 else {}
    if kind == "votes":
        return {"columns": ["b0", "b1", "b2"], "category": "yes", "ballots": chance.choice([1, 2, 3])}
    if kind == "regression":
        return {"outcome": "x", "columns": ["y"]}
    if kind == "weighted_count":
        return {"weighted_by": "y", "by": "town"} if by else "y"
    weight = {"weighted_by": "y"} if of == ["x"] and kind != "second_moments" and chance.random() < 0.3 else {}
    return {"columns": of, **by, **weight} if by or weight else of


def plan_of(name, kind, chance, neighbours):
    low = chance.choice([-5, 0, 3])
    outside = {} if chance.random() < 0.5 else {"outside": "a"}
    columns = [
        {"name": "x", "type": "integer", "edges": [low, low + chance.choice([1, 4, 10])], "outside": "clamp"},
        {"name": "y", "type": "integer", "edges": [0, chance.choice([1, 3])], "outside": "clamp"},
        {"name": "town", "type": "categorical", "categories": ["a", "b", "c"], **outside},
        *(
            {"name": f"b{place}", "type": "categorical", "categories": ["yes", "no"], "outside": "no"}
            for place in range(3)
        ),
    ]
    most = chance.choice([1, 2, 3])
    unit = {"kind": "person", "id": "who", "max_rows": most} if most > 1 else None
    schema = schema_of(columns, neighbours, unit)
    question = workload_of([{kind: query_of(kind, chance)}], schema)
    return mechanism(name).plan(schema, question, budget=BUDGETS[name], beta=Fraction(1, 20), options={})


def rows_of_unit(plan, chance, number):
    """Often all alike, and at the ends of their ranges."""
    are_alike, are_extreme, rows = chance.random() < 0.6, chance.random() < 0.7, []
    for _ in range(number):
        row = []
        for each in plan.schema.universe.attributes:
            low, high = (0, each.size - 1) if each.categories else (each.lowest, each.highest)
            row.append(chance.choice([low, high]) if are_extreme else chance.randint(low, high))
        rows.append(tuple(row))
    return rows[:1] * number if are_alike else rows


def spent_by(plan, chance):
    """The most that a unit was seen to move, over what is charged."""
    charged, most = price(plan.events, delta=plan.delta, neighbours=plan.schema.neighbours), 0.0
    rows = plan.schema.unit.max_rows
    for _ in range(PAIRS):
        common = rows_of_unit(plan, chance, chance.randint(0, 3))
        one, other = rows_of_unit(plan, chance, rows), []
        if plan.schema.neighbours == "replace":
            other = rows_of_unit(plan, chance, chance.randint(1 if rows == 1 else 0, rows))
        sums = [plan.noised.exactly(rows_of(plan.schema.universe, [*common, *own])) for own in (one, other)]
        moved = list(zip(*sums, plan.noised.spreads, strict=True))
        if charged.pure_epsilon is not None:
            moved_by = sum(abs(a - b) / scale for a, b, scale in moved) * 10**12 / charged.pure_epsilon
        else:
            moved_by = sum((a - b) ** 2 / variance for a, b, variance in moved) * 10**12 / (2 * charged.rho)
        most = max(most, float(moved_by))
    return most


@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("name", BUDGETS)
def test_a_unit_moves_the_sums_that_get_noise_as_far_as_is_charged_and_no_farther(name, neighbours):
    chance = random.Random(f"sums {name} {neighbours}")
    plans = [plan_of(name, KINDS[place % len(KINDS)], chance, neighbours) for place in range(PLANS)]
    assert not any(plan.infeasible for plan in plans)
    spent = [spent_by(plan, chance) for plan in plans]
    assert max(spent) <= 1 + 1e-9
    assert sum(each > 0.99 for each in spent) > len(plans) / 3
