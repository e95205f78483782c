"""Charts of numbers by themselves: each with its interval, on the public range that its true value lies in."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from releases.display.charts.answers import date_marks, range_marks
from releases.engine.workload.kinds.mean import Mean
from releases.engine.workload.kinds.quantile import Quantile
from releases.engine.workload.kinds.quantiles import Quantiles
from releases.engine.workload.kinds.variance import Variance
from releases.engine.workload.questions import Inquiry
from releases.engine.workload.statistic import Part
from releases.questions.headline import number_text
from releases.schema.descriptions import Notes, with_unit


def range_chart(inquiry: Inquiry, part: Part, rows: Sequence[Mapping[str, Any]], notes: Notes) -> dict[str, Any] | None:
    """On the declared range of the column whose values they are; of a variance, from 0 to the most that there can be.
    None where no such range is public, or nothing was measured.

    Args:
        part: which they are of, or one of several about the same column.
        rows: each with `label` and its numbers or dates.
    """
    statistic = inquiry.statistic
    if not isinstance(statistic, Mean | Variance | Quantile | Quantiles) or not rows or "estimate" not in rows[0]:
        return None
    place = inquiry.families.index(part) if isinstance(statistic, Mean | Variance) else 0
    column, title = inquiry.universe[statistic.attributes[place]], part.title(inquiry.universe)
    axis = f"declared range of {with_unit(column.name, notes)}, "
    axis += f"{column.point(column.lowest)} to {column.point(column.highest)}"
    if column.dates is not None:
        within = (column.dates.value(column.lowest), column.dates.value(column.highest))
        return date_marks([dict(row) for row in rows], title=title, within=within, axis=axis)
    low, high = (float(end) / 10**column.decimals for end in (column.lowest, column.highest))
    if isinstance(statistic, Variance):
        low, high = 0.0, (high - low) ** 2 / 4
        axis = f"possible range of the {title}, 0 to {number_text(high)}"
    if not all(math.isfinite(row["estimate"]) for row in rows):
        return None
    # An interval without an end reaches to that of the range.
    ends = {"lower": low, "upper": high}
    drawn = [
        {**row, **{name: row[name] if math.isfinite(row[name]) else end for name, end in ends.items()}} for row in rows
    ]
    return range_marks(drawn, title=title, within=(low, high), axis=axis)
