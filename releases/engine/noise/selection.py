"""Choosing one candidate by its score, exactly, in a time that does not tell the scores.

A selection that looks for the best score and then rejects until a candidate is accepted takes many times longer
when one score stands out: the time tells the scores. Here every candidate is given the same work:

*   `report_noisy_max` draws one noise for each;
*   `permute_and_flip` tosses one coin for each, which comes to the same law (see there);
*   `exponential_mechanism` weighs each, and draws once.

A weight exp(-rate * gap) is a product of table entries, one for each digit of the gap to the best score, so
weighing is the same few array operations whatever the gap. It yields a certified lower bound within 2**-56 or
so; what that leaves open is settled exactly, as in `discrete`, by the law of the remainder, which is reached less
than once in 2**36 selections among a million candidates. The number and size of the array operations, and of the
random words, depend on the number of candidates and on the rate alone, both public.

What remains: the processor's caches answer a little faster when all candidates look up the same entry. Among a
million candidates the slowest of five very different profiles of scores took 1.1 times the fastest with the
exponential mechanism and 1.04 times with the others. OpenDP 0.16 took 3 times, and among 100,000 candidates 6
times, with the even cost of passing lists in and out included (`manage.py bench` measures ours).
"""

from __future__ import annotations

from bisect import bisect_right
from fractions import Fraction
from functools import lru_cache, partial
from itertools import accumulate
from math import ceil, lcm
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from releases.engine.arithmetic.intervals import CertifiedSums, Interval, ceil_div, exp_interval
from releases.engine.errors import InvalidInput
from releases.engine.noise.discrete import LogQuadraticLaw, discrete_laplace
from releases.engine.noise.randomness import CHUNK, Randomness, bernoulli, choose, random_below

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

Scores: TypeAlias = "NDArray[np.integer] | Sequence[int] | Sequence[Fraction]"
#: Integers of any size, or an array of integers.
BaseMeasure: TypeAlias = "Sequence[int] | NDArray[np.integer]"
_Parts: TypeAlias = "list[tuple[NDArray[np.uint64], int]]"

#: Scores are at most this in size, so that a gap, and a score with noise, stay within int64.
LARGEST_SCORE = 1 << 61

#: Scores given as fractions are brought to one denominator, at most this.
LARGEST_DENOMINATOR = 1 << 40

#: Digits of a gap: a table of 2**11 entries of 8 bytes stays in the processor's first cache.
_DIGIT_BITS = 11

#: A weight is a whole number of 2**-62: two are multiplied by 64-bit products of halves of 31 bits.
_WEIGHT_BITS = 62

#: Weights are added up in blocks, then within one block: the same work wherever the draw falls.
_BLOCK = 1 << 12
_HALF_WORD = np.uint64(32)
_LOW_HALF = np.uint64(0xFFFFFFFF)


class GapWeights:
    """Certified lower bounds of exp(-rate * gap), for arrays of gaps.

    Args:
        rate: above 0, per unit of gap.
        bits: even and at most 62, the bounds being integers in units of 2**-bits; fewer only to test.

    Attributes:
        error: bound <= 2**bits * exp(-rate * gap) <= bound + error, for every gap.
    """

    def __init__(self, rate: Fraction, *, bits: int = _WEIGHT_BITS) -> None:
        self.rate = rate
        self.bits = bits
        # From here on a weight is below 2**-bits, because ln 2 < 7/10, and its bound may be 0.
        cutoff = min(ceil(Fraction(7 * bits, 10) / rate), 2 * LARGEST_SCORE)
        digits = max(1, -(-cutoff.bit_length() // _DIGIT_BITS))
        place = 1 << _DIGIT_BITS * (digits - 1)
        top = cutoff // place + 1
        self._last = np.int64(top * place)
        lengths = [1 << _DIGIT_BITS] * (digits - 1) + [top]
        self._tables = [self._table(digit, length) for digit, length in enumerate(lengths)]
        # An entry is below its power by less than 2 units, and a product by less than its factors together
        # and 2
        # more: 2 * digits + 2 * (digits - 1) in all.
        self.error = 4 * digits

    def _table(self, digit: int, length: int) -> NDArray[np.uint64]:
        """2**bits * exp(-rate * 2**(11 digit) * d) from below, d < length; a 0 for all past the cutoff."""
        law = LogQuadraticLaw(linear=self.rate * (1 << _DIGIT_BITS * digit), length=length)
        weights = law.weights(bits=self.bits)
        entries = np.zeros(length + 1, dtype=np.uint64)
        entries[: len(weights.below)] = [lo >> (weights.bits - self.bits) for lo in weights.below]
        return entries

    def lower(self, gaps: NDArray[np.int64]) -> NDArray[np.uint64]:
        """The bounds, of the shape of `gaps`, which are not below 0. A gap of 0 has exactly 2**bits."""
        bounds = np.empty(gaps.shape, dtype=np.uint64)
        for start in range(0, gaps.size, CHUNK):
            part = np.minimum(gaps[start : start + CHUNK], self._last)
            bounds[start : start + CHUNK] = self._lower(part)
        return bounds

    def _lower(self, gaps: NDArray[np.int64]) -> NDArray[np.uint64]:
        digit = np.int64((1 << _DIGIT_BITS) - 1)
        product = self._tables[-1].take(gaps >> (_DIGIT_BITS * (len(self._tables) - 1)))
        for index, table in enumerate(self._tables[:-1]):
            factor = table.take((gaps >> (_DIGIT_BITS * index)) & digit)
            product = self._multiply(product, factor)
        return product

    def _multiply(self, a: NDArray[np.uint64], b: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """a * b / 2**bits, less at most 2: the low halves' product is left out, the rest rounded down."""
        half = np.uint64(self.bits // 2)
        low = np.uint64((1 << self.bits // 2) - 1)
        a_high, b_high = a >> half, b >> half
        middle = a_high * (b & low) + (a & low) * b_high
        product: NDArray[np.uint64] = a_high * b_high + (middle >> half)
        return product


@lru_cache(maxsize=32)
def _gap_weights(rate: Fraction) -> GapWeights:
    return GapWeights(rate)


def exponential_mechanism(
    scores: Scores,
    *,
    epsilon: Fraction,
    sensitivity: Fraction,
    rng: Randomness,
    monotone: bool = False,
    denominator: int = 1,
    weights: BaseMeasure | None = None,
) -> int:
    """Choose i with probability exactly proportional to weights[i] * exp(epsilon score[i] / (2 sensitivity)).

    epsilon-differentially private (McSherry and Talwar 2007; Dwork and Roth 2014, Theorem 3.10), and
    epsilon**2 / 8-zCDP. The best score is missed by more than 2 sensitivity / epsilon * (ln(candidates) + t)
    with probability at most exp(-t) (Corollary 3.12).

    Args:
        scores: one a candidate, shape (candidates,): integers, or (for few candidates) fractions, whose
            denominators are public. None beyond 2**61 in size, as an integer over the common denominator.
        epsilon: above 0.
        sensitivity: above 0; the most any one score differs between neighbours.
        rng: where the words come from.
        monotone: neighbours move all scores the same way (counts, where neighbours add or remove a record).
            Then exp(epsilon * score / sensitivity) is private, and that is used.
        denominator: the scores are `scores / denominator`.
        weights: the base measure, integers above 0, public; 1 each when not given.

    Returns:
        The index chosen.

    Raises:
        InvalidInput: an argument is not as described. The text does not tell the scores.
    """
    numerators, denominator = _numerators(scores, denominator)
    rate = _rate(epsilon, sensitivity, monotone=monotone) / denominator
    if weights is not None:
        weights = _base_measure(weights, numerators.size)
    return _draw_by_weight(numerators.max() - numerators, weights, _gap_weights(rate), rng)


def _draw_by_weight(gaps: NDArray[np.int64], weights: BaseMeasure | None, table: GapWeights, rng: Randomness) -> int:
    """Draw i with probability w[i] / Z, w[i] = weights[i] * exp(-rate * gap[i]) and Z their sum.

    With l[i] <= w[i] a lower bound, L the sum of these and S >= Z (all in units of 2**-bits): a uniform
    integer below S falls to i in l[i] of its places, and in S - L of them i is drawn with probability
    (S * w[i] / Z - l[i]) / (S - L). Together that is l[i] / S + (S * w[i] / Z - l[i]) / S = w[i] / Z.
    """
    digits = [] if weights is None else _digits(weights)
    total_weight = sum(int(digit.sum()) << 32 * place for place, digit in enumerate(digits)) or gaps.size

    def parts(start: int, length: int) -> _Parts:
        inside = slice(start, start + length)
        return _parts(table.lower(gaps[inside]), [digit[inside] for digit in digits])

    starts = range(0, gaps.size, CHUNK)
    sums = list(accumulate(block for start in starts for block in _block_sums(parts(start, CHUNK))))
    bounded, whole = sums[-1], sums[-1] + table.error * total_weight
    drawn = random_below(whole, rng, most=total_weight << table.bits + 2)
    if drawn >= bounded:
        measure = [1] * gaps.size if weights is None else list(map(int, weights))
        lower = table.lower(gaps).tolist()
        return choose(partial(_sum_remainder, gaps.tolist(), measure, lower, whole, table), rng=rng)
    block = bisect_right(sums, drawn)
    before = sums[block - 1] if block else 0
    return block * _BLOCK + _locate(parts(block * _BLOCK, _BLOCK), drawn - before)


def _digits(weights: BaseMeasure) -> list[NDArray[np.uint64]]:
    """The 32-bit digits of the weights, the lowest first; as many as the largest weight has."""
    if isinstance(weights, np.ndarray):
        halves = (weights.astype(np.uint64) & _LOW_HALF, weights.astype(np.uint64) >> _HALF_WORD)
        return list(halves if halves[1].any() else halves[:1])
    shifts = range(0, max(weights).bit_length(), 32)
    return [np.array([weight >> shift & 0xFFFFFFFF for weight in weights], dtype=np.uint64) for shift in shifts]


def _parts(bounds: NDArray[np.uint64], digits: list[NDArray[np.uint64]]) -> _Parts:
    """Arrays and shifts, bound * weight being the sum of part << shift, each below 2**32 so that blocks fit.

    No digits mean a weight of 1 each.
    """
    high, low = bounds >> _HALF_WORD, bounds & _LOW_HALF
    if not digits:
        return [(high, 32), (low, 0)]
    parts = []
    for place, digit in enumerate(digits):
        for half, shift in ((high, 32 * place + 32), (low, 32 * place)):
            product = half * digit
            parts += [(product >> _HALF_WORD, shift + 32), (product & _LOW_HALF, shift)]
    return parts


def _block_sums(parts: _Parts) -> list[int]:
    """The sum of bound * weight over every block, exactly."""
    starts = np.arange(0, parts[0][0].size, _BLOCK)
    sums = [0] * starts.size
    for part, shift in parts:
        sums = [
            so_far + (more << shift) for so_far, more in zip(sums, np.add.reduceat(part, starts).tolist(), strict=True)
        ]
    return sums


def _locate(parts: _Parts, drawn: int) -> int:
    """The first index at which the running sum of bound * weight passes `drawn`."""
    running = [(np.cumsum(part), shift) for part, shift in parts]
    size = parts[0][0].size
    return bisect_right(range(size), drawn, key=lambda end: sum(int(part[end]) << shift for part, shift in running))


def _sum_remainder(
    gaps: list[int], weights: Sequence[int], lower: list[int], whole: int, table: GapWeights, bits: int
) -> CertifiedSums:
    """Sums of S * w[i] / Z - l[i] in units of 2**-bits, all in the unit of l."""
    precision = table.bits + bits + len(gaps).bit_length()
    powers = {gap: exp_interval(-table.rate * gap, precision=precision) for gap in set(gaps)}
    candidates = list(zip(weights, gaps, lower, strict=True))
    lowest = sum(weight * powers[gap][0] for weight, gap, _ in candidates)
    highest = sum(weight * powers[gap][1] for weight, gap, _ in candidates)
    rest: list[Interval] = []
    for weight, gap, bound in candidates:
        lo, hi = powers[gap]
        taken = weight * bound << bits
        below = (weight * lo * whole << bits) // highest - taken
        rest.append((max(0, below), ceil_div(weight * hi * whole << bits, lowest) - taken))
    return CertifiedSums.of(rest)


def permute_and_flip(
    scores: Scores,
    *,
    epsilon: Fraction,
    sensitivity: Fraction,
    rng: Randomness,
    monotone: bool = False,
    denominator: int = 1,
) -> int:
    """Choose an index by permute-and-flip, exactly.

    The law (McKenna and Sheldon 2020, Algorithm 1): go through the candidates in random order, toss for each
    a coin that comes up with probability exp(epsilon * (score - best) / (2 sensitivity)), and stop at the
    first that does. It is the law of report-noisy-max with exponential noise (Ding et al. 2021),
    epsilon-differentially private, and its expected score is never below the exponential mechanism's.

    All coins are tossed here, and one of those that came up is chosen evenly: as the order is independent of
    the coins, any of these is equally likely to stand first. So the work does not depend on the scores.

    Arguments, result and errors are those of `exponential_mechanism`.
    """
    numerators, denominator = _numerators(scores, denominator)
    rate = _rate(epsilon, sensitivity, monotone=monotone) / denominator
    return _any_of(_toss(numerators.max() - numerators, _gap_weights(rate), rng), rng)


def _toss(gaps: NDArray[np.int64], table: GapWeights, rng: Randomness) -> NDArray[np.bool_]:
    """True with probability exp(-rate * gap): a word decides or, within the bound's error, `bernoulli`."""
    heads = np.empty(gaps.size, dtype=np.bool_)
    for start in range(0, gaps.size, CHUNK):
        part = gaps[start : start + CHUNK]
        words = rng.words(part.size)
        bounds = table.lower(part)
        tossed = words >> np.uint64(64 - table.bits)
        sure = tossed < bounds
        unsure = ~sure & (tossed < bounds + np.uint64(table.error))
        for index in np.flatnonzero(unsure):
            chance = partial(_exp_at, -table.rate * int(part[index]))
            sure[index] = bernoulli(chance, rng=rng, revealed=int(words[index]), bits=64)
        heads[start : start + CHUNK] = sure
    return heads


def _exp_at(exponent: Fraction, precision: int) -> Interval:
    return exp_interval(exponent, precision=precision)


def report_noisy_max(
    scores: Scores,
    *,
    epsilon: Fraction,
    sensitivity: Fraction,
    rng: Randomness,
    monotone: bool = False,
    denominator: int = 1,
) -> int:
    """Choose the index of the largest score after adding discrete Laplace noise to each.

    The scale is 2 sensitivity / epsilon, or sensitivity / epsilon for monotone scores (Dwork and Roth 2014,
    Claim 3.9 for counts). epsilon-differentially private, ties included: they are broken evenly, as by a
    random order of the candidates drawn beforehand. Fix that order and everybody else's noise: i is chosen if
    its noise is at least some integer m, and for a neighbour if it is at least m + 2 sensitivity (monotone:
    m + sensitivity), a shift at which the noise's law falls by a factor of at most exp(epsilon).

    Arguments, result and errors are those of `exponential_mechanism`; besides, the scale of the noise, in
    units of 1 / denominator, is at most 2**52.
    """
    numerators, denominator = _numerators(scores, denominator)
    rate = _rate(epsilon, sensitivity, monotone=monotone) / denominator
    numerators = numerators + discrete_laplace(scale=1 / rate, size=numerators.size, rng=rng)
    return _any_of(numerators == numerators.max(), rng)


def _any_of(candidates: NDArray[np.bool_], rng: Randomness) -> int:
    """One of the true entries, evenly. A running count finds it in the same time wherever it stands."""
    counted = np.cumsum(candidates)
    return int(np.searchsorted(counted, random_below(int(counted[-1]), rng, most=counted.size), side="right"))


def _rate(epsilon: Fraction, sensitivity: Fraction, *, monotone: bool) -> Fraction:
    """The factor of the score in the exponent."""
    for field, value in (("epsilon", epsilon), ("sensitivity", sensitivity)):
        if isinstance(value, bool) or not isinstance(value, (int, Fraction)):
            raise InvalidInput(field, value, "must be an exact rational")
        if value <= 0:
            raise InvalidInput(field, value, "must be above 0")
    return Fraction(epsilon) / (sensitivity if monotone else 2 * sensitivity)


def _numerators(scores: Scores, denominator: int) -> tuple[NDArray[np.int64], int]:
    """The scores as int64 over one denominator. Errors tell the scores' kind and number, never a score."""
    if isinstance(denominator, bool) or not isinstance(denominator, int) or denominator < 1:
        raise InvalidInput("denominator", denominator, "must be an integer above 0")
    if not isinstance(scores, np.ndarray) or scores.dtype == np.object_:
        whole, factor = _common_denominator(list(scores))
        denominator *= factor
        _check_sizes(len(whole), max(whole, default=0), min(whole, default=0))
        scores = np.array(whole, dtype=np.int64)
    if scores.dtype.kind not in "iu" or scores.ndim != 1 or scores.size == 0:
        shown = f"an array of {scores.dtype} of shape {scores.shape}"
        raise InvalidInput("scores", shown, "must be one integer a candidate, and at least one")
    _check_sizes(scores.size, int(scores.max()), int(scores.min()))
    return scores.astype(np.int64), denominator


def _check_sizes(count: int, largest: int, smallest: int) -> None:
    if largest > LARGEST_SCORE or smallest < -LARGEST_SCORE:
        raise InvalidInput("scores", f"an array of {count}", "must be at most 2**61 in size")


def _common_denominator(scores: list[object]) -> tuple[list[int], int]:
    exact: list[Fraction] = []
    for score in scores:
        if isinstance(score, bool) or not isinstance(score, (int, np.integer, Fraction)):
            raise InvalidInput("scores", f"a list of {len(scores)}", "must be integers or fractions")
        exact.append(score if isinstance(score, Fraction) else Fraction(int(score)))
    factor = lcm(*(score.denominator for score in exact))
    if factor > LARGEST_DENOMINATOR:
        raise InvalidInput("scores", f"a list of {len(scores)}", "must have a common denominator up to 2**40")
    return [score.numerator * (factor // score.denominator) for score in exact], factor


def _base_measure(weights: BaseMeasure, candidates: int) -> BaseMeasure:
    if len(weights) != candidates:
        raise InvalidInput("weights", len(weights), f"must be one a candidate, {candidates} in all")
    is_array = isinstance(weights, np.ndarray) and weights.dtype.kind in "iu" and weights.ndim == 1
    measure = weights if is_array else [int(weight) for weight in weights]
    least = int(np.min(measure)) if is_array else min(measure)
    if least < 1 or (not is_array and measure != list(weights)):
        raise InvalidInput("weights", least, "must be integers above 0")
    return measure
