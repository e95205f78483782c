"""A chart keeps the words that it has for who does not see it, once it is drawn."""

import json
from pathlib import Path

import pytest

from dpweb.settings import BASE_DIR
from releases.display.charts.answers import range_marks

pytestmark = pytest.mark.browser

STATIC = Path(BASE_DIR) / "releases/static/releases"
SAID = "median of age: 42, between 41 and 45, on the range that it can have"


@pytest.mark.parametrize("colours", ["light", "dark"])
def test_a_drawn_chart_is_called_what_its_page_calls_it(chromium, colours):
    page = chromium.new_page(color_scheme=colours)
    rows = [{"label": "median of age", "estimate": 42, "lower": 41, "upper": 45}]
    chart = range_marks(rows, title="median of age", within=(0, 97), axis="declared range of age, 0 to 97")
    page.set_content(
        f'<div class="chart" data-chart="drawn" role="img" aria-label="{SAID}"></div>'
        f'<script type="application/json" id="drawn">{json.dumps(chart)}</script>'
    )
    for sheet in (next((STATIC / "vendor").glob("pico-*.css")), STATIC / "site.css"):
        page.add_style_tag(path=sheet)
    for library in ("vega-6", "vega-lite-", "vega-embed-"):
        page.add_script_tag(path=next((STATIC / "vendor").glob(f"{library}*.js")))
    page.add_script_tag(path=STATIC / "charts.js")
    page.evaluate("document.dispatchEvent(new Event('DOMContentLoaded'))")
    page.locator(".chart svg").wait_for()
    assert page.locator(".chart").get_attribute("aria-label") == SAID
    assert "declared range of age, 0 to 97" in page.locator(".chart svg").text_content()
    page.close()
