"""Live sessions: planned, asked, and closed; opened as a release is, by submitting its draft."""

from __future__ import annotations

import uuid
from fractions import Fraction
from math import ceil, floor
from typing import Any

from django.http import HttpRequest
from ninja import Router, Schema, Status

from releases import services
from releases.api.answers import answer_of_plan, answer_of_release
from releases.engine.domain.privacy import decimal_text
from releases.engine.errors import InvalidInput
from releases.engine.mechanisms.live.noise import PARTS
from releases.models import Audience, Session
from releases.permissions import get_dataset_for, get_own_session_for, get_session_for, signed_in
from releases.planning import comparison
from releases.services.known_answers import KnownAnswer
from releases.services.session_questions import FreeAnswer, Offer
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
    workload: dict[str, Any] | None = None


class QuestionIn(Schema):
    query: dict[str, Any]
    within: int | None = None
    anyway: bool = False
    agreed: bool = True


class AudienceIn(Schema):
    audience: str


@router.post("/datasets/{uuid:dataset_id}/sessions", response={201: Any})
def draft_session(request: HttpRequest, dataset_id: uuid.UUID, asked: SessionIn) -> Any:
    """Plan a session: nothing is spent. It is submitted as a release, and opened by a worker under that one charge.

    What a `workload` asks is answered when it is opened; what follows from its answers costs nothing then.
    """
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
        listed=asked.workload,
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

    Say as `within` how many rows the answer may be off, where the session's own error is larger or smaller than needed;
    with `agreed` false you learn what such an answer takes, and it is not asked for yet. Where a finished release that
    you may read answers as closely, its answer is given and nothing of the session is used; `anyway` asks all the same.
    """
    live = get_session_for(request, release_id)
    answered = services.session_questions.answer_or_offer(
        session=live,
        plan=services.sessions.plan_of_session(live),
        query=asked.query,
        by=signed_in(request),
        within=asked.within,
        anyway=asked.anyway,
        agreed=asked.agreed,
    )
    if isinstance(answered, FreeAnswer):
        return _known(answered.answer)
    if isinstance(answered, Offer):
        return {"half_width": answered.price.half_width, "answered": "not yet", "takes": _share(answered.price.parts)}
    return {
        "number": answered.sequence,
        "estimate": answered.exchange.estimate,
        "half_width": answered.exchange.half_width,
        "answered": answered.exchange.kind.value,
        "takes": _share(answered.exchange.parts),
        "updates_left": answered.updates_left,
        "questions_left": answered.questions_left,
    }


def _known(found: KnownAnswer) -> dict[str, Any]:
    """The answer of a finished release, with the confidence of that."""
    estimate, lower, upper = round(found.estimate), floor(found.lower), ceil(found.upper)
    return {
        "estimate": estimate,
        "half_width": max(upper - estimate, estimate - lower),
        "answered": "by a finished release",
        "release": str(found.release.pk),
        "confidence": found.confidence,
        "takes": "0",
    }


def _share(parts: int) -> str:
    """A part of what a session can spend."""
    return decimal_text(Fraction(parts, PARTS), places=9)


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
