"""Real numbers bounded from the safe side: interval arithmetic in, exact rationals out.

A price may be too high in its last digit and never too low; a cap may be too low and never too high. Formulas
are evaluated on intervals that hold the true value, and leave here as rationals at or beyond the endpoint
asked for. No float takes part.
"""

from __future__ import annotations

import threading
from fractions import Fraction
from typing import Any, TypeAlias

from mpmath import libmp
from mpmath.ctx_iv import MPIntervalContext
from mpmath.ctx_mp import MPContext

from releases.engine.errors import Unpriceable

#: mpmath carries no types: a context, an interval, a number, and the tuple inside a number.
Context: TypeAlias = Any
Interval: TypeAlias = Any
Real: TypeAlias = Any
_Raw: TypeAlias = tuple[int, int, int, int]

#: Sixty digits are computed. A bound is wanted to thirty, so what is lost on the way never shows.
_DIGITS = 60
#: What an endpoint is moved outwards by, relative to its size and absolutely: mpmath rounds each elementary
#: function in the asked direction from a result with a few spare bits, which is nearly always, not provably
#: always, right.
_RELATIVE_SLACK = Fraction(1, 2**180)
_ABSOLUTE_SLACK = Fraction(1, 2**400)
#: Numbers of more bits than this are no price anybody is told, and writing them out as integers would fill
#: the memory.
_LARGEST_EXPONENT = 8192


class _Contexts(threading.local):
    """One pair of mpmath contexts a thread.

    mpmath keeps its precision in the context, and functions such as erfinv raise and restore it while they run:
    in a context shared between the threads of a web server one thread could end another's sixty digits
    midway.
    """

    def __init__(self) -> None:
        self.interval = MPIntervalContext()
        self.interval.dps = _DIGITS
        self.real = MPContext()
        self.real.dps = _DIGITS


_contexts = _Contexts()


def intervals() -> Context:
    """This thread's interval context: exp, log and sqrt of it return intervals that hold the true value."""
    return _contexts.interval


def reals() -> Context:
    """This thread's context of sixty-digit numbers, for searches and for erfc, which has no interval form."""
    return _contexts.real


def enclose(value: Fraction | int) -> Interval:
    """The narrowest interval that holds an exact rational."""
    context = intervals()
    if isinstance(value, int):
        return context.mpf(value)
    return context.mpf(value.numerator) / context.mpf(value.denominator)


def number(value: Fraction | int) -> Real:
    """An exact rational to sixty digits."""
    context = reals()
    if isinstance(value, int):
        return context.mpf(value)
    return context.mpf(value.numerator) / context.mpf(value.denominator)


def above(value: Interval) -> Fraction:
    """A rational that is at least every number of the interval.

    Raises:
        Unpriceable: the interval has no finite upper end of ordinary size.
    """
    return _outwards(value._mpi_[1], sign=1, relative=_RELATIVE_SLACK)


def below(value: Interval) -> Fraction:
    """A rational that is at most every number of the interval.

    Raises:
        Unpriceable: the interval has no finite lower end of ordinary size.
    """
    return _outwards(value._mpi_[0], sign=-1, relative=_RELATIVE_SLACK)


def above_number(value: Real) -> Fraction:
    """A rational at least the true value of what was computed to sixty digits: the last twenty are given
    away.
    """
    return _outwards(value._mpf_, sign=1, relative=Fraction(1, 2**130))


def rational(value: Real) -> Fraction:
    """The exact value of a sixty-digit number, for parameters that may be any number, such as a Rényi
    order.
    """
    return Fraction(*libmp.to_rational(value._mpf_))


def round_up(value: Fraction, *, places: int) -> Fraction:
    """The least decimal with `places` digits that is not below `value`."""
    return Fraction(ceiling(value, places=places), 10**places)


def ceiling(value: Fraction, *, places: int) -> int:
    """`value` in units of 10**-places, rounded up."""
    scale: int = 10**places
    return -((-value.numerator * scale) // value.denominator)


def floor(value: Fraction, *, places: int) -> int:
    """`value` in units of 10**-places, rounded down."""
    scale: int = 10**places
    return (value.numerator * scale) // value.denominator


def _outwards(raw: _Raw, *, sign: int, relative: Fraction) -> Fraction:
    _, mantissa, exponent, bits = raw
    if not mantissa and exponent:  # how mpmath writes infinities and nan
        raise Unpriceable("The figure asked for is not finite.")
    if exponent + bits > _LARGEST_EXPONENT:
        raise Unpriceable("The figure asked for is too large to be a statement about privacy.")
    if exponent + bits < -400:
        return sign * _ABSOLUTE_SLACK if not mantissa else sign * 2 * _ABSOLUTE_SLACK
    value = Fraction(*libmp.to_rational(raw))
    return value + sign * (abs(value) * relative + _ABSOLUTE_SLACK)
