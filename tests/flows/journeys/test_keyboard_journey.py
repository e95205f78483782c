"""The whole way from columns that nobody has declared to a published result, by the keyboard alone."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.flows.conftest import PASSWORD

pytestmark = pytest.mark.browser

UPLOADED = """
    from pathlib import Path
    from releases import services
    alice = User.objects.get(username="alice")
    source = Path({folder!r}) / "undeclared.csv"
    source.write_text("age,health,town\\n" + "".join(
        f"{{18 + (i * 7) % 70}},{{('good', 'fair', 'bad', 'Bad')[i % 4]}},t{{i}}\\n" for i in range(300)))
    answer = str(services.datasets.ingest_dataset(owner=alice, title="Undeclared", source=source).pk)
"""

GRANT = """
    from releases import services
    from releases.models import BudgetRequest
    sofia = User.objects.get(username="sofia")
    services.budgets.approve_request(request=BudgetRequest.objects.get(budget__datasets={dataset!r}), by=sofia)
    answer = True
"""


@pytest.fixture
def undeclared(installation, tmp_path):
    return installation.run(UPLOADED.format(folder=str(tmp_path)))


def test_columns_are_declared_and_released_by_keyboard_alone(visitor, undeclared, installation):
    alice = visitor()
    page, keyboard = alice.page, alice.page.keyboard
    page.goto("/accounts/login/")
    alice.tab_to("User name or e-mail address")
    keyboard.type("alice")
    alice.tab_to("Password")
    keyboard.type(PASSWORD)
    alice.enter()
    expect(page.get_by_role("button", name="Sign out")).to_be_visible()

    # The columns: types from menus, bins by three numbers, categories one a line, a category for the rest.
    page.goto(f"/datasets/{undeclared}/columns/")
    keyboard.press("Tab")
    keyboard.press("Enter")
    alice.tab_to("What the table is, for readers")
    keyboard.type("A table for people without a mouse.")
    alice.tab_to("Type of age")
    keyboard.type("whole")
    alice.tab_to("Categories or edges of age")
    keyboard.type("100 to 0 by 20")
    alice.tab_to("Description and unit of age")
    alice.reads("'100 to 0 by 20' must go up from the first number to the second")
    keyboard.press("Enter")
    alice.tab_to("Unit of age")
    keyboard.type("years")
    alice.back_to("Categories or edges of age")
    keyboard.press("Control+A")
    keyboard.type("0 to 100 by 20")
    alice.tab_to("Type of health")
    keyboard.type("cat")
    alice.tab_to("Categories or edges of health")
    keyboard.type("good")
    keyboard.press("Enter")
    keyboard.type("fair")
    alice.tab_to("Outside the declared values of health")
    keyboard.type("count it as")
    alice.tab_to("Category that takes the rest of health")
    keyboard.type("bad")
    alice.tab_to("Type of town")
    alice.reads("outside: 'bad' must be one of the declared categories")
    alice.look("columns with a mistake, by keyboard")

    # What is wrong is gone to from what says so; a category is added, and the rest follows.
    alice.tab_to("health")
    keyboard.press("Enter")
    assert alice.focused() == "Outside the declared values of health"
    alice.back_to("Categories or edges of health")
    keyboard.press("Control+End")
    keyboard.press("Enter")
    keyboard.type("bad")
    alice.tab_to("Type of town")
    alice.reads("2 columns declared. The universe, every combination of their values, has 18 cells.")
    alice.reads("Laplace noise on the histogram")

    # Put off, and taken up again.
    alice.tab_to("Save and come back later")
    alice.enter()
    alice.heading("Undeclared")
    alice.tab_to("go on with it")
    alice.enter()
    alice.reads("What you had typed is here again.")
    expect(page.get_by_label("Categories or edges of health")).to_have_value("good\nfair\nbad")
    alice.look("columns that were kept, by keyboard")
    alice.tab_to("Declare and go on")
    alice.enter()

    alice.heading("Who is protected?")
    alice.tab_to("Each row")
    keyboard.press("ArrowDown")
    alice.tab_to("Column that tells people apart")
    keyboard.type("town")
    alice.tab_to("Rows counted of each person")
    keyboard.press("Control+A")
    keyboard.type("2")
    alice.tab_to("Whether somebody is in the table")
    alice.tab_to("Declare and go on")
    alice.enter()

    alice.heading("How much may be learned in all?")
    alice.tab_to("Epsilon, in all")
    keyboard.press("Control+A")
    keyboard.type("20")
    alice.tab_to("What it is for")
    keyboard.type("The yearbook.")
    alice.tab_to("Ask for the budget")
    alice.enter()
    alice.reads("epsilon 20")
    assert installation.run(GRANT.format(dataset=undeclared))

    page.goto(f"/datasets/{undeclared}/budget/")
    alice.tab_to("Plan a release")
    alice.enter()
    alice.heading("What should the release answer?")
    alice.tab_to("A table of counts")
    alice.enter()
    alice.tab_to("2 columns")
    keyboard.press("ArrowUp")
    alice.tab_to("Add tables")
    alice.enter()
    alice.reads("2 tables")
    assert alice.focused() == "Tables of counts", "where she has added them"
    alice.back_to("Compare methods")
    alice.enter()
    alice.heading("Compare before you spend")
    alice.tab_to("Epsilon")
    keyboard.press("Control+A")
    keyboard.type("0.5")
    alice.enter()
    expect(page.get_by_label("Epsilon", exact=True)).to_have_value("0.5")
    alice.tab_to("Other methods")
    keyboard.press("Enter")
    alice.tab_to("Choose Laplace noise on each answer")
    alice.enter()
    alice.heading("Confirm the release")
    alice.tab_to("Title of the release")
    keyboard.press("Control+A")
    keyboard.type("From the first column on")
    alice.tab_to("Spend and release")
    alice.enter("Space")
    alice.heading("From the first column on")
    alice.wait_for_result()
    alice.reads("A table for people without a mouse.")
    alice.reads("integer, in years")
    alice.tab_to("Make public")
    alice.enter()
    alice.heading("Make “From the first column on” public?")
    alice.tab_to("Make it public")
    alice.enter()
    alice.reads("Public: everybody can read and download it")
