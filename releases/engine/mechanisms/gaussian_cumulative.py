"""`gaussian-cumulative`: cumulative counts from correlated Gaussian noise, by the square root of the sum.

Let A take counts x of N bins to cumulative counts, and C be its square root: both are Toeplitz, A with all ones, C with
f_0 = 1, f_k = f_(k-1) (2 k - 1)/(2 k), and C C = A. Noise z on C x and the answers A C^-1 (C x + z) = A x + C z have
variance σ² Σ f_k², and a row moves C x by Σ f_k² in squared length, where Σ f_k² is about 1.07 + ln(N)/π. Noise on each
answer has N in the place of its square (Henzinger, Upadhyay and Upadhyay, Almost Tight Error Bounds on Differentially
Private Continual Counting, 2023).

Run, with whole numbers c_k near Q f_k: y = c * x + z, z independent discrete Gaussian noise of variance s²; the answers
are the running sums of the x' that solves c * x' = y. The rounded c is what is priced, and what is solved with.

Privacy: y is a vector of integers, so ρ-zCDP by Canonne, Kamath and Steinke (2020), Theorem 4, with ρ = Δ2²/(2 s²),
and (ε, δ)-DP by `calibration.fine_gaussian_delta`, if theta there is small enough (`is_finely_given`; option
`accounting`): all of y is released.

1.  A row in bin i moves c * x by c_0, c_1, ... from place i on: most in the first bin, by S(N) = Σ_{k<N} c_k².
2.  A row moved from bin i to j = i + l moves it by Σ_{k<l} c_k² + Σ_{k<N-j} (c_(k+l) - c_k)², which grows with N - j,
    so the first bin is the worst i for each l. Over many bins 2 S(N) is used, above that as no c_k is negative.
3.  The moves of all questions are added up. A person of g rows moves all by g times that of a row at most.

Other questions get noise on each answer. All are measured so that the deviation of an answer of weight w is about a
w-th of one number.

Accuracy: normal noise to within Σ |b_k| of the lattice's units, b = the running sums of 1/c, as for `residual-queries`.
With the option `agree` the answers are put together with tables and counts, and the bound is that of `mixed_squares`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import ceil, sqrt

import numpy as np
from numpy.typing import NDArray

from releases.engine.accounting.calibration import is_finely_given
from releases.engine.accounting.events import DiscreteGaussianEvent, Event
from releases.engine.bounds.accuracy import Bound, Proof, normal_max_quantile
from releases.engine.bounds.combinations import DISCRETE_GAUSSIAN
from releases.engine.domain.privacy import ApproxDP, PureDP, decimal_text
from releases.engine.domain.schema import Schema
from releases.engine.domain.universe import Universe
from releases.engine.estimation.components import exact_answers
from releases.engine.mechanisms.additive_noise import GaussianNoise
from releases.engine.mechanisms.agreement import (
    TOGETHER,
    Agreement,
    answers_in_words,
    consistency_of,
    narrower,
    said_of,
)
from releases.engine.mechanisms.answers import AnswersPlan, described_parts
from releases.engine.mechanisms.base import (
    NEEDS_DELTA,
    ROWS,
    Consistency,
    Mechanism,
    Plan,
    PlanRequest,
    Work,
    infeasible,
    register,
)
from releases.engine.mechanisms.budget_split import ACCOUNTING, Allowance
from releases.engine.mechanisms.marginal_fit.common import BYTES_EACH, TOO_NOISY, fit_seconds, usable_allowance
from releases.engine.mechanisms.mixed_squares import matrix_of
from releases.engine.noise.discrete import LARGEST_SCALE, discrete_gaussian
from releases.engine.noise.randomness import Randomness
from releases.engine.tables.counts import Counts
from releases.engine.workload.queries import Family, Prefix, Workload

#: Multiplier of an answer of weight 1 of no cumulative counts, so that rounding and the lattice hardly matter.
_RESOLUTION = 1 << 12
#: The work grows with the square of the bins: a second or so.
_MAX_BINS = 30_000
#: Up to so many bins the exact move of a replaced row is sought.
_MAX_EXACT_BINS = 4_096
_FORMULA = (
    r"\alpha = u\,\sigma \sum_{k<N} f_k^2 \approx u\,\sigma \left(1.07 + \tfrac{\ln N}{\pi}\right),"
    r"\quad \Pr[|N| \le u]^k = 1 - \beta"
)


@register
class GaussianCumulative(Mechanism):
    name = "gaussian-cumulative"
    title = "Gaussian noise on running sums"
    summary = "Adds noise that largely cancels between neighbouring cumulative counts; best for these over many bins."
    source = (
        "Henzinger, Upadhyay and Upadhyay, Almost Tight Error Bounds on Differentially Private Continual Counting "
        "(2023); Canonne, Kamath and Steinke (2020), Theorem 4"
    )
    options = (ROWS, TOGETHER, ACCOUNTING)
    uses_weights = True
    consistency = Consistency.OWN_NOISE

    def _plan(self, request: PlanRequest) -> Plan:
        if isinstance(request.budget, PureDP):
            return infeasible(request, NEEDS_DELTA)
        allowance = usable_allowance(request, spent_on=Allowance.of_fine_noise)
        if isinstance(allowance, Plan):
            return allowance
        workload, schema = request.counts_asked, request.schema
        bins = max([each.cells(schema.universe) for each in workload.families if isinstance(each, Prefix)], default=0)
        if bins > _MAX_BINS:
            return infeasible(
                request, f"It solves for all bins together, and there are {bins:,}; the most is {_MAX_BINS:,}."
            )
        measures = measured(workload)
        most = moved(workload, measures, schema)
        variance, event = ceil(most * allowance.fine_variance), allowance.fine_event
        if not allowance.is_one_event or not is_finely_given(variance, coordinates=workload.size):
            allowance = Allowance.of(request.budget)
            variance = ceil(most / (2 * allowance.amount))
            event = DiscreteGaussianEvent(noise_variance=1 / (2 * allowance.amount))
        if not 4 <= variance < LARGEST_SCALE**2:
            return infeasible(request, TOO_NOISY)
        return self._planned(request, measures, variance, rho=allowance.amount, event=event)

    def consistency_under(self, parameters: Mapping[str, str]) -> Consistency | None:
        return consistency_of(parameters)

    def _planned(
        self,
        request: PlanRequest,
        measures: tuple[FamilyMeasurement, ...],
        variance: int,
        *,
        rho: Fraction,
        event: Event,
    ) -> Plan:
        workload, parts = request.counts_asked, described_parts(request.counts_asked)
        quantile = normal_max_quantile(count=workload.size, beta=float(request.beta))
        deviations = [sqrt(variance) * each.deviation for each in measures]
        half_widths = tuple(quantile * one + each.slack for one, each in zip(deviations, measures, strict=True))
        drawn = (float(variance),) * len(measures)
        agreed = narrower(request, DISCRETE_GAUSSIAN, drawn, half_widths, measuring=measures)
        if isinstance(agreed, Plan):
            return agreed
        together, half_widths = agreed
        formula, source = (_FORMULA, self.source) if together is None else said_of(together)
        assert isinstance(request.budget, ApproxDP)
        cells = sum(part.cells for part in parts)
        squares = sum(float(len(each.factors)) ** 2 for each in measures)
        return GaussianCumulativePlan(
            **request.inputs(),
            measures=measures,
            lattice_variance=variance,
            together=together,
            events=(event,),
            parameters={
                "standard deviation of an answer": f"at most {max(deviations):.4g}",
                "rho": decimal_text(rho),
                "answers": answers_in_words(together),
                **({"synthetic rows": "fitted to the answers; no bound is proved for them"} if parts else {}),
                **GaussianNoise(rho=rho, l2_sensitivity_squared=1).beside(request.budget),
            },
            bound=Bound(
                beta=request.beta,
                half_widths=half_widths,
                proof=Proof.BEFORE,
                formula=formula,
                source=source,
            ),
            work=Work(
                cells=max(workload.size, cells),
                seconds=0.3
                + workload.size * 4e-7
                + squares * 3e-9
                + (0 if together is None else together.seconds)
                + fit_seconds(parts),
                bytes=workload.size * 48 + (0 if together is None else together.bytes) + cells * BYTES_EACH,
            ),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class FamilyMeasurement:
    """How the answers of a family are measured.

    Attributes:
        factors: c of cumulative counts; one number, for each answer by itself, of others.
        deviation: the largest of an answer, where noise has deviation 1.
        slack: how far an answer can be from that of normal noise.
    """

    factors: tuple[int, ...]
    deviation: float
    slack: float

    @property
    def multiplier(self) -> int:
        return self.factors[0]

    def matrix(self, family: Family, universe: Universe) -> NDArray[np.float64]:
        """What noise is added to, by the cells of the family's table."""
        factors = np.array(self.factors, dtype=np.float64)
        if not isinstance(family, Prefix):
            return np.asarray(factors[0] * matrix_of(family, universe))
        places = np.arange(factors.size)
        return np.asarray(np.tri(factors.size) * factors[np.abs(places[:, None] - places)])


@dataclass(frozen=True, kw_only=True)
class GaussianCumulativePlan(AnswersPlan):
    """See the head of this file.

    Attributes:
        measures: of each family.
        lattice_variance: s².
        together: how the noisy answers are made to agree; None where they are released as they are.
    """

    measures: tuple[FamilyMeasurement, ...]
    lattice_variance: int
    together: Agreement | None = None

    @property
    def answer_variances(self) -> Sequence[float]:
        return [self.lattice_variance * each.deviation**2 for each in self.measures]

    def measured(self, counts: Counts, rng: Randomness) -> tuple[NDArray[np.float64], ...]:
        workload = self.counts_asked
        exact = exact_answers(workload, counts)
        noise = workload.split(discrete_gaussian(variance=Fraction(self.lattice_variance), size=workload.size, rng=rng))
        return tuple(
            (noisy(answers, family, measure) + drawn).astype(np.float64)
            for answers, family, measure, drawn in zip(exact, workload.families, self.measures, noise, strict=True)
        )

    def answered(self, measured: tuple[NDArray[np.float64], ...]) -> tuple[NDArray[np.float64], ...]:
        return tuple(map(solved, measured, self.counts_asked.families, self.measures))

    def noisy_answers(self, counts: Counts, rng: Randomness) -> tuple[NDArray[np.float64], ...]:
        return self.answered(self.measured(counts, rng))

    def released(self, measured: tuple[NDArray[np.float64], ...]) -> tuple[NDArray[np.float64], ...]:
        return self.answered(measured) if self.together is None else self.together.combined(measured)


def noisy(answers: NDArray[np.int64], family: Family, measure: FamilyMeasurement) -> NDArray[np.int64]:
    """What noise is added to: whole numbers."""
    if not isinstance(family, Prefix):
        return measure.factors[0] * answers
    steps = np.diff(answers, prepend=0)
    return np.convolve(np.array(measure.factors, dtype=np.int64), steps)[: steps.size]


def solved(measured_sums: NDArray[np.float64], family: Family, measure: FamilyMeasurement) -> NDArray[np.float64]:
    """The answers that what was measured stands for."""
    factors = np.array(measure.factors, dtype=np.float64)
    if not isinstance(family, Prefix):
        return np.asarray(measured_sums / factors[0])
    return _running_sums(factors, measured_sums)


def _running_sums(factors: NDArray[np.float64], measured_sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """The running sums of the counts whose sums, weighted by the factors of one side, these are."""
    # Imported here: it takes a second, which every start of the site would wait for.
    from scipy.signal import lfilter

    return np.cumsum(lfilter([1.0], factors, measured_sums))


def measured(workload: Workload) -> tuple[FamilyMeasurement, ...]:
    """Of each family, so that deviations are as the weights ask for."""
    found = []
    for family, weight in zip(workload.families, workload.weights, strict=True):
        if isinstance(family, Prefix):
            found.append(_cumulative(family.cells(workload.universe), weight * _RESOLUTION))
        else:
            factor = weight * _RESOLUTION
            found.append(FamilyMeasurement(factors=(factor,), deviation=1 / factor, slack=1 / factor))
    return tuple(found)


@lru_cache(maxsize=64)
def _cumulative(bins: int, multiplier: int) -> FamilyMeasurement:
    roots = np.cumprod(np.concatenate([[1.0], 1 - 1 / (2 * np.arange(1.0, bins))]))
    scale = multiplier * sqrt(float((roots**2).sum()))
    factors = np.maximum(1, np.round(scale * roots))
    answers = _running_sums(factors, np.concatenate([[1.0], np.zeros(bins - 1)]))
    return FamilyMeasurement(
        factors=tuple(int(each) for each in factors),
        deviation=sqrt(float((answers**2).sum())),
        slack=float(np.abs(answers).sum()),
    )


def moved(workload: Workload, measures: tuple[FamilyMeasurement, ...], schema: Schema) -> int:
    """Δ2² of all that noise is added to; an upper bound."""
    total = 0
    for family, measure in zip(workload.families, measures, strict=True):
        if isinstance(family, Prefix):
            total += schema.rows_of_unit**2 * _moved_by_row(measure.factors, schema)
        else:
            own = Workload(universe=workload.universe, families=(family,)).sensitivity(schema).l2_squared
            total += measure.factors[0] ** 2 * own
    return total


def _moved_by_row(factors: tuple[int, ...], schema: Schema) -> int:
    removed = sum(each * each for each in factors)
    return max(schema.changes_of_a_row(added=removed, replaced=lambda: _moved_by_replacing(factors)))


@lru_cache(maxsize=64)
def _moved_by_replacing(factors: tuple[int, ...]) -> int:
    c = np.array(factors, dtype=np.int64)
    if c.size > _MAX_EXACT_BINS:
        return 2 * sum(each * each for each in factors)
    worst = 0
    for apart in range(1, c.size):
        # Of the later bin only so many places are left.
        left = c.size - apart
        worst = max(worst, int((c[:apart] ** 2).sum()) + int(((c[apart:] - c[:left]) ** 2).sum()))
    return worst
