"""Counting tables: several marginals at once, what is refused, and missing codes. `test_contract` has the counts."""

from __future__ import annotations

import csv
import io
import uuid
from itertools import permutations, product

import duckdb
import numpy as np
import pytest

from releases.engine.domain.universe import Schema
from releases.engine.errors import InvalidInput
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


def test_rows_in_memory_and_their_histogram_have_the_same_marginals():
    declared = schema()
    drawn = np.random.default_rng(5)
    columns = {
        "age": drawn.integers(18, 66, 200),
        "wage": drawn.integers(0, 8001, 200),
        "sex": drawn.integers(0, 2, 200),
        "town": drawn.integers(0, 3, 200),
    }
    rows = Rows(universe=declared.universe, columns=columns)
    dense = Histogram(universe=declared.universe, counts=rows.histogram())
    sets = [("age", "sex"), ("age", "sex", "town"), ("age",), ("town", "wage"), declared.universe.names]
    for one, other in zip(rows.marginals(sets), dense.marginals(sets), strict=True):
        np.testing.assert_array_equal(one, other)
        assert one.sum() == 200
    assert dense.marginal(("sex",)).tolist() == np.bincount(columns["sex"]).tolist()


def test_thousands_of_unequal_bins_are_refused_by_rule(load):
    columns = [{"name": "age", "type": "integer", "edges": [i * i for i in range(5000)]}]
    with pytest.raises(InvalidInput, match="equal width"):
        TableCounts(load("age\n1\n"), schema(columns=columns)).histogram()


def test_a_schema_that_names_a_missing_column_is_refused_before_anything_is_counted(load):
    person = {"kind": "person", "id": "nobody", "max_rows": 1}
    for text, declared, field in (("age\n1\n", schema(), "columns[1].name"), (ROWS, schema(person), "unit.id")):
        with pytest.raises(InvalidInput) as refusal:
            TableCounts(load(text), declared)
        assert refusal.value.field == field


def test_a_marginal_too_large_to_hold_is_refused(load):
    wide = [{"name": name, "type": "integer", "edges": list(range(20001))} for name in ("age", "wage")]
    with pytest.raises(InvalidInput, match="400,000,000 cells"):
        TableCounts(load(), schema(columns=wide)).histogram()


def test_a_url_without_a_table_is_refused():
    with pytest.raises(InvalidInput, match="#table_name"):
        open_table("postgresql://somebody@127.0.0.1/base")


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
