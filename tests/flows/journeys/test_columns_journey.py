"""Columns declared the way a first-time curator types them: bins by their ends, rules from a menu, near words."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.flows.browser import DESKTOP, PHONE
from tests.flows.conftest import PASSWORD

WINDOWS = [
    pytest.param({"size": DESKTOP}, id="desktop"),
    pytest.param({"size": PHONE}, id="phone"),
    pytest.param({"size": DESKTOP, "javascript": False}, id="no-javascript"),
]


@pytest.mark.browser
@pytest.mark.parametrize("window", WINDOWS)
def test_columns_as_people_type_them(visitor, tmp_path, request, window):
    alice, title = visitor(**window), f"As typed, {request.node.callspec.id}"
    table = tmp_path / "people.csv"
    table.write_text("age,sex\n" + "".join(f"{i % 90},{request.node.callspec.id}-{i}\n" for i in range(50)))
    alice.sign_in("alice", PASSWORD)
    alice.go("/datasets/new/", "upload")
    page = alice.page
    page.get_by_label("What the table is").fill(title)
    page.get_by_label("Table", exact=True).set_input_files(
        {"name": "people.xlsx", "mimeType": "application/zip", "buffer": b"PK\x03\x04rest"}
    )
    alice.press("Upload and go on")
    alice.reads("people.xlsx: The workbook or zip archive is damaged: it cannot be unfolded.")
    expect(page.get_by_label("What the table is")).to_have_value(title)
    alice.look("upload refused")
    page.get_by_label("Table", exact=True).set_input_files(table)
    alice.press("Upload and go on")
    alice.wait_for_columns()
    page.get_by_label("Type of age").select_option("whole numbers")
    page.get_by_label("Categories or edges of age").fill("0-17, 18-64, 66-120")
    page.get_by_label("Type of sex").select_option("categories")
    page.get_by_label("Categories or edges of sex").fill("female, male, other")
    catch_all = page.get_by_label("Category that takes the rest of sex")
    expect(catch_all).to_be_hidden()
    page.get_by_label("Outside the declared values of sex").select_option("count it as a category:")
    catch_all.fill("others")
    if window.get("javascript", True):
        page.reload()
        alice.reads("What you had typed here and not declared is back.")
        expect(page.get_by_label("Categories or edges of age")).to_have_value("0-17, 18-64, 66-120")
        expect(catch_all).to_have_value("others")
        alice.look("columns after a reload")
    alice.press("Declare and go on")
    alice.reads("edges: '18-64, 66-120' must meet: behind a bin of whole numbers up to 64 comes one from 65")
    alice.reads("outside: 'others' must be one of the declared categories")
    expect(catch_all).to_have_value("others")
    alice.look("columns, two mistakes")
    catch_all.fill("other")
    page.get_by_label("Categories or edges of age").fill("0–17, 18–64, 65–120")
    alice.press("Check only")
    alice.reads("age: “0–17, 18–64, 65–120” is read as 3 bins: 0 to 17, 18 to 64, 65 to 120.")
    alice.reads("values below 0 are counted in the first bin (0 to 17), values above 120 in the last (65 to 120)")
    alice.look("columns as they were read")
    alice.press("Declare and go on")
    alice.heading("Who is protected?")
    page.go_back()
    page.goto(page.url)
    page.get_by_text("Use a codebook").click()
    page.get_by_label("Codebook", exact=True).fill("variable,kind,values\nage,whole number,18 to 65\nsex,text,f|m\n")
    alice.press("Declare from the codebook")
    alice.reads("age: “18 to 65” is read as 1 bin: 18 to 65.")
    alice.look("codebook as it was read")
    alice.press("Declare from the codebook")
    alice.heading("Who is protected?")
    alice.reads("2 columns declared")
