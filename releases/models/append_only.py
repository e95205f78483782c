"""Models whose rows are only ever added: marked on the model, and guarded by triggers in the database.

A model is marked by a class attribute `append_only`. After every `migrate`, each marked model gets those of its
triggers that are missing, so that neither a new model nor a table that a migration made again is without one;
`manage.py audit` names those that are gone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.apps import apps
from django.db import models, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Q


@dataclass(frozen=True, kw_only=True, slots=True)
class AppendOnly:
    """How a model's rows are kept.

    Attributes:
        name: of its triggers.
        message: what whoever tries is told.
        may_be_deleted: whether a row may go, as a whole, with what it belongs to.
    """

    name: str
    message: str
    may_be_deleted: bool = False


def marked() -> list[type[models.Model]]:
    """The models that are only ever added to."""
    return [each for each in apps.get_models() if isinstance(getattr(each, "append_only", None), AppendOnly)]


def add_missing(connection: BaseDatabaseWrapper) -> None:
    """Give every marked model the triggers that it lacks."""
    found, tables = triggers(connection), set(connection.introspection.table_names())
    with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
        for model in marked():
            if model._meta.db_table not in tables:
                continue
            for name, statements in _wanted(model, connection):
                if name not in found:
                    for statement in statements:
                        cursor.execute(statement)


def missing(connection: BaseDatabaseWrapper) -> list[str]:
    """Triggers that a marked model lacks, by name."""
    found = triggers(connection)
    return [name for model in marked() for name, _ in _wanted(model, connection) if name not in found]


def triggers(connection: BaseDatabaseWrapper) -> set[str]:
    """The names of all triggers that fire."""
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")
        else:
            cursor.execute("SELECT tgname FROM pg_trigger WHERE NOT tgisinternal AND tgenabled IN ('O', 'A')")
        return {name for (name,) in cursor.fetchall()}


def _wanted(model: type[models.Model], connection: BaseDatabaseWrapper) -> Iterator[tuple[str, list[str]]]:
    """The triggers of a model by name, each with the statements that make it."""
    rule: AppendOnly = model.append_only  # type: ignore[attr-defined]
    yield from _on_sqlite(model, rule) if connection.vendor == "sqlite" else _on_postgresql(model, rule)


def _on_sqlite(model: type[models.Model], rule: AppendOnly) -> Iterator[tuple[str, list[str]]]:
    """`INSERT OR REPLACE` fires the delete triggers only where the connection asked for it, so a row that would take
    the place of another is refused as it comes in."""
    table = model._meta.db_table
    refuse = f"BEGIN SELECT RAISE(ABORT, '{rule.message}'); END"
    taken = " OR ".join(f"EXISTS (SELECT 1 FROM {table} WHERE {each})" for each in _places(model))
    replaced = f"{table.removeprefix('releases_')}_no_replace"
    yield replaced, [f"CREATE TRIGGER {replaced} BEFORE INSERT ON {table} WHEN {taken} {refuse}"]
    for verb in ("UPDATE",) if rule.may_be_deleted else ("UPDATE", "DELETE"):
        name = f"{rule.name}_no_{verb.lower()}"
        yield name, [f"CREATE TRIGGER {name} BEFORE {verb} ON {table} {refuse}"]


def _on_postgresql(model: type[models.Model], rule: AppendOnly) -> Iterator[tuple[str, list[str]]]:
    """`ON CONFLICT DO UPDATE` is an update there."""
    table, function = model._meta.db_table, f"{model._meta.db_table}_is_append_only"
    body = f"$$ BEGIN RAISE EXCEPTION '{rule.message}'; END $$"
    made = f"CREATE OR REPLACE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql AS {body}"
    verbs = "UPDATE" if rule.may_be_deleted else "UPDATE OR DELETE"
    for name, when, each in (("append_only", verbs, "ROW"), ("no_truncate", "TRUNCATE", "STATEMENT")):
        trigger = f"{rule.name}_{name}"
        on = f"CREATE TRIGGER {trigger} BEFORE {when} ON {table} FOR EACH {each} EXECUTE FUNCTION {function}()"
        yield trigger, [made, on]


def _places(model: type[models.Model]) -> Iterator[str]:
    """When a new row would take the place of another: by each unique column and constraint."""
    for field in model._meta.concrete_fields:
        if field.primary_key or field.unique:
            yield f"{field.column} = NEW.{field.column}"
    for constraint in model._meta.constraints:
        if isinstance(constraint, models.UniqueConstraint):
            by_name = {field.name: field.column for field in model._meta.concrete_fields}
            columns = [by_name[name] for name in constraint.fields]
            same = [f"{column} = NEW.{column}" for column in columns]
            yield " AND ".join([*same, *_condition(constraint.condition)])


def _condition(condition: Q | None) -> Iterator[str]:
    """Of a constraint that holds for some rows, that both are such rows.

    Raises:
        ValueError: it is more than a column with one value.
    """
    if condition is None:
        return
    for child in condition.children:
        if not isinstance(child, tuple) or "__" in child[0] or condition.negated or condition.connector != "AND":
            raise ValueError(f"{condition} is no condition that a trigger can be made for")
        column, value = child
        yield f"{column} = '{value}' AND NEW.{column} = '{value}'"


def after_migrating(*, using: str, **_: Any) -> None:
    """Called by Django once an app's migrations are applied."""
    from django.db import connections

    add_missing(connections[using])
