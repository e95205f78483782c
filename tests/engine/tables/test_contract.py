"""One contract for every database: the same dirty tables, and the counts of a reference in plain Python."""

from __future__ import annotations

import logging
import random
import uuid
from itertools import combinations

import duckdb
import numpy as np
import psycopg
import pyarrow as pa
import pytest

from releases.engine.domain.universe import Schema
from releases.engine.tables.query import TableCounts, open_table
from releases.engine.tables.sources import SparkTable
from tests.engine.tables.reference import Reference, number, trimmed

#: Names that a careless statement would break on.
AGE, WAGE, SEX, TOWN, CODE, ID = "age", 'it\'s "the" `wage` %s', "sex\\n", "Straße", "c.o.d.e", "$1 id"
NO_NUMBERS = (
    *("", " ", "nan", "inf", "Infinity", "abc", "0x10", "1_000", "--1", "+-2", ".", "+", "e5", "1e", "1e+", "1e100"),
    *("1.5.2", "1,5", "1 0", "٣", "１２", "1\u2028", "1\u2029", "1\u0085", "\u00a01", "1\u00a0", "\ufeff1", "1\u200b"),
    *("9" * 41, "." + "1" * 41, "-.", "1e0x", "true", "²", "½", "1d", "1f", "1L", "1e-100", "1E+999"),
)
NUMBERS = (
    *("0", "-0", "-0.0", "+40", "5.", "+.5e1", ".5", "00012", "0e99", "1e99", "-1e99", "1E-99", "4e1", "9" * 40),
    *("9007199254740993", "-9007199254740993", "9223372036854775807", "9223372036854775808", "1e19", "-1e19"),
    *("0.1", "0.30000000000000004", "10.499999999999999", "10.5", "99.995", "-0.005", "\t7\n", "\x0b8\x0c", " 9\r"),
    *("2.5", "-2.5", "0.005", "0.015", "1.005", "49.999999999999999999", "50", "1e1", "1.0", "01"),
)
WORDS = (
    *("f", "m", " m ", "F", "v", "f v", "\x0bf\x0c", "\u00a0f", "Ünïcode", "U\u0308nïcode", "ﬁ", "ß", "SS", "İ", "i"),
    *("a'b", "a\\b", "\\n", "\\", 'a"b', "%s", "$1", "`", "a;--", "𝔘", "e\u0301", "é", "", "  ", "\t", "other", "zz"),
    *("null", "NULL", "c7", "c07", "C7", " c64 ", "c64\u2029"),
)
PEOPLE = (
    *(
        "p1",
        " p1 ",
        "P1",
        "1",
        "1.0",
        "01",
        "\u00a01",
        "é",
        "e\u0301",
        "",
        " ",
        None,
        "a'b",
        "a\\b",
        "ß",
        "ss",
        "p\x0b",
    ),
)


def written(drawn):
    """A number, or what looks like one."""
    kind = drawn.randrange(9)
    if kind == 0:
        return drawn.choice(NO_NUMBERS)
    if kind == 1:
        return drawn.choice(NUMBERS)
    if kind == 2:
        return str(drawn.randrange(-(10**30), 10**30))
    if kind == 3:
        return f"{drawn.uniform(-9, 9):.17f}"
    if kind == 4:
        return f"{drawn.uniform(0, 9):.3f}{drawn.choice('eE')}{drawn.choice(['', '+', '-'])}{drawn.randrange(99)}"
    if kind == 5:
        return drawn.choice([None, f" {drawn.randrange(-60, 120)}\t", f"{drawn.uniform(-60, 120)!r}"])
    return str(drawn.randrange(-60, 120)) if kind < 8 else f"{drawn.randrange(12000)}e-2"


def dirty(drawn, size):
    people = [*PEOPLE, *(f"q{i}" for i in range(size // 6))]
    return [
        {
            ID: drawn.choice(people),
            AGE: written(drawn),
            WAGE: written(drawn),
            SEX: drawn.choice([None, *WORDS]),
            TOWN: drawn.choice([None, *WORDS]),
            CODE: drawn.choice([*WORDS, *(f"c{i}" for i in range(90))]),
        }
        for _ in range(size)
    ]


def declared(drawn):
    """Columns of every kind, a unit and a relation."""
    rule = drawn.choice(["clamp", "drop"])
    columns = [
        drawn.choice(
            [
                {"name": AGE, "type": "integer", "edges": [-50, 0, 1, 10, 50, 100], "outside": rule},
                {"name": AGE, "type": "integer", "edges": list(range(-9000, 9001, 4)), "outside": rule},
                {"name": AGE, "type": "integer", "edges": list(range(-60, 121)), "outside": rule},
            ]
        ),
        drawn.choice(
            [
                {"name": WAGE, "type": "number", "edges": [-10, 0, 0.1, 0.3, 10.5, 50, 100], "decimals": 2},
                {"name": WAGE, "type": "number", "edges": [0, 10.5, 80], "decimals": 1, "outside": "drop"},
                {"name": WAGE, "type": "number", "edges": [-(10**12), 0, 10**12], "decimals": 3},
            ]
        ),
        {"name": SEX, "type": "categorical", "categories": ["f", "m", "F", "a'b", "a\\b", "\\n", "%s", "ß"]},
        {
            "name": TOWN,
            "type": "categorical",
            "outside": "other",
            "categories": ["v", "Ünïcode", "é", "𝔘", "`", "\\", "$1", "other"],
        },
        {
            "name": CODE,
            "type": "categorical",
            "outside": drawn.choice(["drop", "c7", "a\\b"]),
            "categories": [*(f"c{i}" for i in range(80)), "a\\b", "a'b", 'a"b', "é"],
        },
    ]
    chosen = drawn.sample(columns, drawn.choice([2, 3, 3, 4]))
    person = {"kind": "person", "id": ID, "max_rows": drawn.choice([1, 2, 5])}
    return {
        "version": 1,
        "columns": chosen,
        "unit": drawn.choice([{"kind": "row"}, person, person]),
        "neighbours": drawn.choice(["add_remove", "replace"]),
    }


# Databases


def in_duckdb(rows, request):
    target = request.getfixturevalue("tmp_path") / f"{uuid.uuid4().hex}.parquet"
    with duckdb.connect() as connection:
        columns = ['"' + name.replace('"', '""') + '" VARCHAR' for name in rows[0]]
        connection.execute(f"CREATE TABLE given ({', '.join(columns)})")
        places = ", ".join("?" * len(columns))
        connection.executemany(f"INSERT INTO given VALUES ({places})", [list(row.values()) for row in rows])
        connection.execute(f"COPY given TO '{target}'")
    return open_table(str(target))


def in_postgres(rows, request):
    url, name = request.getfixturevalue("postgres_database"), f'Table "{uuid.uuid4().hex[:8]}" \\'
    with psycopg.connect(url, autocommit=True) as connection:
        columns = psycopg.sql.SQL(", ").join(
            psycopg.sql.SQL("{} text").format(psycopg.sql.Identifier(column)) for column in rows[0]
        )
        table = psycopg.sql.Identifier(name)
        connection.execute(psycopg.sql.SQL("CREATE TABLE {} ({})").format(table, columns))
        with connection.cursor().copy(psycopg.sql.SQL("COPY {} FROM STDIN").format(table)) as copied:
            for row in rows:
                copied.write_row(list(row.values()))
    return open_table(f"{url}#{name}")


def in_spark(rows, request):
    session, name = request.getfixturevalue("spark"), f"given_{uuid.uuid4().hex}"
    columns = {column: pa.array([row[column] for row in rows], pa.string()) for column in rows[0]}
    session.createDataFrame(pa.table(columns)).createOrReplaceTempView(name)
    return SparkTable(session, name)


@pytest.fixture(scope="session")
def spark():
    from pyspark.sql import SparkSession

    # It would still say that it closes when nothing listens any more.
    logging.getLogger("py4j").setLevel(logging.WARNING)
    options = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.default.parallelism": "1",
        "spark.sql.adaptive.enabled": "false",
        # Compiling a statement takes longer than these few rows.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.showConsoleProgress": "false",
    }
    session = SparkSession.builder.master("local[1]").appName("contract").config(map=options).getOrCreate()
    yield session
    session.stop()


#: How many random tables, and their rows: a statement of Spark takes a second whatever the table.
ENGINES = [
    pytest.param(in_duckdb, 24, 150, id="duckdb"),
    pytest.param(in_postgres, 16, 150, id="postgres", marks=pytest.mark.postgres),
    pytest.param(in_spark, 3, 500, id="spark", marks=pytest.mark.spark),
]


@pytest.mark.parametrize(("load", "tables", "size"), ENGINES)
def test_dirty_tables_count_as_the_reference_says(load, tables, size, request):
    for seed in range(tables):
        drawn = random.Random(seed)
        rows, schema = dirty(drawn, size), declared(drawn)
        check(TableCounts(load(rows, request), Schema.from_json(schema)), Reference(schema, rows), f"seed {seed}")


def check(counts, reference, case):
    names = reference.names
    sets = [each for order in (1, 2) for each in combinations(names[::-1], order)]
    sets += [tuple(names)] if counts.universe.size <= 2_000_000 else []
    for one, found in zip(sets, counts.marginals(sets), strict=True):
        assert found.dtype == np.int64
        cells = {tuple(int(place) for place in cell): int(found[tuple(cell)]) for cell in np.argwhere(found)}
        assert cells == dict(reference.cells(one)), (case, one)
    np.testing.assert_array_equal(counts.marginal(sets[0]), counts.marginals(sets[:1])[0])
    tally = counts.tally(tuple(names))
    combined = zip(*(values.tolist() for values in tally.values), strict=True)
    assert dict(zip(combined, tally.counts.tolist(), strict=True)) == dict(reference.tally(names)), case
    for attribute in counts.universe.attributes:
        if not attribute.is_numeric:
            found = counts.texts(attribute.name)
            texts = dict(zip(found.texts.tolist(), found.counts.tolist(), strict=True))
            assert texts == dict(reference.texts(attribute.name)), (case, attribute.name)


def test_the_reference_reads_what_the_page_of_the_rules_says():
    assert all(number(trimmed(text)) is None for text in NO_NUMBERS)
    assert all(number(trimmed(text)) is not None for text in NUMBERS)
    assert [number(text) for text in ("-.5e1", "5.", "1e-99", "0.1")] == [-5.0, 5.0, 1e-99, 0.1]
    assert [trimmed(text) for text in ("\t\x0b a\u00a0 \r\n", " \t", "", None)] == ["a\u00a0", None, None, None]
