"""Sessions in a list."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from django.urls import reverse

from releases.models import ReleaseState, Session


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionRow:
    """One session; `chip` says whether it answers, and `chip_kind` is the chip's class."""

    title: str
    address: str
    dataset: str
    chip: str
    chip_kind: str
    epsilon: str
    opened_at: datetime


def session_rows(sessions: Iterable[Session]) -> tuple[SessionRow, ...]:
    """
    Args:
        sessions: with `may_ask`, as `for_list` annotates it.
    """
    return tuple(_row(each) for each in sessions)


def _row(session: Session) -> SessionRow:
    chip_kind, chip = session_chip(session, may_ask=session.may_ask)  # type: ignore[attr-defined]
    return SessionRow(
        title=session.release.title,
        address=reverse("session", args=[session.pk]),
        dataset=session.release.dataset.title,
        chip=chip,
        chip_kind=chip_kind,
        epsilon=session.release.epsilon,
        opened_at=session.opened_at,
    )


def session_chip(session: Session, *, may_ask: bool = True) -> tuple[str, str]:
    """Whether it answers: the class of a chip, and what it says."""
    state = session.release.status
    if state is ReleaseState.CLOSING:
        return "wait", "◔ closing"
    if state is not ReleaseState.OPEN:
        return "", "○ closed"
    if session.used_up_at:
        return "wait", "■ used up"
    return ("ok", "✓ open") if may_ask else ("", "○ open to others")
