"""Recompute a ledger from its entries, and say everything that does not add up."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from django.db.models import F

from releases.engine.accounting import accountant, filters
from releases.engine.accounting.events import event_from_json
from releases.engine.domain.privacy import NeighbouringRelation, PrivacyUnit, protection_in_words
from releases.engine.errors import EngineError
from releases.ledger import entries, grants, stale_ledger
from releases.models import Budget, EntryKind, LedgerEntry


@dataclass(frozen=True, kw_only=True, slots=True)
class Fault:
    """Something in the ledger that does not add up."""

    budget: str
    sequence: int | None
    what: str


def verify(budget: Budget) -> Iterator[Fault]:
    """Recompute hashes, sums, prices, caps and what is protected from the entries; yield every disagreement."""
    previous, expected = "", 0
    granted = grants.Granted()
    planned = {
        f"planned_{each}": F(f"release__stored_plan__content__schema__{each}") for each in ("unit", "neighbours")
    }
    for entry in budget.entries.annotate(**planned).order_by("sequence"):
        expected += 1
        if entry.kind == EntryKind.RESTORE:
            expected = entry.sequence
        if entry.sequence != expected:
            yield _fault(budget, entry, f"entry number {expected} is missing")
            expected = entry.sequence
        if entry.previous != previous or entry.hash != entries.hash_of(entry):
            yield _fault(budget, entry, "its hash does not follow from its content and the entry before")
        previous = entry.hash
        if entry.kind == EntryKind.CHARGE:
            yield from _verify_price(budget, entry)
            yield from _verify_protection(budget, entry)
        elif entry.kind == EntryKind.RETURN:
            yield from _verify_return(budget, entry)
        elif entry.kind == EntryKind.GRANT:
            yield from _verify_protection(budget, entry)
        granted.read(entry)
    if budget.sequence != expected or budget.head != previous:
        yield _fault(budget, None, "the last entry is not the one the budget row names")
    if entries.sums(budget) != budget.totals:
        yield _fault(budget, None, "the spent amounts are not the sums of the entries")
    if budget.is_granted and budget.caps.to_json() != granted.last:
        yield _fault(budget, None, "the caps are not those last granted")
    elif budget.is_granted and not granted.is_largest:
        yield _fault(budget, None, "less is granted than was while releases were charged")
    if what := stale_ledger.budget(budget):
        yield _fault(budget, None, f"{what}; a backup was restored, or a mark is lost")


def is_whole(entry: LedgerEntry) -> bool:
    """Whether an entry's hash follows from its content; `verify` also asks whether the chain does."""
    return entry.hash == entries.hash_of(entry)


def _verify_price(budget: Budget, entry: LedgerEntry) -> Iterator[Fault]:
    detail = entry.detail
    try:
        price = accountant.price(
            [event_from_json(event) for event in detail["events"]],
            delta=Fraction(detail["delta"]),
            neighbours=budget.relation,
        )
        amounts = filters.amounts(price, policy=filters.Policy(detail["policy"]))
    except (EngineError, KeyError, TypeError, ValueError):
        yield _fault(budget, entry, "what it says was run cannot be priced")
        return
    # A later accountant may prove less; it must never find that too little was charged.
    if amounts.beyond(entry.amounts) != filters.Totals():
        yield _fault(budget, entry, f"its events cost more than was charged: {price.in_words()}")


def _verify_protection(budget: Budget, entry: Any) -> Iterator[Fault]:
    """What a grant or a charge was made for, as it says itself and as the release's plan has it.

    Entries of old say nothing of the unit. A charge's is in the plan then; nothing can be said of a grant's.
    """
    detail = entry.detail
    is_silent = entry.kind == EntryKind.GRANT and "unit" not in detail
    said = [] if is_silent else [(detail.get("unit", entry.planned_unit), detail.get("neighbours"))]
    if entry.planned_unit is not None:
        said.append((entry.planned_unit, entry.planned_neighbours))
    for found in dict.fromkeys(_protection(*each) for each in said):
        if found is None:
            yield _fault(budget, entry, "what it protects is unknown")
        elif found != (budget.privacy_unit, budget.relation):
            protects = protection_in_words(unit=found[0], neighbours=found[1])
            yield _fault(budget, entry, f"it protects {protects}, and the budget protects {entries.promised(budget)}")


def _protection(unit: object, neighbours: object) -> tuple[PrivacyUnit, NeighbouringRelation] | None:
    """Unit and neighbours as they are stored; None for what is neither."""
    try:
        return PrivacyUnit.from_json(unit), NeighbouringRelation(neighbours)  # type: ignore[arg-type]
    except (EngineError, ValueError):
        return None


def _verify_return(budget: Budget, entry: LedgerEntry) -> Iterator[Fault]:
    """It opposes one charge of this budget, made for the same release before it, and that release read nothing."""
    charged = budget.entries.filter(kind=EntryKind.CHARGE, sequence=entry.detail.get("returns")).first()
    if charged is None or charged.sequence > entry.sequence or charged.release_id != entry.release_id:
        yield _fault(budget, entry, "it gives back what was not charged for its release")
    elif (entry.epsilon, entry.delta, entry.rho, entry.rho_delta) != entries.opposite(charged):
        yield _fault(budget, entry, f"it does not give back what number {charged.sequence} charged")
    why = entries.why_the_charge_stays(entry.release_id) if entry.release_id is not None else "it names no release"
    if why:
        yield _fault(budget, entry, f"a charge was given back that should stay: {why}")


def _fault(budget: Budget, entry: LedgerEntry | None, what: str) -> Fault:
    return Fault(budget=budget.name, sequence=entry.sequence if entry else None, what=what)
