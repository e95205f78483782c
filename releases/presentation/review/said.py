"""What reviewers said of a request, on its own page and to the curator who asked."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from releases.models import BudgetRequest, Release, ReleaseRequest, ReleaseState, RequestState

_KINDS = {RequestState.APPROVED: "ok", RequestState.DENIED: "bad"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Said:
    """What a reviewer decided.

    Attributes:
        kind: the note's class in the style sheet.
        lead: what, and who; `at` when, None where nobody decided.
        then: what follows for the draft; empty where nothing does.
    """

    kind: str
    lead: str
    at: datetime | None
    note: str
    then: str = ""


def said_of(asked: BudgetRequest | ReleaseRequest) -> Said:
    epsilon = f", epsilon {asked.granted_epsilon}" if asked.granted_epsilon else ""
    who = f", by {asked.deciders}" if asked.decided_by else ""
    state = RequestState(asked.state)
    lead = f"{state.label.capitalize()}{epsilon}{who}"
    return Said(kind=_KINDS.get(state, ""), lead=lead, at=asked.decided_at if who else None, note=asked.note)


def said_first(asked: BudgetRequest | ReleaseRequest) -> Said:
    """Of two reviewers, the first."""
    lead = f"{asked.first_by} approved epsilon {asked.first_epsilon}"
    return Said(kind="wait", lead=lead, at=asked.first_at, note=asked.note)


def said_of_release(release: Release | None) -> Said | None:
    """What was said last of a release, to its curator; None where nothing was."""
    review = release.last_review if release is not None else None
    if release is None or review is None or review.decided_by is None:
        return None
    state = RequestState(review.state)
    is_approved = state is RequestState.APPROVED
    verbs = {RequestState.APPROVED: f"approved it with epsilon {review.granted_epsilon}"}
    verbs[RequestState.ASKED_BACK] = "returned it with a question"
    is_as_approved = is_approved and review.granted_epsilon == release.epsilon
    return Said(
        kind="ok" if is_approved else "wait",
        lead=f"{review.deciders} {verbs.get(state, f'{state.label} it')}",
        at=review.decided_at,
        note=review.note,
        then=_CONFIRM if is_as_approved and release.status is ReleaseState.DRAFT else "",
    )


_CONFIRM = "It is a draft again, with that epsilon. Confirmed with nothing else changed, it needs no further review."
