"""Tables that each count rows of their own: one unit moves all of them together no further than is declared."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from releases.engine.domain.counted import Counted
from releases.engine.domain.schema import Schema
from releases.engine.tables.query import TableCounts, counts_of
from releases.engine.workload.queries import Marginal, Workload
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

DAY, PAY, LAND = "Tag der \\ Aufnahme", "pay", "land"
NUMBER, USUAL, LAST, SPENT, WHICH = "rows of one", "usual", "last", "spent", "which"
COLUMNS = [
    {"name": AGE, "type": "integer", "edges": [0, 10, 50], "outside": "drop", "missing": ["-9", "no"]},
    {"name": WAGE, "type": "number", "edges": [0, 10.5, 80], "decimals": 1, "missing_as": "no number"},
    {"name": SEX, "type": "categorical", "categories": ["f", "m"], "missing": ["F"]},
    {"name": TOWN, "type": "categorical", "categories": ["v", "é", "other"], "outside": "other", "missing_as": "drop"},
    {"name": CODE, "type": "categorical", "categories": ["c7", "c3"], "outside": "c7"},
    {"name": DAY, "type": "date", "format": "YYYY-MM-DD", "first": "2020-01-01", "last": "2020-12-31", "by": "quarter"}
    | {"outside": "drop", "missing": ["2020-06-06"]},
    {"name": PAY, "type": "number", "edges": [0, 12, 60], "outside": "drop", "formula": f"[{AGE}] + 2 * [{WAGE}]"},
    # A level of the towns.
    {"name": LAND, "type": "categorical", "categories": ["n", "s"]}
    | {"formula": f'recode([{TOWN}], {{"v": "n", "é": "s"}})'},
]
#: Of one value a person.
COLUMNS_OF_PERSONS = [
    {"name": NUMBER, "type": "integer", "edges": [1, 2, 3, 15], "outside": "drop", "formula": "count_per_person()"},
    {"name": USUAL, "type": "categorical", "categories": ["f", "m"], "formula": f"most_frequent_per_person([{SEX}])"},
    {"name": LAST, "type": "categorical", "categories": ["c7", "c3"], "outside": "c7", "missing_as": "drop"}
    | {"formula": f"last_per_person([{CODE}], [{DAY}])"},
    {"name": SPENT, "type": "number", "edges": [0, 10, 30, 400], "missing_as": "no number"}
    | {"formula": f"sum_per_person([{WAGE}], 0, 15) / count_per_person([{WAGE}])"},
]
TEXTS = {
    AGE: ["5", "20", "-1", "", "no", "-9.0"],
    WAGE: ["5", "20", "x", None],
    SEX: ["f", "m", "F", ""],
    TOWN: ["v", "é", "zz", " "],
    CODE: ["c7", "c3", ""],
    DAY: ["2020-01-31", "2020-04-01", "2020-06-06", "2021-01-01", "2020-02-30", None],
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
#: Of dates, of what is made from other columns, and of levels: each pair of tables goes through all of them.
QUERIES_OF_MADE = [{"marginal": [DAY]}, {"marginal": [PAY, LAND]}, {"marginal": [LAND, TOWN]}]
QUERIES_OF_PERSONS = [{"marginal": [NUMBER, USUAL]}, {"marginal": [LAST]}, {"prefix": SPENT}]


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
    sets = [(WHICH if counts.universe.counted_by(each.attributes) is Counted.PERSONS else TABLE) for each in families]
    marginals = counts.marginals([(of, *each.attributes) for of, each in zip(sets, families, strict=True)])
    found = []
    for family, marginal in zip(families, marginals, strict=True):
        found.append(np.stack([family.answer(marginal[table]).ravel() for table in range(tables)]))
    return np.concatenate(found, axis=1)


#: For each time that questions are drawn, and each unit in turn, how many pairs of tables: a thousand in all.
TRIED = [
    pytest.param(each.values[0], pairs, id=each.id, marks=each.marks)
    for each, pairs in zip(EACH_ENGINE.args[1], ([100] * 10, *[[200, 400, 400]] * 3), strict=True)
]


@pytest.mark.parametrize(("load", "tried"), TRIED)
@pytest.mark.parametrize("relation", ["add_remove", "replace"])
def test_one_unit_moves_all_tables_together_no_further_than_is_declared(load, tried, relation, request):
    """A thousand pairs of tables, which a column of the database's table tells apart, and another one that tells apart
    the persons of each. Rows and persons are counted in one release; each kind moves as far as is declared for it."""
    drawn, moved, left_out = random.Random(relation), {Counted.ROWS: [], Counted.PERSONS: []}, 0
    for draw, pairs in enumerate(tried):
        of_table = {"type": "categorical", "categories": [f"t{each}" for each in range(pairs)]}
        unit, columns = UNITS[draw % 3], [{"name": TABLE, **of_table}, *COLUMNS]
        # The two disjoint counts by themselves, by turns.
        queries = QUERIES[-2:] if draw % 4 == 1 else drawn.sample(QUERIES, 4) + QUERIES_OF_MADE
        if unit["kind"] == "person":
            which = {"name": WHICH, **of_table, "formula": f"most_frequent_per_person([{TABLE}])"}
            columns += [which, *COLUMNS_OF_PERSONS]
            queries = queries + QUERIES_OF_PERSONS
        declared = {"version": 1, "unit": unit, "neighbours": relation, "rows_counted": "by own columns"}
        schema = Schema.from_json(declared | {"columns": columns})
        workload = Workload.from_json({"version": 1, "queries": queries}, schema.universe)
        schema = replace(schema, universe=workload.universe)
        found = [neighbours_of(drawn, relation, unit, f"t{each}") for each in range(pairs)]
        sides = [without_nul([row for pair in found for row in pair[side]]) for side in (0, 1)]
        tables = [counts_of(load(rows, request), schema) for rows in sides]
        one, other = (answers(each, workload.families, pairs) for each in tables)
        moves, of_kind = (
            np.abs(one - other),
            [schema.universe.counted_by(each.attributes) for each in workload.families],
        )
        assert_within(moves, workload.sensitivity(schema), queries)
        of_answer = np.repeat(of_kind, [each.cells(workload.universe) for each in workload.families])
        for kind in dict.fromkeys(of_kind):
            asked = tuple(each for each, counted in zip(workload.families, of_kind, strict=True) if counted is kind)
            own = replace(workload, families=asked).sensitivity(schema)
            moved[kind].append(assert_within(moves[:, of_answer == kind], own, queries) == own.l1)
        totals = [
            each.sum()
            for each, family, counted in zip(workload.split(one.T), workload.families, of_kind, strict=True)
            if isinstance(family, Marginal) and counted is Counted.ROWS
        ]
        left_out += int(max(totals, default=0) - min(totals, default=0))
    # Else nothing was tried.
    assert all(map(any, moved.values()))
    assert left_out > sum(tried)


def assert_within(moves, sensitivity, queries):
    """In both norms; how far the table that moves most does."""
    most = moves.sum(axis=1).max()
    assert most <= sensitivity.l1, queries
    assert (moves**2).sum(axis=1).max() <= sensitivity.l2_squared, queries
    return most


def test_a_row_counts_wherever_no_column_of_the_table_leaves_it_out(request):
    """Of one that `ordered` running totals have no number for, the other columns count too."""
    rows = [
        {TABLE: "t0", ID: "a", AGE: "5", WAGE: "x", SEX: "f", TOWN: "v", CODE: "c7"},
        {TABLE: "t0", ID: "a", AGE: "no", WAGE: "5", SEX: "?", TOWN: "v", CODE: "c3"},
    ]
    schema = Schema.from_json({"version": 1, "columns": COLUMNS[:5], "rows_counted": "by own columns"})
    workload = Workload.from_json({"version": 1, "queries": [{"prefix": WAGE}, {"marginal": [SEX]}]}, schema.universe)
    counts = TableCounts(in_duckdb(rows, request), replace(schema, universe=workload.universe))
    asked = [(WAGE,), (SEX,), (TOWN,), (SEX, TOWN), (AGE, SEX, TOWN), (WAGE, SEX)]
    assert [int(each.sum()) for each in counts.marginals(asked)] == [1, 1, 2, 1, 1, 0]
    assert [int(counts.marginal(each).sum()) for each in asked] == [1, 1, 2, 1, 1, 0]
    assert int(counts.tally((TOWN,)).counts.sum()) == 2
    assert int(counts.tally((TOWN, SEX)).counts.sum()) == 1
    together = TableCounts(counts.table, replace(counts.schema, universe=replace(workload.universe, own_rows=False)))
    assert [int(each.sum()) for each in together.marginals(asked)] == [0] * 6
