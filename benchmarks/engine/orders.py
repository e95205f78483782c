"""What fits of low order cannot see: rules in which only many columns together say anything.

The tests are those that Tab-PE is shown with (Microsoft, ICML 2026): a column that is the parity of others, where any
smaller set of them tells nothing, and a causal structure of mixed rules. The tables here are invented.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from benchmarks.tables import BenchRow, BenchTable
from releases.engine.domain.privacy import ApproxDP
from releases.engine.domain.schema import Schema
from releases.engine.mechanisms.base import mechanism
from releases.engine.noise.randomness import StreamRandomness, uniform_below
from releases.engine.run import run_release
from releases.engine.tables.counts import Rows
from releases.engine.workload.queries import WORKLOAD_VERSION, Workload

PEOPLE, COLUMNS, LEVELS = 20_000, 9, 3
EPSILON, DELTA = Fraction(1), Fraction(1, 10**9)
SEEDS = range(3)
#: Of a table of people, one row each, whose first columns are drawn evenly.
Columns = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class OrderRule:
    """How the last column follows from others.

    Attributes:
        title: in words.
        order: so many columns it is about, the last one too.
        of: the last column from the others, shape (people,).
    """

    title: str
    order: int
    of: Callable[[Columns], Columns]


def _sum_of(number: int) -> Callable[[Columns], Columns]:
    return lambda columns: np.asarray(columns[:number].sum(axis=0) % LEVELS)


RULES = (
    *(OrderRule(title=f"the sum of {n} columns, mod {LEVELS}", order=n + 1, of=_sum_of(n)) for n in (2, 3, 4)),
    OrderRule(
        title="the median of 5 columns", order=6, of=lambda columns: np.median(columns[:5], axis=0).astype(np.int64)
    ),
    OrderRule(
        title="one of 2 columns, by the sum of 2 others",
        order=5,
        of=lambda columns: np.where((columns[0] + columns[1]) % LEVELS == 0, columns[2], columns[3]),
    ),
)
#: Mechanism, and how many columns a question holds; none for as many as the rule.
_WAYS = (("mixture-fit", 3), ("marginal-fit", 3), ("marginal-fit", None))


def tables() -> Iterator[BenchTable]:
    schema = _schema()
    yield BenchTable(
        title="What fits of low order cannot see",
        says=f"{PEOPLE:,} invented rows of {COLUMNS} columns with {LEVELS} levels; the last column follows a rule. Of "
        "the synthetic rows, the share in which the rule holds: in the table it is 1, by guessing about "
        f"{1 / LEVELS:.2f}. Epsilon 1, delta 1e-9, {len(SEEDS)} seeds, all options at their defaults. Asked for all "
        "triples, both fits keep a rule of three columns and lose a sum of four or more: no three of its columns tell "
        "anything about it, so no method that measures two or three columns at a time can find it. It is kept where "
        "somebody knows it and asks for the marginal of just these columns.",
        heads=("the last column is", "columns", *(_head(name, order) for name, order in _WAYS)),
        rows=[_row(schema, rule) for rule in RULES],
    )


def _head(name: str, order: int | None) -> str:
    return f"{name}, {'all triples' if order else 'that marginal'}"


def _row(schema: Schema, rule: OrderRule) -> BenchRow:
    table = _people(schema, rule)
    kept = [fmean(_share_kept(table, schema, rule, name, order, seed) for seed in SEEDS) for name, order in _WAYS]
    return BenchRow(cells=(rule.title, str(rule.order), *(f"{each:.2f}" for each in kept)))


def _share_kept(table: Rows, schema: Schema, rule: OrderRule, name: str, order: int | None, seed: int) -> float:
    """Of the synthetic rows those in which the last column is what the rule says."""
    names = schema.universe.names
    query = {"marginals": order} if order else {"marginal": [*names[: rule.order - 1], names[-1]]}
    asked = Workload.from_json({"version": WORKLOAD_VERSION, "queries": [query, {"marginals": 1}]}, schema.universe)
    plan = mechanism(name).plan(
        schema, asked, budget=ApproxDP(epsilon=EPSILON, delta=DELTA), beta=Fraction(1, 20), options={}
    )
    made = run_release(plan, table, rng=StreamRandomness(f"orders {seed}".encode()))
    assert made.records is not None
    rows = np.stack([made.records.columns[each].astype(np.int64) for each in names])
    return float((rows[-1] == rule.of(rows[:-1])).mean())


def _schema() -> Schema:
    levels = [str(level) for level in range(LEVELS)]
    columns = [{"name": f"c{i}", "type": "categorical", "categories": levels} for i in range(COLUMNS)]
    return Schema.from_json({"version": 1, "neighbours": "add_remove", "columns": columns})


def _people(schema: Schema, rule: OrderRule) -> Rows:
    others = uniform_below(LEVELS, (COLUMNS - 1, PEOPLE), StreamRandomness(b"people of rules"))
    return Rows(
        universe=schema.universe, columns=dict(zip(schema.universe.names, [*others, rule.of(others)], strict=True))
    )
