"""The smooth sensitivity of quantiles against brute force over every table, at every distance, under both relations."""

from __future__ import annotations

import time
from fractions import Fraction
from functools import cache
from itertools import product
from math import exp, log

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from releases.engine.domain.privacy import NeighbouringRelation
from releases.engine.domain.universe import Attribute
from releases.engine.errors import InvalidInput
from releases.engine.tables.counts import Tally
from releases.engine.workload.smooth_sensitivity import (
    SmoothBound,
    SortedColumn,
    distance_to_instability,
    local_sensitivity,
    quantile_rank,
    sensitivity_at_distance,
    smooth_sensitivity,
)

ADD_REMOVE, REPLACE = NeighbouringRelation.ADD_REMOVE, NeighbouringRelation.REPLACE
RELATIONS = [ADD_REMOVE, REPLACE]
MEDIAN = Fraction(1, 2)
QUANTILES = [MEDIAN, Fraction(1, 10), Fraction(3, 4), Fraction(1, 3)]
#: Tables have at most MAX_ROWS rows; those reached from them, and one step more, have at most twice as many.
MAX_ROWS, KINDS = 5, 4


def column_of(rows, lowest, highest):
    values, counts = np.unique(np.asarray(rows, dtype=np.int64), return_counts=True)
    return SortedColumn(
        values=values, last=np.cumsum(counts).astype(np.int64), lowest=int(lowest), highest=int(highest)
    )


def value_of(bound):
    return float(bound.gap) * exp(-float(bound.rate) * bound.steps)


@cache
def all_tables():
    """Every table of at most 2 MAX_ROWS rows with KINDS different values, as how many rows have each."""
    vectors = [each for each in product(range(2 * MAX_ROWS + 1), repeat=KINDS) if sum(each) <= 2 * MAX_ROWS]
    return np.array(sorted(vectors, key=sum))


@cache
def steps_between(relation, may_drop=True):
    """The distance of every table from every other, in rows added, removed or replaced."""
    tables = all_tables()
    difference = tables[:, None, :] - tables[None, :, :]
    gone, come = np.maximum(difference, 0).sum(axis=2), np.maximum(-difference, 0).sum(axis=2)
    if relation is ADD_REMOVE:
        return gone + come
    apart = np.maximum(gone, come)
    return apart if may_drop else np.where(gone == come, apart, 10**6)


@cache
def kind_of_quantile(q):
    """Which of the KINDS values the quantile of each table is; an empty table has the lowest."""
    tables = all_tables()
    ranks = [-(-q.numerator * int(each.sum()) // q.denominator) for each in tables]
    return np.array(
        [np.searchsorted(np.cumsum(each), rank) if rank else 0 for each, rank in zip(tables, ranks, strict=True)]
    )


def brute_force(table, values, q, relation, may_drop=True):
    """A_0, ..., A_n of the table: the largest change of f in one step from any table within so many steps."""
    distance = steps_between(relation, may_drop)
    f = np.asarray(values)[kind_of_quantile(q)]
    local = np.where(distance == 1, np.abs(f[:, None] - f[None, :]), 0).max(axis=1)
    here = int(np.flatnonzero((all_tables() == table).all(axis=1))[0])
    return [int(local[distance[here] <= k].max()) for k in range(int(np.sum(table)) + 1)]


values_of_a_column = st.lists(st.integers(-40, 40), min_size=KINDS, max_size=KINDS, unique=True).map(sorted)
small_tables = st.lists(st.integers(0, 3), min_size=KINDS, max_size=KINDS).filter(lambda c: sum(c) <= MAX_ROWS)
smoothnesses = st.fractions(Fraction(1, 50), Fraction(2), max_denominator=60)


def small_column(values, table):
    return column_of(np.repeat(values, table), values[0], values[-1])


@settings(max_examples=80)
@given(values_of_a_column, small_tables, st.sampled_from(QUANTILES))
def test_the_sensitivity_at_every_distance_is_that_of_brute_force_when_rows_are_replaced(values, table, q):
    column, rows = small_column(values, table), sum(table)
    found = [sensitivity_at_distance(column, k, q=q, neighbours=REPLACE) for k in range(rows + 1)]
    assert found == brute_force(table, values, q, REPLACE)
    if rows:
        # That a row may vanish or appear changes nothing, as long as there is one to replace.
        assert found == brute_force(table, values, q, REPLACE, may_drop=False)


@settings(max_examples=80)
@given(values_of_a_column, small_tables, st.sampled_from(QUANTILES))
def test_the_sensitivity_at_every_distance_is_that_of_brute_force_when_rows_are_added_or_removed(values, table, q):
    column = small_column(values, table)
    found = [sensitivity_at_distance(column, k, q=q, neighbours=ADD_REMOVE) for k in range(sum(table) + 1)]
    true = brute_force(table, values, q, ADD_REMOVE)
    if q == MEDIAN:
        assert found == true
    else:
        assert all(one >= other for one, other in zip(found, true, strict=True))


@settings(max_examples=80)
@given(values_of_a_column, small_tables, st.sampled_from(QUANTILES), st.sampled_from(RELATIONS), smoothnesses)
def test_the_smooth_sensitivity_is_the_largest_discounted_local_one_of_all_tables(values, table, q, relation, beta):
    column = small_column(values, table)
    bound = smooth_sensitivity(column, q=q, neighbours=relation, rows_of_unit=1, smoothness=beta)
    true = max(gap * exp(-float(beta) * k) for k, gap in enumerate(brute_force(table, values, q, relation)))
    if q == MEDIAN or relation is REPLACE:
        assert value_of(bound) == pytest.approx(true, rel=1e-12)
    else:
        assert value_of(bound) >= true * (1 - 1e-12)
    assert value_of(bound) >= local_sensitivity(column, q=q, neighbours=relation)


def neighbours_of(table, relation, rows_of_unit):
    """Every table that one unit of at most so many rows can make of this one."""
    difference = all_tables() - np.asarray(table)
    come, gone = np.maximum(difference, 0).sum(axis=1), np.maximum(-difference, 0).sum(axis=1)
    if relation is ADD_REMOVE:
        near = (come + gone <= rows_of_unit) & ((come == 0) | (gone == 0))
    else:
        near = np.maximum(come, gone) <= rows_of_unit
    return all_tables()[near]


@settings(max_examples=60)
@given(
    values_of_a_column,
    small_tables,
    st.sampled_from(QUANTILES),
    st.sampled_from(RELATIONS),
    smoothnesses,
    st.integers(1, 3),
)
def test_it_bounds_what_a_unit_changes_and_is_smooth_between_neighbours(values, table, q, relation, beta, rows):
    def bound_of(each):
        return smooth_sensitivity(
            small_column(values, each), q=q, neighbours=relation, rows_of_unit=rows, smoothness=beta
        )

    here, f = bound_of(table), small_column(values, table).quantile(q)
    for other in neighbours_of(table, relation, rows):
        there = bound_of(other)
        # e^beta S(D') is the same window, counted as one unit nearer.
        for one, another in ((here, there), (there, here)):
            raised = SmoothBound(gap=another.gap, rate=another.rate, steps=another.steps - rows)
            assert not one.exceeds(raised)
        change = abs(f - small_column(values, other).quantile(q))
        if change:
            assert not SmoothBound(gap=change, rate=here.rate, steps=0).exceeds(here)
            assert not SmoothBound(gap=change, rate=here.rate, steps=0).exceeds(there)


@settings(max_examples=60)
@given(values_of_a_column, small_tables, st.sampled_from(QUANTILES), st.sampled_from(RELATIONS), st.integers(1, 30))
def test_the_distance_to_instability_is_that_of_brute_force_and_moves_by_one_at_most(values, table, q, relation, eta):
    def distance_of(each):
        return distance_to_instability(small_column(values, each), q=q, neighbours=relation, bound=eta)

    here = distance_of(table)
    unstable = [k for k, gap in enumerate(brute_force(table, values, q, relation)) if gap > eta]
    if q == MEDIAN or relation is REPLACE:
        assert here == (unstable[0] if unstable else sum(table) + 1)
    else:
        assert here <= (unstable[0] if unstable else sum(table) + 1)
    assert all(abs(distance_of(other) - here) <= 1 for other in neighbours_of(table, relation, 1))


def test_the_distance_as_the_lecture_notes_print_it_jumps_between_neighbours():
    """Their min{k : some table within k steps has |f(D) - f(D')| > eta} is measured from f(D), which moves too.

    In [0, 7] with eta = 3: from 0 0 4 4 one step reaches the median 4; from 0 0 3 4 4 only the median 7 is far enough.
    Noise for a sensitivity of 1 does not hide that. The distance to a table of large local sensitivity moves by 1.
    """
    values, tables = [0, 3, 4, 7], all_tables()
    f = np.array(values)[kind_of_quantile(MEDIAN)]
    printed = np.where(np.abs(f[:, None] - f[None, :]) > 3, steps_between(ADD_REMOVE), 10**6).min(axis=1)
    one, other = (int(np.flatnonzero((tables == each).all(axis=1))[0]) for each in ([2, 0, 2, 0], [2, 1, 2, 0]))
    assert (printed[one], printed[other]) == (1, 6)
    right = [
        distance_to_instability(small_column(values, tables[each]), q=MEDIAN, neighbours=ADD_REMOVE, bound=3)
        for each in (one, other)
    ]
    assert right == [0, 1]


def test_the_notes_example_of_nine_values_is_the_largest_over_all_its_92378_tables():
    """x = 1 ... 9 in [0, 10]; every table of nine values, its distance by how many values it does not share."""
    counts = _tables_of_nine()
    assert len(counts) == 92378
    ends = np.cumsum(counts, axis=1)
    fourth, fifth, sixth = ((ends < rank).sum(axis=1) for rank in (4, 5, 6))
    # Replacing one of the nine by v leaves a median from the fourth to the sixth value, whatever v: enumerated below.
    local = np.maximum(sixth - fifth, fifth - fourth)
    sample = np.random.default_rng(1).choice(len(counts), 300, replace=False)
    for index in sample:
        table = np.repeat(np.arange(11), counts[index])
        medians = {int(np.sort(np.append(np.delete(table, gone), come))[4]) for gone in range(9) for come in range(11)}
        assert local[index] == max(abs(each - int(fifth[index])) for each in medians)
    distance = 9 - np.minimum(counts, (np.arange(11) >= 1) & (np.arange(11) <= 9)).sum(axis=1)
    column = column_of(range(1, 10), 0, 10)
    for k in range(10):
        assert sensitivity_at_distance(column, k, q=MEDIAN, neighbours=REPLACE) == local[distance <= k].max() == k + 1
    for beta in (Fraction(1, 20), Fraction(1, 6), Fraction(1, 2), Fraction(2)):
        bound = smooth_sensitivity(column, q=MEDIAN, neighbours=REPLACE, rows_of_unit=1, smoothness=beta)
        true = (local * np.exp(-float(beta) * distance)).max()
        assert value_of(bound) == pytest.approx(true, rel=1e-12)
    assert value_of(bound) == 1


def _tables_of_nine():
    """All ways to spread nine rows over the values 0 ... 10."""
    tables = np.zeros((1, 0), dtype=np.int8)
    for _ in range(10):
        used = tables.sum(axis=1)
        tables = np.concatenate(
            [np.column_stack([tables[used + more <= 9], np.full((used + more <= 9).sum(), more)]) for more in range(10)]
        )
    return np.column_stack([tables, 9 - tables.sum(axis=1)])


def test_the_smooth_sensitivity_is_not_bounded_by_the_local_one_of_a_neighbour():
    """S(D) <= e^b LS(D'), as it is sometimes copied, fails: here LS is 0 at all neighbours."""
    column = column_of([5] * 9, 0, 10)
    bound = smooth_sensitivity(column, q=MEDIAN, neighbours=REPLACE, rows_of_unit=1, smoothness=MEDIAN)
    assert local_sensitivity(column_of([5] * 8 + [0], 0, 10), q=MEDIAN, neighbours=REPLACE) == 0
    assert (bound.gap, bound.steps) == (5, 4)


def naive(rows, lowest, highest, q, beta):
    """The largest of all windows about the rank, to the digits of the caller."""
    x = [lowest, *sorted(rows), highest]
    rank, b = quantile_rank(len(rows), q), mpmath.mpf(beta.numerator) / beta.denominator
    return max(
        (x[j] - x[i]) * mpmath.exp(-b * (j - i - 1))
        for i in range(rank + 1)
        for j in range(max(rank, i + 1), len(rows) + 2)
    )


@settings(max_examples=40)
@given(st.lists(st.integers(0, 60), max_size=40), st.sampled_from(QUANTILES), smoothnesses)
def test_divide_and_conquer_finds_the_best_of_all_windows(rows, q, beta):
    bound = smooth_sensitivity(column_of(rows, 0, 60), q=q, neighbours=REPLACE, rows_of_unit=1, smoothness=beta)
    lo, hi = bound.interval(120)
    with mpmath.workdps(50):
        true = naive(rows, 0, 60, q, beta) * mpmath.mpf(2) ** 120
        assert lo - 1 <= true <= hi + 1


def test_windows_that_floating_point_cannot_tell_apart_are_told_apart():
    # Each step widens the window by as much as it is discounted, rounded: all windows are worth nearly the same.
    beta, ends = Fraction(1, 3), [[0], [10**12]]
    for k in range(1, 24):
        wider = round(10**12 * exp(k / 3)) - (ends[1][-1] - ends[0][-1])
        ends[(k + 1) % 2].append(ends[(k + 1) % 2][-1] + (wider if k % 2 == 0 else -wider))
    ordered = sorted(ends[0] + ends[1])
    limits = ordered[0] - 1, ordered[-1] + 1
    bound = smooth_sensitivity(
        column_of(ordered, *limits), q=MEDIAN, neighbours=ADD_REMOVE, rows_of_unit=1, smoothness=beta
    )
    x, n = [limits[0], *ordered, limits[1]], len(ordered)
    with mpmath.workdps(60):
        worth = [
            mpmath.mpf(x[(n + k) // 2 + 1] - x[(n - k) // 2]) * mpmath.exp(-mpmath.mpf(k) / 3) for k in range(n + 1)
        ]
    assert n == 25
    assert bound.steps == int(np.argmax(worth))
    assert sum(each > max(worth) * (1 - 1e-12) for each in worth) > 10


def test_equal_windows_are_ties_only_where_gap_and_steps_agree():
    one = SmoothBound(gap=2, rate=Fraction(1), steps=0)
    # ln 2 = 0.693147180559945...: a rational next to it on either side.
    for rate, larger in ((Fraction(693147180559945309, 10**18), True), (Fraction(693147180559945310, 10**18), False)):
        first, second = SmoothBound(gap=1, rate=rate, steps=0), SmoothBound(gap=2, rate=rate, steps=1)
        assert second.exceeds(first) is larger
        assert first.exceeds(second) is not larger
    assert not one.exceeds(one)


@given(st.integers(1, 10**15), st.fractions(Fraction(1, 1000), Fraction(3)), st.integers(-20, 400))
def test_a_bound_is_enclosed_at_every_precision(gap, rate, steps):
    bound = SmoothBound(gap=gap, rate=rate, steps=steps)
    with mpmath.workdps(120):
        true = gap * mpmath.exp(-mpmath.mpf(rate.numerator) / rate.denominator * steps)
        for precision in (1, 40, 200):
            lo, hi = bound.interval(precision)
            assert lo <= true * mpmath.mpf(2) ** precision <= hi
            assert hi - lo <= 2 or rate * steps < 0
        step = Fraction(1, 7)
        exact = mpmath.log(true) * 7
        assert 0 <= bound.log_ceiling(step) - exact < 1
        assert SmoothBound(gap=1, rate=Fraction(1, 7), steps=-5).log_ceiling(step) == 5


def test_a_hundred_thousand_distinct_values_take_less_than_two_seconds():
    rows = np.cumsum(np.random.default_rng(4).integers(1, 1000, 100_000))
    started = time.process_time()
    for relation, q in ((ADD_REMOVE, MEDIAN), (REPLACE, MEDIAN), (REPLACE, Fraction(9, 10))):
        smooth_sensitivity(
            column_of(rows, 0, rows[-1]), q=q, neighbours=relation, rows_of_unit=1, smoothness=Fraction(1, 2000)
        )
    assert time.process_time() - started < 6


def test_columns_are_read_from_a_tally_in_any_order():
    attribute = Attribute.from_json({"name": "x", "type": "number", "edges": [-1, 5], "decimals": 1})
    tally = Tally(values=(np.array([30, -10, 7]),), counts=np.array([1, 2, 3]))
    column = SortedColumn.of(tally, attribute)
    assert column.values.tolist() == [-10, 7, 30]
    assert (column.first.tolist(), column.last.tolist()) == ([1, 3, 6], [2, 5, 6])
    assert column.at(np.arange(-1, 9)).tolist() == [-10, -10, -10, -10, 7, 7, 7, 30, 50, 50]
    assert [column.quantile(q) for q in QUANTILES] == [7, -10, 7, -10]


def test_parameters_out_of_range_are_refused():
    column = column_of([1], 0, 2)
    for smoothness, rows in ((Fraction(0), 1), (Fraction(1), 0)):
        with pytest.raises(InvalidInput):
            smooth_sensitivity(column, q=MEDIAN, neighbours=REPLACE, rows_of_unit=rows, smoothness=smoothness)


def test_a_table_without_rows_has_the_whole_range_as_its_sensitivity():
    column = column_of([], 3, 11)
    assert column.quantile(MEDIAN) == 3
    for relation in RELATIONS:
        bound = smooth_sensitivity(column, q=MEDIAN, neighbours=relation, rows_of_unit=1, smoothness=Fraction(1))
        assert (bound.gap, bound.steps) == (8, 0)
        assert log(bound.interval(40)[1] / 2**40) == pytest.approx(log(8))
