"""What was charged over time, and by whom: for one budget and for the board."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils import timezone

from releases.display.charts.spending import StepPoint, spending_steps
from releases.ledger import reports
from releases.ledger.reports import Use
from releases.models import Budget

#: Lines of the table of steps, the latest ones.
_MOST_STEPS = 200


@dataclass(frozen=True, kw_only=True, slots=True)
class SpendingChart:
    """How budgets were used up.

    Attributes:
        chart: as data for the library that draws it.
        steps: the same as lines of a table.
        begins_with: what the line begins with, where not every entry is drawn; empty otherwise.
    """

    chart: dict[str, Any]
    steps: tuple[StepPoint, ...]
    begins_with: str


def spending_chart(
    points: Sequence[StepPoint], budgets: Sequence[Budget], *, until: datetime | None = None, most: int | None = None
) -> SpendingChart | None:
    """
    Args:
        until: where the lines end; now, where nothing is said.
        most: how many entries are drawn at most, where there are more.

    Returns:
        None where nothing was charged.
    """
    charged = [point for point in points if not point.is_start]
    if not charged:
        return None
    end = timezone.localtime(until or timezone.now())
    return SpendingChart(
        chart=spending_steps(list(points), until=end, places=reports.places(list(budgets))),
        steps=tuple(charged[-_MOST_STEPS:]),
        begins_with=f"The latest {most} entries; the line begins with the sum of all before." if most else "",
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class ChargesByName:
    """What each person, or each mechanism, was charged; with shares where it is of one budget."""

    title: str
    head: str
    has_shares: bool
    uses: tuple[Use, ...]


def charges_by_name(people: Sequence[Use], mechanisms: Sequence[Use]) -> tuple[ChargesByName, ...]:
    """Both tables; none where nothing was charged."""
    if not people:
        return ()
    tables = ("By person", "Person", people), ("By mechanism", "Mechanism", mechanisms)
    return tuple(
        ChargesByName(title=title, head=head, has_shares=bool(uses and uses[0].share), uses=tuple(uses))
        for title, head, uses in tables
    )
