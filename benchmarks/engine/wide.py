"""How near synthetic rows of a wide table come to it: whole releases of 13 attributes of Adult, 10^13 cells."""

from __future__ import annotations

import csv
import json
import resource
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from benchmarks.tables import BenchRow, BenchTable, not_there
from releases.engine.domain.privacy import ApproxDP, PrivacyBudget, PureDP
from releases.engine.domain.schema import Schema
from releases.engine.mechanisms.base import mechanism, mechanisms
from releases.engine.noise.randomness import StreamRandomness
from releases.engine.run import run_release
from releases.engine.tables.counts import Rows
from releases.engine.workload.queries import all_marginals

NAME = "adult13"
SEEDS = range(5)
#: A release is to stay below so much memory, the program and the table included.
MAX_MEGABYTES = 500
_DELTA = Fraction(1, 10**9)


@dataclass(frozen=True, kw_only=True)
class WideGoal:
    """What the rows are to reach at one budget.

    Attributes:
        epsilon, delta: delta 0 for a pure one.
        pairs, triples: mean total variation over all of them, at most.
        seconds: of the processor, at most.
        peer: the best other tool measured on the same table, in words.
    """

    epsilon: Fraction
    delta: Fraction
    pairs: float
    triples: float
    seconds: float
    peer: str

    @property
    def budget(self) -> PrivacyBudget:
        return ApproxDP(epsilon=self.epsilon, delta=self.delta) if self.delta else PureDP(epsilon=self.epsilon)


GOALS = (
    WideGoal(epsilon=Fraction(1, 10), delta=_DELTA, pairs=0.060, triples=0.112, seconds=15, peer="- / 0.162 SWIFT"),
    WideGoal(epsilon=Fraction(1), delta=_DELTA, pairs=0.0165, triples=0.0400, seconds=15, peer="0.0255 / 0.0573 SWIFT"),
    WideGoal(
        epsilon=Fraction(10), delta=_DELTA, pairs=0.0055, triples=0.0205, seconds=30, peer="0.0228 / 0.0551 SWIFT"
    ),
    WideGoal(epsilon=Fraction(1), delta=Fraction(0), pairs=0.030, triples=0.065, seconds=15, peer=""),
)


def tables(folder: Path, *, seeds: Sequence[int] = SEEDS) -> Iterator[BenchTable]:
    """
    Args:
        folder: of the table's files.
        seeds: one release for each.
    """
    title = "Synthetic rows of a wide table"
    table = read(folder)
    if table is None:
        yield BenchTable(title=title, says=f"{folder.name}/ does not hold {NAME}.csv.", heads=("epsilon",), rows=[])
        return
    if "mixture-fit" not in mechanisms():
        yield not_there(title, "mixture-fit")
        return
    yield BenchTable(
        title=title,
        says="Mean total-variation distance of the rows over all pairs and all triples of 13 attributes of Adult "
        f"(48,842 rows, 8 x 10^13 cells), each normalised; one row added or removed; over {len(seeds)} seeds, all "
        "options at their defaults. Seconds are of the processor and of "
        "a whole release; memory is the program's at its peak. The peers' figures are of an earlier run.",
        heads=("epsilon", "delta", "pairs", "target", "triples", "target", "seconds", "MB", "best peer"),
        rows=[_reached(table, goal, seeds) for goal in GOALS],
    )


def read(folder: Path) -> Rows | None:
    """The table, or None where the folder does not hold it."""
    path, declared = folder / f"{NAME}.csv", folder / f"{NAME}_schema.json"
    if not (path.exists() and declared.exists()):
        return None
    universe = Schema.from_json(json.loads(declared.read_text())).universe
    with path.open(newline="") as file:
        head, *rows = csv.reader(file)
    codes = np.array(rows, dtype=np.int64).T
    return Rows(universe=universe, columns={name: codes[head.index(name)] for name in universe.names})


def _reached(table: Rows, goal: WideGoal, seeds: Sequence[int]) -> BenchRow:
    errors, taken = [], []
    for seed in seeds:
        start = time.process_time()
        made = _released(table, goal, seed)
        taken.append(time.process_time() - start)
        errors.append([distance(table, made, order) for order in (2, 3)])
    pairs, triples = (fmean(each) for each in zip(*errors, strict=True))
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return BenchRow(
        cells=(
            f"{float(goal.epsilon):g}",
            f"{float(goal.delta):g}",
            f"{pairs:.4f}",
            f"{goal.pairs:.4f}",
            f"{triples:.4f}",
            f"{goal.triples:.4f}",
            f"{fmean(taken):.1f}",
            f"{megabytes:.0f}",
            goal.peer,
        ),
        is_met=pairs <= goal.pairs
        and triples <= goal.triples
        and fmean(taken) <= goal.seconds
        and megabytes <= MAX_MEGABYTES,
    )


def _released(table: Rows, goal: WideGoal, seed: int) -> Rows:
    """Synthetic rows, with the noise of that seed."""
    universe = table.universe
    schema = Schema.from_json(
        {"version": 1, "columns": [each.to_json() for each in universe.attributes], "neighbours": "add_remove"}
    )
    plan = mechanism("mixture-fit").plan(
        schema,
        all_marginals(universe, min(3, len(universe.names))),
        budget=goal.budget,
        beta=Fraction(1, 20),
        options={},
    )
    made = run_release(plan, table, rng=StreamRandomness(f"wide {seed}".encode()))
    assert made.records is not None
    return Rows(
        universe=universe, columns={name: codes.astype(np.int64) for name, codes in made.records.columns.items()}
    )


def distance(one: Rows, other: Rows, order: int) -> float:
    """Mean total variation over all marginals of so many attributes, each normalised."""
    sets = list(combinations(one.universe.names, order))
    pairs = zip(one.marginals(sets), other.marginals(sets), strict=True)
    return fmean(float(np.abs(_shares(mine) - _shares(yours)).sum() / 2) for mine, yours in pairs)


def _shares(table: NDArray[np.int64]) -> NDArray[np.float64]:
    shares: NDArray[np.float64] = table / table.sum()
    return shares
