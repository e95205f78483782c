"""What a table may come to, and the refusals of one that comes to more."""

from __future__ import annotations

import re
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from releases.engine.tables.facts import UnreadableTable
from releases.engine.tables.files.kinds import MAX_UNFOLDING

_CHUNK = 1 << 20


@dataclass(frozen=True, kw_only=True)
class TableLimits:
    """What a table may come to. A small file can unfold to far more than a worker should read.

    Attributes:
        rows: the most rows.
        unfolded: the most bytes of text in all values together.
    """

    rows: int = 200_000_000
    unfolded: int = 64 * 2**30


USUAL = TableLimits()


def refuse_above(limits: TableLimits, *, rows: int = 0, unfolded: int = 0) -> None:
    """Say the limit and not by how much it is passed: how many rows there are may be nobody's business."""
    if rows > limits.rows:
        raise UnreadableTable(f"The table has more than {limits.rows:,} rows, the most that are read here.")
    if unfolded > limits.unfolded:
        raise UnreadableTable(
            f"The table's values come to more than {limits.unfolded:,} bytes of text, the most that are read here."
        )


def most_unfolded(source: Path) -> int:
    """Bytes that a file may unfold to: a small file must not make more work than a large one."""
    return MAX_UNFOLDING * max(source.stat().st_size, _CHUNK)


def refuse_unfolding(source: Path, unfolded: int, *, kind: str = "Parquet file") -> None:
    if unfolded > most_unfolded(source):
        raise UnreadableTable(
            f"The {kind} unfolds to more than {MAX_UNFOLDING} times its size, or {MAX_UNFOLDING} MB if that is more."
        )


#: Said of a file at which a library fails for whatever reason: where it lacks memory, not every library says so.
UNREADABLE = (
    f"cannot be read: it is damaged, or takes more memory than a file of its size may, {MAX_UNFOLDING} times its size "
    f"or {MAX_UNFOLDING} MB if that is more. Write it again, or save it as CSV."
)


@contextmanager
def memory_as_unfolded(source: Path) -> Iterator[None]:
    """A library that reads a file gets as much memory as the file may unfold to. What fails for want of it may end the
    process, so this is for one that reads one file and is followed by another that says how it ended.

    The limit is on private writable memory of the whole process (RLIMIT_DATA), so what it has already comes on top.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    most = _data_in_use() + most_unfolded(source)
    resource.setrlimit(resource.RLIMIT_DATA, (most if soft == resource.RLIM_INFINITY else min(soft, most), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _data_in_use() -> int:
    found = re.search(r"^VmData:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    if found is None:
        raise OSError("The kernel does not say how much memory this process has.")
    return int(found[1]) << 10
