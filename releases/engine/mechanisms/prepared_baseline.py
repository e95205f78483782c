"""What counting questions would be within, were they asked together: the yardstick of a session. Public inputs only.

A session does not know its questions, so neither may this: it is the worst case over all sets of n distinct counting
queries over the universe, in one release of the same budget. Noise on each answer: one row can be in all n counts, so
Δ1 = n g and Δ2² = n g² for a unit of g rows, under either neighbouring relation (a replaced row moves each count by 1
at most, as `Workload.sensitivity` has it). Noise on the histogram: a query sums all |X| cells at most, and each of the
n gets β/n. No set of n counts is planned with a wider bound than this, and some are planned with exactly it.
"""

from __future__ import annotations

from fractions import Fraction
from functools import partial

from releases.engine.bounds.accuracy import union_half_widths
from releases.engine.domain.privacy import ApproxDP, PrivacyBudget
from releases.engine.domain.schema import Schema
from releases.engine.mechanisms.additive_noise import GaussianNoise, LaplaceNoise, Noise
from releases.engine.mechanisms.budget_split import noise_within
from releases.engine.mechanisms.histogram import histogram_sensitivity
from releases.engine.tables.counts import MAX_DENSE_CELLS
from releases.engine.workload.queries import Sensitivity


def within_if_prepared(schema: Schema, *, questions: int, budget: PrivacyBudget, beta: Fraction) -> dict[str, float]:
    """By mechanism, what every one of so many counts would be within, all at once at 1 - beta, whatever they ask.

    Left out are mechanisms that need a delta where there is none, and the histogram of a universe too large to hold.
    """
    rows = schema.rows_of_unit
    on_answers = Sensitivity(l1=questions * rows, l2_squared=questions * rows * rows)
    bounds = {
        f"{kind}-queries": noise.largest(count=questions, beta=float(beta))
        for kind, noise in _noises(budget, on_answers).items()
    }
    cells = schema.universe.size
    if cells > MAX_DENSE_CELLS:
        return bounds
    for kind, noise in _noises(budget, histogram_sensitivity(schema)).items():
        summed = partial(_summed, noise)
        (bounds[f"{kind}-histogram"],) = union_half_widths([(questions, cells)], beta=beta, quantile=summed)
    return bounds


def _noises(budget: PrivacyBudget, sensitivity: Sensitivity) -> dict[str, Noise]:
    noises: dict[str, Noise] = {"laplace": LaplaceNoise(epsilon=budget.epsilon, l1_sensitivity=sensitivity.l1)}
    if isinstance(budget, ApproxDP):
        noises["gaussian"] = noise_within(GaussianNoise, budget, sensitivity)
    return noises


def _summed(noise: Noise, cells: int, beta: float) -> float:
    return noise.sum(count=cells, beta=beta)
