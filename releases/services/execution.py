"""Running releases: claimed by one worker at a time, published once, under one charge.

The row is the truth and a task message only a hint, so a message may come twice, late or never:

    claim      queued (or lapsed) -> running, under a lease (see ``worker/leases.py``); not while the budget is frozen
    open       that the table is opened is on record before it is (see ``services/attempts.py``)
    publish    running with our token -> published, result and status in the same update
    fail       back to the queue, for longer each time; after the last attempt the release has failed. The charge stays,
               unless every attempt is on record as one that never opened the table: then it is given back
    reconcile  a lapsed lease fails; what is due again, or waited for its budget to be unfrozen, is sent again

A second attempt runs under the first charge: nothing of the first was visible. A plan that this version of the software
would make otherwise is not run: nothing was read, so the charge is given back and the curator is told to compare again.

Each step is remembered outside the database (``high_water_marks.py``), so that a restored backup runs nothing again:

    claimed    after it is on record that the table is opened, and before it is; a row that knows fewer attempts is not
               claimed, and nothing that was so claimed is given back
    published  with the files' SHA-256, as the last thing before the commit; from then on the release can only ever end
               with these very files: a later attempt publishes them as they are, or fails, and touches no data. So a
               worker killed just before its commit loses nothing, and fresh noise is never added to what may have been
               seen.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from releases.engine.accounting import accountant
from releases.engine.errors import Cancelled, EngineError
from releases.engine.mechanisms.base import Plan, PlanChanged, plan_from_json
from releases.engine.mechanisms.measured_error import NUMBER
from releases.ledger import audit_log, high_water_marks, ledger, stale_ledger
from releases.models import (
    CERTIFICATE,
    CHECK,
    HELD_BY_A_WORKER,
    LOST,
    PLAIN,
    SESSION,
    AuditAction,
    Ending,
    EntryKind,
    LedgerEntry,
    Release,
    ReleaseKind,
    ReleaseState,
    Searchable,
)
from releases.notifications import messages
from releases.publication.search_index import searchable
from releases.services import attempts, reading, session_closing, stored_tables
from releases.services.certificates import with_published
from releases.services.connections import Unavailable
from releases.services.datasets import refuse_public_total
from releases.services.releases import enqueue
from releases.worker import leases
from releases.worker.failures import log_failure

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from releases.services.stored_tables import StoredTable

logger = logging.getLogger(__name__)


class PriceMismatch(PlanChanged):
    """A stored plan does not cost what was charged for it, so it must not run."""


def execute_release(*, release_id: uuid.UUID | str) -> bool:
    """Run a queued release and publish its result, or open its session, or publish what a session that is being closed
    has answered. Returns whether this call did.

    Called twice, by two workers, or for a release in any other state, it does nothing the second time. Nor does it
    while the database is behind what is remembered outside it: the release waits for a reviewer.
    """
    if is_behind(release_id):
        return False
    token = _claim(release_id) or session_closing.claim(release_id)
    if token is None:
        return False
    release = Release.objects.select_related("dataset__budget").get(pk=release_id)
    folder = Path(settings.RELEASES_DIR) / str(release.pk) / str(token)
    try:
        with leases.heartbeat(_held(release.pk, token), what=f"release {release.pk}"):
            published = _execute(release, token, folder)
    except Cancelled:
        published = False
    except Exception as error:  # noqa: BLE001  every failure path gives one constant outcome
        log_failure(logger, f"release {release.pk}", error)
        _tidy_up(release, folder)
        is_asked_about = isinstance(error, PlanChanged) and _ask_about(release.pk, token)
        if not is_asked_about and not session_closing.give_up(release.pk, token):
            _fail(release.pk, token, failure=type(error).__name__)
        return False
    if not published:
        _tidy_up(release, folder)
    return published


def _execute(release: Release, token: uuid.UUID, folder: Path) -> bool:
    """What a claimed release waits for, by its state and kind; False where another worker holds it now."""
    if release.status is ReleaseState.CLOSING:
        progress = leases.LeaseProgress(_held(release.pk, token))
        return session_closing.publish(release, token, folder, progress=progress)
    return _EXECUTORS[release.kind].carry_out(release, token, folder)


def _publish_once(release: Release, token: uuid.UUID, folder: Path) -> bool:
    """Publish the one result that a release ever has: what is remembered as published, or what an attempt made and
    could not publish, or else what is computed now."""
    from releases.publication import files

    if (before := high_water_marks.story(release.pk).published) is not None:
        outcome = session_closing.published_before(release, before)
        return _publish(release.pk, token, outcome, folder=before.folder, is_remembered=True)
    if (made := files.made_before(release)) is not None:
        return _publish(release.pk, token, made[1], folder=made[0])
    return _publish(release.pk, token, _run(release, token, folder), folder=f"{release.pk}/{token}")


def is_behind(release_id: uuid.UUID | str) -> bool:
    """Whether more is remembered of a release, its budget or the installation than the database knows."""
    release = Release.objects.filter(pk=release_id).select_related("dataset__budget").first()
    return release is not None and bool(stale_ledger.refusal(release.dataset.budget, and_release=release.pk))


def _tidy_up(release: Release, folder: Path) -> None:
    """After an attempt that has published nothing: its folder goes where it was not complete, and what may have been
    seen stays. What is complete waits for the next attempt, which publishes it; once another folder is published, and
    after a closing, which can be made again from what is public, it goes too."""
    from releases.publication import files

    is_waited_for = Release.objects.filter(
        pk=release.pk, state__in=(ReleaseState.QUEUED, ReleaseState.RUNNING)
    ).exists()
    if is_waited_for and files.is_complete(folder):
        return
    try:
        may_have_been_seen = f"{release.pk}/{folder.name}" in high_water_marks.story(release.pk).folders
    except high_water_marks.Unreadable:
        return
    if not may_have_been_seen:
        files.remove(folder)


def reconcile() -> int:
    """Put right what killed workers and lost messages have left; returns how many releases were moved."""
    now = timezone.now()
    moved = leases.hint_again(Release.objects.filter(state=ReleaseState.QUEUED).not_frozen(), enqueue)
    lapsed = Release.objects.filter(state=ReleaseState.RUNNING, lease_until__lt=now).values_list("pk", "run_token")
    for release_id, token in lapsed:
        moved += _fail(release_id, token, failure=LOST, lapsed_before=now)
    return moved + session_closing.reconcile(now)


def _held(release_id: uuid.UUID, token: uuid.UUID | None) -> QuerySet[Release]:
    """The release while the worker with this token runs or closes it."""
    return Release.objects.filter(pk=release_id, state__in=HELD_BY_A_WORKER, run_token=token)


def _claim(release_id: uuid.UUID | str) -> uuid.UUID | None:
    """Take a queued release; None if there is nothing to take."""
    claimable = Release.objects.filter(
        pk=release_id, state=ReleaseState.QUEUED, attempts__lt=settings.MAX_ATTEMPTS
    ).not_frozen()
    with transaction.atomic():
        token = leases.claim(claimable, running=ReleaseState.RUNNING)
        if token is not None:
            attempts.begin(release_id, token)
    return token


def _run(release: Release, token: uuid.UUID, folder: Path) -> dict[str, Any]:
    """Compute, write the files, and return what the row will hold."""
    from releases.publication import files

    plan, table = _ready(release, token)
    made = reading.run_plan(plan, table.location, progress=leases.Held(_held(release.pk, token)))
    table.refuse_if_changed()
    return files.write(folder, release=release, made=made)


def _open(release: Release, token: uuid.UUID, _: Path) -> bool:
    """Open a session."""
    from releases.engine.mechanisms.pmw.online import OnlinePlan
    from releases.services.sessions import open_session

    plan, table = _ready(release, token)
    assert isinstance(plan, OnlinePlan)
    live = reading.open_session(plan, table.location)
    table.refuse_if_changed()
    return open_session(release=release, token=token, live=live)


def _ready(release: Release, token: uuid.UUID) -> tuple[Plan, StoredTable]:
    """The charged plan and the table that it may be run on."""
    plan = _EXECUTORS[release.kind].completed(release, _charged_plan(release))
    # The mark of this charge, and that this attempt began, are on disc before any data are touched.
    assert release.dataset.budget is not None
    ledger.remember(release.dataset.budget)
    refuse_public_total(release.dataset, plan.schema.neighbours)
    # A file or a database that is away, or another than was stored, is found here.
    table = stored_tables.checked(release.dataset, plan.schema)
    attempts.about_to_open(release.pk, token)
    if release.certifies_id is not None:
        high_water_marks.note_certificate(release.certifies_id, plan.options[NUMBER.name])
    high_water_marks.note_claim(release.pk, release.attempts, token)
    return plan, table


def _as_charged(_: Release, plan: Plan) -> Plan:
    return plan


def _with_published(release: Release, plan: Plan) -> Plan:
    """A certificate compares with the files that were published."""
    assert release.certifies is not None
    return with_published(plan, of=release.certifies)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Executor:
    """How a kind of release is carried out once it is claimed.

    Attributes:
        carry_out: run it under a token, with a folder for its files; False where another worker holds it now.
        completed: the charged plan with what a run reads beside the table.
    """

    carry_out: Callable[[Release, uuid.UUID, Path], bool] = _publish_once
    completed: Callable[[Release, Plan], Plan] = _as_charged


_EXECUTORS: dict[ReleaseKind, _Executor] = {
    PLAIN: _Executor(),
    SESSION: _Executor(carry_out=_open),
    CERTIFICATE: _Executor(completed=_with_published),
    CHECK: _Executor(),
}


def _charged_plan(release: Release) -> Plan:
    """The stored plan, made again, and seen to cost what was charged and to protect what the budget promises.

    Raises:
        PlanChanged: this version of the software would not make it so.
        AnotherProtection: the budget promises something else; no data were touched.
    """
    charged = LedgerEntry.objects.get(release=release, kind=EntryKind.CHARGE)
    try:
        plan = plan_from_json(release.plan or {})
        price = accountant.price(plan.events, delta=plan.delta, neighbours=plan.schema.neighbours)
    except EngineError as error:
        raise PlanChanged("The stored plan cannot be made again.") from error
    if price.to_json() != charged.detail["price"]:
        raise PriceMismatch("The plan's price is not what was charged.")
    ledger.check_protection(charged.budget, unit=plan.schema.unit, neighbours=plan.schema.neighbours)
    return plan


def _publish(
    release_id: uuid.UUID, token: uuid.UUID, outcome: dict[str, Any], *, folder: str, is_remembered: bool = False
) -> bool:
    """Result and status in one compare-and-set, and in its transaction by which words it is found.

    Args:
        folder: of the files, below the releases.
        is_remembered: whether they are on record as published before.
    """
    written = None if is_remembered else session_closing.as_published(folder, outcome)
    with transaction.atomic():
        published = Release.objects.filter(pk=release_id, state=ReleaseState.RUNNING, run_token=token).change(
            state=ReleaseState.PUBLISHED,
            result=outcome,
            folder=folder,
            published_at=timezone.now(),
            lease_until=None,
            step="",
            share_done=1.0,
        )
        if published == 1:
            attempts.end(token)
            Searchable.objects.create(release_id=release_id, text=searchable(outcome))
            _record(AuditAction.PUBLISH, release_id)
            if written is not None:
                high_water_marks.note_published(release_id, written)
    if published == 1:
        _remove_other_attempts(release_id, folder)
    return published == 1


def _remove_other_attempts(release_id: uuid.UUID, folder: str) -> None:
    """Folders that lapsed attempts have left, once one is published."""
    from releases.publication import files

    try:
        files.remove_others(release_id, kept={folder, *high_water_marks.story(release_id).folders})
    except (high_water_marks.Unreadable, OSError) as error:
        logger.warning("release %s: other attempts' folders are left (%s)", release_id, type(error).__name__)


def _record(action: AuditAction, release_id: uuid.UUID) -> None:
    release = Release.objects.select_related("submitted_by").get(pk=release_id)
    audit_log.record(action, actor=None, on=release, detail=audit_log.BY_A_WORKER)
    messages.release_ended(release)


def _fail(
    release_id: uuid.UUID, token: uuid.UUID | None, *, failure: str = "failed", lapsed_before: Any = None
) -> bool:
    """Give an attempt up: back to those that wait, or failed for good after the last one.

    Args:
        failure: the kind of error.
    """
    ours = _held(release_id, token).filter(state=ReleaseState.RUNNING)
    if lapsed_before is not None:
        ours = ours.filter(lease_until__lt=lapsed_before)
    with transaction.atomic():
        state = leases.give_up(ours, waiting=ReleaseState.QUEUED, failed=ReleaseState.FAILED)
        if state is not None:
            attempts.end(token, failure=failure)
        if state == ReleaseState.FAILED:
            because = Ending.AWAY if failure == Unavailable.__name__ else Ending.NOTHING_READ
            _give_back_if_nothing_was_read(release_id, because)
            _record(AuditAction.FAIL, release_id)
    return state is not None


def _ask_about(release_id: uuid.UUID, token: uuid.UUID) -> bool:
    """End a release whose plan the software would make otherwise now, and give its charge back; False where an earlier
    attempt may have read something, or it is not ours."""
    if stale_ledger.begun(release_id):
        return False
    ours = Release.objects.filter(pk=release_id, state=ReleaseState.RUNNING, run_token=token).that_read_nothing()
    with transaction.atomic():
        ended = ours.update(
            state=ReleaseState.CANCELLED, run_token=None, lease_until=None, step="", ended_because=Ending.PLAN_CHANGED
        )
        if ended != 1:
            return False
        attempts.end(token, failure=PlanChanged.__name__)
        _give_back_if_nothing_was_read(release_id, Ending.PLAN_CHANGED)
        _record(AuditAction.CANCEL, release_id)
    return True


def _give_back_if_nothing_was_read(release_id: uuid.UUID, because: Ending) -> None:
    """Called inside the transaction that ended the release."""
    if stale_ledger.begun(release_id):
        return
    unread = Release.objects.filter(pk=release_id).that_read_nothing()
    charged = LedgerEntry.objects.charges_that_stand().filter(release=release_id).select_related("actor").first()
    if charged is not None and unread.update(ended_because=because) == 1:
        ledger.give_back(release=Release.objects.get(pk=release_id), actor=charged.actor)
        # On disc before the commit: a backup from before must not run it, nor give it back a second time.
        high_water_marks.note_cancelled(release_id)
