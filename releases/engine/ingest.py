"""From an uploaded file to a table of text: checked, written once as Parquet, and recognised if seen before.

DuckDB reads every column as text; types are declared later, never sniffed. Messages may quote the header, which is
the curator's own, and line numbers, but never a row.
"""

from __future__ import annotations

import codecs
import csv
import hashlib
import hmac
import io
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from releases.engine.errors import InvalidInput
from releases.engine.tables import NUMBER_GRAMMAR
from releases.engine.universe import MOST_COLUMNS

_CHUNK = 1 << 20
_PARQUET_MAGIC = b"PAR1"
_DELIMITERS = (",", ";", "\t", "|")
#: The header must end within so many bytes, which holds ten thousand long names.
_LONGEST_HEADER = 4 << 20
_LONGEST_LINE = 16 << 20
#: A Parquet file may unfold to this many times its size, and to these many rows and cells.
_MOST_UNFOLDING = 200
_MOST_ROWS = 200_000_000
_MOST_CELLS = 20_000_000_000
_LONGEST_VALUE = 10_000


#: How files begin that people take for a table, and what to do about each.
_OTHER_FILES = {
    b"PK\x03\x04": "The file is an Excel or OpenDocument workbook, or a zip archive, not text. Save the sheet as CSV "
    "(UTF-8) and choose that file.",
    b"\xd0\xcf\x11\xe0": "The file is an Excel workbook that is protected by a password, or of the old kind (.xls). "
    "Open it, save the sheet as CSV (UTF-8) and choose that file.",
    b"PARE": "The Parquet file is encrypted. Write it without encryption.",
    b"\x1f\x8b": "The file is compressed (gzip). Unpack it and choose the CSV or Parquet file inside.",
    b"\xff\xfe": "The file is UTF-16 text, which Excel calls Unicode text. Save the file as UTF-8.",
    b"\xfe\xff": "The file is UTF-16 text, which Excel calls Unicode text. Save the file as UTF-8.",
    b"$FL2": "The file is from SPSS. Export the table as CSV (UTF-8) and choose that file.",
    b"%PDF": "The file is a PDF, not a table. Choose a CSV or Parquet file.",
}


class UnreadableTable(InvalidInput):
    """An uploaded file is not a table that can be read. The message is for the person who has the file."""

    def __init__(self, rule: str, *, value: object = "file") -> None:
        super().__init__("table", value, rule)

    def __str__(self) -> str:
        return self.rule


@dataclass(frozen=True, kw_only=True)
class Ingested:
    """A table as stored.

    Attributes:
        columns: the names in the header.
        digest: the same for the same rows in any order, file format or column order, and meaningless without
            the installation's key.
        rows: how many rows there are. Private under add/remove neighbours.
    """

    columns: tuple[str, ...]
    digest: str
    rows: int


def ingest(source: Path, destination: Path, *, digest_key: bytes) -> Ingested:
    """Check the file at `source` and write it to `destination` as Parquet with text columns.

    Raises:
        UnreadableTable: the file is empty, has no usable header, is ragged, not UTF-8, holds NUL bytes, ...
    """
    with source.open("rb") as file:
        start = file.read(4)
    if not start:
        raise UnreadableTable("The file is empty.")
    for magic, rule in _OTHER_FILES.items():
        if start.startswith(magic):
            raise UnreadableTable(rule)
    connection = duckdb.connect()
    connection.execute("SET enable_progress_bar = false; SET preserve_insertion_order = false")
    try:
        relation = _parquet(connection, source) if start == _PARQUET_MAGIC else _csv(connection, source)
        return _store(connection, relation, destination, digest_key)
    finally:
        connection.close()


def _csv(connection: duckdb.DuckDBPyConnection, source: Path) -> str:
    """Load a delimited text file as table `uploaded`."""
    _check_bytes(source)
    header, delimiter = _header(source)
    columns = _checked_names(header)
    types = ", ".join(f"{_literal(name)}: 'VARCHAR'" for name in columns)
    query = (
        f"CREATE TABLE uploaded AS SELECT * FROM read_csv({_literal(str(source))}, auto_detect = false, "
        f"header = true, delim = {_literal(delimiter)}, quote = '\"', escape = '\"', columns = {{{types}}}, "
        f"nullstr = '', strict_mode = true, store_rejects = true, max_line_size = {_LONGEST_LINE})"
    )
    try:
        connection.execute(query)
        rejected = connection.execute("SELECT line, error_type FROM reject_errors ORDER BY line LIMIT 1").fetchone()
    except duckdb.Error:
        # DuckDB's own text quotes rows; what is left after the checks above is mixed line endings and giant lines.
        raise UnreadableTable(
            "The file is not regular delimited text. Write it with one kind of line ending and every quoted "
            "value closed."
        ) from None
    if rejected is not None:
        raise UnreadableTable(
            _REJECTIONS.get(rejected[1], "Line {line} cannot be read.").format(line=rejected[0], columns=len(columns))
        )
    return "uploaded"


_REJECTIONS = {
    "MISSING COLUMNS": "Line {line} has fewer values than the header, which names {columns} columns.",
    "TOO MANY COLUMNS": "Line {line} has more values than the header, which names {columns} columns.",
    "UNQUOTED VALUE": "Line {line} has a quoted value that does not end properly.",
    "INVALID ENCODING": "Line {line} is not UTF-8 text. Save the file as UTF-8.",
    "LINE SIZE OVER MAXIMUM": "Line {line} is longer than 16 MB.",
}


def _check_bytes(source: Path) -> None:
    """Refuse NUL bytes and anything that is not UTF-8, naming the line."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    line = 1
    with source.open("rb") as file:
        while chunk := file.read(_CHUNK):
            nul = chunk.find(b"\0")
            if nul >= 0:
                line += chunk[:nul].count(b"\n")
                raise UnreadableTable(f"Line {line} holds a NUL byte. The file is not plain text.")
            try:
                decoder.decode(chunk)
            except UnicodeDecodeError as error:
                line += chunk[: max(0, error.start)].count(b"\n")
                raise UnreadableTable(f"Line {line} is not UTF-8 text. Save the file as UTF-8.") from None
            line += chunk.count(b"\n")
    try:
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        raise UnreadableTable(f"Line {line} is not UTF-8 text. Save the file as UTF-8.") from None


def _header(source: Path) -> tuple[list[str], str]:
    """The first record, and the delimiter that cuts it into most names."""
    with source.open("rb") as file:
        start = file.read(_LONGEST_HEADER).decode("utf-8-sig", errors="ignore")
    if not start.strip():
        raise UnreadableTable("The file is empty.")
    read = {}
    for delimiter in _DELIMITERS:
        # The csv module takes a lone carriage return for a line end only in universal-newline text.
        lines = io.StringIO(start, newline=None)
        try:
            read[delimiter] = next(csv.reader(lines, delimiter=delimiter, strict=True), [])
        except csv.Error:
            continue
    best = max(read, key=lambda each: (len(read[each]), -_DELIMITERS.index(each)), default=None)
    if best is None or (len(read) < len(_DELIMITERS) and len(read[best]) == 1):
        raise UnreadableTable("The first line has a quoted name that does not end properly.")
    return read[best], best


def _checked_names(names: list[str]) -> tuple[str, ...]:
    if len(names) > MOST_COLUMNS:
        raise UnreadableTable(f"The header names {len(names):,} columns; at most {MOST_COLUMNS:,} can be read.")
    seen: dict[str, str] = {}
    for position, raw in enumerate(names, start=1):
        name = raw.strip()
        if not name:
            raise UnreadableTable(f"Column {position} has no name. The first line must name every column.")
        if re.match(NUMBER_GRAMMAR, name):
            raise UnreadableTable(
                f"Column {position} of the first line is {name}, a number. The first line must name the columns."
            )
        if not name.isprintable():
            raise UnreadableTable(f"The name of column {position} holds characters that cannot be printed.")
        # Databases do not tell upper from lower case in names, so two such columns could be mistaken.
        if (before := seen.get(name.casefold())) is not None:
            named = name if name == before else f"{before} and {name}, which differ in capitals alone"
            raise UnreadableTable(f"Two columns are named {named}. Every column needs a name of its own.")
        seen[name.casefold()] = name
    return tuple(seen.values())


def _parquet(connection: duckdb.DuckDBPyConnection, source: Path) -> str:
    """Load a Parquet file as view `uploaded` with text columns, after looking at its directory only."""
    path = _literal(str(source))
    try:
        described = connection.execute(f"DESCRIBE SELECT * FROM read_parquet({path})").fetchall()
        row = connection.execute(
            "SELECT (SELECT sum(num_rows) FROM parquet_file_metadata(?)), coalesce(sum(total_uncompressed_size), 0) "
            "FROM parquet_metadata(?)",
            [str(source), str(source)],
        ).fetchone()
    except duckdb.Error:
        raise UnreadableTable("The file begins like a Parquet file but cannot be read as one.") from None
    names = _checked_names([column[0] for column in described])
    rows, unfolded = (int(row[0] or 0), int(row[1])) if row else (0, 0)
    if rows > _MOST_ROWS or rows * len(names) > _MOST_CELLS:
        raise UnreadableTable(f"The Parquet file unfolds to more than {_MOST_ROWS:,} rows or {_MOST_CELLS:,} values.")
    if unfolded > _MOST_UNFOLDING * max(source.stat().st_size, _CHUNK):
        raise UnreadableTable(f"The Parquet file unfolds to more than {_MOST_UNFOLDING} times its size.")
    selected = ", ".join(
        f"CAST({_identifier(column[0])} AS VARCHAR) AS {_identifier(name)}"
        for column, name in zip(described, names, strict=True)
    )
    connection.execute(f"CREATE VIEW uploaded AS SELECT {selected} FROM read_parquet({path})")
    # One long text repeated by a dictionary takes no room in the file and much outside it.
    longest = " , ".join(f"max(strlen({_identifier(name)}))" for name in names)
    try:
        found = connection.execute(f"SELECT greatest({longest}, 0) FROM uploaded").fetchone()
    except duckdb.Error:
        raise UnreadableTable("The file begins like a Parquet file but cannot be read as one.") from None
    if found and found[0] is not None and found[0] > _LONGEST_VALUE:
        raise UnreadableTable(f"The Parquet file holds a value longer than {_LONGEST_VALUE:,} bytes.")
    return "uploaded"


def _store(connection: duckdb.DuckDBPyConnection, relation: str, destination: Path, key: bytes) -> Ingested:
    columns = tuple(column[0] for column in connection.execute(f"DESCRIBE {relation}").fetchall())
    digest, rows = _digest(connection, relation, columns, key)
    if rows == 0:
        raise UnreadableTable("The file has a header but no rows.")
    partial = destination.with_suffix(".partial")
    connection.execute(f"COPY {relation} TO {_literal(str(partial))} (FORMAT parquet, COMPRESSION zstd)")
    partial.replace(destination)
    return Ingested(columns=columns, digest=digest, rows=rows)


def _digest(
    connection: duckdb.DuckDBPyConnection, relation: str, columns: tuple[str, ...], key: bytes
) -> tuple[str, int]:
    """A keyed fingerprint of the multiset of rows, blind to the order of rows and columns.

    Each row's text, columns by name, is hashed; the two halves of the hashes are added up over all rows.
    """
    ordered = sorted(columns)
    named = ", ".join(_identifier(name) for name in ordered)
    # Control characters cannot be part of a declared value; they keep ("ab", "c") apart from ("a", "bc"), and a
    # missing value from an empty column beside it. COLUMNS(*) spares a look-up of ten thousand names in each other.
    row = connection.execute(
        "SELECT count(*), sum(md5_number_lower(text)), sum(md5_number_upper(text)) "
        "FROM (SELECT concat_ws(chr(31), *COLUMNS(*)) AS text "
        f"FROM (SELECT coalesce(COLUMNS(*), chr(30)) FROM (SELECT {named} FROM {relation})))"
    ).fetchone()
    assert row is not None
    described = repr((ordered, [int(value or 0) for value in row]))
    return hmac.new(key, described.encode(), hashlib.sha256).hexdigest(), int(row[0])


def _literal(text: Any) -> str:
    return "'" + str(text).replace("'", "''") + "'"


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
