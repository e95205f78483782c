"""A chart keeps the words that it has for who does not see it, once it is drawn, and its axes have theirs."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from dpweb.settings import BASE_DIR
from releases.display.charts.answers import range_marks
from releases.display.charts.spending import StepPoint, spending_steps

pytestmark = pytest.mark.browser

STATIC = Path(BASE_DIR) / "releases/static/releases"
SAID = "median of age: 42, between 41 and 45, on the range that it can have"


@pytest.fixture
def drawn(chromium):
    """The page that a chart is drawn on, as the site draws it."""
    page = chromium.new_page()

    def draw(chart, colours="light"):
        page.emulate_media(color_scheme=colours)
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
        return page

    yield draw
    page.close()


@pytest.mark.parametrize("colours", ["light", "dark"])
def test_a_drawn_chart_is_called_what_its_page_calls_it(drawn, colours):
    rows = [{"label": "median of age", "estimate": 42, "lower": 41, "upper": 45}]
    chart = range_marks(rows, title="median of age", within=(0, 97), axis="declared range of age, 0 to 97")
    page = drawn(chart, colours)
    assert page.locator(".chart").get_attribute("aria-label") == SAID
    assert "declared range of age, 0 to 97" in page.locator(".chart svg").text_content()


@pytest.mark.parametrize("days", [1, 3, 40])
def test_the_chart_of_a_budget_names_days(drawn, days):
    until = datetime(2026, 3, 31, 23, 30, tzinfo=UTC)
    spent = [StepPoint(budget="a", at=until - timedelta(days=days - 1, hours=1), used=10.0)]
    texts = drawn(spending_steps(spent, until=until, places={"a": 0})).locator(".chart svg text").all_text_contents()
    named = {text for text in texts if text.endswith("Mar 2026")}
    if days < 14:
        assert named == {f"{31 - day} Mar 2026" for day in range(days)}
    else:
        assert len(named) > 1
