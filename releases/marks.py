"""High-water marks: how far each budget's ledger had come, kept apart from the database.

Restoring an old backup of the database would forget charges and give their budget back. The mark notices: it only
rises, it lies elsewhere (`MARKS_DIR`), and no data are touched before the mark of their charge is on disc.
"""

from __future__ import annotations

import json
import os
import uuid
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings

from releases.engine.filters import Totals


@dataclass(frozen=True, kw_only=True, slots=True)
class Mark:
    """The last ledger entry of a budget that is known to have been committed, and the sums up to it."""

    sequence: int
    hash: str
    totals: Totals


def read(budget_id: uuid.UUID) -> Mark | None:
    try:
        stored = json.loads(_path(budget_id).read_text())
    except FileNotFoundError:
        return None
    return Mark(sequence=stored["sequence"], hash=stored["hash"], totals=Totals(**stored["totals"]))


def raise_to(budget_id: uuid.UUID, mark: Mark) -> None:
    """Record a mark unless a higher one stands. On disc when this returns."""
    standing = read(budget_id)
    if standing is not None and standing.sequence >= mark.sequence:
        return
    path = _path(budget_id)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(f".{uuid.uuid4().hex}")
    with partial.open("w") as file:
        json.dump({"sequence": mark.sequence, "hash": mark.hash, "totals": mark.totals.columns()}, file)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _path(budget_id: uuid.UUID) -> Path:
    return Path(settings.MARKS_DIR) / f"{budget_id}.json"
