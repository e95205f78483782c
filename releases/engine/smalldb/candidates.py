"""Which small databases there are, and how many of them each vector of counts stands for.

A *kind* is a set of cells of the universe that no query tells apart; kind c has w_c cells. A candidate is looked at
through its counts y = (y_c), of sum m, one for each kind. How many candidates have these counts is a product

    g(y) = s * product over c of g(w_c, y_c),

and the exponential mechanism over candidates, seen through counts, has P(y) proportional to g(y) exp(-rate L(y)):

    multisets   of m cells of the universe:   g(w, y) = C(w + y - 1, y),  s = 1,   C(N + m - 1, m) in all
    kinds       multisets of m kinds:         g(w, y) = 1,                s = 1,   C(K + m - 1, m) in all
    sequences   m cells one after another:    g(w, y) = w**y / y!,        s = m!,  N**m in all

with N = sum of w_c cells and K kinds. Which cells of a kind a candidate holds is evenly distributed given its counts
and says nothing of the data, so nothing is lost by releasing the counts alone.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from enum import StrEnum
from fractions import Fraction
from itertools import accumulate
from math import comb, factorial
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from releases.engine.arithmetic.intervals import ceil_div
from releases.engine.noise.randomness import Randomness, random_below

#: (mantissa, exponent): the number mantissa * 2**exponent, exactly; mantissa 0 is 0.
Scaled: TypeAlias = tuple[int, int]
Candidate: TypeAlias = NDArray[np.int64]

#: Exponents of stored numbers count powers of 2**512, and their fractions lie in [2**-256, 2**256) (see `kernels`).
RADIX_BITS = 512
_HALF_RADIX = 256
#: Bits carried from one entry of a weight table to the next: it is rounded up 10**4 times at most, by 2**-127 each.
_CARRIED_BITS = 128


class Databases(StrEnum):
    """The candidates; see the head of this file."""

    MULTISETS = "multisets"
    KINDS = "kinds"
    SEQUENCES = "sequences"


def ways(databases: Databases, *, cells: int, count: int) -> Fraction:
    """g(w, y): how many choices of y rows within a kind of w cells, up to the constant s."""
    if databases is Databases.MULTISETS:
        return Fraction(comb(cells + count - 1, count))
    if databases is Databases.SEQUENCES:
        return Fraction(cells**count, factorial(count))
    return Fraction(1)


def whole_ways(databases: Databases, *, cells: int, count: int, left: int) -> int:
    """g as a factor in whole numbers, where kinds are filled one after another and `left` rows are still to be placed.

    For sequences the product of C(left, y_c) w_c**y_c is m! times that of w_c**y_c / y_c!, so s is in it already.
    """
    if databases is Databases.MULTISETS:
        return comb(cells + count - 1, count)
    return int(comb(left, count) * cells**count) if databases is Databases.SEQUENCES else 1


def constant(databases: Databases, *, size: int) -> int:
    """s."""
    return factorial(size) if databases is Databases.SEQUENCES else 1


def all_candidates(databases: Databases, *, cells: int, kinds: int, size: int) -> int:
    """The number of candidates: the sum of g(y) over all y of sum `size`, for N = `cells` and K = `kinds`."""
    if databases is Databases.SEQUENCES:
        return int(cells**size)
    return comb((cells if databases is Databases.MULTISETS else kinds) + size - 1, size)


def log_share_of_worst(databases: Databases, *, cells: int, fewest: int, kinds: int, most: int) -> NDArray[np.float64]:
    """ln(candidates / the least g(y) of any y), for sizes 1 ... `most`.

    The least is where all rows are of the kind with the fewest cells, w: ln C(w + y - 1, y) is concave in y (its steps
    (w + y) / (y + 1) fall), and a sum of concave functions is least over y >= 0 of given sum at a corner; of corners
    the one with least w. For sequences m! / product of y_c! is at least 1. So the ratio is the product over i < m of

        multisets: (N + i) / (w + i),    kinds: (K + i) / (1 + i),    sequences: N / w.
    """
    steps = np.arange(most, dtype=np.float64)
    share = float(np.log(_ratio(cells, fewest)))
    if databases is Databases.SEQUENCES:
        terms = np.full(most, share)
    elif databases is Databases.KINDS:
        terms = np.log(kinds + steps) - np.log(1 + steps)
    else:
        terms = share + np.log1p(steps * _reciprocal(cells)) - np.log1p(steps * _reciprocal(fewest))
    sums: NDArray[np.float64] = np.cumsum(terms)
    return sums


def weight_table(databases: Databases, *, cells: int, most: int) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
    """Numbers f * 2**(512 e), at least g(w, y) and at most 1 + 2**-51 times it, for y = 0 ... `most`."""
    f, e = np.empty(most + 1), np.empty(most + 1, dtype=np.int32)
    mantissa, power = 1 << _CARRIED_BITS, -_CARRIED_BITS
    for count in range(most + 1):
        f[count], e[count] = _stored(mantissa, power)
        if databases is Databases.MULTISETS:
            mantissa = ceil_div(mantissa * (cells + count), count + 1)
        elif databases is Databases.SEQUENCES:
            mantissa = ceil_div(mantissa * cells, count + 1)
        shift = mantissa.bit_length() - _CARRIED_BITS - 1
        mantissa = ceil_div(mantissa, 1 << shift) if shift > 0 else mantissa << -shift
        power += shift
    return f, e


def _stored(mantissa: int, power: int) -> tuple[float, int]:
    """mantissa * 2**power, rounded up to 53 bits, as a stored number."""
    shift = mantissa.bit_length() - 53
    if shift > 0:
        mantissa, power = -(-mantissa >> shift), power + shift
    exponent = (power + mantissa.bit_length() + _HALF_RADIX - 1) // RADIX_BITS
    return float(np.ldexp(float(mantissa), power - RADIX_BITS * exponent)), exponent


def scaled(f: float, e: int) -> Scaled:
    """A stored number, exactly."""
    numerator, denominator = float(f).as_integer_ratio()
    return numerator, RADIX_BITS * int(e) - (denominator.bit_length() - 1)


def exact_number(f: float, e: int) -> Fraction:
    """A stored number as a fraction."""
    mantissa, exponent = scaled(f, e)
    return Fraction(mantissa << exponent) if exponent >= 0 else Fraction(mantissa, 1 << -exponent)


def draw_evenly(databases: Databases, *, cells: Sequence[int], size: int, rng: Randomness) -> Candidate:
    """The counts of one of all candidates, each as likely as any other.

    A multiset of m of N things, in order x_1 <= ... <= x_m of their numbers from 0, is a set of m of N + m - 1 numbers
    by x_i + i; an even draw of such a set is Floyd's (Bentley and Floyd 1987).
    """
    places = [1] * len(cells) if databases is Databases.KINDS else list(cells)
    ends = list(accumulate(places))
    counts = np.zeros(len(cells), dtype=np.int64)
    for thing in _things(databases, ends[-1], size, rng):
        counts[bisect_right(ends, thing)] += 1
    return counts


def _things(databases: Databases, things: int, size: int, rng: Randomness) -> list[int]:
    if databases is Databases.SEQUENCES:
        return [random_below(things, rng) for _ in range(size)]
    drawn: set[int] = set()
    for last in range(things - 1, things + size - 1):
        number = random_below(last + 1, rng)
        drawn.add(last if number in drawn else number)
    return [number - index for index, number in enumerate(sorted(drawn))]


def _ratio(numerator: int, denominator: int) -> float:
    return float(Fraction(numerator, denominator))


def _reciprocal(number: int) -> float:
    return 1 / number if number < 10**300 else 0.0
