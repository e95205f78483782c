"""Vega-Lite specifications of the site's charts. Data come from plans or from published results only."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
_ROW_HEIGHT = 22
_COUNT_AXIS = {"format": ",.0f", "tickCount": 6, "labelOverlap": True}


@dataclass(frozen=True, kw_only=True, slots=True)
class BoundPoint:
    """One point of the comparison: what a mechanism promises at an epsilon."""

    mechanism: str
    epsilon: float
    alpha: float


def bound_curves(points: Sequence[BoundPoint], *, chosen: float) -> dict[str, Any]:
    """Bound against epsilon, one curve a mechanism, logarithmic axes, the chosen epsilon marked."""
    return {
        "$schema": _SCHEMA,
        "width": "container",
        "height": 300,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "layer": [
            {
                "data": {
                    "values": [
                        {"mechanism": each.mechanism, "epsilon": each.epsilon, "alpha": each.alpha} for each in points
                    ]
                },
                "mark": {"type": "line", "point": {"size": 30}},
                "encoding": {
                    "x": {
                        "field": "epsilon",
                        "type": "quantitative",
                        "scale": {"type": "log"},
                        "title": "epsilon spent",
                        "axis": {"grid": False, "values": _ticks([each.epsilon for each in points]), "format": "~g"},
                    },
                    "y": {
                        "field": "alpha",
                        "type": "quantitative",
                        "scale": {"type": "log"},
                        "title": "rows that any answer can be off by",
                        "axis": {"format": "~s", "tickCount": 4},
                    },
                    "color": {"field": "mechanism", "type": "nominal", "title": None, "sort": None},
                    "tooltip": [
                        {"field": "mechanism", "type": "nominal"},
                        {"field": "epsilon", "type": "quantitative", "format": ".3~g"},
                        {"field": "alpha", "type": "quantitative", "format": ",.0f", "title": "bound"},
                    ],
                },
            },
            {
                "data": {"values": [{"epsilon": chosen}]},
                "mark": {"type": "rule", "strokeDash": [4, 3]},
                "encoding": {"x": {"field": "epsilon", "type": "quantitative"}},
            },
        ],
    }


def marginal_bars(rows: Sequence[dict[str, Any]], *, title: str) -> dict[str, Any]:
    """One question: released counts as bars, the band that holds every true count at once, synthetic counts as dots.

    Args:
        rows: each with `label`, `estimate`, `lower`, `upper`, and `synthetic` (None where there is none).
        title: of the question.
    """
    tooltip = [{"field": "label", "type": "nominal", "title": title}] + [
        {"field": name, "type": "quantitative", "format": ",.0f", "title": said}
        for name, said in (
            ("estimate", "released count"),
            ("lower", "at least"),
            ("upper", "at most"),
            ("synthetic", "synthetic"),
        )
        if rows and rows[0].get(name) is not None
    ]
    layer: list[dict[str, Any]] = [
        {
            "mark": {"type": "bar"},
            "encoding": {
                "x": {"field": "estimate", "type": "quantitative", "title": "rows", "axis": _COUNT_AXIS},
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
        "$schema": _SCHEMA,
        "width": "container",
        "height": _ROW_HEIGHT * max(1, len(rows)),
        "autosize": {"type": "fit-x", "contains": "padding"},
        "data": {"values": list(rows)},
        "encoding": {"y": {"field": "label", "type": "nominal", "sort": None, "title": None}},
        "layer": layer,
    }


def _ticks(values: Sequence[float]) -> list[float]:
    """The numbers 1, 2, 5, 10, ... of every power of ten that lie among the values."""
    if not values:
        return []
    powers = range(math.floor(math.log10(min(values))) - 1, math.ceil(math.log10(max(values))) + 1)
    ticks = [float(f"{lead}e{power}") for power in powers for lead in (1, 2, 5)]
    return [tick for tick in ticks if min(values) * 0.999 <= tick <= max(values) * 1.001]
