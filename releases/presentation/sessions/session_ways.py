"""The ways in which a session could answer, side by side, before anything is spent."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from releases.engine.mechanisms.base import mechanism
from releases.engine.mechanisms.pmw.online import OnlinePlan
from releases.planning.session_plans import usual_error
from releases.publication.receipt import rows_text


@dataclass(frozen=True, kw_only=True, slots=True)
class WayShown:
    """One way.

    Attributes:
        is_planned: it is the one of the plan that is shown.
        margin: what every answer is within.
        one, three: the usual error of a count of one value in one column, and in each of three.
    """

    title: str
    is_planned: bool
    margin: str
    one: str
    three: str


def ways_shown(plans: Iterable[OnlinePlan], *, planned: str) -> tuple[WayShown, ...]:
    """
    Args:
        planned: the name of the way of the plan that is shown.
    """
    return tuple(
        WayShown(
            title=mechanism(plan.mechanism).title,
            is_planned=plan.mechanism == planned,
            margin=rows_text(plan.rules.half_width, plan.schema.counted),
            one=_usual(plan, 1),
            three=_usual(plan, min(3, len(plan.schema.universe.names))),
        )
        for plan in plans
    )


def _usual(plan: OnlinePlan, columns: int) -> str:
    found = usual_error(plan, columns=columns)
    if found is None:
        return "depends on the table"
    return f"about {found:,.0f}" if found >= 10 else f"about {found:.2g}"
