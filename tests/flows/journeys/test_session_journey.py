"""Live sessions in Chromium: opened by a curator, asked by analysts, in two windows at once, and closed."""

from __future__ import annotations

import csv
import json
import re

import pytest
from playwright.sync_api import expect

from tests.flows.browser import DESKTOP, PHONE
from tests.flows.conftest import GRANTED, PASSWORD

pytestmark = pytest.mark.browser

DATASET = (
    GRANTED
    + """
    from django.contrib.auth.models import Group
    answer = str(dataset.pk)
"""
)


@pytest.fixture
def make_dataset(installation, tmp_path):
    """A granted dataset of alice's, a population of its own."""
    return lambda title: installation.run(DATASET.format(title=title, folder=str(tmp_path)))


def open_session(alice, dataset, *, questions="40"):
    """From the dataset's page to an open session; a mistake on the way, and the charge read before it is made."""
    page = alice.page
    alice.go(f"/datasets/{dataset}/", "dataset")
    alice.press("Open a live session")
    alice.heading("Open a live session")
    page.get_by_label("Epsilon", exact=True).fill("8,5")
    page.get_by_label("About how many rows").fill("300")
    alice.press("Show the plan")
    alice.reads("epsilon: '8,5' must be a decimal number with a point, such as 0.5")
    expect(page.get_by_label("About how many rows")).to_have_value("300")
    alice.look("session plan with a mistake")
    page.get_by_label("Epsilon", exact=True).fill("20")
    page.get_by_label("Questions").fill(questions)
    page.get_by_label("Title of the session").fill("Ask the survey")
    alice.press("Show the plan")
    alice.reads(f"every one of up to {questions} answers is within")
    alice.reads("Of use from")
    alice.reads("times as close.")
    alice.reads("Open a session only if the questions cannot be known beforehand.")
    alice.look("session plan")
    page.reload()
    alice.press("Go on to confirm")
    alice.heading("Confirm the session")
    alice.reads("This cannot be undone. Epsilon 20 is charged now")
    alice.look("session confirmation")
    alice.follow("Back to the plan")
    expect(page.get_by_label("Questions")).to_have_value(questions)
    alice.press("Go on to confirm")
    page.get_by_role("button", name="Spend and open", exact=True).click(click_count=1 if not alice.javascript else 2)
    wait_until_open(alice)


def wait_until_open(alice):
    alice.wait_for_worker(alice.page.get_by_role("heading", name="Ask how many rows"))
    alice.look("session, nothing asked")


def ask(person, *, low="", sexes=()):
    """A question by clicking."""
    page = person.page
    page.locator('select[name="from.age"]').select_option(low or "the lowest")
    for sex in ("female", "male"):
        page.get_by_label(sex, exact=True).set_checked(sex in sexes)
    person.press("Ask")


def answered(person, title):
    expect(person.page.locator("#answer h2")).to_have_text(title)


def figures(person):
    return dict(
        zip(
            person.page.locator("#live dt").all_inner_texts(),
            person.page.locator("#live dd").all_inner_texts(),
            strict=True,
        )
    )


@pytest.mark.parametrize(
    ("title", "size", "javascript"),
    [("Phone session", PHONE, True), ("Plain session", DESKTOP, False)],
    ids=["phone", "without javascript"],
)
def test_a_session_is_opened_asked_and_closed(visitor, make_dataset, tmp_path, title, size, javascript):
    alice = visitor(size=size, javascript=javascript)
    alice.sign_in("alice", PASSWORD)
    open_session(alice, make_dataset(title))
    session = alice.number()

    ask(alice)
    alice.reads("must restrict at least one column")
    alice.look("session with a mistake")
    ask(alice, low="45", sexes=["female"])
    answered(alice, "age: 45 to 65 and sex: female")
    expect(alice.page.locator("#answer .chip")).to_have_text(re.compile("free|paid"))
    assert figures(alice)["Questions left"] == "39 of 40"
    alice.look("session with an answer")

    if not javascript:
        alice.page.get_by_text("Ask as text").click()
    else:
        # The page was not loaded again: what was clicked still stands.
        expect(alice.page.get_by_label("female", exact=True)).to_be_checked()
        alice.page.get_by_text("Ask as text").focus()
        alice.page.keyboard.press("Enter")
    alice.page.get_by_label("The question as JSON").fill('{"sex": ["female"], "age": {"from": 45}}')
    alice.press("Ask this")
    alice.reads("The same answer as the first time, and it cost nothing.")
    assert figures(alice)["Questions left"] == "39 of 40"
    expect(alice.page.locator(".history tbody tr")).to_have_count(1)

    alice.page.get_by_label("Everybody who signs in").check()
    alice.press("Let them ask")
    alice.reads("From now on everybody who signs in may ask.")
    charlie = visitor(size=size, javascript=javascript)
    charlie.sign_in("charlie", PASSWORD)
    charlie.go("/sessions/", "sessions")
    charlie.page.locator(f'a[href="/sessions/{session}/"]').click()
    charlie.heading("Ask the survey")
    ask(charlie, sexes=["male"])
    answered(charlie, "sex: male")
    assert "alice" not in charlie.page.locator("main").inner_text()
    charlie.look("session of an analyst")

    rows = list(csv.DictReader(charlie.download("transcript.csv", tmp_path).open()))
    assert [row["question"] for row in rows] == ["age: 45 to 65 and sex: female", "sex: male"]
    assert len(json.loads(charlie.download("transcript.json", tmp_path).read_text())["answers"]) == 2

    alice.page.get_by_text("Close the session").click()
    alice.press("Close for good")
    alice.reads("Nobody can ask any more. What it answered becomes a release")
    alice.wait_for_result()
    alice.reads("every one of the 2 counts is within")
    alice.look("release of a session")
    charlie.page.reload()
    charlie.reads("This session answers no new questions. It was closed.")
    charlie.look("closed session")
    alice.go("/catalogue/", "catalogue")


def test_two_windows_ask_at_once_and_every_answer_is_there(visitor, make_dataset):
    alice = visitor()
    alice.sign_in("alice", PASSWORD)
    open_session(alice, make_dataset("Two windows"))
    # A second tab of the same person, open since before the first asked anything.
    other = alice.context.new_page()
    other.goto(alice.page.url)
    ask(alice, low="25")
    answered(alice, "age: 25 to 65")
    other.get_by_label("male", exact=True).check()
    other.get_by_role("button", name="Ask", exact=True).click()
    expect(other.locator("#answer h2")).to_have_text("sex: male")
    expect(other.locator(".history tbody tr")).to_have_count(2)
    # Both press at once, the same new question: one answer, for both the same.
    ask_everywhere = """page => { document.querySelector('select[name="from.age"]').value = '55';
        document.querySelectorAll('[name="in.sex"]').forEach(box => { box.checked = false; });
        document.querySelector('.conditions').closest('form').requestSubmit(); }"""
    for page in (alice.page, other):
        page.evaluate(ask_everywhere)
    for page in (alice.page, other):
        expect(page.locator("#answer h2")).to_have_text("age: 55 to 65")
    assert len({page.locator("#answer .figure").inner_text() for page in (alice.page, other)}) == 1
    alice.page.reload()
    expect(alice.page.locator(".history tbody tr")).to_have_count(3)
