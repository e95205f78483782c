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
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from math import exp
from pathlib import Path
from time import monotonic
from typing import Any

import duckdb

from releases.engine.domain.universe import MAX_COLUMNS
from releases.engine.tables.connection import Limits, connect
from releases.engine.tables.facts import ENCODINGS, FileFacts, UnreadableTable
from releases.engine.tables.foreign import check_sheet, to_parquet
from releases.engine.tables.header import checked_names, has_values, named_columns, numbered_names
from releases.engine.tables.kinds import MAX_UNFOLDING, PARQUET, TEXT, WORKBOOK, taken_out
from releases.engine.tables.stored import kept

_CHUNK = 1 << 20
_DELIMITERS = (",", ";", "\t", "|")
#: How a text begins that says its encoding.
_MARKS = {b"\xef\xbb\xbf": "utf-8", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
#: The header must end within so many bytes, which holds ten thousand long names.
_LONGEST_HEADER = 4 << 20
_LONGEST_LINE = 16 << 20
#: Of a Parquet file.
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
class Start:
    """What the start of a file shows.

    Attributes:
        kind: one of ``kinds.py``.
        facts: as declared, and where nothing was, as proposed.
    """

    kind: str
    facts: FileFacts


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


def check_start(
    source: Path, *, facts: FileFacts | None = None, limits: TableLimits = _USUAL, database: Limits | None = None
) -> Start:
    """Look at what tells the commonest mistakes at once: the first bytes, the header, a Parquet file's directory.

    Args:
        facts: as declared. What is not declared is proposed; what cannot be is asked for.
        database: of the database that reads a directory; None for its own.

    Raises:
        UnreadableTable: as `ingest`, which looks at all the rest too.
    """
    with _folder(database) as folder:
        path, kind, facts = taken_out(
            source, facts or FileFacts(), folder, most=limits.unfolded, enough=_LONGEST_HEADER
        )
        _refuse_others(facts, kind)
        if kind == TEXT:
            facts = _with_encoding(path, facts)
            plain = _in_utf8(path, facts, folder, most=_LONGEST_HEADER)
            facts = _header(plain, facts).facts
            _check_bytes(plain, most=_LONGEST_HEADER)
            _ask_for_decimal(facts)
        elif kind == WORKBOOK and path == source:
            facts = check_sheet(path, facts, folder, most=limits.unfolded)
        elif kind == PARQUET and path == source:
            connection = connect(paths=[path], limits=database)
            try:
                _parquet_columns(connection, path, limits)
            finally:
                connection.close()
    return Start(kind=kind, facts=facts)


def ingest(
    source: Path,
    destination: Path,
    *,
    digest_key: bytes,
    facts: FileFacts | None = None,
    limits: TableLimits = _USUAL,
    database: Limits | None = None,
    progress: Progress | None = None,
) -> Ingested:
    """Check the file at `source` and write it to `destination` as Parquet with text columns.

    Args:
        facts: how the file is written, as declared.
        limits: a table that comes to more is refused before it is fingerprinted and written.
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
            facts = _with_encoding(path, facts)
            path = _in_utf8(path, facts, folder)
        elif kind != PARQUET:
            target = folder / "written-again.parquet"
            facts, codebook = to_parquet(kind, path, target, facts, most=limits.unfolded)
            path = target
        seconds = _CSV_SECONDS if kind == TEXT else _PARQUET_SECONDS
        report = _Report(progress, size=source.stat().st_size, seconds=seconds)
        below = folder / "below-other-rows"
        connection = connect(
            paths=[path, below, _partial(destination)], limits=database, options={"preserve_insertion_order": "false"}
        )
        try:
            if kind == TEXT:
                facts = _csv(connection, path, facts, report, limits, below=below)
            else:
                said = _parquet(connection, path, facts, report, limits, sent=source)
                codebook = codebook or said
            return replace(_store(connection, "uploaded", destination, facts, digest_key, report), codebook=codebook)
        finally:
            connection.close()


@contextmanager
def _folder(database: Limits | None) -> Iterator[Path]:
    """For what is taken out of a file."""
    with tempfile.TemporaryDirectory(dir=database.temp_folder if database is not None else None) as folder:
        yield Path(folder)


#: Facts of every kind of file: each can hold numbers that are text, and be in an archive.
_ALL = ("member", "decimal", "thousands")
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


def _with_encoding(source: Path, facts: FileFacts) -> FileFacts:
    """The encoding as declared, or as the byte order mark says; else UTF-8."""
    with source.open("rb") as file:
        start = file.read(3)
    marked = next((encoding for mark, encoding in _MARKS.items() if start.startswith(mark)), "")
    if marked and facts.encoding and not facts.encoding.startswith(marked):
        raise UnreadableTable(
            f"must be {marked}, as the file's byte order mark says", value=facts.encoding, field="encoding"
        )
    # The codec that is named with an order of bytes takes the mark for a character.
    return replace(facts, encoding=marked or facts.encoding or "utf-8")


def _in_utf8(source: Path, facts: FileFacts, folder: Path, *, most: int | None = None) -> Path:
    """A text file in UTF-8: the file itself, or written again; its first `most` bytes only, if given."""
    if facts.encoding == "utf-8":
        return source
    decoder, target, line, read = codecs.getincrementaldecoder(facts.encoding)(), folder / "in-utf-8", 1, 0
    with source.open("rb") as file, target.open("w", encoding="utf-8", newline="") as written:
        while most is None or read < most:
            chunk = file.read(_CHUNK)
            try:
                text = decoder.decode(chunk, final=not chunk)
            except UnicodeDecodeError as error:
                before = error.object[: error.start].decode(facts.encoding, errors="ignore")
                raise _not_in(facts.encoding, line + before.count("\n")) from None
            if not chunk:
                break
            written.write(text)
            line, read = line + text.count("\n"), read + len(chunk)
    return target


def _not_in(encoding: str, line: int) -> UnreadableTable:
    return UnreadableTable(
        f"Line {line} is not {ENCODINGS[encoding]} text. Choose the encoding of the file, or save it as UTF-8."
    )


def _ask_for_decimal(facts: FileFacts) -> None:
    """Where commas are decimal signs, semicolons separate values; so with semicolons either sign is likely."""
    if facts.separator == ";" and not facts.decimal:
        raise UnreadableTable(
            "must be chosen, a point or a comma, where semicolons separate the values", field="decimal", value=""
        )


def _csv(
    connection: duckdb.DuckDBPyConnection,
    source: Path,
    facts: FileFacts,
    report: _Report,
    limits: TableLimits,
    *,
    below: Path,
) -> FileFacts:
    """Load a delimited text file in UTF-8 as table `uploaded`.

    Args:
        below: where the file is written again from the row of names on, if others are above it. DuckDB would skip
            rows too, and does not take every quotation mark in them as the names were read.
    """
    _refuse_above(limits, unfolded=source.stat().st_size)
    _check_bytes(source, report=report)
    header = _header(source, facts)
    facts = header.facts
    if header.bytes_above:
        with source.open("rb") as file, below.open("wb") as written:
            file.seek(header.bytes_above)
            shutil.copyfileobj(file, written, _CHUNK)
        source = below
    columns, gaps = header.columns, [name for name in header.columns if name not in header.names]
    # Of a gap no more is kept than whether it has values: the number of the first column that has.
    gap = " ".join(f"WHEN {_identifier(name)} IS NOT NULL THEN {name}" for name in gaps)
    selected = f"* EXCLUDE ({', '.join(map(_identifier, gaps))}), CASE {gap} END AS {_GAP}" if gaps else "*"
    quote = _literal(facts.quote_sign)
    types = ", ".join(f"{_literal(name)}: 'VARCHAR'" for name in columns)
    query = (
        f"CREATE TABLE uploaded AS SELECT {selected} FROM read_csv({_literal(str(source))}, auto_detect = false, "
        f"header = {facts.has_header}, delim = {_literal(facts.separator)}, quote = {quote}, escape = {quote}, "
        f"columns = {{{types}}}, "
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
        rule = _REJECTIONS.get(rejected[1], "Line {line} cannot be read.")
        named = f"the header, which {'has' if gaps else 'names'} {len(columns)} columns"
        named = named if facts.has_header else "the first line"
        raise UnreadableTable(rule.format(line=rejected[0] + header.lines_above, header=named))
    if gaps:
        found = connection.execute(f"SELECT min({_GAP}) FROM uploaded").fetchone()
        if found is not None and found[0] is not None:
            raise has_values(int(found[0]), facts.header_row, of="file")
        connection.execute(f"ALTER TABLE uploaded DROP COLUMN {_GAP}")
    counted = connection.execute("SELECT count(*) FROM uploaded").fetchone()
    _refuse_above(limits, rows=counted[0] if counted else 0)
    return facts


#: No name of a column begins or ends with a space.
_GAP = '" "'
_REJECTIONS = {
    "MISSING COLUMNS": "Line {line} has fewer values than {header}.",
    "TOO MANY COLUMNS": "Line {line} has more values than {header}.",
    "UNQUOTED VALUE": "Line {line} has a quoted value that does not end properly.",
    "INVALID ENCODING": "Line {line} is not UTF-8 text. Choose the encoding of the file, or save it as UTF-8.",
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
                raise _not_in("utf-8", line) from None
            line += chunk.count(b"\n")
            read += len(chunk)
            if report is not None:
                report.within(_CHECK, min(read / size, 1.0))
    if read < size:
        return
    try:
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        raise _not_in("utf-8", line) from None


@dataclass(frozen=True, kw_only=True)
class _Header:
    """What the start of a text file says.

    Attributes:
        columns: the name of each, or its number from 1 where it has none.
        names: those of the table.
        facts: with the separator.
        lines_above: how many lines of the file are above the row of names.
        bytes_above: how many bytes these are, with the byte order mark; 0 for no line.
    """

    columns: tuple[str, ...]
    names: frozenset[str]
    facts: FileFacts
    lines_above: int
    bytes_above: int


def _header(source: Path, facts: FileFacts) -> _Header:
    """The names of the columns, and the facts with the separator: as declared, or that which cuts the row of the
    names into most. Rows above it are read by the same signs."""
    if not (facts.has_header or facts.separator):
        raise UnreadableTable(
            "must be chosen where no line names the columns: it is never looked for in rows",
            field="separator",
            value="",
        )
    if not facts.has_header and facts.header_row > 1:
        raise UnreadableTable("must be 1 where no line names the columns", field="header_row", value=facts.header_row)
    with source.open("rb") as file:
        begun = file.read(_LONGEST_HEADER)
    start = begun.decode("utf-8-sig", errors="ignore")
    if not start.strip():
        raise UnreadableTable("The file is empty.")
    of = "file"
    if facts.header_row > 1 and source.stat().st_size > len(begun):
        # A row that is cut off is not read.
        start, of = start[: max(start.rfind("\n"), start.rfind("\r")) + 1], "file's first 4 MB"
    candidates = (facts.separator,) if facts.separator else _DELIMITERS
    how = {"quotechar": facts.quote_sign} if facts.quote_sign else {"quoting": csv.QUOTE_NONE}
    read, above = {}, {}
    for delimiter in candidates:
        # The csv module takes a lone carriage return for a line end only in universal-newline text.
        rows = csv.reader(io.StringIO(start, newline=None), delimiter=delimiter, strict=True, **how)
        try:
            for _ in islice(rows, facts.header_row - 1):
                pass
            above[delimiter] = rows.line_num
            read[delimiter] = next(rows, [])
        except csv.Error:
            continue
    best = max(read, key=lambda each: (len(read[each]), -candidates.index(each)), default=None)
    if best is None or (len(read) < len(candidates) and len(read[best]) == 1):
        if facts.header_row > 1:
            raise UnreadableTable(
                "must have no quoted value that does not end properly, nor must a row above it",
                value=facts.header_row,
                field="header_row",
            )
        raise UnreadableTable("The first line has a quoted name that does not end properly.")
    first, lines = read[best], above[best]
    if len(first) > MAX_COLUMNS:
        raise UnreadableTable(f"The header has {len(first):,} columns; at most {MAX_COLUMNS:,} can be read.")
    names, places = (
        named_columns(first, facts.header_row, of=of)
        if facts.has_header
        else (numbered_names(len(first)), range(len(first)))
    )
    named = dict(zip(places, names, strict=True))
    mark = len(codecs.BOM_UTF8) if begun.startswith(codecs.BOM_UTF8) else 0
    skipped = "".join(islice(io.StringIO(start, newline=""), lines))
    return _Header(
        columns=tuple(named.get(place, str(place + 1)) for place in range(len(first))),
        names=frozenset(names),
        facts=replace(facts, separator=best),
        lines_above=lines,
        bytes_above=mark + len(skipped.encode()) if lines else 0,
    )


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
    if unfolded > MAX_UNFOLDING * max(source.stat().st_size, _CHUNK):
        raise UnreadableTable(
            f"The Parquet file unfolds to more than {MAX_UNFOLDING} times its size, or {MAX_UNFOLDING} MB if that is "
            "more."
        )


def _parquet_columns(
    connection: duckdb.DuckDBPyConnection, source: Path, limits: TableLimits, *, sent: Path | None = None
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
    names = checked_names([column[0] for column in described])
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
    _refuse_unfolding(sent or source, unfolded)
    return [(column[0], name, column[1]) for column, name in zip(described, names, strict=True)]


def _parquet(
    connection: duckdb.DuckDBPyConnection,
    source: Path,
    facts: FileFacts,
    report: _Report,
    limits: TableLimits,
    *,
    sent: Path,
) -> list[dict[str, Any]]:
    """Load a Parquet file as view `uploaded` with text columns. The types of those that are dates are what it says of
    them."""
    columns = _parquet_columns(connection, source, limits, sent=sent)
    path = _literal(str(source))
    texts = [_as_text(_identifier(column), kind, facts) for column, _, kind in columns]
    selected = ", ".join(f"{text} AS {_identifier(name)}" for text, (_, name, _) in zip(texts, columns, strict=True))
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
        _refuse_long(sent, connection.execute(f"{measured} (FROM {stored} LIMIT {_FIRST_ROWS})").fetchone(), limits)
        _refuse_long(sent, report.run(_READ, connection, f"{measured} {stored}").fetchone(), limits)
    except duckdb.OutOfMemoryException:
        raise
    except duckdb.Error:
        raise UnreadableTable("The file begins like a Parquet file but cannot be read as one.") from None
    dated = [(name, kind) for _, name, kind in columns if kind.startswith(("DATE", "TIMESTAMP"))]
    return [{"name": name, "label": "", "values": {}, "missing": [], "format": kind} for name, kind in dated]


def _as_text(column: str, kind: str, facts: FileFacts) -> str:
    """SQL for the text of a column: a double that is whole is the same text in every format, and numbers that are not
    text have the decimal sign that is declared of those that are."""
    text = f"CAST({column} AS VARCHAR)"
    if facts.decimal and kind.startswith(("DOUBLE", "FLOAT", "DECIMAL")):
        text = f"replace({text}, '.', {_literal(facts.decimal)})"
    if kind not in ("DOUBLE", "FLOAT"):
        return text
    is_whole = f"{column} = trunc({column}) AND abs({column}) < {1 << 53}"
    return f"CASE WHEN {is_whole} THEN CAST(CAST({column} AS BIGINT) AS VARCHAR) ELSE {text} END"


def _refuse_long(source: Path, found: tuple[Any, ...] | None, limits: TableLimits) -> None:
    """By the longest value and the bytes of all."""
    longest, unfolded = found or (0, 0)
    if longest is not None and longest > _LONGEST_VALUE:
        raise UnreadableTable(f"The Parquet file holds a value longer than {_LONGEST_VALUE:,} bytes.")
    _refuse_above(limits, unfolded=int(unfolded))
    _refuse_unfolding(source, int(unfolded))


def _store(
    connection: duckdb.DuckDBPyConnection,
    relation: str,
    destination: Path,
    facts: FileFacts,
    key: bytes,
    report: _Report,
) -> Ingested:
    columns = tuple(column[0] for column in connection.execute(f"DESCRIBE {relation}").fetchall())
    digest, rows = _digest(connection, relation, columns, key, report)
    if rows == 0:
        raise UnreadableTable("The file has a header but no rows.")
    partial = _partial(destination)
    how = f"FORMAT parquet, COMPRESSION zstd, USE_TMP_FILE false{kept(facts.number_form)}"
    report.run(_STORE, connection, f"COPY {relation} TO {_literal(str(partial))} ({how})")
    partial.chmod(0o600)
    with partial.open("rb") as file:
        file_sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    partial.replace(destination)
    return Ingested(columns=columns, digest=digest, rows=rows, file_sha256=file_sha256, facts=facts)


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
