"""Where intervals from replicates hold: what was measured, and nothing else.

No theorem says how often an interval of the bootstrap holds the truth in a finite table. So it was measured: on 500
simulated tables of each of three real ones, whose numbers are known (`releases.benchmarks.replicates`). A kind of
statistic is offered for releases of a mechanism if, under every epsilon and every table, each statistic of its kind was
held by at least `LEAST_COVERED` of its 500 intervals. Nothing of a release's own rows decides.

A release is like the measured ones if it has one synthetic row for each row of the table, if its noisy table of all
columns was measured whole, and if there are no more cells and no fewer rows, for each cell and for each row of the
noise's standard deviation, than were tried. All of that is public or was released. Rows have to be drawn each by
itself: where one person may have several, they are not.

`MEASURED` is what `manage.py bench --only replicates` writes into docs/BENCHMARKS.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import prod, sqrt

from releases.engine.mechanisms.additive_noise import Noise
from releases.engine.mechanisms.base import ROWS, Plan
from releases.engine.mechanisms.histogram import NoisyHistogramPlan
from releases.engine.mechanisms.marginal_fit.mechanism import MarginalFitPlan

#: Simulated tables of each real one.
TABLES = 500
#: Of them at least so many intervals held: fewer do with probability below 1/10,000 where each holds with 95%.
LEAST_COVERED = 455
#: Of all rows, those that a category has, or a group that is compared, at least.
LEAST_SHARE = 0.03


class Kind(StrEnum):
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
class Measured:
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
    kind: Kind
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
}
MEASURED = tuple(
    Measured(
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
    for kind, (number, fewest) in zip(Kind, found, strict=True)
)


def measured_whole(plan: Plan) -> tuple[tuple[str, ...], Noise] | None:
    """The columns of the one noisy table that all is read off, and its noise; None where there is not one such table."""
    if isinstance(plan, NoisyHistogramPlan):
        return plan.schema.universe.names, plan.noise
    if isinstance(plan, MarginalFitPlan) and len(plan.parts) == len(plan.tables) == 1:
        (part,), (table,) = plan.parts, plan.tables
        return (part.universe.names, table.noise) if len(table.axes) == len(part.universe.names) else None
    return None


def rows_to_noise(plan: Plan, *, rows: int, cells: int) -> float:
    """Rows for each cell and each row of the noise's standard deviation; 0 where no one table is measured."""
    whole = measured_whole(plan)
    return 0.0 if whole is None else rows / cells / sqrt(whole[1].variance)


def valid_kinds(mechanism: str) -> tuple[Kind, ...]:
    """The kinds of statistics that every measurement of a mechanism allows; none of one that was not measured."""
    mine = [each for each in MEASURED if each.mechanism == mechanism]
    return tuple(
        kind
        for kind in Kind
        if (of_kind := [each for each in mine if each.kind is kind]) and all(each.holds for each in of_kind)
    )


def refusal(plan: Plan, *, columns: Sequence[str], rows: int) -> str:
    """Why intervals from replicates are not valid for a release, in one sentence; empty where they are.

    Args:
        columns: of its synthetic rows.
        rows: how many there are.
    """
    mine = [each for each in MEASURED if each.mechanism == plan.mechanism]
    if not valid_kinds(plan.mechanism):
        return "They were not tested for rows made by this method."
    whole, universe = measured_whole(plan), plan.schema.universe
    if whole is None or set(columns) != set(whole[0]):
        return "They were tested only where one table of all columns asked about is measured."
    if plan.schema.rows_of_unit > 1:
        return "One person may have several rows, so rows are no sample of their own each."
    if plan.options.get(ROWS.name) is not None or rows >= plan.most_synthetic_rows:
        return "There is not one synthetic row for each row of the table."
    if universe.is_limited:
        return "They were tested only where every combination of values is possible."
    cells = prod(universe.project(whole[0]).shape)
    if cells > (most := max(each.cells for each in mine)):
        return f"They were tested for tables of up to {most:,} cells, and this one has {cells:,}."
    if rows_to_noise(plan, rows=rows, cells=cells) < min(each.rows_to_noise for each in mine):
        return "The table has too few rows for so many cells and so much noise."
    return ""
