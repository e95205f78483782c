"""Delimited text in UTF-8: its row of names, by which the separator is proposed, and its rows as a table of text."""

from __future__ import annotations

import codecs
import csv
import io
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import duckdb

from releases.engine.domain.universe import MAX_COLUMNS
from releases.engine.tables.facts import FileFacts, UnreadableTable
from releases.engine.tables.files.encoding import check_bytes
from releases.engine.tables.files.header import has_values, named_columns, numbered_names
from releases.engine.tables.files.limits import TableLimits, refuse_above
from releases.engine.tables.files.progress import READ, FileProgress
from releases.engine.tables.files.sql import identifier, literal
from releases.engine.tables.files.written import write

_CHUNK = 1 << 20
_DELIMITERS = (",", ";", "\t", "|")
#: The header must end within so many bytes, which holds ten thousand long names.
LONGEST_START = 4 << 20
_LONGEST_LINE = 16 << 20


@dataclass(frozen=True, kw_only=True)
class RowOfNames:
    """What the start of a text file says.

    Attributes:
        source: the file.
        columns: the name of each, or a space and its number from 1 where it has none: names have no space there.
        names: those of the table.
        facts: with the separator.
        lines_above: how many lines of the file are above the row of names.
        bytes_above: how many bytes these are, with the byte order mark; 0 for no line.
    """

    source: Path
    columns: tuple[str, ...]
    names: frozenset[str]
    facts: FileFacts
    lines_above: int
    bytes_above: int


def row_of_names(source: Path, facts: FileFacts, *, called: str = "") -> RowOfNames:
    """The names of the columns, and the facts with the separator: as declared, or as the file's name says if that cuts
    the row of the names, or that which cuts it into most. Rows above it are read by the same signs.

    Args:
        called: the name of the file, or of the member of an archive.
    """
    by_name = "\t" if Path(called.lower().removesuffix(".gz")).suffix in (".tsv", ".tab") else ""
    if by_name and not facts.has_header:
        facts = replace(facts, separator=facts.separator or by_name)
    if not (facts.has_header or facts.separator or facts.habits):
        raise UnreadableTable(
            "must be chosen where no line names the columns: it is never looked for in rows",
            field="separator",
            value="",
        )
    if not facts.has_header and facts.header_row > 1:
        raise UnreadableTable("must be 1 where no line names the columns", field="header_row", value=facts.header_row)
    with source.open("rb") as file:
        begun = file.read(LONGEST_START)
    start = begun.decode("utf-8-sig", errors="ignore")
    if not start.strip():
        raise UnreadableTable("The file is empty.")
    of = "file"
    if facts.header_row > 1 and source.stat().st_size > len(begun):
        # A row that is cut off is not read.
        start, of = start[: max(start.rfind("\n"), start.rfind("\r")) + 1], "file's first 4 MB"
    candidates: tuple[str, ...] = (facts.separator,) if facts.separator else _DELIMITERS
    if facts.habits is not None and not (facts.separator or facts.has_header):
        candidates = (";",) if facts.habits.decimal == "," else (",",)
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
    best = by_name if len(read.get(by_name, ())) > 1 else best
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
        named_columns(first, facts, of=of) if facts.has_header else (numbered_names(len(first)), range(len(first)))
    )
    named = dict(zip(places, names, strict=True))
    mark = len(codecs.BOM_UTF8) if begun.startswith(codecs.BOM_UTF8) else 0
    skipped = "".join(islice(io.StringIO(start, newline=""), lines))
    return RowOfNames(
        source=source,
        columns=tuple(named.get(place, f" {place + 1}") for place in range(len(first))),
        names=frozenset(names),
        facts=replace(facts, separator=best),
        lines_above=lines,
        bytes_above=mark + len(skipped.encode()) if lines else 0,
    )


def ask_for_decimal(facts: FileFacts) -> None:
    """Where commas are decimal signs, semicolons separate values; so with semicolons either sign is likely, and with
    commas in a file of such a country."""
    if facts.decimal:
        return
    if facts.separator == ";":
        raise UnreadableTable(
            "must be chosen, a point or a comma, where semicolons separate the values", field="decimal", value=""
        )
    if facts.habits is not None and facts.habits.decimal == facts.separator:
        country = facts.habits.country
        raise UnreadableTable(
            f"must be chosen, a point or a comma: commas separate the values, and numbers of {country} have a comma",
            field="decimal",
            value="",
        )


def store_text(
    connection: duckdb.DuckDBPyConnection,
    source: Path,
    facts: FileFacts,
    report: FileProgress,
    limits: TableLimits,
    *,
    below: Path,
    target: Path,
) -> tuple[FileFacts, tuple[str, ...], int]:
    """Store the rows of a delimited text file in UTF-8 as they are read. What was stored is of no use where it raises.

    Args:
        below: where the file is written again from the row of names on, if others are above it. DuckDB would skip
            rows too, and does not take every quotation mark in them as the names were read.

    Returns:
        the facts with the separator, the names of the columns, and how many rows there are.
    """
    refuse_above(limits, unfolded=source.stat().st_size)
    check_bytes(source, facts, decoded=LONGEST_START, report=report)
    header = row_of_names(source, facts)
    facts = header.facts.with_habits()
    if header.bytes_above:
        with source.open("rb") as file, below.open("wb") as written:
            file.seek(header.bytes_above)
            shutil.copyfileobj(file, written, _CHUNK)
        source = below
    quote = literal(facts.quote_sign)
    types = ", ".join(f"{literal(name)}: 'VARCHAR'" for name in header.columns)
    table = (
        f"read_csv({literal(str(source))}, auto_detect = false, "
        f"header = {facts.has_header}, delim = {literal(facts.separator)}, quote = {quote}, escape = {quote}, "
        f"columns = {{{types}}}, "
        f"nullstr = '', strict_mode = true, store_rejects = true, max_line_size = {_LONGEST_LINE})"
    )
    selected = "*"
    if gaps := [name for name in header.columns if name not in header.names]:
        # Columns without a name are rare, so they are looked at in a pass of their own.
        first = _first_with_values(connection, table, gaps, header, report)
        if first is not None:
            raise has_values(first, facts.header_row, of="file")
        selected = f"* EXCLUDE ({', '.join(map(identifier, gaps))})"
    with _irregular(connection, header):
        rows = write(connection, f"SELECT {selected} FROM {table}", target, facts, report, step=READ)
    refuse_above(limits, rows=rows)
    return facts, tuple(name for name in header.columns if name in header.names), rows


def _first_with_values(
    connection: duckdb.DuckDBPyConnection, table: str, gaps: list[str], header: RowOfNames, report: FileProgress
) -> int | None:
    """The number of the first column without a name that has values."""
    cases = " ".join(f"WHEN {identifier(name)} IS NOT NULL THEN {name}" for name in gaps)
    query = f"SELECT min(CASE {cases} END) FROM {table}"
    with _irregular(connection, header):
        # DuckDB lists what it did not read once all was taken.
        [(first,)] = report.run(READ, connection, lambda: connection.execute(query).fetchall())
    return None if first is None else int(first)


@contextmanager
def _irregular(connection: duckdb.DuckDBPyConnection, header: RowOfNames) -> Iterator[None]:
    """Refuse the first line that was not read."""
    try:
        yield
        rejected = connection.execute("SELECT line, error_type FROM reject_errors ORDER BY line LIMIT 1").fetchone()
    except (duckdb.IOException, duckdb.OutOfMemoryException):
        raise  # no fault of the file
    except duckdb.Error:
        check_bytes(header.source, header.facts)
        # DuckDB's own text quotes rows; what is left after the checks above is mixed line endings and giant lines.
        raise UnreadableTable(
            "The file is not regular delimited text. Write it with one kind of line ending and every quoted "
            "value closed."
        ) from None
    if rejected is not None:
        check_bytes(header.source, header.facts)
        rule = _REJECTIONS.get(rejected[1], "Line {line} cannot be read.")
        has = "names" if len(header.names) == len(header.columns) else "has"
        named = (
            f"the header, which {has} {len(header.columns)} columns" if header.facts.has_header else "the first line"
        )
        raise UnreadableTable(rule.format(line=rejected[0] + header.lines_above, header=named))


_REJECTIONS = {
    "MISSING COLUMNS": "Line {line} has fewer values than {header}.",
    "TOO MANY COLUMNS": "Line {line} has more values than {header}.",
    "UNQUOTED VALUE": "Line {line} has a quoted value that does not end properly.",
    "LINE SIZE OVER MAXIMUM": "Line {line} is longer than 16 MB.",
}
