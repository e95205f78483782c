"""Counting tables: several marginals at once, what is refused, and missing codes. `test_contract` has the counts."""

from __future__ import annotations

import csv
import io
import os
import uuid
from collections import Counter
from itertools import permutations, product

import duckdb
import numpy as np
import pytest

from releases.engine.domain.schema import Schema
from releases.engine.errors import InvalidInput
from releases.engine.tables.codes import CodedRows
from releases.engine.tables.counts import Histogram, Rows
from releases.engine.tables.query import TableCounts, open_table

ROWS = """id,age,wage,sex,town
p1,18,0,f,a
p1,24,10.49,f,a
p1,25,10.5,m,b
p2,65, 80 ,m,c
p2,66,80.01,f,zz
p3,17,-1,m,
p3,abc,5,f,a
p4,,5,f,a
p5,31.0,5,x,a
p5,31.5,5,f,a
,40,5,f,b
p6,4e1,1e1,m,b
p7,nan,inf,f,a
p8,40,1e400,f,a
p9, 40 ,5, f ,b
p9,+40,.5,m,c
"""
COLUMNS = [
    {"name": "age", "type": "integer", "edges": [18, 25, 35, 65]},
    {"name": "wage", "type": "number", "edges": [0, 10.5, 20, 80], "outside": "drop"},
    {"name": "sex", "type": "categorical", "categories": ["f", "m"]},
    {"name": "town", "type": "categorical", "categories": ["a", "b", "other"], "outside": "other"},
]


def schema(unit=None, columns=COLUMNS):
    return Schema.from_json({"version": 1, "columns": columns, "unit": unit or {"kind": "row"}})


def load_duckdb(text, tmp_path, request):
    path = tmp_path / f"{uuid.uuid4().hex}.csv"
    path.write_text(text)
    target = path.with_suffix(".parquet")
    duckdb.sql(f"COPY (SELECT * FROM read_csv('{path}', all_varchar = true)) TO '{target}'")
    return open_table(str(target))


def load_postgres(text, tmp_path, request):
    import psycopg

    url = request.getfixturevalue("postgres_database")
    name = f"survey_{uuid.uuid4().hex}"
    rows = list(csv.reader(io.StringIO(text)))
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE TABLE {name} ({', '.join(f'{column} text' for column in rows[0])})")
        with connection.cursor() as cursor:
            cursor.executemany(
                f"INSERT INTO {name} VALUES ({', '.join(['%s'] * len(rows[0]))})",
                [[value or None for value in row] for row in rows[1:]],
            )
    return open_table(f"{url}#{name}")


@pytest.fixture(
    params=[load_duckdb, pytest.param(load_postgres, marks=pytest.mark.postgres)], ids=["duckdb", "postgres"]
)
def load(request, tmp_path):
    return lambda text=ROWS: request.param(text, tmp_path, request)


@pytest.mark.slow
@pytest.mark.parametrize("unit", [None, {"kind": "person", "id": "id", "max_rows": 1}], ids=["rows", "persons"])
def test_many_marginals_read_at_once_are_those_read_one_by_one(load, unit, monkeypatch):
    """A few rows at a time; every order of attributes, and one marginal twice."""
    monkeypatch.setattr("releases.engine.tables.sources._ROWS_AT_A_TIME", 3)
    declared = schema(unit)
    counts = TableCounts(load(), declared)
    sets = [*permutations(("age", "sex", "town"), 2), ("age",), ("wage",), ("wage",), ("town", "wage", "age", "sex")]
    dense = Histogram(universe=declared.universe, counts=counts.histogram())
    for names, found, held in zip(sets, counts.marginals(sets), dense.marginals(sets), strict=True):
        np.testing.assert_array_equal(found, counts.marginal(names))
        np.testing.assert_array_equal(found, held)
        assert found.dtype == np.int64


@pytest.mark.parametrize(
    ("columns", "unit", "refused"),
    [
        (
            [{"name": "age", "type": "integer", "edges": [i * i for i in range(5000)]}],
            None,
            "edges: '4,999 bins' must be of equal width when there are so many",
        ),
        ([{**COLUMNS[0], "name": "height"}], None, "columns[0].name: 'height' is not a column of the table"),
        (
            COLUMNS,
            {"kind": "person", "id": "nobody", "max_rows": 1},
            "unit.id: 'nobody' is not a column of the table",
        ),
        (
            [{"name": name, "type": "integer", "edges": list(range(20001))} for name in ("age", "wage")],
            None,
            "marginal: 'age × wage, 400,000,000 cells' must have at most 100,000,000",
        ),
    ],
    ids=["unequal bins", "a column that is missing", "an id that is missing", "too many cells"],
)
def test_what_cannot_be_counted_is_refused_by_rule(columns, unit, refused, tmp_path, request):
    with pytest.raises(InvalidInput) as refusal:
        TableCounts(load_duckdb(ROWS, tmp_path, request), schema(unit, columns)).histogram()
    assert str(refusal.value) == refused


def test_rows_are_coded_once_and_read_a_block_at_a_time_from_a_file_without_a_name(tmp_path):
    shape, drawn = (300, 2, 70_000), np.random.default_rng(3)
    blocks = [np.stack([drawn.integers(0, bins, rows) for bins in shape]).astype(np.int32) for rows in (5000, 1, 0, 77)]
    rows = CodedRows(shape, iter(blocks), folder=tmp_path)
    every = np.concatenate(blocks, axis=1)
    for axes in [(0,), (2, 1), (1, 0)]:
        for _ in range(2):
            table = np.zeros([shape[axis] for axis in axes], dtype=np.int64)
            rows.count_into([table], [axes])
            expected = np.zeros_like(table)
            np.add.at(expected, tuple(every[axis] for axis in axes), 1)
            np.testing.assert_array_equal(table, expected)
    # So nothing is left of it, not even after a kill.
    assert os.fstat(rows._file.fileno()).st_mode & 0o777 == 0o600
    assert not list(tmp_path.iterdir())


def test_a_missing_code_is_no_child_and_a_row_with_one_counts_as_a_row_without_a_value(load):
    """Ten people of 40, three of 5, and eight ways to say nothing."""
    ages = ["40"] * 10 + ["5"] * 3 + ["", "-9", "-9.0", " -09 ", "-90e-1", "NA", "-99", "99"]
    text = "age,sex\n" + "".join(f"{age},f\n" for age in ages)
    table = load(text)
    age = {"name": "age", "type": "integer", "edges": [0, 18, 120]}
    as_numbers = TableCounts(table, schema(columns=[age])).marginal(("age",))
    assert as_numbers.tolist() == [3 + 5, 10 + 1]
    coded = TableCounts(table, schema(columns=[{**age, "missing": ["-9", "NA", "-99", "99"]}]))
    assert coded.marginal(("age",)).tolist() == [3, 10]
    tally = coded.tally(("age",))
    assert dict(zip(tally.values[0].tolist(), tally.counts.tolist(), strict=True)) == {5: 3, 40: 10}
    # As text, a code is itself alone.
    word = {"name": "age", "type": "categorical", "categories": ["40", "none"], "outside": "none", "missing": ["-9"]}
    named = TableCounts(table, schema(columns=[word])).texts("age")
    assert set(named.texts.tolist()) == {"40", "5", "-9.0", "-09", "-90e-1", "NA", "-99", "99"}


@pytest.mark.parametrize("size", [0, 1, 2, 500])
def test_rows_in_memory_are_tallied_as_counting_them_one_by_one_says(size):
    edges = {name: {"name": name, "type": "integer", "edges": [-3, 0, 3]} for name in ("a", "b", "c")}
    universe = Schema.from_json({"version": 1, "columns": [*edges.values()], "neighbours": "replace"}).universe
    drawn = np.random.default_rng(size).integers(-3, 3, (3, size))
    rows = Rows(universe=universe, columns=dict(zip(edges, drawn, strict=True)))
    for names in (("b",), ("a", "b"), ("c", "a", "b")):
        counted = Counter(zip(*(rows.columns[name].tolist() for name in names), strict=True))
        tally = rows.tally(names)
        assert list(zip(*(each.tolist() for each in tally.values), strict=True)) == sorted(counted)
        assert tally.counts.tolist() == [counted[each] for each in sorted(counted)]


def test_the_total_is_public_exactly_where_no_row_that_replaces_another_changes_it(tmp_path, request):
    """Tables of one row, over every rule: whether all of them count as many rows."""
    word = {"name": "sex", "type": "categorical", "categories": ["f", "m"], "missing": ["NA"]}
    number = {"name": "sex", "type": "integer", "edges": [0, 10], "missing": ["NA", "-9"]}
    for column, texts, rules in (
        (word, ("f", "m", "x", "", "NA"), product(("drop", "f", "m"), ("", "drop", "f", "m"))),
        (number, ("5", "50", "x", "", "NA", "-9"), product(("clamp", "drop"), ("drop", "no number"))),
    ):
        tables = [load_duckdb(f"id,sex\np,{text}\n", tmp_path, request) for text in texts]
        for outside, missing_as in rules:
            columns = [{**column, "outside": outside, "missing_as": missing_as}]
            declared = Schema.from_json({"version": 1, "columns": columns, "neighbours": "replace"})
            totals = {int(TableCounts(table, declared).histogram().sum()) for table in tables}
            assert declared.total_is_public == (len(totals) == 1), (outside, missing_as)
            assert declared.rows_may_vanish == (0 in totals)
