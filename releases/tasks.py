"""Tasks: one id in, nothing out. A message is only a hint, so each may come twice, late, or never.

Heavy imports happen inside: a DuckDB connection made before the worker forks would hang its children.
"""

from __future__ import annotations

import logging
from typing import Any

from celery import shared_task
from celery.signals import worker_init, worker_process_init, worker_ready
from django.conf import settings
from django.db import close_old_connections

logger = logging.getLogger(__name__)


@shared_task(name="releases.execute")
def execute(*, release_id: str) -> None:
    """Run one queued release (see ``services/execution.py``)."""
    from releases import services

    services.execution.execute_release(release_id=release_id)


@shared_task(name="releases.read_upload")
def read_upload(*, upload_id: str) -> None:
    """Read one table that was received (see ``services/uploads.py``)."""
    from releases import services

    services.uploads.execute_upload(upload_id=upload_id)


@shared_task(name="releases.take_fingerprint")
def take_fingerprint(*, dataset_id: str) -> None:
    """Take what recognises the rows of one table, where it is missing (see ``services/fingerprints.py``)."""
    from releases import services

    services.fingerprints.take_fingerprint(dataset_id=dataset_id)


@shared_task(name="releases.test_disclosure")
def test_disclosure(*, release_id: str) -> None:
    """Attack what the plan of a release makes of invented tables (see ``services/disclosure_tests.py``)."""
    from releases import services

    services.disclosure_tests.execute_test(release_id=release_id)


@shared_task(name="releases.report_attack")
def report_attack(*, release_id: str) -> None:
    """Write the report of one attacked release again (see ``services/disclosure_tests.py``)."""
    from releases import services

    services.disclosure_tests.report_attack(release_id=release_id)


@shared_task(name="releases.take_fingerprints")
def take_fingerprints() -> None:
    """A message of an older version, which asked for all at once in the queue of releases: ask for each."""
    from releases import services

    services.fingerprints.enqueue_fingerprints()


@worker_init.connect
def refuse_biased_noise(**kwargs: Any) -> None:
    """Before a worker takes anything: the samplers must have the laws they claim."""
    from releases.engine.noise.discrete import OperatingSystemRandomness, self_test

    self_test(OperatingSystemRandomness())


@worker_init.connect
def compile_loops(**kwargs: Any) -> None:
    """Once for an installation: the dozen seconds that the first release would otherwise take longer than foretold."""
    from releases.engine.estimation import warmup

    if not warmup.are_compiled():
        warmup.compile_loops()


@worker_process_init.connect
def keep_a_reader_ready(**kwargs: Any) -> None:
    """The process that tables are read in (see ``worker/runner.py``), so that no release waits for its imports."""
    from releases.worker import runner

    runner.warm(compiled=True)


@worker_ready.connect
def keep_reconciling(sender: Any, **kwargs: Any) -> None:
    """At start, and then regularly, put right what killed workers and lost messages have left."""
    _reconcile()
    sender.timer.call_repeatedly(settings.RECONCILE_SECONDS, _reconcile)


@worker_ready.connect
def complete_reports(**kwargs: Any) -> None:
    """At start alone: an earlier version has left some, and else only what fails each time."""
    from releases import services

    services.disclosure_tests.enqueue_reports()


def _reconcile() -> None:
    from releases import services
    from releases.notifications.messages import send_waiting
    from releases.storage.scratch import remove_left_over

    close_old_connections()
    try:
        services.reapplying.notice_restored()
        services.execution.reconcile()
        services.uploads.reconcile_uploads()
        services.datasets.remove_deleted_tables()
        services.fingerprints.enqueue_fingerprints()
        services.disclosure_tests.reconcile_tests()
        send_waiting()
        remove_left_over()
    except Exception as error:  # noqa: BLE001  the database may be away for a while; the next round tries again
        logger.warning("reconciling failed (%s)", type(error).__name__)
    finally:
        close_old_connections()
