"""Step 1: every column that is read as text, without spaces around it; nothing, text of spaces only, and text that its
declaration lists as a missing code, is missing.

Spaces are the six of `dialects.SPACES`, and no other character of Unicode. Texts are equal where their UTF-8 bytes are:
upper and lower case, composed and decomposed letters, and `1` and `1.0` differ, as categories and as persons.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from releases.engine.domain.columns import FileColumn
from releases.engine.tables.dialects import SPACES, Dialect, column, filtered, is_there

#: The person that a row belongs to.
UNIT = "unit_id"


def text_of(axis: int) -> str:
    return f"text_{axis}"


def texts(relation: exp.Expr, columns: Mapping[int, FileColumn], id_column: str | None, dialect: Dialect) -> exp.Select:
    """The columns that are read, by axis, and the id. A row without an id belongs to nobody and is left out."""
    selected = [exp.alias_(_read(each, dialect), text_of(axis), quoted=True) for axis, each in columns.items()]
    if id_column is not None:
        selected.append(exp.alias_(trimmed(column(id_column), dialect), UNIT, quoted=True))
    rows = exp.select(*selected, copy=False).from_(relation, copy=False)
    return rows if id_column is None else filtered(rows, [is_there(UNIT)], dialect)


def trimmed(given: exp.Expr, dialect: Dialect) -> exp.Expr:
    spaces = exp.Concat(expressions=[exp.Chr(expressions=[exp.Literal.number(each)]) for each in SPACES])
    text = exp.Trim(this=dialect.as_text(given), expression=spaces, position="BOTH")
    return exp.Nullif(this=text, expression=exp.Literal.string(""))


def _read(read: FileColumn, dialect: Dialect) -> exp.Expr:
    text = trimmed(column(read.name), dialect)
    for code in read.missing:
        text = exp.Nullif(this=text, expression=exp.Literal.string(code))
    return text
