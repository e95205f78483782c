"""Which of a stream of counts are above a threshold, until c of them were.

Privacy: `thresholds`, epsilon-DP however many counts are asked. One noise on the threshold serves all c answers (Lyu,
Su and Li 2017, Algorithm 1); Dwork and Roth (2014), Algorithm 2, draw it anew after each, at c times its cost.
"""

from __future__ import annotations

from fractions import Fraction

from releases.engine.accounting.events import SparseVectorEvent
from releases.engine.mechanisms.base import Mechanism, Plan, Request, register
from releases.engine.mechanisms.thresholds import Comparisons, StreamNoise, plan_stream, sensitivity_of
from releases.engine.workload.statistics import Threshold


@register
class SparseVector(Mechanism):
    name = "sparse-vector"
    title = "Sparse vector"
    summary = "Asks one count after the other until so many were above the threshold; counts below cost nothing."
    source = "Lyu, Su and Li, Understanding the Sparse Vector Technique (2017), Algorithm 1"
    options = ()
    answers = (Threshold,)

    def _plan(self, request: Request) -> Plan:
        stream = request.statistic
        assert isinstance(stream, Threshold)
        sensitivity, monotone = sensitivity_of(request)

        def noise(epsilon: Fraction) -> StreamNoise:
            comparisons = Comparisons.within(
                epsilon, answers=stream.answers, sensitivity=sensitivity, monotone=monotone
            )
            event = SparseVectorEvent(
                epsilon_threshold=comparisons.epsilon_threshold,
                epsilon_queries=comparisons.epsilon_queries,
                epsilon_answers=Fraction(0),
                answers=stream.answers,
            )
            return StreamNoise(comparisons=comparisons, event=event)

        return plan_stream(request, noise)
