"""What people do besides the straight way, in Chromium: back and forward, two tabs, double clicks, a session that
ends."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.flows.conftest import GRANTED, PASSWORD

pytestmark = pytest.mark.browser

DRAFT = (
    GRANTED
    + """
    release = services.releases.draft_release(dataset=dataset, by=alice, title={title!r})
    services.releases.set_questions(release=release, workload={{"version": 1, "queries": [{{"marginals": 1}}]}})
    services.releases.set_choice(release=release, epsilon="1", mechanism_name="laplace-queries")
    answer = [str(dataset.pk), str(release.pk)]
"""
)

CHARGES = """
    from releases.models import LedgerEntry
    entries = LedgerEntry.objects.filter(release={release!r}, kind="charge")
    answer = [entry.detail["price"]["pure_epsilon"] if "pure_epsilon" in entry.detail["price"] else entry.epsilon
              for entry in entries]
"""


@pytest.fixture
def make(installation, tmp_path):
    """A dataset of alice's: with a budget and a draft ready to be confirmed, or with a request that waits."""
    return lambda title, code=DRAFT: installation.run(code.format(title=title, folder=str(tmp_path)))


@pytest.fixture
def charges(installation):
    """What was charged for a release."""
    return lambda release: installation.run(CHARGES.format(release=release))


# --- a session that ends ----------------------------------------------------------------------------------------------


def test_signed_out_while_typing_nothing_typed_is_lost(visitor, make):
    dataset, _ = make("Signed out")
    alice = visitor()
    alice.sign_in("alice", PASSWORD)
    alice.go(f"/datasets/{dataset}/columns/", "columns")
    edges = alice.page.get_by_label("Categories or edges of age")
    expect(edges).to_have_value("18, 25, 35, 45, 55, 65")
    alice.lose_session()
    edges.fill("18, 35, 65")
    # What is checked while one types goes unanswered, and the sign-in page does not land in the form.
    with alice.page.expect_response(lambda answer: answer.status == 204):
        alice.page.get_by_label("Type of sex").focus()
    expect(edges).to_have_value("18, 35, 65")
    alice.press("Declare and go on")
    alice.heading("Sign in")
    alice.reads("You were signed out, so it was not sent. What you typed is kept until you sign in.")
    alice.look("sign in again")
    alice.sign_in_here("alice", PASSWORD)
    alice.heading("It was not sent yet")
    alice.page.get_by_text("What was typed", exact=True).click()
    alice.reads("18, 35, 65")
    alice.look("not sent yet")
    alice.press("Send it now")
    alice.heading("Who is protected?")
    alice.go(f"/datasets/{dataset}/columns/", "columns")
    expect(edges).to_have_value("18, 35, 65")


# --- back, forward, reload, twice, and in two tabs --------------------------------------------------------------------


def test_back_forward_and_reload_show_each_step_as_it_was_left(visitor, make):
    dataset, release = make("To and fro")
    alice = visitor()
    page = alice.page
    alice.sign_in("alice", PASSWORD)
    steps = [
        (f"/datasets/{dataset}/columns/", "What can the columns hold?"),
        (f"/datasets/{dataset}/protection/", "Who is protected?"),
        (f"/datasets/{dataset}/budget/", "How much may be learned in all?"),
        (f"/releases/{release}/questions/", "What should the release answer?"),
    ]
    for path, heading in steps:
        alice.go(path, heading)
        alice.heading(heading)
        page.reload()
        alice.heading(heading)
    alice.press("Compare methods")
    alice.heading("Compare before you spend")
    page.get_by_label("Epsilon", exact=True).fill("2")
    alice.press("Compare again")
    expect(page.get_by_label("Epsilon", exact=True)).to_have_value("2")
    page.reload()
    expect(page.get_by_label("Epsilon", exact=True)).to_have_value("2")
    alice.choose("Laplace noise on each answer")
    alice.heading("Confirm the release")
    alice.reads("epsilon 2")
    page.reload()
    alice.reads("epsilon 2")
    page.go_back()
    alice.heading("Compare before you spend")
    for _ in range(4):
        page.go_back()
        if page.get_by_role("heading", level=1).inner_text() == "What should the release answer?":
            break
    alice.heading("What should the release answer?")
    alice.reads("2 tables")
    for _ in range(5):
        if page.get_by_role("heading", level=1).inner_text() == "Confirm the release":
            break
        page.go_forward()
    alice.heading("Confirm the release")
    alice.reads("epsilon 2")


@pytest.mark.parametrize("javascript", [True, False], ids=["with JavaScript", "without"])
def test_a_double_click_on_the_confirmation_charges_once_and_going_back_charges_nothing(
    visitor, make, charges, javascript
):
    title = "Twice scripted" if javascript else "Twice plain"
    _, release = make(title)
    alice = visitor(javascript=javascript)
    alice.sign_in("alice", PASSWORD)
    alice.go(f"/releases/{release}/confirm/", "confirmation")
    alice.page.get_by_role("button", name="Spend and release").dblclick()
    alice.heading(title)
    alice.wait_for_result()
    assert len(charges(release)) == 1
    alice.page.go_back()
    if alice.page.get_by_role("button", name="Spend and release").is_visible():
        # The browser's own copy of the page as it was.
        alice.press("Spend and release")
    alice.heading(title)
    assert len(charges(release)) == 1


def test_a_double_click_drafts_one_release_and_makes_one_token(visitor, make, installation):
    dataset, _ = make("Clicked twice")
    alice = visitor()
    alice.sign_in("alice", PASSWORD)
    alice.page.goto(f"/datasets/{dataset}/")
    alice.page.get_by_role("button", name="Plan a release").dblclick()
    alice.heading("What should the release answer?")
    alice.page.goto("/accounts/reauthenticate/?next=/tokens/")
    alice.page.get_by_label("Password", exact=True).fill(PASSWORD)
    alice.press("Go on")
    alice.page.get_by_label("Which program it is for").fill("twice")
    alice.page.get_by_role("button", name="Make a token").dblclick()
    alice.reads("dpweb_")
    drafts, tokens = installation.run(f"""
    from releases.models import ApiToken, Release
    answer = [Release.objects.filter(dataset={dataset!r}).count(), ApiToken.objects.filter(name="twice").count()]
    """)
    # One that was there, and the new one.
    assert (drafts, tokens) == (2, 1)
    # The same button is pressed again on purpose.
    alice.page.get_by_label("Which program it is for").fill("second try")
    alice.page.wait_for_timeout(1600)
    alice.press("Make a token")
    alice.reads("second try")
