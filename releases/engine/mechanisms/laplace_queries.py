"""Discrete Laplace noise of scale Δ1/ε on every answer of the workload; Δ1/(ε w) on an answer of weight w.

Privacy: ε-DP, Dwork and Roth (2014), Theorem 3.6, of the answers times their weights, whose sensitivity is Δ1.
Accuracy: the exact quantile of the largest of k draws, sharper than Theorem 3.8's (Δ1/ε) ln(k/β).
"""

from __future__ import annotations

from releases.engine.mechanisms.additive_noise import LaplaceNoise
from releases.engine.mechanisms.base import Consistency, Mechanism, Plan, Request, register
from releases.engine.mechanisms.noisy_queries import plan_noisy_queries


@register
class LaplaceQueries(Mechanism):
    name = "laplace-queries"
    title = "Laplace noise on each answer"
    summary = "Adds independent noise to every count asked for; best when the questions are few."
    source = "Dwork and Roth, The Algorithmic Foundations of Differential Privacy (2014), Theorems 3.6 and 3.8"
    uses_weights = True
    consistency = Consistency.OWN_NOISE

    def _plan(self, request: Request) -> Plan:
        sensitivity = request.counts_asked.weighted_sensitivity(request.schema)
        return plan_noisy_queries(
            request,
            LaplaceNoise(epsilon=request.budget.epsilon, l1_sensitivity=sensitivity.l1),
            formula=r"\alpha = \min\left\{m : \Pr[|X| \le m]^k \ge 1 - \beta\right\}"
            r" \le \frac{\Delta_1}{\varepsilon} \ln\frac{k}{\beta}",
            source=self.source,
        )
