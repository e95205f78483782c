"""What reads a table. Each is run by `runner.run` in a process of its own, with plain values in and out.

A job gets `limits`, what its connection may use. Where somebody listens, it gets `report`, which tells the caller a
step and the share done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

from releases.engine.domain.schema import Schema
from releases.engine.estimation.result import Result
from releases.engine.estimation.synthetic import Records
from releases.engine.mechanisms.base import Plan, mechanisms
from releases.engine.mechanisms.pmw.online import ExactCounts, OnlinePlan
from releases.engine.mechanisms.pmw.session import SessionUnderWay
from releases.engine.noise.randomness import OperatingSystemRandomness
from releases.engine.run import run_release
from releases.engine.tables import catalogue, fingerprint, storage
from releases.engine.tables.connection import Limits
from releases.engine.tables.counts import Counts
from releases.engine.tables.databases import CatalogueColumn, Database
from releases.engine.tables.facts import FileFacts
from releases.engine.tables.files import ingest
from releases.engine.tables.files.limits import TableLimits
from releases.engine.tables.query import check_server, counts_of, open_table
from releases.engine.tables.registry import kind_of
from releases.engine.tables.servers.spark import RemoteTable
from releases.engine.workload.queries import Count

Report: TypeAlias = Callable[[str, float], None]

# Found here, before processes are made, rather than in each of them.
mechanisms()


def start_of_upload(
    *, source: Path, name: str, facts: FileFacts | None, table: TableLimits, limits: Limits
) -> ingest.FileStart:
    """Look at the start of a file that was sent."""
    return ingest.check_start(source, name=name, facts=facts, limits=table, database=limits)


def upload(
    *,
    source: Path,
    destination: Path,
    key: bytes,
    table: TableLimits,
    limits: Limits,
    facts: FileFacts | None = None,
    report: Report | None = None,
) -> ingest.Ingested:
    """Read a file that was sent and store it as a table."""
    return ingest.ingest(
        source, destination, digest_key=key, facts=facts, limits=table, database=limits, progress=report
    )


def digest(*, path: Path, columns: Sequence[str], key: bytes, limits: Limits) -> tuple[bool, str | None]:
    """Whether a stored table has rows enough to be recognised by, and the digest of its declared columns if any are."""
    return fingerprint.digests(path, columns, key=key, limits=limits)


def sketch(*, path: Path, key: bytes, limits: Limits) -> bytes:
    """The sketch of a stored table's rows."""
    return fingerprint.sketch(path, key=key, limits=limits)


def release(
    *, plan: Plan, location: str, limits: Limits, report: Report | None = None
) -> tuple[Result, Records | None]:
    """Run a charged plan."""
    with _counts(plan.schema, location, limits) as counts:
        made = run_release(plan, counts, rng=OperatingSystemRandomness(), progress=report)
    return made.result, made.records


def opened_session(*, plan: OnlinePlan, location: str, limits: Limits) -> SessionUnderWay:
    """Open a charged session."""
    with _counts(plan.schema, location, limits) as counts:
        return plan.open(counts, rng=OperatingSystemRandomness())


def count(*, schema: Schema, question: Count, location: str, limits: Limits) -> int:
    """The exact count that a session asks for."""
    with _counts(schema, location, limits) as counts:
        return ExactCounts(counts)(question)


def tables_of_server(
    *,
    url: str,
    checked: str,
    limits: Limits,  # noqa: ARG001  every job gets them
) -> catalogue.ReadableTables:
    """What a database, a folder or storage lists, and what its role may do. No row is read.

    A database counts the rows of the self test too, unless it is of the version for which it did.
    """
    found = catalogue.tables(url)
    if found.is_utf8 and (not checked or found.version != checked):
        _check_server(url)
    return found


def columns_of_server(*, location: str, is_checked: bool, limits: Limits) -> dict[str, CatalogueColumn]:
    """The columns of a table in a database, a folder or storage, with their types. No row is read.

    A database counts the rows of the self test first, unless it just did.
    """
    if not is_checked:
        _check_server(location.partition("#")[0])
    return catalogue.columns(location, limits=limits)


def version_of_object(
    *,
    location: str,
    limits: Limits,  # noqa: ARG001  every job gets them
) -> str:
    """Which version of a table its storage holds. No row is read."""
    return storage.version(location)


def _check_server(url: str) -> None:
    """Files this program itself counts."""
    kind = kind_of(url)
    if isinstance(kind, Database):
        with catalogue.refused_in_words(kind):
            check_server(url)


@contextmanager
def _counts(schema: Schema, location: str, limits: Limits) -> Iterator[Counts]:
    table = open_table(location, limits=limits, names=schema.names_read)
    try:
        yield counts_of(table, schema, folder=limits.temp_folder)
    finally:
        # Other servers end a session with its process.
        if isinstance(table, RemoteTable):
            table.close()


#: By the name by which a process is told what to do; no other function can be named.
JOBS: dict[str, Callable[..., Any]] = {
    job.__name__: job
    for job in (
        *(start_of_upload, upload, digest, sketch, release, opened_session, count),
        *(tables_of_server, columns_of_server, version_of_object),
    )
}
