"""The answers of a release as a workbook for spreadsheets.

A spreadsheet reads `answers.csv` by the habits of its country: where a comma divides decimals, "1.5" is the first of
May. In a workbook numbers are numbers everywhere.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterable
from datetime import datetime
from typing import Any

import pyarrow as pa
from xlsxwriter import Workbook

from releases.publication.report import Report

WORKBOOK = "answers.xlsx"
#: Cells of a workbook: some seconds to write.
MOST_CELLS = 500_000
#: Text is text: no formula, no link, no number.
_PLAIN = {"strings_to_formulas": False, "strings_to_urls": False, "strings_to_numbers": False}
_WIDEST = 60


def workbook_of(answers: pa.Table, said: Report, *, totals: pa.Table | None = None) -> bytes | None:
    """The answers, what all groups are together where there is something to say, and what a reader must know of them, a
    sheet each; None of more than `MOST_CELLS`."""
    if answers.num_rows * answers.num_columns > MOST_CELLS:
        return None
    written = io.BytesIO()
    # Row by row, so that it takes the memory of one.
    with Workbook(written, {"constant_memory": True, **_PLAIN}) as book:
        # The same release gives the same file.
        book.set_properties({"title": said.title, "created": datetime.fromisoformat(said.date)})
        bold, wrapped = book.add_format({"bold": True}), book.add_format({"text_wrap": True, "valign": "top"})
        _add_sheet(book, "Answers", answers, bold)
        if totals is not None:
            _add_sheet(book, "Totals", totals, bold)
        about = book.add_worksheet("About")
        about.set_column(0, 0, 24)
        about.set_column(1, 1, 100, wrapped)
        for number, row in enumerate(_about(said)):
            about.write_row(number, 0, row)
    return written.getvalue()


def _add_sheet(book: Workbook, title: str, table: pa.Table, bold: Any) -> None:
    sheet = book.add_worksheet(title)
    for place, name in enumerate(table.column_names):
        sheet.set_column(place, place, _width(name, table.column(name)))
    sheet.freeze_panes(1, 0)
    sheet.autofilter(0, 0, table.num_rows, table.num_columns - 1)
    sheet.write_row(0, 0, table.column_names, bold)
    number = 0
    for batch in table.to_batches():
        for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            number += 1
            sheet.write_row(number, 0, map(_cell, row))


def _about(said: Report) -> Iterable[tuple[str, str]]:
    yield "Release", said.title
    yield "Dataset", f"{said.dataset}, {said.date}"
    yield "Result", said.headline
    yield "How close", said.bound or said.headline
    yield "Counted", said.counted
    yield from said.facts
    yield from (("Limit", text) for text in said.limits)
    yield from (("Rule", text) for text in said.rules)
    yield "How to cite", said.citation


def _cell(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    # Years before 1900 are no dates to a spreadsheet.
    return value if value is None or isinstance(value, int) else str(value)


def _width(name: str, column: pa.ChunkedArray) -> int:
    longest = max((len(str(value)) for value in column.unique().to_pylist()), default=0)
    return min(max(len(name), longest) + 2, _WIDEST)
