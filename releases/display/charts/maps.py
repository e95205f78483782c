"""Regions on a map."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from releases.display.charts.common import SCHEMA, number_format, tooltip_of

#: A map is as tall as its shape wants at its width, within limits. Wider than this it is one of the world.
_MAP_HEIGHT, _FLATTEST, _HALF_A_WORLD = 380, 0.3, 180


def feature(shape: Any) -> dict[str, Any]:
    """A region as GeoJSON.

    Args:
        shape: its polygons (see ``schema/boundaries.py``).
    """
    return {"type": "Feature", "geometry": {"type": "MultiPolygon", "coordinates": shape}}


def region_map(
    rows: Sequence[Mapping[str, Any]],
    shapes: Mapping[str, Any],
    *,
    title: str,
    unit: str = "",
    is_counts: bool = True,
) -> dict[str, Any]:
    """Regions on a map, each the darker the larger its number; one without a number has its outline alone.

    Areas are true to one another: the map is a projection that keeps them, around the middle of what is drawn.

    Args:
        rows: each with `label`, and `estimate`, `lower`, `upper` where there are numbers.
        shapes: by label the polygons of a region; a row without one is not on the map.
        title: of the question.
        unit: of the numbers.
        is_counts: whether they are whole.
    """
    drawn = [row for row in rows if row["label"] in shapes]
    points = [point for row in drawn for polygon in shapes[row["label"]] for ring in polygon for point in ring]
    (west, south), (east, north) = (tuple(map(end, zip(*points, strict=True))) for end in (min, max))
    middle, height = (south + north) / 2, north - south
    is_world = east - west > _HALF_A_WORLD
    across = (east - west) * (1 if is_world else math.cos(math.radians(middle)))
    colour = {
        "field": "estimate",
        "type": "quantitative",
        "title": unit or None,
        "scale": {"zero": is_counts, "nice": True, "interpolate": "rgb", "range": "ramp"},
        "legend": {
            "orient": "bottom",
            "direction": "horizontal",
            "format": number_format(is_counts),
            "gradientLength": 180,
        },
    }
    has_numbers = any(row.get("estimate") is not None for row in drawn)
    numbers = {"color": {"condition": {"test": "isValid(datum.estimate)", **colour}, "value": "transparent"}}
    return {
        "$schema": SCHEMA,
        # How tall it is for each unit of its width.
        "usermeta": {"ratio": round(max(_FLATTEST, height / max(across, 0.001)), 3)},
        "width": "container",
        "height": _MAP_HEIGHT,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "projection": {"type": "equalEarth"}
        if is_world
        else {"type": "azimuthalEqualArea", "rotate": [-(west + east) / 2, -middle]},
        "data": {"values": [{**feature(shapes[row["label"]]), **row} for row in drawn]},
        "mark": {"type": "geoshape"},
        "encoding": (numbers if has_numbers else {}) | {"tooltip": tooltip_of(drawn, title=title, is_counts=is_counts)},
    }
