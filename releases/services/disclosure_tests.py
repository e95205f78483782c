"""Disclosure tests of published releases: asked for on a release's page, run by a worker of the uploads' queue.

A test runs the plan of a release on invented tables (`publication/attacked_release.py`), so it touches no data and
costs no budget. It can take minutes, so it does not hold up the queue of releases.

    ask_for_test       by somebody of the dataset
    execute_test       by a worker
    reconcile_tests    what killed workers and lost messages have left
    enqueue_reports    reports that do not say what was found yet
"""

from __future__ import annotations

import logging
import uuid
from typing import TYPE_CHECKING

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from releases.engine.errors import Cancelled, EngineError
from releases.ledger import audit_log
from releases.models import AuditAction, DisclosureState, DisclosureTest, Release, ReleaseState
from releases.publication.attacked_release import attack_release, lack_report, report_again
from releases.services.release_inputs import Refusal
from releases.worker import leases
from releases.worker.failures import log_failure

if TYPE_CHECKING:
    from django.contrib.auth.models import User

logger = logging.getLogger(__name__)


@transaction.atomic
def ask_for_test(*, release: Release, by: User) -> DisclosureTest:
    """Let a worker test a release. One that is under way goes on; one that has ended is run again.

    Raises:
        Refusal: it is not published, or has no synthetic rows.
    """
    release = Release.objects.select_for_update().get(pk=release.pk)
    if release.status is not ReleaseState.PUBLISHED or release.result is None:
        raise Refusal("Only a finished release can be tested.")
    if not release.result["receipt"]["synthetic_rows"]:
        raise Refusal("The release has no synthetic rows, so there is nothing to attack.")
    test = DisclosureTest.objects.filter(release=release).first()
    if test is not None and not DisclosureState(test.state).is_final:
        return test
    asked = {"asked_by": by, "state": DisclosureState.WAITING, "attempts": 0, "lease_until": leases.next_hint()}
    asked |= {"refusal": "", "next_attempt_at": None}
    test, _ = DisclosureTest.objects.update_or_create(release=release, defaults=asked)
    audit_log.record(AuditAction.TEST, actor=by, on=release, detail="by an attack on invented tables")
    _enqueue(release.pk)
    return test


def execute_test(*, release_id: uuid.UUID | str) -> bool:
    """Run a test that waits. Returns whether this call did: called twice, or by two workers, it runs once."""
    claimable = DisclosureTest.objects.filter(
        release_id=release_id, state=DisclosureState.WAITING, attempts__lt=settings.MAX_ATTEMPTS
    )
    token = leases.claim(claimable, running=DisclosureState.RUNNING)
    if token is None:
        return False
    held = _held(release_id, token)
    try:
        with leases.heartbeat(held, what=f"disclosure test of {release_id}"):
            attack_release(Release.objects.get(pk=release_id), progress=leases.Held(held))
        return held.update(state=DisclosureState.DONE, run_token=None, lease_until=None, step="") == 1
    except Cancelled:
        return False
    except EngineError as error:
        # Withdrawn meanwhile, or planned otherwise by this version: another attempt would say the same.
        log_failure(logger, f"disclosure test of {release_id}", error)
        held.update(state=DisclosureState.FAILED, run_token=None, lease_until=None, step="", refusal=str(error))
        return False
    except Exception as error:  # noqa: BLE001  whatever it is, another attempt is made
        log_failure(logger, f"disclosure test of {release_id}", error)
        leases.give_up(held, waiting=DisclosureState.WAITING, failed=DisclosureState.FAILED)
        return False


def reconcile_tests() -> None:
    """Put right what killed workers and lost messages have left."""
    leases.hint_again(DisclosureTest.objects.filter(state=DisclosureState.WAITING), _enqueue)
    lapsed = DisclosureTest.objects.filter(state=DisclosureState.RUNNING, lease_until__lt=timezone.now())
    for test in lapsed:
        held = _held(test.pk, test.run_token).filter(lease_until__lt=timezone.now())
        leases.give_up(held, waiting=DisclosureState.WAITING, failed=DisclosureState.FAILED)


def enqueue_reports() -> None:
    """Have reports written again that do not say what an attack found: an earlier version left them so, or the worker
    was killed, or the drawing failed."""
    for release_id in lack_report():
        leases.hint("releases.report_attack", release_id=release_id)


def report_attack(*, release_id: uuid.UUID | str) -> None:
    """Write one of these. Called twice, it is written once."""
    release = Release.objects.filter(pk=release_id).first()
    if release is not None:
        report_again(release)


def _held(release_id: uuid.UUID | str, token: uuid.UUID | None) -> QuerySet[DisclosureTest]:
    """The test while the worker with this token runs it."""
    return DisclosureTest.objects.filter(release_id=release_id, state=DisclosureState.RUNNING, run_token=token)


def _enqueue(release_id: uuid.UUID) -> None:
    leases.hint("releases.test_disclosure", release_id=str(release_id))
