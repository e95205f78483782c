"""What a stored table says of itself beside its rows: how its numbers are written, in the Parquet file's metadata."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from releases.engine.tables.number import PLAIN, NumberForm

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_DECIMAL, _THOUSANDS = "decimal_sign", "thousands_sign"


def kept(form: NumberForm) -> str:
    """The option of COPY that keeps the form; none for the plain form."""
    if form == PLAIN:
        return ""
    thousands = form.thousands.replace("'", "''")
    return f", KV_METADATA {{{_DECIMAL}: '{form.decimal}', {_THOUSANDS}: '{thousands}'}}"


def number_form_of(connection: DuckDBPyConnection, path: str | Path) -> NumberForm:
    found = connection.execute("SELECT key, value FROM parquet_kv_metadata(?)", [str(path)]).fetchall()
    return form_said(
        {bytes(key).decode(errors="replace"): bytes(value).decode(errors="replace") for key, value in found}
    )


def form_said(said: Mapping[str, str]) -> NumberForm:
    """The form of numbers, in what a file's metadata say."""
    if _DECIMAL not in said:
        return PLAIN
    return NumberForm(decimal=said[_DECIMAL], thousands=said[_THOUSANDS])
