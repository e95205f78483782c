"""Delimited text in UTF-8: its row of names, by which the separator is proposed, and its rows as a table of text."""

from __future__ import annotations

import codecs
import csv
import io
import shutil
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import duckdb

from releases.engine.domain.universe import MAX_COLUMNS
from releases.engine.tables.facts import FileFacts, UnreadableTable
from releases.engine.tables.files.encoding import check_bytes
from releases.engine.tables.files.header import has_values, named_columns, numbered_names
from releases.engine.tables.files.limits import TableLimits, refuse_above
from releases.engine.tables.files.progress import READ, Report
from releases.engine.tables.files.sql import identifier, literal

_CHUNK = 1 << 20
_DELIMITERS = (",", ";", "\t", "|")
#: The header must end within so many bytes, which holds ten thousand long names.
LONGEST_START = 4 << 20
_LONGEST_LINE = 16 << 20


@dataclass(frozen=True, kw_only=True)
class RowOfNames:
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


def row_of_names(source: Path, facts: FileFacts) -> RowOfNames:
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
        begun = file.read(LONGEST_START)
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
    return RowOfNames(
        columns=tuple(named.get(place, str(place + 1)) for place in range(len(first))),
        names=frozenset(names),
        facts=replace(facts, separator=best),
        lines_above=lines,
        bytes_above=mark + len(skipped.encode()) if lines else 0,
    )


def ask_for_decimal(facts: FileFacts) -> None:
    """Where commas are decimal signs, semicolons separate values; so with semicolons either sign is likely."""
    if facts.separator == ";" and not facts.decimal:
        raise UnreadableTable(
            "must be chosen, a point or a comma, where semicolons separate the values", field="decimal", value=""
        )


def load_text(
    connection: duckdb.DuckDBPyConnection,
    source: Path,
    facts: FileFacts,
    report: Report,
    limits: TableLimits,
    *,
    below: Path,
) -> FileFacts:
    """Load a delimited text file in UTF-8 as table `uploaded`.

    Args:
        below: where the file is written again from the row of names on, if others are above it. DuckDB would skip
            rows too, and does not take every quotation mark in them as the names were read.
    """
    refuse_above(limits, unfolded=source.stat().st_size)
    check_bytes(source, report=report)
    header = row_of_names(source, facts)
    facts = header.facts
    if header.bytes_above:
        with source.open("rb") as file, below.open("wb") as written:
            file.seek(header.bytes_above)
            shutil.copyfileobj(file, written, _CHUNK)
        source = below
    columns, gaps = header.columns, [name for name in header.columns if name not in header.names]
    # Of a gap no more is kept than whether it has values: the number of the first column that has.
    gap = " ".join(f"WHEN {identifier(name)} IS NOT NULL THEN {name}" for name in gaps)
    selected = f"* EXCLUDE ({', '.join(map(identifier, gaps))}), CASE {gap} END AS {_GAP}" if gaps else "*"
    quote = literal(facts.quote_sign)
    types = ", ".join(f"{literal(name)}: 'VARCHAR'" for name in columns)
    query = (
        f"CREATE TABLE uploaded AS SELECT {selected} FROM read_csv({literal(str(source))}, auto_detect = false, "
        f"header = {facts.has_header}, delim = {literal(facts.separator)}, quote = {quote}, escape = {quote}, "
        f"columns = {{{types}}}, "
        f"nullstr = '', strict_mode = true, store_rejects = true, max_line_size = {_LONGEST_LINE})"
    )
    try:
        report.run(READ, connection, query)
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
    refuse_above(limits, rows=counted[0] if counted else 0)
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
