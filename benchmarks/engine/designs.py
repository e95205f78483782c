"""What answers gain by a design over noise on each, and how often their bounds hold."""

from __future__ import annotations

import csv
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binom

from benchmarks.engine.adult import Adult, cells_of
from benchmarks.tables import BenchRow, BenchTable, not_there
from releases.engine.domain.privacy import ApproxDP, PrivacyBudget, PureDP
from releases.engine.domain.schema import Schema
from releases.engine.mechanisms.answers import AnswersPlan
from releases.engine.mechanisms.base import Plan, mechanism
from releases.engine.noise.randomness import OperatingSystemRandomness, StreamRandomness
from releases.engine.tables.counts import Histogram
from releases.engine.workload.queries import Workload

RUNS = 1_000
BETA = Fraction(1, 20)
_APPROXIMATE = ApproxDP(epsilon=Fraction(1), delta=Fraction(1, 10**9))
_PURE = PureDP(epsilon=Fraction(1))
#: Noise on each answer, and no more.
_AS_THEY_ARE = {"agree": "no"}
_SAME_ROWS = {"rows_counted": "same"}
#: The bins of the columns of Adult as `adult_reduced` and `adult13` have them.
ADULT_REDUCED = (16, 7, 15, 5, 2, 2, 10)
ADULT13 = (32, 9, 16, 7, 15, 6, 5, 2, 32, 32, 32, 42, 2)
#: Running totals and tables that speak of the same column, and a count that is a sum of their cells.
_MIXED = (74, 2, 5, 5)
MIXED: list[dict[str, Any]] = [{"prefix": "c0"}, {"marginals": 2}, {"count": {"c1": ["v1"], "c2": ["v0", "v1"]}}]


@dataclass(frozen=True, kw_only=True)
class DesignsComparison:
    """One comparison.

    Attributes:
        title: for people.
        sizes: bins of the columns.
        queries: of the workload.
        name: of the mechanism with a design.
        beside: of the one that it is compared with, and `beside_options`, its options where they are not the default.
        budget: of both.
        share: of its half width, to be reached; None without a target.
        is_run: whether runs are counted that keep their bound.
    """

    title: str
    sizes: tuple[int, ...]
    queries: list[dict[str, Any]]
    name: str
    beside: str = "gaussian-queries"
    beside_options: Mapping[str, Any] = field(default_factory=lambda: _AS_THEY_ARE)
    budget: PrivacyBudget = _APPROXIMATE
    share: float | None = None
    is_run: bool = False


QUESTIONS = (
    DesignsComparison(
        title="21 pairs of 7 columns",
        sizes=ADULT_REDUCED,
        queries=[{"marginals": 2}],
        name="residual-queries",
        share=0.80,
        is_run=True,
    ),
    DesignsComparison(
        title="35 triples of 7 columns",
        sizes=ADULT_REDUCED,
        queries=[{"marginals": 3}],
        name="residual-queries",
        share=0.74,
    ),
    DesignsComparison(
        title="78 pairs of 13 columns", sizes=ADULT13, queries=[{"marginals": 2}], name="residual-queries", share=0.85
    ),
    DesignsComparison(
        title="cumulative counts over 1,000 bins",
        sizes=(1000,),
        queries=[{"prefix": "c0"}],
        name="gaussian-cumulative",
        share=0.11,
        is_run=True,
    ),
    DesignsComparison(
        title="the same, pure",
        sizes=(1000,),
        queries=[{"prefix": "c0"}],
        name="laplace-tree",
        beside="laplace-queries",
        budget=_PURE,
        share=0.05,
        is_run=True,
    ),
    DesignsComparison(
        title="21 pairs of 7 columns, made to agree",
        sizes=ADULT_REDUCED,
        queries=[{"marginals": 2}],
        name="gaussian-queries",
        share=0.95,
        is_run=True,
    ),
    DesignsComparison(
        title="35 triples of 7 columns, made to agree",
        sizes=ADULT_REDUCED,
        queries=[{"marginals": 3}],
        name="gaussian-queries",
        share=0.90,
    ),
    DesignsComparison(
        title="the same, pure",
        sizes=ADULT_REDUCED,
        queries=[{"marginals": 3}],
        name="laplace-queries",
        beside="laplace-queries",
        budget=_PURE,
        share=0.56,
        is_run=True,
    ),
    DesignsComparison(
        title="cumulative counts over 1,000 bins, pure, made to agree",
        sizes=(1000,),
        queries=[{"prefix": "c0"}],
        name="laplace-tree",
        beside="laplace-tree",
        budget=_PURE,
        share=0.80,
    ),
    DesignsComparison(
        title="cumulative counts of one of 4 columns, their 6 pairs and a count, pure, made to agree",
        sizes=_MIXED,
        queries=MIXED,
        name="laplace-tree",
        beside="laplace-tree",
        budget=_PURE,
        share=0.60,
        is_run=True,
    ),
    DesignsComparison(
        title="the same, approximate",
        sizes=_MIXED,
        queries=MIXED,
        name="gaussian-cumulative",
        beside="gaussian-cumulative",
        share=0.95,
        is_run=True,
    ),
    DesignsComparison(
        title="10 counts that one person can be in",
        sizes=(2,) * 10,
        queries=[{"count": {f"c{i}": ["v1"]}} for i in range(10)],
        name="correlated-queries",
        share=0.70,
        is_run=True,
    ),
)


#: Answers that agree, beside those that are left as they are: at most so much of the distance.
CLOSER = 0.87
SEEDS = range(5)
#: Columns of the health survey, and in how many years' bands its ages are.
_SURVEY, _BAND = ("age", "family", "region", "ethnicity", "education", "gender", "insurance"), 5
#: Columns of NIST's table of persons.
_PERSONS = ("SEX", "MSP", "HISP", "RAC1P", "NOC", "OWN_RENT", "EDU")


def tables(folder: Path, *, runs: int = RUNS) -> Iterator[BenchTable]:
    """
    Args:
        folder: of the tables of Adult and the health survey.
        runs: to count those that keep their bound.
    """
    yield by_design(runs)
    yield on_real_tables(folder)


def by_design(runs: int) -> BenchTable:
    return BenchTable(
        title="Answers by design",
        says=f"Half width of all answers at once, {1 - float(BETA):.0%}, epsilon 1, delta 1e-9 or none, a row "
        "added or removed, beside noise on each answer or the same noise not made to agree. Covered: of "
        f"{runs:,} runs those in which every answer was within its half width. Targets: the share of the half width "
        "that the design is known to reach, and no fewer covered than a true bound has with probability 1 - 10^-6.",
        heads=("question", "mechanism", "half width", "beside", "half width", "share", "target", "covered", "plan"),
        rows=[_row(each, runs) for each in QUESTIONS],
    )


def on_real_tables(folder: Path) -> BenchTable:
    title = "Answers that are made to agree"
    adult, survey, persons = Adult.read(folder), health_survey(folder), nist_persons(folder)
    if adult is None or survey is None or persons is None:
        return not_there(
            title, f"{folder.name}/ with adult_reduced.csv, health_insurance.csv and nist_national2019.csv"
        )
    named = (("Adult", adult), ("Health survey", survey), ("NIST", persons))
    return BenchTable(
        title=title,
        says="All 35 three-way marginals of 7 columns, epsilon 1, delta 1e-9 or none, a row added or removed; all "
        "tables count the same rows, and other options are at their defaults, beside noise on each answer, left as it "
        "is (`agree`: no). Distance: the mean over the marginals of half the sum of the absolute errors, over the "
        f"number of rows, of the answers before those below 0 are shown as 0; {len(SEEDS)} seeds. Half widths: of all "
        "answers at once, 95%, from the narrowest table to the widest. Target: at most "
        f"{CLOSER} of the distance, and a lower largest half width.",
        heads=("table", "rows", "mechanism", "distance", "beside", "share", "half widths", "beside", "seconds a run"),
        rows=[_on(*each, name) for each in named for name in ("gaussian-queries", "laplace-queries")],
    )


def health_survey(folder: Path) -> Adult | None:
    """Seven of its columns, or None where the folder does not hold it."""
    texts = _texts(folder / "health_insurance.csv", _SURVEY)
    if texts is None:
        return None
    texts["age"] = [f"{int(text) // _BAND:02}" for text in texts["age"]]
    return _of_texts(texts)


def nist_persons(folder: Path) -> Adult | None:
    """Seven columns of NIST's table, or None where the folder does not hold it."""
    texts = _texts(folder / "nist_national2019.csv", _PERSONS)
    return None if texts is None else _of_texts(texts)


def _texts(path: Path, names: tuple[str, ...]) -> dict[str, list[str]] | None:
    if not path.exists():
        return None
    with path.open(newline="") as file:
        lines = list(csv.DictReader(file))
    return {name: [line[name] for line in lines] for name in names}


def _of_texts(texts: Mapping[str, list[str]]) -> Adult:
    said = {name: sorted(set(column)) for name, column in texts.items()}
    columns = [
        {"name": name, "type": "categorical", "categories": each, "outside": each[0]} for name, each in said.items()
    ]
    schema = Schema.from_json({"version": 1, "columns": columns, "neighbours": "add_remove"})
    places = {name: {text: code for code, text in enumerate(schema.universe[name].categories)} for name in said}
    codes = np.array([[places[name][text] for text in texts[name]] for name in schema.universe.names])
    return Adult(schema=schema, counts=Histogram(universe=schema.universe, counts=cells_of(schema, codes)))


def _on(title: str, table: Adult, name: str) -> BenchRow:
    budget = _PURE if name == "laplace-queries" else _APPROXIMATE
    workload = Workload.from_json({"version": 1, "queries": [{"marginals": 3}]}, table.schema.universe)
    truth = workload.answer(table.counts.marginal)
    rows = int(table.counts.counts.sum())
    distances, widths, taken = [], [], 0.0
    for options in (_SAME_ROWS, _SAME_ROWS | _AS_THEY_ARE):
        plan = mechanism(name).plan(table.schema, workload, budget=budget, beta=BETA, options=options)
        assert isinstance(plan, AnswersPlan)
        assert plan.bound is not None
        widths.append(plan.bound.half_widths)
        start, errors = time.process_time(), []
        for seed in SEEDS:
            released = plan.released(plan.measured(table.counts, StreamRandomness(seed.to_bytes(4, "little"))))
            errors.append(sum(float(np.abs(one - other).sum()) for one, other in zip(released, truth, strict=True)))
        distances.append(float(np.mean(errors)) / 2 / len(truth) / rows)
        taken = taken or (time.process_time() - start) / len(SEEDS)
    share = distances[0] / distances[1]
    return BenchRow(
        cells=(
            title,
            f"{rows:,}",
            name,
            *(f"{distance:.4f}" for distance in distances),
            f"{share:.3f}",
            *(f"{min(each):.1f} to {max(each):.1f}" for each in widths),
            f"{taken:.2f}",
        ),
        is_met=share <= CLOSER and max(widths[0]) < max(widths[1]),
    )


def plan_of(question: DesignsComparison, name: str, options: Mapping[str, Any] | None = None) -> AnswersPlan:
    columns = [
        {"name": f"c{i}", "type": "categorical", "categories": [f"v{j}" for j in range(size)], "outside": "v0"}
        for i, size in enumerate(question.sizes)
    ]
    schema = Schema.from_json({"version": 1, "columns": columns, "neighbours": "add_remove"})
    workload = Workload.from_json({"version": 1, "queries": question.queries}, schema.universe)
    plan: Plan = mechanism(name).plan(schema, workload, budget=question.budget, beta=BETA, options=options)
    assert isinstance(plan, AnswersPlan)
    return plan


def _row(question: DesignsComparison, runs: int) -> BenchRow:
    start = time.process_time()
    plan = plan_of(question, question.name)
    taken = time.process_time() - start
    beside = plan_of(question, question.beside, question.beside_options)
    assert plan.bound is not None
    assert beside.bound is not None
    share = plan.bound.alpha / beside.bound.alpha
    kept = covered(plan, runs) if question.is_run else None
    is_met = (question.share is None or share <= question.share) and (kept is None or kept >= fewest_covered(runs))
    return BenchRow(
        cells=(
            question.title,
            question.name,
            f"{plan.bound.alpha:.1f}",
            question.beside,
            f"{beside.bound.alpha:.1f}",
            f"{share:.3f}",
            "" if question.share is None else f"{question.share:.2f}",
            "" if kept is None else f"{kept:,}",
            f"{taken:.2f} s",
        ),
        is_met=is_met,
    )


def fewest_covered(runs: int) -> int:
    """Fewer runs of a true bound are covered with probability below a millionth, by the binomial law."""
    return int(binom.ppf(1e-6, runs, float(1 - BETA)))


def covered(plan: AnswersPlan, runs: int) -> int:
    """In how many runs every answer is within its half width, on a table of 50,000 rows, most of them alike."""
    universe = plan.schema.universe
    # An invented table: the first cells hold most of 50,000 rows.
    falling = np.exp(-np.arange(50_000) / 5_000)
    places = np.floor(falling * min(universe.size, 1_000)).astype(np.int64) % universe.size
    counts = np.bincount(places, minlength=universe.size).reshape(universe.shape)
    table = Histogram(universe=universe, counts=counts)
    truth = plan.counts_asked.answer(table.marginal)
    assert plan.bound is not None
    rng, kept = OperatingSystemRandomness(), 0
    for _ in range(runs):
        pairs = zip(plan.released(plan.measured(table, rng)), truth, plan.bound.half_widths, strict=True)
        kept += all(np.abs(one - exact).max() <= width for one, exact, width in pairs)
    return kept
