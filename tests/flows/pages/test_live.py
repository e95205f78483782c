"""What is wrong is said while a person types, in Chromium: nothing is pressed, and the field keeps the focus."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.flows.conftest import GRANTED, PASSWORD

pytestmark = pytest.mark.browser

DRAFT = (
    GRANTED
    + """
    release = services.releases.draft_release(dataset=dataset, by=alice)
    services.releases.set_questions(release=release, workload={{"version": 1, "queries": [{{"marginals": 1}}]}})
    services.releases.set_choice(release=release, epsilon="1")
    answer = [str(dataset.pk), str(release.pk)]
"""
)


@pytest.fixture
def typing(visitor):
    """Alice types into a field of a page as it stands, and presses nothing."""
    alice = visitor()
    alice.sign_in("alice", PASSWORD)

    def go(path, name, label):
        alice.go(path, name)
        field = alice.page.get_by_label(label, exact=True)
        field.click()

        def type_in(text):
            alice.page.keyboard.press("Control+A")
            alice.page.keyboard.type(text)
            return field

        return alice, type_in

    return go


def test_wrong_values_are_named_while_they_are_typed_and_right_ones_are_not(typing, installation, tmp_path):
    dataset, release = installation.run(DRAFT.format(title="Typed", folder=str(tmp_path)))
    pages = [
        (f"/releases/{release}/compare/", "compare", "Epsilon", "0,5", "2", "epsilon: '0,5' must be a decimal number"),
        (f"/datasets/{dataset}/budget/", "budget", "Delta, in all", "2", "0.000001", "delta: '2' must be"),
        (f"/datasets/{dataset}/sessions/new/", "session", "Epsilon", "", "2", "epsilon: nothing was typed"),
    ]
    for path, name, label, wrong, right, message in pages:
        alice, type_in = typing(path, name, label)
        said = alice.page.locator("main .errorlist", has_text=message)
        field = type_in(wrong) if wrong else type_in("x")
        if not wrong:
            alice.page.keyboard.press("Backspace")
        expect(said).to_be_visible()
        expect(field).to_be_focused()
        expect(field).to_have_value(wrong)
        alice.look(f"{name}, wrong while typing")
        type_in(right)
        expect(said).to_have_count(0)
        expect(field).to_be_focused()
        expect(field).to_have_value(right)
        assert alice.page.url.endswith(path)


def test_nobody_goes_on_with_the_plan_of_what_stood_there_before(typing, installation, tmp_path):
    dataset, _ = installation.run(DRAFT.format(title="Hasty", folder=str(tmp_path)))
    alice, type_in = typing(f"/datasets/{dataset}/sessions/new/", "session", "Epsilon")
    expect(alice.page.locator("#planned")).to_contain_text("epsilon 1")
    type_in("1.75")
    alice.press("Go on to confirm")
    alice.reads("epsilon 1.75")
    assert alice.page.url.endswith("/confirm/")


def test_what_is_no_longer_asked_for_does_not_stand_in_the_way(typing, installation, tmp_path):
    undeclared = installation.run(
        f"""
        alice = User.objects.get(username="alice")
        table = Path({str(tmp_path)!r}) / "rows.csv"
        table.write_text("id,age\\n1,20\\n")
        dataset = services.datasets.ingest_dataset(owner=alice, title="Rows", source=table)
        services.datasets.declare_universe(dataset=dataset, columns=[{{"name": "age", "type": "integer", "edges": [0,
            50, 99]}}])
        answer = str(dataset.pk)
        """
    )
    alice, type_in = typing(f"/datasets/{undeclared}/columns/", "columns", "Categories or edges of age")
    type_in("50, 0")
    alice.press("Check only")
    beside = alice.page.locator("fieldset.row .errorlist")
    expect(beside).to_have_count(1)
    alice.page.get_by_label("Categories or edges of age").fill("0, 50, 99")
    expect(beside).to_have_count(0)
    alice.go(f"/datasets/{undeclared}/protection/", "protection")
    alice.page.get_by_role("radio", name="Each person").check()
    alice.page.get_by_label("Rows counted of each person").fill("-3")
    alice.press("Declare and go on")
    expect(alice.page.locator("main .errorlist").first).to_be_visible()
    alice.page.get_by_role("radio", name="Each row").check()
    alice.press("Declare and go on")
    alice.page.wait_for_url("**/budget/")
