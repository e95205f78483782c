"""From a table to counts, by SQL that is built step by step and written in the dialect of the table's database.

    typed.py      which columns are read by their type, and not as text
    text.py       every column that is read as text, without spaces around it
    number.py     of numeric columns the number that the text writes
    date.py       of columns of dates the day or the second
    derived.py    of columns that are made from others the value of their formula
    persons.py    where these have one value a person, one row of each
    code.py       of every column the number of its bin
    bounding.py   at most so many rows of each person
    grouping.py   counts

Nothing is inferred from rows, and no row can make a statement fail. The rules are defined in
``docs/reference/counting.md``. Values are literals or parameters of the statement, never pieces of its text.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from releases.engine.domain.attribute import NO_NUMBER
from releases.engine.domain.impossible import Combination
from releases.engine.domain.population import Population
from releases.engine.domain.schema import Schema
from releases.engine.domain.universe import Universe
from releases.engine.errors import InvalidInput
from releases.engine.tables.bounding import bounded_by_text, bounded_by_values, fixed_point
from releases.engine.tables.code import code_of, codes, typed_categories
from releases.engine.tables.codes import CodedRows
from releases.engine.tables.connection import Limits, refuse_unless_confined
from releases.engine.tables.counts import Counts, CountsApart, Tally, Texts, empty_tables
from releases.engine.tables.databases import Database
from releases.engine.tables.date import date_numbers, typed_dates
from releases.engine.tables.derived import columns_read, derived
from releases.engine.tables.dialects import column, filtered, is_there, step, whole
from releases.engine.tables.grouping import MOST_SETS, by_cells, by_text, by_values, first_cells
from releases.engine.tables.number import PLAIN, numbers, typed_numbers
from releases.engine.tables.places import FOLDER, STORAGE
from releases.engine.tables.registry import kind_of
from releases.engine.tables.self_test import refuse_unless_right
from releases.engine.tables.servers.spark import SPARK, RemoteSession, RemoteTable
from releases.engine.tables.sources import FileTable, Source
from releases.engine.tables.storage import ObjectTable
from releases.engine.tables.text import text_of, texts
from releases.engine.tables.typed import read_by_type


def open_table(location: str, *, limits: Limits | None = None, names: Collection[str] | None = None) -> Source:
    """Open a table: by the path of a Parquet file, or by an address of a kind of `registry` and ``#table``.

    Args:
        limits: of the embedded database that reads a file; None for its own.
        names: of the columns that will be read; None for all.

    Raises:
        InvalidInput: the location is of no kind that is known, or names no table.
        UnreadableTable: the server counts otherwise than is defined.
        Unconfined: nothing confines this process.
    """
    refuse_unless_confined()
    kind = kind_of(location)
    if kind is FOLDER:
        return FileTable(location, limits=limits)
    url, _, name = location.partition("#")
    if not name:
        raise InvalidInput("table", url.rpartition("@")[2] or "URL", "must end with #table_name")
    if kind is STORAGE:
        return ObjectTable(location, limits=limits)
    if kind is SPARK:
        return _set_aside(RemoteTable(location, names=names))
    assert isinstance(kind, Database)
    table = kind.table(url, name)
    refuse_unless_right(table, TableCounts)
    return table


def _set_aside(remote: RemoteTable) -> RemoteTable:
    try:
        if not remote.is_checked:
            refuse_unless_right(remote, TableCounts)
        remote.set_aside()
    except BaseException:
        remote.close()
        raise
    return remote


def check_server(url: str) -> None:
    """Ask a server for counts that are known, and for no row.

    Raises:
        UnreadableTable: it counts otherwise than is defined.
        Unconfined: nothing confines this process.
    """
    kind = kind_of(url)
    assert isinstance(kind, Database)
    session = kind.session(url)
    if not isinstance(session, RemoteSession):
        refuse_unless_right(session, TableCounts)
        return
    with closing(session):
        if not session.is_checked:
            refuse_unless_right(session, TableCounts)


def counts_of(table: Source, schema: Schema, *, folder: Path | None = None) -> Counts:
    """The `Counts` of real releases, of rows, of persons, or of both."""
    parts = [TableCounts(table, each, folder) for each in schema.apart]
    return CountsApart(universe=schema.universe, parts=(parts[0], parts[1])) if len(parts) > 1 else parts[0]


@dataclass(frozen=True)
class TableCounts:
    """Exact counts of a table under a schema: of rows, or of persons.

    Attributes:
        table: where the rows are.
        schema: declares the bins, the unit and its bound.
        folder: where bin numbers are put aside while this object lives; None for the system's.
    """

    table: Source
    schema: Schema
    folder: Path | None = None

    def __post_init__(self) -> None:
        check_columns(self.table.columns, self.schema)
        # Refuses a schema of rows and of persons.
        _ = self.schema.counts_persons

    @property
    def universe(self) -> Universe:
        return self.schema.universe

    @property
    def population(self) -> Population:
        return self.schema.population

    def marginal(self, names: tuple[str, ...]) -> NDArray[np.int64]:
        """The exact counts over the named attributes. A row dropped by any declared rule counts nowhere; where tables
        have own rows, it counts wherever no named attribute drops it."""
        (counts,) = self._grouped([names])
        return counts

    def marginals(self, sets: Sequence[tuple[str, ...]]) -> list[NDArray[np.int64]]:
        """One reading of the table for all of them; of a file, also for all that are asked later."""
        if not self.table.is_here:
            return self._grouped(sets)
        tables = empty_tables(self.universe, sets)
        self._codes.count_into(tables, [self.universe.axes(names) for names in sets])
        return tables

    def histogram(self) -> NDArray[np.int64]:
        return self.marginal(self.universe.names)

    def tally(self, names: tuple[str, ...]) -> Tally:
        """How many rows have each combination of values, of those that `marginal` counts; numbers in units of their
        last place.

        Raises:
            InvalidInput: a column counts rows without a number.
        """
        for name in names:
            if self.universe[name].is_numeric and self.universe[name].missing_as:
                raise InvalidInput(name, NO_NUMBER, "has no value")
        rows, parameters = self._bounded_rows()
        if self.universe.own_rows:
            rows = filtered(rows, [is_there(code_of(axis)) for axis in self.universe.axes(names)], self.table.dialect)
        values = [fixed_point(self.universe.axis(name), self.universe[name]) for name in names]
        *found, counts = self._read(by_values(rows, values, self.table.dialect), parameters, columns=len(names) + 1)
        return Tally(values=tuple(each.astype(np.int64) for each in found), counts=counts.astype(np.int64))

    def texts(self, name: str) -> Texts:
        """How many rows have each text, declared or not: the column's own rule drops none, that of any other does."""
        rows, parameters = self._coded()
        own = self.universe.axis(name)
        may_drop = [] if self.universe.own_rows else enumerate(self.universe.attributes)
        others = [code_of(axis) for axis, each in may_drop if axis != own and each.may_drop]
        rows = filtered(rows, [is_there(each) for each in (text_of(own), *others)], self.table.dialect)
        if self.schema.unit.kind == "person":
            rows = bounded_by_text(rows, own, self.schema, self.table.dialect)
        grouped = by_text(rows, column(text_of(own)), self.table.dialect)
        found, counts = self._read(grouped, parameters, columns=2)
        return Texts(texts=found.astype(object), counts=counts.astype(np.int64))

    @cached_property
    def _codes(self) -> CodedRows:
        """A database works them out, once for this object; whatever is asked later is counted from them."""
        rows, parameters = self._bounded_rows()
        named = [
            exp.alias_(exp.cast(self._code_or_size(axis), exp.DataType.Type.INT), code_of(axis), quoted=True)
            for axis in range(len(self.universe.attributes))
        ]
        asked = self.table.batches(step(rows, named, self.table.dialect, keep=False), parameters)
        return CodedRows(self.universe.shape, (np.stack(batch) for batch in asked), folder=self.folder)

    def _code_or_size(self, axis: int) -> exp.Expr:
        """Where a row may have no code, the number of bins is put for none."""
        code, attribute = column(code_of(axis)), self.universe.attributes[axis]
        is_always_there = not (self.universe.own_rows and attribute.may_drop)
        return code if is_always_there else exp.func("COALESCE", code, whole(attribute.size))

    def _grouped(self, sets: Sequence[tuple[str, ...]]) -> list[NDArray[np.int64]]:
        """The database groups the rows, of each set of attributes once in whatever order it is asked for."""
        empty_tables(self.universe, sets)
        asked = [self.universe.axes(names) for names in sets]
        distinct = sorted({tuple(sorted(axes)) for axes in asked})
        found = {axes: np.zeros([self.universe.shape[axis] for axis in axes], dtype=np.int64) for axes in distinct}
        for first in range(0, len(distinct), MOST_SETS):
            self._group_into({axes: found[axes] for axes in distinct[first : first + MOST_SETS]})
        return [
            np.ascontiguousarray(found[tuple(sorted(axes))].transpose(np.argsort(np.argsort(axes)))) for axes in asked
        ]

    def _group_into(self, tables: dict[tuple[int, ...], NDArray[np.int64]]) -> None:
        rows, parameters = self._bounded_rows()
        statement = by_cells(
            rows, list(tables), self.universe.shape, self.table.dialect, own_rows=self.universe.own_rows
        )
        first = np.array(first_cells(list(tables), self.universe.shape))
        flat = [each.reshape(-1) for each in tables.values()]
        for cells, counts in self.table.batches(statement, parameters):
            of_table = np.searchsorted(first, cells, side="right") - 1
            for place in np.unique(of_table):
                here = of_table == place
                flat[place][cells[here].astype(np.int64) - first[place]] = counts[here]

    def _bounded_rows(self) -> tuple[exp.Select, list[list[str]]]:
        """One integer code a declared column, rows dropped by rule left out, each person's rows bounded.

        Where tables have own rows, none is left out yet, and codes may be null. Each person's rows are bounded all the
        same, once for all tables: bounded for each by itself, a person could have other rows in each, and move all of
        them together by more than the noise is made for.
        """
        rows, parameters = self._coded()
        if not self.universe.own_rows:
            counted = [is_there(code_of(axis)) for axis in range(len(self.universe.attributes))]
            rows = filtered(rows, [*counted, *map(self._has_not, self.universe.left_out)], self.table.dialect)
        if self.schema.unit.kind == "person":
            rows = bounded_by_values(rows, self.schema, self.table.dialect)
        return rows, parameters

    def _has_not(self, combination: Combination) -> exp.Expr:
        """Whether a row, every code of which is there, has some bin that is not in a combination."""
        places = combination.places(self.universe.attributes)
        has = [
            exp.In(this=column(code_of(self.universe.axis(name))), expressions=[whole(each) for each in bins])
            for name, bins in places.items()
        ]
        return exp.Not(this=exp.Paren(this=exp.and_(*has)))

    def _coded(self) -> tuple[exp.Select, list[list[str]]]:
        """The declared columns as text, numbers and bin numbers (null: the row does not count), and the id as text.

        With the parameters of the statement.
        """
        parameters: list[list[str]] = []
        columns, dialect = columns_read(self.universe), self.table.dialect
        taken = read_by_type(self.table.types, columns, is_plain=self.table.number_form == PLAIN)
        values = [
            *typed_numbers(columns, taken),
            *typed_dates(columns, taken, dialect),
            *typed_categories(columns, taken),
        ]
        rows = texts(self.table.relation, columns, self.schema.unit.id_column, dialect, self.table.types, values)
        rows = numbers(rows, columns, dialect, self.table.number_form, taken=taken)
        rows = date_numbers(rows, columns, dialect, taken=taken)
        rows = derived(rows, self.universe, dialect, parameters)
        attributes = dict(enumerate(self.universe.attributes))
        return codes(rows, attributes, dialect, parameters, taken=taken), parameters

    def _read(self, statement: exp.Expr, parameters: Sequence[list[str]], *, columns: int) -> list[NDArray[Any]]:
        batches = list(self.table.batches(statement, parameters))
        if not batches:
            return [np.zeros(0, dtype=np.int64) for _ in range(columns)]
        return [np.concatenate(each) for each in zip(*batches, strict=True)]


def check_columns(columns: tuple[str, ...], schema: Schema) -> None:
    """Refuse a schema that names a column the table does not have, or makes one that it has.

    Raises:
        InvalidInput: naming the column.
    """
    present = set(columns)
    schema.universe.check_columns(present)
    if schema.unit.id_column is not None and schema.unit.id_column not in present:
        raise InvalidInput("unit.id", schema.unit.id_column, "is not a column of the table")
