"""The whole way from columns that nobody has declared to a published result, by the keyboard alone."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.flows.conftest import PASSWORD
from tests.flows.test_astray import NAME, tab_to

pytestmark = pytest.mark.browser

UPLOADED = """
    from pathlib import Path
    from releases import services
    alice = User.objects.get(username="alice")
    source = Path({folder!r}) / "undeclared.csv"
    source.write_text("age,health,town\\n" + "".join(
        f"{{18 + (i * 7) % 70}},{{('good', 'fair', 'bad', 'Bad')[i % 4]}},t{{i}}\\n" for i in range(300)))
    answer = str(services.ingest_dataset(owner=alice, title="Undeclared", source=source).pk)
"""

GRANT = """
    from releases import services
    from releases.models import BudgetRequest
    sofia = User.objects.get(username="sofia")
    services.approve_request(request=BudgetRequest.objects.get(budget__datasets={dataset!r}), by=sofia)
    answer = True
"""


@pytest.fixture
def undeclared(installation, tmp_path):
    return installation.run(UPLOADED.format(folder=str(tmp_path)))


def back_to(person, name):
    """The same with Shift: what was left out is gone back to."""
    for _ in range(120):
        person.page.keyboard.press("Shift+Tab")
        if person.page.evaluate(NAME).startswith(name):
            return
    raise AssertionError(f"{name!r} cannot be reached by Shift+Tab on {person.page.url}")


def test_columns_are_declared_and_released_by_keyboard_alone(visitor, undeclared, installation):
    alice = visitor()
    page, keyboard = alice.page, alice.page.keyboard
    page.goto("/accounts/login/")
    tab_to(alice, "User name or e-mail address")
    keyboard.type("alice")
    tab_to(alice, "Password")
    keyboard.type(PASSWORD)
    keyboard.press("Enter")
    expect(page.get_by_role("button", name="Sign out")).to_be_visible()

    # The columns: types from menus, bins by three numbers, categories one a line, a category for the rest.
    page.goto(f"/datasets/{undeclared}/columns/")
    keyboard.press("Tab")
    keyboard.press("Enter")
    tab_to(alice, "What the table is, for readers")
    keyboard.type("A table for people without a mouse.")
    tab_to(alice, "Type of age")
    keyboard.type("whole")
    tab_to(alice, "Categories or edges of age")
    keyboard.type("100 to 0 by 20")
    tab_to(alice, "Description and unit of age")
    alice.reads("'100 to 0 by 20' must go up from the first number to the second")
    keyboard.press("Enter")
    tab_to(alice, "Unit of age")
    keyboard.type("years")
    back_to(alice, "Categories or edges of age")
    keyboard.press("Control+A")
    keyboard.type("0 to 100 by 20")
    tab_to(alice, "Type of health")
    keyboard.type("cat")
    tab_to(alice, "Categories or edges of health")
    keyboard.type("good")
    keyboard.press("Enter")
    keyboard.type("fair")
    tab_to(alice, "Outside the declared values of health")
    keyboard.type("count it as")
    tab_to(alice, "Category that takes the rest of health")
    keyboard.type("bad")
    tab_to(alice, "Type of town")
    alice.reads("outside: 'bad' must be one of the declared categories")
    alice.look("columns with a mistake, by keyboard")

    # What is wrong is gone to from what says so; a category is added, and the rest follows.
    tab_to(alice, "health")
    keyboard.press("Enter")
    assert page.evaluate(NAME) == "Outside the declared values of health"
    back_to(alice, "Categories or edges of health")
    keyboard.press("Control+End")
    keyboard.press("Enter")
    keyboard.type("bad")
    tab_to(alice, "Type of town")
    alice.reads("2 columns declared. The universe, every combination of their values, has 15 cells.")
    alice.reads("Laplace noise on the histogram")

    # Put off, and taken up again.
    tab_to(alice, "Save and come back later")
    keyboard.press("Enter")
    alice.heading("Undeclared")
    tab_to(alice, "go on with it")
    keyboard.press("Enter")
    alice.reads("What you had typed is here again.")
    expect(page.get_by_label("Categories or edges of health")).to_have_value("good\nfair\nbad")
    alice.look("columns that were kept, by keyboard")
    tab_to(alice, "Declare and go on")
    keyboard.press("Enter")

    alice.heading("Whom does it protect?")
    tab_to(alice, "Each row")
    keyboard.press("ArrowDown")
    tab_to(alice, "Column that tells people apart")
    keyboard.type("town")
    tab_to(alice, "Rows counted of each person")
    keyboard.press("Control+A")
    keyboard.type("2")
    tab_to(alice, "Whether somebody is in the table")
    tab_to(alice, "Declare and go on")
    keyboard.press("Enter")

    alice.heading("How much may be learned in all?")
    tab_to(alice, "Epsilon, in all")
    keyboard.press("Control+A")
    keyboard.type("20")
    tab_to(alice, "What it is for")
    keyboard.type("The yearbook.")
    tab_to(alice, "Ask for the budget")
    keyboard.press("Enter")
    alice.reads("epsilon 20")
    assert installation.run(GRANT.format(dataset=undeclared))

    page.goto(f"/datasets/{undeclared}/budget/")
    tab_to(alice, "Plan a release")
    keyboard.press("Enter")
    alice.heading("What should the release answer?")
    tab_to(alice, "2 columns")
    keyboard.press("ArrowUp")
    tab_to(alice, "Add tables")
    keyboard.press("Enter")
    alice.reads("2 tables")
    tab_to(alice, "Compare mechanisms")
    keyboard.press("Enter")
    alice.heading("Compare before you spend")
    tab_to(alice, "Choose Laplace noise on each answer")
    keyboard.press("Enter")
    alice.heading("Confirm the release")
    tab_to(alice, "Title of the release")
    keyboard.press("Control+A")
    keyboard.type("From the first column on")
    tab_to(alice, "Spend and release")
    keyboard.press("Space")
    alice.heading("From the first column on")
    alice.wait_for_result()
    alice.reads("A table for people without a mouse.")
    alice.reads("integer, in years")
