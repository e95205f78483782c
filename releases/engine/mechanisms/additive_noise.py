"""Independent whole-number noise, calibrated to a budget and a sensitivity: what it costs, draws and can reach."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from math import pi, sinh, sqrt
from typing import ClassVar, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from releases.engine.accounting.calibration import calibrations
from releases.engine.accounting.events import (
    AdaptiveDiscreteGaussianEvent,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    Event,
    WeightedDiscreteGaussianEvent,
    WeightedDiscreteLaplaceEvent,
)
from releases.engine.bounds.accuracy import (
    gaussian_max_quantile,
    gaussian_sum_quantile,
    gaussian_weighted_quantile,
    laplace_max_quantile,
    laplace_sum_quantile,
    laplace_weighted_quantile,
)
from releases.engine.bounds.combinations import DISCRETE_GAUSSIAN, DISCRETE_LAPLACE, SummandLaw
from releases.engine.domain.privacy import ApproxDP, PrivacyBudget, decimal_text
from releases.engine.noise.discrete import discrete_gaussian, discrete_laplace
from releases.engine.noise.randomness import Randomness
from releases.engine.workload.queries import Sensitivity


class Noise(Protocol):
    """One law of additive noise on whole numbers.

    On answers of different weights it is calibrated to the sensitivity of the weighted answers. Then it is the law on
    an answer of weight 1, and that on an answer of weight w has a w-th of its scale (`of_weight`).

    Attributes:
        event: what adding it to a vector of the calibrated sensitivity is, for the accountant.
        weighted_event: the same of adding to each answer the law of its weight.
        parameters: for people and receipts.
    """

    @property
    def law(self) -> SummandLaw:
        """The family that it belongs to."""
        ...

    @property
    def event(self) -> Event: ...

    @property
    def weighted_event(self) -> Event: ...

    def of_weight(self, weight: int) -> Noise: ...

    @property
    def parameters(self) -> dict[str, str]: ...

    @property
    def variance(self) -> float:
        """Of one draw. For Gaussian noise its parameter, an upper bound that is within a millionth from 1 on."""
        ...

    def draw(self, size: int | tuple[int, ...], rng: Randomness) -> NDArray[np.int64]: ...

    def largest(self, *, count: int, beta: float) -> float:
        """What the largest of `count` independent draws exceeds with probability at most beta."""
        ...

    def largest_weighted(self, counts: Mapping[int, int], *, beta: float) -> dict[int, float]:
        """By weight, what the largest of its draws exceeds; any exceeds its own with probability at most beta.

        Args:
            counts: by weight, how many independent draws.
        """
        ...

    def sum(self, *, count: int, beta: float) -> float:
        """What the absolute sum of `count` independent draws exceeds with probability at most beta."""
        ...

    def mean(self, *, count: int) -> float:
        """The mean of the absolute sum of `count` independent draws; of several as if the sum were normal."""
        ...

    def beside(self, budget: PrivacyBudget) -> dict[str, str]:
        """What other calibrations to the budget would ask for, for people and receipts."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class LaplaceNoise:
    """Discrete Laplace noise of scale Δ1/(ε w): ε-DP (Dwork and Roth 2014, Theorem 3.6, on the integers)."""

    needs_delta: ClassVar[bool] = False
    law: ClassVar[SummandLaw] = DISCRETE_LAPLACE

    epsilon: Fraction
    l1_sensitivity: int
    weight: int = 1

    @staticmethod
    def within(budget: PrivacyBudget, sensitivity: Sensitivity) -> LaplaceNoise:
        """The least noise that stays within the budget's epsilon."""
        return LaplaceNoise(epsilon=budget.epsilon, l1_sensitivity=sensitivity.l1)

    @property
    def scale(self) -> Fraction:
        return self.l1_sensitivity / (self.epsilon * self.weight)

    @property
    def event(self) -> Event:
        return DiscreteLaplaceEvent(noise_multiplier=1 / self.epsilon)

    @property
    def weighted_event(self) -> Event:
        return WeightedDiscreteLaplaceEvent(noise_multiplier=1 / self.epsilon)

    def of_weight(self, weight: int) -> LaplaceNoise:
        return replace(self, weight=weight)

    @property
    def parameters(self) -> dict[str, str]:
        return {"l1 sensitivity": str(self.l1_sensitivity), "noise scale": decimal_text(self.scale)}

    @property
    def variance(self) -> float:
        return discrete_laplace_variance(float(self.scale))

    def draw(self, size: int | tuple[int, ...], rng: Randomness) -> NDArray[np.int64]:
        return discrete_laplace(scale=self.scale, size=size, rng=rng)

    def largest(self, *, count: int, beta: float) -> float:
        return float(laplace_max_quantile(scale=self.scale, count=count, beta=beta))

    def largest_weighted(self, counts: Mapping[int, int], *, beta: float) -> dict[int, float]:
        reach = laplace_weighted_quantile(scale=self.scale, counts=counts, beta=beta)
        return {weight: float(reach // weight) for weight in counts}

    def sum(self, *, count: int, beta: float) -> float:
        return laplace_sum_quantile(scale=self.scale, count=count, beta=beta)

    def mean(self, *, count: int) -> float:
        # 2 q / (1 - q²) of one draw.
        return 1 / sinh(min(1 / float(self.scale), 700.0)) if count == 1 else mean_of_normal(count * self.variance)

    def beside(self, budget: PrivacyBudget) -> dict[str, str]:
        return {}


@dataclass(frozen=True, kw_only=True, slots=True)
class GaussianNoise:
    """Discrete Gaussian noise of variance Δ2²/(2ρ w²): ρ-zCDP (Canonne, Kamath and Steinke 2020, Theorems 4, 14).

    Attributes:
        is_one_event: whether it is all that an `Allowance` of one event is spent on, and so is charged as that.
    """

    needs_delta: ClassVar[bool] = True
    law: ClassVar[SummandLaw] = DISCRETE_GAUSSIAN

    rho: Fraction
    l2_sensitivity_squared: int
    weight: int = 1
    is_one_event: bool = False

    @property
    def exact_variance(self) -> Fraction:
        return self.l2_sensitivity_squared / (2 * self.rho * self.weight**2)

    @property
    def event(self) -> Event:
        kind = AdaptiveDiscreteGaussianEvent if self.is_one_event else DiscreteGaussianEvent
        return kind(noise_variance=1 / (2 * self.rho))

    @property
    def weighted_event(self) -> Event:
        kind = AdaptiveDiscreteGaussianEvent if self.is_one_event else WeightedDiscreteGaussianEvent
        return kind(noise_variance=1 / (2 * self.rho))

    def of_weight(self, weight: int) -> GaussianNoise:
        return replace(self, weight=weight)

    @property
    def parameters(self) -> dict[str, str]:
        return {
            "l2 sensitivity, squared": str(self.l2_sensitivity_squared),
            "noise variance": decimal_text(self.exact_variance, places=6),
            "rho": decimal_text(self.rho),
        }

    @property
    def variance(self) -> float:
        return float(self.exact_variance)

    def draw(self, size: int | tuple[int, ...], rng: Randomness) -> NDArray[np.int64]:
        return discrete_gaussian(variance=self.exact_variance, size=size, rng=rng)

    def largest(self, *, count: int, beta: float) -> float:
        return float(gaussian_max_quantile(variance=self.exact_variance, count=count, beta=beta))

    def largest_weighted(self, counts: Mapping[int, int], *, beta: float) -> dict[int, float]:
        reach = gaussian_weighted_quantile(variance=self.exact_variance, counts=counts, beta=beta)
        return {weight: float(reach // weight) for weight in counts}

    def sum(self, *, count: int, beta: float) -> float:
        return gaussian_sum_quantile(variance=self.exact_variance, count=count, beta=beta)

    def mean(self, *, count: int) -> float:
        return mean_of_normal(count * self.variance)

    def beside(self, budget: PrivacyBudget) -> dict[str, str]:
        assert isinstance(budget, ApproxDP)
        return calibrations(budget, rho=self.rho)


#: A law that a mechanism adds noise of.
NoiseLaw: TypeAlias = type[LaplaceNoise] | type[GaussianNoise]


def mean_of_normal(variance: float) -> float:
    """The mean absolute value of a normal variable with mean 0."""
    return sqrt(2 * variance / pi)


def discrete_laplace_variance(scale: float) -> float:
    """2 q / (1 - q)² with q = e^(-1/scale), which is 1 / (2 sinh²(1 / (2 scale))); at least 10^-300."""
    half = min(1 / (2 * scale), 340.0)
    return 0.5 / sinh(half) ** 2
