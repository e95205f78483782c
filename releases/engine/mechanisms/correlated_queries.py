"""`correlated-queries`: Gaussian noise on each answer, and one draw that all counts and cumulative counts share.

Where one person can be in all of d counts, noise on each answer has standard deviation proportional to √d. What the
counts have in common, how many of them a person is in, is then paid for many times. With one more draw added to all of
them it is (√d + 1)/2: nearly half (Lebeda, Better Gaussian Mechanism using Correlated Noise, 2024).

Run, with whole numbers q and V and a rational t: answer i of weight w_i gets (q x_i + z_i)/q, z_i independent discrete
Gaussian noise of variance V/w_i². Counts and cumulative counts get (q x_i + z_i + z_0)/q, z_0 one draw of variance t V.

Privacy: it is L(q x + z), L an integer matrix, so ρ-zCDP by `conversions.rho_of_projected_gaussian` with noise_variance
1/D², if eta there is small enough. Let a row be in the answers s among those that share, p = Σ_{i in s} w_i², and
P = Σ w_i² over all of them. Orthogonally to what L takes to 0, the multiples of (1, ..., 1; -1), the row moves q x by

    (q²/V) (m + p - p²/(1/t + P)),  m = Σ w² over tables, each of which has the row once,

in squared length: the inverse of diag(V/w_i²) + t V J by Sherman and Morrison. For p from 0 to the most one row can
have the last two terms are at most (1/t + P)/4, or their value at that most where it is below (1/t + P)/2. A person of
g rows moves it by at most g² times that. The dual of the multiples of (1, ..., 1; -1) has length √(V/(P + 1/t)), so eta
is at most 3 · 2^-⌊27 V/(P + 1/t)⌋; `is_fine` asks that this be at most 2^-102. So it is (ε, δ)-DP by
`calibration.fine_gaussian_delta` too, if theta there is small enough (`is_finely_given`; option `accounting`).

Where rows are replaced a person can leave some counts and enter others, nothing is in common, and t is 0. So it is
where no row can be in many of the counts: then this is `gaussian-queries`.

Accuracy: normal noise to within 2/q, as for `residual-queries`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from math import ceil, sqrt

import numpy as np
from numpy.typing import NDArray

from releases.engine.accounting.calibration import is_finely_given
from releases.engine.bounds.accuracy import Bound, Proof, normal_max_quantile
from releases.engine.domain.privacy import ApproxDP, NeighbouringRelation, PureDP, decimal_text
from releases.engine.domain.schema import Schema
from releases.engine.estimation.components import exact_answers
from releases.engine.mechanisms.additive_noise import GaussianNoise
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
from releases.engine.noise.discrete import LARGEST_SCALE, discrete_gaussian
from releases.engine.noise.randomness import Randomness
from releases.engine.tables.counts import Counts
from releases.engine.workload.queries import Marginal, Workload

#: q, unless the noise is so small that the lattice has to be finer.
_RESOLUTION = 1 << 9
#: The shared draw's variance is tried at 1/1, 1/2, ... 1/this of the others'.
_MOST_PARTS = 2_000
#: Less than this is not worth a draw.
_WORTH = Fraction(99, 100)
_FORMULA = (
    r"\alpha = u \sqrt{\sigma^2 + \sigma_0^2} \approx u\,\frac{\sqrt{d} + 1}{2\sqrt{2\rho}},"
    r"\quad \Pr[|N| \le u]^k = 1 - \beta"
)


@register
class CorrelatedQueries(Mechanism):
    name = "correlated-queries"
    title = "Gaussian noise with one shared draw"
    summary = (
        "Adds noise to every count, part of it the same for all; best for many counts that one person can all be in."
    )
    source = "Lebeda, Better Gaussian Mechanism using Correlated Noise (2024)"
    options = (ROWS, ACCOUNTING)
    uses_weights = True
    consistency = Consistency.OWN_NOISE

    def _plan(self, request: PlanRequest) -> Plan:
        if isinstance(request.budget, PureDP):
            return infeasible(request, NEEDS_DELTA)
        allowance = usable_allowance(request, spent_on=Allowance.of_fine_noise)
        if isinstance(allowance, Plan):
            return allowance
        workload, schema = request.counts_asked, request.schema
        overlap = Overlap.of(workload, schema)
        share = overlap.best_share()
        scale, unit = _RESOLUTION, overlap.moved(share) * allowance.fine_variance
        variance = ceil(scale**2 * unit)
        heaviest = max(workload.weights) ** 2
        least = min(Fraction(1, heaviest), share or Fraction(1))
        while not is_fine(overlap, share, variance) or (
            allowance.is_one_event and not is_finely_given(variance * least, coordinates=workload.size + 1)
        ):
            scale *= 2
            variance = ceil(scale**2 * unit)
        if variance >= LARGEST_SCALE**2:
            return infeasible(request, TOO_NOISY)
        parts = described_parts(workload)
        cells = sum(part.cells for part in parts)
        quantile = normal_max_quantile(count=workload.size, beta=float(request.beta))
        shares = [Fraction(0) if isinstance(each, Marginal) else share for each in workload.families]
        variances = tuple(
            float(variance * (Fraction(1, weight**2) + own) / scale**2)
            for weight, own in zip(workload.weights, shares, strict=True)
        )
        assert isinstance(request.budget, ApproxDP)
        return CorrelatedQueriesPlan(
            **request.inputs(),
            scale=scale,
            lattice_variance=variance,
            share=share,
            variances=variances,
            events=(allowance.fine_event,),
            parameters={
                "standard deviation of an answer": f"at most {sqrt(max(variances)):.4g}",
                "variance that is shared, of that which is not": decimal_text(share) if share else "none",
                "rho": decimal_text(allowance.amount),
                "answers": "with the noise they got, 0 where that is below 0: the bound is theirs",
                **({"synthetic rows": "fitted to the answers; no bound is proved for them"} if parts else {}),
                **GaussianNoise(rho=allowance.amount, l2_sensitivity_squared=1).beside(request.budget),
            },
            bound=Bound(
                beta=request.beta,
                half_widths=tuple(quantile * sqrt(each) + 2 / scale for each in variances),
                proof=Proof.BEFORE,
                formula=_FORMULA,
                source=self.source,
            ),
            work=Work(
                cells=max(workload.size, cells),
                seconds=0.3 + workload.size * 6e-7 + fit_seconds(parts),
                bytes=workload.size * 40 + cells * BYTES_EACH,
            ),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Overlap:
    """What one row can be in, in squares of weights.

    Attributes:
        tables: m, over tables.
        whole: P, over all counts and cumulative counts; 0 where nothing can be shared.
        most: the most of P that one row is in; of all that one unit changes where nothing can be shared.
        heaviest: the greatest squared weight among P.
        rows: g, that a person has at most.
    """

    tables: int
    whole: int
    most: int
    heaviest: int
    rows: int

    @staticmethod
    def of(workload: Workload, schema: Schema) -> Overlap:
        rows = schema.rows_of_unit
        pairs = list(zip(workload.families, workload.weights, strict=True))
        shared = [(family, weight) for family, weight in pairs if not isinstance(family, Marginal)]
        if schema.neighbours is not NeighbouringRelation.ADD_REMOVE or not shared:
            moved = workload.weighted_sensitivity(schema).l2_squared
            return Overlap(tables=0, whole=0, most=moved // rows**2, heaviest=1, rows=rows)
        # Weights that are all alike count as 1 there.
        together = Workload(
            universe=workload.universe, families=tuple(replace(each, weight=weight) for each, weight in shared)
        )
        alike = 1 if together.is_weighted else shared[0][1] ** 2
        return Overlap(
            tables=sum(weight**2 for family, weight in pairs if isinstance(family, Marginal)),
            whole=sum(weight**2 * family.cells(workload.universe) for family, weight in shared),
            most=alike * together.weighted_sensitivity(schema).l2_squared // rows**2,
            heaviest=max(weight**2 for _, weight in shared),
            rows=rows,
        )

    def moved(self, share: Fraction) -> Fraction:
        """D² V/q² of the shared draw's part t of the others' variance."""
        most = Fraction(self.most)
        if share:
            reach = 1 / share + self.whole
            most = reach / 4 if 2 * self.most >= reach else most - most * most / reach
        return self.rows**2 * (self.tables + most)

    def best_share(self) -> Fraction:
        """t of the least variance of the answer of greatest weight; 0 where none is worth it."""
        return _best_share(self)


@lru_cache(maxsize=1024)
def _best_share(overlap: Overlap) -> Fraction:
    if not overlap.whole:
        return Fraction(0)

    def variance(share: Fraction) -> Fraction:
        return overlap.moved(share) * (1 + share * overlap.heaviest)

    best = min((Fraction(1, parts * overlap.heaviest) for parts in range(1, _MOST_PARTS)), key=variance)
    return best if variance(best) < _WORTH * variance(Fraction(0)) else Fraction(0)


def is_fine(overlap: Overlap, share: Fraction, variance: int) -> bool:
    """Whether eta, as at the head of this file, is at most 2^-102, and the noise wide enough for the bound."""
    if variance < 4 * max(1, overlap.heaviest) or variance * share < 4 * (share > 0):
        return False
    return not share or 27 * variance >= 104 * (overlap.whole + 1 / share)


@dataclass(frozen=True, kw_only=True)
class CorrelatedQueriesPlan(AnswersPlan):
    """See the head of this file.

    Attributes:
        scale: q.
        lattice_variance: V.
        share: t.
        variances: of an answer of each family.
    """

    scale: int
    lattice_variance: int
    share: Fraction
    variances: tuple[float, ...]

    @property
    def answer_variances(self) -> Sequence[float]:
        return self.variances

    def noisy_answers(self, counts: Counts, rng: Randomness) -> tuple[NDArray[np.float64], ...]:
        workload = self.counts_asked
        exact = exact_answers(workload, counts)
        shared = 0
        if self.share:
            shared = int(discrete_gaussian(variance=self.share * self.lattice_variance, size=1, rng=rng)[0])
        found = []
        for answers, family, weight in zip(exact, workload.families, workload.weights, strict=True):
            variance = Fraction(self.lattice_variance, weight**2)
            noisy = self.scale * answers + discrete_gaussian(variance=variance, size=answers.size, rng=rng)
            found.append(np.asarray((noisy + (0 if isinstance(family, Marginal) else shared)) / self.scale))
        return tuple(found)
