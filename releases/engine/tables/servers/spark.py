"""Spark, through Spark Connect: sessions, what a server lists, and tables that it counts.

A run counts by several statements, and between two of them a table of Spark can be written to. So the first statement
of a run sets aside the columns that are read, in the memory and on the disks of Spark itself, and all others read these
rows. They have no way back to the table (a local checkpoint): where a machine of Spark loses its part, the run fails.
One statement reads one moment of a table in one of `FORMATS`: the files that are listed when it begins, none of which
is written to again, or a version that was committed. Tables of other formats, and views, which can read any table, are
refused.

Spark has no roles, so what whoever signs in may do beside reading cannot be asked.
"""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlsplit

from sqlglot import exp

from releases.engine.tables.connection import refuse_unless_confined
from releases.engine.tables.databases import MOST_TABLES, NOT_SAID, CatalogueColumn, Database
from releases.engine.tables.dialects import column
from releases.engine.tables.facts import SERVER, UnreadableTable
from releases.engine.tables.places import Secret, Snapshot
from releases.engine.tables.sources import SparkSession, named_in_spark
from releases.engine.tables.typed import of_spark

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession as Remote

_PORT = 15002
_ENCRYPTED = "use_ssl"
#: Of tables of which one statement reads one moment.
FORMATS = ("parquet", "orc", "delta", "iceberg")
_TABLES = ("MANAGED", "EXTERNAL")
_ABOUT_TABLE = "# Detailed Table Information"
#: Before it, nothing could be set aside through Spark Connect.
_FIRST_VERSION = 4
#: A server that is away is asked again so often, after a pause of at most so many milliseconds.
_RETRIES, _LONGEST_PAUSE = 3, 1000
#: How values are read and written, whatever the server prefers.
_SETTINGS = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "false",
    # Else files that are gone by the time they are read would be left out, and the rows of no moment counted.
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.session.timeZone": "UTC",
}
#: What can make two servers of one version count otherwise.
_EXTENSIONS = ("spark.sql.extensions", "spark.plugins")
_KEPT = "rows_of_this_run"
#: Types of single values; a column of any other is not listed.
_SINGLE = re.compile(
    r"(string|char|varchar|decimal)\b.*|tinyint|smallint|int|bigint|float|double|boolean|date|timestamp(_ntz)?"
)
#: Where the type of a column is kept that is declared with a length.
_DECLARED = "__CHAR_VARCHAR_TYPE_STRING"


def with_checked(url: str, version: str) -> str:
    """The URL of a server that has counted the rows of the self test right as this version. As long as it is of that
    version, it is not asked for them again."""
    return f"{url}{'&' if '?' in url else '?'}checked={quote(version, safe='')}"


class RemoteSession(SparkSession):
    """A server, in a session of its own.

    Raises:
        UnreadableTable: the program that speaks to Spark is not installed, the token is missing, or the server is of an
            older version than this program counts in. The field is `SERVER`.
        Unconfined: nothing confines this process.
    """

    def __init__(self, url: str) -> None:
        refuse_unless_confined()
        super().__init__(_signed_in(url))
        try:
            self._ask(url)
        except BaseException:
            self.close()
            raise

    def _ask(self, url: str) -> None:
        for name, value in _SETTINGS.items():
            self._session.conf.set(name, value)
        number = str(self._session.version)
        if int(number.partition(".")[0]) < _FIRST_VERSION:
            raise UnreadableTable(f"is of version {number}, and this site counts in Spark 4 and later", field=SERVER)
        ((said,),) = self._session.sql("SELECT version()").collect()
        extensions = filter(None, (self._session.conf.get(name, "") for name in _EXTENSIONS))
        self.version = " with ".join((f"Spark {said}", *extensions))
        self.is_checked = _options(url).get("checked") == self.version

    def close(self) -> None:
        """Spark forgets what it has set aside. Otherwise it does an hour after it was asked last."""
        self._session.stop()

    def names(self) -> list[str]:
        """The tables of the server's usual catalogue as ``schema.table``, in the order of the alphabet."""
        found = [
            f"{schema}.{table}"
            for (schema, *_) in self._session.sql("SHOW NAMESPACES").collect()
            for table in self._tables_of(schema)
            # What `#` and `.` divide in a location cannot hold them.
            if not set(".#").intersection(f"{schema}{table}")
        ]
        return sorted(found)[:MOST_TABLES]

    def columns_of(self, name: str) -> dict[str, CatalogueColumn]:
        """The columns of a table; none where there is no such table. Columns whose names differ in nothing but case are
        not there: Spark could not tell them apart.

        Raises:
            UnreadableTable: more than one moment of the table could be read. The field is `SERVER`.
        """
        quoted = self.dialect.sql(named_in_spark(name))
        if not self._session.catalog.tableExists(quoted):
            return {}
        self._refuse_other_formats(quoted)
        fields = self._session.table(quoted).schema.fields
        lowered = [each.name.lower() for each in fields]
        types = {each.name: str(each.metadata.get(_DECLARED) or each.dataType.simpleString()) for each in fields}
        return {
            each.name: CatalogueColumn(
                type=types[each.name],
                comment=str(each.metadata.get("comment", "")),
                values=("false", "true") if types[each.name] == "boolean" else (),
            )
            for each in fields
            if lowered.count(each.name.lower()) == 1 and _SINGLE.fullmatch(types[each.name])
        }

    def _tables_of(self, schema: str) -> list[str]:
        quoted = self.dialect.sql(exp.to_identifier(schema, quoted=True))
        tables, views = (self._session.sql(f"SHOW {each} IN {quoted}").collect() for each in ("TABLES", "VIEWS"))
        return sorted({str(each[1]) for each in tables} - {str(each[1]) for each in views})

    def _refuse_other_formats(self, quoted: str) -> None:
        rows = [tuple(each) for each in self._session.sql(f"DESCRIBE TABLE EXTENDED {quoted}").collect()]
        # Behind its columns, one of which could have any name.
        begins = max(place for place, (said, *_) in enumerate(rows) if not place or said == _ABOUT_TABLE)
        about = {str(said): str(value) for said, value, *_ in rows[begins:]}
        if about.get("Type") not in _TABLES or about.get("Provider", "").lower() not in FORMATS:
            raise UnreadableTable(
                f"could give rows of several moments of that table in one run; a table that is used is one in the "
                f"format {' or '.join(FORMATS)}, and no view",
                field=SERVER,
            )


class RemoteTable(RemoteSession):
    """A table of a server. Nothing is counted before `set_aside`.

    Args:
        names: of the columns that will be read; None for all.

    Raises:
        UnreadableTable: as those of its server and of `columns_of`; or there is no such table.
    """

    def __init__(self, location: str, *, names: Collection[str] | None = None) -> None:
        url, _, self._name = location.partition("#")
        super().__init__(url)
        try:
            found = self.columns_of(self._name)
        except BaseException:
            self.close()
            raise
        self.columns = tuple(each for each in found if names is None or each in names)
        self.types = of_spark((each, found[each].type) for each in self.columns)

    @property
    def relation(self) -> exp.Expr:
        return exp.table_(_KEPT, quoted=True)

    def set_aside(self) -> None:
        """Read the columns, once for all that is counted. In Spark they are kept until the session ends."""
        chosen = exp.select(*map(column, self.columns)).from_(named_in_spark(self._name))
        with _as_active(self._session):
            kept = self._session.sql(self.dialect.sql(chosen)).localCheckpoint()
        kept.createOrReplaceTempView(_KEPT)


def _signed_in(url: str) -> Remote:
    parts, given = urlsplit(url), {"user_id": "dpweb", "user_agent": "dpweb"}
    if parts.username:
        if not parts.password:
            raise UnreadableTable("is signed in to with a token that was not found", field=SERVER)
        given |= {"user_id": unquote(parts.username), "token": unquote(parts.password)}
    if _options(url).get(_ENCRYPTED) == "true":
        given[_ENCRYPTED] = "true"
        # Of this machine, or of the file that the variable SSL_CERT_FILE names; else gRPC would take its own.
        if certificates := ssl.get_default_verify_paths().cafile:
            os.environ["GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"] = certificates
    try:
        from pyspark.sql.connect.client import DefaultChannelBuilder
        from pyspark.sql.connect.client.retries import DefaultPolicy
        from pyspark.sql.connect.session import SparkSession as Remote
    except ImportError:
        raise UnreadableTable(
            "needs the packages of dpweb[spark], which are not installed here", field=SERVER
        ) from None
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    said = ";".join(f"{name}={quote(value, safe='')}" for name, value in given.items())
    to = DefaultChannelBuilder(f"sc://{host}:{parts.port or _PORT}/;{said}")
    session = Remote.builder.channelBuilder(to).create()
    session.client.set_retry_policies([DefaultPolicy(max_retries=_RETRIES, max_backoff=_LONGEST_PAUSE)])
    return session


@contextmanager
def _as_active(session: Remote) -> Iterator[None]:
    """Spark's program takes what was set aside for that of the thread's active session. This is the first one that was
    opened, be it closed or of another server, and no method changes it."""
    active = type(session)._active_session
    before = getattr(active, "session", None)
    active.session = session
    try:
        yield
    finally:
        active.session = before


def _options(url: str) -> dict[str, str]:
    return dict(parse_qsl(urlsplit(url).query))


def _is_of_form(parts: SplitResult) -> bool:
    """Whoever signs in is let in by a token, which nobody on the way may read."""
    is_encrypted = parts.query == f"{_ENCRYPTED}=true"
    # Spark itself would take what stands behind a semicolon for a parameter.
    is_host = re.fullmatch("[a-z0-9.:-]+", parts.hostname or "") is not None
    return is_host and not parts.path and (is_encrypted or not (parts.query or parts.username))


def _errors() -> tuple[type[Exception], ...]:
    from pyspark.errors import PySparkException

    try:
        from grpc import RpcError
    except ImportError:
        # What signs in says which packages are missing.
        return (PySparkException,)
    return (PySparkException, RpcError)


@contextmanager
def _asked(url: str) -> Iterator[RemoteSession]:
    with closing(RemoteSession(url)) as session:
        yield session


SPARK = Database(
    scheme="sc",
    title="database",
    form=f"sc://HOST:PORT?{_ENCRYPTED}=true, with or without USER@",
    options=(_ENCRYPTED,),
    has_network=True,
    secret=Secret.OF_WHO_IS_NAMED,
    snapshot=Snapshot.SET_ASIDE,
    port=_PORT,
    is_of_form=_is_of_form,
    # The server reads the token.
    guard=(),
    driver="pyspark",
    errors=_errors,
    dialect=RemoteSession.dialect,
    session=RemoteSession,
    table=lambda url, name: RemoteTable(f"{url}#{name}"),
    asked=_asked,
    names=RemoteSession.names,
    columns=RemoteSession.columns_of,
    rights=lambda _: [NOT_SAID],
    is_utf8=lambda _: True,
    version=lambda session: session.version,
)
