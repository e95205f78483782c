"""Closing a live session: asked for by a person, done by a worker, as a run is. Touches no data and spends nothing.

    close      open -> closing, under the lock of an answer: from then on nothing is asked, so nothing that a worker
               publishes can miss an answer
    claim      a closing session that no worker holds gets a token and a lease, by one filtered update; also while its
               budget is frozen, for closing spends nothing
    publish    closing with our token -> published, result and status in the same update
    end        as close, or failed where nothing was answered: once rows may have been read for a question that has no
               answer (see ``sessions.py``)
    give up    closing -> to a worker again, after a wait that is longer each time; after the last attempt open again,
               as if it had never been closed, and whoever asked for it is told

No way leads from here to a cancellation: the session was charged when it was opened, and has touched the data.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db import transaction
from django.db.models import F
from django.utils import timezone

from releases.engine.bounds.accuracy import Proof
from releases.engine.errors import EngineError
from releases.engine.estimation.result import Result, whole_universe
from releases.engine.mechanisms.base import Progress
from releases.engine.mechanisms.pmw.session import UpdateRules
from releases.engine.workload.queries import Workload
from releases.ledger import audit_log, high_water_marks, stale_ledger
from releases.models import AuditAction, Release, ReleaseState, Searchable, Session
from releases.notifications import messages
from releases.publication.search_index import searchable
from releases.services.planned_transactions import planned_atomically
from releases.services.release_inputs import Refusal
from releases.services.releases import enqueue
from releases.services.session_state import replay
from releases.services.sessions import UNANSWERED, plan_of_session
from releases.worker import leases

if TYPE_CHECKING:
    from django.contrib.auth.models import User


class NotTheFiles(EngineError):
    """A release was published with files that are gone or changed, so it cannot end as it did."""


@planned_atomically()
def close_session(*, session: Session, by: User | None = None, send: bool = True) -> Release:
    """End the asking, and have a worker publish what was answered, with synthetic rows from the public state.

    Args:
        send: False where the caller executes it itself and no worker need hear of it.

    Raises:
        Refusal: it is not open, or nothing was asked; or the database is behind what is remembered outside it.
        PlanChanged: this version of the software would not plan it as it was charged.
    """
    # The same lock as an answer's.
    locked = Session.objects.select_for_update().select_related("release").get(pk=session.pk)
    release = locked.release
    if release.status is ReleaseState.CLOSING:
        raise Refusal("The session is being closed already.")
    if release.status is not ReleaseState.OPEN:
        raise Refusal("The session is not open.")
    if why := stale_ledger.refusal(release.dataset.budget, and_release=release.pk):
        raise Refusal(why)
    if not _has_answers(locked):
        raise Refusal("Nothing was asked yet, so there is nothing to publish.")
    begin_closing(locked, by=by)
    release.refresh_from_db()
    if send:
        enqueue(release.pk)
    return release


def end_unanswered(*, session: Session) -> None:
    """End a session once rows may have been read for a question that has no answer: it asks nothing of the table any
    more. What it answered before is published; where that is nothing, it has failed. Its charge stays."""
    with transaction.atomic():
        locked = Session.objects.select_for_update().select_related("release__dataset").get(pk=session.pk)
        if locked.release.status is not ReleaseState.OPEN:
            pass
        elif _has_answers(locked):
            begin_closing(locked, by=None, why="a question could not be answered")
            messages.session_ended(locked, text=UNANSWERED)
            enqueue(locked.pk)
        else:
            Release.objects.filter(pk=locked.pk).update(state=ReleaseState.FAILED)
            locked.release.refresh_from_db()
            why = "its first question could not be answered"
            audit_log.record(AuditAction.FAIL, actor=None, on=locked.release, detail=why)
            messages.release_ended(locked.release)
    session.release.refresh_from_db()


def _has_answers(locked: Session) -> bool:
    return plan_of_session(locked).answers_at_start or locked.answers.exists()


def begin_closing(session: Session, *, by: User | None, why: str = "") -> None:
    """Leave a locked open session to a worker. Called inside a transaction."""
    release = session.release
    closed = Release.objects.filter(pk=release.pk, state=ReleaseState.OPEN).update(
        state=ReleaseState.CLOSING,
        run_token=None,
        lease_until=leases.next_hint(),
        step="Waiting for a worker",
        share_done=0.0,
    )
    if closed != 1:
        raise Refusal("The session is not open.")
    Session.objects.filter(pk=release.pk).update(closed_by=by, closing_attempts=0)
    audit_log.record(AuditAction.CLOSE, actor=by, on=release, detail=why)
    messages.session_closing(session)


def claim(release_id: uuid.UUID | str) -> uuid.UUID | None:
    """Take a session that is being closed and that no worker holds; None if there is nothing to take."""
    token = uuid.uuid4()
    with transaction.atomic():
        if _locked(release_id) is None:
            return None
        now = timezone.now()
        waiting = Release.objects.filter(leases.is_due(now), pk=release_id, state=ReleaseState.CLOSING, run_token=None)
        claimed = waiting.update(
            run_token=token,
            lease_until=now + timedelta(seconds=settings.LEASE_SECONDS),
            next_attempt_at=None,
            step="Starting",
            share_done=0.0,
        )
        if claimed != 1:
            return None
        Session.objects.filter(release__pk=release_id).update(closing_attempts=F("closing_attempts") + 1)
        high_water_marks.note_closing(uuid.UUID(str(release_id)), token)
    return token


def publish(release: Release, token: uuid.UUID, folder: Path, *, progress: Progress) -> bool:
    """Make the release of what a claimed session has answered; False where another worker holds it now."""
    from releases.engine.estimation.synthetic import synthetic_records
    from releases.engine.noise.randomness import OperatingSystemRandomness
    from releases.engine.run import ReleaseOutput as MadeRelease
    from releases.engine.run import rows_to_make
    from releases.publication import files

    progress("Going through the answers", 0.0)
    session = release.session
    if (before := high_water_marks.story(release.pk).published) is not None:
        # Its last moment was lost with a worker or a backup: it ends with the same files.
        return _publish(release, token, published_before(release, before), folder=before.folder, is_remembered=True)
    plan = plan_of_session(session)
    live = replay(session, plan)
    distribution = whole_universe(live.universe, live.agreeing())
    families, estimates, half_widths = zip(*live.released(), strict=True)
    asked = Workload(universe=live.universe, families=families)
    assert plan.expectation is not None
    result = Result(
        estimates=estimates,
        bound=replace(
            plan.expectation,
            half_widths=half_widths,
            proof=Proof.AFTER,
        ),
        total=float(live.total),
        distribution=distribution,
        most_rows=session.most_rows,
        notes={"questions asked": len(live.closest)}
        | ({"updates used": plan.rules.updates - live.updates_left} if isinstance(plan.rules, UpdateRules) else {}),
    )
    answered = replace(plan, workload=asked)
    progress("Making synthetic rows", 0.4)
    records = synthetic_records(
        live.universe, distribution, rows=rows_to_make(answered, result), rng=OperatingSystemRandomness()
    )
    progress("Writing files", 0.8)
    outcome = files.write(folder, release=release, made=MadeRelease(plan=answered, result=result, records=records))
    return _publish(release, token, outcome, folder=f"{release.pk}/{token}")


def _publish(
    release: Release, token: uuid.UUID, outcome: dict[str, Any], *, folder: str, is_remembered: bool = False
) -> bool:
    """Result and status in one compare-and-set, as of any release (see ``execution.py``)."""
    session = release.session
    written = None if is_remembered else as_published(folder, outcome)
    with transaction.atomic():
        now = timezone.now()
        _locked(release.pk)
        published = Release.objects.filter(pk=release.pk, state=ReleaseState.CLOSING, run_token=token).change(
            state=ReleaseState.PUBLISHED,
            result=outcome,
            folder=folder,
            published_at=now,
            lease_until=None,
            step="",
            share_done=1.0,
        )
        if published != 1:
            return False
        Searchable.objects.create(release_id=release.pk, text=searchable(outcome))
        Session.objects.filter(pk=release.pk).update(closed_at=now)
        release.refresh_from_db()
        audit_log.record(AuditAction.PUBLISH, actor=None, on=release, detail=audit_log.BY_A_WORKER)
        messages.release_ended(release, and_tell=session.closed_by)
        if written is not None:
            high_water_marks.note_published(release.pk, written)
    return True


def as_published(folder: str, outcome: Mapping[str, Any]) -> high_water_marks.Published:
    """With which files an attempt publishes a release: remembered outside the database as the last thing before the
    commit, when this worker has the row and no other can publish it."""
    from releases.publication import files

    return high_water_marks.Published(
        folder=folder, files=files.digests(Path(settings.RELEASES_DIR) / folder, outcome["files"])
    )


def published_before(release: Release, before: high_water_marks.Published) -> dict[str, Any]:
    """What the row held, from the files that are remembered as published.

    Raises:
        NotTheFiles: one is gone, or is not what it was.
    """
    from releases.publication import files

    outcome = files.read_again(Path(settings.RELEASES_DIR) / before.folder, release=release, digests=before.files)
    if outcome is None:
        raise NotTheFiles("The files with which it was published are gone or changed.")
    return outcome


def give_up(release_id: uuid.UUID | str, token: uuid.UUID | None, *, lapsed_before: datetime | None = None) -> bool:
    """Leave a closing to another worker, or, after the last attempt, let the session be open again.

    Args:
        token: of the worker that held it; None where none did, and the message was lost.
    """
    ours = Release.objects.filter(pk=release_id, state=ReleaseState.CLOSING, run_token=token)
    if lapsed_before is not None:
        ours = ours.filter(lease_until__lt=lapsed_before)
    with transaction.atomic():
        session = _locked(release_id)
        if session is None:
            return False
        if token is not None and session.closing_attempts >= settings.MAX_ATTEMPTS:
            if ours.update(state=ReleaseState.OPEN, run_token=None, lease_until=None, step="", share_done=1.0) != 1:
                return False
            audit_log.record(AuditAction.FAIL, actor=None, on=session.release, detail="closing it; it is open again")
            messages.session_not_closed(session)
            return True
        if token is not None:
            # When the wait is over, `reconcile` sends the message.
            again_at = timezone.now() + leases.wait_after(session.closing_attempts)
            step = "Waiting for another attempt"
            return ours.update(run_token=None, lease_until=again_at, next_attempt_at=again_at, step=step) == 1
        if ours.update(lease_until=leases.next_hint(), step="Waiting for a worker") != 1:
            return False
        enqueue(uuid.UUID(str(release_id)))
    return True


def reconcile(now: datetime) -> int:
    """Send again what killed workers and lost messages have left; returns how many closings were moved."""
    lapsed = Release.objects.filter(state=ReleaseState.CLOSING, lease_until__lt=now).values_list("pk", "run_token")
    return sum(give_up(release_id, token, lapsed_before=now) for release_id, token in lapsed)


def _locked(release_id: uuid.UUID | str) -> Session | None:
    """Whatever changes a session locks it before its release, as an answer does, so that no two wait for each other."""
    return Session.objects.select_for_update().filter(release__pk=release_id).first()
