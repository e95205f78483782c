"""Every reading of a table by this site: a job of the runner, with the limits of the settings.

    upload_start, upload             a file that was sent
    digest, sketch                   by which rows are recognised
    run_plan, open_session, count    what was charged
    tables_of_server, columns_of_server, version_of_object
                                     what a database or storage says of its tables; no row is read

Pages, tasks and commands come to a table through these functions alone; a connection anywhere else is refused (see
``engine/tables/connection.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from django.conf import settings

from releases.engine.errors import InvalidInput
from releases.engine.tables.facts import UnreadableTable
from releases.engine.tables.files.limits import UNREADABLE
from releases.engine.tables.registry import kind_of
from releases.engine.tables.servers.spark import SPARK
from releases.storage.scratch import limits
from releases.worker import runner

if TYPE_CHECKING:
    from releases.engine.domain.schema import Schema
    from releases.engine.mechanisms.base import Plan
    from releases.engine.mechanisms.pmw.online import OnlinePlan
    from releases.engine.mechanisms.pmw.session import SessionUnderWay as LiveSession
    from releases.engine.run import ReleaseOutput as MadeRelease
    from releases.engine.tables.catalogue import ReadableTables
    from releases.engine.tables.databases import CatalogueColumn
    from releases.engine.tables.facts import FileFacts
    from releases.engine.tables.files.ingest import FileStart, Ingested
    from releases.engine.tables.files.limits import TableLimits
    from releases.engine.tables.files.progress import Progress
    from releases.engine.workload.queries import Count

#: Of the time that a release may take, so much for reading and computing; the rest is for publishing it.
_SHARE_OF_RUN = 0.9


def upload_start(source: Path, *, table: TableLimits, name: str = "", facts: FileFacts | None = None) -> FileStart:
    """Look at the start of a file that was sent.

    Args:
        name: as it was sent, where that is another than it has here.

    Raises:
        InvalidInput: a fact that is declared of it cannot be.
        UnreadableTable: it is no table that can be read.
    """
    from releases.worker import jobs

    try:
        with _crash_is_a_refusal():
            found = _run(
                jobs.start_of_upload,
                seconds=settings.ANSWER_TIME_LIMIT,
                source=source,
                name=name or source.name,
                facts=facts,
                table=table,
            )
    except UnreadableTable as error:
        if error.field == "table":
            raise
        raise InvalidInput(error.field, error.value, error.rule) from None
    return cast("FileStart", found)


def upload(
    source: Path,
    destination: Path,
    *,
    table: TableLimits,
    facts: FileFacts | None = None,
    progress: Progress | None = None,
) -> Ingested:
    """Read a file that was sent and store it as a table.

    Raises:
        UnreadableTable: it is no table that can be read.
        OverLimit: it takes more time or memory than it may.
    """
    from releases.worker import jobs

    with _crash_is_a_refusal():
        read = _run(
            jobs.upload,
            seconds=settings.READ_TIME_LIMIT,
            report=progress,
            source=source,
            destination=destination,
            key=_digest_key(),
            table=table,
            facts=facts,
        )
    return cast("Ingested", read)


@contextmanager
def _crash_is_a_refusal() -> Iterator[None]:
    """A library that crashes on a file would do so at each attempt."""
    try:
        yield
    except runner.Crashed:
        raise UnreadableTable(f"The file {UNREADABLE}") from None


def digest(path: Path, columns: Sequence[str]) -> tuple[bool, str | None]:
    """Whether a stored table has rows enough to be recognised by, and the digest of its declared columns if any are."""
    from releases.worker import jobs

    found = _run(jobs.digest, seconds=settings.READ_TIME_LIMIT, path=path, columns=list(columns), key=_digest_key())
    return cast("tuple[bool, str | None]", found)


def sketch(path: Path) -> bytes:
    from releases.worker import jobs

    return cast("bytes", _run(jobs.sketch, seconds=settings.READ_TIME_LIMIT, path=path, key=_digest_key()))


def run_plan(plan: Plan, location: str, *, progress: Callable[[str, float], None]) -> MadeRelease:
    """Run a charged plan on the table that was charged for.

    Raises:
        Cancelled: by `progress`.
        ReaderError: with nothing in it that depends on the table.
    """
    from releases.engine.run import ReleaseOutput
    from releases.worker import jobs

    result, records = _run(
        jobs.release, seconds=_seconds_of_run(), report=progress, location=location, plan=plan, **_network(location)
    )
    return ReleaseOutput(plan=plan, result=result, records=records)


def open_session(plan: OnlinePlan, location: str) -> LiveSession:
    """Open a charged session."""
    from releases.worker import jobs

    live = _run(jobs.opened_session, seconds=_seconds_of_run(), location=location, plan=plan, **_network(location))
    return cast("LiveSession", live)


def count(question: Count, schema: Schema, location: str) -> int:
    """The exact count that a session asks for."""
    from releases.worker import jobs

    counted = _run(
        jobs.count,
        seconds=settings.ANSWER_TIME_LIMIT,
        location=location,
        schema=schema,
        question=question,
        **_network(location),
    )
    return cast("int", counted)


def tables_of_server(url: str, *, checked: str) -> ReadableTables:
    """What a database, a folder or storage lists, and what the role of its URL may do.

    Args:
        checked: the version of the server for which this software's self test has passed; empty where none is known.

    Raises:
        UnreadableTable: the database does not answer.
        ReaderError: it took too long.
    """
    from releases.worker import jobs

    found = _run(jobs.tables_of_server, seconds=_seconds_to_ask(url), url=url, checked=checked, **_network(url))
    return cast("ReadableTables", found)


def columns_of_server(location: str, *, is_checked: bool) -> dict[str, CatalogueColumn]:
    """The columns of a table in a database, by name; none where there is no such table.

    Args:
        is_checked: the self test need not be run for it.

    Raises:
        UnreadableTable: the database does not answer.
        ReaderError: it took too long.
    """
    from releases.worker import jobs

    found = _run(
        jobs.columns_of_server,
        seconds=_seconds_to_ask(location),
        location=location,
        is_checked=is_checked,
        **_network(location),
    )
    return cast("dict[str, CatalogueColumn]", found)


def version_of_object(location: str) -> str:
    """Which version of a table its storage holds. It is private: it tells how often the table was written.

    Raises:
        UnreadableTable: the storage does not answer.
        ReaderError: it took too long.
    """
    from releases.worker import jobs

    found = _run(jobs.version_of_object, seconds=settings.ANSWER_TIME_LIMIT, location=location, **_network(location))
    return cast("str", found)


def _run(job: Callable[..., Any], **given: Any) -> Any:
    return runner.run(job, limits=limits(), memory=settings.READER_MEMORY_BYTES, **given)


def _network(location: str) -> dict[str, bool]:
    """A registered database or storage is reached over the network; a file is not."""
    return {"has_network": kind_of(location).has_network}


def _seconds_to_ask(location: str) -> int:
    """Spark takes as long for the self test as a file for its reading, and is asked for it once a version."""
    return int(settings.READ_TIME_LIMIT if kind_of(location) is SPARK else settings.ANSWER_TIME_LIMIT)


def _seconds_of_run() -> float:
    return float(_SHARE_OF_RUN * settings.RELEASE_TIME_LIMIT)


def _digest_key() -> bytes:
    return str(settings.DIGEST_KEY).encode()
