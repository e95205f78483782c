"""Several quantiles of one column by the exponential mechanism, each drawn from the rows between those drawn before it.

The middle one of the shares is drawn from all rows, as in `quantiles`. It cuts the rows, and the range, in two; those
below it are drawn from the rows below and those above it from the others, in the same way, until none is left. For the
share q, between the shares p and r of the two that were drawn on either side of it (0 and 1 at the ends), a part's own
share is (q - p) / (r - p). m shares have ceil(log2(m + 1)) levels, and each level has an equal part of epsilon, where
draws from the whole table would each have 1/m of it (Kaplan, Schnapp and Stemmer 2022, Algorithm 1).

Equal rows. Their recursion is for values that differ: a pile of equal rows in which two quantiles lie goes to one side
as a whole, and the next share is then of other rows than it was meant for. So value v becomes W places v W, ...,
v W + W - 1, and of the rows at v the i-th, i from 0, has the place v W + s(i mod W), s an order of 0 ... W - 1 that
spreads any first few evenly (bit reversal). Which row is which does not matter: the table of places follows from the
counts of values. A row more or fewer at v is a row more or fewer at one place, the last that v was given, and nothing
else moves. Neighbours of either kind so remain neighbours of the same kind, whatever W, and all that follows is about
the tables of places.

Privacy, epsilon_1-DP for each level and a bounded range of it, for a unit of g rows and either relation. What was drawn
before is the same for both tables; the parts of a level are then fixed stretches of the range that do not overlap, so
each row is in one part, that of its place, of both tables. A draw with the own share q depends on the rows of its part
alone, and a row that comes to it or leaves it moves each utility by at most max(q, 1 - q) (proved in `quantiles`). Its
rate is epsilon_1 / (2 g c max(q, 1 - q)), c = 1 under add/remove and 2 under replacement, so the log ratio of its two
laws keeps within an interval of length k epsilon_1 / (g c), for k rows that come or leave. Of g rows added or removed
these k add up to g at most over all parts; of g rows replaced to 2 g, because a row may leave one part and come to
another. Draws of one level are independent of one another given those before: their log ratios add up, and so do the
intervals, to at most epsilon_1. Levels compose in sequence (Dwork and Roth 2014, Theorems 3.10 and 3.16).

Each draw is from the whole range, and what falls outside its part is moved to the nearest end of it, which is
post-processing: so the form of every draw is public.

Groups, one table of their own each, are more parts of the same levels. Where the first level is one part of all rows, a
row replaced stays in it, and its sensitivity is that of `quantiles`, at most g.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from releases.engine.accounting.events import Event, RepeatedEvent
from releases.engine.domain.attribute import Attribute
from releases.engine.domain.schema import Schema
from releases.engine.mechanisms.quantiles import (
    FEWEST_PIECES,
    Ends,
    draw_event,
    draw_place,
    rank_sensitivity,
    values_of,
)
from releases.engine.noise.randomness import Randomness
from releases.engine.tables.counts import Tally

#: W, where a range of so many values leaves room for it in 64 bits.
_MOST_BITS, _ROOM = 10, 60


def levels_of(quantiles: int) -> int:
    """ceil(log2(m + 1))."""
    return quantiles.bit_length()


def counts_moved(schema: Schema) -> int:
    """The most that the counts of cells that do not overlap move between neighbours, together: g c."""
    return schema.rows_of_unit * max(schema.changes_of_a_row(added=1, replaced=lambda: 2))


def sensitivity_in_parts(schema: Schema, at: Fraction) -> Fraction:
    """The most that the utilities of draws from parts that do not overlap move, together, in rows."""
    return counts_moved(schema) * max(at, 1 - at)


@dataclass(frozen=True, kw_only=True, slots=True)
class Recursion:
    """Draws to be made for some shares.

    Attributes:
        shares: of the rows, rising.
        epsilon: of each level.
        schema: with the unit and the relation.
        groups: how many tables they are made from, whose rows are those of one.
    """

    shares: tuple[Fraction, ...]
    epsilon: Fraction
    schema: Schema
    groups: int = 1

    @property
    def levels(self) -> int:
        return levels_of(len(self.shares))

    @property
    def event(self) -> Event:
        return RepeatedEvent(event=draw_event(self.epsilon), times=self.levels)

    def sensitivity(self, part: RowsPart) -> Fraction:
        """The most its utility moves, with those of all other parts of its level, in rows."""
        is_alone = part.is_whole and self.groups == 1
        return (rank_sensitivity if is_alone else sensitivity_in_parts)(self.schema, part.own_share)

    def draw(self, tally: Tally, attribute: Attribute, rng: Randomness) -> list[int]:
        """A value for each share, in units of the last place, from the rows of one group."""
        bits = bits_of_places(attribute) if len(self.shares) > 1 else 0
        found = self.draw_places(in_places(tally, attribute.lowest, bits), places_of(attribute, bits), rng)
        return [attribute.lowest + (place >> bits) for place in found]

    def draw_places(self, rows: Tally, everything: Ends, rng: Randomness) -> list[int]:
        """The same of places, which do not fall."""
        return self._draw(rows, everything, RowsPart.whole(self.shares), rng, everything)

    def _draw(self, rows: Tally, everything: Ends, part: RowsPart, rng: Randomness, within: Ends) -> list[int]:
        if not part.shares:
            return []
        share, moved = part.own_share, self.sensitivity(part)
        found = draw_place(rows, everything, share, epsilon=self.epsilon, sensitivity=moved, rng=rng)
        place = min(max(found, within.lowest), within.highest)
        below, above = part.cut()
        is_below = rows.values[0] < place
        first, second = Ends(lowest=within.lowest, highest=place), Ends(lowest=place, highest=within.highest)
        return [
            *self._draw(_some(rows, is_below), everything, below, rng, first),
            place,
            *self._draw(_some(rows, ~is_below), everything, above, rng, second),
        ]


@dataclass(frozen=True, kw_only=True, slots=True)
class RowsPart:
    """The shares that are drawn from one part of the rows.

    Attributes:
        low: the share of all rows that lies below the part, as far as is known.
        high: the share below its upper end.
    """

    shares: tuple[Fraction, ...]
    low: Fraction
    high: Fraction

    @staticmethod
    def whole(shares: tuple[Fraction, ...]) -> RowsPart:
        return RowsPart(shares=shares, low=Fraction(0), high=Fraction(1))

    @property
    def is_whole(self) -> bool:
        return self.low == 0 and self.high == 1

    @property
    def middle(self) -> Fraction:
        return self.shares[len(self.shares) // 2]

    @property
    def own_share(self) -> Fraction:
        """Of the part's rows."""
        return (self.middle - self.low) / (self.high - self.low)

    def cut(self) -> tuple[RowsPart, RowsPart]:
        half = len(self.shares) // 2
        return (
            RowsPart(shares=self.shares[:half], low=self.low, high=self.middle),
            RowsPart(shares=self.shares[half + 1 :], low=self.middle, high=self.high),
        )


def bits_of_places(attribute: Attribute) -> int:
    """The logarithm of W, from the number of values, which is public."""
    room = _ROOM if values_of(attribute) > FEWEST_PIECES else FEWEST_PIECES.bit_length() - 1
    return max(0, min(_MOST_BITS, room - (values_of(attribute) - 1).bit_length()))


def places_of(attribute: Attribute, bits: int) -> Ends:
    """All places."""
    return Ends(lowest=0, highest=(values_of(attribute) << bits) - 1)


def in_places(tally: Tally, lowest: int, bits: int) -> Tally:
    """The table of places, counted from 0, of W = 2**bits for each value. As private as the table."""
    most, size = 1 << bits, tally.counts.size
    used = np.minimum(tally.counts, most)
    origin = np.repeat(np.arange(size), used)
    turn = np.arange(origin.size) - np.repeat(np.cumsum(used) - used, used)
    full, rest = np.divmod(tally.counts, most)
    places = ((tally.values[0][origin] - lowest) << bits) + _spread(bits)[turn]
    return Tally(values=(places,), counts=full[origin] + (turn < rest[origin]))


def _spread(bits: int) -> NDArray[np.int64]:
    """0 ... 2**bits - 1 in the order of their reversed bits."""
    order = np.zeros(1, dtype=np.int64)
    for _ in range(bits):
        order = np.concatenate([2 * order, 2 * order + 1])
    return order


def _some(rows: Tally, chosen: NDArray[np.bool_]) -> Tally:
    return Tally(values=(rows.values[0][chosen],), counts=rows.counts[chosen])
