"""A live session of ten thousand questions over a million cells."""

from __future__ import annotations

import time
from collections.abc import Iterator
from fractions import Fraction
from itertools import islice
from statistics import median

import numpy as np

from releases.benchmarks.adult import cells_of
from releases.benchmarks.tables import Row, Table, not_there, shown_seconds
from releases.engine.domain.privacy import ApproxDP
from releases.engine.domain.schema import Schema
from releases.engine.mechanisms.base import mechanism, mechanisms
from releases.engine.mechanisms.pmw.session import AnswerKind, Session, SessionOver
from releases.engine.noise.randomness import OperatingSystemRandomness, StreamRandomness, uniform_below
from releases.engine.tables.counts import Histogram
from releases.engine.workload.queries import Count, all_marginals

NAME = "pmw-online"
TITLE = "A live session"
#: Six columns of ten categories; people among whom each column follows the one before it.
COLUMNS, CATEGORIES, PEOPLE = 6, 10, 1_000_000
QUESTIONS = 10_000
#: Seconds for all of them, and the share that is to be answered without touching the data's budget.
MAX_SECONDS, MIN_FREE = 20.0, 0.5


def tables() -> Iterator[Table]:
    if NAME not in mechanisms():
        yield not_there(TITLE, NAME)
        return
    yield _asked()


def _asked() -> Table:
    from releases.engine.mechanisms.pmw.online import ExactCounts, OnlinePlan, queries_of

    schema = _schema()
    workload = all_marginals(schema.universe, 3)
    options = {"questions": QUESTIONS, "population": PEOPLE}
    plan = mechanism(NAME).plan(
        schema,
        workload,
        budget=ApproxDP(epsilon=Fraction(1), delta=Fraction(1, 10**9)),
        beta=Fraction(1, 20),
        options=options,
    )
    assert isinstance(plan, OnlinePlan), plan.infeasible
    held, rng = _people(schema), OperatingSystemRandomness()
    session, truth = plan.open(held, rng=rng), ExactCounts(held)
    queries = (query for family in workload.families for query in queries_of(family, workload))
    taken: list[float] = []
    for query in islice(queries, QUESTIONS):
        start = time.process_time()
        if not _is_answered(session, query, truth, rng):
            break
        taken.append(time.process_time() - start)
    free = sum(exchange.kind is AnswerKind.PUBLIC for exchange in session.exchanges)
    is_met = len(taken) == QUESTIONS and sum(taken) <= MAX_SECONDS and free >= MIN_FREE * QUESTIONS
    return Table(
        title=TITLE,
        says=f"Cells of three-way marginals over {schema.universe.size:,} cells, {PEOPLE:,} rows, epsilon 1, delta "
        f"10^-9. Targets: {QUESTIONS:,} questions in {MAX_SECONDS:g} seconds, most of them free.",
        heads=("mechanism", "answered", "free", "paid", "seconds", "median question", "slowest"),
        rows=[
            Row(
                cells=(
                    NAME,
                    f"{len(taken):,}",
                    f"{free:,}",
                    f"{len(session.exchanges) - free:,}",
                    f"{sum(taken):.1f}",
                    shown_seconds(median(taken)),
                    shown_seconds(max(taken)),
                ),
                is_met=is_met,
            )
        ],
    )


def _is_answered(session: Session, query: Count, truth: object, rng: OperatingSystemRandomness) -> bool:
    try:
        session.ask(query, truth, rng=rng)  # type: ignore[arg-type]
    except SessionOver:
        return False
    return True


def _schema() -> Schema:
    categories = [str(code) for code in range(CATEGORIES)]
    columns = [{"name": f"c{i}", "type": "categorical", "categories": categories} for i in range(COLUMNS)]
    return Schema.from_json({"version": 1, "columns": columns})


def _people(schema: Schema) -> Histogram:
    """Rows whose columns are unlike and depend on one another: each is the one before, or smaller."""
    rng = StreamRandomness(b"people of a session")
    codes = [uniform_below(CATEGORIES, PEOPLE, rng)]
    for _ in range(COLUMNS - 1):
        codes.append(np.minimum(codes[-1], uniform_below(2 * CATEGORIES, PEOPLE, rng) % CATEGORIES))
    return Histogram(universe=schema.universe, counts=cells_of(schema, np.stack(codes)))
