"""A Parquet file, sent or written of another format: its directory, what it unfolds to, and its columns as text."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import duckdb

from releases.engine.tables.facts import FileFacts, UnreadableTable
from releases.engine.tables.files.header import checked_names
from releases.engine.tables.files.limits import TableLimits, refuse_above, refuse_unfolding
from releases.engine.tables.files.progress import READ, STORE, FileProgress
from releases.engine.tables.files.sql import identifier, literal
from releases.engine.tables.files.written import write

_MAX_CELLS = 20_000_000_000
_LONGEST_VALUE = 10_000
_FIRST_ROWS = 1 << 16
#: Of columns that are read; others, such as lists and records, can unfold to any length once they are text.
_FLAT_TYPES = re.compile(
    r"BOOLEAN|U?(TINY|SMALL|BIG|HUGE)INT|U?INTEGER|FLOAT|DOUBLE|DECIMAL\(\d+,\d+\)|DATE|TIME[A-Z_ ]*|INTERVAL|UUID"
    r"|VARCHAR|JSON|BLOB"
)


def parquet_columns(
    connection: duckdb.DuckDBPyConnection,
    source: Path,
    facts: FileFacts,
    limits: TableLimits,
    *,
    sent: Path | None = None,
) -> list[tuple[str, str, str]]:
    """The columns of a Parquet file after a look at its directory: each one's name there, its name here, its type."""
    path = literal(str(source))
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
    names = checked_names(_names(connection, path, described), facts)
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
    refuse_unfolding(sent or source, unfolded)
    return [(column[0], name, column[1]) for column, name in zip(described, names, strict=True)]


def _names(connection: duckdb.DuckDBPyConnection, path: str, described: list[Any]) -> list[str]:
    """The names in the file; a column that it does not name is numbered."""
    found = connection.execute(f"SELECT name FROM parquet_schema({path})").fetchall()[1:]
    # Else some columns have others within them, and are refused by their types.
    given = [name for (name,) in found] if len(found) == len(described) else [column[0] for column in described]
    return [
        column[0] if name.strip() else f"column_{place}"
        for place, (name, column) in enumerate(zip(given, described, strict=True), start=1)
    ]


def store_parquet(
    connection: duckdb.DuckDBPyConnection,
    source: Path,
    facts: FileFacts,
    report: FileProgress,
    limits: TableLimits,
    *,
    sent: Path,
    target: Path,
) -> tuple[tuple[str, ...], int, list[dict[str, Any]]]:
    """Store the columns of a Parquet file as text. The types of those that are no text are what it says of them.

    Returns:
        the names of the columns, how many rows there are, and what the file says of its columns.
    """
    columns = parquet_columns(connection, source, facts, limits, sent=sent)
    path = literal(str(source))
    texts = [_as_text(identifier(column), kind, facts) for column, _, kind in columns]
    selected = ", ".join(f"{text} AS {identifier(name)}" for text, (_, name, _) in zip(texts, columns, strict=True))
    stored = f"read_parquet({path})"
    # One long text repeated by a dictionary takes no room in the file and much outside it. Its length is looked at,
    # and its bytes are not: so this is done in a moment, where the fingerprint would take minutes.
    # Bytes that are no text are not made into text for that.
    lengths = [
        f"octet_length({identifier(column)})" if kind == "BLOB" else f"strlen(CAST({identifier(column)} AS VARCHAR))"
        for column, _, kind in columns
    ]
    longest = " , ".join(f"max({each})" for each in lengths)
    together = " + ".join(f"coalesce(sum({each}), 0)" for each in lengths)
    measured = f"SELECT greatest({longest}, 0), {together} FROM "
    try:
        # What the first rows come to tells most that unfold to too much, at once.
        _refuse_long(sent, connection.execute(f"{measured} (FROM {stored} LIMIT {_FIRST_ROWS})").fetchone(), limits)
        _refuse_long(
            sent, report.run(READ, connection, lambda: connection.execute(f"{measured} {stored}").fetchone()), limits
        )
    except duckdb.OutOfMemoryException:
        raise
    except duckdb.Error:
        raise UnreadableTable("The file begins like a Parquet file but cannot be read as one.") from None
    said: list[dict[str, Any]] = [
        {"name": name, "label": "", "values": {}, "missing": [], "format": kind}
        for _, name, kind in columns
        if kind not in ("VARCHAR", "JSON", "BLOB")
    ]
    rows = write(connection, f"SELECT {selected} FROM {stored}", target, facts, report, step=STORE)
    return tuple(name for _, name, _ in columns), rows, said


def _as_text(column: str, kind: str, facts: FileFacts) -> str:
    """SQL for the text of a column: a double that is whole is the same text in every format, and numbers that are not
    text have the decimal sign that is declared of those that are."""
    text = f"CAST({column} AS VARCHAR)"
    if facts.decimal and kind.startswith(("DOUBLE", "FLOAT", "DECIMAL")):
        text = f"replace({text}, '.', {literal(facts.decimal)})"
    if kind not in ("DOUBLE", "FLOAT"):
        return text
    is_whole = f"{column} = trunc({column}) AND abs({column}) < {1 << 53}"
    return f"CASE WHEN {is_whole} THEN CAST(CAST({column} AS BIGINT) AS VARCHAR) ELSE {text} END"


def _refuse_long(source: Path, found: tuple[Any, ...] | None, limits: TableLimits) -> None:
    """By the longest value and the bytes of all."""
    longest, unfolded = found or (0, 0)
    if longest is not None and longest > _LONGEST_VALUE:
        raise UnreadableTable(f"The Parquet file holds a value longer than {_LONGEST_VALUE:,} bytes.")
    refuse_above(limits, unfolded=int(unfolded))
    refuse_unfolding(source, int(unfolded))
