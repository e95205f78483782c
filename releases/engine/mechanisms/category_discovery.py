r"""The values of a column that many rows have, found without knowing what they could be: noise on the count of every
value that occurs, and the values whose noisy counts reach a threshold.

A table's values are the distinct texts c_j >= 1 rows have, j = 1, 2, ...: Z_j is discrete Laplace of scale t = L /
epsilon, drawn for each, and the value is given out where c_j + Z_j >= T. Which values are given out is all that is
released, not how many rows have them. L is the most by which a unit of g rows moves all counts together: g where units
come and go (add or remove), 2g where one is replaced. Over values that could be known beforehand the noise alone would
do; here a value that only one unit has shows by itself that the unit is there, and T hides that.

The threshold. f(c) = Pr[c + Z >= T] = e^(-(T - c) / t) / (1 + e^(-1 / t)) for c < T. T is the least whole number above
g with

    delta' = max(g f(1), f(g)) <= min(delta, 1 / (t + 1)),

decided on certified bounds of the exponential, without floating point (`laplace_passes`).

Proof of (epsilon, delta)-DP. Let D, D' be neighbours, M the mechanism, E a set of outputs. Of the unit's rows in D', b'
<= g lie on values that D does not have, of its rows in D, b <= g on values that D' does not have; nobody else's do. The
counts of the values that both have change by a in all, and a + b + b' <= L.

(i) Any of the new values of D' is given out with probability at most the sum of f over their counts, which are whole,
at least 1, and together b' <= g < T. There f grows and is convex, so that with k values the sum is at most (k - 1) f(1)
+ f(g - k + 1), which is convex in k and so largest at k = 1 or k = g: it is at most max(g f(1), f(g)) = delta'. The
same holds of D and the values that only it has.

(ii) Let S be the outputs in E that consist of values that both have, and M_0 what M gives out of these values. Each has
noise of its own, and shifting it by the change of the count costs a factor e^(|change| / t), so

    Pr[M(D') in E] <= delta' + Pr[M_0(D') in S] <= delta' + e^(a / t) Pr[M_0(D) in S],
    Pr[M(D) in E] >= Pr[M_0(D) in S] Pr[M(D) gives out no value that only D has].

If b = 0, the last factor is 1 and a <= L: Pr[M(D') in E] <= e^(L / t) Pr[M(D) in E] + delta', and L / t = epsilon. If
b >= 1, it is at least 1 - delta' by (i), and a <= L - 1: the factor before Pr[M(D) in E] is e^((L - 1) / t) / (1 -
delta') <= e^epsilon, because e^(1 / t) (1 - delta') >= (1 + 1 / t) (1 - delta') >= 1 where delta' (t + 1) <= 1.

What is left out afterwards is post-processing: values that are declared already, those that cannot be declared as a
category (not printable, or too long), and of very many the last ones in order. The order is that of the texts, never
that of the table. As many draws of noise are made as the next power of two from the number of values on, 4,096 at
least, so that the time taken says no more of that number than its order of size.

Accuracy. A value that A >= T rows have is missed with probability Pr[Z >= A - T + 1], the law being symmetric; A is the
least for which that is at most beta. It speaks of any one value: how many there are is not known, so nothing can be
said of all of them at once.

Source: Korolova, Kenthapadi, Mishra and Ntoulas, Releasing Search Queries and Clicks Privately (2009), who have noise
and threshold; Dwork and Roth (2014), section 7.1, stability. Desfontaines, Voss, Gipson and Mandayam, Differentially
Private Partition Selection (2022), have the rule that gives out every value as often as any rule may, for units of one
row that come and go: at epsilon 1 it finds values of about one row fewer, at epsilon 0.1 and delta 10^-6 half of those
of 109 rows where this finds half of those of 133. Its probabilities are a recursion that ends only at the count in
question; for more rows it divides epsilon and delta among them. This rule needs one sampler, which is exact, whatever
the unit and the relation.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from releases.engine.accounting.calibration import laplace_passes
from releases.engine.accounting.events import ApproximateEvent
from releases.engine.bounds.accuracy import Bound, Proof
from releases.engine.domain.privacy import ApproxDP, NeighbouringRelation, decimal_text
from releases.engine.domain.schema import Schema
from releases.engine.estimation.result import Result
from releases.engine.mechanisms.base import Mechanism, Plan, PlanRequest, Progress, Work, infeasible, register
from releases.engine.mechanisms.choices import statistic_of
from releases.engine.noise.discrete import LARGEST_SCALE, discrete_laplace
from releases.engine.noise.randomness import Randomness
from releases.engine.tables.counts import Counts
from releases.engine.workload.kinds.categories import Categories

#: A longer text is no category that a table or a chart could show.
LONGEST_VALUE = 200
#: More categories than this in one column are no answer for anybody.
MAX_VALUES = 10_000
#: As many draws are made at least.
_FEWEST_DRAWS = 1 << 12


@register
class StableHistogram(Mechanism):
    name = "stable-histogram"
    title = "Values whose noisy count is above a threshold"
    summary = (
        "Counts every value that occurs, adds noise, and names those that reach a threshold so high that what only one "
        "unit has is hardly ever named."
    )
    source = "Korolova, Kenthapadi, Mishra and Ntoulas, Releasing Search Queries and Clicks Privately (2009)"
    options = ()
    answers = (Categories,)

    def _plan(self, request: PlanRequest) -> Plan:
        if not isinstance(request.budget, ApproxDP):
            return infeasible(
                request, "It needs a delta above 0: a value that one unit alone has is named now and then."
            )
        scale = scale_of(request.schema, epsilon=request.budget.epsilon)
        if scale > LARGEST_SCALE:
            return infeasible(request, "Its noise would not fit 64-bit numbers at so small an epsilon.")
        rows = request.schema.rows_of_unit
        threshold = threshold_of(rows=rows, scale=scale, delta=request.budget.delta)
        enough = threshold + laplace_passes(scale=scale, probability=request.beta) - 1
        return StableHistogramPlan(
            **request.inputs(),
            scale=scale,
            threshold=threshold,
            events=(ApproximateEvent(epsilon=request.budget.epsilon, delta=request.budget.delta),),
            parameters={
                "noisy count that a value needs": f"{threshold:,}",
                "noise scale": decimal_text(scale),
                "values given out, at most": f"{MAX_VALUES:,}",
                "longest value": f"{LONGEST_VALUE} characters",
            },
            bound=_bound(request, enough),
            # Of a million different values; how many there are is private.
            work=Work(cells=10**6, seconds=1.5, bytes=300_000_000),
        )


@dataclass(frozen=True, kw_only=True)
class StableHistogramPlan(Plan):
    """Name the values that reach the threshold.

    Attributes:
        scale: of the noise on a count, in rows.
        threshold: T, in rows.
    """

    scale: Fraction
    threshold: int

    def _run(self, counts: Counts, rng: Randomness, progress: Progress) -> Result:
        """`chosen` are the values in order, and the estimate is how many there are."""
        progress("Counting the table", 0.0)
        (name,) = statistic_of(self).attributes
        held = counts.texts(name)
        progress("Adding noise", 0.5)
        noise = discrete_laplace(scale=self.scale, size=_draws(held.counts.size), rng=rng)[: held.counts.size]
        passed = held.texts[held.counts + noise >= self.threshold]
        progress("Putting values in order", 0.8)
        declared = set(self.schema.universe[name].categories)
        found = sorted(text for text in passed.tolist() if text not in declared and is_declarable(text))[:MAX_VALUES]
        assert self.bound is not None
        return Result(
            estimates=(np.array([float(len(found))]),),
            bound=self.bound,
            total=0.0,
            chosen=tuple(found),
            # In the receipt: whoever declares them says by it where they come from.
            notes={"categories": found},
        )


def scale_of(schema: Schema, *, epsilon: Fraction) -> Fraction:
    """t: the most by which a unit moves all counts together, over epsilon."""
    moved = 1 if schema.neighbours is NeighbouringRelation.ADD_REMOVE else 2
    return moved * schema.rows_of_unit / epsilon


def threshold_of(*, rows: int, scale: Fraction, delta: Fraction) -> int:
    """T, the least whole number above `rows` at which what only one unit has is named with probability at most `delta`,
    and at most 1 / (scale + 1): see the head of this file.
    """
    allowed = min(delta, 1 / (scale + 1))
    by_ones = 1 + laplace_passes(scale=scale, probability=allowed / rows)
    in_one = rows + laplace_passes(scale=scale, probability=allowed)
    return max(by_ones, in_one)


def _draws(values: int) -> int:
    return 1 << max(_FEWEST_DRAWS.bit_length() - 1, (values - 1).bit_length())


def is_declarable(text: str) -> bool:
    """Whether it could be declared as a category."""
    return text.isprintable() and text == text.strip() and len(text) <= LONGEST_VALUE


def _bound(request: PlanRequest, enough: int) -> Bound:
    counted = request.schema.counted
    return Bound(
        beta=request.beta,
        half_widths=(float(enough),),
        proof=Proof.BEFORE,
        formula=r"\alpha = T + \min \left\{ k \ge 1 : \frac{e^{-k / t}}{1 + e^{-1 / t}} \le \beta \right\} - 1,"
        r"\quad t = \frac{L}{\varepsilon}, \quad L = g \text{ or } 2 g",
        source="The exact tail of discrete Laplace noise; threshold after Korolova et al. (2009)",
        says=f"any one value that is not declared is found if at least {enough:,} counted {counted.many} have it; "
        "every value found occurs in the table. Left out are texts that are not printable or longer than "
        f"{LONGEST_VALUE} characters and, of more than {MAX_VALUES:,} values, the last in order.",
    )
