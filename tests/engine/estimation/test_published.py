"""Rows from tables that somebody else published: they agree with the tables, and bad tables are refused by line."""

from __future__ import annotations

import csv
import json
from io import StringIO
from itertools import combinations, product

import numpy as np
import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from releases.engine.domain.schema import Schema
from releases.engine.errors import InvalidInput
from releases.engine.estimation.published import PublishedTable, fit_published
from releases.engine.noise.randomness import StreamRandomness

COLUMNS = [
    {"name": "town", "type": "categorical", "categories": ["a", "b", "c"]},
    {"name": "age", "type": "integer", "edges": [0, 18, 65, 99]},
    {"name": "sex", "type": "categorical", "categories": ["f", "m"]},
]
TOWNS = ["town,age,count", "a,0 to 17,10", "a,18 to 64,30", "b,65 to 99,40", "c,0 to 17,20"]
SEXES = ["sex,age,count", "f,0 to 17,20", "m,0 to 17,10", "f,18 to 64,30", "m,65 to 99,40"]


def universe_of(columns=COLUMNS):
    return Schema.from_json({"version": 1, "columns": columns}).universe


def table_of(lines, universe=None):
    return PublishedTable.read("t.csv", csv.reader(lines), universe or universe_of())


def fitted(*tables, deviation=0.0):
    return fit_published(universe_of(), tables, deviation=deviation, rng=StreamRandomness(b"published"))


def test_a_fit_has_the_published_counts_and_what_no_table_holds_is_independent_given_what_they_share():
    distribution, total = fitted(table_of(TOWNS), table_of(SEXES))
    assert round(total, 6) == 100
    towns = 100 * distribution.marginal(("town", "age"))
    assert towns == pytest.approx(np.array([[10, 30, 0], [0, 0, 40], [20, 0, 0]]), abs=0.5)
    # Of the 30 people below 18 a third live in a, and two thirds are f.
    whole = 100 * distribution.marginal(("town", "age", "sex"))
    assert whole[0, 0] == pytest.approx([20 / 3, 10 / 3], abs=0.5)
    # Columns of no table are not made up.
    assert fitted(table_of(SEXES))[0].components[0].names == ("age", "sex")


def test_many_columns_are_fitted_by_a_mixture_that_has_every_published_pair():
    columns = [{"name": f"c{i}", "type": "categorical", "categories": list("012345")} for i in range(12)]
    universe, rng = universe_of(columns), np.random.default_rng(3)
    people = np.cumsum(rng.integers(0, 2, (12, 5_000)), axis=0) % 6
    tables = []
    for one, other in combinations(range(12), 2):
        counts = np.zeros((6, 6))
        np.add.at(counts, (people[one], people[other]), 1)
        tables.append(PublishedTable(source=f"{one} {other}", names=(f"c{one}", f"c{other}"), counts=counts))
    distribution, total = fit_published(universe, tables, deviation=0, rng=StreamRandomness(b"many"))
    assert round(total, 6) == 5_000
    apart = [np.abs(distribution.marginal(each.names) - each.counts / 5_000).sum() / 2 for each in tables]
    assert max(apart) < 0.02


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ([], "t.csv, first line: '' must be 1 to 3 different columns"),
        (["town,town,count"], "t.csv, first line: 'town, town, count' must be"),
        (["city,count"], "t.csv, first line: 'city' must be a column of the schema"),
        (["town,count", "a"], "t.csv, line 2: 'a' must have 2 values"),
        (["town,count", "a,1", "d,2"], "t.csv, line 3, town: 'd' must be one of the bins"),
        (["town,count", "a,1", "a,2"], "t.csv, line 3: 'a' must be a cell that no line before has"),
        (["town,count", "a,nan"], "t.csv, line 2, count: 'nan' must be a number"),
    ],
)
def test_a_bad_table_is_refused_with_its_line_the_value_and_the_rule(lines, says):
    with pytest.raises(InvalidInput) as raised:
        table_of(lines)
    assert str(raised.value).startswith(says)


def test_tables_have_to_count_the_same_people_up_to_the_noise_that_their_publisher_states():
    others = ["sex,count", "f,60", "m,80"]
    with pytest.raises(InvalidInput, match=r"must be near 1\d\d, as in the other tables"):
        fitted(table_of(TOWNS), table_of(others))
    _, total = fitted(table_of(TOWNS), table_of(others), deviation=20.0)
    assert 100 < total < 140
    with pytest.raises(InvalidInput, match="tables: 0 must be at least one"):
        fitted()
    with pytest.raises(InvalidInput, match="deviation: -1 must be 0 or more"):
        fitted(table_of(TOWNS), deviation=-1)
    with pytest.raises(InvalidInput, match="must count at least one person"):
        fitted(table_of(["sex,count"]))


def test_the_command_writes_rows_and_says_that_nothing_is_promised(tmp_path):
    (tmp_path / "schema.json").write_text(json.dumps({"version": 1, "columns": COLUMNS}))
    for name, lines in (("towns.csv", TOWNS), ("sexes.csv", SEXES)):
        (tmp_path / name).write_text("\n".join(lines))
    said = StringIO()
    given = ["published", "--schema", str(tmp_path / "schema.json"), "--out", str(tmp_path / "out"), "--table"]
    towns, sexes = (str(tmp_path / name) for name in ("towns.csv", "sexes.csv"))
    call_command(*given, towns, "--table", sexes, stdout=said)
    rows = list(csv.DictReader((tmp_path / "out" / "synthetic.csv").open()))
    assert "100 rows are in" in said.getvalue()
    assert len(rows) == 100
    assert abs(sum(row["town"] == "b" and int(row["age"]) >= 65 for row in rows) - 40) <= 1
    readme = (tmp_path / "out" / "README.txt").read_text()
    assert "Nothing is promised about people" in readme
    (tmp_path / "towns.csv").write_text("town,count\nx,1")
    with pytest.raises(CommandError, match=r"towns.csv, line 2, town: 'x' must be one of the bins"):
        call_command(*given, towns)
    with pytest.raises(CommandError, match="rows: 0 must be 1 to"):
        call_command(*given, sexes, "--rows", "0")


def test_without_a_schema_the_columns_hold_what_the_tables_list(tmp_path):
    (tmp_path / "sexes.csv").write_text("sex;age;count\nf;young;20\nm;old;10\n")
    (tmp_path / "ages.csv").write_text("age;count\nyoung;20\nold;9\nunknown;1\n")
    tables = ["--table", str(tmp_path / "sexes.csv"), "--table", str(tmp_path / "ages.csv")]
    call_command("published", *tables, "--out", str(tmp_path / "out"), stdout=StringIO())
    rows = [tuple(row.values()) for row in csv.DictReader((tmp_path / "out" / "synthetic.csv").open())]
    assert len(rows) == 30
    assert {*rows} <= set(product(("f", "m"), ("young", "old", "unknown")))
    assert abs(sum(row == ("f", "young") for row in rows) - 20) <= 1
