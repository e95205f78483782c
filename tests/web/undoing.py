"""Undoing what a test did."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.conf import settings
from django.db import transaction


@contextmanager
def undone() -> Iterator[None]:
    """What is done in here is undone afterwards, in the database and in what is remembered outside it."""
    marks = Path(settings.MARKS_DIR)
    before = marks.with_name("marks-before")
    if marks.exists():
        shutil.copytree(marks, before)
    try:
        undoing = transaction.atomic()
        # As Django's test cases mark theirs: what must be committed in there counts as committed.
        undoing._from_testcase = True
        with undoing:
            yield
            transaction.set_rollback(True)
    finally:
        shutil.rmtree(marks, ignore_errors=True)
        if before.exists():
            before.rename(marks)
