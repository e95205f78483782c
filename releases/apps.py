from typing import Any

from django.apps import AppConfig
from django.db.backends.signals import connection_created
from django.db.models.signals import post_migrate


class ReleasesConfig(AppConfig):
    name = "releases"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        connection_created.connect(fire_triggers_for_every_row)
        from releases.models import append_only

        post_migrate.connect(append_only.after_migrating, sender=self, dispatch_uid="append-only models")
        from releases import checks  # noqa: F401  registers the system checks
        from releases.accounts import new_accounts
        from releases.ledger import audit_log

        audit_log.listen()
        new_accounts.listen()


def fire_triggers_for_every_row(*, connection: Any, **_: Any) -> None:
    """SQLite fires the delete triggers of rows that `INSERT OR REPLACE` deletes only where it is asked to."""
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA recursive_triggers = ON")
