"""Tables where they are: in a file that DuckDB reads, in Spark; elsewhere, see ``storage.py`` and ``servers``.

Each runs a statement that the steps have built and gives its rows a batch at a time, as arrays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from releases.engine.tables.connection import Limits, connect, refuse_unless_confined
from releases.engine.tables.dialects import Dialect, Spark, bound_table
from releases.engine.tables.number import PLAIN, NumberForm
from releases.engine.tables.stored import number_form_of
from releases.engine.tables.typed import ColumnType, of_duckdb

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

#: Rows held at once.
_ROWS_AT_A_TIME = 1 << 18
ROWS_OF_OBJECTS = 1 << 14


class EngineSession(Protocol):
    """Where statements are run.

    Attributes:
        dialect: in which they are written.
        is_here: the rows are on this machine, so that they may be coded once and counted from their codes; else
            nothing but grouped counts leaves the server.
        number_form: how numbers are written.
    """

    @property
    def dialect(self) -> Dialect: ...

    @property
    def is_here(self) -> bool: ...

    @property
    def number_form(self) -> NumberForm: ...

    def batches(self, statement: exp.Expr, parameters: Sequence[list[str]]) -> Iterator[tuple[NDArray[Any], ...]]:
        """The columns of some rows at a time, so that memory does not grow with their number."""
        ...


class Source(EngineSession, Protocol):
    """A table, in a session that can read it."""

    @property
    def columns(self) -> tuple[str, ...]: ...

    @property
    def types(self) -> Mapping[str, ColumnType]:
        """Of columns whose type is read, as the catalogue has them in the very session that counts."""
        ...

    @property
    def relation(self) -> exp.Expr:
        """What stands after FROM."""
        ...


#: Pushed below the selects that it stands on, the filter of rows that count would work out every code again.
UNPUSHED = {"disabled_optimizers": "'filter_pushdown'"}


class EmbeddedTable:
    """A table that a connection of DuckDB in this process reads."""

    dialect = Dialect()
    is_here = True
    connection: DuckDBPyConnection

    def batches(self, statement: exp.Expr, parameters: Sequence[list[str]]) -> Iterator[tuple[NDArray[Any], ...]]:
        for number, texts in enumerate(parameters, start=1):
            kept = exp.table_(bound_table(number), quoted=True)
            made = exp.Create(
                this=kept,
                kind="TABLE",
                replace=True,
                properties=exp.Properties(expressions=[exp.TemporaryProperty()]),
                expression=self.dialect.bound(1),
            )
            self.connection.execute(self.dialect.sql(made), [texts])
        found = self.connection.sql(self.dialect.sql(statement))
        for batch in found.to_arrow_reader(_ROWS_AT_A_TIME):
            yield tuple(column.to_numpy(zero_copy_only=False) for column in batch.columns)


def described_by(connection: DuckDBPyConnection, statement: str) -> list[tuple[str, str]]:
    """The columns of a statement, with their types."""
    found = connection.execute(f"DESCRIBE {statement}").fetchall()
    return [(str(name), str(kind)) for name, kind, *_ in found]


class FileTable(EmbeddedTable):
    """A Parquet file, by a connection of DuckDB that reaches nothing else."""

    def __init__(self, path: str, *, limits: Limits | None = None) -> None:
        self.connection = connect(paths=[path], limits=limits, options=UNPUSHED)
        self._path = path
        described = described_by(self.connection, f"SELECT * FROM {self.dialect.sql(self.relation)}")
        self.columns = tuple(name for name, _ in described)
        self.types = of_duckdb(described)
        self.number_form = number_form_of(self.connection, path)

    @property
    def relation(self) -> exp.Expr:
        return exp.Table(this=exp.Anonymous(this="READ_PARQUET", expressions=[exp.Literal.string(self._path)]))


class SparkSession:
    """A session of Spark."""

    dialect = Spark()
    is_here = False
    number_form = PLAIN

    def __init__(self, session: Any) -> None:
        refuse_unless_confined()
        self._session = session

    def batches(self, statement: exp.Expr, parameters: Sequence[list[str]]) -> Iterator[tuple[NDArray[Any], ...]]:
        assert not parameters
        rows: list[Any] = []
        for row in self._session.sql(self.dialect.sql(statement)).toLocalIterator():
            rows.append(row)
            if len(rows) == ROWS_OF_OBJECTS:
                yield arrays(rows)
                rows = []
        if rows:
            yield arrays(rows)


def named_in_spark(name: str) -> exp.Table:
    """A table by its name, with those above it before points."""
    *above, table = name.split(".")
    return exp.table_(table, db=above[-1] if above else None, catalog=above[0] if above[1:] else None, quoted=True)


def arrays(rows: Sequence[Sequence[Any]]) -> tuple[NDArray[Any], ...]:
    """The columns of some rows: whole numbers, or texts."""
    columns = zip(*rows, strict=True)
    return tuple(np.array(column, dtype=object if isinstance(column[0], str) else np.int64) for column in columns)
