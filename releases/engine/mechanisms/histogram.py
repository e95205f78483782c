"""What `laplace-histogram` and `gaussian-histogram` share: noise on every cell; all else is post-processing.

An answer that sums m cells carries the sum of m independent draws; each of the k answers gets β/k by the union bound.
Synthetic rows come from the noisy cells projected on what counts can be.

`laplace-histogram`:
Discrete Laplace noise of scale Δ1/ε on every cell of the universe; Δ1 is 1, or 2 where neighbours replace a row.

Privacy: ε-DP, Dwork and Roth (2014), Theorem 3.6. Accuracy: the exact law of the sum of m draws; the closed form beside
it is that of Chan, Shi and Song (2011), Corollary 2.9, with its constants.

`gaussian-histogram`:
Discrete Gaussian noise of variance Δ2²/(2ρ) on every cell of the universe; Δ2² is 1, or 2 where a row is replaced.

Privacy: ρ-zCDP, Canonne, Kamath and Steinke (2020), Theorem 4, and (ε, δ)-DP by `discrete_gaussian_delta`.
Accuracy: the law of the sum of m draws, below the sub-Gaussian √(2 m σ² ln(2k/β)).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from releases.engine.bounds.accuracy import Bound, Proof, union_half_widths
from releases.engine.domain.privacy import NeighbouringRelation, PureDP
from releases.engine.domain.schema import Schema
from releases.engine.estimation.result import Result, whole_universe
from releases.engine.mechanisms.additive_noise import GaussianNoise, LaplaceNoise, Noise, NoiseLaw
from releases.engine.mechanisms.base import (
    NEEDS_DELTA,
    ROWS,
    Consistency,
    Mechanism,
    Plan,
    PlanRequest,
    Progress,
    Work,
    infeasible,
    register,
    too_many_cells,
)
from releases.engine.mechanisms.budget_split import ACCOUNTING, noise_within
from releases.engine.noise.randomness import Randomness
from releases.engine.tables.counts import Counts, marginal
from releases.engine.tables.possible import clear_impossible, clear_outside_levels, only_possible
from releases.engine.workload.queries import Count, Family, Marginal, Sensitivity, Workload


@dataclass(frozen=True, kw_only=True)
class NoisyHistogramPlan(Plan):
    noise: Noise

    def _run(self, counts: Counts, rng: Randomness, progress: Progress) -> Result:
        progress("Counting the table", 0.0)
        noisy = counts.histogram()
        progress("Adding noise", 0.3)
        noisy = noisy + self.noise.draw(noisy.shape, rng)
        # No counted row is there, which is public: noise on less of what an answer sums only brings it nearer.
        clear_impossible(self.schema.universe, noisy, self.schema.universe.left_out)
        clear_outside_levels(self.schema.universe, noisy)
        progress("Answering", 0.6)
        return self._answer(noisy, self.public_rows(counts))

    def measured_tables(self, result: Result) -> list[tuple[str, ...]]:
        return [self.schema.universe.names]

    def _answer(self, noisy: NDArray[np.int64], rows: int | None) -> Result:
        """Answers straight from the noisy cells, and a distribution by projecting them on what counts can be.

        Args:
            rows: how many there are where that is public; None for the sum of the noisy cells.
        """
        universe = self.schema.universe
        assert self.bound is not None
        estimates = self.counts_asked.answer(lambda names: marginal(noisy, universe.axes(names)))
        total = max(1.0, float(noisy.sum() if rows is None else rows))
        return Result(
            estimates=tuple(each.astype(np.float64) for each in estimates),
            bound=self.bound,
            total=total,
            distribution=whole_universe(
                universe, only_possible(universe, nearest_counts(noisy.astype(np.float64), total))
            ),
        )


def nearest_counts(values: NDArray[np.float64], total: float) -> NDArray[np.float64]:
    """The non-negative array with the given sum that is nearest in Euclidean distance.

    It is max(values - t, 0) for the one t that gives the sum (Held, Wolfe and Crowder 1974); t is found by bisection,
    which needs no sorted copy of the universe.
    """
    low, high = float(values.min()) - total / values.size, float(values.max())
    for _ in range(80):
        middle = (low + high) / 2
        if np.maximum(values - middle, 0.0).sum() > total:
            low = middle
        else:
            high = middle
    projected = np.maximum(values - low, 0.0)
    if not projected.any():
        # The values are so large that the total is lost in their rounding, and all alike.
        return np.full(values.shape, total / values.size)
    scaled: NDArray[np.float64] = projected * (total / projected.sum())
    return scaled


def histogram_sensitivity(schema: Schema) -> Sensitivity:
    """Of the whole histogram: one cell by 1 for each row added or removed, two cells for each row replaced.

    Δ2² = 1 or 2 for one row. A person's g rows may all lie in one cell: Δ1 grows by g and Δ2² by g².
    """
    moved = 1 if schema.neighbours is NeighbouringRelation.ADD_REMOVE else 2
    rows = schema.rows_of_unit
    return Sensitivity(l1=moved * rows, l2_squared=moved * rows * rows)


def cells_summed(family: Family, workload: Workload) -> int:
    """How many cells of the universe the largest answer of a family sums."""
    universe = workload.universe
    own = 1
    for name in family.attributes:
        own *= universe[name].size
    outside = universe.size // own
    if isinstance(family, Marginal):
        return outside
    return outside * most_bins_summed(family, [universe[name].size for name in family.attributes])


def most_bins_summed(family: Family, shape: Sequence[int]) -> int:
    """How many bins of its own columns the largest answer of a family sums; told by its kind, as an array of all of
    their combinations may be large."""
    if isinstance(family, Marginal):
        return 1
    return prod(map(len, family.bins)) if isinstance(family, Count) else shape[0]


class _HistogramMechanism(Mechanism):
    """Noise of one law on every cell.

    Attributes:
        law: of the noise.
        formula: of the bound, in LaTeX.
    """

    law: ClassVar[NoiseLaw]
    formula: ClassVar[str]
    consistency = Consistency.NOISY_CELLS
    drops_impossible = True

    def _plan(self, request: PlanRequest) -> Plan:
        if self.law.needs_delta and isinstance(request.budget, PureDP):
            return infeasible(request, NEEDS_DELTA)
        universe = request.schema.universe
        if (refusal := too_many_cells(request, universe, bytes_each=24)) is not None:
            return refusal
        moved = histogram_sensitivity(request.schema)
        noise = noise_within(self.law, request.budget, moved, request.options.get(ACCOUNTING.name))
        half_widths = union_half_widths(
            [
                (family.cells(universe), cells_summed(family, request.counts_asked))
                for family in request.counts_asked.families
            ],
            beta=request.beta,
            quantile=lambda cells, beta: noise.sum(count=cells, beta=beta),
        )
        return NoisyHistogramPlan(
            **request.inputs(),
            noise=noise,
            events=(noise.event,),
            parameters={
                **noise.parameters,
                "cells": f"{universe.size:,}",
                "answers": "with the noise they got, 0 where that is below 0: the bound is theirs",
                "synthetic rows": "from the nearest counts of 0 or more with the same total, in whole rows; "
                "no bound is proved for them",
                **noise.beside(request.budget),
            },
            bound=Bound(
                beta=request.beta,
                half_widths=half_widths,
                proof=Proof.BEFORE,
                formula=self.formula,
                source=self.source,
            ),
            work=Work(cells=universe.size, seconds=0.2 + universe.size * 2.5e-7, bytes=universe.size * 24),
        )


@register
class LaplaceHistogram(_HistogramMechanism):
    name = "laplace-histogram"
    title = "Laplace noise on the histogram"
    summary = "Adds noise to every cell of the universe once, then answers any question; best when cells are few."
    source = "Dwork and Roth (2014), Theorem 3.6; sums of noise as in Chan, Shi and Song (2011), Corollary 2.9"
    law = LaplaceNoise
    formula = (
        r"\alpha = \min\left\{w : \Pr\left[\left|\textstyle\sum_{i=1}^{m} X_i\right| > w\right]"
        r" \le \frac{\beta}{k}\right\} \le 2\sqrt{2}\,\frac{\Delta_1}{\varepsilon}"
        r"\max\left\{\sqrt{m \ln\tfrac{2k}{\beta}},\ \ln\tfrac{2k}{\beta}\right\}"
    )


@register
class GaussianHistogram(_HistogramMechanism):
    name = "gaussian-histogram"
    title = "Gaussian noise on the histogram"
    summary = "Adds Gaussian noise to every cell of the universe once, then answers any question."
    source = "Canonne, Kamath and Steinke, The Discrete Gaussian for Differential Privacy (2020), Theorem 4"
    law = GaussianNoise
    options = (ROWS, ACCOUNTING)
    formula = (
        r"\alpha = \min\left\{w : \Pr\left[\left|\textstyle\sum_{i=1}^{m} Z_i\right| > w\right]"
        r" \le \frac{\beta}{k}\right\} \le \sqrt{2 m \sigma^2 \ln\tfrac{2k}{\beta}}"
    )
