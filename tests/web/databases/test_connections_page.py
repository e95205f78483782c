"""Connections that an administrator registers on the site, and removes."""

from __future__ import annotations

import json
import os
import re
import socket
import struct
import threading
import uuid
from contextlib import contextmanager, suppress
from functools import partial

import pyarrow as pa
import pyarrow.parquet
import pytest
from django.db import connection as site
from django.urls import reverse

from releases import checks, services
from releases.ledger import decisions
from releases.models import AuditEvent, Dataset, Ending, EntryKind, LedgerEntry, NotAllowed, RegisteredConnection
from releases.services.connections import Unavailable
from releases.services.release_inputs import Refusal
from releases.storage.addresses import without_secrets
from tests.web.conftest import COLUMNS
from tests.web.databases.conftest import OTHERWISE, PASSWORD
from tests.web.pages import body, field_value, words

pytestmark = [pytest.mark.django_db, pytest.mark.postgres]


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


# --- registered -------------------------------------------------------------------------------------------------------


def test_an_administrator_registers_a_database_and_a_curator_releases_from_it(
    unregistered, send, sofia, as_, alice, use, queue, caplog
):
    assert send("clinic", unregistered.address).url == reverse("connections")
    row = RegisteredConnection.objects.get()
    assert (row.name, row.address, row.registered_by) == ("clinic", unregistered.address, sofia)
    assert row.server_version.startswith("PostgreSQL ")
    assert re.search(r"dpweb \S+ \([0-9a-f]{16}\)", row.software)
    event = AuditEvent.objects.get(action="register connection")
    assert (event.actor, event.name, event.kind, event.detail) == (sofia, "clinic", "connection", unregistered.address)

    page = as_(sofia).get(reverse("connections"))
    assert reverse("database_table", args=["clinic"]) in as_(alice).get(reverse("databases")).url
    release = queue(use())
    assert services.execution.execute_release(release_id=release.pk)
    stored = [str(each) for model in (RegisteredConnection, AuditEvent) for each in model.objects.values()]
    assert all(PASSWORD not in each for each in (*stored, body(page), caplog.text))


DB = "postgresql://reader@db/clinic"


def test_what_is_wrong_is_said_at_its_field_and_what_was_typed_stays(send):
    """How an address may be written is tested where the settings' are checked."""
    for name, address, wrong in (
        ("Clinic", DB, {"name": "is no name"}),
        ("", DB, {"name": "nothing was typed"}),
        ("clinic", "", {"address": "nothing was typed"}),
        ("clinic", "postgresql://reader@one,two/clinic", {"address": "must name one host"}),
        ("clinic", f"{DB}?sslmode=require&host=two", {"address": "it has host"}),
        ("clinic", "postgresql://reader@db/" + "c" * 500, {"address": "must have at most 500 characters"}),
        ("clinic", "postgresql://reader@127.0.0.1:1/clinic", {"address": "The database clinic does not answer"}),
        ("Clinic", "postgresql://reader:hush@db/clinic", {"name": "is no name", "address": "must have no password"}),
    ):
        page = send(name, address)
        assert page.status_code == 400
        errors = page.context["form"].errors
        assert errors.keys() == wrong.keys(), (name, address)
        assert all(wrong[field] in said for field, (said,) in errors.items()), errors
        typed = address.replace(":hush", "").replace("&host=two", "")
        assert (field_value(page, "name"), field_value(page, "address")) == (name, typed)
    assert not RegisteredConnection.objects.exists()


def test_a_password_in_an_address_is_refused_and_given_back_nowhere(send, caplog):
    for typed, kept in (
        ("postgresql://reader:hush@db/clinic", DB),
        ("postgresql://reader:hu@sh@db/clinic", DB),
        ("postgresql://reader:hu/sh@db/clinic?sslmode=require", f"{DB}?sslmode=require"),
        ("postgresql://reader:hu?sh@db/clinic", "postgresql://reader@"),
        (f"{DB}?password=hush", DB),
        (f"{DB}?sslmode=require&password=hush", f"{DB}?sslmode=require"),
        (f"{DB}?password=hu@sh", "postgresql://reader@"),
        ("reader:hush@db/clinic", "reader@db/clinic"),
        ("file:///srv/a:b@c?d", "file:///srv/a:b@c?d"),
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


def test_no_row_is_made_of_a_database_that_may_not_be_read(unregistered, send):
    """All that a role may be refused for is tested with the settings' connections."""
    ledger = "CREATE TABLE ward.releases_ledgerentry (id integer)"
    for statements, undone, says in (
        (["ALTER ROLE reader SUPERUSER"], ["ALTER ROLE reader NOSUPERUSER"], "is a superuser"),
        (
            [ledger, "GRANT SELECT ON ward.releases_ledgerentry TO reader"],
            ["DROP TABLE ward.releases_ledgerentry"],
            "holds the ledger of such a site",
        ),
        (OTHERWISE, [], "counts texts, numbers, dates or persons otherwise"),
    ):
        unregistered.run(*statements)
        page = send("clinic", unregistered.address)
        assert page.status_code == 400
        assert says in words(page)
        assert not RegisteredConnection.objects.exists()
        unregistered.run(*undone)


def test_nobody_but_an_administrator_registers_or_removes(registered, alice, unregistered):
    with pytest.raises(NotAllowed, match="role administrator"):
        services.connections.register_connection(name="other", address=unregistered.address, by=alice)
    with pytest.raises(NotAllowed, match="role administrator"):
        services.connections.remove_connection(connection=registered, by=alice)
    assert [each.name for each in RegisteredConnection.objects.all()] == ["clinic"]


def test_no_lock_of_the_site_is_held_while_a_database_is_waited_for(unregistered, sofia, register_of, monkeypatch):
    """When it is registered, when its tables are listed and when one of them is."""
    held, outside = [], len(site.savepoint_ids)

    def noting(ask, *of, **more):
        held.append(len(site.savepoint_ids))
        return ask(*of, **more)

    for name in ("tables_of_server", "columns_of_server"):
        monkeypatch.setattr(services.reading, name, partial(noting, getattr(services.reading, name)))
    services.connections.register_connection(name="clinic", address=unregistered.address, by=sofia)
    register_of("ward.patients", connection="clinic")
    assert held == [outside] * 3


def test_a_program_registers_lists_uses_and_removes_a_connection(unregistered, client, sofia, alice):
    def call(user, method, path, sent=None):
        token = services.tokens.make_token(user=user, name="a script")
        given = {"data": json.dumps(sent), "content_type": "application/json"} if sent is not None else {}
        return getattr(client, method)(f"/api{path}", **given, headers={"authorization": f"Bearer {token}"})

    def register(address):
        return call(sofia, "post", "/connections", {"name": "clinic", "address": address})

    refused = register("postgresql://reader:hush@db/clinic")
    assert (refused.status_code, refused.json()["field"]) == (400, "address")
    assert "hush" not in body(refused)
    assert register("postgresql://reader@127.0.0.1:1/clinic").status_code == 409

    made = register(unregistered.address).json()
    assert (made["name"], made["address"], made["why_not"]) == ("clinic", unregistered.address, "")
    assert (made["password"], made["registered_by"]) == ("the variable CONNECTION_CLINIC_PASSWORD", "sofia")
    assert call(sofia, "get", "/connections").json() == [made]
    assert call(alice, "get", "/connections").json() == [{"name": "clinic", "is_folder": False}]
    assert call(alice, "get", "/connections/clinic/tables").json() == ["ward.patients", "ward.stays", "ward.trap"]
    used = call(alice, "post", "/connections/clinic/datasets", {"table": "ward.stays", "title": "Stays"})
    assert (used.status_code, used.json()["columns"]) == (201, ["age", "size", "emergency"])
    other = call(alice, "post", "/connections/clinic/datasets", {"table": "ward.secrets", "title": "Stays"})
    assert (other.status_code, Dataset.objects.get().pk) == (400, uuid.UUID(used.json()["id"]))

    assert call(sofia, "delete", "/connections/clinic").status_code == 204
    assert call(sofia, "delete", "/connections/clinic").status_code == 404
    assert call(alice, "get", "/connections/clinic/tables").status_code == 404
    assert PASSWORD not in str(made)


# --- its password -----------------------------------------------------------------------------------------------------


def test_the_page_names_where_a_password_is_read_and_says_when_it_is_missing(
    registered, as_, sofia, settings, tmp_path
):
    variable, mounted, folder = "CONNECTION_CLINIC_PASSWORD", tmp_path / "mounted", tmp_path / "secrets"
    folder.mkdir()
    settings.SECRETS_DIR = str(folder)
    clinic = services.connections.connection_named("clinic")

    def shown():
        return words(as_(sofia).get(reverse("connections")))

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(variable, "")
        looked = f"no password Looked for in the file that {variable}_FILE names, the variable {variable}, the file"
        assert looked in shown()
        assert "reader_" in clinic.url
        assert "%40" not in clinic.url
        (folder / variable).write_text("of the folder\n")
        assert f"from the file {folder}/{variable}" in shown()
        assert ":of%20the%20folder@" in clinic.url
        patch.setenv(variable, "of the variable")
        assert f"from the variable {variable}" in shown()
        assert ":of%20the%20variable@" in clinic.url
        mounted.write_text("of the file\n")
        patch.setenv(f"{variable}_FILE", str(mounted))
        assert f"from the file that {variable}_FILE names" in shown()
        assert ":of%20the%20file@" in clinic.url
        assert not any(secret in shown() for secret in ("of the folder", "of the variable", "of the file\n"))


def test_a_registration_that_fails_says_where_the_password_was_looked_for(send):
    assert "No password was found: this site looks in" in words(send("ward", "postgresql://reader@127.0.0.1:1/ward"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CONNECTION_WARD_PASSWORD", PASSWORD)
        page = send("ward", "postgresql://reader@127.0.0.1:1/ward")
    assert "The password was read from the variable CONNECTION_WARD_PASSWORD." in words(page)
    assert PASSWORD not in body(page)


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


# --- once a version ---------------------------------------------------------------------------------------------------


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


def test_a_table_is_listed_and_registered_with_one_self_test(clinic, as_, alice, monkeypatch):
    """Of the settings, of which no version is noted."""
    asked = []
    for name, given in (("tables_of_server", "checked"), ("columns_of_server", "is_checked")):
        really = getattr(services.reading, name)
        noted = partial(lambda ask, given, of, **more: asked.append(not more[given]) or ask(of, **more), really, given)
        monkeypatch.setattr(services.reading, name, noted)
    as_(alice).post(reverse("database_table", args=["clinic"]), {"table": "ward.stays", "title": "Stays"})
    assert Dataset.objects.get().table == "ward.stays"
    assert asked == [True, False]


# --- removed ----------------------------------------------------------------------------------------------------------


def test_a_removed_connection_is_read_no_more_and_charges_are_given_back(
    registered, use, queue, remove, until_it_ends, sofia, as_, alice
):
    dataset = use()
    queued = queue(dataset)
    remove(registered)
    assert not RegisteredConnection.objects.exists()
    event = AuditEvent.objects.get(action="remove connection")
    assert (event.actor, event.name, event.detail) == (sofia, "clinic", registered.address)
    with pytest.raises(Refusal, match="clinic is not among those that this site may read any more"):
        queue(dataset)
    assert until_it_ends(queued).ended_because == Ending.AWAY
    assert LedgerEntry.objects.filter(kind=EntryKind.RETURN).count() == 1
    assert as_(alice).get(reverse("database_table", args=["clinic"])).status_code == 404


def test_a_name_that_is_registered_for_another_server_is_not_read_for_its_old_datasets(
    registered, use, queue, remove, share, settings, sofia
):
    dataset = use()
    remove(registered)
    settings.CONNECTABLE_FOLDERS = [str(share)]
    services.connections.register_connection(name="clinic", address=f"file://{share}", by=sofia)
    with pytest.raises(Refusal, match="clinic is another database now"):
        queue(dataset)


def test_a_restored_backup_does_not_bring_a_removed_connection_back(registered, remove):
    remove(registered)
    assert [(each.action, each.name) for each in decisions.after(0)] == [("remove connection", "clinic")]
    registered.save(force_insert=True)
    assert services.reapplying.make_again(decisions.after(0)) == []
    assert not RegisteredConnection.objects.exists()


# --- beside those of the settings -------------------------------------------------------------------------------------


def test_connections_of_the_settings_are_listed_and_keep_their_names(clinic, as_, sofia, send, settings):
    page = as_(sofia).get(reverse("connections"))
    assert "from the settings" in words(page)
    assert "/remove/" not in body(page)
    assert "Name: &#x27;clinic&#x27; is the name of a connection of the settings" in body(
        send("clinic", clinic.address)
    )
    services.connections.register_connection(name="other", address=clinic.address, by=sofia)
    assert "is registered already" in words(send("other", clinic.address))
    settings.CONNECTIONS = {"other": "postgresql://reader@db.example.org/other"}
    assert [each.address for each in services.connections.connections()] == [settings.CONNECTIONS["other"]]
    assert "not used It has the name of a connection of the settings" in words(as_(sofia).get(reverse("connections")))
    # Of a faulty one the registered one does not take the place.
    settings.CONNECTIONS = {"other": "postgresql://db.example.org/other"}
    assert services.connections.connections() == []
    with pytest.raises(Unavailable):
        services.connections.connection_named("other")


# --- folders ----------------------------------------------------------------------------------------------------------


def test_a_folder_is_registered_only_where_the_settings_allow_it(share, send, settings, tmp_path, use):
    assert settings.CONNECTABLE_FOLDERS == []
    assert "it has none" in words(send("share", f"file://{share}"))
    os.symlink(share, tmp_path / "link")
    (tmp_path / "allowed").mkdir()
    os.symlink(share, tmp_path / "allowed" / "link")
    settings.CONNECTABLE_FOLDERS = [str(tmp_path / "allowed")]
    for outside in (share, tmp_path, tmp_path / "allowed" / "link", tmp_path / "allowed" / ".." / "share"):
        page = send("share", f"file://{outside}")
        assert f"or below one; it has {tmp_path}/allowed" in words(page)
    assert not RegisteredConnection.objects.exists()
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


def test_a_folder_that_the_settings_allow_begins_with_a_stroke(settings):
    settings.CONNECTABLE_FOLDERS = ["/srv/tables", "tables"]
    (found,) = checks.folders_are_absolute(None)
    assert (found.id, "'tables'" in found.msg) == ("releases.E022", True)
