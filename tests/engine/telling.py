"""What the tests of choices, quantiles and thresholds share: plans, small tables, and neighbours to tell apart."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from functools import cache
from itertools import combinations_with_replacement
from math import log

import numpy as np
from hypothesis import strategies as st
from scipy.stats import beta as beta_law

from releases.engine.histogram import Rows
from releases.engine.mechanisms.base import mechanism
from releases.engine.privacy import PureDP
from releases.engine.randomness import StreamRandomness
from releases.engine.universe import Schema
from releases.engine.workload import read_question

RELATIONS = ["add_remove", "replace"]
PERSON = {"kind": "person", "id": "who", "max_rows": 2}
#: A statistical test fails by chance with at most this probability, were its stream not fixed.
FALSE_ALARM = 1e-6


def planned(
    name, columns, query, neighbours="add_remove", *, epsilon=1, budget=None, beta="1/20", unit=None, **options
):
    schema = Schema.from_json(
        {"version": 1, "columns": columns, "neighbours": neighbours, "unit": unit or {"kind": "row"}}
    )
    question = read_question({"version": 1, "queries": [query]}, schema.universe)
    budget = budget or PureDP(epsilon=Fraction(epsilon))
    return mechanism(name).plan(schema, question, budget=budget, beta=Fraction(beta), options=options)


class Remembered:
    """Counts that are taken once, for thousands of runs on one table."""

    def __init__(self, rows):
        self.universe = rows.universe
        self.marginal, self.tally = cache(rows.marginal), cache(rows.tally)


def table(plan, rows):
    """Rows, tuples of codes in the order of the columns, as a plan's table."""
    names = plan.schema.universe.names
    stacked = np.array(list(rows), dtype=np.int64).reshape(len(rows), len(names))
    return Remembered(Rows(universe=plan.schema.universe, columns=dict(zip(names, stacked.T.copy(), strict=True))))


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


@st.composite
def neighbouring_rows(draw, row, *, neighbours, unit_rows=1):
    """Two tables that differ in one unit of at most so many rows; a row that a rule drops is not there at all."""
    common = draw(st.lists(row, max_size=8))
    one = draw(st.lists(row, min_size=1, max_size=unit_rows))
    other = [] if neighbours == "add_remove" else draw(st.lists(row, max_size=unit_rows))
    pair = [common + one, common + other]
    return pair if draw(st.booleans()) else pair[::-1]


def epsilon_proved(plan, one, other, *, runs, seed):
    """A lower bound of epsilon from so many runs on each of two tables, wrong with probability at most 1e-6.

    On half of the runs the event that promises most is picked, among sets of outcomes that one table makes likeliest
    against the other; on the other half its probabilities are bounded (Clopper and Pearson 1934).
    """
    rng = StreamRandomness(seed.encode())
    outcomes = []
    for rows in (one, other):
        counts = table(plan, rows)
        outcomes.append([_outcome(plan.run(counts, rng=rng)) for _ in range(runs)])
    half = runs // 2
    promised, event, first, second = 0.0, frozenset(), *outcomes
    for ones, others in (outcomes, outcomes[::-1]):
        for candidate, hits in _events(ones[:half], others[:half]):
            if (bound := _ratio(*hits, half)) > promised:
                promised, event, first, second = bound, candidate, ones, others
    hits = [sum(outcome in event for outcome in each[half:]) for each in (first, second)]
    return _ratio(*hits, runs - half)


def _outcome(result):
    return result.chosen or tuple(float(value) for each in result.estimates for value in each)


def _events(first, second):
    """Sets of outcomes by falling ratio, and how often each came under both."""
    ones, others = Counter(first), Counter(second)
    ranked = sorted(set(ones) | set(others), key=lambda each: (-(ones[each] + 1) / (others[each] + 1), each))
    event, hits, more = set(), 0, 0
    for outcome in ranked[:60]:
        event.add(outcome)
        hits, more = hits + ones[outcome], more + others[outcome]
        yield frozenset(event), (hits, more)


def _ratio(high, low, runs):
    """A lower bound of the log ratio of the probabilities of something that came so often in so many runs each."""
    least = beta_law.ppf(FALSE_ALARM / 2, high, runs - high + 1) if high else 0.0
    most = beta_law.isf(FALSE_ALARM / 2, low + 1, runs - low) if low < runs else 1.0
    return log(least / most) if least > 0 else 0.0


def log_ratios(law, other):
    """ln of the ratio of two laws, outcome by outcome."""
    return np.log(np.array(law, dtype=float)) - np.log(np.array(other, dtype=float))
