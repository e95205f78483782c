"""Discrete Laplace noise on sums of numbers, each sum's scale in proportion to its own sensitivity.

Privacy: a sum with scale t_j that one privacy unit moves by c_j has a privacy loss of at most c_j / t_j (Dwork and Roth
2014, Theorem 3.6, on the integers: Ghosh, Roughgarden and Sundararajan 2009), and losses of independent draws add. The
scales are such that the largest Σ c_j / t_j over all changes of one unit is exactly epsilon. With one share for each of
k sums that is t_j = k Δ_j / ε; dividing by the largest Σ c_j / t_j gives back what the sums cannot spend together.

The lecture notes on sensitivity print the density as p(x) ∝ e^{λ|x|}, which for λ > 0 is no density: λ = -ε/Δ.

Accuracy: the exact quantile of the largest of k draws, each over its own scale; sharper than Theorem 3.8.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from releases.engine.accounting.events import DiscreteLaplaceEvent, Event
from releases.engine.bounds.accuracy import laplace_max_quantile
from releases.engine.mechanisms.base import Mechanism, Plan, Request, register
from releases.engine.mechanisms.noisy_numbers import EXPECTED_ROWS, plan_noisy_numbers
from releases.engine.noise.discrete import LARGEST_SCALE, discrete_laplace
from releases.engine.noise.randomness import Randomness
from releases.engine.workload.sensitivity import Changes
from releases.engine.workload.statistics import Mean, SecondMoments, Sum, Votes


@dataclass(frozen=True, kw_only=True, slots=True)
class LaplaceLaw:
    """Discrete Laplace noise; a spread is its scale. See `Law`."""

    epsilon: Fraction

    @property
    def event(self) -> Event:
        return DiscreteLaplaceEvent(noise_multiplier=1 / self.epsilon)

    @property
    def quantile(self) -> tuple[str, str]:
        return r"\min\left\{m : \Pr[|X_j| \le m]^k \ge 1 - \beta\right\}", r"t_j \ln\frac{k}{\beta}"

    @property
    def beside_replaced(self) -> Fraction:
        return Fraction(1, 2)

    def share_of_count(self, *, sums: int, own: float, shared: float) -> float:
        # The least of sums · own / (1 - s) + shared / s.
        return sqrt(shared) / (sqrt(sums * own) + sqrt(shared))

    def spreads(self, moved: Changes, shares: Sequence[Fraction]) -> tuple[Fraction, ...]:
        alone = [most / share for most, share in zip(moved.most, shares, strict=True)]
        together = moved.l1(scales=alone)
        return tuple(each * together / self.epsilon for each in alone)

    def cost(self, moved: Changes, spreads: Sequence[Fraction]) -> Fraction:
        return moved.l1(scales=spreads) / self.epsilon

    def can_draw(self, spread: Fraction) -> bool:
        return spread <= LARGEST_SCALE

    def draw(self, spread: Fraction, size: int, rng: Randomness) -> NDArray[np.int64]:
        return discrete_laplace(scale=spread, size=size, rng=rng)

    def largest(self, spread: Fraction, *, count: int, beta: float) -> int:
        return laplace_max_quantile(scale=spread, count=count, beta=beta)

    def deviation(self, spread: Fraction) -> float:
        return sqrt(2) * float(spread)


@register
class LaplaceNumbers(Mechanism):
    name = "laplace-numbers"
    title = "Laplace noise on sums"
    summary = "Adds noise to each sum or count that the answer is read off, in proportion to its range."
    source = "Dwork and Roth, The Algorithmic Foundations of Differential Privacy (2014), Theorem 3.6"
    options = (EXPECTED_ROWS,)
    answers = (Sum, Mean, SecondMoments, Votes)

    def _plan(self, request: Request) -> Plan:
        law = LaplaceLaw(epsilon=request.budget.epsilon)
        return plan_noisy_numbers(request, law, source=self.source, parameters={})
