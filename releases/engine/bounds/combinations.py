"""How far a weighted sum of independent noise draws can be from 0: the exact law of the sum, up to a stated remainder.

Let S = Σ c_i Z_i, the Z_i independent and symmetric about 0, τ² its variance, N a normal variable of deviation 1 that
is independent of them, and S' = S + η N with η = τ/200.

1.  Given S > w + 3 η, S' > w holds where N > -3. So Pr[|S| > w + 3 η] <= Pr[|S'| > w] / Φ(3).
2.  The law of S' modulo L has the Fourier series of its characteristic function φ, for S' has a density:
    Pr[S' mod L in [-w, w]] = 2 w/L + Σ_{j >= 1} 2 φ(2 π j/L) sin(2 π j w/L)/(π j). It differs from Pr[|S'| <= w] by
    Pr[|S'| >= L - w] at most, which Chernoff's bound keeps to a millionth of β.
3.  The series is cut at η θ = 8, beyond which it is less than 10^-15. It is cut before, at θ_1, where the product of
    the factors with c_i θ <= π for all θ up to there, which fall, is below e^-50; the rest is less than 10^-20 then.
    Terms whose factor of the sine is below 10^-17 are left out: of 4 million these are less than 10^-10.
4.  10^-9 is left for all this and for rounding, thousands of times what double precision loses in the sums at hand.

Where β is too small for 4, or the series too long, the answer is Chernoff's bound, which always holds.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import asinh, ceil, log, pi, sqrt
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

Floats = NDArray[np.float64]
#: η of τ, and of η how much is allowed to it.
_SMOOTHED, _ALLOWED = 1 / 200, 3.0
#: η θ and the logarithm of φ where the series is cut.
_FARTHEST, _NEGLIGIBLE = 8.0, -50.0
#: Of β, for what lies beyond the length of the series; and left for rounding, of a β that is no less than the last.
_LEFT_OUT, _ROUNDING, _LEAST_BETA = 1e-6, 1e-9, 1e-8
#: Of the steepest u, those that Chernoff's bound is tried at.
_SHARES = np.concatenate([np.geomspace(1e-4, 0.5, 60), 1 - np.geomspace(0.48, 1e-6, 30)])
#: Of the farthest angle, those that are tried as an end of the series.
_TRIED = np.geomspace(1e-3, 1, 48)
#: Terms that are smaller are left out.
_LEAST_TERM = 1e-17
#: Terms times draws of different factors that are summed, about a tenth of a second.
_MOST_TERMS = 4_000_000
#: Of these so many at a time.
_BLOCK = 100_000


class SummandLaw(ABC):
    """A family of symmetric laws on the whole numbers, one for each variance v.

    Attributes:
        least_variance: for which all that its members say holds.
    """

    least_variance: ClassVar[float] = 0.0

    @abstractmethod
    def log_mgf(self, steepness: Floats, variances: Floats) -> Floats:
        """ln E exp(u Z), or an upper bound, for 0 <= u < `steepest` of v."""

    @abstractmethod
    def log_transform(self, angles: Floats, variances: Floats) -> Floats:
        """ln E exp(i θ Z), real, periodic and falling from 0 to π."""

    @abstractmethod
    def steepest(self, variance: float) -> float:
        """The end of the u that Chernoff's bound is tried at."""


@dataclass(frozen=True)
class DiscreteLaplaceLaw(SummandLaw):
    """Pr[Z = z] proportional to exp(-|z|/t), of variance v = 1/(2 sinh²(1/(2 t)))."""

    def log_mgf(self, steepness: Floats, variances: Floats) -> Floats:
        return np.asarray(-np.log1p(-2 * variances * np.sinh(steepness / 2) ** 2))

    def log_transform(self, angles: Floats, variances: Floats) -> Floats:
        return np.asarray(-np.log1p(2 * variances * np.sin(angles / 2) ** 2))

    def steepest(self, variance: float) -> float:
        return 2 * asinh(1 / sqrt(2 * variance))


@dataclass(frozen=True)
class DiscreteGaussianLaw(SummandLaw):
    """Pr[Z = z] proportional to exp(-z²/(2 v))."""

    least_variance: ClassVar[float] = 2.0

    def log_mgf(self, steepness: Floats, variances: Floats) -> Floats:
        """E exp(u Z) is exp(v u²/2) times Σ exp(-(z - v u)²/(2 v)) over the same at u = 0, where that is greatest."""
        return np.asarray(variances * steepness**2 / 2)

    def log_transform(self, angles: Floats, variances: Floats) -> Floats:
        """Poisson's sum Σ_n exp(-v (θ - 2 π n)²/2) over the same at θ = 0; n from -1 to 1 for θ from -π to π."""
        near = np.abs(np.mod(angles + pi, 2 * pi) - pi)
        others = np.exp(-2 * pi * variances * (pi - near)) + np.exp(-2 * pi * variances * (pi + near))
        whole = np.log1p(2 * np.exp(-2 * pi * pi * variances))
        return np.asarray(-variances * near**2 / 2 + np.log1p(others) - whole)

    def steepest(self, variance: float) -> float:
        """Any end will do that is beyond the best u: the best is below for all β > e^-799."""
        return 40 / sqrt(variance)


DISCRETE_LAPLACE, DISCRETE_GAUSSIAN = DiscreteLaplaceLaw(), DiscreteGaussianLaw()


@dataclass(frozen=True, kw_only=True, slots=True)
class NoiseCombination:
    """Σ c_i Z_i of independent draws, those alike put together.

    Attributes:
        factors: |c| of each kind of draw, above 0.
        variances: of its law.
        numbers: how many draws.
    """

    factors: Floats
    variances: Floats
    numbers: Floats

    @property
    def deviation(self) -> float:
        """τ."""
        return sqrt(float(self.numbers @ (self.factors**2 * self.variances)))

    def log_transform(self, law: SummandLaw, angles: Floats) -> Floats:
        """ln φ at each angle."""
        blocks = np.array_split(angles, 1 + angles.size * self.factors.size // _BLOCK)
        scaled = (np.multiply.outer(self.factors, block) for block in blocks)
        return np.concatenate([self.numbers @ law.log_transform(each, self.variances[:, None]) for each in scaled])


def combination_quantile(combination: NoiseCombination, *, law: SummandLaw, beta: float, least: float = 0.0) -> float:
    """A w with Pr[|S| > w] <= beta, as at the head of this file.

    Args:
        least: is returned where it is such a w, which is quickly seen: no smaller one is needed.
    """
    smoothing = _SMOOTHED * combination.deviation
    if beta < _LEAST_BETA:
        return _chernoff(combination, law, beta, smoothing=0.0)
    farthest = _chernoff(combination, law, beta * _LEFT_OUT, smoothing=smoothing)
    step = pi / farthest
    terms = ceil(_last_angle(combination, law, _FARTHEST / smoothing) / step)
    if terms * combination.factors.size > _MOST_TERMS:
        return _chernoff(combination, law, beta, smoothing=0.0)
    places = np.arange(1, terms + 1)
    angles = np.asarray(places * step, dtype=np.float64)
    weights = 2 * np.exp(combination.log_transform(law, angles) - (smoothing * angles) ** 2 / 2) / (pi * places)
    is_seen = weights > _LEAST_TERM
    angles, weights = angles[is_seen], weights[is_seen]
    allowed = beta * (1 - _LEFT_OUT) * float(ndtr(_ALLOWED)) - _ROUNDING

    def is_seldom_missed(width: float) -> bool:
        return 1 - width / farthest - float(weights @ np.sin(angles * width)) <= allowed

    low, high = 0.0, farthest
    if 0 < (wanted := least - _ALLOWED * smoothing) <= farthest and is_seldom_missed(wanted):
        return least
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (low, middle) if is_seldom_missed(middle) else (middle, high)
    return high + _ALLOWED * smoothing


def quick_quantile(combination: NoiseCombination, *, law: SummandLaw, beta: float) -> float:
    """A w with Pr[|S| > w] <= beta by Chernoff's bound: no less than the least one, and quickly found."""
    return _chernoff(combination, law, beta, smoothing=0.0)


def _chernoff(combination: NoiseCombination, law: SummandLaw, beta: float, *, smoothing: float) -> float:
    """A w with Pr[|S + a normal variable of deviation `smoothing`| > w] <= beta: any u gives one, the best of many."""
    pairs = zip(combination.variances, combination.factors, strict=True)
    u = _SHARES * min(law.steepest(variance) / factor for variance, factor in pairs)
    scaled = np.multiply.outer(combination.factors, u)
    log_mgf = combination.numbers @ law.log_mgf(scaled, combination.variances[:, None]) + (smoothing * u) ** 2 / 2
    return float(np.min((log_mgf + log(2 / beta)) / u))


def _last_angle(combination: NoiseCombination, law: SummandLaw, farthest: float) -> float:
    """An angle from which on, up to the farthest, φ is below e^-50; the farthest itself where none is known."""
    kept = combination.factors * farthest <= pi
    falling = NoiseCombination(
        factors=combination.factors[kept], variances=combination.variances[kept], numbers=combination.numbers[kept]
    )
    angles = farthest * _TRIED
    is_enough = falling.log_transform(law, angles) <= _NEGLIGIBLE
    return float(angles[is_enough.argmax()]) if is_enough.any() else farthest
