"""From an office's own file to a confirmed schema: how many pages it takes, and how many clicks."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import polars
import pyreadstat
import pytest
from playwright.sync_api import expect

from tests.engine.tables.files.formats import xlsx
from tests.flows.conftest import PASSWORD

pytestmark = pytest.mark.browser

ANSWERS = {1.0: "never", 2.0: "sometimes", 3.0: "often", -9.0: "no answer"}
QUESTIONS = [f"q{number}" for number in range(1, 59)]
ROWS = 40


class Hand:
    """Whoever uses the mouse: each press, each field that is typed in and each choice counts as a click."""

    def __init__(self, visitor):
        self.visitor, self.page = visitor, visitor.page
        self.clicks, self.pages = 0, set()
        visitor.page.on("framenavigated", lambda frame: self.pages.add(self.kind_of(frame.url)))

    @staticmethod
    def kind_of(address):
        """A page whatever it is about: the waiting for a file is no page of its own that one has to do something on."""
        return urlsplit(address).path.rstrip("/").rpartition("/")[2]

    def press(self, words):
        self.clicks += 1
        self.visitor.press(words)

    def follow(self, words):
        self.clicks += 1
        self.visitor.follow(words)

    def fill(self, label, text):
        self.clicks += 1
        self.page.get_by_label(label, exact=True).fill(text)

    def choose(self, label, option):
        self.clicks += 2
        self.page.get_by_label(label, exact=True).select_option(option)

    def send(self, title, path: Path):
        self.clicks += 1
        self.page.get_by_label("Table", exact=True).set_input_files(path)
        self.fill("What the table is", title)
        self.press("Upload and go on")
        self.visitor.wait_for_columns()


@pytest.fixture
def alice(visitor):
    alice = visitor()
    alice.sign_in("alice", PASSWORD)
    alice.go("/datasets/new/", "upload")
    return alice


def test_sixty_columns_of_spss_with_labels_are_confirmed_within_three_pages_and_25_clicks(
    alice, installation, tmp_path
):
    answers = {name: [list(ANSWERS)[(row + place) % 4] for row in range(ROWS)] for place, name in enumerate(QUESTIONS)}
    frame = polars.DataFrame({"case": [float(row) for row in range(ROWS)], "age": [20.0 + row for row in range(ROWS)]})
    pyreadstat.write_sav(
        frame.with_columns(**{name: polars.Series(given) for name, given in answers.items()}),
        str(tmp_path / "office.sav"),
        column_labels={"age": "Age in years", **{name: f"Question {name[1:]}" for name in QUESTIONS}},
        variable_value_labels=dict.fromkeys(QUESTIONS, ANSWERS),
        missing_ranges={name: [-9] for name in QUESTIONS},
    )
    hand = Hand(alice)
    hand.send("Office survey", tmp_path / "office.sav")
    hand.follow("Fill in what the file says")
    expect(alice.page.locator("main")).to_contain_text("q58")
    hand.press("Declare and go on")
    alice.heading("Who is protected?")
    assert hand.clicks <= 25
    assert len(hand.pages) <= 3
    stored = installation.run("answer = Dataset.objects.get(title='Office survey').declared")
    assert [each["name"] for each in stored] == QUESTIONS
    assert all((each["categories"], each["missing"]) == (["1", "2", "3", "no value"], ["-9"]) for each in stored)


#: Everything after the columns, with hardly any noise, and what the release says.
RELEASED = """
    alice, sofia = (User.objects.get(username=name) for name in ("alice", "sofia"))
    dataset = Dataset.objects.get(title="Leute")
    services.datasets.declare_protection(dataset=dataset, unit=PrivacyUnit(),
        neighbours=NeighbouringRelation.ADD_REMOVE)
    asked = services.budgets.request_budget(
        dataset=dataset, epsilon="90", delta="0", policy=Policy.PURE, reason="", by=alice)
    services.budgets.approve_request(request=asked, by=sofia)
    dataset.refresh_from_db()
    release = draft(dataset, epsilon="80", queries=[{"marginal": ["größe"]}])
    services.releases.submit_release(release=release, key=uuid.uuid4(), by=alice)
"""
ANSWERED = """
    from releases.publication import files
    release = Release.objects.filter(dataset__title="Leute", state="published").first()
    found = release and files.read_answers(files.folder_of(release))["estimate"].to_pylist()
    answer = found and [round(each) for each in found]
"""


def test_a_german_workbook_gives_right_counts_without_a_text_editor(alice, installation, tmp_path):
    """Its second sheet has a title above the names of the columns, and letters that English has not."""
    heights = [(150 + row) / 100 for row in range(40)]
    rows = [
        ["Erhebung 2025"],
        ["größe", "stadt"],
        *([each, ["Köln", "Ulm"][row % 2]] for row, each in enumerate(heights)),
    ]
    (tmp_path / "leute.xlsx").write_bytes(xlsx({"Deckblatt": [["leer"]], "Tabelle 1": rows}))
    hand = Hand(alice)
    alice.page.get_by_text("Separator, decimal sign, sheet and the like").click()
    hand.fill("Sheet", "Tabelle 1")
    hand.fill("Row with names", "2")
    hand.send("Leute", tmp_path / "leute.xlsx")
    hand.choose("Type of größe", "numbers")
    hand.fill("Categories or edges of größe", "1.5 to 1.9 by 0.1")
    hand.choose("Type of stadt", "categories")
    hand.fill("Categories or edges of stadt", "Köln, Ulm")
    hand.press("Declare and go on")
    alice.heading("Who is protected?")
    assert hand.clicks <= 25
    installation.run(RELEASED)
    assert installation.wait_for(ANSWERED) == [10, 10, 10, 10, 0]
