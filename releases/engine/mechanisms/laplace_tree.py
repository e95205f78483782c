"""Cumulative counts as sums and differences of a few noisy ranges, on a tree of more than two branches.

Level l of a tree of k branches, k odd, cuts the bins 1 ... N into ranges of k^l bins. Write j with the digits d_l from
-(k - 1)/2 to (k - 1)/2, j = Σ d_l k^l: the bins 1 ... j are, level by level from the top, |d_l| neighbouring ranges,
added where d_l > 0 and taken away where d_l < 0. h levels reach (k^h - 1)/2 bins. Noise is drawn for ranges, so a
cumulative count carries at most h (k - 1)/2 draws; with noise on each answer it carries one, of a scale that grows with
N. A range beyond the last bin holds nothing and needs no noise. Of all numbers of levels the one of least variance is
planned: over 1,000 bins 3 levels of 13 branches. A binary tree has 10 there, and 6 times the variance.

Privacy: ε-DP, Dwork and Roth (2014), Theorem 3.6, of the ranges' counts; all else is post-processing. A bin lies in one
range of each level. A row replaced changes two ranges of a level at most, and where a level has one range and all bins
lie in it, none. The questions' sensitivities are added up. Other questions get noise on each answer. Weights are those
of `queries`: every range of a prefix of weight w has a w-th of the noise.

Accuracy: the exact law of the sum of as many draws as an answer carries, and the union bound over the k answers. A draw
has a symmetric law, so a difference has that of a sum.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import lru_cache

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
    r" \le \frac{\beta}{k}\right\},\quad m \le h\,\tfrac{k - 1}{2}"
)


#: One level of more branches is never best.
_MOST_BRANCHES = 200


@register
class LaplaceTree(Mechanism):
    name = "laplace-tree"
    title = "Laplace noise on a tree of ranges"
    summary = "Adds up each cumulative count from a few noisy ranges; best for cumulative counts over many bins."
    source = (
        "Chan, Shi and Song, Private and Continual Release of Statistics (2011); trees of more branches with negative "
        "digits as in Andersson, Pagh, Steiner and Torkamani, Count on Your Elders (2025)"
    )
    uses_weights = True
    consistency = Consistency.OWN_NOISE

    def _plan(self, request: Request) -> Plan:
        workload, universe = request.counts_asked, request.schema.universe
        noise = LaplaceNoise(
            epsilon=request.budget.epsilon, l1_sensitivity=ranges_sensitivity(workload, request.schema)
        )
        plan = plan_noisy_queries(request, noise, formula=_FORMULA, source=self.source)
        assert isinstance(plan, NoisyQueriesPlan)
        carried = [
            ranges_of(each.cells(universe), request.schema).most if isinstance(each, Prefix) else 1
            for each in workload.families
        ]
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
            noise, cells = self.noise.of_weight(weight), family.cells(workload.universe)
            if isinstance(family, Prefix):
                ranges = ranges_of(cells, self.schema)
                drawn.append(ranges.sums(noise.draw(sum(ranges.sizes), rng)))
            else:
                drawn.append(noise.draw(cells, rng))
        return np.concatenate(drawn)


@dataclass(frozen=True, kw_only=True, slots=True)
class Ranges:
    """The ranges of a tree over some bins.

    Attributes:
        bins: N.
        branches: k, odd.
        levels: h, with (k^h - 1)/2 at least N.
    """

    bins: int
    branches: int
    levels: int

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many ranges of each level are used and hold a bin, from single bins up."""
        found, above = [], 0
        for level in reversed(range(self.levels)):
            width = self.branches**level
            used = max(int(self._nearest(np.array([self.bins]), level)[0]), above * self.branches)
            above = int(self._nearest(np.array([self.bins]), level)[0])
            found.append(min(used, -(-self.bins // width)))
        return tuple(reversed(found))

    @property
    def most(self) -> int:
        """The most ranges that an answer consists of."""
        return int(self._over_levels(lambda level, size: np.ones(size, dtype=np.int64), is_signed=False).max())

    def sums(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """For each bin, the sum over the ranges that the bins up to it are made of, those taken away as negative.

        Args:
            values: of the ranges of all levels, from single bins up.
        """
        parts = np.split(values, np.cumsum(self.sizes)[:-1])
        return self._over_levels(lambda level, size: parts[level], is_signed=True)

    def changed(self, schema: Schema) -> int:
        """How many ranges one row changes at most."""
        held_by = sum(used > 0 for used in self.sizes)
        # Two rows in one range change nothing; in two of which one is not used they change one.
        held = [-(-self.bins // self.branches**level) for level in range(self.levels)]
        replaced = sum(min(2, used) if bins > 1 else 0 for used, bins in zip(self.sizes, held, strict=True))
        return max(schema.changes_of_a_row(added=held_by, replaced=lambda: replaced))

    def _nearest(self, ends: NDArray[np.int64], level: int) -> NDArray[np.int64]:
        """The nearest multiples of the width of a level, counted in it: one, as the width is odd."""
        if level == self.levels:
            return np.zeros_like(ends)
        width = self.branches**level
        return np.asarray((ends + (width - 1) // 2) // width)

    def _over_levels(self, values: Callable[[int, int], NDArray[np.int64]], *, is_signed: bool) -> NDArray[np.int64]:
        ends = np.arange(1, self.bins + 1)
        total = np.zeros(self.bins, dtype=np.int64)
        for level, size in enumerate(self.sizes):
            up_to = np.concatenate([[0], np.cumsum(values(level, size))])
            own = up_to[np.minimum(self._nearest(ends, level), size)]
            coarser = up_to[np.minimum(self._nearest(ends, level + 1) * self.branches, size)]
            total += own - coarser if is_signed else np.abs(own - coarser)
        return total


@lru_cache(maxsize=256)
def ranges_of(bins: int, schema: Schema) -> Ranges:
    """The tree whose cumulative counts have the least variance: (ranges changed)² times ranges added up."""
    found = []
    for levels in range(1, max(2, bins.bit_length())):
        branches = 3
        while (branches**levels - 1) // 2 < bins:
            branches += 2
        if levels == 1 and bins > _MOST_BRANCHES:
            continue
        found.append(Ranges(bins=bins, branches=branches, levels=levels))
    return min(found, key=lambda each: (each.changed(schema) ** 2 * each.most, each.levels))


def ranges_sensitivity(workload: Workload, schema: Schema) -> int:
    """Δ1 of the counts of all ranges and of all other answers, each times its weight; an upper bound."""
    moved = 0
    for family, weight in zip(workload.families, workload.weights, strict=True):
        if isinstance(family, Prefix):
            changed = ranges_of(family.cells(workload.universe), schema).changed(schema)
            moved += weight * schema.unit.max_rows * changed
        else:
            moved += weight * Workload(universe=workload.universe, families=(family,)).sensitivity(schema).l1
    return moved
