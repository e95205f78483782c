"""Budgets that the marks know and the database, a restored backup, does not: what was spent of them is not forgotten.

Whose people such a budget was for cannot be seen any more. Until a reviewer says it, what was spent of it is booked
into every new budget of its owner, whatever rows that is for: who the owner was is no secret, and whether rows are the
same is one. A lost budget of which no mark says whose it was counts for everybody.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.conf import settings
from django.db import transaction
from django.db.models import Q

from releases.engine.accounting.filters import CLOSED, Totals
from releases.engine.errors import InvalidInput
from releases.ledger import audit_log, high_water_marks, ledger, refusals, stale_ledger
from releases.models import AuditAction, Budget, Dataset, Installation
from releases.models.stakes import HasStake, Stake, budgets_at_stake, refuse_stake

if TYPE_CHECKING:
    from django.contrib.auth.models import User


@dataclass(frozen=True, kw_only=True, slots=True)
class Lost:
    """A budget that only its mark knows.

    Attributes:
        mark: None where it cannot be read.
    """

    key: uuid.UUID
    mark: high_water_marks.Mark | None

    @property
    def totals(self) -> Totals:
        """What was spent of it; unknown is everything."""
        closed = dict.fromkeys(Totals().amounts(), CLOSED)
        return self.mark.totals if self.mark is not None else Totals.read({**closed, "spent_orders": None})

    @property
    def name(self) -> str:
        return self.mark.name if self.mark is not None and self.mark.name else str(self.key)

    @property
    def owner(self) -> str:
        return str(self.mark.owner["name"]) if self.mark is not None and self.mark.owner else ""

    @property
    def granted(self) -> str:
        return str(self.mark.granted["epsilon"]) if self.mark is not None and self.mark.granted else ""

    @property
    def spent(self) -> str:
        return refusals.epsilon_text(self.mark.totals.spent_epsilon) if self.mark is not None else ""

    @property
    def tables(self) -> str:
        return ", ".join(str(each["title"]) for each in self.mark.tables) if self.mark is not None else ""

    def is_of(self, person: User) -> bool:
        """Whether it was a person's, by number or by name; also where nobody knows whose it was."""
        if self.mark is None or not self.mark.owner:
            return True
        return bool(self.mark.owner["id"] == person.pk or self.mark.owner["name"] == person.get_username())


def lost_budgets() -> list[Lost]:
    """Those of which no reviewer has said whose people they were for."""
    return [_lost(key) for key in stale_ledger.lost_budgets()]


def refuse_while_lost(owner: User) -> None:
    """A table of somebody with a lost budget joins no other one: what was spent of it would be booked nowhere.

    Raises:
        InvalidInput: a reviewer has to say first whose people the lost budget was for.
    """
    for each in lost_budgets():
        if each.is_of(owner):
            rule = (
                f"must wait: after a restored backup, what was spent of {each.name} is not booked yet. A reviewer has "
                "to say on the page Backups whose people it was for"
            )
            raise InvalidInput("population", str(owner), rule)


def same_rows_as_lost(lost: Lost, *, viewer: User) -> list[Dataset]:
    """Tables that are here and have the rows of a lost one, by its keyed digests: for a reviewer without a stake in
    either. It decides nothing by itself."""
    digests = [each["digest"] for each in (lost.mark.tables if lost.mark is not None else ())]
    found = Dataset.objects.filter(digest__in=digests).select_related("owner", "budget")
    stake = Q(owner=viewer) | Q(group__in=viewer.groups.all())
    return [] if lost.is_of(viewer) else list(found.exclude(stake))


def book_lost(*, budget: Budget, by: User) -> None:
    """Book into a new budget, right after its first grant, what was spent of its owner's lost ones.

    Raises:
        LedgerRefusal: it does not fit under what is granted.
    """
    found = [each for each in lost_budgets() if each.is_of(budget.owner)]
    if found:
        _book(budget, found, by=by)


@transaction.atomic
def settle_lost_budget(*, lost: uuid.UUID, into: Budget | None, by: User) -> None:
    """Say whose people a lost budget was for, as a reviewer: those of a budget that is here, which then has spent what
    was spent of it; or those of none, and of none that will ever be.

    Raises:
        LedgerRefusal: it is no lost budget, or what was spent does not fit.
        HasStake: somebody else has to say it.
    """
    own = Installation.objects.select_for_update().get(pk=Installation.own().pk)
    if lost not in stale_ledger.lost_budgets():
        raise refusals.LedgerRefusal("There is no such lost budget, or somebody has said it before.")
    found = _lost(lost)
    # Where nobody knows whose it was, it may be that of anybody with a budget.
    concerned = found.is_of(by) if found.owner else budgets_at_stake(by).exists()
    if settings.SEPARATION_OF_DUTIES and concerned:
        raise HasStake(by, Stake.OWNS, to="settle")
    if into is not None:
        refuse_stake(by, into, to="settle")
        _book(into, [found], by=by)
    own.settled = sorted({*own.settled, str(lost)})
    own.acknowledged = sorted({*own.acknowledged, str(lost)})
    own.save(update_fields=["settled", "acknowledged"])
    said = f"of the lost budget {found.name}: " + ("nobody's people here" if into is None else f"the people of {into}")
    audit_log.record(AuditAction.RESTORE, actor=by, on=into or own, detail=said)


def _lost(key: uuid.UUID) -> Lost:
    try:
        return Lost(key=key, mark=high_water_marks.read(key))
    except high_water_marks.Unreadable:
        return Lost(key=key, mark=None)


def _book(budget: Budget, lost: list[Lost], *, by: User) -> None:
    try:
        ledger.book_lost(
            budget=budget,
            amounts=Totals.of(each.totals for each in lost),
            lost=[{"budget": str(each.key), "name": each.name} for each in lost],
            actor=by,
        )
    except refusals.DoesNotFit:
        named = ", ".join(f"{each.name} (epsilon {each.spent or 'unknown'} spent)" for each in lost)
        raise refusals.LedgerRefusal(
            f"Budgets of the same owner were lost with a restored backup, and what was spent of them counts here until "
            f"a reviewer says on the page Backups whose people they were for: {named}. It does not fit under what is "
            f"granted here. Nothing was granted."
        ) from None
