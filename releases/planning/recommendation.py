"""The one method that a comparison recommends, and why: by public facts alone, the plans that are compared anyway."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from releases.planning.comparison import ComparedPlan
from releases.publication.receipt import percent, rows_text
from releases.questions.base import kind_of


def recommended(rows: Sequence[ComparedPlan], *, for_rows: bool) -> ComparedPlan | None:
    """The method to look at first; None where none can be run.

    Args:
        rows: in the order of the comparison, the closest of those that are proved first.
        for_rows: synthetic rows are wanted; else the answers.
    """
    can_run = [row for row in rows if not row.plan.infeasible]
    # What cannot be paid for is recommended only where nothing else is there: it says then why it cannot be chosen.
    candidates = [row for row in can_run if row.can_be_chosen] or can_run
    wanted = [row for row in candidates if row.for_synthetic_rows] if for_rows else []
    useful = [row for row in candidates if _is_useful(row)]
    own = [] if for_rows else [row for row in useful if _has_own_rows(row)]
    return next(iter(wanted or own or useful or candidates), None)


def _has_own_rows(row: ComparedPlan) -> bool:
    """None of its tables loses rows for the rule of another one's column."""
    return row.plan.workload.universe.own_rows


def _is_useful(row: ComparedPlan) -> bool:
    """It answers whatever the data are, and its bound says something."""
    return row.bound is not None and not row.says_little and not row.mechanism.may_refuse


def why(row: ComparedPlan, rows: Sequence[ComparedPlan], *, for_rows: bool) -> str:
    """Why it is the one recommended of a comparison, in one sentence."""
    if for_rows and row.for_synthetic_rows:
        return row.for_synthetic_rows
    others = [each for each in rows if each.can_be_chosen and each is not row]
    if row.can_be_chosen and not others:
        return "It is the only method that can answer this."
    if more := kind_of(row.plan.workload).says_more.get(row.mechanism.name):
        return f"It {more}."
    if row.of_many < min((each.of_many for each in others), default=inf) and not any(each.bound for each in others):
        return "Where there are many rows, its intervals are the narrowest."
    proved = [each for each in others if each.bound is not None and not each.is_unproved and each.unit == row.unit]
    if is_own := _has_own_rows(row):
        # What others prove is about counts of fewer rows.
        proved = [each for each in proved if _has_own_rows(each)]
    if (
        not _is_useful(row)
        or row.bound is None
        or row.is_unproved
        or any(each.bound.alpha < row.bound.alpha for each in proved if each.bound)
    ):
        return "It is the first of the methods that can answer this."
    if not proved:
        and_rows = " and loses no rows for another column" if is_own else ""
        return f"No other method that can answer this has a proved error bound{and_rows}."
    if is_own:
        return f"Of the {len(proved) + 1} proved methods that lose no rows, its bound is the smallest."
    return f"Of the {len(proved) + 1} methods with a proved error bound, it has the smallest."


def within(row: ComparedPlan) -> str:
    """How close its answers are, in the unit of the answers."""
    if row.bound is None or not row.margin:
        return row.sentence
    number = row.plan.workload.size
    answers, together = ("The count", "") if number == 1 else (f"Each of the {number:,} counts", ", all at once")
    expected = "is expected, not proved, to be" if row.is_unproved else "is"
    width, confidence = rows_text(row.bound.alpha, row.counted), percent(1 - row.bound.beta)
    return f"{answers} {expected} within {width} of the truth{together}, with {confidence} confidence."
