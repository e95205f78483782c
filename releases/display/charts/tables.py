"""Tables of two columns, and of pairs of columns, as coloured squares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from releases.display.charts.common import ROW_HEIGHT, SCHEMA

#: Letters of labels that have room side by side below the squares of a narrow window.
_LEVEL = 36


def heat_map(rows: Sequence[dict[str, Any]], *, heads: Sequence[str], unit: str = "rows") -> dict[str, Any]:
    """A table of two columns: a square for every cell with its released count, the darker the larger it is.

    Where squares are too narrow for numbers, the page draws the first layer alone.

    Args:
        rows: each with `labels` (of both columns), `estimate`, `lower`, `upper`, in declared order.
        heads: the two columns.
        unit: what is counted.
    """
    values = [
        {"down": row["labels"][0], "across": row["labels"][1]}
        | {name: row[name] for name in ("estimate", "lower", "upper")}
        for row in rows
    ]
    said = (("estimate", "released count"), ("lower", "at least"), ("upper", "at most"))
    middle = max(value["estimate"] for value in values) / 2
    return _squares(
        values,
        heads=heads,
        colour={
            "field": "estimate",
            "type": "quantitative",
            "title": unit,
            "scale": {"zero": True},
            "legend": {"orient": "bottom", "direction": "horizontal", "format": ",.0f", "gradientLength": 180},
        },
        tooltip=[{"field": name, "type": "quantitative", "format": ",.0f", "title": says} for name, says in said],
        written={"field": "estimate", "type": "quantitative", "format": ",.0f"},
        is_dark=f"datum.estimate > {middle}",
    )


def trust_matrix(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Columns against columns: a square for each pair, and on the diagonal for each column, the stronger the more is
    known of it.

    Args:
        rows: each with `down` and `across`, its `level` from 0 to 3, its `state` in words and a short `mark`.
    """
    return _squares(
        rows,
        heads=("", ""),
        colour={"field": "level", "type": "quantitative", "scale": {"domain": [0, 3]}, "legend": None},
        tooltip=[{"field": "state", "type": "nominal", "title": "state"}],
        written={"field": "mark", "type": "nominal"},
        is_dark="datum.level > 2",
    )


def association_matrix(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Columns against columns: a square for each pair, the stronger the more closely its columns go together.

    Args:
        rows: each with `down`, `across` and `association`, from 0 to 1.
    """
    number = {"field": "association", "type": "quantitative", "format": ".2f"}
    return _squares(
        rows,
        heads=("", ""),
        colour={"field": "association", "type": "quantitative", "scale": {"domain": [0, 1]}, "legend": None},
        tooltip=[{**number, "title": "association"}],
        written=number,
        is_dark="datum.association > 0.5",
    )


def _angle(values: Sequence[dict[str, Any]]) -> int:
    """Of the labels below the squares: level where all of them are sure to have the room, on a phone too."""
    across = {str(value["across"]) for value in values}
    return 0 if len(across) * (max(map(len, across)) + 2) <= _LEVEL else -40


def _squares(
    values: Sequence[dict[str, Any]],
    *,
    heads: Sequence[str],
    colour: dict[str, Any],
    tooltip: Sequence[dict[str, Any]],
    written: dict[str, Any],
    is_dark: str,
) -> dict[str, Any]:
    """Squares by `down` and `across`, coloured, and what is written on each.

    Args:
        heads: of both axes.
        is_dark: an expression that is true where a square's colour is strong.
    """
    down, across = heads
    # Straight from one colour to the other: a path through other hues would show steps that are not there.
    straight = {**colour, "scale": {**colour["scale"], "interpolate": "rgb"}}
    places = [
        {"field": field, "type": "nominal", "title": title or "columns"}
        for field, title in (("down", down), ("across", across))
    ]
    squares = {"mark": {"type": "rect"}, "encoding": {"color": straight, "tooltip": [*places, *tooltip]}}
    numbers = {
        "mark": {"type": "text", "fontSize": 11},
        "encoding": {
            "text": written,
            "color": {
                "condition": {"test": is_dark, "value": {"expr": "paper"}},
                "value": {"expr": "ink"},
            },
        },
    }
    return {
        "$schema": SCHEMA,
        "usermeta": {"across": len({value["across"] for value in values})},
        "width": "container",
        "height": max(120, ROW_HEIGHT * len({row["down"] for row in values})),
        "autosize": {"type": "fit-x", "contains": "padding"},
        "params": [{"name": "paper", "value": "white"}, {"name": "ink", "value": "black"}],
        "data": {"values": list(values)},
        "encoding": {
            "x": {
                "field": "across",
                "type": "nominal",
                "sort": None,
                "title": across or None,
                "axis": {"labelAngle": _angle(values), "labelOverlap": True, "labelLimit": 110},
            },
            "y": {"field": "down", "type": "nominal", "sort": None, "title": down or None},
        },
        "layer": [squares, numbers],
    }
