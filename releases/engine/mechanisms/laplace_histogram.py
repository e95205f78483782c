"""Discrete Laplace noise of scale Δ1/ε on every cell of the universe; Δ1 is 1, or 2 where neighbours replace a row.

Privacy: ε-DP, Dwork and Roth (2014), Theorem 3.6. Accuracy: the exact law of the sum of m draws; the closed form beside
it is that of Chan, Shi and Song (2011), Corollary 2.9, with its constants.
"""

from __future__ import annotations

from releases.engine.mechanisms.additive_noise import LaplaceNoise
from releases.engine.mechanisms.base import Consistency, Mechanism, Plan, Request, register
from releases.engine.mechanisms.noisy_histogram import histogram_sensitivity, plan_noisy_histogram, refused_histogram


@register
class LaplaceHistogram(Mechanism):
    name = "laplace-histogram"
    title = "Laplace noise on the histogram"
    summary = "Adds noise to every cell of the universe once, then answers any question; best when cells are few."
    source = "Dwork and Roth (2014), Theorem 3.6; sums of noise as in Chan, Shi and Song (2011), Corollary 2.9"
    consistency = Consistency.NOISY_CELLS

    def _plan(self, request: Request) -> Plan:
        if (refusal := refused_histogram(request)) is not None:
            return refusal
        return plan_noisy_histogram(
            request,
            LaplaceNoise(epsilon=request.budget.epsilon, l1_sensitivity=histogram_sensitivity(request.schema).l1),
            formula=r"\alpha = \min\left\{w : \Pr\left[\left|\textstyle\sum_{i=1}^{m} X_i\right| > w\right]"
            r" \le \frac{\beta}{k}\right\} \le 2\sqrt{2}\,\frac{\Delta_1}{\varepsilon}"
            r"\max\left\{\sqrt{m \ln\tfrac{2k}{\beta}},\ \ln\tfrac{2k}{\beta}\right\}",
            source=self.source,
        )
