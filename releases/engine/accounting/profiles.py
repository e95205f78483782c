"""Privacy profiles and trade-off functions: all (epsilon, delta) of a mechanism at once, and what a test can learn.

delta(epsilon) = sup over neighbours and events S of P(S) - e^epsilon Q(S) (Balle, Barthe and Gaboardi 2018). The
trade-off f(a) is the least probability of missing (type II error) of any test that raises a false alarm with
probability at most a (Dong, Roth and Su 2022); delta(epsilon) = sup_a 1 - f(a) - e^epsilon a. Profiles are rounded
up and trade-offs down, so either errs on the side of less privacy.

Gaussian figures need erfc, which is computed to sixty digits and trusted to thirty-nine.
"""

from __future__ import annotations

from fractions import Fraction

from releases.engine.arithmetic.rounding import (
    Real,
    above,
    above_number,
    below,
    enclose,
    intervals,
    number,
    reals,
    round_down,
)
from releases.engine.errors import InvalidInput

_PLACES = 12


def pure_delta(*, pure_epsilon: Fraction, epsilon: Fraction) -> Fraction:
    """The profile of randomized response, the largest of any pure_epsilon-DP mechanism.

    (e^pure_epsilon - e^epsilon)/(1 + e^pure_epsilon), and 0 from pure_epsilon on (Kairouz, Oh and Viswanath 2015).
    """
    _check(epsilon=epsilon)
    if epsilon >= pure_epsilon:
        return Fraction(0)
    context = intervals()
    e = context.exp(enclose(pure_epsilon))
    return above((e - context.exp(enclose(epsilon))) / (1 + e))


def laplace_delta(*, noise_multiplier: Fraction, epsilon: Fraction) -> Fraction:
    """The profile of continuous Laplace noise: 1 - e^((epsilon - e0)/2), e0 = 1/noise_multiplier, and 0 from e0 on.

    A vector with the same l1 sensitivity is no worse: the overlap of P and e^epsilon Q is at least the product of the
    coordinates' overlaps with epsilon divided among them, and that product is e^((epsilon - e0)/2).
    """
    _check(epsilon=epsilon)
    if epsilon >= 1 / noise_multiplier:
        return Fraction(0)
    return above(1 - intervals().exp(enclose((epsilon - 1 / noise_multiplier) / 2)))


def gaussian_delta(*, noise_variance: Fraction, epsilon: Fraction) -> Fraction:
    """The profile of continuous Gaussian noise, with m = 1/sqrt(noise_variance) = l2 sensitivity/sigma.

    Phi(m/2 - epsilon/m) - e^epsilon Phi(-m/2 - epsilon/m) (Balle and Wang 2018, Theorem 8). k Gaussians, adaptive or
    not, are one with 1/noise_variance the sum of theirs.
    """
    _check(epsilon=epsilon)
    context = reals()
    m, e = 1 / context.sqrt(number(noise_variance)), number(epsilon)
    return above_number(_phi(m / 2 - e / m) - context.exp(e) * _phi(-m / 2 - e / m))


def approximate_trade_off(*, epsilon: Fraction, delta: Fraction, alpha: Fraction) -> Fraction:
    """The least trade-off of any (epsilon, delta)-DP mechanism.

    max{0, 1 - delta - e^epsilon a, e^-epsilon (1 - delta - a)} (Wasserman and Zhou 2010; Dong, Roth and Su 2022).
    """
    _check(epsilon=epsilon, alpha=alpha)
    context = intervals()
    e = enclose(epsilon)
    steep = below(enclose(1 - delta) - context.exp(e) * enclose(alpha))
    flat = below(context.exp(-e) * enclose(1 - delta - alpha))
    return max(Fraction(0), round_down(max(steep, flat), places=_PLACES))


def laplace_trade_off(*, noise_multiplier: Fraction, alpha: Fraction) -> Fraction:
    """The trade-off of one Laplace draw, e0 = 1/noise_multiplier (Dong, Roth and Su 2022).

    1 - e^e0 a up to a = e^-e0/2, then e^-e0/(4 a) up to a = 1/2, then e^-e0 (1 - a).
    """
    _check(alpha=alpha)
    context = intervals()
    e = enclose(1 / noise_multiplier)
    decay = context.exp(-e)
    if alpha <= below(decay) / 2:
        value = 1 - context.exp(e) * enclose(alpha)
    elif alpha <= Fraction(1, 2):
        value = decay / (4 * enclose(alpha))
    else:
        value = decay * enclose(1 - alpha)
    return max(Fraction(0), round_down(below(value), places=_PLACES))


def gaussian_trade_off(*, noise_variance: Fraction, alpha: Fraction) -> Fraction:
    """The trade-off of Gaussian noise: Phi(Phi^-1(1 - a) - m), m = 1/sqrt(noise_variance) (Dong, Roth and Su 2022)."""
    _check(alpha=alpha)
    if alpha in (0, 1):
        return 1 - alpha
    context = reals()
    quantile = context.sqrt(2) * context.erfinv(1 - 2 * number(alpha))
    missed = _phi(quantile - 1 / context.sqrt(number(noise_variance)))
    return max(Fraction(0), round_down(1 - above_number(1 - missed), places=_PLACES))


def _phi(x: Real) -> Real:
    """The normal distribution function."""
    context = reals()
    return context.erfc(-x / context.sqrt(2)) / 2


def _check(*, epsilon: Fraction = Fraction(0), alpha: Fraction = Fraction(0)) -> None:
    if epsilon < 0:
        raise InvalidInput("epsilon", str(epsilon), "must not be below 0")
    if not 0 <= alpha <= 1:
        raise InvalidInput("alpha", str(alpha), "must be a probability, from 0 to 1")
