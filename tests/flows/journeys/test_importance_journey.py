"""Saying in Chromium which questions matter more, with and without JavaScript, and reading what came of it."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.flows.browser import DESKTOP, PHONE
from tests.flows.conftest import GRANTED, PASSWORD

pytestmark = pytest.mark.browser

DRAFT = (
    GRANTED
    + """
    answer = str(services.releases.draft_release(dataset=dataset, by=alice, title={title!r}).pk)
"""
)


@pytest.mark.parametrize(
    ("title", "size", "javascript"),
    [("Weighed", DESKTOP, True), ("Weighed on a phone", PHONE, True), ("Weighed plainly", DESKTOP, False)],
    ids=["desktop", "phone", "without javascript"],
)
def test_a_curator_says_what_matters_more_and_reads_how_close_it_came(
    visitor, installation, tmp_path, title, size, javascript
):
    draft = installation.run(DRAFT.format(title=title, folder=str(tmp_path)))
    alice = visitor(size=size, javascript=javascript)
    page = alice.page
    alice.sign_in("alice", PASSWORD)
    alice.go(f"/releases/{draft}/questions/", "questions before any")
    alice.follow("A table of counts")
    page.get_by_label("1 column", exact=False).first.check()
    alice.press("Add tables")
    page.get_by_label("2 columns", exact=False).first.check()
    page.locator("#importance-of-marginals").fill("x")
    alice.press("Add tables")
    alice.reads("importance: 'x' must be a whole number from 1 to 1,000")
    alice.look("an importance that is none")
    page.locator("#importance-of-marginals").fill("4")
    alice.press("Add tables")
    alice.reads("17 answers; importance 1 to 4")
    alice.look("questions of different importance")
    field = page.get_by_label("Importance of sex", exact=True)
    field.fill("2")
    # Enter sets what was typed, and removes nothing.
    field.press("Enter")
    expect(page.get_by_label("Importance of sex", exact=True)).to_have_value("2")
    expect(page.get_by_label(re.compile("^Importance of "))).to_have_count(3)
    alice.press("Compare methods")
    alice.heading("Compare before you spend")
    alice.reads("rows at importance 4")
    alice.look("comparison of different importance")
    alice.choose("Laplace noise on each answer")
    alice.heading("Confirm the release")
    alice.reads("those of importance 4 within")
    alice.press("Spend and release")
    alice.wait_for_result()
    alice.reads("Importance 1: every count of this question is within")
    alice.look("result of different importance")
    alice.follow("Read the receipt")
    alice.reads("at importance 4")
    alice.look("receipt of different importance")
    alice.leave()
