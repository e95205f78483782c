"""Running releases: claimed by one worker at a time, published once, under one charge.

The row is the truth and a task message only a hint, so a message may come twice, late or never:

    claim      queued (or lapsed) -> running, under a lease (see ``leases.py``); not while the budget is frozen
    publish    running with our token -> published, result and status in the same update
    reconcile  a lapsed lease goes back to the queue; after three attempts the release has failed and the charge stays;
               what waited for its budget to be unfrozen is sent again

A second attempt runs under the first charge: nothing of the first was visible.
"""

from __future__ import annotations

import logging
import shutil
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from releases import audit_log, leases, ledger, notices
from releases.engine import accountant
from releases.engine.errors import Cancelled, EngineError
from releases.engine.mechanisms.base import Plan, plan_from_json
from releases.failures import log_failure
from releases.models import HELD_BY_A_WORKER, AuditAction, EntryKind, LedgerEntry, Release, ReleaseState, Searchable
from releases.searching import searchable
from releases.services import closing
from releases.services.certificates import with_published
from releases.services.datasets import table_path
from releases.services.releases import enqueue

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from releases.engine.tables import TableCounts

logger = logging.getLogger(__name__)


class PriceMismatch(EngineError):
    """A stored plan costs more than was charged for it, so it must not run."""


def execute_release(*, release_id: uuid.UUID | str) -> bool:
    """Run a queued release and publish its result, or open its session, or publish what a session that is being closed
    has answered. Returns whether this call did.

    Called twice, by two workers, or for a release in any other state, it does nothing the second time.
    """
    token = _claim(release_id) or closing.claim(release_id)
    if token is None:
        return False
    release = Release.objects.select_related("dataset__budget").get(pk=release_id)
    folder = Path(settings.RELEASES_DIR) / str(release.pk) / str(token)
    try:
        with leases.heartbeat(_held(release.pk, token), what=f"release {release.pk}"):
            if release.status is ReleaseState.CLOSING:
                progress = leases.Progress(_held(release.pk, token))
                published = closing.publish(release, token, folder, progress=progress)
            elif release.is_session:
                published = _open(release, token)
            else:
                published = _publish(release.pk, token, _run(release, token, folder))
    except Cancelled:
        published = False
    except Exception as error:  # noqa: BLE001  every failure path gives one constant outcome
        log_failure(logger, f"release {release.pk}", error)
        shutil.rmtree(folder, ignore_errors=True)
        if not closing.give_up(release.pk, token):
            _fail(release.pk, token)
        return False
    if not published:
        # Another worker holds the release now; what was computed here is nobody's.
        shutil.rmtree(folder, ignore_errors=True)
    return published


def reconcile() -> int:
    """Put right what killed workers and lost messages have left; returns how many releases were moved."""
    now, moved = timezone.now(), 0
    lapsed = Release.objects.filter(state=ReleaseState.RUNNING, lease_until__lt=now).values_list("pk", "run_token")
    for release_id, token in lapsed:
        moved += _fail(release_id, token, lapsed_before=now)
    waiting = Release.objects.filter(state=ReleaseState.QUEUED).not_frozen()
    return moved + leases.hint_again(waiting, enqueue) + closing.reconcile(now)


def _held(release_id: uuid.UUID, token: uuid.UUID | None) -> QuerySet[Release]:
    """The release while the worker with this token runs or closes it."""
    return Release.objects.filter(pk=release_id, state__in=HELD_BY_A_WORKER, run_token=token)


def _claim(release_id: uuid.UUID | str) -> uuid.UUID | None:
    """Take a queued release; None if there is nothing to take."""
    claimable = Release.objects.filter(
        pk=release_id, state=ReleaseState.QUEUED, attempts__lt=settings.MOST_ATTEMPTS
    ).not_frozen()
    return leases.claim(claimable, running=ReleaseState.RUNNING)


def _run(release: Release, token: uuid.UUID, folder: Path) -> dict[str, Any]:
    """Compute, write the files, and return what the row will hold."""
    from releases import files
    from releases.engine.randomness import OperatingSystemRandomness
    from releases.engine.run import run_release

    plan, counts = _ready(release)
    made = run_release(
        plan, counts, rng=OperatingSystemRandomness(), progress=leases.Progress(_held(release.pk, token))
    )
    return files.write(folder, release=release, made=made)


def _open(release: Release, token: uuid.UUID) -> bool:
    from releases.engine.mechanisms.pmw_online import OnlinePlan
    from releases.engine.randomness import OperatingSystemRandomness
    from releases.services.sessions import open_session

    plan, counts = _ready(release)
    assert isinstance(plan, OnlinePlan)
    return open_session(release=release, token=token, plan=plan, counts=counts, rng=OperatingSystemRandomness())


def _ready(release: Release) -> tuple[Plan, TableCounts]:
    """The charged plan and the counts it may look at."""
    from releases.engine.tables import TableCounts, open_table

    plan = _charged_plan(release)
    if release.certifies is not None:
        plan = with_published(plan, of=release.certifies)
    # The mark of this charge is on disc before any data are touched.
    assert release.dataset.budget is not None
    ledger.remember(release.dataset.budget)
    return plan, TableCounts(open_table(table_path(release.dataset)), plan.schema)


def _charged_plan(release: Release) -> Plan:
    """The stored plan, made again, and seen to cost no more than was charged."""
    plan = plan_from_json(release.plan or {})
    charged = LedgerEntry.objects.get(release=release, kind=EntryKind.CHARGE)
    price = accountant.price(plan.events, delta=plan.delta, neighbours=plan.schema.neighbours)
    if price.to_json() != charged.detail["price"]:
        raise PriceMismatch("The plan's price is not what was charged.")
    return plan


def _publish(release_id: uuid.UUID, token: uuid.UUID, outcome: dict[str, Any]) -> bool:
    """Result and status in one compare-and-set, and in its transaction by which words it is found."""
    with transaction.atomic():
        published = Release.objects.filter(pk=release_id, state=ReleaseState.RUNNING, run_token=token).update(
            state=ReleaseState.PUBLISHED,
            result=outcome,
            folder=f"{release_id}/{token}",
            published_at=timezone.now(),
            lease_until=None,
            step="",
            share_done=1.0,
        )
        if published == 1:
            Searchable.objects.create(release_id=release_id, text=searchable(outcome))
            _record(AuditAction.PUBLISH, release_id)
    return published == 1


def _record(action: AuditAction, release_id: uuid.UUID) -> None:
    release = Release.objects.select_related("submitted_by").defer("plan", "result").get(pk=release_id)
    audit_log.record(action, actor=None, on=release, detail=audit_log.BY_A_WORKER)
    notices.release_ended(release)


def _fail(release_id: uuid.UUID, token: uuid.UUID | None, *, lapsed_before: Any = None) -> bool:
    """Give a run up: back to the queue, or failed for good after the last attempt."""
    ours = _held(release_id, token).filter(state=ReleaseState.RUNNING)
    if lapsed_before is not None:
        ours = ours.filter(lease_until__lt=lapsed_before)
    with transaction.atomic():
        state = leases.give_up(ours, waiting=ReleaseState.QUEUED, failed=ReleaseState.FAILED)
        if state == ReleaseState.FAILED:
            _record(AuditAction.FAIL, release_id)
        elif state is not None:
            enqueue(release_id)
    return state is not None
