"""The bounds of several ways of releasing many counts along one axis, with the places where one overtakes another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from typing import Any

from releases.display.charts.common import SCHEMA

#: 10^7 in place of a number with seven zeros.
_POWERS = (
    "datum.value < 1e-3 || datum.value > 1e6 ? '10^' + round(log(datum.value) / LN10) : format(datum.value, ',.12~g')"
)
#: Less than half a row is no error; a logarithm has no place for it.
_LEAST = 0.5


@dataclass(frozen=True, kw_only=True, slots=True)
class Overtaking:
    """Where two curves cross: at a value of the axis and a bound, and what happens there in words."""

    at: float
    alpha: float
    words: str


def way_curves(
    curves: Mapping[str, Sequence[tuple[float, float]]],
    *,
    overtakings: Sequence[Overtaking],
    all_rows: Sequence[tuple[float, float]],
    axis: str,
) -> dict[str, Any]:
    """Bounds against a public number, both axes logarithmic.

    Args:
        curves: for each way its bound in rows at every value of the axis.
        overtakings: marked with a circle.
        all_rows: the number of rows at both ends of the axis: a bound above this line says nothing.
        axis: what the values of the axis are.
    """
    drawn = {way: [(value, max(alpha, _LEAST)) for value, alpha in curve] for way, curve in curves.items()}
    across, up = _ranges(drawn, most=max(alpha for _, alpha in all_rows))
    legend = {"symbolType": "stroke", "symbolSize": 500}
    told_apart = {"field": "way", "type": "nominal", "title": None, "sort": None, "legend": legend}
    crossed = [each for each in overtakings if up[0] <= each.alpha <= up[1]]
    return {
        "$schema": SCHEMA,
        "width": "container",
        "height": 300,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "encoding": {
            "x": {"field": "value", **_logarithmic(across, axis), "axis": _powers_of_ten(across) | {"grid": False}},
            "y": {"field": "alpha", **_logarithmic(up, "bound, in rows"), "axis": _powers_of_ten(up)},
        },
        "layer": [
            {
                "data": {
                    "values": [
                        {"way": way, "value": value, "alpha": alpha}
                        for way, curve in drawn.items()
                        for value, alpha in curve
                    ]
                },
                "mark": {"type": "line", "clip": True, "strokeWidth": 2.25},
                "encoding": {"color": told_apart, "strokeDash": told_apart},
            },
            {
                "data": {"values": [{"value": value, "alpha": alpha} for value, alpha in all_rows]},
                "mark": {
                    "type": "line",
                    "clip": True,
                    "color": "#808890",
                    "strokeDash": [2, 4],
                    "tooltip": {"content": "above this line a bound says nothing"},
                },
            },
            {
                "data": {"values": [{"value": each.at, "alpha": each.alpha, "words": each.words} for each in crossed]},
                "mark": {"type": "point", "size": 70, "strokeWidth": 1.5},
                "encoding": {"tooltip": {"field": "words", "type": "nominal"}},
            },
        ],
    }


def _ranges(
    curves: Mapping[str, Sequence[tuple[float, float]]], *, most: float
) -> tuple[tuple[float, float], tuple[float, float]]:
    """What both axes show. A bound far above the number of rows says nothing, so the picture ends soon above it."""
    values = [value for curve in curves.values() for value, _ in curve]
    alphas = [alpha for curve in curves.values() for _, alpha in curve]
    top = 10.0 ** ceil(log10(min(max(alphas), 3 * most)))
    return (min(values), max(values)), (min(10.0 ** floor(log10(min(alphas))), top / 10), top)


def _logarithmic(shown: tuple[float, float], title: str) -> dict[str, Any]:
    return {"type": "quantitative", "scale": {"type": "log", "domain": list(shown), "nice": False}, "title": title}


def _powers_of_ten(shown: tuple[float, float]) -> dict[str, Any]:
    powers = range(ceil(log10(shown[0]) - 1e-9), floor(log10(shown[1]) + 1e-9) + 1)
    return {"values": [float(f"1e{power}") for power in powers], "labelExpr": _POWERS}
