"""A database of somebody else's: a clinic with patients, and a role that may read them."""

from __future__ import annotations

import uuid
from urllib.parse import urlsplit

import psycopg
import pytest

from releases import services

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
        )
        with psycopg.connect(postgres_database, autocommit=True) as connection:
            connection.cursor().executemany(
                "INSERT INTO ward.patients VALUES (%s, %s, %s, '')", [list(each) for each in PATIENTS]
            )
        settings.CONNECTIONS = {"clinic": made.address}
        settings.CONNECTION_PASSWORDS = {"clinic": PASSWORD}
        yield made
    finally:
        made.run("DROP OWNED BY reader CASCADE", "DROP ROLE reader")


@pytest.fixture
def register(clinic, alice):
    """Alice makes a dataset of a table of the clinic."""

    def made(table="ward.patients", *, title="Patients", owner=None):
        connection = services.connections.connection_named("clinic")
        return services.connections.register_table(
            owner=owner or alice, title=title, connection=connection, table=table
        )

    return made
