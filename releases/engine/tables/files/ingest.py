"""From an uploaded file to a table of text: checked, written once as Parquet, and recognised if seen before.

DuckDB reads every column as text; types are declared later, never sniffed. Messages may quote the header, which is
the curator's own, and line numbers, but never a row. Progress follows from the step, the size of the file in bytes and
the time alone.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from releases.engine.tables.connection import Limits, connect
from releases.engine.tables.facts import FileFacts, UnreadableTable
from releases.engine.tables.files.delimited import LONGEST_START, ask_for_decimal, row_of_names, store_text
from releases.engine.tables.files.digest import digest_of
from releases.engine.tables.files.encoding import check_bytes, in_utf8, with_encoding
from releases.engine.tables.files.foreign import check_sheet, to_parquet
from releases.engine.tables.files.kinds import PARQUET, TEXT, WORKBOOK, taken_out
from releases.engine.tables.files.limits import USUAL, TableLimits
from releases.engine.tables.files.parquet import parquet_columns, store_parquet
from releases.engine.tables.files.progress import CSV_SECONDS, PARQUET_SECONDS, FileProgress, Progress


@dataclass(frozen=True, kw_only=True)
class Ingested:
    """A table as stored.

    Attributes:
        columns: the names in the header.
        digest: the same for the same rows in any order, file format or column order, and meaningless without
            the installation's key.
        rows: how many rows there are. Private under add/remove neighbours.
        file_sha256: of the file as it was written.
        facts: under which it was read, with what was proposed and not declared otherwise.
        codebook: what the file's own metadata says of its columns.
    """

    columns: tuple[str, ...]
    digest: str
    rows: int
    file_sha256: str
    facts: FileFacts
    codebook: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class FileStart:
    """What the start of a file shows.

    Attributes:
        kind: one of ``kinds.py``.
        facts: as declared, and where nothing was, as proposed.
    """

    kind: str
    facts: FileFacts


def check_start(
    source: Path,
    *,
    name: str = "",
    facts: FileFacts | None = None,
    limits: TableLimits = USUAL,
    database: Limits | None = None,
) -> FileStart:
    """Look at what tells the commonest mistakes at once: the first bytes, the header, a Parquet file's directory.

    Args:
        name: of the file as it was sent, whose end can tell the separator.
        facts: as declared. What is not declared is proposed; what cannot be is asked for.
        database: of the database that reads a directory; None for its own.

    Raises:
        UnreadableTable: as `ingest`, which looks at all the rest too.
    """
    with _folder(database) as folder:
        path, kind, facts = taken_out(source, facts or FileFacts(), folder, most=limits.unfolded, enough=LONGEST_START)
        _refuse_others(facts, kind)
        if kind == TEXT:
            facts = with_encoding(path, facts)
            plain = in_utf8(path, facts, folder, most=LONGEST_START)
            facts = row_of_names(plain, facts, called=facts.member or name).facts.with_habits()
            check_bytes(plain, facts, most=LONGEST_START)
            ask_for_decimal(facts)
        elif kind == WORKBOOK and path == source:
            facts = check_sheet(path, facts, folder, most=limits.unfolded).with_habits()
        elif kind == PARQUET and path == source:
            connection = connect(paths=[path], limits=database)
            try:
                parquet_columns(connection, path, facts, limits)
            finally:
                connection.close()
    return FileStart(kind=kind, facts=facts)


def ingest(
    source: Path,
    destination: Path,
    *,
    digest_key: bytes,
    facts: FileFacts | None = None,
    limits: TableLimits = USUAL,
    database: Limits | None = None,
    progress: Progress | None = None,
) -> Ingested:
    """Check the file at `source` and write it to `destination` as Parquet with text columns.

    Args:
        facts: how the file is written, as declared.
        limits: a table that comes to more is refused before it is fingerprinted.
        progress: called with each step's name and the share done.
        database: of the database that reads it; None for its own.

    Raises:
        UnreadableTable: the file is empty, has no usable header, is ragged, not in its encoding, holds NUL bytes, ...
    """
    with _folder(database) as folder:
        path, kind, facts = taken_out(source, facts or FileFacts(), folder, most=limits.unfolded)
        codebook: list[dict[str, Any]] = []
        _refuse_others(facts, kind)
        if kind == TEXT:
            facts = with_encoding(path, facts)
            path = in_utf8(path, facts, folder)
        elif kind != PARQUET:
            target = folder / "written-again.parquet"
            facts = facts.with_habits() if kind == WORKBOOK else facts
            facts, codebook = to_parquet(kind, path, target, facts, most=limits.unfolded, sent=source)
            path = target
        seconds = CSV_SECONDS if kind == TEXT else PARQUET_SECONDS
        report = FileProgress(progress, size=source.stat().st_size, seconds=seconds)
        below, partial = folder / "below-other-rows", destination.with_suffix(".partial")
        connection = connect(paths=[path, below, partial], limits=database, options=_OPTIONS)
        try:
            if kind == TEXT:
                facts, columns, rows = store_text(connection, path, facts, report, limits, below=below, target=partial)
            else:
                columns, rows, said = store_parquet(
                    connection, path, facts, report, limits, sent=source, target=partial
                )
                codebook = codebook or said
            if rows == 0:
                raise UnreadableTable("The file has a header but no rows.")
            digest = digest_of(connection, partial, columns, digest_key, report)
            with partial.open("rb") as file:
                file_sha256 = hashlib.file_digest(file, "sha256").hexdigest()
            partial.replace(destination)
        finally:
            connection.close()
            partial.unlink(missing_ok=True)
    return Ingested(columns=columns, digest=digest, rows=rows, file_sha256=file_sha256, facts=facts, codebook=codebook)


#: Rows come as they are read, and their texts may come to more than 2 GB at a time.
_OPTIONS = {"preserve_insertion_order": "false", "arrow_large_buffer_size": "true"}


@contextmanager
def _folder(database: Limits | None) -> Iterator[Path]:
    """For what is taken out of a file."""
    with tempfile.TemporaryDirectory(dir=database.temp_folder if database is not None else None) as folder:
        yield Path(folder)


#: Facts of every kind of file: each can hold numbers that are text, and be in an archive.
_ALL = ("locale", "member", "decimal", "thousands", "number_names")
#: Facts that a kind of file has beside these.
_OWN = {
    TEXT: ("separator", "encoding", "quote", "has_header", "header_row"),
    WORKBOOK: ("sheet", "header_row", "has_header"),
}


def _refuse_others(facts: FileFacts, kind: str) -> None:
    """Refuse what is declared and has no meaning for a file of this kind."""
    allowed = {*_ALL, *_OWN.get(kind, ())}
    plain = FileFacts().to_json()
    for name, value in facts.to_json().items():
        if name not in allowed and value != plain[name]:
            raise UnreadableTable(f"has no meaning for a {kind}, which this file is", value=value, field=name)
