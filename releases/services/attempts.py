"""What is on record of each attempt at a release: whether it came to opening the table.

    begin          with the claim, in its transaction
    about_to_open  committed before the table is opened, and only while the release is ours
    end            with what becomes of the attempt

A worker that has lost its release cannot say that it opens the table, so it does not open it: what was not opened
when an attempt was given up never is. A charge can be given back only by this record (`ledger.give_back`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import transaction
from django.utils import timezone

from releases.engine.errors import Cancelled
from releases.models import Attempt, Release, ReleaseState

if TYPE_CHECKING:
    import uuid


def begin(release_id: uuid.UUID | str, token: uuid.UUID) -> None:
    """Called inside the transaction of the claim."""
    Attempt.objects.create(release_id=release_id, token=token, started_at=timezone.now())


def about_to_open(release_id: uuid.UUID, token: uuid.UUID) -> None:
    """Record that the table is opened from here on. Committed when this returns.

    Raises:
        Cancelled: another worker holds the release now, or nobody does.
    """
    with transaction.atomic(durable=True):
        # Locks the release's row, so that nobody gives the attempt up meanwhile.
        held = Release.objects.filter(pk=release_id, state=ReleaseState.RUNNING, run_token=token)
        if held.update(step="In progress") != 1:
            raise Cancelled("another worker holds it")
        if Attempt.objects.filter(token=token).update(opened_at=timezone.now()) != 1:
            raise Cancelled("the attempt is not on record")


def end(token: uuid.UUID | None, *, failure: str = "") -> None:
    """Called inside the transaction that moves the release on.

    Args:
        failure: the kind of error; kept where the table was not opened alone, since later ones could follow from rows.
    """
    if token is None:
        return
    ours = Attempt.objects.filter(token=token)
    if failure:
        ours.filter(opened_at=None).update(failure=failure[:80])
        ours.filter(failure="").update(failure="failed")
    ours.update(ended_at=timezone.now())
