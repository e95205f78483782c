"""What a server has to count right before a table of it may be counted."""

from __future__ import annotations

import psycopg
import pytest

from releases.engine.tables import self_test
from releases.engine.tables.facts import UnreadableTable
from releases.engine.tables.query import TableCounts, check_server, open_table
from tests.engine.tables.reference import Reference
from tests.engine.tables.reference_persons import as_text, made, people
from tests.engine.tables.test_contract import EACH_ENGINE

#: What another server could do otherwise: here by a function of the same name that it finds first.
OTHERWISE = {
    "trims another character": "chr(given integer) RETURNS text AS $$ SELECT pg_catalog.chr(given + 1) $$",
    "reads no capital E": (
        "is_like(given text, pattern text) RETURNS boolean AS $$ "
        "SELECT given OPERATOR(pg_catalog.!~) 'E' AND given OPERATOR(pg_catalog.~) pattern $$"
    ),
    "hashes otherwise": "sha256(given bytea) RETURNS bytea AS $$ SELECT pg_catalog.sha256(given || 'x'::bytea) $$",
    "rounds down otherwise": (
        "floor(given double precision) RETURNS double precision AS $$ SELECT pg_catalog.ceil(given) $$"
    ),
}


WORD, NUMBER, DAY = ("column", "word"), ("column", "number"), ("column", "day")
#: What is made of all rows of a person, as the reference has it.
OF_PERSONS = {
    "rows": ("count", None),
    "total": ("sum", NUMBER, -5, 40.5),
    "least": ("min", NUMBER),
    "some": ("any", ("=", WORD, ("quoted", "m"))),
    "usual": ("most_frequent", WORD),
    "last": ("last", WORD, "day"),
    "mean": ("formula", ("/", ("of all", "sum", NUMBER, -5, 40.5), ("of all", "count", NUMBER))),
    "apart": ("formula", ("days_between", ("of all", "min", DAY), ("of all", "max", DAY))),
    "text": ("formula", ("coalesce", ("of all", "most_frequent", WORD), ("of all", "first", WORD, "day"))),
}


def test_the_numbers_of_persons_that_a_server_has_to_find_are_those_of_the_reference():
    rows = [dict(zip(("person", "number", "word", "day"), each, strict=True)) for each in self_test.rows()]
    columns = {each["name"]: each for each in self_test.DECLARED}
    for column, known in zip(self_test.OF_PERSONS, self_test.KNOWN_PERSONS, strict=True):
        name, what = column["name"], OF_PERSONS[column["name"]]
        persons = [{name: as_text(made(what, own, column, columns))} for own in people(rows, "person").values()]
        cells = Reference({"columns": [column], "unit": {"kind": "row"}}, persons).cells([name])
        assert {(place,): number for place, number in enumerate(known) if number} == dict(cells), name


@EACH_ENGINE
def test_the_databases_that_are_supported_pass(load, request):
    self_test.refuse_unless_right(load([{"any": "x"}], request), TableCounts)


def test_the_counts_of_tables_with_own_rows_are_those_of_the_reference():
    names = ("person", "number", "word", "day")
    declared = {"columns": self_test.DECLARED, "unit": self_test.UNITS["person"], "rows_counted": "by own columns"}
    rows = [dict(zip(names, row, strict=True)) for row in self_test.rows()]
    reference = Reference(declared, rows)
    for name, known in zip(names[1:], self_test.KNOWN_OWN_ROWS, strict=True):
        assert {(place,): count for place, count in enumerate(known) if count} == dict(reference.cells([name]))


@pytest.mark.postgres
@pytest.mark.parametrize("function", OTHERWISE.values(), ids=OTHERWISE)
def test_a_server_that_counts_otherwise_is_refused_whatever_its_version_says(postgres_database, function):
    named = psycopg.sql.Identifier(postgres_database.rpartition("/")[2])
    with psycopg.connect(postgres_database, autocommit=True) as connection:
        connection.execute("CREATE TABLE t (a text)")
        connection.execute("CREATE SCHEMA own")
        open_table(f"{postgres_database}#public.t")
        check_server(postgres_database)
        connection.execute(f"CREATE FUNCTION own.{function} LANGUAGE sql IMMUTABLE")
        if "is_like" in function:
            connection.execute("CREATE OPERATOR own.~ (LEFTARG = text, RIGHTARG = text, FUNCTION = own.is_like)")
        path = psycopg.sql.SQL("ALTER DATABASE {} SET search_path = own, pg_catalog, public")
        connection.execute(path.format(named))
    for refused in (lambda: open_table(f"{postgres_database}#public.t"), lambda: check_server(postgres_database)):
        with pytest.raises(UnreadableTable, match="otherwise than this site defines"):
            refused()
