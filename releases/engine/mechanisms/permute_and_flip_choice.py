"""The most common value, or the largest of several counts, by permute-and-flip.

Candidates in random order each toss a coin that comes up with probability exp(lambda (count - largest)), and the first
whose coin does is chosen; lambda = epsilon / (2 g), or epsilon / g where all counts move the same way (see `choices`).
epsilon-DP and never worse than the exponential mechanism, in expectation and in every tail: McKenna and Sheldon (2020),
Theorems 1 and 2. It has the law of report-noisy-max with exponential noise (Ding et al. 2021); Dwork and Roth (2014),
Theorem 3.13, say that this is the exponential mechanism, which is a slip: that takes Gumbel noise.

Accuracy: with m candidates and q = exp(-lambda (alpha + 1)), alpha is the least number with
1 - (1 - (1 - q)^m) / (m q) <= beta. It is reached when one candidate has alpha + 1 rows more than all others; about
half of what the exponential mechanism then misses.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from releases.engine.accounting.events import Event, PermuteAndFlipEvent
from releases.engine.bounds.selection_error import permute_and_flip_miss
from releases.engine.mechanisms.base import Mechanism, Plan, Request, register
from releases.engine.mechanisms.choices import ChoicePlan, plan_choice
from releases.engine.noise.randomness import Randomness
from releases.engine.noise.selection import permute_and_flip
from releases.engine.workload.statistics import LargestCount, MostCommon


@register
class PermuteAndFlipChoice(Mechanism):
    name = "permute-and-flip-choice"
    title = "Permute and flip"
    summary = "Chooses a value with a probability that grows with its count; never misses more than the others."
    source = "McKenna and Sheldon, Permute-and-Flip (2020), Theorems 1 and 2"
    options = ()
    answers = (MostCommon, LargestCount)

    def _plan(self, request: Request) -> Plan:
        return plan_choice(
            request,
            PermuteAndFlipChoicePlan,
            event=_event,
            miss=lambda candidates, rate, gap, left_out: permute_and_flip_miss(
                candidates=candidates, rate=rate, gap=gap
            ),
            formula=r"\alpha = \min\left\{a : 1 - \frac{1 - (1 - q_a)^m}{m q_a} \le \beta_k\right\},"
            r"\quad q_a = e^{-\lambda (a + 1)},"
            r"\quad \lambda = \frac{\varepsilon_0}{2 \Delta} \text{ or } \frac{\varepsilon_0}{\Delta},"
            r"\quad \beta_k = 1 - (1 - \beta)^{1/k}",
            source="Derived; the exact law over the worst table",
        )


class PermuteAndFlipChoicePlan(ChoicePlan):
    def _select(self, scores: NDArray[np.int64], rng: Randomness) -> int:
        return permute_and_flip(
            scores, epsilon=self.epsilon, sensitivity=Fraction(self.sensitivity), monotone=self.monotone, rng=rng
        )


def _event(epsilon: Fraction) -> Event:
    return PermuteAndFlipEvent(epsilon=epsilon)
