"""Real numbers known to any number of bits: certified integer intervals for exp, log and sqrt of a rational.

Every function returns integers (lo, hi) with lo <= value * 2**precision <= hi. Only integer arithmetic is
used, each step rounded outwards, so the claim needs no trust in floating point: it holds at every precision,
and asking again with a higher one narrows the interval as far as is needed. A draw that compares a uniform
number with such a value can therefore always be decided, and decided rightly (`randomness.bernoulli`,
`randomness.choose`).
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from math import isqrt
from typing import TYPE_CHECKING, TypeAlias

from releases.engine.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterable

#: (lo, hi) with lo <= value * 2**precision <= hi.
Interval: TypeAlias = tuple[int, int]

#: exp is computed at an argument below 2**-8 and then squared up: about p/12 terms of its series for p bits.
_SMALL_ARGUMENT_BITS = 8

#: Bits kept beyond what is lost on the way, so that an interval ends up at most two units wide.
_SPARE_BITS = 16


def exp_interval(exponent: Fraction | int, *, precision: int) -> Interval:
    """exp(exponent) * 2**precision lies in [lo, hi]; hi - lo <= 2.

    With z = |exponent| / 2**s < 2**-8: exp(z) by its series, whose terms are positive and more than halve, so
    what is left out is below the last term kept; inverted where the exponent is negative; squared s times.

    Raises:
        InvalidInput: `precision` is below 1.
    """
    exponent = Fraction(exponent)
    _check_precision(precision)
    if exponent == 0:
        return 1 << precision, 1 << precision
    size = abs(exponent)
    if exponent < 0 and 10 * size.numerator >= 7 * precision * size.denominator:
        return 0, 1  # ln 2 < 7/10, so the value is below 2**-precision, and positive
    whole = size.numerator // size.denominator
    squarings = max(0, whole.bit_length() + _SMALL_ARGUMENT_BITS)
    # Each squaring doubles the relative error, and a value above 1 takes 1.4427 bits a unit before the point.
    guard = squarings + _SPARE_BITS + (0 if exponent < 0 else 3 * whole // 2 + 2)
    bits = precision + guard
    lo, hi = _exp_series(size / (1 << squarings), bits)
    if exponent < 0:
        lo, hi = (1 << 2 * bits) // hi, ceil_div(1 << 2 * bits, lo)
    for _ in range(squarings):
        lo, hi = lo * lo >> bits, ceil_shift(hi * hi, bits)
    return lo >> guard, ceil_shift(hi, guard)


def _exp_series(argument: Fraction, bits: int) -> Interval:
    """exp(argument) for 0 <= argument <= 2**-8."""
    z_lo, z_hi = _rounded(argument, bits)
    lo = hi = term_lo = term_hi = 1 << bits
    index = 0
    while term_hi > 1:
        index += 1
        term_lo = (term_lo * z_lo >> bits) // index
        term_hi = ceil_div(ceil_shift(term_hi * z_hi, bits), index)
        lo, hi = lo + term_lo, hi + term_hi
    return lo, hi + term_hi


def log_interval(value: Fraction | int, *, precision: int) -> Interval:
    """ln(value) * 2**precision lies in [lo, hi]; hi - lo <= 2.

    value = m * 2**e with 1/2 < m < 2, and ln m = 2 artanh((m - 1) / (m + 1)), ln 2 = 2 artanh(1/3).

    Raises:
        InvalidInput: `value` is not above 0, or `precision` is below 1.
    """
    value = Fraction(value)
    _check_precision(precision)
    if value <= 0:
        raise InvalidInput("value", value, "must be above 0 to have a logarithm")
    power = value.numerator.bit_length() - value.denominator.bit_length()
    mantissa = value / (1 << power) if power >= 0 else value * (1 << -power)
    guard = _SPARE_BITS + power.bit_length()
    bits = precision + guard
    z = (mantissa - 1) / (mantissa + 1)
    lo, hi = _artanh_series(abs(z), bits)
    if z < 0:
        lo, hi = -hi, -lo
    if power:
        two_lo, two_hi = _artanh_series(Fraction(1, 3), bits)
        lo += power * (two_lo if power > 0 else two_hi)
        hi += power * (two_hi if power > 0 else two_lo)
    return 2 * lo >> guard, ceil_shift(2 * hi, guard)


def _artanh_series(z: Fraction, bits: int) -> Interval:
    """artanh(z) = z + z**3/3 + z**5/5 + ... for 0 <= z <= 1/3: each term is below 1/9 of the one before."""
    power_lo, power_hi = _rounded(z, bits)
    square_lo, square_hi = _rounded(z * z, bits)
    lo, hi, odd = power_lo, power_hi, 1
    while power_hi > 1:
        odd += 2
        power_lo = power_lo * square_lo >> bits
        power_hi = ceil_shift(power_hi * square_hi, bits)
        lo, hi = lo + power_lo // odd, hi + ceil_div(power_hi, odd)
    return lo, hi + power_hi


def sqrt_interval(value: Fraction | int, *, precision: int) -> Interval:
    """sqrt(value) * 2**precision lies in [lo, hi]; hi - lo <= 1, and 0 where the root is such an integer.

    With q = floor(value * 4**precision) and r = isqrt(q): r**2 <= q, and (r + 1)**2 >= q + 1 lies above.

    Raises:
        InvalidInput: `value` is below 0, or `precision` is below 1.
    """
    value = Fraction(value)
    _check_precision(precision)
    if value < 0:
        raise InvalidInput("value", value, "must not be below 0 to have a square root")
    scaled, rest = divmod(value.numerator << 2 * precision, value.denominator)
    root = isqrt(scaled)
    return root, root if rest == 0 and root * root == scaled else root + 1


@dataclass(frozen=True, kw_only=True, slots=True)
class CertifiedSums:
    """Running sums of the weights of a law, as certified intervals at one precision.

    Attributes:
        below: lower bounds of w_0, w_0 + w_1, ..., non-decreasing.
        above: upper bounds of the same sums.
        total: the interval of the sum of all weights, those after the last listed one included.
    """

    below: list[int]
    above: list[int]
    total: Interval

    @classmethod
    def of(cls, weights: Iterable[Interval], *, tail: int = 0) -> CertifiedSums:
        """Add up certified weights; those not listed (of an infinite law) are together at most `tail`."""
        pairs = list(weights)
        below = list(accumulate(lo for lo, _ in pairs))
        above = list(accumulate(hi for _, hi in pairs))
        return cls(below=below, above=above, total=(below[-1], above[-1] + tail))

    def locate(self, drawn: int, *, bits: int) -> int | None:
        """The index whose share of [0, 1) holds all of [drawn, drawn + 1) / 2**bits, or None if unsure.

        The share of index k is [(w_0 + ... + w_{k-1}) / total, (w_0 + ... + w_k) / total).
        """
        lowest, highest = self.total
        if lowest <= 0:
            return None
        index = bisect_left(self.below, ceil_shift((drawn + 1) * highest, bits))
        if index == len(self.below):
            return None
        if index > 0 and self.above[index - 1] << bits > drawn * lowest:
            return None
        return index


def ceil_div(numerator: int, denominator: int) -> int:
    """The smallest integer not below numerator / denominator, for a denominator above 0."""
    return -(-numerator // denominator)


def ceil_shift(number: int, bits: int) -> int:
    """The smallest integer not below number / 2**bits."""
    return -(-number >> bits)


def _rounded(value: Fraction, bits: int) -> Interval:
    scaled = value.numerator << bits
    return scaled // value.denominator, ceil_div(scaled, value.denominator)


def _check_precision(precision: int) -> None:
    if precision < 1:
        raise InvalidInput("precision", precision, "must be at least 1 bit")
