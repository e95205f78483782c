"""A program that draws the charts of a report as SVG, and the report as PDF. It knows nothing of the site.

Usage: drawing.py FOLDER, which holds `report.json` and `report.typ`. It writes `chart-N.svg` and `map-N.svg`
for each table that has one, and `report.pdf`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

SAID, PRINTED, PDF = "report.json", "report.typ", "report.pdf"
#: The pictures that a table can have.
KINDS = ("map", "chart")
_WIDTH = 560
#: Numbers of five signs need so many pixels; axis and margins the rest.
_NUMBER, _MARGIN = 38, 90
_MARK, _SECOND = "#1c6760", "#b4572a"
_LOOK = {
    "background": "white",
    "font": "Libertinus Serif, Georgia, serif",
    "bar": {"color": _MARK, "fillOpacity": 0.55},
    "tick": {"color": "black"},
    "point": {"color": _SECOND},
    "view": {"stroke": None},
    "axis": {"labelFontSize": 11, "titleFontSize": 11, "titleFontWeight": 400, "gridColor": "#dddddd"},
    "geoshape": {"stroke": "#666666", "strokeWidth": 0.7, "fill": "#e4efed"},
    "range": {"heatmap": ["#f4f8f7", _MARK], "ramp": ["#e4efed", _MARK]},
}


def fixed(chart: dict[str, Any]) -> dict[str, Any]:
    """A chart of the page with a width of its own; without numbers where its squares are too narrow for them, and a map
    no taller than its regions."""
    sizes = chart.get("usermeta", {})
    own: dict[str, Any] = {"width": _WIDTH}
    if (across := sizes.get("across")) and (_WIDTH - _MARGIN) / across < _NUMBER:
        own["layer"] = chart["layer"][:1]
    if ratio := sizes.get("ratio"):
        own["height"] = min(chart["height"], round(ratio * _WIDTH))
    return chart | own


def picture_name(number: int, kind: str) -> str:
    """The file of a table's picture."""
    return f"{kind}-{number}.svg"


def draw(folder: Path) -> None:
    """Draw everything that the folder says."""
    import typst
    import vl_convert

    said = json.loads((folder / SAID).read_text())
    for number, table in enumerate([*said["tables"], *said["synthetic"]]):
        for kind in KINDS:
            if table[kind]:
                svg = vl_convert.vegalite_to_svg(fixed(table[kind]), config=_LOOK, allowed_base_urls=[])
                (folder / picture_name(number, kind)).write_text(svg)
    typst.compile(str(folder / PRINTED), output=str(folder / PDF), root=str(folder))


if __name__ == "__main__":
    draw(Path(sys.argv[1]))
