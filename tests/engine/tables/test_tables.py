"""Counting tables: one contract for every counts backend, held against plain Python."""

from __future__ import annotations

import csv
import io
import re
import uuid
from itertools import permutations, product

import duckdb
import numpy as np
import pytest

from releases.engine.domain.universe import Schema
from releases.engine.errors import InvalidInput
from releases.engine.tables.counts import Histogram, Rows
from releases.engine.tables.number import NUMBER_GRAMMAR
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


def bin_of(attribute, text):
    """The declared rule in plain Python: a bin number, or None for a row that does not count."""
    text = text.strip()
    if not attribute.is_numeric:
        if text in attribute.categories:
            return attribute.categories.index(text)
        return None if attribute.outside == "drop" else attribute.categories.index(attribute.outside)
    if not re.match(NUMBER_GRAMMAR, text):
        return None
    value = float(text)
    if attribute.kind == "integer" and value != int(value):
        return None
    edges = [float(edge) for edge in attribute.edges]
    if attribute.outside == "drop" and not edges[0] <= value <= edges[-1]:
        return None
    return int(np.clip(np.searchsorted(edges, value, side="right") - 1, 0, attribute.size - 1))


def plain_counts(declared, text=ROWS):
    counts = np.zeros(declared.universe.shape, dtype=np.int64)
    rows = csv.DictReader(io.StringIO(text))
    for row in rows:
        cell = tuple(bin_of(attribute, row[attribute.name]) for attribute in declared.universe.attributes)
        if None not in cell:
            counts[cell] += 1
    return counts


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


BACKENDS = [load_duckdb, pytest.param(load_postgres, marks=pytest.mark.postgres)]


@pytest.fixture(params=BACKENDS, ids=["duckdb", "postgres"])
def load(request, tmp_path):
    return lambda text=ROWS: request.param(text, tmp_path, request)


def test_the_histogram_is_what_the_declared_rules_say_row_by_row(load):
    declared = schema()
    counts = TableCounts(load(), declared).histogram()
    assert counts.dtype == np.int64
    np.testing.assert_array_equal(counts, plain_counts(declared))
    assert counts.sum() == 8


@pytest.mark.parametrize("names", [("age",), ("town", "age"), ("sex", "wage", "town")])
def test_a_marginal_is_the_histogram_summed(load, names):
    declared = schema()
    counts = TableCounts(load(), declared)
    axes = declared.universe.axes(names)
    others = tuple(axis for axis in range(4) if axis not in axes)
    expected = counts.histogram().sum(axis=others)
    np.testing.assert_array_equal(counts.marginal(names), expected.transpose(np.argsort(np.argsort(axes))))


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


def test_a_person_counts_with_at_most_so_many_rows_and_a_row_without_id_does_not_count(load):
    columns = [COLUMNS[2], COLUMNS[3]]
    bounded = TableCounts(load(), schema({"kind": "person", "id": "id", "max_rows": 1}, columns))
    # p5's first row has sex x and is dropped before rows are bounded; the row without id is nobody's.
    assert bounded.histogram().sum() == 9
    two = TableCounts(load(), schema({"kind": "person", "id": "id", "max_rows": 2}, columns))
    assert two.histogram().sum() == 13
    all_of_them = TableCounts(load(), schema({"kind": "person", "id": "id", "max_rows": 9}, columns))
    assert all_of_them.histogram().sum() == 14


def test_one_more_person_moves_nobody_elses_rows(load):
    declared = schema({"kind": "person", "id": "id", "max_rows": 2}, [COLUMNS[2], COLUMNS[3]])
    more = "".join(f"q,20,1,{sex},{town}\n" for sex, town in [("f", "a"), ("m", "b"), ("f", "c"), ("m", "a")])
    before = TableCounts(load(), declared).histogram()
    after = TableCounts(load(ROWS + more), declared).histogram()
    assert (after >= before).all()
    assert (after - before).sum() == 2


def test_which_rows_of_a_person_count_does_not_depend_on_where_they_stand_in_the_table(load):
    """Also where all of them lie in one bin: what is counted follows from each person's rows, whatever their order."""
    columns = [{"name": "wage", "type": "number", "edges": [-100, 1000], "decimals": 1}]
    declared = schema({"kind": "person", "id": "id", "max_rows": 2}, columns)
    rows = [f"p{person},{(37 * person * row) % 1000 - 50}.{row}\n" for person in range(40) for row in range(5)]
    orders = [rows, rows[::-1], rows[1::2] + rows[::2]]
    tallies = [TableCounts(load("id,wage\n" + "".join(order)), declared).tally(("wage",)) for order in orders]
    found = [sorted(zip(each.values[0].tolist(), each.counts.tolist(), strict=True)) for each in tallies]
    assert found[0] == found[1] == found[2]
    assert sum(count for _, count in found[0]) == 80
    # Neither the lowest nor the highest of a person are preferred.
    kept, everyone = np.mean([value for value, _ in found[0]]), np.mean([10 * float(row.split(",")[1]) for row in rows])
    assert abs(kept - everyone) < 700


def test_many_categories_and_many_bins_are_coded_alike(load):
    codes = [f"c{i:03d}" for i in range(150)]
    edges = sorted({i * i for i in range(90)})
    columns = [
        {"name": "town", "type": "categorical", "categories": codes, "outside": codes[7]},
        {"name": "age", "type": "number", "edges": edges},
    ]
    text = "town,age\n" + "".join(f"{codes[(7 * i) % 150] if i % 10 else 'zz'},{(i * 37) % 8100}\n" for i in range(400))
    declared = schema(columns=columns)
    np.testing.assert_array_equal(TableCounts(load(text), declared).histogram(), plain_counts(declared, text))


def test_thousands_of_bins_of_one_width_are_coded_by_division(load):
    columns = [{"name": "age", "type": "integer", "edges": list(range(0, 20001, 2))}]
    text = "age\n" + "".join(f"{(i * 7919) % 20100 - 50}\n" for i in range(500))
    declared = schema(columns=columns)
    np.testing.assert_array_equal(TableCounts(load(text), declared).histogram(), plain_counts(declared, text))


def test_thousands_of_unequal_bins_are_refused_by_rule(load):
    columns = [{"name": "age", "type": "integer", "edges": [i * i for i in range(5000)]}]
    with pytest.raises(InvalidInput, match="equal width"):
        TableCounts(load("age\n1\n"), schema(columns=columns)).histogram()


def test_a_schema_that_names_a_missing_column_is_refused_before_anything_is_counted(load):
    with pytest.raises(InvalidInput) as refusal:
        TableCounts(load("age\n1\n"), schema())
    assert refusal.value.field == "columns[1].name"
    with pytest.raises(InvalidInput) as refusal:
        TableCounts(load(), schema({"kind": "person", "id": "nobody", "max_rows": 1}))
    assert refusal.value.field == "unit.id"


def test_a_marginal_too_large_to_hold_is_refused(load):
    wide = [{"name": name, "type": "integer", "edges": list(range(20001))} for name in ("age", "wage")]
    with pytest.raises(InvalidInput, match="400,000,000 cells"):
        TableCounts(load(), schema(columns=wide)).histogram()


def test_a_url_without_a_table_is_refused():
    with pytest.raises(InvalidInput, match="#table_name"):
        open_table("postgresql://somebody@127.0.0.1/base")


def test_a_tally_holds_every_value_in_units_of_its_last_place(load):
    columns = [
        {"name": "wage", "type": "number", "edges": [0, 10.5, 80], "decimals": 2},
        {"name": "age", "type": "integer", "edges": [18, 66]},
        {"name": "sex", "type": "categorical", "categories": ["f", "m"]},
    ]
    text = "wage,age,sex\n1.006,20,f\n1.006,20,f\n10.49,17,m\n99,70,m\n-3,40,f\n7,40,q\nx,40,f\n"
    tally = TableCounts(load(text), schema(columns=columns)).tally(("wage", "age", "sex"))
    found = sorted(zip(*(values.tolist() for values in tally.values), tally.counts.tolist(), strict=True))
    assert found == [(0, 40, 0, 1), (101, 20, 0, 2), (1049, 18, 1, 1), (8000, 66, 1, 1)]


# Texts

SPEAKERS = """id,spoken,age
p1,Gaelic,20
p1, Gaelic ,20
p1,Scots,20
p2,Scots,99
p2,,20
p2,  ,20
p3,Scots,20
,Norn,20
p4,x,
"""
TONGUES = [
    {"name": "spoken", "type": "categorical", "categories": ["Scots", "other"], "outside": "other"},
    {"name": "age", "type": "integer", "edges": [18, 65], "outside": "drop"},
]


def texts_of(load, text, declared, name="spoken"):
    found = TableCounts(load(text), declared).texts(name)
    assert found.counts.dtype == np.int64
    return dict(zip(found.texts.tolist(), found.counts.tolist(), strict=True))


@pytest.mark.parametrize("outside", ["other", "drop"])
def test_texts_are_counted_declared_or_not_where_no_other_column_drops_their_row(load, outside):
    columns = [{**TONGUES[0], "outside": outside}, TONGUES[1]]
    assert texts_of(load, SPEAKERS, schema(columns=columns)) == {"Gaelic": 2, "Scots": 2, "Norn": 1}
    assert texts_of(load, SPEAKERS, schema(columns=columns[:1])) == {"Gaelic": 2, "Scots": 3, "Norn": 1, "x": 1}
    assert texts_of(load, "id,spoken,age\n", schema(columns=columns)) == {}


def test_texts_of_a_person_are_bounded_and_rows_without_an_id_do_not_count(load):
    one, two = (schema({"kind": "person", "id": "id", "max_rows": rows}, TONGUES) for rows in (1, 2))
    assert texts_of(load, SPEAKERS, two)["Scots"] in (1, 2)
    assert sum(texts_of(load, SPEAKERS, two).values()) == 3
    # Empty and dropped rows take no place of those that count.
    assert sum(texts_of(load, SPEAKERS, one).values()) == 2
    assert "Norn" not in texts_of(load, SPEAKERS, two)


def test_which_texts_of_a_person_count_follows_from_that_persons_rows_alone(load):
    """Whatever their order and whoever else is there; no place in the alphabet is preferred."""
    declared = schema({"kind": "person", "id": "id", "max_rows": 2}, TONGUES[:1])
    rows = [f"p{person},{letter}{person % 7}\n" for person in range(60) for letter in "abcdefgh"]
    found = [
        texts_of(load, "id,spoken\n" + "".join(order), declared) for order in (rows, rows[::-1], rows[1::2] + rows[::2])
    ]
    assert found[0] == found[1] == found[2]
    assert sum(found[0].values()) == 120
    assert len({text[0] for text in found[0]}) > 3
    more = texts_of(load, "id,spoken\n" + "".join([*rows, "q,a0\n", "q,zz\n", "q,zz\n"]), declared)
    assert sum(more.values()) == 122
    assert all(more[text] >= count for text, count in found[0].items())


def test_texts_of_very_many_categories_are_counted_as_those_of_few(load):
    codes = [f"c{i:03d}" for i in range(150)]
    columns = [{"name": "spoken", "type": "categorical", "categories": codes}]
    text = "spoken\n" + "".join(f"{codes[(7 * i) % 150] if i % 10 else 'zz'}\n" for i in range(400))
    found = texts_of(load, text, schema(columns=columns))
    assert found["zz"] == 40
    assert sum(found.values()) == 400


HUGE = ["9223372036854775807", "9223372036854775808", "1e19", "-1e19", "1e300", "-1e300", "9007199254740993", "1e400"]


@pytest.mark.parametrize("kind", ["integer", "number"])
@pytest.mark.parametrize("outside", ["clamp", "drop"])
def test_a_number_beyond_what_a_database_holds_as_an_integer_ends_no_run(load, kind, outside):
    columns = [{"name": "age", "type": kind, "edges": [18, 25, 35, 65], "outside": outside}]
    text = "age\n20\n" + "".join(f"{each}\n" for each in HUGE)
    counts = TableCounts(load(text), schema(columns=columns))
    found = counts.histogram()
    # An exponent of three digits is no number, and counts nowhere.
    assert found.tolist() == ([2, 0, 4] if outside == "clamp" else [1, 0, 0])
    tallied = counts.tally(("age",))
    assert tallied.counts.sum() == found.sum()
    assert tallied.values[0].max() <= 65 * 10 ** (0 if kind == "integer" else 2)


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


@pytest.mark.parametrize(
    ("rules", "counted"),
    [
        ({}, [3, 2, 0]),
        ({"missing_as": "unknown"}, [3, 2, 4]),
        ({"outside": "m"}, [3, 2 + 1 + 4, 0]),
        ({"outside": "m", "missing_as": "unknown"}, [3, 2 + 1, 4]),
        ({"outside": "m", "missing_as": "drop"}, [3, 2 + 1, 0]),
        ({"outside": "unknown", "missing_as": "f"}, [3 + 4, 2, 1]),
    ],
)
@pytest.mark.parametrize("is_joined", [False, True], ids=["few categories", "many categories"])
def test_missing_values_go_where_their_rule_says_and_other_values_where_theirs_does(load, rules, counted, is_joined):
    """Three of f, two of m, one of a category that is not declared, and four without a value."""
    texts = ["f"] * 3 + ["m"] * 2 + ["x", "", " ", "NA", "-9"]
    table = load("id,sex\n" + "".join(f"p,{text}\n" for text in texts))
    more = [f"c{i}" for i in range(100)] if is_joined else []
    column = {"name": "sex", "type": "categorical", "categories": ["f", "m", "unknown", *more]}
    declared = schema(columns=[{**column, "missing": ["NA", "-9"], **rules}])
    found = TableCounts(table, declared).marginal(("sex",))
    assert found.tolist() == counted + [0] * len(more)


def test_the_total_is_public_exactly_where_no_row_that_replaces_another_changes_it(tmp_path, request):
    """Tables of one row, over every rule: whether all of them count as many rows."""
    tables = [load_duckdb(f"id,sex\np,{text}\n", tmp_path, request) for text in ("f", "m", "x", "", "NA")]
    column = {"name": "sex", "type": "categorical", "categories": ["f", "m"], "missing": ["NA"]}
    for outside in ("drop", "f", "m"):
        for missing_as in ("", "drop", "f", "m"):
            columns = [{**column, "outside": outside, "missing_as": missing_as}]
            declared = Schema.from_json({"version": 1, "columns": columns, "neighbours": "replace"})
            totals = {int(TableCounts(table, declared).histogram().sum()) for table in tables}
            assert declared.total_is_public == (len(totals) == 1), (outside, missing_as)
            assert declared.rows_may_vanish == (0 in totals)
    tables = [load_duckdb(f"id,sex\np,{text}\n", tmp_path, request) for text in ("5", "50", "x", "", "NA", "-9")]
    column = {"name": "sex", "type": "integer", "edges": [0, 10], "missing": ["NA", "-9"]}
    for outside, missing_as in product(("clamp", "drop"), ("drop", "no number")):
        columns = [{**column, "outside": outside, "missing_as": missing_as}]
        declared = Schema.from_json({"version": 1, "columns": columns, "neighbours": "replace"})
        totals = {int(TableCounts(table, declared).histogram().sum()) for table in tables}
        assert declared.total_is_public == (len(totals) == 1), (outside, missing_as)
        assert declared.rows_may_vanish == (0 in totals)
