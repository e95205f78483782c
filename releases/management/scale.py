"""The sample survey in two databases of this machine, PostgreSQL and Spark, for `manage.py demo --scale`."""

from __future__ import annotations

import csv
import shutil
import socket
import time
import warnings
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from releases.engine.domain.columns import AttributeKind
from releases.engine.domain.schema import Schema
from releases.management.processes import Child

if TYPE_CHECKING:
    from psycopg import Connection

#: What the survey's table is called in both.
TABLE = "survey.people"
DATABASE = "dpweb_demo_survey"
#: Reached from this machine alone.
CLOSED = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.showConsoleProgress": "false",
}
#: For small tables: to compile a statement takes longer than to run it.
QUICK = {
    **CLOSED,
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.driver.memory": "1g",
}
_SECONDS = 120


class NotInstalled(Exception):
    """What the demo needs is not here. The text says what, and what to do."""


def refuse_without_spark() -> None:
    """
    Raises:
        NotInstalled: Java or pyspark is not installed.
    """
    if shutil.which("java") is None:
        raise NotInstalled("Spark needs Java, version 17 or later, which is not installed here.")
    if any(find_spec(name) is None for name in ("pyspark", "grpc", "grpc_status", "zstandard")):
        raise NotInstalled("Spark is not installed here: install dpweb[spark] into .venv.")


def start_spark(folder: Path, *, port: int, log_folder: Path, settings: Mapping[str, str] = QUICK) -> Child:
    """A Spark Connect server, which this machine alone reaches and which forgets its tables when it ends.

    Args:
        settings: what differs from Spark's own; with those of `CLOSED`.

    Raises:
        NotInstalled: as `refuse_without_spark`; or it does not start.
    """
    refuse_without_spark()
    home = _home_of_spark()
    folder.mkdir(parents=True, exist_ok=True)
    given = {
        **settings,
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.local.dir": str(folder / "scratch"),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": str(folder / "tables"),
    }
    command = [
        *(str(home / "bin" / "spark-submit"), "--master", "local[2]"),
        *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer"),
        *(part for name, value in given.items() for part in ("--conf", f"{name}={value}")),
        "spark-internal",
    ]
    started = Child("spark", command, log_folder=log_folder, environment={"SPARK_HOME": str(home)})
    deadline = time.monotonic() + _SECONDS
    while not _answers(port):
        if not started.is_alive() or time.monotonic() > deadline:
            started.kill()
            raise NotInstalled(f"Spark did not start; see {started.log}.")
        time.sleep(0.2)
    return started


def load_into_spark(source: Path, schema: Schema, *, folder: Path, port: int) -> str:
    """Put the survey into a server that has just started.

    Returns:
        The server's address.
    """
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    folder.mkdir(parents=True, exist_ok=True)
    types = {name: pa.int32() if is_whole else pa.string() for name, is_whole in _columns(source, schema).items()}
    read = pyarrow.csv.read_csv(source, convert_options=pyarrow.csv.ConvertOptions(column_types=types))
    pyarrow.parquet.write_table(read, folder / "people.parquet")
    run_in_spark(
        port, "CREATE DATABASE IF NOT EXISTS survey", f"CREATE TABLE {TABLE} USING parquet LOCATION '{folder}'"
    )
    return f"sc://127.0.0.1:{port}"


def run_in_spark(port: int, *statements: str) -> None:
    """As whoever owns the tables does it."""
    with warnings.catch_warnings():
        # About a version of pandas, which is not used.
        warnings.simplefilter("ignore")
        from pyspark.sql.connect.session import SparkSession

    session = SparkSession(f"sc://127.0.0.1:{port}/;user_id=owner")
    try:
        for statement in statements:
            session.sql(statement).collect()
    finally:
        session.stop()


def load_into_postgresql(source: Path, schema: Schema, *, server: str, password: str, database: str = DATABASE) -> str:
    """Put the survey into a database of its own, once, and give a role that reads it alone a password.

    Args:
        server: the URL of a database whose role may make databases and roles.
        database: the name of the one that is made; that of the role begins with it.

    Returns:
        The address by which the role reads, without the password.

    Raises:
        NotInstalled: there is no such server, or it lets this role make no database.
    """
    import psycopg

    where, role = urlsplit(server), role_of(database)
    try:
        with psycopg.connect(server, autocommit=True, connect_timeout=5) as owner:
            if not owner.execute("SELECT 1 FROM pg_database WHERE datname = %s", [database]).fetchone():
                owner.execute(f"CREATE DATABASE \"{database}\" ENCODING 'UTF8' TEMPLATE template0".encode())
            if not owner.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [role]).fetchone():
                owner.execute(f'CREATE ROLE "{role}" LOGIN'.encode())
            owner.execute(psycopg.sql.SQL("ALTER ROLE {} PASSWORD {}").format(psycopg.sql.Identifier(role), password))
        with psycopg.connect(where._replace(path=f"/{database}").geturl()) as owner:
            if owner.execute("SELECT to_regclass(%s)", [TABLE]).fetchone() == (None,):
                _fill(owner, role, source, _columns(source, schema))
    except psycopg.Error:
        raise NotInstalled(
            "PostgreSQL does not answer, or lets nobody make a database and a role there: name one with --postgres."
        ) from None
    return f"postgresql://{role}@{where.hostname}:{where.port or 5432}/{database}"


def role_of(database: str) -> str:
    return f"{database}_reader"


def _fill(owner: Connection[Any], role: str, source: Path, columns: Mapping[str, bool]) -> None:
    declared = ", ".join(f'"{name}" {"integer" if is_whole else "text"}' for name, is_whole in columns.items())
    for statement in (
        "REVOKE CREATE ON SCHEMA public FROM PUBLIC",
        "CREATE SCHEMA survey",
        f"CREATE TABLE {TABLE} ({declared})",
        f'GRANT USAGE ON SCHEMA survey TO "{role}"',
        f'GRANT SELECT ON {TABLE} TO "{role}"',
    ):
        owner.execute(statement.encode())
    with owner.cursor().copy(f"COPY {TABLE} FROM STDIN (FORMAT csv, HEADER)".encode()) as copied:
        copied.write(source.read_bytes())


def _columns(source: Path, schema: Schema) -> dict[str, bool]:
    """The columns of the file, and whether each holds whole numbers. What is not declared is text."""
    whole = {each.name for each in schema.universe.attributes if each.kind is AttributeKind.INTEGER}
    with source.open() as lines:
        return {name: name in whole for name in next(csv.reader(lines))}


def _home_of_spark() -> Path:
    found = find_spec("pyspark")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False
