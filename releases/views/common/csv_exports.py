"""Tables as CSV, written row by row."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from django.http import StreamingHttpResponse


class _Line:
    """What the writer writes to: gives each line back."""

    def write(self, text: str) -> str:
        return text


def csv_response(name: str, heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> StreamingHttpResponse:
    """A download of many rows that are never all in memory."""

    def lines() -> Iterator[str]:
        writer = csv.writer(_Line())
        yield writer.writerow(heads)
        for row in rows:
            yield writer.writerow(row)

    response = StreamingHttpResponse(lines(), content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    return response
