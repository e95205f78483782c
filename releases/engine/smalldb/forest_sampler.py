"""Databases within a level, counted and drawn exactly, for workloads that are a forest (see `tree`).

A *table* of a slot bounds, for each count j the slot may have, the weighted number A(j) of ways to place j rows in it
so that every answer inside it stays within the level. Tables are made from the leaves up, rounded up throughout:

    A(j) >= S(j) = sum over i of A_left(i) A_right(j - i),      A_leaf(j) >= g(w, j).                            (1)

The walk goes down from A(m) of the whole: at a slot with count j, the left part gets i with probability exactly
A_left(i) A_right(j - i) / S(j), by a uniform number in [0, 1) of which 64 bits nearly always decide (`_decide` reads
more where they do not). All factors but the first and the last cancel, so that counts y come with probability

    q(y) = (1 / A(m)) * product over leaves of A_leaf(y) * product over other slots of A(j) / S(j)

    r(y) = g(y) / (q(y) s A(m)) = product over leaves of g / A_leaf * product over other slots of S(j) / A(j) <= 1

by (1). What the walk proposes is kept with probability r(y), so that y is drawn with probability exactly
q(y) r(y) = g(y) / (s A(m)): rounding makes the walk fail a little more often and never changes the law. Each factor of
r is at least 1 - `_loss`, so a uniform number below 1 minus the sum of losses keeps y at once; else r is computed as a
product of exact fractions, to as many bits as the decision needs.

A chain is walked in the same way: its row k, for the first k + 1 of its parts, is the sum of row k - 1 and part k. Rows
are kept at every 2**p-th place alone and made again between two of them, so memory stays small whatever the level.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from fractions import Fraction
from functools import cached_property
from math import isqrt
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from releases.engine.arithmetic.intervals import CertifiedSums, Interval, ceil_div
from releases.engine.noise.randomness import Randomness, SamplerFailure, bernoulli, random_bits
from releases.engine.smalldb.candidates import (
    Candidate,
    Databases,
    Scaled,
    all_candidates,
    constant,
    draw_evenly,
    exact_number,
    scaled,
    ways,
    weight_table,
)
from releases.engine.smalldb.count_tables import Builder, ChainRows, Floats, Level, SlotTables, Whole
from releases.engine.smalldb.tree import Forest

#: Memory for tables of levels that may be asked for again.
KEPT_BYTES = 64 << 20
_MAX_KEPT = 512


class ForestCounter:
    """Small databases within any level of largest error on one table of data (see `level_sampler.CountedLevels`).

    Args:
        forest: the workload.
        databases: which candidates.
        outside: how many cells of the universe each cell of the forest stands for.
        size: m, rows of a candidate.
        rows: W, above 0.
        counts: x, the counts of the kinds.
        grain: bits of the numbers stored; 0 for all there are, fewer only to test the correction for rounding.
    """

    def __init__(
        self,
        *,
        forest: Forest,
        databases: Databases,
        outside: int,
        size: int,
        rows: int,
        counts: NDArray[np.int64],
        grain: int = 0,
    ) -> None:
        self.forest, self.databases, self.size, self.rows = forest, databases, size, rows
        self._outside, self._grain = outside, grain
        # Kinds of one role in the order of their counts: then equal tables stand side by side, and are made once.
        self._kind_of_leaf = np.lexsort([counts, forest.roles])
        sums = forest.sums(counts[self._kind_of_leaf])
        self._goal = size * sums
        self._chain_goal = size * np.cumsum(sums[forest.chain])[:-1]
        self._base, self._rest = np.divmod(self._goal, rows)
        self._chain_base, self._chain_rest = (part.astype(np.int64) for part in np.divmod(self._chain_goal, rows))
        self._levels: OrderedDict[int, Level | None] = OrderedDict()
        # Leaves of one role have equally many cells, so exchanging them leaves their weights in place.
        distinct, self._class_of_leaf = np.unique(forest.cells_of_kind, return_inverse=True)
        self._class_cells = [outside * each for each in distinct.tolist()]
        self._weights = [weight_table(databases, cells=each, most=size) for each in self._class_cells]

    @cached_property
    def _compiled(self) -> ModuleType:
        from releases.engine.smalldb import kernels

        return kernels

    # What `level_sampler` asks

    def everything(self) -> Scaled:
        cells = self._outside * int(self.forest.cells_of_kind.sum())
        return all_candidates(self.databases, cells=cells, kinds=self.forest.kinds, size=self.size), 0

    def within(self, level: int) -> Scaled:
        made = self._level(level)
        if made is None:
            return 0, 0
        mantissa, exponent = scaled(*made.ways)
        return mantissa * constant(self.databases, size=self.size), exponent

    def draw_any(self, rng: Randomness) -> Candidate:
        cells = [self._outside * each for each in self.forest.cells_of_kind.tolist()]
        return draw_evenly(self.databases, cells=cells, size=self.size, rng=rng)

    def error(self, candidate: Candidate) -> int:
        counts = self.forest.sums(candidate[self._kind_of_leaf])
        answers = self.forest.is_answer
        off = np.abs(self.rows * counts[answers] - self._goal[answers]).max(initial=0)
        running = np.cumsum(counts[self.forest.chain])[:-1]
        return int(max(off, np.abs(self.rows * running - self._chain_goal).max(initial=0)))

    def draw(self, level: int, rng: Randomness) -> Candidate | None:
        made = self._level(level)
        if made is None:
            raise SamplerFailure("a database was asked for where there is none")
        counts = np.zeros(self.forest.is_answer.size, dtype=np.int64)
        if made.chain:
            self._walk_chain(made, counts, rng)
        else:
            counts[-1] = self.size
        self._walk_down(made.tables, counts, rng)
        if not self._keeps(made, counts, rng):
            return None
        candidate = np.zeros(self.forest.kinds, dtype=np.int64)
        candidate[self._kind_of_leaf] = counts[: self.forest.kinds]
        return candidate

    # Tables

    def _level(self, level: int) -> Level | None:
        if level in self._levels:
            self._levels.move_to_end(level)
            return self._levels[level]
        made = self._make(level)
        self._levels[level] = made
        held = sum(each.bytes for each in self._levels.values() if each)
        while len(self._levels) > 1 and (held > KEPT_BYTES or len(self._levels) > _MAX_KEPT):
            _, oldest = self._levels.popitem(last=False)
            held -= oldest.bytes if oldest else 0
        return made

    def _make(self, level: int) -> Level | None:
        if self.forest.is_chain_alone:
            tables = self._free_tables
        else:
            windows = self._windows(level)
            if windows is None:
                return None
            tables = self._tables(*windows)
        if not self.forest.chain.size:
            return Level(tables=tables, chain=None)
        chain = self._chain(level, tables)
        return None if chain is None else Level(tables=tables, chain=chain)

    def _window(
        self, base: NDArray[np.int64], rest: NDArray[np.int64], level: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The j with |W j - goal| <= level, goal = W base + rest: from and to, cut to 0 ... m; none if from > to."""
        steps, part = divmod(level, self.rows)
        # So many steps reach over every count; more might pass 64 bits.
        steps = min(steps, self.size + int(base.max(initial=0)) + 2)
        low = base - steps + (rest > part)
        high = base + steps + (rest + part >= self.rows)
        # A count in the data may be far above W; m + 1 says as well that there is no such j, and fits 32 bits.
        return np.clip(low, 0, self.size + 1), np.minimum(high, self.size)

    def _windows(self, level: int) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
        """The counts each slot may have: what its parts allow together, and what is left for it from above."""
        forest = self.forest
        low, high = self._window(self._base, self._rest, level)
        low[~forest.is_answer], high[~forest.is_answer] = 0, self.size
        for first, last in forest.rounds:
            left, right = self._parts(first, last)
            low[first:last] = np.maximum(low[first:last], low[left] + low[right])
            high[first:last] = np.minimum(high[first:last], high[left] + high[right])
        if not forest.chain.size:
            if high[-1] < self.size or low[-1] > self.size:
                return None
            low[-1] = high[-1] = self.size
        if (low > high).any():
            return None
        for first, last in reversed(forest.rounds):
            left, right = self._parts(first, last)
            of_left = (
                np.maximum(low[left], low[first:last] - high[right]),
                np.minimum(high[left], high[first:last] - low[right]),
            )
            of_right = (
                np.maximum(low[right], low[first:last] - high[left]),
                np.minimum(high[right], high[first:last] - low[left]),
            )
            (low[left], high[left]), (low[right], high[right]) = of_left, of_right
        return low, high

    @cached_property
    def _free_tables(self) -> SlotTables:
        """Tables of the parts of a chain that asks about nothing inside them: the same at all levels."""
        low = np.zeros(self.forest.is_answer.size, dtype=np.int64)
        return self._tables(low, low + self.size)

    def _parts(self, first: int, last: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        pairs = slice(first - self.forest.kinds, last - self.forest.kinds)
        return self.forest.left[pairs], self.forest.right[pairs]

    def _tables(self, low: NDArray[np.int64], high: NDArray[np.int64]) -> SlotTables:
        """Tables over the windows. Two slots with equal windows and equal parts share one."""
        build = Builder(self._compiled, self._grain)
        table = np.empty(low.size, dtype=np.int64)
        span = self.size + 1
        kinds = self.forest.kinds
        window = low * span + high
        keys, which = np.unique(self._class_of_leaf * span**2 + window[:kinds], return_inverse=True)
        for key in keys.tolist():
            of_class, (first, last) = key // span**2, divmod(key % span**2, span)
            f, e = self._weights[of_class]
            build.leaf(first, f[first : last + 1], e[first : last + 1])
        build.marked()
        table[:kinds] = which
        for first, last in self.forest.rounds:
            left, right = self._parts(first, last)
            pair = table[left] * build.count + table[right]
            _, pair = np.unique(pair, return_inverse=True)
            keys, one_of, which = np.unique(pair * span**2 + window[first:last], return_index=True, return_inverse=True)
            table[first:last] = build.count + which
            build.merge(np.stack([table[left[one_of]], table[right[one_of]]], axis=1), keys % span**2, span)
        return build.tables(table)

    def _chain(self, level: int, tables: SlotTables) -> ChainRows | None:
        length = self.forest.chain.size
        low, high = np.full(length, self.size, dtype=np.int32), np.full(length, self.size, dtype=np.int32)
        low[:-1], high[:-1] = self._window(self._chain_base, self._chain_rest, level)
        item = tables.table[self.forest.chain].astype(np.int32)
        item_high = tables.low + tables.size - 1
        if not self._compiled.chain_windows(low, high, item, tables.low, item_high):
            return None
        plain = self._plain(tables)
        stride = 1 << isqrt(length).bit_length()
        ends = np.arange(stride - 1, length, stride)
        widths = (high - low + 1).astype(np.int64)
        kept = np.full(length, -1, dtype=np.int64)
        kept[ends] = np.cumsum(widths[ends]) - widths[ends]
        chain = ChainRows(
            low=low,
            high=high,
            item=item,
            item_high=item_high,
            plain=plain,
            widest=int(widths.max()),
            stride=stride,
            offset=kept,
            f=np.empty(int(widths[ends].sum())),
            e=np.empty(int(widths[ends].sum()), dtype=np.int32),
            last=(0.0, 0),
        )
        row_f, row_e = self._rows(chain, tables, 0, length, kept, chain.f, chain.e)
        last = (length - 1) & 1
        object.__setattr__(chain, "last", (float(row_f[last, 0]), int(row_e[last, 0])))
        return chain

    def _plain(self, tables: SlotTables) -> NDArray[np.bool_]:
        """Which tables are 1 for 0, 1, 2, ... up to m, where a row of the chain is a running sum."""
        plain = np.zeros(tables.start.size, dtype=np.bool_)
        for table in np.unique(tables.table[self.forest.chain]).tolist():
            first, size = int(tables.start[table]), int(tables.size[table])
            ones = (tables.f[first : first + size] == 1.0).all() and not tables.e[first : first + size].any()
            plain[table] = ones and tables.low[table] == 0 and size == self.size + 1
        return plain

    def _rows(
        self,
        chain: ChainRows,
        tables: SlotTables,
        first: int,
        last: int,
        offset: NDArray[np.int64],
        f: Floats,
        e: Whole,
    ) -> tuple[Floats, Whole]:
        """Make rows first ... last - 1 (`first` at a multiple of the stride), keeping row k at offset[k - first]."""
        row_f, row_e = np.zeros((2, chain.widest)), np.zeros((2, chain.widest), dtype=np.int32)
        before = (first + 1) & 1
        if first == 0:
            row_f[before, 0] = 1.0
        else:
            at, width = int(chain.offset[first - 1]), int(chain.high[first - 1] - chain.low[first - 1] + 1)
            row_f[before, :width] = chain.f[at : at + width]
            row_e[before, :width] = chain.e[at : at + width]
        items = tables.f, tables.e, tables.start, tables.low, chain.item_high, chain.plain, chain.item
        self._compiled.chain_rows(*items, chain.low, chain.high, first, last, row_f, row_e, offset, f, e, self._grain)
        return row_f, row_e

    # The walk

    def _walk_down(self, tables: SlotTables, counts: NDArray[np.int64], rng: Randomness) -> None:
        forest = self.forest
        words = rng.words(forest.left.size)
        first, last = forest.kinds, forest.is_answer.size
        own = tables.f, tables.e, tables.start, tables.low, tables.size, tables.table
        while last > first:
            slot = self._compiled.split_counts(*own, forest.left, forest.right, first, counts, words, first, last)
            if slot < first:
                return
            low, shares = self._shares(tables, counts, slot)
            left, right = self._parts(slot, slot + 1)
            chosen = low + _decide(shares, int(words[slot - first]), rng)
            counts[left[0]], counts[right[0]] = chosen, counts[slot] - chosen
            last = slot

    def _shares(self, tables: SlotTables, counts: NDArray[np.int64], slot: int) -> tuple[int, list[Fraction]]:
        """The least count of the left part, and the products whose sum is S(j)."""
        (left,), (right,) = (part.tolist() for part in self._parts(slot, slot + 1))
        j = int(counts[slot])
        of_left, of_right = int(tables.table[left]), int(tables.table[right])
        low = max(int(tables.low[of_left]), j - int(tables.low[of_right] + tables.size[of_right]) + 1)
        high = min(int(tables.low[of_left] + tables.size[of_left]) - 1, j - int(tables.low[of_right]))
        there = tables.numbers(right, j - high, j - low)[::-1]
        return low, [one * two for one, two in zip(tables.numbers(left, low, high), there, strict=True)]

    def _walk_chain(self, made: Level, counts: NDArray[np.int64], rng: Randomness) -> None:
        """Counts of the parts of the chain, from the last to the first."""
        chain, tables = made.chain, made.tables
        assert chain is not None
        length = chain.item.size
        words = rng.words(length)
        parts = np.zeros(length, dtype=np.int64)
        scratch_f, scratch_e = np.empty(2 * chain.widest + 2), np.empty(2 * chain.widest + 2, dtype=np.int32)
        items = tables.f, tables.e, tables.start, tables.low, chain.item_high, chain.plain, chain.item
        k, j = length - 1, self.size
        for first, offset, f, e in self._segments(chain, tables):
            while k >= first:
                k, j = self._compiled.chain_walk(
                    *items, chain.low, chain.high, first, k, j, offset, f, e, parts, words, scratch_f, scratch_e
                )
                if k >= first:
                    low, shares = self._chain_shares(chain, tables, k, j, _row(chain, k - 1, offset[k - first], f, e))
                    chosen = low + _decide(shares, int(words[k]), rng)
                    parts[k], j, k = j - chosen, chosen, k - 1
        counts[self.forest.chain] = parts

    def _segments(self, chain: ChainRows, tables: SlotTables) -> Iterator[tuple[int, NDArray[np.int64], Floats, Whole]]:
        """Stretches of the chain, the last first, with the rows before each of their parts."""
        length = chain.item.size
        for first in range((length - 1) // chain.stride * chain.stride, -1, -chain.stride):
            last = min(first + chain.stride, length)
            widths = np.ones(last - first, dtype=np.int64)
            widths[1:] = chain.high[first : last - 1] - chain.low[first : last - 1] + 1
            if first:
                widths[0] = chain.high[first - 1] - chain.low[first - 1] + 1
            offset = np.cumsum(widths) - widths
            f, e = np.empty(int(widths.sum())), np.empty(int(widths.sum()), dtype=np.int32)
            at = int(chain.offset[first - 1]) if first else 0
            f[: widths[0]] = chain.f[at : at + widths[0]] if first else 1.0
            e[: widths[0]] = chain.e[at : at + widths[0]] if first else 0
            if last - first > 1:
                self._rows(chain, tables, first, last - 1, offset[1:], f, e)
            yield first, offset, f, e

    def _chain_shares(
        self, chain: ChainRows, tables: SlotTables, k: int, j: int, row: tuple[int, list[Fraction]]
    ) -> tuple[int, list[Fraction]]:
        """The least cumulative count before part k, and the products whose sum is S(j)."""
        item = int(chain.item[k])
        row_low, numbers = row
        low = max(row_low, j - int(chain.item_high[item]))
        high = min(row_low + len(numbers) - 1, j - int(tables.low[item]))
        shares = []
        for i in range(low, high + 1):
            at = int(tables.start[item] - tables.low[item]) + j - i
            shares.append(numbers[i - row_low] * exact_number(tables.f[at], tables.e[at]))
        return low, shares

    # The correction for rounding

    def _keeps(self, made: Level, counts: NDArray[np.int64], rng: Randomness) -> bool:
        """True with probability r(y)."""
        word = random_bits(64, rng)
        if not self._grain and (word + 1) / 2**64 < 1 - self._loss:
            return True
        factors = list(self._factors(made, counts))

        def kept(precision: int) -> Interval:
            return _product(factors, precision)

        return bernoulli(kept, rng=rng, revealed=word, bits=64)

    @cached_property
    def _loss(self) -> float:
        """At least 1 - r(y) for every y: each of the numbers is at most 1 + 4 (n + 9) u times what it must be."""
        slots = self.forest.is_answer.size + self.forest.chain.size
        return slots * 2.0**-50 * (self.size + 10)

    def _factors(self, made: Level, counts: NDArray[np.int64]) -> Iterator[Fraction]:
        """The factors of r(y), exactly, each at most 1."""
        tables = made.tables
        for leaf in range(self.forest.kinds):
            cells = self._class_cells[self._class_of_leaf[leaf]]
            count = int(counts[leaf])
            yield ways(self.databases, cells=cells, count=count) / tables.numbers(leaf, count, count)[0]
        for slot in range(self.forest.kinds, counts.size):
            count = int(counts[slot])
            _, shares = self._shares(tables, counts, slot)
            yield sum(shares, Fraction(0)) / tables.numbers(slot, count, count)[0]
        if made.chain:
            yield from self._chain_factors(made.chain, tables, counts)

    def _chain_factors(self, chain: ChainRows, tables: SlotTables, counts: NDArray[np.int64]) -> Iterator[Fraction]:
        running = np.cumsum(counts[self.forest.chain]).tolist()
        after = exact_number(*chain.last)
        for first, offset, f, e in self._segments(chain, tables):
            for k in range(first + offset.size - 1, first - 1, -1):
                row = _row(chain, k - 1, offset[k - first], f, e)
                _, shares = self._chain_shares(chain, tables, k, running[k], row)
                yield sum(shares, Fraction(0)) / after
                after = row[1][(running[k - 1] if k else 0) - row[0]]


def _row(chain: ChainRows, k: int, at: int, f: Floats, e: Whole) -> tuple[int, list[Fraction]]:
    """The least cumulative count of row k, and its numbers."""
    low, high = (int(chain.low[k]), int(chain.high[k])) if k >= 0 else (0, 0)
    return low, [exact_number(f[at + i], e[at + i]) for i in range(high - low + 1)]


def _decide(shares: list[Fraction], word: int, rng: Randomness) -> int:
    """The index in whose share of [0, 1) the uniform number lies whose first 64 bits are `word`."""
    least = max(share.denominator for share in shares)
    weights = [int(share * least) for share in shares]
    sums = CertifiedSums.of([(weight, weight) for weight in weights])
    bits = 64
    while (index := sums.locate(word, bits=bits)) is None:
        word, bits = word << 64 | random_bits(64, rng), bits + 64
    return index


def _product(factors: list[Fraction], precision: int) -> Interval:
    """The product of fractions in (0, 1], times 2**precision, rounded outwards."""
    bits = precision + len(factors).bit_length() + 4
    low = high = 1 << bits
    for factor in factors:
        low = low * factor.numerator // factor.denominator
        high = ceil_div(high * factor.numerator, factor.denominator)
    return low >> (bits - precision), ceil_div(high, 1 << (bits - precision))
