"""Fingerprints: by which rows that come back in another dress are recognised. Who is shown it: ``recognition.py``.

A worker of the uploads' queue takes those that are missing, one table a message, apart from the reading of an upload,
whose time and outcome they cannot change. It takes them of each table by itself: which tables are alike is found when a
reviewer looks, so that nothing that an uploader could time depends on it. Approving a budget takes the digests that it
needs if the worker has not come to them.

An attempt is on record before it begins, so a table at which workers are killed is not taken up for ever. One that
takes more time or memory than a table may is not tried again.
"""

from __future__ import annotations

import logging
import uuid
from pathlib import Path

from django.conf import settings
from django.core.cache import cache
from django.db import transaction
from django.db.models import F, Q, QuerySet

from releases.models import Budget, Dataset, Fingerprint
from releases.services import reading
from releases.worker import leases
from releases.worker.failures import log_failure
from releases.worker.runner import OverLimit

logger = logging.getLogger(__name__)

#: A message that went out so lately is still on its way, or is worked on.
_HINT_SECONDS = 60


def enqueue_fingerprints() -> None:
    """Let a worker take what is missing; a lost message is followed by another."""
    for dataset in (_without_digest() | _without_sketch()).distinct().values_list("pk", flat=True):
        if cache.add(f"fingerprint-enqueued-{dataset}", 1, _HINT_SECONDS):
            leases.hint("releases.take_fingerprint", dataset_id=str(dataset))


def take_fingerprint(*, dataset_id: uuid.UUID | str) -> None:
    """Take the digest and the sketch of one table where they are missing."""
    take_digests(of=dataset_id)
    for dataset in _without_sketch().filter(pk=dataset_id).only("location"):
        _take_sketch(dataset)


def take_fingerprints() -> None:
    """The same for every table."""
    for dataset in (_without_digest() | _without_sketch()).distinct().values_list("pk", flat=True):
        take_fingerprint(dataset_id=dataset)


def take_digests(*, of: uuid.UUID | str | None = None) -> None:
    """Take the digests of declared columns that are missing, of one table or of all. A table that cannot be read has
    none."""
    missing = _without_digest() if of is None else _without_digest().filter(pk=of)
    for dataset in missing.only("location", "declared"):
        names = _declared(dataset)
        path = _file(dataset)
        if path is None or not _begin(dataset, "digest_attempts"):
            continue
        try:
            is_telling, digest = reading.digest(path, names)
        except Exception as error:  # noqa: BLE001  one table that cannot be read must not stop the others
            _note_failure(dataset, "digest_attempts", error)
            continue
        with transaction.atomic():
            # A table whose columns have changed meanwhile has another.
            locked = Dataset.objects.select_for_update().filter(pk=dataset.pk).first()
            if locked is not None and _declared(locked) == names:
                taken = {"is_telling": is_telling, "digest": digest}
                Fingerprint.objects.update_or_create(dataset=locked, defaults=taken)


def is_compared(budget: Budget) -> bool:
    """Whether every table of this population that can be read can be compared with all others."""
    return not (_unsketched() | _undigested()).filter(budget=budget).exists()


def is_incomparable(budget: Budget) -> bool:
    """Whether a table of this population cannot be compared and never will be: all attempts have failed."""
    given_up = _unsketched().exclude(_is_left("sketch")) | _undigested().exclude(_is_left("digest"))
    return given_up.filter(budget=budget).exists()


def _take_sketch(dataset: Dataset) -> None:
    path = _file(dataset)
    if path is None or not _begin(dataset, "sketch_attempts"):
        return
    try:
        made = reading.sketch(path)
    except Exception as error:  # noqa: BLE001  one table that cannot be read must not stop the others
        _note_failure(dataset, "sketch_attempts", error)
        return
    with transaction.atomic():
        if Dataset.objects.select_for_update().filter(pk=dataset.pk).exists():
            Fingerprint.objects.update_or_create(dataset_id=dataset.pk, defaults={"sketch": made})


def _readable() -> QuerySet[Dataset]:
    return Dataset.objects.filter(rows_deleted_at__isnull=True).exclude(location__contains="://").exclude(location="")


def _without_digest() -> QuerySet[Dataset]:
    return _undigested().filter(_is_left("digest"))


def _undigested() -> QuerySet[Dataset]:
    declared = Q(declared__isnull=False, fingerprint__digest__isnull=True)
    return _readable().filter(declared | Q(fingerprint__is_telling__isnull=True))


def _without_sketch() -> QuerySet[Dataset]:
    return _unsketched().filter(_is_left("sketch"))


def _unsketched() -> QuerySet[Dataset]:
    return _readable().filter(fingerprint__sketch__isnull=True)


def _is_left(which: str) -> Q:
    """Another attempt is left, or there was none."""
    attempts = f"fingerprint__{which}_attempts"
    return Q(**{f"{attempts}__isnull": True}) | Q(**{f"{attempts}__lt": settings.MAX_ATTEMPTS})


def _begin(dataset: Dataset, counter: str) -> bool:
    """Put an attempt on record before it begins; False where none is left. Committed, unless a caller's transaction
    goes on."""
    Fingerprint.objects.get_or_create(dataset=dataset)
    left = Fingerprint.objects.filter(dataset=dataset, **{f"{counter}__lt": settings.MAX_ATTEMPTS})
    return left.update(**{counter: F(counter) + 1}) == 1


def _note_failure(dataset: Dataset, counter: str, error: Exception) -> None:
    log_failure(logger, f"fingerprint of {dataset.pk}", error)
    if isinstance(error, OverLimit):
        # Another attempt would take as much, and hold up the others as long.
        Fingerprint.objects.filter(dataset=dataset).update(**{counter: settings.MAX_ATTEMPTS})


def _declared(dataset: Dataset) -> list[str]:
    # Where rows of persons are counted and nothing else is asked, no column is read.
    return dataset.columns_read or dataset.columns


def _file(dataset: Dataset) -> Path | None:
    path = Path(settings.TABLES_DIR) / dataset.location
    return path if path.is_file() else None
