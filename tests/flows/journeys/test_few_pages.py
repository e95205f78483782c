"""What people want to know takes few pages, few clicks and few words: each task from a dataset's page to what it gives,
without a page of help.

A page is what opens at an address of its own, or again with other contents. A choice from a list or a box that is
ticked is a click. Words are all that is to be seen of a page's main part, with its numbers.
"""

import re

import pytest
from playwright.sync_api import expect

from tests.flows.browser import RELEASE_PATIENCE
from tests.flows.conftest import GRANTED, PASSWORD

pytestmark = pytest.mark.browser

MOST_PAGES, MOST_CLICKS, MOST_WORDS = 8, 12, 2000


class Walk:
    """A person who counts."""

    def __init__(self, window):
        self.window, self.page = window, window.page
        self.pages, self.words, self.clicks = 0, 0, 0

    def arrived(self):
        """Another page is there, and is read from top to bottom."""
        self.page.wait_for_load_state()
        self.pages += 1
        words = len(self.page.locator("main").inner_text().split())
        self.words += words
        print(f"\n{words:6,} {self.page.url}", end="")  # noqa: T201  what takes the most of them

    def go(self, path):
        self.page.goto(path)
        self.arrived()

    def click(self, where):
        self.clicks += 1
        where.click()

    def press(self, name, *, leads_on=True):
        self.click(self.page.get_by_role("button", name=name, exact=True).first)
        if leads_on:
            self.arrived()

    def follow(self, name):
        self.click(self.page.get_by_role("link", name=name, exact=True).first)
        self.arrived()

    def fill(self, label, text):
        """A field is clicked, and typed in."""
        self.clicks += 1
        self.page.get_by_label(label, exact=False).first.fill(text)

    def tick(self, name):
        self.click(self.page.get_by_label(name, exact=False).first)

    def choose(self, label, option, place=0):
        self.clicks += 1
        self.page.get_by_label(label, exact=True).nth(place).select_option(option)

    def choose_and_release(self):
        """From the comparison to the result; the page on which one waits becomes the result's."""
        self.click(self.page.get_by_role("button", name=re.compile("^Choose ")).first)
        self.arrived()
        self.press("Spend and release", leads_on=False)
        self.window.wait_for_result()
        self.arrived()

    def says(self):
        return f"{self.pages} pages, {self.clicks} clicks, {self.words} words"


@pytest.fixture
def walk(visitor, installation, tmp_path):
    """Of alice, who has a dataset with a budget, at its page."""

    def begin(title, earlier=""):
        made = GRANTED + earlier + '\n    answer = {{"dataset": str(dataset.pk)}}\n'
        dataset = installation.run(made.format(title=title, folder=str(tmp_path)))["dataset"]
        window = visitor()
        window.sign_in("alice", PASSWORD)
        walk = Walk(window)
        walk.go(f"/datasets/{dataset}/")
        return walk

    return begin


def of_a_table(walk):
    walk.press("Plan a release")
    walk.follow("A table of counts")
    walk.tick("age (")
    walk.tick("sex (")
    walk.tick("2 columns")
    walk.press("Add tables")
    walk.press("Compare methods")
    walk.choose_and_release()
    return "The most frequent combination"


def of_synthetic_rows(walk):
    walk.press("Plan a release")
    walk.follow("Synthetic rows")
    walk.press("Compare methods")
    walk.choose_and_release()
    return "synthetic.csv"


def of_means_by_group(walk):
    walk.press("Plan a release")
    walk.follow("Averages or totals")
    walk.tick("age")
    walk.fill("In each group of", "sex")
    walk.press("Compare methods")
    walk.choose_and_release()
    return "average age"


def of_a_median(walk):
    walk.press("Plan a release")
    walk.follow("A median or other quantiles")
    walk.choose("Of this column", "age")
    walk.press("Compare methods")
    walk.choose_and_release()
    return "Half of the rows have age"


def of_everything(walk):
    walk.press("Plan a release")
    walk.follow("Everything at a glance")
    walk.press("Go on with every column")
    walk.click(walk.page.get_by_role("button", name=re.compile("^Spend and release")).first)
    walk.window.wait_for_worker(walk.page.get_by_role("heading", name="Columns at a glance"))
    walk.arrived()
    return "First quartile"


def of_a_session(walk):
    walk.press("Plan a release")
    walk.follow("A live session")
    walk.press("Go on to confirm")
    walk.press("Spend and open", leads_on=False)
    walk.window.wait_for_worker(walk.page.get_by_role("heading", name="Ask how many rows"))
    walk.arrived()
    walk.tick("female")
    walk.press("Ask", leads_on=False)
    expect(walk.page.locator("#answer h2")).to_have_text("sex: female")
    walk.arrived()
    return "sex: female"


def of_a_survey(walk):
    walk.press("Plan a release")
    walk.follow("A survey")
    walk.fill("Title", "Smoking")
    walk.fill("Question", "Do you smoke?")
    walk.fill("Answers, one a line", "yes\nno")
    walk.fill("Epsilon of each respondent", "1.5")
    walk.press("Keep as a draft")
    walk.press("Open the survey")
    return "Give the link below to the people you ask."


def of_the_same_as_last_year(walk):
    walk.press("Plan a release")
    walk.follow("The same as before")
    walk.press("Ask these")
    walk.press("Compare methods")
    walk.choose_and_release()
    return "The most frequent combination"


TASKS = {
    "a table": of_a_table,
    "synthetic rows": of_synthetic_rows,
    "means by group": of_means_by_group,
    "a median": of_a_median,
    "everything": of_everything,
    "a session": of_a_session,
    "a survey": of_a_survey,
    "the same as last year": of_the_same_as_last_year,
}
#: What was asked last year.
EARLIER = """
    earlier = services.releases.draft_release(dataset=dataset, by=alice, title="Last year")
    services.releases.set_questions(
        release=earlier, workload={{"version": 1, "queries": [{{"marginal": ["age", "sex"]}}]}})
"""


@pytest.mark.parametrize("task", TASKS)
def test_a_task_takes_few_pages_clicks_and_words(walk, task):
    here = walk(f"Few pages for {task}", EARLIER if task == "the same as last year" else "")
    said = TASKS[task](here)
    expect(here.page.locator("main")).to_contain_text(said)
    print(f"\n{task}: {here.says()}")  # noqa: T201
    assert here.pages <= MOST_PAGES, here.says()
    assert here.clicks <= MOST_CLICKS, here.says()
    assert here.words <= MOST_WORDS, here.says()


#: Where the answers of each task begin; that of a survey comes with its respondents.
BEGINS = dict.fromkeys(("a table", "synthetic rows", "means by group", "a median", "the same as last year"), "Answers")
BEGINS |= {"everything": "Columns at a glance"}
SCREENS = ({"width": 1280, "height": 800}, {"width": 390, "height": 844})


def top(where):
    """How far below the top of the page it begins."""
    return where.evaluate("each => each.getBoundingClientRect().top + window.scrollY")


@pytest.mark.parametrize("task", BEGINS)
def test_answers_begin_within_the_first_screen_and_offers_to_spend_more_come_after_the_files(walk, task):
    here = walk(f"First screen of {task}", EARLIER if task == "the same as last year" else "")
    TASKS[task](here)
    page = here.page
    heading = page.get_by_role("heading", name=BEGINS[task], exact=True)
    for size in SCREENS:
        page.set_viewport_size(size)
        first = heading.locator("xpath=following::*[self::svg or self::td or self::dd or self::p or @data-chart][1]")
        assert top(heading) < top(first) < size["height"], size
        if task != "everything":
            files = page.get_by_role("heading", name="Downloads", exact=True)
            assert top(first) < top(files) < top(page.get_by_text("Plan another like it", exact=True)), size
    # On the telephone, which comes last, no number is out of sight.
    wide = "all => all.filter(each => each.scrollWidth > each.clientWidth).map(each => each.innerText.slice(0, 60))"
    assert page.locator(".table-wrap").evaluate_all(wide) == []


def test_several_questions_of_any_kind_come_as_one_report_within_four_pages_and_fifteen_clicks(walk, tmp_path):
    here = walk("Few pages for several")
    here.press("Plan several at once")
    for place, line in enumerate(
        (
            {"What is wanted": "Average", "Column with numbers or dates": "age", "Count or group by": "sex"},
            {"What is wanted": "A table of counts", "Count or group by": "age", "and by": "sex"},
            {"What is wanted": "Synthetic rows"},
        )
    ):
        fields = here.page.locator("fieldset.line").nth(place)
        for label, option in line.items():
            here.clicks += 1
            fields.get_by_label(label, exact=True).first.select_option(label=option)
    here.press("Go on to check")
    here.click(here.page.get_by_role("button", name=re.compile("^Spend and release")).first)
    expect(here.page.locator("main .chip", has_text="finished")).to_have_count(3, timeout=RELEASE_PATIENCE)
    here.arrived()
    here.clicks += 1
    with here.page.expect_download() as started:
        here.page.get_by_role("link", name="One report of all results").click()
    started.value.save_as(tmp_path / "report.html")
    report = (tmp_path / "report.html").read_text()
    for said in ("average age", "age × sex", "<svg"):
        assert said in report
    print(f"\nseveral: {here.says()}")  # noqa: T201
    assert here.pages <= 4, here.says()
    assert here.clicks <= 15, here.says()
