"""What the tests of choices, quantiles and thresholds share: plans, small tables, and neighbours to tell apart."""

from fractions import Fraction
from itertools import combinations_with_replacement

import numpy as np

from releases.engine.domain.privacy import PureDP
from releases.engine.domain.schema import Schema
from releases.engine.mechanisms.base import mechanism
from releases.engine.tables.counts import Histogram
from releases.engine.verification.tables import counts_of
from releases.engine.workload.parsing import read_question

RELATIONS = ["add_remove", "replace"]
PERSON = {"kind": "person", "id": "who", "max_rows": 2}
#: A statistical test fails by chance with at most this probability, were its stream not fixed.
FALSE_ALARM = 1e-6


def unit_of(rows):
    """A row, or a person of so many rows."""
    return {"kind": "row"} if rows == 1 else {**PERSON, "max_rows": rows}


def schema_of(columns, neighbours="add_remove", unit=None, **more):
    given = {"version": 1, "columns": columns, "neighbours": neighbours, "unit": unit or {"kind": "row"}}
    return Schema.from_json(given | more)


def workload_of(queries, schema):
    return read_question({"version": 1, "queries": queries}, schema.universe)


def planned(
    name, columns, query, neighbours="add_remove", *, epsilon=1, budget=None, beta="1/20", unit=None, **options
):
    """A plan for one query or a list of them, with a pure budget if nothing else is said."""
    schema = columns if isinstance(columns, Schema) else schema_of(columns, neighbours, unit)
    queries = query if isinstance(query, list) else [query]
    question = workload_of(queries, schema)
    budget = budget or PureDP(epsilon=Fraction(epsilon))
    beta = Fraction(beta) if isinstance(beta, str) else beta
    return mechanism(name).plan(schema, question, budget=budget, beta=beta, options=options)


def integers(sizes):
    """Columns of so many bins."""
    return [{"name": f"c{i}", "type": "integer", "edges": list(range(size + 1))} for i, size in enumerate(sizes)]


def categories(sizes, **more):
    """Columns of so many categories."""
    return [
        {"name": f"c{i}", "type": "categorical", "categories": [f"v{j}" for j in range(size)], **more}
        for i, size in enumerate(sizes)
    ]


def some_counts(universe, most, seed=1):
    """A histogram of which no cell has as many as that."""
    return Histogram(universe=universe, counts=np.random.default_rng(seed).integers(0, most, universe.shape))


def table(plan, rows):
    """Rows, tuples of codes in the order of the columns, as a plan's table."""
    return counts_of(plan.schema.universe, rows)


def all_neighbours(cells, *, most_rows, neighbours):
    """All pairs of tables of at most so many rows that differ in one row, as tuples of cells; a row may be dropped."""
    cells = list(cells)
    for size in range(most_rows):
        for common in combinations_with_replacement(cells, size):
            for one in cells:
                yield (*common, one), common
                if neighbours == "replace":
                    for other in cells:
                        yield (*common, one), (*common, other)


def log_ratios(law, other):
    """ln of the ratio of two laws, outcome by outcome."""
    return np.log(np.array(law, dtype=float)) - np.log(np.array(other, dtype=float))
