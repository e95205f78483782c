"""Words that open their meaning, tables wider than a telephone, and what a page hides: looked at in Chromium."""

from __future__ import annotations

import re
from time import monotonic

import pytest
from playwright.sync_api import expect

from tests.flows.browser import DESKTOP, PHONE
from tests.flows.conftest import GRANTED, PASSWORD
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


def test_a_table_of_two_columns_is_drawn_as_a_heat_map(visitor, world):
    window = visitor(size=PHONE)
    window.go(f"/releases/{world['public']}/?question=1", "public release on a telephone")
    expect(window.page.locator('[data-chart="heat-data"] svg [role="graphics-symbol"]').first).to_be_visible()


def test_no_price_is_cut_off_on_a_telephone(visitor, world):
    window = visitor(size=PHONE)
    window.sign_in("alice", PASSWORD)
    page = window.page
    page.goto(f"/releases/{world['draft']}/compare/")
    page.get_by_text("Delta, confidence and number of rows").click()
    page.get_by_label("Delta", exact=True).fill("0.00000012345678")
    window.press("Compare again")
    page.get_by_text("Other methods", exact=True).click()
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


#: A dataset whose labels are long, with a space now and then and without one, and two releases of all of it.
LONG = (
    GRANTED
    + """
    long = ["In words " * 20, "Unbreakable" * 10, "short"]
    services.datasets.declare_universe(dataset=dataset, columns=[
        {{"name": name, "type": "categorical", "categories": long, "outside": "short"}}
        for name in ("person", "age", "sex")])

    def make(mechanism):
        release = services.releases.draft_release(dataset=dataset, by=alice, title="Tables" * 30)
        services.releases.set_questions(release=release, workload={{"version": 1, "queries": [{{"marginals": 3}}]}})
        services.releases.set_choice(release=release, epsilon="1", mechanism_name=mechanism)
        services.releases.submit_release(release=release, key=uuid.uuid4(), by=alice, send=False)
        assert services.execution.execute_release(release_id=release.pk)
        return str(release.pk)

    survey = services.surveys.draft_survey(owner=alice, title="Long", question="What?", answers=long, epsilon="1")
    services.surveys.open_survey(survey=survey, by=alice)
    services.surveys.accept_report(survey=survey, report="1")
    services.surveys.close_survey(survey=survey, by=alice)
    one, two = make("laplace-queries"), make("laplace-histogram")
    answer = {{"release": f"/releases/{{two}}/", "beside": f"/releases/{{two}}/beside/?other={{one}}",
              "survey": f"/surveys/{{survey.pk}}/"}}
"""
)


@pytest.fixture(scope="module")
def long_labels(installation, tmp_path_factory):
    return installation.run(LONG.format(title="Long", folder=str(tmp_path_factory.mktemp("long labels"))))


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_long_labels_leave_every_number_in_the_window(visitor, long_labels, size):
    window = visitor(size=size)
    window.sign_in("alice", PASSWORD)
    for name, path in long_labels.items():
        window.go(path, f"{name} with long labels")
        ends = window.page.locator("td.number:visible").evaluate_all(
            "cells => cells.map(cell => cell.getBoundingClientRect().right)"
        )
        assert len(ends) > 2, name
        assert max(ends) <= size["width"], name


def test_a_page_that_follows_a_worker_says_when_the_site_is_gone_and_goes_on_when_it_is_back(visitor, world):
    window = visitor()
    window.sign_in("alice", PASSWORD)
    page = window.page
    page.goto(f"/uploads/{world['upload']}/")
    progress, said = page.locator("progress"), page.get_by_text("The site does not answer.")
    expect(progress).to_be_visible()
    expect(said).to_be_hidden()
    page.route("**/status/", lambda route: route.abort())
    expect(said).to_be_visible()
    expect(progress).to_be_hidden()
    window.look("no answer")
    page.unroute("**/status/")
    page.route("**/status/", lambda route: route.fulfill(status=502, body="away"))
    page.wait_for_timeout(6000)
    expect(said).to_be_visible()
    page.unroute("**/status/")
    expect(progress).to_be_visible()
    expect(said).to_be_hidden()
    window.faults = [each for each in window.faults if "htmx" not in each and "502" not in each]


def test_without_javascript_such_a_page_says_so_by_itself(visitor, world):
    window = visitor(javascript=False)
    window.sign_in("alice", PASSWORD)
    page = window.page
    again = '<meta http-equiv="refresh" content="3">'

    def is_not_answered_again(route):
        """As a window looks while the browser waits in vain for the next answer."""
        answer = route.fetch()
        assert again in answer.text()
        route.fulfill(response=answer, body=answer.text().replace(again, ""))

    page.route("**/uploads/*/", is_not_answered_again)
    page.goto(f"/uploads/{world['upload']}/")
    expect(page.locator("progress")).to_be_visible()
    expect(page.get_by_text("The site does not answer.")).to_be_visible(timeout=30_000)
    expect(page.locator("progress")).to_be_hidden()
