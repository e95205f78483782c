"""Where intervals from replicates hold: what was measured, and nothing else.

No theorem says how often an interval of the bootstrap holds the truth in a finite table. So it was measured: on 500
simulated tables of each of three real ones, whose numbers are known (`benchmarks.engine.replicates`). A kind of
statistic is held in a measurement if each statistic of its kind was in at least `LEAST_COVERED` of its 500 intervals.
It is offered for releases of a mechanism with as many rows, for each cell and for each row of the noise's standard
deviation, as a measurement had in which it was held, if it was held in all measurements that had more of them too, and
on all three tables. Where empty cells and noise are many, kinds are lost first that compare small groups.

A release is like the measured ones if also it has one synthetic row for each row of the table, if one noisy table of
all columns was measured, and if there are no more cells than were tried. A fit has to be asked about tables of at most
three columns besides: it then finds the interactions of up to three. Every kind here is worked out from tables of two
columns, so it does not matter to them what larger interactions there are. All of that is public or was released, and
nothing else of a release's own rows decides. Rows have to be drawn each by itself: where one person may have
several, they are not.

`MEASURED` is what `manage.py bench --only replicates` writes into docs/BENCHMARKS.md.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import takewhile
from math import inf, sqrt

from releases.engine.mechanisms.additive_noise import LaplaceNoise, Noise
from releases.engine.mechanisms.base import ROWS, Plan
from releases.engine.mechanisms.histogram import NoisyHistogramPlan
from releases.engine.mechanisms.marginal_fit.mechanism import MarginalFitPlan

#: Real tables, and simulated ones of each.
REAL_TABLES, TABLES = 3, 500
#: Of them at least so many intervals held: fewer do with probability below 1/10,000 where each holds with 95%.
LEAST_COVERED = 455
#: Synthetic rows, all of which are drawn again for each replicate: some seconds, and memory that no plan states.
MOST_ROWS = 1_000_000
#: Columns of a table that a fit is asked about.
MOST_ASKED = 3
#: Of all rows, those that a category has, or a group that is compared, at least: the smallest that were tried.
LEAST_SHARE = 0.05


class StatisticOfRows(StrEnum):
    """What is worked out from rows. A number counts as the middle of its bin.

    SHARE: of the rows that are in a category or bin.
    MEAN: of a column of numbers.
    DIFFERENCE: between a share in one group and the same share in another.
    SLOPE: of the least squares line of a column of numbers on all other columns.
    """

    SHARE = "a share"
    MEAN = "a mean"
    DIFFERENCE = "a difference of shares"
    SLOPE = "a slope"


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundValidity:
    """What was found for the statistics of one kind.

    Attributes:
        mechanism, kind: of which.
        table, epsilon: of the simulation.
        cells: of the table.
        rows_to_noise: see the function of this name.
        number: of statistics.
        fewest: of `TABLES` intervals, those that held the truth, for the statistic with the fewest.
    """

    mechanism: str
    table: str
    epsilon: str
    cells: int
    rows_to_noise: float
    kind: StatisticOfRows
    number: int
    fewest: int

    @property
    def holds(self) -> bool:
        return self.fewest >= LEAST_COVERED


#: By mechanism, table, epsilon, cells and rows to noise: for each kind in order how many statistics there were, and how
#: many intervals held of the one with the fewest.
_FOUND: Mapping[tuple[str, str, str, int, float], tuple[tuple[int, int], ...]] = {
    ("laplace-histogram", "Adult", "0.3", 120, 86.7): ((15, 475), (2, 471), (26, 477), (6, 482)),
    ("laplace-histogram", "Health survey", "0.3", 100, 18.7): ((14, 474), (2, 479), (24, 479), (6, 474)),
    ("laplace-histogram", "Community survey", "0.3", 144, 40.3): ((15, 479), (2, 484), (37, 471), (8, 481)),
    ("laplace-histogram", "Adult", "1", 120, 299.9): ((15, 477), (2, 483), (26, 478), (6, 479)),
    ("laplace-histogram", "Health survey", "1", 100, 64.9): ((14, 480), (2, 483), (24, 473), (6, 475)),
    ("laplace-histogram", "Community survey", "1", 144, 139.5): ((15, 479), (2, 478), (37, 475), (8, 480)),
    ("gaussian-histogram", "Adult", "0.3", 120, 22.1): ((15, 475), (2, 485), (26, 476), (6, 480)),
    ("gaussian-histogram", "Health survey", "0.3", 100, 4.8): ((14, 477), (2, 486), (24, 474), (6, 482)),
    ("gaussian-histogram", "Community survey", "0.3", 144, 10.3): ((15, 465), (2, 482), (37, 434), (8, 448)),
    ("gaussian-histogram", "Adult", "1", 120, 70.4): ((15, 477), (2, 482), (26, 480), (6, 481)),
    ("gaussian-histogram", "Health survey", "1", 100, 15.2): ((14, 475), (2, 485), (24, 479), (6, 473)),
    ("gaussian-histogram", "Community survey", "1", 144, 32.8): ((15, 478), (2, 483), (37, 460), (8, 484)),
    ("marginal-fit", "Adult", "1", 120, 260.7): ((15, 475), (2, 482), (26, 477), (6, 481)),
    ("marginal-fit", "Health survey", "1", 100, 56.4): ((14, 478), (2, 482), (24, 471), (6, 478)),
    ("marginal-fit", "Community survey", "1", 144, 121.2): ((15, 476), (2, 486), (37, 478), (8, 483)),
}
MEASURED = tuple(
    FoundValidity(
        mechanism=mechanism,
        table=table,
        epsilon=epsilon,
        cells=cells,
        rows_to_noise=ratio,
        kind=kind,
        number=number,
        fewest=fewest,
    )
    for (mechanism, table, epsilon, cells, ratio), found in _FOUND.items()
    for kind, (number, fewest) in zip(StatisticOfRows, found, strict=True)
)


def noise_of_all_cells(plan: Plan) -> Noise | None:
    """The noise on the one table of all columns that a plan makes its synthetic rows of; None of all other plans."""
    if isinstance(plan, NoisyHistogramPlan):
        return plan.noise
    if not isinstance(plan, MarginalFitPlan) or len(plan.parts) > 1 or len(plan.tables) > 1:
        return None
    (part,), (table,) = plan.parts, plan.tables
    is_whole = part.is_whole and set(part.universe.names) == set(plan.schema.universe.names)
    asks_little = max(map(len, part.sets)) <= MOST_ASKED
    # A fit has Gaussian noise only where many tables are measured.
    is_tried = isinstance(table.noise, LaplaceNoise) and len(table.axes) == len(part.universe.names)
    return table.noise if is_whole and asks_little and is_tried else None


def rows_to_noise(plan: Plan, *, rows: int, cells: int) -> float:
    """Rows for each cell and each row of the noise's standard deviation; 0 of a plan that does not count all cells."""
    noise = noise_of_all_cells(plan)
    return 0.0 if noise is None else rows / cells / sqrt(noise.variance)


def least_ratio(mechanism: str, kind: StatisticOfRows) -> float:
    """The smallest number of rows to noise at which, and above which, all measurements held: infinite where there is
    none, or not one on each of three tables."""
    mine = [each for each in MEASURED if (each.mechanism, each.kind) == (mechanism, kind)]
    kept = list(takewhile(lambda each: each.holds, sorted(mine, key=lambda each: -each.rows_to_noise)))
    return kept[-1].rows_to_noise if len({each.table for each in kept}) >= REAL_TABLES else inf


def valid_kinds(mechanism: str, ratio: float) -> tuple[StatisticOfRows, ...]:
    """The kinds of statistics whose intervals hold for a mechanism with so many rows to noise."""
    return tuple(kind for kind in StatisticOfRows if ratio >= least_ratio(mechanism, kind))


def refusal(plan: Plan, *, columns: Sequence[str], rows: int) -> str:
    """Why intervals from replicates are not valid for a release, in one sentence; empty where they are.

    Args:
        columns: of its synthetic rows.
        rows: how many there are.
    """
    mine = [each for each in MEASURED if each.mechanism == plan.mechanism]
    if not valid_kinds(plan.mechanism, sys.float_info.max):
        return "They were not tested for this method."
    universe = plan.schema.universe
    if set(columns) != set(universe.names):
        return "They were tested only for synthetic rows with all columns."
    if noise_of_all_cells(plan) is None:
        return (
            "They were tested only where one table of all columns was measured, with Laplace noise, and the questions "
            f"are about at most {MOST_ASKED} columns each."
        )
    if plan.schema.rows_of_unit > 1:
        return "One person may have several rows, so rows are not drawn each by itself."
    if plan.options.get(ROWS.name) is not None or rows >= plan.most_synthetic_rows:
        return f"There is not one synthetic row for each {plan.schema.counted.one} of the table."
    if universe.is_limited:
        return "They were tested only where every combination of values is possible."
    cells = universe.size
    if cells > (most := max(each.cells for each in mine)):
        return f"They were tested for tables of up to {most:,} cells, and this one has {cells:,}."
    if rows > MOST_ROWS:
        return f"They are made of up to {MOST_ROWS:,} synthetic rows, and there are {rows:,}."
    if not valid_kinds(plan.mechanism, rows_to_noise(plan, rows=rows, cells=cells)):
        return f"The table has too few {plan.schema.counted.many} for so many cells and so much noise."
    return ""
