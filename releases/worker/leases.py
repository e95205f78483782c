"""Work that one worker at a time holds, whatever becomes of messages and workers.

The row is the truth and a message only a hint. A row of such work has a state, `run_token`, `lease_until`, `attempts`,
`next_attempt_at`, `started_at`, `step` and `share_done`, and goes through these:

    hint        a message after the commit; a lost one is sent again
    claim       one filtered update sets a fresh token and a lease, so of two workers one has it
    heartbeat   extends the lease while the token is still ours
    give_up     back to those that wait, or failed for good after the last attempt; also where a lease has lapsed

What has failed is not claimed again before `next_attempt_at`; then a round of a worker sends its message. Nobody sleeps
meanwhile: a disc that is full, or a file that is away, has the time to come back.
"""

from __future__ import annotations

import logging
import secrets
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from time import monotonic
from typing import Any

from celery import current_app
from django.conf import settings
from django.db import connection, transaction
from django.db.models import F, Q, QuerySet
from django.utils import timezone

from releases.engine.errors import Cancelled

logger = logging.getLogger(__name__)

#: Progress is written at most this often.
_PROGRESS_SECONDS = 0.5
#: Each wait before another attempt is so many times the one before it.
_LONGER_EACH_TIME = 4
#: Up to this part of a wait is added at random, so that what failed together does not come back together.
_MAX_JITTER = 0.25
#: For so long a request waits for the broker to take a message.
_BROKER_SECONDS = 1.0


def next_hint() -> datetime:
    """When a message that nobody took is sent again."""
    return timezone.now() + timedelta(seconds=2 * settings.LEASE_SECONDS)


def wait_after(attempts: int) -> timedelta:
    """How long to wait after so many attempts have failed. It depends on their number and on chance alone."""
    seconds = min(settings.RETRY_SECONDS * _LONGER_EACH_TIME ** (attempts - 1), settings.MAX_RETRY_SECONDS)
    return timedelta(seconds=seconds * (1 + _MAX_JITTER * secrets.SystemRandom().random()))


def is_due(now: datetime) -> Q:
    """What may be attempted now, or never was."""
    return Q(next_attempt_at=None) | Q(next_attempt_at__lte=now)


def hint(task: str, **ids: str) -> None:
    """Tell a worker after the commit. A lost message is sent again by `hint_again`.

    The broker's client tries again and again, so a broker that is away is given a moment and no more: the row says
    that it waits, and whoever submitted it does not.
    """

    def send() -> None:
        sending = threading.Thread(target=say, name="hint", daemon=True)
        sending.start()
        sending.join(_BROKER_SECONDS)
        if sending.is_alive():
            logger.warning("broker silent for %s s; %s %s stays queued", _BROKER_SECONDS, task, " ".join(ids.values()))

    def say() -> None:
        try:
            current_app.send_task(task, kwargs=ids, retry=False)
        except Exception as error:  # noqa: BLE001  whatever the broker's client raises when it cannot be reached
            which = f"{task} {' '.join(ids.values())}"
            logger.warning("broker unreachable (%s); %s stays queued", type(error).__name__, which)

    transaction.on_commit(send)


def hint_again(waiting: QuerySet[Any], send: Callable[[uuid.UUID], None]) -> int:
    """Send again what has waited too long; returns how many."""
    now, sent = timezone.now(), 0
    overdue = waiting.filter(lease_until__lt=now)
    for key in overdue.values_list("pk", flat=True):
        with transaction.atomic():
            if overdue.filter(pk=key).update(lease_until=next_hint()) == 1:
                send(key)
                sent += 1
    return sent


def claim(claimable: QuerySet[Any], *, running: str) -> uuid.UUID | None:
    """Take the one row that can be taken; None if there is none."""
    token, now = uuid.uuid4(), timezone.now()
    claimed = claimable.filter(is_due(now)).update(
        state=running,
        run_token=token,
        started_at=now,
        lease_until=now + timedelta(seconds=settings.LEASE_SECONDS),
        attempts=F("attempts") + 1,
        next_attempt_at=None,
        step="Starting",
        share_done=0.0,
    )
    return token if claimed == 1 else None


def give_up(ours: QuerySet[Any], *, waiting: str, failed: str) -> str | None:
    """Back to those that wait, or failed after the last attempt: the state it is in now, None if it was not ours."""
    if ours.filter(attempts__gte=settings.MAX_ATTEMPTS).update(state=failed, run_token=None, lease_until=None, step=""):
        return failed
    attempts = ours.values_list("attempts", flat=True).first()
    if attempts is None:
        return None
    again_at = timezone.now() + wait_after(attempts)
    # The message is sent when the wait is over (`hint_again`).
    moved = ours.update(
        state=waiting,
        run_token=None,
        lease_until=again_at,
        next_attempt_at=again_at,
        step="Waiting for another attempt",
    )
    return waiting if moved else None


class LeaseProgress:
    """Writes step and share to the row, seldom, and stops work whose lease was lost. For work of which both are known
    to whoever sees them: an upload, to its owner; a closing, which touches no data."""

    def __init__(self, ours: QuerySet[Any]) -> None:
        self.ours = ours
        self.written_at = 0.0
        self.share = 0.0

    def __call__(self, step: str, share: float) -> None:
        if monotonic() - self.written_at < _PROGRESS_SECONDS:
            return
        self.written_at = monotonic()
        self.share = min(max(share, self.share), 1.0)
        if self.ours.update(step=step, share_done=self.share, **self.beside()) != 1:
            raise Cancelled("another worker holds it")

    def beside(self) -> dict[str, Any]:
        """What else is written."""
        return {}


class Held:
    """Stops work whose lease was lost, and writes nothing: how far work on rows is tells how long its steps take."""

    def __init__(self, ours: QuerySet[Any]) -> None:
        self.ours = ours
        self.asked_at = 0.0

    def __call__(self, step: str, share: float) -> None:
        if monotonic() - self.asked_at < _PROGRESS_SECONDS:
            return
        self.asked_at = monotonic()
        if not self.ours.exists():
            raise Cancelled("another worker holds it")


@contextmanager
def heartbeat(ours: QuerySet[Any], *, what: str) -> Iterator[None]:
    """Extend the lease from a thread of its own while the body runs."""
    stop = threading.Event()

    def beat() -> None:
        while not stop.wait(settings.HEARTBEAT_SECONDS):
            try:
                ours.update(lease_until=timezone.now() + timedelta(seconds=settings.LEASE_SECONDS))
            except Exception as error:  # noqa: BLE001  a database that is away may be back at the next beat
                logger.warning("heartbeat of %s failed (%s)", what, type(error).__name__)
                connection.close()
        connection.close()

    thread = threading.Thread(target=beat, name=f"heartbeat of {what}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
