"""How far one privacy unit can move sums over rows, in whole numbers, with the proofs.

A statistic here is f(D) = Σ q(x) over the rows x of the table, with q(x) a vector of integers. Rows that a declared
rule drops count as absent. So neighbouring tables differ in f by one of these, or by its opposite:

1.  ADD_REMOVE, one row: q(x). At most max(|lowest_j|, |highest_j|) in coordinate j, where one row adds lowest_j to
    highest_j to it. (With add/remove a range far from zero is expensive: the notes' total of salaries in
    [10000, 100000] moves by 100000 when a person joins, and by 90000 only when a salary is replaced. The notes
    print 90000 although they say that they mean the former.)
2.  REPLACE, one row: q(x) - q(y), at most highest_j - lowest_j.
3.  REPLACE, where the new row is dropped by a declared rule, or the old one was: q(x) again. A number's column can
    always drop a row, as text is not a number.
4.  A person with at most g rows: a sum of at most g changes of the kinds above. Under REPLACE a person's new rows may
    be fewer than the old ones, so kind 3 is among them whatever the columns are. A norm of the sum is at most g times
    the largest norm of one of them, and it is that when all g rows change alike.

So in any norm that grows with each coordinate's size, one unit moves f by at most the largest of the `Changes.cases`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import TypeAlias

from releases.engine.domain.attribute import Attribute
from releases.engine.domain.privacy import NeighbouringRelation
from releases.engine.domain.schema import Schema
from releases.engine.errors import InvalidInput
from releases.engine.workload.queries import Sensitivity

#: For each coordinate the size of its change.
Case: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Span:
    """The integers from `lowest` to `highest`: what one row can add to a sum."""

    lowest: int
    highest: int

    def __post_init__(self) -> None:
        if self.lowest > self.highest:
            raise InvalidInput("span", f"{self.lowest} to {self.highest}", "must not end below its start")

    @property
    def largest(self) -> int:
        """The largest size of a number in it: what a row added or removed can change."""
        return max(abs(self.lowest), abs(self.highest))

    @property
    def width(self) -> int:
        """What a row replaced can change."""
        return self.highest - self.lowest


#: What a row adds to the number of rows.
ONE = Span(lowest=1, highest=1)


def column_span(attribute: Attribute) -> Span:
    """The values of a number, in units of its last place."""
    return Span(lowest=attribute.lowest, highest=attribute.highest)


def centred_span(span: Span) -> Span:
    """The values of 2 v - (L + U) for v from L to U: twice the distance to the middle, a whole number always.

    Its largest size is U - L, so that adding a row moves the sum of v about the middle by (U - L) / 2 at most.
    """
    return Span(lowest=-span.width, highest=span.width)


def product_span(one: Span, other: Span, *, is_square: bool) -> Span:
    """The values of a product of two numbers, or of a number with itself: extremes lie at the ends, or at 0."""
    ends = [a * b for a in (one.lowest, one.highest) for b in (other.lowest, other.highest)]
    if not is_square:
        return Span(lowest=min(ends), highest=max(ends))
    crosses_zero = one.lowest <= 0 <= one.highest
    return Span(lowest=0 if crosses_zero else min(one.lowest**2, one.highest**2), highest=one.largest**2)


@dataclass(frozen=True, kw_only=True, slots=True)
class Changes:
    """What one privacy unit can change in a vector of integer sums.

    Attributes:
        most: for each coordinate the most it can move.
        cases: every possible change is, in every norm that grows with each coordinate's size, at most as long as one
            of these.
        rows: how many rows a unit has at most, where the cases are so many times those of one row, which hold for it in
            each coordinate by itself.
    """

    most: Case
    cases: tuple[Case, ...]
    rows: int = 1

    def l1(self, *, scales: Sequence[Fraction]) -> Fraction:
        """The greatest Σ |change_j| / scale_j: the epsilon of discrete Laplace noise of those scales.

        P(x) / P(x - change) is at most exp(|change| / scale) in each coordinate, and the draws are independent.
        """
        return max(sum((c / t for c, t in zip(case, scales, strict=True) if c), Fraction(0)) for case in self.cases)

    def l2_squared(self, *, variances: Sequence[Fraction]) -> Fraction:
        """The greatest Σ change_j² / variance_j: twice the rho of discrete Gaussian noise of those variances.

        Canonne, Kamath and Steinke (2020), Theorem 14, which has a variance of its own for each coordinate.
        """
        return max(
            sum((c * c / v for c, v in zip(case, variances, strict=True) if c), Fraction(0)) for case in self.cases
        )

    def on_lattice(self, units: Sequence[Fraction]) -> Changes:
        """The changes of the sums rounded to whole multiples of `units`, counted in those.

        Rounding is monotone and moves with whole multiples, so numbers at most c apart are rounded to multiples at
        most ⌈c / unit⌉ apart. That bounds one row's change in each coordinate. A unit's g rows may change other
        coordinates each, and each of these is rounded by itself, so g c / unit is not to be rounded up as a whole: from
        one table to its neighbour there are g steps of one row, and the norm of their sum is at most g times the
        largest.
        """
        of_rows = [Fraction(self.rows) * unit for unit in units]
        most, *cases = (tuple(self.rows * each for each in divided(case, of_rows)) for case in (self.most, *self.cases))
        return Changes(most=most, cases=tuple(cases), rows=self.rows)

    def sensitivity(self) -> Sensitivity:
        """Δ1 and Δ2² of the whole vector, where all coordinates get the same noise."""
        ones = (Fraction(1),) * len(self.most)
        return Sensitivity(l1=int(self.l1(scales=ones)), l2_squared=int(self.l2_squared(variances=ones)))


def changes(spans: Sequence[Span], schema: Schema, *, weight: int = 1) -> Changes:
    """What one unit can change in sums of numbers in these spans.

    Args:
        weight: how often a row counts at most: see `releases.engine.workload.weights`.

    Adding and dropping a row attain their case for sums of columns, and for products of columns, at a corner of the
    declared ranges; replacing attains it for sums of columns. For several products at once it is an upper bound: two
    rows need not have all products at opposite ends.
    """
    rows = schema.rows_of_unit * weight
    cases = schema.changes_of_a_row(
        added=tuple(rows * span.largest for span in spans),
        replaced=lambda: tuple(rows * span.width for span in spans),
    )
    most = tuple(max(each) for each in zip(*cases, strict=True))
    return Changes(most=most, cases=cases, rows=schema.rows_of_unit)


def vote_changes(schema: Schema, *, columns: int, ballots: int) -> Changes:
    """What one unit can change in the counts of `columns` candidates, of which a row votes for `ballots` at most.

    For equal noise on all counts: which of them change does not matter then, and the case names the first.

    A row added changes k = `ballots` of the m counts by 1: Δ1 = k, Δ2² = k (the notes' voting example). A row
    replaced leaves the ballots A and casts B; it changes the counts of the symmetric difference, which is largest,
    min(2 k, m), when A and B overlap as little as m columns allow. Both are attained if every column has another
    category; a row that vanishes changes no more. A person with at most g rows: g times that, as in `changes`.
    """
    if not 1 <= ballots <= columns:
        raise InvalidInput("ballots", ballots, f"must be 1 to {columns}, the number of columns")
    rows = schema.rows_of_unit
    replaced = schema.neighbours is NeighbouringRelation.REPLACE
    changed = min(2 * ballots, columns) if replaced else ballots
    return Changes(most=(rows,) * columns, cases=((rows,) * changed + (0,) * (columns - changed),))


def divided(case: Case, units: Sequence[Fraction]) -> Case:
    """What sums that move by so much move by in steps of a lattice."""
    return tuple(ceil(change / unit) for change, unit in zip(case, units, strict=True))
