"""Planning slots: how much one person may have worked out at once, over all processes of the site.

A plan takes seconds to minutes of a processor, for a choice that anybody can make. Each person has a few slots, and a
place or two to wait for one. Whoever finds both taken is refused at once, so that no thread waits for nothing.

A slot is a lock on a file below DATA_DIR, which all processes of the site share, as they do the tables. The operating
system frees it when the request or its process ends, however it ends. So there is no lease to run out, nothing to write
to the database, and no Redis to be away.

A slot is taken before a transaction, never in one: SQLite has one lock for all who write, and whoever has no slot
would wait for that lock instead of being refused (``services/planned_transactions.py``).
"""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

from django.conf import settings

from releases.storage.private_files import FILE, private_folder

#: Between two looks for a slot that has become free.
_LOOK_SECONDS = 0.05


class NoSlot(Exception):
    """Somebody has as much worked out at once as one person may. Nothing was planned, and nothing changed."""

    def __init__(self) -> None:
        super().__init__(
            f"You have {settings.PLANNING_SLOTS} plans worked out already, as many as one person may at once. "
            f"Try again in {settings.PLANNING_RETRY_SECONDS} seconds."
        )


class PlanningSlot:
    """The slot of one request: taken when it plans for the first time, kept to its end.

    Args:
        holder: whose slots they are, as part of a file's name.
    """

    def __init__(self, holder: str) -> None:
        self._holder = holder
        self._held: int | None = None

    def take(self) -> None:
        """
        Raises:
            NoSlot: all are taken, and none became free for somebody who may still wait.
        """
        if self._held is not None:
            return
        self._held = self._any("slot", settings.PLANNING_SLOTS)
        if self._held is None:
            self._held = self._wait()
        if self._held is None:
            raise NoSlot

    def free(self) -> None:
        if self._held is not None:
            os.close(self._held)
            self._held = None

    def _wait(self) -> int | None:
        place = self._any("place", settings.PLANNING_PLACES)
        if place is None:
            return None
        try:
            until = time.monotonic() + settings.PLANNING_WAIT_SECONDS
            while time.monotonic() < until:
                time.sleep(_LOOK_SECONDS)
                if (held := self._any("slot", settings.PLANNING_SLOTS)) is not None:
                    return held
            return None
        finally:
            os.close(place)

    def _any(self, what: str, number: int) -> int | None:
        """A lock on one of so many files; None where all are locked."""
        folder = private_folder(Path(settings.DATA_DIR) / "planning")
        for each in range(number):
            file = os.open(folder / f"{self._holder}-{what}-{each}", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, FILE)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(file)
            else:
                return file
        return None
