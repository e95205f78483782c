"""A database that has the migrations 0001 to 0021, replaced since, goes on with 0022; an older one is refused.

`at_0021` holds such a database's tables, for SQLite and for PostgreSQL as its old migrations made them, and some rows.
"""

import re
import sqlite3
from pathlib import Path

import pytest

from tests.stack import Stack

pytestmark = pytest.mark.slow

FILES = Path(__file__).parent / "at_0021"
#: What is read before and after: every column that there was, but for what another column says by now.
SAID_OTHERWISE = {"is_session"}
#: What a release held itself, and now lies in rows to which it points.
MOVED = {
    column: f"(SELECT content FROM releases_release{rows} WHERE id = stored_{rows}_id)"
    for column, rows in (("workload", "questions"), ("plan", "plan"), ("result", "result"))
}
ROWS = """
from django.db import connection
with connection.cursor() as cursor:
    answer = {}
    for table, columns in TABLES.items():
        cursor.execute(f"SELECT {', '.join(columns)} FROM {table} ORDER BY {columns[0]}")
        answer[table] = [[str(value) for value in row] for row in cursor.fetchall()]
"""
UPGRADED = """
from releases.ledger import verification
from releases.models import WorkloadVersion
budget = Budget.objects.get()
released = Release.objects.filter(workload_version__isnull=False)
answer = {
    "faults": [str(fault) for budget in Budget.objects.all() for fault in verification.verify(budget)],
    "sums": len(budget.spent_orders),
    "roles": sorted([str(each.person), each.role] for each in HeldRole.objects.all()),
    "kinds": sorted([each.title, each.kind.name] for each in Release.objects.all()),
    "asked alike": [len(released), WorkloadVersion.objects.count()],
    "reports": sorted(Release.objects.model._meta.apps.get_model("releases", "SurveyTally").objects
                      .values_list("number", flat=True)),
}
"""
#: Nothing that was guarded at 0021 can be changed.
FORBIDDEN = """
from django.db import DatabaseError, connection, transaction
answer = []
for statement in (
    "UPDATE releases_ledgerentry SET epsilon = 0",
    "DELETE FROM releases_auditevent",
    "UPDATE releases_survey SET epsilon = '2'",
    "UPDATE releases_surveytally SET number = number + 2",
    "UPDATE releases_budget SET spent_epsilon = 0",
):
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(statement)
        answer.append(statement)
    except DatabaseError:
        pass
"""


def read(stack, *, moved):
    """The rows by table."""
    tables = inserted()
    if moved:
        tables["releases_release"] = [MOVED.get(column, column) for column in tables["releases_release"]]
    return stack.run(ROWS.replace("TABLES", repr(tables)))


def inserted():
    """By table, the columns of the rows that are inserted; those of the third-party tables are not ours to compare."""
    found = re.findall(r"^INSERT INTO (releases_\w+) \((.*?)\)", (FILES / "rows.sql").read_text(), re.MULTILINE)
    return {table: [each for each in columns.split(", ") if each not in SAID_OTHERWISE] for table, columns in found}


def fill(stack, *, url, number=21):
    """Make the database as it was after so many of the old migrations; the tables are those of all 21."""
    done = stack.manage("migrate", "auth", "--verbosity", "0")
    assert done.returncode == 0, done.stderr
    vendor = "postgresql" if url else "sqlite"
    script = (FILES / f"{vendor}.sql").read_text() + (FILES / "rows.sql").read_text()
    script += f"DELETE FROM django_migrations WHERE app = 'releases' AND name >= '{number + 1:04}';"
    if url:
        psycopg = pytest.importorskip("psycopg")
        with psycopg.connect(url) as connection:
            connection.execute("SET TIME ZONE 'UTC'")
            connection.execute(script)
    else:
        database = sqlite3.connect(stack.folder / "var" / "db.sqlite3")
        database.executescript(script)
        database.close()


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def installation(request, tmp_path):
    url = "" if request.param == "sqlite" else request.getfixturevalue("postgres_database")
    stack = Stack(tmp_path, database_url=url)
    yield stack, url
    stack.stop()


def test_a_database_at_0021_is_upgraded_with_all_its_rows_and_guards(installation):
    stack, url = installation
    fill(stack, url=url)
    before = read(stack, moved=False)
    done = stack.manage("migrate")
    assert done.returncode == 0, done.stderr
    assert re.findall(r"Applying releases\.(\d{4})", done.stdout)[0] == "0022"
    assert read(stack, moved=True) == before
    assert len(before["releases_ledgerentry"]) == 5
    assert stack.run(UPGRADED) == {
        "faults": [],
        "sums": 41,
        "roles": [
            ["alice", "analyst"],
            ["alice", "curator"],
            ["sofia", "administrator"],
            ["sofia", "analyst"],
            ["sofia", "curator"],
            ["sofia", "reviewer"],
        ],
        "kinds": [["Live", "session"], *([f"Release {number}", "release"] for number in (1, 2, 3, 4))],
        "asked alike": [2, 1],
        "reports": [1, 2],
    }
    assert stack.run(FORBIDDEN) == []
    again = stack.manage("migrate")
    assert "No migrations to apply" in again.stdout


@pytest.mark.parametrize("number", [1, 14, 20])
def test_an_older_database_is_refused_and_stays_as_it_is(number, tmp_path):
    stack = Stack(tmp_path)
    try:
        fill(stack, url="", number=number)
        before = list(sqlite3.connect(tmp_path / "var" / "db.sqlite3").iterdump())
        done = stack.manage("migrate")
        assert done.returncode == 1
        assert "too old to be upgraded by this one. Nothing was changed" in done.stderr
        assert "releases.0021_upload_without_group" in done.stderr
        assert list(sqlite3.connect(tmp_path / "var" / "db.sqlite3").iterdump()) == before
    finally:
        stack.stop()
