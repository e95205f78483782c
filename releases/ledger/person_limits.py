"""What one person was charged of a budget, and what they may be charged at most: in all, and unseen by a reviewer."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from django.db.models import QuerySet

from releases.engine.accounting import accountant, filters
from releases.ledger.refusals import PersonLimit
from releases.models import Budget, LedgerEntry, Organisation, Release, ReleaseRequest, RequestState, share_of

if TYPE_CHECKING:
    from django.contrib.auth.models import User

NOTHING = filters.Totals()

#: As epsilon: the sum of what has none.
NO_EPSILON = Fraction(filters.CLOSED, 10**accountant.EPSILON_PLACES)


def over_the_limit(
    *,
    release: Release,
    budget: Budget,
    price: accountant.Price,
    person: User,
    beside: filters.Totals = NOTHING,
) -> PersonLimit | None:
    """Why a release is more than one person may spend; None where it is not, or where there is no limit.

    Everything that this person was charged counts, but for what was given back; the release counts once, whether or
    not it is booked already.

    Args:
        beside: what else they are about to be charged.
    """
    most = Organisation.current().most_share_per_person
    if most is None:
        return None
    caps = budget.caps
    own = _charged_to(person, budget, but=release).plus(beside)
    spent = share_of(own, caps)
    with_it = share_of(own.plus(filters.amounts(price, policy=caps.policy)), caps)
    return PersonLimit(spent=spent, takes=with_it - spent, most=most) if with_it > most else None


def unseen_with(*, release: Release, budget: Budget, price: accountant.Price, person: User) -> Fraction:
    """What one person's charges that no reviewer approved come to with a release, as epsilon.

    One that was split into many small ones comes to what it would have come to in one piece.
    """
    own = price.pure_epsilon if price.pure_epsilon is not None else price.epsilon
    added = NO_EPSILON if own is None else Fraction(own, 10**accountant.EPSILON_PLACES)
    return unseen_before(release=release, budget=budget, person=person) + added


def unseen_before(*, release: Release, budget: Budget, person: User) -> Fraction:
    """What one person's other charges that no reviewer approved come to, as epsilon."""
    before = _charged_to(person, budget, but=release, is_unseen=True).spent_epsilon
    return Fraction(before, 10**accountant.EPSILON_PLACES)


def share_of_person(budget: Budget, person: User) -> Fraction:
    """How much of a granted budget one person's charges use up, from 0 to 1; one query."""
    return share_of(_charged_to(person, budget), budget.caps)


def _charged_to(person: User, budget: Budget, *, but: Release | None = None, is_unseen: bool = False) -> filters.Totals:
    """The sums of one person's charges that stand; of those alone that no reviewer approved, if asked."""
    charges = budget.entries.charges_that_stand().filter(actor=person)
    if but is not None:
        charges = charges.exclude(release=but)
    if is_unseen:
        charges = charges.exclude(pk__in=_seen(charges))
    return filters.Totals.of(each.amounts for each in charges.with_amounts())


def _seen(charges: QuerySet[LedgerEntry]) -> list[int]:
    """Those that a reviewer approved: as they were submitted, or for less and as just that plan."""
    approved = ReleaseRequest.objects.filter(state=RequestState.APPROVED)
    as_submitted = charges.filter(key__in=approved.values("key")).values_list("pk", flat=True)
    for_less = approved.filter(release__in=charges.values("release")).exclude(approved_plan="")
    plans = set(for_less.values_list("release", "approved_plan"))
    kept = charges.filter(release__in={release for release, _ in plans}).values_list(
        "pk", "release", "release__stored_plan__content"
    )
    return [*as_submitted, *(pk for pk, release, plan in kept if (release, plan_digest(plan or {})) in plans)]


def plan_digest(plan: Mapping[str, Any]) -> str:
    """What tells one plan, as it is stored, from every other."""
    return hashlib.sha256(json.dumps(plan, sort_keys=True).encode()).hexdigest()
