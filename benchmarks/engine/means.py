"""Means of about 50 groups of real tables, beside a noisy sum and a noisy count of each group.

The two ways beside ours share epsilon, or rho, equally between a sum and a count in each group: the sum about the
middle of the range (Tumult's average), or of the values as they are (OpenDP's sum and count). Their noise is drawn by
the same samplers, and their means too are cut to the declared range, so that the sums that noise is added to and what
is made of them are all that differs.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.tables import BenchRow, BenchTable
from releases.engine.accounting.calibration import discrete_gaussian_budget
from releases.engine.domain.privacy import ApproxDP, PrivacyBudget, PureDP
from releases.engine.domain.schema import Schema
from releases.engine.mechanisms.base import Plan, mechanism
from releases.engine.noise.discrete import discrete_gaussian, discrete_laplace
from releases.engine.noise.randomness import OperatingSystemRandomness, Randomness
from releases.engine.run import run_release
from releases.engine.tables.counts import Rows
from releases.engine.verification.tables import Remembered
from releases.engine.workload.kinds.mean import Mean
from releases.engine.workload.parsing import read_question

RUNS = 1_000
BETA = Fraction(1, 20)
_EPSILON = Fraction(1)
_BUDGETS: Mapping[str, PrivacyBudget] = {
    "laplace-numbers": PureDP(epsilon=_EPSILON),
    "gaussian-numbers": ApproxDP(epsilon=_EPSILON, delta=Fraction(1, 10**9)),
}
#: Of the squared error of the nearer of both ways, at most.
TARGETS = {"laplace-numbers": 0.5, "gaussian-numbers": 1.0}
#: A column of a file, by what each of its texts becomes.
Read = Callable[[Mapping[str, str]], str]


@dataclass(frozen=True, kw_only=True)
class MeansComparison:
    """One comparison.

    Attributes:
        title: for people.
        file: of the table, with a head line.
        of: the column of whole numbers, and how a line says it.
        edges: its declared range.
        by: the columns that make the groups, and how a line says each.
    """

    title: str
    file: str
    of: tuple[str, Read]
    edges: tuple[int, int]
    by: tuple[tuple[str, Read], ...]


def _code(name: str, *, plus: int = 0) -> Read:
    return lambda line: str(int(line[name]) + plus)


def _text(name: str) -> Read:
    return lambda line: line[name]


def _band_of_seven(line: Mapping[str, str]) -> str:
    return str(min(9, int(line["age"]) // 7))


# The files of Adult hold codes: an age counts from 17, hours from 1.
_AGE, _HOURS = ("age", _code("age", plus=17)), ("hours", _code("hours-per-week", plus=1))
_PLACE = tuple((name, _text(name)) for name in ("region", "education", "gender"))
QUESTIONS = (
    MeansComparison(
        title="Adult: weekly hours by race and age in ten bands",
        file="adult.csv",
        of=_HOURS,
        edges=(1, 99),
        by=(("race", _text("race")), ("band", _band_of_seven)),
    ),
    MeansComparison(
        title="Adult: age by work class and relationship",
        file="adult.csv",
        of=_AGE,
        edges=(17, 90),
        by=(("class", _text("workclass")), ("relationship", _text("relationship"))),
    ),
    MeansComparison(
        title="Health survey: age by region, education and gender",
        file="health_insurance.csv",
        of=("years", _code("age")),
        edges=(18, 64),
        by=_PLACE,
    ),
    MeansComparison(
        title="Health survey: family size by region, education and gender",
        file="health_insurance.csv",
        of=("family", _code("family")),
        edges=(1, 14),
        by=_PLACE,
    ),
)


def tables(folder: Path, *, runs: int = RUNS) -> Iterator[BenchTable]:
    """
    Args:
        folder: of the files.
        runs: releases of each question.
    """
    title = "Means by group"
    missing = sorted({each.file for each in QUESTIONS if not (folder / each.file).exists()})
    if missing:
        says = f"{folder.name}/ does not hold {' and '.join(missing)}."
        yield BenchTable(title=title, says=says, heads=("question",), rows=[])
        return
    yield BenchTable(
        title=title,
        says=f"Mean squared error over the groups that have rows, {runs:,} releases, epsilon 1, delta 1e-9 or none, a "
        "row added or removed, all options at their defaults. Beside it: a noisy sum about the middle of the range "
        "and a noisy count of each group, and a noisy sum of the values and a noisy count; and ours without drawing "
        "small groups towards the mean of all. Covered: of the releases those in which every mean was in its interval. "
        "Targets: of the nearer of both ways half the squared error under Laplace noise, no more under "
        "Gaussian; and no fewer covered than five standard deviations below 95%.",
        heads=(
            "question", "groups", "mechanism", "ours", "not drawn", "middle and count", "sum and count", "share",
            "target", "covered",
        ),
        rows=[_row(MeansQuestion.read(each, folder), name, runs) for each in QUESTIONS for name in _BUDGETS],
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class MeansQuestion:
    """A question about its table.

    Attributes:
        rows: the table.
        counts: the same, read once.
        sums, sizes: of each group, exactly.
    """

    question: MeansComparison
    schema: Schema
    rows: Rows
    counts: Remembered
    sums: NDArray[np.int64]
    sizes: NDArray[np.int64]

    @staticmethod
    def read(question: MeansComparison, folder: Path) -> MeansQuestion:
        with (folder / question.file).open(newline="") as file:
            lines = list(csv.DictReader(file))
        name, number = question.of
        texts = {by: [said(line) for line in lines] for by, said in question.by}
        columns: list[dict[str, Any]] = [{"name": name, "type": "integer", "edges": list(question.edges)}]
        for by, said in texts.items():
            categories = sorted(set(said))
            columns.append({"name": by, "type": "categorical", "categories": categories, "outside": categories[0]})
        schema = Schema.from_json({"version": 1, "columns": columns, "neighbours": "add_remove"})
        universe = schema.universe
        codes = {name: np.clip(np.array([int(number(line)) for line in lines], dtype=np.int64), *question.edges)}
        for by, said in texts.items():
            place = {text: code for code, text in enumerate(universe[by].categories)}
            codes[by] = np.array([place[text] for text in said], dtype=np.int64)
        rows = Rows(universe=universe, columns=codes)
        shape = tuple(universe[by].size for by in texts)
        group = np.ravel_multi_index(tuple(codes[by] for by in texts), shape)
        sizes = np.bincount(group, minlength=int(np.prod(shape))).astype(np.int64)
        sums = np.zeros_like(sizes)
        np.add.at(sums, group, codes[name])
        return MeansQuestion(
            question=question, schema=schema, rows=rows, counts=Remembered(rows), sums=sums, sizes=sizes
        )

    @property
    def has_rows(self) -> NDArray[np.bool_]:
        return self.sizes > 0

    @property
    def means(self) -> NDArray[np.float64]:
        """Of the groups that have rows."""
        return np.asarray(self.sums[self.has_rows] / self.sizes[self.has_rows])

    def plan(self, name: str) -> Plan:
        by = [name for name, _ in self.question.by]
        query = {Mean.kind: {"columns": [self.question.of[0]], "by": by}}
        question = read_question({"version": 1, "queries": [query]}, self.schema.universe)
        return mechanism(name).plan(self.schema, question, budget=_BUDGETS[name], beta=BETA, options={})


@dataclass(kw_only=True)
class _Errors:
    """Mean squared errors, one a release."""

    asked: MeansQuestion
    squares: dict[str, list[float]] = field(default_factory=dict)

    def add(self, way: str, means: NDArray[np.float64]) -> None:
        cut = np.clip(means, *self.asked.question.edges)[self.asked.has_rows]
        self.squares.setdefault(way, []).append(float(np.square(cut - self.asked.means).mean()))

    def mean(self, way: str) -> float:
        return float(np.mean(self.squares[way]))


def _row(asked: MeansQuestion, name: str, runs: int) -> BenchRow:
    plan, rng, errors, kept = asked.plan(name), OperatingSystemRandomness(), _Errors(asked=asked), 0
    low, high = asked.question.edges
    for _ in range(runs):
        result = run_release(plan, asked.counts, rng=rng).result
        errors.add("ours", result.estimates[0])
        (sums,) = result.notes["noisy sums about the middle"].values()
        errors.add("not drawn", (low + high) / 2 + _over(sums, result.notes["noisy numbers of rows"]))
        ends = result.spans[0][asked.has_rows]
        kept += bool(((ends[:, 0] <= asked.means) & (asked.means <= ends[:, 1])).all())
        for way, middle, moved in (("middle", Fraction(low + high, 2), high - low), ("sum", Fraction(0), 2 * high)):
            errors.add(way, float(middle) + _sum_and_count(asked, name, middle=middle, moved=moved, rng=rng))
    nearer = min(errors.mean("middle"), errors.mean("sum"))
    share, fewest = errors.mean("ours") / nearer, runs * (1 - BETA) - 5 * float(runs * BETA * (1 - BETA)) ** 0.5
    return BenchRow(
        cells=(
            asked.question.title,
            f"{int(asked.has_rows.sum())}",
            name,
            *(f"{errors.mean(way):.3f}" for way in ("ours", "not drawn", "middle", "sum")),
            f"{share:.3f}",
            f"{TARGETS[name]:.2f}",
            f"{kept:,}",
        ),
        is_met=share <= TARGETS[name] and kept >= fewest,
    )


def _sum_and_count(
    asked: MeansQuestion, name: str, *, middle: Fraction, moved: int, rng: Randomness
) -> NDArray[np.float64]:
    """What each group's mean is above `middle`, by a noisy sum above it, in halves of a unit, and a noisy count.

    Args:
        moved: by how many halves a row moves the sum.
    """
    groups = asked.sums.size
    if name == "laplace-numbers":
        noises = [discrete_laplace(scale=2 * most / _EPSILON, size=groups, rng=rng) for most in (moved, 1)]
    else:
        budget = _BUDGETS[name]
        rho = discrete_gaussian_budget(epsilon=budget.epsilon, delta=budget.delta).rho / 2
        noises = [discrete_gaussian(variance=most**2 / (2 * rho), size=groups, rng=rng) for most in (moved, 1)]
    halves = 2 * asked.sums - int(2 * middle) * asked.sizes + noises[0]
    return _over(halves / 2, asked.sizes + noises[1])


def _over(sums: Sequence[float] | NDArray[np.float64], rows: Sequence[float] | NDArray[Any]) -> NDArray[np.float64]:
    return np.asarray(np.asarray(sums) / np.maximum(1, np.asarray(rows)))
