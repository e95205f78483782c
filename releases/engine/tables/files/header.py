"""The names of a table's columns: those that the file gives, or numbers where it gives none."""

from __future__ import annotations

import re
from collections.abc import Sequence

from releases.engine.domain.universe import MAX_COLUMNS
from releases.engine.tables.facts import FileFacts, UnreadableTable
from releases.engine.tables.number import NUMBER_GRAMMAR


def checked_names(names: Sequence[str], facts: FileFacts) -> tuple[str, ...]:
    return _checked(list(enumerate(names, start=1)), "the first line", facts)


def named_columns(first: Sequence[str | None], facts: FileFacts, *, of: str) -> tuple[tuple[str, ...], list[int]]:
    """The names in the row of names, and the places from 0 of the columns that have one.

    A column without a name and without values is a gap between others, and none of the table.

    Args:
        of: what it is a row of.

    Raises:
        UnreadableTable: it names no column, or one in a way that cannot be used.
    """
    row = facts.header_row
    named = [(place, name) for place, name in enumerate(first, start=1) if name is not None and name.strip()]
    if not named:
        raise UnreadableTable(f"must be a row of the {of} that names columns", value=row, field="header_row")
    return _checked(named, "the first line" if row == 1 else f"row {row}", facts), [place - 1 for place, _ in named]


def has_values(place: int, row: int, *, of: str) -> UnreadableTable:
    """A column without a name has values.

    Args:
        place: its number, from 1.
    """
    return UnreadableTable(
        f"must name every column that has values; column {place} of the {of} has some and no name",
        value=row,
        field="header_row",
    )


def _checked(names: Sequence[tuple[int, str]], line: str, facts: FileFacts) -> tuple[str, ...]:
    if len(names) > MAX_COLUMNS:
        raise UnreadableTable(f"The header names {len(names):,} columns; at most {MAX_COLUMNS:,} can be read.")
    seen: dict[str, str] = {}
    for position, raw in names:
        name = raw.strip()
        if not name:
            raise UnreadableTable(f"Column {position} has no name. {line.capitalize()} must name every column.")
        if re.match(NUMBER_GRAMMAR, name) and not facts.number_names:
            # It may be the first row of a table without names, which is nobody's to show.
            raise UnreadableTable(
                f"must be chosen where columns are named by numbers: column {position} of {line} is one",
                field="number_names",
                value="",
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
    return checked_names([f"column_{place}" for place in range(1, number + 1)], FileFacts())
