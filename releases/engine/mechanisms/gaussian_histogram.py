"""Discrete Gaussian noise of variance Δ2²/(2ρ) on every cell of the universe; Δ2² is 1, or 2 where a row is replaced.

Privacy: ρ-zCDP, Canonne, Kamath and Steinke (2020), Theorem 4. Accuracy: the law of the sum of m draws, below the
sub-Gaussian √(2 m σ² ln(2k/β)).
"""

from __future__ import annotations

from dataclasses import replace

from releases.engine.accounting.calibration import calibrations, zcdp_budget
from releases.engine.domain.privacy import PureDP
from releases.engine.mechanisms.additive_noise import GaussianNoise
from releases.engine.mechanisms.base import NEEDS_DELTA, Consistency, Mechanism, Plan, Request, infeasible, register
from releases.engine.mechanisms.noisy_histogram import histogram_sensitivity, plan_noisy_histogram, refused_histogram


@register
class GaussianHistogram(Mechanism):
    name = "gaussian-histogram"
    title = "Gaussian noise on the histogram"
    summary = "Adds Gaussian noise to every cell of the universe once, then answers any question."
    source = "Canonne, Kamath and Steinke, The Discrete Gaussian for Differential Privacy (2020), Theorem 4"
    consistency = Consistency.NOISY_CELLS

    def _plan(self, request: Request) -> Plan:
        if isinstance(request.budget, PureDP):
            return infeasible(request, NEEDS_DELTA)
        if (refusal := refused_histogram(request)) is not None:
            return refusal
        plan = plan_noisy_histogram(
            request,
            GaussianNoise.within(request.budget, histogram_sensitivity(request.schema)),
            formula=r"\alpha = \min\left\{w : \Pr\left[\left|\textstyle\sum_{i=1}^{m} Z_i\right| > w\right]"
            r" \le \frac{\beta}{k}\right\} \le \sqrt{2 m \sigma^2 \ln\tfrac{2k}{\beta}}",
            source=self.source,
        )
        rho = zcdp_budget(epsilon=request.budget.epsilon, delta=request.budget.delta).rho
        return replace(plan, parameters={**plan.parameters, **calibrations(request.budget, rho=rho)})
