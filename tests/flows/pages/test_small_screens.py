"""Words that open their meaning, tables wider than a telephone, and what a page hides: looked at in Chromium."""

import re

import pytest
from playwright.sync_api import expect

from tests.flows.browser import DESKTOP, PHONE
from tests.flows.conftest import PASSWORD
from tests.flows.pages.test_every_page import WORLD

pytestmark = pytest.mark.browser

LAPTOP = {"width": 1280, "height": 800}


@pytest.fixture(scope="module")
def world(installation, tmp_path_factory):
    return installation.run(WORLD.format(folder=str(tmp_path_factory.mktemp("small screens"))))


def is_within(inner, outer):
    """Whether a box lies within a window."""
    return inner["x"] >= 0 and inner["y"] >= 0 and inner["x"] + inner["width"] <= outer["width"] + 0.5


@pytest.mark.parametrize(
    ("size", "javascript"), [(PHONE, True), (DESKTOP, False)], ids=["phone", "desktop without JavaScript"]
)
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
    window.heading("Glossary")
    assert page.url.endswith("/words/#epsilon")


def test_a_table_of_two_columns_is_drawn_as_a_heat_map(visitor, world):
    window = visitor(size=PHONE)
    window.go(f"/releases/{world['public']}/?question=1", "public release on a telephone")
    expect(window.page.locator('[data-chart="heat-data"] svg [role="graphics-symbol"]').first).to_be_visible()


def test_a_comparison_fits_one_and_a_half_screens_with_its_chart_open_and_the_other_methods_on_one(visitor, world):
    window = visitor(size=LAPTOP)
    window.sign_in("alice", PASSWORD)
    page = window.page
    page.goto(f"/releases/{world['draft']}/compare/")
    # With a delta every method can be run.
    page.get_by_text("Delta, confidence and number of rows").click()
    page.get_by_label("Delta", exact=True).fill("0.000000001")
    window.press("Compare again")
    expect(page.locator("#curves svg")).to_be_visible()
    choose = page.get_by_role("button", name=re.compile("^Choose "))
    expect(choose).to_have_count(1)
    assert choose.bounding_box()["y"] < LAPTOP["height"]
    assert page.evaluate("document.documentElement.scrollHeight") <= 1.5 * LAPTOP["height"]
    window.look("comparison on a laptop")
    others = page.get_by_text("Other methods", exact=True)
    others.click()
    assert choose.count() > 10
    table = page.locator("table.plans").first.bounding_box()
    assert 200 < table["height"] <= LAPTOP["height"]
    window.look("comparison on a laptop, with the other methods")


def test_an_epsilon_is_typed_slid_or_worked_out_from_an_error_in_one_form(visitor, world):
    window = visitor(size=LAPTOP)
    window.sign_in("alice", PASSWORD)
    page = window.page
    page.goto(f"/releases/{world['draft']}/compare/")
    epsilon, slider = page.get_by_label("Epsilon", exact=True), page.get_by_label("On a scale")
    epsilon.fill("0.1")
    assert float(slider.input_value()) == -1
    slider.focus()
    page.keyboard.press("End")
    expect(epsilon).to_have_value("10")
    epsilon.fill("0.5")
    window.press("Compare again")
    expect(epsilon).to_have_value("0.5")
    page.get_by_label("Or the largest error, in rows").fill("30")
    window.press("Compare again")
    window.reads("an error of at most 30 takes epsilon")
    assert float(epsilon.input_value()) != 0.5
