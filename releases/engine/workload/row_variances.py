"""The sums that variances are read off: of a square, a product and another square, whose total is the number of rows.

Notation. One column has values v from L to U, R = U - L, over n rows, with places p = (v - L) / R from 0 to 1. Its
variance is R² V, V = Σ p² / n - (Σ p / n)² from 0 to 1/4; with n = 0 it is by convention 0. One privacy unit has at
most g rows. Measured are, in units of R²,

    A = Σ p²,   B = Σ 2 p (1 - p),   C = Σ (1 - p)²,   so that   A + B + C = n   and   Σ p = A + B / 2.

Then V = A / n - ((A + B / 2) / n)² = (4 A C - B²) / (4 n²), with n = A + B + C.

Privacy. A row adds a point of the triangle with corners (1, 0, 0), (0, 1, 0) and (0, 0, 1): its three parts are at
least 0 and add up to (p + 1 - p)² = 1. Where all three have the same noise, a norm of the change is a convex function
of it, so largest at a corner, the same at all three: 1 in L1 and in L2, the price of one of the sums. It is attained
at p = 0 and at p = 1. A row replaced moves the sums by the difference of two such points, at most √2 in L2 and 2 in L1,
attained from p = 0 to p = 1; one that vanishes by one point. With weights w up to C a row adds w times a point, which
lies in the convex hull of 0 and C times the corners: C times as much. A unit of g rows moves them by at most g times as
much, for a norm of a sum is at most the sum of the norms; g equal rows attain it.

Lattice. Where R² is so large that noise would not fit 64 bits each sum is rounded to a multiple of u = R² C / N by
itself. Rounding is monotone, so that a row moves the three by whole numbers x, y, z >= 0 of steps, none above the exact
one rounded up; these add up to less than N + 3, so to N + 2 at most, a point of the triangle of that size. A row
replaced is one removed and one added, a unit at most g of these: the bounds above with N + 2 for N.

Errors. The gradient of V at n times (a, b, c), a + b + c = 1, is (c - 2 V, -b / 2 - 2 V, a - 2 V) / n. So n² times the
squared error to first order, for noise of variance s² on each sum, is s² where all values lie at one end of the range,
which is the most there is, s² / 6 where they are evenly spread, and s² / 4 where half are at either end. With discrete
Laplace noise, one column and a row added or removed s² = 2 (g / epsilon)². Noise on the number of rows and on the sums
about the middle of values and of squares, with the shares that are best at the ends, has 5.5 (g / epsilon)² there and
1.0 (g / epsilon)² where values are evenly spread: this has 2 and 0.33. With discrete Gaussian noise both have s² at the
ends.

Interval, for any n, also 0. With probability 1 - beta all three sums are within their reach at once: the truth is in a
box, of which the part with A, B, C >= 0 is kept. There V does not rise with B: its numerator falls and n grows. In A,
for fixed B and C, it rises up to A = B + C + B² / (2 C) and falls from there, and likewise in C; both are not at their
highest at once, as the first is above C and the second above A. So over the box the least V is at the largest B and a
corner of A and C, and the largest at the least B and on an edge, at the place of its maximum or the end next to it. A V
below 0 is none of a table; 0 is in the interval whenever the box has a point with 4 A C <= B², so also where the truth
is no rows, A = B = C = 0. Nothing is divided by a count unless its numerator is above 0, and so the count too.

Source: the simplex transform of Fitzsimons, Honaker, Shoemate and Singhal (2024), arXiv 2408.10438, for means; here
with the Bernstein polynomials of degree 2. The proofs, the interval and the figures above are derived here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product
from math import ceil
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from releases.engine.domain.privacy import NeighbouringRelation
from releases.engine.workload.row_means import MIN_POOLED, MeanRead, OfMeans, pooled
from releases.engine.workload.row_sums import Coordinate, NoisySums, Sharing, Tallies
from releases.engine.workload.sensitivity import Case, Changes, Span

#: Steps of the lattice from 0 to the most that a row can add, where whole numbers are too many.
_SQUARE_STEPS = 1 << 24
#: Shares of R² are known to far more digits than this in double arithmetic: their terms are at most 1 in size.
_SLACK = 1e-12
#: V is at most this.
_MOST = Fraction(1, 4)


@dataclass(frozen=True, kw_only=True)
class VarianceRead(MeanRead):
    """The variance of one column, or of one in one group, as a share V of R².

    The ends are those of V. What `MeanRead` says of a mean is said of the mean.

    Attributes:
        estimate: V of the noisy sums, those below 0 taken as 0.
        square: (A - 3 B + C) / 2, the noisy sum of (2 p - 1)² - 1/2.
        product: B / 2, the noisy sum of p (1 - p).
        reach: what A, B and C are each within of the truth.
    """

    estimate: float
    square: Fraction
    product: Fraction
    reach: Fraction

    @property
    def place(self) -> Fraction:
        return min(max(Fraction(self.estimate), self.low), self.high)

    @property
    def of_mean(self) -> MeanRead:
        """The mean, as a place in the range."""
        return self._within_range(self.centred, self.centred_variance, 0.0)

    @property
    def of_square(self) -> MeanRead:
        """The mean of (2 p - 1)². With noise of variance s² on each sum that on `square` has 11/4 s², on the rows 3 s²,
        and the covariance of the two is (1 - 3 + 1) / 2 s²."""
        of_one = self.rows_variance / 3
        return self._within_range(self.square, 11 / 4 * of_one, -of_one / 2)

    def _within_range(self, centred: Fraction, variance: float, covariance: float) -> MeanRead:
        return MeanRead(
            low=Fraction(0),
            high=Fraction(1),
            centred=centred,
            rows=self.rows,
            centred_variance=variance,
            rows_variance=self.rows_variance,
            covariance=covariance,
        )


@dataclass(frozen=True, kw_only=True)
class Variances(OfMeans):
    """Each variance as R² (4 A C - B²) / (4 (A + B + C)²): see the module."""

    form: ClassVar[str] = (
        "for each column the sums of the squares of what it is above its lowest and below its highest value, and twice "
        "the sum of their products"
    )
    what: ClassVar[str] = "variance"

    @property
    def ranges(self) -> tuple[tuple[Fraction, Fraction], ...]:
        return tuple((Fraction(0), size**2) for _, size in self.column_ranges)

    @cached_property
    def _squares(self) -> tuple[int, ...]:
        """R² of each column, in units of its last place squared."""
        return tuple((each.highest - each.lowest) ** 2 for each in self.columns)

    @cached_property
    def coordinates(self) -> tuple[Coordinate, ...]:
        coordinates = []
        for each, square in zip(self.columns, self._squares, strict=True):
            above, below = f"what {each.name} is above its lowest value", f"what {each.name} is below its highest value"
            for what, most in ((f"the square of {above}", square), ("twice their product", square // 2)):
                places = 10 ** (2 * each.decimals) * self.weight_places
                label = f"{self.noun} sum of {what}"
                coordinates.append(Coordinate(label=label, span=Span(lowest=0, highest=most), places=places))
            label = f"{self.noun} sum of the square of {below}"
            coordinates.append(Coordinate(label=label, span=Span(lowest=0, highest=square), places=places))
        return tuple(coordinates)

    def units(self, steps: int) -> tuple[Fraction, ...]:
        most = [max(Fraction(1), Fraction(square * self.most_weight, _SQUARE_STEPS)) for square in self._squares]
        return tuple(unit for unit in most for _ in range(3))

    @property
    def moved(self) -> Changes:
        """For noise that is the same on the three sums of a column: which of them moves does not matter then, and the
        case names the first, or the first and the last."""
        rows, weight, case, most = self.schema.rows_of_unit, self.most_weight, [], []
        is_replaced = self.schema.neighbours is NeighbouringRelation.REPLACE
        for square, unit in zip(self._squares, self.units(0)[::3], strict=True):
            # Two steps more of a lattice.
            extra = ceil(2 * unit) if unit > 1 else 0
            size, half = rows * (square * weight + extra), rows * (square // 2 * weight + extra)
            case += [size, 0, size if is_replaced else 0]
            most += [size, half, size]
        return Changes(most=tuple(most), cases=(tuple(case),), rows=rows)

    @property
    def base(self) -> Case:
        return tuple(size for size in self.moved.most[::3] for _ in range(3))

    def shares(self, law: Sharing) -> tuple[Fraction, ...]:
        return (Fraction(1, len(self.names)),) * len(self.coordinates)

    def totals(self, counts: Tallies) -> list[int]:
        totals = []
        for each, square in zip(self.columns, self._squares, strict=True):
            tally = self.weighed(counts, each.name)
            rows, whole, squares = self.total(tally), self.total(tally, 0), self.total(tally, 0, 0)
            above, below = (squares - 2 * end * whole + end * end * rows for end in (each.lowest, each.highest))
            totals += [above, square * rows - above - below, below]
        return totals

    def worst_squared_error(self, variances: Sequence[Fraction]) -> Fraction:
        return sum((v / square**2 for v, square in zip(variances[::3], self._squares, strict=True)), Fraction(0))

    def foretold(self, reach: Sequence[Fraction], *, rows: int) -> tuple[Fraction, ...]:
        """|V' - V| <= r / (n - 3 r), with V' of the noisy sums, those below 0 taken as 0, each within r of the truth.

        The parts of the gradient of V add up in size to at most 1 / (A + B + C) where A, B, C >= 0, and between the
        two that sum is at least n - 3 r.
        """
        return self._shares_of_rows(reach, rows, steps=1)

    def intervals_foretold(self, reach: Sequence[Fraction], *, rows: int) -> tuple[Fraction, ...]:
        """At most 2 r / (n - 6 r): the box has at least n - 6 r rows, and any two of its points are within 2 r of each
        other in each sum."""
        return self._shares_of_rows(reach, rows, steps=2)

    def _shares_of_rows(self, reach: Sequence[Fraction], rows: int, *, steps: int) -> tuple[Fraction, ...]:
        found = []
        for (_, size), each, square in zip(self.ranges, reach[::3], self._squares, strict=True):
            moved = steps * each / square
            fewest = rows - 3 * moved
            found.append(size * min(_MOST, moved / fewest) if fewest > 0 else size * _MOST)
        return tuple(found)

    def formula_foretold(self) -> str:
        return r"\alpha_j = \frac{R_j^2\, a_j}{R_j^2\, n - 3 a_j}"

    def formula_of_intervals(self) -> str:
        return r"\alpha_j = \frac{2 R_j^2\, a_j}{R_j^2\, n - 6 a_j}"

    def formula(self, quantile: str, upper: str) -> str:
        return (
            r"\alpha_j = R_j^2 \max\left\{|V - \hat V_j| : V = \tfrac{4 A C - B^2}{4 (A + B + C)^2},"
            r" |A - \tilde A_j|, |B - \tilde B_j|, |C - \tilde C_j| \le a_j\right\},"
            rf"\quad a_j = {quantile} \le {upper}"
        )

    def means(self, measured: NoisySums) -> tuple[VarianceRead, ...]:
        variances = measured.variances or (0.0,) * len(measured.values)
        found = []
        for place, square in enumerate(self._squares):
            three = slice(3 * place, 3 * place + 3)
            a, b, c = values = [value / square for value in measured.values[three]]
            reach = [each / square for each in measured.reach[three]]
            low, high = variances_within(
                [float(value - r) for value, r in zip(values, reach, strict=True)],
                [float(value + r) for value, r in zip(values, reach, strict=True)],
            )
            of_one = variances[3 * place] / square**2
            found.append(
                VarianceRead(
                    low=Fraction(low),
                    high=Fraction(high),
                    centred=(a - c) / 2,
                    rows=a + b + c,
                    centred_variance=of_one / 2,
                    rows_variance=3 * of_one,
                    estimate=_variance(*(max(0.0, float(value)) for value in values)),
                    square=(a - 3 * b + c) / 2,
                    product=b / 2,
                    reach=max(reach),
                )
            )
        return tuple(found)

    def places(self, means: Sequence[MeanRead]) -> NDArray[np.float64]:
        """The mean and the mean square of each group drawn towards those of all, as means are: V is the second less the
        square of the first, both about the middle and in halves of the range, over 4."""
        reads = [each for each in means if isinstance(each, VarianceRead)]
        if len(reads) < MIN_POOLED:
            return np.array([float(each.place) for each in reads])
        middle = 2 * pooled([each.of_mean for each in reads]) - 1
        found: NDArray[np.float64] = np.clip((pooled([each.of_square for each in reads]) - middle**2) / 4, 0, 0.25)
        return found

    def noted(self, means: Sequence[MeanRead]) -> dict[str, dict[str, float]]:
        about: dict[str, float] = {}
        squares: dict[str, float] = {}
        products: dict[str, float] = {}
        reaches: dict[str, float] = {}
        for name, (_, size), read in zip(self.names, self.column_ranges, means, strict=True):
            assert isinstance(read, VarianceRead)
            about[name] = float(size * read.centred / self.weight_places)
            squares[name] = float(size**2 / 4 * (read.square + read.rows / 2) / self.weight_places)
            products[name] = float(size**2 * read.product / self.weight_places)
            reaches[name] = float(size**2 * read.reach / self.weight_places)
        return {
            "noisy sums about the middle": about,
            "noisy sums of squares about the middle": squares,
            "noisy sums of the products of the distances to both ends": products,
            "noise on each measured sum within": reaches,
        }


def variances_within(low: Sequence[float], high: Sequence[float]) -> tuple[float, float]:
    """Ends that hold V of all A, B, C >= 0 from `low` to `high`, each at least 0; 0 and 1/4 if there are none."""
    most = float(_MOST)
    if min(high) < 0:
        return 0.0, most
    (a, b, c), (a_high, b_high, c_high) = (max(0.0, each) for each in low), high
    least = min(_variance(one, b_high, other) for one, other in product((a, a_high), (c, c_high)))
    largest = max(
        *(_variance(one, b, _best_beside(one, b, c, c_high)) for one in (a, a_high)),
        *(_variance(_best_beside(one, b, a, a_high), b, one) for one in (c, c_high)),
    )
    return max(0.0, least - _SLACK), min(most, largest + _SLACK)


def _best_beside(one: float, product_of_both: float, low: float, high: float) -> float:
    """Where V is largest in C from `low` to `high` beside A, or the other way round."""
    if not one > 0:
        return low
    return min(max(one + product_of_both + product_of_both**2 / (2 * one), low), high)


def _variance(a: float, b: float, c: float) -> float:
    """V of A, B and C, all at least 0; 0 where they are of no table."""
    above = 4 * a * c - b * b
    return above / (2 * (a + b + c)) ** 2 if above > 0 else 0.0
