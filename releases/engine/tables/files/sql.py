"""Names and texts, quoted for a statement of DuckDB."""

from __future__ import annotations

from typing import Any


def literal(text: Any) -> str:
    return "'" + str(text).replace("'", "''") + "'"


def identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
