"""Neighbouring tables under the same randomness, for mechanisms that answer counts (after Re:cord-play).

The same samplers are called in the same order with the same parameters, and what the noise is added to, or chosen by,
lies no further apart than the declared sensitivity. `smalldb` draws by rejection and has its own tests.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from releases.engine.domain.privacy import ApproxDP, PureDP
from releases.engine.domain.schema import Schema
from releases.engine.mechanisms.base import mechanism
from releases.engine.mechanisms.histogram import histogram_sensitivity
from releases.engine.mechanisms.marginal_fit import common
from releases.engine.tables.counts import Histogram
from releases.engine.verification.recording import record
from releases.engine.workload.queries import Workload

ADDITIVE = ["laplace-queries", "gaussian-queries", "laplace-histogram", "gaussian-histogram"]
FITTED = ["pmw", "marginal-fit"]
RELATIONS = ["add_remove", "replace"]
BUDGETS = {"pure": PureDP(epsilon=Fraction(1)), "approx": ApproxDP(epsilon=Fraction(1), delta=Fraction(1, 10**6))}
UNITS = [{"kind": "row"}, {"kind": "person", "id": "who", "max_rows": 3}]
#: All of one size, so that every table of two has as many cells whichever is chosen.
SHAPE = (3, 3, 3)


def schema_of(neighbours, unit):
    """Every column has a catch-all, so that no rule leaves a row out."""
    of_three = {"type": "categorical", "categories": list("abc"), "outside": "a"}
    columns = [{"name": f"c{i}", **of_three} for i in range(len(SHAPE))]
    return Schema.from_json({"version": 1, "columns": columns, "neighbours": neighbours, "unit": unit})


def planned(name, neighbours, unit, budget, weights=(1, 1, 1)):
    schema = schema_of(neighbours, unit)
    asked = [{"marginals": 2}, {"prefix": "c0"}, {"count": {"c1": ["a", "b"]}}]
    queries = [{**query, "weight": weight} for query, weight in zip(asked, weights, strict=True)]
    workload = {"version": 1, "queries": queries[:1] if name in FITTED else queries}
    workload = Workload.from_json(workload, schema.universe)
    return mechanism(name).plan(schema, workload, budget=BUDGETS[budget], beta=Fraction(1, 20))


cells = st.tuples(*(st.integers(0, size - 1) for size in SHAPE))


@st.composite
def neighbours_of(draw, neighbours, unit):
    """Two tables that differ in one unit: a row, or a person with any number of rows up to the most in either."""
    shared = draw(st.lists(cells, max_size=12))
    fewest, most = (1, 1) if unit.kind == "row" else (0, unit.max_rows)
    one = draw(st.lists(cells, min_size=fewest, max_size=most))
    other = draw(st.lists(cells, min_size=fewest, max_size=most)) if neighbours == "replace" else []
    tables = []
    for extra in (one, other):
        counts = np.zeros(SHAPE, dtype=np.int64)
        for cell in [*shared, *extra]:
            counts[cell] += 1
        tables.append(counts)
    return tables


def both(plan, pair, seed):
    tables = [Histogram(universe=plan.schema.universe, counts=counts) for counts in pair]
    return [record(lambda rng, table=table: plan.run(table, rng=rng), seed=seed) for table in tables]


#: Pairs of neighbours for each mechanism and relation.
PAIRS = 120
#: Questions that matter alike, and others. Where noise is added to each answer there are half as many pairs again.
WEIGHTS = [(1, 1, 1), (1, 4, 2), (1000, 1, 37)]


@pytest.fixture
def measured(monkeypatch):
    """The noisy tables of each run; what is fitted to them is post-processing, and left out."""
    seen = []

    def even(parts, tables, rows, progress):
        seen.append([each.table for part in tables for each in part])
        return [np.full(part.universe.shape, rows / part.universe.size) for part in parts]

    monkeypatch.setattr(common, "fit_parts", even)
    monkeypatch.setattr("releases.engine.mechanisms.answers.fit_parts", even)
    return seen


@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("name", ADDITIVE + FITTED)
def test_neighbours_are_drawn_for_alike_and_lie_within_the_sensitivity(name, neighbours, measured, monkeypatch):
    # The released number of rows is an input to all that follows it: neighbours are compared for the same one.
    monkeypatch.setattr(common.FittedTablesPlan, "_total", lambda plan, total, rng: 9)
    weights = WEIGHTS if name.endswith("queries") else WEIGHTS[:1]
    plans = [planned(name, neighbours, *each) for each in product(UNITS, BUDGETS, weights)]

    @settings(max_examples=PAIRS + 60 * (len(weights) > 1), database=None)
    @given(
        st.data(), st.sampled_from([each for each in plans if not each.infeasible]), st.binary(min_size=4, max_size=8)
    )
    def compared(data, plan, seed):
        measured.clear()
        pair = data.draw(neighbours_of(neighbours, plan.schema.unit))
        one, other = both(plan, pair, seed)
        assert one.draws
        assert one.flow == other.flow
        if name in FITTED:
            check_tables(plan, one, other, measured)
        elif name.endswith("histogram"):
            check(plan.noise, pair[0] - pair[1])
        else:
            answers = zip(plan.workload.weights, one.result.estimates, other.result.estimates, strict=True)
            check(plan.noise, np.concatenate([weight * (mine - theirs) for weight, mine, theirs in answers]))

    compared()


def check_tables(plan, one, other, measured):
    """The first scores (later ones start from other measurements), and every table where the same ones were chosen."""
    for scores, others in list(zip(one.private, other.private, strict=True))[:1]:
        assert np.abs(scores - others).max() <= plan.rounds.score
    if one.result.notes != other.result.notes:
        return
    bound = histogram_sensitivity(plan.schema)
    for table, another in zip(*measured, strict=True):
        assert np.abs(table - another).sum() <= bound.l1
        assert ((table - another) ** 2).sum() <= bound.l2_squared


def check(noise, moved):
    if hasattr(noise, "l1_sensitivity"):
        assert np.abs(moved).sum() <= noise.l1_sensitivity
    else:
        assert (moved**2).sum() <= noise.l2_sensitivity_squared
