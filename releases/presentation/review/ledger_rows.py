"""Entries of the ledger as lines of a table and of a file."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction

from django.urls import reverse

from releases.engine.accounting.accountant import DELTA_PLACES, EPSILON_PLACES
from releases.engine.accounting.filters import CLOSED
from releases.engine.domain.privacy import decimal_text
from releases.ledger import verification
from releases.models import AuditAction, AuditEvent, EntryKind, LedgerEntry
from releases.services.organisation import NO_FAULT


@dataclass(frozen=True, kw_only=True, slots=True)
class LedgerRow:
    """One entry.

    Attributes:
        epsilon, delta, rho: what it adds; of a grant, up to how much may be spent.
        is_whole: its hash follows from its content.
    """

    budget: str
    address: str
    number: int
    what: str
    why: str
    release: str
    actor: str
    made_at: datetime
    epsilon: str
    delta: str
    rho: str
    is_whole: bool
    hash: str


@dataclass(frozen=True, kw_only=True, slots=True)
class LastVerified:
    """When every entry was verified last, by whom, and what was found.

    Attributes:
        by: of a person or the command line, after "by" or "on".
        since: how many entries came after it; empty where none did.
    """

    is_sound: bool
    at: datetime
    by: str
    found: str
    since: str


def last_verified() -> LastVerified | None:
    """None where all of the ledger was never verified."""
    last = AuditEvent.objects.filter(action=AuditAction.VERIFY).select_related("actor").order_by("-pk").first()
    if last is None:
        return None
    since = LedgerEntry.objects.filter(made_at__gt=last.at).count()
    return LastVerified(
        is_sound=last.detail.endswith(NO_FAULT),
        at=last.at,
        by=f"by {last.actor}" if last.actor else "on the command line",
        found=last.detail,
        since=f"{since:,} {'entry' if since == 1 else 'entries'} since." if since else "",
    )


def ledger_row(entry: LedgerEntry) -> LedgerRow:
    granted = granted_by(entry)
    if granted is not None:
        epsilon, delta, rho = ("–" if each in ("", "0") else f"up to {each}" for each in granted)
    else:
        amounts = zip((entry.epsilon, entry.delta, entry.rho), decimal_amounts(entry), strict=True)
        epsilon, delta, rho = ("–" if units == 0 else text or "no such form" for units, text in amounts)
    return LedgerRow(
        budget=entry.budget.name,
        address=reverse("budget_detail", args=[entry.budget_id]),
        number=entry.sequence,
        what=entry.get_kind_display(),
        why=entry.detail.get("why", "") if granted is not None else "",
        release=(entry.release.title if entry.release is not None else "") or "–",
        actor=str(entry.actor),
        made_at=entry.made_at,
        epsilon=epsilon,
        delta=delta,
        rho=rho,
        is_whole=verification.is_whole(entry),
        hash=entry.hash[:12],
    )


def granted_by(entry: LedgerEntry) -> tuple[str, str, str] | None:
    """Epsilon, delta and rho, if any, that a grant set the budget to; None for every other entry."""
    # Grants of old say only what may be spent in the forms that are booked.
    if entry.kind != EntryKind.GRANT or "epsilon" not in entry.detail:
        return None
    rho = entry.detail["caps"].get("rho", 0)
    return entry.detail["epsilon"], entry.detail["delta"] or "0", _decimal(rho, EPSILON_PLACES) if rho else ""


def decimal_amounts(entry: LedgerEntry) -> list[str]:
    """What an entry adds as epsilon, delta and rho; empty where the release had no such form."""
    amounts = (entry.epsilon, EPSILON_PLACES), (entry.delta, DELTA_PLACES), (entry.rho, EPSILON_PLACES)
    return [_decimal(units, places) for units, places in amounts]


def _decimal(units: int, places: int) -> str:
    return "" if abs(units) >= CLOSED else decimal_text(Fraction(units, 10**places), places=places)
