"""By which rows are recognised that come again, in any order and any format."""

from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING

from releases.engine.tables.files.progress import FINGERPRINT, Report
from releases.engine.tables.files.sql import identifier

if TYPE_CHECKING:
    import duckdb


def digest_of(
    connection: duckdb.DuckDBPyConnection, relation: str, columns: tuple[str, ...], key: bytes, report: Report
) -> tuple[str, int]:
    """A keyed fingerprint of the multiset of rows, blind to the order of rows and columns.

    Each row's text, columns by name, is hashed; the two halves of the hashes are added up over all rows.
    """
    ordered = sorted(columns)
    named = ", ".join(identifier(name) for name in ordered)
    # Control characters cannot be part of a declared value; they keep ("ab", "c") apart from ("a", "bc"), and a
    # missing value from an empty column beside it. COLUMNS(*) spares a look-up of ten thousand names in each other.
    row = report.run(
        FINGERPRINT,
        connection,
        "SELECT count(*), sum(md5_number_lower(text)), sum(md5_number_upper(text)) "
        "FROM (SELECT concat_ws(chr(31), *COLUMNS(*)) AS text "
        f"FROM (SELECT coalesce(COLUMNS(*), chr(30)) FROM (SELECT {named} FROM {relation})))",
    ).fetchone()
    assert row is not None
    described = repr((ordered, [int(value or 0) for value in row]))
    return hmac.new(key, described.encode(), hashlib.sha256).hexdigest(), int(row[0])
