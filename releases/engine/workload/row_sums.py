"""The whole-number sums over rows that sums, means, second moments and votes are read off.

    statistic --measurements--> Measurement     public: which sums, what one row adds to each, what one unit changes
    Measurement.totals(counts)                  the exact sums: private
    noisy sums, each within its reach --read--> what is published, with what its bound says

Columns are fixed points in units of their last place, and a sum is a Python integer, so that neither the order of the
terms nor the size of the table matters.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from itertools import combinations_with_replacement
from math import ceil, floor, log10
from operator import mul
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from releases.engine.domain.attribute import Attribute
from releases.engine.domain.privacy import NeighbouringRelation
from releases.engine.domain.schema import Schema
from releases.engine.errors import InvalidInput
from releases.engine.tables.counts import Tally
from releases.engine.workload.kinds.votes import Votes
from releases.engine.workload.row_sentences import after_clamping, shown, within
from releases.engine.workload.sensitivity import (
    ONE,
    Case,
    Changes,
    Span,
    centred_span,
    changes,
    column_span,
    product_span,
    vote_changes,
)

#: Published numbers are doubles: their rounding is far below this share of any half width.
_ROUNDING = 1e-9
#: Distinct values added up at a time.
_CHUNK = 1 << 16


class Sharing(Protocol):
    """How a law of noise shares its budget out between sums and the number of rows."""

    @property
    def beside_replaced(self) -> Fraction:
        """The count's share where rows are replaced: what is left beside half of every sum's change."""
        ...

    def share_of_count(self, *, sums: int, own: float, shared: float) -> float:
        """The share in (0, 1) for a count that `sums` sums use, which get equal parts of the rest.

        It minimises the sum of the widths, in which the noise of the sums enters `own` times and the count's `shared`
        times.
        """
        ...


class Within(Protocol):
    """What a weighted sum of noise and a normal variable independent of it stay within together."""

    def __call__(self, deviations: NDArray[np.float64], variance: float, beta: float) -> float:
        """A q with Pr[|Σ X_l + Z| > q] <= beta.

        Args:
            deviations: of the X_l, which are draws of the noise's law, scaled.
            variance: of Z.
        """
        ...


class Tallies(Protocol):
    """A table as sums see it: see `releases.engine.tables.counts.Counts.tally`."""

    def tally(self, names: tuple[str, ...]) -> Tally: ...


@dataclass(frozen=True, kw_only=True)
class Coordinate:
    """One sum over rows.

    Attributes:
        label: what it is, for people.
        span: what one row adds to it.
        places: how many of its units are one unit of the columns.
    """

    label: str
    span: Span
    places: int


ROWS_COUNTED = Coordinate(label="the number of rows", span=ONE, places=1)


@dataclass(frozen=True, kw_only=True)
class NoisySums:
    """Noisy sums: with the probability of the bound, each truth is within its reach, all at once.

    Attributes:
        values: in units of the coordinates.
        reach: in the same units.
        variances: of the noise, in those units squared; for estimates alone, no bound needs them.
        pair_reach: see `row_means.PairedMeans`; empty where no pairs are measured.
        within, beta: what several draws stay within together, and how often a bound may be broken: see
            `row_regression`.
    """

    values: tuple[Fraction, ...]
    reach: tuple[Fraction, ...]
    variances: tuple[float, ...] = ()
    pair_reach: tuple[float, ...] = ()
    within: Within | None = None
    beta: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What is published of noisy sums, in units of the columns.

    Attributes:
        estimates: one array a part.
        half_widths: one a part.
        says: what the bound says, after "With probability 95%, ".
        total: the noisy number of rows, where it was measured.
        notes: further paid-for facts.
        spans: the ends of each number's interval, shape (numbers, 2) a part, where it is not the half width around it.
        chosen: what is said in place of each number, where none can be.
    """

    estimates: tuple[NDArray[np.float64], ...]
    half_widths: tuple[float, ...]
    says: str
    total: float = 0.0
    spans: tuple[NDArray[np.float64], ...] = ()
    notes: dict[str, Any] = field(default_factory=dict)
    chosen: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Measurement(ABC):
    """Which sums over rows are taken. Public; `totals` alone looks at the table."""

    #: Said in a plan, where a statistic can be measured in several forms.
    form: ClassVar[str] = ""
    #: Whether its bound is tested on real tables rather than proved.
    is_tested: ClassVar[bool] = False
    schema: Schema

    @property
    def pairs(self) -> int:
        """How many pairs of sums it takes whose total is a number of rows: see `row_means.PairedMeans`."""
        return 0

    @property
    @abstractmethod
    def coordinates(self) -> tuple[Coordinate, ...]: ...

    @property
    def most_weight(self) -> int:
        """How often a row counts at most, in units of the last place of its weight."""
        return 1

    @property
    def counted(self) -> Coordinate:
        """The number of rows."""
        return ROWS_COUNTED

    def counted_as(self, rows: float, notes: dict[str, Any]) -> dict[str, Any]:
        """The noisy number of rows and further facts, as a `Reading` has them; the sum of weights is no such number."""
        if self.counted is not ROWS_COUNTED:
            return {"notes": {"noisy sum of the weights": rows, **notes}}
        return {"total": max(0.0, rows), "notes": {"noisy number of rows": rows, **notes}}

    @property
    def moved(self) -> Changes:
        """What one privacy unit can change in the totals."""
        return changes([each.span for each in self.coordinates], self.schema, weight=self.most_weight)

    @property
    def base(self) -> Case:
        """What the noise of each sum is in proportion to, for equal shares."""
        return self.moved.most

    def shares(self, law: Sharing) -> tuple[Fraction, ...]:
        """Each sum's share of the budget.

        Equal ones make the widths, each over its own sensitivity, least in their sum and in the largest: Σ 1/share and
        Σ 1/√share are convex and symmetric.
        """
        return (Fraction(1, len(self.coordinates)),) * len(self.coordinates)

    @abstractmethod
    def totals(self, counts: Tallies) -> list[int]:
        """The exact sums. Private: they leave `Plan.run` with noise only."""

    def units(self, steps: int) -> tuple[Fraction, ...]:
        """Of the lattice of each sum: one that moves by more than so many of its units is rounded to as many steps."""
        return tuple(max(Fraction(1), Fraction(most, steps)) for most in self.moved.most)

    def rounded(self, totals: Sequence[int], units: Sequence[Fraction]) -> list[int]:
        """The sums in whole steps of their lattices."""
        return [floor(total / unit + Fraction(1, 2)) for total, unit in zip(totals, units, strict=True)]

    def described(self) -> tuple[Coordinate, ...]:
        """The sums whose noise a plan writes out: those that have no other's."""
        return self.coordinates

    def loss(self, reach: Sequence[Fraction], variances: Sequence[Fraction]) -> Fraction:
        """What the forms of a statistic compete in, the least wins; public."""
        return Fraction(0)

    @abstractmethod
    def widths(self, reach: Sequence[Fraction]) -> tuple[Fraction, ...] | None:
        """Half widths of the parts where the noise alone decides them, so that they are known before; else None."""

    @abstractmethod
    def read(self, measured: NoisySums) -> Reading: ...

    def formula(self, quantile: str, upper: str) -> str:
        """The bound in LaTeX.

        Args:
            quantile: of the noise on one sum, all of them within it at once.
            upper: its closed upper bound.
        """
        return rf"\alpha_j = {quantile} \le {upper}"


@dataclass(frozen=True, kw_only=True)
class OfColumns(Measurement):
    """Sums of single columns, in which a row counts once, or as often as its weight says.

    With weights, the coordinates' spans are what a row of weight 1 adds, their places those of the columns times those
    of the weight, and the number of rows is the sum of the weights, all in whole numbers of both last places.

    Attributes:
        names: the columns, in the order asked.
        weight: the column of weights, from 0 to its cap: see `releases.engine.workload.weights`.
    """

    names: tuple[str, ...]
    weight: str = ""

    def __post_init__(self) -> None:
        if self.weight and not (self.schema.universe[self.weight].lowest == 0 and self.schema.rows_may_vanish):
            raise InvalidInput("weighted_by", self.weight, "must begin at 0 and drop rows without a weight")

    @property
    def most_weight(self) -> int:
        return self.schema.universe[self.weight].highest if self.weight else 1

    @property
    def weight_places(self) -> int:
        """How many of its units are a weight of 1."""
        return 10 ** self.schema.universe[self.weight].decimals if self.weight else 1

    @property
    def counted(self) -> Coordinate:
        if not self.weight:
            return ROWS_COUNTED
        return replace(ROWS_COUNTED, label=f"the sum of {self.weight}", places=self.weight_places)

    def units(self, steps: int) -> tuple[Fraction, ...]:
        """Weighted sums are not rounded."""
        return (Fraction(1),) * len(self.coordinates) if self.weight else super().units(steps)

    def weighed(self, counts: Tallies, name: str) -> Tally:
        """The values of a column, and behind them the weights."""
        return counts.tally((name, self.weight) if self.weight else (name,))

    def total(self, tally: Tally, *positions: int) -> int:
        """Σ weight · Π values, of what was weighed."""
        return sum_of_products(tally, (*positions, -1) if self.weight else positions)

    @property
    def noun(self) -> str:
        """The article of what is read off, with an adjective where it is weighted."""
        return "the weighted" if self.weight else "the"

    @property
    def after(self) -> str:
        """What a bound on noise does not tell, at the end of its sentence."""
        return after_clamping(self.columns, weight=self.schema.universe[self.weight] if self.weight else None)

    @property
    def columns(self) -> tuple[Attribute, ...]:
        return tuple(self.schema.universe[name] for name in self.names)

    @property
    def sizes(self) -> tuple[Fraction, ...]:
        """The largest size of each column, in its own units."""
        return tuple(Fraction(column_span(each).largest, 10**each.decimals) for each in self.columns)

    @property
    def summed(self) -> tuple[str, ...]:
        """What is added up, as people call it."""
        return self.names

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(f"{self.noun} sum of {each}" for each in self.summed)

    def loss(self, reach: Sequence[Fraction], variances: Sequence[Fraction]) -> Fraction:
        """The half widths, each over the largest size of its column, added up."""
        return sum(_over_sizes(self.widths(reach), self.sizes), Fraction(0))


@dataclass(frozen=True, kw_only=True)
class PlainSums(OfColumns):
    """The sum of each column."""

    form: ClassVar[str] = "the sum of each column"

    @cached_property
    def coordinates(self) -> tuple[Coordinate, ...]:
        return tuple(
            Coordinate(label=label, span=column_span(each), places=10**each.decimals * self.weight_places)
            for label, each in zip(self.labels, self.columns, strict=True)
        )

    def rows(self, counts: Tallies) -> int:
        return self.total(self.weighed(counts, self.names[0]))

    def totals(self, counts: Tallies) -> list[int]:
        return [self.total(self.weighed(counts, name), 0) for name in self.names]

    def widths(self, reach: Sequence[Fraction]) -> tuple[Fraction, ...]:
        return over_places(reach, self.coordinates)

    def read(self, measured: NoisySums) -> Reading:
        return _read_separately(measured, self.coordinates, after=self.after)


@dataclass(frozen=True, kw_only=True)
class SumOfWeights(PlainSums):
    """The sum of the weights themselves."""

    form: ClassVar[str] = "the sum of the weights"

    @property
    def after(self) -> str:
        return after_clamping((), weight=self.columns[0])

    def units(self, steps: int) -> tuple[Fraction, ...]:
        return (Fraction(1),)


@dataclass(frozen=True, kw_only=True)
class AboutMiddle(Measurement):
    """Each of some sums about the middle of what a row can add, and the number of rows; in halves of their units."""

    @property
    @abstractmethod
    def plain(self) -> PlainSums | Moments:
        """The sums themselves."""

    @cached_property
    def coordinates(self) -> tuple[Coordinate, ...]:
        sums = (
            Coordinate(label=f"{each.label} about its middle", span=centred_span(each.span), places=2 * each.places)
            for each in self.plain.coordinates
        )
        return (*sums, self.counted)

    @property
    def middles(self) -> tuple[int, ...]:
        """The middle of what a row adds to each, L + U halves of a unit."""
        return tuple(each.span.lowest + each.span.highest for each in self.plain.coordinates)

    def shares(self, law: Sharing) -> tuple[Fraction, ...]:
        """The count's share, then equal parts of the rest.

        Where rows are added, the count and the sums change together. Where they are replaced, a row that stays changes
        no count, and one that vanishes changes each sum by half as much as one replaced: the sums have the whole budget
        between them, and beside half of it the count gets what is left, at no cost to them.
        """
        sums = len(self.middles)
        if self.schema.neighbours is NeighbouringRelation.REPLACE:
            return (Fraction(1, sums),) * sums + (law.beside_replaced,)
        own, shared = self._weights()
        share = law.share_of_count(sums=sums, own=own, shared=shared)
        # Any share is private; a simple rational next to the best is as good.
        of_count = Fraction(min(63, max(1, round(64 * share))), 64)
        return ((1 - of_count) / sums,) * sums + (of_count,)

    @abstractmethod
    def _weights(self) -> tuple[float, float]:
        """How often the noise of the sums and of the count enter the answers."""

    def totals(self, counts: Tallies) -> list[int]:
        sums, rows = self.plain.totals(counts), self.plain.rows(counts)
        return [2 * each - middle * rows for each, middle in zip(sums, self.middles, strict=True)] + [rows]


@dataclass(frozen=True, kw_only=True)
class _ReadAboutMiddle(AboutMiddle):
    """Each sum as Σ (v - c) + c n, with c = (L + U) / 2 the middle of the range and n the number of rows.

    A row added moves the first term by (U - L) / 2 at most, and the plain sum by max(|L|, |U|) = (U - L) / 2 + |c|. For
    one column that gains nothing: with shares 1 - s and s of epsilon the noises have deviations in proportion to
    a / (1 - s) and b / s, where a = (U - L) / 2 and b = |c|; together at least (a^(2/3) + b^(2/3))^(3/2) >= a + b, what
    the plain sum has. With Gaussian noise and shares of rho the least is exactly a + b. Several columns share the
    count, though, and that gains where their ranges lie far from 0 (years of birth). A plan takes the narrower form.
    """

    def _weights(self) -> tuple[float, float]:
        # Each sum's terms over the largest size: (U - L) / 2 for its own noise, |c| for the count's.
        spans = [each.span for each in self.plain.coordinates]
        own = sum(each.width / (2 * each.largest) for each in spans)
        shared = sum(abs(middle) / (2 * each.largest) for middle, each in zip(self.middles, spans, strict=True))
        return own, shared

    def widths(self, reach: Sequence[Fraction]) -> tuple[Fraction, ...]:
        *sums, rows = reach
        together = [each + abs(middle) * rows for each, middle in zip(sums, self.middles, strict=True)]
        return over_places(together, self.coordinates)

    def read(self, measured: NoisySums) -> Reading:
        *sums, rows = measured.values
        values = [each + middle * rows for each, middle in zip(sums, self.middles, strict=True)]
        widths = self.widths(measured.reach)
        return Reading(
            estimates=tuple(np.array([float(value)]) for value in over_places(values, self.coordinates)),
            half_widths=tuple(map(outwards, widths)),
            says=within(self.plain.labels, widths, after=self.plain.after),
            **self.counted_as(float(rows / self.counted.places), {}),
        )

    def formula(self, quantile: str, upper: str) -> str:
        return rf"\alpha_j = a_j + \left|\tfrac{{L_j + U_j}}{{2}}\right| b,\quad a_j, b = {quantile} \le {upper}"


@dataclass(frozen=True, kw_only=True)
class CentredSums(_ReadAboutMiddle, OfColumns):
    """The sum of each column read about its middle."""

    form: ClassVar[str] = "the sum of each column about the middle of its range, and the number of rows"

    @cached_property
    def plain(self) -> PlainSums:
        return PlainSums(schema=self.schema, names=self.names, weight=self.weight)


class OfProducts(OfColumns):
    """Sums of the products of every two columns, each with itself included."""

    @property
    def products(self) -> tuple[tuple[str, str], ...]:
        return tuple(combinations_with_replacement(self.names, 2))

    @property
    def summed(self) -> tuple[str, ...]:
        return tuple(f"{one} × {other}" for one, other in self.products)

    def units(self, steps: int) -> tuple[Fraction, ...]:
        """Weighted ones are rounded too: a row moves each by at most its weight's cap times the product's size, and
        rounding is monotone, as `Changes.on_lattice` needs."""
        return Measurement.units(self, steps)


@dataclass(frozen=True, kw_only=True)
class Moments(OfProducts):
    """The sum of the product of every pair of columns, each with itself included: the Gram matrix's upper triangle.

    With rows in the unit ball the whole matrix moves by 1 in Frobenius norm when a row is added (the notes' example).
    Columns here are bounded one by one, so that entry (i, j) moves by M_i M_j, with M_i the largest size of column i;
    with weights up to C by C M_i M_j.
    """

    form: ClassVar[str] = "the sum of each product"

    @property
    def sizes(self) -> tuple[Fraction, ...]:
        """The largest size of each product, in its own units."""
        return tuple(Fraction(each.span.largest, each.places) for each in self.coordinates)

    def loss(self, reach: Sequence[Fraction], variances: Sequence[Fraction]) -> Fraction:
        return max(_over_sizes(self.widths(reach), self.sizes))

    def _weighed(self, counts: Tallies) -> Tally:
        return counts.tally((*self.names, self.weight) if self.weight else self.names)

    def rows(self, counts: Tallies) -> int:
        return self.total(self._weighed(counts))

    @cached_property
    def coordinates(self) -> tuple[Coordinate, ...]:
        columns = {each.name: each for each in self.columns}
        spans = {name: column_span(each) for name, each in columns.items()}
        return tuple(
            Coordinate(
                label=label,
                span=product_span(spans[one], spans[other], is_square=one == other),
                places=10 ** (columns[one].decimals + columns[other].decimals) * self.weight_places,
            )
            for label, (one, other) in zip(self.labels, self.products, strict=True)
        )

    def totals(self, counts: Tallies) -> list[int]:
        tally = self._weighed(counts)
        return [self.total(tally, self.names.index(one), self.names.index(other)) for one, other in self.products]

    def widths(self, reach: Sequence[Fraction]) -> tuple[Fraction, ...]:
        return over_places(reach, self.coordinates)

    def read(self, measured: NoisySums) -> Reading:
        return _read_separately(measured, self.coordinates, after=self.after)


@dataclass(frozen=True, kw_only=True)
class CentredMoments(_ReadAboutMiddle, OfProducts):
    """The sum of each product read about its middle: where there are many, they share the count.

    A product in [L, U] is moved by (U - L) / 2 about its middle, and a square, which is never below 0, by half of what
    it is itself. Of m products from 0 to U the widths add up to (√m + 1)² / 2 where the plain sums have m (Laplace), so
    that from six on, three columns, this may be the narrower form. One row need not have every product at an end at
    once, so the declared change is an upper bound.
    """

    form: ClassVar[str] = "the sum of each product about the middle of its range, and the number of rows"

    @cached_property
    def plain(self) -> Moments:
        return Moments(schema=self.schema, names=self.names, weight=self.weight)

    def loss(self, reach: Sequence[Fraction], variances: Sequence[Fraction]) -> Fraction:
        """Plain sums have one width over every size, but for a step of a lattice: less than it makes none wider."""
        return max(_over_sizes(self.widths(reach), self.plain.sizes))


@dataclass(frozen=True, kw_only=True)
class Ballots(Measurement):
    """How many rows vote for each column, where a row has so many ballots and gives them in the order asked."""

    statistic: Votes

    @cached_property
    def coordinates(self) -> tuple[Coordinate, ...]:
        return tuple(
            Coordinate(label=f"votes for {name}", span=Span(lowest=0, highest=1), places=1)
            for name in self.statistic.attributes
        )

    @property
    def moved(self) -> Changes:
        return vote_changes(self.schema, columns=len(self.statistic.attributes), ballots=self.statistic.ballots)

    def totals(self, counts: Tallies) -> list[int]:
        names, universe = self.statistic.attributes, self.schema.universe
        tally = counts.tally(names)
        left = np.full(tally.counts.shape, self.statistic.ballots)
        totals = []
        for name, values in zip(names, tally.values, strict=True):
            voted = (values == universe[name].categories.index(self.statistic.category)) & (left > 0)
            left -= voted
            totals.append(sum(tally.counts[voted].tolist()))
        return totals

    def widths(self, reach: Sequence[Fraction]) -> tuple[Fraction, ...]:
        # All counts have the same noise and stand in one part.
        return (max(reach),)

    def read(self, measured: NoisySums) -> Reading:
        (width,) = self.widths(measured.reach)
        many = len(self.coordinates)
        counts = "the count is" if many == 1 else f"every one of the {many:,} counts is"
        within = self.schema.counted.text("1" if width == 1 else shown(width, up=True))
        return Reading(
            estimates=(np.array([float(value) for value in measured.values]),),
            half_widths=(float(width),),
            says=f"{counts} within {within} of the truth{'' if many == 1 else ', all at once'}.",
        )


# Arithmetic


def sum_of_products(tally: Tally, positions: tuple[int, ...]) -> int:
    """Σ counts · Π values over the combinations, exactly: in Python's integers no sum of any table overflows."""
    total = 0
    for start in range(0, tally.counts.size, _CHUNK):
        terms = tally.counts[start : start + _CHUNK].tolist()
        for position in positions:
            terms = list(map(mul, terms, tally.values[position][start : start + _CHUNK].tolist()))
        total += sum(terms)
    return total


def _over_sizes(widths: Sequence[Fraction] | None, sizes: Sequence[Fraction]) -> list[Fraction]:
    """Half widths, each over the largest size of what is added up."""
    assert widths is not None
    return [width / size for width, size in zip(widths, sizes, strict=True)]


def over_places(values: Sequence[Fraction], coordinates: Sequence[Coordinate]) -> tuple[Fraction, ...]:
    """Values of the first coordinates in units of the columns."""
    return tuple(value / coordinate.places for value, coordinate in zip(values, coordinates, strict=False))


def outwards(width: Fraction) -> float:
    """A half width as a double, with room for the rounding of the estimate beside it."""
    return float(width) * (1 + _ROUNDING)


def rounded_outwards(low: Fraction, high: Fraction) -> tuple[float, float]:
    """The ends of an interval with four digits of its width."""
    scale = 10.0 ** places_of(float(high - low))
    return floor(float(low) * scale) / scale, ceil(float(high) * scale) / scale


def places_of(width: float) -> int:
    """Decimals that show four digits of a width."""
    return max(0, 3 - floor(log10(width or 1.0)))


def _read_separately(measured: NoisySums, coordinates: tuple[Coordinate, ...], *, after: str) -> Reading:
    """Each sum is the answer of its own part."""
    widths = over_places(measured.reach, coordinates)
    return Reading(
        estimates=tuple(np.array([float(value)]) for value in over_places(measured.values, coordinates)),
        half_widths=tuple(map(outwards, widths)),
        says=within(tuple(each.label for each in coordinates), widths, after=after),
    )
