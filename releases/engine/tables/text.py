"""Step 1: every column that is read as text, without spaces around it; nothing, text of spaces only, and text that its
declaration lists as a missing code, is missing. Beside them what is taken by its type.

Spaces are the six of `dialects.SPACES`, and no other character of Unicode. Texts are equal where their UTF-8 bytes are:
upper and lower case, composed and decomposed letters, and `1` and `1.0` differ, as categories and as persons.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from releases.engine.domain.columns import FileColumn
from releases.engine.tables.dialects import Dialect, column, filtered, is_there
from releases.engine.tables.typed import ColumnType

#: The person that a row belongs to.
UNIT = "unit_id"


def text_of(axis: int) -> str:
    return f"text_{axis}"


def texts(
    relation: exp.Expr,
    columns: Mapping[int, FileColumn],
    id_column: str | None,
    dialect: Dialect,
    types: Mapping[str, ColumnType],
    taken: Sequence[exp.Expr] = (),
) -> exp.Select:
    """The columns that are read, by axis, and the id. A row without an id belongs to nobody and is left out.

    Args:
        types: of the table's columns.
        taken: expressions of columns that are read by their type; a database leaves out the text where only these are
            used.
    """
    selected = [
        exp.alias_(text_read(each, dialect, types.get(each.name)), text_of(axis), quoted=True)
        for axis, each in columns.items()
    ]
    selected += taken
    if id_column is not None:
        # Whole numbers are equal where their texts are.
        is_whole = types.get(id_column) is ColumnType.WHOLE
        unit = column(id_column) if is_whole else dialect.identity(dialect.trimmed(column(id_column)))
        selected.append(exp.alias_(unit, UNIT, quoted=True))
    rows = exp.select(*selected, copy=False).from_(relation, copy=False)
    return rows if id_column is None else filtered(rows, [is_there(UNIT)], dialect)


def text_read(read: FileColumn, dialect: Dialect, type_: ColumnType | None) -> exp.Expr:
    """Its text, null where that is a missing code. No value of a type that is read has spaces around it."""
    text = dialect.trimmed(column(read.name)) if type_ is None else dialect.as_text(column(read.name))
    for code in read.missing:
        text = exp.Nullif(this=text, expression=exp.Literal.string(code))
    return text
