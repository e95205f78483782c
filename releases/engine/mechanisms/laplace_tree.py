"""Cumulative counts as sums of a few noisy ranges: the binary mechanism.

The bins 1 ... N of a prefix are covered by N ranges: range j holds the bins from j - b + 1 to j, b the largest power of
two that divides j. The bins 1 ... j are the ranges j, j - b, ... down to 0, one for each 1 among the binary digits of
j. Noise is drawn for ranges, so a cumulative count carries at most L = floor(log2 N) + 1 draws. With noise on each
answer it carries one, of a scale that grows with N.

Privacy: ε-DP, Dwork and Roth (2014), Theorem 3.6, of the ranges' counts; all else is post-processing. A bin lies in at
most L ranges. Where a row is replaced, let 2^i be the size of the least block of a complete tree that holds both bins:
its ranges are left halves, so the left bin lies in at most i that do not hold the right one, and the right bin in at
most i - 1 that do not hold the left one. That is 2 h - 1 for 2^h >= N. The questions' sensitivities are added up. Other
questions get noise on each answer. Weights are those of `queries`: every range of a prefix of weight w has a w-th of
the noise.

Accuracy: the exact law of the sum of as many draws as an answer carries, and the union bound over the k answers.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from releases.engine.bounds.accuracy import Bound, Proof
from releases.engine.domain.universe import Schema
from releases.engine.mechanisms.additive_noise import LaplaceNoise
from releases.engine.mechanisms.base import Consistency, Mechanism, Plan, Request, register
from releases.engine.mechanisms.queries import NoisyQueriesPlan, plan_noisy_queries
from releases.engine.noise.randomness import Randomness
from releases.engine.workload.queries import Prefix, Workload

_FORMULA = (
    r"\alpha = \min\left\{a : \Pr\left[\left|\textstyle\sum_{i=1}^{m} X_i\right| > a\right]"
    r" \le \frac{\beta}{k}\right\},\quad m \le \lfloor \log_2 N \rfloor + 1"
)


@register
class LaplaceTree(Mechanism):
    name = "laplace-tree"
    title = "Laplace noise on a tree of ranges"
    summary = "Adds up each cumulative count from a few noisy ranges; best for cumulative counts over many bins."
    source = "Chan, Shi and Song, Private and Continual Release of Statistics (2011), the binary mechanism"
    uses_weights = True
    consistency = Consistency.OWN_NOISE

    def _plan(self, request: Request) -> Plan:
        workload, universe = request.counts_asked, request.schema.universe
        noise = LaplaceNoise(
            epsilon=request.budget.epsilon, l1_sensitivity=ranges_sensitivity(workload, request.schema)
        )
        plan = plan_noisy_queries(request, noise, formula=_FORMULA, source=self.source)
        assert isinstance(plan, NoisyQueriesPlan)
        carried = [most_ranges(each.cells(universe)) if isinstance(each, Prefix) else 1 for each in workload.families]
        share = float(request.beta) / workload.size
        half_widths = tuple(
            noise.of_weight(weight).sum(count=draws, beta=share)
            for weight, draws in zip(workload.weights, carried, strict=True)
        )
        known = {each.name: getattr(plan, each.name) for each in fields(plan)}
        known["parameters"] = {**plan.parameters, "noisy ranges in an answer": f"at most {max(carried)}"}
        known["bound"] = Bound(
            beta=request.beta, half_widths=half_widths, proof=Proof.BEFORE, formula=_FORMULA, source=self.source
        )
        return LaplaceTreePlan(**known)


@dataclass(frozen=True, kw_only=True)
class LaplaceTreePlan(NoisyQueriesPlan):
    """Noise on the ranges that prefixes are sums of, and on each other answer."""

    def _drawn(self, answers: int, rng: Randomness) -> NDArray[np.int64]:
        workload = self.counts_asked
        drawn = []
        for family, weight in zip(workload.families, workload.weights, strict=True):
            own = self.noise.of_weight(weight).draw(family.cells(workload.universe), rng)
            drawn.append(sums_of_ranges(own) if isinstance(family, Prefix) else own)
        return np.concatenate(drawn)


def sums_of_ranges(ranges: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each bin, the sum of the ranges that the bins up to it are made of."""
    padded = np.concatenate([[0], ranges])
    sums = np.zeros_like(padded)
    place = np.arange(padded.size)
    while place.any():
        sums += padded[place]
        place = place & (place - 1)
    return sums[1:]


def most_ranges(bins: int) -> int:
    """The most ranges that a cumulative count over so many bins is the sum of: binary digits that are 1."""
    digits = bins.bit_length()
    return digits if bins == 2**digits - 1 else digits - 1


def ranges_sensitivity(workload: Workload, schema: Schema) -> int:
    """Δ1 of the counts of all ranges and of all other answers, each times its weight; an upper bound."""
    moved = 0
    for family, weight in zip(workload.families, workload.weights, strict=True):
        if isinstance(family, Prefix):
            ranges = _ranges_changed(family.cells(workload.universe), schema)
            moved += weight * schema.unit.max_rows * ranges
        else:
            moved += weight * Workload(universe=workload.universe, families=(family,)).sensitivity(schema).l1
    return moved


def _ranges_changed(bins: int, schema: Schema) -> int:
    """How many ranges one row changes at most."""
    return max(
        schema.changes_of_a_row(added=bins.bit_length(), replaced=lambda: max(0, 2 * (bins - 1).bit_length() - 1))
    )
