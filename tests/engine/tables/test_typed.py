"""Columns that are read by their type: the same dirty values on every database count as their texts, by every question.

What a table holds is written as text here, and cast by each database to the type of its column. The reference counts
that text.
"""

from __future__ import annotations

import random
import uuid
from decimal import Decimal
from itertools import combinations

import duckdb
import numpy as np
import psycopg
import pytest

from releases.engine.domain.schema import Schema
from releases.engine.tables.query import TableCounts, open_table
from releases.engine.tables.typed import ColumnType, of_duckdb, of_postgresql, of_spark
from tests.engine.tables.reference import Reference, read
from tests.engine.tables.test_contract import SparkTable

ID, SMALL, LARGE, PLACE, MONEY, WEIGHT, BORN, SEEN, CHANGED, SMOKES = (
    *("unit_id", "number_0", 'large "one"', "text_2", "c.o.d.e", "We%ight $1", "born", "seen", "changed", "Smokes?"),
)
#: By database; a type that it does not have is left out.
TYPES = {
    ID: ("BIGINT", "BIGINT", "BIGINT"),
    SMALL: ("TINYINT", "SMALLINT", "TINYINT"),
    LARGE: ("BIGINT", "BIGINT", "BIGINT"),
    PLACE: ("USMALLINT", "INT", "INT"),
    MONEY: ("DECIMAL(15,3)", "NUMERIC(15,3)", "DECIMAL(15,3)"),
    WEIGHT: ("DOUBLE", "DOUBLE PRECISION", "DOUBLE"),
    BORN: ("DATE", "DATE", "DATE"),
    SEEN: ("TIMESTAMP", "TIMESTAMP", "TIMESTAMP_NTZ"),
    CHANGED: ("TIMESTAMPTZ", "TIMESTAMPTZ", None),
    SMOKES: ("BOOLEAN", "BOOLEAN", "BOOLEAN"),
}
SMALLS = ("-128", "127", "0", "-9", "1", "10", "50", "100", "70")
LARGES = (
    *("0", "-9", "9007199254740991", "9007199254740992", "9007199254740993", "9007199254740995", "-9007199254740993"),
    *("9223372036854775807", "-9223372036854775808", "1152921504606846977", "10", "49", "-50"),
)
PLACES = ("1", "10", "7", "9", "100", "65535", "0")
MONEYS = ("0.100", "0.300", "10.499", "10.500", "-0.001", "-9.000", "99.995", "0.005", "999999999999.999", "2.500")
WEIGHTS = (
    *("-0.0", "0.0", "1e+100", "9.999999999999999e+99", "-1e+100", "1e+99", "1e-99", "1e-100"),
    *(
        "9.999999999999999e-100",
        "5e-324",
        "1.7976931348623157e+308",
        "0.1",
        "0.30000000000000004",
        "10.499999999999998",
    ),
    *("1e+16", "9007199254740993.0", "1e-07", "-9.0", "0.3", "2.5", "-1.0", "123456.789", "0.015", "50.0", "-10.0"),
)
DAYS = (
    *("1969-12-31", "1970-01-01", "0001-01-01", "9999-12-31", "1582-10-10", "1900-02-28", "2024-02-29", "2020-01-01"),
    *("2021-01-03", "2021-01-04", "2019-12-30"),
)
TIMES = ("00:00:00", "23:59:59", "12:30:00", "08:59:59.999999", "23:59:59.5", "00:00:00.000001")
#: As each database writes them.
NO_NUMBERS = dict.fromkeys(("postgres", "spark"), ("NaN", "Infinity", "-Infinity")) | {"duckdb": ("nan", "inf", "-inf")}
#: No dates, however a database writes them: before the year 1, after 9999, and what is no day.
NO_DAYS = {
    "duckdb": ("0044-03-15 (BC)", "10000-01-01", "infinity", "-infinity", "0001-12-31 (BC)"),
    "postgres": ("0044-03-15 BC", "10000-01-01", "infinity", "-infinity", "0001-12-31 BC"),
    "spark": ("-0043-03-15", "+10000-01-01", "0000-12-31"),
}
RANGES = (
    {"first": "2019-12-31", "last": "2024-12-30", "by": "month", "outside": "clamp"},
    {"first": "1899-12-31", "last": "2024-02-29", "by": "quarter", "outside": "drop"},
    {"first": "0001-01-01", "last": "9999-12-31", "by": "weekday", "outside": "drop"},
    {"first": "1969-12-30", "last": "1970-01-03", "by": "day", "outside": "clamp"},
)
HOURS = {"first": "0001-01-01", "last": "9999-12-31", "by": "hour", "outside": "drop"}
#: What is declared and no value has as its text; and what one has.
CODES = {
    SMALL: ["-9", "70.0", "nan", "010"],
    LARGE: ["-9.0", "9007199254740992", "1e1"],
    PLACE: ["9", "07", "100.0"],
    MONEY: ["-9", "0.3", "NaN"],
    WEIGHT: ["-9", "NaN", "nan", "inf", "0.30"],
    BORN: ["9999-12-31", "20200101", "2021-1-3"],
    SEEN: ["1970-01-01 00:00:00", "2024-02-29"],
    CHANGED: ["1970-01-01 00:00:00+00", "2024-02-29"],
    SMOKES: ["false", "f"],
}
UNITS = ({"kind": "row"}, {"kind": "person", "id": ID, "max_rows": 2})


def declared(number, names):
    """Kinds of columns, rules and missing codes: after each other."""
    categories = [*("01", "1", "1.0", "+7", "-0", "7", "65535", "99999999999999999999", "other")]
    columns = {
        SMALL: {"type": "integer", "edges": [[-50, 0, 1, 10, 50, 100], [-128, 0, 127]][number % 2], "outside": "drop"},
        LARGE: {"type": ["integer", "number"][number // 2 % 2], "edges": [-(2**49), 0, 10, 49.5, 2**49], "decimals": 1},
        PLACE: {"type": "categorical", "categories": categories, "outside": ["other", "drop", "01"][number % 3]},
        MONEY: {"type": "number", "edges": [-10, 0, 0.1, 0.3, 10.5, 50, 100], "decimals": 2},
        WEIGHT: {"type": ["number", "integer"][number % 2], "edges": [-10, 0, 0.1, 0.3, 10.5, 50], "decimals": 1},
        BORN: {"type": "date", "format": "YYYY-MM-DD", **RANGES[number % 4]},
        SEEN: {"type": ["datetime", "date"][number // 2 % 2], "format": "YYYY-MM-DD", **RANGES[(number + 1) % 4]},
        CHANGED: {"type": "datetime", "format": "YYYY-MM-DD", **HOURS, "zone": ["", "Europe/Berlin"][number % 2]},
        SMOKES: {"type": "categorical", "categories": ["true", "0", "1"], "outside": "0"},
    }
    if not columns[CHANGED]["zone"]:
        del columns[CHANGED]["zone"]
    if columns[LARGE]["type"] == "integer":
        columns[LARGE] |= {"edges": [-(2**53), 0, 10, 50, 2**53], "decimals": 0}
    if columns[WEIGHT]["type"] == "integer":
        columns[WEIGHT] |= {"edges": [-10, 0, 1, 10, 50], "decimals": 0}
    rules = dict.fromkeys((LARGE, WEIGHT), "no number") | dict.fromkeys((BORN, SEEN, CHANGED), "no date")
    for name, column in columns.items():
        if number % 2 == 0:
            column["missing"] = CODES[name]
        if name in rules:
            column["missing_as"] = rules[name]
    columns[PLACE]["missing_as"] = ["7", "drop"][number % 2]
    return {
        "version": 1,
        "columns": [{"name": name, **column} for name, column in columns.items() if name in names],
        "unit": UNITS[number // 2 % 2],
        "neighbours": "add_remove",
    }


def drawn_rows(drawn, kind, number=700):
    """Each value once in rows of others, and random ones."""
    days = (*DAYS, *NO_DAYS[kind])
    times = [f"{day} {time}" for day in DAYS for time in TIMES]
    listed = {
        SMALL: SMALLS,
        LARGE: LARGES,
        PLACE: PLACES,
        MONEY: MONEYS,
        WEIGHT: (*WEIGHTS, *NO_NUMBERS[kind]),
        BORN: days,
        SEEN: times,
        # The years for which the clocks of a zone are defined.
        CHANGED: [f"{each}+00" for each in times if "1900" <= each[:4] < "2100"],
        SMOKES: ("true", "false"),
    }
    randomly = {
        SMALL: lambda: str(drawn.randrange(-128, 128)),
        LARGE: lambda: str(drawn.randrange(-(2**63), 2**63) >> drawn.randrange(60)),
        PLACE: lambda: str(drawn.randrange(120)),
        MONEY: lambda: f"{Decimal(drawn.randrange(-(10**15) + 1, 10**15)).scaleb(-3 - 3 * drawn.randrange(5)):.3f}",
        WEIGHT: lambda: repr(drawn.uniform(-20, 80) * 10.0 ** drawn.choice([0, 0, 0, 0, -101, 98, 300])),
        BORN: lambda: day_of(drawn),
        SEEN: lambda: f"{day_of(drawn)} {drawn.choice(TIMES)}",
        CHANGED: lambda: f"{day_of(drawn)} {drawn.randrange(24):02}:{drawn.randrange(60):02}:59+00",
        SMOKES: lambda: drawn.choice(["true", "false"]),
    }
    rows = []
    for place in range(max(number, *map(len, listed.values()))):
        person = str(drawn.randrange(-40, 200)) if drawn.random() < 0.95 else None
        row = {ID: person}
        for name, values in listed.items():
            kinds = drawn.random()
            row[name] = values[place] if place < len(values) else drawn.choice(values) if kinds < 0.4 else None
            if kinds > 0.45:
                row[name] = row[name] if place < len(values) else randomly[name]()
        rows.append(row)
    return [{name: row[name] for name in TYPES if name == ID or TYPES[name][_PLACES[kind]]} for row in rows]


def day_of(drawn):
    return f"{drawn.choice([1900, 1969, 2019, 2020, 2023])}-{drawn.randrange(1, 13):02}-{drawn.randrange(1, 29):02}"


_PLACES = {"duckdb": 0, "postgres": 1, "spark": 2}


def in_duckdb(rows, request):
    target = request.getfixturevalue("tmp_path") / f"{uuid.uuid4().hex}.parquet"
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        names = [f'"{name}"'.replace('"large "one""', '"large ""one"""') for name in rows[0]]
        connection.execute(f"CREATE TABLE given ({', '.join(f'{name} VARCHAR' for name in names)})")
        connection.executemany(
            f"INSERT INTO given VALUES ({', '.join('?' * len(names))})", [list(row.values()) for row in rows]
        )
        cast = [f"CAST({name} AS {TYPES[plain][0]}) AS {name}" for name, plain in zip(names, rows[0], strict=True)]
        connection.execute(f"COPY (SELECT {', '.join(cast)} FROM given) TO '{target}'")
    return open_table(str(target))


def in_postgres(rows, request):
    url, name = request.getfixturevalue("postgres_database"), f"given_{uuid.uuid4().hex[:8]}"
    identifier, sql = psycopg.sql.Identifier, psycopg.sql.SQL
    with psycopg.connect(url, autocommit=True) as connection:
        columns = sql(", ").join(sql("{} {}").format(identifier(each), sql(TYPES[each][1])) for each in rows[0])
        connection.execute(sql("CREATE TABLE {} ({})").format(identifier(name), columns))
        with connection.cursor().copy(sql("COPY {} FROM STDIN").format(identifier(name))) as copied:
            for row in rows:
                copied.write_row(list(row.values()))
    return open_table(f"{url}#{name}")


def in_spark(rows, request):
    session, name = request.getfixturevalue("spark"), f"given_{uuid.uuid4().hex}"
    texts = session.createDataFrame([tuple(row.values()) for row in rows], ", ".join(f"c{i} string" for i in range(9)))
    quoted = [f"CAST(c{place} AS {TYPES[each][2]}) AS `{each}`" for place, each in enumerate(rows[0])]
    texts.selectExpr(*quoted).createOrReplaceTempView(name)
    return SparkTable(session, name)


LOADED = {"duckdb": in_duckdb, "postgres": in_postgres, "spark": in_spark}
EACH_KIND = pytest.mark.parametrize(
    "kind",
    [
        "duckdb",
        pytest.param("postgres", marks=pytest.mark.postgres),
        pytest.param("spark", marks=pytest.mark.spark),
    ],
)
#: What has to be read by its type, so that the text alone does not pass the tests.
TAKEN = {
    "duckdb": {ID, SMALL, LARGE, PLACE, MONEY, WEIGHT, BORN, SEEN, SMOKES},
    "postgres": set(TYPES),
    "spark": {ID, SMALL, LARGE, PLACE, MONEY, WEIGHT, BORN, SMOKES},
}


def found_in(counts, names):
    """All that is counted: marginals, values and texts."""
    sets = [each for order in (1, 2) for each in combinations(names, order)]
    yield from zip(sets, counts.marginals(sets), strict=True)


@EACH_KIND
def test_values_of_every_type_count_as_their_texts_do_and_as_the_reference_says(kind, request):
    for case in range(2 if kind == "spark" else 4):
        rows = drawn_rows(random.Random(case), kind)
        table = LOADED[kind](rows, request)
        assert set(table.types) == TAKEN[kind]
        schema = declared(case, set(rows[0]))
        counts, reference = TableCounts(table, Schema.from_json(schema)), Reference(schema, rows)
        found = dict(found_in(counts, reference.names))
        for names, cells in found.items():
            there = {tuple(map(int, cell)): int(cells[tuple(cell)]) for cell in np.argwhere(cells)}
            assert there == dict(reference.cells(names)), (case, names)
        assert found[(WEIGHT,)].sum() > 100
        valued = [each["name"] for each in reference.columns if "missing_as" not in each or each["name"] == PLACE]
        tally, texts = counts.tally(tuple(valued)), counts.texts(PLACE)
        combined = zip(*(values.tolist() for values in tally.values), strict=True)
        assert dict(zip(combined, tally.counts.tolist(), strict=True)) == dict(reference.tally(valued)), case
        assert dict(zip(texts.texts.tolist(), texts.counts.tolist(), strict=True)) == dict(reference.texts(PLACE))
        table.types = {}
        as_text = dict(found_in(TableCounts(table, Schema.from_json(schema)), reference.names))
        for names, cells in found.items():
            np.testing.assert_array_equal(cells, as_text[names])


@EACH_KIND
def test_how_a_value_of_every_type_reads_as_declared_is_counted_as_the_reference_says(kind, request):
    """A missing code, no number and no date are different states, also where the type alone would show none."""
    rows = drawn_rows(random.Random(7), kind)
    schema = declared(0, set(rows[0]))
    states = {True: ["as declared", "outside", "missing"], False: ["as declared", "outside", "unreadable", "missing"]}
    schema["columns"] = [
        {
            "name": each["name"],
            "type": "categorical",
            "outside": "outside",
            "state_of": each,
            "categories": states[each["type"] == "categorical"],
        }
        for each in schema["columns"]
    ]
    counts, reference = TableCounts(LOADED[kind](rows, request), Schema.from_json(schema)), Reference(schema, rows)
    for name in reference.names:
        cells = counts.marginal((name,))
        assert {(place,): int(each) for place, each in enumerate(cells) if each} == dict(reference.cells([name])), name


@EACH_KIND
def test_formulas_read_values_of_every_type_as_their_texts(kind, request):
    made = {
        "sum": (f"[{MONEY}] + [{WEIGHT}] * 2", "number"),
        "text": (f"text([{PLACE}])", "categorical"),
        "year": (f"year([{BORN}])", "integer"),
        "has": (f"is_missing([{WEIGHT}])", "categorical"),
    }
    columns = {
        "sum": {"edges": [-100, 0, 1, 20, 100], "missing_as": "no number"},
        "text": {"categories": ["1", "01", "7", "65535"], "outside": "01", "missing_as": "7"},
        "year": {"edges": [1, 1582, 1970, 2020, 9999], "missing_as": "no number"},
        "has": {"categories": ["true", "false"]},
    }
    rows = drawn_rows(random.Random(9), kind)
    declared_columns = [each for each in declared(0, set(rows[0]))["columns"] if each["name"] != CHANGED]
    schema = {
        "version": 1,
        "columns": declared_columns
        + [
            {"name": name, "type": type_, **columns[name], "formula": formula}
            for name, (formula, type_) in made.items()
        ],
        "unit": UNITS[0],
    }
    table = LOADED[kind](rows, request)
    sets = [(name,) for name in made] + [("text", "year")]
    by_type = TableCounts(table, Schema.from_json(schema)).marginals(sets)
    table.types = {}
    by_text = TableCounts(table, Schema.from_json(schema)).marginals(sets)
    for names, one, other in zip(sets, by_type, by_text, strict=True):
        np.testing.assert_array_equal(one, other, err_msg=str(names))
        assert np.count_nonzero(one) > 1


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (of_duckdb([("a", "HUGEINT"), ("b", "UBIGINT"), ("c", "FLOAT"), ("d", "VARCHAR"), ("e", "DATE[]")]), {}),
        (of_duckdb([("a", "DECIMAL(16,2)"), ("b", "TIMESTAMP_NS"), ("c", "TIMESTAMP WITH TIME ZONE")]), {}),
        (of_duckdb([("a", "DECIMAL(15,2)")]), {"a": ColumnType.DECIMAL}),
        (of_spark([("a", "decimal(16,2)"), ("b", "timestamp"), ("c", "float"), ("d", "string")]), {}),
        (of_postgresql([("a", 1700, None, None), ("b", 1700, 60, 2), ("c", 1700, 3, -3), ("d", 700, None, None)]), {}),
        (of_postgresql([("a", 1700, 42, 2), ("b", 25, None, None)]), {"a": ColumnType.DECIMAL}),
    ],
)
def test_types_whose_texts_could_count_otherwise_are_read_as_text(found, expected):
    assert found == expected


def test_the_reference_reads_a_missing_code_of_a_number_however_it_is_written():
    assert read({"type": "number", "missing": ["-9"]}, "-9.0") is None
    assert read({"type": "categorical", "missing": ["1.0"]}, "1") == "1"
