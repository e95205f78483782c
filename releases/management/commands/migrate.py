"""`manage.py migrate`: Django's own, but a database that is too old is refused before anything is changed,
and on PostgreSQL the site's role gets its rights afterwards."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.commands import migrate
from django.db import connections
from django.db.migrations.recorder import MigrationRecorder

from releases.management.database import refuse_too_old
from releases.management.site_role import give_rights


class Command(migrate.Command):
    def handle(self, *args: Any, **options: Any) -> None:
        refuse_too_old(MigrationRecorder(connections[options["database"]]).applied_migrations())
        super().handle(*args, **options)
        if settings.DATABASE_SITE_ROLE and connections[options["database"]].vendor == "postgresql":
            give_rights([settings.DATABASE_SITE_ROLE])
