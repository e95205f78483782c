"""The answers of one question by the values of a column, over time, or as dates."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import Any

from releases.display.charts.common import COUNT_AXIS, ROW_HEIGHT, SCHEMA, number_format, tooltip_of

_TIME_HEIGHT = 240
#: Over so few each has a mark on the axis of a chart of dates.
_FEW_DAYS = timedelta(days=7)
_ENDS = ("estimate", "lower", "upper")


def marginal_bars(
    rows: Sequence[dict[str, Any]], *, title: str, unit: str = "rows", axis: str = "", is_counts: bool = True
) -> dict[str, Any]:
    """One question: released numbers as bars, the band that holds every true one at once, synthetic counts as dots.

    Args:
        rows: each with `label`, `estimate`, `lower`, `upper`, and `synthetic` (None where there is none).
        title: of the question.
        unit: what is counted.
        axis: what the labels are of and measured in, where there is something to say.
        is_counts: whether the numbers are whole.
    """
    written = number_format(is_counts)
    tooltip = tooltip_of(rows, title=title, is_counts=is_counts)
    layer: list[dict[str, Any]] = [
        {
            "mark": {"type": "bar"},
            "encoding": {
                "x": {
                    "field": "estimate",
                    "type": "quantitative",
                    "title": unit,
                    "axis": COUNT_AXIS | {"format": written},
                },
                "tooltip": tooltip,
            },
        },
        {
            "mark": {"type": "rule", "strokeWidth": 1.5},
            "encoding": {"x": {"field": "lower", "type": "quantitative"}, "x2": {"field": "upper"}},
        },
    ]
    layer += [
        {
            "mark": {"type": "tick", "thickness": 1.5, "size": 9},
            "encoding": {"x": {"field": end, "type": "quantitative"}},
        }
        for end in ("lower", "upper")
    ]
    if rows and rows[0].get("synthetic") is not None:
        layer.append(
            {
                "mark": {"type": "point", "filled": True, "size": 45, "opacity": 1},
                "encoding": {"x": {"field": "synthetic", "type": "quantitative"}, "tooltip": tooltip},
            }
        )
    return {
        "$schema": SCHEMA,
        "width": "container",
        "height": ROW_HEIGHT * max(1, len(rows)),
        "autosize": {"type": "fit-x", "contains": "padding"},
        "data": {"values": list(rows)},
        "encoding": {"y": {"field": "label", "type": "nominal", "sort": None, "title": None, **_above(axis)}},
        "layer": layer,
    }


def _above(title: str) -> dict[str, Any]:
    """An axis's title above it, level: beside it, upright, it would take the room of the bars on a telephone."""
    if not title:
        return {}
    level = {"titleAngle": 0, "titleAlign": "left", "titleAnchor": "start", "titleX": 0, "titleY": -8}
    return {"title": title, "axis": level}


def date_marks(
    rows: Sequence[dict[str, Any]], *, title: str, within: tuple[date, date] | None = None, axis: str = ""
) -> dict[str, Any]:
    """One question whose answers are dates: each as a point, with the interval that holds every true one at once.

    Args:
        rows: each with `label`, and `estimate`, `lower` and `upper`, which are dates, or dates and times.
        title: of the question.
        within: the first and the last date of the axis, where the answers do not say it.
        axis: what those are.
    """
    has_time = any(isinstance(row["estimate"], datetime) for row in rows)
    written = "%-d %B %Y, %H:%M:%S" if has_time else "%-d %B %Y"
    drawn = [
        {"label": row["label"]}
        | {name: _in_utc(row[name]) for name in _ENDS}
        # Written here: a browser would write them in its own zone.
        | {f"{name}_said": f"{row[name]:{written}}" for name in _ENDS}
        for row in rows
    ]
    said = (("estimate", "released"), ("lower", "earliest"), ("upper", "latest"))
    tooltip = [{"field": "label", "type": "nominal", "title": title}]
    tooltip += [{"field": f"{name}_said", "type": "nominal", "title": says} for name, says in said]
    marks: dict[str, Any] = {"labelOverlap": True, "tickCount": 6}
    first, last = within or (min(row["lower"] for row in rows), max(row["upper"] for row in rows))
    if not has_time and last - first <= _FEW_DAYS:
        # A time of day would say nothing.
        marks |= {"tickCount": {"interval": "day", "step": 1}, "format": "%-d %b %Y"}
    scale = {"type": "utc"} | ({"domain": [_in_utc(first), _in_utc(last)]} if within else {"padding": 12})
    across = {"type": "temporal", "scale": scale, "title": axis or None, "axis": marks}
    return _points(drawn, across=across, tooltip=tooltip, is_named=within is None or len(rows) > 1)


def range_marks(
    rows: Sequence[dict[str, Any]], *, title: str, within: tuple[float, float], axis: str
) -> dict[str, Any]:
    """Numbers that lie in a public range, on an axis from its one end to the other: each as a point, with the interval
    that holds every true one at once.

    Args:
        rows: each with `label`, `estimate`, `lower` and `upper`; what lies outside the range is drawn at its end.
        title: of the question.
        axis: what the range is of.
    """
    scale = {"domain": list(within), "nice": False, "clamp": True}
    marks = {"tickCount": 6, "labelOverlap": True, "format": number_format(is_counts=False)}
    across = {"type": "quantitative", "scale": scale, "title": axis, "axis": marks}
    tooltip = tooltip_of(rows, title=title, is_counts=False)
    return _points(rows, across=across, tooltip=tooltip, is_named=len(rows) > 1)


def _points(
    drawn: Sequence[dict[str, Any]], *, across: dict[str, Any], tooltip: list[dict[str, Any]], is_named: bool
) -> dict[str, Any]:
    """Each row as a point, between the ends of its interval; without its label where the title has it."""
    label = {"field": "label", "type": "nominal", "sort": None, "title": None} | ({} if is_named else {"axis": None})
    return {
        "$schema": SCHEMA,
        "width": "container",
        "height": ROW_HEIGHT * max(1, len(drawn)),
        "autosize": {"type": "fit-x", "contains": "padding"},
        "data": {"values": list(drawn)},
        "encoding": {"y": label},
        "layer": [
            {
                "mark": {"type": "rule", "strokeWidth": 1.5},
                "encoding": {"x": {"field": "lower", **across}, "x2": {"field": "upper"}},
            },
            *(
                {"mark": {"type": "tick", "thickness": 1.5, "size": 9}, "encoding": {"x": {"field": end, **across}}}
                for end in ("lower", "upper")
            ),
            {
                "mark": {"type": "point", "filled": True, "size": 60, "opacity": 1},
                "encoding": {"x": {"field": "estimate", **across}, "tooltip": tooltip},
            },
        ],
    }


def _in_utc(value: date) -> str:
    """As browsers read it in UTC, whatever their own zone."""
    return f"{value.isoformat()}Z" if isinstance(value, datetime) else value.isoformat()


def time_bars(rows: Sequence[dict[str, Any]], *, title: str, unit: str = "rows") -> dict[str, Any]:
    """Counts in order of time: a bar as wide as its days, and the band that holds every true one at once.

    Args:
        rows: each with `label`, `estimate`, `lower`, `upper`, and `start` and `end`, its first day and the one after
            its last, as in ISO 8601.
        title: of the question.
        unit: what is counted.
    """

    def of_day(field: str) -> dict[str, Any]:
        return {"field": field, "type": "temporal", "scale": {"type": "utc"}, "title": None}

    values = [
        {**row, "middle": f"{start + (date.fromisoformat(row['end']) - start) / 2}"}
        for row in rows
        for start in [date.fromisoformat(row["start"])]
    ]
    has_synthetic = bool(rows) and rows[0].get("synthetic") is not None
    said = (("estimate", "released count"), ("lower", "at least"), ("upper", "at most"), ("synthetic", "synthetic"))
    count = {"type": "quantitative", "title": unit, "axis": COUNT_AXIS}
    return {
        "$schema": SCHEMA,
        "width": "container",
        "height": _TIME_HEIGHT,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "data": {"values": values},
        "layer": [
            {
                "mark": {"type": "bar"},
                "encoding": {
                    "x": {**of_day("start"), "bin": "binned", "axis": {"grid": False, "labelOverlap": True}},
                    "x2": {"field": "end"},
                    "y": {**count, "field": "estimate"},
                    "tooltip": [{"field": "label", "type": "nominal", "title": title}]
                    + [
                        {"field": name, "type": "quantitative", "format": ",.0f", "title": says}
                        for name, says in said
                        if name != "synthetic" or has_synthetic
                    ],
                },
            },
            {
                "mark": {"type": "rule", "strokeWidth": 1.5},
                "encoding": {
                    "x": of_day("middle"),
                    "y": {**count, "field": "lower"},
                    "y2": {"field": "upper"},
                },
            },
            *(
                [
                    {
                        "mark": {"type": "point", "filled": True, "size": 45, "opacity": 1},
                        "encoding": {"x": of_day("middle"), "y": {**count, "field": "synthetic"}},
                    }
                ]
                if has_synthetic
                else []
            ),
        ],
    }
