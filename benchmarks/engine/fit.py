"""How near synthetic rows come to Adult, and in what time: whole releases, from the plan to the rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from statistics import fmean

import numpy as np

from benchmarks.engine.adult import Adult, cells_of
from benchmarks.tables import BenchRow, BenchTable, not_there
from releases.engine.domain.privacy import ApproxDP, PrivacyBudget, PureDP
from releases.engine.mechanisms.base import Plan, mechanism, mechanisms
from releases.engine.noise.randomness import StreamRandomness
from releases.engine.run import run_release
from releases.engine.workload.queries import all_marginals

SEEDS = range(5)
#: A release is to take at most so many seconds.
MAX_SECONDS = 5.0
#: At which a choice of what to measure is tried.
SMALL_EPSILONS = (Fraction(1, 100), Fraction(3, 100), Fraction(1, 10))
_DELTA = Fraction(1, 10**9)


@dataclass(frozen=True, kw_only=True)
class FitGoal:
    """What one mechanism is to reach.

    Attributes:
        mechanism: by name.
        epsilon, delta: its budget; delta 0 for a pure one.
        error: of the rows, at most, in the mean over seeds.
        peer: the best other tool measured on the same table, in words.
    """

    mechanism: str
    epsilon: Fraction
    delta: Fraction
    error: float
    peer: str

    @property
    def budget(self) -> PrivacyBudget:
        return ApproxDP(epsilon=self.epsilon, delta=self.delta) if self.delta else PureDP(epsilon=self.epsilon)

    def plan(self, adult: Adult) -> Plan:
        """Of all three-way marginals, with what somebody gets who chooses no option."""
        return mechanism(self.mechanism).plan(
            adult.schema,
            all_marginals(adult.schema.universe, 3),
            budget=self.budget,
            beta=Fraction(1, 20),
            options={},
        )


@dataclass(frozen=True, kw_only=True)
class FitOutcome:
    """What one release reached.

    Attributes:
        rows_error, fit_error: of the synthetic rows, and of the distribution they are made from.
        seconds: of the run, rows included.
    """

    rows_error: float
    fit_error: float
    seconds: float


GOALS = (
    FitGoal(mechanism="marginal-fit", epsilon=Fraction(1, 10), delta=_DELTA, error=0.096, peer="0.106 SWIFT, 35 s"),
    FitGoal(mechanism="marginal-fit", epsilon=Fraction(1), delta=_DELTA, error=0.0225, peer="0.0275 SWIFT, 66 s"),
    FitGoal(mechanism="marginal-fit", epsilon=Fraction(10), delta=_DELTA, error=0.0060, peer="0.0102 clipped, 2 s"),
    FitGoal(mechanism="pmw", epsilon=Fraction(1), delta=Fraction(0), error=0.034, peer="0.0343 MWEM+PGM, 144 s"),
)


def tables(
    folder: Path, *, seeds: Sequence[int] = SEEDS, beside: Callable[[Adult], Iterator[BenchRow]] | None = None
) -> Iterator[BenchTable]:
    """
    Args:
        folder: of the table's files.
        seeds: one release for each.
        beside: rows of other tools, measured here and now.
    """
    title = "Synthetic rows of Adult"
    adult = Adult.read(folder)
    if adult is None:
        yield BenchTable(
            title=title, says=f"{folder.name}/ does not hold adult_reduced.csv.", heads=("mechanism",), rows=[]
        )
        return
    known = mechanisms()
    for name in {goal.mechanism: None for goal in GOALS}:
        if name not in known:
            yield not_there(title, name)
    yield BenchTable(
        title=title,
        says="Mean total-variation distance over all 35 three-way marginals of adult_reduced (336,000 cells, 48,842 "
        f"rows), each normalised; one row added or removed; delta 10^-9 or 0; over {len(seeds)} seeds. Seconds are of "
        f"a whole release: measuring, fitting, making as many rows as the table has. Targets: the error, "
        f"{MAX_SECONDS:g} seconds, and rows at most 1.03 times as far off as the fit. The peers' figures are of an "
        "earlier run on the same kind of machine.",
        heads=("mechanism", "epsilon", "delta", "rows", "worst", "fit", "rows / fit", "target", "seconds", "best peer"),
        rows=[
            *(_reached(adult, goal, seeds) for goal in GOALS if goal.mechanism in known),
            *(beside(adult) if beside else ()),
        ],
    )
    yield _adaptive(adult, seeds)


def _adaptive(adult: Adult, seeds: Sequence[int]) -> BenchTable:
    """Whether measuring what is worst wins over a design fixed beforehand, where epsilon is small."""
    rows = []
    for epsilon in SMALL_EPSILONS:
        errors = [
            fmean(
                released(adult, goal.plan(adult), seed=seed).rows_error
                for seed in seeds
                for goal in [FitGoal(mechanism=name, epsilon=epsilon, delta=_DELTA, error=1.0, peer="")]
            )
            for name in ("marginal-fit", "pmw")
        ]
        rows.append(BenchRow(cells=(f"{float(epsilon):g}", *(f"{each:.4f}" for each in errors))))
    return BenchTable(
        title="Choosing what to measure, at small epsilon",
        says="The same error, of rows: tables fixed beforehand against tables chosen round by round, both with "
        f"Gaussian noise and the same fit; delta 10^-9; over {len(seeds)} seeds. A choice costs budget and leaves "
        "tables unmeasured; where it gains a fiftieth at most, marginal-fit keeps its fixed design.",
        heads=("epsilon", "marginal-fit", "pmw"),
        rows=rows,
    )


def _reached(adult: Adult, goal: FitGoal, seeds: Sequence[int]) -> BenchRow:
    plan = goal.plan(adult)
    if plan.infeasible:
        return BenchRow(cells=(goal.mechanism, *_budget(goal), *[""] * 6, plan.infeasible), is_met=False)
    released(adult, plan, seed=-1)  # compiles
    runs = [released(adult, plan, seed=seed) for seed in seeds]
    rows, fits = fmean(run.rows_error for run in runs), fmean(run.fit_error for run in runs)
    taken = fmean(run.seconds for run in runs)
    return BenchRow(
        cells=(
            goal.mechanism,
            *_budget(goal),
            f"{rows:.4f}",
            f"{max(run.rows_error for run in runs):.4f}",
            f"{fits:.4f}",
            f"{rows / fits:.3f}",
            f"{goal.error:.4f}",
            f"{taken:.1f}",
            goal.peer,
        ),
        is_met=rows <= goal.error and taken <= MAX_SECONDS and rows <= 1.03 * fits,
    )


def _budget(goal: FitGoal) -> tuple[str, str]:
    return f"{float(goal.epsilon):g}", f"{float(goal.delta):g}"


def released(adult: Adult, plan: Plan, *, seed: int) -> FitOutcome:
    """One whole release, with the noise of that seed."""
    start = time.process_time()
    made = run_release(plan, adult.counts, rng=StreamRandomness(f"adult {seed}".encode()))
    taken = time.process_time() - start
    assert made.records is not None
    assert made.result.distribution is not None
    universe = adult.schema.universe
    rows = cells_of(adult.schema, np.stack([made.records.columns[name].astype(np.int64) for name in universe.names]))
    return FitOutcome(
        rows_error=adult.error(rows),
        fit_error=adult.error(made.result.distribution.marginal(universe.names)),
        seconds=taken,
    )
