"""An analyst in somebody else's live session and a reviewer at their desk, in Chromium, by keyboard alone."""

import pytest
from playwright.sync_api import expect

from tests.flows.conftest import ASKED as REQUESTED
from tests.flows.conftest import GRANTED, PASSWORD

pytestmark = pytest.mark.browser

OPENED = (
    GRANTED
    + """
    from celery import current_app
    from releases.models import Audience
    current_app.send_task = lambda *arguments, **options: None
    live = services.sessions.draft_session(dataset=dataset, by=alice, title={title!r}, epsilon="20",
                                  options={{"population": 300, "questions": 40}})
    services.releases.submit_release(release=live, key=uuid.uuid4(), by=alice, send=False)
    assert services.execution.execute_release(release_id=live.pk)
    live.refresh_from_db()
    services.sessions.let_ask(session=live.session, audience=Audience.EVERYBODY, by=alice)
    answer = str(live.pk)
"""
)

ASKED = """
    from releases.models import SessionAnswer
    answer = [each.query for each in SessionAnswer.objects.filter(session={session!r}).order_by("sequence")]
"""


def shows(person, title, *, number):
    expect(person.page.locator("#answer h2")).to_have_text(title)
    expect(person.page.locator(".history tbody tr")).to_have_count(number)


def test_an_analyst_asks_by_keyboard_and_back_forward_and_reload_ask_nothing_twice(visitor, installation, tmp_path):
    session = installation.run(OPENED.format(title="To and fro", folder=str(tmp_path)))
    charlie = visitor()
    charlie.sign_in("charlie", PASSWORD)
    charlie.go(f"/sessions/{session}/", "session of somebody else")
    page, keyboard = charlie.page, charlie.page.keyboard
    charlie.tab_to("male")
    keyboard.press("Space")
    charlie.tab_to("Ask")
    keyboard.press("Enter")
    shows(charlie, "sex: male", number=1)
    charlie.tab_to("Ask as text")
    keyboard.press("Enter")
    charlie.tab_to("The question as JSON")
    keyboard.type('{"age": {"from": 55}}')
    charlie.tab_to("Ask this")
    keyboard.press("Enter")
    shows(charlie, "age: 55 to 65", number=2)
    # The next question is asked from where one is: the button that was pressed keeps the focus.
    assert charlie.focused() == "Ask this"
    figure = page.locator("#answer .figure").inner_text()
    page.reload()
    shows(charlie, "age: 55 to 65", number=2)
    assert page.locator("#answer .figure").inner_text() == figure
    page.goto("/sessions/")
    page.go_back()
    expect(page.locator(".history tbody tr")).to_have_count(2)
    page.go_forward()
    charlie.heading("Live sessions")
    page.go_back()
    charlie.heading("To and fro")
    assert installation.run(ASKED.format(session=session)) == [{"sex": ["male"]}, {"age": {"from": 55, "to": 65}}]


DECIDED = """
    from releases.models import BudgetRequest
    answer = list(BudgetRequest.objects.filter(budget={budget!r}).values_list(
        "state", "granted_epsilon", "decided_by__username", "note"))
"""


def test_a_reviewer_decides_by_keyboard(visitor, installation, tmp_path):
    requested = REQUESTED + "    answer = str(dataset.budget_id)\n"
    budget = installation.run(requested.format(title="Decided by keyboard", folder=str(tmp_path)))
    sofia = visitor()
    sofia.sign_in("sofia", PASSWORD)
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
    assert installation.run(DECIDED.format(budget=budget)) == [["approved", "2.5", "sofia", "To begin with."]]
    sofia.page.goto(f"/review/budgets/{budget}/")
    sofia.tab_to("Freeze")
    keyboard.press("Enter")
    sofia.tab_to("Reason")
    keyboard.type("A complaint.")
    keyboard.press("Tab")
    sofia.enter()
    sofia.reads("Frozen: no release can be charged. “A complaint.”")
