"""Tables where they are: databases that an administrator has named in the settings, and the tables that they list. A
folder of Parquet files is such a database, too.

    connections      those that are named
    tables_of        what one of them lists, once its role is seen to read alone
    register_table   one of these tables becomes a dataset; nothing is copied
    opened           before a run: its address with the password, once the catalogue is what it was
    refuse_changed   the same before a charge

A table in a database changes. So it is one population with all that it will hold, whose budget spans all its versions,
and the number of its rows stays private: neighbours are add/remove (`datasets.declare_protection`). A password is read
from the settings when it is needed, and is stored and shown nowhere.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from django.conf import settings
from django.db import transaction

from releases.engine.errors import EngineError, InvalidInput
from releases.engine.tables.facts import SERVER
from releases.ledger import audit_log
from releases.models import AuditAction, Dataset, Fingerprint
from releases.models.role_rules import check_may_upload
from releases.services import reading
from releases.services.datasets import read_title
from releases.storage.addresses import fault_of
from releases.worker.runner import ReaderError

if TYPE_CHECKING:
    from django.contrib.auth.models import Group, User

    from releases.engine.tables.catalogue import Column, Tables

_SCHEME = "connection://"


class Unavailable(EngineError):
    """A table in a database cannot be used now. The text is for whoever wants it; it names no address and no role."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Connection:
    """A database that is named in the settings.

    Attributes:
        name: by which people know it.
        address: its URL, with the role and without the password.
    """

    name: str
    address: str

    @property
    def is_folder(self) -> bool:
        return self.address.startswith("file://")

    def location(self, table: str) -> str:
        """Where the counts read one of its tables, with the password."""
        return f"{self.address.removeprefix('file://')}/{table}" if self.is_folder else f"{self.url}#{table}"

    @property
    def server(self) -> str:
        """Which database it is, whoever signs in."""
        if self.is_folder:
            return self.address
        parts = urlsplit(self.address)
        return f"{parts.hostname}:{parts.port or 5432}{parts.path}"

    @property
    def url(self) -> str:
        """Its URL with the password: for the process that reads, and nobody else."""
        password = settings.CONNECTION_PASSWORDS.get(self.name, "")
        if not password:
            return self.address
        scheme, _, rest = self.address.partition("://")
        role, _, where = rest.partition("@")
        return f"{scheme}://{role}:{quote(password, safe='')}@{where}"


def connections() -> list[Connection]:
    """In the order of their names."""
    named = sorted(settings.CONNECTIONS.items())
    return [Connection(name=name, address=address) for name, address in named if not fault_of(name, address)]


def connection_named(name: str) -> Connection:
    """
    Raises:
        Unavailable: the settings name no such database.
    """
    if name not in settings.CONNECTIONS or fault_of(name, settings.CONNECTIONS[name]):
        raise Unavailable(f"The database {name} is not among those that this site may read any more.")
    return Connection(name=name, address=settings.CONNECTIONS[name])


def tables_of(connection: Connection) -> tuple[str, ...]:
    """The tables that a database lists, as ``schema.table``. No row is read.

    Raises:
        Unavailable: it does not answer, is not in UTF-8, or the site's role may do more there than read.
    """
    found = _tables_of(connection)
    if not found.is_utf8:
        raise Unavailable(f"The database {connection.name} is not in UTF-8, so not every text of it can be read.")
    if found.faults:
        raise Unavailable(
            f"The role by which this site signs in to {connection.name} {', and '.join(found.faults)}. It must be one "
            f"that reads tables and can do nothing else. An administrator of the database can change that."
        )
    return found.names


def register_table(
    *, owner: User, title: str, connection: Connection, table: str, group: Group | None = None
) -> Dataset:
    """Make a dataset of a table in a database. Nothing of it is copied, and no row is read.

    Args:
        table: one of `tables_of`.

    Raises:
        NotAllowed: the owner is no curator.
        InvalidInput: the title breaks its rule, or the database lists no such table.
        Unavailable: the database does not answer, or its role may do more than read.
    """
    check_may_upload(owner)
    title = read_title(title, what="the table is")
    if table not in tables_of(connection):
        raise InvalidInput("table", table, f"must be one of the tables that {connection.name} lists")
    columns = _columns_of(connection, table)
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


def opened(dataset: Dataset, *, asks_catalogue: bool = True) -> str:
    """Where the counts read a table in a database, with the password. Reads no row.

    Args:
        asks_catalogue: False where a charge was made, and a run checked it.

    Raises:
        Unavailable: the database is away, is another one, or lists the declared columns otherwise than at first.
    """
    connection = connection_named(dataset.connection)
    if connection.server != dataset.catalogue.get("server"):
        raise Unavailable(f"{connection.name} is another database now than when this table was registered.")
    if asks_catalogue:
        _refuse_other_columns(dataset, _columns_of(connection, dataset.table))
    return connection.location(dataset.table)


def refuse_changed(dataset: Dataset) -> None:
    """Before a charge.

    Raises:
        Unavailable: as `opened`.
    """
    if dataset.is_in_database:
        opened(dataset)


def _refuse_other_columns(dataset: Dataset, now: dict[str, Column]) -> None:
    if not now:
        raise Unavailable(f"The database lists no table {dataset.table} any more.")
    names = dataset.columns_read
    if dataset.budget is not None and (person := dataset.budget.privacy_unit.id_column) is not None:
        names.append(person)
    before = dataset.catalogue.get("types", {})
    for name in names:
        if name not in now:
            raise Unavailable(f"The table {dataset.table} has no column {name} any more.")
        if now[name].type != before.get(name):
            raise Unavailable(
                f"The column {name} of {dataset.table} has another type now: {now[name].type} and not "
                f"{before.get(name)}. Register the table again, and declare its columns."
            )


def _tables_of(connection: Connection) -> Tables:
    with _said_of(connection):
        return reading.tables_of_server(connection.url)


def _columns_of(connection: Connection, table: str) -> dict[str, Column]:
    with _said_of(connection):
        return reading.columns_of_server(connection.location(table))


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
