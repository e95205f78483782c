"""One contract for every database: the same dirty tables, and the counts of a reference in plain Python."""

from __future__ import annotations

import random
import uuid
from datetime import date
from decimal import Decimal
from itertools import combinations
from urllib.parse import urlsplit

import duckdb
import numpy as np
import psycopg
import pyarrow as pa
import pymysql
import pytest

from releases.engine.domain.attribute import Attribute
from releases.engine.domain.schema import Schema
from releases.engine.tables.query import TableCounts, open_table
from releases.engine.tables.sources import SparkSession, named_in_spark
from releases.engine.tables.typed import of_spark
from tests.engine.tables.reference import Reference, code, state

#: Names that a careless statement would break on, or that our own statements use.
AGE, WAGE, SEX, TOWN, CODE, ID, TABLE = (
    *("Text_1", 'it\'s "the" `wage` %s', "sex\\n", "Straße", "c.o.d.e", "$1 id", "unit_id"),
)
NO_NUMBERS = (
    *("", " ", "nan", "inf", "Infinity", "abc", "0x10", "1_000", "--1", "+-2", ".", "+", "e5", "1e", "1e+", "1e100"),
    *("1.5.2", "1,5", "1 0", "٣", "１２", "1\u2028", "1\u2029", "1\u0085", "\u00a01", "1\u00a0", "\ufeff1", "1\u200b"),
    *("9" * 41, "." + "1" * 41, "-.", "1e0x", "true", "²", "½", "1d", "1f", "1L", "1e-100", "1E+999", "1\n2"),
    *("1\0", "\x001", "\u20031", "1\u3000", "1\x1c", "1\x1f", "\x851"),
)
NUMBERS = (
    *("0", "-0", "-0.0", "+40", "5.", "+.5e1", ".5", "00012", "0e99", "1e99", "-1e99", "1E-99", "4e1", "9" * 40),
    *("9007199254740993", "-9007199254740993", "9223372036854775807", "9223372036854775808", "1e19", "-1e19"),
    *("9007199254740991", "9007199254740992", "-9007199254740994", "1e16", "-1e16", "18446744073709551616"),
    *("0.1", "0.30000000000000004", "10.499999999999999", "10.5", "99.995", "-0.005", "\t7\n", "\x0b8\x0c", " 9\r"),
    *("1" * 40 + "." + "2" * 40, "7." + "1" * 40, "." + "9" * 40, "-." + "0" * 39 + "1", "5e+01", "5e-01", "1E0"),
    *("-9", "-9.0", "-09", "-9e0", " -9.", "-90e-1", "-9.0000000000000001", "-9.1", "7e1", "70", ".3", "0.30", "30e-2"),
    *("2.5", "-2.5", "0.005", "0.015", "1.005", "49.999999999999999999", "50", "1e1", "1.0", "01"),
)
WORDS = (
    *("f", "m", " m ", "F", "v", "f v", "\x0bf\x0c", "\u00a0f", "Ünïcode", "U\u0308nïcode", "ﬁ", "ß", "SS", "İ", "i"),
    *("a'b", "a\\b", "\\n", "\\", 'a"b', "%s", "$1", "`", "a;--", "𝔘", "e\u0301", "é", "É", "", "  ", "\t", "other"),
    *("zz", "null", "NULL", "c7", "c07", "C7", " c64 ", "c64\u2029", "f\0", "\0", "\u3000f", "f\x1f", "f\u200b", None),
)
#: Ids of one table, whose number is put in: persons of other tables are others.
PEOPLE = (
    *("p{}", " p{}\t", "P{}", "{}", "{}.0", "0{}", "\u00a0{}", "é{}", "e\u0301{}", "", " ", None, "a'{}", "a\\{}"),
    *("ß{}", "ss{}", "p\x0b{}", "p{}\0", "{}p"),
)

AGES = (
    {"edges": [-50, 0, 1, 10, 50, 100]},
    {"edges": list(range(-9000, 9001, 4))},
    {"edges": [each for each in range(-60, 121) if each % 7]},
    {"edges": [-(2**53), -(2**53) + 1, 0, 2**53 - 1, 2**53]},
)
WAGES = (
    {"edges": [-10, 0, 0.1, 0.3, 10.5, 50, 100], "decimals": 2},
    {"edges": [0, 10.5, 80], "decimals": 1, "outside": "drop"},
    {"edges": [-(10**12), 0, 10**12], "decimals": 3},
)
SEXES = ["f", "m", "F", "a'b", "a\\b", "\\n", "%s", "ß"]
TOWNS = ["v", "Ünïcode", "é", "𝔘", "`", "\\", "$1", "other"]
CODES = [*(f"c{i}" for i in range(80)), "a\\b", "a'b", 'a"b', "é"]
#: Missing codes: one is an edge, some lie between edges, some are no numbers, and a statement might break on some.
MISSING = {
    AGE: ["-9", "+70.0", "nan", "it's \\", "-9.0", "1e99"],
    WAGE: ["0.3", "%s", "-1", "1.5.2"],
    SEX: ["null", "É", "f v", "\\", "it's", "1"],
    TOWN: ["f", "a'b", "e\u0301", "$1 `", "9"],
    CODE: ["C7", "zz", "$1", "\\n"],
}
UNITS = ({"kind": "row"}, *({"kind": "person", "id": ID, "max_rows": most} for most in (1, 2, 5)))


def declared(number, tables):
    """Each kind of column, what becomes of values outside, the unit and the relation: after each other."""
    columns = [
        {"name": AGE, "type": "integer", "outside": ["clamp", "drop"][number % 2], **_ages(number)},
        {"name": WAGE, "type": "number", **WAGES[number % 3]},
        {"name": SEX, "type": "categorical", "categories": SEXES},
        {"name": TOWN, "type": "categorical", "outside": "other", "categories": TOWNS},
        {"name": CODE, "type": "categorical", "outside": ["c7", "drop", "a\\b"][number % 3], "categories": CODES},
    ]
    if number % 2 == (number // 4) % 2:
        columns = [{**column, "missing": MISSING[column["name"]]} for column in columns]
    # By turns the rule of other values, another category, and left out where other values are not.
    apart = "no number"
    rules = {
        AGE: [None, apart, apart],
        WAGE: [apart, None, None, apart],
        SEX: [None, "a'b"],
        TOWN: [None, "v", "drop"],
        CODE: ["c3", "drop", None, "é"],
    }
    for column in columns:
        named = rules.get(column["name"], [None])
        rule = named[number % len(named)]
        if rule is not None:
            column["missing_as"] = rule
    # Declared as a column, so that what is counted shows the counts of each table.
    columns[number % 6 : number % 6] = [
        {"name": TABLE, "type": "categorical", "categories": [f"t{each}" for each in range(tables)]}
    ]
    return {
        "version": 1,
        "columns": columns,
        "unit": UNITS[number % 4],
        "neighbours": ["add_remove", "replace"][number // 2 % 2],
    }


def impossible(number):
    """Combinations that cannot occur, by turns left out of every count, counted as they are, and none."""
    if number % 3 == 2:
        return {}
    listed = [
        {SEX: ["f", "a'b"], TOWN: ["v", "é"]},
        {CODE: ["c7", "c3", "é"], SEX: ["m", "%s"], TOWN: ["other", "\\", "$1"]},
        *([{AGE: ["0", "1 to 9"], CODE: [f"c{each}" for each in range(40)]}] if AGES[0] is _ages(number) else []),
    ]
    return {"impossible": listed, **({"impossible_rows": "drop"} if number % 3 == 0 else {})}


def _ages(number):
    return AGES[(number + number // 4) % 4]


def written(drawn):
    """A number, or what looks like one."""
    kind = drawn.randrange(16)
    if kind == 0:
        return drawn.choice(NO_NUMBERS)
    if kind < 3:
        return drawn.choice(NUMBERS)
    if kind == 3:
        return str(drawn.randrange(-(10**30), 10**30))
    if kind == 4:
        return f"{drawn.uniform(-9, 9):.17f}"
    if kind == 5:
        return f"{drawn.uniform(0, 9):.3f}{drawn.choice('eE')}{drawn.choice(['', '+', '-'])}{drawn.randrange(99)}"
    if kind == 6:
        return drawn.choice([None, f" {drawn.randrange(-60, 120)}\t", f"{drawn.uniform(-60, 120)!r}"])
    return str(drawn.randrange(-9, 90)) if kind < 15 else f"{drawn.randrange(12000)}e-2"


def each_in_turn():
    """Rows of which all but one value are in order: each number, and each word, once in each column."""
    fine = {TABLE: "t0", ID: "", AGE: "5", WAGE: "5", SEX: "f", TOWN: "v", CODE: "c7"}
    tried = [(column, text) for column in (AGE, WAGE) for text in (*NO_NUMBERS, *NUMBERS)]
    tried += [(column, text) for column in (SEX, TOWN, CODE) for text in WORDS]
    return [{**fine, ID: f"{place} tried", column: text} for place, (column, text) in enumerate(tried)]


def dirty(drawn, tables):
    """The rows of many small tables, each of few persons; in the first also each value in turn."""
    rows = each_in_turn()
    for table in range(tables):
        people = drawn.sample(PEOPLE, 3)
        for _ in range(drawn.randrange(1, 16)):
            person = drawn.choice(people)
            rows.append(
                {
                    TABLE: f"t{table}",
                    ID: person if person is None else person.format(table),
                    AGE: written(drawn),
                    WAGE: written(drawn),
                    **{
                        name: drawn.choice(WORDS if drawn.random() < 0.25 else names)
                        for name, names in ((SEX, SEXES), (TOWN, TOWNS), (CODE, CODES))
                    },
                }
            )
    return rows


def without_nul(rows):
    return [{name: text and text.replace("\0", "\u2400") for name, text in row.items()} for row in rows]


#: As each database writes them: a column of text, and those of other types.
KINDS = {str: ("text", pa.string()), int: ("bigint", pa.int64()), float: ("float8", pa.float64())}
KINDS |= {bool: ("boolean", pa.bool_()), date: ("date", pa.date32()), Decimal: ("numeric", pa.decimal128(12, 3))}


def kinds_of(rows):
    return {name: next((type(row[name]) for row in rows if row[name] is not None), str) for name in rows[0]}


def columns_of(rows):
    return pa.table(
        {name: pa.array([row[name] for row in rows], KINDS[kind][1]) for name, kind in kinds_of(rows).items()}
    )


def in_duckdb(rows, request):
    target = request.getfixturevalue("tmp_path") / f"{uuid.uuid4().hex}.parquet"
    with duckdb.connect() as connection:
        connection.register("given", columns_of(rows))
        connection.execute(f"COPY (SELECT * FROM given) TO '{target}'")
    return open_table(str(target))


def in_postgres(rows, request):
    """In a database with settings of its own, texts in a collation to which upper and lower case, and letters with an
    accent and without, are equal.
    """
    url, name = request.getfixturevalue("postgres_database"), f'Table "{uuid.uuid4().hex[:8]}" \\'
    identifier, sql = psycopg.sql.Identifier, psycopg.sql.SQL
    with psycopg.connect(url, autocommit=True) as connection:
        database = identifier(url.rpartition("/")[2])
        settings = {"standard_conforming_strings": "off", "extra_float_digits": "-9", "DateStyle": "German"}
        for setting, value in {**settings, "TimeZone": "Asia/Tokyo"}.items():
            connection.execute(sql("ALTER DATABASE {} SET {} = {}").format(database, sql(setting), value))
        connection.execute(
            "CREATE COLLATION IF NOT EXISTS lax (provider = icu, locale = 'und-u-ks-level1', deterministic = false)"
        )
        columns = sql(", ").join(
            sql("{} {} {}").format(identifier(column), sql(KINDS[kind][0]), sql("COLLATE lax" if kind is str else ""))
            for column, kind in kinds_of(rows).items()
        )
        connection.execute(sql("CREATE TABLE {} ({})").format(identifier(name), columns))
        with connection.cursor().copy(sql("COPY {} FROM STDIN").format(identifier(name))) as copied:
            for row in rows:
                copied.write_row(list(row.values()))
    return open_table(f"{url}#{name}")


class SparkTable(SparkSession):
    """A table or view of a session in this process."""

    def __init__(self, session, name):
        super().__init__(session)
        self.relation = named_in_spark(name)
        described = session.table(self.dialect.sql(self.relation))
        self.columns = tuple(described.columns)
        self.types = of_spark(described.dtypes)


def in_spark(rows, request):
    """Texts in a collation to which upper and lower case are equal."""
    session, name = request.getfixturevalue("spark"), f"given_{uuid.uuid4().hex}"
    quoted = {"`" + column.replace("`", "``") + "`": kind for column, kind in kinds_of(rows).items()}
    selected = [f"{each} COLLATE UTF8_LCASE AS {each}" if kind is str else each for each, kind in quoted.items()]
    session.createDataFrame(columns_of(rows)).selectExpr(*selected).createOrReplaceTempView(name)
    return SparkTable(session, name)


def in_mariadb(rows, request):
    """Texts in a collation to which upper and lower case, letters with an accent and without, and spaces at the end are
    equal.
    """
    url, name = request.getfixturevalue("mariadb_database"), f'Table "{uuid.uuid4().hex[:8]}" \\'
    where = urlsplit(url)
    as_mariadb = {"text": "longtext CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci", "float8": "double"}
    as_mariadb |= {"numeric": "decimal(12, 3)"}
    quoted = {each: "`" + each.replace("`", "``") + "`" for each in (name, *rows[0])}
    columns = ", ".join(
        f"{quoted[column]} {as_mariadb.get(KINDS[kind][0], KINDS[kind][0])}" for column, kind in kinds_of(rows).items()
    )
    given = {"host": where.hostname, "port": where.port, "user": where.username, "database": where.path[1:]}
    with pymysql.connect(**given, charset="utf8mb4", autocommit=True, sql_mode="") as connection:
        connection.cursor().execute(f"CREATE TABLE {quoted[name]} ({columns})")
        places = ", ".join(["%s"] * len(rows[0]))
        connection.cursor().executemany(
            f"INSERT INTO {quoted[name]} VALUES ({places})", [list(row.values()) for row in rows]
        )
    return open_table(f"{url}#{name}")


#: How many declarations, and random tables for each: a statement of Spark takes its time whatever the table. A text of
#: PostgreSQL holds no NUL.
ENGINES = [
    pytest.param(in_duckdb, 12, 84, True, id="duckdb"),
    pytest.param(in_postgres, 12, 84, False, id="postgres", marks=pytest.mark.postgres),
    pytest.param(in_mariadb, 4, 250, True, id="mariadb", marks=pytest.mark.mariadb),
    pytest.param(in_spark, 4, 250, True, id="spark", marks=pytest.mark.spark),
]


@pytest.mark.parametrize(("load", "declarations", "tables", "holds_nul"), ENGINES)
def test_dirty_tables_count_as_the_reference_says(load, declarations, tables, holds_nul, request):
    """A thousand tables on each database."""
    for case in range(declarations):
        rows = dirty(random.Random(case), tables)
        if not holds_nul:
            rows = without_nul(rows)
        schema = declared(case, tables) | impossible(case)
        check(TableCounts(load(rows, request), Schema.from_json(schema)), Reference(schema, rows), case)


@pytest.mark.parametrize(("load", "declarations", "tables", "holds_nul"), ENGINES)
def test_tables_that_count_rows_of_their_own_count_them_as_the_reference_says(
    load, declarations, tables, holds_nul, request
):
    """A row without a bin in one column counts in the tables over the others, once a person's rows are bounded."""
    less = 0
    for case in range(0, declarations, declarations // 4):
        case += case // 4 % 4  # each unit
        rows = dirty(random.Random(case), tables)
        if not holds_nul:
            rows = without_nul(rows)
        schema = declared(case, tables) | {"rows_counted": "by own columns"}
        reference = Reference(schema, rows)
        check(TableCounts(load(rows, request), Schema.from_json(schema)), reference, case)
        less += len(reference.counted) - sum(reference.cells(reference.names).values())
    assert less > declarations * tables / 12


EACH_ENGINE = pytest.mark.parametrize(
    "load", [pytest.param(each.values[0], id=each.id, marks=each.marks) for each in ENGINES]
)


@EACH_ENGINE
def test_values_of_other_types_count_as_what_is_written_for_them(load, request):
    drawn = random.Random(1)
    typed = [
        {
            ID: drawn.choice([None, *range(40)]),
            AGE: drawn.choice([None, drawn.randrange(-60, 120), 2**62]),
            WAGE: drawn.choice([None, 0.1, 0.30000000000000004, 10.499999999999998, 1e-7, 1e16, 1e99, 1e100])
            if drawn.random() < 0.5
            else drawn.uniform(0, 80),
            SEX: drawn.choice([None, date(2020, 1, 31), date(1999, 12, 1), date(2020, 2, 1)]),
            TOWN: drawn.choice([None, True, False]),
            CODE: Decimal(drawn.randrange(-5000, 50_000)).scaleb(-3),
        }
        for _ in range(600)
    ]
    named = {"type": "categorical", "outside": "none"}
    schema = {
        "version": 1,
        "columns": [
            {"name": AGE, "type": "integer", **AGES[0]},
            {"name": WAGE, "type": "number", **WAGES[0]},
            {"name": SEX, **named, "categories": ["none", "2020-01-31", "1999-12-01"]},
            {"name": TOWN, **named, "categories": ["none", "true", "false", "1", "0"]},
            {"name": CODE, "type": "number", **WAGES[0]},
        ],
        "unit": UNITS[2],
        "neighbours": "add_remove",
    }
    # A truth of MariaDB is a whole number.
    writes = {type(None): lambda _: None, bool: lambda each: str(int(each) if load is in_mariadb else each).lower()}
    rows = [{name: writes.get(type(each), str)(each) for name, each in row.items()} for row in typed]
    counts, reference = TableCounts(load(typed, request), Schema.from_json(schema)), Reference(schema, rows)
    check(counts, reference, "typed", texts=(SEX, TOWN))


@EACH_ENGINE
@pytest.mark.parametrize("case", [0, 1], ids=["rows", "persons"])
def test_how_each_value_reads_as_declared_is_counted_as_the_reference_says(load, case, request):
    rows = without_nul(dirty(random.Random(case), 60))
    schema = declared(case, 60)
    schema["columns"] = [each if each["name"] == TABLE else of_states(each) for each in schema["columns"]]
    counts, reference = TableCounts(load(rows, request), Schema.from_json(schema)), Reference(schema, rows)
    check(counts, reference, case, texts=())
    assert {cell for name in (AGE, SEX, CODE) for (cell,) in reference.cells([name])} == {0, 1, 2, 3}


def test_a_state_leaves_a_row_out_where_the_reference_counts_no_row_that_reads_so():
    seen = set()
    rows = list(dirty(random.Random(5), 200))
    for case in range(4):
        for column in declared(case, 60)["columns"]:
            attribute = Attribute.from_json(column)
            for row in rows:
                value = row[column["name"]]
                found = state(column, value)
                assert attribute.drops(found) is (code(column, value) is None), (column, value)
                seen.add((attribute.is_numeric, found, attribute.drops(found)))
    assert {(False, "missing", True), (False, "missing", False), (True, "outside", False)} <= seen
    assert {(False, "outside", True), (False, "outside", False), (True, "unreadable", True)} <= seen


def of_states(column):
    states = ["as declared", "outside", *(["unreadable"] if "edges" in column else []), "missing"]
    named = {"name": column["name"], "type": "categorical", "categories": states, "outside": "outside"}
    return {**named, "state_of": column}


@EACH_ENGINE
def test_of_a_person_s_rows_that_differ_in_nothing_else_the_one_with_a_bin_is_kept(load, request):
    """A number outside is in order as the nearest one inside: only the number of the bin says which row is first."""
    pairs = [("80", "81"), ("81", "80"), ("0", "-1"), ("-1", "0")] * 5
    rows = [{ID: f"p{person}", AGE: age, SEX: "f"} for person, pair in enumerate(pairs) for age in pair]
    schema = {
        "version": 1,
        "columns": [
            {"name": AGE, "type": "integer", "edges": [0, 10, 80], "outside": "drop"},
            {"name": SEX, "type": "categorical", "categories": ["f", "m"]},
        ],
        "unit": UNITS[1],
        "neighbours": "add_remove",
        "rows_counted": "by own columns",
    }
    counts = TableCounts(load(rows, request), Schema.from_json(schema))
    assert [found.tolist() for found in counts.marginals([(AGE,), (SEX,)])] == [[10, 10], [20, 0]]


@pytest.mark.parametrize("load", [pytest.param(each.values[0], id=each.id, marks=each.marks) for each in ENGINES[1:]])
def test_nothing_but_grouped_counts_leaves_a_server(load, request, monkeypatch):
    """Of five hundred rows that are alike, one line for each table that is counted."""
    table, lines = load([{ID: f"p{row % 50}", AGE: "5", SEX: "f"} for row in range(500)], request), []
    batches = type(table).batches

    def recorded(*given):
        for batch in batches(*given):
            lines.append(len(batch[0]))
            yield batch

    monkeypatch.setattr(type(table), "batches", recorded)
    read = [
        {"name": AGE, "type": "integer", "edges": [0, 10, 80], "outside": "drop"},
        {"name": SEX, "type": "categorical", "categories": SEXES},
    ]
    made = [{"name": "rows", "type": "integer", "edges": [1, 5, 20], "formula": "count_per_person()"}]
    row, person = ({"unit": unit, "columns": read} for unit in UNITS[:2])
    for asked in (row, {**row, "rows_counted": "by own columns"}, person, {**person, "columns": made}):
        schema = {"version": 1, "neighbours": "add_remove", **asked}
        counts = TableCounts(table, Schema.from_json(schema))
        names = counts.universe.names
        counts.marginals([(name,) for name in names])
        counts.marginal(names)
        counts.tally(names)
        assert sum(lines) == len(names) + 2, schema
        if asked["columns"] is read:
            counts.texts(SEX)
            assert lines[-1] == 1
        lines.clear()


@EACH_ENGINE
def test_a_table_of_which_no_row_counts_ends_no_run(load, request):
    row = {TABLE: "t0", ID: " ", AGE: "1e100", WAGE: "nan", SEX: "x", TOWN: None, CODE: "f"}
    schema = declared(1, 1)
    counts = TableCounts(load([row], request), Schema.from_json(schema))
    assert [found.sum() for found in counts.marginals([(AGE,), (SEX, TOWN)])] == [0, 0]
    assert counts.tally((SEX,)).counts.tolist() == counts.texts(SEX).texts.tolist() == []


def check(counts, reference, case, *, texts=(SEX, TOWN, CODE)):
    names = reference.names
    sets = [each for order in (1, 2) for each in combinations(names[::-1], order)]
    sets += [each for each in combinations(names, 3) if TABLE in each and AGE not in each]
    tables = counts.marginals(sets)
    for one, found in zip(sets, tables, strict=True):
        assert found.dtype == np.int64
        cells = {tuple(int(place) for place in cell): int(found[tuple(cell)]) for cell in np.argwhere(found)}
        assert cells == dict(reference.cells(one)), (case, one)
    np.testing.assert_array_equal(counts.marginal(sets[-1]), tables[-1])
    valued = [each["name"] for each in reference.columns if each.get("missing_as") != "no number"]
    tally = counts.tally(tuple(valued))
    combined = zip(*(values.tolist() for values in tally.values), strict=True)
    assert dict(zip(combined, tally.counts.tolist(), strict=True)) == dict(reference.tally(valued)), case
    # Enough rows, of enough persons, that a rule would show.
    assert tally.counts.sum() > len(reference.rows) / 20
    for name in texts:
        found = counts.texts(name)
        assert len(set(found.texts.tolist())) == len(found.texts)
        told = dict(zip(found.texts.tolist(), found.counts.tolist(), strict=True))
        assert told == dict(reference.texts(name)), (case, name)
