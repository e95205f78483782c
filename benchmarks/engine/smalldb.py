"""Small databases drawn exactly: how large a universe may be, and in what time; and where a public net of them wins."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.engine.adult import Adult
from benchmarks.tables import BenchRow, BenchTable, not_there
from releases.engine.domain.privacy import PureDP
from releases.engine.domain.schema import Schema
from releases.engine.mechanisms.base import mechanism, mechanisms
from releases.engine.noise.randomness import OperatingSystemRandomness, StreamRandomness, uniform_below
from releases.engine.tables.counts import Histogram
from releases.engine.workload.parsing import read_question
from releases.engine.workload.queries import all_marginals

NAME = "smalldb"
TITLE = "Small databases"
NET = "smalldb-net"
#: Of all pairs of columns, what others give: `smalldb` can count no database for these.
BESIDE = ("marginal-fit", "mixture-fit", "pmw", "laplace-queries")
#: Rows and epsilon: noise hides most of what so few rows say.
FEW_ROWS = ((300, Fraction(1, 10)), (300, Fraction(1, 5)), (1_000, Fraction(1, 20)))
SAMPLES = range(6)


@dataclass(frozen=True, kw_only=True)
class SmallDatabaseGoal:
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
    SmallDatabaseGoal(title="all prefixes of 1,000 values", bins=(1_000,), query={"prefix": "c0"}, rows=50_000),
    SmallDatabaseGoal(
        title="all prefixes of 100,000 values", bins=(100_000,), query={"prefix": "c0"}, rows=50_000, most_seconds=5
    ),
    SmallDatabaseGoal(
        title="all prefixes of 1,000,000 values",
        bins=(1_000_000,),
        query={"prefix": "c0"},
        rows=1_000_000,
        most_seconds=60,
    ),
    SmallDatabaseGoal(title="one marginal of 2,400 cells", bins=(48, 50), query={"marginals": 2}, rows=50_000),
    SmallDatabaseGoal(
        title="one marginal of 43,008 cells", bins=(192, 224), query={"marginals": 2}, rows=50_000, most_seconds=10
    ),
)


def tables() -> Iterator[BenchTable]:
    if NAME not in mechanisms():
        yield not_there(TITLE, NAME)
        return
    yield BenchTable(
        title=TITLE,
        says="One database of m rows, drawn exactly from all there are; epsilon 1, one row added or removed, bound at "
        "95%. Targets: a run of 5 seconds for the prefixes of 100,000 values, of 60 for 1,000,000, of 10 for a "
        "marginal of 43,008 cells.",
        heads=("questions", "m", "databases", "bound of a share", "largest error", "plan", "run", "target"),
        rows=[_drawn(goal) for goal in GOALS],
    )


def _drawn(goal: SmallDatabaseGoal) -> BenchRow:
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
        return BenchRow(cells=(goal.title, *[""] * 6, plan.infeasible), is_met=False)
    start = time.process_time()
    result = plan.run(counts, rng=OperatingSystemRandomness())
    taken = time.process_time() - start
    truth = plan.counts_asked.answer(counts.marginal)
    off = max(float(np.abs(one - two).max()) for one, two in zip(result.estimates, truth, strict=True))
    target = goal.most_seconds
    return BenchRow(
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


def nets(folder: Path) -> Iterator[BenchTable]:
    """
    Args:
        folder: of Adult's files.
    """
    title, adult = "A public net of small databases, on few rows", Adult.read(folder)
    if adult is None:
        yield BenchTable(title=title, says=f"{folder.name}/ does not hold adult_reduced.csv.", heads=("rows",), rows=[])
        return
    yield BenchTable(
        title=title,
        says=f"All pairs of seven columns of Adult, rows drawn from it, one row added or removed, no delta, mean of "
        f"{len(SAMPLES)} samples: the largest error of a count, as a share of the rows. In brackets the mean "
        "total-variation distance of a pair, which is not what the net is made for.",
        heads=("rows", "epsilon", NET, *BESIDE, "least largest error"),
        rows=[_on_few_rows(adult, rows, epsilon) for rows, epsilon in FEW_ROWS],
    )


def _on_few_rows(adult: Adult, rows: int, epsilon: Fraction) -> BenchRow:
    samples = [_sampled(adult, rows, seed) for seed in SAMPLES]
    errors = {
        name: np.mean([_errors(adult, each, name, epsilon) for each in samples], axis=0) for name in (NET, *BESIDE)
    }
    least = min(errors, key=lambda name: float(errors[name][0]))
    said = (f"{one:.3f} ({mean:.3f})" for one, mean in errors.values())
    return BenchRow(cells=(f"{rows:,}", f"{float(epsilon):g}", *said, least))


def _sampled(adult: Adult, rows: int, seed: int) -> Histogram:
    """So many rows, drawn with replacement."""
    cells = adult.counts.counts.ravel().cumsum()
    drawn = uniform_below(int(cells[-1]), rows, StreamRandomness(f"few rows {seed}".encode()))
    counts = np.bincount(np.searchsorted(cells, drawn, side="right"), minlength=cells.size).astype(np.int64)
    return Histogram(universe=adult.schema.universe, counts=counts.reshape(adult.schema.universe.shape))


def _errors(adult: Adult, counts: Histogram, name: str, epsilon: Fraction) -> tuple[float, float]:
    """The largest error of a count, and the mean distance of a pair."""
    asked, rows = all_marginals(adult.schema.universe, 2), counts.counts.sum()
    plan = mechanism(name).plan(adult.schema, asked, budget=PureDP(epsilon=epsilon), beta=Fraction(1, 20), options={})
    found = plan.run(counts, rng=OperatingSystemRandomness()).estimates
    off = [np.abs(one - two) for one, two in zip(found, asked.answer(counts.marginal), strict=True)]
    return float(max(each.max() for each in off) / rows), float(np.mean([each.sum() for each in off]) / rows / 2)
