"""Small databases drawn exactly: how large a universe may be, and in what time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import prod
from typing import Any

import numpy as np

from releases.benchmarks.tables import Row, Table, not_there
from releases.engine.domain.privacy import PureDP
from releases.engine.domain.universe import Schema
from releases.engine.mechanisms.base import mechanism, mechanisms
from releases.engine.noise.randomness import OperatingSystemRandomness, StreamRandomness, uniform_below
from releases.engine.tables.counts import Histogram
from releases.engine.workload.parsing import read_question

NAME = "smalldb"
TITLE = "Small databases"


@dataclass(frozen=True, kw_only=True)
class Goal:
    """One workload.

    Attributes:
        title: in words.
        bins: of the columns.
        query: prefixes of the one column, or one marginal of all.
        rows: of the table.
        most_seconds: of a run.
    """

    title: str
    bins: tuple[int, ...]
    query: dict[str, Any]
    rows: int
    most_seconds: float | None = None


GOALS = (
    Goal(title="all prefixes of 1,000 values", bins=(1_000,), query={"prefix": "c0"}, rows=50_000),
    Goal(title="all prefixes of 100,000 values", bins=(100_000,), query={"prefix": "c0"}, rows=50_000, most_seconds=5),
    Goal(
        title="all prefixes of 1,000,000 values",
        bins=(1_000_000,),
        query={"prefix": "c0"},
        rows=1_000_000,
        most_seconds=60,
    ),
    Goal(title="one marginal of 2,400 cells", bins=(48, 50), query={"marginals": 2}, rows=50_000),
    Goal(title="one marginal of 43,008 cells", bins=(192, 224), query={"marginals": 2}, rows=50_000, most_seconds=10),
)


def tables() -> Iterator[Table]:
    if NAME not in mechanisms():
        yield not_there(TITLE, NAME)
        return
    yield Table(
        title=TITLE,
        says="One database of m rows, drawn exactly from all there are; epsilon 1, one row added or removed, bound at "
        "95%. Targets: a run of 5 seconds for the prefixes of 100,000 values, of 60 for 1,000,000, of 10 for a "
        "marginal of 43,008 cells.",
        heads=("questions", "m", "databases", "bound of a share", "largest error", "plan", "run", "target"),
        rows=[_drawn(goal) for goal in GOALS],
    )


def _drawn(goal: Goal) -> Row:
    columns = [
        {"name": f"c{place}", "type": "integer", "edges": list(range(bins + 1))} for place, bins in enumerate(goal.bins)
    ]
    schema = Schema.from_json({"version": 1, "columns": columns})
    question = read_question({"version": 1, "queries": [goal.query]}, schema.universe)
    counts = _table(schema, goal.rows)
    start = time.process_time()
    plan = mechanism(NAME).plan(
        schema,
        question,
        budget=PureDP(epsilon=Fraction(1)),
        beta=Fraction(1, 20),
        options={"population": goal.rows},
    )
    planned = time.process_time() - start
    if plan.infeasible:
        return Row(cells=(goal.title, *[""] * 6, plan.infeasible), is_met=False)
    start = time.process_time()
    result = plan.run(counts, rng=OperatingSystemRandomness())
    taken = time.process_time() - start
    truth = plan.counts_asked.answer(counts.marginal)
    off = max(float(np.abs(one - two).max()) for one, two in zip(result.estimates, truth, strict=True))
    target = goal.most_seconds
    return Row(
        cells=(
            goal.title,
            f"{result.notes['rows of the small database']:,}",
            plan.parameters.get("candidates over those that fit", ""),
            f"{result.bound.alpha / goal.rows:.4f}",
            f"{off / goal.rows:.4f}",
            f"{planned:.1f} s",
            f"{taken:.1f} s",
            "" if target is None else f"{target:g} s",
        ),
        is_met=None if target is None else taken <= target,
    )


def _table(schema: Schema, rows: int) -> Histogram:
    """Rows that crowd towards the low cells: the smaller of two even draws."""
    rng = StreamRandomness(b"small databases")
    universe = schema.universe
    cells = np.minimum(*(uniform_below(prod(universe.shape), rows, rng) for _ in range(2)))
    counts = np.bincount(cells, minlength=universe.size).astype(np.int64)
    return Histogram(universe=universe, counts=counts.reshape(universe.shape))
