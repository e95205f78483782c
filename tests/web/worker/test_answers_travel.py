"""A plan is read by the process that runs it, and what the run makes by the one that asked for it: plain values and the
engine's classes, nothing else."""

import io
import pickle
from dataclasses import asdict
from fractions import Fraction

import numpy as np
import pytest

from releases.engine.domain.privacy import privacy_budget
from releases.engine.domain.schema import Schema
from releases.engine.mechanisms.base import mechanisms
from releases.engine.mechanisms.pmw.online import OnlinePlan
from releases.engine.noise.randomness import StreamRandomness
from releases.engine.run import run_release
from releases.engine.tables.counts import Histogram
from releases.engine.workload.queries import Workload
from releases.worker import runner

SCHEMA = Schema.from_json(
    {
        "version": 1,
        "neighbours": "add_remove",
        "columns": [
            {"name": "age", "type": "integer", "edges": [0, 50, 100], "missing_as": "no number"},
            {"name": "wage", "type": "number", "edges": [0, 1.5, 9], "missing_as": "no number"},
            {"name": "sex", "type": "categorical", "categories": ["f", "m"], "outside": "m"},
        ],
    }
)
WORKLOAD = Workload.from_json({"version": 1, "queries": [{"marginals": 2}]}, SCHEMA.universe)
BUDGET = privacy_budget(epsilon="4", delta="0.00001")
#: Of each mechanism the plan by default, and one for each word that an option takes.
PLANS = {
    f"{name} {options}" if options else name: plan
    for name, each in mechanisms().items()
    if each.can_answer(WORKLOAD)
    for options in [{}, *({option.name: word} for option in each.options for word in option.choices)]
    for plan in [each.plan(SCHEMA, WORKLOAD, budget=BUDGET, beta=Fraction(1, 20), options=options)]
    if not plan.infeasible and not isinstance(plan, OnlinePlan)
}


@pytest.mark.parametrize("name", PLANS)
def test_a_plan_reaches_the_process_that_runs_it(name):
    sent = pickle.loads(pickle.dumps(PLANS[name], protocol=pickle.HIGHEST_PROTOCOL))
    assert sent.to_json() == PLANS[name].to_json()
    assert len(PLANS) > 8
    assert "laplace-histogram" in PLANS


# What an option says changes how a result is made, not what it is made of.
@pytest.mark.parametrize("name", [name for name in PLANS if name in mechanisms()])
def test_what_a_mechanism_makes_of_columns_of_every_kind_is_read_as_it_was(name):
    counts = Histogram(universe=SCHEMA.universe, counts=np.full(SCHEMA.universe.shape, 20, dtype=np.int64))
    made = run_release(PLANS[name], counts, rng=StreamRandomness(b"travel"))
    read = runner._Answers(io.BytesIO(pickle.dumps(made, protocol=pickle.HIGHEST_PROTOCOL))).load()
    np.testing.assert_equal(asdict(read.result), asdict(made.result))
    if made.records is not None:
        for column, values in made.records.columns.items():
            np.testing.assert_array_equal(read.records.columns[column], values)
        for column, rows in made.records.nothing.items():
            np.testing.assert_array_equal(read.records.nothing[column], rows)
            assert 0 < rows.sum() < made.records.rows
        assert set(made.records.nothing) <= {"age", "wage"}


#: A column of every kind, one that a formula makes, and rows that cannot be.
EVERY_KIND = Schema.from_json(
    {
        "version": 1,
        "neighbours": "add_remove",
        "columns": [
            *SCHEMA.to_json()["columns"],
            {"name": "old", "type": "categorical", "categories": ["true", "false"], "formula": "age >= 50"},
            {"name": "came", "type": "date", "edges": ["2025-01-01", "2025-07-01", "2026-01-01"]},
            {"name": "left", "type": "datetime", "first": "2025-01-01", "last": "2025-12-31", "by": "year"},
        ],
        "impossible": [{"sex": ["m"], "old": ["true"]}],
    }
)
COLUMNS = Workload.from_json({"version": 1, "queries": [{"marginals": 1}]}, EVERY_KIND.universe)
SESSIONS = {
    name: plan
    for name, each in mechanisms().items()
    if each.can_answer(COLUMNS)
    for plan in [each.plan(EVERY_KIND, COLUMNS, budget=BUDGET, beta=Fraction(1, 20))]
    if isinstance(plan, OnlinePlan)
}


@pytest.mark.parametrize("name", SESSIONS)
def test_a_session_on_columns_of_every_kind_is_read_as_it_was_opened(name):
    universe = SESSIONS[name].schema.universe
    counts = Histogram(universe=universe, counts=np.full(universe.shape, 2, dtype=np.int64))
    opened = SESSIONS[name].open(counts, rng=StreamRandomness(b"travel"))
    read = runner._Answers(io.BytesIO(pickle.dumps(opened, protocol=pickle.HIGHEST_PROTOCOL))).load()
    assert type(read) is type(opened)
    assert read.total == opened.total
    assert {"histogram-online", "noise-online", "pmw-online"} <= SESSIONS.keys()
