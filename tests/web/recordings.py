"""What many tests set up in the same way is made once in a process, and written down again for each of the others.

A recording holds what the making wrote: the statements to the database, and the files. It is played where everything
that was there before is the same, apart from times and the salts of passwords; and only for a test that has neither
patched anything nor changed another setting. In every other case the thing is made as if there were no recordings.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import pytest
from django.conf import UserSettingsHolder, settings
from django.core import mail
from django.db import connection, models, transaction

from releases.worker import runner

Made = TypeVar("Made")

#: What `migrate` fills and no test changes.
_FIXED = {"auth_permission", "django_content_type", "django_migrations"}
_WRITES = ("INSERT", "UPDATE", "DELETE")
#: What a making undoes of itself is written and undone again.
_UNDOES = ("SAVEPOINT", "RELEASE SAVEPOINT", "ROLLBACK TO SAVEPOINT")
#: Times, and the digests by which one line of the record follows another, in which there are times.
_TIMES = re.compile(rb"\d{4}-\d\d-\d\dT[\d:.]+\+00:00|(?<=\"previous\": \")[0-9a-f]{64}")
#: What is patched in every test that reads tables in its own process.
_PATCHED = [(runner, "run"), (runner, "warm")]


@dataclass(frozen=True, kw_only=True, slots=True)
class Recording:
    """What one making wrote.

    Attributes:
        folder: that of the test; paths below it stand in the statements.
        files: what they hold at the end, by path below the folder.
        hooks: what was to follow the commit.
        made: what was made: a row, or numbers of rows by name.
    """

    made: object
    folder: str
    statements: list[tuple[str, Any, bool]]
    files: Mapping[str, bytes]
    hooks: list[Callable[[], object]]

    def play(self, folder: Path) -> object:
        with connection.cursor() as cursor:
            for sql, given, is_many in self.statements:
                moved = [_moved(row, self.folder, str(folder)) for row in (given if is_many else [given])]
                for row in moved:
                    cursor.execute(sql, row)
                    if cursor.description:
                        cursor.fetchall()
        for path, content in self.files.items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        for hook in self.hooks:
            transaction.on_commit(hook)
        if isinstance(self.made, models.Model):
            return type(self.made)._base_manager.get(pk=self.made.pk)
        return self.made


_recordings: dict[object, Recording] = {}


def once(key: str, make: Callable[[], Made], *, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Made:
    """What `make` makes: from a recording where there is one that fits, else really, which is recorded."""
    if connection.vendor != "sqlite" or [(where, name) for where, name, _ in monkeypatch._setattr] != _PATCHED:
        return make()
    if not all(Path(each).is_relative_to(folder) for each in _folders()):
        return make()
    there = _there(key, folder)
    if (found := _recordings.get(there)) is not None:
        return found.play(folder)  # type: ignore[return-value]
    return _recorded(there, make, folder)


def _recorded(there: object, make: Callable[[], Made], folder: Path) -> Made:
    statements: list[tuple[str, Any, bool]] = []

    def follow(execute: Any, sql: str, given: Any, many: bool, context: Any) -> Any:
        statements.append((sql, given, many))
        return execute(sql, given, many, context)

    before, hooks, sent = _files(folder), len(connection.run_on_commit), len(mail.outbox)
    with connection.execute_wrapper(follow):
        made = make()
    after = _files(folder)
    files = {path: content for path, content in after.items() if before.get(path) != content}
    is_whole = (
        before.keys() <= after.keys()
        and len(mail.outbox) == sent
        and not any(sql.startswith("ROLLBACK") and not sql.startswith(_UNDOES) for sql, _, _ in statements)
        and not any(str(folder).encode() in content for content in files.values())
    )
    if is_whole:
        _recordings[there] = Recording(
            made=made,
            folder=str(folder),
            statements=[each for each in statements if each[0].startswith((*_WRITES, *_UNDOES))],
            files=files,
            hooks=[hook for _, hook, _ in connection.run_on_commit[hooks:]],
        )
    return made


def _there(key: str, folder: Path) -> str:
    """All that a making can depend on."""
    digest = hashlib.sha256(repr((key, sorted(_changed_settings().items()))).encode())
    with connection.cursor() as cursor:
        for table in _tables():
            cursor.execute(f'SELECT * FROM "{table}"')
            for row in cursor.fetchall():
                digest.update(repr((table, *(_plain(cell, folder) for cell in row))).encode())
    for path, content in sorted(_files(folder).items()):
        digest.update(path.encode() + _TIMES.sub(b"", content))
    return digest.hexdigest()


def _tables() -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
        return [name for (name,) in cursor.fetchall() if name not in _FIXED]


def _plain(cell: object, folder: Path) -> object:
    if isinstance(cell, datetime) or (isinstance(cell, str) and cell.startswith("md5$")):
        return None
    return cell.replace(str(folder), "") if isinstance(cell, str) else cell


def _changed_settings() -> dict[str, str]:
    """The settings that this test has changed, but for its folders."""
    changed: dict[str, str] = {}
    holder = settings._wrapped
    while isinstance(holder, UserSettingsHolder):
        for name, value in vars(holder).items():
            if name.isupper() and not name.endswith(("_DIR", "_ROOT")):
                changed.setdefault(name, repr(value))
        holder = holder.default_settings
    return changed


def _files(folder: Path) -> dict[str, bytes]:
    """What the site has written: by path below the folder of the test."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for each in _folders()
        for path in Path(each).rglob("*")
        if path.is_file()
    }


def _folders() -> list[Path]:
    return [settings.TABLES_DIR, settings.RELEASES_DIR, settings.MARKS_DIR, settings.DATA_DIR]


def _moved(given: Any, old: str, new: str) -> Any:
    if isinstance(given, dict):
        return {name: _moved_cell(cell, old, new) for name, cell in given.items()}
    return given if given is None else tuple(_moved_cell(cell, old, new) for cell in given)


def _moved_cell(cell: Any, old: str, new: str) -> Any:
    return cell.replace(old, new) if type(cell) is str else cell
