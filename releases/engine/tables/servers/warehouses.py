"""Trino, BigQuery and Snowflake: dialects alone.

Their statements are held to files that the tests have. No session of them is part of this version, since none could be
held to the contract that every other is; so none of them is in ``registry.py``, and their addresses are refused.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from releases.engine.tables.dialects import Dialect, epoch
from releases.engine.tables.typed import ColumnType


class Warehouse(Dialect):
    """What the three write alike."""

    read_types = frozenset[ColumnType]()

    def date_of(self, days: exp.Expr) -> exp.Expr:
        return exp.DateAdd(this=epoch(), expression=exp.cast(days, exp.DataType.Type.BIGINT), unit=exp.var("DAY"))

    def numbered(self, texts: Sequence[str], parameters: list[list[str]]) -> exp.Select:
        return self.of_literals(texts)


class Trino(Warehouse):
    name = "trino"

    def part(self, text: exp.Expr, separator: str, place: int) -> exp.Expr:
        # Behind the last part it gives null.
        return exp.func("COALESCE", super().part(text, separator, place), exp.Literal.string(""))

    def matches(self, text: exp.Expr, pattern: str) -> exp.Expr:
        # $ would also match before a line end.
        return super().matches(text, f"{pattern.removesuffix('$')}\\z")

    def sha256(self, text: exp.Expr) -> exp.Expr:
        octets = exp.Anonymous(this="TO_UTF8", expressions=[text])
        hashed = exp.Anonymous(this="SHA256", expressions=[octets])
        return exp.Lower(this=exp.Anonymous(this="TO_HEX", expressions=[hashed]))


class BigQuery(Warehouse):
    name = "bigquery"

    def part(self, text: exp.Expr, separator: str, place: int) -> exp.Expr:
        parts = exp.Anonymous(this="SPLIT", expressions=[text.copy(), exp.Literal.string(separator)])
        at = exp.Bracket(this=parts, expressions=[exp.Literal.number(place - 1)], offset=0, safe=True)
        return exp.func("COALESCE", at, exp.Literal.string(""))

    def sha256(self, text: exp.Expr) -> exp.Expr:
        hashed = exp.Anonymous(this="SHA256", expressions=[text])
        return exp.Anonymous(this="TO_HEX", expressions=[hashed])


class Snowflake(Warehouse):
    name = "snowflake"

    def as_text(self, column: exp.Expr) -> exp.Expr:
        # A column may be declared to ignore case; the empty collation compares bytes.
        return exp.Anonymous(this="COLLATE", expressions=[super().as_text(column), exp.Literal.string("")])

    def matches(self, text: exp.Expr, pattern: str) -> exp.Expr:
        # It matches the whole text alone.
        return super().matches(text, pattern.removeprefix("^").removesuffix("$"))

    def read_double(self, text: exp.Expr) -> exp.Expr:
        return exp.Anonymous(this="TRY_TO_DOUBLE", expressions=[text])

    def sha256(self, text: exp.Expr) -> exp.Expr:
        return exp.Anonymous(this="SHA2", expressions=[text, exp.Literal.number(256)])


#: By their names, for who asks for one.
WAREHOUSES: dict[str, Warehouse] = {each.name: each for each in (Trino(), BigQuery(), Snowflake())}
