"""Undoing what a test did."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from django.conf import settings
from django.db import transaction
from django.test import override_settings


@contextmanager
def undone() -> Iterator[None]:
    """What is done in here is undone afterwards, in the database and in what is remembered outside it."""
    with own_folders(), rolled_back():
        yield


@contextmanager
def rolled_back() -> Iterator[None]:
    undoing = transaction.atomic()
    # As Django's test cases mark theirs: what must be committed in there counts as committed.
    undoing._from_testcase = True
    with undoing:
        try:
            yield
        finally:
            transaction.set_rollback(True)


@contextmanager
def own_folders() -> Iterator[None]:
    """Copies of the marks and of the results: results of a release that was undone would be unknown results."""
    with TemporaryDirectory() as outside:
        copies = {}
        for name in ("MARKS_DIR", "RELEASES_DIR"):
            copies[name] = Path(outside) / name
            if Path(getattr(settings, name)).exists():
                shutil.copytree(getattr(settings, name), copies[name])
        with override_settings(**copies):
            yield
