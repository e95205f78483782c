"""Plans of live sessions, and from how many rows on one is of use. Public inputs only."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from itertools import combinations
from typing import Any

from releases.engine.domain.privacy import PrivacyBudget
from releases.engine.domain.schema import Schema
from releases.engine.mechanisms.base import Plan
from releases.engine.mechanisms.live.ways import ALL_CELLS, BEGUN, WAYS, plan_of_way
from releases.engine.mechanisms.pmw.online import OnlinePlan
from releases.engine.workload.queries import Count, Workload

#: Sets of columns that are looked at, about, for a mean over all of them.
_MOST_SETS = 40
#: Sizes of table that are tried.
_SIZES = tuple(lead * 10**power for power in range(1, 10) for lead in (1, 2, 5))


@lru_cache(maxsize=256)
def planned_session(
    name: str,
    schema: Schema,
    budget: PrivacyBudget,
    beta: Fraction,
    options: tuple[tuple[str, Any], ...],
    listed: Workload | None = None,
) -> Plan:
    """
    Args:
        name: of the way in which it answers; empty for the one with the closest bound.
        listed: questions to be answered at the start.
    """
    return plan_of_way(name, schema, budget=budget, beta=beta, options=dict(options), listed=listed)


def every_way(
    schema: Schema,
    budget: PrivacyBudget,
    beta: Fraction,
    options: tuple[tuple[str, Any], ...],
    listed: Workload | None = None,
) -> list[OnlinePlan]:
    """The plans of all ways that can be run, for the same budget."""
    own = dict.fromkeys((*BEGUN, ALL_CELLS), listed)
    names = WAYS if listed is None else (*WAYS, *BEGUN)
    plans = [planned_session(name, schema, budget, beta, options, own.get(name)) for name in names]
    return [each for each in plans if isinstance(each, OnlinePlan)]


def usual_error(plan: OnlinePlan, *, columns: int) -> float | None:
    """The mean error of counts of one value in each of so many columns, over sets of columns; None where it depends on
    the table."""
    sets = list(combinations(plan.schema.universe.names, columns))
    chosen = sets[:: 1 + len(sets) // _MOST_SETS]
    errors = [plan.expected_error(Count(attributes=names, bins=((0,),) * columns)) for names in chosen]
    known = [each for each in errors if each is not None]
    return sum(known) / len(known) if len(known) == len(errors) else None


def least_rows(plan: OnlinePlan, *, share: Fraction, above: int | None = 0) -> int | None:
    """The least size of table, of those tried from one on, for which the bound is below a share of it; None if none is.

    For any number of updates the bound is a constant and a fixed share of the table, so its share of the table falls
    as the table grows, and so does the least over the numbers of updates.
    """
    if above is None:
        return None
    listed = plan.counts_asked if plan.answers_at_start else None
    low, high = sum(size < above for size in _SIZES), len(_SIZES)
    while low < high:
        middle = (low + high) // 2
        options = {**plan.options, "population": _SIZES[middle]}
        kept = tuple((name, value) for name, value in options.items() if value is not None)
        tried = planned_session(plan.mechanism, plan.schema, plan.budget, plan.beta, kept, listed)
        is_below = tried.expectation is not None and tried.expectation.alpha < _SIZES[middle] * share
        low, high = (low, middle) if is_below else (middle + 1, high)
    return _SIZES[low] if low < len(_SIZES) else None
