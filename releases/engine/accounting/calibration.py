"""Calibration both ways: how much noise for a cost, what a given noise costs, how little epsilon for an error.

Noise is rounded up and cost is rounded up, so neither direction ever promises more than it keeps. Noise is stated
relative to the sensitivity: multiply a Laplace multiplier by the l1, a Gaussian sigma by the l2 sensitivity.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import exp, floor, inf, log, sqrt
from typing import TYPE_CHECKING

from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr

from releases.engine.accounting.conversions import (
    PROJECTION_SLACK,
    epsilon_of_rho,
    largest_rho,
    rho_of_gaussian,
    rho_of_projected_gaussian,
)
from releases.engine.arithmetic.rounding import Real, above, above_number, enclose, intervals, number, reals, round_up
from releases.engine.domain.privacy import LARGEST_EPSILON, ZCDP, ApproxDP, decimal_text
from releases.engine.errors import InvalidInput, Unpriceable

if TYPE_CHECKING:
    from collections.abc import Callable

#: Digits after the point of a calibrated figure.
_PLACES = 12
#: No search goes further: a larger sigma would answer nothing.
_LARGEST_SIGMA = Fraction(10**15)


def least(
    holds: Callable[[Fraction], bool], *, at_least: Fraction, at_most: Fraction, places: int, what: str = "value"
) -> Fraction:
    """The least decimal with `places` digits in [at_least, at_most] for which `holds`, which must be monotone.

    By bisection of whole numbers, so the answer is exactly such a decimal and one unit less does not do.

    Raises:
        InvalidInput: the bounds are the wrong way round.
        Unpriceable: not even the largest does.
    """
    scale = 10**places
    low = -((-at_least.numerator * scale) // at_least.denominator)
    high = (at_most.numerator * scale) // at_most.denominator
    if low > high:
        raise InvalidInput(what, decimal_text(at_least), f"must not be above {decimal_text(at_most)}")
    if not holds(Fraction(high, scale)):
        raise Unpriceable(f"No {what} up to {decimal_text(at_most)} is enough.")
    while low < high:
        middle = (low + high) // 2
        if holds(Fraction(middle, scale)):
            high = middle
        else:
            low = middle + 1
    return Fraction(high, scale)


# Laplace


def laplace_noise_multiplier(*, epsilon: Fraction) -> Fraction:
    """scale / l1 sensitivity for epsilon-DP, exactly 1/epsilon (Dwork and Roth 2014, Theorem 3.6)."""
    _check_epsilon(epsilon)
    return 1 / epsilon


@lru_cache(maxsize=256)
def laplace_passes(*, scale: Fraction, probability: Fraction) -> int:
    """The least k >= 1 with Pr[X >= k] = e^(-k/t) / (1 + e^(-1/t)) <= probability, certified; X discrete Laplace of
    scale t.

    Raises:
        InvalidInput: the scale or the probability is not above 0.
    """
    _check_positive("scale", scale)
    _check_positive("probability", probability)
    one = intervals().exp(enclose(-1 / scale))

    def holds(k: int) -> bool:
        return above(intervals().exp(enclose(-k / scale)) / (1 + one)) <= probability

    high = 1
    while not holds(high):
        high *= 2
    low = 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low


# Gaussian, in rho


def gaussian_variance_for_rho(*, rho: Fraction) -> Fraction:
    """sigma**2 / (l2 sensitivity)**2 for rho-zCDP, exactly 1/(2 rho); discrete or continuous."""
    _check_positive("rho", rho)
    return 1 / (2 * rho)


def zcdp_budget(*, epsilon: Fraction, delta: Fraction) -> ZCDP:
    """The largest rho, rounded down to 10**-12, that is (epsilon, delta)-DP by Canonne, Kamath and Steinke 2020."""
    _check_epsilon(epsilon)
    return ZCDP(rho=largest_rho(epsilon=epsilon, delta=delta))


def gaussian_epsilon(*, noise_variance: Fraction, delta: Fraction) -> Fraction:
    """epsilon of Gaussian noise, discrete or continuous, at delta through zCDP, rounded up."""
    _check_positive("noise_variance", noise_variance)
    rho = rho_of_gaussian(noise_variance=noise_variance)
    return round_up(epsilon_of_rho(rho=rho, delta=delta), places=_PLACES)


# Gaussian, exactly: the continuous law


def gaussian_delta(*, noise_variance: Fraction, epsilon: Fraction) -> Fraction:
    """The least delta of continuous Gaussian noise at an epsilon, its privacy profile, rounded up.

    With m = 1/sqrt(noise_variance) = l2 sensitivity/sigma:

    Phi(m/2 - epsilon/m) - e^epsilon Phi(-m/2 - epsilon/m) (Balle and Wang 2018, Theorem 8). k Gaussians, adaptive or
    not, are one with 1/noise_variance the sum of theirs. erfc is computed to sixty digits and trusted to 39.
    """
    if epsilon < 0:
        raise InvalidInput("epsilon", str(epsilon), "must not be below 0")
    context = reals()
    m, e = 1 / context.sqrt(number(noise_variance)), number(epsilon)
    return above_number(_phi(m / 2 - e / m) - context.exp(e) * _phi(-m / 2 - e / m))


def analytic_gaussian_sigma(*, epsilon: Fraction, delta: Fraction) -> Fraction:
    """The least sigma / l2 sensitivity of continuous Gaussian noise for (epsilon, delta)-DP (Balle and Wang 2018).

    Rounded up to 10**-12. Discrete noise of this sigma may exceed delta: calibrate it by `zcdp_budget`.
    """
    _check_epsilon(epsilon)
    _check_delta(delta)
    return least(
        lambda sigma: sigma > 0 and gaussian_delta(noise_variance=sigma * sigma, epsilon=epsilon) <= delta,
        at_least=Fraction(0),
        at_most=_LARGEST_SIGMA,
        places=_PLACES,
        what="sigma",
    )


def analytic_gaussian_epsilon(*, noise_variance: Fraction, delta: Fraction) -> Fraction:
    """The least epsilon of continuous Gaussian noise at delta (Balle and Wang 2018), rounded up to 10**-12."""
    _check_positive("noise_variance", noise_variance)
    _check_delta(delta)
    return least(
        lambda epsilon: gaussian_delta(noise_variance=noise_variance, epsilon=epsilon) <= delta,
        at_least=Fraction(0),
        at_most=gaussian_epsilon(noise_variance=noise_variance, delta=delta) + 1,
        places=_PLACES,
        what="epsilon",
    )


# Gaussian, exactly: the discrete law

#: Variances t that `discrete_gaussian_delta` gives away. Each is valid; the first is better where noise is small.
_GIVEN_AWAY = (Fraction(1, 2), Fraction(1))


def discrete_gaussian_delta(*, noise_variance: Fraction, epsilon: Fraction) -> Fraction:
    """A delta of discrete Gaussian noise on integers at an epsilon, rounded up; 1 where nothing is proved.

    In any dimension, and in steps that may each be chosen by the outcomes before.

    Write V = noise_variance. Fix neighbours. In step i coordinate j moves by a whole number d_ij and has noise of
    variance S_ij, with the sum of d_ij**2 / S_ij over all steps and coordinates at most 1/V for any outcomes
    (`AdaptiveDiscreteGaussianEvent`). For every t with 0 < t < V and x = exp(-2 pi**2 t) <= 1/100 the law is
    (epsilon, e^eta D)-DP, eta = 4.1 x, D the delta of one continuous Gaussian with noise_variance V - t at
    epsilon - 2 eta (`gaussian_delta`). Proof:

    1. *One coordinate.* Let S = tau**2 + s**2, draw y from N(q, tau**2), q whole, and then a whole z with probability
       proportional to exp(-(z - y)**2 / (2 s**2)). By Poisson's summation the sum of these weights is within
       s sqrt(2 pi) (1 +- theta), theta = 2 sum over k >= 1 of exp(-2 pi**2 s**2 k**2), for any y. Integrating over y,
       the law of z is proportional to exp(-(z - q)**2 / (2 S)) up to these factors, and so within a factor
       ((1 + theta)/(1 - theta))^(+-1) of the discrete Gaussian of variance S around q, whose own sum is within 1 +-
       theta. (Micciancio and Peikert 2013 bound such sums in the same way.)
    2. *All coordinates.* Take s**2 = S t / V. Only coordinates that move matter: others have one law for both
       neighbours. One that moves has S >= V d**2 >= V, so x_S = exp(-2 pi**2 S t / V) <= x, theta <= 2.0001 x_S and
       ln((1 + theta)/(1 - theta)) <= 4.1 x_S. S x_S falls in S from V on, for 2 pi**2 t >= 1, so x_S <= V x / S
       <= V x d**2 / S, which add up to at most x: all steps' factors together are within e^(+-eta) for any outcomes.
    3. *So* both neighbours' laws P, Q are within e^(+-eta) of laws P', Q' that are made from Gaussian steps, in which
       coordinate j moves by d_ij with variance S_ij (1 - t / V): the d_ij**2 over these add up to at most 1/(V - t).
       P(A) - e^epsilon Q(A) <= e^eta (P'(A) - e^(epsilon - 2 eta) Q'(A)) for every A.
    4. *Gaussian steps chosen by outcomes are as one.* A last step makes the sum m**2 = 1/(V - t) for any outcomes. Let
       u_i be step i's moves over their sigmas, Z_i its standard normal noise. ln(P'/Q') = sum of <u_i, Z_i> +
       m**2 / 2 under P'. Given what came before, the mean of exp(i w <u_i, Z_i> + w**2 |u_i|**2 / 2) is 1, so that of
       the product over all steps is 1, and as the sum of |u_i|**2 is m**2 on every path, sum of <u_i, Z_i> is
       N(0, m**2) exactly. The same under Q'. So the loss has the law of one Gaussian with noise_variance V - t, and
       rounding to z is post-processing. (For any mechanisms: Smith and Thakurta 2022.)
    """
    _check_positive("noise_variance", noise_variance)
    context = intervals()
    found = [Fraction(1)]
    for given_away in _GIVEN_AWAY:
        eta = above(enclose(Fraction(41, 10)) * context.exp(-2 * context.pi**2 * enclose(given_away)))
        if noise_variance > given_away and epsilon >= 2 * eta:
            delta = gaussian_delta(noise_variance=noise_variance - given_away, epsilon=epsilon - 2 * eta)
            found.append(above(context.exp(enclose(eta)) * enclose(delta)))
    return min(found)


@lru_cache(maxsize=1024)
def discrete_gaussian_epsilon(*, noise_variance: Fraction, delta: Fraction) -> Fraction:
    """The least epsilon, rounded up to 10**-12, that is proved of discrete Gaussian noise at delta, in steps that may
    each be chosen by the outcomes before: by `discrete_gaussian_delta`, or through zCDP."""
    _check_delta(delta)
    concentrated = gaussian_epsilon(noise_variance=noise_variance, delta=delta)
    return _least_epsilon(
        lambda epsilon: discrete_gaussian_delta(noise_variance=noise_variance, epsilon=epsilon) <= delta, concentrated
    )


@lru_cache(maxsize=1024)
def discrete_gaussian_budget(*, epsilon: Fraction, delta: Fraction) -> ZCDP:
    """The largest rho, rounded down to 10**-12, for which `discrete_gaussian_epsilon` of noise_variance 1/(2 rho) is at
    most epsilon."""
    return _largest_rho(
        lambda rho: discrete_gaussian_delta(noise_variance=1 / (2 * rho), epsilon=epsilon) <= delta,
        zcdp_budget(epsilon=epsilon, delta=delta),
    )


def _least_epsilon(holds: Callable[[Fraction], bool], concentrated: Fraction) -> Fraction:
    """The least that `holds`, which is monotone, up to the epsilon that is known through zCDP."""
    if not holds(concentrated):
        return concentrated
    return least(holds, at_least=Fraction(0), at_most=concentrated, places=_PLACES, what="epsilon")


def _largest_rho(holds: Callable[[Fraction], bool], concentrated: ZCDP) -> ZCDP:
    """The largest that `holds`, which is monotone, from the rho on that is known to be allowed through zCDP."""
    if not holds(concentrated.rho):
        return concentrated
    most = concentrated.rho
    while holds(most):
        most *= 2
    first = least(lambda rho: not holds(rho), at_least=concentrated.rho, at_most=most, places=_PLACES, what="rho")
    return ZCDP(rho=first - Fraction(1, 10**_PLACES))


# Gaussian, exactly: the discrete law on a fine grid

#: The part of its variance that `fine_gaussian_delta` gives away; how far its proof's laws are from those of roundings.
FINE_PART, _FINE_SLACK = Fraction(1, 2**20), Fraction(1, 2**99)


def fine_gaussian_delta(*, noise_variance: Fraction, epsilon: Fraction) -> Fraction:
    """A delta of L(x + z) at an epsilon, rounded up; z discrete Gaussian on Z^N, L an integer matrix, on a fine grid.

    Let Λ, V, P, K, D and eta <= 2^-102 be as in `conversions.rho_of_projected_gaussian`: each coordinate is divided by
    its sigma_i, noise_variance = 1/D². Where L has no kernel, P is the identity and eta is 0. Let t = 2^-20, and theta
    the sum over n in Z^N without 0 of exp(-2 π² t Σ sigma_i² n_i²). If theta <= 2^-102, then L(x + z) is
    (epsilon, e^h δ)-DP, h = 2^-99, δ that of one continuous Gaussian with noise_variance (1 - t)/D² at epsilon - 2 h
    (`gaussian_delta`). Proof:

    1. L y shows, and is shown by, P y: two y of Λ have one image if they differ by K. K spans V, so p = P Λ is a
       lattice in the range W of P. By step 1 there the law of u = P(x + z), for x in Λ, is within a factor
       ((1 + eta)/(1 - eta))^(+-1) of R(u) proportional to exp(-|u - q|²/2) on p, q = P x.
    2. Draw y from N(q, (1 - t) I) on W, and then u of p with probability proportional to exp(-|u - y|²/(2 t)). By
       Poisson's summation the sum of these weights is within c (1 +- theta') for any y, with theta' the sum over the
       dual lattice of p in W without 0 of exp(-2 π² t |w|²). That dual is the part in W of the dual of Λ, as
       <w, P v> = <w, v> for w in W; and the dual of Λ is the vectors (sigma_i n_i), n of Z^N. So theta' <= theta.
       Integrating over y, the law of u is proportional to exp(-|u - q|²/2) up to these factors, and so within
       ((1 + theta)/(1 - theta))^(+-1) of R.
    3. So the laws Q, Q' of neighbours x, x' are within e^(+-h) of laws G, G' of roundings, of y from N(P x, (1 - t) I)
       and N(P x', (1 - t) I): ln((1 + a)/(1 - a)) <= 2^-100 for a <= 2^-102, twice. Both are rounded by one rule, and
       |P x - P x'| <= D. Q(A) - e^epsilon Q'(A) <= e^h (G(A) - e^(epsilon - 2 h) G'(A)) for every A.
    """
    _check_positive("noise_variance", noise_variance)
    if epsilon < 2 * _FINE_SLACK:
        return Fraction(1)
    delta = gaussian_delta(noise_variance=noise_variance * (1 - FINE_PART), epsilon=epsilon - 2 * _FINE_SLACK)
    return min(Fraction(1), above(intervals().exp(enclose(_FINE_SLACK)) * enclose(delta)))


def fine_gaussian_variance(*, rho: Fraction) -> Fraction:
    """noise_variance of the fine or projected noise that costs this rho: `rho_of_projected_gaussian` the other way."""
    _check_positive("rho", rho)
    return 1 / (2 * (rho / (1 + PROJECTION_SLACK) - PROJECTION_SLACK))


@lru_cache(maxsize=1024)
def fine_gaussian_epsilon(*, noise_variance: Fraction, delta: Fraction) -> Fraction:
    """The least epsilon, rounded up to 10**-12, that is proved of such noise at delta: so, or through zCDP."""
    _check_delta(delta)
    rho = rho_of_projected_gaussian(noise_variance=noise_variance)
    return _least_epsilon(
        lambda epsilon: fine_gaussian_delta(noise_variance=noise_variance, epsilon=epsilon) <= delta,
        round_up(epsilon_of_rho(rho=rho, delta=delta), places=_PLACES),
    )


@lru_cache(maxsize=1024)
def fine_gaussian_budget(*, epsilon: Fraction, delta: Fraction) -> ZCDP:
    """The largest rho, rounded down to 10**-12, of which `fine_gaussian_variance` is (epsilon, delta)-DP."""
    return _largest_rho(
        lambda rho: fine_gaussian_delta(noise_variance=fine_gaussian_variance(rho=rho), epsilon=epsilon) <= delta,
        zcdp_budget(epsilon=epsilon, delta=delta),
    )


def is_finely_given(least_variance: Fraction | int, *, coordinates: int) -> bool:
    """Whether theta, as in `fine_gaussian_delta`, is at most 2^-102, where no sigma_i² is below `least_variance`.

    1 + theta <= (1 + 3 · 2^-b)^N, b = ⌊27 t sigma²⌋, as 2 π²/ln 2 > 27. With N 2^-b <= 2^-104 that is at most
    exp(3 · 2^-104) <= 1 + 2^-102.
    """
    return floor(27 * FINE_PART * least_variance) >= 104 + (coordinates - 1).bit_length()


def classical_gaussian_sigma(*, epsilon: Fraction, delta: Fraction) -> Fraction:
    """sqrt(2 ln(1.25/delta))/epsilon, for comparison only (Dwork and Roth 2014, Theorem 3.22). Rounded up.

    Proved for epsilon below 1. At epsilon 10 and delta 1e-6 this sigma's true delta is 1.9 times as large.

    Raises:
        Unpriceable: epsilon is 1 or more.
    """
    _check_epsilon(epsilon)
    _check_delta(delta)
    if epsilon >= 1:
        raise Unpriceable(
            f"The classical Gaussian calibration is proved for epsilon below 1; here it is {decimal_text(epsilon)}."
        )
    root = intervals().sqrt(2 * intervals().log(enclose(Fraction(5, 4) / delta)))
    return round_up(above(root / enclose(epsilon)), places=_PLACES)


def _check_epsilon(epsilon: Fraction) -> None:
    if isinstance(epsilon, bool) or not isinstance(epsilon, (int, Fraction)) or not 0 < epsilon <= LARGEST_EPSILON:
        raise InvalidInput("epsilon", str(epsilon), f"must be an exact rational above 0, at most {LARGEST_EPSILON}")


def _check_delta(delta: Fraction) -> None:
    if not isinstance(delta, Fraction) or not 0 < delta < 1:
        raise InvalidInput("delta", str(delta), "must be an exact rational above 0 and below 1")


def _check_positive(field: str, value: Fraction) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, Fraction)) or value <= 0:
        raise InvalidInput(field, str(value), "must be an exact rational above 0")


def calibrations(budget: ApproxDP, *, rho: Fraction) -> dict[str, str]:
    """Deviations over the l2 sensitivity: as run, and as continuous noise would need, for comparison alone.

    Neither of the continuous ones is run: discrete noise of such a deviation may exceed its delta, and continuous noise
    cannot be drawn exactly. The classical form is Dwork and Roth 2014, Theorem 3.22, and the analytic one that of Balle
    and Wang 2018, here in double precision, for four digits are shown (`analytic_gaussian_sigma` is exact).
    """
    try:
        classical = f"{float(classical_gaussian_sigma(epsilon=budget.epsilon, delta=budget.delta)):.4f}"
    except Unpriceable:
        classical = "proved for epsilon below 1 only"
    analytic = _analytic(float(budget.epsilon), float(budget.delta))
    return {
        "noise over sensitivity": f"{sqrt(1 / (2 * rho)):.4f} (discrete, run)",
        "noise over sensitivity, analytic, for comparison": f"{analytic:.4f}",
        "noise over sensitivity, classical, for comparison": classical,
    }


@lru_cache(maxsize=1024)
def _analytic(epsilon: float, delta: float) -> float:
    """The sigma at which normal noise on a number of sensitivity 1 is (epsilon, delta)-DP."""

    def excess(log_sigma: float) -> float:
        sigma = exp(log_sigma)
        above = ndtr(1 / (2 * sigma) - epsilon * sigma)
        below = exp(min(epsilon + float(log_ndtr(-1 / (2 * sigma) - epsilon * sigma)), 0.0))
        return float(above) - below - delta

    most = log(float(_LARGEST_SIGMA))
    return inf if excess(most) > 0 else exp(float(brentq(excess, log(1e-6), most, xtol=1e-9)))


def _phi(x: Real) -> Real:
    """The normal distribution function."""
    context = reals()
    return context.erfc(-x / context.sqrt(2)) / 2
