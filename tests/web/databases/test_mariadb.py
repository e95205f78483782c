"""A table in MariaDB: registered, counted where it is, and refused where it may be more than read."""

from __future__ import annotations

import socket
import struct
import threading
from urllib.parse import urlsplit

import pymysql
import pytest
from django.core.management import CommandError

from releases import services
from releases.engine.errors import InvalidInput
from releases.engine.tables import connection
from releases.engine.tables.registry import kind_of
from releases.engine.tables.servers.mysql import MariaDB
from releases.models import EntryKind, LedgerEntry, RegisteredConnection, ReleaseState
from releases.services.connections import Unavailable
from releases.services.release_inputs import Refusal
from tests.web.conftest import COLUMNS
from tests.web.databases.conftest import PASSWORD, PATIENTS, counted

pytestmark = pytest.mark.mariadb


class Ward:
    """A database of MariaDB, and what its owner can do there."""

    def __init__(self, url):
        where = urlsplit(url)
        self.given = {"host": where.hostname, "port": where.port, "user": "root", "database": where.path[1:]}
        self.role = f"reader_{self.given['database'][-8:]}"
        self.address = f"mariadb://{self.role}@{where.netloc.rpartition('@')[2]}{where.path}?sslmode=disable"

    def run(self, *statements):
        with pymysql.connect(**self.given, charset="utf8mb4", autocommit=True, sql_mode="") as opened:
            for statement in statements:
                opened.cursor().execute(statement.replace("reader", self.role))


@pytest.fixture
def ward(mariadb_database, monkeypatch, settings):
    made = Ward(mariadb_database)
    rows = ", ".join(f"('{person}', {age}, '{sex}')" for person, age, sex in PATIENTS)
    made.run(
        "CREATE TABLE patients (person text, age int COMMENT 'at admission', sex varchar(9), scan blob) "
        "CHARACTER SET utf8mb4 ENGINE = InnoDB",
        f"INSERT INTO patients (person, age, sex) VALUES {rows}",
        "CREATE TABLE beds (age int) ENGINE = Aria",
        "CREATE VIEW seen AS SELECT age FROM beds",
        "CREATE TABLE secrets (age int)",
        "CREATE TABLE `odd.name` (age int)",
        f"CREATE USER reader IDENTIFIED BY '{PASSWORD}'",
        *(f"GRANT SELECT ON {each} TO reader" for each in ("patients", "beds", "seen", "`odd.name`")),
    )
    monkeypatch.setenv("CONNECTION_WARD_PASSWORD", PASSWORD)
    settings.CONNECTIONS = {}
    yield made
    made.run("DROP USER reader")


@pytest.fixture
def registered(ward, sofia):
    return services.connections.register_connection(name="ward", address=ward.address, by=sofia)


def listed():
    return services.connections.tables_of(services.connections.connection_named("ward"))


def test_a_table_is_registered_declared_and_released(registered, ward, register_of, prepare, queue):
    assert registered.registered.server_version.startswith("10.11")
    # Neither what one transaction does not read at one moment, nor what the role may not read, nor an odd name.
    assert listed().tables == ("patients",)
    with pytest.raises(InvalidInput, match="must be one of the tables"):
        register_of("beds", connection="ward")
    dataset = register_of("patients", connection="ward")
    # Bytes are no text.
    assert dataset.columns == ["person", "age", "sex"]
    assert dataset.catalogue["types"] == {"person": "text", "age": "int(11)", "sex": "varchar(9)"}
    assert [each["label"] for each in dataset.file_codebook] == ["at admission"]
    release = queue(prepare(dataset, COLUMNS))
    services.execution.execute_release(release_id=release.pk)
    release.refresh_from_db()
    assert release.status is ReleaseState.PUBLISHED
    assert counted(release)["male"] == sum(sex == "male" for *_, sex in PATIENTS)
    ward.run("ALTER TABLE patients MODIFY age varchar(3)")
    with pytest.raises(Refusal, match=r"another type now: varchar\(3\) and not int"):
        queue(dataset)


#: What makes a role more than one that reads, and what takes that away again.
RIGHTS = [
    ("GRANT ALL ON *.* TO reader", "REVOKE ALL ON *.* FROM reader"),
    ("GRANT INSERT ON patients TO reader", "REVOKE INSERT ON patients FROM reader"),
    ("GRANT UPDATE (age) ON secrets TO reader", "REVOKE UPDATE (age) ON secrets FROM reader"),
    ("GRANT CREATE ON secrets TO reader", "REVOKE CREATE ON secrets FROM reader"),
    ("GRANT SELECT ON patients TO reader WITH GRANT OPTION", "REVOKE GRANT OPTION ON patients FROM reader"),
    ("GRANT FILE ON *.* TO reader", "REVOKE FILE ON *.* FROM reader"),
    ("CREATE ROLE reader_writes; GRANT reader_writes TO reader", "DROP ROLE reader_writes"),
    ("GRANT INSERT ON patients TO PUBLIC", "REVOKE INSERT ON patients FROM PUBLIC"),
]


def test_a_role_that_may_do_more_than_read_is_refused(registered, ward):
    for right, undone in RIGHTS:
        ward.run(*right.split("; "))
        with pytest.raises(Unavailable, match="must be one that reads tables and can do nothing else"):
            pytest.fail(f"{right}: {listed()}")
        ward.run(undone)
    assert listed().tables == ("patients",)


def test_a_server_that_counts_otherwise_is_refused_before_anything_is_charged(
    registered, ward, register_of, prepare, queue, sofia, monkeypatch
):
    """Here by a collation to which upper and lower case are equal."""
    dataset = prepare(register_of("patients", connection="ward"), COLUMNS)
    monkeypatch.setattr(MariaDB, "collation", "utf8mb4_general_ci")
    monkeypatch.setenv("CONNECTION_OTHER_PASSWORD", PASSWORD)
    refused = [
        lambda: services.connections.register_connection(name="other", address=ward.address, by=sofia),
        lambda: queue(dataset),
    ]
    for each in refused:
        with pytest.raises((Unavailable, Refusal), match="counts texts, numbers, dates or persons otherwise"):
            each()
    assert not LedgerEntry.objects.filter(kind=EntryKind.CHARGE).exists()


def test_the_command_line_releases_from_a_table_by_name_or_address(registered, ward, command):
    assert command("ward#patients") == command(f"{ward.address}#patients")
    with pytest.raises(CommandError, match="must be one of the tables that ward lists"):
        command("ward#seen")


def test_the_command_line_says_of_a_role_that_writes_what_the_page_says(registered, ward, refused_alike):
    ward.run(RIGHTS[1][0])
    assert "The role by which this site signs in to ward" in refused_alike("ward", "patients")
    ward.run(RIGHTS[1][1], "ALTER USER reader ACCOUNT LOCK")
    assert "ward does not answer, or does not let this site sign in" in refused_alike("ward", "patients")


def test_a_session_sees_one_moment_and_cannot_write(ward, mariadb_database, monkeypatch):
    monkeypatch.setattr(connection, "_is_confined", True)
    opened = kind_of(mariadb_database).session(mariadb_database)
    asked = opened._connection.cursor()

    def rows():
        asked.execute("SELECT COUNT(*) FROM patients")
        return asked.fetchall()

    ward.run("INSERT INTO patients (person) VALUES ('new')")
    assert rows() == [(len(PATIENTS),)]
    with pytest.raises(pymysql.OperationalError, match="READ ONLY"):
        asked.execute("INSERT INTO patients (person) VALUES ('own')")


def test_nothing_is_said_to_a_server_whose_certificate_is_not_trusted(ward, mariadb_server, sofia):
    plain = ward.address.removesuffix("?sslmode=disable")
    for untrusted in (plain, f"{plain}?sslmode=require"):
        with pytest.raises(Unavailable, match="does not answer"):
            services.connections.register_connection(name="ward", address=untrusted, by=sofia)
    trusted = f"{plain}?sslrootcert={mariadb_server[1]}"
    services.connections.register_connection(name="ward", address=trusted, by=sofia)
    # The certificate is of one host, and this is another name of it.
    services.connections.remove_connection(connection=RegisteredConnection.objects.get(), by=sofia)
    elsewhere = trusted.replace("127.0.0.1", "localhost")
    with pytest.raises(Unavailable, match="does not answer"):
        services.connections.register_connection(name="ward", address=elsewhere, by=sofia)


def _packet(number, payload):
    return struct.pack("<I", len(payload))[:3] + bytes([number]) + payload


def _greeting(method):
    """As a server of MySQL greets: protocol 10, its version, a thread, a challenge, what it can do and its method."""
    can_do = 1 << 3 | 1 << 9 | 1 << 15 | 1 << 19
    start = b"\x0a8.0.0\0" + struct.pack("<I", 1) + b"c" * 8 + b"\0" + struct.pack("<H", can_do & 0xFFFF)
    return start + b"\x21\x02\0" + struct.pack("<H", can_do >> 16) + b"\x15" + b"\0" * 10 + b"c" * 12 + b"\0" + method


@pytest.mark.parametrize("method", [b"mysql_clear_password", b"sha256_password", b"caching_sha2_password", b"dialog"])
def test_a_password_is_given_to_no_server_that_an_administrator_registers_to_read_it(method, sofia, monkeypatch):
    monkeypatch.setenv("CONNECTION_WARD_PASSWORD", PASSWORD)
    sent = []

    def serve(listening):
        client, _ = listening.accept()
        with client:
            client.sendall(_packet(0, _greeting(method + b"\0")))
            sent.append(client.recv(4096))
            client.sendall(_packet(2, b"\xfe" + method + b"\0" + b"c" * 20 + b"\0"))
            sent.append(client.recv(4096))

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve, args=[listening], daemon=True)
        thread.start()
        address = f"mysql://reader@127.0.0.1:{listening.getsockname()[1]}/ward?sslmode=disable"
        with pytest.raises(Unavailable, match="does not answer"):
            services.connections.register_connection(name="ward", address=address, by=sofia)
        thread.join(timeout=20)
    # It was asked, and hung up: the one answer is to the challenge, by a method of which nothing can be read.
    assert b"reader" in sent[0]
    assert b"mysql_native_password" in sent[0]
    assert sent[1] == b""
    assert PASSWORD.encode() not in b"".join(sent)
