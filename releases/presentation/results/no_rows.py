"""Whether what a release says could also come from a table of which no row was counted: from its published numbers."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from releases.engine.domain.attribute import Attribute
from releases.engine.workload.queries import Count
from releases.engine.workload.questions import Inquiry, Question, valued_columns
from releases.presentation.results.stored_answers import is_any_above_zero
from releases.publication import files
from releases.publication.receipt import counted_by, noisy_rows
from releases.questions.base import statistic_kind

#: The threshold in a plan's parameters below which nothing is said.
_FROM_ROWS = "rows below which nothing is said"


def says_no_rows(question: Question, folder: Path, receipt: Mapping[str, Any]) -> str:
    """That it could, in a sentence; empty where some row was certainly counted, or the release does not say it."""
    if isinstance(question, Inquiry):
        one = counted_by(receipt).one
        said = f"All of this could come from a table of which no {one} was counted."
        return said if _is_statistic_of_no_rows(question, folder, receipt) else ""
    if not is_any_above_zero(folder):
        return "No count here is certainly above 0."
    if question.universe.own_rows and (empty := _tables_of_no_rows(question, folder)):
        return f"No count of {'; '.join(empty)} is certainly above 0."
    return ""


def _tables_of_no_rows(question: Question, folder: Path) -> list[str]:
    """The tables, each of which counts rows of its own, that have no count certainly above 0 and whose total is within
    the noise of so many counts."""
    import pyarrow.parquet

    cells = np.array([family.cells(question.universe) for family in question.families])
    ends, first = np.cumsum(cells), 0
    totals, widest, lowest = np.zeros(cells.size), np.zeros(cells.size), np.full(cells.size, -np.inf)
    with pyarrow.parquet.ParquetFile(folder / f"{files.ANSWERS}.parquet") as stored:
        for batch in stored.iter_batches(columns=["estimate", "lower", "upper"]):
            estimate, lower, upper = (batch[name].to_numpy() for name in ("estimate", "lower", "upper"))
            places = np.searchsorted(ends, np.arange(first, first + batch.num_rows), side="right")
            np.add.at(totals, places, estimate)
            np.maximum.at(widest, places, upper - estimate)
            np.maximum.at(lowest, places, lower)
            first += batch.num_rows
    empty = (totals <= widest * np.sqrt(cells)) & (lowest <= 0)
    return [
        family.title(question.universe)
        for family, is_empty in zip(question.families, empty.tolist(), strict=True)
        if is_empty and not isinstance(family, Count)
    ]


def _is_statistic_of_no_rows(inquiry: Inquiry, folder: Path, receipt: Mapping[str, Any]) -> bool:
    notes, columns = receipt["notes"], valued_columns(inquiry)
    if receipt["total"]["kind"] == "public":
        return False
    if pairs := notes.get("associations"):
        return all(count <= each["half_width"] for each in pairs for row in each["counts"] for count in row)
    if notes.get("answered") is False:
        # What is said in place of numbers can have other reasons where the number of rows was not measured.
        rows = noisy_rows(receipt)
        return rows is not None and rows < float(receipt["mechanism"]["parameters"].get(_FROM_ROWS, 0))
    if "estimate" not in files.answer_columns(folder):
        return False
    first, read = 0, files.reader(folder)
    for place, part in enumerate(inquiry.families):
        cells = part.cells(inquiry.universe)
        column = columns[place] if len(columns) == len(inquiry.families) else next(iter(columns), None)
        ends = statistic_kind(inquiry.statistic).of_no_rows(column)
        if ends is None or not all(_holds(row, ends, column) for row in read(first, first + cells)):
            return False
        first += cells
    return True


def _holds(row: Mapping[str, Any], ends: tuple[float, float], column: Attribute | None) -> bool:
    lower, upper = row["lower"], row["upper"]
    if column is not None and column.dates is not None and isinstance(lower, date):
        lower, upper = column.dates.number(lower), column.dates.number(upper)
    return bool(lower <= ends[0] and ends[1] <= upper)
