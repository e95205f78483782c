"""By which words a release is found: those that it tells of its columns and its table, as they stood when it was made.

They are written down once, with the result: to read them out of every receipt, for every search, took most of its
time. What was declared or described and not released is not among them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from releases.schema.descriptions import notes_of, table_of


def searchable(result: Mapping[str, Any]) -> str:
    """The text that is searched for one word at a time: names of columns, categories, and what is said of them."""
    schema = result.get("receipt", {}).get("schema", {})
    told = [table_of(result)]
    for column in schema.get("columns", []):
        told += [column["name"], *column.get("categories", [])]
    for note in notes_of(result).values():
        told += note.values()
    # In lines of their own, so that no word is found that begins in one text and ends in the next; each once, for many
    # columns have the same categories.
    return "\n".join(dict.fromkeys(map(folded, filter(None, told))))


def folded(text: str) -> str:
    """Without regard to capitals, in any script: SQLite by itself disregards those of ASCII alone."""
    return text.casefold()
