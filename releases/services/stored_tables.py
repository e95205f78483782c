"""Stored tables as they are read: only where the file is, byte for byte, the one that was stored.

    checked            a table's file against the SHA-256 noted when it was stored; before it is opened
    refuse_if_changed  after it was read and before anything of it is stored or shown
    faults             what the audit finds: tables that are missing or changed

A run hashes the file again. A question of a session would read gigabytes for one count, so there a file that this
process has hashed is known by its number, size and times of change: whoever replaces it or writes to it changes these,
and the time of the last change of its entry cannot be set. A file that was changed less than a few seconds before it
was hashed is hashed again, since two changes can share one reading of the clock.

The rows of a table in a database are meant to change: of it only the catalogue is asked (see ``connections.py``).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from releases.engine.errors import EngineError
from releases.engine.tables.places import Snapshot
from releases.engine.tables.registry import kind_of
from releases.models import Dataset
from releases.publication import files
from releases.services import connections, reading
from releases.services.datasets import table_path

if TYPE_CHECKING:
    from releases.engine.domain.schema import Schema

#: A change this near to the moment of hashing could be followed by another that no time of change shows.
_SETTLED_NS = 3 * 10**9
#: Device, file number, size, and times of the last change of content and of entry, in nanoseconds.
_Signature: TypeAlias = tuple[int, int, int, int, int]
#: Files that this process has hashed: what they looked like, and their SHA-256.
_hashed: dict[Path, tuple[_Signature, str]] = {}


class TableChanged(EngineError):
    """The file of a stored table is not the one that was stored."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredTable:
    """A table that was seen to be as it was stored.

    Attributes:
        location: as `open_table` takes it.
        signature: of its file, or the version of its object; None of a table on a server, which reads it in one
            transaction.
    """

    location: str
    signature: _Signature | str | None

    def refuse_if_changed(self) -> None:
        """Between the check and the reading, or while it was read.

        Raises:
            TableChanged: it is another file, or was written to.
        """
        now: _Signature | str | None = None
        match kind_of(self.location).snapshot:
            case Snapshot.FILE:
                now = _signature(Path(self.location))
            case Snapshot.OBJECT:
                now = reading.version_of_object(self.location)
        if now != self.signature:
            raise TableChanged("The table's file was changed while it was read.")


def checked(dataset: Dataset, schema: Schema, *, again: bool = False) -> StoredTable:
    """The table of a dataset, once its file is seen to be the one that was stored. Opens nothing.

    Args:
        schema: under which it is counted.
        again: for a question of a session, whose opening has checked it. A file that this process has hashed before,
            and that looks the same, is not hashed again, and a database does not count the rows of the self test.

    Raises:
        TableChanged: it is another file, or none is on record.
        OSError: it cannot be read.
        Unavailable: it is in a database, which is away or lists it otherwise now.
    """
    if dataset.is_in_database:
        location = connections.opened(dataset, schema, is_checked=again)
        match kind_of(location).snapshot:
            case Snapshot.TRANSACTION | Snapshot.SET_ASIDE:
                return StoredTable(location=location, signature=None)
            case Snapshot.OBJECT:
                return StoredTable(location=location, signature=connections.version_before(dataset, location))
        return StoredTable(location=location, signature=_signature(Path(location)))
    return _checked_file(dataset, rehash=not again)


def _checked_file(dataset: Dataset, *, rehash: bool = True) -> StoredTable:
    if not dataset.file_sha256:
        raise TableChanged("Which file was stored is not on record.")
    path, now = Path(table_path(dataset)), time.time_ns()
    signature = _signature(path)
    if rehash or _hashed.get(path) != (signature, dataset.file_sha256):
        if files.sha256_of(path) != dataset.file_sha256:
            raise TableChanged("The table's file is not the one that was stored.")
        if now - max(signature[3:]) > _SETTLED_NS:
            _hashed[path] = (signature, dataset.file_sha256)
    table = StoredTable(location=str(path), signature=signature)
    table.refuse_if_changed()
    return table


def faults() -> Iterator[str]:
    """Every stored table that could not be released from, and why, in words for an operator."""
    stored = Dataset.objects.filter(rows_deleted_at=None).exclude(location__contains="://").order_by("created_at")
    for dataset in stored.only("title", "location", "file_sha256"):
        try:
            _checked_file(dataset)
        except FileNotFoundError:
            # It may have been discarded meanwhile.
            if stored.filter(pk=dataset.pk).exists():
                yield f"{dataset.title} ({dataset.pk}): the table's file is missing"
        except OSError as error:
            yield f"{dataset.title} ({dataset.pk}): the table's file cannot be read ({type(error).__name__})"
        except TableChanged as error:
            yield f"{dataset.title} ({dataset.pk}): {error}"


def _signature(path: Path) -> _Signature:
    found = path.stat()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
