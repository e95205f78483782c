"""MySQL and MariaDB: dialects, sessions of one transaction, and what the catalogue says.

Only tables of InnoDB are listed: of others, and of views, it is not known that all statements of a transaction read
the same rows.
"""

from __future__ import annotations

import json
import re
import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote, urlsplit

from numpy.typing import NDArray
from sqlglot import exp, parse_one

from releases.engine.tables.connection import refuse_unless_confined
from releases.engine.tables.databases import MOST_TABLES, SECONDS, CatalogueColumn, Database, names_role_and_database
from releases.engine.tables.dialects import CELL, Dialect, as_double, column, epoch, number_of_rows, step, whole
from releases.engine.tables.number import PLAIN
from releases.engine.tables.places import Secret, Snapshot
from releases.engine.tables.sources import ROWS_OF_OBJECTS, arrays
from releases.engine.tables.typed import ColumnType

if TYPE_CHECKING:
    from pymysql.connections import Connection

#: From the first character that is none of the six spaces to the last.
_WITHOUT_SPACES = r"(?s)[^\x09-\x0d\x20](.*[^\x09-\x0d\x20])?"
_TEXTS_OF = """
    SELECT CAST(category AS CHAR) COLLATE {collation} AS `category`, CAST(place - 1 AS SIGNED) AS `position`
    FROM JSON_TABLE('', '$[*]' COLUMNS(place FOR ORDINALITY, category LONGTEXT PATH '$')) AS given
"""


class MySQL(Dialect):
    """How MySQL 8 writes it.

    Attributes:
        collation: by which texts are equal where their bytes are.
    """

    name = "mysql"
    read_types = frozenset[ColumnType]()
    collation = "utf8mb4_0900_bin"

    def as_text(self, column: exp.Expr) -> exp.Expr:
        return exp.Collate(this=super().as_text(column), expression=exp.var(self.collation))

    def trimmed(self, given: exp.Expr) -> exp.Expr:
        # What its TRIM takes off is a text, and not each of some characters.
        found = [self.as_text(given), exp.Literal.string(_WITHOUT_SPACES)]
        return exp.Nullif(
            this=exp.Anonymous(this="REGEXP_SUBSTR", expressions=found), expression=exp.Literal.string("")
        )

    def part(self, text: exp.Expr, separator: str, place: int) -> exp.Expr:
        sign = exp.Literal.string(separator)
        # With as many separators behind it, it has as many parts as are asked for.
        longer = exp.Concat(expressions=[text.copy(), exp.Literal.string(separator * (place - 1))])
        until = exp.Anonymous(this="SUBSTRING_INDEX", expressions=[longer, sign, exp.Literal.number(place)])
        return exp.Anonymous(this="SUBSTRING_INDEX", expressions=[until, sign.copy(), exp.convert(-1)])

    def grouped(self, rows: exp.Select, columns: Sequence[exp.Column]) -> exp.Select:
        # It has no grouping sets: each row is there once for each column.
        cell = exp.case()
        for place, each in enumerate(columns):
            cell = cell.when(exp.EQ(this=column("position"), expression=whole(place)), each.copy(), copy=False)
        numbers = self.numbered([""] * len(columns), []).subquery("named", copy=False)
        cells = step(rows, [exp.alias_(cell, CELL, quoted=True)], self, keep=False)
        cells = cells.join(numbers, join_type="cross", copy=False)
        return step(cells, [column(CELL), number_of_rows()], self, keep=False).group_by(column(CELL), copy=False)

    def read_double(self, text: exp.Expr) -> exp.Expr:
        return as_double(text)

    def matches(self, text: exp.Expr, pattern: str) -> exp.Expr:
        # $ would also match before a line end.
        given = [text.copy(), exp.Literal.string(f"{pattern.removesuffix('$')}\\z")]
        return exp.EQ(this=exp.Anonymous(this="REGEXP_INSTR", expressions=given), expression=exp.Literal.number(1))

    def date_of(self, days: exp.Expr) -> exp.Expr:
        return exp.DateAdd(this=epoch(), expression=exp.cast(days, exp.DataType.Type.BIGINT), unit=exp.var("DAY"))

    def sha256(self, text: exp.Expr) -> exp.Expr:
        return exp.Anonymous(this="SHA2", expressions=[text, exp.Literal.number(256)])

    def identity(self, text: exp.Expr) -> exp.Expr:
        # Texts themselves are put in order by their first bytes alone, so rows of one person would come apart.
        return self.sha256(text)

    def numbered(self, texts: Sequence[str], parameters: list[list[str]]) -> exp.Select:
        found = parse_one(_TEXTS_OF.format(collation=self.collation), dialect=self.name)
        assert isinstance(found, exp.Select)
        table, (_, text) = found.find(exp.JSONTable), found.find_all(exp.JSONColumnDef)
        assert table is not None
        table.set("this", exp.Literal.string(json.dumps(list(texts))))
        # Else it would be the encoding of the database.
        text.set("kind", exp.DataType(this=exp.DataType.Type.USERDEFINED, kind="LONGTEXT CHARACTER SET utf8mb4"))
        return found


class MariaDB(MySQL):
    collation = "utf8mb4_nopad_bin"


#: What a session gives depends neither on the settings of the server nor on those of the role.
_SETTINGS = (
    "SET SESSION sql_mode = 'STRICT_TRANS_TABLES', time_zone = '+00:00', max_sort_length = 1024, sql_big_selects = 1, "
    "sql_select_limit = 18446744073709551615, "
    # Else each column's expression would be worked out wherever the column is used.
    "optimizer_switch = 'derived_merge=off'",
    "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
    "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
)
#: Of these methods a server gets an answer to its challenge, and no password that it could use.
_CHALLENGES = (b"mysql_native_password", b"client_ed25519")
_GUARD = "auth=challenge"
_ENCODINGS = ("utf8mb4", "utf8mb3", "utf8", "ascii", "latin1")
_SINGLE = (
    *("tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "float", "double"),
    *("date", "datetime", "timestamp", "time", "year", "uuid", "inet4", "inet6"),
)
# What `#` and `.` divide in a location cannot hold them.
_TABLES = """
    SELECT table_name FROM information_schema.tables
    WHERE table_schema = DATABASE() AND table_type = 'BASE TABLE' AND engine = 'InnoDB'
      AND table_name NOT LIKE '%%.%%' AND table_name NOT LIKE '%%#%%'
    ORDER BY table_name LIMIT %s
"""
_COLUMNS = """
    SELECT column_name, data_type, column_type, character_set_name, column_comment
    FROM information_schema.columns JOIN information_schema.tables USING (table_schema, table_name)
    WHERE table_schema = DATABASE() AND table_name = %s AND table_type = 'BASE TABLE' AND engine = 'InnoDB'
      AND FIND_IN_SET('select', privileges)
    ORDER BY ordinal_position
"""
#: What a role that reads may be granted, on what and to whom.
_GRANT = r"GRANT (USAGE|SHOW VIEW|SELECT( \([^)]*\))?)(, (SHOW VIEW|SELECT( \([^)]*\))?))* ON (?P<rest>.*)"


def _connected(url: str, *, seconds: int | None) -> Connection:
    """
    Args:
        seconds: that a question may take; None for any time.
    """
    refuse_unless_confined()
    import pymysql.connections
    import pymysql.cursors

    class Guarded(pymysql.connections.Connection):  # type: ignore[misc]
        """Sends no password that the server can read, whatever it asks for."""

        def _get_server_information(self) -> None:
            super()._get_server_information()
            # What the server names first gets an answer at once. If it wants another, it has to ask.
            self._auth_plugin_name = _CHALLENGES[0].decode()

        def _process_auth(self, plugin_name: bytes, *given: Any) -> Any:
            if plugin_name not in _CHALLENGES:
                raise pymysql.OperationalError("the server wants to read the password")
            return super()._process_auth(plugin_name, *given)

    parts = urlsplit(url)
    options = parse_qs(parts.query)
    made = Guarded if _GUARD in parts.query.split("&") else pymysql.connections.Connection
    trusted = None
    if options.get("sslmode") != ["disable"]:
        trusted = ssl.create_default_context(cafile=options.get("sslrootcert", [None])[-1])
    return made(
        host=parts.hostname,
        port=parts.port or MARIADB.port,
        user=unquote(parts.username or ""),
        password=unquote(parts.password or "").encode(),
        database=unquote(parts.path[1:]),
        charset="utf8mb4",
        ssl=trusted,
        ssl_disabled=trusted is None,
        connect_timeout=SECONDS,
        read_timeout=seconds,
        cursorclass=pymysql.cursors.SSCursor,
    )


class _Session:
    """A server, asked in one transaction that cannot write: all counts are of one moment."""

    is_here = False
    number_form = PLAIN

    def __init__(self, url: str) -> None:
        self.dialect = MariaDB() if url.startswith(MARIADB.scheme) else MySQL()
        self._connection = _connected(url, seconds=None)
        with self._connection.cursor() as cursor:
            cursor.execute(f"SET NAMES utf8mb4 COLLATE {self.dialect.collation}")
            for statement in _SETTINGS:
                cursor.execute(statement)

    def batches(self, statement: exp.Expr, parameters: Sequence[list[str]]) -> Iterator[tuple[NDArray[Any], ...]]:
        assert not parameters
        with self._connection.cursor() as cursor:
            cursor.execute(self.dialect.sql(statement))
            while rows := cursor.fetchmany(ROWS_OF_OBJECTS):
                yield arrays(rows)


class _Table(_Session):
    """A table of the database that the address names."""

    types: Mapping[str, ColumnType] = {}

    def __init__(self, url: str, name: str) -> None:
        super().__init__(url)
        self.relation = exp.table_(name, quoted=True)
        with self._connection.cursor() as cursor:
            cursor.execute(self.dialect.sql(exp.select("*").from_(self.relation).limit(0)))
            self.columns = tuple(str(name) for name, *_ in cursor.description or ())


@contextmanager
def _asked(url: str) -> Iterator[Connection]:
    connection = _connected(url, seconds=SECONDS)
    try:
        _rows(connection, "SET SESSION TRANSACTION READ ONLY")
        yield connection
    finally:
        connection.close()


def _rows(connection: Connection, statement: str, *given: object) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, given or None)
        return list(cursor.fetchall())


def _errors() -> tuple[type[Exception], ...]:
    import pymysql

    # Of encryption, the driver passes on some of Python's own.
    return (pymysql.Error, ssl.SSLError)


def _names(connection: Connection) -> list[str]:
    return [str(name) for (name,) in _rows(connection, _TABLES, MOST_TABLES)]


def _columns(connection: Connection, table: str) -> dict[str, CatalogueColumn]:
    found = _rows(connection, _COLUMNS, table)
    return {
        str(name): CatalogueColumn(type=str(written), comment=str(said), values=())
        for name, kind, written, encoding, said in found
        if kind in _SINGLE or encoding in _ENCODINGS
    }


def _rights(connection: Connection) -> list[str]:
    """By what the server says is granted: all that is not known to be reading is more than that."""
    granted = [str(grant) for (grant,) in _rows(connection, "SHOW GRANTS")]
    found = [re.fullmatch(_GRANT, grant, re.DOTALL) for grant in granted]
    is_more = [each is None or "WITH GRANT OPTION" in each["rest"] for each in found]
    # To the databases of these names everybody may write, where a server was installed so.
    seen = _rows(connection, "SELECT schema_name FROM information_schema.schemata")
    of_everybody = [name for (name,) in seen if re.match("test(_|$)", str(name))]
    return [
        *(["may do more than read tables"] if any(is_more) or not granted else []),
        *(["may use a database to which everybody may write"] if of_everybody else []),
    ]


def _version(connection: Connection) -> str:
    ((version, comment),) = _rows(connection, "SELECT VERSION(), @@version_comment")
    return f"{version} {comment}"


MARIADB = Database(
    scheme="mariadb",
    title="database",
    form="mariadb://ROLE@HOST/DATABASE",
    options=("ssl",),
    has_network=True,
    secret=Secret.ALWAYS,
    snapshot=Snapshot.TRANSACTION,
    port=3306,
    is_of_form=names_role_and_database,
    guard=(_GUARD,),
    driver="pymysql",
    errors=_errors,
    dialect=MariaDB(),
    session=_Session,
    table=_Table,
    asked=_asked,
    names=_names,
    columns=_columns,
    rights=_rights,
    # A column of an encoding that could hold other texts is not listed.
    is_utf8=lambda asked: True,
    version=_version,
)
MYSQL = replace(MARIADB, scheme="mysql", form="mysql://ROLE@HOST/DATABASE", dialect=MySQL())
