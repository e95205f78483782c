"""An analyst in somebody else's live session: asks by keyboard alone, goes back and forward."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.flows.conftest import GRANTED, PASSWORD

pytestmark = pytest.mark.browser

OPENED = (
    GRANTED
    + """
    from celery import current_app
    from releases.models import Audience
    current_app.send_task = lambda *arguments, **options: None
    live = services.sessions.draft_session(dataset=dataset, by=alice, title={title!r}, epsilon="20",
                                  options={{"population": 300, "questions": {questions}}})
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


@pytest.fixture
def make_session(installation, tmp_path):
    """A session of alice's in which everybody who signs in may ask."""

    def make(title, questions=40):
        return installation.run(OPENED.format(title=title, folder=str(tmp_path), questions=questions))

    return make


@pytest.fixture
def asked(installation):
    """The questions that were answered in a session."""
    return lambda session: installation.run(ASKED.format(session=session))


@pytest.fixture
def analyst(visitor):
    """Charlie, on a session's page."""

    def enter(session, **options):
        charlie = visitor(**options)
        charlie.sign_in("charlie", PASSWORD)
        charlie.go(f"/sessions/{session}/", "session of somebody else")
        return charlie

    return enter


def shows(person, title, *, number):
    expect(person.page.locator("#answer h2")).to_have_text(title)
    expect(person.page.locator(".history tbody tr")).to_have_count(number)


def test_asked_by_keyboard_alone_and_back_forward_and_reload_ask_nothing_twice(make_session, analyst, asked):
    session = make_session("To and fro")
    charlie = analyst(session)
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
    # To a place on the page and back, to another page and back, and forward.
    page.get_by_role("link", name="Skip to the content").focus()
    keyboard.press("Enter")
    assert page.url.endswith("#content")
    page.go_back()
    shows(charlie, "age: 55 to 65", number=2)
    expect(page.get_by_role("heading", level=1)).to_have_count(1)
    page.goto("/sessions/")
    page.go_back()
    expect(page.locator(".history tbody tr")).to_have_count(2)
    page.go_forward()
    charlie.heading("Live sessions")
    page.go_back()
    charlie.heading("To and fro")
    assert asked(session) == [{"sex": ["male"]}, {"age": {"from": 55, "to": 65}}]
