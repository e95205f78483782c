"""What `above-threshold`, `sparse-vector` and `numeric-sparse-vector` share: counts compared with a noisy threshold.

Lyu, Su and Li (2017), Algorithm 1, on whole numbers. z is drawn once for the public threshold T, x_i for each count
q_i, all discrete Laplace, z of scale D / e1 and x_i of scale 2 c D / e2, or c D / e2 where all counts move the same way
(`choices.score_sensitivity` has D and when that is). A count is said to be above when q_i + x_i >= T + z; after c of
these nothing more is asked. Neither T + z nor any q_i + x_i leaves the run.

Privacy, e1 + e2. Let B be the counts said to be below, A those above, |A| <= c. The probability of what is said is

    sum over whole z of  Pr[Z = z]  prod_B Pr[x_i < T + z - q_i]  prod_A Pr[x_i >= T + z - q_i].

*   Counts that move by at most D either way. Put z + D for z, one to one since D is whole: Pr[Z = z] <= e^e1
    Pr[Z = z + D]; in B, q'_i <= q_i + D, so T + z - q_i <= T + (z + D) - q'_i and the probability does not fall; in A
    the bar rises by D + q_i - q'_i <= 2 D, which a tail of scale 2 c D / e2 answers by a factor of at most e^(e2 / c).
*   Counts that all move the same way, by 0 ... D. To the larger: put z + D for z as above; in A the bar rises by
    D + q_i - q'_i <= D, so scale c D / e2 is enough. To the smaller: leave z; in B the bar rises; in A it rises by at
    most D. (The first needs e1 and e2, the second e2 alone.)

No step needs a density, so the argument is the same on whole numbers as on reals: a tail Pr[X >= m] of the discrete law
of scale t falls by at most exp(-s / t) when m rises by s >= 0. `sparse_vector_audit` sums the probabilities above and
finds e1 + e2 reached, and what published variants lose instead.

The split: e2 / e1 = (2 c)^(2/3), or c^(2/3), which makes the variance of x_i - z least (their section 4.2), to three
digits.

Numbers. With fresh noise of scale c D / e3 on each count said to be above, (e1 + e2 + e3)-DP, for c values of e3 / c
each follow. Dwork and Roth (2014), Algorithm 3 print e2 = 2 / (sqrt(512) + 1), where an epsilon is missing; it is not
used. Roth's lecture notes release q_i + x_i itself, the number that was compared: that is not private.

Accuracy: `selection_error.comparisons_miss`, the exact probability over the worst counts; Dwork and Roth's Theorem 3.24
has 8 (ln k + ln(2 / beta)) / epsilon, for c = 1 and if no count but the last is near T.

`above-threshold`. Which of a stream of counts is the first above a threshold.

Privacy: `thresholds` with c = 1, epsilon-DP however many counts are asked. Dwork and Roth (2014), Algorithm 1 and
Theorem 3.23, have noise of scale 2 / epsilon on the threshold and 4 / epsilon on the counts, which are epsilon / 2 for
each; where all counts move the same way 1 : 1 with scale 2 / epsilon for both is the best split, otherwise 1 : 2^(2/3).

`sparse-vector`. Which of a stream of counts are above a threshold, until c of them were.

Privacy: `thresholds`, epsilon-DP however many counts are asked. One noise on the threshold serves all c answers (Lyu,
Su and Li 2017, Algorithm 1); Dwork and Roth (2014), Algorithm 2, draw it again after each, at c times its cost.

`numeric-sparse-vector`. Which of a stream of counts are above a threshold, until c of them were, and their values.

Privacy: `thresholds`; the values have fresh noise of scale c D / e3, so e1 + e2 + e3 = epsilon. The bound's beta is
shared out evenly between the comparisons and the values, which fail independently: 1 - sqrt(1 - beta) for each.

Where all counts move the same way less is lost than is charged. A count said to be above that moves by m <= D takes
(D - m) / D of its share of e2 and m / D of its share of e3 on the way to the larger table, and no part of e1 on the way
back: max(e1 + max(e2, e3), e2 + e3) in all. The event does not tell the relation, so its price is the sum, which
replacing does reach (`sparse_vector_audit`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from releases.engine.accounting.events import AboveThresholdEvent, Event, SparseVectorEvent
from releases.engine.bounds.accuracy import Bound, Proof, laplace_max_quantile
from releases.engine.bounds.selection_error import comparisons_miss, least_alpha, share_of_each
from releases.engine.domain.counted import Counted
from releases.engine.domain.privacy import decimal_text
from releases.engine.estimation.result import Result
from releases.engine.mechanisms.base import Mechanism, Option, Plan, PlanRequest, Progress, Work, infeasible, register
from releases.engine.mechanisms.choices import (
    TOO_MUCH_NOISE,
    epsilon_of_each,
    predicate_counts,
    score_sensitivity,
    statistic_of,
    uncountable,
)
from releases.engine.noise.discrete import LARGEST_SCALE, discrete_laplace
from releases.engine.noise.randomness import Randomness
from releases.engine.tables.counts import Counts
from releases.engine.workload.kinds.threshold import Threshold

ABOVE, BELOW, NOT_ASKED = "above", "below", "not asked"
#: Digits after the point of e2 / e1.
_RATIO_PLACES = 3

COMPARISONS_FORMULA = (
    r"\alpha = \min\left\{a : \max_{h \le c}\left(1 - \mathrm{E}\left[F(a + Z)^{k - h} F(a + 1 - Z)^h\right]\right)"
    r" \le \beta\right\}, \quad Z \sim \mathrm{Lap}\left(\frac{\Delta}{\varepsilon_1}\right),"
    r"\quad F \text{ of } \mathrm{Lap}\left(\frac{2 c \Delta}{\varepsilon_2} \text{ or }"
    r" \frac{c \Delta}{\varepsilon_2}\right)"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparisons:
    """The noise of c comparisons.

    Attributes:
        epsilon_threshold, epsilon_queries: e1 and e2.
        threshold_scale, query_scale: of z and of x_i, in rows.
    """

    epsilon_threshold: Fraction
    epsilon_queries: Fraction
    threshold_scale: Fraction
    query_scale: Fraction

    @staticmethod
    def within(epsilon: Fraction, *, answers: int, sensitivity: int, monotone: bool) -> Comparisons:
        """The best split of epsilon between the threshold and the counts."""
        weight = answers if monotone else 2 * answers
        ratio = Fraction(_cube_root(weight**2 * 10 ** (3 * _RATIO_PLACES)), 10**_RATIO_PLACES)
        first = epsilon / (1 + ratio)
        second = epsilon - first
        return Comparisons(
            epsilon_threshold=first,
            epsilon_queries=second,
            threshold_scale=sensitivity / first,
            query_scale=weight * sensitivity / second,
        )

    def alpha(self, *, questions: int, answers: int, beta: float) -> int:
        """The least alpha such that no comparison is off by more, but for probability beta."""

        def miss(alpha: int) -> float:
            return comparisons_miss(
                threshold_scale=float(self.threshold_scale),
                query_scale=float(self.query_scale),
                questions=questions,
                answers=answers,
                alpha=alpha,
                left_out=beta * 1e-9,
            )

        return least_alpha(miss, beta=beta)


@dataclass(frozen=True, kw_only=True, slots=True)
class StreamNoise:
    """All noise of one stream, and what that is for the accountant.

    Attributes:
        comparisons: noise of the comparisons.
        value_scale: of the fresh noise on the counts said to be above; None where no numbers are given.
    """

    comparisons: Comparisons
    event: Event
    value_scale: Fraction | None = None


def _cube_root(number: int) -> int:
    """The largest integer whose third power is not above `number`."""
    low, high = 0, number + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if middle**3 <= number else (low, middle)
    return low


@dataclass(frozen=True, kw_only=True)
class ThresholdPlan(Plan):
    """Compare counts with a noisy threshold until so many were above.

    Attributes:
        comparisons: their noise.
        value_scale: of the fresh noise on the counts said to be above; None where no numbers are given.
    """

    comparisons: Comparisons
    value_scale: Fraction | None = None

    def _run(self, counts: Counts, rng: Randomness, progress: Progress) -> Result:
        """`chosen` is "above", "below" or "not asked" for each count, in order.

        Estimates are the noisy values of those above, where they are given, and 0 for all others; the notes have the
        same values, null where there is none. All noise is drawn at once, so that the number of draws does not tell
        when the stream stopped; what is not needed is thrown away.
        """
        progress("Counting the table", 0.0)
        stream = statistic_of(self)
        assert isinstance(stream, Threshold)
        exact = predicate_counts(stream.predicates, counts)
        progress("Comparing", 0.5)
        bar = stream.above + discrete_laplace(scale=self.comparisons.threshold_scale, size=1, rng=rng)
        compared = exact + discrete_laplace(scale=self.comparisons.query_scale, size=exact.shape, rng=rng)
        passes = np.greater_equal(compared, bar)
        asked = np.cumsum(passes) - passes < stream.answers
        above = passes & asked
        estimates = np.zeros(exact.size)
        notes: dict[str, Any] = {"asked": int(asked.sum())}
        if self.value_scale is not None:
            fresh = discrete_laplace(scale=self.value_scale, size=stream.answers, rng=rng)
            values = exact[above] + fresh[: int(above.sum())]
            estimates[above] = values
            notes["values"] = _in_place(values, above)
        chosen = np.where(asked, np.where(passes, ABOVE, BELOW), NOT_ASKED)
        assert self.bound is not None
        return Result(estimates=(estimates,), bound=self.bound, total=0.0, chosen=tuple(map(str, chosen)), notes=notes)


def _in_place(values: NDArray[np.int64], above: NDArray[np.bool_]) -> list[int | None]:
    given = iter(values.tolist())
    return [next(given) if is_above else None for is_above in above.tolist()]


def plan_stream(request: PlanRequest, noise: Callable[[Fraction], StreamNoise]) -> Plan:
    """Plan a stream of comparisons.

    Args:
        noise: that of a stream which costs this epsilon.
    """
    stream = request.statistic
    assert isinstance(stream, Threshold)
    made = noise(epsilon_of_each(request.budget, lambda epsilon: noise(epsilon).event, rounds=1))
    comparisons, value_scale = made.comparisons, made.value_scale
    if refused := uncountable(request, stream.predicates):
        return refused
    if max(comparisons.threshold_scale, comparisons.query_scale, value_scale or 0) > LARGEST_SCALE:
        return infeasible(request, TOO_MUCH_NOISE)
    questions, answers = len(stream.predicates), stream.answers
    # Comparisons and values fail independently: each may with 1 - sqrt(1 - beta).
    beta = share_of_each(float(request.beta), rounds=1 if value_scale is None else 2)
    alpha = comparisons.alpha(questions=questions, answers=answers, beta=beta)
    off = None if value_scale is None else laplace_max_quantile(scale=value_scale, count=answers, beta=beta)
    return ThresholdPlan(
        **request.inputs(),
        comparisons=comparisons,
        value_scale=value_scale,
        events=(made.event,),
        parameters=_parameters(comparisons, value_scale),
        bound=Bound(
            beta=request.beta,
            half_widths=(float(max(alpha, off or 0)),),
            proof=Proof.BEFORE,
            formula=COMPARISONS_FORMULA,
            source="Derived; the exact law over the worst counts",
            says=_says(stream, alpha, off, request.schema.counted),
        ),
        work=Work(cells=questions, seconds=0.2 + questions * 1e-6, bytes=questions * 40),
    )


def _parameters(comparisons: Comparisons, value_scale: Fraction | None) -> dict[str, str]:
    numbers = {
        "epsilon of the threshold": comparisons.epsilon_threshold,
        "epsilon of the comparisons": comparisons.epsilon_queries,
        "noise scale of the threshold": comparisons.threshold_scale,
        "noise scale of a comparison": comparisons.query_scale,
    }
    if value_scale is not None:
        numbers["noise scale of a value"] = value_scale
    return {name: decimal_text(number) for name, number in numbers.items()}


def sensitivity_of(request: PlanRequest) -> tuple[int, bool]:
    """The most a count moves between neighbours, and whether all move the same way."""
    return score_sensitivity(request.schema)


def _says(stream: Threshold, alpha: int, off: int | None, counted: Counted) -> str:
    """What alpha bounds, in words."""
    said = (
        f"every count said to be above is truly {max(0, stream.above - alpha):,} {counted.many} or more, and every "
        f"count said to be below {stream.above + alpha:,} {counted.many} or fewer, all at once"
    )
    if off is not None:
        said += f", and every value given is within {counted.text(off)} of the truth"
    return f"{said}; nothing is said of counts that were not asked."


@register
class AboveThreshold(Mechanism):
    name = "above-threshold"
    title = "Above threshold"
    summary = "Asks one count after the other and stops at the first above the threshold; counts below cost nothing."
    source = "Dwork and Roth, The Algorithmic Foundations of Differential Privacy (2014), Algorithm 1, Theorem 3.23"
    options = ()
    answers = (Threshold,)

    def _plan(self, request: PlanRequest) -> Plan:
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


@register
class SparseVector(Mechanism):
    name = "sparse-vector"
    title = "Sparse vector"
    summary = "Asks one count after the other until so many were above the threshold; counts below cost nothing."
    source = "Lyu, Su and Li, Understanding the Sparse Vector Technique (2017), Algorithm 1"
    options = ()
    answers = (Threshold,)

    def _plan(self, request: PlanRequest) -> Plan:
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

    def _plan(self, request: PlanRequest) -> Plan:
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
