"""A program that draws the charts of a report as SVG, and the report as PDF. It knows nothing of the site.

Usage: drawing.py FOLDER, which holds `report.json` and `report.typ`. It writes `N.svg` for each chart and `report.pdf`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

SAID, PRINTED, PDF = "report.json", "report.typ", "report.pdf"
_WIDTH = 560
#: Numbers of five signs need so many pixels; axis and margins the rest.
_NUMBER, _MARGIN = 38, 90
_MARK, _SECOND = "#1c6760", "#b4572a"
_LOOK = {
    "background": "white",
    "font": "Libertinus Serif, Georgia, serif",
    "bar": {"color": _MARK, "fillOpacity": 0.55},
    "point": {"color": _SECOND},
    "view": {"stroke": None},
    "axis": {"labelFontSize": 11, "titleFontSize": 11, "titleFontWeight": 400, "gridColor": "#dddddd"},
    "range": {"heatmap": ["#f4f8f7", _MARK]},
}


def fixed(chart: dict[str, Any]) -> dict[str, Any]:
    """A chart of the page with a width of its own; without numbers where its squares are too narrow for them."""
    across = chart.get("usermeta", {}).get("across")
    layers = chart["layer"][:1] if across and (_WIDTH - _MARGIN) / across < _NUMBER else chart["layer"]
    return chart | {"width": _WIDTH, "layer": layers}


def draw(folder: Path) -> None:
    """Draw everything that the folder says."""
    import typst
    import vl_convert

    said = json.loads((folder / SAID).read_text())
    for number, table in enumerate(said["tables"]):
        if table["chart"]:
            svg = vl_convert.vegalite_to_svg(fixed(table["chart"]), config=_LOOK, allowed_base_urls=[])
            (folder / f"{number}.svg").write_text(svg)
    typst.compile(str(folder / PRINTED), output=str(folder / PDF), root=str(folder))


if __name__ == "__main__":
    draw(Path(sys.argv[1]))
