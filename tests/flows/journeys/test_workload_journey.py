"""A workload in Chromium: saved from a draft, edited after a release, and used on a dataset with a renamed column."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import expect

from tests.flows.browser import DESKTOP, PHONE
from tests.flows.conftest import GRANTED, PASSWORD

pytestmark = pytest.mark.browser

SCENE = (
    GRANTED
    + """
    draft = services.releases.draft_release(dataset=dataset, by=alice, title="Tables of 2025")
    source.write_text("years,sex,town\\n31,male,York\\n44,female,Hull\\n")
    other = services.datasets.ingest_dataset(owner=alice, title={title!r} + ", a year later", source=source)
    services.datasets.declare_universe(dataset=other, columns=[
        {{"name": "years", "type": "integer", "edges": [18, 25, 35, 45, 55, 65]}},
        {{"name": "sex", "type": "categorical", "categories": ["female", "male"]}},
        {{"name": "town", "type": "categorical", "categories": ["Hull", "York"]}},
    ])
    services.datasets.declare_protection(dataset=other, unit=PrivacyUnit(), neighbours=NeighbouringRelation.ADD_REMOVE)
    answer = {{"draft": str(draft.pk), "other": str(other.pk)}}
"""
)


@pytest.mark.parametrize(
    ("title", "size", "javascript"),
    [("Panel", DESKTOP, True), ("Panel on a phone", PHONE, True), ("Panel plainly", DESKTOP, False)],
    ids=["desktop", "phone", "without javascript"],
)
def test_questions_are_saved_edited_and_asked_of_next_year_s_table(
    visitor, installation, tmp_path, title, size, javascript
):
    made = installation.run(SCENE.format(title=title, folder=str(tmp_path)))
    alice = visitor(size=size, javascript=javascript)
    page = alice.page
    alice.sign_in("alice", PASSWORD)
    alice.go(f"/releases/{made['draft']}/questions/", "questions of a draft to save")
    alice.follow("A table of counts")
    page.get_by_label("2 columns", exact=False).first.check()
    alice.press("Add tables")

    alice.follow("Save as a workload")
    alice.heading("Save as a workload")
    page.get_by_label("Name", exact=True).fill(f"Yearly tables, {title}")
    alice.look("saving a workload")
    alice.press("Save a new workload")
    alice.heading(f"Yearly tables, {title}")
    alice.reads("No release that you may read was submitted with it yet.")
    workload = page.url

    alice.go(f"/releases/{made['draft']}/compare/", "comparison of a workload's draft")
    alice.choose("Laplace noise on each answer")
    alice.press("Spend and release")
    alice.wait_for_result()
    alice.follow(f"Yearly tables, {title}, version 1")
    alice.reads("Tables of 2025")
    alice.look("a workload with a release")

    alice.follow("Edit")
    alice.look("editing a workload")
    questions = {"version": 1, "queries": [{"marginal": ["age", "sex"]}, {"prefix": "age"}]}
    page.get_by_label("Questions as JSON").fill(json.dumps(questions))
    alice.press("Save")
    alice.reads("Saved as version 2.")
    alice.look("a workload of two versions")

    page.get_by_label("Use it on this dataset").select_option(made["other"])
    alice.press("See which columns fit")
    alice.reads("Every column that the workload needs is there.")
    expect(page.get_by_label("Column to use for age")).to_have_value("years")
    page.get_by_label("Column to use for age").select_option("town")
    alice.press("Check again")
    alice.reads("It must hold numbers; it is declared with categories.")
    alice.look("a workload that does not fit")
    page.get_by_label("Column to use for age").select_option("years")
    alice.press("Draft a release")
    alice.heading("What should the release answer?")
    alice.reads("years × sex")
    alice.reads("version 2.")
    alice.look("questions from a workload")

    alice.go(f"/workloads/?dataset={made['other']}", "workloads for a dataset")
    alice.reads("Choose one to ask of")
    page.goto(workload)
    alice.follow("Share")
    alice.look("sharing a workload")
    alice.leave()
