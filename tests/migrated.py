"""The tables of the site, migrated once for all test runs: a file beside the source, copied into each test database."""

from __future__ import annotations

import contextlib
import hashlib
import os
import sqlite3
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.db import connection

from releases.management.commands import migrate

ROOT = Path(__file__).resolve().parents[1]
#: What decides which tables, triggers and rows there are after `migrate`.
_DECIDES = ("apps.py", "models.py", "models", "migrations", "accounts", "ledger", "management", "signals.py")


@contextlib.contextmanager
def migrated_once() -> Iterator[None]:
    """Within, `migrate` copies what an earlier one left behind, if nothing that decides about it has changed since."""
    really = migrate.Command.handle

    def copy_or_migrate(command: migrate.Command, *args: Any, **options: Any) -> None:
        if connection.vendor != "sqlite":
            really(command, *args, **options)
            return
        kept = ROOT / "build" / f"migrated-{_digest()}.sqlite3"
        connection.ensure_connection()
        if kept.exists():
            _copy(kept, connection.connection)
        else:
            really(command, *args, **options)
            _keep(connection.connection, kept)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(migrate.Command, "handle", copy_or_migrate)
        yield


def _copy(kept: Path, into: sqlite3.Connection) -> None:
    with contextlib.closing(sqlite3.connect(f"file:{kept}?mode=ro", uri=True)) as source:
        source.backup(into)


def _keep(migrated: sqlite3.Connection, kept: Path) -> None:
    """Under its name once it is whole, in place of those of other versions."""
    kept.parent.mkdir(exist_ok=True)
    unfinished = kept.with_suffix(f".{os.getpid()}")
    with contextlib.closing(sqlite3.connect(unfinished)) as target:
        migrated.backup(target)
    unfinished.replace(kept)
    for other in kept.parent.glob("migrated-*.sqlite3"):
        if other != kept:
            other.unlink(missing_ok=True)


def _digest() -> str:
    digest = hashlib.sha256(f"{version('django')} {sqlite3.sqlite_version}".encode())
    for app in apps.get_app_configs():
        for part in _DECIDES:
            place = Path(app.path) / part
            for path in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
                if path.exists():
                    digest.update(f"{app.label} {path.relative_to(app.path)}".encode() + path.read_bytes())
    return digest.hexdigest()[:16]
