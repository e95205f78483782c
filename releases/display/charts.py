"""Vega-Lite specifications of the site's charts. Data come from plans or from published results only."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

_SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
_ROW_HEIGHT = 22
_TIME_HEIGHT = 240
#: A map is as tall as its shape wants at its width, within limits. Wider than this it is one of the world.
_MAP_HEIGHT, _FLATTEST, _HALF_A_WORLD = 380, 0.3, 180
_COUNT_AXIS = {"format": ",.0f", "tickCount": 6, "labelOverlap": True}


@dataclass(frozen=True, kw_only=True, slots=True)
class BoundPoint:
    """One point of the comparison: what a mechanism promises at an epsilon."""

    mechanism: str
    epsilon: float
    alpha: float


@dataclass(frozen=True, kw_only=True, slots=True)
class StepPoint:
    """How much of a budget was used, in per cent, from a time on.

    Attributes:
        of: the epsilon that was granted then.
        is_start: no charge, but where its line begins.
    """

    budget: str
    at: datetime
    used: float
    of: str = ""
    is_start: bool = False


#: Colours of the charts' palette, and dashes for the budgets beyond it.
_COLOURS = 10
_DASHES = ([1, 0], [7, 3], [2, 2], [9, 3, 2, 3])
#: Over more days than this a time of day says nothing.
_DAYS_WITH_HOURS = 4
#: Over so few each has a mark on the axis of a chart of dates.
_FEW_DAYS = timedelta(days=7)


def spending_steps(points: Sequence[StepPoint], *, until: datetime, places: dict[str, int]) -> dict[str, Any]:
    """Share of each budget used over time, a step for every charge; each holds until the end.

    Args:
        until: the end; its zone is the one that times are told in.
        places: of each budget, the number that its colour and dash follow from.
    """

    def row(budget: str, at: datetime, used: float) -> dict[str, Any]:
        here = at.astimezone(until.tzinfo)
        # The clock of the site's zone, told to the chart as if it were UTC: browsers know no other zone but their own.
        clock = f"{here.replace(tzinfo=None).isoformat(timespec='milliseconds')}Z"
        return {"budget": budget, "at": clock, "used": used, "from": f"{here:%-d %B %Y, %H:%M} {zone}"}

    zone = until.tzname() or ""
    values = [row(each.budget, each.at, each.used) for each in points]
    charges = [value for value, each in zip(values, points, strict=True) if not each.is_start]
    last = {each.budget: each.used for each in points}
    ends = [row(budget, until, used) for budget, used in last.items()]
    # Charges of one minute need no axis of milliseconds.
    since = min(min(each.at for each in points), until - timedelta(minutes=10))
    day = "utcFormat(datum.value, '%-d %b %Y')"
    hours = f"[utcFormat(datum.value, '%H:%M'), {day}]"
    slots = _slots({name: places.get(name, 0) % _COLOURS for name in last})
    dashes = [_DASHES[places.get(name, 0) // _COLOURS % len(_DASHES)] for name in slots]
    shown = {"field": "budget", "type": "nominal", "title": None, "legend": {"values": list(last)}}
    # Names that nobody has hold the places of the palette's other colours.
    colour = {**shown, "scale": {"domain": slots}}
    dash = {**shown, "scale": {"domain": slots, "range": dashes}}
    return {
        "$schema": _SCHEMA,
        "width": "container",
        "height": 260,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "encoding": {
            "x": {
                "field": "at",
                "type": "temporal",
                "title": f"Time ({zone})",
                "scale": {"type": "utc", "domain": [row("", since, 0)["at"], row("", until, 0)["at"]]},
                "axis": {
                    "grid": False,
                    "labelOverlap": True,
                    "tickCount": 5,
                    "labelExpr": hours if until - since < timedelta(days=_DAYS_WITH_HOURS) else day,
                },
            },
            "y": {
                "field": "used",
                "type": "quantitative",
                "title": "% of the budget used",
                "scale": {"domain": [0, 100]},
                "axis": {"values": [0, 25, 50, 75, 100]},
            },
            "color": colour,
        },
        "layer": [
            {
                "data": {"values": values + ends},
                "mark": {"type": "line", "interpolate": "step-after"},
                "encoding": {"color": colour, "strokeDash": dash},
            },
            {
                "data": {"values": charges},
                "mark": {"type": "point", "filled": True, "size": 40, "opacity": 1},
                "encoding": {
                    "color": colour,
                    "tooltip": [
                        {"field": "budget", "type": "nominal"},
                        {"field": "from", "type": "nominal"},
                        {"field": "used", "type": "quantitative", "title": "% used", "format": ".1f"},
                    ],
                },
            },
        ],
    }


def _slots(wanted: dict[str, int]) -> list[str]:
    """Names in an order in which each falls on its colour of a palette that starts again at its end."""
    slots: list[str] = []
    for name, slot in sorted(wanted.items(), key=lambda item: item[1]):
        while len(slots) % _COLOURS != slot:
            slots.append(f" {len(slots)}")
        slots.append(name)
    return slots


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
        "$schema": _SCHEMA,
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
    written = _written(is_counts)
    tooltip = _tooltip(rows, title=title, is_counts=is_counts)
    layer: list[dict[str, Any]] = [
        {
            "mark": {"type": "bar"},
            "encoding": {
                "x": {
                    "field": "estimate",
                    "type": "quantitative",
                    "title": unit,
                    "axis": _COUNT_AXIS | {"format": written},
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
        "$schema": _SCHEMA,
        "width": "container",
        "height": _ROW_HEIGHT * max(1, len(rows)),
        "autosize": {"type": "fit-x", "contains": "padding"},
        "data": {"values": list(rows)},
        "encoding": {"y": {"field": "label", "type": "nominal", "sort": None, "title": None, **_above(axis)}},
        "layer": layer,
    }


def _written(is_counts: bool) -> str:
    return ",.0f" if is_counts else ",.6~g"


def _tooltip(rows: Sequence[Mapping[str, Any]], *, title: str, is_counts: bool) -> list[dict[str, Any]]:
    """A label, and which of its numbers there are."""
    return [{"field": "label", "type": "nominal", "title": title}] + [
        {"field": name, "type": "quantitative", "format": _written(is_counts), "title": said}
        for name, said in (
            ("estimate", "released count" if is_counts else "released"),
            ("lower", "at least"),
            ("upper", "at most"),
            ("synthetic", "synthetic"),
        )
        if rows and rows[0].get(name) is not None
    ]


def date_marks(rows: Sequence[dict[str, Any]], *, title: str) -> dict[str, Any]:
    """One question whose answers are dates: each as a point, with the interval that holds every true one at once.

    Args:
        rows: each with `label`, and `estimate`, `lower` and `upper`, which are dates, or dates and times.
        title: of the question.
    """

    def of_day(field: str) -> dict[str, Any]:
        return {"field": field, "type": "temporal", "scale": {"type": "utc", "padding": 12}, "title": None}

    has_time = any(isinstance(row["estimate"], datetime) for row in rows)
    written = "%-d %B %Y, %H:%M:%S" if has_time else "%-d %B %Y"
    ends = ("estimate", "lower", "upper")
    drawn = [
        {"label": row["label"]}
        | {name: _in_utc(row[name]) for name in ends}
        # Written here: a browser would write them in its own zone.
        | {f"{name}_said": f"{row[name]:{written}}" for name in ends}
        for row in rows
    ]
    said = (("estimate", "released"), ("lower", "earliest"), ("upper", "latest"))
    tooltip = [{"field": "label", "type": "nominal", "title": title}]
    tooltip += [{"field": f"{name}_said", "type": "nominal", "title": says} for name, says in said]
    axis: dict[str, Any] = {"labelOverlap": True, "tickCount": 6}
    if not has_time and max(row["upper"] for row in rows) - min(row["lower"] for row in rows) <= _FEW_DAYS:
        # A time of day would say nothing.
        axis |= {"tickCount": {"interval": "day", "step": 1}, "format": "%-d %b %Y"}
    return {
        "$schema": _SCHEMA,
        "width": "container",
        "height": _ROW_HEIGHT * max(1, len(rows)),
        "autosize": {"type": "fit-x", "contains": "padding"},
        "data": {"values": drawn},
        "encoding": {"y": {"field": "label", "type": "nominal", "sort": None, "title": None}},
        "layer": [
            {
                "mark": {"type": "rule", "strokeWidth": 1.5},
                "encoding": {"x": {**of_day("lower"), "axis": axis}, "x2": {"field": "upper"}},
            },
            *(
                {"mark": {"type": "tick", "thickness": 1.5, "size": 9}, "encoding": {"x": of_day(end)}}
                for end in ("lower", "upper")
            ),
            {
                "mark": {"type": "point", "filled": True, "size": 60, "opacity": 1},
                "encoding": {"x": of_day("estimate"), "tooltip": tooltip},
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
    count = {"type": "quantitative", "title": unit, "axis": _COUNT_AXIS}
    return {
        "$schema": _SCHEMA,
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


def belief_bars(rows: Sequence[tuple[str, int]]) -> dict[str, Any]:
    """How far a belief of 50% can rise at each epsilon: from there to the most it can become.

    Args:
        rows: epsilon as text, and the most in per cent.
    """
    values = [{"epsilon": f"epsilon {epsilon}", "from": 50, "to": most, "said": f"{most}%"} for epsilon, most in rows]
    scale = {"domain": [0, 100]}
    ends = {"field": "to", "type": "quantitative", "title": "how sure somebody can become, in %", "scale": scale}
    return {
        "$schema": _SCHEMA,
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


def _above(title: str) -> dict[str, Any]:
    """An axis's title above it, level: beside it, upright, it would take the room of the bars on a telephone."""
    if not title:
        return {}
    level = {"titleAngle": 0, "titleAlign": "left", "titleAnchor": "start", "titleX": 0, "titleY": -8}
    return {"title": title, "axis": level}


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
        "$schema": _SCHEMA,
        "usermeta": {"across": len({value["across"] for value in values})},
        "width": "container",
        "height": max(120, _ROW_HEIGHT * len({row["down"] for row in values})),
        "autosize": {"type": "fit-x", "contains": "padding"},
        "params": [{"name": "paper", "value": "white"}, {"name": "ink", "value": "black"}],
        "data": {"values": list(values)},
        "encoding": {
            "x": {
                "field": "across",
                "type": "nominal",
                "sort": None,
                "title": across or None,
                "axis": {"labelAngle": -40, "labelOverlap": True, "labelLimit": 110},
            },
            "y": {"field": "down", "type": "nominal", "sort": None, "title": down or None},
        },
        "layer": [squares, numbers],
    }


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
        "legend": {"orient": "bottom", "direction": "horizontal", "format": _written(is_counts), "gradientLength": 180},
    }
    has_numbers = any(row.get("estimate") is not None for row in drawn)
    numbers = {"color": {"condition": {"test": "isValid(datum.estimate)", **colour}, "value": "transparent"}}
    return {
        "$schema": _SCHEMA,
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
        "encoding": (numbers if has_numbers else {}) | {"tooltip": _tooltip(drawn, title=title, is_counts=is_counts)},
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
