"""A backup: the database and the files that it names, as of one moment, in a folder; never the marks.

    manifest.json    which version of the software made it, when, and which migrations it has; written last
    database         a whole SQLite file, or what `pg_dump` writes
    tables, releases as they lie below DATA_DIR

The database is copied first: every file that it names was there before, and no file is ever changed.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from celery import current_app
from django.conf import settings
from django.core.management.base import CommandError
from django.db import DatabaseError, connection
from django.db.migrations.loader import MigrationLoader
from django.utils import timezone

from releases.ledger import chain
from releases.management.database import known_migrations, refuse_too_old
from releases.management.site_role import give_rights, site_roles
from releases.models import HELD_BY_A_WORKER, AuditEvent, Release, SessionAnswer, Upload, UploadState
from releases.publication.build_info import SOFTWARE

_MANIFEST, _DATABASE = "manifest.json", "database"
#: What stands in a PostgreSQL database goes before the backup's comes, in the same transaction.
_EMPTY = """
DO $$ DECLARE each record; BEGIN
  FOR each IN SELECT tablename FROM pg_tables WHERE schemaname = current_schema() LOOP
    EXECUTE format('DROP TABLE %I CASCADE', each.tablename);
  END LOOP;
  FOR each IN SELECT oid::regprocedure AS named FROM pg_proc WHERE pronamespace = current_schema()::regnamespace
    AND NOT EXISTS (SELECT FROM pg_depend WHERE objid = pg_proc.oid AND deptype = 'e') LOOP
    EXECUTE format('DROP FUNCTION %s CASCADE', each.named);
  END LOOP;
END $$;
"""


def make(target: Path) -> None:
    """Write a backup into a new folder, readable by its owner alone, for it holds everybody's rows.

    Raises:
        CommandError: the folder is there already, or lies where backups are taken from; or a program fails.
    """
    if target.exists():
        raise CommandError(f"TARGET: {target} exists already. Name a folder that does not.")
    if target.resolve().is_relative_to(Path(settings.DATA_DIR).resolve()):
        raise CommandError(f"TARGET: {target} lies inside DATA_DIR. Keep backups elsewhere.")
    made_at = timezone.now()
    before = os.umask(0o077)
    try:
        target.mkdir(parents=True)
        if connection.vendor == "sqlite":
            _copy_sqlite(target / _DATABASE)
        else:
            _dump_postgresql(target / _DATABASE)
        for name, folder in _folders():
            _copy_new(folder, target / name)
        applied = sorted(MigrationLoader(connection).applied_migrations)
        manifest = {
            "software": SOFTWARE["version"],
            "made_at": made_at.isoformat(),
            "database": connection.vendor,
            "migrations": [list(each) for each in applied],
        }
        (target / _MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n")
    finally:
        os.umask(before)


def put_back(source: Path, *, discard_newer: bool) -> None:
    """Put a backup in the place of what stands. Files that are there already stay: none is ever changed.

    Raises:
        CommandError: it is no backup, or not for this database or version; a worker is at work; or something was
            done since it was made, and nobody said that it may be lost.
    """
    manifest = _manifest(source)
    if manifest["database"] != connection.vendor:
        raise CommandError(f"The backup is of {manifest['database']}, and DATABASE_URL names {connection.vendor}.")
    known, has = known_migrations(), {(app, name) for app, name in manifest["migrations"]}
    unknown = [".".join(each) for each in sorted(has - known)]
    if unknown:
        raise CommandError(
            f"The backup was made by another version of the software ({manifest['software']}): this one does not know "
            f"{', '.join(unknown)}. Install that version first."
        )
    refuse_too_old(has)
    _refuse_at_work()
    if not discard_newer and _changed_since(datetime.fromisoformat(manifest["made_at"])):
        raise CommandError(
            "Something was done here after the backup was made, and would be lost. Make a backup of it first; then say "
            "--discard-newer."
        )
    before = os.umask(0o077)
    try:
        for name, folder in _folders():
            _copy_new(source / name, folder)
        if connection.vendor == "sqlite":
            _restore_sqlite(source / _DATABASE)
        else:
            roles = site_roles()
            connection.close()
            quiet = ("--no-psqlrc", "--quiet", "--output", os.devnull)
            whole = ("--single-transaction", "--set", "ON_ERROR_STOP=1")
            _run("psql", *quiet, *whole, "--command", _EMPTY, "--file", str(source / _DATABASE))
            give_rights(roles)
    finally:
        os.umask(before)


def note_restored() -> None:
    """Say in the database and in the marks that a backup was put back, and end what signs anybody in.

    The database may be older than this version, so it is not asked through models.

    Raises:
        CommandError: the marks cannot be read.
    """
    try:
        if chain.whose() is not None:
            line = chain.append({"restored": timezone.now().isoformat()}, known=chain.read().known)
            chain.raise_to(line.number)
    except chain.Unreadable as error:
        raise CommandError(f"The marks cannot be read: {error}. Put back the newest copy of MARKS_DIR.") from None
    with connection.cursor() as cursor:
        tables = set(connection.introspection.table_names(cursor))
        for table in ("django_session", "releases_apitoken"):
            if table in tables:
                cursor.execute(f"DELETE FROM {table}")
        described = _columns(cursor, "releases_installation") if "releases_installation" in tables else set()
        if "restored_at" in described:
            changes = "restored_at = %s, has_ended_sign_ins = %s"
            cursor.execute(f"UPDATE releases_installation SET {changes}", [timezone.now(), False])


def _columns(cursor: Any, table: str) -> set[str]:
    return {each.name for each in connection.introspection.get_table_description(cursor, table)}


def _manifest(source: Path) -> dict[str, Any]:
    try:
        manifest: dict[str, Any] = json.loads((source / _MANIFEST).read_text())
    except (OSError, ValueError):
        raise CommandError(f"SOURCE: {source} is no backup, or was never finished: it has no {_MANIFEST}.") from None
    return manifest


def _folders() -> Iterator[tuple[str, Path]]:
    yield "tables", Path(settings.TABLES_DIR)
    yield "releases", Path(settings.RELEASES_DIR)


def _copy_new(source: Path, target: Path) -> None:
    """Every file that is not there yet. One that was deleted meanwhile is no part of it."""
    for path in sorted(source.rglob("*")):
        copy = target / path.relative_to(source)
        try:
            if path.is_dir():
                copy.mkdir(parents=True, exist_ok=True)
            elif not copy.exists():
                copy.parent.mkdir(parents=True, exist_ok=True)
                partial = copy.with_name(f"{copy.name}.partial")
                shutil.copy2(path, partial)
                partial.replace(copy)
        except FileNotFoundError:
            continue


def _copy_sqlite(path: Path) -> None:
    connection.ensure_connection()
    copy = sqlite3.connect(path)
    try:
        connection.connection.backup(copy)
        # One file, without a log beside it.
        copy.execute("PRAGMA journal_mode=DELETE")
    finally:
        copy.close()


def _dump_postgresql(path: Path) -> None:
    _run("pg_dump", "--no-owner", "--no-privileges", "--file", str(path))
    with connection.cursor() as cursor:
        cursor.execute("SHOW server_version_num")
        version = int(cursor.fetchone()[0])
    if version < 170000:
        # Written by newer programs, and refused by the older server that they have dumped.
        kept = path.with_suffix(".kept")
        with path.open("rb") as written, kept.open("wb") as file:
            file.writelines(line for line in written if line != b"SET transaction_timeout = 0;\n")
        kept.replace(path)


def _restore_sqlite(path: Path) -> None:
    connection.ensure_connection()
    copy = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
    try:
        copy.backup(connection.connection)
    finally:
        copy.close()
        connection.close()


def _run(program: str, *arguments: str) -> None:
    """One of PostgreSQL's programs, on the site's database."""
    chosen = connection.settings_dict
    environment = dict(os.environ)
    names = {"HOST": "PGHOST", "PORT": "PGPORT", "USER": "PGUSER", "PASSWORD": "PGPASSWORD", "NAME": "PGDATABASE"}
    environment |= {variable: str(chosen[name]) for name, variable in names.items() if chosen.get(name)}
    try:
        done = subprocess.run([program, *arguments], env=environment, capture_output=True, text=True, check=False)  # noqa: S603  named above, no shell
    except FileNotFoundError:
        raise CommandError(f"{program} is not installed; it comes with PostgreSQL's client programs.") from None
    if done.returncode != 0:
        raise CommandError(f"{program} failed: {done.stderr.strip()}")


def _refuse_at_work() -> None:
    """A worker that goes on would publish into a database that does not know what it was charged for."""
    now = timezone.now()
    try:
        held = Release.objects.filter(state__in=HELD_BY_A_WORKER, run_token__isnull=False, lease_until__gt=now)
        reading = Upload.objects.filter(state=UploadState.READING, lease_until__gt=now)
        is_held = held.exists() or reading.exists()
    except DatabaseError:  # nothing was ever migrated here
        is_held = False
    if is_held or _workers_answer():
        raise CommandError("A worker is running. Stop the site and all workers first.")


def _workers_answer() -> bool:
    try:
        return bool(current_app.control.ping(timeout=1.0))
    except Exception:  # noqa: BLE001  a broker that is away has no workers, and the embedded one carries no question
        return False


def _changed_since(moment: datetime) -> bool:
    try:
        events, answers = AuditEvent.objects.filter(at__gt=moment), SessionAnswer.objects.filter(asked_at__gt=moment)
        return events.exists() or answers.exists()
    except DatabaseError:
        return False
