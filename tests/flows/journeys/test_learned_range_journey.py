"""From the columns to a range learned from the data, and back to the columns with it, in a browser."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.flows.browser import DESKTOP, PHONE
from tests.flows.journeys.test_journey import confirm_and_wait, sign_both_in, spelled, to_a_budget

pytestmark = pytest.mark.browser


def wages(tag, number=900):
    """Between 1,500 and 10,490.50; a table of its own for every test."""
    told = spelled(tag)
    rows = "".join(
        f"{tag}-{i},{1500 + 10 * i}.{50 * (told[i] if i < len(told) else 1)},{'north' if i % 5 else 'south'}\n"
        for i in range(number)
    )
    return f"person,wage,region\n{rows}"


def declare_the_widest(alice):
    """Before the data may be asked, common sense says what certainly holds everything."""
    alice.reads("A range nobody knows")
    alice.page.get_by_label("Type of wage").select_option("numbers")
    alice.page.get_by_label("Categories or edges of wage").fill("0, 100000")
    alice.press("Declare and go on")
    alice.heading("Who is protected?")


def plan_the_range(alice, dataset):
    alice.go(f"/datasets/{dataset}/columns/", "columns that can be learned")
    alice.follow("Learn the range of wage from the data (costs privacy)")
    alice.heading("Learn the range of wage")
    alice.reads("Nothing here has touched the data and nothing is spent")
    alice.look("a range to be learned")
    alice.page.get_by_label("Certainly nothing is above").fill("much")
    alice.press("Show the plan")
    alice.reads("highest: 'much' must be a number")
    alice.look("a range with a mistake")
    alice.page.get_by_label("Certainly nothing is above").fill("1000000")
    alice.page.get_by_label("Percent of rows inside").fill("80")
    alice.page.get_by_label("Epsilon").fill("1.5")
    alice.press("Show the plan")
    alice.reads("at most 10% of the rows and")
    alice.reads("If you go on, wage is declared again: 0 to 1000000 in one bin")
    # All of it is in the address.
    alice.page.reload()
    expect(alice.page.get_by_label("Certainly nothing is above")).to_have_value("1000000")
    alice.press("Go on to confirm")
    alice.heading("Confirm the release")
    alice.reads("epsilon 1.5")


def take_it_over(alice):
    """The released range stands in the fields, is declared, and says ever after where it comes from."""
    alice.look("a learned range")
    shown = alice.page.locator("dl.answer dd").inner_text()
    low, high = shown.split(" to ")
    assert 0 <= float(low) < float(high) <= 1_000_000
    alice.press("Use this range for column wage")
    alice.heading("What can the columns hold?")
    alice.look("columns with a learned range filled in")
    edges = alice.page.get_by_label("Categories or edges of wage")
    expect(edges).to_have_value(re.compile(rf"^{re.escape(low)}, .*{re.escape(high)}$"))
    alice.page.reload()
    alice.press("Declare and go on")
    alice.heading("Who is protected?")


@pytest.mark.parametrize(
    "window",
    [
        pytest.param({"size": PHONE}, id="phone"),
        pytest.param({"size": DESKTOP, "javascript": False}, id="without JavaScript"),
    ],
)
def test_a_range_is_learned_from_the_data_and_declared(visitor, tmp_path, request, window):
    tag = request.node.callspec.id
    title = f"A range, {tag}"
    table = tmp_path / "wages.csv"
    table.write_text(wages(tag))
    alice, sofia = sign_both_in(visitor, window)
    dataset = to_a_budget(alice, sofia, title, table, declare=declare_the_widest)
    plan_the_range(alice, dataset)
    confirm_and_wait(alice, "Wages of most")
    take_it_over(alice)
    alice.go(f"/datasets/{dataset}/columns/", "columns with a learned range")
    alice.reads("Range learned by Wages of most, epsilon 1.5.")
