"""Questions that no unit can change: every mechanism refuses them, and answers them where others are asked as well."""

from __future__ import annotations

import numpy as np
import pytest

from releases.engine.domain.privacy import privacy_budget
from releases.engine.domain.universe import Schema
from releases.engine.mechanisms.base import PUBLIC_ALREADY, mechanism, mechanisms
from releases.engine.noise.randomness import StreamRandomness
from releases.engine.tables.counts import Rows
from releases.engine.workload.parsing import read_question

TOWN = {"name": "town", "type": "categorical", "categories": ["a", "b", "c"], "outside": "c"}
SAME = {"name": "same", "type": "categorical", "categories": ["x"], "outside": "x"}
EVERYBODY = {"count": {"town": ["a", "b", "c"]}}
PERSON = {"kind": "person", "id": "who", "max_rows": 2}

OF_COUNTS = [name for name, each in mechanisms().items() if not each.answers]
PUBLIC_COUNTS = [
    [EVERYBODY],
    [{"marginal": ["same"]}],
    [{"prefix": "same"}, {**EVERYBODY, "weight": 5}],
    [{"count": {"town": ["a", "b", "c"], "same": ["x"]}}],
]
#: Of statistics, those that can come to the number of rows alone.
PUBLIC_STATISTICS = [
    {"largest_count": [EVERYBODY["count"], {"same": ["x"]}]},
    {"threshold": {"counts": [EVERYBODY["count"]], "above": 3}},
    {"votes": {"columns": ["same"], "category": "x"}},
    {
        "largest_error": {
            "workload": {"version": 1, "queries": [EVERYBODY]},
            "released": {"synthetic rows": {"numbers": [[6]]}},
        }
    },
]


def planned(name, queries, *, neighbours="replace", unit=None, town=TOWN, delta="0.00001"):
    schema = Schema.from_json(
        {"version": 1, "columns": [town, SAME], "neighbours": neighbours, "unit": unit or {"kind": "row"}}
    )
    asked = read_question({"version": 1, "queries": queries}, schema.universe)
    budget = privacy_budget(epsilon="1", delta=delta)
    return mechanism(name).plan(schema, asked, budget=budget, beta=budget.epsilon / 20)


def table(universe):
    columns = {"town": np.array([0, 1, 1, 2, 2, 2]), "same": np.zeros(6, dtype=np.int64)}
    return Rows(universe=universe, columns=columns)


@pytest.mark.parametrize("queries", PUBLIC_COUNTS)
@pytest.mark.parametrize("name", OF_COUNTS)
def test_every_mechanism_for_counts_refuses_counts_that_are_public(name, queries):
    for delta in ("0", "0.00001"):
        assert planned(name, queries, delta=delta).infeasible == PUBLIC_ALREADY


@pytest.mark.parametrize("query", PUBLIC_STATISTICS, ids=lambda query: next(iter(query)))
def test_so_does_every_mechanism_for_statistics_of_counts_that_are_public(query):
    refused = {name: planned(name, [query]).infeasible for name in mechanisms() if name not in OF_COUNTS}
    answering = {name: said for name, said in refused.items() if not said.startswith("It answers")}
    assert answering
    assert set(answering.values()) == {PUBLIC_ALREADY}


@pytest.mark.parametrize(
    "changed",
    [{"neighbours": "add_remove"}, {"unit": PERSON}, {"town": {**TOWN, "outside": "drop"}}],
    ids=["rows come and go", "persons", "rows are dropped"],
)
@pytest.mark.parametrize("name", OF_COUNTS)
def test_the_same_counts_are_answered_where_a_unit_can_change_them(name, changed):
    plan = planned(name, [EVERYBODY], **changed)
    assert plan.infeasible == ""
    assert plan.events
    result = plan.run(table(plan.schema.universe), rng=StreamRandomness(name.encode()))
    assert np.isfinite(result.estimates[0]).all()


@pytest.mark.parametrize("unit", [{"kind": "row"}, PERSON], ids=["row", "person"])
@pytest.mark.parametrize("name", OF_COUNTS)
def test_public_counts_among_others_are_answered(name, unit):
    queries = [{**EVERYBODY, "weight": 7}, {"prefix": "town"}, {"marginal": ["same"]}, {"marginal": ["town"]}]
    plan = planned(name, queries, unit=unit)
    assert plan.infeasible == ""
    bound = plan.bound or plan.expectation
    # A net says how close it is only once it is released.
    assert (bound is None) == (name == "smalldb-net")
    # By residuals what is public is told as it is, within 0.
    lowest = 0 if name == "residual-queries" else 1e-9
    assert bound is None or all(lowest <= width < float("inf") for width in bound.half_widths)
    result = plan.run(table(plan.schema.universe), rng=StreamRandomness(name.encode()))
    assert [each.size for each in result.estimates] == [1, 3, 1, 3]
    assert all(np.isfinite(each).all() for each in result.estimates)
