"""What the specifications of several charts share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
ROW_HEIGHT = 22
COUNT_AXIS = {"format": ",.0f", "tickCount": 6, "labelOverlap": True}


def number_format(is_counts: bool) -> str:
    return ",.0f" if is_counts else ",.6~g"


def tooltip_of(rows: Sequence[Mapping[str, Any]], *, title: str, is_counts: bool) -> list[dict[str, Any]]:
    """A label, and which of its numbers there are."""
    return [{"field": "label", "type": "nominal", "title": title}] + [
        {"field": name, "type": "quantitative", "format": number_format(is_counts), "title": said}
        for name, said in (
            ("estimate", "released count" if is_counts else "released"),
            ("lower", "at least"),
            ("upper", "at most"),
            ("synthetic", "synthetic"),
        )
        if rows and rows[0].get(name) is not None
    ]
