"""`manage.py migrate`: Django's own, but a database that is too old is refused before anything is changed."""

from __future__ import annotations

from typing import Any

from django.core.management.commands import migrate
from django.db import connections
from django.db.migrations.recorder import MigrationRecorder

from releases.management.database import refuse_too_old


class Command(migrate.Command):
    def handle(self, *args: Any, **options: Any) -> None:
        refuse_too_old(MigrationRecorder(connections[options["database"]]).applied_migrations())
        super().handle(*args, **options)
