"""The names of a table's columns: those that the file gives, or numbers where it gives none."""

from __future__ import annotations

import re
from collections.abc import Sequence

from releases.engine.domain.universe import MAX_COLUMNS
from releases.engine.tables.facts import UnreadableTable
from releases.engine.tables.number import NUMBER_GRAMMAR


def checked_names(names: Sequence[str]) -> tuple[str, ...]:
    if len(names) > MAX_COLUMNS:
        raise UnreadableTable(f"The header names {len(names):,} columns; at most {MAX_COLUMNS:,} can be read.")
    seen: dict[str, str] = {}
    for position, raw in enumerate(names, start=1):
        name = raw.strip()
        if not name:
            raise UnreadableTable(f"Column {position} has no name. The first line must name every column.")
        if re.match(NUMBER_GRAMMAR, name):
            raise UnreadableTable(
                f"Column {position} of the first line is {name}, a number. The first line must name the columns."
            )
        if not name.isprintable():
            raise UnreadableTable(f"The name of column {position} holds characters that cannot be printed.")
        # Databases do not tell upper from lower case in names, so two such columns could be mistaken.
        if (before := seen.get(name.casefold())) is not None:
            named = name if name == before else f"{before} and {name}, which differ in capitals alone"
            raise UnreadableTable(f"Two columns are named {named}. Every column needs a name of its own.")
        seen[name.casefold()] = name
    return tuple(seen.values())


def numbered_names(number: int) -> tuple[str, ...]:
    """Of a file that names none: a first row is nobody's to show."""
    return checked_names([f"column_{place}" for place in range(1, number + 1)])
