"""Reading releases in Chromium: sorted, filtered, cited, compared; and plans carried from one draft to another."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import expect

from tests.flows.browser import DESKTOP, PHONE
from tests.flows.conftest import GRANTED, PASSWORD

pytestmark = pytest.mark.browser

RELEASES = (
    GRANTED
    + """
    import uuid
    answer = []
    for name, epsilon in (("Careful", "1"), ("Generous", "4")):
        release = services.releases.draft_release(dataset=dataset, by=alice, title=name)
        services.releases.set_questions(release=release, workload={{"version": 1, "queries": [{{"marginals": 2}}]}})
        services.releases.set_choice(release=release, epsilon=epsilon, mechanism_name="laplace-queries")
        services.releases.submit_release(release=release, key=uuid.uuid4(), by=alice, send=False)
        assert services.execution.execute_release(release_id=release.pk)
        services.releases.make_public(release=release)
        answer.append(str(release.pk))
    answer.append(str(dataset.pk))
"""
)


@pytest.mark.parametrize(
    ("title", "size", "javascript"),
    [("Side by side", DESKTOP, True), ("Side by side on a phone", PHONE, True), ("Plainly", DESKTOP, False)],
    ids=["desktop", "phone", "without javascript"],
)
def test_a_reader_sorts_filters_cites_and_compares(visitor, installation, tmp_path, title, size, javascript):
    careful, _, _ = installation.run(RELEASES.format(title=title, folder=str(tmp_path)))
    reader = visitor(size=size, javascript=javascript)
    page = reader.page
    reader.go(f"/releases/{careful}/", "release of two columns")
    if javascript:
        expect(page.locator('[data-chart="heat-data"] svg')).to_be_visible()
        expect(page.locator('[data-chart="heat-data"] svg [role="graphics-symbol"]').first).to_be_visible()
    counts = page.locator("table.numbers tbody tr td.number:nth-child(3)")
    reader.follow("Released count")
    expect(page.locator('th[aria-sort="descending"]')).to_have_text("Released count")
    # On a telephone the band stands below the number.
    shown = [int(text.split()[0].replace(",", "")) for text in counts.all_inner_texts()]
    assert shown == sorted(shown, reverse=True)
    page.get_by_label("Show only rows with").fill("female")
    reader.press("Filter")
    reader.reads("5 of 10 answers have “female” in a label.")
    expect(page.locator('th[aria-sort="descending"]')).to_have_text("Released count")
    expect(counts).to_have_count(5)
    page.get_by_text("How to cite", exact=True).click()
    expect(page.locator("#citation")).to_contain_text(f"/releases/{careful}/")
    reader.look("release sorted, filtered and cited")

    reader.follow("Compare with another release of the same data")
    reader.heading("Two releases side by side")
    reader.press("Compare")
    reader.reads("With probability 90% or more, both bounds hold at once.")
    expect(page.locator("table.numbers tbody tr")).to_have_count(10)
    reader.look("two releases side by side")


def test_a_plan_is_saved_as_a_file_and_loaded_into_another_draft(visitor, installation, tmp_path):
    careful, _, dataset = installation.run(RELEASES.format(title="Plan files", folder=str(tmp_path)))
    alice = visitor()
    alice.sign_in("alice", PASSWORD)
    alice.go(f"/releases/{careful}/", "release of one's own")
    alice.press("Plan another like it")
    alice.heading("What should the release answer?")
    alice.press("Compare methods")
    file = tmp_path / "kept.json"
    with alice.page.expect_download() as started:
        alice.follow("Download this plan")
    started.value.save_as(file)
    assert json.loads(file.read_text())["epsilon"] == "1"

    alice.go(f"/datasets/{dataset}/", "dataset")
    alice.press("Plan a release")
    alice.page.get_by_text("Save the plan, or load one").click()
    alice.look("questions with a plan file")
    wrong = tmp_path / "wrong.json"
    wrong.write_text('{"version": 1, "workload": {"version": 1, "queries": [{"marginal": ["wage"]}]}}')
    alice.page.get_by_label("Plan file").set_input_files(wrong)
    alice.press("Load the plan")
    alice.reads("The plan was not loaded. Question 1, table: 'wage' must name a declared column")
    alice.page.get_by_text("Save the plan, or load one").click()
    alice.page.get_by_label("Plan file").set_input_files(file)
    alice.press("Load the plan")
    alice.heading("Compare before you spend")
    expect(alice.page.get_by_label("Epsilon", exact=True)).to_have_value("1")


def test_a_codebook_is_pasted_as_a_table_from_a_spreadsheet(visitor, tmp_path):
    alice = visitor()
    alice.sign_in("alice", PASSWORD)
    source = tmp_path / "wages.csv"
    source.write_text("wage;sex\n" + "".join(f"{i % 70}.5;{'f' if i % 2 else 'm'}\n" for i in range(50)))
    alice.go("/datasets/new/", "upload")
    alice.page.get_by_label("What the table is").fill("Wages")
    alice.page.get_by_label("Table", exact=True).set_input_files(source)
    # Between semicolons a comma can be the decimal sign, so nothing is assumed.
    alice.page.get_by_text("Separator, decimal sign, sheet and the like").click()
    alice.page.get_by_label("Decimal sign").select_option(".")
    alice.press("Upload and go on")
    alice.wait_for_columns()
    alice.page.get_by_text("Use a codebook").click()
    alice.page.get_by_role("textbox", name="Codebook").fill("name\ttype\tvalues\nwage\tnumber\t70 to 0 in 7 bins\n")
    alice.press("Declare from the codebook")
    alice.reads("Line 2 (wage), edges: '70 to 0 in 7 bins' must go up")
    alice.look("codebook with a mistake")
    codebook = "name\ttype\tvalues\nwage\tnumber\t0 to 70 in 7 bins\nsex\tcategorical\tf|m\n"
    alice.page.get_by_role("textbox", name="Codebook").fill(codebook)
    alice.press("Declare from the codebook")
    alice.reads("2 columns declared, universe of 14 cells")
