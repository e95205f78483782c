"""Which sums a statistic can be read off, over all rows or in each group of them.

By group, one combination of categories of up to three columns: the rows of each group are a table of their own,
measured in the same form with the same noise.

Sensitivity, for noise that is the same in every group. A row is in one group.

*   Added or removed, it changes that group's sums alone, as it would without groups. Which group that is makes no
    difference to a norm, so the first stands for all.
*   Replaced, it stays in its group and changes its sums as a row replaced does, or it leaves one group and comes to
    another: then the sums of two groups change, each as by a row added.
*   A unit of g rows makes at most g such changes, and the norm of a sum is at most the sum of the norms: g times the
    largest for one row. That is attained where all g rows are in one group, or go from one to one other. So spreading a
    person's rows over the groups costs no more than having them in the worst one.

With survey weights a row changes what it would change without, times its weight: see `weights`.

The bound is of all groups at once: the draws of different groups are independent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from itertools import pairwise

import numpy as np

from releases.engine.domain.privacy import NeighbouringRelation
from releases.engine.domain.schema import Schema
from releases.engine.tables.counts import Tally
from releases.engine.workload.kinds.logistic_regression import LogisticRegression
from releases.engine.workload.kinds.mean import Mean
from releases.engine.workload.kinds.regression import Regression
from releases.engine.workload.kinds.second_moments import SecondMoments
from releases.engine.workload.kinds.variance import Variance
from releases.engine.workload.kinds.votes import Votes
from releases.engine.workload.kinds.weighted_count import WeightedCount
from releases.engine.workload.row_logistic import CellCounts
from releases.engine.workload.row_means import MAX_PAIRED, MeanRead, Means, OfMeans, PairedMeans
from releases.engine.workload.row_regression import RegressionSums
from releases.engine.workload.row_sentences import between, within
from releases.engine.workload.row_sums import (
    Ballots,
    CentredMoments,
    CentredSums,
    Coordinate,
    Measurement,
    Moments,
    NoisySums,
    OfColumns,
    PlainSums,
    Reading,
    Sharing,
    SumOfWeights,
    Tallies,
    outwards,
    places_of,
    rounded_outwards,
)
from releases.engine.workload.row_variances import Variances
from releases.engine.workload.sensitivity import Case, Changes
from releases.engine.workload.statistic import OfNumbers, Statistic, group_labels


@dataclass(frozen=True, kw_only=True)
class Grouped(Measurement):
    """The sums of each group, one group after the other.

    Attributes:
        each: those of one group.
        by: the columns whose categories make the groups.
    """

    each: OfColumns
    by: tuple[str, ...]

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The groups."""
        return group_labels(self.by, self.schema.universe)

    @property
    def groups(self) -> int:
        return len(self.labels)

    @property
    def pairs(self) -> int:
        return self.each.pairs * self.groups

    @cached_property
    def coordinates(self) -> tuple[Coordinate, ...]:
        return tuple(
            replace(coordinate, label=f"{coordinate.label} in {label}")
            for label in self.labels
            for coordinate in self.each.coordinates
        )

    def described(self) -> tuple[Coordinate, ...]:
        return tuple(replace(each, label=f"{each.label} in each group") for each in self.each.coordinates)

    @cached_property
    def _added(self) -> Measurement:
        """One group's where rows are added and removed."""
        return replace(self.each, schema=replace(self.schema, neighbours=NeighbouringRelation.ADD_REMOVE))

    @cached_property
    def moved(self) -> Changes:
        cases = [self._padded(case) for case in self.each.moved.cases]
        if self.groups > 1 and self.schema.neighbours is NeighbouringRelation.REPLACE:
            cases += [self._padded(case + case) for case in self._added.moved.cases]
        one = [max(each) for each in zip(self._added.moved.most, self.each.moved.most, strict=True)]
        return Changes(most=tuple(one) * self.groups, cases=tuple(cases), rows=self.each.moved.rows)

    def _padded(self, case: Case) -> Case:
        return case + (0,) * (len(self.coordinates) - len(case))

    @property
    def base(self) -> Case:
        one = self._added if self.groups > 1 else self.each
        return one.base * self.groups

    def shares(self, law: Sharing) -> tuple[Fraction, ...]:
        """Those of one group where rows are added. Where they are replaced one may come to another group, which changes
        two as by a row added each, so that a count does not come free beside the sums, as it does without groups."""
        return (self._added if self.groups > 1 else self.each).shares(law) * self.groups

    def units(self, steps: int) -> tuple[Fraction, ...]:
        return self.each.units(steps) * self.groups

    def rounded(self, totals: Sequence[int], units: Sequence[Fraction]) -> list[int]:
        size = len(self.each.coordinates)
        starts = range(0, len(totals), size)
        return [
            step
            for start in starts
            for step in self.each.rounded(totals[start : start + size], units[start : start + size])
        ]

    def totals(self, counts: Tallies) -> list[int]:
        whole = _ByGroup(counts=counts, by=self.by, sizes=tuple(self.schema.universe[name].size for name in self.by))
        return [total for group in range(self.groups) for total in self.each.totals(_OfGroup(whole=whole, group=group))]

    def widths(self, reach: Sequence[Fraction]) -> tuple[Fraction, ...] | None:
        # All groups have the same noise.
        return self.each.widths(reach[: len(self.each.coordinates)])

    def loss(self, reach: Sequence[Fraction], variances: Sequence[Fraction]) -> Fraction:
        size = len(self.each.coordinates)
        return self.each.loss(reach[:size], variances[:size])

    def formula(self, quantile: str, upper: str) -> str:
        return self.each.formula(quantile, upper)

    def read(self, measured: NoisySums) -> Reading:
        parts = self._of_groups(measured)
        if isinstance(self.each, OfMeans):
            return self._read_means([self.each.means(part) for part in parts])
        readings = [self.each.read(part) for part in parts]
        widths = self.each.widths(parts[0].reach)
        assert widths is not None
        kind = "weighted sums" if self.each.weight else "sums"
        labels = tuple(f"every one of the {self.groups:,} {kind} of {each}" for each in self.each.summed)
        rows = sum(reading.total for reading in readings)
        return Reading(
            estimates=tuple(np.concatenate(each) for each in zip(*(r.estimates for r in readings), strict=True)),
            half_widths=readings[0].half_widths,
            says=within(labels, widths, after=self.each.after),
            total=rows,
            notes={"noisy number of rows": rows} if rows else {},
        )

    def _of_groups(self, measured: NoisySums) -> list[NoisySums]:
        size = len(self.each.coordinates)
        return [
            replace(
                measured,
                values=measured.values[start : start + size],
                reach=measured.reach[start : start + size],
                variances=measured.variances[start : start + size],
            )
            for start in range(0, len(self.coordinates), size)
        ]

    def _read_means(self, groups: list[tuple[MeanRead, ...]]) -> Reading:
        assert isinstance(self.each, OfMeans)
        estimates, spans, half_widths, says = [], [], [], {}
        for name, (lowest, size), means in zip(
            self.each.names, self.each.ranges, zip(*groups, strict=True), strict=True
        ):
            places = self.each.places(means)
            ends = np.array([rounded_outwards(lowest + size * mean.low, lowest + size * mean.high) for mean in means])
            ends = np.clip(ends, float(lowest), float(lowest + size))
            # To four digits of the narrowest interval, as its ends are.
            values = np.round(float(lowest) + float(size) * places, places_of(float((ends[:, 1] - ends[:, 0]).min())))
            values = np.clip(values, ends[:, 0], ends[:, 1])
            estimates.append(values)
            spans.append(ends)
            half_widths.append(outwards(Fraction(float(max((ends[:, 1] - values).max(), (values - ends[:, 0]).max())))))
            for label, mean in zip(self.labels, means, strict=True):
                says[f"{name} in {label}"] = lowest + size * mean.low, lowest + size * mean.high
        unit, counted = self.each.weight_places, "sums of the weights" if self.each.weight else "numbers of rows"
        of_groups = [float(sum((mean.rows for mean in means), Fraction(0)) / (len(means) * unit)) for means in groups]
        noted = [self.each.noted(means) for means in groups]
        sums = {what: {name: [each[what][name] for each in noted] for name in self.each.names} for what in noted[0]}
        return Reading(
            estimates=tuple(estimates),
            half_widths=tuple(half_widths),
            says=between(says, after=self.each.after, noun=self.each.read_off),
            spans=tuple(spans),
            **self.each.counted_as(sum(of_groups), {f"noisy {counted}": of_groups, **sums}),
        )


@dataclass(frozen=True, kw_only=True)
class _ByGroup:
    """The tallies of a table, cut into groups; each is taken once. As private as the table."""

    counts: Tallies
    by: tuple[str, ...]
    sizes: tuple[int, ...]
    cut: dict[tuple[str, ...], list[Tally]] = field(default_factory=dict)

    def tally(self, names: tuple[str, ...], group: int) -> Tally:
        if names not in self.cut:
            self.cut[names] = self._cut(self.counts.tally((*names, *self.by)), len(names))
        return self.cut[names][group]

    def _cut(self, tally: Tally, kept: int) -> list[Tally]:
        groups = int(np.prod(self.sizes))
        codes = np.ravel_multi_index(tally.values[kept:], self.sizes)
        order = np.argsort(codes, kind="stable")
        starts = np.searchsorted(codes[order], np.arange(groups + 1))
        places = [order[start:end] for start, end in pairwise(starts.tolist())]
        return [
            Tally(values=tuple(each[place] for each in tally.values[:kept]), counts=tally.counts[place])
            for place in places
        ]


@dataclass(frozen=True, kw_only=True)
class _OfGroup:
    """The tallies of one group."""

    whole: _ByGroup
    group: int

    def tally(self, names: tuple[str, ...]) -> Tally:
        return self.whole.tally(names, self.group)


def measurements(statistic: Statistic, schema: Schema, *, takes_pairs: bool) -> tuple[Measurement, ...]:
    """The forms in which a statistic can be measured; a plan takes that with the least loss, of equal ones the first.

    Args:
        takes_pairs: whether the noise is of a law for which pairs have a bound.
    """
    if isinstance(statistic, Regression):
        return (RegressionSums(schema=schema, statistic=statistic),)
    if isinstance(statistic, LogisticRegression):
        return (CellCounts(schema=schema, statistic=statistic),)
    if isinstance(statistic, Votes):
        return (Ballots(schema=schema, statistic=statistic),)
    assert isinstance(statistic, OfNumbers)
    forms: tuple[OfColumns, ...]
    weight = "" if statistic.weight is None else statistic.weight.column
    if isinstance(statistic, WeightedCount):
        forms = (SumOfWeights(schema=schema, names=statistic.of),)
    elif isinstance(statistic, Mean):
        forms = (Means(schema=schema, names=statistic.of, weight=weight),)
        if takes_pairs and len(statistic.of) <= MAX_PAIRED:
            forms += (PairedMeans(schema=schema, names=statistic.of, weight=weight),)
    elif isinstance(statistic, Variance):
        forms = (Variances(schema=schema, names=statistic.of, weight=weight),)
    elif isinstance(statistic, SecondMoments):
        forms = (
            Moments(schema=schema, names=statistic.of, weight=weight),
            CentredMoments(schema=schema, names=statistic.of, weight=weight),
        )
    else:
        forms = (
            PlainSums(schema=schema, names=statistic.of, weight=weight),
            CentredSums(schema=schema, names=statistic.of, weight=weight),
        )
    if not statistic.by:
        return forms
    return tuple(Grouped(schema=schema, each=form, by=statistic.by) for form in forms)
