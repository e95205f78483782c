"""What a table is, and what its columns hold and are measured in: in words, for readers.

They are documentation and no part of the schema: what is planned, counted, priced and digested is the same with and
without them. A release keeps those that stood when it was made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from releases.engine.errors import InvalidInput

if TYPE_CHECKING:
    from releases.models import Dataset

DESCRIPTION, UNIT = "description", "unit"
#: Characters, at most: a heading's worth, and what stands in brackets behind a name.
LONGEST = {DESCRIPTION: 200, UNIT: 40}
#: Of what the table is: a paragraph.
LONGEST_PARAGRAPH = 1000

#: By column what is said of it, by `DESCRIPTION` and `UNIT`; nothing is said with an empty text.
Notes = dict[str, dict[str, str]]


@dataclass(frozen=True, kw_only=True)
class Apart:
    """A codebook taken apart.

    Attributes:
        schema: in the schema format, without a word for readers.
        notes: of the columns that it says something of, or empties.
        description: of the table; None where it does not say.
    """

    schema: dict[str, Any]
    notes: Notes
    description: str | None


def read_note(field: str, text: object) -> str:
    """What is said of a column, without idle spaces.

    Raises:
        InvalidInput: it is no text, not one line, too long, or holds what cannot be seen.
    """
    if not isinstance(text, str):
        raise InvalidInput(field, text, "must be text")
    if len(text.strip().splitlines()) > 1:
        raise InvalidInput(field, text, "must be one line")
    return _readable(field, text, LONGEST[field])


def read_paragraph(text: object) -> str:
    """What the table is; lines of it are joined to one paragraph.

    Raises:
        InvalidInput: it is no text, too long, or holds what cannot be seen.
    """
    if not isinstance(text, str):
        raise InvalidInput(DESCRIPTION, text, "must be text")
    return _readable(DESCRIPTION, text, LONGEST_PARAGRAPH)


def apart(codebook: object) -> Apart:
    """Take a codebook apart; what it is otherwise is left as it is, right or wrong.

    Raises:
        InvalidInput: what is said of the table or of a column breaks its rule, naming the column.
    """
    if not isinstance(codebook, dict):
        return Apart(schema=codebook, notes={}, description=None)  # type: ignore[arg-type]  # refused by its reader
    description = read_paragraph(codebook[DESCRIPTION]) if DESCRIPTION in codebook else None
    schema = {name: value for name, value in codebook.items() if name != DESCRIPTION}
    columns, notes = codebook.get("columns"), Notes()
    if isinstance(columns, list):
        schema["columns"] = [_column_apart(position, each, notes) for position, each in enumerate(columns)]
    return Apart(schema=schema, notes=notes, description=description)


def noted(column: Mapping[str, Any], notes: Notes) -> dict[str, Any]:
    """A column of the schema format with what is said of it."""
    return {**column, **notes.get(column["name"], {})}


def merged(notes: Notes, given: Notes) -> Notes:
    """What is said after something was said again; columns that are not named keep what they have."""
    both = {name: {**notes.get(name, {}), **given.get(name, {})} for name in [*notes, *given]}
    said = {name: {field: text for field, text in each.items() if text} for name, each in both.items()}
    return {name: each for name, each in said.items() if each}


def described(dataset: Dataset, names: Iterable[str]) -> dict[str, Any]:
    """What a release about some of the columns keeps of it."""
    return {
        "table": dataset.description,
        "columns": {name: dataset.column_notes[name] for name in names if name in dataset.column_notes},
    }


def notes_of(result: Mapping[str, Any]) -> Notes:
    """What a stored result says of its columns; nothing where it is older than descriptions."""
    notes: Notes = result.get("described", {}).get("columns", {})
    return notes


def table_of(result: Mapping[str, Any]) -> str:
    """What a stored result says of its table."""
    return str(result.get("described", {}).get("table", ""))


def with_unit(name: str, notes: Notes) -> str:
    """A column's name as it heads an axis."""
    unit = notes.get(name, {}).get(UNIT, "")
    return f"{name} ({unit})" if unit else name


def _column_apart(position: int, column: Any, notes: Notes) -> Any:
    if not isinstance(column, dict):
        return column
    name = column.get("name")
    said = {}
    for field in LONGEST:
        if field in column:
            try:
                said[field] = read_note(field, column[field])
            except InvalidInput as error:
                named = f" ({name})" if isinstance(name, str) and name else ""
                raise InvalidInput(f"columns[{position}]{named}.{error.field}", error.value, error.rule) from None
    if said and isinstance(name, str):
        notes[name] = said
    return {field: value for field, value in column.items() if field not in LONGEST}


def _readable(field: str, text: str, longest: int) -> str:
    read = " ".join(text.split())
    if len(read) > longest:
        raise InvalidInput(field, f"{len(read):,} characters", f"must be at most {longest:,} characters long")
    if not read.isprintable():
        raise InvalidInput(field, read, "must be printable text")
    return read
