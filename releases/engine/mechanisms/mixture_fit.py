"""A mixture of products fitted to noisy marginals: synthetic rows and answers where no memory holds the universe.

Measure all one-way marginals of the attributes asked and all their pairs, fit a mixture (`estimation.mixture_fit`),
find out which triples it misses, measure those, fit again. Every answer is a closed form of the mixture, of any order.
What is spent on what is decided by public numbers and by noisy ones that were paid for before.

Sensitivity. A unit has at most g rows. Adding or removing it moves a marginal by at most g in sum of absolute values
and g in Euclidean norm; replacing it by 2 g and sqrt(2) g (`histogram_sensitivity`): g rows leave their cells and g
enter others.

*   A table: as above. So does one of levels (`levels`), whose cells are sums of cells that do not overlap.
*   The distance of a triple, D = sum over cells of |T_c - r_c|, with r whole numbers made from noisy ones only: by the
    triangle inequality D moves by no more than T does in sum of absolute values, g or 2 g; it is a whole number. All m
    distances together move by m times that in sum of absolute values, and by sqrt(m) times that in Euclidean norm. Both
    are reached: a row may leave a cell above r and enter one below it in every triple.
*   The number of rows, where it is private: g.
*   The largest error of the answers: `certificate`.

Each step is private for any outcome of the steps before it, and what the steps may spend adds up to a number that is
fixed beforehand: epsilon for Laplace noise (Dwork and Roth 2014, Theorem 3.14), rho for Gaussian noise (Bun and Steinke
2016, Lemma 1.7). Both hold where the split depends on earlier outcomes too, as long as no outcome makes the sum exceed
what is charged (Rogers et al. 2016 for epsilon, Feldman and Zrnic 2021 for Rényi divergences). So tables and distances
are charged as one event, and how they share it follows from the released number of rows (`_Schedule`). With a delta all
steps are one event, whose rho is the largest of which the (epsilon, delta) of discrete Gaussian noise itself is proved
(`calibration.discrete_gaussian_delta`): 12% more than zero-concentrated privacy converts to at epsilon 0.1 and delta
1e-9, 9% more at 1, the same at 10. Triples are looked at where questions have any or join their pairs, and where the
noise on a distance is below a twentieth of all rows. A triple tells of its pairs as well, so pairs are no worse where
nobody asks about triples.

Work: the cells of measured triples, times components, times steps, stay within an allowance (`_MAX_WORK`).

Accuracy: nothing is proved before the run. Where only pairs are asked about, the fit is expected to err no more than
half the noise on their tables (`_OF_NOISE`); of larger marginals nothing is expected. The certificate proves what holds
afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import combinations
from math import comb, log, prod, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from releases.engine.accounting.events import Event
from releases.engine.bounds.accuracy import Bound
from releases.engine.domain.population import Population
from releases.engine.domain.universe import Universe
from releases.engine.estimation.components import Names, counted
from releases.engine.estimation.fit import NoisyMarginal, measured_rows
from releases.engine.estimation.level_mixture import LevelMixture
from releases.engine.estimation.levels import Levels
from releases.engine.estimation.marginals import Axes
from releases.engine.estimation.mixture import Mixture
from releases.engine.estimation.mixture_fit import fit_mixture, fit_operations
from releases.engine.estimation.mixture_rows import rows_bytes, rows_look_ups
from releases.engine.estimation.result import Distribution, MixtureComponent, Result
from releases.engine.estimation.triples import promising, rounded_size, triples_to_measure
from releases.engine.mechanisms.additive_noise import Noise
from releases.engine.mechanisms.base import (
    ROWS,
    Consistency,
    Mechanism,
    Plan,
    PlanRequest,
    Progress,
    Work,
    infeasible,
    register,
    said_of_levels,
)
from releases.engine.mechanisms.budget_split import ACCOUNTING, Allowance
from releases.engine.mechanisms.error_certificate import FORMULA, MEASURE, SOURCE, Certificate
from releases.engine.mechanisms.histogram import histogram_sensitivity, most_bins_summed, nearest_counts
from releases.engine.mechanisms.marginal_fit.common import expected_bound, refused_noise, usable_allowance, within
from releases.engine.noise.randomness import Randomness
from releases.engine.tables.counts import MAX_DENSE_CELLS, Counts
from releases.engine.workload.queries import Sensitivity, Workload, attributes_asked

#: Share of the budget for the number of rows, where it is private.
TOTAL = Fraction(1, 100)
#: No triples are looked at where the noise on a distance is larger than this, in total variation.
_MAX_BLUR = 0.05
#: Weights of tables grow with this power of their cells. Laplace noise on all pairs is so large that only cells of many
#: rows stand out, and the number of these grows more slowly than that of all cells.
_POWER_ONE, _POWER_TWO, _POWER_TWO_PURE = 0.5, 0.5, 0.25
#: Shares of what is spent on tables that one-way marginals get at least and at most, where pairs are measured too. Of
#: epsilon the least is larger: where the sum of w_i s_i is least, s_i the deviation of the noise on a table, shares of
#: rho go with w_i^(2/3) and shares of epsilon with w_i^(1/2), the former to the power of 3/4.
MIN_ONES, MIN_ONES_PURE, MAX_ONES = 0.025, 0.063, 0.4
#: Share of what is left for pairs, where triples are measured too, and what they get of all at least.
PAIRS, MIN_PAIRS = 0.36, 0.17
#: One-way marginals get so much that their noise is this far from the truth, in mean total variation.
_ONES_BLUR = 0.12
#: A pair that no question asks about matters a twenty-seventh: it gets a ninth of the share of another.
_UNASKED = 1 / 9
#: What a triple is worth that no question holds, beside one that a question holds: it tells of pairs, which have tables
#: of their own. On NIST's table, asked about every two columns in each area, 0.1 to 0.3 were best, and 1 and 0 worse.
_UNASKED_TRIPLE = 0.3
#: The penalty of `_Schedule` is for up to so many attributes, and is stronger in proportion beyond: of many noisy
#: tables some agree by chance. On NIST's table 1.4 to 1.6 times as much was better for 20 and for 23 attributes, for
#: all pairs and for triples; with 13 and 14 of Adult, and 10 of NIST's, more was worse. Invented tables of 40 and 60
#: columns were best with that much too, and worse with twice as much: so it goes no further.
_FEW_ATTRIBUTES, _MOST_STRENGTHENED = 14, 1.6
#: Components: so many times the root of the signal (`_Schedule`), within these bounds.
_COMPONENTS, _FEWEST, _MOST = 10.0, 16, 800
#: A level of triples holds so many times the noise on a pair (`_Schedule`), where it is more than one bin; and an
#: attribute has so many of them at most.
_LEAST_LEVEL, _MOST_LEVELS = 3.0, 64
#: Rates of the first and the second fit.
_FIRST_RATE, _SECOND_RATE = 0.1, 0.05
#: Pairs are one matrix with a row for each bin, and several such are held at once.
MAX_COLUMNS, MAX_BINS = 300, 5_000
#: Triples that may be looked at; more are not even listed.
_MAX_TRIPLES = 100_000
#: Triples that are looked at, their cells together, and the cells of one of them.
_MAX_LOOKED_AT, _MAX_CELLS, _MAX_CELLS_EACH = 5_000, 5 * 10**7, 5 * 10**6
#: The allowance of work for measured triples: their cells, times components, times steps. Each takes six operations.
_MAX_WORK = 5e10
#: Cells that are counted at once, and kept.
_KEPT = 10**7
#: The largest error of a fit, as a share of what the largest noise on its tables would be: tables lend each other
#: strength. What was certified came to 0.2 to 0.5 of it on four tables of 10 to 16 columns at epsilon 0.1 and 1.
_OF_NOISE = 0.5
_EXPECTED = r"\alpha \approx \tfrac12 \max_q \sigma_q \sqrt{2 \ln\tfrac{2k}{\beta}} + 2t"
#: How many rows a table is assumed to have where it is not said how many are to be made: for the time it takes alone.
_ASSUMED_ROWS = 50_000
#: Cells of triples that are measured, by the signal (`_Schedule`), where the allowance of work has room for them.
_CELLS_BY_SIGNAL = 60.0
#: Processor seconds: to begin; of a multiplication of matrices; of a look-up while rows are made; of a table that is
#: counted and drawn noise for, and of each row in it.
_SECONDS_AROUND, _SECONDS_AN_OPERATION, _SECONDS_A_LOOK_UP = 0.6, 1.3e-11, 2.5e-9
_SECONDS_A_TABLE, _SECONDS_A_ROW = 2e-4, 5e-9

#: Where the notes of a result name the triples that were measured.
_TRIPLES_NOTE = "triples measured"


@register
class MixtureFit(Mechanism):
    name = "mixture-fit"
    title = "Mixture fitted to pairs and triples"
    summary = (
        "Measures every two columns together with noise, and the sets of three that tell the most; makes synthetic "
        "data of any number of columns."
    )
    source = "this site's; the penalty is in the manner of Bach, JMLR 2008 (consistency of trace norm minimization)"
    consistency = Consistency.ONE_TABLE
    drops_impossible = True
    options = (ROWS, replace(MEASURE, default=2), ACCOUNTING)
    joins_all_columns = False

    def _plan(self, request: PlanRequest) -> Plan:
        allowance = usable_allowance(request)
        if isinstance(allowance, Plan):
            return allowance
        names = attributes_asked(request.counts_asked.families, request.schema.universe)
        if (reason := _too_large(request.counts_asked, names)) is not None:
            return infeasible(request, reason)
        split, triples = _Split.of(request, allowance, names), _triples(request.counts_asked, names)
        ones, pairs = split.at_most(triples)
        noises = [*([split.total] if split.total else []), *ones, *pairs, split.certificate.noise]
        if (refusal := refused_noise(request, noises)) is not None:
            return refusal
        return MixtureFitPlan(
            **request.inputs(),
            names=names,
            split=split,
            triples=triples,
            events=split.events(),
            parameters=_parameters(split, allowance, triples),
            expectation=_expectation(request, split, names),
            formula=FORMULA,
            source=SOURCE,
            work=_work(request, split, triples),
        )


@dataclass(frozen=True, kw_only=True)
class _Split:
    """What may be spent on what, from public numbers.

    Attributes:
        shape: bins of the attributes asked.
        moved: by one unit in a table.
        allowance: for everything.
        total: noise on the number of rows; None where that is public.
        tables: for all tables and distances together.
        asked: for each pair of attributes whether a question holds both.
        certificate: how the largest error is measured.
    """

    shape: Axes
    moved: Sensitivity
    allowance: Allowance
    total: Noise | None
    tables: Allowance
    asked: tuple[bool, ...]
    certificate: Certificate

    @staticmethod
    def of(request: PlanRequest, allowance: Allowance, names: Names) -> _Split:
        workload, schema = request.counts_asked, request.schema
        measured = Fraction(request.options["measure"], 100)
        left = allowance.share(1 - measured)
        rows, total = schema.rows_of_unit, None
        if not schema.total_is_public:
            total = left.share(TOTAL).noise(Sensitivity(l1=rows, l2_squared=rows * rows))
            left = left.share(1 - TOTAL)
        together = {pair for each in workload.marginals for pair in combinations(each, 2)}
        return _Split(
            shape=workload.universe.project(names).shape,
            moved=histogram_sensitivity(schema),
            allowance=allowance,
            total=total,
            tables=left,
            asked=tuple(pair in together for pair in combinations(names, 2)),
            certificate=Certificate.of(allowance.share(measured), schema=schema, beta=request.beta),
        )

    @property
    def is_joint(self) -> bool:
        """Whether some question holds two attributes."""
        return any(self.asked)

    @property
    def least_ones(self) -> float:
        """The share of one-way marginals at least, where pairs are measured too."""
        return MIN_ONES_PURE if self.tables.is_pure else MIN_ONES

    def events(self) -> tuple[Event, ...]:
        """What is charged. Of epsilon in parts, whose rhos are less than that of their sum."""
        if self.allowance.is_one_event:
            return (self.allowance.event,)
        total = [self.total.event] if self.total else []
        return (*total, self.tables.event, self.certificate.noise.event)

    def at_most(self, triples: Sequence[Axes]) -> tuple[list[Noise], list[Noise]]:
        """The noise on one-way marginals and on pairs, at its largest: what is known of it before the run."""
        if not self.is_joint:
            return self.on_ones(self.tables), []
        ones, pairs = (Fraction(share) for share in (self.least_ones, MIN_PAIRS if triples else 1 - MAX_ONES))
        return self.on_ones(self.tables.share(ones)), self.on_pairs(self.tables.share(pairs))

    def signal(self, rows: float) -> float:
        """Rows over the standard deviation of the noise, were all spent on as many equal tables as there are pairs."""
        noise = self.tables.share(Fraction(1, max(1, len(self.asked)))).noise(self.moved)
        return max(rows, 1.0) / sqrt(noise.variance)

    def ones_share(self, rows: float) -> float:
        """What one-way marginals get, where pairs are measured too: as much as brings their noise down to `_ONES_BLUR`.

        An attribute of many bins needs it: where pairs tell little, the one-way marginals are most of what is known.
        """
        whole = [sqrt(noise.variance) for noise in self.on_ones(self.tables)]
        blur = 0.4 * float(np.mean(np.array(whole) * self.shape)) / max(rows, 1.0)
        needed = (blur / _ONES_BLUR) ** (1 if self.tables.is_pure else 2)
        return float(np.clip(needed, self.least_ones, MAX_ONES))

    def on_ones(self, allowance: Allowance) -> list[Noise]:
        return self.on_tables(allowance, [rounded_size(length) ** _POWER_ONE for length in self.shape])

    def on_pairs(self, allowance: Allowance) -> list[Noise]:
        pairs = combinations(self.shape, 2)
        power = _POWER_TWO_PURE if allowance.is_pure else _POWER_TWO
        weights = [
            rounded_size(one * other) ** power * (1.0 if is_asked else _UNASKED)
            for (one, other), is_asked in zip(pairs, self.asked, strict=True)
        ]
        return self.on_tables(allowance, weights)

    def on_tables(self, allowance: Allowance, weights: Sequence[float]) -> list[Noise]:
        """Noise on each table, its variance inversely proportional to a power of the weight that is the same for all.

        Shares of rho go with the weights, and shares of epsilon with their roots: of these noise falls faster.
        """
        powers = np.array(weights) ** (0.5 if allowance.is_pure else 1.0)
        return [share.noise(self.moved) for share in allowance.shares((powers / powers.sum()).tolist())]

    def on_distances(self, allowance: Allowance, number: int) -> Noise:
        """Noise on the distances of so many triples."""
        return allowance.noise(Sensitivity(l1=number * self.moved.l1, l2_squared=number * self.moved.l1**2))

    def steps(self, schedule: _Schedule, triples: Sequence[Axes], rows: float) -> list[Allowance]:
        """What one-way marginals, pairs, distances and triples may spend; the first alone, or the first two, where the
        others are not measured. Together it is what is charged for all tables, or less by rounding down.
        """
        if not self.is_joint:
            return [self.tables]
        ones, distances = schedule.ones, schedule.distances
        if triples:
            left = 1 - ones - distances
            steps = self.tables.shares([ones, PAIRS * left, distances, (1 - PAIRS) * left])
            looked_at = min(len(triples), _MAX_LOOKED_AT)
            blur = sqrt(self.on_distances(steps[2], looked_at).variance) / (2 * max(rows, 1))
            if blur <= _MAX_BLUR:
                return steps
        return self.tables.shares([ones, 1 - ones])


@dataclass(frozen=True, kw_only=True)
class _Schedule:
    """How a run is made, from the signal: the number of rows over the noise on a pair. Found by trial on public tables.

    The noisier tables are, the more is spent on the few large numbers (one-way marginals, distances) and the stronger
    is the penalty; the clearer they are, the longer a fit goes on finding more in them.

    Attributes:
        ones, distances: shares of what is spent on tables.
        strength, steps: of `fit_mixture`.
        pairs_strength: of the only fit, where no triples are measured.
        components: of the mixture.
    """

    ones: float
    distances: float
    strength: float
    pairs_strength: float
    steps: int
    components: int
    least: float

    def most_cells(self, looked_at: Sequence[int], signal: float) -> float:
        """How many cells of triples a run is likely to measure: the clearer the table, the more."""
        return min(self.allowed_cells, sum(looked_at), _CELLS_BY_SIGNAL * signal)

    @property
    def allowed_cells(self) -> float:
        """Of all triples that are measured together: what the allowance of work comes to."""
        return _MAX_WORK / (self.components * self.steps)

    def levels(self, mixture: Mixture, rows: float) -> Levels:
        """What triples count in the place of bins."""
        counts = [rows * mixture.marginal((axis,)) for axis in range(len(mixture.shape))]
        return Levels.merged(counts, least=self.least, most=_MOST_LEVELS)

    @staticmethod
    def of(split: _Split, rows: float) -> _Schedule:
        signal = split.signal(rows)

        def power(exponent: float, at: float, lowest: float, highest: float) -> float:
            return float(np.clip(at * (signal / 100) ** exponent, lowest, highest))

        return _Schedule(
            ones=split.ones_share(rows),
            distances=power(-0.2, 0.06, 0.02, 0.12),
            strength=power(-0.3, 0.35, 0.1, 0.4)
            * float(np.clip(len(split.shape) / _FEW_ATTRIBUTES, 1.0, _MOST_STRENGTHENED)),
            pairs_strength=power(-0.5, 0.35, 0.1, 0.4),
            steps=round(power(0.3, 110, 200, 400)),
            components=round(power(0.5, 10 * _COMPONENTS, _FEWEST, _MOST)),
            least=_LEAST_LEVEL * rows / signal,
        )


def _too_large(workload: Workload, names: Names) -> str | None:
    """Why these questions cannot be answered; None where they can."""
    universe = workload.universe
    bins = sum(universe[name].size for name in names)
    if len(names) > MAX_COLUMNS or bins > MAX_BINS:
        return (
            f"The questions are about {len(names):,} columns that have {bins:,} bins together; the most are "
            f"{MAX_COLUMNS:,} columns and {MAX_BINS:,} bins. Ask about fewer columns, or declare wider bins."
        )
    cells, asked = max((universe.project(each).size, len(each)) for each in workload.marginals)
    if cells > MAX_DENSE_CELLS:
        return (
            f"A question is about {asked:,} columns that have {cells:,} cells together, and the most that can be "
            f"counted is {MAX_DENSE_CELLS:,}."
        )
    return None


def _as_note(names: Sequence[str]) -> str:
    return " × ".join(names)


def _triples(workload: Workload, names: Names) -> tuple[Axes, ...]:
    """The triples that may be measured, as axes: those of which a question holds all three attributes, or two pairs.

    A triple tells of its pairs as well. None where they are too many to list.
    """
    place, shape = {name: axis for axis, name in enumerate(names)}, workload.universe.project(names).shape
    near: dict[int, set[int]] = {axis: set() for axis in range(len(names))}
    for asked in workload.marginals:
        for one, other in combinations([place[name] for name in asked], 2):
            near[one].add(other)
            near[other].add(one)
    if sum(comb(len(each), 2) for each in near.values()) > 3 * _MAX_TRIPLES:
        return ()
    found = {tuple(sorted((axis, *pair))) for axis, others in near.items() for pair in combinations(others, 2)}
    return tuple(sorted(axes for axes in found if prod(shape[axis] for axis in axes) <= _MAX_CELLS_EACH))


def _worth(workload: Workload, names: Names, triples: Sequence[Axes]) -> NDArray[np.float64]:
    """What a smaller error of each triple is worth: 1 where a question holds it, else `_UNASKED_TRIPLE` times the share
    of its pairs that are asked about. Where questions hold no triple at all, that factor is the same for all."""
    place = {name: axis for axis, name in enumerate(names)}
    held = [frozenset(place[name] for name in asked) for asked in workload.marginals]
    pairs = {pair for each in held for pair in combinations(sorted(each), 2)}
    whole = {axes for each in held if len(each) > 2 for axes in combinations(sorted(each), 3)}
    return np.array(
        [
            1.0 if axes in whole else _UNASKED_TRIPLE * sum(pair in pairs for pair in combinations(axes, 2)) / 3
            for axes in triples
        ]
    )


def _expectation(request: PlanRequest, split: _Split, names: Names) -> Bound | None:
    """What the certificate is expected to say of one-way and two-way questions; None where there are larger ones."""
    workload = request.counts_asked
    if max(len(each) for each in workload.marginals) > 2:
        return None
    ones, pairs = split.at_most(())
    deviations: dict[Axes, float] = {(axis,): sqrt(noise.variance) for axis, noise in enumerate(ones)}
    for (one, other), noise in zip(combinations(range(len(names)), 2), pairs, strict=split.is_joint):
        deviations[(one, other)] = sqrt(noise.variance)
        for axis, summed in ((one, split.shape[other]), (other, split.shape[one])):
            deviations[(axis,)] = min(deviations[(axis,)], sqrt(noise.variance * summed))
    quantile = sqrt(2 * log(2 * workload.size / float(request.beta)))
    widths = []
    for family in workload.families:
        axes = tuple(names.index(name) for name in family.attributes)
        summed = most_bins_summed(family, [split.shape[axis] for axis in axes])
        widths.append(_OF_NOISE * quantile * sqrt(summed) * deviations[axes])
    return expected_bound(request, widths, split.certificate, formula=_EXPECTED, source=MixtureFit.source)


def _parameters(split: _Split, allowance: Allowance, triples: Sequence[Axes]) -> dict[str, str]:
    pairs = [sqrt(noise.variance) for noise in split.at_most(triples)[1]]
    shown = {
        "columns": f"{len(split.shape):,}",
        "pairs measured": f"{len(pairs):,}",
        "triples looked at, where the noise allows": f"{len(triples):,}",
        "noise": "discrete Laplace" if allowance.is_pure else "discrete Gaussian",
        "budget": allowance.in_words(),
        "deviation of the measured largest error": f"{sqrt(split.certificate.noise.variance):,.1f}",
    }
    if pairs:
        ends = dict.fromkeys(f"{each:,.1f}" for each in (min(pairs), max(pairs)))
        shown["standard deviations on pairs, at most"] = " to ".join(ends)
    return shown


def _work(request: PlanRequest, split: _Split, triples: Sequence[Axes]) -> Work:
    """By the rows that are to be made, for nothing else that is public says how many the table has."""
    rows, shape = request.options["rows"] or _ASSUMED_ROWS, split.shape
    bins, tables = sum(shape), len(shape) * (len(shape) + 1) // 2
    schedule = _Schedule.of(split, rows)
    are_measured = len(split.steps(schedule, triples, rows)) > 2
    cells = sorted(prod(min(shape[axis], _MOST_LEVELS) for axis in axes) for axes in triples)
    looked_at = cells[-_MAX_LOOKED_AT:] if are_measured else []
    fitted = schedule.most_cells(looked_at, split.signal(rows)) if looked_at else 0.0
    given = {"bins": bins, "components": schedule.components, "steps": schedule.steps}
    operations = fit_operations(**given) + (fit_operations(**given, cells=fitted) if looked_at else 0.0)
    operations += 2.0 * sum(looked_at) * schedule.components
    seconds = _SECONDS_AROUND + operations * _SECONDS_AN_OPERATION + rows_look_ups(shape, rows) * _SECONDS_A_LOOK_UP
    seconds += (tables + len(looked_at)) * (_SECONDS_A_TABLE + rows * _SECONDS_A_ROW)
    held = 4 * bins**2 * 6 + 4 * bins * schedule.components * 8 + min(sum(looked_at), _KEPT) * 8 + fitted * 12
    return Work(
        cells=bins * schedule.components,
        seconds=seconds,
        bytes=int(held + rows_bytes(shape, rows) + request.counts_asked.size * 16) + (96 << 20),
    )


@dataclass(frozen=True, kw_only=True)
class MixtureFitPlan(Plan):
    """See the head of this file.

    Attributes:
        names: of the attributes asked about, in universe order.
        split: of the budget.
        triples: that may be looked at, as axes of these attributes.
    """

    names: Names = field(repr=False)
    split: _Split = field(repr=False)
    triples: tuple[Axes, ...] = field(repr=False)

    def measured_tables(self, result: Result) -> list[Names]:
        """All pairs, where some question holds two attributes, and the triples that the notes name, which are of levels
        of bins."""
        if not self.split.is_joint:
            return []
        chosen = set(result.notes.get(_TRIPLES_NOTE, ()))
        triples = (tuple(self.names[axis] for axis in axes) for axes in self.triples) if chosen else ()
        return [*combinations(self.names, 2), *(names for names in triples if _as_note(names) in chosen)]

    def _run(self, counts: Counts, rng: Randomness, progress: Progress) -> Result:
        progress("Counting the table", 0.0)
        axes, pairs = ([*combinations(range(len(self.names)), order)] for order in (1, 2))
        universe = self.schema.universe.project(self.names)
        known = self.triples if len(self.triples) <= _MAX_LOOKED_AT else ()
        exact = _Exact(counts, universe, [*axes, *pairs, *known, *self._asked()])
        truths = list(exact(axes))
        total = int(truths[0].sum())
        if self.split.total is not None:
            total += int(self.split.total.draw(1, rng)[0])
        schedule = _Schedule.of(self.split, total)
        steps = self.split.steps(schedule, self.triples, total)
        measured = _measured(axes, truths, self.split.on_ones(steps[0]), self.schema.population, rng)
        rows = measured_rows(measured, total, None if self.split.total is None else self.split.total.variance)
        mixture, notes = self._fit(schedule, steps, measured, rows, exact, rng, progress)
        levels = LevelMixture.of(universe, mixture, measured)
        if universe.hierarchies:
            notes |= said_of_levels(add_up=levels.holds(universe))
        progress("Measuring the largest error", 0.95)
        fitted = (np.rint(rows * levels.marginal(axes)).astype(np.int64) for axes in self._asked())
        released = self.counts_asked.answer(lambda names: next(fitted))
        exactly = exact(self._asked())
        bound = self.split.certificate.bound(released, self.counts_asked.answer(lambda names: next(exactly)), rng)
        released.reverse()
        return Result(
            # One at a time: the answers of a wide table take more memory than all else.
            estimates=tuple(released.pop().astype(np.float64) for _ in range(len(released))),
            bound=bound,
            total=float(round(rows)),
            distribution=Distribution(components=(MixtureComponent(names=self.names, mixture=levels.mixture),)),
            notes=notes,
        )

    def _fit(
        self,
        schedule: _Schedule,
        steps: Sequence[Allowance],
        measured: list[NoisyMarginal],
        rows: float,
        exact: _Exact,
        rng: Randomness,
        progress: Progress,
    ) -> tuple[Mixture, dict[str, Any]]:
        """Pairs, a first fit, triples where they are worth it, and a second fit."""
        if len(steps) == 1:
            return Mixture.product([nearest_counts(each.table, rows) for each in measured]), {}
        shape = self.split.shape
        pairs = [*combinations(range(len(shape)), 2)]
        progress("Measuring pairs", 0.05)
        measured += _measured(pairs, exact(pairs), self.split.on_pairs(steps[1]), self.schema.population, rng)
        given: dict[str, Any] = {
            "rows": rows,
            "rng": rng,
            "strength": schedule.strength if len(steps) > 2 else schedule.pairs_strength,
            "steps": schedule.steps,
            "components": schedule.components,
        }
        report = within(progress, "Fitting", 0.1, 0.4 if len(steps) > 2 else 0.9)
        mixture = fit_mixture(shape, measured, **given, rate=_FIRST_RATE, progress=report)
        notes: dict[str, Any] = {"components": schedule.components}
        if len(steps) > 2:
            progress("Measuring triples", 0.4)
            levels = schedule.levels(mixture, rows)
            allowances = steps[2], steps[3]
            chosen = self._measured_triples(mixture, levels, schedule.allowed_cells, allowances, rows, exact, rng)
            notes[_TRIPLES_NOTE] = [_as_note([self.names[axis] for axis in each.axes]) for each in chosen]
            # Where no triple is worth it, what is left is spent on pairs.
            more = chosen or _measured(pairs, exact(pairs), self.split.on_pairs(steps[3]), self.schema.population, rng)
            given |= {"start": mixture, "levels": levels, "progress": within(progress, "Fitting", 0.5, 0.9)}
            mixture = fit_mixture(shape, [*measured, *more], **given, rate=_SECOND_RATE)
        return mixture, notes

    def _measured_triples(
        self,
        mixture: Mixture,
        levels: Levels,
        most_cells: float,
        allowances: tuple[Allowance, Allowance],
        rows: float,
        exact: _Exact,
        rng: Randomness,
    ) -> list[NoisyMarginal]:
        """Noisy tables of the triples that the fit misses most, by noisy distances; all of levels."""
        split, coarse = self.split, mixture.merged(levels)
        looking, left = allowances
        triples = promising(mixture, self.triples, most=_MAX_LOOKED_AT, most_cells=_MAX_CELLS)
        distances = [
            int(np.abs(levels.table(table, axes) - np.rint(rows * coarse.marginal(axes)).astype(np.int64)).sum())
            for axes, table in zip(triples, exact(triples), strict=True)
        ]
        noisy = np.array(distances) + split.on_distances(looking, len(triples)).draw(len(distances), rng)
        chosen = triples_to_measure(
            noisy / (2 * rows),
            np.array([prod(levels.shape[axis] for axis in axes) for axes in triples]),
            worth=_worth(self.counts_asked, self.names, triples),
            expected=lambda at: rows * coarse.marginal(triples[at]),
            deviations=lambda weights: np.sqrt([noise.variance for noise in split.on_tables(left, weights)]),
            rows=rows,
            most_cells=most_cells,
        )
        sets = [triples[at] for at, _ in chosen]
        noises = split.on_tables(left, [weight for _, weight in chosen]) if chosen else []
        truths = (levels.table(table, axes) for axes, table in zip(sets, exact(sets), strict=True))
        return _measured(sets, truths, noises, self.schema.population, rng)

    def _asked(self) -> list[Axes]:
        """The marginals that answer the questions, as axes, in order of first use."""
        place = {name: axis for axis, name in enumerate(self.names)}
        return [tuple(place[name] for name in names) for names in self.counts_asked.marginals]


class _Exact:
    """The exact marginals of the attributes asked, from sets of their axes, in order.

    All that may be wanted are counted in one reading of the table and kept, where they are small together.

    Args:
        counts: of the table.
        universe: of the attributes asked.
        sets: that may be wanted.
    """

    def __init__(self, counts: Counts, universe: Universe, sets: Iterable[Axes]) -> None:
        self._counts, self._universe = counts, universe
        wanted = sorted(set(sets))
        cells = sum(prod(universe.shape[axis] for axis in axes) for axes in wanted)
        self._kept = dict(zip(wanted, self._read(wanted), strict=True)) if cells <= _KEPT else None

    def __call__(self, sets: Sequence[Axes]) -> Iterator[NDArray[np.int64]]:
        if self._kept is None or not self._kept.keys() >= set(sets):
            return self._read(sets)
        return map(self._kept.__getitem__, sets)

    def _read(self, sets: Sequence[Axes]) -> Iterator[NDArray[np.int64]]:
        names = [tuple(self._universe.names[axis] for axis in axes) for axes in sets]
        return counted(self._counts, names, self._universe)


def _measured(
    sets: Sequence[Axes],
    truths: Iterable[NDArray[np.int64]],
    noises: Sequence[Noise],
    population: Population,
    rng: Randomness,
) -> list[NoisyMarginal]:
    return [
        NoisyMarginal(
            axes=axes,
            table=(table + noise.draw(table.shape, rng)).astype(np.float64),
            variance=noise.variance,
            population=population,
        )
        for axes, table, noise in zip(sets, truths, noises, strict=True)
    ]
