"""What the tests of small databases share: little workloads, and every small database of each, one by one.

Nothing here is taken from the code under test: which cells no query tells apart, how many candidates stand for the same
counts, and how far each is off, are found by asking the workload about one candidate after another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations_with_replacement, product

import numpy as np

from releases.engine.domain.schema import Schema
from releases.engine.domain.universe import Universe
from releases.engine.smalldb.candidates import Databases
from releases.engine.smalldb.strategies import CountingShape, DrawSetting, shape_of
from releases.engine.tables.counts import marginal
from releases.engine.workload.queries import Family, Workload


def columns_of(sizes):
    """Columns a, b, c, ... of so many bins: of categories, whose rows are all counted, or of numbers where many."""
    return [
        {"name": name, "type": "categorical", "categories": [str(bin) for bin in range(size)], "outside": "0"}
        if size <= 100
        else {"name": name, "type": "integer", "edges": list(range(size + 1))}
        for name, size in zip("abcdef", sizes, strict=False)
    ]


def asked(sizes, queries) -> Workload:
    """The queries over columns a, b, c, ... of so many bins each."""
    universe = Schema.from_json({"version": 1, "columns": columns_of(sizes)}).universe
    return Workload.from_json({"version": 1, "queries": list(queries)}, universe)


def predicate(**spans):
    """A count of the bins start ... stop - 1 of each column named."""
    return {"count": {name: [str(bin) for bin in range(*span)] for name, span in spans.items()}}


def span(name, start, stop):
    return predicate(**{name: (start, stop)})


A = {"prefix": "a"}


@dataclass(frozen=True)
class Case:
    """One little workload.

    Attributes:
        title: of the shape it has.
        sizes, queries: the workload.
        size: m.
        databases: which candidates it is tried with.
    """

    title: str
    sizes: tuple[int, ...]
    queries: tuple[dict, ...]
    size: int
    databases: tuple[Databases, ...] = (Databases.MULTISETS, Databases.SEQUENCES)

    @cached_property
    def workload(self) -> Workload:
        return asked(self.sizes, self.queries)


CHAIN, PARTITION, NESTED = (
    "prefixes of one attribute",
    "counts of separate sets of cells",
    "counts of sets of cells nested in each other",
)
WEIGHED, OPEN = "every small database weighed", "questions of which few are open at a time"
ONLY_SEQUENCES = (Databases.SEQUENCES,)
#: Where cells of one kind stand for several, multisets of cells and of kinds are unlike.
ALL = tuple(Databases)
CASES = {
    "prefixes": Case(CHAIN, (5,), (A,), 4),
    "prefixes, other columns": Case(CHAIN, (4, 2), (A,), 3, ALL),
    "one marginal": Case(PARTITION, (5,), ({"marginal": ["a"]},), 4),
    "one marginal, other columns": Case(PARTITION, (3, 2), ({"marginal": ["a"]},), 3, ALL),
    "predicates with a rest": Case(PARTITION, (6,), (span("a", 0, 1), span("a", 2, 4)), 3, ALL),
    "a marginal and a coarser one": Case(NESTED, (2, 3), ({"marginal": ["a"]}, {"marginal": ["a", "b"]}), 3),
    "ranges in ranges": Case(NESTED, (6,), (span("a", 0, 4), span("a", 1, 3), span("a", 4, 5)), 3),
    "two columns apart": Case(
        "2 independent groups of attributes", (3, 2), (A, {"marginal": ["b"]}), 3, ONLY_SEQUENCES
    ),
    "ranges that cross": Case(OPEN, (6,), (A, span("a", 1, 3), span("a", 2, 5)), 3, ALL),
    "a sliding window": Case(OPEN, (5,), tuple(span("a", i, i + 2) for i in range(4)), 4),
    "predicates that cross": Case(
        WEIGHED,
        (3, 2, 2),
        (span("a", 1, 3), span("b", 0, 1), predicate(a=(0, 2), b=(1, 2))),
        2,
        ALL,
    ),
    "all pairs of three": Case(WEIGHED, (2, 2, 2), ({"marginals": 2},), 2),
}
CASES_AND_DATABASES = [(name, databases) for name, case in CASES.items() for databases in case.databases]


def shape_for(case: Case, databases: Databases) -> CountingShape:
    shape = shape_of(case.workload, databases)
    assert isinstance(shape, CountingShape), shape
    return shape


def matrix(families: Sequence[Family], universe: Universe) -> np.ndarray:
    """All queries but those about all cells (rows), and which cells each counts: asked of one cell after another."""
    columns = []
    for cell in range(universe.size):
        table = np.zeros(universe.size, dtype=np.int64)
        table[cell] = 1
        table = table.reshape(universe.shape)
        answers = [family.answer(marginal(table, universe.axes(family.attributes))) for family in families]
        columns.append(np.concatenate(answers))
    rows = np.stack(columns, axis=1)
    return rows[(rows == 0).any(axis=1)]


class Everything:
    """All small databases of a workload, seen through the counts of the kinds of cells.

    Args:
        workload: what is asked.
        parts: the names of the attributes that candidates are looked at together.
        databases, size: which candidates, of how many rows.

    Attributes:
        outcomes: for each vector of counts, a tuple for each part with each kind's count at its first cell.
        weights: how many candidates each stands for.
    """

    def __init__(self, workload, parts, *, databases, size) -> None:
        self.size, self.databases = size, databases
        self.universes = [workload.universe.project(names) for names in parts]
        self.queries = [
            matrix([family for family in workload.families if set(family.attributes) <= set(universe.names)], universe)
            for universe in self.universes
        ]
        self.first = [_first_cells(rows) for rows in self.queries]
        cells = _cells_of_parts(workload.universe, self.universes)
        kinds = [
            tuple(int(first[cell]) for first, cell in zip(self.first, where, strict=True))
            for where in zip(*cells, strict=True)
        ]
        if databases is Databases.SEQUENCES:
            candidates = product(kinds, repeat=size)
        else:
            things = sorted(set(kinds)) if databases is Databases.KINDS else kinds
            candidates = combinations_with_replacement(things, size)
        found = Counter(self._counts(candidate) for candidate in candidates)
        self.outcomes = list(found)
        self.weights = list(found.values())

    @classmethod
    def of(cls, case: Case, databases: Databases, *, size: int | None = None) -> Everything:
        parts = [part.universe.names for part in shape_for(case, databases).parts]
        return cls(case.workload, parts, databases=databases, size=size or case.size)

    def _counts(self, candidate) -> tuple[tuple[int, ...], ...]:
        counts = [[0] * universe.size for universe in self.universes]
        for row in candidate:
            for part, cell in zip(counts, row, strict=True):
                part[cell] += 1
        return tuple(map(tuple, counts))

    def errors(self, tables, *, rows) -> list[int]:
        """L of each outcome, for tables of counts of each part."""
        goals = [
            [self.size * int(goal) for goal in each @ table] for each, table in zip(self.queries, tables, strict=True)
        ]
        return [
            max(
                (
                    abs(rows * int(answer) - goal)
                    for each, part, goal_of_part in zip(self.queries, outcome, goals, strict=True)
                    for answer, goal in zip(each @ np.array(part), goal_of_part, strict=True)
                ),
                default=0,
            )
            for outcome in self.outcomes
        ]

    def law(self, tables, *, rows, rate) -> np.ndarray:
        """The probability of each outcome: proportional to weight * e^(-rate L)."""
        errors = self.errors(tables, rows=rows)
        least = min(errors)
        masses = np.array(self.weights, dtype=float) * np.exp([-float(rate * (error - least)) for error in errors])
        return masses / masses.sum()

    def within(self, tables, *, rows) -> list[tuple[int, int]]:
        """(level, F(level)) at every level where F rises."""
        errors = self.errors(tables, rows=rows)
        return [
            (level, sum(weight for weight, error in zip(self.weights, errors, strict=True) if error <= level))
            for level in sorted(set(errors))
        ]


def _first_cells(queries: np.ndarray) -> np.ndarray:
    """For each cell the first that the same queries count."""
    signatures = [tuple(column) for column in queries.T.tolist()]
    return np.array([signatures.index(each) for each in signatures])


def _cells_of_parts(universe: Universe, parts: list[Universe]) -> list[list[int]]:
    """For each part, the cell of it in which each cell of the universe lies."""
    indices = np.indices(universe.shape).reshape(len(universe.shape), -1)
    return [
        np.ravel_multi_index(tuple(indices[list(universe.axes(part.names))]), part.shape).tolist() for part in parts
    ]


def outcome(shape: CountingShape, drawn) -> tuple[tuple[int, ...], ...]:
    """What was drawn, as in `Everything.outcomes`."""
    return tuple(tuple(part.gathered(each).reshape(-1).tolist()) for part, each in zip(shape.parts, drawn, strict=True))


def tables_of(workload: Workload, shape: CountingShape, cells) -> list[np.ndarray]:
    """The tables of the shape's parts, of counts for all cells of the universe."""
    whole = np.asarray(cells, dtype=np.int64).reshape(workload.universe.shape)
    return [marginal(whole, workload.universe.axes(part.universe.names)) for part in shape.parts]


def kinds_of(shape: CountingShape, tables) -> list[np.ndarray]:
    return [part.of_kinds(table) for part, table in zip(shape.parts, tables, strict=True)]


def flat(tables) -> list[np.ndarray]:
    return [table.reshape(-1) for table in tables]


def setting(size, *, rows, epsilon=Fraction(1), unit=1, off=0) -> DrawSetting:
    return DrawSetting(size=size, rows=rows, epsilon=epsilon, unit=unit, off=off)
