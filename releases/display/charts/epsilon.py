"""What an epsilon means: the bound that each mechanism promises at it, and how far a belief can rise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from releases.display.charts.common import SCHEMA


@dataclass(frozen=True, kw_only=True, slots=True)
class BoundPoint:
    """One point of the comparison: what a mechanism promises at an epsilon."""

    mechanism: str
    epsilon: float
    alpha: float


def bound_curves(
    points: Sequence[BoundPoint], *, chosen: float, unit: str = "rows", titles: Sequence[str] = ()
) -> dict[str, Any]:
    """Bound against epsilon, one curve a mechanism, logarithmic axes, the chosen epsilon marked.

    Args:
        titles: of all mechanisms there are, drawn or not, so that each keeps its colour in every comparison.
    """
    drawn = list(dict.fromkeys(each.mechanism for each in points))
    # By colour and by the form of its points, for those who tell colours apart badly.
    told_apart = {
        "field": "mechanism",
        "type": "nominal",
        "title": None,
        "scale": {"domain": list(titles) or drawn},
        "legend": {"values": drawn},
    }
    return {
        "$schema": SCHEMA,
        "width": "container",
        "height": 200,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "layer": [
            {
                "data": {
                    "values": [
                        {"mechanism": each.mechanism, "epsilon": each.epsilon, "alpha": each.alpha} for each in points
                    ]
                },
                "mark": {"type": "line", "point": {"size": 50}},
                "encoding": {
                    "x": {
                        "field": "epsilon",
                        "type": "quantitative",
                        "scale": {"type": "log", "nice": False, "padding": 16},
                        "title": "epsilon spent",
                        "axis": {"grid": False, "values": _ticks([each.epsilon for each in points]), "format": "~g"},
                    },
                    "y": {
                        "field": "alpha",
                        "type": "quantitative",
                        "scale": {"type": "log"},
                        "title": f"{unit} that any answer can be off by",
                        # Twelve digits: with fewer, "~g" writes a million as 1e+6.
                        "axis": {"format": ",.12~g", "values": _few_ticks([each.alpha for each in points])},
                    },
                    "color": told_apart,
                    "shape": told_apart,
                    "tooltip": [
                        {"field": "mechanism", "type": "nominal"},
                        {"field": "epsilon", "type": "quantitative", "format": ".3~g"},
                        {"field": "alpha", "type": "quantitative", "format": ",.4~r", "title": "bound"},
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


def _few_ticks(values: Sequence[float]) -> list[float]:
    """Powers of ten around the values; of values that lie close together, 2 and 5 times them as well."""
    if not values:
        return []
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    tens = [float(f"1e{power}") for power in range(low, high + 1)]
    return tens if high - low > 2 else _ticks([tens[0], tens[-1]])


def _ticks(values: Sequence[float]) -> list[float]:
    """The numbers 1, 2, 5, 10, ... of every power of ten that lie among the values."""
    if not values:
        return []
    powers = range(math.floor(math.log10(min(values))) - 1, math.ceil(math.log10(max(values))) + 1)
    ticks = [float(f"{lead}e{power}") for power in powers for lead in (1, 2, 5)]
    return [tick for tick in ticks if min(values) * 0.999 <= tick <= max(values) * 1.001]


def belief_bars(rows: Sequence[tuple[str, int]]) -> dict[str, Any]:
    """How far a belief of 50% can rise at each epsilon: from there to the most it can become.

    Args:
        rows: epsilon as text, and the most in per cent.
    """
    values = [{"epsilon": f"epsilon {epsilon}", "from": 50, "to": most, "said": f"{most}%"} for epsilon, most in rows]
    scale = {"domain": [0, 100]}
    ends = {"field": "to", "type": "quantitative", "title": "how sure somebody can become, in %", "scale": scale}
    return {
        "$schema": SCHEMA,
        "width": "container",
        "height": 30 * len(values),
        "autosize": {"type": "fit-x", "contains": "padding"},
        "data": {"values": values},
        "encoding": {"y": {"field": "epsilon", "type": "nominal", "sort": None, "title": None}},
        "layer": [
            {
                "mark": {"type": "bar", "height": 14},
                "encoding": {"x": {**ends, "axis": {"values": [0, 25, 50, 75, 100]}}, "x2": {"field": "from"}},
            },
            {
                "mark": {"type": "text", "align": "right", "dx": -6},
                "encoding": {"x": {"datum": 50, "type": "quantitative"}, "text": {"field": "said", "type": "nominal"}},
            },
        ],
    }
