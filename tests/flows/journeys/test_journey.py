"""The whole way through the site in Chromium: from an uploaded file to a public release, as people go it."""

import csv
import json
import zlib
from pathlib import Path

import pyarrow.parquet
import pytest
from playwright.sync_api import expect

from tests.flows.browser import DESKTOP, PHONE
from tests.flows.conftest import PASSWORD

pytestmark = pytest.mark.browser

SAMPLES = Path(__file__).resolve().parents[3] / "releases/samples"


def people(tag, number=600):
    """A table of its own for every test, so that no two share a budget: the sex of the first people spells the tag."""
    told = [zlib.crc32(tag.encode()) >> place & 1 for place in range(32)]
    rows = "".join(
        f"{tag}-{i},{18 + (i * 7) % 48},{'female' if (told[i] if i < len(told) else i % 3) else 'male'},"
        f"{'north' if i % 5 else 'south'}\n"
        for i in range(number)
    )
    return f"person,age,sex,region\n{rows}"


def upload(alice, title, path):
    alice.go("/datasets/new/", "upload")
    alice.page.get_by_label("What the table is").fill(title)
    alice.page.get_by_label("Table", exact=True).set_input_files(path)
    alice.press("Upload and go on")
    alice.wait_for_columns()
    alice.look("columns")


def declare_by_form(alice):
    """Types, edges and categories typed in; a mistake is said while typing and again after pressing."""
    page = alice.page
    page.get_by_label("Type of age").select_option("whole numbers")
    page.get_by_label("Categories or edges of age").fill("18, 45, 35")
    page.get_by_label("Type of sex").select_option("categories")
    page.get_by_label("Categories or edges of sex").fill("female, male")
    if alice.javascript:
        page.get_by_label("Type of region").focus()
        alice.reads("1 problem to correct")
    alice.press("Declare and go on")
    alice.reads("edges: '45, 35' must rise: each edge above the one before it")
    expect(page.get_by_label("Categories or edges of sex")).to_have_value("female, male")
    alice.look("columns with a mistake")
    page.get_by_label("Categories or edges of age").fill("18, 25, 35, 45, 55, 65")
    alice.press("Check only")
    alice.reads("has 18 cells")
    alice.press("Declare and go on")
    alice.heading("Who is protected?")


def protect_and_ask(alice, epsilon="3"):
    alice.look("protection")
    alice.press("Declare and go on")
    alice.heading("How much may be learned in all?")
    alice.look("budget")
    alice.page.get_by_label("Epsilon, in all").fill(epsilon)
    alice.page.get_by_label("What it is for").fill("The yearbook.")
    alice.press("Ask for the budget")
    alice.reads("The request waits for a reviewer.")
    alice.look("dataset")


def grant(sofia, title):
    sofia.go("/review/", "review queue")
    sofia.follow(title)
    sofia.reads("The yearbook.")
    sofia.look("request")
    sofia.press("Grant")
    sofia.heading("Requests to decide")
    sofia.go("/review/budgets/", "budget board")
    sofia.follow(title)
    sofia.follow("Verify the chain, the sums and the prices")
    sofia.reads("chain, sums and prices verified")
    sofia.look("budget with its ledger")


def ask_questions(alice, dataset):
    alice.go(f"/datasets/{dataset}/", "dataset granted")
    alice.press("Plan a release")
    alice.heading("What should the release answer?")
    alice.look("questions, none yet")
    alice.follow("A table of counts")
    alice.look("questions about a table, none yet")
    expect(alice.page.get_by_role("button", name="Compare methods")).to_be_disabled()
    alice.page.get_by_label("2 columns").check()
    alice.press("Add tables")
    alice.page.locator(".conditions summary", has_text="age").click()
    alice.page.locator(".conditions").get_by_label("from").first.fill("20")
    alice.press("Add the count")
    alice.reads("must be a declared edge (nearest: 18, 25, 35)")
    alice.look("questions with a mistake")
    alice.page.locator(".conditions").get_by_label("from").first.fill("25")
    alice.press("Add the count")
    alice.reads("1 single count")
    alice.look("questions")
    alice.press("Compare methods")
    alice.heading("Compare before you spend")


def compare_and_choose(alice, mechanism, rows=""):
    alice.reads("± ")
    if alice.javascript:
        alice.page.wait_for_selector("#curves svg", timeout=60_000)
    alice.look("comparison")
    row = alice.method(mechanism)
    if rows:
        row.locator("summary").click()
        row.get_by_label("Rows").fill(rows)
    alice.choose(mechanism)
    alice.heading("Confirm the release")


def confirm_and_wait(alice, title):
    alice.reads("This cannot be undone.")
    alice.look("confirmation")
    alice.page.get_by_label("Title of the release").fill(title)
    alice.press("Spend and release")
    alice.heading(title)
    alice.look("progress")
    alice.wait_for_result()
    alice.reads("finished")


def check_files(alice, folder, *, synthetic_rows=None):
    """Everything the result offers, downloaded and read."""
    answers = list(csv.DictReader(alice.download("answers.csv", folder).open()))
    table = pyarrow.parquet.read_table(alice.download("answers.parquet", folder))
    assert len(answers) == table.num_rows > 0
    assert [float(row["estimate"]) for row in answers] == table.column("estimate").to_pylist()
    receipt = json.loads(alice.download("receipt.json", folder).read_text())
    assert receipt["answers"] == len(answers)
    if receipt["synthetic_rows"]:
        rows = list(csv.DictReader(alice.download("synthetic.csv", folder).open()))
        assert pyarrow.parquet.read_table(alice.download("synthetic.parquet", folder)).num_rows == len(rows)
        assert len(rows) == receipt["synthetic_rows"]
        assert synthetic_rows in (None, len(rows))
    alice.reads(receipt["bound"]["sentence"])
    return receipt


def make_public(alice, visitor, **window):
    release = alice.number()
    alice.press("Make public")
    alice.reads("People who have read it keep what they read.")
    alice.look("make a release public")
    alice.press("Make it public")
    reader = visitor(**window)
    reader.go("/catalogue/", "catalogue")
    reader.page.get_by_role("searchbox").fill("journey")
    reader.press("Search")
    reader.page.locator(f"a[href='/releases/{release}/']").click()
    expect(reader.page.get_by_role("heading", name="Downloads")).to_be_visible()
    if reader.javascript:
        reader.page.wait_for_selector(".chart svg")
    reader.look("public release")
    expect(reader.page.get_by_role("button", name="Make private")).to_have_count(0)


@pytest.mark.parametrize(
    "window",
    [
        pytest.param({"size": DESKTOP}, id="desktop"),
        pytest.param({"size": DESKTOP, "javascript": False}, id="without JavaScript"),
    ],
)
def test_from_a_file_to_a_public_release_by_form(visitor, tmp_path, request, window):
    tag = request.node.callspec.id
    title = f"A journey, {tag}"
    table = tmp_path / "survey.csv"
    table.write_text(people(tag))

    alice, sofia = visitor(**window), visitor(**window)
    alice.sign_in("alice", PASSWORD)
    alice.look("home")
    sofia.sign_in("sofia", PASSWORD)
    upload(alice, title, table)
    dataset = alice.number()
    declare_by_form(alice)
    protect_and_ask(alice)
    grant(sofia, title)
    ask_questions(alice, dataset)
    compare_and_choose(alice, "Laplace noise on the histogram", rows="500")
    confirm_and_wait(alice, title)

    if alice.javascript:
        alice.page.wait_for_selector(".chart svg")
    alice.look("result")
    alice.page.get_by_label("Question").select_option("age × sex")
    alice.press("Show")
    expect(alice.page.locator("table.numbers tbody tr")).to_have_count(18)
    check_files(alice, tmp_path, synthetic_rows=500)
    make_public(alice, visitor, **window)


def test_the_real_sample_by_codebook(visitor, tmp_path):
    """The survey that comes with the software, on a telephone."""
    title = "The real sample, a journey"
    alice, sofia = visitor(size=PHONE), visitor(size=PHONE)
    alice.sign_in("alice", PASSWORD)
    sofia.sign_in("sofia", PASSWORD)
    upload(alice, title, SAMPLES / "health_insurance.csv")
    dataset = alice.number()
    codebook = alice.page.get_by_label("Codebook", exact=True)
    alice.page.get_by_text("Use a codebook").click()
    codebook.fill((SAMPLES / "health_insurance.json").read_text())
    alice.press("Declare from the codebook")
    alice.heading("Who is protected?")
    alice.reads("11 columns declared, universe of 290,304 cells")
    protect_and_ask(alice, epsilon="5")
    grant(sofia, title)
    alice.go(f"/datasets/{dataset}/", "dataset granted")
    alice.press("Plan a release")
    alice.follow("A table of counts")
    alice.page.get_by_label("1 column", exact=False).first.check()
    alice.press("Add tables")
    alice.press("Compare methods")
    alice.choose("Laplace noise on each answer")
    confirm_and_wait(alice, f"{title}, by answer")
    receipt = check_files(alice, tmp_path)
    assert receipt["universe_size"] == 290_304
    assert receipt["answers"] == 41
