"""A statistic from its question to its result in a browser, and the comparison of four ways, as a visitor sees them."""

from __future__ import annotations

import csv

import pytest
from playwright.sync_api import expect

from tests.flows.browser import DESKTOP, PHONE
from tests.flows.journeys.test_journey import confirm_and_wait, declare_by_form, people, sign_both_in, to_a_budget

pytestmark = pytest.mark.browser


def begin(alice, sofia, tmp_path, title):
    """A dataset with a budget, and a draft on the page of its questions."""
    table = tmp_path / "survey.csv"
    table.write_text(people(title.replace(",", "")))
    dataset = to_a_budget(alice, sofia, title, table, declare=declare_by_form)
    alice.go(f"/datasets/{dataset}/", "dataset granted")
    alice.press("Plan a release")
    alice.heading("What should the release answer?")


def ask_a_stream(alice):
    """Counts put together one at a time; a mistake is said while typing, and what was typed stays."""
    alice.look("what is wanted")
    alice.follow("Another statistic")
    alice.follow("Which count first passes a threshold")
    alice.look("a stream")
    for sex in ("female", "male"):
        alice.page.locator(".conditions summary", has_text="sex").click()
        alice.page.get_by_label(sex, exact=True).check()
        alice.press("Add this count")
        alice.reads(f"sex: {sex}")
    alice.page.get_by_label("Threshold, in rows").fill("many")
    if alice.javascript:
        alice.reads("Threshold, in rows: 'many' must be a whole number")
    alice.press("Compare methods")
    alice.reads("Threshold, in rows: 'many' must be a whole number")
    alice.look("a stream with a mistake")
    alice.page.get_by_label("Threshold, in rows").fill("100")
    alice.press("Check only")
    alice.reads("Would ask for which counts pass 100 rows, until 1 have")
    alice.press("Compare methods")
    alice.heading("Compare before you spend")
    alice.look("comparison of a statistic")


def look_at_four_ways(alice):
    alice.go("/ways/", "four ways")
    alice.heading("Methods: four ways to release many counts")
    expect(alice.page.locator("svg.ways-chart")).to_have_count(4)
    alice.page.get_by_label("n, rows in the table").fill("1,000")
    alice.press("Work it out")
    alice.reads("rows: '1,000' must be a whole number from 1 to")
    alice.look("four ways with a mistake")
    alice.page.get_by_label("n, rows in the table").fill("1000000")
    alice.press("Work it out")
    alice.reads("the smallest bound is that of")


@pytest.mark.parametrize(
    "window",
    [
        pytest.param({"size": PHONE}, id="phone"),
        pytest.param({"size": DESKTOP, "javascript": False}, id="without JavaScript"),
    ],
)
def test_a_stream_of_counts_is_asked_compared_released_and_read(visitor, tmp_path, request, window):
    title = f"A statistic, {request.node.callspec.id}"
    alice, sofia = sign_both_in(visitor, window)
    begin(alice, sofia, tmp_path, title)
    ask_a_stream(alice)
    expect(alice.page.get_by_role("button", name="Choose Above threshold")).to_be_enabled()
    expect(alice.page.get_by_role("button", name="Choose Laplace noise on each answer")).to_have_count(0)
    alice.choose("Above threshold")
    confirm_and_wait(alice, title)
    alice.look("result of a statistic")
    rows = list(csv.DictReader(alice.download("answers.csv", tmp_path).open()))
    for row in rows:
        expect(alice.page.get_by_role("row", name=f"{row['of']} {row['answer']}")).to_be_visible()
    alice.follow("Read the receipt")
    alice.look("receipt of a statistic")
    look_at_four_ways(alice)
