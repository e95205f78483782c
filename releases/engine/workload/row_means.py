"""The sums that means are read off: about the middle of each range with a count, or in pairs whose total is the count.

Notation. One column has values v from L to U, R = U - L, over n rows; its mean is L + R p with p from 0 to 1, and with
n = 0 it is by convention the middle of the range, p = 1/2. One privacy unit has at most g rows.

*About the middle* (`Means`): S = Σ (v - (L + U)/2), which a row added moves by R/2, and n, which it moves by 1.
*In pairs* (`PairedMeans`): A = Σ (v - L) and B = Σ (U - v). Then A + B = R n and p = A / (A + B).

Squared error, to first order in noise over n: p' - p = ((1 - p) X - p Y) / (R n) for noise X on A and Y on B. With
discrete Laplace noise, k columns, and a row added or removed:

*   Pairs: a row moves A and B by R together (see the privacy of `PairedMeans`), so the scale is k g R / epsilon, and n²
    times the squared error is 2 k² ((1 - p)² + p²) (g / epsilon)².
*   About the middle, with the share s of epsilon for the count: (k² / (2 (1 - s)²) + 2 (p - 1/2)² / s²) (g / epsilon)².
    With one column and s = 1/2 that is twice as much, at every p; with two columns and the best s for the ends, √2 - 1,
    it is 5.8 + 11.7 (p - 1/2)² where pairs have 4 + 16 (p - 1/2)²: more at every p. With three columns it is less at
    the ends, 14.9 against 18. So pairs are taken of at most two columns.

With Gaussian noise and one column both have (1/2 + 2 (p - 1/2)²) / (2 rho), so that pairs gain nothing there; and
where a row is replaced by another A and B move by R each, so that the noise of pairs doubles while the count beside S
is free. (By group it is not, see `measurements`, and pairs gain as where rows are added.)
A plan compares the squared errors at the ends, p = 0 or 1, where they are largest, and takes pairs where they are less.

Source: the simplex transform of Fitzsimons, Honaker, Shoemate and Singhal (2024), arXiv 2408.10438; on min-max optimal
means where rows are added and removed: Kulesza, Suresh and Wang (2023), arXiv 2312.06658. The proofs, the intervals and
the figures above are derived here.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product
from math import ceil, floor, ulp
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from releases.engine.domain.privacy import NeighbouringRelation
from releases.engine.workload.row_sentences import between
from releases.engine.workload.row_sums import (
    AboutMiddle,
    Coordinate,
    NoisySums,
    OfColumns,
    PlainSums,
    Reading,
    Sharing,
    Tallies,
    outwards,
)
from releases.engine.workload.sensitivity import Changes, Span

#: More columns than this are not measured in pairs: the least squared error at the worst place is then another's.
MAX_PAIRED = 2
#: Steps of a pair's lattice from 0 to R. It need not be whole numbers; a millionth of R is far below any noise.
_PAIR_STEPS = 1 << 20
#: Cells of [0, 1] on which the reach of a pair is known.
_CELLS = 256
#: Where that is: the ends of the cells.
PAIR_SHARES = np.arange(_CELLS + 1) / _CELLS
#: Fewer groups than this do not tell how far their means are apart.
MIN_POOLED = 4
#: How often it is found how far they are apart, each time with the weights of what was found before.
_ROUNDS = 4
#: Double arithmetic on shares of a range is far more exact than this.
_SLACK = 1e-9


@dataclass(frozen=True, kw_only=True)
class MeanRead:
    """The mean of one column, or of one in one group, as a place in its range.

    Attributes:
        low, high: the ends of the interval that holds p.
        centred: (A - B) / (2 R), the noisy sum about the middle over R.
        rows: the noisy number of rows.
        centred_variance, rows_variance, covariance: of the noise on these; of means the two are not correlated.
    """

    low: Fraction
    high: Fraction
    centred: Fraction
    rows: Fraction
    centred_variance: float
    rows_variance: float
    covariance: float = 0.0

    @property
    def place(self) -> Fraction:
        """The noisy sum over the noisy number of rows, within the interval."""
        ratio = Fraction(1, 2) + self.centred / max(Fraction(1), self.rows)
        return min(max(ratio, self.low), self.high)


class OfMeans(OfColumns):
    """Sums that means are read off, or variances: see `row_variances`."""

    what: ClassVar[str] = "mean"

    @abstractmethod
    def means(self, measured: NoisySums) -> tuple[MeanRead, ...]:
        """One for each column."""

    @abstractmethod
    def worst_squared_error(self, variances: Sequence[Fraction]) -> Fraction:
        """n² times the squared error of p at the ends of the range, to first order, added up over the columns."""

    @abstractmethod
    def foretold(self, reach: Sequence[Fraction], *, rows: int) -> tuple[Fraction, ...]:
        """Half widths that hold for every table of at least so many rows, in units of the columns."""

    @abstractmethod
    def intervals_foretold(self, reach: Sequence[Fraction], *, rows: int) -> tuple[Fraction, ...]:
        """How wide an interval is at most, from end to end, for every table of at least so many rows."""

    @abstractmethod
    def formula_foretold(self) -> str:
        """These half widths in LaTeX."""

    @abstractmethod
    def formula_of_intervals(self) -> str:
        """What `intervals_foretold` says in LaTeX, n the rows of a group."""

    @property
    def ranges(self) -> tuple[tuple[Fraction, Fraction], ...]:
        """The least of what is read off, and how far the largest is above it, of each column in its own units."""
        return self.column_ranges

    @cached_property
    def column_ranges(self) -> tuple[tuple[Fraction, Fraction], ...]:
        """L and R of each column, in its own units."""
        places = [10**each.decimals for each in self.columns]
        return tuple(
            (Fraction(each.lowest, unit), Fraction(each.highest - each.lowest, unit))
            for each, unit in zip(self.columns, places, strict=True)
        )

    @property
    def read_off(self) -> str:
        """The numbers as people call them, without their columns: ``the weighted mean``."""
        return f"{self.noun} {self.what}"

    def places(self, means: Sequence[MeanRead]) -> NDArray[np.float64]:
        """Where each group's number is published in its range, of one column; within its interval or next to it."""
        return pooled(means)

    def noted(self, means: Sequence[MeanRead]) -> dict[str, dict[str, float]]:
        """Further noisy sums that are published, by column, in its units."""
        each = zip(self.names, self.ranges, means, strict=True)
        return {
            "noisy sums about the middle": {
                name: float(size * mean.centred / self.weight_places) for name, (_, size), mean in each
            }
        }

    def widths(self, reach: Sequence[Fraction]) -> None:
        return None

    def loss(self, reach: Sequence[Fraction], variances: Sequence[Fraction]) -> Fraction:
        return self.worst_squared_error(variances)

    def read(self, measured: NoisySums) -> Reading:
        """Each mean with the interval that it lies in."""
        means = self.means(measured)
        estimates, half_widths, intervals = [], [], {}
        for name, (lowest, size), mean in zip(self.names, self.ranges, means, strict=True):
            estimate = float(lowest + size * mean.place)
            estimates.append(np.array([estimate]))
            half_widths.append(outwards(size * max(mean.high - mean.place, mean.place - mean.low)) + ulp(estimate))
            intervals[name] = lowest + size * mean.low, lowest + size * mean.high
        rows = float(sum((mean.rows for mean in means), Fraction(0)) / (len(means) * self.weight_places))
        ends = {name: [float(low), float(high)] for name, (low, high) in intervals.items()}
        return Reading(
            estimates=tuple(estimates),
            half_widths=tuple(half_widths),
            says=between(intervals, after=self.after, noun=self.read_off),
            **self.counted_as(rows, {**self.noted(means), "intervals": ends}),
        )


@dataclass(frozen=True, kw_only=True)
class Means(AboutMiddle, OfMeans):
    """Each mean as c + Σ (v - c) / n, with c the middle of the range."""

    form: ClassVar[str] = "the sum of each column about the middle of its range, and the number of rows"

    @cached_property
    def plain(self) -> PlainSums:
        return PlainSums(schema=self.schema, names=self.names, weight=self.weight)

    def _weights(self) -> tuple[float, float]:
        # At an end of the range, the worst case for a mean, a row too many counts as much as half the range in the sum.
        return float(len(self.names)), float(len(self.names))

    def worst_squared_error(self, variances: Sequence[Fraction]) -> Fraction:
        # Sums are in halves of last places, in which the range is twice its span's largest size R.
        *sums, of_count = variances
        each = zip(sums, self.coordinates, strict=False)
        return sum((v / (2 * c.span.largest) ** 2 + of_count / 4 for v, c in each), Fraction(0))

    def foretold(self, reach: Sequence[Fraction], *, rows: int) -> tuple[Fraction, ...]:
        """|S'/n' - S/n| <= (|S' - S| + |S/n| |n' - n|) / n', with |S/n| at most half the range and n' >= n - b."""
        *sums, miscount = reach
        fewest = rows - miscount
        foretold = []
        for each, coordinate in zip(sums, self.coordinates, strict=False):
            trivial = Fraction(coordinate.span.width)
            width = (each + coordinate.span.largest * miscount) / fewest if fewest > 0 else trivial
            foretold.append(min(width, trivial) / trivial)
        return tuple(size * share for (_, size), share in zip(self.ranges, foretold, strict=True))

    def intervals_foretold(self, reach: Sequence[Fraction], *, rows: int) -> tuple[Fraction, ...]:
        """At most 2 (a + U b) / (n' - b), where n' - b >= n - 2 b and U is half the range.

        Where both ends have one sign, S' - a > 0 say, the interval is from (S' - a) / (n' + b) to (S' + a) / (n' - b),
        or to U where that is less. In the first case |S'| <= U n', so that it is 2 (a n' + b S') / (n'^2 - b^2)
        <= 2 (a + U b) n' / (n'^2 - b^2) wide; in the second S' > U (n' - b) - a, so that it is at most
        2 (a + U b) / (n' + b) wide.
        """
        *sums, miscount = reach
        fewest = rows - 2 * miscount
        shares = [
            2 * (each + coordinate.span.largest * miscount) / (fewest * coordinate.span.width)
            if fewest > 0
            else Fraction(1)
            for each, coordinate in zip(sums, self.coordinates, strict=False)
        ]
        return tuple(size * min(share, Fraction(1)) for (_, size), share in zip(self.ranges, shares, strict=True))

    def formula_foretold(self) -> str:
        return r"\alpha_j = \frac{a_j + \frac{U_j - L_j}{2}\, b}{n - b}"

    def formula_of_intervals(self) -> str:
        return r"\alpha_j = \frac{2 a_j + (U_j - L_j)\, b}{n - 2 b}"

    def means(self, measured: NoisySums) -> tuple[MeanRead, ...]:
        """The intervals hold each mean whenever every sum is within its reach.

        A sum s from S' - a to S' + a over a number of rows m from max(1, n' - b) to n' + b lies between the ratios at
        the ends. Where the table is empty, s = 0, and the interval holds 0, which is the middle.
        """
        *sums, rows = measured.values
        *reaches, miscount = measured.reach
        fewest = max(Fraction(1), rows - miscount)
        most = max(fewest, rows + miscount)
        *variances, of_count = measured.variances or (0.0,) * len(measured.values)
        means = []
        for each, reach, variance, coordinate in zip(sums, reaches, variances, self.coordinates, strict=False):
            whole = 2 * coordinate.span.largest
            low = _clipped(_least_ratio(each - reach, fewest, most), coordinate.span)
            high = _clipped(-_least_ratio(-each - reach, fewest, most), coordinate.span)
            means.append(
                MeanRead(
                    low=low / whole + Fraction(1, 2),
                    high=high / whole + Fraction(1, 2),
                    centred=each / whole,
                    rows=rows,
                    centred_variance=variance / whole**2,
                    rows_variance=of_count,
                )
            )
        return tuple(means)

    def formula(self, quantile: str, upper: str) -> str:
        return (
            r"\alpha_j = \max\left\{\left|\tfrac{s}{m} - \tfrac{\tilde S_j}{\tilde n}\right| :"
            r" |s - \tilde S_j| \le a_j,\ |m - \tilde n| \le b,\ m \ge 1\right\},"
            rf"\quad a_j, b = {quantile}"
        )


@dataclass(frozen=True, kw_only=True)
class PairedMeans(OfMeans):
    """Each mean as L + R A / (A + B), with A = Σ (v - L) and B = Σ (U - v).

    Privacy. With a = v - L a row adds (a, R - a) to a column's pair, 0 <= a <= R. Both are at least 0 and add up to R,
    so any convex function of a, such as a norm, is largest at a = 0 or a = R: (0, R) or (R, 0). In L1 and in L2 that is
    R, the price of one such sum. A row replaced by another moves the pair by (d, -d) with |d| <= R, so by R each at
    most: 2 R in L1, √2 R in L2; a row that vanishes moves it as one added does. A unit of g rows moves it by at most g
    times as much, for a norm of a sum is at most the sum of the norms; g equal rows attain it.

    Lattice. A is rounded to a multiple of u = R / N, half upwards, and B to one of the same, half downwards. A / u +
    B / u = N n is whole, so the two in steps still add up to N n; a row added moves the first by a whole number of
    steps from 0 to N, and the second by the rest: the same bounds with N for R, not ceilings of each.

    With weights w up to C, in whole units of their last place, A = Σ w (v - L), B = Σ w (U - v), and n is Σ w. A row
    adds w (a, R - a), in the triangle of (0, 0), (C R, 0) and (0, C R). A convex function of it is largest at a corner,
    and one of the difference of two such rows at two of them: R above is C R then. On the lattice of u = R / N, A / u +
    B / u = N n is whole as before, and a row moves the steps by no less than 0 and by N w <= N C together.

    Interval, for any n, also 0. With A'' and B'' the sums in steps, X and Y the noise on them and p the mean's place,
    (1 - p) A'' - p B'' = A'' - p N n is at most 1/2 in size, for (1 - p) A = p B; with n = 0 it is 0. So

        |(1 - p) (A'' + X) - p (B'' + Y)| <= 1/2 + |(1 - p) X - p Y|,

    which is at most r(p) with probability 1 - beta (`bounds.accuracy.laplace_pair_reach`). The interval goes from the
    least to the largest p that satisfy this, and so misses the true one with probability at most beta; nothing is
    divided by a count. r(p) falls up to p = 1/2 and rises from there, so on a cell between two known places it is at
    most the larger of its values there. Where noise hides the rows every p satisfies it: the whole declared range.
    """

    form: ClassVar[str] = "the sum of each column above its lowest value and that below its highest"

    @property
    def pairs(self) -> int:
        return len(self.names)

    @cached_property
    def coordinates(self) -> tuple[Coordinate, ...]:
        coordinates = []
        for each in self.columns:
            span = Span(lowest=0, highest=each.highest - each.lowest)
            for what in ("above its lowest value", "below its highest value"):
                label = f"{self.noun} sum of what {each.name} is {what}"
                places = 10**each.decimals * self.weight_places
                coordinates.append(Coordinate(label=label, span=span, places=places))
        return tuple(coordinates)

    @property
    def moved(self) -> Changes:
        rows = self.schema.rows_of_unit * self.most_weight
        sizes = [each.span.largest * rows for each in self.coordinates[::2]]
        added = [tuple(end for pair in ends for end in pair) for ends in product(*(((r, 0), (0, r)) for r in sizes))]
        both = tuple(size for size in sizes for _ in range(2))
        # A row that vanishes moves a part of what one replaced can.
        cases = added if self.schema.neighbours is NeighbouringRelation.ADD_REMOVE else [both]
        return Changes(most=both, cases=tuple(cases))

    def shares(self, law: Sharing) -> tuple[Fraction, ...]:
        return (Fraction(1, len(self.names)),) * len(self.coordinates)

    def units(self, steps: int) -> tuple[Fraction, ...]:
        of_one = max(1, _PAIR_STEPS // self.most_weight)
        return tuple(Fraction(each.span.largest, of_one) for each in self.coordinates)

    def rounded(self, totals: Sequence[int], units: Sequence[Fraction]) -> list[int]:
        half, places = Fraction(1, 2), enumerate(zip(totals, units, strict=True))
        return [
            ceil(total / unit - half) if place % 2 else floor(total / unit + half) for place, (total, unit) in places
        ]

    def totals(self, counts: Tallies) -> list[int]:
        totals = []
        for each in self.columns:
            tally = self.weighed(counts, each.name)
            rows, whole = self.total(tally), self.total(tally, 0)
            totals += [whole - each.lowest * rows, each.highest * rows - whole]
        return totals

    def worst_squared_error(self, variances: Sequence[Fraction]) -> Fraction:
        each = zip(variances[::2], variances[1::2], self.coordinates[::2], strict=True)
        return sum((max(one, other) / c.span.largest**2 for one, other, c in each), Fraction(0))

    def foretold(self, reach: Sequence[Fraction], *, rows: int) -> tuple[Fraction, ...]:
        """p' - p = ((1 - p) X - p Y) / (A' + B') is at most max(a, b) / (R n - a - b) where |X| <= a and |Y| <= b."""
        foretold = []
        for (_, size), one, other, coordinate in zip(
            self.ranges, reach[::2], reach[1::2], self.coordinates[::2], strict=True
        ):
            fewest = coordinate.span.largest * rows - one - other
            foretold.append(size * min(Fraction(1), max(one, other) / fewest) if fewest > 0 else size)
        return tuple(foretold)

    def intervals_foretold(self, reach: Sequence[Fraction], *, rows: int) -> tuple[Fraction, ...]:
        """Every p with |(1 - p) A' - p B'| <= r(p) is within max(a, b) / (A' + B') of A' / (A' + B')."""
        halves = zip(self.ranges, self.foretold(reach, rows=rows), strict=True)
        return tuple(min(size, 2 * half) for (_, size), half in halves)

    def formula_foretold(self) -> str:
        return r"\alpha_j = \frac{(U_j - L_j)\, a_j}{(U_j - L_j)\, n - 2 a_j}"

    def formula_of_intervals(self) -> str:
        return r"\alpha_j = \frac{2 (U_j - L_j)\, a_j}{(U_j - L_j)\, n - 2 a_j}"

    def means(self, measured: NoisySums) -> tuple[MeanRead, ...]:
        reach = np.array(measured.pair_reach)
        variances = measured.variances or (0.0,) * len(measured.values)
        means = []
        for place, coordinate in enumerate(self.coordinates[::2]):
            size = coordinate.span.largest
            one, other = (measured.values[2 * place + side] / size for side in range(2))
            # Of (A - B) / (2 R) and (A + B) / R.
            together = (variances[2 * place] + variances[2 * place + 1]) / size**2
            low, high = places_within(float(one), float(other), reach)
            means.append(
                MeanRead(
                    low=Fraction(low),
                    high=Fraction(high),
                    centred=(one - other) / 2,
                    rows=one + other,
                    centred_variance=together / 4,
                    rows_variance=together,
                )
            )
        return tuple(means)

    def formula(self, quantile: str, upper: str) -> str:
        return (
            r"\alpha_j = R_j \max\left\{|p - \hat p_j| : |(1 - p) \tilde A_j - p \tilde B_j| \le r(p)\right\},"
            r"\quad \Pr\left[|(1 - p) X - p Y| > r(p)\right] \le 1 - (1 - \beta)^{1/k}"
        )


def places_within(one: float, other: float, reach: NDArray[np.float64]) -> tuple[float, float]:
    """Ends that hold every p in [0, 1] with |(1 - p) one - p other| <= r(p); 0 and 1 if there is none, or no rows.

    Args:
        reach: r at `PAIR_SHARES`; between two of these it is at most the larger.
    """
    rows = one + other
    if not rows > 0:
        return 0.0, 1.0
    cells = np.maximum(reach[:-1], reach[1:]) + _SLACK * (abs(one) + abs(other) + 1)
    low, high = _least_place(one, rows, cells), 1 - _least_place(other, rows, cells[::-1])
    return (max(0.0, low - _SLACK), min(1.0, high + _SLACK)) if low <= high else (0.0, 1.0)


def _least_place(one: float, rows: float, cells: NDArray[np.float64]) -> float:
    """The least p with one - p rows <= r(p), where r is at most so much in each cell; 0 if there is none."""
    least = np.maximum(PAIR_SHARES[:-1], (one - cells) / rows)
    found = least[least <= PAIR_SHARES[1:]]
    return float(found[0]) if found.size else 0.0


def pooled(means: Sequence[MeanRead]) -> NDArray[np.float64]:
    """Each group's place p_g in the range, drawn towards the place of all rows together as far as its noise says.

    The empirical Bayes estimate of Efron and Morris (1975), with the variances of Fay and Herriot (1979) known, from
    noisy numbers alone, so for nothing. With D_g = n_g (p_g - 1/2) the noisy sum about the middle and n_g the noisy
    number of rows, p = 1/2 + Σ D_g / Σ n_g, and T_g = D_g - (p - 1/2) n_g with noise of variance v = Var D + (p -
    1/2)² Var n,

        p_g = p + w_g T_g / n_g,    w_g = τ n_g² / (τ n_g² + v),

    where τ is how far the groups' places are apart, from 0 to 1/4: T_g² - v has the mean τ n_g² and a variance in
    proportion to (v + τ n_g²)² about, so that τ is found by weighted least squares through 0, as Σ w (T_g² - v) over
    Σ w (n_g² - Var n) with w = n_g² / (v + τ n_g²)² of the τ found before. A group whose noise is small beside τ keeps
    its own mean, and empty groups tell nothing about it. What is drawn together is the estimate, never the interval.
    """
    rows = np.array([float(mean.rows) for mean in means])
    centred = np.array([float(mean.centred) for mean in means])
    together = max(1.0, rows.sum())
    middle = float(np.clip(centred.sum() / together, -0.5, 0.5))
    of_rows = means[0].rows_variance
    noise = means[0].centred_variance + middle**2 * of_rows - 2 * middle * means[0].covariance
    if len(means) < MIN_POOLED or not noise > 0:
        return np.array([float(mean.place) for mean in means])
    apart = centred - middle * rows
    spread = 0.0
    for _ in range(_ROUNDS):
        weights = (np.maximum(0.0, rows) / (noise + spread * rows**2)) ** 2
        known = float((weights * (rows**2 - of_rows)).sum())
        spread = float(np.clip((weights * (apart**2 - noise)).sum() / known, 0, 0.25)) if known > 0 else 0.0
    counted = np.maximum(1.0, rows)
    own = spread * counted**2 / (spread * counted**2 + noise)
    return np.array(0.5 + middle + own * apart / counted)


# Arithmetic


def _least_ratio(numerator: Fraction, fewest: Fraction, most: Fraction) -> Fraction:
    """The least of numerator / m over fewest <= m <= most, both above 0."""
    return numerator / (fewest if numerator < 0 else most)


def _clipped(value: Fraction, span: Span) -> Fraction:
    return min(max(value, Fraction(span.lowest)), Fraction(span.highest))
