"""How much of each budget was used over time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from releases.display.charts.common import SCHEMA


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
#: So many days have a tick each; of more the library chooses some.
_MOST_TICKS = 14


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
    # From the beginning of a day, so that each day has its tick, the first one too.
    first = min(each.at for each in points).astimezone(until.tzinfo).date()
    days = (until.date() - first).days + 1
    # Not as `values`: the interpreter of expressions, which pages use, takes the one number of a time for a year.
    ticks = {"tickCount": {"interval": "day", "step": 1} if days <= _MOST_TICKS else 5}
    slots = _slots({name: places.get(name, 0) % _COLOURS for name in last})
    dashes = [_DASHES[places.get(name, 0) // _COLOURS % len(_DASHES)] for name in slots]
    shown = {"field": "budget", "type": "nominal", "title": None, "legend": {"values": list(last)}}
    # Names that nobody has hold the places of the palette's other colours.
    colour = {**shown, "scale": {"domain": slots}}
    dash = {**shown, "scale": {"domain": slots, "range": dashes}}
    return {
        "$schema": SCHEMA,
        "width": "container",
        "height": 260,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "encoding": {
            "x": {
                "field": "at",
                "type": "temporal",
                "title": f"Time ({zone})",
                "scale": {"type": "utc", "domain": [f"{first}T00:00:00.000Z", row("", until, 0)["at"]]},
                "axis": {
                    "grid": False,
                    "labelOverlap": True,
                    **ticks,
                    "labelExpr": "utcFormat(datum.value, '%-d %b %Y')",
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
