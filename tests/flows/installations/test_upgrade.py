"""A database that has the migrations 0001 to 0021, replaced since, goes on with 0022; an older one is refused.

`at_0021` holds such a database's tables, for SQLite and for PostgreSQL as its old migrations made them, and some rows.
"""

from __future__ import annotations

import json
import re
import shutil
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


#: What was uploaded twice at 0029.
PEOPLE = "person,age,sex\n" + "".join(f"p{i},{18 + i % 40},{'female' if i % 3 else 'male'}\n" for i in range(300))
AT_0029 = Path(__file__).parent / "at_0029"
#: Rows as Django dumped them at 0029, put in as the models were then.
LOAD = """
from django.core.management.color import no_style
from django.db import connection, transaction
from django.db.migrations.executor import MigrationExecutor
apps = MigrationExecutor(connection)._create_project_state(with_applied_migrations=True).apps
used, guards = {}, []
with transaction.atomic():
    # A budget begins with nothing spent, say the guards; here the rows come as they ended.
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SET LOCAL session_replication_role = replica")
        else:
            cursor.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
            guards = cursor.fetchall()
            for name, _ in guards:
                cursor.execute(f'DROP TRIGGER "{name}"')
    for each in json.loads(Path(DATA).read_text()):
        model = used.setdefault(each["model"], apps.get_model(each["model"]))
        made, many = model(pk=each["pk"]), {}
        for name, value in each["fields"].items():
            field = model._meta.get_field(name)
            if field.many_to_many:
                many[name] = value
            else:
                setattr(made, field.attname, field.target_field.to_python(value) if field.remote_field else
                        field.to_python(value))
        made.save_base(raw=True, force_insert=True)
        for name, value in many.items():
            getattr(made, name).set(value)
with connection.cursor() as cursor:
    for _, statement in guards:
        cursor.execute(statement)
    for statement in connection.ops.sequence_reset_sql(no_style(), list(used.values())):
        cursor.execute(statement)
"""
#: Every column that there was, but for those that the migrations are there to change.
KEPT = """
from django.apps import apps
from django.db import connection
answer = {}
for model, names in FIELDS.items():
    table = apps.get_model(model)._meta
    now = {field.name: field.column for field in table.concrete_fields}
    columns = [table.pk.column, *(now[name] if name in now else MOVED[name] for name in names)]
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {', '.join(columns)} FROM {table.db_table} ORDER BY {columns[0]}")
        answer[model] = [[str(bytes(value) if isinstance(value, memoryview) else value) for value in row]
                         for row in cursor.fetchall()]
"""
#: What the migrations are there to change.
CHANGED = {
    "releases.fingerprint": {"digest"},
    "releases.release": SAID_OTHERWISE,
    # Of the budget whose grant had been lowered after a charge.
    "releases.budget": {"epsilon", "delta", "cap_epsilon", "cap_delta", "cap_rho", "cap_rho_delta", "sequence", "head"},
}
GOES_ON = """
from releases.ledger import verification
from releases.models import Fingerprint, Upload
alice, sofia = people()
bob = User.objects.get(username="bob")
tables = {each.title: each for each in Dataset.objects.select_related("budget")}
answer = {
    "faults": [str(fault) for budget in Budget.objects.all() for fault in verification.verify(budget)],
    "one budget": len({tables[name].budget_id for name in ("Survey again", "Survey once more")}),
    "granted": sorted([each.epsilon, each.is_frozen] for each in Budget.objects.all()),
}
queued, waiting = Release.objects.get(title="Queued"), Upload.objects.get(title="Waits")
answer["runs"] = services.execution.execute_release(release_id=queued.pk)
answer["reads"] = services.uploads.execute_upload(upload_id=waiting.pk)
Path(SOURCE).write_text(TABLE)
again = services.datasets.ingest_dataset(owner=bob, title="A third time", source=Path(SOURCE))
answer["by itself"] = str(again.budget_id)
services.datasets.declare_universe(dataset=again, columns=tables["Survey again"].declared)
services.datasets.declare_protection(dataset=again, unit=PrivacyUnit(), neighbours=NeighbouringRelation.ADD_REMOVE)
services.budgets.request_budget(
    dataset=again, epsilon="3", delta="0.000001", policy=Policy.ZCDP, reason="", by=bob)
services.fingerprints.take_fingerprints()
again.refresh_from_db()
answer["recognised"] = sorted([each.kind,
    each.dataset.title] for each in services.recognition.recognised(again.budget, by=sofia))
answer["states"] = sorted([each.title, each.state] for each in Release.objects.exclude(title=""))
answer["charges"] = LedgerEntry.objects.filter(kind="charge").count()
"""


def test_an_installation_at_0029_is_upgraded_and_goes_on(installation, tmp_path):
    """A release, a queued one, two uploads of the same rows in one budget, and a grant that was lowered."""
    stack, _ = installation
    for name in ("releases", "tables"):
        shutil.copytree(AT_0029 / name, tmp_path / "var" / name)
    shutil.copy(AT_0029 / "digest_key", tmp_path / "var")
    shutil.copytree(AT_0029 / "marks", tmp_path / "var-marks")
    done = stack.manage("migrate", "releases", "0029_workloads", "--verbosity", "0")
    assert done.returncode == 0, done.stderr
    for app in ("auth", "contenttypes"):
        assert stack.manage("migrate", app, "--verbosity", "0").returncode == 0
    dumped = json.loads((AT_0029 / "data.json").read_text())
    stack.run(LOAD.replace("DATA", repr(str(AT_0029 / "data.json"))))
    fields = {
        each["model"]: sorted(each["fields"].keys() - CHANGED.get(each["model"], set()))
        for each in dumped
        if each["model"].startswith("releases.") and each["model"] != "releases.relative"
    }
    read = KEPT.replace("FIELDS", repr(fields))
    before = stack.run(read.replace("MOVED", repr({column: column for column in MOVED})))
    done = stack.manage("migrate")
    assert done.returncode == 0, done.stderr
    after = stack.run(read.replace("MOVED", repr(MOVED)))
    # A budget that is raised has one more entry and one more event.
    assert {model: rows[: len(before[model])] for model, rows in after.items()} == before
    assert stack.run(GOES_ON.replace("TABLE", repr(PEOPLE)).replace("SOURCE", repr(str(tmp_path / "people.csv")))) == {
        "faults": [],
        "one budget": 1,
        # The lowered grant is raised to what was promised, and stays frozen.
        "granted": [["10", True], ["3", False]],
        "runs": True,
        "reads": True,
        # What the old version joined stays so; no later upload joins by itself, but a reviewer is shown it.
        "by itself": "None",
        "recognised": [["same", "Survey"], ["same", "Survey again"], ["same", "Survey once more"]],
        "states": [
            ["Published", "published"],
            ["Queued", "published"],
            ["Release 1", "published"],
            ["Release 3", "draft"],
        ],
        "charges": 3,
    }
    # There is no survey here that could be changed.
    assert [each for each in stack.run(FORBIDDEN) if "survey" not in each] == []
    audited = stack.manage("audit")
    assert audited.returncode == 0, audited.stdout + audited.stderr
