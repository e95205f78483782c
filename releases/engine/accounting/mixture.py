"""A mixture of Rényi supermartingales: one sum an order, and how far the sums may go together.

A release costs R(a) at each order a of a public grid. The sums R_j at the orders a_j = 1 + b_j are accepted iff

    (1 - e^(epsilon - x))_+ <= delta M(x; R)  for every x,   M(x; R) = sum_j lambda_j e^(b_j (x - R_j)),

with public weights lambda_j >= 0 of sum at most 1. `filters` proves what that promises.

**The test.** For probabilities pi_j write b = sum pi_j b_j. The weighted means of powers give

    ln M(x; R) >= b x - sum pi_j b_j R_j - sum pi_j ln(pi_j / lambda_j),

and ln(1 - e^(epsilon - x)) - b x is largest where e^(epsilon - x) = b/(1 + b). So the sums are accepted if for some pi

    sum pi_j b_j R_j <= C(pi) := b epsilon + ln delta - b ln b + (1 + b) ln(1 + b) - sum pi_j ln(pi_j / lambda_j).

Nothing is lost: ln(1 - e^(epsilon - x)) - ln M(x; R) is concave in x, and at its maximum pi_j proportional to lambda_j
e^(b_j (x - R_j)) makes both steps equalities. Floats find that pi; any pi proves, so what they find is rounded to
fractions and one exact sum is compared with a certified lower bound of C(pi). Where that fails the sums are refused.

**The weights.** With L = max(ln(min(1, epsilon)/delta) - 2, 9), s = sqrt(1 + epsilon/L) - 1 and t_j = b_j s, which is
about 1 at the order that is best for Gaussian noise alone,

    lambda_j = 7/10 g(t_j; 12, 8)/Z + 3/10 g(t_j; 6, 2)/Z',    g(t; p, q) = 1/(t^-p + t^q),

Z and Z' constants. A larger budget accepts whatever a smaller one does: it is enough that delta lambda_j
e^(b_j epsilon) grows with epsilon and with delta (put x + the change of epsilon for x in the condition). s grows with
both, and lambda_j with s where t_j < 1. Where t_j > 1, lambda_j falls with s, at most as s^-8. With y = s + 1,
d ln s/d epsilon is at most 1/(2 L y s), so ln lambda_j falls with epsilon at a rate of at most 4/(9 s) < b_j; and
d ln s/d ln delta is at most (y + 1)/(2 L y) < 1/9, so ln lambda_j falls with ln delta at a rate below 8/9. Both leave
more room than is rounded away. So a grant may be raised at any time, whoever decides it and whatever they have seen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import log, log1p
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from releases.engine.accounting.accountant import DELTA_PLACES, EPSILON_PLACES
from releases.engine.accounting.renyi import pure_divergence
from releases.engine.arithmetic.rounding import below, ceiling, enclose, intervals, number, rational, reals

_Floats: TypeAlias = NDArray[np.float64]

#: b_j in hundredths: ten a decade from 0.4 to 4000. The best order of a budget of epsilon 100 lies near the first, that
#: of 0.01 near the last.
_DECADE = (100, 125, 160, 200, 250, 320, 400, 500, 640, 800)
_STEPS = (40, 50, 64, 80, *(step * 10**power for power in range(3) for step in _DECADE))
_STEPS = (*_STEPS, *(step * 1000 for step in _DECADE[:7]))
#: The orders at which sums are kept. Ledgers store sums in this order: it must never change.
ORDERS = tuple(1 + Fraction(step, 100) for step in _STEPS)
#: Weights are whole multiples of 2**-100, rounded down.
_WEIGHT_BITS = 100
#: The largest sums over the grid of both shapes, wherever s lies, rounded up; `_weights` checks the sum.
_SHARP, _BROAD = Fraction(773, 1000), Fraction(2434, 1000)
#: Probabilities that are proposed are multiples of 2**-40.
_PROPOSED = 2**40
#: Beyond this a float's verdict that the sums are too large is not asked again.
_CLEARLY = 1e-6

_B = np.array([step / 100 for step in _STEPS])
_A = 1 + _B


@dataclass(frozen=True, slots=True)
class MixtureRule:
    """The rule for one budget.

    Attributes:
        epsilon: in 10**-12.
        delta: of the conversion, in 10**-18.
    """

    epsilon: int
    delta: int

    def holds(self, sums: tuple[int, ...]) -> bool:
        """Whether these sums, one an order in 10**-12, are accepted: proved, not estimated."""
        amounts = _floats(sums)
        proposed = self._proposal(amounts)
        if float(proposed @ (_B * amounts)) - self._allowed(proposed) > _CLEARLY:
            return False
        counts = [round(share * _PROPOSED) for share in proposed.tolist()]
        return _is_proved(self, sums, counts)

    def share(self, sums: tuple[int, ...]) -> float:
        """The least t for which the sums divided by t are accepted: how much of the rule they use up.

        min over pi of sum pi_j b_j R_j / C(pi), by Dinkelbach's method from above. For pages: a float, not rounded.
        """
        amounts = _floats(sums)
        if not amounts.any():
            return 0.0
        scaled, least = np.zeros_like(amounts), float("inf")
        for _ in range(30):
            proposed = self._proposal(scaled)
            allowed = self._allowed(proposed)
            found = float(proposed @ (_B * amounts)) / allowed if allowed > 0 else float("inf")
            if not found < least * (1 - 1e-12):
                break
            least, scaled = found, amounts / found
        return least

    def rho_left(self, sums: tuple[int, ...]) -> float:
        """About the largest rho that still fits; 0 where none does."""
        amounts, rho = _floats(sums), 0.0
        for _ in range(30):
            proposed = self._proposal(amounts + rho * _A)
            found = (self._allowed(proposed) - float(proposed @ (_B * amounts))) / float(proposed @ (_B * _A))
            if not found > rho * (1 + 1e-12):
                break
            rho = found
        return rho

    def pure_left(self, sums: tuple[int, ...], *, most: float) -> float:
        """About the largest epsilon of a pure release that still fits, up to `most`."""
        amounts = _floats(sums)
        low, high = 0.0, most
        for _ in range(60):
            middle = (low + high) / 2
            after = amounts + _pure_floats(middle)
            proposed = self._proposal(after)
            is_in = float(proposed @ (_B * after)) <= self._allowed(proposed)
            low, high = (middle, high) if is_in else (low, middle)
        return low

    def _proposal(self, amounts: _Floats) -> _Floats:
        """The probabilities that come closest to accepting: those at the worst x, found by Newton's method."""
        exponents = _logarithms(self) + _B * (self.epsilon / 10**EPSILON_PLACES - amounts)
        low, high, beyond = 0.0, float("inf"), 0.0
        for _ in range(60):
            terms = exponents + _B * beyond
            shares: _Floats = np.exp(terms - terms.max())
            shares /= shares.sum()
            mean = float(shares @ _B)
            excess = beyond - log1p(1 / mean)
            low, high = (beyond, high) if excess < 0 else (low, beyond)
            slope = 1 + (float(shares @ (_B * _B)) - mean * mean) / (mean * (mean + 1))
            step = beyond - excess / slope
            if not low < step < high:
                step = (low + high) / 2 if high < float("inf") else 2 * low + 1e-9
            if abs(step - beyond) <= 1e-13 * step:
                break
            beyond = step
        return shares

    def _allowed(self, shares: _Floats) -> float:
        """C(pi), about."""
        mean = float(shares @ _B)
        held = shares > 0
        apart = float(shares[held] @ (np.log(shares[held]) - _logarithms(self)[held]))
        whole: float = mean * self.epsilon / 10**EPSILON_PLACES + log(self.delta) - DELTA_PLACES * log(10)
        return whole - mean * log(mean) + (1 + mean) * log1p(mean) - apart


def divergences(*, pure_epsilon: int | None, rho: int | None, closed: int) -> tuple[int, ...]:
    """What a release of these forms costs at each order, in 10**-12 and rounded up; `closed` where it has no rho.

    a rho, and for a pure release at most the divergence of randomized response of its epsilon.
    """
    if rho is None:
        return (closed,) * len(ORDERS)
    # In whole numbers, as ORDERS: a page of what is left asks for this thousands of times.
    costs = [min(closed, -(-(100 + step) * rho // 100)) for step in _STEPS]
    if pure_epsilon is not None:
        costs = [min(pair) for pair in zip(costs, _of_pure(pure_epsilon), strict=True)]
    return tuple(costs)


def largest(fits: Callable[[int], bool], *, near: int, most: int) -> int:
    """The largest whole number up to `most` that fits, by bisection around a guess; -1 if 0 does not.

    `fits` holds up to some number and not beyond.
    """
    low, high, step = -1, most + 1, 1
    guess = max(0, min(near, most))
    while low < guess < high:
        if fits(guess):
            low, guess = guess, guess + step
        else:
            high, guess = guess, guess - step
        step *= 4
    guess = max(low + 1, min(guess, high - 1))
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def weights(rule: MixtureRule) -> tuple[int, ...]:
    """lambda_j in 2**-100."""
    return _weights(rule)


@lru_cache(maxsize=4096)
def _weights(rule: MixtureRule) -> tuple[int, ...]:
    context = reals()
    conversion = number(Fraction(rule.delta, 10**DELTA_PLACES))
    epsilon = number(Fraction(rule.epsilon, 10**EPSILON_PLACES))
    depth = max(context.log(min(context.mpf(1), epsilon) / conversion) - 2, context.mpf(9))
    scale = rational(context.sqrt(1 + epsilon / depth) - 1)
    made = []
    for step in _STEPS:
        place = Fraction(step, 100) * scale
        sharp = 1 / (1 / place**12 + place**8) / _SHARP
        broad = 1 / (1 / place**6 + place**2) / _BROAD
        made.append(int((7 * sharp + 3 * broad) / 10 * 2**_WEIGHT_BITS))
    if sum(made) > 2**_WEIGHT_BITS:
        raise AssertionError("the weights of the orders add up to more than 1")
    return tuple(made)


@lru_cache(maxsize=4096)
def _logarithms(rule: MixtureRule) -> _Floats:
    return np.array([log(weight) if weight else -1e9 for weight in _weights(rule)]) - _WEIGHT_BITS * log(2)


def _is_proved(rule: MixtureRule, sums: tuple[int, ...], counts: list[int]) -> bool:
    """Whether the probabilities counts/sum(counts) prove the sums accepted: an exact sum and a certified bound."""
    known = _weights(rule)
    used = [(place, count) for place, count in enumerate(counts) if count > 0 and known[place]]
    total = sum(count for _, count in used)
    if not total:
        return False
    spent = Fraction(
        sum(count * _STEPS[place] * sums[place] for place, count in used), 100 * total * 10**EPSILON_PLACES
    )
    return spent <= _allowed_at_least(rule, tuple(used))


def _allowed_at_least(rule: MixtureRule, used: tuple[tuple[int, int], ...]) -> Fraction:
    """A rational at most C(pi)."""
    context, known = intervals(), _weights(rule)
    total = sum(count for _, count in used)
    mean = Fraction(sum(count * _STEPS[place] for place, count in used), 100 * total)
    apart = context.mpf(0)
    for place, count in used:
        share = Fraction(count, total)
        apart += enclose(share) * context.log(enclose(share / Fraction(known[place], 2**_WEIGHT_BITS)))
    b = enclose(mean)
    allowed = b * enclose(Fraction(rule.epsilon, 10**EPSILON_PLACES))
    allowed += context.log(enclose(Fraction(rule.delta, 10**DELTA_PLACES)))
    allowed += (1 + b) * context.log(1 + b) - b * context.log(b) - apart
    return below(allowed)


@lru_cache(maxsize=16384)
def _of_pure(epsilon: int) -> tuple[int, ...]:
    exact = Fraction(epsilon, 10**EPSILON_PLACES)
    return tuple(
        min(epsilon, ceiling(pure_divergence(epsilon=exact, order=order), places=EPSILON_PLACES)) for order in ORDERS
    )


def _pure_floats(epsilon: float) -> _Floats:
    def log_cosh(x: _Floats) -> _Floats:
        return x + np.log1p(np.exp(-2 * x))

    curve: _Floats = (log_cosh((_A - 0.5) * epsilon) - log_cosh(np.array(epsilon / 2))) / _B
    return curve


def _floats(sums: tuple[int, ...]) -> _Floats:
    divergences_of_order: _Floats = np.array(sums, dtype=np.float64) / 10**EPSILON_PLACES
    return divergences_of_order
