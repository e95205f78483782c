"""Where processes put aside what does not fit into memory: each in a folder of its own that nobody else may read."""

from __future__ import annotations

import os
import shutil
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

from django.conf import settings

from releases.storage.private_files import private_folder

if TYPE_CHECKING:
    from releases.engine.tables.connection import Limits

#: Names the folder of a process; a child that was forked has another number.
_RUN = uuid.uuid4().hex


def limits() -> Limits:
    """What a connection to a table may use in this process."""
    from releases.engine.tables.connection import Limits

    own = private_folder(private_folder(_all()) / f"{_RUN}-{os.getpid()}")
    os.utime(own)
    return Limits(temp_folder=own, memory=settings.DUCKDB_MEMORY_LIMIT)


def remove_left_over() -> None:
    """Delete what processes that are gone had put aside. No connection is open for longer than a release may run."""
    if not _all().is_dir():
        return
    long_ago = time.time() - settings.RELEASE_TIME_LIMIT
    for folder in _all().iterdir():
        try:
            is_old = folder.stat().st_mtime < long_ago
        except FileNotFoundError:
            continue
        if is_old:
            shutil.rmtree(folder, ignore_errors=True)


def _all() -> Path:
    return Path(settings.DATA_DIR) / "tmp"
