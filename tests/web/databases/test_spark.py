"""Tables on a Spark server: the same way as those of PostgreSQL, and each run reads one moment of them."""

from __future__ import annotations

from contextlib import closing
from functools import cache

import pytest
from django.core.management import CommandError
from django.urls import reverse
from sqlglot import exp

from releases import checks, services
from releases.engine.domain.schema import Schema
from releases.engine.errors import InvalidInput
from releases.engine.tables import catalogue, connection, query
from releases.engine.tables.dialects import column
from releases.engine.tables.facts import UnreadableTable
from releases.engine.tables.query import TableCounts, open_table
from releases.engine.tables.servers import spark
from releases.models import (
    AuditAction,
    AuditEvent,
    Dataset,
    Ending,
    EntryKind,
    LedgerEntry,
    RegisteredConnection,
    ReleaseState,
)
from releases.services.connections import Unavailable
from releases.services.release_inputs import Refusal
from releases.storage.addresses import without_secrets
from tests.web.conftest import COLUMNS
from tests.web.databases.conftest import PASSWORD, PATIENTS, counted
from tests.web.pages import body

pytestmark = pytest.mark.spark

MALES = sum(sex == "male" for _, _, sex in PATIENTS)


@pytest.fixture
def send(as_, sofia):
    """What the page answers to a form."""

    def sent(address, *, name="lake", **more):
        return as_(sofia).post(reverse("connections"), {"name": name, "address": address, **more})

    return sent


@pytest.fixture
def lake(spark_clinic, sofia):
    """The server as a connection for which the self test has passed: it takes long, and is a test of its own."""
    version = catalogue_version(spark_clinic.address)
    return RegisteredConnection.objects.create(
        name="lake",
        address=spark_clinic.address,
        registered_by=sofia,
        reads_only=True,
        server_version=version,
        software=services.connections._SOFTWARE,
    )


@pytest.fixture
def use(register_of, prepare, spark_clinic):
    """A dataset of the patients, with a budget."""
    return lambda **given: prepare(register_of(spark_clinic.patients, connection="lake"), COLUMNS, **given)


@cache
def catalogue_version(address):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connection, "_is_confined", True)
        return catalogue.tables(address).version


@pytest.fixture
def tested(monkeypatch):
    """How often a server was asked for the self test, which it is not really."""
    asked = []
    monkeypatch.setattr(query, "refuse_unless_right", lambda server, counted: asked.append(server))
    return asked


@pytest.mark.confined
def test_a_spark_server_is_registered_and_a_worker_releases_from_it(
    spark_clinic, send, sofia, alice, as_, prepare, queue
):
    assert send(spark_clinic.address, reads_only="on").status_code == 302
    row = RegisteredConnection.objects.get()
    assert row.server_version.startswith("Spark 4")
    assert row.reads_only
    said = AuditEvent.objects.get(action=AuditAction.REGISTER_CONNECTION).detail
    assert said == f"{spark_clinic.address}, of which they have confirmed that it can only read"
    assert "confirmed that this site can only read" in body(as_(sofia).get(reverse("connections")))
    client, address = as_(alice), reverse("database_table", args=["lake"])
    offered = [value for value, _ in client.get(address).context["form"].fields["table"].choices]
    assert spark_clinic.patients in offered
    client.post(address, {"table": spark_clinic.patients, "title": "Patients"})
    dataset = Dataset.objects.get()
    assert dataset.columns == ["person", "age", "sex", "note"]
    assert dataset.catalogue["types"] == {"person": "string", "age": "int", "sex": "string", "note": "string"}
    release = queue(prepare(dataset, COLUMNS))
    assert services.execution.execute_release(release_id=release.pk)
    release.refresh_from_db()
    assert release.status is ReleaseState.PUBLISHED
    assert counted(release) == {"female": len(PATIENTS) - MALES, "male": MALES}
    assert release.result["receipt"]["source"] == {"database": "lake", "table": spark_clinic.patients}


def test_nobody_registers_a_server_that_cannot_say_what_it_lets_them_do_without_confirming_it(
    spark_clinic, send, tested, settings
):
    page = send(spark_clinic.address)
    assert page.status_code == 400
    assert "cannot be asked what this site may do there" in body(page)
    assert not RegisteredConnection.objects.exists()
    settings.CONNECTIONS = {"lake": spark_clinic.address}
    with pytest.raises(Unavailable, match="cannot be asked"):
        services.connections.tables_of(services.connections.connection_named("lake"))
    settings.CONNECTIONS_READ_ONLY = ["lake"]
    assert spark_clinic.patients in services.connections.tables_of(services.connections.connection_named("lake")).tables


def test_the_self_test_is_run_once_a_version_and_before_a_charge_where_it_was_not(lake, use, release_of, tested):
    dataset = use()
    assert release_of(dataset).status is ReleaseState.PUBLISHED
    assert not tested
    RegisteredConnection.objects.update(server_version="Spark 3")
    assert release_of(dataset).status is ReleaseState.PUBLISHED
    # Before the charge, before the run, and in the session that counts.
    assert len(tested) == 3
    for other in ({"server_version": "Spark 3"}, {"software": "dpweb of before"}):
        RegisteredConnection.objects.update(**other)
        for times in (1, 0):
            tested.clear()
            services.connections.tables_of(services.connections.connection_named("lake"))
            services.connections.opened(dataset, dataset.schema)
            assert len(tested) == times


def test_a_server_that_counts_otherwise_is_refused_before_the_charge(lake, use, release_of, monkeypatch):
    dataset = use()
    RegisteredConnection.objects.update(server_version="")

    def refused(server, counted):
        raise UnreadableTable("counts otherwise", field="server")

    monkeypatch.setattr(query, "refuse_unless_right", refused)
    with pytest.raises(Refusal, match=r"lake counts otherwise.*Nothing was charged"):
        release_of(dataset)
    assert not LedgerEntry.objects.filter(kind=EntryKind.CHARGE).exists()


def test_all_that_a_run_counts_is_of_one_moment(lake, use, release_of, spark_clinic, opens_tables):
    schema = {"version": 1, "unit": {"kind": "row"}, "neighbours": "add_remove", "columns": COLUMNS}
    dataset = use()
    location = services.connections.opened(dataset, dataset.schema, is_checked=True)
    table = open_table(location, names={"age", "sex"})
    try:
        counts = TableCounts(table, Schema.from_json(schema))
        before = counts.marginals([("sex",), ("age",)])
        spark_clinic.run("INSERT INTO ward.patients VALUES ('new', 30, 'male', '')")
        assert [each.tolist() for each in counts.marginals([("sex",), ("age",)])] == [each.tolist() for each in before]
        spark_clinic.run("DROP TABLE ward.patients")
        assert counts.histogram().sum() == len(PATIENTS)
    finally:
        table.close()


def test_a_run_is_not_disturbed_by_another_session_of_its_process(lake, use, spark_clinic, opens_tables):
    """Spark's program gives what was set aside to the thread's first session, even to one that is closed by then."""
    dataset = use()
    location = services.connections.opened(dataset, dataset.schema, is_checked=True)
    for is_closed in (False, True):
        with closing(spark.RemoteSession(spark_clinic.address)) as first:
            assert type(first._session).getActiveSession() is first._session
            if is_closed:
                first._session.client.close()
            with closing(open_table(location, names={"sex"})) as table:
                batches = list(table.batches(exp.select(column("sex")).from_(table.relation), []))
            assert sum(len(each) for (each,) in batches) == len(PATIENTS)
            assert is_closed or first.names()


def test_one_budget_spans_what_the_table_holds_at_different_times(lake, use, release_of, spark_clinic):
    dataset = use()
    before = release_of(dataset)
    spark_clinic.run("INSERT INTO ward.patients SELECT 'new', 30, 'male', '' FROM range(7)")
    after = release_of(dataset)
    assert [counted(each)["male"] for each in (before, after)] == [MALES, MALES + 7]
    spent = LedgerEntry.objects.filter(budget=dataset.budget, kind=EntryKind.CHARGE)
    assert sorted(spent.values_list("release", flat=True)) == sorted([before.pk, after.pk])


def test_a_view_and_a_table_that_could_be_read_at_several_moments_are_refused(lake, register_of, spark_clinic):
    spark_clinic.run(
        "CREATE VIEW ward.seen AS SELECT * FROM ward.patients", "CREATE TABLE ward.plain (sex STRING) USING csv"
    )
    listed = services.connections.tables_of(services.connections.connection_named("lake")).tables
    assert f"{spark_clinic.schema}.seen" not in listed
    with pytest.raises(Unavailable, match="several moments of that table in one run"):
        register_of(f"{spark_clinic.schema}.plain", connection="lake")
    with pytest.raises(InvalidInput):
        register_of(f"{spark_clinic.schema}.seen", connection="lake")
    assert not Dataset.objects.exists()


def test_a_table_that_became_a_view_or_was_declared_otherwise_is_refused_before_the_charge(
    lake, use, queue, release_of, spark_clinic, until_it_ends
):
    dataset = use()
    queued = queue(dataset)
    for statement, says in (
        ("CREATE VIEW ward.patients AS SELECT 'p' AS person, 1 AS age, 'male' AS sex", "several moments"),
        (
            "CREATE TABLE ward.patients (person STRING, age STRING, sex STRING) USING parquet",
            "another type now: string",
        ),
        ("CREATE TABLE ward.patients (person STRING, age INT) USING parquet", "has no column sex any more"),
    ):
        kind = "VIEW" if "AS SELECT" in statement else "TABLE"
        spark_clinic.run("DROP TABLE IF EXISTS ward.patients", statement)
        with pytest.raises(Refusal, match=f"{says}.*Nothing was charged"):
            release_of(dataset)
        spark_clinic.run(f"DROP {kind} ward.patients")
    assert LedgerEntry.objects.filter(kind=EntryKind.CHARGE).count() == 1
    ended = until_it_ends(queued)
    assert (ended.status, ended.ended_because) == (ReleaseState.FAILED, Ending.AWAY)
    assert LedgerEntry.objects.filter(kind=EntryKind.RETURN).count() == 1


def test_what_fails_once_rows_may_have_been_read_has_one_reason_and_keeps_the_charge(
    lake, use, queue, until_it_ends, spark_clinic, monkeypatch, caplog
):
    queued = queue(use())

    def lost(self):
        spark_clinic.run("SELECT raise_error('row of p7')")

    monkeypatch.setattr(spark.RemoteTable, "set_aside", lost)
    ended = until_it_ends(queued)
    assert (ended.status, ended.ended_because) == (ReleaseState.FAILED, "")
    assert not LedgerEntry.objects.filter(kind=EntryKind.RETURN).exists()
    assert "p7" not in caplog.text + ended.meaning


def test_the_command_line_releases_from_a_table_of_spark(lake, spark_clinic, command):
    counts = {"female": len(PATIENTS) - MALES, "male": MALES}
    assert command(f"{spark_clinic.address}#{spark_clinic.patients}") == counts
    assert command(f"{spark_clinic.address.replace('sc:', 'spark:')}#{spark_clinic.patients}") == counts
    assert Dataset.objects.get().budget.entries.filter(kind=EntryKind.CHARGE).count() == 2


def test_the_command_line_refuses_in_the_words_of_the_page(lake, spark_clinic, command, refused_alike, monkeypatch):
    with pytest.raises(CommandError, match="must be one of the tables that lake lists"):
        command(f"{spark_clinic.address}#ward.secrets")
    RegisteredConnection.objects.update(reads_only=False)
    assert "lake cannot be asked what this site may do there" in refused_alike("lake", spark_clinic.patients)
    RegisteredConnection.objects.update(reads_only=True, server_version="")

    def otherwise(server, counted):
        raise UnreadableTable("counts otherwise", field="server")

    monkeypatch.setattr(query, "refuse_unless_right", otherwise)
    assert "lake counts otherwise" in refused_alike("lake", spark_clinic.patients)
    monkeypatch.setattr(spark, "_RETRIES", 0)
    RegisteredConnection.objects.update(address="sc://127.0.0.1:1")
    assert "lake does not answer, or does not let this site sign in" in refused_alike("lake", spark_clinic.patients)


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("sc://lake.example.org?use_ssl=true", ""),
        ("sc://lake.example.org:443?use_ssl=true", ""),
        ("sc://reader@lake.example.org?use_ssl=true", ""),
        ("sc://127.0.0.1:15002", ""),
        ("sc://spark.internal", ""),
        ("sc://lake.example.org", "must end with ?use_ssl=true"),
        ("sc://reader@127.0.0.1", "must be sc://HOST:PORT?use_ssl=true"),
        ("sc://lake.example.org?use_ssl=false", "must be sc://HOST:PORT?use_ssl=true"),
        ("sc://lake.example.org/;use_ssl=true;token=hush", "must be sc://HOST:PORT?use_ssl=true"),
        ("sc://lake.example.org?use_ssl=true&token=hush", "must be sc://HOST:PORT?use_ssl=true"),
        ("sc://lake.example.org;token=hush?use_ssl=true", "must be sc://HOST:PORT?use_ssl=true"),
        ("sc://reader:hush@lake.example.org?use_ssl=true", "must have no password"),
    ],
)
def test_an_address_of_spark_is_encrypted_and_holds_no_token(settings, address, says):
    settings.CONNECTABLE_HTTP_HOSTS = ["spark.internal"]
    settings.CONNECTIONS = {"lake": address}
    found = [each.msg for each in checks.connections_are_named_without_passwords(None)]
    assert len(found) == bool(says)
    assert all(says in each and "hush" not in each for each in found)
    assert "hush" not in without_secrets(address)


def test_a_token_goes_by_tls_to_the_server_that_the_settings_name_and_to_no_other(settings, sofia, monkeypatch):
    monkeypatch.setenv("CONNECTION_LAKE_PASSWORD", PASSWORD)
    address = "sc://reader@lake.example.org:443?use_ssl=true"
    with pytest.raises(InvalidInput, match="only the settings may name it"):
        services.connections.register_connection(name="lake", address=address, by=sofia, reads_only=True)
    settings.CONNECTIONS = {"lake": address}
    named = services.connections.connection_named("lake")
    assert PASSWORD not in repr(named) + named.shown_address
    session = spark._signed_in(named.url)
    session.release_session_on_close = False
    builder = session.client._builder
    try:
        assert (builder.token, builder.userId, builder.use_ssl) == (PASSWORD, "reader", True)
        assert builder.endpoint == "lake.example.org:443"
    finally:
        session.stop()
    monkeypatch.delenv("CONNECTION_LAKE_PASSWORD")
    with pytest.raises(UnreadableTable, match="token that was not found"):
        spark._signed_in(services.connections.connection_named("lake").url)


def test_a_server_that_is_away_is_said_to_be_and_no_older_one_is_used(sofia, spark_clinic, monkeypatch):
    def register(address):
        return services.connections.register_connection(name="lake", address=address, by=sofia, reads_only=True)

    with pytest.raises(Unavailable, match="does not answer"):
        register("sc://127.0.0.1:1")
    monkeypatch.setattr(spark, "_FIRST_VERSION", 99)
    with pytest.raises(Unavailable, match="lake is of version 4"):
        register(spark_clinic.address)
