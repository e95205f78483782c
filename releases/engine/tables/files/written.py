"""The table as it is kept: Parquet with text columns, written in one pass over what was sent."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from releases.engine.tables.facts import FileFacts
from releases.engine.tables.files.progress import FileProgress
from releases.engine.tables.files.sql import literal
from releases.engine.tables.stored import kept

if TYPE_CHECKING:
    import duckdb


def write(
    connection: duckdb.DuckDBPyConnection,
    query: str,
    target: Path,
    facts: FileFacts,
    report: FileProgress,
    *,
    step: str,
) -> int:
    """Write what a query finds; returns how many rows there are.

    Args:
        step: the step of the report that this is.
    """
    # The first level takes less time than the usual third one, and tables of text become no larger by it.
    how = f"FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 1, USE_TMP_FILE false{kept(facts.number_form)}"
    copy = f"COPY ({query}) TO {literal(str(target))} ({how})"
    [(rows,)] = report.run(step, connection, lambda: connection.execute(copy).fetchall())
    target.chmod(0o600)
    return int(rows)
