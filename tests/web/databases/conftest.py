"""A database of somebody else's: a clinic with patients, and a role that may read them."""

from __future__ import annotations

import csv
import io
import os
import uuid
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
from django.core.management import CommandError, call_command
from django.urls import reverse

from releases import services
from releases.engine.accounting.filters import Policy
from releases.engine.domain.privacy import PrivacyUnit
from releases.management import scale
from releases.management.processes import free_address
from releases.models import Dataset
from releases.publication import files
from tests.web.conftest import COLUMNS, write_json
from tests.web.pages import words
from tests.web.steps import ask_for, protect

#: Needs escaping wherever it is written into a URL.
PASSWORD = "p@ss:w/o#r?d %41"
PATIENTS = [(f"p{number % 20}", 20 + number % 50, "female" if number % 3 else "male") for number in range(60)]


class Clinic:
    """A database that the site may read, and what its owner can do there."""

    def __init__(self, url: str, role: str) -> None:
        self.url, self.role = url, role
        where = urlsplit(url)
        self.address = f"postgresql://{role}@{where.hostname}:{where.port or 5432}{where.path}"

    def run(self, *statements: str) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement.replace("reader", self.role).encode())


@pytest.fixture
def clinic(postgres_database, settings):
    role = f"reader_{uuid.uuid4().hex[:8]}"
    made = Clinic(postgres_database, role)
    made.run(f"CREATE ROLE reader LOGIN PASSWORD '{PASSWORD}'")
    try:
        made.run(
            "CREATE SCHEMA ward",
            "CREATE TYPE ward.size AS ENUM ('small', 'large')",
            "CREATE TABLE ward.stays (age integer, size ward.size, emergency boolean)",
            "COMMENT ON COLUMN ward.stays.age IS 'at admission'",
            "INSERT INTO ward.stays VALUES (30, 'large', true), (40, 'large', null)",
            "CREATE TABLE ward.patients (person text, age integer, sex text, note text)",
            "CREATE TABLE ward.secrets (age integer)",
            'CREATE TABLE ward."odd.name" (age integer)',
            "CREATE TABLE ward.beds AS SELECT 'p' AS person, 0 AS age, 'male' AS sex",
            "CREATE VIEW ward.trap AS SELECT person, age, CASE WHEN 20 / age > 0 THEN sex END AS sex FROM ward.beds",
            "GRANT USAGE ON SCHEMA ward TO reader",
            'GRANT SELECT ON ward.patients, ward.stays, ward."odd.name", ward.trap TO reader',
            *(f"INSERT INTO ward.patients VALUES ('{person}', {age}, '{sex}', '')" for person, age, sex in PATIENTS),
        )
        settings.CONNECTIONS = {"clinic": made.address}
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("CONNECTION_CLINIC_PASSWORD", PASSWORD)
            yield made
    finally:
        made.run("DROP OWNED BY reader CASCADE", "DROP ROLE reader")


#: A database that counts otherwise: a function of its own is found before the one that is meant.
OTHERWISE = (
    "CREATE FUNCTION ward.chr(given integer) RETURNS text LANGUAGE sql AS 'SELECT ''x''::text'",
    "ALTER ROLE reader SET search_path = ward, pg_catalog",
)


@pytest.fixture
def register_of(alice):
    """Alice, or somebody else, makes a dataset of a table of a connection."""

    def made(table, *, connection, title="Patients", owner=alice):
        listed = services.connections.tables_of(services.connections.connection_named(connection))
        return services.connections.register_table(owner=owner, title=title, listed=listed, table=table)

    return made


@pytest.fixture
def register(clinic, register_of):
    return lambda table="ward.patients", **given: register_of(table, connection="clinic", **given)


@pytest.fixture
def prepare(alice, sofia):
    """What a release of a dataset wants: columns, protection and a budget."""

    def prepared(dataset, columns, *, unit=None, epsilon="100"):
        services.datasets.declare_universe(dataset=dataset, columns=columns, by=alice)
        protect(dataset, alice, unit=unit or PrivacyUnit())
        asked = ask_for(dataset, alice, epsilon, delta="0", policy=Policy.PURE)
        services.budgets.approve_request(request=asked, by=sofia)
        dataset.refresh_from_db()
        return dataset

    return prepared


@pytest.fixture
def queue(make_queued):
    """A release of how many of each sex there are, which waits for a worker."""

    def queued(dataset, epsilon="45"):
        return make_queued(dataset, {"marginal": ["sex"]}, epsilon=epsilon)

    return queued


@pytest.fixture
def release_of(queue):
    """What a worker makes of a release whose noise is next to nothing."""

    def made(dataset):
        release = queue(dataset)
        services.execution.execute_release(release_id=release.pk)
        release.refresh_from_db()
        return release

    return made


@pytest.fixture
def command(tmp_path, monkeypatch):
    """`manage.py release` of a table, without the noise."""
    monkeypatch.setattr("releases.management.commands.release.ensure_database", lambda: None)
    workload = {"version": 1, "queries": [{"marginal": ["sex"]}]}

    def give(table, columns=COLUMNS, neighbours="add_remove", **otherwise):
        schema = {"version": 1, "unit": {"kind": "row"}, "neighbours": neighbours, "columns": columns}
        given = {"mechanism": "laplace-queries", "epsilon": "40", "delta": "0", "budget": "100", "policy": "pure"}
        given |= {"schema": write_json(tmp_path / "s", schema), "workload": write_json(tmp_path / "w", workload)}
        out = tmp_path / uuid.uuid4().hex
        given |= {"out": out, "stdout": io.StringIO(), "stderr": io.StringIO(), **otherwise}
        call_command("release", table=table, **given)
        return counted_in(out)

    return give


@pytest.fixture
def refused_alike(command, as_, alice):
    """Why the command line refuses tables of a connection, by its name and by its address, in the words of its page."""

    def said(connection, table):
        found = set()
        for named in (connection, services.connections.connection_named(connection).address):
            with pytest.raises(CommandError) as refused:
                command(f"{named}#{table}")
            found.add(str(refused.value))
        (why,) = found
        assert why in words(as_(alice).get(reverse("database_table", args=[connection])))
        assert not Dataset.objects.exists()
        return why

    return said


def counted(release):
    """By sex, to a whole row: the noise moves a count by half a row with a chance below e**-22."""
    return counted_in(files.folder_of(release))


def counted_in(folder):
    with (folder / "answers.csv").open() as lines:
        return {row["sex"]: round(float(row["estimate"])) for row in csv.DictReader(lines)}


class SparkClinic:
    """A Spark server with the same patients, and what its owner can do there."""

    def __init__(self, port: int, folder: Path) -> None:
        self.port, self.folder, self.schema = port, folder, f"ward_{uuid.uuid4().hex[:8]}"
        self.address, self.patients = f"sc://127.0.0.1:{port}", f"{self.schema}.patients"

    def run(self, *statements: str) -> None:
        scale.run_in_spark(self.port, *(each.replace("ward.", f"{self.schema}.") for each in statements))


@pytest.fixture(scope="session")
def spark_server(tmp_path_factory):
    """The port of a Spark Connect server of this machine."""
    port = int(free_address(15_200 + 40 * int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:])).rpartition(":")[2])
    folder = tmp_path_factory.mktemp("spark")
    started = scale.start_spark(folder, port=port, log_folder=folder)
    yield port
    started.stop()


@pytest.fixture
def spark_clinic(spark_server, tmp_path):
    made = SparkClinic(spark_server, tmp_path / "warehouse")
    rows = ", ".join(str((person, age, sex, "")) for person, age, sex in PATIENTS)
    made.run(
        f"CREATE DATABASE {made.schema} LOCATION '{made.folder}'",
        "CREATE TABLE ward.patients (person STRING, age INT, sex STRING, note STRING) USING parquet",
        f"INSERT INTO ward.patients VALUES {rows}",
    )
    yield made
    made.run(f"DROP DATABASE {made.schema} CASCADE")
