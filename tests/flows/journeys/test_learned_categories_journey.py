"""From the columns to categories learned from the data, and back to the columns with them, in a browser."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.flows.browser import DESKTOP, PHONE
from tests.flows.journeys.test_journey import confirm_and_wait, sign_both_in, spelled, to_a_budget

pytestmark = pytest.mark.browser

#: In 300 rows each, but for one row that has a town of its own.
TOWNS = ["Ayr", "Fort William", "Oban"]


def people(tag):
    """A table of its own for every test."""
    ages = [20 + i % 60 for i in range(900)]
    ages[:32] = [20 + bit for bit in spelled(tag)]
    rows = "".join(f"{tag}-{i},{age},{TOWNS[i % 3]}\n" for i, age in enumerate(ages))
    return f"person,age,town\n{rows}{tag}-900,30,Unst\n"


def declare_all_but_the_towns(alice):
    alice.reads("Categories nobody knows")
    alice.page.get_by_label("Type of age").select_option("whole numbers")
    alice.page.get_by_label("Categories or edges of age").fill("0 to 100 by 10")
    alice.press("Declare and go on")
    alice.heading("Who is protected?")


def plan_the_categories(alice, dataset):
    alice.go(f"/datasets/{dataset}/columns/", "columns whose categories can be learned")
    alice.follow("Learn the categories of town from the data (costs privacy)")
    alice.heading("Learn the categories of town")
    alice.reads("Nothing here has touched the data and nothing is spent")
    alice.look("categories to be learned")
    alice.page.get_by_label("Word for everything else").fill("drop")
    alice.press("Show the plan")
    alice.reads("other: 'drop' must be another word")
    alice.look("categories with a mistake")
    alice.page.get_by_label("Word for everything else").fill("elsewhere")
    alice.page.get_by_label("Epsilon").fill("1")
    alice.press("Show the plan")
    alice.reads("any one value that is not declared is found if at least 24 counted rows have it")
    alice.reads("If you go on, town is declared with the one category elsewhere")
    # All of it is in the address.
    alice.page.reload()
    expect(alice.page.get_by_label("Word for everything else")).to_have_value("elsewhere")
    alice.press("Go on to confirm")
    alice.heading("Confirm the release")
    alice.reads("epsilon 1")


def take_them_over(alice):
    """The values found stand in the field, are declared, and say ever after where they come from."""
    alice.look("learned categories")
    assert alice.page.locator("ul.values li").all_inner_texts() == TOWNS
    alice.press("Use these categories for column town")
    alice.heading("What can the columns hold?")
    alice.look("columns with learned categories filled in")
    expect(alice.page.get_by_label("Categories or edges of town")).to_have_value("\n".join([*TOWNS, "elsewhere"]))
    alice.page.reload()
    alice.press("Declare and go on")
    alice.heading("Who is protected?")


@pytest.mark.parametrize(
    "window",
    [
        pytest.param({"size": PHONE}, id="phone"),
        pytest.param({"size": DESKTOP}, id="desktop"),
        pytest.param({"size": DESKTOP, "javascript": False}, id="without JavaScript"),
    ],
)
def test_categories_are_learned_from_the_data_and_declared(visitor, tmp_path, request, window):
    tag = request.node.callspec.id
    title = f"Towns, {tag}"
    table = tmp_path / "towns.csv"
    table.write_text(people(tag))
    alice, sofia = sign_both_in(visitor, window)
    dataset = to_a_budget(alice, sofia, title, table, declare=declare_all_but_the_towns)
    plan_the_categories(alice, dataset)
    confirm_and_wait(alice, "Towns of many")
    take_them_over(alice)
    alice.go(f"/datasets/{dataset}/columns/", "columns with learned categories")
    alice.reads("Categories learned by Towns of many, epsilon 1, delta 0.000000001.")
