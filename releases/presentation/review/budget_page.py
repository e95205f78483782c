"""One budget's page: its balance, what can be done about it, what it was spent on, and its ledger."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from django.contrib.auth.models import User
from django.core.paginator import Page, Paginator
from django.urls import reverse

from releases import services
from releases.engine.accounting.filters import Policy
from releases.engine.domain.schema import Schema
from releases.engine.workload.parsing import read_answered
from releases.forms.fields import POLICY_TITLES
from releases.ledger import audit_log, reports, verification
from releases.ledger.reports import BudgetBalance
from releases.ledger.verification import Fault
from releases.models import (
    SESSION,
    Audience,
    AuditAction,
    AuditEvent,
    Budget,
    LedgerEntry,
    Release,
    ReleaseRequest,
    ReleaseState,
)
from releases.models.stakes import what_separates
from releases.planning.comparison import questions_text
from releases.presentation.review.charges import ChargesByName, SpendingChart, charges_by_name, spending_chart
from releases.presentation.review.ledger_rows import LedgerRow, ledger_row
from releases.publication.receipt import protection_text
from releases.services.recognition import Match
from releases.services.restoring import MissingOfBudget

ENTRIES_LENGTH = 10
#: Entries that the curve shows; what came before is its beginning.
MAX_DRAWN = 20
#: Releases shown one by one, and questions read to say what one asks.
_MAX_RELEASED = 5
_MAX_READ = 2_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Freezing:
    """The button that freezes or unfreezes.

    Attributes:
        kind: its class in the style sheet.
        effect: what follows.
    """

    action: str
    title: str
    kind: str
    effect: str


_FREEZE = Freezing(
    action="freeze",
    title="Freeze",
    kind="danger",
    effect="Until it is unfrozen, no release can be charged, queued releases wait with their charge, and open sessions "
    "answer no new questions. What a worker has begun runs to its end.",
)
_UNFREEZE = Freezing(
    action="unfreeze",
    title="Unfreeze",
    kind="secondary",
    effect="Releases can be charged again, queued ones begin, and open sessions answer new questions.",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class LossFigure:
    """One statement of the privacy loss in all.

    Attributes:
        term: of the glossary; empty where its meaning was explained before.
        holds: when it holds; empty where the line before says so for this one too.
        lines: how many lines `holds` is for.
    """

    term: str
    title: str
    note: str
    states: str
    holds: str
    lines: int = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleasedRow:
    """A release that was charged: what was asked, for how much, why, and who can read it.

    Attributes:
        address: of its page, where everybody can read it; empty otherwise.
    """

    id: uuid.UUID
    title: str
    address: str
    dataset: str
    charged_at: datetime
    asked: str
    share: str
    cost: str
    actor: str
    reason: str
    readers: str


@dataclass(frozen=True, kw_only=True, slots=True)
class BudgetPage:
    """A budget for its reviewers.

    Attributes:
        tables: the titles of its tables, with their owners.
        balance: None before anything is granted.
        frozen: that it is frozen, and why; empty where it is not.
        missing: what the database does not know of it; None where nothing is.
        why_not_restore, why_not_unfreeze: why somebody else has to do it; empty where this person can, or nobody must.
        freezing: what this person can do about it; None where nothing.
        has_charges: something was charged; `losses` what that comes to, empty until it is worked out.
        is_sound: its ledger was verified just now, without faults.
        ledger: one page of `rows`.
    """

    name: str
    tables: str
    protection: str
    policy: str
    balance: BudgetBalance | None
    is_frozen: bool
    frozen: str
    missing: MissingOfBudget | None
    can_restore: bool
    why_not_restore: str
    why_not_unfreeze: str
    freezing: Freezing | None
    matches: tuple[Match, ...]
    losses: tuple[LossFigure, ...]
    spending: SpendingChart | None
    released: tuple[ReleasedRow, ...]
    charges: tuple[ChargesByName, ...]
    is_sound: bool
    faults: tuple[str, ...]
    ledger: Page[LedgerEntry]
    rows: tuple[LedgerRow, ...]


def budget_page(
    budget: Budget, *, by: User, may_decide: bool, number: str | None, wants_losses: bool, wants_verified: bool
) -> BudgetPage:
    """
    Args:
        by: who reads it; `may_decide` whether they may decide at all.
        number: of the page of its ledger.
        wants_losses: work out what the privacy loss is in all, which takes a while.
        wants_verified: read and price every entry of its ledger.
    """
    losses = privacy_losses(budget) if wants_losses else ()
    missing = services.restoring.missing_of(budget)
    # Of what can be decided here.
    stake = what_separates(by, budget) if may_decide and (missing or budget.is_frozen) else None
    barred = f"{stake.to_them}, so somebody else has to " if stake else ""
    entries = budget.entries.select_related("release", "actor")
    page = Paginator(entries.order_by("-sequence"), ENTRIES_LENGTH).get_page(number)
    faults = tuple(map(_fault, verification.verify(budget))) if wants_verified else ()
    tables = budget.datasets.select_related("owner").defer("declared", "columns").order_by("created_at")
    return BudgetPage(
        name=budget.name,
        tables=", ".join(f"{each.title} ({each.owner})" for each in tables),
        protection=protection_text(budget),
        policy=POLICY_TITLES[Policy(budget.policy)],
        balance=reports.standings([budget])[0] if budget.is_granted else None,
        is_frozen=budget.is_frozen,
        frozen=_frozen(budget) if budget.is_frozen else "",
        missing=missing,
        can_restore=missing is not None and may_decide and not barred,
        why_not_restore=f"{barred}book what is missing." if missing and barred else "",
        why_not_unfreeze=f"{barred}unfreeze it." if budget.is_frozen and barred else "",
        freezing=_freezing(budget, is_barred=bool(barred)) if may_decide else None,
        matches=tuple(services.recognition.recognised(budget, by=by, only_the_same=True)),
        losses=losses,
        spending=_spending(budget),
        released=tuple(_released(budget)),
        charges=charges_by_name(*reports.uses_of(budget)),
        is_sound=wants_verified and not faults,
        faults=faults,
        ledger=page,
        rows=tuple(map(ledger_row, page)),
    )


def _frozen(budget: Budget) -> str:
    reason = f" “{budget.frozen_reason}”" if budget.frozen_reason else ""
    return (
        f"Frozen: no release can be charged.{reason} Queued releases wait, and open sessions answer no new questions."
    )


def _freezing(budget: Budget, *, is_barred: bool) -> Freezing | None:
    if not budget.is_frozen:
        return _FREEZE
    return None if is_barred else _UNFREEZE


def privacy_losses(budget: Budget) -> tuple[LossFigure, ...]:
    """The sum that decides, and what everything charged comes to if it is composed afterwards."""
    tighter, standing = reports.tighter(budget), reports.standings([budget])[0]
    figures = [
        LossFigure(
            term="strict total",
            title="Strict total",
            note="",
            states=standing.strict,
            holds="however each release was chosen after the answers before it; this decides",
        )
    ]
    for each in tighter:
        is_first = each is tighter[0]
        figures.append(
            LossFigure(
                term="after the fact" if is_first else "",
                title="After the fact" if is_first else "After the fact, by another theorem",
                note=f"{each.name}; {each.source}",
                states=each.stated,
                holds="only had every release been fixed before the first; nothing is decided by it"
                if is_first
                else "",
                lines=len(tighter),
            )
        )
    if not tighter and standing.after_the_fact:
        figures.append(
            LossFigure(
                term="after the fact",
                title="After the fact",
                note="",
                states=standing.after_the_fact,
                holds="as a description of what was released; nothing is decided by it",
            )
        )
    return tuple(figures)


def _spending(budget: Budget) -> SpendingChart | None:
    """The chart of its latest charges."""
    points = reports.latest_steps(budget, most=MAX_DRAWN)
    # A line that begins with something used leaves out what came before.
    leaves_out = bool(points) and points[0].is_start and bool(points[0].used)
    return spending_chart(points, [budget], most=MAX_DRAWN if leaves_out else None)


def _fault(fault: Fault) -> str:
    return f"No. {fault.sequence}: {fault.what}" if fault.sequence else fault.what


def _released(budget: Budget) -> Iterator[ReleasedRow]:
    """The newest releases that were charged."""
    charged = LedgerEntry.objects.charges_that_stand().filter(budget=budget).defer("detail")
    newest = charged.select_related("actor", "release__dataset", "release__stored_result").order_by("-sequence")
    found = [(entry, entry.release) for entry in newest[:_MAX_RELEASED] if entry.release is not None]
    reasons = _reasons([release.pk for _, release in found])
    for entry, release in found:
        yield ReleasedRow(
            id=release.pk,
            title=release.title,
            address=reverse("release_detail", args=[release.pk]) if release.is_public else "",
            dataset=release.dataset.title,
            charged_at=entry.made_at,
            asked=_asked(release),
            share=reports.share_of_charge(budget, entry),
            cost=reports.charge_text(entry),
            actor=str(entry.actor),
            reason=reasons.get(release.pk, ""),
            readers=_readers(release),
        )


def _reasons(released: list[uuid.UUID]) -> dict[uuid.UUID, str]:
    """What was said with each release when it was asked for or submitted."""
    asked = ReleaseRequest.objects.filter(release__in=released).exclude(reason="").order_by("requested_at")
    reasons = dict(asked.values_list("release", "reason"))
    # Of those that needed no review: the log alone holds what was said with them.
    submitted = AuditEvent.objects.filter(action=AuditAction.SUBMIT, object_id__in=[str(pk) for pk in released])
    for number, detail in submitted.order_by("pk").values_list("object_id", "detail"):
        if said := detail.partition(audit_log.BEFORE_A_REASON)[2]:
            reasons[uuid.UUID(number)] = said
    return reasons


def _asked(release: Release) -> str:
    """What a release answers, in one line; nothing where its columns changed before it was run."""
    if release.kind is SESSION:
        return "a live session"
    if release.result is None:
        return ""
    receipt = release.result["receipt"]
    if len(receipt["workload"]["queries"]) > _MAX_READ:
        return f"{receipt['answers']:,} answers"
    return questions_text(read_answered(receipt["workload"], Schema.from_json(receipt["schema"]).universe))


def _readers(release: Release) -> str:
    if release.status is ReleaseState.WITHDRAWN:
        return "nobody any more: withdrawn"
    if release.status in (ReleaseState.OPEN, ReleaseState.CLOSING):
        return release.session.get_audience_display()
    if release.status is not ReleaseState.PUBLISHED:
        return f"nobody: {release.status.label}"
    if release.is_public:
        return "everybody: public"
    if release.kind is SESSION and release.session.audience == Audience.EVERYBODY:
        return "the dataset's people; what it answered, everybody who signs in"
    return "the dataset's people"
