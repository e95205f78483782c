"""What answers gain by a design over noise on each, and how often their bounds hold."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from releases.benchmarks.tables import Row, Table
from releases.engine.domain.privacy import ApproxDP, PrivacyBudget, PureDP
from releases.engine.domain.universe import Schema
from releases.engine.mechanisms.base import Plan, mechanism
from releases.engine.mechanisms.queries import AnswersPlan
from releases.engine.noise.randomness import OperatingSystemRandomness
from releases.engine.tables.counts import Histogram
from releases.engine.workload.queries import Workload

RUNS = 1_000
BETA = Fraction(1, 20)
_APPROXIMATE = ApproxDP(epsilon=Fraction(1), delta=Fraction(1, 10**9))
_PURE = PureDP(epsilon=Fraction(1))
#: The bins of the columns of Adult as `adult_reduced` and `adult13` have them.
ADULT_REDUCED = (16, 7, 15, 5, 2, 2, 10)
ADULT13 = (32, 9, 16, 7, 15, 6, 5, 2, 32, 32, 32, 42, 2)


@dataclass(frozen=True, kw_only=True)
class Question:
    """One comparison.

    Attributes:
        title: for people.
        sizes: bins of the columns.
        queries: of the workload.
        name: of the mechanism with a design.
        beside: of the one that it is compared with.
        budget: of both.
        share: of its half width, to be reached; None without a target.
        is_run: whether runs are counted that keep their bound.
    """

    title: str
    sizes: tuple[int, ...]
    queries: list[dict[str, Any]]
    name: str
    beside: str = "gaussian-queries"
    budget: PrivacyBudget = _APPROXIMATE
    share: float | None = None
    is_run: bool = False


QUESTIONS = (
    Question(
        title="21 pairs of 7 columns",
        sizes=ADULT_REDUCED,
        queries=[{"marginals": 2}],
        name="residual-queries",
        share=0.80,
        is_run=True,
    ),
    Question(
        title="35 triples of 7 columns",
        sizes=ADULT_REDUCED,
        queries=[{"marginals": 3}],
        name="residual-queries",
        share=0.74,
    ),
    Question(
        title="78 pairs of 13 columns", sizes=ADULT13, queries=[{"marginals": 2}], name="residual-queries", share=0.85
    ),
    Question(
        title="cumulative counts over 1,000 bins",
        sizes=(1000,),
        queries=[{"prefix": "c0"}],
        name="gaussian-cumulative",
        share=0.11,
        is_run=True,
    ),
    Question(
        title="the same, pure",
        sizes=(1000,),
        queries=[{"prefix": "c0"}],
        name="laplace-tree",
        beside="laplace-queries",
        budget=_PURE,
        share=0.05,
        is_run=True,
    ),
    Question(
        title="10 counts that one person can be in",
        sizes=(2,) * 10,
        queries=[{"count": {f"c{i}": ["v1"]}} for i in range(10)],
        name="correlated-queries",
        share=0.70,
        is_run=True,
    ),
)


def tables(*, runs: int = RUNS) -> Iterator[Table]:
    yield Table(
        title="Answers by design",
        says=f"Half width of all answers at once, {1 - float(BETA):.0%}, epsilon 1, delta 1e-9 or none, a row "
        f"added or removed, beside noise on each answer. Covered: of {runs:,} runs those in which every answer was "
        "within its half width. Targets: the share of the half width that the design is known to reach, and no fewer "
        "covered than five standard deviations below the confidence.",
        heads=("question", "mechanism", "half width", "beside", "half width", "share", "target", "covered", "plan"),
        rows=[_row(each, runs) for each in QUESTIONS],
    )


def plan_of(question: Question, name: str) -> AnswersPlan:
    columns = [
        {"name": f"c{i}", "type": "categorical", "categories": [f"v{j}" for j in range(size)], "outside": "v0"}
        for i, size in enumerate(question.sizes)
    ]
    schema = Schema.from_json({"version": 1, "columns": columns, "neighbours": "add_remove"})
    workload = Workload.from_json({"version": 1, "queries": question.queries}, schema.universe)
    plan: Plan = mechanism(name).plan(schema, workload, budget=question.budget, beta=BETA)
    assert isinstance(plan, AnswersPlan)
    return plan


def _row(question: Question, runs: int) -> Row:
    start = time.process_time()
    plan = plan_of(question, question.name)
    taken = time.process_time() - start
    beside = plan_of(question, question.beside)
    assert plan.bound is not None
    assert beside.bound is not None
    share = plan.bound.alpha / beside.bound.alpha
    kept = covered(plan, runs) if question.is_run else None
    is_met = (question.share is None or share <= question.share) and (kept is None or kept >= fewest_covered(runs))
    return Row(
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


def fewest_covered(runs: int) -> float:
    """So few runs of a true bound are covered with probability below a millionth."""
    return float(runs * (1 - BETA) - 5 * np.sqrt(float(runs * BETA * (1 - BETA))))


def covered(plan: AnswersPlan, runs: int) -> int:
    """In how many runs every answer is within its half width, on a table of 50,000 rows, most of them alike."""
    universe = plan.schema.universe
    places = np.random.default_rng(1).geometric(min(0.5, 50 / universe.size), 50_000) % universe.size
    counts = np.bincount(places, minlength=universe.size).reshape(universe.shape)
    table = Histogram(universe=universe, counts=counts)
    truth = plan.counts_asked.answer(table.marginal)
    assert plan.bound is not None
    rng, kept = OperatingSystemRandomness(), 0
    for _ in range(runs):
        pairs = zip(plan.noisy_answers(table, rng), truth, plan.bound.half_widths, strict=True)
        kept += all(np.abs(one - exact).max() <= width for one, exact, width in pairs)
    return kept
