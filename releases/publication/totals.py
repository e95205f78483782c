"""The line of all groups together below a table, from what was released: it costs nothing.

Let x_i be the true numbers of the groups of a table that holds each counted row once, and L_i <= x_i <= U_i for all i
at once, with probability 1 - beta. With the same probability:

*Counts and sums.* Together they come to Σ x_i, which lies between Σ L_i and Σ U_i. Counts are whole and not below 0, so
theirs lies between Σ ceil(max(L_i, 0)) and Σ floor(U_i). A number of rows that is public is that number.

*Means.* The mean of all rows is Σ n_i x_i / Σ n_i over the groups that have rows, so it lies between the least L_i and
the largest U_i; where no group has rows it is, as theirs, by convention the middle of the range. It is read off as
c + Σ S_i / Σ n_i, from the noisy sums S_i about the middle c of the range and the noisy numbers of rows n_i, both of
which are published, and is moved to an end of that interval where it lies outside.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from releases.engine.workload.kinds.mean import Mean
from releases.engine.workload.questions import Inquiry, dates_of
from releases.engine.workload.statistic import Part
from releases.publication.shares import Whole
from releases.questions.base import statistic_kind

#: What the line is called.
TOGETHER = "all together"
_NUMBERS = ("estimate", "lower", "upper")
#: What the means of groups are read off, as their release publishes it: of rows that count alike, and by weights.
_ABOUT_MIDDLE, _NUMBERS_OF_ROWS = "noisy sums about the middle", ("noisy numbers of rows", "noisy sums of the weights")


def of_counts(whole: Whole) -> dict[str, float]:
    """What the counts of a table come to."""
    if whole.rows is not None:
        return dict.fromkeys(_NUMBERS, float(round(whole.rows)))
    return _within(round(whole.estimate), max(math.ceil(whole.lower), 0), math.floor(whole.upper))


def of_groups(
    inquiry: Inquiry, part: Part, rows: Sequence[Mapping[str, Any]], receipt: Mapping[str, Any]
) -> dict[str, float] | None:
    """What all groups of one part of a statistic are together; None where nothing can be said.

    Args:
        rows: the released answers of all its groups.
    """
    kind, statistic = statistic_kind(inquiry.statistic), inquiry.statistic
    if len(rows) < 2 or dates_of(inquiry) is not None or "estimate" not in rows[0]:
        return None
    estimates, lowers, uppers = ([float(row[name]) for row in rows] for name in _NUMBERS)
    if kind.has_shares or kind.is_total:
        return _within(math.fsum(estimates), math.fsum(lowers), math.fsum(uppers))
    if not isinstance(statistic, Mean):
        return None
    notes, name = receipt.get("notes", {}), statistic.of[inquiry.families.index(part)]
    sums = notes.get(_ABOUT_MIDDLE, {}).get(name)
    numbers = next((notes[each] for each in _NUMBERS_OF_ROWS if each in notes), None)
    if sums is None or numbers is None:
        # An older version did not publish what it is read off.
        return None
    edges, number = inquiry.universe[name].edges, math.fsum(numbers)
    mean = float(edges[0] + edges[-1]) / 2 + math.fsum(sums) / max(1.0, number)
    places = max(len(f"{each:.9f}".rstrip("0").partition(".")[2]) for each in estimates)
    return _within(round(mean, places), min(lowers), max(uppers))


def _within(estimate: float, lower: float, upper: float) -> dict[str, float]:
    return {"estimate": float(min(max(estimate, lower), upper)), "lower": float(lower), "upper": float(upper)}
