"""System checks: settings that must fit each other, or the site does not start."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning, register
from django.db import DatabaseError, connection

from releases.models.roles import Role
from releases.storage.addresses import fault_of

#: Bytes.
_LEAST_READER_MEMORY = 256 * 2**20


@register()
def database_takes_the_write_lock_first(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """On SQLite a charge that starts as a reader can fail when another writes in between."""
    database = settings.DATABASES["default"]
    if "sqlite" not in database["ENGINE"] or database.get("OPTIONS", {}).get("transaction_mode") == "IMMEDIATE":
        return []
    return [Error("SQLite must use transaction_mode IMMEDIATE: charges would fail or race.", id="releases.E001")]


@register()
def somebody_says_what_came_over_https(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """A proxy that speaks HTTPS and is not believed makes every page redirect to itself."""
    if not settings.HTTPS or settings.TRUSTED_PROXIES:
        return []
    says = "HTTPS is set and TRUSTED_PROXIES is 0: behind a proxy, no page would ever be reached."
    return [Warning(says, hint="Set TRUSTED_PROXIES to the number of proxies in front of it.", id="releases.W001")]


@register()
def metrics_token_cannot_be_guessed(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """Nothing limits how often it is tried."""
    if not settings.METRICS_TOKEN or len(settings.METRICS_TOKEN) >= 20:
        return []
    return [Error("METRICS_TOKEN must have at least 20 characters.", id="releases.E004")]


@register()
def lease_outlives_its_heartbeat(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """A lease shorter than a few heartbeats would be lost by a healthy worker."""
    if settings.LEASE_SECONDS >= 3 * settings.HEARTBEAT_SECONDS:
        return []
    return [Error("LEASE_SECONDS must be at least three times HEARTBEAT_SECONDS.", id="releases.E002")]


@register()
def broker_waits_longer_than_a_release(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """Redis hands a message out again after the visibility timeout, finished or not."""
    timeout = settings.CELERY_BROKER_TRANSPORT_OPTIONS.get("visibility_timeout")
    if timeout is None or timeout > settings.CELERY_TASK_TIME_LIMIT:
        return []
    return [Error("The broker's visibility_timeout must exceed RELEASE_TIME_LIMIT.", id="releases.E003")]


@register()
def a_reader_has_memory_enough(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """Its own code alone takes this much: with less, every reading of a table would end without a reason."""
    if settings.READER_MEMORY_BYTES >= _LEAST_READER_MEMORY:
        return []
    return [Error(f"READER_MEMORY_MB must be at least {_LEAST_READER_MEMORY // 2**20}.", id="releases.E005")]


@register()
def connections_are_named_without_passwords(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """An address with its password would be in every list of processes and every log of what starts them."""
    found = ((name, fault_of(name, address)) for name, address in settings.CONNECTIONS.items())
    return [Error(f"The connection {name!r} {why}.", id="releases.E021") for name, why in found if why]


@register()
def folders_are_absolute(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """Another would depend on where the site was started."""
    return [
        Error(f"CONNECTABLE_FOLDERS names {each!r}, which does not begin with /.", id="releases.E022")
        for each in settings.CONNECTABLE_FOLDERS
        if not Path(each).is_absolute()
    ]


@register()
def roles_are_known(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """A role that is misspelt would protect nobody, and could not be given."""
    known = ", ".join(Role.values)
    return [
        Error(f"{setting} names {name!r}, which is no role; the roles are {known}.", id="releases.E020")
        for setting in ("REQUIRE_SECOND_FACTOR", "NEW_ACCOUNT_ROLES")
        for name in getattr(settings, setting)
        if name not in Role.values
    ]


@register(deploy=True)
def site_cannot_take_guards_off(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """The owner of a table, and a superuser, can drop the triggers that keep the ledger as it is."""
    if connection.vendor != "postgresql":
        return []
    try:
        name, is_superuser, owns = who_signs_in()
    except DatabaseError:
        # That the database is away is found elsewhere.
        return []
    if not is_superuser and not owns:
        return []
    why = "is a superuser" if is_superuser else "owns the ledger"
    says = f"The site signs in to PostgreSQL as {name}, which {why} and can take its guards off."
    return [Warning(says, hint="Use two roles: see docs/operations/postgres-roles.md.", id="releases.W003")]


def who_signs_in() -> tuple[str, bool, bool]:
    """The role that is signed in to PostgreSQL, whether it is a superuser, and whether it owns the ledger."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_user, rolsuper FROM pg_roles WHERE rolname = current_user")
        name, is_superuser = cursor.fetchone()
        cursor.execute(
            "SELECT count(*) FROM pg_tables WHERE schemaname = current_schema() AND tablename = 'releases_ledgerentry' "
            "AND pg_has_role(current_user, tableowner, 'MEMBER')"
        )
        return name, is_superuser, bool(cursor.fetchone()[0])


@register()
def marks_are_no_part_of_a_backup(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """What a backup takes back with the database cannot tell that it was taken back."""
    inside = marks_inside_the_data()
    return [Warning(inside, id="releases.W002")] if inside else []


def marks_inside_the_data() -> str:
    """Why the place of the marks is a bad one; empty where it is outside of what is backed up as a folder."""
    marks, data = Path(settings.MARKS_DIR).resolve(), Path(settings.DATA_DIR).resolve()
    if not marks.is_relative_to(data):
        return ""
    return (
        f"MARKS_DIR lies inside DATA_DIR ({marks}): restoring that folder as a whole takes the marks back too, "
        f"and what was published since is forgotten. Stop the site, move it elsewhere and set MARKS_DIR."
    )
