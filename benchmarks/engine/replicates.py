"""How often intervals from replicates hold the population's number: 500 simulated tables of each of three real ones.

A real table takes the place of the population, so its numbers are the truth. A simulated table has as many rows, drawn
from it with replacement. It is released, replicates are made of what was released, and an interval for each statistic.
Beside it the interval of somebody who takes the synthetic rows for a sample of the population and ignores the noise.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import sqrt
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.tables import BenchRow, BenchTable
from releases.engine.domain.privacy import ApproxDP, PrivacyBudget, PureDP
from releases.engine.domain.schema import Schema
from releases.engine.errors import Infeasible
from releases.engine.estimation.rounding import controlled_counts
from releases.engine.mechanisms.base import Plan, mechanism
from releases.engine.noise.randomness import Randomness, StreamRandomness, uniform_below
from releases.engine.replicates.combine import interval_of
from releases.engine.replicates.draw import DrawnCounts, draw_replicates
from releases.engine.replicates.validity import LEAST_COVERED, TABLES, StatisticOfRows, rows_to_noise
from releases.engine.run import rows_to_make
from releases.engine.workload.parsing import read_question

EPSILONS = (Fraction(3, 10), Fraction(1))
#: Of fits, of which each replicate is one; and columns of each table that they are asked about.
_FITS, _FITTED_EPSILONS, _ASKED = ("marginal-fit",), (Fraction(1),), 2
DELTA = Fraction(1, 10**9)
_NORMAL = 1.959964
Floats = NDArray[np.float64]
#: A column of a file: its bin in each line.
Read = Callable[[Mapping[str, str]], int]


@dataclass(frozen=True, kw_only=True)
class Real:
    """A real table.

    Attributes:
        title: for people.
        file: with a head line.
        categories: columns of categories: how many there are, and how a line says its own.
        numbers: columns of whole numbers: their bins, and how a line says its own.
    """

    title: str
    file: str
    categories: Mapping[str, tuple[int, Read]]
    numbers: Mapping[str, tuple[tuple[int, ...], Read]]


def _number(name: str, *, plus: int = 0, empty: str = "") -> Read:
    return lambda line: 0 if line[name] == empty else int(line[name]) + plus


# The files of Adult hold codes: an age counts from 17, hours from 1.
REAL = (
    Real(
        title="Adult",
        file="adult.csv",
        categories={"sex": (2, _number("sex")), "income": (2, _number("income>50K"))},
        numbers={
            "age": ((17, 25, 35, 45, 55, 65, 90), _number("age", plus=17)),
            "hours": ((1, 20, 35, 41, 50, 99), _number("hours-per-week", plus=1)),
        },
    ),
    Real(
        title="Health survey",
        file="health_insurance.csv",
        categories={
            "gender": (2, lambda line: int(line["gender"] == "male")),
            "insurance": (2, lambda line: int(line["insurance"] == "yes")),
        },
        numbers={
            "age": ((18, 25, 35, 45, 55, 64), _number("age")),
            "family": ((1, 2, 3, 4, 5, 14), _number("family")),
        },
    ),
    Real(
        title="Community survey",
        file="nist_national2019.csv",
        categories={"sex": (2, _number("SEX", plus=-1)), "memory": (3, _number("DREM", empty="N"))},
        numbers={
            "age": ((0, 18, 30, 45, 60, 75, 99), _number("AGEP")),
            "schooling": ((0, 5, 8, 10, 12), _number("EDU", empty="N")),
        },
    ),
)


def tables(folder: Path, *, runs: int = TABLES) -> Iterator[BenchTable]:
    """
    Args:
        folder: of the files.
        runs: simulated tables of each real one.
    """
    title = "Intervals from replicates"
    missing = sorted({each.file for each in REAL if not (folder / each.file).exists()})
    if missing:
        says = f"{folder.name}/ does not hold {' and '.join(missing)}."
        yield BenchTable(title=title, says=says, heads=("table",), rows=[])
        return
    yield BenchTable(
        title=title,
        says=f"{runs:,} simulated tables of each real one, a row added or removed, delta 1e-9 under Gaussian noise. "
        f"A fit is asked about all tables of {_ASKED} columns; of so few cells it measures the table of all. "
        "Rows to noise: rows of the table for each cell and each row of the noise's standard deviation. Fewest: of "
        "the statistics of a kind the one whose 95% interval held the population's number least often; all: on "
        "average; without noise: the same fewest where the synthetic rows are taken for a sample. Target: fewest at "
        f"least {LEAST_COVERED} in {TABLES}, which a statistic held with probability 95% misses with probability below "
        "1/10,000.",
        heads=("table", "mechanism", "epsilon", "rows to noise", "of", "how many", "fewest", "all", "without noise"),
        rows=[
            row
            for name in ("laplace-histogram", "gaussian-histogram", *_FITS)
            for real in REAL
            for epsilon in (_FITTED_EPSILONS if name in _FITS else EPSILONS)
            for row in _rows(PopulationTable.read(real, folder), name, epsilon, runs)
        ],
    )


def budget_of(name: str, epsilon: Fraction) -> PrivacyBudget:
    return ApproxDP(epsilon=epsilon, delta=DELTA) if name.startswith("gaussian") else PureDP(epsilon=epsilon)


@dataclass(frozen=True, kw_only=True)
class Statistics:
    """Numbers worked out from a table of counts.

    Attributes:
        kinds: of each.
        values: of each.
        deviations: of each, were the rows a sample of the population; 0 where that is not worked out.
    """

    kinds: tuple[StatisticOfRows, ...]
    values: Floats
    deviations: Floats


@dataclass(frozen=True, kw_only=True)
class PopulationTable:
    """A real table in the place of a population.

    Attributes:
        counts: of every cell.
        middles: of each bin of the columns of numbers.
    """

    title: str
    schema: Schema
    counts: NDArray[np.int64]
    middles: Mapping[str, Floats]

    @staticmethod
    def read(real: Real, folder: Path) -> PopulationTable:
        with (folder / real.file).open(newline="") as file:
            lines = list(csv.DictReader(file))
        columns: list[dict[str, object]] = []
        codes: dict[str, NDArray[np.int64]] = {}
        middles = {}
        for name, (size, said) in real.categories.items():
            columns.append({"name": name, "type": "categorical", "categories": [str(each) for each in range(size)]})
            codes[name] = np.array([said(line) for line in lines], dtype=np.int64)
        for name, (edges, number) in real.numbers.items():
            columns.append({"name": name, "type": "integer", "edges": list(edges)})
            values = np.clip([number(line) for line in lines], edges[0], edges[-1])
            codes[name] = np.minimum(np.searchsorted(edges, values, side="right") - 1, len(edges) - 2)
            ends = [*edges[:-1], edges[-1] + 1]
            middles[name] = np.array([(low + high - 1) / 2 for low, high in pairwise(ends)])
        schema = Schema.from_json({"version": 1, "columns": columns, "neighbours": "add_remove"})
        shape = schema.universe.shape
        flat = np.ravel_multi_index(tuple(codes[name] for name in schema.universe.names), shape)
        counts = np.bincount(flat, minlength=schema.universe.size).astype(np.int64).reshape(shape)
        return PopulationTable(title=real.title, schema=schema, counts=counts, middles=middles)

    @property
    def names(self) -> tuple[str, ...]:
        return self.schema.universe.names

    def plan(self, name: str, epsilon: Fraction) -> Plan:
        query = {"marginals": _ASKED} if name in _FITS else {"marginal": list(self.names)}
        question = read_question({"version": 1, "queries": [query]}, self.schema.universe)
        plan = mechanism(name).plan(
            self.schema, question, budget=budget_of(name, epsilon), beta=Fraction(1, 20), options={}
        )
        if plan.infeasible:
            raise Infeasible(plan.infeasible)
        return plan

    def sample(self, rng: Randomness) -> NDArray[np.int64]:
        """As many rows as it has, drawn from it with replacement."""
        rows = int(self.counts.sum())
        places = np.searchsorted(np.cumsum(self.counts), uniform_below(rows, rows, rng), side="right")
        return np.bincount(places, minlength=self.counts.size).astype(np.int64).reshape(self.counts.shape)

    def release(self, plan: Plan, counts: NDArray[np.int64], rng: Randomness) -> NDArray[np.int64]:
        """The counts of the synthetic rows."""
        result = plan.run(DrawnCounts(universe=self.schema.universe, names=self.names, table=counts), rng=rng)
        if result.distribution is None:
            raise Infeasible("The plan makes no synthetic rows.")
        return controlled_counts(result.distribution.marginal(self.names), rows_to_make(plan, result), rng)

    def statistics(self, counts: NDArray[np.int64]) -> Statistics:
        """Everything that is worked out, from the counts of a table."""
        rows = float(counts.sum())
        shares = counts / rows
        found: list[tuple[StatisticOfRows, float, float]] = []
        for name in self.names:
            law = self._over(shares, name)
            found += [(StatisticOfRows.SHARE, share, sqrt(share * (1 - share) / rows)) for share in law.tolist()]
            if (middles := self.middles.get(name)) is not None:
                mean = float(law @ middles)
                found.append((StatisticOfRows.MEAN, mean, sqrt(float(law @ (middles - mean) ** 2) / rows)))
        groups = [name for name in self.names if name not in self.middles]
        for group in groups:
            for name in (each for each in self.names if each != group):
                found += _differences(self._over(shares, group, name), rows)
        for name in self.middles:
            found += [(StatisticOfRows.SLOPE, slope, 0.0) for slope in self._slopes(shares, name)]
        kinds, values, deviations = zip(*found, strict=True)
        return Statistics(kinds=kinds, values=np.array(values), deviations=np.array(deviations))

    def _over(self, shares: Floats, *names: str) -> Floats:
        axes = [self.names.index(name) for name in names]
        others = tuple(axis for axis in range(shares.ndim) if axis not in axes)
        kept = sorted(axes)
        return np.asarray(shares.sum(axis=others).transpose([kept.index(axis) for axis in axes]))

    def _slopes(self, shares: Floats, outcome: str) -> list[float]:
        """Of the least squares line of a number on all other columns: by middles of bins, and by categories against
        the last one."""
        codes = np.indices(shares.shape).reshape(shares.ndim, -1)
        columns = [np.ones(shares.size)]
        for name, own in zip(self.names, codes, strict=True):
            if name in self.middles and name != outcome:
                columns.append(self.middles[name][own])
            elif name not in self.middles:
                columns += [(own == place).astype(np.float64) for place in range(int(own.max()))]
        wanted = self.middles[outcome][codes[self.names.index(outcome)]]
        matrix, weights = np.stack(columns, axis=1), shares.reshape(-1)
        weighted = matrix * weights[:, None]
        return [float(each) for each in np.linalg.lstsq(weighted.T @ matrix, weighted.T @ wanted, rcond=None)[0][1:]]


def _differences(pair: Floats, rows: float) -> list[tuple[StatisticOfRows, float, float]]:
    """Of the first group from each other one, how much larger each share is; and its deviation in a sample."""
    sizes = pair.sum(axis=1)
    within = pair / np.maximum(sizes, 1e-12)[:, None]
    spread = within * (1 - within) / np.maximum(sizes * rows, 1.0)[:, None]
    return [
        (
            StatisticOfRows.DIFFERENCE,
            float(within[0, place] - within[group, place]),
            sqrt(spread[0, place] + spread[group, place]),
        )
        for group in range(1, len(sizes))
        for place in range(pair.shape[1])
    ]


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """How often intervals held the truth.

    Attributes:
        held, naive: by statistic, of how many tables; by replicates, and by taking the rows for a sample.
        runs: tables.
        rows_to_noise: see `validity`.
    """

    kinds: Sequence[StatisticOfRows]
    held: NDArray[np.int64]
    naive: NDArray[np.int64]
    runs: int
    rows_to_noise: float


def coverage(population: PopulationTable, name: str, epsilon: Fraction, runs: int) -> Coverage:
    """Simulate tables, the same ones whenever it is called."""
    plan, truth = population.plan(name, epsilon), population.statistics(population.counts)
    held, naive = (np.zeros(len(truth.kinds), dtype=np.int64) for _ in range(2))
    for run in range(runs):
        rng = StreamRandomness(f"replicates {population.title} {name} {epsilon} {run}".encode())
        released = population.release(plan, population.sample(rng), rng)
        first = population.statistics(released)
        replicates = draw_replicates(plan, released, population.names, rng=rng)
        values = np.stack([population.statistics(each).values for each in replicates], axis=1)
        for place, (own, others, true) in enumerate(zip(first.values, values, truth.values, strict=True)):
            interval = interval_of(float(own), others)
            held[place] += interval.lower <= true <= interval.upper
        naive += np.abs(first.values - truth.values) <= _NORMAL * first.deviations
    return Coverage(
        kinds=truth.kinds,
        held=held,
        naive=naive,
        runs=runs,
        rows_to_noise=rows_to_noise(plan, rows=int(population.counts.sum()), cells=population.counts.size),
    )


def _rows(population: PopulationTable, name: str, epsilon: Fraction, runs: int) -> Iterator[BenchRow]:
    found = coverage(population, name, epsilon, runs)
    by_kind: dict[StatisticOfRows, list[int]] = defaultdict(list)
    for place, kind in enumerate(found.kinds):
        by_kind[kind].append(place)
    for kind, places in by_kind.items():
        held = found.held[places]
        fewest, all_held = int(held.min()), float(held.mean()) / runs
        naive = "" if kind is StatisticOfRows.SLOPE else f"{int(found.naive[places].min())}"
        yield BenchRow(
            cells=(
                population.title,
                name,
                f"{float(epsilon):g}",
                f"{found.rows_to_noise:.1f}",
                kind.value,
                f"{len(places)}",
                f"{fewest}",
                f"{100 * all_held:.1f}%",
                naive,
            ),
            is_met=fewest * TABLES >= LEAST_COVERED * runs,
        )
