"""Discrete Gaussian noise of variance Δ2²/(2ρ) on every answer of the workload; Δ2²/(2ρw²) on an answer of weight w.

Privacy: ρ-zCDP, Canonne, Kamath and Steinke (2020), Theorem 4, and Theorem 14 for different variances, where Δ2 is that
of the answers times their weights; ρ is the largest that converts to (ε, δ) by their Corollary 13. Accuracy: the exact
quantile of the largest of k draws, below σ √(2 ln(k/β)) + 1.
"""

from __future__ import annotations

from dataclasses import replace

from releases.engine.accounting.calibration import calibrations, zcdp_budget
from releases.engine.domain.privacy import PureDP
from releases.engine.mechanisms.additive_noise import GaussianNoise
from releases.engine.mechanisms.base import NEEDS_DELTA, Consistency, Mechanism, Plan, Request, infeasible, register
from releases.engine.mechanisms.noisy_queries import plan_noisy_queries


@register
class GaussianQueries(Mechanism):
    name = "gaussian-queries"
    title = "Gaussian noise on each answer"
    summary = "Adds independent Gaussian noise to every count asked for; best when questions are many and overlap."
    source = "Canonne, Kamath and Steinke, The Discrete Gaussian for Differential Privacy (2020), Theorem 4"
    uses_weights = True
    consistency = Consistency.OWN_NOISE

    def _plan(self, request: Request) -> Plan:
        if isinstance(request.budget, PureDP):
            return infeasible(request, NEEDS_DELTA)
        plan = plan_noisy_queries(
            request,
            GaussianNoise.within(request.budget, request.counts_asked.weighted_sensitivity(request.schema)),
            formula=r"\alpha = \min\left\{m : \Pr[|Z| \le m]^k \ge 1 - \beta\right\}"
            r" \le \frac{\Delta_2}{\sqrt{2\rho}} \sqrt{2 \ln\frac{k}{\beta}} + 1",
            source=self.source,
        )
        rho = zcdp_budget(epsilon=request.budget.epsilon, delta=request.budget.delta).rho
        return replace(plan, parameters={**plan.parameters, **calibrations(request.budget, rho=rho)})
