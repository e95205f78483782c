"""From a table to counts, by one ibis expression that DuckDB, PostgreSQL and Spark all run.

Every column is read as text and coded by the declared universe: nothing is inferred from rows, and no row can make
the expression fail (text is matched against a fixed grammar of numbers before it is cast). A person's rows are
bounded here, before anything is counted.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from releases.engine.domain.universe import CLAMP, DROP, Attribute, AttributeKind, Schema, Universe
from releases.engine.errors import InvalidInput
from releases.engine.tables.codes import CodedRows
from releases.engine.tables.connection import Limits, connect_ibis, refuse_unless_confined
from releases.engine.tables.counts import Tally, Texts, empty_tables

if TYPE_CHECKING:
    import ibis.expr.types as ir

#: A number: plain digits with an optional point and a short exponent. Neither "nan", "inf" nor hexadecimal is one,
#: and nothing that matches can overflow a double, so the cast never fails.
NUMBER_GRAMMAR = r"^[+-]?([0-9]{1,40}([.][0-9]{0,40})?|[.][0-9]{1,40})([eE][+-]?[0-9]{1,2})?$"
#: Up to here a code is a chain of comparisons; beyond, categories are joined and bins searched.
_SHORT_CHAIN = 64
#: Beyond it a double has no places after the point.
_ALL_WHOLE = float(1 << 53)
_CELL = "dpweb_cell"
#: Rows whose bin numbers are held at once.
_ROWS_AT_A_TIME = 1 << 18
#: A prime below 2**20, so that the product of two remainders fits.
_SCRAMBLE = 1_000_003


def open_table(location: str, *, limits: Limits | None = None) -> ir.Table:
    """Open a table: the path of a Parquet file, or ``postgresql://user@host/database#table``.

    Args:
        limits: of the embedded database that reads a file; None for its own.

    Raises:
        InvalidInput: the location is of neither form, or nothing can be opened there.
        Unconfined: nothing confines this process.
    """
    if "://" not in location:
        # Pushed below the selects that it stands on, the filter of rows that count would work out every code again.
        options = {"disabled_optimizers": "'filter_pushdown'"}
        table: ir.Table = connect_ibis(paths=[location], limits=limits, options=options).read_parquet(location)
        return table
    refuse_unless_confined()
    import ibis

    url, _, name = location.partition("#")
    if not name:
        raise InvalidInput("table", location.partition("@")[2] or "URL", "must end with #table_name")
    schema_name, _, table_name = name.rpartition(".")
    return ibis.connect(url).table(table_name, database=schema_name or None)


@dataclass(frozen=True)
class TableCounts:
    """Exact counts of a table under a schema; the `Counts` of real releases.

    Attributes:
        table: an ibis table, of whatever backend.
        schema: declares the bins, the unit and its bound.
        folder: where bin numbers are put aside while this object lives; None for the system's.
    """

    table: ir.Table
    schema: Schema
    folder: Path | None = None

    def __post_init__(self) -> None:
        check_columns(self.table.columns, self.schema)

    @property
    def universe(self) -> Universe:
        return self.schema.universe

    def marginal(self, names: tuple[str, ...]) -> NDArray[np.int64]:
        """The exact counts over the named attributes. A row dropped by any declared rule counts nowhere."""
        (counts,) = empty_tables(self.universe, [names])
        rows = self._bounded_rows()
        strides = [int(stride) for stride in np.cumprod([1, *counts.shape[:0:-1]])[::-1]]
        cell = sum(
            (rows[self._code_of(name)] * stride for name, stride in zip(names, strides, strict=True)),
            start=0 * rows[self._code_of(names[0])],
        )
        grouped = rows.select(**{_CELL: cell}).group_by(_CELL).aggregate(rows=lambda each: each.count())
        found = _run(grouped)
        counts.reshape(-1)[found.column(_CELL).to_numpy()] = found.column("rows").to_numpy()
        return counts

    def marginals(self, sets: Sequence[tuple[str, ...]]) -> list[NDArray[np.int64]]:
        """One reading of the table for all of them, and for all that are asked later."""
        tables = empty_tables(self.universe, sets)
        self._codes.count_into(tables, [self.universe.axes(names) for names in sets])
        return tables

    @cached_property
    def _codes(self) -> CodedRows:
        """A database works them out, once for this object; whatever is asked later is counted from them."""
        rows = self._bounded_rows()
        codes = [_code(axis) for axis in range(len(self.universe.attributes))]
        asked = _batches(rows.select(**{code: rows[code].cast("int32") for code in codes}))
        blocks = (np.stack([batch.column(code).to_numpy() for code in codes]) for batch in asked)
        return CodedRows(self.universe.shape, blocks, folder=self.folder)

    def _code_of(self, name: str) -> str:
        return _code(self.universe.axis(name))

    def histogram(self) -> NDArray[np.int64]:
        return self.marginal(self.universe.names)

    def tally(self, names: tuple[str, ...]) -> Tally:
        """How many rows have each combination of values; numbers in units of their last place."""
        rows = self._bounded_rows()
        values = {
            f"value_{i}": _fixed_point(rows, self.universe.axis(name), self.universe[name])
            for i, name in enumerate(names)
        }
        grouped = rows.select(**values).group_by(list(values)).aggregate(rows=lambda each: each.count())
        found = _run(grouped)
        return Tally(
            values=tuple(found.column(value).to_numpy().astype(np.int64) for value in values),
            counts=found.column("rows").to_numpy().astype(np.int64),
        )

    def texts(self, name: str) -> Texts:
        """How many rows have each text, declared or not: the column's own rule drops none, that of any other does."""
        rows, own = coded(self.table, self.schema), self.universe.axis(name)
        others = [_code(axis) for axis, each in enumerate(self.universe.attributes) if axis != own and each.may_drop]
        text = rows[_text(own)]
        rows = rows.filter([text.notnull(), *(rows[code].notnull() for code in others)])
        if self.schema.unit.kind == "person":
            # Rows of one text are interchangeable. Hashed, no place in the alphabet is preferred.
            rows = _bound_contributions(rows, [rows[_text(own)].hash(), rows[_text(own)]], self.schema)
        found = _run(rows.group_by(text=rows[_text(own)]).aggregate(rows=lambda each: each.count()))
        return Texts(
            texts=found.column("text").to_numpy(),
            counts=found.column("rows").to_numpy().astype(np.int64),
        )

    def _bounded_rows(self) -> ir.Table:
        """One integer code a declared column, rows dropped by rule left out, each person's rows bounded."""
        rows = coded(self.table, self.schema)
        codes = [_code(axis) for axis in range(len(self.universe.attributes))]
        rows = rows.filter([rows[code].notnull() for code in codes])
        if self.schema.unit.kind == "row":
            return rows
        return _bound_contributions(rows, _scrambled(rows, self.universe), self.schema)


def check_columns(columns: tuple[str, ...], schema: Schema) -> None:
    """Refuse a schema that names a column the table does not have.

    Raises:
        InvalidInput: naming the column.
    """
    present = set(columns)
    for position, attribute in enumerate(schema.universe.attributes):
        if attribute.name not in present:
            raise InvalidInput(f"columns[{position}].name", attribute.name, "is not a column of the table")
    if schema.unit.id_column is not None and schema.unit.id_column not in present:
        raise InvalidInput("unit.id", schema.unit.id_column, "is not a column of the table")


def coded(table: ir.Table, schema: Schema) -> ir.Table:
    """The declared columns as bin numbers (null: the row does not count), and the id column as text.

    A row without an id belongs to nobody and is left out.
    """
    attributes = schema.universe.attributes
    text = {_text(axis): _as_text(table[each.name]) for axis, each in enumerate(attributes)}
    if schema.unit.id_column is not None:
        text["unit_id"] = _as_text(table[schema.unit.id_column])
    rows = table.select(**text)
    if schema.unit.id_column is not None:
        rows = rows.filter(rows["unit_id"].notnull())
    numeric = {_number(axis): _as_number(rows[_text(axis)]) for axis, each in enumerate(attributes) if each.is_numeric}
    rows = rows.mutate(**numeric) if numeric else rows
    whole = {_number(axis): _whole(rows[_number(axis)]) for axis, each in enumerate(attributes) if _is_whole(each)}
    rows = rows.mutate(**whole) if whole else rows
    # All in one select: one select a column takes a database longer to plan than the rows take to read.
    codes = {
        _code(axis): _code_within(rows, axis, each) for axis, each in enumerate(attributes) if not _is_joined(each)
    }
    rows = rows.mutate(**codes) if codes else rows
    for axis, attribute in enumerate(attributes):
        if _is_joined(attribute):
            rows = _with_joined_code(rows, axis, attribute)
    return rows


def _is_whole(attribute: Attribute) -> bool:
    return attribute.kind is AttributeKind.INTEGER


def _whole(number: ir.FloatingValue) -> ir.FloatingValue:
    """The number where it is a whole one, else null.

    From 2^53 on every double is whole. They are clamped before the floor, which databases cast to 64 bits: one number
    beyond those must not end a run.
    """
    import ibis

    within = number.clip(lower=-_ALL_WHOLE, upper=_ALL_WHOLE)
    return ibis.cases((within == within.floor().cast("float64"), number), else_=ibis.null("float64"))


def _is_joined(attribute: Attribute) -> bool:
    return not attribute.is_numeric and attribute.size > _SHORT_CHAIN


def _code_within(rows: ir.Table, axis: int, attribute: Attribute) -> ir.IntegerValue:
    """A bin number, or that of a category among few, by comparisons in the row itself."""
    import ibis

    if attribute.is_numeric:
        return _bin(rows[_number(axis)], attribute)
    caught = _caught(attribute)
    otherwise = ibis.null("int64") if caught is None else ibis.literal(caught, "int64")
    text = rows[_text(axis)]
    branches = [(text == each, ibis.literal(i, "int64")) for i, each in enumerate(attribute.categories)]
    return ibis.cases(*branches, else_=otherwise)


def _with_joined_code(rows: ir.Table, axis: int, attribute: Attribute) -> ir.Table:
    """That of a category among many, looked up in a table of them."""
    import ibis

    names = ibis.memtable(
        {"category": list(attribute.categories), _code(axis): list(range(attribute.size))},
        schema={"category": "string", _code(axis): "int64"},
    )
    joined = rows.left_join(names, rows[_text(axis)] == names["category"]).drop("category")
    caught = _caught(attribute)
    return joined if caught is None else joined.mutate(**{_code(axis): joined[_code(axis)].fill_null(caught)})


def _caught(attribute: Attribute) -> int | None:
    """The catch-all's code; None where other values drop their row."""
    return attribute.categories.index(attribute.outside) if attribute.outside != DROP else None


def _bin(value: ir.FloatingValue, attribute: Attribute) -> ir.IntegerValue:
    """The bin of a number: lower edge inclusive, upper exclusive, the last bin closed; null is dropped."""
    import ibis

    edges = [float(edge) for edge in attribute.edges]
    last = attribute.size - 1
    inside = _search(value, edges, 0, last)
    if attribute.outside == CLAMP:
        return ibis.cases((value.notnull(), inside), else_=ibis.null("int64"))
    return ibis.cases(((value >= edges[0]) & (value <= edges[-1]), inside), else_=ibis.null("int64"))


def _search(value: ir.FloatingValue, edges: list[float], low: int, high: int) -> ir.IntegerValue:
    """The bin among low..high, clamped at both ends: a balanced chain of comparisons, or arithmetic."""
    import ibis

    if high - low >= _SHORT_CHAIN * _SHORT_CHAIN:
        return _equal_width(value, edges)
    if low == high:
        return ibis.literal(low, "int64")
    middle = (low + high + 1) // 2
    upper, lower = _search(value, edges, middle, high), _search(value, edges, low, middle - 1)
    return ibis.ifelse(value >= edges[middle], upper, lower)


def _equal_width(value: ir.FloatingValue, edges: list[float]) -> ir.IntegerValue:
    """Thousands of bins must be of one width; then the bin is a division, clamped."""
    width = (edges[-1] - edges[0]) / (len(edges) - 1)
    if any(abs(high - low - width) > 1e-9 * abs(width) for low, high in pairwise(edges)):
        raise InvalidInput("edges", f"{len(edges) - 1:,} bins", "must be of equal width when there are so many")
    position = ((value - edges[0]) / width).clip(lower=0.0, upper=float(len(edges) - 2))
    return position.floor().cast("int64")


def _fixed_point(rows: ir.Table, axis: int, attribute: Attribute) -> ir.IntegerValue:
    """A category's position, or a number in units of its last place, clamped to its range."""
    if not attribute.is_numeric:
        return rows[_code(axis)]
    scaled = rows[_number(axis)] * 10**attribute.decimals + 0.5
    # Clamped before the floor, as in `_whole`; the ends are whole, so the order does not matter.
    return scaled.clip(lower=float(attribute.lowest), upper=float(attribute.highest)).floor().cast("int64")


def _bound_contributions(rows: ir.Table, order: list[ir.Column], schema: Schema) -> ir.Table:
    """Keep at most `max_rows` rows of each person, the first in `order`.

    Which rows are kept depends on that person's rows alone, so a neighbour changes nobody else's. Rows that are alike
    in the whole order must be interchangeable.
    """
    import ibis

    ranked = rows.mutate(rank_of_row=ibis.row_number().over(group_by=rows["unit_id"], order_by=order))
    return ranked.filter(ranked["rank_of_row"] < schema.unit.max_rows)


def _scrambled(rows: ir.Table, universe: Universe) -> list[ir.Column]:
    """By a fixed scramble of a row's values, which favours none, and then by these and their codes: codes alone would
    leave it to the database which of two numbers in one bin counts.
    """
    import ibis

    attributes = universe.attributes
    values = [_fixed_point(rows, axis, attribute) for axis, attribute in enumerate(attributes)]
    scramble = sum(
        (
            (value % _SCRAMBLE) * _multiplier(attribute.name) % _SCRAMBLE
            for value, attribute in zip(values, attributes, strict=True)
        ),
        start=ibis.literal(0, "int64"),
    )
    return [scramble % _SCRAMBLE, *values, *(rows[_code(axis)] for axis in range(len(attributes)))]


def _multiplier(name: str) -> int:
    return 1 + int.from_bytes(hashlib.sha256(name.encode()).digest()[:4]) % (_SCRAMBLE - 1)


def _as_text(column: ir.Column) -> ir.StringValue:
    """Text without spaces around it; nothing, and text of spaces only, is missing."""
    return column.cast("string").strip().nullif("")


def _as_number(text: ir.StringValue) -> ir.FloatingValue:
    import ibis

    return ibis.cases((text.re_search(NUMBER_GRAMMAR), text.cast("float64")), else_=ibis.null("float64"))


def _run(expression: ir.Table) -> Any:
    with _selects_apart():
        return expression.to_pyarrow()


def _batches(expression: ir.Table) -> Iterator[Any]:
    """The rows some at a time, so that memory does not grow with their number."""
    with _selects_apart():
        yield from expression.to_pyarrow_batches(chunk_size=_ROWS_AT_A_TIME)


@contextmanager
def _selects_apart() -> Iterator[None]:
    """Fused selects would repeat each cast in every comparison of a bin search."""
    import ibis

    fuse = ibis.options.sql.fuse_selects
    ibis.options.sql.fuse_selects = False
    try:
        yield
    finally:
        ibis.options.sql.fuse_selects = fuse


def _text(axis: int) -> str:
    return f"text_{axis}"


def _number(axis: int) -> str:
    return f"number_{axis}"


def _code(axis: int) -> str:
    return f"code_{axis}"
