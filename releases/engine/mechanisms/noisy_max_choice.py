"""The most common value, or the largest of several counts, by report-noisy-max.

Discrete Laplace noise of scale 2 g / epsilon on every count, or of g / epsilon where all counts move the same way (see
`choices`); the largest wins, ties broken evenly, and nothing but its name is told. epsilon-DP: Dwork and Roth (2014),
Claim 3.9, which is stated with scale 1 / epsilon and proved for counts when a row is added or removed; between tables
that replace a row it needs the factor 2. That the noise is whole, and that numbers tie, costs nothing
(`selection.report_noisy_max`). The noise does not grow with how many candidates a row counts for: noise on a histogram
of m overlapping counts would have scale m / epsilon.

Accuracy: alpha is the least number for which the exact probability of missing by more, over the worst table, is at most
beta (`selection_error.noisy_max_miss`).
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from releases.engine.accounting.events import Event, ReportNoisyMaxEvent
from releases.engine.bounds.selection_error import noisy_max_miss
from releases.engine.mechanisms.base import Mechanism, Plan, Request, register
from releases.engine.mechanisms.choices import ChoicePlan, plan_choice
from releases.engine.noise.randomness import Randomness
from releases.engine.noise.selection import report_noisy_max
from releases.engine.workload.statistics import LargestCount, MostCommon


@register
class NoisyMaxChoice(Mechanism):
    name = "noisy-max-choice"
    title = "Report noisy max"
    summary = "Adds noise to every count and names the largest; the textbook way, beaten by permute-and-flip."
    source = "Dwork and Roth, The Algorithmic Foundations of Differential Privacy (2014), Claim 3.9"
    options = ()
    answers = (MostCommon, LargestCount)

    def _plan(self, request: Request) -> Plan:
        return plan_choice(
            request,
            NoisyMaxChoicePlan,
            event=_event,
            miss=lambda candidates, rate, gap, left_out: noisy_max_miss(
                candidates=candidates, scale=1 / rate, gap=gap, left_out=left_out
            ),
            formula=r"\alpha = \min\left\{a : \Pr\left[\max_{1 < i \le m} X_i - X_1 > a\right] \le \beta_k\right\},"
            r"\quad X_i \sim \mathrm{Lap}\left(\frac{2 \Delta}{\varepsilon_0} \text{ or }"
            r" \frac{\Delta}{\varepsilon_0}\right), \quad \beta_k = 1 - (1 - \beta)^{1/k}",
            source="Derived; the exact law over the worst table",
        )


class NoisyMaxChoicePlan(ChoicePlan):
    def _select(self, scores: NDArray[np.int64], rng: Randomness) -> int:
        return report_noisy_max(
            scores, epsilon=self.epsilon, sensitivity=Fraction(self.sensitivity), monotone=self.monotone, rng=rng
        )


def _event(epsilon: Fraction) -> Event:
    return ReportNoisyMaxEvent(epsilon=epsilon)
