"""Reading tables under measurement: as releases and uploads do it, in the confined process, beside statements that a
person would write.

What is written by hand runs in a program of its own, which nothing confines.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

from benchmarks.tables import BenchRow, BenchTable
from releases import services
from releases.engine.domain.privacy import PureDP
from releases.engine.domain.schema import Schema
from releases.engine.mechanisms.base import Plan, mechanism
from releases.engine.tables.servers.spark import with_checked
from releases.engine.workload.queries import all_marginals
from releases.management import scale
from releases.management.processes import free_address
from releases.worker import runner

#: Rows, columns, and values of each column; of the triples, the survey's pairs, the file taken in and the large one.
TRIPLES, PAIRS, TAKEN_IN, LARGE = (1_000_000, 8), (170_000, 35), (10_000_000, 8), (100_000_000, 8)
VALUES = 10
#: Seconds that pairs and large file may take by the clock of a machine with two cores.
PAIRS_SECONDS, LARGE_SECONDS = 3, 600
REPEATS = 3
_TIMED = "import time\nstart = time.monotonic()\n{}\nprint(time.monotonic() - start)"
_DUCKDB = "import duckdb\nwith duckdb.connect() as made:\n    {}"
#: By the type of all columns: the table, and a number of it by hand.
_ON_POSTGRESQL = {
    "TEXT": ("texts", "CASE WHEN trim({0}) ~ '^[+-]?[0-9]{{1,40}}$' THEN trim({0})::double precision END"),
    "BIGINT": ("numbers", "{}::double precision"),
}
_SPARK = (
    "import warnings\nwarnings.simplefilter('ignore')\nfrom pyspark.sql.connect.session import SparkSession\n"
    "made = SparkSession({url!r})\ntry:\n    made.sql({query!r}).collect()\nfinally:\n    made.stop()"
)
_TABLE_OF_SPARK = "bench.texts"
_POSTGRESQL = "import psycopg\nwith psycopg.connect({url!r}) as made:\n    {code}"


def tables(server: str) -> Iterator[BenchTable]:
    """
    Args:
        server: the URL of a PostgreSQL database from which others may be made.
    """
    # As a worker does before it takes anything.
    runner.warm(compiled=True)
    with TemporaryDirectory() as folder:
        yield BenchTable(
            title="Reading tables",
            says=f"Columns of {VALUES} values. Releases of laplace-queries and uploads as a worker makes them, in the "
            f"confined process, beside one statement by hand with the same casts. Seconds by the clock, the median of "
            f"{REPEATS}, of Spark, the upload and the large table the only ones.",
            heads=("what", "ours", "by hand", "ratio", "target"),
            rows=list(_rows(Path(folder), server)),
        )


def _rows(folder: Path, server: str) -> Iterator[BenchRow]:
    path = folder / "rows.parquet"
    _write(path, TRIPLES)
    name = "all triples of {:,} rows and {} columns".format(*TRIPLES)
    grouped = _grouped("TRY_CAST(NULLIF(trim({}), '') AS DOUBLE)", f"read_parquet('{path}')")
    by_hand = _DUCKDB.format(f"made.execute({grouped!r}).fetchall()")
    yield _beside(f"{name}, Parquet", _release(str(path), TRIPLES[1], 3), by_hand, most=3)
    with _table_on(server) as url:
        if url is None:
            yield BenchRow(cells=("PostgreSQL does not answer", "", "", "", ""))
        else:
            for kind, (table, number) in _ON_POSTGRESQL.items():
                by_hand = _POSTGRESQL.format(url=url, code=f"made.execute({_grouped(number, table)!r}).fetchall()")
                ours = _release(f"{url}#{table}", TRIPLES[1], 3)
                yield _beside(f"{name}, PostgreSQL, {kind.lower()}", ours, by_hand, most=2)
    with _table_on_spark(folder, path) as url:
        if url is None:
            yield BenchRow(cells=("Spark is not installed", "", "", "", ""))
        else:
            grouped = _grouped("TRY_CAST(NULLIF(trim({}), '') AS DOUBLE)", _TABLE_OF_SPARK, told_apart="GROUPING_ID")
            by_hand = _SPARK.format(url=url.partition("?")[0], query=grouped)
            ours = _release(f"{url}#{_TABLE_OF_SPARK}", TRIPLES[1], 3)
            yield _beside(f"{name}, Spark, text", ours, by_hand, most=2, repeats=1)
    _write(path, PAIRS)
    yield _alone(
        "all pairs of {:,} rows and {} columns, Parquet".format(*PAIRS), _release(str(path), PAIRS[1], 2), PAIRS_SECONDS
    )
    text = folder / "rows.csv"
    _write(text, TAKEN_IN)
    copied = f"COPY (SELECT * FROM read_csv('{text}', all_varchar = true)) TO '{folder / 'copied'}' (FORMAT parquet)"
    yield _beside(
        f"upload of {text.stat().st_size / 10**6:,.0f} MB of CSV",
        lambda: services.reading.upload(text, folder / "taken-in.parquet", table=services.datasets.upload_limits()),
        _DUCKDB.format(f"made.execute({copied!r})"),
        most=1.5,
        repeats=1,
    )
    _write(path, LARGE, kind="TINYINT")
    name = "all pairs of {:,} rows and {} columns, Parquet".format(*LARGE)
    yield _alone(name, _release(str(path), LARGE[1], 2), LARGE_SECONDS, repeats=1)


def _release(location: str, columns: int, ways: int) -> Callable[[], object]:
    """Of all marginals over so many columns."""
    edges = list(range(VALUES + 1))
    declared = [{"name": f"c{place}", "type": "integer", "edges": edges} for place in range(columns)]
    schema = Schema.from_json({"version": 1, "columns": declared})
    plan: Plan = mechanism("laplace-queries").plan(
        schema,
        all_marginals(schema.universe, ways),
        budget=PureDP(epsilon=Fraction(1)),
        beta=Fraction(1, 20),
        options={},
    )
    return lambda: services.reading.run_plan(plan, location, progress=lambda step, share: None)


def _beside(name: str, ours: Callable[[], object], by_hand: str, *, most: float, repeats: int = 0) -> BenchRow:
    times = range(repeats or REPEATS)
    seconds = median(_seconds(ours) for _ in times)
    of_hand = median(float(_run(_TIMED.format(by_hand))) for _ in times)
    cells = (name, f"{seconds:.2f} s", f"{of_hand:.2f} s", f"{seconds / of_hand:.2f}", f"{most:g}")
    return BenchRow(cells=cells, is_met=seconds <= most * of_hand)


def _alone(name: str, ours: Callable[[], object], most: float, *, repeats: int = 0) -> BenchRow:
    seconds = median(_seconds(ours) for _ in range(repeats or REPEATS))
    return BenchRow(cells=(name, f"{seconds:.2f} s", "", "", f"{most:g} s"), is_met=seconds <= most)


def _seconds(call: Callable[[], object]) -> float:
    start = time.monotonic()
    call()
    return time.monotonic() - start


def _run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        raise RuntimeError(done.stderr)
    # DuckDB shows how far a long statement is.
    return done.stdout.strip().rpartition("\n")[2]


def _write(path: Path, size: tuple[int, int], *, kind: str = "TEXT") -> None:
    rows, columns = size
    form = "HEADER" if path.suffix == ".csv" else "FORMAT parquet"
    made = f"COPY ({_made_up(columns, kind)} FROM range({rows}) AS rows(i)) TO '{path}' ({form})"
    _run(_DUCKDB.format(f"made.execute({made!r})"))


@contextmanager
def _table_on(server: str) -> Iterator[str | None]:
    """The URL of a database with the tables of `_ON_POSTGRESQL`; None where the server does not answer."""
    import psycopg

    try:
        control = psycopg.connect(server, autocommit=True, connect_timeout=2)
    except psycopg.OperationalError:
        yield None
        return
    name = f"dpweb_bench_{uuid.uuid4().hex[:12]}"
    url = urlsplit(server)._replace(path=f"/{name}").geturl()
    rows, columns = TRIPLES
    with control:
        control.execute(f'CREATE DATABASE "{name}"'.encode())
        try:
            with psycopg.connect(url, autocommit=True) as made:
                series = f"generate_series(1, {rows}) AS rows(i)"
                for kind, (table, _) in _ON_POSTGRESQL.items():
                    made.execute(f"CREATE TABLE {table} AS {_made_up(columns, kind)} FROM {series}".encode())
                made.execute("VACUUM ANALYZE")
            yield url
        finally:
            control.execute(f'DROP DATABASE "{name}" WITH (FORCE)'.encode())


@contextmanager
def _table_on_spark(folder: Path, path: Path) -> Iterator[str | None]:
    """The address of a server of this machine with a table of the rows, as a connection that was tested has it; None
    where Spark is not installed."""
    port, rows = int(free_address(15_002).rpartition(":")[2]), folder / "table-of-spark"
    try:
        server = scale.start_spark(folder / "spark", port=port, log_folder=folder, settings=scale.CLOSED)
    except scale.NotInstalled:
        yield None
        return
    try:
        rows.mkdir()
        shutil.copy(path, rows)
        scale.run_in_spark(
            port, "CREATE DATABASE bench", f"CREATE TABLE {_TABLE_OF_SPARK} USING parquet LOCATION '{rows}'"
        )
        url = f"sc://127.0.0.1:{port}"
        yield with_checked(url, services.reading.tables_of_server(url, checked="").version)
    finally:
        server.kill()


def _made_up(columns: int, kind: str) -> str:
    """Whole numbers, the same in every database."""
    made = (f"(i * {2 * place + 7} + i % {place + 3}) % {VALUES}" for place in range(columns))
    return f"SELECT {', '.join(f'CAST({each} AS {kind}) AS c{place}' for place, each in enumerate(made))}"


def _grouped(number: str, source: str, *, told_apart: str = "GROUPING") -> str:
    names = [f"c{place}" for place in range(TRIPLES[1])]
    bins = ", ".join(f"least(greatest(floor({number.format(name)}), 0), {VALUES - 1}) AS {name}" for name in names)
    sets = ", ".join(f"({', '.join(triple)})" for triple in combinations(names, 3))
    return (
        f"SELECT {', '.join(names)}, {told_apart}({', '.join(names)}), count(*) "
        f"FROM (SELECT {bins} FROM {source}) AS coded GROUP BY GROUPING SETS ({sets})"
    )
