"""How much epsilon a given error takes with each mechanism, and what it leaves of the budget. Public inputs only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from releases.engine.bounds.accuracy import Proof
from releases.engine.domain.privacy import decimal_text
from releases.engine.mechanisms.base import Mechanism
from releases.models import Budget
from releases.planning.comparison import MAX_EPSILON, ComparedPlan, at_epsilon, compared, least_epsilon
from releases.planning.leaves import Leaves
from releases.publication.receipt import rows_text, sensible


@dataclass(frozen=True, kw_only=True)
class Needed:
    """What an error of at most so much takes with one mechanism.

    Attributes:
        epsilon: the least, as a decimal; empty where there is none.
        why: there is none, or no such bound; else what is to be known of it, such as that it is not proved.
        leaves: what the budget would hold then; None where it does not fit, or no budget is granted.
        refusal: why it does not fit.
    """

    mechanism: Mechanism
    unit: str
    epsilon: str = ""
    why: str = ""
    leaves: Leaves | None = None
    refusal: str = ""


def needed_for(rows: Sequence[ComparedPlan], budget: Budget | None, *, error: float) -> list[Needed]:
    """For every mechanism of a comparison the least epsilon for an error, those with the least first."""
    needed = [_needed(row, budget, error=error) for row in rows]
    return sorted(needed, key=lambda each: (not each.epsilon, bool(each.refusal), Fraction(each.epsilon or 0)))


def _needed(row: ComparedPlan, budget: Budget | None, *, error: float) -> Needed:
    least = least_epsilon(row.plan, error=error)
    plan = None if least is None else at_epsilon(row.plan, least)
    if least is None or plan is None:
        return Needed(mechanism=row.mechanism, unit=row.unit, why=_why_no_epsilon(row))
    (there,) = compared([plan], budget)
    return Needed(
        mechanism=row.mechanism,
        unit=row.unit,
        epsilon=decimal_text(least, places=8),
        why="" if there.bound is None or there.bound.proof is Proof.BEFORE else there.proof,
        leaves=there.leaves,
        refusal=sensible(there.refusal),
    )


def _why_no_epsilon(row: ComparedPlan) -> str:
    largest = at_epsilon(row.plan, Fraction(MAX_EPSILON))
    if largest is None:
        return row.plan.infeasible or f"It cannot be run at epsilon {MAX_EPSILON}."
    if (bound := largest.bound or largest.expectation) is not None:
        closest = f"{bound.alpha:,.4g}" if bound.says else rows_text(bound.alpha, row.counted)
        return f"Not at any epsilon up to {MAX_EPSILON}: there it is within {closest}."
    if row.wants_rows:
        return f"It depends on how many {row.counted.many} there are: type about how many, below epsilon."
    return "It proves its bound from what it releases; none is known before."
