r"""Linear regression read off noisy sums: which sums, what one row changes in them, intervals for the coefficients.

Notation. Each column is centred and scaled by its declared range, so that a row has u = (1, z_1 ... z_k), z_j from -1
to 1, and the outcome y from -1 to 1. A category other than the first is 1 for the rows that have it and -1 for others.
Over the n rows, G = Σ u uᵀ and g = Σ u y. The rows are drawn independently from a population, whose coefficients b make
E (y - uᵀb)² least. Nothing is assumed of its shape: b is the best line, with e = y - uᵀb and E u e = 0.

Sums. The d = k + 1 numbers of a row, each product of two of them, each square, and the number of rows: all that G, g
and Σ y² consist of. Squares are taken about their middle, z² - 1/2, which halves what a row added moves.

Privacy. A row adds at most 1 to each sum in size, 1/2 to a square (`sensitivity.changes`). A row replaced moves a
number by 2 at most, a product by 2 and a square by 1, but not all at once. A norm of the changes of numbers and
products is convex in each number of the old row and of the new one by itself, so it is largest where all are -1 or 1.
Where the two rows differ then in m of d numbers, these m move by 2, so do the m (d - m) products of one of them with
one of the others, and nothing else. What the squares do at most is added. As the noise of all numbers is the same over
their range, and so is that of all products, which m they are makes no difference, and `moved` has one case for each m.
It holds of the whole numbers that are summed, because a number is rounded to a step of its range before it is
multiplied, and sums are not rounded. A unit of g rows moves them by g times as much.

Intervals. With noise N on G and h on g, G̃ = G + N, b̃ = G̃⁻¹ g̃, v = G̃⁻¹ t and any direction t,

    tᵀ(b̃ - b) = vᵀ(S + h - N b),    S = Σ u e,                                                                   (1)

exactly. Let X_l be the noise of the l-th sum, ω_l its weight in vᵀ(h - N b).

1.  Noise: the law of every X_l is known, so is that of Σ ω_l X_l for given weights.
2.  Sampling: vᵀS is a sum of n independent terms, in law nearly normal with variance n E e²(vᵀu)². Second moments alone
    do not tell it. It is n E e² E(vᵀu)² where the scatter about the line is the same everywhere, and three times as
    much where its deviation grows like the distance of a normal predictor from its mean. `_UNEVEN` = 3 times is what is
    allowed for; on the real tables that this was tried on it was 2.1 times at most. The rows of one person need not be
    independent: with at most g of them it is at most g times as much, by Cauchy and Schwarz.
3.  n E e² is about c̃ᵀΓ̃c̃ + tr(G̃ Cov b̃), c̃ = (-b̃, 1), Γ the moments of (u, y): the fit makes the first term too small
    by the second. The quantile of its noise is added. E e² is never above E y² <= 1.
4.  The weights are those of b̃ and of the noisy v instead of b and of G⁻¹ t. Both change (1) by a term like
    vᵀN(b̃ - b), whose variance follows from Cov b̃; its quantile is added to the half width, not to the variance.
5.  All this needs noise that is small beside G. If E ‖G̃^(-1/2) N G̃^(-1/2)‖² (Frobenius) is above `_LARGEST_NOISE`², or
    G̃ is not positive definite, nothing is said: the predictors may be so alike that any coefficient is possible.

Each coefficient has its share of beta, so that all intervals hold at once. Steps 2 to 5 are arguments, not theorems.
How often the intervals hold is counted on real tables in `tests/engine/workload/test_regression_coverage.py`.

Source: (1) and the steps are derived here. On intervals that count the noise in: Noise-Calibrated Inference (2026),
arXiv 2603.02010; on regression from noisy sums: Wang (2018), arXiv 1803.02596.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from math import inf
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from releases.engine.domain.attribute import Attribute
from releases.engine.domain.privacy import NeighbouringRelation
from releases.engine.tables.counts import Tally
from releases.engine.workload.kinds.regression import Regression
from releases.engine.workload.row_sentences import after_clamping
from releases.engine.workload.row_sentences import within as within_of
from releases.engine.workload.row_sums import (
    ROWS_COUNTED,
    Coordinate,
    Measurement,
    NoisySums,
    Reading,
    Tallies,
    Within,
    outwards,
    places_of,
    rounded_outwards,
    sum_of_products,
)
from releases.engine.workload.sensitivity import Changes, Span, changes

#: Steps of a number from the middle of its range to an end.
_STEPS = 1 << 16
#: How many times the variance of a coefficient may be what it is with the same scatter everywhere.
_UNEVEN = 3.0
#: The noise on the sums of products, in the measure of these sums themselves.
_LARGEST_NOISE = 1 / 2
#: The probability that what is said of a nuisance is too low.
_NUISANCE = 0.01
#: What is said instead of a coefficient.
NOTHING_SAID = "cannot be said"

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Coefficients:
    """Estimates in the scaled columns' units, and what each is within."""

    estimates: Floats
    half_widths: Floats


@dataclass(frozen=True, kw_only=True)
class ScaledColumn:
    """A column of numbers from -1 to 1, of a declared column.

    Attributes:
        category: which of the column's categories it marks; -1 where it is a number.
    """

    attribute: Attribute
    category: int = -1

    @property
    def middle(self) -> Fraction:
        return (self._ends[0] + self._ends[1]) / 2

    @property
    def range(self) -> Fraction:
        return self._ends[1] - self._ends[0]

    @property
    def _ends(self) -> tuple[Fraction, Fraction]:
        if self.category >= 0:
            return Fraction(0), Fraction(1)
        places = 10**self.attribute.decimals
        return Fraction(self.attribute.lowest, places), Fraction(self.attribute.highest, places)

    @property
    def label(self) -> str:
        return self.attribute.name if self.category < 0 else f"{self.attribute.name} = {self._name}"

    @property
    def _name(self) -> str:
        return self.attribute.categories[self.category]

    def steps(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """Values of the column in steps of the scaled one, from -_STEPS to _STEPS; whole numbers all the way."""
        if self.category >= 0:
            return np.where(values == self.category, _STEPS, -_STEPS)
        low, high = self.attribute.lowest, self.attribute.highest
        width = high - low
        return np.array(
            [(2 * _STEPS * (2 * value - low - high) + width) // (2 * width) for value in values.tolist()],
            dtype=np.int64,
        )


@dataclass(frozen=True, kw_only=True)
class Fitted(Measurement):
    """What coefficients of a population are read off, with intervals that are tested rather than proved."""

    is_tested: ClassVar[bool] = True

    def units(self, steps: int) -> tuple[Fraction, ...]:
        return (Fraction(1),) * len(self.coordinates)

    def widths(self, reach: Sequence[Fraction]) -> None:
        return None

    @abstractmethod
    def least_rows(self, measured: Sequence[float | Fraction]) -> float:
        """Below how many rows nothing is said, whatever they hold, but for luck with the noise.

        Args:
            measured: the variances of the noise.
        """

    @abstractmethod
    def example(
        self, measured: Sequence[float | Fraction], *, rows: int, within: Within, beta: float
    ) -> tuple[float, str] | None:
        """The largest half width on a table of so many rows as it is easy to imagine, and the example in words; None
        where nothing is said of it."""


@dataclass(frozen=True, kw_only=True)
class RegressionSums(Fitted):
    """The number of rows, the sums of the scaled columns, of their products and of their squares, in this order."""

    form: ClassVar[str] = (
        "the sum of each column, centred and scaled by its declared range, and of each product, and the number of rows"
    )
    statistic: Regression

    @cached_property
    def columns(self) -> tuple[ScaledColumn, ...]:
        """Those of the slopes, then the outcome."""
        universe = self.schema.universe
        slopes = [
            ScaledColumn(
                attribute=universe[term.column],
                category=universe[term.column].categories.index(term.category) if term.category else -1,
            )
            for term in self.statistic.terms(universe)
        ]
        return (*slopes, ScaledColumn(attribute=universe[self.statistic.outcome]))

    @cached_property
    def _pairs(self) -> list[tuple[int, int]]:
        return list(combinations(range(len(self.columns)), 2))

    @cached_property
    def coordinates(self) -> tuple[Coordinate, ...]:
        number, product = Span(lowest=-_STEPS, highest=_STEPS), Span(lowest=-(_STEPS**2), highest=_STEPS**2)
        labels = [each.label for each in self.columns]
        return (
            ROWS_COUNTED,
            *(Coordinate(label=f"the sum of scaled {label}", span=number, places=_STEPS) for label in labels),
            *(
                Coordinate(label=f"the sum of scaled {labels[i]} × {labels[j]}", span=product, places=_STEPS**2)
                for i, j in self._pairs
            ),
            *(
                Coordinate(label=f"the sum of scaled {label} squared", span=product, places=2 * _STEPS**2)
                for label in labels
            ),
        )

    @cached_property
    def moved(self) -> Changes:
        spans, rows = [each.span for each in self.coordinates], self.schema.rows_of_unit
        bound = changes(spans, self.schema)
        if self.schema.neighbours is NeighbouringRelation.ADD_REMOVE:
            return bound
        replaced, *vanished = bound.cases
        numbers = len(self.columns)
        cases = []
        for m in range(1, numbers + 1):
            moves = [
                True,
                *(i < m for i in range(numbers)),
                *(i < m <= j for i, j in self._pairs),
                *(True for _ in range(numbers)),
            ]
            cases.append(tuple(most if moved else 0 for most, moved in zip(replaced, moves, strict=True)))
        return Changes(most=bound.most, cases=(*cases, *vanished), rows=rows)

    def totals(self, counts: Tallies) -> list[int]:
        names = self.statistic.attributes
        tally = counts.tally(names)
        scaled = tuple(each.steps(tally.values[names.index(each.attribute.name)]) for each in self.columns)
        whole = Tally(values=scaled, counts=tally.counts)
        rows, numbers = sum(tally.counts.tolist()), range(len(scaled))
        return [
            rows,
            *(sum_of_products(whole, (i,)) for i in numbers),
            *(sum_of_products(whole, pair) for pair in self._pairs),
            *(2 * sum_of_products(whole, (i, i)) - _STEPS**2 * rows for i in numbers),
        ]

    def formula(self, quantile: str, upper: str) -> str:
        return (
            r"\alpha_j = q_j + q'_j,\quad \Pr\left[\left|\textstyle\sum_l \omega_{jl} X_l + s_j Z\right| \le q_j\right]"
            r" = 1 - \tfrac{\beta}{k + 1}"
        )

    @cached_property
    def _moments(self) -> Floats:
        """How each sum enters the moments of (1, z_1 ... z_k, y), shape (sums, k + 2, k + 2)."""
        size = len(self.columns) + 1
        into = np.zeros((len(self.coordinates), size, size))
        into[0] = np.diag([1.0, *(0.5,) * (size - 1)])
        places = [(0, i + 1) for i in range(size - 1)]
        places += [(i + 1, j + 1) for i, j in self._pairs] + [(i + 1, i + 1) for i in range(size - 1)]
        for place, (i, j) in enumerate(places, 1):
            into[place, i, j] = into[place, j, i] = 1.0
        return into

    @cached_property
    def _asked(self) -> tuple[Floats, Floats]:
        """The coefficients asked for, in units of the columns, as offsets and rows that multiply the scaled ones."""
        *slopes, outcome = self.columns
        rows = np.zeros((len(slopes) + 1, len(slopes) + 1))
        for place, each in enumerate(slopes):
            rows[place, place + 1] = outcome.range / each.range
            rows[-1, place + 1] = -outcome.range * each.middle / each.range
        rows[-1, 0] = outcome.range / 2
        return np.array([0.0] * len(slopes) + [float(outcome.middle)]), rows

    def coefficients(
        self, moments: Floats, variances: Sequence[float], *, within: Within, beta: float
    ) -> Coefficients | None:
        """What the moments say, or None where they say nothing.

        Args:
            moments: of (1, z_1 ... z_k, y), with noise.
            variances: of the noise on each sum, in units of the scaled columns.
        """
        offsets, asked = self._asked
        into, noise, size = self._moments, np.array(variances), len(self.columns)
        gram, known = moments[:size, :size], noise_measure(moments[:size, :size], into[:, :size, :size], noise)
        if known is None or known > _LARGEST_NOISE:
            return None
        inverse = np.linalg.inv(gram)
        fitted = inverse @ moments[:size, size]
        residual = np.append(-fitted, 1.0)
        # Step 3: of the scatter, in rows; the sums' own weights in it are squares of residuals.
        by_sum = into @ residual
        of_noise = inverse @ by_sum[:, :size].T
        spread = (of_noise * noise) @ of_noise.T
        upper = -float(ndtri(_NUISANCE))
        scatter = residual @ moments @ residual + np.trace(gram @ spread)
        scatter = max(scatter, 0.0) + upper * np.sqrt((noise * (by_sum @ residual) ** 2).sum())
        rows = moments[0, 0] - upper * np.sqrt(noise[0])
        uneven = _UNEVEN * self.schema.rows_of_unit * (min(scatter / rows, 1.0) if rows > 0 else 1.0)
        spread = spread + uneven * inverse
        one = beta / len(offsets)
        half_widths = []
        for direction in asked:
            v = inverse @ direction
            by_direction = into[:, :size, :size] @ v
            length = v @ gram @ v + upper * np.sqrt((noise * (by_direction @ v) ** 2).sum())
            weights = by_sum[:, :size] @ v
            first = within(weights * np.sqrt(noise), uneven * length, one)
            second = (noise * np.einsum("li,ij,lj->l", by_direction, spread, by_direction)).sum()
            half_widths.append(first - float(ndtri(one / 2)) * np.sqrt(second))
        return Coefficients(estimates=offsets + asked @ fitted, half_widths=np.array(half_widths))

    def variances(self, measured: Sequence[float | Fraction]) -> list[float]:
        """Those of the noise in units of the scaled columns, of those in units of the sums."""
        return [float(each) / c.places**2 for each, c in zip(measured, self.coordinates, strict=True)]

    def least_rows(self, measured: Sequence[float | Fraction]) -> float:
        """See `Fitted`.

        The measure of the noise is least where G is n times the identity: an entry of the diagonal of G⁻¹ is at least
        one over that of G, which is at most n, and tr(G⁻¹ B G⁻¹ B) is at least what it is without other entries.
        """
        size = len(self.columns)
        known = noise_measure(np.eye(size), self._moments[:, :size, :size], np.array(self.variances(measured)))
        assert known is not None
        return known / _LARGEST_NOISE

    def expected(
        self, measured: Sequence[float | Fraction], *, rows: int, within: Within, beta: float
    ) -> Coefficients | None:
        """Of so many rows that are evenly spread over all declared ranges, no column depending on another."""
        size = len(self.columns) + 1
        even = rows * np.diag([1.0, *(1 / 3,) * (size - 1)])
        return self.coefficients(even, self.variances(measured), within=within, beta=beta)

    def example(
        self, measured: Sequence[float | Fraction], *, rows: int, within: Within, beta: float
    ) -> tuple[float, str] | None:
        found = self.expected(measured, rows=rows, within=within, beta=beta)
        if found is None:
            return None
        widths = found.half_widths.tolist()
        (part,) = self.statistic.parts(self.schema.universe)
        labels = tuple(f"the {row}" for row in part.rows)
        said = within_of(labels, tuple(map(Fraction, widths)), after="")
        return max(widths), (
            f"For example, if {rows:,} {self.schema.counted.many} are counted, their values are evenly spread over the "
            f"declared ranges, and no column depends on another, {said} Columns that use only a part of their range, "
            "or go together, have wider intervals, or none."
        )

    def read(self, measured: NoisySums) -> Reading:
        values = np.array([float(v / c.places) for v, c in zip(measured.values, self.coordinates, strict=True)])
        moments = np.tensordot(values, self._moments, axes=1)
        assert measured.within is not None
        found = self.coefficients(
            moments, self.variances(measured.variances), within=measured.within, beta=measured.beta
        )
        rows = self.counted_as(
            float(values[0]),
            {
                "answered": found is not None,
                "moments of scaled columns": {
                    "columns": ["1", *(each.label for each in self.columns)],
                    "sums": moments.tolist(),
                },
            },
        )
        size = len(self.columns)
        if found is None:
            return Reading(
                estimates=(np.zeros(size),),
                half_widths=(inf,),
                chosen=(NOTHING_SAID,) * size,
                says="any coefficient is possible: the noise hides how the predictors vary.",
                **rows,
            )
        given = zip(found.estimates.tolist(), found.half_widths.tolist(), strict=True)
        ends = np.array([rounded_outwards(Fraction(each - width), Fraction(each + width)) for each, width in given])
        places = [places_of(2 * width) for width in found.half_widths.tolist()]
        estimates = np.array([round(each, last) for each, last in zip(found.estimates.tolist(), places, strict=True)])
        many = self.schema.counted.many
        return Reading(
            estimates=(estimates,),
            half_widths=(outwards(Fraction(float(np.abs(ends - estimates[:, None]).max()))),),
            spans=(ends,),
            says=f"every one of the {size:,} coefficients of the whole population, from which the {many} were drawn at "
            f"random, lies in its interval{self._after}, all at once. The intervals cover the noise and the sampling.",
            **rows,
        )

    @property
    def _after(self) -> str:
        return after_clamping(tuple(each.attribute for each in self.columns if each.category < 0))


def noise_measure(gram: Floats, into: Floats, noise: Floats) -> float | None:
    """√E ‖G^(-1/2) N G^(-1/2)‖² of the noise on a matrix of moments; None where that is not positive definite."""
    try:
        root = np.linalg.inv(np.linalg.cholesky(gram))
    except np.linalg.LinAlgError:
        return None
    squares = ((root @ into @ root.T) ** 2).sum(axis=(1, 2))
    return float(np.sqrt((noise * squares).sum()))
