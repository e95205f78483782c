"""Exact discrete Laplace and discrete Gaussian noise, drawn from tables of certified integers.

A floating-point sampler does not have the law its proof speaks of (Mironov 2012), and a rejection sampler
takes longer for larger noise (Jin et al. 2021). These samplers have exactly their law, and do the same work
whatever they draw. The argument, in the order in which the code follows it:

1.  Weights. `LogQuadraticLaw.weights` encloses w(x) = exp(-a x**2 - b |x|), a and b rational, between
    integers, rounding outwards at every step (`intervals`). Let Z be the sum of w over all x. What lies past
    the last listed weight is below a geometric series, because w(x + 1) / w(x) does not grow with x.
2.  Floors. f(x) = floor(2**64 * lower bound of w(x) / upper bound of Z). So f(x) <= 2**64 * P(x), where
    P(x) = w(x) / Z is the law wanted. Let F be the sum of f; beyond some x all f(x) are 0.
3.  Main draw. A uniform word is one of 2**64 places: f(x) of them lead to x, and the other 2**64 - F to the
    remainder. `AliasTable` lays the places out (Walker 1977) in integers, so none is lost or counted twice.
4.  Remainder. There, x is drawn with probability (2**64 * P(x) - f(x)) / (2**64 - F), by inversion with a
    uniform number revealed bit by bit against certified sums (`randomness.choose`): exact, slow, and reached
    less than once in 2**48 words.
5.  Hence x comes out with probability
    f(x) / 2**64 + (1 - F / 2**64) * (2**64 * P(x) - f(x)) / (2**64 - F) = P(x).
    Nowhere need f(x) be close to 2**64 * P(x): a poor bound would cost time, never the law.

A law too wide for one table is put together from draws of several: see `_WideLaplace` and `_WideGaussian`.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from math import log
from typing import TYPE_CHECKING, Protocol

import numpy as np

from releases.engine.arithmetic.intervals import CertifiedSums, Interval, ceil_div, ceil_shift, exp_interval
from releases.engine.errors import InvalidInput
from releases.engine.noise.randomness import (
    OperatingSystemRandomness,
    Randomness,
    SamplerFailure,
    StreamRandomness,
    bernoulli,
    choose,
    in_chunks,
    uniform_below,
    uniform_bits,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "LARGEST_NOISE",
    "LARGEST_SCALE",
    "AliasTable",
    "LogQuadraticLaw",
    "OperatingSystemRandomness",
    "Randomness",
    "SamplerFailure",
    "StreamRandomness",
    "Weights",
    "discrete_gaussian",
    "discrete_laplace",
    "self_test",
    "uniform_below",
    "uniform_bits",
]

#: No sampler returns anything beyond, so that noise plus a count stays within int64.
LARGEST_NOISE = (1 << 62) - 1

#: Largest scale and largest standard deviation: P(|noise| > LARGEST_NOISE) is then below exp(-1023).
LARGEST_SCALE = 1 << 52

#: Buckets of one table: 24 bytes each, so that the largest still fits the processor's second cache.
_MAX_BUCKETS = 1 << 14

#: One table lists |x| < 64 ln(2) t (Laplace) or sqrt(128 ln 2) sigma (Gaussian): below 2**14 entries here.
_WIDEST_LAPLACE_TABLE = 180
_WIDEST_GAUSSIAN_TABLE = 850

#: Bits kept beyond those asked for: the k-th weight carries the error of about k**2 roundings, and k < 2**20.
_GUARD = 64

#: Marks, among a table's values, the places that lead to the remainder.
_REMAINDER = int(np.iinfo(np.int64).min)


@dataclass(frozen=True, kw_only=True, slots=True)
class Weights:
    """w(0), w(1), ... of a law, certified: below[k] <= w(k) * 2**bits <= above[k].

    Attributes:
        below: lower bounds.
        above: upper bounds.
        tail: an upper bound of the sum of all weights after the last listed.
        bits: the unit of all three is 2**-bits.
    """

    below: list[int]
    above: list[int]
    tail: int
    bits: int


@dataclass(frozen=True, kw_only=True, slots=True)
class LogQuadraticLaw:
    """P(x) proportional to w(x) = exp(-quadratic * x**2 - linear * |x|), with rational coefficients.

    Attributes:
        quadratic: not below 0; 1 / (2 variance) gives the discrete Gaussian.
        linear: not below 0, and not 0 together with `quadratic`; 1 / scale gives the discrete Laplace.
        two_sided: over all integers; otherwise over 0, 1, 2, ...
        length: over 0 ... length - 1 alone (one-sided laws).
    """

    quadratic: Fraction = Fraction(0)
    linear: Fraction = Fraction(0)
    two_sided: bool = False
    length: int | None = None

    def __post_init__(self) -> None:
        if min(self.quadratic, self.linear) < 0 or self.quadratic + self.linear == 0:
            raise InvalidInput("law", (self.quadratic, self.linear), "must not be below 0, nor both be 0")
        if self.length is not None and (self.two_sided or self.length < 1):
            raise InvalidInput("law.length", self.length, "must be at least 1, and the law one-sided")

    def weights(self, *, bits: int) -> Weights:
        """The weights down to 2**-bits and further, certified, in fixed point.

        w(k + 1) = w(k) g(k) with g(k) = exp(-quadratic (2 k + 1) - linear), and
        g(k + 1) = g(k) exp(-2 quadratic). As g does not grow, the weights from k on sum to at most
        w(k) / (1 - g(k)).
        """
        bits += _GUARD
        one = 1 << bits
        ratio_lo, ratio_hi = exp_interval(-self.quadratic - self.linear, precision=bits)
        bend_lo, bend_hi = exp_interval(-2 * self.quadratic, precision=bits)
        below: list[int] = []
        above: list[int] = []
        lo = hi = one
        while lo > 0 and (self.length is None or len(below) < self.length):
            below.append(lo)
            above.append(hi)
            lo, hi = lo * ratio_lo >> bits, ceil_shift(hi * ratio_hi, bits)
            if self.quadratic:
                ratio_lo, ratio_hi = ratio_lo * bend_lo >> bits, ceil_shift(ratio_hi * bend_hi, bits)
        complete = self.length is not None and len(below) == self.length
        tail = 0 if complete else ceil_div(hi << bits, one - ratio_hi)
        return Weights(below=below, above=above, tail=tail, bits=bits)

    def total(self, weights: Weights) -> Interval:
        """The sum of w over the whole support, in the unit of `weights`."""
        sides, centre = (2, 1 << weights.bits) if self.two_sided else (1, 0)
        lo = sides * sum(weights.below) - centre
        return lo, sides * (sum(weights.above) + weights.tail) - centre

    def support(self, listed: int) -> list[int]:
        """The x whose weights are the first `listed`, as 0, 1, -1, 2, -2, ... or as 0, 1, 2, ..."""
        if not self.two_sided:
            return list(range(listed))
        return [0, *(x for size in range(1, listed) for x in (size, -size))]


class AliasTable:
    """Draws from a law with one uniform word, one comparison and two look-ups, whatever is drawn.

    Args:
        law: the law.
        word_bits: how many bits of a word are used, from the top; fewer than 64 only to test the remainder.
        largest: a draw beyond this, which can come from the remainder alone, raises.

    Raises:
        InvalidInput: the law is too wide for one table.
    """

    def __init__(self, law: LogQuadraticLaw, *, word_bits: int = 64, largest: int = LARGEST_NOISE) -> None:
        self.law = law
        self.word_bits = word_bits
        self._largest = largest
        #: f(x) of step 2, where it is above 0.
        self.floors = self._floors()
        #: 2**word_bits - F: the places that lead to the remainder.
        self.remainder = (1 << word_bits) - sum(self.floors.values())
        # One precision is remembered: 64 bits decide nearly every draw of the remainder.
        self._remainder_sums = lru_cache(maxsize=1)(self._sum_remainder)
        self._lay_out()

    def draw(self, count: int, rng: Randomness) -> NDArray[np.int64]:
        """`count` independent draws, int64 of shape (count,).

        Raises:
            SamplerFailure: a draw lies beyond `largest`.
        """
        words = rng.words(count)
        place = (words >> self._shift).view(np.int64)
        second = words >= self._cuts.take(place)
        place <<= 1
        place += second
        drawn = self._values.take(place)
        for index in np.flatnonzero(drawn == _REMAINDER):
            drawn[index] = self._draw_remainder(rng)
        return drawn

    def _floors(self) -> dict[int, int]:
        weights = self.law.weights(bits=self.word_bits)
        highest = self.law.total(weights)[1]
        by_size = [(lo << self.word_bits) // highest for lo in weights.below]
        return {x: by_size[abs(x)] for x in self.law.support(len(by_size)) if by_size[abs(x)]}

    def _lay_out(self) -> None:
        """Give every entry its places: 2**k buckets of equal room, each shared by at most two entries.

        An entry with too few places to fill its own bucket leaves the rest of it to one that has too many
        (Vose 1991). In integers the books balance: the places add up to the room, so as long as one entry
        falls short another has too many, and entries with exactly enough keep a bucket each.
        """
        values = [*self.floors, _REMAINDER]
        places = [*self.floors.values(), self.remainder]
        log_buckets = max(1, (len(places) - 1).bit_length())
        buckets, room = 1 << log_buckets, 1 << (self.word_bits - log_buckets)
        if buckets > _MAX_BUCKETS:
            raise InvalidInput("law", len(places), f"entries are too many for one table of {_MAX_BUCKETS}")
        values += [0] * (buckets - len(values))
        places += [0] * (buckets - len(places))
        kept, second = [0] * buckets, list(range(buckets))
        short = [entry for entry, has in enumerate(places) if has < room]
        ample = [entry for entry, has in enumerate(places) if has > room]
        while short:
            entry, giver = short.pop(), ample[-1]
            kept[entry], second[entry] = places[entry], giver
            places[giver] -= room - places[entry]
            if places[giver] <= room:
                ample.pop()
                if places[giver] < room:
                    short.append(giver)
        # A cut is compared with the whole word: the bucket's bits on top, unused bits without effect.
        unused = 64 - self.word_bits
        cuts = [(bucket * room + keeps) << unused for bucket, keeps in enumerate(kept)]
        pairs = [values[entry] for bucket in range(buckets) for entry in (bucket, second[bucket])]
        self._cuts = np.array(cuts, dtype=np.uint64)
        self._values = np.array(pairs, dtype=np.int64)
        self._shift = np.uint64(64 - log_buckets)

    def _draw_remainder(self, rng: Randomness) -> int:
        index = choose(self._remainder_sums, rng=rng)
        x = index
        if self.law.two_sided:
            x = (index + 1) // 2 if index % 2 else -(index // 2)
        if abs(x) > self._largest:
            raise SamplerFailure("a draw of noise is too large for a 64-bit integer")
        return x

    def _sum_remainder(self, bits: int) -> CertifiedSums:
        """Sums of 2**word_bits * P(x) - f(x) in units of 2**-bits, over more x as the precision grows."""
        shift = self.word_bits + bits
        weights = self.law.weights(bits=shift)
        lowest, highest = self.law.total(weights)
        rest: list[Interval] = []
        for x in self.law.support(len(weights.below)):
            floor = self.floors.get(x, 0) << bits
            lo = (weights.below[abs(x)] << shift) // highest - floor
            hi = ceil_div(weights.above[abs(x)] << shift, lowest) - floor
            rest.append((max(0, lo), hi))
        sums = CertifiedSums.of(rest)
        # The total, with everything unlisted, is known exactly.
        total = self.remainder << bits
        return CertifiedSums(below=sums.below, above=sums.above, total=(total, total))


class _Sampler(Protocol):
    def draw(self, count: int, rng: Randomness) -> NDArray[np.int64]: ...


class _WideLaplace:
    """Discrete Laplace of a large scale t, from independent digits.

    Let r = exp(-1/t), and let g have P(g) = (1 - r) r**g on 0, 1, 2, ... Write g = d_0 + B d_1 + ... + B**J
    d_J with d_0, ..., d_{J-1} below B and d_J unbounded: r**g is the product of the r**(B**j d_j), so the
    digits are independent and the j-th has the law proportional to r**(B**j d).

    Let s be 1 with probability r / (1 + r), else 0. Then x = g if s = 0, x = -1 - g if s = 1, is discrete
    Laplace: for x >= 0, P(x) = (1 - r) r**x / (1 + r); for x < 0, P(x) = (1 - r) r**(-1 - x) r / (1 + r),
    which is (1 - r) r**-x / (1 + r).
    """

    _DIGIT_BITS = 12

    def __init__(self, scale: Fraction) -> None:
        rate = 1 / scale
        self._digits: list[tuple[AliasTable, np.int64]] = []
        place = 1
        while scale > _WIDEST_LAPLACE_TABLE * place:
            digit = LogQuadraticLaw(linear=rate * place, length=1 << self._DIGIT_BITS)
            self._digits.append((AliasTable(digit), np.int64(place)))
            place <<= self._DIGIT_BITS
        top = LogQuadraticLaw(linear=rate * place)
        self._digits.append((AliasTable(top, largest=LARGEST_NOISE // place - 1), np.int64(place)))
        self._sign = AliasTable(LogQuadraticLaw(linear=rate, length=2))

    def draw(self, count: int, rng: Randomness) -> NDArray[np.int64]:
        size = np.zeros(count, dtype=np.int64)
        for table, place in self._digits:
            size += table.draw(count, rng) * place
        # -1 - g is g with every bit turned over, that is g xor -1.
        return size ^ -self._sign.draw(count, rng)


class _WideGaussian:
    """Discrete Gaussian of a large variance, by rejection from blocks of B = 2**j neighbouring values.

    Propose q from the law proportional to exp(-(B q)**2 / (2 variance)) on 0, 1, 2, ...; d uniform on
    0 ... B - 1; a fair sign. Accept m = B q + d with probability exp(-(m**2 - (B q)**2) / (2 variance)), and
    refuse a negative zero, which would count zero twice: what is accepted is proportional to
    exp(-m**2 / (2 variance)). B is so small that about one proposal in 1,000 is refused, and how many were
    says nothing of the one that was not.

    The coin is tossed in integers. In z = d / B its probability is h(z) = exp(-c (q z + z**2 / 2)), where
    c = B**2 / variance. Since |h''| <= max(c, c**2 (q + 1)**2), the straight line from h(0) = 1 to
    h(1) = w(q + 1) / w(q) is off by at most an eighth of that. The top 32 bits of a word, against the line
    with slack for this and for rounding, decide all but about one toss in a million; `bernoulli` decides
    those on exp itself, with the same word.
    """

    _ONE = np.int64(1 << 32)

    def __init__(self, variance: Fraction) -> None:
        self._variance = variance
        self._block_bits = 1
        while variance > (_WIDEST_GAUSSIAN_TABLE << self._block_bits) ** 2:
            self._block_bits += 1
        block = 1 << self._block_bits
        law = LogQuadraticLaw(quadratic=block * block / (2 * variance))
        self._blocks = AliasTable(law, largest=LARGEST_NOISE // block - 1)
        weights = law.weights(bits=64)
        bend, unit = (block * block / variance).as_integer_ratio()
        losses, slacks = [], []
        for q in range(len(self._blocks.floors)):
            lowest = (weights.below[q + 1] << 32) // weights.above[q]
            highest = ceil_div(weights.above[q + 1] << 32, weights.below[q])
            # An eighth of max(c, c**2 (q + 1)**2), in units of 2**-32.
            curve = ceil_div(max(bend * unit, (bend * (q + 1)) ** 2) << 29, unit * unit)
            # The line falls by 2**32 (1 - h(1)) over the block. 4 is for rounding: below 2 in `_toss`, 1 for
            # the width of a 32-bit number, and one to spare.
            losses.append((1 << 32) - highest)
            slacks.append(curve + highest - lowest + 4)
        self._losses = np.array(losses, dtype=np.int64)
        self._slacks = np.array(slacks, dtype=np.int64)

    def draw(self, count: int, rng: Randomness) -> NDArray[np.int64]:
        drawn, refused = self._propose(count, rng)
        while (again := np.flatnonzero(refused)).size:
            drawn[again], refused[again] = self._propose(again.size, rng)
        return drawn

    def _propose(self, count: int, rng: Randomness) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        block = self._blocks.draw(count, rng)
        words = rng.words(count)
        within = (words >> np.uint64(64 - self._block_bits)).view(np.int64)
        negative = (words & np.uint64(1)).view(np.int64)
        size = (block << self._block_bits) + within
        refused = self._toss(block, within, rng)
        refused |= (size == 0) & (negative == 1)
        return (size ^ -negative) + negative, refused

    def _toss(self, block: NDArray[np.int64], within: NDArray[np.int64], rng: Randomness) -> NDArray[np.bool_]:
        """False with probability exp(-(m**2 - (B q)**2) / (2 variance)): q in `block`, d in `within`."""
        words = rng.words(block.size)
        known = np.minimum(block, self._losses.size - 1)
        # The fall at z is loss * d / B, met within 2: a loss is below 2**27, and 30 bits of d are enough.
        kept = min(self._block_bits, 30)
        fall = self._losses.take(known) * (within >> (self._block_bits - kept)) >> kept
        above_line = (words >> np.uint64(32)).view(np.int64) + fall - self._ONE
        refused = above_line >= 0
        unsure = np.abs(above_line) <= self._slacks.take(known)
        unsure |= block != known
        for index in np.flatnonzero(unsure):
            start = int(block[index]) << self._block_bits
            size = start + int(within[index])
            chance = partial(_exp_at, (start * start - size * size) / (2 * self._variance))
            refused[index] = not bernoulli(chance, rng=rng, revealed=int(words[index]), bits=64)
        return refused


def _exp_at(exponent: Fraction, precision: int) -> Interval:
    return exp_interval(exponent, precision=precision)


def discrete_laplace(*, scale: Fraction, size: int | tuple[int, ...], rng: Randomness) -> NDArray[np.int64]:
    """Discrete Laplace noise: P(x) = (1 - r) / (1 + r) * r**|x| exactly, with r = exp(-1 / scale).

    With scale D / epsilon, added to integer statistics of l1 sensitivity D, it is epsilon-differentially
    private (Ghosh, Roughgarden and Sundararajan 2009). Its tail is P(|x| >= m) = 2 r**m / (1 + r) for m >= 1.

    Args:
        scale: above 0 and at most 2**52, in the unit of the statistics.
        size: the number of cells, or a shape.
        rng: where the words come from.

    Returns:
        int64 of shape `size`, none beyond LARGEST_NOISE in size.

    Raises:
        InvalidInput: the scale is not such a rational (noise might not fit 64 bits), or `size` is no shape.
        SamplerFailure: a draw passed LARGEST_NOISE (probability below exp(-1023)).
    """
    sampler = _laplace_sampler(checked_scale(scale))
    return in_chunks(size, lambda count: sampler.draw(count, rng))


def discrete_gaussian(*, variance: Fraction, size: int | tuple[int, ...], rng: Randomness) -> NDArray[np.int64]:
    """Discrete Gaussian noise: P(x) exactly proportional to exp(-x**2 / (2 variance)).

    Added to integer statistics of l2 sensitivity D it is D**2 / (2 variance)-zCDP (Canonne, Kamath and
    Steinke 2020, Theorem 14). `variance` is the law's parameter; the variance it comes to is at most that
    (Corollary 9).

    Args:
        variance: above 0 and at most 2**104, in the squared unit of the statistics.
        size: the number of cells, or a shape.
        rng: where the words come from.

    Returns:
        int64 of shape `size`, none beyond LARGEST_NOISE in size.

    Raises:
        InvalidInput: the variance is not such a rational (noise might not fit 64 bits), or `size` is no
            shape.
        SamplerFailure: a draw passed LARGEST_NOISE (probability below exp(-1023)).
    """
    sampler = _gaussian_sampler(checked_variance(variance))
    return in_chunks(size, lambda count: sampler.draw(count, rng))


@lru_cache(maxsize=32)
def _laplace_sampler(scale: Fraction) -> _Sampler:
    if scale > _WIDEST_LAPLACE_TABLE:
        return _WideLaplace(scale)
    return AliasTable(LogQuadraticLaw(linear=1 / scale, two_sided=True))


@lru_cache(maxsize=32)
def _gaussian_sampler(variance: Fraction) -> _Sampler:
    if variance > _WIDEST_GAUSSIAN_TABLE**2:
        return _WideGaussian(variance)
    return AliasTable(LogQuadraticLaw(quadratic=1 / (2 * variance), two_sided=True))


def checked_scale(scale: object) -> Fraction:
    """The scale of `discrete_laplace`, or InvalidInput where it has none such."""
    return _positive("scale", scale, most=LARGEST_SCALE)


def checked_variance(variance: object) -> Fraction:
    """The variance of `discrete_gaussian`, or InvalidInput where it has none such."""
    return _positive("variance", variance, most=LARGEST_SCALE**2)


def _positive(field: str, value: object, *, most: int) -> Fraction:
    if isinstance(value, bool) or not isinstance(value, (int, Fraction)):
        raise InvalidInput(field, value, "must be an exact rational")
    if not 0 < value <= most:
        raise InvalidInput(field, value, f"must be above 0 and at most 2**{most.bit_length() - 1}")
    return Fraction(value)


#: Scales, and square roots of variances, of the self-test. A real library's bias showed at 3/2, 3 and 10 but
#: not at 1 or 37; the last scale is put together from several tables.
_TESTED_SCALES = (
    *(Fraction(1, 3), Fraction(1, 2), Fraction(1), Fraction(3, 2), Fraction(2), Fraction(27, 10)),
    *(Fraction(3), Fraction(5), Fraction(7), Fraction(10), Fraction(37), Fraction(1000)),
)

#: Enough to see a scale that is wrong by 3%.
_TESTED_DRAWS = 200_000

#: With fewer expected in a bin, Pearson's statistic strays from the law of chi-square.
_FEWEST_EXPECTED = 20


def self_test(rng: Randomness, *, false_alarm: float = 1e-9) -> None:
    """Draw from both samplers as they run here, and compare with their laws by Pearson's chi-square test.

    Takes about a third of a second. For the start of every worker: a fault may lie in what is installed below
    this code. The expected shares are computed apart from the tables and in floating point, whose error is
    far below what 200,000 draws can show.

    Args:
        rng: the generator the worker will use.
        false_alarm: the probability that working samplers fail, over all the tests together.

    Raises:
        InvalidInput: `false_alarm` is not between 0 and 1.
        SamplerFailure: a sampler does not have its law.
    """
    if not 0 < false_alarm < 1:
        raise InvalidInput("false_alarm", false_alarm, "must be between 0 and 1")
    each = false_alarm / (2 * len(_TESTED_SCALES))
    for scale in _TESTED_SCALES:
        drawn = discrete_laplace(scale=scale, size=_TESTED_DRAWS, rng=rng)
        weights = np.exp(-np.abs(_around_zero(45 * scale)) / float(scale))
        _check_law(f"discrete Laplace noise of scale {scale}", drawn, weights, false_alarm=each)
        drawn = discrete_gaussian(variance=scale**2, size=_TESTED_DRAWS, rng=rng)
        weights = np.exp(-0.5 * (_around_zero(10 * scale) / float(scale)) ** 2)
        _check_law(f"discrete Gaussian noise of sigma {scale}", drawn, weights, false_alarm=each)


def _around_zero(reach: Fraction) -> NDArray[np.int64]:
    """The integers within `reach` of zero, and a few more so that the smallest scale has a tail too."""
    end = int(reach) + 20
    return np.arange(-end, end + 1)


def _check_law(name: str, drawn: NDArray[np.int64], weights: NDArray[np.float64], *, false_alarm: float) -> None:
    """Compare with the law proportional to `weights` on integers around zero; its ends stand for tails."""
    end = weights.size // 2
    observed = np.bincount(np.clip(drawn, -end, end) + end, minlength=weights.size)
    expected = drawn.size * weights / weights.sum()
    starts, gathered = [0], 0.0
    for cell, share in enumerate(expected.tolist()):
        if gathered >= _FEWEST_EXPECTED:
            starts.append(cell)
            gathered = 0.0
        gathered += share
    if gathered < _FEWEST_EXPECTED:
        starts.pop()
    observed, expected = np.add.reduceat(observed, starts), np.add.reduceat(expected, starts)
    statistic = float(((observed - expected) ** 2 / expected).sum())
    limit = _chi_square_limit(len(starts) - 1, false_alarm)
    if not statistic <= limit:
        raise SamplerFailure(f"{name} failed its self-test: chi-square {statistic:.0f}, limit {limit:.0f}")


def _chi_square_limit(degrees: int, probability: float) -> float:
    """A value that chi-square of `degrees` passes with at most `probability`.

    Chernoff's bound is P(chi-square >= k y) <= (y exp(1 - y))**(k / 2) for y >= 1; y is found by bisection.
    """
    wanted = -2 * log(probability) / degrees
    low, high = 1.0, 2 + 2 * wanted
    for _ in range(60):
        y = (low + high) / 2
        low, high = (y, high) if y - 1 - log(y) < wanted else (low, y)
    return degrees * high
