"""A quantile by the exponential mechanism: a value is the likelier, the nearer its rank is to the one asked for.

The range is every fixed point from the column's lowest to its highest declared value, so the answer shows nothing of
which values occur. With q the share asked for, n the rows, L(y), E(y), G(y) the rows below y, at y and above y, the
utility of y is minus the distance of q n from the ranks that y has,

    u(y) = -max(L - q n, q n - L - E, 0) = -max((1 - q) L - q (E + G), q G - (1 - q) (L + E), 0).

A value has every rank from L to L + E: with the more usual -|(1 - q) L - q G| (Smith 2011, where no two values tie) the
value just below a pile of equal rows may beat the pile that holds the quantile.

Sensitivity, for a unit of g rows. n is private, so each of the two forms is written with rows alone. A row added below
y adds 1 - q to the first and takes it from the second; one at y takes q from the first and 1 - q from the second; one
above y takes q from the first and adds it to the second. The larger of both and 0 moves by at most what they move:

*   add or remove: g max(q, 1 - q); for a median half a row;
*   replace: a row from below y to above it takes 1 from the first and adds 1 to the second, and no change is larger:
    g. A row that a declared rule drops comes or goes alone, which is the case above: no more.

Both are reached (a test looks at all neighbours of small tables), and at once in both directions, below and above the
quantile, so 2 * sensitivity in the exponent cannot be improved: P(y) proportional to exp(epsilon u(y) / (2
sensitivity)) is a bounded range of epsilon (McSherry and Talwar 2007, Theorem 6; Dwork and Roth 2014, Theorem 3.10).

Accuracy. Some value has u = 0, so with |R| fixed points u(y) < -alpha has probability at most odds / (1 + odds), odds =
(|R| - 1) exp(-epsilon alpha' / (2 sensitivity)), alpha' the least value above alpha that u takes. For the median this
is reached by 2 alpha' rows with one value in common. The bound is in rows: how far the answer is from the quantile
on the column's own scale depends on how close together the rows lie there, which is private.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from math import ceil

import numpy as np
from numpy.typing import NDArray

from releases.engine.accounting.events import Event, ExponentialMechanismEvent
from releases.engine.bounds.accuracy import Bound, Proof
from releases.engine.bounds.selection_error import exponential_miss, least_alpha
from releases.engine.domain.privacy import NeighbouringRelation, decimal_text
from releases.engine.domain.universe import Attribute, Schema, plain
from releases.engine.estimation.result import Result
from releases.engine.mechanisms.base import Mechanism, Plan, Progress, Request, Work, infeasible, register
from releases.engine.mechanisms.choices import epsilon_of_each, statistic_of
from releases.engine.noise.randomness import Randomness, random_below
from releases.engine.noise.selection import exponential_mechanism
from releases.engine.tables.counts import Counts, Tally
from releases.engine.workload.statistics import Quantile

#: Ranks are counted in units of 1 / the denominator of q, which so stay whole numbers of 64 bits.
LARGEST_DENOMINATOR = 10**6
#: As many pieces are made of the range at least, where it has so many values: see `pad`.
_FEWEST_PIECES = 1 << 12


@register
class ExponentialQuantile(Mechanism):
    name = "exponential-quantile"
    title = "Exponential mechanism on ranks"
    summary = "Draws a value, likelier the nearer its rank is to the one asked for; does not add noise to the value."
    source = "McSherry and Talwar (2007), Theorem 6; Smith, Privacy-preserving Statistical Estimation (2011)"
    options = ()
    answers = (Quantile,)

    def _plan(self, request: Request) -> Plan:
        quantile = request.statistic
        assert isinstance(quantile, Quantile)
        if quantile.at.denominator > LARGEST_DENOMINATOR:
            return infeasible(request, "It takes a share of the rows with at most six decimals.")
        attribute = request.schema.universe[quantile.attributes[0]]
        sensitivity = rank_sensitivity(request.schema, quantile.at)
        epsilon = epsilon_of_each(request.budget, draw_event, rounds=1)
        alpha = rank_error(attribute, quantile.at, epsilon=epsilon, sensitivity=sensitivity, beta=float(request.beta))
        return ExponentialQuantilePlan(
            **request.inputs(),
            epsilon=epsilon,
            sensitivity=sensitivity,
            events=(draw_event(epsilon),),
            parameters={
                "values it may draw": f"{values_of(attribute):,}",
                "epsilon": decimal_text(epsilon),
                "sensitivity of a rank": decimal_text(sensitivity),
            },
            bound=_bound(request, alpha),
            work=draws_work(1),
        )


@dataclass(frozen=True, kw_only=True)
class ExponentialQuantilePlan(Plan):
    """Draw one value.

    Attributes:
        epsilon: of the draw.
        sensitivity: the most a rank's distance moves between neighbours, in rows.
    """

    epsilon: Fraction
    sensitivity: Fraction

    def _run(self, counts: Counts, rng: Randomness, progress: Progress) -> Result:
        """The estimate is the value in the column's units, and `chosen` the same as text: the bound is in rows, so
        the value plus or minus alpha would mean nothing.
        """
        progress("Counting the table", 0.0)
        quantile = statistic_of(self)
        assert isinstance(quantile, Quantile)
        attribute = self.schema.universe[quantile.attributes[0]]
        tally = counts.tally(quantile.attributes)
        progress("Choosing", 0.5)
        value = draw_value(tally, attribute, quantile.at, epsilon=self.epsilon, sensitivity=self.sensitivity, rng=rng)
        assert self.bound is not None
        return Result(estimates=(np.array([float(value)]),), bound=self.bound, total=0.0, chosen=(plain(value),))


def values_of(attribute: Attribute) -> int:
    """|R|: how many fixed points the declared range has."""
    return attribute.highest - attribute.lowest + 1


def draw_event(epsilon: Fraction) -> Event:
    """One draw."""
    return ExponentialMechanismEvent(epsilon=epsilon)


def draws_work(draws: int) -> Work:
    """What so many draws from one column take, one after the other."""
    return Work(cells=_FEWEST_PIECES, seconds=0.4 + 0.1 * draws, bytes=_FEWEST_PIECES * 200)


def rank_error(
    attribute: Attribute, at: Fraction, *, epsilon: Fraction, sensitivity: Fraction, beta: float
) -> Fraction:
    """The least alpha, in rows, such that u is below -alpha with probability at most beta, whatever the table."""
    rate = epsilon / (2 * sensitivity * at.denominator)
    values = values_of(attribute)
    off = least_alpha(lambda units: exponential_miss(candidates=values, rate=float(rate), gap=units + 1), beta=beta)
    return Fraction(off, at.denominator)


def draw_value(
    tally: Tally, attribute: Attribute, at: Fraction, *, epsilon: Fraction, sensitivity: Fraction, rng: Randomness
) -> Decimal:
    """One value of the declared range with probability proportional to exp(epsilon u / (2 sensitivity))."""
    pieces = pad(ranked(tally, attribute, at))
    values = values_of(attribute)
    index = exponential_mechanism(
        pieces.scores,
        epsilon=epsilon,
        sensitivity=sensitivity,
        denominator=at.denominator,
        weights=None if pieces.scores.size == values else pieces.widths.tolist(),
        rng=rng,
    )
    # Every value of a piece is equally likely.
    within = random_below(int(pieces.widths[index]), rng, most=values)
    return Decimal(int(pieces.starts[index]) + within).scaleb(-attribute.decimals)


def rank_sensitivity(schema: Schema, at: Fraction) -> Fraction:
    """The most u moves between neighbours, in rows (proved at the head of this file)."""
    if schema.neighbours is NeighbouringRelation.ADD_REMOVE:
        return schema.unit.max_rows * max(at, 1 - at)
    return Fraction(schema.unit.max_rows)


@dataclass(frozen=True, kw_only=True)
class Pieces:
    """The declared range, cut into pieces of neighbouring values of one utility. As private as the table.

    Attributes:
        starts: the first value of each piece, in units of the last place.
        widths: how many values it has, at least 1; together they are all values of the range.
        scores: the utility of each, in units of 1 / the denominator of q.
    """

    starts: NDArray[np.int64]
    widths: NDArray[np.int64]
    scores: NDArray[np.int64]


def ranked(tally: Tally, attribute: Attribute, at: Fraction) -> Pieces:
    """u on the whole range: on every value that occurs, and on the stretches before, between and after them."""
    order = np.argsort(tally.values[0])
    occurring, counts = tally.values[0][order], tally.counts[order]
    up_to = np.concatenate([[0], np.cumsum(counts)])
    starts = np.empty(2 * occurring.size + 1, dtype=np.int64)
    below, at_it = np.empty_like(starts), np.zeros_like(starts)
    # Stretch, value, stretch, value, ..., stretch.
    starts[0::2] = np.concatenate([[attribute.lowest], occurring + 1])
    starts[1::2], at_it[1::2] = occurring, counts
    below[0::2], below[1::2] = up_to, up_to[:-1]
    widths = np.diff(starts, append=attribute.highest + 1)
    above = up_to[-1] - below - at_it
    a, b = at.numerator, at.denominator
    too_high, too_low = (b - a) * below - a * (at_it + above), a * above - (b - a) * (below + at_it)
    scores = -np.maximum(np.maximum(too_high, too_low), 0)
    there = widths > 0
    return Pieces(starts=starts[there], widths=widths[there], scores=scores[there])


def pad(pieces: Pieces) -> Pieces:
    """The same in as many pieces as the next power of two, at least 4,096, or as the range has values.

    How many values occur is private, and the work of the draw grows with the number of pieces: so it says nothing for
    a short range or a small table, and no more than its order of size otherwise. Single values are cut off the pieces,
    from the first on.
    """
    values = int(pieces.widths.sum())
    wanted = min(values, 1 << max(_FEWEST_PIECES.bit_length() - 1, (pieces.widths.size - 1).bit_length()))
    spare = pieces.widths - 1
    cut = np.clip(wanted - pieces.widths.size - (np.cumsum(spare) - spare), 0, spare)
    origin = np.repeat(np.arange(pieces.widths.size), 1 + cut)
    place = np.arange(wanted) - np.repeat(np.cumsum(1 + cut) - (1 + cut), 1 + cut)
    widths = np.where(place == cut[origin], pieces.widths[origin] - cut[origin], 1)
    return Pieces(starts=pieces.starts[origin] + place, widths=widths, scores=pieces.scores[origin])


def _bound(request: Request, alpha: Fraction) -> Bound:
    assert isinstance(request.statistic, Quantile)
    return Bound(
        beta=request.beta,
        half_widths=(float(alpha),),
        proof=Proof.BEFORE,
        formula=r"\alpha < \frac{2 \Delta}{\varepsilon} \ln \frac{(|R| - 1)(1 - \beta)}{\beta} + \frac{1}{b},"
        r"\quad \Delta = g \max(q, 1 - q) \text{ or } g, \quad q = \frac{a}{b}",
        source="Derived; sharpens Dwork and Roth (2014), Corollary 3.12",
        says=_says(request.statistic, alpha),
    )


def _says(quantile: Quantile, alpha: Fraction) -> str:
    rows = rank_text(alpha)
    share = f"{decimal_text(quantile.at * 100, places=6)}% of the rows"
    return (
        f"{share}, or at most {rows} fewer, have the value given or a lower one, and {share}, or at most {rows} more, "
        f"have a lower one."
    )


def rank_text(alpha: Fraction) -> str:
    """So many rows to one decimal, rounded up: a smaller number would not be true."""
    shown = ceil(alpha * 10)
    return "1 row" if shown == 10 else f"{shown // 10:,} rows" if shown % 10 == 0 else f"{shown / 10:,.1f} rows"
