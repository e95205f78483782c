"""Files that nobody but the site's own account may read: tables, releases, database, marks, logs.

Each process sets its umask when it starts (``dpweb/__init__.py``), so that whatever it makes is private; what is made
for tables and releases is given its mode explicitly as well. `manage.py audit` names what is open to others.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from django.conf import settings

FILE, FOLDER = 0o600, 0o700
#: What a mode must not have: anything for the group or for others.
_OTHERS = 0o077


def private_folder(path: Path) -> Path:
    """A folder that the site's account alone may look into, made where there is none."""
    path.mkdir(parents=True, exist_ok=True)
    if stat.S_IMODE(path.stat().st_mode) != FOLDER:
        path.chmod(FOLDER)
    return path


def sync(path: Path) -> None:
    """Return when a file, or the names in a folder, are on disc."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def open_to_others() -> Iterator[Path]:
    """Files and folders of this installation that somebody else can read or write, but for static files."""
    for path in _all():
        # Files come and go meanwhile.
        with suppress(FileNotFoundError):
            mode = path.lstat().st_mode
            if not stat.S_ISLNK(mode) and mode & _OTHERS:
                yield path


def make_private() -> list[Path]:
    """Take from others what they can read or write; returns what could not be changed, which is somebody else's."""
    left = []
    for path in list(open_to_others()):
        try:
            path.chmod(FOLDER if path.is_dir() else FILE)
        except FileNotFoundError:
            continue
        except OSError:
            left.append(path)
    return left


def _all() -> Iterator[Path]:
    folders = [settings.DATA_DIR, settings.TABLES_DIR, settings.RELEASES_DIR, settings.MARKS_DIR]
    seen: set[Path] = set()
    for top in (Path(each).resolve() for each in folders):
        for folder, below, names in os.walk(top):
            here = Path(folder)
            if here in seen:
                below.clear()
                continue
            seen.add(here)
            public = [name for name in below if here / name == Path(settings.STATIC_ROOT).resolve()]
            below[:] = [name for name in below if name not in public]
            yield here
            yield from (here / name for name in names)
    database = settings.DATABASES["default"]
    if "sqlite" in database["ENGINE"]:
        for ending in ("", "-wal", "-shm"):
            path = Path(f"{database['NAME']}{ending}").resolve()
            if path.parent not in seen and path.is_file():
                yield path
