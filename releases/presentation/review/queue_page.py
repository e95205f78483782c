"""The reviewer's queue: requests that wait for a decision, and what was decided recently."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.urls import reverse

from releases.ledger import record
from releases.models import BudgetRequest, ReleaseRequest, RequestState

#: Shown of each kind; the oldest wait longest and come first.
_MOST = 50
_HISTORY_LENGTH = 20

#: Of each decision, the class of its chip and its words.
_CHIPS = {
    RequestState.APPROVED: ("ok", "✓ approved"),
    RequestState.DENIED: ("bad", "✕ denied"),
    RequestState.WAITING: ("wait", "◔ awaiting review"),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class RequestRow:
    """One request.

    Attributes:
        dataset: of a release, what it is from; empty of a budget.
        is_half_approved: the first of two reviewers has approved it.
        amounts: the epsilon and delta asked for.
        granted: what was approved; empty where nothing was.
        decision: of a decided one, what its chip says; `decision_kind` the chip's class.
    """

    title: str
    address: str
    kind: str
    dataset: str
    is_half_approved: bool
    amounts: str
    asked_by: str
    asked_at: datetime
    decision: str
    decision_kind: str
    granted: str
    decided_by: str
    decided_at: datetime | None


@dataclass(frozen=True, kw_only=True, slots=True)
class QueuePage:
    """What reviewers have to decide.

    Attributes:
        installation_waits: the whole installation waits for a decision first.
        not_shown: how many more wait; empty where all are shown.
    """

    installation_waits: bool
    requests: tuple[RequestRow, ...]
    not_shown: str
    decided: tuple[RequestRow, ...]


def queue_page() -> QueuePage:
    budgets, releases = BudgetRequest.objects.for_review(), ReleaseRequest.objects.for_review()
    waiting = budgets.count() + releases.count()
    shown = _oldest_first([*budgets[:_MOST], *releases[:_MOST]])
    decided = [*BudgetRequest.objects.for_history()[:_HISTORY_LENGTH]]
    decided += ReleaseRequest.objects.for_history()[:_HISTORY_LENGTH]
    decided.sort(key=lambda asked: asked.decided_at, reverse=True)
    return QueuePage(
        installation_waits=bool(record.look().fault),
        requests=tuple(map(_row, shown)),
        not_shown=f"{waiting - len(shown):,}" if waiting > len(shown) else "",
        decided=tuple(map(_row, decided[:_HISTORY_LENGTH])),
    )


def requests_waiting(most: int) -> tuple[list[RequestRow], int]:
    """The requests that have waited longest, and how many wait."""
    budgets, releases = BudgetRequest.objects.for_review(), ReleaseRequest.objects.for_review()
    shown = _oldest_first([*budgets[:most], *releases[:most]])[:most]
    return [_row(each) for each in shown], budgets.count() + releases.count()


def _oldest_first(requests: list[BudgetRequest | ReleaseRequest]) -> list[BudgetRequest | ReleaseRequest]:
    return sorted(requests, key=lambda asked: asked.requested_at)


def _row(asked: BudgetRequest | ReleaseRequest) -> RequestRow:
    amounts = f"epsilon {asked.epsilon}"
    if isinstance(asked, BudgetRequest):
        title, kind, dataset, page, most = asked.budget.name, "budget", "", "budget_request", ""
    else:
        release = asked.release
        title, kind, dataset = release.title, release.kind.noun, release.dataset.title
        page, most = "release_request", " at most"
    if asked.delta != "0":
        amounts += f", delta {asked.delta}{most}"
    state = RequestState(asked.state)
    decision_kind, decision = _CHIPS.get(state, ("", f"↩ {state.label}"))
    return RequestRow(
        title=title,
        address=reverse(page, args=[asked.pk]),
        kind=kind,
        dataset=dataset,
        is_half_approved=asked.first_by_id is not None,
        amounts=amounts,
        asked_by=str(asked.requested_by),
        asked_at=asked.requested_at,
        decision=decision,
        decision_kind=decision_kind,
        granted=f"epsilon {asked.granted_epsilon}" if asked.granted_epsilon else "",
        decided_by=asked.deciders if asked.decided_at is not None else "",
        decided_at=asked.decided_at,
    )
