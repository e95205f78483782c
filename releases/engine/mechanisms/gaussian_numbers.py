"""Discrete Gaussian noise on sums of numbers, each sum's deviation in proportion to its own sensitivity.

Privacy: Canonne, Kamath and Steinke (2020), Theorem 14: integer sums that one privacy unit moves by c_j, with
independent discrete Gaussian noise of variances v_j, are ρ-zCDP where Σ c_j² / (2 v_j) <= ρ for every change. The
variances are such that the largest of these sums is exactly ρ, the largest that converts to (ε, δ) by their Corollary
13. (A lecture prints ρ = Δ / (2 σ²); the units ask for Δ², as in Bun and Steinke 2016, Proposition 1.6.)

For reference the plan shows the deviations that two calibrations of *continuous* Gaussian noise would ask for: the
classical √(2 ln(1.25/δ)) / ε (Dwork and Roth 2014, Theorem 3.22, proved for ε < 1; a lecture has "ε <= 1"), and the
analytic one (Balle and Wang 2018), which is exact. Neither is run: discrete noise of such a deviation may exceed its δ,
and continuous noise cannot be drawn exactly.

Accuracy: the exact quantile of the largest of k draws, each over its own deviation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, expm1, log1p, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from releases.engine.accounting.calibration import calibrations, zcdp_budget
from releases.engine.accounting.events import DiscreteGaussianEvent, Event
from releases.engine.bounds.accuracy import gaussian_max_quantile
from releases.engine.domain.privacy import PureDP, decimal_text
from releases.engine.errors import EngineError
from releases.engine.mechanisms.base import NEEDS_DELTA, Mechanism, Plan, Request, infeasible, register
from releases.engine.mechanisms.noisy_numbers import EXPECTED_ROWS, plan_noisy_numbers
from releases.engine.noise.discrete import LARGEST_SCALE, discrete_gaussian
from releases.engine.noise.randomness import Randomness
from releases.engine.workload.sensitivity import Changes
from releases.engine.workload.statistics import Mean, SecondMoments, Sum, Votes

#: Above this variance the law's tail is bounded by the normal one instead of being summed.
_WIDE = 10**8


@dataclass(frozen=True, kw_only=True, slots=True)
class GaussianLaw:
    """Discrete Gaussian noise; a spread is its variance. See `Law`."""

    rho: Fraction

    @property
    def event(self) -> Event:
        return DiscreteGaussianEvent(noise_variance=1 / (2 * self.rho))

    @property
    def quantile(self) -> tuple[str, str]:
        least = r"\min\left\{m : \Pr[|Z_j| \le m]^k \ge 1 - \beta\right\}"
        return least, r"\sigma_j \sqrt{2 \ln\frac{k}{\beta}} + 1"

    @property
    def beside_replaced(self) -> Fraction:
        return Fraction(3, 4)

    def share_of_count(self, *, sums: int, own: float, shared: float) -> float:
        # The least of √sums · own / √(1 - s) + shared / √s.
        ours, counts = float(np.cbrt(sqrt(sums) * own)) ** 2, float(np.cbrt(shared)) ** 2
        return counts / (ours + counts)

    def spreads(self, moved: Changes, shares: Sequence[Fraction]) -> tuple[Fraction, ...]:
        alone = [most * most / share for most, share in zip(moved.most, shares, strict=True)]
        together = moved.l2_squared(variances=alone)
        return tuple(each * together / (2 * self.rho) for each in alone)

    def cost(self, moved: Changes, spreads: Sequence[Fraction]) -> Fraction:
        return moved.l2_squared(variances=spreads) / (2 * self.rho)

    def can_draw(self, spread: Fraction) -> bool:
        return spread <= LARGEST_SCALE**2

    def draw(self, spread: Fraction, size: int, rng: Randomness) -> NDArray[np.int64]:
        return discrete_gaussian(variance=spread, size=size, rng=rng)

    def largest(self, spread: Fraction, *, count: int, beta: float) -> int:
        """The law's own quantile or, for wide noise, the normal one rounded up.

        That is never too small: the weights w(x) = exp(-x² / (2 v)) fall, so those past m sum to at most the integral
        of w from m, and all of them sum to at least √(2 π v) by Poisson's formula; hence Pr[|X| > m] is at most
        that of a normal variable of variance v, for every whole m.
        """
        if spread <= _WIDE:
            return gaussian_max_quantile(variance=spread, count=count, beta=beta)
        allowed = -expm1(log1p(-beta) / count) * (1 - 1e-9)
        return ceil(sqrt(spread) * -float(ndtri(allowed / 2)) * (1 + 1e-12))

    def deviation(self, spread: Fraction) -> float:
        return sqrt(spread)


@register
class GaussianNumbers(Mechanism):
    name = "gaussian-numbers"
    title = "Gaussian noise on sums"
    summary = "Adds Gaussian noise to each sum or count that the answer is read off; best when there are several."
    source = "Canonne, Kamath and Steinke, The Discrete Gaussian for Differential Privacy (2020), Theorem 14"
    options = (EXPECTED_ROWS,)
    answers = (Sum, Mean, SecondMoments, Votes)

    def _plan(self, request: Request) -> Plan:
        if isinstance(request.budget, PureDP):
            return infeasible(request, NEEDS_DELTA)
        try:
            rho = zcdp_budget(epsilon=request.budget.epsilon, delta=request.budget.delta).rho
        except EngineError:
            return infeasible(request, "No Gaussian noise is calibrated to so small an epsilon and delta. Spend more.")
        law = GaussianLaw(rho=rho)
        return plan_noisy_numbers(
            request,
            law,
            source=self.source,
            parameters={"rho": decimal_text(rho), **calibrations(request.budget, rho=rho)},
        )
