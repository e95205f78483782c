"""Tables where they are: databases that the settings name or an administrator has registered, and the tables that they
list. A folder of Parquet files is such a database, too, and so is storage that holds them.

    all_connections       those that are named
    connections           those of them that may be read
    register_connection   by an administrator, once its role is seen to read alone and it counts right
    remove_connection     its datasets are refused from then on
    tables_of             what one of them lists, once its role is seen to read alone
    register_table        one of these tables becomes a dataset; nothing is copied
    opened                before a run: its address with the password, once the catalogue is what it was
    seen_unchanged        the same before a charge, which wants what it returns
    version_before        which version of it is about to be read, where it has versions

A table in a database changes. So it is one population with all that it will hold, whose budget spans all its versions,
and the number of its rows stays private: neighbours are add/remove (`datasets.declare_protection`). A password is read
from the environment when it is needed, and is stored and shown nowhere.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, quote, urlsplit

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction

from releases.engine.errors import EngineError, InvalidInput
from releases.engine.tables.databases import NOT_SAID, Database
from releases.engine.tables.facts import SERVER
from releases.engine.tables.places import FOLDER, STORAGE
from releases.engine.tables.registry import kind_of
from releases.engine.tables.servers.spark import SPARK, with_checked
from releases.ledger import audit_log
from releases.models import AuditAction, Dataset, Fingerprint, LedgerEntry, RegisteredConnection
from releases.models.role_rules import check_may_administer, check_may_upload
from releases.publication.build_info import SOFTWARE
from releases.services import reading
from releases.services.datasets import read_title
from releases.storage.addresses import (
    Signed,
    fault_of,
    fault_of_name,
    fault_of_registered,
    needs_secret,
    password_of,
    place_of_password,
    places_of_password,
    without_secrets,
)
from releases.worker.runner import ReaderError

if TYPE_CHECKING:
    from uuid import UUID

    from django.contrib.auth.models import Group

    from releases.engine.domain.schema import Schema
    from releases.engine.tables.catalogue import ReadableTables
    from releases.engine.tables.databases import CatalogueColumn

_SCHEME = "connection://"
_OF_A_SITE = LedgerEntry._meta.db_table
#: What writes the statements of the self test.
_SOFTWARE = "{name} {version} ({source}), sqlglot {sqlglot}".format(**SOFTWARE, sqlglot=version("sqlglot"))


class Unavailable(EngineError):
    """A table in a database cannot be used now. The text is for whoever wants it; it names no address and no role."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Connection:
    """A database that the site may know.

    Attributes:
        name: by which people know it.
        address: its URL, with the role and without the password.
        registered: where and when an administrator has registered it; None of one of the settings.
    """

    name: str
    address: str
    registered: RegisteredConnection | None = None

    @property
    def fault(self) -> str:
        """Why nothing is read by it, as a rule; empty where nothing is wrong."""
        if self.registered is None:
            return fault_of(self.name, self.address)
        if self.name in settings.CONNECTIONS:
            return "has the name of a connection of the settings, which is used in its place"
        return fault_of(self.name, self.address) or fault_of_registered(self.address)

    @property
    def shown_address(self) -> str:
        """Of a connection of the settings, too, that is not used for its password."""
        return without_secrets(self.address)

    @property
    def password_place(self) -> str:
        """Where its password is read, in words; empty where there is none."""
        return place_of_password(self.name)

    @property
    def password_places(self) -> str:
        """All the places where it may be, in words."""
        return ", ".join(places_of_password(self.name))

    @property
    def needs_secret(self) -> bool:
        return needs_secret(self.address)

    @property
    def is_folder(self) -> bool:
        return self.address.startswith("file://")

    def location(self, table: str) -> str:
        """Where the counts read one of its tables, with the password."""
        if kind_of(self.address) is FOLDER:
            return f"{self.address.removeprefix('file://')}/{table}"
        return Signed(f"{self._checked_url}#{table}")

    @property
    def reads_only(self) -> bool:
        """Whether somebody has said that whoever signs in can only read, for a server that cannot be asked."""
        if self.registered is None:
            return self.name in settings.CONNECTIONS_READ_ONLY
        return self.registered.reads_only

    @property
    def _checked_url(self) -> str:
        """With the version for which the self test has passed, where it takes too long to be run for each question."""
        row = self.registered
        if kind_of(self.address) is not SPARK or row is None or row.software != _SOFTWARE or not row.server_version:
            return self.url
        return with_checked(self.url, row.server_version)

    @property
    def server(self) -> str:
        """Which database it is, whoever signs in."""
        parts = urlsplit(self.address)
        kind = kind_of(self.address)
        if kind is FOLDER:
            return self.address
        if kind is STORAGE:
            endpoint = urlsplit(dict(parse_qsl(parts.query))["endpoint"])
            port = endpoint.port or {"https": 443, "http": 80}[endpoint.scheme]
            return f"{endpoint.hostname}:{port}/{parts.hostname}{parts.path}"
        assert isinstance(kind, Database)
        return f"{parts.hostname}:{parts.port or kind.port}{parts.path}"

    @property
    def url(self) -> str:
        """Its URL with the password: for the process that reads, and nobody else."""
        if not self.needs_secret:
            return self.address
        scheme, _, rest = self.address.partition("://")
        role, _, where = rest.partition("@")
        if password := password_of(self.name):
            role += f":{quote(password, safe='')}"
        kind = kind_of(self.address)
        if self.registered is not None and isinstance(kind, Database):
            for parameter in kind.guard:
                where += f"{'&' if '?' in where else '?'}{parameter}"
        return Signed(f"{scheme}://{role}@{where}")


@dataclass(frozen=True, kw_only=True, slots=True)
class ListedTables:
    """What a database has just listed.

    Attributes:
        tables: as ``schema.table``, in the order of their names.
    """

    connection: Connection
    tables: tuple[str, ...]


def all_connections() -> list[Connection]:
    """In the order of their names, also those by which nothing is read."""
    named = [Connection(name=name, address=address) for name, address in settings.CONNECTIONS.items()]
    registered = RegisteredConnection.objects.select_related("registered_by")
    named += [Connection(name=each.name, address=each.address, registered=each) for each in registered]
    return sorted(named, key=lambda each: each.name)


def connections() -> list[Connection]:
    """Those that may be read, in the order of their names."""
    return [each for each in all_connections() if not each.fault]


def find_connection(name: str) -> Connection | None:
    """The one of a name that may be read, where there is one."""
    return next((each for each in connections() if each.name == name), None)


def connection_named(name: str) -> Connection:
    """
    Raises:
        Unavailable: there is no such database.
    """
    if (found := find_connection(name)) is None:
        raise Unavailable(f"The database {name} is not among those that this site may read any more.")
    return found


def register_connection(*, name: str, address: str, by: User, reads_only: bool = False) -> Connection:
    """Let curators choose among the tables of a database, or the files of a folder. The database is asked first whether
    the role reads alone, and for the counts of the self test.

    Args:
        address: without a password.
        reads_only: who registers it has seen to it that whoever signs in can only read. Asked for where the server
            cannot say so.

    Raises:
        NotAllowed: who registers it is no administrator.
        InvalidInput: a name that breaks its rule or is taken; an address that the site may not read.
        Unavailable: as `tables_of`; it says where a password was looked for.
    """
    check_may_administer(by, what="registering connections")
    _refuse_name(name)
    row = RegisteredConnection(name=name, address=address, registered_by=by, software=_SOFTWARE, reads_only=reads_only)
    made = Connection(name=name, address=address, registered=row)
    if made.fault or len(address) > 500:
        raise InvalidInput("address", without_secrets(address), made.fault or "must have at most 500 characters")
    try:
        row.server_version = _listed_by(made, checked="").version
    except Unavailable as error:
        raise Unavailable(f"{error} {_looked_for(made)}") from None
    # The database has answered: no lock of the site's own is held while another server is waited for.
    with transaction.atomic():
        _refuse_name(name)
        row.save(force_insert=True)
        said = ", of which they have confirmed that it can only read" if reads_only else ""
        audit_log.record(AuditAction.REGISTER_CONNECTION, actor=by, on=row, detail=f"{address}{said}")
    return made


def remove_connection(*, connection: RegisteredConnection, by: User) -> None:
    """Read nothing by a connection any more. Its datasets are refused from then on, and what is charged and has read
    nothing gets its charge back.

    Raises:
        NotAllowed: who removes it is no administrator.
    """
    check_may_administer(by, what="removing connections")
    with transaction.atomic():
        audit_log.record(AuditAction.REMOVE_CONNECTION, actor=by, on=connection, detail=connection.address)
        connection.delete()


def tables_of(connection: Connection) -> ListedTables:
    """The tables that a database lists. No row is read.

    A registered one counts the rows of the self test once for each version of it and of this software; one of the
    settings always does.

    Raises:
        Unavailable: it does not answer, is not in UTF-8, or the site's role may do more there than read.
    """
    row = connection.registered
    checked = row.server_version if row is not None and row.software == _SOFTWARE else ""
    found = _listed_by(connection, checked=checked)
    if row is not None and found.version != checked:
        # The version for which the database has just counted right.
        RegisteredConnection.objects.filter(pk=row.pk).update(server_version=found.version, software=_SOFTWARE)
    return ListedTables(connection=connection, tables=found.names)


def _refuse_name(name: str) -> None:
    if fault := fault_of_name(name):
        raise InvalidInput("name", name, fault)
    if name in settings.CONNECTIONS:
        raise InvalidInput("name", name, "is the name of a connection of the settings; choose another")
    if RegisteredConnection.objects.filter(name=name).exists():
        raise InvalidInput("name", name, "is registered already; choose another, or remove that one first")


def _looked_for(connection: Connection) -> str:
    """Where a password was read or looked for."""
    if not connection.needs_secret:
        return ""
    if connection.password_place:
        return f"The password was read from {connection.password_place}."
    return f"No password was found: this site looks in {connection.password_places}."


def _listed_by(connection: Connection, *, checked: str) -> ReadableTables:
    found = _tables_of(connection, checked=checked)
    if not found.is_utf8:
        raise Unavailable(f"The database {connection.name} is not in UTF-8, so not every text of it can be read.")
    if any(name.endswith(f".{_OF_A_SITE}") for name in found.names):
        # By another name of its host than `fault_of` compares. The tables in it have budgets already.
        raise Unavailable(f"The database {connection.name} holds the ledger of such a site, so nothing of it is used.")
    if NOT_SAID in found.faults and not connection.reads_only:
        raise Unavailable(
            f"{connection.name} cannot be asked what this site may do there. It must be able to read tables and to do "
            f"nothing else: see to that, and then confirm it."
        )
    if faults := [each for each in found.faults if each != NOT_SAID]:
        raise Unavailable(
            f"The role by which this site signs in to {connection.name} {', and '.join(faults)}. It must be one "
            f"that reads tables and can do nothing else. An administrator of the database can change that."
        )
    return found


def register_table(*, owner: User, title: str, listed: ListedTables, table: str, group: Group | None = None) -> Dataset:
    """Make a dataset of a table in a database. Nothing of it is copied, and no row is read.

    Args:
        listed: by `tables_of`.
        table: one of these tables.

    Raises:
        NotAllowed: the owner is no curator.
        InvalidInput: the title breaks its rule, or the database lists no such table.
        Unavailable: the database does not answer.
    """
    check_may_upload(User.objects.get(pk=owner.pk))
    title, connection = read_title(title, what="the table is"), listed.connection
    if table not in listed.tables:
        raise InvalidInput("table", table, f"must be one of the tables that {connection.name} lists")
    columns = _columns_of(connection, table, is_checked=True)
    if not columns:
        raise InvalidInput("table", table, "has no column that this site may read")
    # The database has answered: no lock of the site's own is held while another server is waited for.
    with transaction.atomic():
        dataset = Dataset.objects.create(
            title=title,
            owner=owner,
            group=group,
            digest=_digest(connection, table),
            columns=list(columns),
            location=f"{_SCHEME}{connection.name}#{table}",
            catalogue={"server": connection.server, "types": {name: each.type for name, each in columns.items()}},
            file_codebook=[
                {"name": name, "label": each.comment, "values": dict.fromkeys(each.values, ""), "missing": []}
                for name, each in columns.items()
                if each.comment or each.values
            ],
        )
        # The same table, whoever registers it, is recognised by where it is. Its rows are compared with no others.
        Fingerprint.objects.create(dataset=dataset, is_telling=True)
        audit_log.record(
            AuditAction.UPLOAD, actor=owner, on=dataset, detail=f"{table} in the database {connection.name}"
        )
    return dataset


def opened(dataset: Dataset, schema: Schema, *, is_checked: bool = False) -> str:
    """Where the counts read a table in a database, with the password. Reads no row.

    Args:
        schema: under which it is counted. Its columns and those that are declared now have to be what they were.
        is_checked: the self test need not be run, since a run of the same release did.

    Raises:
        Unavailable: the database is away, is another one, or lists these columns otherwise than at first.
    """
    connection = connection_named(dataset.connection)
    if connection.server != dataset.catalogue.get("server"):
        raise Unavailable(f"{connection.name} is another database now than when this table was registered.")
    names = dict.fromkeys([*dataset.columns_read, *sorted(schema.names_read)])
    _refuse_other_columns(dataset, names, _columns_of(connection, dataset.table, is_checked=is_checked))
    return connection.location(dataset.table)


@dataclass(frozen=True, kw_only=True, slots=True)
class Unchanged:
    """That the columns of a dataset were just seen to be listed as they were at first; made by `seen_unchanged` alone.
    An uploaded table does not change."""

    dataset_id: UUID


def seen_unchanged(dataset: Dataset, schema: Schema) -> Unchanged:
    """Before a charge, and before its transaction: no lock is held while another server is waited for.

    Args:
        schema: of the plan, which may have been made when other columns were declared.

    Raises:
        Unavailable: as `opened`.
    """
    if dataset.is_in_database:
        opened(dataset, schema)
    return Unchanged(dataset_id=dataset.pk)


def version_before(dataset: Dataset, location: str) -> str:
    """Which version of a table its storage holds: asked before it is opened, so that nothing was read where it is away.

    Raises:
        Unavailable: it is away.
    """
    with _said_of(connection_named(dataset.connection)):
        return reading.version_of_object(location)


def _refuse_other_columns(dataset: Dataset, names: Iterable[str], now: dict[str, CatalogueColumn]) -> None:
    if not now:
        raise Unavailable(f"The database lists no table {dataset.table} any more.")
    before = dataset.catalogue.get("types", {})
    for name in names:
        if name not in now:
            raise Unavailable(f"The table {dataset.table} has no column {name} any more.")
        if now[name].type != before.get(name):
            raise Unavailable(
                f"The column {name} of {dataset.table} has another type now: {now[name].type} and not "
                f"{before.get(name)}. Register the table again, and declare its columns."
            )


def _tables_of(connection: Connection, *, checked: str) -> ReadableTables:
    with _said_of(connection):
        return reading.tables_of_server(connection.url, checked=checked)


def _columns_of(connection: Connection, table: str, *, is_checked: bool) -> dict[str, CatalogueColumn]:
    with _said_of(connection):
        return reading.columns_of_server(connection.location(table), is_checked=is_checked)


@contextmanager
def _said_of(connection: Connection) -> Iterator[None]:
    try:
        yield
    except (InvalidInput, ReaderError) as error:
        if isinstance(error, InvalidInput) and error.field == SERVER:
            raise Unavailable(f"The database {connection.name} {error.rule}.") from None
        raise Unavailable(_AWAY.format(name=connection.name)) from None


_AWAY = "The database {name} does not answer, or does not let this site sign in. No row was read."


def _digest(connection: Connection, table: str) -> str:
    """Keyed, as that of an uploaded table's rows: equal for one table, by whatever name its database is known."""
    said = f"table {connection.server} {table}"
    return hmac.new(str(settings.DIGEST_KEY).encode(), said.encode(), hashlib.sha256).hexdigest()
