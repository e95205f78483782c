"""From an uploaded file to a table of text: checked, written once as Parquet, and recognised if seen before.

DuckDB reads every column as text; types are declared later, never sniffed. Messages may quote the header, which is
the curator's own, and line numbers, but never a row. Progress follows from the step, the size of the file in bytes and
the time alone.
"""

from __future__ import annotations

import codecs
import csv
import hashlib
import hmac
import io
import re
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import exp
from pathlib import Path
from time import monotonic
from typing import Any

import duckdb

from releases.engine.domain.universe import MAX_COLUMNS
from releases.engine.errors import InvalidInput
from releases.engine.tables.connection import Limits, connect
from releases.engine.tables.number import NUMBER_GRAMMAR

_CHUNK = 1 << 20
_PARQUET_MAGIC = b"PAR1"
_DELIMITERS = (",", ";", "\t", "|")
#: The header must end within so many bytes, which holds ten thousand long names.
_LONGEST_HEADER = 4 << 20
_LONGEST_LINE = 16 << 20
#: A Parquet file may unfold to this many times its size, and to so many cells.
_MAX_UNFOLDING = 200
_MAX_CELLS = 20_000_000_000
_LONGEST_VALUE = 10_000
_FIRST_ROWS = 1 << 16
#: Of columns that are read; others, such as lists and records, can unfold to any length once they are text.
_FLAT_TYPES = re.compile(
    r"BOOLEAN|U?(TINY|SMALL|BIG|HUGE)INT|U?INTEGER|FLOAT|DOUBLE|DECIMAL\(\d+,\d+\)|DATE|TIME[A-Z_ ]*|INTERVAL|UUID"
    r"|VARCHAR|JSON|BLOB"
)


@dataclass(frozen=True, kw_only=True)
class TableLimits:
    """What a table may come to. A small file can unfold to far more than a worker should read.

    Attributes:
        rows: the most rows.
        unfolded: the most bytes of text in all values together.
    """

    rows: int = 200_000_000
    unfolded: int = 64 * 2**30


_USUAL = TableLimits()


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
        file_sha256: of the file as it was written.
    """

    columns: tuple[str, ...]
    digest: str
    rows: int
    file_sha256: str


#: Called with the name of a step and the share done of the whole; may raise `Cancelled`.
Progress = Callable[[str, float], None]

_CHECK, _READ, _FINGERPRINT, _STORE = (
    "Checking the text",
    "Reading the table",
    "Taking its fingerprint",
    "Storing it",
)
#: Seconds per byte of each step, measured with tables of ten columns on two cores of a small server.
_CSV_SECONDS = {_CHECK: 0.15e-8, _READ: 1.7e-8, _FINGERPRINT: 2.8e-8, _STORE: 2.0e-8}
_PARQUET_SECONDS = {_READ: 1.5e-8, _FINGERPRINT: 15e-8, _STORE: 14e-8}
#: Between two reports of one statement of the database.
_TICK_SECONDS = 0.5
#: From this share of a step on, a statement that takes longer than foretold only comes nearer to its end.
_SURE_BY_TIME = 0.85


def seconds_foretold(size: int, *, is_parquet: bool = False) -> float:
    """How long a file of so many bytes takes, by what was measured."""
    return size * sum((_PARQUET_SECONDS if is_parquet else _CSV_SECONDS).values())


def _share_after(times_foretold: float) -> float:
    """How much of a step is said to be done after so many times the seconds it was foretold to take."""
    if times_foretold < _SURE_BY_TIME:
        return times_foretold
    return 1 - (1 - _SURE_BY_TIME) * exp(_SURE_BY_TIME - times_foretold)


class _Report:
    """Tells how far it is: by bytes where we read them, by the time a step was measured to take where DuckDB does."""

    def __init__(self, progress: Progress | None, *, size: int, seconds: Mapping[str, float]) -> None:
        self.progress = progress
        self.size = size
        self.seconds = seconds
        self.whole = sum(seconds.values())
        self.begun = monotonic()

    def within(self, step: str, share: float) -> None:
        """So much of a step is done."""
        if self.progress is not None:
            self.progress(step, (self._before(step) + share * self.seconds[step]) / self.whole)

    def _before(self, step: str) -> float:
        names = list(self.seconds)
        return sum(self.seconds[name] for name in names[: names.index(step)])

    def _foretold(self, step: str) -> float:
        """How long a step will take: longer on a machine that was slow, or busy, in those before."""
        slower = (monotonic() - self.begun) / max(self.size * self._before(step), _TICK_SECONDS)
        return max(self.size * self.seconds[step] * max(slower, 1.0), _TICK_SECONDS)

    def run(self, step: str, connection: duckdb.DuckDBPyConnection, query: str) -> duckdb.DuckDBPyConnection:
        """Execute a statement. It is stopped where the report raises."""
        self.within(step, 0.0)
        if self.progress is None:
            return connection.execute(query)
        begun, foretold = monotonic(), self._foretold(step)
        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(connection.execute, query)
            try:
                while True:
                    try:
                        return running.result(timeout=_TICK_SECONDS)
                    except TimeoutError:
                        self.within(step, _share_after((monotonic() - begun) / foretold))
            except BaseException:
                connection.interrupt()
                raise


def check_start(source: Path, *, limits: TableLimits = _USUAL, database: Limits | None = None) -> bool:
    """Look at what tells the commonest mistakes at once: the first bytes, the header, a Parquet file's directory.

    Args:
        database: of the database that reads a directory; None for its own.

    Returns:
        whether it is a Parquet file.

    Raises:
        UnreadableTable: as `ingest`, which looks at all the rest too.
    """
    is_parquet = _is_parquet(source)
    if is_parquet:
        connection = connect(paths=[source], limits=database)
        try:
            _parquet_columns(connection, source, limits)
        finally:
            connection.close()
    else:
        _checked_names(_header(source)[0])
        _check_bytes(source, most=_LONGEST_HEADER)
    return is_parquet


def ingest(
    source: Path,
    destination: Path,
    *,
    digest_key: bytes,
    limits: TableLimits = _USUAL,
    database: Limits | None = None,
    progress: Progress | None = None,
) -> Ingested:
    """Check the file at `source` and write it to `destination` as Parquet with text columns.

    Args:
        limits: a table that comes to more is refused before it is fingerprinted and written.
        progress: called with each step's name and the share done.
        database: of the database that reads it; None for its own.

    Raises:
        UnreadableTable: the file is empty, has no usable header, is ragged, not UTF-8, holds NUL bytes, ...
    """
    is_parquet = _is_parquet(source)
    seconds = _PARQUET_SECONDS if is_parquet else _CSV_SECONDS
    report = _Report(progress, size=source.stat().st_size, seconds=seconds)
    connection = connect(
        paths=[source, _partial(destination)], limits=database, options={"preserve_insertion_order": "false"}
    )
    try:
        relation = (_parquet if is_parquet else _csv)(connection, source, report, limits)
        return _store(connection, relation, destination, digest_key, report)
    finally:
        connection.close()


def _is_parquet(source: Path) -> bool:
    """By the first bytes, which also tell files that people take for a table."""
    with source.open("rb") as file:
        start = file.read(4)
    if not start:
        raise UnreadableTable("The file is empty.")
    for magic, rule in _OTHER_FILES.items():
        if start.startswith(magic):
            raise UnreadableTable(rule)
    return start == _PARQUET_MAGIC


def _csv(connection: duckdb.DuckDBPyConnection, source: Path, report: _Report, limits: TableLimits) -> str:
    """Load a delimited text file as table `uploaded`."""
    _refuse_above(limits, unfolded=source.stat().st_size)
    _check_bytes(source, report=report)
    header, delimiter = _header(source)
    columns = _checked_names(header)
    types = ", ".join(f"{_literal(name)}: 'VARCHAR'" for name in columns)
    query = (
        f"CREATE TABLE uploaded AS SELECT * FROM read_csv({_literal(str(source))}, auto_detect = false, "
        f"header = true, delim = {_literal(delimiter)}, quote = '\"', escape = '\"', columns = {{{types}}}, "
        f"nullstr = '', strict_mode = true, store_rejects = true, max_line_size = {_LONGEST_LINE})"
    )
    try:
        report.run(_READ, connection, query)
        rejected = connection.execute("SELECT line, error_type FROM reject_errors ORDER BY line LIMIT 1").fetchone()
    except (duckdb.IOException, duckdb.OutOfMemoryException):
        raise  # no fault of the file
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
    counted = connection.execute("SELECT count(*) FROM uploaded").fetchone()
    _refuse_above(limits, rows=counted[0] if counted else 0)
    return "uploaded"


_REJECTIONS = {
    "MISSING COLUMNS": "Line {line} has fewer values than the header, which names {columns} columns.",
    "TOO MANY COLUMNS": "Line {line} has more values than the header, which names {columns} columns.",
    "UNQUOTED VALUE": "Line {line} has a quoted value that does not end properly.",
    "INVALID ENCODING": "Line {line} is not UTF-8 text. Save the file as UTF-8.",
    "LINE SIZE OVER MAXIMUM": "Line {line} is longer than 16 MB.",
}


def _check_bytes(source: Path, *, most: int | None = None, report: _Report | None = None) -> None:
    """Refuse NUL bytes and anything that is not UTF-8, naming the line; in the first `most` bytes only, if given."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    line, read, size = 1, 0, source.stat().st_size
    with source.open("rb") as file:
        while (most is None or read < most) and (chunk := file.read(_CHUNK)):
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
            read += len(chunk)
            if report is not None:
                report.within(_CHECK, min(read / size, 1.0))
    if read < size:
        return
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
    if len(names) > MAX_COLUMNS:
        raise UnreadableTable(f"The header names {len(names):,} columns; at most {MAX_COLUMNS:,} can be read.")
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


def _refuse_above(limits: TableLimits, *, rows: int = 0, unfolded: int = 0) -> None:
    """Say the limit and not by how much it is passed: how many rows there are may be nobody's business."""
    if rows > limits.rows:
        raise UnreadableTable(f"The table has more than {limits.rows:,} rows, the most that are read here.")
    if unfolded > limits.unfolded:
        raise UnreadableTable(
            f"The table's values come to more than {limits.unfolded:,} bytes of text, the most that are read here."
        )


def _refuse_unfolding(source: Path, unfolded: int) -> None:
    """A small file must not make more work than a large one."""
    if unfolded > _MAX_UNFOLDING * max(source.stat().st_size, _CHUNK):
        raise UnreadableTable(
            f"The Parquet file unfolds to more than {_MAX_UNFOLDING} times its size, or {_MAX_UNFOLDING} MB if that is "
            "more."
        )


def _parquet_columns(
    connection: duckdb.DuckDBPyConnection, source: Path, limits: TableLimits
) -> list[tuple[str, str, str]]:
    """The columns of a Parquet file after a look at its directory: each one's name there, its name here, its type."""
    path = _literal(str(source))
    try:
        described = connection.execute(f"DESCRIBE SELECT * FROM read_parquet({path})").fetchall()
        row = connection.execute(
            "SELECT (SELECT sum(num_rows) FROM parquet_file_metadata(?)), coalesce(sum(total_uncompressed_size), 0) "
            "FROM parquet_metadata(?)",
            [str(source), str(source)],
        ).fetchone()
    except duckdb.OutOfMemoryException:
        raise  # no fault of the file
    except duckdb.Error:
        raise UnreadableTable("The file begins like a Parquet file but cannot be read as one.") from None
    names = _checked_names([column[0] for column in described])
    for name, column in zip(names, described, strict=True):
        if not _FLAT_TYPES.fullmatch(column[1]):
            raise UnreadableTable(
                f"The column {name} of the Parquet file holds no single values. Write lists and records as columns of "
                "their own."
            )
    rows, unfolded = (int(row[0] or 0), int(row[1])) if row else (0, 0)
    # A value is a byte at least, or the end of one: by this what follows takes time in proportion to what was sent.
    unfolded = max(unfolded, rows * len(names))
    if rows > limits.rows or rows * len(names) > _MAX_CELLS:
        raise UnreadableTable(f"The Parquet file unfolds to more than {limits.rows:,} rows or {_MAX_CELLS:,} values.")
    _refuse_unfolding(source, unfolded)
    return [(column[0], name, column[1]) for column, name in zip(described, names, strict=True)]


def _parquet(connection: duckdb.DuckDBPyConnection, source: Path, report: _Report, limits: TableLimits) -> str:
    """Load a Parquet file as view `uploaded` with text columns."""
    columns = _parquet_columns(connection, source, limits)
    path = _literal(str(source))
    selected = ", ".join(
        f"CAST({_identifier(column)} AS VARCHAR) AS {_identifier(name)}" for column, name, _ in columns
    )
    stored = f"read_parquet({path})"
    connection.execute(f"CREATE VIEW uploaded AS SELECT {selected} FROM {stored}")
    # One long text repeated by a dictionary takes no room in the file and much outside it. Its length is looked at,
    # and its bytes are not: so this is done in a moment, where the fingerprint would take minutes.
    # Bytes that are no text are not made into text for that.
    lengths = [
        f"octet_length({_identifier(column)})" if kind == "BLOB" else f"strlen(CAST({_identifier(column)} AS VARCHAR))"
        for column, _, kind in columns
    ]
    longest = " , ".join(f"max({each})" for each in lengths)
    together = " + ".join(f"coalesce(sum({each}), 0)" for each in lengths)
    measured = f"SELECT greatest({longest}, 0), {together} FROM "
    try:
        # What the first rows come to tells most that unfold to too much, at once.
        _refuse_long(source, connection.execute(f"{measured} (FROM {stored} LIMIT {_FIRST_ROWS})").fetchone(), limits)
        _refuse_long(source, report.run(_READ, connection, f"{measured} {stored}").fetchone(), limits)
    except duckdb.OutOfMemoryException:
        raise
    except duckdb.Error:
        raise UnreadableTable("The file begins like a Parquet file but cannot be read as one.") from None
    return "uploaded"


def _refuse_long(source: Path, found: tuple[Any, ...] | None, limits: TableLimits) -> None:
    """By the longest value and the bytes of all."""
    longest, unfolded = found or (0, 0)
    if longest is not None and longest > _LONGEST_VALUE:
        raise UnreadableTable(f"The Parquet file holds a value longer than {_LONGEST_VALUE:,} bytes.")
    _refuse_above(limits, unfolded=int(unfolded))
    _refuse_unfolding(source, int(unfolded))


def _store(
    connection: duckdb.DuckDBPyConnection, relation: str, destination: Path, key: bytes, report: _Report
) -> Ingested:
    columns = tuple(column[0] for column in connection.execute(f"DESCRIBE {relation}").fetchall())
    digest, rows = _digest(connection, relation, columns, key, report)
    if rows == 0:
        raise UnreadableTable("The file has a header but no rows.")
    partial = _partial(destination)
    how = "FORMAT parquet, COMPRESSION zstd, USE_TMP_FILE false"
    report.run(_STORE, connection, f"COPY {relation} TO {_literal(str(partial))} ({how})")
    partial.chmod(0o600)
    with partial.open("rb") as file:
        file_sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    partial.replace(destination)
    return Ingested(columns=columns, digest=digest, rows=rows, file_sha256=file_sha256)


def _partial(destination: Path) -> Path:
    return destination.with_suffix(".partial")


def _digest(
    connection: duckdb.DuckDBPyConnection, relation: str, columns: tuple[str, ...], key: bytes, report: _Report
) -> tuple[str, int]:
    """A keyed fingerprint of the multiset of rows, blind to the order of rows and columns.

    Each row's text, columns by name, is hashed; the two halves of the hashes are added up over all rows.
    """
    ordered = sorted(columns)
    named = ", ".join(_identifier(name) for name in ordered)
    # Control characters cannot be part of a declared value; they keep ("ab", "c") apart from ("a", "bc"), and a
    # missing value from an empty column beside it. COLUMNS(*) spares a look-up of ten thousand names in each other.
    row = report.run(
        _FINGERPRINT,
        connection,
        "SELECT count(*), sum(md5_number_lower(text)), sum(md5_number_upper(text)) "
        "FROM (SELECT concat_ws(chr(31), *COLUMNS(*)) AS text "
        f"FROM (SELECT coalesce(COLUMNS(*), chr(30)) FROM (SELECT {named} FROM {relation})))",
    ).fetchone()
    assert row is not None
    described = repr((ordered, [int(value or 0) for value in row]))
    return hmac.new(key, described.encode(), hashlib.sha256).hexdigest(), int(row[0])


def _literal(text: Any) -> str:
    return "'" + str(text).replace("'", "''") + "'"


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
