"""A reviewer at their desk, in Chromium: deciding in every way, by a double click, and by keyboard alone."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.flows.browser import DESKTOP, PHONE
from tests.flows.conftest import ASKED, GRANTED, PASSWORD

pytestmark = pytest.mark.browser

RITA = f"""
    rita, _ = User.objects.get_or_create(username="rita", defaults={{{{"email": "rita@example.org"}}}})
    HeldRole.objects.get_or_create(person=rita, role="reviewer")
    rita.set_password({PASSWORD!r})
    rita.save()
"""
BUDGET = (
    ASKED
    + RITA
    + """
    answer = {{"request": str(asked.pk), "budget": str(dataset.budget_id), "dataset": str(dataset.pk)}}
"""
)
REVIEW = (
    GRANTED
    + RITA
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

WINDOWS = [
    pytest.param({"size": DESKTOP}, id="desktop"),
    pytest.param({"size": PHONE, "dark": True}, id="phone in the dark"),
    pytest.param({"javascript": False}, id="without JavaScript"),
]


@pytest.fixture
def make_all(installation, tmp_path):
    """One of a kind for each title; a title is also a file's, so it has no comma."""

    def make(code, titles):
        pieces = [code.format(title=title, folder=str(tmp_path)) + "    made.append(answer)\n" for title in titles]
        return installation.run("    made = []\n" + "".join(pieces) + "    answer = made\n")

    return make


@pytest.fixture
def make(make_all):
    return lambda code, title: make_all(code, [title])[0]


@pytest.fixture
def all_booked(installation):
    """Of each budget the kinds of its ledger's entries, its budget requests and its release requests."""

    def read(made):
        pieces = [BOOKED.format(budget=each["budget"]) + "    found.append(answer)\n" for each in made]
        return installation.run("    found = []\n" + "".join(pieces) + "    answer = found\n")

    return read


@pytest.fixture
def booked(all_booked):
    return lambda made: all_booked([made])[0]


@pytest.fixture
def sit_down(visitor):
    """Somebody signed in, in a window."""

    def open_window(name="sofia", *, dark=False, **window):
        person = visitor(**window)
        person.seen.append("sign in")
        person.sign_in(name, PASSWORD)
        if dark:
            person.page.emulate_media(color_scheme="dark")
        return person

    return open_window


#: The button, epsilon and note of a decision, the word for what became of it, and what was granted.
DECISIONS = [
    ("Grant", "", "", "approved", "30"),
    ("Grant", "4", "Enough for a year.", "approved", "4"),
    ("Deny", "", "Nobody needs it.", "denied", ""),
    ("Ask back", "", "Who will read it?", "asked back", ""),
]


@pytest.mark.parametrize("window", WINDOWS)
def test_a_budget_is_decided_in_every_way(sit_down, make_all, all_booked, window, request):
    titles = [f"{press} {epsilon} {request.node.callspec.id}" for press, epsilon, *_ in DECISIONS]
    made = make_all(BUDGET, titles)
    sofia = sit_down(**window)
    page = sofia.page
    for title, (press, epsilon, note, state, granted) in zip(titles, DECISIONS, strict=True):
        sofia.go("/review/", "review queue")
        sofia.follow(title)
        sofia.heading(title)
        sofia.look("a budget to decide")
        if note and press != "Grant":
            page.get_by_label("Epsilon to grant").fill("7")
            sofia.press(press)
            sofia.reads("must say")
            expect(page.get_by_label("Epsilon to grant")).to_have_value("7")
        if epsilon:
            page.get_by_label("Epsilon to grant").fill("31")
            page.get_by_label("Note to the curator").fill(note)
            sofia.press(press)
            sofia.reads("must be at most the 30 that was asked for")
            expect(page.get_by_label("Note to the curator")).to_have_value(note)
            page.get_by_label("Epsilon to grant").fill(epsilon)
        page.get_by_label("Note to the curator").fill(note)
        sofia.press(press)
        sofia.heading("Requests to decide")
        sofia.reads(f"The request was {state}.")
        page.go_back()
        page.reload()
        sofia.heading(title)
        expect(page.get_by_role("button", name=press, exact=True)).to_have_count(0)
        sofia.reads(f"{state.capitalize()}, epsilon {granted}, by sofia" if granted else f"{state.capitalize()}, by")
        sofia.look(f"a budget {state}")
        page.go_forward()
        sofia.heading("Requests to decide")
    for (kinds, asked, _), (_, _, note, state, granted) in zip(all_booked(made), DECISIONS, strict=True):
        assert (kinds, asked) == (["grant"] if granted else [], [[state, granted, "sofia", note]])


@pytest.mark.parametrize(("code", "press"), [(BUDGET, "Grant"), (REVIEW, "Approve")], ids=["budget", "release"])
def test_a_double_click_decides_once_and_going_back_decides_nothing(sit_down, make, booked, code, press):
    made = make(code, f"{press} twice")
    sofia = sit_down()
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


def test_a_reviewer_decides_by_keyboard_alone(sit_down, make, booked):
    made = make(BUDGET, "Decided by keyboard")
    sofia = sit_down()
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
