"""From one way of stating privacy to another, every figure rounded to the safe side and exact as a rational.

All statements speak of both directions of every pair of neighbours P, Q under the relation of the mechanism
that is converted; no conversion here changes the relation except `amplified`, which checks it.

The proofs of the three concentrated prices, since they carry the ledger. For orders a > 1 write b = a - 1/2
and Psi(a) = (a - 1) D_a(P||Q) = ln E_Q[(P/Q)^a]; then a (a - 1) = b**2 - 1/4, and rho-zCDP says
Psi(a) <= rho a (a - 1).

1. *Pure epsilon-DP is epsilon tanh(epsilon/2)-zCDP.* Binary randomized response with ratio e^epsilon can be
   processed into any epsilon-DP pair (Kairouz, Oh and Viswanath 2015), and for it
   Psi = ln cosh(b epsilon) - ln cosh(epsilon/2). As a function of s = b**2, ln cosh(epsilon sqrt(s)) is
   concave (its slope is epsilon tanh(x)/(2 sqrt(s)), x = epsilon sqrt(s), and tanh(x)/x decreases), so its
   chord from s = 1/4 is at most its slope there, epsilon tanh(epsilon/2): that is Psi/(a (a - 1)). It is the
   limit a -> 1, so nothing smaller holds. (Also Steinke, DifferentialPrivacy.org, 2024, "Tight RDP & zCDP
   bounds from pure DP".)
2. *The Laplace mechanism with ratio e^epsilon is (epsilon + e^-epsilon - 1)-zCDP.* Lemma 7.14 of the notes
   gives Psi = -epsilon/2 + ln F(s), F(s) = cosh(epsilon b) + sinh(epsilon b)/(2 b). F is entire of order 1/2
   in s, and its zeros are the s = -y**2 with y the frequencies of a string on [0, epsilon] that is fixed at
   one end and held by a spring at the other (u'' = -y**2 u, u'(0) = u(0)/2, u(epsilon) = 0): a self-adjoint
   problem with positive energy, so the zeros are real and negative, F(s) = F(0) prod (1 + s/y_k**2), ln F is
   concave, and as above Psi/(a (a - 1)) <= D_1 = epsilon + e^-epsilon - 1. A vector with l1 sensitivity is
   no worse: that function is convex and 0 at 0, so the whole change in one coordinate is the worst. (Also
   Harrison and Manurangsi, FORC 2026, Exact zCDP Characterizations.)
3. *A bounded range of epsilon (exponential mechanism) is (epsilon**2/8)-zCDP.* Psi(0) = Psi(1) = 0, and Psi''
   is a variance of the privacy loss, which lies in an interval of length epsilon, so at most epsilon**2/4.
   Then Psi(a) - (epsilon**2/8) a (a - 1) is concave with zeros 0 and 1, so not positive beyond 1. (Also Cesar
   and Rogers 2021.)

k-ary randomized response: Psi = ln(cosh(x) + c) + constant with x = epsilon b, c = (k - 2) e^(-epsilon/2)/2.
Concavity in s is that (sinh(x)/x)/(cosh(x) + c) decreases, which for c <= 2 follows from
sinh(x) (cosh(x) + 2) >= x (1 + 2 cosh(x)): the difference has Taylor coefficients 4**n - 4 n - [n = 0] >= 0.
So up to k - 2 <= 4 e^(epsilon/2) the price is the divergence of order 1,
epsilon (e^epsilon - 1)/(e^epsilon + k - 1).
"""

from __future__ import annotations

from enum import StrEnum
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

from releases.engine.arithmetic.rounding import (
    Interval,
    Real,
    above,
    below,
    enclose,
    floor,
    intervals,
    number,
    rational,
    reals,
    round_up,
)
from releases.engine.domain.privacy import NeighbouringRelation, decimal_text
from releases.engine.errors import InvalidInput, Unpriceable

if TYPE_CHECKING:
    from collections.abc import Callable

#: Digits that intermediate figures keep; the last rounding, to the ledger's units, is at twelve and eighteen.
FINE_PLACES = 30
#: How close an order is found: its bound is flat there, so that half of the digits remain.
_CLOSE = 1e-26
#: More than bisection would need.
_MOST_STEPS = 200
#: Digits of a stored rho or epsilon.
UNIT_PLACES = 12


class SamplingScheme(StrEnum):
    """How a mechanism's rows were drawn from the table, by public coins that are then forgotten.

    WITHOUT_REPLACEMENT: a uniform subset of fixed size m of n rows; the rate is m/n.
    POISSON: each row independently with probability `rate`.
    """

    WITHOUT_REPLACEMENT = "without_replacement"
    POISSON = "poisson"


# Prices in rho


@lru_cache(maxsize=4096)
def rho_of_pure(*, epsilon: Fraction) -> Fraction:
    """The least rho every epsilon-DP mechanism satisfies: epsilon tanh(epsilon/2), rounded up (proof 1
    above).
    """
    decay = intervals().exp(-enclose(epsilon))
    return round_up(above(enclose(epsilon) * (1 - decay) / (1 + decay)), places=FINE_PLACES)


@lru_cache(maxsize=4096)
def rho_of_laplace(*, epsilon: Fraction) -> Fraction:
    """The least rho of the Laplace mechanism with l1 sensitivity/scale = epsilon: epsilon + e^-epsilon - 1
    (proof 2).

    Of the continuous law only: discrete Laplace noise on counts is randomized response in its privacy loss.
    """
    return round_up(above(enclose(epsilon) + intervals().exp(-enclose(epsilon)) - 1), places=FINE_PLACES)


def rho_of_bounded_range(*, epsilon: Fraction) -> Fraction:
    """rho of a mechanism whose log ratio lies in an interval of length epsilon: epsilon**2/8 (proof 3).

    Such a mechanism is epsilon-DP as well, which is the cheaper form above about epsilon = 8.
    """
    return min(epsilon * epsilon / 8, rho_of_pure(epsilon=epsilon))


@lru_cache(maxsize=4096)
def rho_of_randomized_response(*, epsilon: Fraction, categories: int) -> Fraction:
    """rho of answering truly with odds e^epsilon : 1 against each of the other categories (end of the
    docstring above).

    Where the proof does not reach (very many categories), the price of any epsilon-DP mechanism.
    """
    # 1 + x + x**2/2 <= e^x, so the proof's condition is decided by exact arithmetic.
    if categories - 2 > 4 * (1 + epsilon / 2 + epsilon * epsilon / 8):
        return rho_of_pure(epsilon=epsilon)
    growth = intervals().exp(enclose(epsilon))
    return round_up(above(enclose(epsilon) * (growth - 1) / (growth + (categories - 1))), places=FINE_PLACES)


def rho_of_gaussian(*, noise_variance: Fraction) -> Fraction:
    """rho of Gaussian noise, exactly: 1/(2 noise_variance), with noise_variance = sigma**2 / (l2
    sensitivity)**2.

    So rho = Delta**2/(2 sigma**2) (Bun and Steinke 2016, Proposition 1.6; discrete: Canonne, Kamath and
    Steinke 2020, Theorem 4). Theorem 7.19 of the lecture notes prints Delta/(2 sigma**2), which is wrong in
    its units.
    """
    return 1 / (2 * noise_variance)


#: How far `rho_of_projected_gaussian` is above the rho of the projected normal law, and by which share.
PROJECTION_SLACK = Fraction(1, 2**50)


def rho_of_projected_gaussian(*, noise_variance: Fraction) -> Fraction:
    """rho of L(x + z), z discrete Gaussian on Z^N, L an integer matrix: (1 + t) (1/(2 noise_variance) + t), t = 2^-50.

    Divide each coordinate by its sigma, so that z is of variance 1 on a lattice Λ. Let V be the kernel of L, P the
    orthogonal projection along V, and K = Λ ∩ V, which spans V. noise_variance = 1/D², D the greatest |P d| over the
    changes d of x by one unit. Let eta be the sum of exp(-2 π² |w|²) over the dual lattice of K without 0. If
    eta <= 2^-102, then L(x + z) is rho-zCDP with this rho:

    1. Two y in x + Λ have one image if they differ by K. So Pr[L(x + z) = L y] = e^(-|P(y - x)|²/2) Θ(y - x)/Z, with
       Θ(v) = Σ over k in K of exp(-|v - Pv + k|²/2) and Z the sum over images. By Poisson's summation Θ is within
       c (1 ± eta), c one constant.
    2. For two tables x, x' with d = x - x', a > 1, and p = P Λ: Σ Pr^a Pr'^(1-a) is at most (1 + eta)^a (1 - eta)^(1-a)
       c/Z times Σ over u in p of exp(-(a |u - Px|² + (1 - a) |u - Px'|²)/2). The last sum is
       e^(a (a - 1) |Pd|²/2) Σ exp(-|u - m|²/2), m = a Px + (1 - a) Px', and a Gaussian sum over a lattice is greatest
       at a point of it, so at most Σ exp(-|u|²/2), which is at most Z/(c (1 - eta)).
    3. So the divergence of order a is at most a |Pd|²/2 + a λ/(a - 1), λ = ln((1 + eta)/(1 - eta)) <= 2^-100. For
       a >= 1 + t that is at most a (D²/2 + λ/t), and λ/t <= t. Divergences grow with their order, so for a < 1 + t it
       is at most (1 + t)(D²/2 + t), which is at most a times that.

    Step 2 is the proof of Canonne, Kamath and Steinke (2020), Theorem 4, on another lattice.
    """
    return (1 + PROJECTION_SLACK) * (1 / (2 * noise_variance) + PROJECTION_SLACK)


# Concentrated to approximate


@lru_cache(maxsize=4096)
def epsilon_of_rho(*, rho: Fraction, delta: Fraction) -> Fraction:
    """An epsilon such that every rho-zCDP mechanism is (epsilon, delta)-DP, rounded up.

    The least over a > 1 of a rho + ln(1 - 1/a) - ln(a delta)/(a - 1) (Canonne, Kamath and Steinke 2020,
    Corollary 13 and Proposition 12). Every order gives a valid bound, so the search for the best one needs no
    proof; the bound at the order found is evaluated on intervals. Never below 0.

    Raises:
        InvalidInput: `rho` is below 0, or `delta` is not between 0 and 1.
    """
    _check_rho(rho)
    _check_delta(delta)
    if rho == 0:
        return Fraction(0)
    order = _best_order(rho=rho, delta=delta)
    bound = above(enclose(order) * enclose(rho) + _conversion_term(order=order, delta=delta))
    return max(Fraction(0), round_up(bound, places=FINE_PLACES))


def epsilon_of_rho_bun_steinke(*, rho: Fraction, delta: Fraction) -> Fraction:
    """The older conversion rho + 2 sqrt(rho ln(1/delta)), rounded up (Bun and Steinke 2016, Proposition
    1.3).
    """
    _check_rho(rho)
    _check_delta(delta)
    root = intervals().sqrt(enclose(rho) * -intervals().log(enclose(delta)))
    return round_up(above(enclose(rho) + 2 * root), places=FINE_PLACES)


@lru_cache(maxsize=4096)
def largest_rho(*, epsilon: Fraction, delta: Fraction) -> Fraction:
    """The largest rho, rounded down to 10**-12, with `epsilon_of_rho(rho, delta)` at most `epsilon`.

    At the best order a, rho = -ln(a delta)/(a - 1)**2 (the derivative of the conversion vanishes); along that
    curve epsilon falls as a grows, so the order is found by bisection, and rho is then what that order's
    bound allows.

    Raises:
        Unpriceable: it is below 10**-12.
    """
    _check_delta(delta)
    if epsilon <= 0:
        raise InvalidInput("epsilon", decimal_text(epsilon), "must be above 0")
    context = reals()
    d, e = number(delta), number(epsilon)

    def excess(x: Real) -> Real:  # target epsilon minus the curve's, at a = 1 + x; it increases
        r = -context.log((1 + x) * d) / x**2
        return e - (2 * x + 1) * r - context.log(x / (1 + x))

    order = 1 + rational(_root(excess, top=1 / d - 1))
    allowed = below((enclose(epsilon) - _conversion_term(order=order, delta=delta)) / enclose(order))
    rho = Fraction(floor(allowed, places=UNIT_PLACES), 10**UNIT_PLACES)
    unit = Fraction(1, 10**UNIT_PLACES)
    while rho > 0 and epsilon_of_rho(rho=rho, delta=delta) > epsilon:
        rho -= unit
    if rho <= 0:
        raise Unpriceable(
            f"epsilon {decimal_text(epsilon)} at delta {float(delta):.3g} leaves no rho of 10**-12 or more."
        )
    return rho


def _best_order(*, rho: Fraction, delta: Fraction) -> Fraction:
    """Where rho (a - 1)**2 = -ln(a delta): the derivative of the conversion vanishes there and nowhere
    else.
    """
    context = reals()
    r, d = number(rho), number(delta)
    root = _root(lambda x: r * x**2 + context.log((1 + x) * d), top=context.sqrt(-context.log(d) / r))
    return 1 + rational(root)


def _conversion_term(*, order: Fraction, delta: Fraction) -> Interval:
    """What a conversion at one order adds: ln(1 - 1/a) - ln(a delta)/(a - 1)."""
    a = enclose(order)
    return intervals().log(1 - 1 / a) - intervals().log(a * enclose(delta)) / (a - 1)


def _root(increasing: Callable[[Real], Real], *, top: Real) -> Real:
    """The zero of an increasing function on (0, top], to about twenty-five digits, on a scale of logarithms.

    Chandrupatla (1997): the parabola through the last three points where it is known to lead inwards, else the middle.
    A tenth of the steps of bisection, and the bracket is one throughout.
    """
    context = reals()
    ends = context.ln(context.mpf(10) ** -40), context.ln(top)

    def at(u: Real) -> Real:
        return increasing(context.exp(u))

    # b is the newest point, a the other end of the bracket, c the point before b.
    a, b = ends
    at_a, at_b = at(a), at(b)
    if at_b <= 0:
        return top
    if at_a >= 0:
        return context.exp(a)
    c, at_c = a, at_a
    share = context.mpf(1) / 2
    for _ in range(_MOST_STEPS):
        new = a + share * (b - a)
        at_new = at(new)
        if (at_new < 0) == (at_a < 0):
            c, at_c = a, at_a
        else:
            c, b, at_c, at_b = b, a, at_b, at_a
        a, at_a = new, at_new
        nearest = a if abs(at_a) < abs(at_b) else b
        if at_new == 0 or abs(b - a) < _CLOSE:
            return context.exp(nearest)
        share = context.mpf(1) / 2
        place, height = (a - b) / (c - b), (at_a - at_b) / (at_c - at_b)
        if height**2 < place and (1 - height) ** 2 < 1 - place:
            share = at_a / (at_b - at_a) * at_c / (at_b - at_c) + (c - a) / (b - a) * at_a / (at_c - at_a) * at_b / (
                at_c - at_b
            )
        least = _CLOSE / 4 / abs(b - a)
        share = min(1 - least, max(least, share))
    return context.exp(b)


# Rényi to approximate


def epsilon_of_renyi(*, order: Fraction, divergence: Fraction, delta: Fraction) -> Fraction:
    """An epsilon for (order, divergence)-RDP at delta: divergence + ln((a - 1)/a) - (ln delta + ln a)/(a -
    1).

    Balle, Barthe, Gaboardi, Hsu and Sato 2020, Theorem 21; the same as Canonne, Kamath and Steinke 2020,
    Proposition 12. Never below 0; rounded up.
    """
    _check_order(order)
    _check_delta(delta)
    bound = above(enclose(divergence) + _conversion_term(order=order, delta=delta))
    return max(Fraction(0), round_up(bound, places=FINE_PLACES))


# Groups: neighbours that differ by `size` units instead of one


def group_pure(*, epsilon: Fraction, size: int) -> Fraction:
    """epsilon-DP is (size epsilon)-DP for groups (Dwork and Roth 2014, Theorem 2.2)."""
    _check_size(size)
    return size * epsilon


def group_approximate(*, epsilon: Fraction, delta: Fraction, size: int) -> tuple[Fraction, Fraction]:
    """(epsilon, delta)-DP for groups: (k epsilon, delta (1 + e^epsilon + ... + e^((k - 1) epsilon))), rounded
    up.

    P_0(S) <= e^epsilon P_1(S) + delta, applied k times along a chain of neighbours.
    """
    _check_size(size)
    context = intervals()
    terms = (context.exp(enclose(size * epsilon)) - 1) / (context.exp(enclose(epsilon)) - 1)
    return size * epsilon, above(enclose(delta) * terms)


def group_rho(*, rho: Fraction, size: int) -> Fraction:
    """rho-zCDP is (size**2 rho)-zCDP for groups (Bun and Steinke 2016, Proposition 1.9)."""
    _check_size(size)
    return size * size * rho


def group_renyi(*, order: Fraction, divergence: Fraction, doublings: int) -> tuple[Fraction, Fraction]:
    """(a, divergence)-RDP for groups of 2**c: (a / 2**c, 3**c divergence), for a >= 2**(c + 1).

    Lecture notes, Theorem 7.5 (Mironov 2017, Proposition 2).

    Raises:
        Unpriceable: the order is below 2**(c + 1), where the theorem says nothing.
    """
    _check_order(order)
    if doublings < 0:
        raise InvalidInput("doublings", doublings, "must be 0 or more")
    if order < 2 ** (doublings + 1):
        raise Unpriceable(f"Group privacy of order {order} holds for groups of at most {order / 2} only.")
    return order / 2**doublings, 3**doublings * divergence


# Subsampling


def amplified(
    *,
    epsilon: Fraction,
    delta: Fraction,
    rate: Fraction,
    scheme: SamplingScheme,
    neighbours: NeighbouringRelation,
) -> tuple[Fraction, Fraction]:
    """What an (epsilon, delta)-DP mechanism satisfies on a random sample: (ln(1 + rate (e^epsilon - 1)), rate
    delta).

    Balle, Barthe and Gaboardi 2018: Theorem 8 (Poisson, for neighbours that add or remove a row) and Theorem
    9 (without replacement, for neighbours that replace a row; the mechanism itself under the same relation).
    Rounded up.

    Raises:
        Unpriceable: the scheme and the relation do not go together, so neither theorem speaks.
    """
    check_sampling(scheme=scheme, neighbours=neighbours)
    if not 0 < rate <= 1:
        raise InvalidInput("rate", rate, "must be above 0 and at most 1")
    if rate == 1:
        return epsilon, delta
    context = intervals()
    bound = context.log(1 + enclose(rate) * (context.exp(enclose(epsilon)) - 1))
    return min(epsilon, round_up(above(bound), places=FINE_PLACES)), rate * delta


def check_sampling(*, scheme: SamplingScheme, neighbours: NeighbouringRelation) -> None:
    """Refuse a sampling scheme under a relation for which no amplification is proved here."""
    fitting = {
        SamplingScheme.POISSON: NeighbouringRelation.ADD_REMOVE,
        SamplingScheme.WITHOUT_REPLACEMENT: NeighbouringRelation.REPLACE,
    }
    if fitting[scheme] is not neighbours:
        raise Unpriceable(
            f"Amplification by {scheme.value.replace('_', ' ')} sampling is proved for neighbours that are "
            f"{fitting[scheme].value}, and these are {neighbours.value}."
        )


def _check_rho(rho: Fraction) -> None:
    if rho < 0:
        raise InvalidInput("rho", decimal_text(rho), "must not be below 0")


def _check_delta(delta: Fraction) -> None:
    if not 0 < delta < 1:
        raise InvalidInput("delta", str(delta), "must be above 0 and below 1")


def _check_order(order: Fraction) -> None:
    if order <= 1:
        raise InvalidInput("order", str(order), "must be above 1")


def _check_size(size: int) -> None:
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise InvalidInput("size", size, "must be a whole number of at least 1")
