"""PostgreSQL: a role, sessions of one transaction, and what the catalogue says."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray
from sqlglot import exp

from releases.engine.errors import InvalidInput
from releases.engine.tables.connection import refuse_unless_confined
from releases.engine.tables.databases import MOST_TABLES, SECONDS, CatalogueColumn, Database, names_role_and_database
from releases.engine.tables.dialects import PostgreSQL
from releases.engine.tables.number import PLAIN
from releases.engine.tables.places import Secret, Snapshot
from releases.engine.tables.sources import ROWS_OF_OBJECTS, arrays
from releases.engine.tables.typed import of_postgresql

if TYPE_CHECKING:
    from psycopg import Connection

# What `#` and `.` divide in a location cannot hold them.
_TABLES = """
    SELECT space.nspname || '.' || class.relname
    FROM pg_catalog.pg_class AS class JOIN pg_catalog.pg_namespace AS space ON space.oid = class.relnamespace
    WHERE class.relkind IN ('r', 'p', 'v', 'm', 'f')
      AND space.nspname <> 'information_schema' AND space.nspname !~ '^pg_'
      AND pg_catalog.has_schema_privilege(space.oid, 'USAGE')
      AND pg_catalog.has_table_privilege(class.oid, 'SELECT')
      AND class.relname !~ '[.#]' AND space.nspname !~ '[.#]'
    ORDER BY space.nspname, class.relname
    LIMIT %s
"""
_COLUMNS = """
    SELECT
        attribute.attname,
        pg_catalog.format_type(attribute.atttypid, attribute.atttypmod),
        coalesce(pg_catalog.col_description(class.oid, attribute.attnum), ''),
        CASE WHEN attribute.atttypid = 'pg_catalog.bool'::regtype THEN ARRAY['false', 'true'] ELSE ARRAY(
            SELECT enum.enumlabel::text FROM pg_catalog.pg_enum AS enum
            WHERE enum.enumtypid = attribute.atttypid ORDER BY enum.enumsortorder
        ) END
    FROM pg_catalog.pg_attribute AS attribute
    JOIN pg_catalog.pg_class AS class ON class.oid = attribute.attrelid
    JOIN pg_catalog.pg_namespace AS space ON space.oid = class.relnamespace
    WHERE space.nspname = %s AND class.relname = %s AND attribute.attnum > 0 AND NOT attribute.attisdropped
      AND pg_catalog.has_column_privilege(class.oid, attribute.attnum, 'SELECT')
    ORDER BY attribute.attnum
"""
# Each with what is wrong where it is true.
_RIGHTS = {
    "SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user": "is a superuser",
    "SELECT rolcreaterole OR rolcreatedb OR rolreplication FROM pg_catalog.pg_roles WHERE rolname = current_user": (
        "may make roles or databases, or copy the server"
    ),
    "SELECT pg_catalog.has_database_privilege(pg_catalog.current_database(), 'CREATE')": "may make schemas",
    """
    SELECT coalesce(bool_or(pg_catalog.has_schema_privilege(oid, 'CREATE')), false) FROM pg_catalog.pg_namespace
    WHERE nspname <> 'information_schema' AND nspname !~ '^pg_'
    """: "may make tables",
    """
    SELECT coalesce(bool_or(
        pg_catalog.has_table_privilege(class.oid, 'INSERT, UPDATE, DELETE, TRUNCATE, TRIGGER')
        OR pg_catalog.has_any_column_privilege(class.oid, 'INSERT, UPDATE')
    ), false)
    FROM pg_catalog.pg_class AS class JOIN pg_catalog.pg_namespace AS space ON space.oid = class.relnamespace
    WHERE class.relkind IN ('r', 'p', 'v', 'm', 'f')
      AND space.nspname <> 'information_schema' AND space.nspname !~ '^pg_'
    """: "may write to tables",
}


#: No file of this account is looked into for a password: whoever signs in is in the URL alone.
_NO_FILE = f"{os.devnull}/none"


class _Session:
    """A PostgreSQL server, asked in one transaction that cannot write: all counts are of one moment."""

    dialect = PostgreSQL()
    is_here = False
    number_form = PLAIN

    def __init__(self, url: str) -> None:
        refuse_unless_confined()
        import psycopg

        self._connection = psycopg.connect(url, passfile=_NO_FILE)
        self._connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        self._connection.read_only = True
        self._connection.server_cursor_factory = psycopg.RawServerCursor
        settings = {
            # A cursor is otherwise planned for its first rows.
            "cursor_tuple_fraction": "1",
            "standard_conforming_strings": "on",
            # To compile these statements takes longer than it saves.
            "jit": "off",
            # How values of other types are written, whatever the database or the role prefers.
            "extra_float_digits": "1",
            "DateStyle": "ISO, YMD",
            "IntervalStyle": "postgres",
            "TimeZone": "UTC",
            "bytea_output": "hex",
        }
        for setting, value in settings.items():
            self._connection.execute("SELECT set_config(%s, %s, false)", [setting, value])
        if self._connection.info.parameter_status("server_encoding") != "UTF8":
            # Some texts of other encodings cannot be written in UTF-8: one row could end a run.
            raise InvalidInput("table", "encoding of the database", "must be UTF8")

    def batches(self, statement: exp.Expr, parameters: Sequence[list[str]]) -> Iterator[tuple[NDArray[Any], ...]]:
        with self._connection.cursor(name="counted") as cursor:
            cursor.execute(self.dialect.sql(statement).encode(), list(parameters))
            while rows := cursor.fetchmany(ROWS_OF_OBJECTS):
                yield arrays(rows)


class _Table(_Session):
    """A table of a PostgreSQL server."""

    def __init__(self, url: str, name: str) -> None:
        super().__init__(url)
        schema, _, table = name.rpartition(".")
        self._names = (table, schema)
        described = self._connection.execute(
            self.dialect.sql(exp.select("*").from_(self.relation).limit(0)).encode()
        ).description
        self.columns = tuple(column.name for column in described or ())
        self.types = of_postgresql(
            (column.name, column.type_code, column.precision, column.scale) for column in described or ()
        )

    @property
    def relation(self) -> exp.Expr:
        table, schema = self._names
        return exp.table_(table, db=schema or None, quoted=True)


@contextmanager
def _asked(url: str) -> Iterator[Connection[Any]]:
    refuse_unless_confined()
    import psycopg

    options = f"-c statement_timeout={SECONDS}s"
    with psycopg.connect(url, connect_timeout=SECONDS, options=options, passfile=_NO_FILE) as connection:
        connection.read_only = True
        yield connection


def _errors() -> tuple[type[Exception], ...]:
    import psycopg

    return (psycopg.Error,)


def _names(connection: Connection[Any]) -> list[str]:
    return [str(name) for (name,) in connection.execute(_TABLES, [MOST_TABLES])]


def _columns(connection: Connection[Any], name: str) -> dict[str, CatalogueColumn]:
    schema, _, table = name.rpartition(".")
    found = connection.execute(_COLUMNS, [schema, table]).fetchall()
    return {name: CatalogueColumn(type=kind, comment=said, values=tuple(values)) for name, kind, said, values in found}


def _rights(connection: Connection[Any]) -> list[str]:
    return [says for statement, says in _RIGHTS.items() if _is_true(connection, statement)]


def _is_true(connection: Connection[Any], statement: str) -> bool:
    found = connection.execute(statement.encode()).fetchone()
    # A role that the catalogue does not know is none that is known to read alone.
    return found is None or bool(found[0])


def _is_utf8(connection: Connection[Any]) -> bool:
    return connection.info.parameter_status("server_encoding") == "UTF8"


def _version(connection: Connection[Any]) -> str:
    ((version,),) = connection.execute("SELECT pg_catalog.version()").fetchall()
    return str(version)


POSTGRESQL = Database(
    scheme="postgresql",
    title="database",
    form="postgresql://ROLE@HOST/DATABASE",
    # Others would name another host, database or role than the address does, or a password.
    options=("ssl",),
    has_network=True,
    secret=Secret.ALWAYS,
    snapshot=Snapshot.TRANSACTION,
    port=5432,
    is_of_form=names_role_and_database,
    guard=("require_auth=!password",),
    driver="psycopg",
    errors=_errors,
    dialect=_Session.dialect,
    session=_Session,
    table=_Table,
    asked=_asked,
    names=_names,
    columns=_columns,
    rights=_rights,
    is_utf8=_is_utf8,
    version=_version,
)
