"""How much of a budget is gone and how much is left: one scale for every page.

The scale is the share of what was granted, in per cent, in the branch of the policy that has most left. Beside each
share stand epsilons. What is spent is never rounded down for show, nor what is left rounded up; what decides is the
ledger's whole numbers, not these.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import ceil

from releases.engine.accounting import filters
from releases.engine.accounting.accountant import DELTA_PLACES, EPSILON_PLACES
from releases.engine.accounting.filters import CLOSED, Branch, Caps, Policy, Totals
from releases.engine.domain.privacy import decimal_text, exact
from releases.models import Budget, counting_branch, share_in, share_of

#: More digits of an epsilon that is left help nobody, unless it is smaller than that.
_MICRO = 10**6


def caps_of(budget: Budget) -> Caps:
    """A granted budget's caps."""
    return caps_granted(budget.policy, budget.epsilon, budget.delta, is_before=budget.keeps_rule_of_before)


@lru_cache(maxsize=4096)
def caps_granted(policy: str, epsilon: str, delta: str, *, is_before: bool = False) -> Caps:
    """The same from what was granted; there are few budgets, and a conversion takes longer than a page may."""
    return Caps.of(
        Policy(policy),
        epsilon=exact(epsilon, field="epsilon"),
        delta=exact(delta or "0", field="delta"),
        is_before=is_before,
    )


def per_cent(share: Fraction) -> float:
    """A share that is gone, in per cent, rounded up to one decimal."""
    return ceil(1000 * share) / 10


def left_share(spent: Totals, caps: Caps) -> float:
    """What is left, in per cent, rounded down to one decimal."""
    return round(100 - per_cent(share_of(spent, caps)), 1)


def shortage_text(spent: Totals, after: Totals, caps: Caps, *, what: str = "it") -> str:
    """Why a budget does not hold what is to be spent, on the scale of all pages, in the branch that it breaks least.

    Args:
        after: all that would be spent.
        what: is to be spent.
    """
    left = f"{left_share(spent, caps):g}% is left"
    # A branch that is broken by its delta alone, or that cannot hold such a price at all, has no such share.
    if broken := [share for each in caps.branches if (share := share_in(each, after)) > 1]:
        return f"With {what}, {per_cent(min(broken)):,.10g}% of the budget would be spent, and {left}."
    return f"Of the budget {left}, but not enough of its delta for {what}."


def share_of_one(amounts: Totals, branch: Branch) -> str:
    """What one release, or one person, took of a budget, rounded up; the branch is the one that counts there."""
    share = share_in(branch, amounts)
    return f"{per_cent(share):g}%" if share else "0%"


def is_fine(spent: Totals, caps: Caps) -> bool:
    """Whether what counts is the finer sum, so that less of the budget is gone than the epsilons add up to."""
    return counting_branch(spent, caps).name != "basic"


def left_over(spent: Totals, caps: Caps) -> dict[str, str]:
    """What is left: of plain sums the rest, of finer ones the most that one more release without a delta may cost."""
    left, fine = filters.remaining(spent, caps), is_fine(spent, caps)
    # A finer rule splits its delta between its sums, so no one number is what is left of it.
    delta = _decimal(left.delta, DELTA_PLACES) if caps.policy is Policy.APPROX else ""
    return {"epsilon": left_epsilon(left.pure_epsilon if fine else left.epsilon), "delta": delta}


@lru_cache(maxsize=4096)
def left_text(spent: Totals, caps: Caps) -> str:
    """The same in words."""
    left = left_over(spent, caps)
    if left["delta"]:
        return f"epsilon {left['epsilon']}, delta {left['delta']}"
    is_of_one = caps.policy is not Policy.APPROX and is_fine(spent, caps)
    return f"epsilon {left['epsilon']}" + (" in one release" if is_of_one else "")


def left_epsilon(units: int) -> str:
    """An epsilon that is left, rounded down: what is shown must fit."""
    step = 10**EPSILON_PLACES // _MICRO
    shown = units // step * step or units
    return decimal_text(Fraction(shown, 10**EPSILON_PLACES))


def sum_text(spent: Totals) -> str:
    """What a filter adds up, in the form that is still open; the plain sums where they are."""
    if spent == Totals():
        return "nothing"
    if spent.spent_epsilon < CLOSED:
        return guarantee_text(
            Fraction(spent.spent_epsilon, 10**EPSILON_PLACES), Fraction(spent.spent_delta, 10**DELTA_PLACES)
        )
    return f"rho {decimal_text(Fraction(spent.spent_rho, 10**EPSILON_PLACES), places=6)}"


def amounts_of(spent: Totals) -> dict[str, str]:
    """What a filter adds up, in each form, as decimals; empty where it has no such form any more."""
    is_plain = spent.spent_epsilon < CLOSED
    return {
        "epsilon": _decimal(spent.spent_epsilon, EPSILON_PLACES) if is_plain else "",
        "delta": _decimal(spent.spent_delta, DELTA_PLACES) if is_plain else "",
        "rho": _decimal(spent.spent_rho, EPSILON_PLACES) if spent.spent_rho < CLOSED else "",
    }


def _decimal(units: int, places: int) -> str:
    return decimal_text(Fraction(units, 10**places), places=places)


def guarantee_text(epsilon: Fraction, delta: Fraction) -> str:
    said = f"epsilon {decimal_text(epsilon, places=6)}"
    return f"{said}, delta {decimal_text(delta, places=DELTA_PLACES)}" if delta else said


def first_epsilon(budget: Budget | None, *, usual: str = "1", share: Fraction | None = None) -> str:
    """An epsilon to begin with that fits, rounded down to two digits: a share of what is left where one is given, else
    the usual one or what is left. The usual one where there is no budget yet, or nothing left of it."""
    if budget is None or not budget.is_granted:
        return usual
    left = exact(left_over(budget.totals, caps_of(budget))["epsilon"], field="epsilon")
    wanted = min(left, exact(usual, field="epsilon")) if share is None else left * share
    if wanted <= 0:
        return usual
    power = len(str(int(wanted))) if wanted >= 1 else 1 - len(str(int(1 / wanted)))
    step = Fraction(10) ** (power - 2)
    return decimal_text(wanted // step * step)
