"""Noise whose scale is a real number that depends on the table, drawn exactly on a public lattice.

`discrete` draws from laws whose scale is a public rational. Smooth sensitivity (`smooth_sensitivity`) needs more: a
scale sigma = multiplier * S with S = gap * exp(-rational), a real number known to any precision and as private as
the table. A floating-point draw of f + sigma Z would have neither the law nor the support that the proof speaks of
(Mironov 2012). Here the mechanism is defined on the reals and its output rounded to the integers, the units of a
column's last place, by a fixed public rule: post-processing, so what is proved of the real-valued mechanism holds of
the rounded one, at the same price (Dwork and Roth 2014, Proposition 2.1).

The rounded noise is drawn exactly. By symmetry it is a fair sign and a size |round(sigma Z)|, and

    size > j   if and only if   |Z| > (j + 1/2) / sigma,   which has probability Q((j + 1/2) / sigma).

Q falls, so with a uniform V in [0, 1) the size is the number of j with V < Q((j + 1/2) / sigma), found by bisection
over 0 ... `most`. V is revealed lazily: its first 64 bits are compared with certified enclosures of Q
(`intervals`), and only where an enclosure meets [v, v + 1) / 2**bits, once in 2**55 draws or so, are more bits drawn
and everything narrowed. Sizes beyond `most` are cut to it, which is post-processing again: `most` is the width of the
column's range, to which the answer is clamped in any case.

What remains: the number of comparisons follows from the range alone and the number of random words is 2 but for that
rare event, yet the time of one enclosure varies a little with the argument, so with the table.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import erfc, isqrt, log, pi, sqrt, tan
from typing import ClassVar

from releases.engine.arithmetic.intervals import Interval, ceil_div, ceil_shift, exp_interval, sqrt_interval
from releases.engine.errors import InvalidInput
from releases.engine.noise.randomness import Randomness, SamplerFailure, random_bits

#: Bits of an enclosure beyond those of the uniform number, so that one comparison in 2**50 or so is undecided.
_SPARE_BITS = 32
#: An argument is halved (as an angle) so often before its arctangent's series: two bits a halving, a term each.
_HALVINGS = 8
#: A draw undecided after so many bits has probability 2**-60000: something is broken instead.
_MAX_BITS = 1 << 16
#: Relative allowance for rounding in quantiles, far above what double precision loses.
_SLACK = 1e-9


@dataclass(frozen=True)
class Law(ABC):
    """The law of a symmetric real variable Z with a density, of scale 1."""

    name: ClassVar[str]

    @abstractmethod
    def tail(self, x: Fraction, *, precision: int) -> Interval:
        """(lo, hi) with lo <= Pr[|Z| > x] * 2**precision <= hi, for x >= 0; hi - lo is a few units."""

    @abstractmethod
    def quantile(self, beta: float) -> float:
        """What |Z| exceeds with probability at most beta, rounded up."""


class Cauchy(Law):
    """Density 1 / (pi (1 + z**2))."""

    name: ClassVar[str] = "Cauchy"

    def tail(self, x: Fraction, *, precision: int) -> Interval:
        """(2 / pi) arctan(1 / x), or 1 - (2 / pi) arctan(x) where x < 1."""
        guard = precision + 8
        angle_lo, angle_hi = arctan_interval(x if x < 1 else 1 / x, precision=guard)
        pi_lo, pi_hi = pi_interval(precision=guard)
        lo, hi = (2 * angle_lo << precision) // pi_hi, ceil_div(2 * angle_hi << precision, pi_lo)
        return ((1 << precision) - hi, (1 << precision) - lo) if x < 1 else (lo, hi)

    def quantile(self, beta: float) -> float:
        return (1 + _SLACK) / tan(pi * beta / 2)


class Laplace(Law):
    """Density exp(-|z|) / 2."""

    name: ClassVar[str] = "Laplace"

    def tail(self, x: Fraction, *, precision: int) -> Interval:
        return exp_interval(-x, precision=precision)

    def quantile(self, beta: float) -> float:
        return (1 + _SLACK) * -log(beta)


class Gaussian(Law):
    """Density exp(-z**2 / 2) / sqrt(2 pi)."""

    name: ClassVar[str] = "Gaussian"

    def tail(self, x: Fraction, *, precision: int) -> Interval:
        return erfc_interval(x * x / 2, precision=precision)

    def quantile(self, beta: float) -> float:
        """By bisection of erfc(x / sqrt 2) <= beta; 40 standard deviations have probability below 1e-300."""
        low, high = 0.0, 40.0
        for _ in range(80):
            middle = (low + high) / 2
            low, high = (middle, high) if erfc(middle / sqrt(2)) > beta else (low, middle)
        return (1 + _SLACK) * high


CAUCHY, LAPLACE, GAUSSIAN = Cauchy(), Laplace(), Gaussian()


def rounded_noise(
    law: Law,
    *,
    multiplier: Fraction,
    scale_at: Callable[[int], Interval],
    most: int,
    rng: Randomness,
    bits: int = 64,
) -> int:
    """sigma Z rounded to the nearest integer and cut to [-most, most], sigma = multiplier * scale, exactly.

    Args:
        law: of Z.
        multiplier: above 0, public.
        scale_at: returns (lo, hi) with lo <= scale * 2**precision <= hi, narrowing as `precision` grows; the scale is
            above 0, in the lattice's unit, and may be private.
        most: at least 1, public.
        rng: where the words come from.
        bits: how many of the uniform number are drawn at first; fewer than 64 only to test what follows.

    Raises:
        InvalidInput: `multiplier` or `most` is out of range.
        SamplerFailure: the draw cannot be decided, so an enclosure does not narrow.
    """
    if multiplier <= 0:
        raise InvalidInput("multiplier", multiplier, "must be above 0")
    if most < 1:
        raise InvalidInput("most", most, "must be at least 1")
    is_negative = random_bits(1, rng) == 1
    drawn, known = random_bits(bits, rng), bits
    while known <= _MAX_BITS:
        size = _size(law, multiplier, scale_at, most, drawn, known)
        if size is not None:
            return -size if is_negative else size
        drawn, known = drawn << known | random_bits(known, rng), 2 * known
    raise SamplerFailure("a draw of scaled noise could not be decided: its scale does not narrow")


def _size(
    law: Law, multiplier: Fraction, scale_at: Callable[[int], Interval], most: int, drawn: int, bits: int
) -> int | None:
    """How many j < most have V < Q((j + 1/2) / sigma), V in [drawn, drawn + 1) / 2**bits; None where unsure."""
    precision = bits + _SPARE_BITS
    scale_lo, scale_hi = scale_at(precision)
    low, high = 0, most
    while low < high:
        middle = (low + high) // 2
        # (middle + 1/2) / sigma, from below and from above; a scale that may still be 0 leaves it unbounded.
        reach = Fraction((2 * middle + 1) << precision, 2) / multiplier
        above = law.tail(reach / scale_hi, precision=precision)[1]
        below = law.tail(reach / scale_lo, precision=precision)[0] if scale_lo > 0 else 0
        if (drawn + 1) << _SPARE_BITS <= below:
            low = middle + 1
        elif drawn << _SPARE_BITS >= above:
            high = middle
        else:
            return None
    return low


@lru_cache(maxsize=64)
def pi_interval(*, precision: int) -> Interval:
    """pi * 2**precision lies in [lo, hi]; hi - lo <= 2. Machin (1706): pi / 4 = 4 arctan(1/5) - arctan(1/239)."""
    bits = precision + 16
    one_lo, one_hi = _arctan_series(*_rounded(Fraction(1, 5), bits), bits)
    other_lo, other_hi = _arctan_series(*_rounded(Fraction(1, 239), bits), bits)
    return (16 * one_lo - 4 * other_hi) >> 16, ceil_shift(16 * one_hi - 4 * other_lo, 16)


def arctan_interval(value: Fraction, *, precision: int) -> Interval:
    """arctan(value) * 2**precision lies in [lo, hi] for 0 <= value <= 1; hi - lo <= 2.

    arctan(z) = 2 arctan(z / (1 + sqrt(1 + z**2))), which grows with z and does not widen an enclosure; after eight
    halvings z is below 2**-8 and the series' terms fall by 16 bits each.

    Raises:
        InvalidInput: `value` is not from 0 to 1.
    """
    if not 0 <= value <= 1:
        raise InvalidInput("value", value, "must be from 0 to 1")
    bits = precision + 16 + _HALVINGS
    lo, hi = _rounded(value, bits)
    one = 1 << bits
    for _ in range(_HALVINGS):
        # A root lies from its isqrt up to one unit above; it divides, so each end takes the other side.
        longest, shortest = isqrt(one * one + lo * lo) + 1, isqrt(one * one + hi * hi)
        lo, hi = (lo << bits) // (one + longest), ceil_div(hi << bits, one + shortest)
    lo, hi = _arctan_series(lo, hi, bits)
    shift = bits - precision - _HALVINGS
    return lo >> shift, ceil_shift(hi, shift)


def _arctan_series(z_lo: int, z_hi: int, bits: int) -> Interval:
    """arctan of z in [z_lo, z_hi] / 2**bits, z below 1/2; each end by itself, as arctan grows."""
    return _alternating(z_lo, bits)[0], _alternating(z_hi, bits)[1]


def _alternating(z: int, bits: int) -> Interval:
    """z - z**3/3 + z**5/5 - ... of z / 2**bits: what is left out is less than the first term left out."""
    square_lo, square_hi = z * z >> bits, ceil_shift(z * z, bits)
    power_lo = power_hi = lo = hi = z
    odd = 1
    while power_hi > 1:
        odd += 2
        power_lo, power_hi = power_lo * square_lo >> bits, ceil_shift(power_hi * square_hi, bits)
        if odd % 4 == 3:
            lo, hi = lo - ceil_div(power_hi, odd), hi - power_lo // odd
        else:
            lo, hi = lo + power_lo // odd, hi + ceil_div(power_hi, odd)
    return lo - power_hi, hi + power_hi


def erfc_interval(half_square: Fraction, *, precision: int) -> Interval:
    """erfc(sqrt(y)) * 2**precision lies in [lo, hi] for y >= 0, `half_square` = y; hi - lo is a few units.

    erfc(sqrt(y)) <= exp(-y). Below that reach, erf(sqrt(y)) = sqrt(4 y / pi) exp(-y) (1 + 2 y/3 + (2 y)**2/(3 5) +
    ...) (Abramowitz and Stegun 1964, 7.1.6), whose terms are positive: nothing cancels.

    Raises:
        InvalidInput: `half_square` is below 0.
    """
    y = half_square
    if y < 0:
        raise InvalidInput("half_square", y, "must not be below 0")
    if 10 * y >= 7 * precision:
        return 0, 1  # ln 2 < 7/10
    bits = precision + 24 + 2 * int(y)
    pi_lo, pi_hi = pi_interval(precision=bits)
    root_lo = sqrt_interval(_coarse(4 * y, bits, up=False) * (1 << bits) / pi_hi, precision=bits)[0]
    root_hi = sqrt_interval(_coarse(4 * y, bits, up=True) * (1 << bits) / pi_lo, precision=bits)[1]
    fall_lo = exp_interval(-_coarse(y, bits, up=True), precision=bits)[0]
    fall_hi = exp_interval(-_coarse(y, bits, up=False), precision=bits)[1]
    sum_lo, sum_hi = _rising_series(*_rounded(2 * y, bits), bits)
    lo = (root_lo * fall_lo >> bits) * sum_lo >> bits
    hi = ceil_shift(ceil_shift(root_hi * fall_hi, bits) * sum_hi, bits)
    shift = bits - precision
    return max(0, (1 << precision) - ceil_shift(hi, shift)), (1 << precision) - (lo >> shift)


def _rising_series(t_lo: int, t_hi: int, bits: int) -> Interval:
    """1 + t/3 + t**2/(3 5) + ...; once t / odd is below 1/2 what is left out is below the last term kept."""
    term_lo = term_hi = lo = hi = 1 << bits
    odd = 1
    while term_hi > 1 or 2 * t_hi > odd << bits:
        odd += 2
        term_lo, term_hi = (term_lo * t_lo >> bits) // odd, ceil_div(ceil_shift(term_hi * t_hi, bits), odd)
        lo, hi = lo + term_lo, hi + term_hi
    return lo, hi + term_hi


def _coarse(value: Fraction, bits: int, *, up: bool) -> Fraction:
    """`value` to about `bits` significant bits: long fractions would slow every step."""
    places = bits + max(0, value.denominator.bit_length() - value.numerator.bit_length())
    lo, hi = _rounded(value, places)
    return Fraction(hi if up else lo, 1 << places)


def _rounded(value: Fraction, bits: int) -> Interval:
    scaled = value.numerator << bits
    return scaled // value.denominator, ceil_div(scaled, value.denominator)


def largest_rounded(law: Law, *, scale: float, beta: float, most: int) -> int:
    """What |round(sigma Z)| cut to `most` exceeds with probability at most beta, for any sigma up to `scale`.

    |Z| <= z implies |round(sigma Z)| <= floor(sigma z + 1/2), a whole number.
    """
    reach = scale * law.quantile(beta) * (1 + _SLACK) + 0.5
    return most if not reach < most else int(reach)
