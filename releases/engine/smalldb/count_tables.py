"""Tables of numbers of databases, as `forest_sampler` makes them and `kernels` reads them."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from releases.engine.smalldb.candidates import exact_number

Floats = NDArray[np.float64]
Whole = NDArray[np.int32]


@dataclass(frozen=True, kw_only=True, eq=False)
class SlotTables:
    """Tables of the slots at one level, equal ones made once.

    Attributes:
        f, e: the numbers f * 2**(512 e).
        after, before: where exponents change (see `kernels`).
        start, low, size: of each table.
        table: of each slot.
    """

    f: Floats
    e: Whole
    after: Whole
    before: Whole
    start: NDArray[np.int64]
    low: NDArray[np.int64]
    size: NDArray[np.int64]
    table: NDArray[np.int64]

    @property
    def bytes(self) -> int:
        return 20 * self.f.size + 24 * self.start.size + 8 * self.table.size

    def numbers(self, slot: int, first: int, last: int) -> list[Fraction]:
        """A(first), ..., A(last) of a slot."""
        table = int(self.table[slot])
        at = int(self.start[table] - self.low[table])
        return [exact_number(self.f[at + j], self.e[at + j]) for j in range(first, last + 1)]


@dataclass(frozen=True, kw_only=True, eq=False)
class ChainRows:
    """Rows of a chain at one level.

    Attributes:
        low, high: the window of cumulative counts after each part.
        item: the table of each part.
        item_high: the largest count of each table.
        plain: which tables are 1 from 0 on.
        widest: of the windows.
        stride: rows k with (k + 1) % stride == 0 are kept, at `offset`.
        f, e: the kept rows.
        last: the number at the end of the chain.
    """

    low: Whole
    high: Whole
    item: Whole
    item_high: NDArray[np.int64]
    plain: NDArray[np.bool_]
    widest: int
    stride: int
    offset: NDArray[np.int64]
    f: Floats
    e: Whole
    last: tuple[float, int]

    @property
    def bytes(self) -> int:
        return 12 * self.item.size + 12 * self.f.size + 8 * self.offset.size


@dataclass(frozen=True, kw_only=True, eq=False)
class Level:
    """What is kept of one level: tables of the slots and, for a chain, its rows."""

    tables: SlotTables
    chain: ChainRows | None

    @property
    def bytes(self) -> int:
        return self.tables.bytes + (self.chain.bytes if self.chain else 0)

    @property
    def ways(self) -> tuple[float, int]:
        """A(m) of the whole."""
        if self.chain:
            return self.chain.last
        at = int(self.tables.start[self.tables.table[-1]])
        return float(self.tables.f[at]), int(self.tables.e[at])


class Builder:
    """Tables made one batch after another, in flat arrays that grow."""

    def __init__(self, compiled: ModuleType, grain: int) -> None:
        self._compiled, self._grain = compiled, grain
        self.count = 0
        self._used = 0
        self._marked = 0
        self._f, self._e = np.empty(1 << 12), np.empty(1 << 12, dtype=np.int32)
        self._after, self._before = self._e.copy(), self._e.copy()
        self._start, self._low, self._size = (np.empty(1 << 8, dtype=np.int64) for _ in range(3))

    def leaf(self, low: int, f: Floats, e: Whole) -> None:
        at = self._used
        self._add(np.array([low]), np.array([f.size]))
        self._f[at : at + f.size] = _coarse(f, self._grain)
        self._e[at : at + f.size] = e

    def marked(self) -> None:
        self._compiled.mark_runs(self._e, self._after, self._before, self._start, self._size, self._marked, self.count)
        self._marked = self.count

    def merge(self, pairs: NDArray[np.int64], windows: NDArray[np.int64], span: int) -> None:
        low, high = np.divmod(windows, span)
        first = self.count
        self._add(low, high - low + 1)
        flat = self._f, self._e, self._after, self._before
        self._compiled.merge_tables(*flat, self._start, self._low, self._size, pairs, first, self._grain)

    def tables(self, table: NDArray[np.int64]) -> SlotTables:
        used, count = slice(0, self._used), slice(0, self.count)
        return SlotTables(
            f=self._f[used].copy(),
            e=self._e[used].copy(),
            after=self._after[used].copy(),
            before=self._before[used].copy(),
            start=self._start[count].copy(),
            low=self._low[count].copy(),
            size=self._size[count].copy(),
            table=table,
        )

    def _add(self, low: NDArray[np.int64], size: NDArray[np.int64]) -> None:
        starts = self._used + np.cumsum(size) - size
        count, used = self.count + size.size, self._used + int(size.sum())
        for name in ("_start", "_low", "_size"):
            setattr(self, name, _grown(getattr(self, name), count))
        for name in ("_f", "_e", "_after", "_before"):
            setattr(self, name, _grown(getattr(self, name), used))
        new = slice(self.count, count)
        self._start[new], self._low[new], self._size[new] = starts, low, size
        self.count, self._used = count, used


def _grown(array: NDArray[Any], least: int) -> NDArray[Any]:
    if array.size >= least:
        return array
    larger = np.empty(max(least, 2 * array.size), dtype=array.dtype)
    larger[: array.size] = array
    return larger


def _coarse(f: Floats, grain: int) -> Floats:
    """The numbers rounded up to `grain` bits."""
    if not grain:
        return f
    mantissa, power = np.frexp(f)
    rounded: Floats = np.ldexp(np.ceil(np.ldexp(mantissa, grain)), power - grain)
    return rounded
