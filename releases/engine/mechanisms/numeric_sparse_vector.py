"""Which of a stream of counts are above a threshold, until c of them were, and their values.

Privacy: `thresholds`; the values have fresh noise of scale c D / e3, so e1 + e2 + e3 = epsilon. The bound's beta is
shared out evenly between the comparisons and the values, which fail independently: 1 - sqrt(1 - beta) for each.

Where all counts move the same way less is lost than is charged. A count said to be above that moves by m <= D takes
(D - m) / D of its share of e2 and m / D of its share of e3 on the way to the larger table, and no part of e1 on the way
back: max(e1 + max(e2, e3), e2 + e3) in all. The event does not tell the relation, so its price is the sum, which
replacing does reach (`sparse_vector_audit`).
"""

from __future__ import annotations

from fractions import Fraction

from releases.engine.accounting.events import SparseVectorEvent
from releases.engine.mechanisms.base import Mechanism, Option, Plan, Request, register
from releases.engine.mechanisms.thresholds import Comparisons, StreamNoise, plan_stream, sensitivity_of
from releases.engine.workload.statistics import Threshold

#: A quarter for the values makes both bounds about equal for a few answers among a few dozen counts.
VALUES = Option(
    name="values",
    help="How much of epsilon, in percent, is for the values of those above; the rest decides which they are.",
    lowest=1,
    highest=99,
    default=25,
)


@register
class NumericSparseVector(Mechanism):
    name = "numeric-sparse-vector"
    title = "Sparse vector with values"
    summary = (
        "Asks one count after the other until so many were above the threshold, and gives the noisy values of those."
    )
    source = "Lyu, Su and Li, Understanding the Sparse Vector Technique (2017), Algorithm 1"
    options = (VALUES,)
    answers = (Threshold,)

    def _plan(self, request: Request) -> Plan:
        stream = request.statistic
        assert isinstance(stream, Threshold)
        sensitivity, monotone = sensitivity_of(request)
        share = Fraction(request.options["values"], 100)

        def noise(epsilon: Fraction) -> StreamNoise:
            for_values = epsilon * share
            comparisons = Comparisons.within(
                epsilon - for_values, answers=stream.answers, sensitivity=sensitivity, monotone=monotone
            )
            event = SparseVectorEvent(
                epsilon_threshold=comparisons.epsilon_threshold,
                epsilon_queries=comparisons.epsilon_queries,
                epsilon_answers=for_values,
                answers=stream.answers,
            )
            value_scale = stream.answers * sensitivity / for_values
            return StreamNoise(comparisons=comparisons, event=event, value_scale=value_scale)

        return plan_stream(request, noise)
