"""An analyst in somebody else's live session: asks, goes back and forward, in two tabs, signed out in the middle of a
question, without JavaScript, by keyboard alone, and on a telephone in the dark; and reads on when it is closed."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.flows.browser import DESKTOP, PHONE, RELEASE_PATIENCE
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

both = pytest.mark.parametrize("javascript", [True, False], ids=["with JavaScript", "without"])


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


def click(person, *, low="the lowest", sexes=()):
    """Fill in a question by clicking; nothing is asked yet."""
    person.page.locator('select[name="from.age"]').select_option(low)
    for sex in ("female", "male"):
        person.page.get_by_label(sex, exact=True).set_checked(sex in sexes)


def ask(person, **conditions):
    click(person, **conditions)
    person.press("Ask")


def write(person, question):
    area = person.page.get_by_label("The question as JSON")
    if not area.is_visible():
        person.page.get_by_text("Ask as text").click()
    area.fill(question)


def shows(person, title, *, number):
    expect(person.page.locator("#answer h2")).to_have_text(title)
    expect(person.page.locator(".history tbody tr")).to_have_count(number)


@both
def test_asked_by_clicking_and_as_text_back_forward_and_reload_ask_nothing_twice(
    make_session, analyst, asked, javascript
):
    session = make_session(f"To and fro {javascript}")
    charlie = analyst(session, javascript=javascript)
    page = charlie.page
    ask(charlie, low="45", sexes=["female"])
    shows(charlie, "age: 45 to 65 and sex: female", number=1)
    figure = page.locator("#answer .figure").inner_text()
    page.reload()
    shows(charlie, "age: 45 to 65 and sex: female", number=1)
    assert page.locator("#answer .figure").inner_text() == figure
    # The fields hold the question whose answer is shown, to ask another like it.
    expect(page.get_by_label("female", exact=True)).to_be_checked()
    write(charlie, '{"sex": ["male"]}')
    charlie.press("Ask this")
    shows(charlie, "sex: male", number=2)
    page.reload()
    shows(charlie, "sex: male", number=2)
    # To a place on the page and back, to another page and back, and forward.
    page.get_by_role("link", name="Skip to the content").focus()
    page.keyboard.press("Enter")
    assert page.url.endswith("#content")
    page.go_back()
    shows(charlie, "sex: male", number=2)
    expect(page.get_by_role("heading", level=1)).to_have_count(1)
    charlie.page.goto("/sessions/")
    page.go_back()
    expect(page.locator(".history tbody tr")).to_have_count(2)
    page.go_forward()
    charlie.heading("Live sessions")
    page.go_back()
    charlie.heading(f"To and fro {javascript}")
    ask(charlie, sexes=["male"])
    charlie.reads("The same answer as the first time, and it cost nothing.")
    shows(charlie, "sex: male", number=2)
    assert asked(session) == [{"age": {"from": 45, "to": 65}, "sex": ["female"]}, {"sex": ["male"]}]


@both
def test_a_refused_question_stays_in_the_fields_beside_no_answer_of_another(make_session, analyst, asked, javascript):
    session = make_session(f"Refused {javascript}")
    charlie = analyst(session, javascript=javascript)
    page = charlie.page
    ask(charlie, sexes=["male"])
    shows(charlie, "sex: male", number=1)
    write(charlie, '{"sex": ["males"]}')
    charlie.press("Ask this")
    charlie.reads("must be one of")
    expect(page.locator("#answer")).to_have_count(0)
    expect(page.get_by_label("The question as JSON")).to_have_value('{"sex": ["males"]}')
    charlie.look("refused question")
    page.reload()
    assert len(asked(session)) == 1


def test_two_tabs_of_one_analyst_see_one_history(make_session, analyst, asked):
    session = make_session("Two tabs")
    charlie = analyst(session)
    other = charlie.context.new_page()
    other.goto(charlie.page.url)
    ask(charlie, low="25")
    shows(charlie, "age: 25 to 65", number=1)
    # In the other tab the same question, and then a new one, from fields that knew of nothing.
    other.locator('select[name="from.age"]').select_option("25")
    other.get_by_role("button", name="Ask", exact=True).click()
    expect(other.locator("#answer")).to_contain_text("The same answer as the first time, and it cost nothing.")
    other.get_by_label("male", exact=True).check()
    other.get_by_role("button", name="Ask", exact=True).dblclick()
    expect(other.locator("#answer h2")).to_have_text("age: 25 to 65 and sex: male")
    expect(other.locator(".history tbody tr")).to_have_count(2)
    charlie.page.reload()
    shows(charlie, "age: 25 to 65", number=2)
    assert len(asked(session)) == 2


@both
@pytest.mark.parametrize("way", ["clicked", "written"])
def test_signed_out_in_the_middle_of_a_question_nothing_typed_is_lost(make_session, analyst, asked, javascript, way):
    session = make_session(f"Signed out {javascript} {way}")
    charlie = analyst(session, javascript=javascript)
    page = charlie.page
    ask(charlie, sexes=["male"])
    shows(charlie, "sex: male", number=1)
    if way == "clicked":
        click(charlie, low="35", sexes=["female"])
    else:
        write(charlie, '{"age": {"from": 35}, "sex": ["female"]}')
    charlie.lose_session()
    charlie.press("Ask" if way == "clicked" else "Ask this")
    charlie.heading("Sign in")
    charlie.reads("You were signed out, so it was not sent. What you typed is kept until you sign in.")
    assert len(asked(session)) == 1
    charlie.sign_in_here("charlie", PASSWORD)
    charlie.heading("It was not sent yet")
    page.get_by_text("What was typed", exact=True).click()
    charlie.reads("35")
    assert len(asked(session)) == 1
    charlie.press("Send it now")
    shows(charlie, "age: 35 to 65 and sex: female", number=2)
    assert len(asked(session)) == 2


def test_by_keyboard_alone(make_session, analyst, asked):
    session = make_session("Keyboard of an analyst")
    charlie = analyst(session)
    page = charlie.page

    charlie.tab_to("male")
    page.keyboard.press("Space")
    charlie.tab_to("Ask")
    page.keyboard.press("Enter")
    shows(charlie, "sex: male", number=1)
    charlie.tab_to("Ask as text")
    page.keyboard.press("Enter")
    charlie.tab_to("The question as JSON")
    page.keyboard.type('{"age": {"from": 55}}')
    charlie.tab_to("Ask this")
    page.keyboard.press("Enter")
    shows(charlie, "age: 55 to 65", number=2)
    # The next question is asked from where one is: the button that was pressed keeps the focus.
    assert charlie.focused() == "Ask this"
    assert len(asked(session)) == 2


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_in_the_dark_and_after_the_closing_an_analyst_reads_every_answer(
    make_session, analyst, visitor, asked, size, request
):
    session = make_session(f"In the dark {size['width']}")
    charlie = analyst(session, size=size)
    page = charlie.page
    page.emulate_media(color_scheme="dark")
    ask(charlie, low="45", sexes=["female"])
    shows(charlie, "age: 45 to 65 and sex: female", number=1)
    charlie.look("answer in somebody else's session")
    click(charlie, sexes=["male"])
    alice = visitor(size=size)
    alice.sign_in("alice", PASSWORD)
    alice.go(f"/sessions/{session}/", "session of one's own")
    alice.page.get_by_text("Close the session").click()
    alice.press("Close for good")
    alice.look("session being closed")
    # What charlie had filled in is refused with the reason, and still stands there.
    charlie.press("Ask")
    charlie.reads("no more questions can be asked")
    expect(page.get_by_label("male", exact=True)).to_be_checked()
    alice.wait_for_result()
    alice.reads("What it answered can be read on the session's page by everybody who signs in")
    alice.look("closed session's release")
    page.reload()
    charlie.reads("It was closed. Everything it has answered is below and stays readable for everybody who could ask.")
    expect(page.locator(".history tbody tr")).to_have_count(1)
    expect(page.get_by_role("button", name="Ask", exact=True)).to_have_count(0)
    charlie.look("closed session of somebody else")
    charlie.go("/sessions/", "sessions with a closed one")
    expect(page.get_by_role("row", name=f"In the dark {size['width']}").get_by_text("closed")).to_be_visible()
    assert len(asked(session)) == 1
    alice.page.get_by_text("Withdraw", exact=True).click()
    alice.press("Withdraw for good")
    alice.reads("Withdrawn.")
    charlie.go(f"/sessions/{session}/", "withdrawn session")
    charlie.reads("what it had answered was withdrawn on")


def test_a_used_up_session_says_so_and_its_curator_closes_it_from_the_notice(make_session, analyst, visitor):
    session = make_session("Soon used up", questions=1)
    charlie = analyst(session)
    ask(charlie, sexes=["male"])
    charlie.reads("■ used up")
    charlie.reads("This session answers no new questions.")
    expect(charlie.page.get_by_role("button", name="Ask", exact=True)).to_have_count(0)
    charlie.look("used up")
    alice = visitor()
    alice.sign_in("alice", PASSWORD)
    alice.go("/notices/", "notices")
    alice.page.get_by_role("link", name="Used up: Soon used up").click()
    alice.reads("Close it below")
    alice.look("used up, to be closed")
    alice.press("Close for good")
    expect(alice.page.get_by_role("heading", name="Downloads")).to_be_visible(timeout=RELEASE_PATIENCE)
