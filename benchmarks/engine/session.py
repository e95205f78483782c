"""Live sessions: each way to answer over seven columns of Adult, and ten thousand questions over a million cells."""

from __future__ import annotations

import time
from collections.abc import Iterator
from fractions import Fraction
from itertools import chain, islice
from pathlib import Path
from statistics import mean, median

import numpy as np

from benchmarks.engine.adult import NAME as ADULT
from benchmarks.engine.adult import Adult, cells_of
from benchmarks.tables import BenchRow, BenchTable, not_there, shown_seconds
from releases.engine.domain.privacy import ApproxDP, PureDP
from releases.engine.domain.schema import Schema
from releases.engine.domain.universe import Universe
from releases.engine.mechanisms.base import mechanism, mechanisms
from releases.engine.mechanisms.live.ways import BEGUN, WAYS, plan_of_way
from releases.engine.mechanisms.pmw.online import ExactCounts, OnlinePlan, queries_of
from releases.engine.mechanisms.pmw.session import AnswerKind, SessionOver, SessionUnderWay
from releases.engine.noise.randomness import OperatingSystemRandomness, StreamRandomness, uniform_below
from releases.engine.tables.counts import Histogram
from releases.engine.workload.queries import Count, Workload, all_marginals

NAME = "pmw-online"
TITLE = "A live session"
WAYS_TITLE = "Live sessions by how they answer"
#: Six columns of ten categories; people among whom each column follows the one before it.
COLUMNS, CATEGORIES, PEOPLE = 6, 10, 1_000_000
QUESTIONS = 10_000
#: Seconds for all of them, and the share that is to be answered without touching the data's budget.
MAX_SECONDS, MIN_FREE = 20.0, 0.5


#: What is asked of Adult: so many counts, as many as a session is planned for where nobody says how many, each of one
#: to three columns; and what a session may begin with.
COUNTS, MOST_COLUMNS, LISTED_COLUMNS = 1_000, 3, 2


def tables(folder: Path) -> Iterator[BenchTable]:
    adult = Adult.read(folder)
    yield not_there(WAYS_TITLE, f"{folder.name}/{ADULT}.csv") if adult is None else _ways(adult)
    if NAME not in mechanisms():
        yield not_there(TITLE, NAME)
        return
    yield _asked()


def _ways(adult: Adult) -> BenchTable:
    """Each way that a session can take, and the one that is taken where none is chosen."""
    universe = adult.schema.universe
    families = chain.from_iterable(all_marginals(universe, number).families for number in range(1, LISTED_COLUMNS + 1))
    tables_of_two = Workload(universe=universe, families=tuple(families))
    rows = []
    for delta in (Fraction(0), Fraction(1, 10**9)):
        begun = ((name, tables_of_two) for name in ("", *BEGUN))
        for name, listed in (("", None), *((way, None) for way in WAYS), *begun):
            budget = ApproxDP(epsilon=Fraction(1), delta=delta) if delta else PureDP(epsilon=Fraction(1))
            rows.append(_row(adult, name, listed, budget))
    return BenchTable(
        title=WAYS_TITLE,
        says=f"{COUNTS:,} counts of one to {MOST_COLUMNS} columns of seven of Adult, in each column one bin, or "
        f"neighbouring ones; 48,842 rows, {universe.size:,} cells, epsilon 1, one row added or removed, "
        f"bound at 95%, planned for {COUNTS:,} questions and 10,000 rows as the page proposes. A list is the tables of "
        f"every column and of every two, for half of epsilon, as a fit to it is. Stated is what all answers are "
        f"within, and the mean of what each says; then their largest error, and its mean. Seconds are of the "
        f"processor, for opening and all answers; counting is not in them.",
        heads=(
            "way",
            "delta",
            "answered",
            "free",
            "stated",
            "stated, mean",
            "largest error",
            "mean error, 1-2 columns",
            "mean error, 3 columns",
            "seconds",
        ),
        rows=rows,
    )


def _row(adult: Adult, name: str, listed: Workload | None, budget: PureDP | ApproxDP) -> BenchRow:
    options = {"questions": COUNTS, "population": 10_000}
    plan = plan_of_way(name, adult.schema, budget=budget, beta=Fraction(1, 20), options=options, listed=listed)
    assert isinstance(plan, OnlinePlan), plan.infeasible
    rng, truth = OperatingSystemRandomness(), ExactCounts(adult.counts)
    asked = _counts(adult.schema.universe)
    # Counted first, so that no time of it is measured.
    exact = {query: truth(query) for query in asked}
    start = time.process_time()
    session = plan.open(adult.counts, rng=rng)
    answers = []
    for query in asked:
        try:
            answers.append(session.ask(query, lambda each: exact[each], rng=rng))
        except SessionOver:
            break
    taken = time.process_time() - start
    errors = {each: abs(each.estimate - exact[each.query]) for each in answers}
    few = [error for each, error in errors.items() if len(each.query.attributes) <= LISTED_COLUMNS]
    more = [error for each, error in errors.items() if len(each.query.attributes) > LISTED_COLUMNS]
    way = plan.mechanism if name else f"{plan.mechanism}, by default{'' if listed is None else ' with a list'}"
    return BenchRow(
        cells=(
            way,
            "0" if isinstance(budget, PureDP) else f"{float(budget.delta):g}",
            f"{len(answers):,}",
            f"{sum(not each.kind.is_paid for each in answers):,}",
            f"{plan.rules.half_width:,.0f}",
            f"{mean(each.half_width for each in answers):,.0f}",
            f"{max(errors.values()):,}",
            f"{mean(few):,.1f}",
            f"{mean(more):,.1f}",
            f"{taken:.1f}",
        )
    )


def _counts(universe: Universe) -> list[Count]:
    """Counts of some columns, each of one bin or of neighbours; the same ones in each run."""
    rng = StreamRandomness(b"counts of a session")

    def below(most: int) -> int:
        return int(uniform_below(most, 1, rng)[0])

    found: dict[Count, None] = {}
    while len(found) < COUNTS:
        names = list(universe.names)
        chosen = sorted((names.pop(below(len(names))) for _ in range(1 + below(MOST_COLUMNS))), key=universe.axis)
        bins = []
        for name in chosen:
            size = universe[name].size
            first = below(size)
            last = first if below(2) else first + below(size - first)
            bins.append(tuple(range(first, last + 1)))
        query = Count(attributes=tuple(chosen), bins=tuple(bins)).simplified(universe)
        if len(query.bins[0]) < universe[query.attributes[0]].size:
            found[query] = None
    return list(found)


def _asked() -> BenchTable:
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
    return BenchTable(
        title=TITLE,
        says=f"Cells of three-way marginals over {schema.universe.size:,} cells, {PEOPLE:,} rows, epsilon 1, delta "
        f"10^-9. Targets: {QUESTIONS:,} questions in {MAX_SECONDS:g} seconds, most of them free.",
        heads=("mechanism", "answered", "free", "paid", "seconds", "median question", "slowest"),
        rows=[
            BenchRow(
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


def _is_answered(session: SessionUnderWay, query: Count, truth: object, rng: OperatingSystemRandomness) -> bool:
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
