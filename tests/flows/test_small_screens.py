"""Words that open their meaning, tables wider than a telephone, and what a page hides: looked at in Chromium."""

from __future__ import annotations

from time import monotonic

import pytest
from playwright.sync_api import expect

from tests.flows.browser import DESKTOP, PHONE
from tests.flows.conftest import PASSWORD
from tests.flows.test_every_page import WORLD

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def world(installation, tmp_path_factory):
    return installation.run(WORLD.format(folder=str(tmp_path_factory.mktemp("small screens"))))


def is_within(inner, outer):
    """Whether a box lies within a window."""
    return inner["x"] >= 0 and inner["y"] >= 0 and inner["x"] + inner["width"] <= outer["width"] + 0.5


@pytest.mark.parametrize("javascript", [True, False], ids=["with JavaScript", "without JavaScript"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_a_word_opens_its_meaning_by_keyboard_and_by_touch(visitor, world, size, javascript):
    window = visitor(size=size, javascript=javascript)
    page = window.page
    window.go("/catalogue/", "catalogue")
    word = page.get_by_role("button", name="epsilon", exact=True)
    meaning = page.locator("#word-epsilon")
    expect(meaning).to_be_hidden()
    word.focus()
    page.keyboard.press("Enter")
    expect(meaning).to_be_visible()
    assert is_within(meaning.bounding_box(), size)
    window.look("a word's meaning")
    page.keyboard.press("Tab")
    expect(meaning.get_by_role("link", name="All words")).to_be_focused()
    page.keyboard.press("Escape")
    expect(meaning).to_be_hidden()
    word.click()
    expect(meaning).to_be_visible()
    meaning.get_by_role("link", name="All words").click()
    window.heading("Words used here")
    assert page.url.endswith("/words/#epsilon")


def test_a_table_wider_than_a_telephone_shows_that_it_goes_on_and_is_scrolled_by_keyboard(visitor, world):
    # On a telephone bands stand below their numbers; what is narrower still has to scroll.
    window = visitor(size={"width": 200, "height": 640})
    window.go(f"/releases/{world['public']}/?question=1", "public release")
    answers = window.page.get_by_role("region", name="Answers")
    assert answers.evaluate("each => each.scrollWidth - each.clientWidth") > 20
    shadow = answers.evaluate("each => getComputedStyle(each)")
    assert shadow["backgroundAttachment"] == "local, local, scroll, scroll"
    assert shadow["backgroundImage"].count("linear-gradient") == 4
    answers.focus()
    window.page.keyboard.press("ArrowRight")
    deadline = monotonic() + 10
    while not answers.evaluate("each => each.scrollLeft") and monotonic() < deadline:
        window.page.wait_for_timeout(50)
    assert answers.evaluate("each => each.scrollLeft") > 0


def test_no_price_is_cut_off_on_a_telephone(visitor, world):
    window = visitor(size=PHONE)
    window.sign_in("alice", PASSWORD)
    page = window.page
    page.goto(f"/releases/{world['draft']}/compare/")
    page.get_by_label("Delta", exact=True).fill("0.00000012345678")
    window.press("Compare again")
    costs = page.locator("td[data-label=Cost]")
    expect(costs.first).to_be_visible()
    window.look("comparison with a long delta")
    beyond = costs.evaluate_all(
        """cells => cells.map(cell => {
            const range = document.createRange()
            range.selectNodeContents(cell)
            return range.getBoundingClientRect().right - document.documentElement.clientWidth
        })"""
    )
    assert len(beyond) > 3
    assert max(beyond) <= 0


def test_a_curator_puts_a_wrong_upload_right_without_javascript(visitor, world, tmp_path):
    table = tmp_path / "wrong.csv"
    table.write_text("age\n30\n40\n")
    window = visitor(size=PHONE, javascript=False)
    window.sign_in("alice", PASSWORD)
    window.go("/datasets/new/", "upload")
    window.page.locator("input[name=title]").fill("Wrnog")
    window.page.locator("input[type=file]").set_input_files(table)
    window.press("Upload and go on")
    window.wait_for_columns()
    window.page.goto(f"/datasets/{window.number()}/")
    window.follow("Rename")
    window.page.get_by_label("Title").fill("Wrong")
    window.press("Rename")
    window.heading("Wrong")
    window.follow("Delete")
    window.heading("Delete “Wrong”?")
    window.press("Delete for good")
    window.reads("Wrong was deleted. Nothing had been spent on it.")
    window.page.goto(f"/datasets/{world['dataset']}/delete/")
    window.reads("It cannot be deleted as a whole. Privacy was charged for it.")
