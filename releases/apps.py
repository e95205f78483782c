from django.apps import AppConfig


class ReleasesConfig(AppConfig):
    name = "releases"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from releases import (
            audit_log,
            checks,  # noqa: F401  registers the system checks
        )

        audit_log.listen()
