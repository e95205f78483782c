"""Fingerprints: by which rows that come back in another dress are recognised. Who is shown it: ``recognition.py``.

A worker takes those that are missing, apart from the reading of an upload, whose time and outcome they cannot change.
It takes them of each table by itself: which tables are alike is found when a reviewer looks, so that nothing that an
uploader could time depends on it. Approving a budget takes the digests that it needs if the worker has not come to
them.
"""

from __future__ import annotations

import logging
from pathlib import Path

from django.conf import settings
from django.core.cache import cache
from django.db import transaction
from django.db.models import Q, QuerySet

from releases.models import Budget, Dataset, Fingerprint
from releases.worker import leases
from releases.worker.failures import log_failure

logger = logging.getLogger(__name__)

#: A message that went out so lately is still on its way, or is worked on.
_HINT_SECONDS = 60


def enqueue_fingerprints() -> None:
    """Let a worker take what is missing; a lost message is followed by another."""
    if (_without_digest() | _without_sketch()).exists() and cache.add("fingerprints-enqueued", 1, _HINT_SECONDS):
        leases.hint("releases.take_fingerprints")


def take_fingerprints() -> None:
    """Take every digest and sketch that is missing."""
    take_digests()
    for dataset in _without_sketch().only("location"):
        _take_sketch(dataset)


def take_digests() -> None:
    """Take the digests of declared columns that are missing. A table that cannot be read has none."""
    from releases.engine.tables.fingerprint import counted_digest, is_telling

    key = settings.DIGEST_KEY.encode()
    for dataset in _without_digest().only("location", "declared"):
        names = _declared(dataset)
        if (path := _file(dataset)) is None:
            continue
        try:
            taken = {
                "is_telling": is_telling(path, key=key),
                "digest": counted_digest(path, names, key=key) if names else None,
            }
        except Exception as error:  # noqa: BLE001  one table that cannot be read must not stop the others
            log_failure(logger, f"fingerprint of {dataset.pk}", error)
            continue
        with transaction.atomic():
            # What was declared anew in the meantime has another.
            locked = Dataset.objects.select_for_update().filter(pk=dataset.pk).first()
            if locked is not None and _declared(locked) == names:
                Fingerprint.objects.update_or_create(dataset=locked, defaults=taken)


def is_compared(budget: Budget) -> bool:
    """Whether every table of this population that can be read can be compared with all others."""
    return not (_without_sketch() | _without_digest()).filter(budget=budget).exists()


def _take_sketch(dataset: Dataset) -> None:
    from releases.engine.tables.fingerprint import sketch

    if (path := _file(dataset)) is None:
        return
    try:
        made = sketch(path, key=settings.DIGEST_KEY.encode())
    except Exception as error:  # noqa: BLE001  one table that cannot be read must not stop the others
        log_failure(logger, f"fingerprint of {dataset.pk}", error)
        return
    with transaction.atomic():
        if Dataset.objects.select_for_update().filter(pk=dataset.pk).exists():
            Fingerprint.objects.update_or_create(dataset_id=dataset.pk, defaults={"sketch": made})


def _readable() -> QuerySet[Dataset]:
    return Dataset.objects.filter(rows_deleted_at__isnull=True).exclude(location__contains="://").exclude(location="")


def _without_digest() -> QuerySet[Dataset]:
    declared = Q(declared__isnull=False, fingerprint__digest__isnull=True)
    return _readable().filter(declared | Q(fingerprint__is_telling__isnull=True))


def _without_sketch() -> QuerySet[Dataset]:
    return _readable().filter(fingerprint__sketch__isnull=True)


def _declared(dataset: Dataset) -> list[str]:
    return [each["name"] for each in dataset.declared or []]


def _file(dataset: Dataset) -> Path | None:
    path = Path(settings.TABLES_DIR) / dataset.location
    return path if path.is_file() else None
