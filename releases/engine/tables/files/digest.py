"""By which rows are recognised that come again, in any order and any format."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from releases.engine.tables.files.progress import FINGERPRINT, FileProgress
from releases.engine.tables.files.sql import identifier, literal

if TYPE_CHECKING:
    import duckdb

#: As many as DuckDB has at once: rows of ten thousand columns are long.
_ROWS_AT_A_TIME = 2048


def digest_of(
    connection: duckdb.DuckDBPyConnection, path: Path, columns: Sequence[str], key: bytes, report: FileProgress
) -> str:
    """A keyed fingerprint of the multiset of rows of a stored table, blind to the order of rows and columns.

    Each row's text, columns by name, is hashed by MD5; the two halves of the hashes are added up over all rows.
    """
    ordered = sorted(columns)
    # Control characters cannot be part of a declared value; they keep ("ab", "c") apart from ("a", "bc"), and a
    # missing value from an empty column beside it.
    values = ", chr(31), ".join(f"coalesce({identifier(name)}, chr(30))" for name in ordered)
    texts = f"SELECT concat({values}) FROM read_parquet({literal(path)})"
    described = repr((ordered, report.run(FINGERPRINT, connection, lambda: _added_up(connection, texts))))
    return hmac.new(key, described.encode(), hashlib.sha256).hexdigest()


def _added_up(connection: duckdb.DuckDBPyConnection, texts: str) -> list[int]:
    """How many texts there are, and the sums of the last and of the first eight bytes of their hashes."""
    from releases.engine.tables.files.md5 import add_hashes

    number, words = 0, np.zeros(4, np.uint64)
    for batch in connection.sql(texts).to_arrow_reader(_ROWS_AT_A_TIME):
        column = batch.column(0)
        _, offsets, data = column.buffers()
        # Of 64 bits each, by a setting of the connection.
        places = np.frombuffer(offsets, np.int64)[column.offset :][: len(column) + 1]
        add_hashes(places, np.frombuffer(data, np.uint8), words)
        number += len(column)
    first, second, third, last = (int(each) for each in words)
    return [number, third + (last << 32), first + (second << 32)]
