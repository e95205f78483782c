"""A transaction in which questions are read or something is planned: the leave to plan is asked before it begins.

SQLite has one lock for all who write. Asked within a transaction, whoever may not plan now would wait for that lock
instead of being refused at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import transaction

from releases.engine.metering import meter


@contextmanager
def planned_atomically() -> Iterator[None]:
    """`transaction.atomic`, after leave to plan (see ``engine/metering.py``)."""
    meter()
    with transaction.atomic():
        yield
