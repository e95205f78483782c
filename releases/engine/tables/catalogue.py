"""What a database, a folder of Parquet files or storage says of its tables: names and columns. No row is read.

    tables         those that may be read; in a database also what its role may do beside that
    columns        of one table, with the types that they are declared with

What a database answers to a question that fails stays here: it can name the role, the host or a value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from releases.engine.tables import storage
from releases.engine.tables.connection import Limits, connect, refuse_unless_confined
from releases.engine.tables.databases import MOST_TABLES, NOT_SAID, CatalogueColumn, Database
from releases.engine.tables.facts import UnreadableTable
from releases.engine.tables.places import FOLDER, STORAGE
from releases.engine.tables.registry import kind_of

#: Types of single values in a Parquet file, whatever their size or scale; a column of any other is not listed.
_SINGLE = ("BOOLEAN", "VARCHAR", "DATE", "TIME", "TIMESTAMP", "UUID", "DECIMAL", "FLOAT", "DOUBLE", "ENUM")
_INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadableTables:
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


def tables(url: str) -> ReadableTables:
    """The tables that the role of a URL may read, or the Parquet files of the folder or below the prefix that it names.

    Raises:
        InvalidInput: the URL is of no kind that is known.
        UnreadableTable: the server does not answer, or refuses the role.
        Unconfined: nothing confines this process.
    """
    kind = kind_of(url)
    if kind is FOLDER:
        return ReadableTables(names=_files(Path(url.removeprefix("file://"))), faults=())
    if kind is STORAGE:
        # What a key may do beside reading, storage cannot be asked without trying it.
        return ReadableTables(names=tuple(storage.names(url)[:MOST_TABLES]), faults=(NOT_SAID,))
    assert isinstance(kind, Database)
    with refused_in_words(kind), kind.asked(url) as asked:
        return ReadableTables(
            names=tuple(kind.names(asked)),
            faults=tuple(kind.rights(asked)),
            is_utf8=kind.is_utf8(asked),
            version=kind.version(asked),
        )


def columns(location: str, *, limits: Limits | None = None) -> dict[str, CatalogueColumn]:
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
    assert isinstance(kind, Database)
    url, _, name = location.partition("#")
    with refused_in_words(kind), kind.asked(url) as asked:
        return dict(kind.columns(asked, name))


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


def _of_single_values(found: Mapping[str, str]) -> dict[str, CatalogueColumn]:
    return {
        name: CatalogueColumn(type=kind, comment="", values=("false", "true") if kind == "BOOLEAN" else ())
        for name, kind in found.items()
        if kind.removeprefix("U") in _INTEGERS or (kind.startswith(_SINGLE) and not kind.endswith("]"))
    }


@contextmanager
def refused_in_words(kind: Database) -> Iterator[None]:
    """What a server answers stays here: it can name the role, the host or a value.

    Raises:
        UnreadableTable: the server did not answer, or refused.
    """
    errors = kind.errors()
    try:
        yield
    except errors:
        raise UnreadableTable(
            "The database does not answer, or does not let this site sign in. Nothing was read."
        ) from None
