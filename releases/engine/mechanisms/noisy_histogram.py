"""What `laplace-histogram` and `gaussian-histogram` share: noise on every cell; all else is post-processing.

An answer that sums m cells carries the sum of m independent draws; each of the k answers gets β/k by the union bound.
Synthetic rows come from the noisy cells projected on what counts can be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from releases.engine.bounds.accuracy import Bound, Proof, union_half_widths
from releases.engine.domain.privacy import NeighbouringRelation
from releases.engine.domain.universe import Schema
from releases.engine.estimation.result import Result, whole_universe
from releases.engine.mechanisms.additive_noise import Noise
from releases.engine.mechanisms.base import Plan, Progress, Request, Work, too_many_cells
from releases.engine.noise.randomness import Randomness
from releases.engine.tables.counts import Counts, marginal
from releases.engine.workload.queries import Count, Family, Marginal, Sensitivity, Workload


def refused_histogram(request: Request) -> Plan | None:
    """The refusal of a universe with too many cells to hold."""
    return too_many_cells(request, cells=request.schema.universe.size, bytes_each=24)


def plan_noisy_histogram(request: Request, noise: Noise, *, formula: str, source: str) -> Plan:
    universe = request.schema.universe
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
        },
        bound=Bound(beta=request.beta, half_widths=half_widths, proof=Proof.BEFORE, formula=formula, source=source),
        work=Work(cells=universe.size, seconds=0.2 + universe.size * 2.5e-7, bytes=universe.size * 24),
    )


@dataclass(frozen=True, kw_only=True)
class NoisyHistogramPlan(Plan):
    noise: Noise

    def _run(self, counts: Counts, rng: Randomness, progress: Progress) -> Result:
        progress("Counting the table", 0.0)
        noisy = counts.histogram()
        progress("Adding noise", 0.3)
        noisy = noisy + self.noise.draw(noisy.shape, rng)
        progress("Answering", 0.6)
        return self._answer(noisy)

    def _answer(self, noisy: NDArray[np.int64]) -> Result:
        """Answers straight from the noisy cells, and a distribution by projecting them on what counts can be."""
        universe = self.schema.universe
        assert self.bound is not None
        estimates = self.counts_asked.answer(lambda names: marginal(noisy, universe.axes(names)))
        total = max(1.0, float(noisy.sum()))
        return Result(
            estimates=tuple(each.astype(np.float64) for each in estimates),
            bound=self.bound,
            total=total,
            distribution=whole_universe(universe, nearest_counts(noisy.astype(np.float64), total)),
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
    scaled: NDArray[np.float64] = projected * (total / projected.sum())
    return scaled


def histogram_sensitivity(schema: Schema) -> Sensitivity:
    """Of the whole histogram: one cell by 1 for each row added or removed, two cells for each row replaced.

    Δ2² = 1 or 2 for one row. A person's g rows may all lie in one cell: Δ1 grows by g and Δ2² by g².
    """
    moved = 1 if schema.neighbours is NeighbouringRelation.ADD_REMOVE else 2
    rows = schema.unit.max_rows
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
