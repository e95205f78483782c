"""The most common value, or the largest of several counts, by the exponential mechanism.

Chosen with probability proportional to exp(lambda * count), lambda = epsilon / (2 g) or, where all counts move the same
way, epsilon / g (see `choices` for g and for when that is): epsilon-DP by McSherry and Talwar (2007), Theorem 6, and
Dwork and Roth (2014), Theorem 3.10. The log ratio of the probabilities of two neighbours lies in an interval of length
epsilon: lambda times the counts' changes lie in one, and the normaliser shifts all alike. So it is a bounded range
(Durfee and Rogers 2019), which composes better than epsilon-DP does.

Accuracy: with m candidates, alpha rows or fewer are missed but for at most beta, where alpha is the least number with
(m - 1) exp(-lambda (alpha + 1)) / (1 + (m - 1) exp(-lambda (alpha + 1))) <= beta. It is reached when one candidate has
alpha + 1 rows more than all others, so no smaller number is true of every table. Dwork and Roth's Corollary 3.12 gives
(2 g / epsilon) ln(m / beta), which sums where this divides.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from releases.engine.accounting.events import Event, ExponentialMechanismEvent
from releases.engine.bounds.selection_error import exponential_miss
from releases.engine.mechanisms.base import Mechanism, Plan, Request, register
from releases.engine.mechanisms.choices import ChoicePlan, plan_choice
from releases.engine.noise.randomness import Randomness
from releases.engine.noise.selection import exponential_mechanism
from releases.engine.workload.statistics import LargestCount, MostCommon


@register
class ExponentialChoice(Mechanism):
    name = "exponential-choice"
    title = "Exponential mechanism on counts"
    summary = "Chooses a value with a probability that grows with its count; best when several are to be chosen."
    source = "McSherry and Talwar, Mechanism Design via Differential Privacy (2007), Theorem 6"
    options = ()
    answers = (MostCommon, LargestCount)

    def _plan(self, request: Request) -> Plan:
        return plan_choice(
            request,
            ExponentialChoicePlan,
            event=_event,
            miss=lambda candidates, rate, gap, left_out: exponential_miss(candidates=candidates, rate=rate, gap=gap),
            formula=r"\alpha = \left\lceil \frac{1}{\lambda} \ln \frac{(m - 1)(1 - \beta_k)}{\beta_k} \right\rceil - 1,"
            r"\quad \lambda = \frac{\varepsilon_0}{2 \Delta} \text{ or } \frac{\varepsilon_0}{\Delta},"
            r"\quad \beta_k = 1 - (1 - \beta)^{1/k}",
            source="Derived; sharpens Dwork and Roth (2014), Corollary 3.12",
        )


class ExponentialChoicePlan(ChoicePlan):
    def _select(self, scores: NDArray[np.int64], rng: Randomness) -> int:
        return exponential_mechanism(
            scores, epsilon=self.epsilon, sensitivity=Fraction(self.sensitivity), monotone=self.monotone, rng=rng
        )


def _event(epsilon: Fraction) -> Event:
    return ExponentialMechanismEvent(epsilon=epsilon)
