"""The state of a live session, which is a function of its transcript.

A process keeps the states of the sessions it has answered, so that a question reads only the answers that it has not
seen, rather than the whole transcript. The transcript remains the truth: a state is kept after its answer is committed,
and goes on only if the last answer that it has seen is still stored as it was. Answers are only ever added, so an equal
answer with its time means an equal history before it. Otherwise the whole transcript is replayed. The noisy threshold
is not kept: it is read with the session, under the lock of the question.
"""

from __future__ import annotations

import uuid
import zlib
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from threading import Lock

import numpy as np
from django.db import transaction
from numpy.typing import NDArray

from releases.engine.domain.universe import Universe
from releases.engine.mechanisms.live.listed import ListedPlan, ListedSession
from releases.engine.mechanisms.pmw.online import OnlinePlan, Opened
from releases.engine.mechanisms.pmw.session import AnswerKind, Exchange
from releases.engine.mechanisms.pmw.session import SessionUnderWay as LiveSession
from releases.engine.workload.queries import Family, read_count
from releases.models import Session, SessionAnswer, SessionCells

#: Cells of the universes of all kept states, 64 MB in a process. A session of more cells is replayed for each question.
MAX_KEPT_CELLS = 8_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class _Head:
    """The last answer that a state has seen, as it is stored."""

    pk: int
    sequence: int
    key: str
    kind: str
    estimate: int
    half_width: float
    sign: int
    parts: int
    asked_at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class _Kept:
    head: _Head
    live: LiveSession


#: The states of this process by session, the one used last at the end.
_kept: OrderedDict[uuid.UUID, _Kept] = OrderedDict()
_lock = Lock()


def replay(session: Session, plan: OnlinePlan) -> LiveSession:
    """The live session as its whole transcript leaves it."""
    opened = Opened(
        total=session.total,
        total_half_width=session.total_half_width,
        noisy_threshold=session.noisy_threshold,
        bought=_bought(session, plan),
    )
    return plan.resumed(
        opened, [_exchange(each, plan.schema.universe) for each in session.answers.order_by("sequence")]
    )


def store_bought(session: Session, live: LiveSession, plan: OnlinePlan) -> None:
    """Keep what a session bought when it was opened, if it bought something."""
    if live.bought is not None:
        content = live.bought.astype(plan.bought_as).tobytes()
        SessionCells.objects.create(session=session, compressed=zlib.compress(content))


def _bought(session: Session, plan: OnlinePlan) -> NDArray[np.float64] | NDArray[np.int64] | None:
    stored = SessionCells.objects.filter(session=session).first()
    return None if stored is None else np.frombuffer(zlib.decompress(bytes(stored.compressed)), dtype=plan.bought_as)


def bought_answers(session: Session, plan: OnlinePlan) -> list[tuple[Family, list[float], float]]:
    """The questions that were answered when it was opened, their answers, and what these are within; none of most."""
    live = replay(session, plan) if plan.answers_at_start else None
    if not isinstance(live, ListedSession):
        return []
    return [(family, np.maximum(each, 0.0).tolist(), width) for family, each, width in live.listed()]


def with_bought(session: Session, plan: OnlinePlan) -> OnlinePlan:
    """A session's plan with what is known of its answers since it was opened."""
    if not isinstance(plan, ListedPlan) or (bought := _bought(session, plan)) is None:
        return plan
    return plan.opened(bought.astype(np.float64))


def take(session: Session, plan: OnlinePlan) -> LiveSession:
    """The live session as its transcript leaves it, from what this process has kept where that still fits.

    Called under the session's lock. The state is no longer kept: if what follows fails, nobody goes on with it.
    """
    with _lock:
        kept = _kept.pop(session.pk, None)
    if kept is None or not _is_of(kept.live, session, plan):
        return replay(session, plan)
    answers = list(session.answers.filter(sequence__gte=kept.head.sequence).order_by("sequence"))
    if not answers or _head(answers[0]) != kept.head:
        return replay(session, plan)
    live = kept.live
    for answer in answers[1:]:
        live.record(_exchange(answer, live.universe))
    live.noisy_threshold = session.noisy_threshold
    return live


def keep(session: Session, live: LiveSession) -> None:
    """Keep a state for the next question, once the answers that it has seen are committed."""
    last = session.answers.order_by("sequence").last()
    if last is None or last.sequence != len(live.exchanges) or live.universe.size > MAX_KEPT_CELLS:
        return
    transaction.on_commit(lambda: _keep(session.pk, _Kept(head=_head(last), live=live)))


def forget() -> None:
    """Keep nothing: every next question replays its transcript."""
    with _lock:
        _kept.clear()


def _keep(number: uuid.UUID, kept: _Kept) -> None:
    kept.live.noisy_threshold = 0
    with _lock:
        other = _kept.pop(number, None)
        # A question answered after the commit may have kept its state first.
        _kept[number] = kept if other is None or other.head.sequence < kept.head.sequence else other
        while _cells(_kept.values()) > MAX_KEPT_CELLS:
            _kept.popitem(last=False)


def _cells(states: Iterable[_Kept]) -> int:
    return sum(each.live.universe.size for each in states)


def _is_of(live: LiveSession, session: Session, plan: OnlinePlan) -> bool:
    """Whether all that does not change in a session is as it was."""
    return (live.universe, live.rules, live.total, live.total_half_width) == (
        plan.schema.universe,
        plan.rules,
        session.total,
        session.total_half_width,
    )


def _head(answer: SessionAnswer) -> _Head:
    return _Head(**{name: getattr(answer, name) for name in _Head.__dataclass_fields__})


def _exchange(answer: SessionAnswer, universe: Universe) -> Exchange:
    return Exchange(
        query=read_count(answer.query, universe),
        kind=AnswerKind(answer.kind),
        estimate=answer.estimate,
        half_width=answer.half_width,
        sign=answer.sign,
        parts=answer.parts,
    )
