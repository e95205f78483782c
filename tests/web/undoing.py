"""Undoing what a test did."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
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
    """Copies of the marks and of the results: results of a release that was undone would be unknown results.

    Copies that nothing was written to serve the next time, where what they are of is still the same.
    """
    sources = {name: Path(getattr(settings, name)) for name in ("MARKS_DIR", "RELEASES_DIR")}
    contents = _contents(sources.values())
    copies = _spare.pop() if _spare else None
    if copies is None or (copies.sources, copies.contents) != (sources, contents):
        copies = _Copies(sources, contents)
    with override_settings(**copies.folders):
        yield
    if _contents(copies.folders.values()) == copies.untouched:
        _spare[:] = [copies]


class _Copies:
    def __init__(self, sources: dict[str, Path], contents: set[tuple[object, ...]]) -> None:
        self._outside = TemporaryDirectory()
        self.sources, self.contents = sources, contents
        self.folders = {name: Path(self._outside.name) / name for name in sources}
        for name, source in sources.items():
            if source.exists():
                shutil.copytree(source, self.folders[name])
        self.untouched = _contents(self.folders.values())


#: Copies that nobody uses, at most one.
_spare: list[_Copies] = []


def _contents(folders: Iterable[Path]) -> set[tuple[object, ...]]:
    """What is in folders: each thing's name, which file it is, its length, and when it was last written or moved."""
    found, waiting = set(), [str(folder) for folder in folders if folder.exists()]
    for path in waiting:
        found.add(_known(path, os.stat(path)))
        with os.scandir(path) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                else:
                    found.add(_known(entry.path, entry.stat()))
    return found


def _known(path: str, known: os.stat_result) -> tuple[object, ...]:
    return path, known.st_ino, known.st_size, known.st_mtime_ns, known.st_ctime_ns
