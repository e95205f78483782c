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
has a symmetric law, so a difference has that of a sum. With the option `agree` a count is put together from all ranges
and tables that say something of it, and the bound is that of `mixed_squares`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from releases.engine.domain.schema import Schema
from releases.engine.domain.universe import Universe
from releases.engine.estimation.components import exact_answers
from releases.engine.mechanisms.additive_noise import LaplaceNoise
from releases.engine.mechanisms.agreement import TOGETHER, consistency_of
from releases.engine.mechanisms.base import ROWS, Consistency, Mechanism, Plan, PlanRequest, register
from releases.engine.mechanisms.queries import NoisyQueriesPlan, plan_noisy_queries
from releases.engine.noise.randomness import Randomness
from releases.engine.tables.counts import Counts
from releases.engine.workload.queries import Family, Prefix, Workload

_Number = TypeVar("_Number", np.int64, np.float64)

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
    options = (ROWS, TOGETHER)
    uses_weights = True
    consistency = Consistency.OWN_NOISE

    def _plan(self, request: PlanRequest) -> Plan:
        workload, universe = request.counts_asked, request.schema.universe
        noise = LaplaceNoise(
            epsilon=request.budget.epsilon, l1_sensitivity=ranges_sensitivity(workload, request.schema)
        )
        trees = tuple(
            ranges_of(each.cells(universe), request.schema) if isinstance(each, Prefix) else None
            for each in workload.families
        )
        carried = [1 if tree is None else tree.most for tree in trees]
        share = float(request.beta) / workload.size
        plan = plan_noisy_queries(
            request,
            noise,
            formula=_FORMULA,
            source=self.source,
            half_widths=tuple(
                noise.of_weight(weight).sum(count=draws, beta=share)
                for weight, draws in zip(workload.weights, carried, strict=True)
            ),
            measuring=trees,
            kind=LaplaceTreePlan,
        )
        if plan.infeasible:
            return plan
        assert isinstance(plan, LaplaceTreePlan)
        return replace(plan, parameters={**plan.parameters, "noisy ranges in an answer": f"at most {max(carried)}"})

    def consistency_under(self, parameters: Mapping[str, str]) -> Consistency | None:
        return consistency_of(parameters)


@dataclass(frozen=True, kw_only=True)
class LaplaceTreePlan(NoisyQueriesPlan):
    """Noise on the ranges that prefixes are sums of, and on each other answer."""

    def measured(self, counts: Counts, rng: Randomness) -> tuple[NDArray[np.float64], ...]:
        workload, found = self.counts_asked, []
        exact = exact_answers(workload, counts)
        for family, weight, answers in zip(workload.families, workload.weights, exact, strict=True):
            if isinstance(family, Prefix):
                answers = ranges_of(answers.size, self.schema).held(answers)
            noise = self.noise.of_weight(weight).draw(answers.size, rng)
            found.append((answers + noise).astype(np.float64))
        return tuple(found)

    def answered(self, measured: tuple[NDArray[np.float64], ...]) -> tuple[NDArray[np.float64], ...]:
        universe = self.counts_asked.universe
        return tuple(
            ranges_of(family.cells(universe), self.schema).sums(noisy) if isinstance(family, Prefix) else noisy
            for family, noisy in zip(self.counts_asked.families, measured, strict=True)
        )

    def noisy_answers(self, counts: Counts, rng: Randomness) -> tuple[NDArray[np.float64], ...]:
        return self.answered(self.measured(counts, rng))


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
        ones = [np.ones(size, dtype=np.int64) for size in self.sizes]
        return int(self._over_levels(ones, is_signed=False).max())

    def held(self, running: NDArray[_Number]) -> NDArray[_Number]:
        """What the ranges of all levels hold, from single bins up.

        Args:
            running: the running totals of the bins, along the first axis.
        """
        up_to = np.concatenate([np.zeros_like(running[:1]), running])
        ends = (np.arange(size + 1) * self.branches**level for level, size in enumerate(self.sizes))
        return np.concatenate([np.diff(up_to[np.minimum(each, self.bins)], axis=0) for each in ends])

    @property
    def multiplier(self) -> int:
        return 1

    def matrix(self, family: Family, universe: Universe) -> NDArray[np.float64]:
        """Which bins each range holds."""
        return self.held(np.tri(self.bins))

    def sums(self, values: NDArray[_Number]) -> NDArray[_Number]:
        """For each bin, the sum over the ranges that the bins up to it are made of, those taken away as negative.

        Args:
            values: of the ranges of all levels, from single bins up.
        """
        parts = np.split(values, np.cumsum(self.sizes)[:-1])
        return self._over_levels(parts, is_signed=True)

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

    def _over_levels(self, values: Sequence[NDArray[_Number]], *, is_signed: bool) -> NDArray[_Number]:
        ends = np.arange(1, self.bins + 1)
        total = np.zeros(self.bins, dtype=values[0].dtype)
        for level, size in enumerate(self.sizes):
            up_to = np.concatenate([[0], np.cumsum(values[level])])
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
            moved += weight * schema.rows_of_unit * changed
        else:
            moved += weight * Workload(universe=workload.universe, families=(family,)).sensitivity(schema).l1
    return moved
