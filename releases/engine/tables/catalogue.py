"""What a PostgreSQL server, a folder of Parquet files or storage says of its tables: names and columns. No row is read.

    tables         those that may be read; on a server also what its role may do beside that
    columns        of one table, with the types that they are declared with

Each question to a server has a time limit of its own. What the server answers to a failed one stays here: it can name
the role, the host or a value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from releases.engine.tables import storage
from releases.engine.tables.connection import Limits, connect, refuse_unless_confined
from releases.engine.tables.facts import UnreadableTable
from releases.engine.tables.places import DATABASE, FOLDER, STORAGE, kind_of

if TYPE_CHECKING:
    from psycopg import Connection

_SECONDS = 10
#: Names that the list of tables can hold; of more, those that come first.
MOST_TABLES = 2_000

#: Types of single values in a Parquet file, whatever their size or scale; a column of any other is not listed.
_SINGLE = ("BOOLEAN", "VARCHAR", "DATE", "TIME", "TIMESTAMP", "UUID", "DECIMAL", "FLOAT", "DOUBLE", "ENUM")
_INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")

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


@dataclass(frozen=True, kw_only=True, slots=True)
class Tables:
    """What a role may read on a server.

    Attributes:
        names: ``schema.table``, in the order of the alphabet.
        faults: what the role may do beside reading, in words; empty of one that reads alone.
        is_utf8: every text of the database can be read. Of others one row could end a run.
        version: of the server, as it writes it; empty where this machine counts.
    """

    names: tuple[str, ...]
    faults: tuple[str, ...]
    is_utf8: bool = True
    version: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Column:
    """What a table's declaration says of a column. None of it comes from rows.

    Attributes:
        type: as the database writes it.
        comment: in its owner's words; empty of most.
        values: all that it can hold, where its type lists them, as the counts read them.
    """

    type: str
    comment: str
    values: tuple[str, ...]


def tables(url: str) -> Tables:
    """The tables that the role of a URL may read, or the Parquet files of the folder or below the prefix that it names.

    Raises:
        InvalidInput: the URL is of no kind that is known.
        UnreadableTable: the server does not answer, or refuses the role.
        Unconfined: nothing confines this process.
    """
    kind = kind_of(url)
    if kind is FOLDER:
        return Tables(names=_files(Path(url.removeprefix("file://"))), faults=())
    if kind is STORAGE:
        # What a key may do beside reading, storage cannot be asked without trying it.
        return Tables(names=tuple(storage.names(url)[:MOST_TABLES]), faults=())
    assert kind is DATABASE
    with _asked(url) as connection:
        names = [str(name) for (name,) in connection.execute(_TABLES, [MOST_TABLES])]
        faults = [says for statement, says in _RIGHTS.items() if _is_true(connection, statement)]
        is_utf8 = connection.info.parameter_status("server_encoding") == "UTF8"
        ((version,),) = connection.execute("SELECT pg_catalog.version()").fetchall()
    return Tables(names=tuple(names), faults=tuple(faults), is_utf8=is_utf8, version=str(version))


def columns(location: str, *, limits: Limits | None = None) -> dict[str, Column]:
    """The columns of a table that may be read, by name; none where there is no such table.

    Args:
        location: as `open_table` takes it.
        limits: of the connection that reads the columns of a file or an object.

    Raises:
        InvalidInput: the location is of no kind that is known.
        UnreadableTable: the server does not answer, or refuses the role.
        Unconfined: nothing confines this process.
    """
    kind = kind_of(location)
    if kind is FOLDER:
        return _of_single_values(_columns_of_file(location, limits))
    if kind is STORAGE:
        return _of_single_values(storage.described(location, limits=limits))
    assert kind is DATABASE
    url, _, name = location.partition("#")
    schema, _, table = name.rpartition(".")
    with _asked(url) as connection:
        found = connection.execute(_COLUMNS, [schema, table]).fetchall()
    return {name: Column(type=kind, comment=said, values=tuple(values)) for name, kind, said, values in found}


def _files(folder: Path) -> tuple[str, ...]:
    refuse_unless_confined()
    try:
        inside = [each for each in folder.iterdir() if _is_own(each)]
    except OSError:
        raise UnreadableTable("The folder is not there, or may not be read. Nothing was read.") from None
    names = sorted(each.name for each in inside if each.suffix == ".parquet" and "#" not in each.name)
    return tuple(names[:MOST_TABLES])


def _is_own(path: Path) -> bool:
    """Whether it is a file of its folder; a link out of it would lead to one that nobody has named."""
    return path.is_file() and path.resolve().parent == path.parent.resolve()


def _columns_of_file(path: str, limits: Limits | None) -> dict[str, str]:
    if not _is_own(Path(path)):
        return {}
    connection = connect(paths=[path], limits=limits)
    described = connection.execute("DESCRIBE SELECT * FROM read_parquet(?)", [path]).fetchall()
    return {str(name): str(kind) for name, kind, *_ in described}


def _of_single_values(found: Mapping[str, str]) -> dict[str, Column]:
    return {
        name: Column(type=kind, comment="", values=("false", "true") if kind == "BOOLEAN" else ())
        for name, kind in found.items()
        if kind.removeprefix("U") in _INTEGERS or (kind.startswith(_SINGLE) and not kind.endswith("]"))
    }


@contextmanager
def _asked(url: str) -> Iterator[Connection[Any]]:
    refuse_unless_confined()
    import psycopg

    options = f"-c statement_timeout={_SECONDS}s"
    with refused_in_words(), psycopg.connect(url, connect_timeout=_SECONDS, options=options) as connection:
        connection.read_only = True
        yield connection


@contextmanager
def refused_in_words() -> Iterator[None]:
    """What a server answers stays here: it can name the role, the host or a value.

    Raises:
        UnreadableTable: the server did not answer, or refused.
    """
    import psycopg

    try:
        yield
    except psycopg.Error:
        raise UnreadableTable(
            "The database does not answer, or does not let this site sign in. Nothing was read."
        ) from None


def _is_true(connection: Connection[Any], statement: str) -> bool:
    found = connection.execute(statement.encode()).fetchone()
    # A role that the catalogue does not know is none that is known to read alone.
    return found is None or bool(found[0])
