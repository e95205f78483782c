"""A reviewer at their desk, in Chromium: deciding by a double click and by keyboard alone."""

from __future__ import annotations

import pytest

from tests.flows.conftest import ASKED, GRANTED, PASSWORD

pytestmark = pytest.mark.browser

BUDGET = (
    ASKED
    + """
    answer = {{"request": str(asked.pk), "budget": str(dataset.budget_id), "dataset": str(dataset.pk)}}
"""
)
REVIEW = (
    GRANTED
    + """
    from releases.models import Organisation
    Organisation.objects.update_or_create(id=1, defaults={{"upload_cap_bytes": 2**21, "review_above": "1.5"}})
    release = services.releases.draft_release(dataset=dataset, by=alice, title={title!r})
    services.releases.set_questions(release=release, workload={{"version": 1, "queries": [{{"marginals": 1}}]}})
    services.releases.set_choice(release=release, epsilon="2", mechanism_name="laplace-queries")
    services.releases.submit_release(release=release, key=uuid.uuid4(), by=alice, reason="The yearbook.")
    answer = {{"request": str(release.reviews.get().pk), "release": str(release.pk), "budget": str(dataset.budget_id)}}
"""
)
#: What stands in the ledger of a budget, by kind, and what became of its requests.
BOOKED = """
    from releases.models import BudgetRequest, ReleaseRequest
    budget = Budget.objects.get(pk={budget!r})
    kinds = list(budget.entries.order_by("sequence").values_list("kind", flat=True))
    states = [list(each.values_list("state", "granted_epsilon", "decided_by__username", "note")) for each in (
        BudgetRequest.objects.filter(budget=budget), ReleaseRequest.objects.filter(release__dataset__budget=budget))]
    answer = [kinds, *states]
"""


@pytest.fixture
def make(installation, tmp_path):
    """A title is also a file's, so it has no comma."""
    return lambda code, title: installation.run(code.format(title=title, folder=str(tmp_path)))


@pytest.fixture
def booked(installation):
    """Of a budget the kinds of its ledger's entries, its budget requests and its release requests."""
    return lambda made: installation.run(BOOKED.format(budget=made["budget"]))


@pytest.fixture
def sofia(visitor):
    sofia = visitor()
    sofia.seen.append("sign in")
    sofia.sign_in("sofia", PASSWORD)
    return sofia


@pytest.mark.parametrize(("code", "press"), [(BUDGET, "Grant"), (REVIEW, "Approve")], ids=["budget", "release"])
def test_a_double_click_decides_once_and_going_back_decides_nothing(sofia, make, booked, code, press):
    made = make(code, f"{press} twice")
    kind = "requests" if press == "Grant" else "releases"
    sofia.page.goto(f"/review/{kind}/{made['request']}/")
    sofia.page.get_by_role("button", name=press, exact=True).dblclick()
    sofia.heading("Requests to decide")
    sofia.reads("The request was approved.")
    kinds = booked(made)[0]
    assert kinds == (["grant"] if press == "Grant" else ["grant", "charge"])
    sofia.page.go_back()
    if sofia.page.get_by_role("button", name=press, exact=True).is_visible():
        # The browser's own copy of the page as it was.
        sofia.press(press)
        sofia.reads("The request was approved.")
    assert booked(made)[0] == kinds


def test_a_reviewer_decides_by_keyboard_alone(sofia, make, booked):
    made = make(BUDGET, "Decided by keyboard")
    keyboard = sofia.page.keyboard
    sofia.page.goto("/review/")
    sofia.tab_to("Decided by keyboard")
    sofia.enter()
    sofia.heading("Decided by keyboard")
    sofia.tab_to("Epsilon to grant")
    keyboard.press("Control+A")
    keyboard.type("2.5")
    sofia.tab_to("Note to the curator")
    keyboard.type("To begin with.")
    sofia.tab_to("Grant")
    sofia.enter()
    sofia.heading("Requests to decide")
    assert booked(made)[1] == [["approved", "2.5", "sofia", "To begin with."]]
    sofia.page.goto(f"/review/budgets/{made['budget']}/")
    sofia.tab_to("Freeze")
    keyboard.press("Enter")
    sofia.tab_to("Reason")
    keyboard.type("A complaint.")
    keyboard.press("Tab")
    sofia.enter()
    sofia.reads("Frozen: no release can be charged. “A complaint.”")
