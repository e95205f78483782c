"""Accuracy bounds: how far every released answer can be from the truth, all at once, at 1 - beta.

A bound here speaks of exact counts of the declared bins. What clamping and dropping by declared rule do to the
meaning of a count is outside it, and pages say so in words. No privacy decision is made here, so floating point is
used; each quantile is rounded outwards, to a whole count where noise is whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache, partial
from math import isinf, log
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize_scalar
from scipy.special import erfc, ndtri

from releases.engine.errors import InvalidInput

#: Largest lattice on which the law of a sum is computed exactly; beyond it Chernoff's bound is used.
_LARGEST_LATTICE = 2**21
#: Relative allowance for rounding in the tails computed below, far above what double precision loses.
_SLACK = 1e-9


class Proof(StrEnum):
    """How a bound is known. BEFORE: a theorem on public inputs. AFTER: a theorem on what was released.

    ASSUMED: a theorem on public inputs and a public guess, such as about how many rows the table has.
    TESTED: no theorem; the tests of this program count on real tables how often it holds.
    EXPECTED is no bound, and is labelled so: that of the noisy tables that something is fitted to, or a share of it,
    which the fit is expected to stay within.
    """

    BEFORE = "proved before the release"
    AFTER = "proved from the release"
    ASSUMED = "proved if the table is about as large as you said"
    TESTED = "tested on real tables, not proved"
    EXPECTED = "expected, not proved"

    @property
    def is_proved(self) -> bool:
        return self not in (Proof.TESTED, Proof.EXPECTED)

    @property
    def is_unconditional(self) -> bool:
        """Whether it holds whatever the rows are."""
        return self in (Proof.BEFORE, Proof.AFTER)

    @property
    def can_be_said(self) -> bool:
        """Whether a sentence may be made of a result with it, beside what it is."""
        return self.is_unconditional or self is Proof.TESTED


@dataclass(frozen=True, kw_only=True, slots=True)
class Bound:
    """With probability at least 1 - beta, |estimate - truth| <= half_width for every answer, all at once.

    Attributes:
        beta: the probability that any answer at all is further off.
        half_widths: one for each family of the workload, in counts; infinite where nothing can be said.
        proof: how it is known.
        formula: the bound's form in LaTeX.
        source: paper, theorem, page.
        says: for what is no count, the sentence that says what alpha bounds, after "With probability 95%, ".
        is_one_sided: the truth is bounded from above only: it is at most estimate + half_width.
    """

    beta: Fraction
    half_widths: tuple[float, ...]
    proof: Proof
    formula: str
    source: str
    says: str = ""
    is_one_sided: bool = False

    @property
    def alpha(self) -> float:
        """The largest half width, in counts."""
        return max(self.half_widths)

    @property
    def bounds_nothing(self) -> bool:
        return isinf(self.alpha)

    def to_json(self) -> dict[str, Any]:
        # JSON has no infinite numbers.
        return {
            "beta": str(self.beta),
            "alpha": None if self.bounds_nothing else self.alpha,
            "half_widths": [None if isinf(each) else each for each in self.half_widths],
            "proof": self.proof.value,
            "formula": self.formula,
            "source": self.source,
            "says": self.says,
            "is_one_sided": self.is_one_sided,
        }


def check_beta(beta: Fraction) -> None:
    if not isinstance(beta, Fraction) or not 0 < beta < 1:
        raise InvalidInput("beta", beta, "must be a rational above 0 and below 1 (0.05 for 95% confidence)")


def laplace_max_quantile(*, scale: Fraction, count: int, beta: float) -> int:
    """The least m with Pr[max of `count` independent |X_i| > m] <= beta, X_i discrete Laplace of that scale.

    Pr[|X| >= j] = 2 e^{-j/t} / (1 + e^{-1/t}) for j >= 1, exactly; the draws are independent, so the maximum's
    law is a power. Sharper than Dwork and Roth (2014) Theorem 3.8, t ln(k/beta), which the sum over draws gives.
    """
    t = float(scale)
    # All |X_i| <= m has probability (1 - tail)^count >= 1 - beta  <=>  tail <= 1 - (1 - beta)^(1/count).
    allowed = -np.expm1(np.log1p(-beta) / count) * (1 - _SLACK)
    # tail(m) = Pr[|X| >= m + 1] <= allowed, solved for m.
    least = t * (np.log(2) - np.log(allowed) - np.log1p(np.exp(-1 / t))) - 1
    return max(0, int(np.ceil(least)))


def gaussian_max_quantile(*, variance: Fraction, count: int, beta: float) -> int:
    """The least m with Pr[max of `count` independent |X_i| > m] <= beta, X_i discrete Gaussian of that variance.

    The tail is summed from the law itself, Pr[X = x] proportional to exp(-x^2 / (2 variance)).
    """
    allowed = -np.expm1(np.log1p(-beta) / count) * (1 - _SLACK)
    sigma2 = float(variance)
    reach = int(np.ceil(np.sqrt(2 * sigma2 * np.log(4 / allowed)))) + 2
    if reach > _LARGEST_LATTICE:
        return int(np.ceil(gaussian_sum_quantile(variance=variance, count=1, beta=float(allowed))))
    law = np.exp(-(np.arange(2 * reach, dtype=np.float64) ** 2) / (2 * sigma2))
    upper = np.cumsum(law[::-1])[::-1]
    # tails[m] = Pr[|X| > m]
    tails = 2 * upper[1:] / (2 * upper[0] - law[0])
    return int(np.argmax(tails <= allowed))


def normal_max_quantile(*, count: int, beta: float) -> float:
    """A u with Pr[some |N_i| > u] <= beta for `count` normal variables of deviation 1, whatever their covariances.

    Pr[all |N_i| <= u] is at least Pr[|N| <= u]^count (Šidák 1967), as if they were independent.
    """
    allowed = -np.expm1(np.log1p(-beta) / count) * (1 - _SLACK)
    return float(-ndtri(allowed / 2) * (1 + _SLACK))


def laplace_weighted_quantile(*, scale: Fraction, counts: Mapping[int, int], beta: float) -> int:
    """The least u with Pr[some |X| > u // w, X a draw of weight w] <= beta, all draws independent.

    A draw of weight w is discrete Laplace of scale `scale`/w, so every draw is allowed as many of its own scales.

    Args:
        counts: from w to the number of its draws.
    """
    weights = np.array(list(counts))
    t = float(scale) / weights

    def tails(within: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.asarray(2 * np.exp(-(within + 1) / t) / (1 + np.exp(-1 / t)))

    return _weighted_quantile(tails, counts, beta)


def gaussian_weighted_quantile(*, variance: Fraction, counts: Mapping[int, int], beta: float) -> int:
    """The same of discrete Gaussian draws, of variance `variance`/w² where the weight is w.

    Tails are summed from the law itself; where that has too many points, Pr[|X| > m] <= Pr[|N(0, sigma²)| >= m]
    (Canonne, Kamath and Steinke 2020, Proposition 25), which is one count wider at most.
    """
    rarest = -np.expm1(np.log1p(-beta) / sum(counts.values()))
    laws = [_gaussian_tails(float(variance) / weight**2, rarest, _LARGEST_LATTICE // len(counts)) for weight in counts]
    deviations = np.sqrt(2 * float(variance)) / np.array(list(counts))

    def tails(within: NDArray[np.int64]) -> NDArray[np.float64]:
        found = erfc(within / deviations)
        for position, (law, most) in enumerate(zip(laws, within.tolist(), strict=True)):
            if most < len(law):
                found[position] = law[most]
        return np.asarray(found)

    return _weighted_quantile(tails, counts, beta)


def _gaussian_tails(sigma2: float, rarest: float, most: int) -> NDArray[np.float64]:
    """Pr[|X| > m] for m = 0, 1, ... down to that rare; nothing where it takes more than so many points."""
    reach = int(np.ceil(np.sqrt(2 * sigma2 * np.log(4 / rarest)))) + 2
    if 2 * reach > most:
        return np.zeros(0)
    law = np.exp(-(np.arange(2 * reach, dtype=np.float64) ** 2) / (2 * sigma2))
    upper = np.cumsum(law[::-1])[::-1]
    return np.asarray(2 * upper[1 : reach + 1] / (2 * upper[0] - law[0]))


def _weighted_quantile(
    tails: Callable[[NDArray[np.int64]], NDArray[np.float64]], counts: Mapping[int, int], beta: float
) -> int:
    """The least whole u for which the draws of each weight w all stay within u // w, with probability 1 - beta.

    Draws are whole, so what is allowed to them changes at whole u alone. `tails` are those of one draw of each weight.
    """
    weights, draws = np.array(list(counts)), np.array(list(counts.values()))
    allowed = -np.log1p(-beta) * (1 - _SLACK)

    def holds(reach: int) -> bool:
        with np.errstate(divide="ignore"):
            missed = -np.log1p(-np.minimum(tails(reach // weights), 1.0))
        return bool((draws * missed).sum() <= allowed)

    low, high = -1, 1
    while not holds(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


@lru_cache(maxsize=4096)
def laplace_sum_quantile(*, scale: Fraction, count: int, beta: float) -> float:
    """A w with Pr[|X_1 + ... + X_count| > w] <= beta, X_i independent discrete Laplace of that scale.

    The law of the sum is computed exactly on its lattice (its characteristic function is rational in e^{i theta})
    after exponential tilting, which keeps the relative precision of a small tail; where the lattice would be too
    large, Chernoff's bound with the exact moment generating function is minimised instead (always valid).
    """
    if count == 1:
        return laplace_max_quantile(scale=scale, count=1, beta=beta)
    t = float(scale)
    r = np.exp(-1 / t)

    def tilted(tilt: float, z: NDArray[np.complex128]) -> NDArray[np.complex128]:
        numerator = (1 - r * np.exp(tilt)) * (1 - r * np.exp(-tilt))
        transform: NDArray[np.complex128] = numerator / ((1 - r * np.exp(tilt) * z) * (1 - r * np.exp(-tilt) / z))
        return transform

    return _sum_quantile(
        partial(_laplace_log_mgf, t),
        tilted,
        steepest=1 / t,
        count=count,
        beta=beta,
    )


def _laplace_log_mgf(t: float, u: float) -> float:
    """2 ln(1 - r) - ln(1 - r e^u) - ln(1 - r e^{-u}) with r = e^{-1/t}, which would cancel where u is small."""
    return -float(np.log1p(-np.exp(u - 1 / t) * (np.expm1(-u) / np.expm1(-1 / t)) ** 2))


def laplace_chernoff_width(*, scale: Fraction, count: int, log_beta: float) -> float:
    """What a sum of so many draws exceeds with probability at most e^log_beta, by Chernoff's bound: at least the
    quantile of `laplace_sum_quantile`, and for probabilities that are too small for a float too."""
    t = float(scale)
    width, _ = _chernoff_quantile(partial(_laplace_log_mgf, t), 1 / t, count, log(2) - log_beta)
    return float(width * (1 + _SLACK))


#: Below it the rounding of a transform is no longer nothing beside a tail.
_LEAST_TAIL = 1e-6
#: Of a tail, left for what lies beyond the lattice and for rounding.
_LEFT_OUT = 1e-6


@lru_cache(maxsize=4096)
def laplace_combination_quantile(
    *, scale: Fraction, counts: tuple[tuple[int, int], ...], beta: float, or_fewer: bool = False
) -> int:
    """A w with Pr[|Σ c X_i| > w] <= beta, X_i independent discrete Laplace of that scale, times whole weights c.

    X has the characteristic function 1 / (1 + 4 r sin²(θ/2) / (1 - r)²), r = exp(-1/scale), and c X that at c θ. The
    law is found modulo the length of a lattice: what lies beyond adds to the middle at most its own probability, which
    Chernoff's bound keeps to a millionth of beta. Where the lattice would be too long that bound is the answer.

    Args:
        counts: pairs of a weight, above 0, and of the number of its draws.
        or_fewer: whether it has to hold for fewer draws too: Chernoff's bound does, which each draw makes wider.
    """
    t = float(scale)
    used = [(weight, draws) for weight, draws in counts if draws]

    def log_mgf(u: float) -> float:
        total = 0.0
        for weight, draws in used:
            total += draws * _laplace_log_mgf(t, weight * u)
        return total

    steepest = 1 / (t * max(weight for weight, _ in used))
    chernoff, _ = _chernoff_quantile(log_mgf, steepest, 1, log(2 / beta))
    farthest, _ = _chernoff_quantile(log_mgf, steepest, 1, log(2 / (beta * _LEFT_OUT)))
    lattice = 1 << max(4, int(np.ceil(np.log2(2 * farthest + 4))))
    if or_fewer or lattice > _LARGEST_LATTICE or beta < _LEAST_TAIL:
        return int(np.ceil(chernoff))
    angles = np.pi * np.fft.rfftfreq(lattice)
    rise = 4 * np.exp(-1 / t) / np.expm1(-1 / t) ** 2
    log_transform = -sum(draws * np.log1p(rise * np.sin(weight * angles) ** 2) for weight, draws in used)
    mass = np.fft.irfft(np.exp(log_transform), n=lattice)[: lattice // 2]
    holds = np.concatenate([mass[:1], 2 * mass[1:]]).cumsum() >= 1 - beta * (1 - 3 * _LEFT_OUT)
    return int(np.argmax(holds)) if holds.any() else int(np.ceil(chernoff))


def laplace_pair_reach(*, shares: NDArray[np.float64], scale: Fraction, beta: float) -> NDArray[np.float64]:
    """For each share p an r(p) with Pr[|(1 - p) X - p Y| > r(p)] <= beta, X and Y discrete Laplace of scale t.

    For U and V of the continuous law of scale 1, a = max(p, 1 - p) and b = 1 - a,

        Pr[|a U - b V| > x] = (a² e^{-x/a} - b² e^{-x/b}) / (a² - b²), and (1 + x) e^{-2x} where a = b,

    which rises with a (Proschan 1965, Theorem 2.3: the density is log-concave and symmetric). X can be drawn together
    with t U so that they never differ by 1: Pr[|X| >= m] = 2 e^{-m/t} / (1 + e^{-1/t}) is Pr[t |U| >= z_m] for a z_m
    from m - 1/2 to m, as 1 <= 2 / (1 + q) <= 1 / √q, so |X| = m where z_m <= t |U| < z_{m+1}, with the same sign. Hence
    r(p) is t x(p) + 1.

    Args:
        shares: each from 0 to 1, 1/2 itself or a thousandth away from it.
    """
    a = np.maximum(shares, 1 - shares)
    b = 1 - a
    with np.errstate(divide="ignore", invalid="ignore"):

        def tail(x: NDArray[np.float64]) -> NDArray[np.float64]:
            apart = (a**2 * np.exp(-x / a) - np.where(b > 0, b**2 * np.exp(-x / b), 0.0)) / (a**2 - b**2)
            return np.where(a == b, (1 + x) * np.exp(-2 * x), apart)

        low, high = np.zeros_like(a), np.full_like(a, -np.log(beta))
        for _ in range(100):
            middle = (low + high) / 2
            is_enough = tail(middle) <= beta * (1 - _SLACK)
            low, high = np.where(is_enough, low, middle), np.where(is_enough, middle, high)
    return np.asarray(float(scale) * high * (1 + _SLACK) + 1)


#: Frequencies at which the transform of a weighted sum is taken, in its own deviations, and the step between them.
_STEP = 0.1
_FREQUENCIES = (np.arange(1500) + 0.5) * _STEP
#: What the integral over these loses at most.
_INTEGRAL_ERROR = 1e-6


def laplace_and_normal_quantile(deviations: NDArray[np.float64], variance: float, beta: float) -> float:
    """A q with Pr[|Σ X_l + Z| > q] <= beta, X_l independent Laplace of these deviations and Z normal of that variance.

    From the characteristic function φ(u) = exp(-v u² / 2) Π 1 / (1 + (s_l u)² / 2) by the formula of Gil-Pelaez (1951),
    Pr[|X| <= x] = (2/π) ∫ φ(u) sin(u x) / u du, as a sum at midpoints, whose error is at most Pr[|X| > 2π/h - x] plus
    what lies beyond the last frequency: with one Laplace variable alone, 2/u² of the transform. For a small beta
    Chernoff's bound. Of wide noise on whole numbers this is the law, next to it.
    """
    squares = np.square(deviations)
    total = float(squares.sum()) + variance
    if total <= 0:
        return 0.0
    # Of unit variance; what is far below counts as normal.
    weights = squares[squares > 1e-6 * total] / total
    normal = 1.0 - float(weights.sum())
    if not weights.size:
        return float(-ndtri(beta / 2) * np.sqrt(total))

    def log_mgf(u: float) -> float:
        return normal * u * u / 2 - float(np.log1p(-weights * (u * u / 2)).sum())

    chernoff, _ = _chernoff_quantile(log_mgf, float(np.sqrt(2 / weights.max())), 1, log(2 / beta))
    if beta < 100 * _INTEGRAL_ERROR:
        return float(chernoff * np.sqrt(total))
    u = _FREQUENCIES
    transform = np.exp(-normal * u * u / 2 - np.log1p(np.multiply.outer(weights, u * u / 2)).sum(axis=0)) / u

    def excess(x: float) -> float:
        return 1 - 2 / np.pi * _STEP * float(np.sin(u * x) @ transform) + _INTEGRAL_ERROR - beta

    found: float = brentq(excess, 0.0, chernoff, xtol=1e-6)
    return found * (1 + 1e-6) * float(np.sqrt(total))


@lru_cache(maxsize=4096)
def gaussian_sum_quantile(*, variance: Fraction, count: int, beta: float) -> float:
    """A w with Pr[|X_1 + ... + X_count| > w] <= beta, X_i independent discrete Gaussian of that variance.

    By the law of the sum, tilted, as for Laplace noise; where the lattice would be too large by the sub-Gaussian tail
    2 exp(-w^2 / (2 count variance)) (Canonne, Kamath and Steinke 2020, Corollary 22).
    """
    sigma2 = float(variance)
    sub_gaussian = float(np.sqrt(2 * count * sigma2 * np.log(2 / beta)))
    if sub_gaussian > _LARGEST_LATTICE / 8 or sigma2 < 0.25:
        return sub_gaussian
    reach = int(np.ceil(12 * np.sqrt(sigma2) + sub_gaussian / count)) + 12
    support = np.arange(-reach, reach + 1)
    law = np.exp(-(support.astype(np.float64) ** 2) / (2 * sigma2))

    def tilted(tilt: float, z: NDArray[np.complex128]) -> NDArray[np.complex128]:
        weights = law * np.exp(tilt * support - tilt * tilt * sigma2 / 2)
        lattice = 2 * (len(z) - 1)
        wrapped = np.zeros(lattice)
        np.add.at(wrapped, support % lattice, weights / weights.sum())
        return np.fft.rfft(wrapped).conj()

    def log_mgf(u: float) -> float:
        return float(np.log((law * np.exp(u * support - u * u * sigma2 / 2)).sum() / law.sum()) + u * u * sigma2 / 2)

    return _sum_quantile(log_mgf, tilted, steepest=4 * sub_gaussian / (count * sigma2), count=count, beta=beta)


def _sum_quantile(
    log_mgf: Callable[[float], float],
    tilted: Callable[[float, NDArray[np.complex128]], NDArray[np.complex128]],
    *,
    steepest: float,
    count: int,
    beta: float,
) -> float:
    """The quantile of |a sum of `count` independent symmetric integers|, each with the given transforms.

    `log_mgf(u)` is ln E exp(u X) for 0 < u < steepest; `tilted(u, z)` the generating function E[z^X] of the law
    proportional to Pr[X = x] e^{u x}, at the points z of the upper half of the unit circle.
    """
    chernoff, tilt = _chernoff_quantile(log_mgf, steepest, count, np.log(2 / beta))
    lattice = 1 << int(np.ceil(np.log2(4 * chernoff + 8)))
    if lattice > _LARGEST_LATTICE:
        return chernoff
    z = np.exp(2j * np.pi * np.fft.rfftfreq(lattice))
    # The tilted law has its mass near the wanted quantile; the lattice holds (-lattice/4, 3 lattice/4).
    mass = np.maximum(np.fft.irfft((tilted(tilt, z) ** count).conj(), n=lattice), 0)
    values = np.arange(lattice)
    values = np.where(values >= 3 * lattice // 4, values - lattice, values)
    order = np.argsort(values)[::-1]
    # Pr[S = s] = mass(s) e^{-tilt s + count ln mgf(tilt)}; accumulate the upper tail from the far end.
    log_weight = count * log_mgf(tilt) - tilt * values[order]
    tail = np.cumsum(mass[order] * np.exp(np.minimum(log_weight, 0.0)))
    within = values[order][tail <= beta / 2 * (1 - _SLACK)]
    return float(max(0, int(within[-1]) - 1)) if within.size else float(values.max())


def _chernoff_quantile(
    log_mgf: Callable[[float], float], steepest: float, count: int, log_odds: float
) -> tuple[float, float]:
    """min over 0 < u < steepest of (count ln mgf(u) + log_odds) / u, and the u that attains it."""

    def width(log_share: float) -> float:
        u = steepest * np.exp(log_share)
        return float((count * log_mgf(u) + log_odds) / u)

    # The best u shrinks like 1 / sqrt(count).
    lowest = -20.0 - log(count) / 2
    best = minimize_scalar(width, bounds=(lowest, -1e-9), method="bounded", options={"xatol": 1e-10})
    return width(best.x), float(steepest * np.exp(best.x))


def union_half_widths(
    families: Iterable[tuple[int, int]], *, beta: Fraction, quantile: Callable[[int, float], float]
) -> tuple[float, ...]:
    """Half widths for families of (answers, noisy cells summed in each answer), by the union bound.

    `quantile(cells, beta)` bounds one sum of so many cells; each of the k answers is given beta / k, so all hold
    at once whatever their dependence.
    """
    pairs = list(families)
    share = float(beta) / sum(answers for answers, _ in pairs)
    return tuple(quantile(cells, share) for _, cells in pairs)
