"""A reviewer at their desk, in Chromium: deciding in every way, twice, late, in two tabs and signed out in between; the
board with its filters; freezing. And an analyst at the catalogue, who comes back to what was searched."""

from __future__ import annotations

import csv
import io

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
PUBLIC = (
    GRANTED
    + """
    release = services.releases.draft_release(dataset=dataset, by=alice, title={title!r})
    services.releases.set_questions(release=release, workload={{"version": 1, "queries": [{{"marginals": 1}}]}})
    services.releases.set_choice(release=release, epsilon="1", mechanism_name="laplace-queries")
    services.releases.submit_release(release=release, key=uuid.uuid4(), by=alice, send=False)
    assert services.execution.execute_release(release_id=release.pk)
    services.releases.make_public(release=release, by=alice)
    answer = {{"release": str(release.pk), "dataset": str(dataset.pk)}}
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


@pytest.mark.parametrize("window", WINDOWS)
def test_a_release_is_decided_in_every_way(sit_down, make_all, all_booked, window, request):
    decisions = [
        (press.replace("Grant", "Approve"), epsilon and "0.5", note, state, granted and ("0.5" if epsilon else "2"))
        for press, epsilon, note, state, granted in DECISIONS
    ]
    titles = [f"{press} {epsilon} a release {request.node.callspec.id}" for press, epsilon, *_ in decisions]
    made = make_all(REVIEW, titles)
    sofia = sit_down(**window)
    page = sofia.page
    for title, (press, epsilon, note, state, _) in zip(titles, decisions, strict=True):
        sofia.go("/review/", "review queue")
        sofia.follow(title)
        sofia.heading(title)
        sofia.reads("like this fit")
        sofia.look("a release to decide")
        page.get_by_label("Epsilon to approve").fill(epsilon or "2")
        page.get_by_label("Note to the curator").fill(note)
        sofia.press(press)
        sofia.heading("Requests to decide")
        sofia.reads("Approved for epsilon 0.5 instead of 2" if epsilon else f"The request was {state}.")
        page.go_back()
        page.reload()
        sofia.heading(title)
        sofia.reads("by sofia on")
    for (kinds, _, asked), (_, _, note, state, granted) in zip(all_booked(made), decisions, strict=True):
        assert asked == [[state, granted, "sofia", note]]
        assert kinds == (["grant", "charge"] if granted == "2" else ["grant"])


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


@pytest.mark.parametrize(("code", "press"), [(BUDGET, "Grant"), (REVIEW, "Approve")], ids=["budget", "release"])
@pytest.mark.parametrize("second", ["sofia", "rita"])
def test_of_two_tabs_the_second_is_told_what_was_decided_by_whom_and_when(sit_down, make, booked, code, press, second):
    made = make(code, f"Two tabs {press} {second}")
    kind, epsilon = ("requests", "4") if press == "Grant" else ("releases", "1")
    path = f"/review/{kind}/{made['request']}/"
    first, other = sit_down(), sit_down(second)
    for each in (first, other):
        each.page.goto(path)
    first.page.get_by_label("Epsilon").first.fill(epsilon)
    first.press(press)
    first.heading("Requests to decide")
    kinds = booked(made)[0]
    other.page.get_by_label("Note to the curator").fill("Too much, I think.")
    other.press("Deny")
    other.reads("Nothing was changed by what you pressed.")
    other.reads(f"Approved, epsilon {epsilon}, by sofia on")
    other.reads("What you typed was not sent to the curator: “Too much, I think.”")
    other.look(f"decided before {press}")
    # Approving for more comes too late as well, whoever does it.
    again = first if second == "sofia" else other
    again.page.goto(path)
    expect(again.page.get_by_role("button", name=press, exact=True)).to_have_count(0)
    assert booked(made)[0] == kinds
    assert [each[:3] for each in booked(made)[1 if press == "Grant" else 2]] == [["approved", epsilon, "sofia"]]


@pytest.mark.parametrize("javascript", [True, False], ids=["with JavaScript", "without"])
def test_signed_out_while_typing_a_reason_it_comes_back_to_the_same_person(sit_down, make, booked, javascript):
    made = make(BUDGET, f"Signed out while deciding {javascript}")
    sofia = sit_down(javascript=javascript)
    sofia.page.goto(f"/review/requests/{made['request']}/")
    sofia.page.get_by_label("Note to the curator").fill("A reason that took\nlong to write.")
    sofia.lose_session()
    sofia.press("Deny")
    sofia.heading("Sign in")
    sofia.reads("What you typed is kept until you sign in.")
    assert booked(made)[1] == [["waiting", "", None, ""]]
    sofia.sign_in_here("sofia", PASSWORD)
    sofia.heading("It was not sent yet")
    sofia.page.get_by_text("What was typed", exact=True).click()
    sofia.reads("A reason that took")
    sofia.press("Send it now")
    sofia.heading("Requests to decide")
    ((state, _, who, note),) = booked(made)[1]
    assert (state, who, note.split()) == ("denied", "sofia", ["A", "reason", "that", "took", "long", "to", "write."])


def test_signed_out_while_typing_a_reason_nobody_else_reads_it(sit_down, make, booked):
    made = make(BUDGET, "Somebody else signs in")
    sofia = sit_down()
    sofia.page.goto(f"/review/requests/{made['request']}/")
    sofia.page.get_by_label("Note to the curator").fill("Between us.")
    sofia.lose_session()
    sofia.press("Deny")
    sofia.heading("Sign in")
    sofia.sign_in_here("rita", PASSWORD)
    expect(sofia.page.get_by_role("button", name="Sign out")).to_be_visible()
    expect(sofia.page.get_by_text("Between us.")).to_have_count(0)
    assert booked(made)[1] == [["waiting", "", None, ""]]


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


# --- the board --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("window", WINDOWS)
def test_the_board_is_filtered_exported_and_frozen(sit_down, make, window, request):
    tag = request.node.callspec.id
    made, _ = make(PUBLIC, f"Board {tag}"), make(BUDGET, f"Not on it {tag}")
    sofia = sit_down(**window)
    page = sofia.page
    sofia.go("/review/budgets/", "budget board")
    page.get_by_label("Dataset").fill(f"board {tag}")
    sofia.press("Filter")
    expect(page.locator("table.board tbody tr")).to_have_count(1)
    sofia.reads("3.4%")
    sofia.look("board, filtered")
    page.reload()
    expect(page.get_by_label("Dataset")).to_have_value(f"board {tag}")
    expect(page.locator("table.board tbody tr")).to_have_count(1)
    with page.expect_download() as started:
        sofia.follow("Download as CSV")
    lines = list(csv.DictReader(io.StringIO(started.value.path().read_text())))
    assert [each["budget"] for each in lines] == [f"Board {tag}"]
    assert (lines[0]["spent_percent"], lines[0]["spent_epsilon"]) == ("3.4", "1")
    page.get_by_role("link", name=f"Board {tag}", exact=True).click()
    sofia.heading(f"Board {tag}")
    address = page.url
    page.go_back()
    expect(page.get_by_label("Dataset")).to_have_value(f"board {tag}")
    page.goto(address)
    page.locator("summary", has_text="Freeze").click()
    sofia.press("Freeze")
    if not page.evaluate("document.querySelector('#id_reason').required"):
        sofia.reads("Reason: nothing was typed.")
    page.get_by_label("Reason").fill("A complaint.")
    sofia.press("Freeze")
    sofia.reads("Frozen: no release can be charged. “A complaint.”")
    sofia.look("a frozen budget")
    page.locator("summary", has_text="Unfreeze").click()
    page.get_by_label("Reason").fill("Settled.")
    sofia.press("Unfreeze")
    sofia.reads("Unfrozen: releases can be charged again.")
    assert made["release"] not in page.url


def test_of_two_who_freeze_a_budget_the_second_is_told_that_it_was_frozen(sit_down, make):
    made = make(BUDGET, "Frozen twice")
    first, second = sit_down(), sit_down("rita")
    for each, why in ((first, "A complaint."), (second, "Another.")):
        each.page.goto(f"/review/budgets/{made['budget']}/")
        each.page.locator("summary", has_text="Freeze").click()
        each.page.get_by_label("Reason").fill(why)
    first.press("Freeze")
    first.reads("Frozen: no release can be charged to this budget.")
    second.press("Freeze")
    second.reads("The budget was frozen before, for the reason shown here. Your reason was not recorded.")
    second.reads("“A complaint.”")


# --- an analyst -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("window", WINDOWS)
def test_an_analyst_comes_back_to_what_was_searched(visitor, make, window, request):
    title = f"Searched {request.node.callspec.id}"
    made = make(PUBLIC, title)
    reader = visitor(**{name: value for name, value in window.items() if name != "dark"})
    page = reader.page
    if "dark" in window:
        page.emulate_media(color_scheme="dark")
    reader.go("/catalogue/", "catalogue")
    page.get_by_role("searchbox").fill(f"{request.node.callspec.id} searched")
    reader.enter()
    expect(page.locator("tbody tr")).to_have_count(1)
    searched = page.url
    page.reload()
    expect(page.get_by_role("searchbox")).to_have_value(f"{request.node.callspec.id} searched")
    reader.follow(title)
    reader.heading(title)
    expect(page.get_by_role("heading", name="Downloads")).to_be_visible()
    reader.look("public release")
    page.go_back()
    assert page.url == searched
    expect(page.locator("tbody tr")).to_have_count(1)
    page.get_by_role("searchbox").fill("nothing has this word")
    reader.press("Search")
    reader.reads("Nothing published has “nothing has this word”")
    assert made["release"]


def test_an_analyst_reads_and_downloads_by_keyboard_alone(visitor, make):
    make(PUBLIC, "Read by keyboard")
    reader = visitor()
    keyboard = reader.page.keyboard
    reader.page.goto("/catalogue/")
    reader.tab_to("Search releases")
    keyboard.type("read keyboard")
    reader.enter()
    expect(reader.page.locator("tbody tr")).to_have_count(1)
    reader.tab_to("Read by keyboard")
    reader.enter()
    reader.heading("Read by keyboard")
    reader.tab_to("answers.csv")
    with reader.page.expect_download() as started:
        keyboard.press("Enter")
    assert started.value.path().read_text().startswith('"query"')


def test_a_release_that_is_withdrawn_while_it_is_read_says_so_wherever_one_goes_on(visitor, make, installation):
    made = make(PUBLIC, "Withdrawn while it is read")
    reader = visitor()
    reader.page.goto(f"/releases/{made['release']}/")
    reader.heading("Withdrawn while it is read")
    links = reader.page.eval_on_selector_all("main a[href]", "found => found.map(each => each.getAttribute('href'))")
    own = {link for link in links if link.startswith(f"/releases/{made['release']}/") and "#" not in link}
    assert {f"/releases/{made['release']}/{path}" for path in ("receipt/", "files/answers.csv")} <= own
    installation.run(f"services.releases.withdraw_release(release=Release.objects.get(pk={made['release']!r}))")
    reader.follow("Read the receipt")
    reader.reads("This release was public and was withdrawn on")
    reader.page.go_back()
    reader.page.reload()
    reader.reads("This release was public and was withdrawn on")
    for name in ("files/answers.csv", "answers/", "receipt/"):
        assert reader.page.goto(f"/releases/{made['release']}/{name}").status == 410, name
    reader.page.goto("/catalogue/?q=withdrawn+while")
    reader.reads("Nothing published has")
