"""Which of a stream of counts is the first above a threshold.

Privacy: `thresholds` with c = 1, epsilon-DP however many counts are asked. Dwork and Roth (2014), Algorithm 1 and
Theorem 3.23, have noise of scale 2 / epsilon on the threshold and 4 / epsilon on the counts, which are epsilon / 2 for
each; where all counts move the same way 1 : 1 with scale 2 / epsilon for both is the best split, otherwise 1 : 2^(2/3).
"""

from __future__ import annotations

from fractions import Fraction

from releases.engine.accounting.events import AboveThresholdEvent
from releases.engine.mechanisms.base import Mechanism, Plan, Request, infeasible, register
from releases.engine.mechanisms.thresholds import Comparisons, StreamNoise, plan_stream, sensitivity_of
from releases.engine.workload.statistics import Threshold


@register
class AboveThreshold(Mechanism):
    name = "above-threshold"
    title = "Above threshold"
    summary = "Asks one count after the other and stops at the first above the threshold; counts below cost nothing."
    source = "Dwork and Roth, The Algorithmic Foundations of Differential Privacy (2014), Algorithm 1, Theorem 3.23"
    options = ()
    answers = (Threshold,)

    def _plan(self, request: Request) -> Plan:
        stream = request.statistic
        assert isinstance(stream, Threshold)
        if stream.answers != 1:
            return infeasible(
                request, f"It stops at the first count above the threshold, and {stream.answers} are wanted."
            )
        sensitivity, monotone = sensitivity_of(request)

        def noise(epsilon: Fraction) -> StreamNoise:
            comparisons = Comparisons.within(epsilon, answers=1, sensitivity=sensitivity, monotone=monotone)
            return StreamNoise(comparisons=comparisons, event=AboveThresholdEvent(epsilon=epsilon))

        return plan_stream(request, noise)
