"""The whole numeric flow of a release on one page.

    schema, workload, budget  --plan-->  Plan          public inputs only
    Plan, counts of the table  --run-->  Result        the only place that touches data; priced by Plan.events
    Result  --records-->  Records                      post-processing, free

A plan's price is `accountant.price(plan.events)`; whoever runs a plan has charged that price before.
"""

from __future__ import annotations

from dataclasses import dataclass

from releases.engine.estimation.result import Result
from releases.engine.estimation.synthetic import Records, synthetic_records
from releases.engine.mechanisms.base import ROWS, Plan, Progress
from releases.engine.noise.randomness import Randomness
from releases.engine.tables.counts import Counts

#: Share of a release's progress bar that the mechanism takes; the rest is making synthetic rows.
_MECHANISM_SHARE = 0.9


@dataclass(frozen=True, kw_only=True)
class ReleaseOutput:
    """What a release consists of: the plan it followed, its result, and synthetic rows where there are any."""

    plan: Plan
    result: Result
    records: Records | None


def run_release(plan: Plan, counts: Counts, *, rng: Randomness, progress: Progress | None = None) -> ReleaseOutput:
    """Run a charged plan on the exact counts of its table.

    Args:
        plan: from `Mechanism.plan` or `plan_from_json`; its events have been charged.
        counts: of the table, under the plan's schema.
        rng: the operating system's randomness.
        progress: called between steps; may raise `Cancelled`.

    Raises:
        Infeasible: the plan says that it cannot be run.
    """
    report = progress or (lambda step, share: None)
    result = plan.run(counts, rng=rng, progress=lambda step, share: report(step, share * _MECHANISM_SHARE))
    report("Making synthetic rows", _MECHANISM_SHARE)
    records = None
    if result.distribution is not None and plan.makes_synthetic_rows:
        records = synthetic_records(plan.schema.universe, result.distribution, rows=rows_to_make(plan, result), rng=rng)
    report("Writing files", 1.0)
    return ReleaseOutput(plan=plan, result=result, records=records)


def rows_to_make(plan: Plan, result: Result) -> int:
    """The curator's choice of synthetic rows, else the released total, from one row to the most that the plan states.

    Where the total is above that, each row stands for as many rows of the table as the total has for one
    (`publication.receipt.rows_of_one`), as where a number was chosen: shares, means and fits keep their meaning.
    """
    chosen = plan.options.get(ROWS.name)
    return int(chosen) if chosen is not None else min(max(1, round(result.total)), plan.most_synthetic_rows)
