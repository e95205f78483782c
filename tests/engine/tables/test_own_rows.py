"""Tables that each count rows of their own: one unit moves all of them together no further than is declared."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from releases.engine.domain.schema import Schema
from releases.engine.tables.query import TableCounts
from releases.engine.workload.queries import Workload
from tests.engine.tables.test_contract import (
    AGE,
    CODE,
    EACH_ENGINE,
    ID,
    SEX,
    TABLE,
    TOWN,
    WAGE,
    in_duckdb,
    without_nul,
)

COLUMNS = [
    {"name": AGE, "type": "integer", "edges": [0, 10, 50], "outside": "drop"},
    {"name": WAGE, "type": "number", "edges": [0, 10.5, 80], "decimals": 1, "missing_as": "no number"},
    {"name": SEX, "type": "categorical", "categories": ["f", "m"]},
    {"name": TOWN, "type": "categorical", "categories": ["v", "é", "other"], "outside": "other", "missing_as": "drop"},
    {"name": CODE, "type": "categorical", "categories": ["c7", "c3"], "outside": "c7"},
]
TEXTS = {
    AGE: ["5", "20", "-1", "", "no"],
    WAGE: ["5", "20", "x", None],
    SEX: ["f", "m", "F", ""],
    TOWN: ["v", "é", "zz", " "],
    CODE: ["c7", "c3", ""],
}
UNITS = [{"kind": "row"}, *({"kind": "person", "id": ID, "max_rows": most} for most in (1, 2))]
QUERIES = [
    {"marginal": [SEX]},
    {"marginal": [TOWN]},
    {"marginal": [CODE]},
    {"marginal": [SEX, CODE]},
    {"marginal": [AGE, TOWN]},
    {"prefix": AGE},
    {"prefix": WAGE},
    {"count": {SEX: ["f", "m"]}},
    # No row is in both of these two, and rows are left out of them by different rules.
    {"count": {SEX: ["f"]}},
    {"count": {SEX: ["m"], TOWN: ["v"]}},
]


def rows_of_one(drawn, table, person, number):
    return [
        {TABLE: table, ID: person, **{name: drawn.choice(texts) for name, texts in TEXTS.items()}}
        for _ in range(number)
    ]


def neighbours_of(drawn, relation, unit, table):
    """The rows of two tables that differ in one unit."""
    others = [row for each in range(3) for row in rows_of_one(drawn, table, f"{table} {each}", drawn.randrange(1, 5))]
    numbers = [1] if unit["kind"] == "row" else [1, 2, 3, 20]
    one = rows_of_one(drawn, table, f"{table} who", drawn.choice(numbers))
    fewer = numbers if unit["kind"] == "row" else [0, *numbers]
    other = [] if relation == "add_remove" else rows_of_one(drawn, table, f"{table} who", drawn.choice(fewer))
    pair = [[*others, *each] for each in (one, other)]
    return pair if drawn.random() < 0.5 else pair[::-1]


def answers(counts, families, tables):
    """All answers of every table, a line each."""
    found = []
    for family in families:
        marginal = counts.marginal((TABLE, *family.attributes))
        found.append(np.stack([family.answer(marginal[table]).ravel() for table in range(tables)]))
    return np.concatenate(found, axis=1)


#: How often questions are drawn, and pairs of tables for each.
TRIED = [
    pytest.param(each.values[0], draws, 100, id=each.id, marks=each.marks)
    for each, draws in zip(EACH_ENGINE.args[1], (10, 3, 3, 3), strict=True)
]


@pytest.mark.parametrize(("load", "draws", "pairs"), TRIED)
@pytest.mark.parametrize("relation", ["add_remove", "replace"])
def test_one_unit_moves_all_tables_together_no_further_than_is_declared(load, draws, pairs, relation, request):
    """A thousand pairs of tables, which a column of the database's table tells apart."""
    drawn, moved, left_out = random.Random(relation), [], 0
    of_table = {"name": TABLE, "type": "categorical", "categories": [f"t{each}" for each in range(pairs)]}
    for draw in range(draws):
        unit = UNITS[draw % 3]
        # The two disjoint counts by themselves, by turns.
        queries = QUERIES[-2:] if draw % 4 == 1 else drawn.sample(QUERIES, 4)
        declared = {"version": 1, "unit": unit, "neighbours": relation, "rows_counted": "by own columns"}
        schema = Schema.from_json(declared | {"columns": [of_table, *COLUMNS]})
        workload = Workload.from_json({"version": 1, "queries": queries}, schema.universe)
        schema = replace(schema, universe=workload.universe)
        sensitivity = workload.sensitivity(schema)
        found = [neighbours_of(drawn, relation, unit, f"t{each}") for each in range(pairs)]
        sides = [without_nul([row for pair in found for row in pair[side]]) for side in (0, 1)]
        tables = [TableCounts(load(rows, request), schema) for rows in sides]
        one, other = (answers(each, workload.families, pairs) for each in tables)
        moves = np.abs(one - other)
        assert moves.sum(axis=1).max() <= sensitivity.l1, queries
        assert (moves**2).sum(axis=1).max() <= sensitivity.l2_squared, queries
        moved.append(moves.sum(axis=1).max() == sensitivity.l1)
        kept = [tables[0].marginal((TABLE, *names)).sum() for names in ((), tuple(each["name"] for each in COLUMNS))]
        left_out += int(kept[0] - kept[1])
    # Else nothing was tried.
    assert any(moved)
    assert left_out > pairs * draws


def test_a_row_counts_wherever_no_column_of_the_table_leaves_it_out(request):
    """Of one that `ordered` running totals have no number for, the other columns count too."""
    rows = [
        {TABLE: "t0", ID: "a", AGE: "5", WAGE: "x", SEX: "f", TOWN: "v", CODE: "c7"},
        {TABLE: "t0", ID: "a", AGE: "no", WAGE: "5", SEX: "?", TOWN: "v", CODE: "c3"},
    ]
    schema = Schema.from_json({"version": 1, "columns": COLUMNS, "rows_counted": "by own columns"})
    workload = Workload.from_json({"version": 1, "queries": [{"prefix": WAGE}, {"marginal": [SEX]}]}, schema.universe)
    counts = TableCounts(in_duckdb(rows, request), replace(schema, universe=workload.universe))
    asked = [(WAGE,), (SEX,), (TOWN,), (SEX, TOWN), (AGE, SEX, TOWN), (WAGE, SEX)]
    assert [int(each.sum()) for each in counts.marginals(asked)] == [1, 1, 2, 1, 1, 0]
    assert [int(counts.marginal(each).sum()) for each in asked] == [1, 1, 2, 1, 1, 0]
    assert int(counts.tally((TOWN,)).counts.sum()) == 2
    assert int(counts.tally((TOWN, SEX)).counts.sum()) == 1
    together = TableCounts(counts.table, replace(counts.schema, universe=replace(workload.universe, own_rows=False)))
    assert [int(each.sum()) for each in together.marginals(asked)] == [0] * 6
