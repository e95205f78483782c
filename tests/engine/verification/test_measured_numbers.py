"""What a unit moves of the exact numbers that a run measures, beside the noise that it draws, is what is charged.

Plans are drawn at random: columns, rules that leave rows out, units, relations, questions, options. Each run gets noise
that is 0, or not in one place: so all that it measures is seen, and what each draw does to it. Where d is how far two
tables are apart in it, Gaussian noise tells them apart by d' C^+ d, C the covariance of what is measured, and Laplace
noise by the sum of |d_i| over the scales.
"""

from __future__ import annotations

import random
import sys
from fractions import Fraction
from math import isqrt

import numpy as np
import pytest

from releases.engine.accounting.accountant import price
from releases.engine.domain.privacy import ApproxDP
from releases.engine.mechanisms.answers import AnswersPlan
from releases.engine.mechanisms.base import mechanism, mechanisms
from releases.engine.noise import discrete
from releases.engine.noise.randomness import StreamRandomness
from releases.engine.workload.questions import of_columns_asked
from tests.engine.telling import schema_of, workload_of

#: Three times as many plans where tables may count rows of their own, or persons.
PLANS, PAIRS = 24, 40
NAMES = [
    "correlated-queries",
    "gaussian-cumulative",
    "gaussian-histogram",
    "gaussian-queries",
    "laplace-histogram",
    "laplace-queries",
    "laplace-tree",
    "residual-queries",
]
BUDGETS = [ApproxDP(epsilon=Fraction(e), delta=Fraction(d)) for e in ("1/10", "1", "10") for d in ("1e-9", "1e-3")]
EVER = {"name": "ever", "type": "categorical", "categories": ["false", "true"], "formula": 'any_per_person(c0 = "v0")'}
#: Of a value that the rule of its column leaves out, and of a person's value in all of their rows but one.
NONE = -1


class Table:
    """Rows as codes in the order of the columns."""

    population = None

    def __init__(self, plan, rows):
        self.universe, self._rows = plan.schema.universe, rows
        self._own = self.universe.own_rows
        self._left_out = impossible_of(plan) if self.universe.drops_impossible else None

    def marginal(self, names):
        axes = [self.universe.names.index(name) for name in names]
        found = np.zeros([self.universe[name].size for name in names], dtype=np.int64)
        for row in self._rows:
            looked_at = [row[axis] for axis in axes] if self._own else row
            if NONE not in looked_at and (self._left_out is None or row[:2] != self._left_out):
                found[tuple(row[axis] for axis in axes)] += 1
        return found

    def marginals(self, sets):
        return [self.marginal(names) for names in sets]

    def histogram(self):
        return self.marginal(self.universe.names)


def impossible_of(plan):
    return (0, 0) if plan.schema.universe.impossible else None


class Draws:
    """In the place of both samplers: 0, and the root of the law's size in one place."""

    def __init__(self):
        self.laws, self.place = [], None

    def __call__(self, *, size, rng, **law):
        ((kind, amount),) = law.items()
        first = len(self.laws)
        self.laws += [(kind, Fraction(amount))] * int(np.prod(size))
        drawn = np.zeros(len(self.laws) - first, dtype=np.int64)
        if self.place is not None and first <= self.place < len(self.laws):
            drawn[self.place - first] = unit_of(self.laws[self.place])
        return drawn.reshape(size)


def unit_of(law):
    """A whole number that is near the deviation of Gaussian noise; 1 of Laplace noise."""
    kind, amount = law
    return max(1, isqrt(int(amount))) if kind == "variance" else 1


@pytest.fixture
def draws(monkeypatch):
    mechanisms()
    made = Draws()
    for name, module in list(sys.modules.items()):
        if name.startswith("releases.engine.") and module is not discrete:
            for sampler in ("discrete_gaussian", "discrete_laplace"):
                if getattr(module, sampler, None) is getattr(discrete, sampler):
                    monkeypatch.setattr(module, sampler, made)
    return made


def measured(plan, rows, draws, place=None):
    """What a run measures, as one list, and the laws of what it draws."""
    draws.laws, draws.place = [], place
    table, rng = Table(plan, rows), StreamRandomness(b"measured")
    if isinstance(plan, AnswersPlan):
        parts = [np.ravel(each) for each in plan.measured(table, rng)]
    else:
        parts = [np.ravel(table.histogram() + plan.noise.draw(table.histogram().shape, rng))]
    return np.concatenate(parts).astype(float), list(draws.laws)


def plan_of(name, chance):
    """A plan at random; None where there is none."""
    most_rows, has_persons = chance.choice([1, 1, 2, 3]), False
    columns = []
    for place in range(chance.choice([1, 2, 2, 3])):
        size, column = chance.choice([2, 2, 3, 4]), {"name": f"c{place}"}
        if place and chance.random() < 0.3:
            columns.append({**column, "type": "integer", "edges": [*range(size + 1)], "missing_as": "no number"})
        else:
            catches = {} if chance.random() < 0.4 else {"outside": "v0"}
            named = [f"v{value}" for value in range(size)]
            columns.append({**column, "type": "categorical", "categories": named, **catches})
    asked = [each["name"] for each in columns]
    named = {each["name"]: each["categories"] for each in columns if "categories" in each}
    of_person = {"kind": "person", "id": "who", "max_rows": most_rows}
    if most_rows > 1 and mechanism(name).counts_apart and chance.random() < 0.4:
        columns, has_persons = [*columns, EVER], True
    queries = [{"marginal": ["ever"]}] * has_persons
    for _ in range(chance.choice([1, 2, 3])):
        kind, some = chance.choice("mmpc"), sorted(chance.sample(asked, chance.randint(1, len(asked))))
        query = {"marginal": some} if kind == "m" else {"prefix": some[0]}
        if kind == "c":
            some = [each for each in some if each in named] or ["c0"]
            query = {"count": {each: chance.sample(named[each], chance.randint(1, 2)) for each in some}}
        queries.append(query | ({"weight": chance.choice([2, 5, 37])} if chance.random() < 0.3 else {}))
    more = {"impossible": [{"c0": ["v0"], "c1": ["v0"]}]} if {"c0", "c1"} <= named.keys() else {}
    unit = of_person if most_rows > 1 else {"kind": "row"}
    schema = schema_of(columns, chance.choice(["add_remove", "replace"]), unit, **more)
    options = mechanism(name).options
    chosen = {each.name: chance.choice(each.choices) for each in options if each.choices and chance.random() < 0.4}
    schema, question = of_columns_asked(schema, workload_of(queries, schema))
    given = {"budget": chance.choice(BUDGETS), "beta": Fraction(1, 20), "options": chosen}
    plan = mechanism(name).plan(schema, question, **given)
    return None if plan.infeasible else plan


def some_rows(plan, chance, number, *, of_one):
    """Of one person with a value of their own, or as many persons of one row each."""
    universe, rows = plan.schema.universe, []
    for place in range(number):
        row = []
        for each in universe.attributes:
            is_none = of_one and place > 0 if each.per_person is not None else each.may_drop and chance.random() < 0.2
            row.append(NONE if is_none else chance.randrange(each.size))
        rows.append(tuple(row))
    return rows


def neighbours_of(plan, chance):
    """Two tables that differ in one unit, whose rows are often alike."""
    common, most = some_rows(plan, chance, chance.randint(0, 3), of_one=False), plan.schema.unit.max_rows
    least, is_alike, found = 1 if most == 1 else 0, chance.random() < 0.5, []
    for side in (0, 1):
        number = chance.randint(least, most) if side == 0 or plan.schema.neighbours == "replace" else 0
        rows = some_rows(plan, chance, number, of_one=True)
        of_rows = [place for place, each in enumerate(plan.schema.universe.attributes) if each.per_person is None]
        if is_alike:
            rows = [tuple(rows[0][p] if p in of_rows else row[p] for p in range(len(row))) for row in rows]
        found.append([*common, *rows])
    return found


def spent_by(plan, chance, draws):
    """The most that a unit was seen to move, over what is charged."""
    nothing, laws = measured(plan, [], draws)
    effects = [measured(plan, [], draws, place)[0] - nothing for place in range(len(laws))]
    (kind,) = {kind for kind, _ in laws}
    charged = price(plan.events, delta=plan.delta, neighbours=plan.schema.neighbours)
    assert charged.epsilon <= plan.budget.epsilon * 10**12
    assert charged.delta <= plan.budget.delta * 10**18
    if kind == "variance":
        deviations = [float(law[1]) ** 0.5 / unit_of(law) for law in laws]
        root = np.array(effects).T * deviations
        inverse, allowed = np.linalg.pinv(root, rcond=1e-9), float(1 / plan.events[0].noise_variance)
    else:
        # Each draw is on one number.
        scales = {int(np.flatnonzero(effect)[0]): float(law[1]) for effect, law in zip(effects, laws, strict=True)}
        weights = np.array([1 / scales[place] for place in range(nothing.size)])
        allowed = charged.pure_epsilon / 10**12
    most = 0.0
    for _ in range(PAIRS):
        (one, drawn), (other, drawn_too) = (measured(plan, rows, draws) for rows in neighbours_of(plan, chance))
        assert drawn == drawn_too == laws
        moved = one - other
        if kind == "variance":
            beside = inverse @ moved
            np.testing.assert_allclose(root @ beside, moved, atol=1e-7 * max(1.0, float(np.abs(moved).max())))
            most = max(most, float(beside @ beside))
        else:
            most = max(most, float(np.abs(moved) @ weights))
    return most / allowed


@pytest.mark.parametrize("name", NAMES)
def test_a_unit_moves_what_is_measured_as_far_as_is_charged_and_no_farther(name, draws):
    chance = random.Random(f"measured {name}")
    number = PLANS * (3 if mechanism(name).counts_apart else 1)
    plans = [plan for _ in range(number) if (plan := plan_of(name, chance)) is not None]
    assert len(plans) > number / 2
    spent = [spent_by(plan, chance, draws) for plan in plans]
    assert max(spent) <= 1 + 1e-7
    assert sum(each > 0.99 for each in spent) > len(plans) / 2
