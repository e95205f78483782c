"""What a table may come to, and the refusals of one that comes to more."""

from __future__ import annotations

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


def refuse_unfolding(source: Path, unfolded: int) -> None:
    """A small file must not make more work than a large one."""
    if unfolded > MAX_UNFOLDING * max(source.stat().st_size, _CHUNK):
        raise UnreadableTable(
            f"The Parquet file unfolds to more than {MAX_UNFOLDING} times its size, or {MAX_UNFOLDING} MB if that is "
            "more."
        )
