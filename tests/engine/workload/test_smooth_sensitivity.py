"""The smooth sensitivity of quantiles against brute force over every table, at every distance, under both relations."""

from fractions import Fraction
from functools import cache
from itertools import product
from math import exp

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from releases.engine.domain.attribute import Attribute
from releases.engine.domain.privacy import NeighbouringRelation
from releases.engine.tables.counts import Tally
from releases.engine.workload.smooth_sensitivity import (
    SmoothBound,
    SortedColumn,
    distance_to_instability,
    quantile_rank,
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
def steps_between(relation):
    """The distance of every table from every other, in rows added, removed or replaced."""
    tables = all_tables()
    difference = tables[:, None, :] - tables[None, :, :]
    gone, come = np.maximum(difference, 0).sum(axis=2), np.maximum(-difference, 0).sum(axis=2)
    return gone + come if relation is ADD_REMOVE else np.maximum(gone, come)


@cache
def kind_of_quantile(q):
    """Which of the KINDS values the quantile of each table is; an empty table has the lowest."""
    tables = all_tables()
    ranks = [-(-q.numerator * int(each.sum()) // q.denominator) for each in tables]
    return np.array(
        [np.searchsorted(np.cumsum(each), rank) if rank else 0 for each, rank in zip(tables, ranks, strict=True)]
    )


def brute_force(table, values, q, relation):
    """A_0, ..., A_n of the table: the largest change of f in one step from any table within so many steps."""
    distance = steps_between(relation)
    f = np.asarray(values)[kind_of_quantile(q)]
    local = np.where(distance == 1, np.abs(f[:, None] - f[None, :]), 0).max(axis=1)
    here = int(np.flatnonzero((all_tables() == table).all(axis=1))[0])
    return [int(local[distance[here] <= k].max()) for k in range(int(np.sum(table)) + 1)]


values_of_a_column = st.lists(st.integers(-40, 40), min_size=KINDS, max_size=KINDS, unique=True).map(sorted)
small_tables = st.lists(st.integers(0, 3), min_size=KINDS, max_size=KINDS).filter(lambda c: sum(c) <= MAX_ROWS)
smoothnesses = st.fractions(Fraction(1, 50), Fraction(2), max_denominator=60)


def small_column(values, table):
    return column_of(np.repeat(values, table), values[0], values[-1])


quantiles, relations = st.sampled_from(QUANTILES), st.sampled_from(RELATIONS)


@settings(max_examples=240)
@given(values_of_a_column, small_tables, quantiles, relations, smoothnesses, st.integers(1, 30))
def test_smooth_sensitivities_and_distances_are_those_of_brute_force(values, table, q, relation, beta, eta):
    """Where rows are added or removed they bound it, and are it for the median."""
    column = small_column(values, table)
    true = brute_force(table, values, q, relation)
    bound = smooth_sensitivity(column, q=q, neighbours=relation, rows_of_unit=1, smoothness=beta)
    truly_smooth = max(gap * exp(-float(beta) * k) for k, gap in enumerate(true))
    far = distance_to_instability(column, q=q, neighbours=relation, bound=eta)
    truly_far = next((k for k, gap in enumerate(true) if gap > eta), sum(table) + 1)
    if q == MEDIAN or relation is REPLACE:
        assert far == truly_far
        assert value_of(bound) == pytest.approx(truly_smooth, rel=1e-12)
    else:
        assert value_of(bound) >= truly_smooth * (1 - 1e-12)
        assert far <= truly_far
    assert value_of(bound) >= true[0]
    for other in neighbours_of(table, relation, 1):
        there = distance_to_instability(small_column(values, other), q=q, neighbours=relation, bound=eta)
        assert abs(there - far) <= 1


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
@given(values_of_a_column, small_tables, quantiles, relations, smoothnesses, st.integers(1, 3))
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


def test_columns_are_read_from_a_tally_in_any_order():
    attribute = Attribute.from_json({"name": "x", "type": "number", "edges": [-1, 5], "decimals": 1})
    tally = Tally(values=(np.array([30, -10, 7]),), counts=np.array([1, 2, 3]))
    column = SortedColumn.of(tally, attribute)
    assert column.values.tolist() == [-10, 7, 30]
    assert (column.first.tolist(), column.last.tolist()) == ([1, 3, 6], [2, 5, 6])
    assert column.at(np.arange(-1, 9)).tolist() == [-10, -10, -10, -10, 7, 7, 7, 30, 50, 50]
    assert [column.quantile(q) for q in QUANTILES] == [7, -10, 7, -10]
