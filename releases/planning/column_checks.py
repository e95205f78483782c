"""A check of the columns, planned from a guessed number of rows: the least epsilon with which a column that is misread
throughout is certain to be found. Public inputs only.

A check counts how values read: at most four counts a column, each within a of the truth, all at once. Where all of n
rows are left out by a column's rule, it is then certain that at least n - 2a are, and that at most 6a count. With a at
most a ninth of the rows the first is more than the second.
"""

from __future__ import annotations

from fractions import Fraction

from releases.engine.domain.privacy import privacy_budget
from releases.engine.domain.schema import Schema
from releases.engine.errors import InvalidInput
from releases.engine.mechanisms.base import Plan, mechanism
from releases.engine.workload.parsing import read_question
from releases.engine.workload.queries import WORKLOAD_VERSION
from releases.engine.workload.questions import of_columns_asked
from releases.models import Budget
from releases.planning.comparison import at_epsilon, compared, first_delta, least_epsilon

#: Every count is within this part of the rows.
PART_OF_ROWS = 9
#: Less would save nothing that anybody misses, and leave the shares of a large table vague.
LEAST_EPSILON = Fraction(1, 100)
#: More is no small release.
LARGEST_EPSILON = 10
_BETA = Fraction(1, 20)
_QUESTIONS = {"version": WORKLOAD_VERSION, "states": True, "queries": [{"marginals": 1}]}


def planned_check(schema: Schema, budget: Budget, *, rows: int) -> Plan:
    """The check of all declared columns that takes least of the budget. Where some count rows and others persons, it
    is of the former, which the latter are made from.

    Raises:
        InvalidInput: there are too few rows for one that costs little.
    """
    deltas = {"laplace-queries": "0"}
    if (delta := first_delta(budget)) != "0":
        deltas["gaussian-queries"] = delta
    schema = schema.project(schema.universe.populations[0].names)
    about, question = of_columns_asked(schema, read_question(_QUESTIONS, schema.universe))
    found = []
    for name, delta in deltas.items():
        first = mechanism(name).plan(about, question, budget=privacy_budget(epsilon="1", delta=delta), beta=_BETA)
        epsilon = least_epsilon(first, error=rows / PART_OF_ROWS)
        plan = None if epsilon is None or epsilon > LARGEST_EPSILON else at_epsilon(first, max(epsilon, LEAST_EPSILON))
        if plan is not None:
            found.append(plan)
    if not found:
        columns = "one column" if len(schema.universe.names) == 1 else f"{len(schema.universe.names):,} columns"
        raise InvalidInput(
            "rows", rows, f"is too few: a check of {columns} would cost more than epsilon {LARGEST_EPSILON}"
        )
    # Of those that fit, the one that leaves most; where there is no budget yet, the one without a delta.
    rows_of = compared(found, budget)
    return max(rows_of, key=lambda row: -1.0 if row.leaves is None else row.leaves.percent).plan
