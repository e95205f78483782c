"""Live sessions: planned, asked, and closed; opened as a release is, by submitting its draft."""

from __future__ import annotations

import uuid
from typing import Any

from django.http import HttpRequest
from ninja import Router, Schema, Status

from releases import services
from releases.api.answers import answer_of_plan, answer_of_release
from releases.engine.domain.privacy import decimal_text
from releases.engine.errors import InvalidInput
from releases.models import Audience, Session
from releases.permissions import get_dataset_for, get_own_session_for, get_session_for, signed_in
from releases.planning import comparison
from releases.views.sessions.sessions import transcript

router = Router()


class SessionIn(Schema):
    epsilon: str
    delta: str = "0"
    beta: str = "0.05"
    options: dict[str, Any] = {}
    columns: list[str] = []
    title: str = ""
    way: str = ""


class QuestionIn(Schema):
    query: dict[str, Any]
    within: int | None = None


class AudienceIn(Schema):
    audience: str


@router.post("/datasets/{uuid:dataset_id}/sessions", response={201: Any})
def draft_session(request: HttpRequest, dataset_id: uuid.UUID, asked: SessionIn) -> Any:
    """Plan a session: nothing is spent. It is submitted as a release, and opened by a worker under that one charge."""
    dataset = get_dataset_for(request, dataset_id)
    release = services.sessions.draft_session(
        dataset=dataset,
        by=signed_in(request),
        title=asked.title,
        epsilon=asked.epsilon,
        delta=asked.delta,
        beta=asked.beta,
        options=asked.options,
        columns=asked.columns,
        way=asked.way,
    )
    plans = comparison.compared([services.releases.plan_of(release=release)], budget=dataset.budget)
    return Status(201, {**answer_of_release(request, release), "plans": [answer_of_plan(row) for row in plans]})


@router.get("/sessions/{uuid:release_id}")
def show_session(request: HttpRequest, release_id: uuid.UUID) -> Any:
    """How many questions and updates are left."""
    return _session(get_session_for(request, release_id))


@router.post("/sessions/{uuid:release_id}/questions")
def ask_session(request: HttpRequest, release_id: uuid.UUID, asked: QuestionIn) -> Any:
    """Ask how many rows meet a condition, as in the workload format. Asking costs nothing more.

    Say as `within` how many rows the answer may be off, where the session's own error is larger or smaller than needed.
    """
    live = get_session_for(request, release_id)
    answered = services.sessions.ask_session(
        session=live, query=asked.query, by=signed_in(request), within=asked.within
    )
    return {
        "number": answered.sequence,
        "estimate": answered.exchange.estimate,
        "half_width": answered.exchange.half_width,
        "answered": answered.exchange.kind.value,
        "updates_left": answered.updates_left,
        "questions_left": answered.questions_left,
    }


@router.put("/sessions/{uuid:release_id}/audience")
def set_audience(request: HttpRequest, release_id: uuid.UUID, wanted: AudienceIn) -> Any:
    """Say who may ask."""
    live = get_own_session_for(request, release_id)
    if wanted.audience not in Audience.values:
        raise InvalidInput("audience", wanted.audience, f"must be one of {', '.join(Audience.values)}")
    services.sessions.let_ask(session=live, audience=Audience(wanted.audience), by=signed_in(request))
    live.refresh_from_db()
    return _session(live)


@router.post("/sessions/{uuid:release_id}/close")
def close_session(request: HttpRequest, release_id: uuid.UUID) -> Any:
    """End the asking. The session is closing until a worker has published what was answered; follow it as a release."""
    live = get_own_session_for(request, release_id)
    return answer_of_release(request, services.session_closing.close_session(session=live, by=signed_in(request)))


@router.get("/sessions/{uuid:release_id}/transcript")
def show_transcript(request: HttpRequest, release_id: uuid.UUID) -> Any:
    """Every question and answer so far."""
    services.sessions.plan_of_session(get_session_for(request, release_id))
    return transcript(request, release_id, form="json")


def _session(live: Session) -> dict[str, Any]:
    standing = services.sessions.standing(live, services.sessions.plan_of_session(live))
    return {
        "id": str(live.pk),
        "title": live.release.title,
        "state": live.release.state,
        "audience": live.audience,
        "questions": standing.questions,
        "questions_left": standing.questions_left,
        "updates": standing.updates,
        "updates_left": standing.updates_left,
        "share_left": None if standing.share_left is None else decimal_text(standing.share_left, places=9),
        "over": standing.over,
    }
