"""What follows from entries of the ledger: their hashes, their sums, and what would oppose them."""

from __future__ import annotations

import hashlib
import json
import uuid
from typing import TypeAlias

from releases.engine.accounting import filters
from releases.engine.domain.privacy import protection_in_words
from releases.ledger import stale_ledger
from releases.models import Budget, EntryKind, LedgerEntry, Release, ReleaseState

#: Amounts of an entry in the order epsilon, delta, rho, rho_delta; negative in a RETURN.
Signed: TypeAlias = tuple[int, int, int, int]


def promised(budget: Budget) -> str:
    return protection_in_words(unit=budget.privacy_unit, neighbours=budget.relation)


def why_the_charge_stays(release_id: uuid.UUID) -> str:
    """Why the charge of a release cannot be given back, or should not have been; empty where it can."""
    release = Release.objects.filter(pk=release_id)
    if not release.filter(state__in=(ReleaseState.CANCELLED, ReleaseState.FAILED), run_token=None).exists():
        return "its release has not ended without a result"
    if not release.that_read_nothing().exists() or stale_ledger.begun(release_id):
        return "an attempt at its release may have opened the table"
    return ""


def opposite(entry: LedgerEntry) -> Signed:
    return -entry.epsilon, -entry.delta, -entry.rho, -entry.rho_delta


def sums(budget: Budget, *, without: LedgerEntry | None = None) -> filters.Totals:
    """What is spent, again from the entries: charges and restorations, but for the charges given back and one more."""
    entries = list(budget.entries.order_by("sequence"))
    returned = {entry.detail["returns"] for entry in entries if entry.kind == EntryKind.RETURN}
    if without is not None:
        returned.add(without.sequence)
    return filters.Totals.of(
        entry.amounts
        for entry in entries
        if entry.kind in (EntryKind.CHARGE, EntryKind.RESTORE) and entry.sequence not in returned
    )


def hash_of(entry: LedgerEntry) -> str:
    text = json.dumps(entry.content(), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()
