"""On PostgreSQL, what the site's role may do where another role owns the tables (docs/operations/postgres-roles.md).

Given after each `migrate` and each `restore`, by the owner: rights belong to a table, so one that is new, or was put
back, has none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from django.conf import settings
from django.db import connection

from releases.models.append_only import marked

#: The rights that the site's work needs on every table.
_RIGHTS = ("SELECT", "INSERT", "UPDATE", "DELETE")


def site_roles() -> set[str]:
    """The role that is set, and every other that may read the releases by a right of its own."""
    found = {settings.DATABASE_SITE_ROLE} - {""}
    if connection.vendor != "postgresql":
        return set()
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT DISTINCT grantee FROM information_schema.role_table_grants WHERE table_schema = current_schema() "
            "AND table_name = 'releases_release' AND privilege_type = 'SELECT' "
            "AND grantee NOT IN ('PUBLIC', current_user)"
        )
        return found | {name for (name,) in cursor.fetchall()}


def give_rights(roles: Iterable[str]) -> None:
    """Give these roles what the site's work needs, and no more."""
    with connection.cursor() as cursor:
        for role in sorted(roles):
            for statement in _statements(connection.ops.quote_name(role)):
                cursor.execute(statement)


def _statements(role: str) -> Iterator[str]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT quote_ident(current_schema())")
        (schema,) = cursor.fetchone()
    yield f"REVOKE ALL ON SCHEMA {schema} FROM PUBLIC"
    yield f"GRANT USAGE ON SCHEMA {schema} TO {role}"
    yield f"GRANT {', '.join(_RIGHTS)} ON ALL TABLES IN SCHEMA {schema} TO {role}"
    yield f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA {schema} TO {role}"
    for model in marked():
        kept = "UPDATE" if model.append_only.may_be_deleted else "UPDATE, DELETE"  # type: ignore[attr-defined]
        yield f"REVOKE {kept} ON {model._meta.db_table} FROM {role}"
    yield f"REVOKE DELETE ON releases_surveytally FROM {role}"
    yield f"REVOKE INSERT, UPDATE, DELETE ON django_migrations FROM {role}"
