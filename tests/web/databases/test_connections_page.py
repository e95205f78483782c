"""Connections that an administrator registers on the site, and removes."""

import os
import socket
import struct
import threading
from contextlib import contextmanager, suppress
from urllib.parse import quote, quote_plus

import pyarrow as pa
import pyarrow.parquet
import pytest
from django.urls import reverse
from django.utils.html import escape
from django.views.debug import ExceptionReporter

from releases import services
from releases.engine.tables.facts import UnreadableTable
from releases.ledger import decisions
from releases.models import Ending, EntryKind, LedgerEntry, NotAllowed, RegisteredConnection
from releases.services.connections import Unavailable
from releases.services.release_inputs import Refusal
from releases.storage.addresses import without_secrets
from releases.worker import runner
from tests.web.conftest import COLUMNS
from tests.web.databases.conftest import OTHERWISE, PASSWORD
from tests.web.pages import body, field_value, words

pytestmark = pytest.mark.postgres


@pytest.fixture
def unregistered(clinic, settings):
    """The clinic, of which the settings say nothing but the password."""
    settings.CONNECTIONS = {}
    return clinic


@pytest.fixture
def registered(unregistered, sofia):
    return services.connections.register_connection(name="clinic", address=unregistered.address, by=sofia).registered


@pytest.fixture
def send(as_, sofia):
    """What the page answers to a form."""
    return lambda name, address: as_(sofia).post(reverse("connections"), {"name": name, "address": address})


@pytest.fixture
def remove(as_, sofia):
    return lambda row: as_(sofia).post(reverse("remove_connection", args=[row.pk]), follow=True)


@pytest.fixture
def use(register_of, prepare):
    """A dataset of a table of a connection, with a budget."""
    return lambda connection="clinic", table="ward.patients": prepare(
        register_of(table, connection=connection), COLUMNS[1:]
    )


def tables():
    return services.connections.tables_of(services.connections.connection_named("clinic")).tables


@pytest.fixture
def share(tmp_path):
    folder = tmp_path / "share"
    folder.mkdir()
    pyarrow.parquet.write_table(pa.table({"sex": ["female", "male"]}), folder / "stays.parquet")
    return folder


def test_an_administrator_registers_a_database_and_a_curator_releases_from_it(
    unregistered, send, sofia, as_, use, queue, caplog
):
    assert send("clinic", unregistered.address).url == reverse("connections")
    row = RegisteredConnection.objects.get()
    assert (row.name, row.address, row.registered_by) == ("clinic", unregistered.address, sofia)
    release = queue(use())
    assert services.execution.execute_release(release_id=release.pk)
    assert PASSWORD not in body(as_(sofia).get(reverse("connections"))) + caplog.text


DB = "postgresql://reader@db/clinic"


def test_what_is_wrong_is_said_at_its_field_and_no_row_is_made(unregistered, send):
    """How an address may be written, and all that a role may be refused for, is tested with the settings'."""
    unregistered.run("CREATE TABLE ward.releases_ledgerentry (id integer)")
    unregistered.run("GRANT SELECT ON ward.releases_ledgerentry TO reader")
    (said,) = send("clinic", unregistered.address).context["form"].errors["address"]
    assert "holds the ledger of such a site" in said
    unregistered.run("DROP TABLE ward.releases_ledgerentry", *OTHERWISE)
    for name, address, wrong in (
        ("Clinic", "postgresql://reader:hush@db/clinic", {"name": "is no name", "address": "must have no password"}),
        ("clinic", "postgresql://reader@db/" + "c" * 500, {"address": "must have at most 500 characters"}),
        ("clinic", "postgresql://reader@127.0.0.1:1/clinic", {"address": "The database clinic does not answer"}),
        ("clinic", unregistered.address, {"address": "counts texts, numbers, dates or persons otherwise"}),
    ):
        page = send(name, address)
        assert page.status_code == 400
        errors = page.context["form"].errors
        assert errors.keys() == wrong.keys(), (name, address)
        assert all(wrong[field] in said for field, (said,) in errors.items()), errors
    assert not RegisteredConnection.objects.exists()


def test_a_password_in_an_address_is_refused_and_given_back_nowhere(send, caplog):
    for typed, kept in (
        ("postgresql://reader:hu@sh@db/clinic", DB),
        ("postgresql://reader:hu/sh@db/clinic?sslmode=require", f"{DB}?sslmode=require"),
        ("postgresql://reader:hu?sh@db/clinic", "postgresql://reader@"),
        (f"{DB}?sslmode=require&password=hush", f"{DB}?sslmode=require"),
        (f"{DB}?password=hu@sh", "postgresql://reader@"),
        ("reader:hush@db/clinic", "reader@db/clinic"),
    ):
        assert without_secrets(typed) == kept
        page = send("clinic", typed)
        assert page.status_code == 400
        assert field_value(page, "address") == kept
        for secret in ("hush", "hu@sh", "hu/sh", "hu?sh", "sh@"):
            assert secret not in body(page) + caplog.text, typed
    assert not RegisteredConnection.objects.exists()


def test_a_form_with_an_address_is_not_kept_when_the_session_has_ended(client, sofia):
    client.force_login(sofia)
    client.get("/")
    client.session.flush()
    address = reverse("connections")
    typed = {"name": "clinic", "address": "postgresql://reader:hush@db/clinic"}
    client.post(address, typed, headers={"referer": f"http://testserver{address}"})
    assert "unsent" not in client.session


def test_nobody_but_an_administrator_registers_or_removes(registered, alice, unregistered):
    with pytest.raises(NotAllowed, match="role administrator"):
        services.connections.register_connection(name="other", address=unregistered.address, by=alice)
    with pytest.raises(NotAllowed, match="role administrator"):
        services.connections.remove_connection(connection=registered, by=alice)
    assert [each.name for each in RegisteredConnection.objects.all()] == ["clinic"]


def test_a_password_is_read_from_the_first_place_that_has_one(registered, settings, tmp_path):
    variable, mounted = "CONNECTION_CLINIC_PASSWORD", tmp_path / "mounted"
    settings.SECRETS_DIR = str(tmp_path)
    clinic = services.connections.connection_named("clinic")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(variable, "")
        assert "%40" not in clinic.url
        (tmp_path / variable).write_text("of the folder\n")
        assert ":of%20the%20folder@" in clinic.url
        patch.setenv(variable, "of the variable")
        assert ":of%20the%20variable@" in clinic.url
        mounted.write_text("of the file\n")
        patch.setenv(f"{variable}_FILE", str(mounted))
        assert ":of%20the%20file@" in clinic.url


@contextmanager
def asks_for_the_plain_password():
    """A server that wants to read a password; yields its port and what it was sent."""
    sent = []

    def serve(listening):
        while True:
            try:
                client, _ = listening.accept()
            except OSError:
                return
            # The other end may hang up at any time.
            with client, suppress(ConnectionError):
                while data := client.recv(4096):
                    sent.append(data)
                    if data.startswith(b"p"):  # A message with a password: it has read what it wanted.
                        break
                    wants_encryption = len(data) == 8
                    client.sendall(b"N" if wants_encryption else b"R" + struct.pack("!ii", 8, 3))

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve, args=[listening], daemon=True)
        thread.start()
        yield listening.getsockname()[1], sent
        listening.shutdown(socket.SHUT_RDWR)
    thread.join(timeout=20)


def test_a_password_is_given_to_no_server_that_an_administrator_registers_to_read_it(send, settings):
    with pytest.MonkeyPatch.context() as patch, asks_for_the_plain_password() as (port, sent):
        patch.setenv("CONNECTION_WARD_PASSWORD", PASSWORD)
        address = f"postgresql://reader@127.0.0.1:{port}/ward?sslmode=disable"
        assert "does not answer" in words(send("ward", address))
        assert sent
        assert PASSWORD.encode() not in b"".join(sent)
        # One of the settings is the operator's own choice, so the server did ask.
        settings.CONNECTIONS = {"ward": address}
        with pytest.raises(Unavailable):
            services.connections.tables_of(services.connections.connection_named("ward"))
        assert PASSWORD.encode() in b"".join(sent)


def test_a_password_of_another_program_is_given_to_no_server(settings, tmp_path):
    """What libpq looks for by itself; variables with a password do not reach the process (`test_runner.py`)."""
    kept = tmp_path / "pgpass"
    kept.write_text("*:*:*:*:of another program")
    kept.chmod(0o600)
    with pytest.MonkeyPatch.context() as patch, asks_for_the_plain_password() as (port, sent):
        patch.setenv("PGPASSFILE", str(kept))
        settings.CONNECTIONS = {"ward": f"postgresql://reader@127.0.0.1:{port}/ward?sslmode=disable"}
        ward = services.connections.connection_named("ward")
        for asked in (
            lambda: services.connections.tables_of(ward),
            lambda: services.reading.columns_of_server(ward.location("ward.patients"), is_checked=True),
            lambda: services.reading.columns_of_server(ward.location("ward.patients"), is_checked=False),
        ):
            with pytest.raises((Unavailable, UnreadableTable)):
                asked()
        assert sent
        assert b"of another program" not in b"".join(sent)


def all_forms():
    return PASSWORD, quote(PASSWORD, safe=""), quote_plus(PASSWORD), escape(PASSWORD)


@pytest.mark.confined
@pytest.mark.parametrize("address", [DB, "mariadb://reader@db/clinic", "s3://reader@clinic/ward?endpoint=https://db"])
def test_a_page_about_an_error_shows_no_password(settings, monkeypatch, address):
    """Not where Django shows what every variable held, and not in what Python prints of values that hold it."""
    settings.DEBUG, settings.CONNECTIONS = True, {"ward": address}
    monkeypatch.setenv("CONNECTION_WARD_PASSWORD", PASSWORD)
    ward = services.connections.connection_named("ward")
    monkeypatch.setattr(runner, "_follow", lambda *_: 1 / 0)
    for asked in (
        lambda: services.connections.tables_of(ward),
        lambda: services.connections._columns_of(ward, "ward.patients", is_checked=True),
        lambda: services.reading.count(None, None, ward.location("ward.patients")),
    ):
        with pytest.raises(ZeroDivisionError) as raised:
            asked()
        shown = ExceptionReporter(None, raised.type, raised.value, raised.tb).get_traceback_html()
        assert "has_network" in shown
        assert not any(each in shown for each in all_forms())


def test_the_self_test_is_run_once_a_version_for_lists_and_always_before_a_charge(registered, unregistered, use, queue):
    dataset = use()
    unregistered.run(*OTHERWISE)
    assert "ward.patients" in tables()
    with pytest.raises(Refusal, match="clinic counts texts, numbers, dates or persons otherwise"):
        queue(dataset)
    for other in ({"server_version": "PostgreSQL 9.6"}, {"software": "dpweb of before"}, {"server_version": ""}):
        before = {name: getattr(registered, name) for name in other}
        RegisteredConnection.objects.update(**other)
        with pytest.raises(Unavailable, match="counts texts, numbers, dates or persons otherwise"):
            tables()
        RegisteredConnection.objects.update(**before)
    unregistered.run("ALTER ROLE reader RESET search_path")
    RegisteredConnection.objects.update(server_version="PostgreSQL 9.6", software="dpweb of before")
    tables()
    noted = RegisteredConnection.objects.get()
    assert (noted.server_version, noted.software) == (registered.server_version, registered.software)
    assert not LedgerEntry.objects.filter(kind=EntryKind.CHARGE).exists()


def test_a_removed_connection_is_read_no_more_charges_are_given_back_and_no_backup_brings_it_back(
    registered, use, queue, remove, until_it_ends, sofia, as_, alice
):
    dataset = use()
    queued = queue(dataset)
    remove(registered)
    with pytest.raises(Refusal, match="clinic is not among those that this site may read any more"):
        queue(dataset)
    assert until_it_ends(queued).ended_because == Ending.AWAY
    assert LedgerEntry.objects.filter(kind=EntryKind.RETURN).count() == 1
    assert as_(alice).get(reverse("database_table", args=["clinic"])).status_code == 404
    assert [(each.action, each.name) for each in decisions.after(0)] == [("remove connection", "clinic")]
    registered.save(force_insert=True)
    assert services.reapplying.make_again(decisions.after(0)) == []
    assert not RegisteredConnection.objects.exists()


def test_connections_of_the_settings_keep_their_names(clinic, sofia, send, settings):
    assert "is the name of a connection of the settings" in body(send("clinic", clinic.address))
    services.connections.register_connection(name="other", address=clinic.address, by=sofia)
    assert "is registered already" in words(send("other", clinic.address))
    settings.CONNECTIONS = {"other": "postgresql://reader@db.example.org/other"}
    assert [each.address for each in services.connections.connections()] == [settings.CONNECTIONS["other"]]
    # Of a faulty one the registered one does not take the place.
    settings.CONNECTIONS = {"other": "postgresql://db.example.org/other"}
    with pytest.raises(Unavailable):
        services.connections.connection_named("other")


def test_a_folder_is_registered_only_where_the_settings_allow_it(share, send, settings, tmp_path, use):
    assert settings.CONNECTABLE_FOLDERS == []
    assert "it has none" in words(send("share", f"file://{share}"))
    (tmp_path / "allowed").mkdir()
    os.symlink(share, tmp_path / "allowed" / "link")
    settings.CONNECTABLE_FOLDERS = [str(tmp_path / "allowed")]
    for outside in (share, tmp_path, tmp_path / "allowed" / "link", tmp_path / "allowed" / ".." / "share"):
        assert f"or below one; it has {tmp_path}/allowed" in words(send("share", f"file://{outside}"))
    assert not RegisteredConnection.objects.exists()
    os.symlink(share, tmp_path / "link")
    settings.CONNECTABLE_FOLDERS = [str(tmp_path / "link")]
    assert send("share", f"file://{share}").status_code == 302
    assert use("share", "stays.parquet").columns == ["sex"]


def test_a_folder_that_became_a_link_out_of_what_is_allowed_is_read_no_more(
    share, settings, sofia, use, queue, tmp_path
):
    settings.CONNECTABLE_FOLDERS = [str(tmp_path / "allowed")]
    (tmp_path / "allowed").mkdir()
    share.rename(tmp_path / "allowed" / "share")
    address = f"file://{tmp_path}/allowed/share"
    services.connections.register_connection(name="share", address=address, by=sofia)
    dataset = use("share", "stays.parquet")
    (tmp_path / "allowed" / "share").rename(share)
    os.symlink(share, tmp_path / "allowed" / "share")
    with pytest.raises(Refusal, match="not among those that this site may read any more"):
        queue(dataset)
