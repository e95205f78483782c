"""How much one unit can move a quantile of this very table, and the smooth bound of it that noise may be scaled to.

Nothing here may be released: local sensitivities are as private as the table. `mechanisms/smooth_median.py` scales
noise to the smooth sensitivity, `mechanisms/propose_test_release.py` tests the distance to instability.

The quantile. x_1 <= ... <= x_n are the values, integers in [L, U]; x_i is read as L for i <= 0 and as U for i > n.
The quantile at q is f(D) = x_r with r = r(n) = ceil(q n), the least value with at least a share q of the rows at or
below it (for the median of an even number the lower of the two in the middle); without rows it is x_0 = L.

Steps. One step of ADD_REMOVE adds or removes a row. One step of REPLACE changes the value of a row, which may vanish
or appear where a declared rule drops rows: at most one row goes and at most one comes. The distance d(D, D') is the
least number of steps. LS(D), the local sensitivity, is the most one step from D changes f; A_k(D), the sensitivity at
distance k, is the largest LS within k steps; the b-smooth sensitivity is S_b(D) = max_k e^(-b k) A_k(D) (Nissim,
Raskhodnikova and Smith 2007, Definitions 2.1, 2.2 and 3.1). Of two tables one step apart each k-ball lies in the
other's (k + 1)-ball, so A_k(D) <= A_(k+1)(D') and

    LS(D) <= S_b(D) <= e^b S_b(D').

(Not S_b(D) <= e^b LS(D'), as it is sometimes copied: that is false, and a test has a counterexample.)

Windows. When a rows have been taken away and b others put in, the j-th value lies between x_(j-b) and x_(j+a), as the
removed can all lie below it and the new ones all be U, or the removed above and the new ones L. Hence:

1.  REPLACE, any q (the literature's case is Proposition 3.4 there, for odd n, no row vanishing):

        A_k(D) = max { x_j - x_i : i <= r <= j, j - i = k + 1 }.

    Let U be within k steps of D (a rows gone and b come, both at most k), p = r(|U|), V one step from U. r(n) grows by
    0 or 1 with n, so f(V) lies between u_(p-1) and u_(p+1), and f changes by at most u_(s+1) - u_s with s = p - 1 or p.
    If c rows below are gone, c' between the two, and b' new ones stand below, u_s = x_i and u_(s+1) = x_j with
    i = s + c - b' and j = i + 1 + c' (new rows between only make the gap smaller). So j - i <= k + 1. As
    |p - r| <= |a - b| with the sign of b - a: j <= p + 1 + a <= r + 1 + max(a, b), i >= p - 1 - b >= r - 1 - max(a, b).
    So the window lies in one of width k + 1 that contains r. Every such window is reached: replace the k rows inside
    by r - i copies of L and the rest of U (for r = j by k copies of L); then x_i and x_j are neighbours in rank, and
    replacing one more row moves f from one to the other. It is reached without letting a row vanish.
2.  ADD_REMOVE, the median:

        A_k(D) = x_(h+1) - x_l, l = floor((n - k) / 2), h = floor((n + k) / 2).

    With m = |U|, adding or removing a row moves f from u_ceil(m/2) across the gap from u_g to u_(g+1), g = floor(m/2),
    and no further, and to either side of it. After a rows are gone and b come, a + b <= k, m = n - a + b: u_g = x_i
    and u_(g+1) = x_j with i >= g - b >= floor((n - k) / 2) and j <= g + 1 + a <= floor((n + k) / 2) + 1. Taking away
    the k rows inside that widest window reaches it (from k = n on it is U - L, and an empty table reaches it).
3.  ADD_REMOVE, other quantiles: adding or removing a row is a step of REPLACE in which a row appears or vanishes, so
    1. bounds LS, and is as smooth, though up to about twice as large as need be.

People. A person has at most g rows, so f changes by at most A_(g-1) of the row's steps: in 1. f(V) lies between
x_(r-g) and x_(r+g); in 2., V having up to g rows more or less, between x_ceil((n-g)/2) and x_ceil((n+g)/2), as
r(n-a)+a <= ceil((n+g)/2) and r(n+b)-b >= ceil((n-g)/2) for a, b <= g, and from ceil(n/2) either lies within
l = floor((n-g+1)/2) and h + 1 = floor((n+g-1)/2) + 1. With b = beta / g for one row's step,

    S(D) = e^(b (g-1)) S_b(D)  is at least  e^(b (g-1)) e^(-b (g-1)) A_(g-1)(D),  so at least what a person changes,

and it is beta-smooth over a person's step, which is at most g of a row's. For g = 1 it is the smooth sensitivity
itself; for g > 1 it exceeds the least smooth bound by at most e^beta in case 1.

Computation. Case 2 is a scan. In case 1 let F(i, j) = (x_j - x_i) e^(-b (j - i)); only the last rank of each value
below r and the first of each above matter. For j < j' the ratio F(i, j') / F(i, j) = (1 + (x_j' - x_j) / (x_j - x_i))
e^(-b (j' - j)) grows with x_i, so the best j moves up with i, and divide and conquer finds all of them in
O(d log d) for d distinct values (there, section 3.1, in O(n log n)); branches that cannot reach the best are cut.
The search compares logarithms in floating point and keeps every window within a margin, far above what rounding
loses, of the best; among those few the largest is found exactly. Two windows of different gaps or widths are never
equal in value unless one has both alike, as e to a rational power other than 0 is irrational; so it always ends.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from releases.engine.arithmetic.intervals import Interval, ceil_div, ceil_shift, exp_interval, log_interval
from releases.engine.domain.attribute import Attribute
from releases.engine.domain.privacy import NeighbouringRelation
from releases.engine.errors import InvalidInput
from releases.engine.tables.counts import Tally

MEDIAN = Fraction(1, 2)

#: Relative margin of the search in floating point: 2000 times what four roundings lose.
_MARGIN = 2.0**-40
#: A logarithm that cannot be rounded at this many bits would have to be rational, which it is not.
_MAX_BITS = 1 << 16


@dataclass(frozen=True, kw_only=True)
class SortedColumn:
    """The values of one column in order, each once, with the rank of its last row. As private as the table.

    Attributes:
        values: rising, in units of the last place, from `lowest` to `highest`.
        last: the number of rows at or below each, shape of `values`.
        lowest, highest: L and U, the declared range.
    """

    values: NDArray[np.int64]
    last: NDArray[np.int64]
    lowest: int
    highest: int

    @staticmethod
    def of(tally: Tally, attribute: Attribute) -> SortedColumn:
        (values,) = tally.values
        order = np.argsort(values)
        return SortedColumn(
            values=values[order],
            last=np.cumsum(tally.counts[order], dtype=np.int64),
            lowest=attribute.lowest,
            highest=attribute.highest,
        )

    @property
    def rows(self) -> int:
        return int(self.last[-1]) if self.last.size else 0

    @property
    def first(self) -> NDArray[np.int64]:
        """The rank of the first row of each value."""
        return self.last - np.diff(self.last, prepend=0) + 1

    def at(self, ranks: NDArray[np.int64]) -> NDArray[np.int64]:
        """x_i for each rank i: L up to 0, U beyond n."""
        padded = np.concatenate([[self.lowest], self.values, [self.highest]])
        places = np.searchsorted(self.last, ranks, side="left") + 1
        return padded[np.where(ranks <= 0, 0, places)]

    def quantile(self, q: Fraction) -> int:
        """f(D)."""
        return int(self.at(np.asarray([quantile_rank(self.rows, q)]))[0])


@dataclass(frozen=True, kw_only=True, slots=True)
class SmoothBound:
    """S = gap * exp(-rate * steps), exactly.

    Attributes:
        gap: above 0, in units of the last place.
        rate: above 0, for one row's step.
        steps: may be below 0 where a person has several rows.
    """

    gap: int
    rate: Fraction
    steps: int

    def interval(self, precision: int) -> Interval:
        """S * 2**precision lies in [lo, hi]; narrows as precision grows."""
        more = self.gap.bit_length() + 8
        lo, hi = exp_interval(-self.rate * self.steps, precision=precision + more)
        return self.gap * lo >> more, ceil_shift(self.gap * hi, more)

    def log_ceiling(self, step: Fraction) -> int:
        """The least integer not below ln(S) / step. Where ln(S) moves by at most step * m, this does by at most m."""
        known = -self.rate * self.steps / step
        if self.gap == 1:
            return -(-known.numerator // known.denominator)
        precision = 64
        while precision <= _MAX_BITS:
            lo, hi = log_interval(self.gap, precision=precision)
            low, high = (known + Fraction(end, 1 << precision) / step for end in (lo, hi))
            rounded = ceil_div(low.numerator, low.denominator), ceil_div(high.numerator, high.denominator)
            if rounded[0] == rounded[1]:
                return rounded[0]
            precision *= 2
        raise ArithmeticError("a logarithm of a whole number above 1 came out rational")

    def exceeds(self, other: SmoothBound) -> bool:
        """Whether it is the larger of two of one rate, exactly."""
        if self.steps == other.steps or self.gap == other.gap:
            return self.gap > other.gap or (self.gap == other.gap and self.steps < other.steps)
        difference = self.rate * (self.steps - other.steps)
        precision = 64
        while precision <= _MAX_BITS:
            lo, hi = log_interval(Fraction(self.gap, other.gap), precision=precision)
            if Fraction(lo, 1 << precision) > difference:
                return True
            if Fraction(hi, 1 << precision) < difference:
                return False
            precision *= 2
        raise ArithmeticError("two different windows came out equal")


def quantile_rank(rows: int, q: Fraction) -> int:
    """r(n) = ceil(q n)."""
    return ceil_div(q.numerator * rows, q.denominator)


def smooth_sensitivity(
    column: SortedColumn,
    *,
    q: Fraction,
    neighbours: NeighbouringRelation,
    rows_of_unit: int,
    smoothness: Fraction,
) -> SmoothBound:
    """S(D) of the quantile at q: at least what one unit can change, and beta-smooth (see the head of this file).

    Args:
        column: the table's values.
        q: above 0 and below 1.
        neighbours: the relation of the units.
        rows_of_unit: g, the most rows of one unit.
        smoothness: beta, above 0: ln S differs by at most this between neighbours.

    Raises:
        InvalidInput: `smoothness` or `rows_of_unit` is out of range.
    """
    if smoothness <= 0:
        raise InvalidInput("smoothness", smoothness, "must be above 0")
    if rows_of_unit < 1:
        raise InvalidInput("rows_of_unit", rows_of_unit, "must be at least 1")
    rate = smoothness / rows_of_unit
    if _is_balanced(q, neighbours):
        found = _balanced_windows(column, float(rate))
    else:
        found = _anchored_windows(column, quantile_rank(column.rows, q), float(rate))
    windows = [SmoothBound(gap=gap, rate=rate, steps=steps) for gap, steps in found]
    best = reduce(lambda one, other: other if other.exceeds(one) else one, windows)
    return SmoothBound(gap=best.gap, rate=rate, steps=best.steps - (rows_of_unit - 1))


def distance_to_instability(column: SortedColumn, *, q: Fraction, neighbours: NeighbouringRelation, bound: int) -> int:
    """The least k with A_k(D) > bound: so many row's steps away lies a table where one more moves f by more.

    A_k(D) <= A_(k+1)(D') for D' one step away, so it changes by at most 1 in a step. At most n + 1: where even
    A_n = U - L does not exceed the bound, no table is unstable, and n + 1 is returned, which also changes by at most 1.
    """
    if column.highest - column.lowest <= bound:
        return column.rows + 1
    if _is_balanced(q, neighbours):
        steps = _balanced_steps(column)
        low, high = _balanced_ranks(column.rows, steps)
        return int(steps[np.argmax(column.at(high) - column.at(low) > bound)])
    lower, upper = _anchored_ends(column, quantile_rank(column.rows, q))
    # The first upper end more than the bound above each lower one; the last column is U itself.
    places = np.searchsorted(upper[0], lower[0] + bound, side="right")
    reached = places < upper[0].size
    return int((upper[1][places[reached]] - lower[1][reached]).min()) - 1


def _is_balanced(q: Fraction, neighbours: NeighbouringRelation) -> bool:
    return q == MEDIAN and neighbours is NeighbouringRelation.ADD_REMOVE


def _balanced_ranks(rows: int, steps: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """l and h + 1 of case 2."""
    return (rows - steps) // 2, (rows + steps) // 2 + 1


def _balanced_steps(column: SortedColumn) -> NDArray[np.int64]:
    """The k at which an end of the window reaches another value, rising from 0 to n; between, A_k stays as it is.

    The upper rank reaches p from k = 2 p - 2 - n on, the lower one from k = n - 2 p - 1 on; U has rank n + 1, L 0.
    """
    rows = column.rows
    reached = np.concatenate([[0, rows, rows - 1], 2 * column.first - 2 - rows, rows - 2 * column.last - 1])
    return np.unique(np.clip(reached, 0, rows)).astype(np.int64)


def _balanced_windows(column: SortedColumn, rate: float) -> set[tuple[int, int]]:
    steps = _balanced_steps(column)
    low, high = _balanced_ranks(column.rows, steps)
    gaps = column.at(high) - column.at(low)
    return _near_best([(gaps, steps)], rate)


def _anchored_ends(
    column: SortedColumn, rank: int
) -> tuple[tuple[NDArray[np.int64], NDArray[np.int64]], tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """(values, ranks) of the lower ends and of the upper ends of windows about `rank`, each rising in both.

    A lower value at its last rank up to r, an upper one at its first from r on; L at rank 0 and U at n + 1 besides.
    """
    first = column.first
    below, above = first <= rank, column.last >= rank
    lower = (
        np.concatenate([[column.lowest], column.values[below]]),
        np.concatenate([[0], np.minimum(column.last[below], rank)]),
    )
    upper = (
        np.concatenate([column.values[above], [column.highest]]),
        np.concatenate([np.maximum(first[above], rank), [column.rows + 1]]),
    )
    return lower, upper


def _anchored_windows(column: SortedColumn, rank: int, rate: float) -> set[tuple[int, int]]:
    """All (gap, steps) whose value is within the margin of the best, by divide and conquer over the lower ends."""
    (low_values, low_ranks), (high_values, high_ranks) = _anchored_ends(column, rank)
    margin = _margin(rate, column.rows + 1)
    kept: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
    best = -np.inf
    pending = [(0, low_values.size - 1, 0, high_values.size - 1)]
    while pending:
        top, bottom, left, right = pending.pop()
        if top > bottom:
            continue
        largest, fewest = int(high_values[right] - low_values[top]), int(high_ranks[left] - low_ranks[bottom]) - 1
        # No window of this branch is better than its largest gap at its fewest steps.
        if largest <= 0 or np.log(largest) - rate * max(fewest, 0) < best - margin:
            continue
        middle = (top + bottom) // 2
        gaps = high_values[left : right + 1] - low_values[middle]
        steps = high_ranks[left : right + 1] - low_ranks[middle] - 1
        values = _log_values(gaps, steps, rate)
        highest = values.max()
        best = max(best, float(highest))
        near = np.flatnonzero(values >= highest - margin)
        if highest > -np.inf:
            kept.append((gaps[near], steps[near]))
        # The best upper end of this row is among the near ones; rows above need none beyond it, rows below none before.
        pending.append((top, middle - 1, left, left + int(near[-1])))
        pending.append((middle + 1, bottom, left + int(near[0]), right))
    return _near_best(kept, rate)


def _near_best(windows: Iterable[tuple[NDArray[np.int64], NDArray[np.int64]]], rate: float) -> set[tuple[int, int]]:
    """The distinct (gap, steps) within the margin of the best; of equal gaps the fewest steps."""
    listed = list(windows)
    gaps = np.concatenate([gap for gap, _ in listed])
    steps = np.concatenate([step for _, step in listed])
    values = _log_values(gaps, steps, rate)
    near = values >= values.max() - _margin(rate, int(steps.max()) + 1)
    fewest: dict[int, int] = {}
    for gap, step in zip(gaps[near].tolist(), steps[near].tolist(), strict=True):
        fewest[gap] = min(step, fewest.get(gap, step))
    return set(fewest.items())


def _log_values(gaps: NDArray[np.int64], steps: NDArray[np.int64], rate: float) -> NDArray[np.float64]:
    """ln(gap e^(-rate steps)), minus infinity where there is no gap."""
    with np.errstate(divide="ignore"):
        logs: NDArray[np.float64] = np.log(gaps.astype(np.float64)) - rate * steps
    return np.where(gaps > 0, logs, -np.inf)


def _margin(rate: float, most_steps: int) -> float:
    """Twice what the value of a window may be off in floating point, and to spare: it is below 64 + rate * steps."""
    return (64 + rate * most_steps) * _MARGIN
