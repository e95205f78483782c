"""How a question reaches a session, from a page or from a program: what is known costs nothing, a price comes first.

1.  A finished release that the asker may read answers it closely enough: the session is not asked.
2.  Its answer would take a part of what the session can spend, and the asker has not agreed to that: it is offered.
3.  Else `sessions.ask_session` answers. Where rows may have been read and there is no answer, the session ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from releases.engine.mechanisms.pmw.online import OnlinePlan
from releases.engine.mechanisms.pmw.session import AnswerPrice
from releases.models import Session
from releases.services import session_closing
from releases.services.known_answers import KnownAnswer, known_in_session
from releases.services.sessions import Answered, Unanswered, ask_session, price_of

if TYPE_CHECKING:
    from django.contrib.auth.models import User


@dataclass(frozen=True, kw_only=True, slots=True)
class FreeAnswer:
    """A question that a finished release answers, and its answer."""

    query: Mapping[str, Any]
    within: int | None
    answer: KnownAnswer


@dataclass(frozen=True, kw_only=True, slots=True)
class Offer:
    """A question with the error that its asker can accept, and what the answer would take."""

    query: Mapping[str, Any]
    within: int
    price: AnswerPrice


def answer_or_offer(
    *,
    session: Session,
    plan: OnlinePlan,
    query: Mapping[str, Any],
    by: User,
    within: int | None,
    anyway: bool,
    agreed: bool,
) -> Answered | FreeAnswer | Offer:
    """The answer; or that of a finished release, where that is at least as near; or what an answer within the error
    that was asked for would take, until that is agreed to.

    Args:
        within: the error that the asker can accept, in rows; None for the session's own, whose price is always known.
        anyway: to ask the session though a finished release answers.
        agreed: to what the answer takes.

    Raises:
        As `sessions.ask_session`.
    """
    if not anyway:
        known = known_in_session(query, session=session, plan=plan, person=by, within=within)
        if known is not None:
            return FreeAnswer(query=query, within=within, answer=known)
    if within is not None and not agreed:
        price = price_of(session=session, query=query, within=within, by=by)
        if price is not None:
            return Offer(query=query, within=within, price=price)
    try:
        return ask_session(session=session, query=query, by=by, within=within)
    except Unanswered:
        session_closing.end_unanswered(session=session)
        raise
