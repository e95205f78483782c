"""Databases that commands set up, and those that are too old to be migrated by this version."""

from __future__ import annotations

from collections.abc import Collection

from django.core.management import CommandError, call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

#: A migration's app and name.
Key = tuple[str, str]


def ensure_database() -> None:
    """Apply outstanding migrations, quietly.

    Raises:
        CommandError: the database is too old.
    """
    refuse_too_old(MigrationRecorder(connection).applied_migrations())
    executor = MigrationExecutor(connection)
    if executor.migration_plan(executor.loader.graph.leaf_nodes()):
        call_command("migrate", verbosity=0, interactive=False)


def known_migrations() -> frozenset[Key]:
    """Those of this version, and those of earlier versions that they replace."""
    loader = MigrationLoader(None)
    return frozenset(loader.disk_migrations) | {old for each in loader.replacements.values() for old in each.replaces}


def refuse_too_old(applied: Collection[Key]) -> None:
    """Refuse a database that has applied some, but not all, of the migrations that this version replaced.

    Raises:
        CommandError: the database is too old. Nothing is changed.
    """
    replacements = MigrationLoader(None).replacements
    if all(old in applied for each in replacements.values() for old in each.replaces):
        return
    # Applying a replacement records what it replaces, too: a new database that is made in part is not old.
    if any(old in applied for key, each in replacements.items() if key not in applied for old in each.replaces):
        raise CommandError(
            "The database was made by a version that is too old to be upgraded by this one. Nothing was changed. First "
            "install the last version that has the migration releases.0021_upload_without_group and run its migrate; "
            "then install this version again."
        )
