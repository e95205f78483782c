"""Pages that refuse, on a telephone, in light and in dark: nothing sticks out, and axe finds nothing."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.flows.browser import PHONE
from tests.flows.conftest import GRANTED, PASSWORD

pytestmark = pytest.mark.browser

WORLD = (
    GRANTED
    + """
    withdrawn = draft(dataset)
    live = services.sessions.draft_session(dataset=dataset, by=alice, title="", epsilon="1")
    for each in (withdrawn, live):
        services.releases.submit_release(release=each, key=uuid.uuid4(), by=alice, send=False)
        assert services.execution.execute_release(release_id=each.pk)
    withdrawn.refresh_from_db()
    services.releases.make_public(release=withdrawn)
    services.releases.withdraw_release(release=withdrawn)
    live.refresh_from_db()
    # As after an update that plans otherwise.
    live.plan["version"] = 99
    Release.objects.filter(pk=live.pk).change(plan=live.plan)
    dear = draft(dataset, epsilon="20")
    answer = {{"withdrawn": str(withdrawn.pk), "session": str(live.pk), "dear": str(dear.pk),
               "dataset": str(dataset.pk)}}
"""
)
#: To be formatted with the dataset: most of its budget is spent elsewhere.
SPEND = """
    other = draft(Dataset.objects.get(pk={dataset!r}), epsilon="15")
    services.releases.submit_release(release=other, key=uuid.uuid4(), by=other.dataset.owner, send=False)
"""


@pytest.fixture(scope="module")
def world(installation, tmp_path_factory):
    return installation.run(WORLD.format(title="Refused", folder=str(tmp_path_factory.mktemp("world"))))


@pytest.fixture
def window(visitor):
    def open_window(person=""):
        opened = visitor(size=PHONE)
        if person:
            opened.sign_in(person, PASSWORD)
        return opened

    return open_window


def test_a_request_that_cannot_be_read(window):
    nobody = window()
    assert nobody.page.goto("/catalogue/?q=%00").status == 400
    nobody.heading("The request cannot be read")
    nobody.look("400")


def test_a_form_that_is_out_of_date(window, world):
    alice = window("alice")
    alice.page.goto(f"/datasets/{world['dataset']}/title/")
    alice.page.eval_on_selector_all(
        "input[name=csrfmiddlewaretoken]", "found => found.forEach(each => { each.value = 'x'.repeat(64); })"
    )
    alice.page.get_by_label("Title").fill("Another title")
    with alice.page.expect_navigation() as sent:
        alice.page.locator("main form button").first.click()
    assert sent.value.status == 403
    alice.heading("The form is out of date")
    alice.look("403, form")


def test_who_asks_too_often(window):
    nobody = window()
    status = 0
    while status != 429 and len(nobody.seen) < 12:
        nobody.page.goto("/accounts/password/reset/")
        nobody.page.get_by_label("E-mail").fill("nobody@example.org")
        with nobody.page.expect_navigation() as sent:
            nobody.page.locator("main form button").first.click()
        status = sent.value.status
        nobody.seen.append("asked")
    assert status == 429
    nobody.look("429")


@pytest.mark.parametrize(("status", "template"), [(500, "500.html"), (403, "403.html")])
def test_pages_that_only_a_fault_leads_to(window, site, status, template):
    """As the site would serve them, with its styles and its rules for browsers."""
    from django.template.loader import render_to_string
    from django.test import RequestFactory

    nobody = window()
    nobody.page.goto("/catalogue/")
    styles = nobody.page.eval_on_selector_all(
        "link[rel=stylesheet]", "found => found.map(each => each.getAttribute('href'))"
    )
    written = render_to_string(template, request=RequestFactory().get("/") if status == 403 else None)
    for name in ("pico-2.1.1.min.css", "site.css"):
        (path,) = (each for each in styles if each.split("/")[-1].startswith(name.removesuffix(".css")))
        for plain in ("/static/releases/vendor/" + name, "/static/releases/" + name):
            written = written.replace(plain, path)
    nobody.page.route(
        "**/fault/", lambda route: route.fulfill(status=200, body=written, content_type="text/html; charset=utf-8")
    )
    nobody.go("/fault/", str(status))
    expect(nobody.page.locator("h1")).to_be_visible()


def test_a_public_release_that_was_withdrawn(window, world):
    nobody = window()
    assert nobody.page.goto(f"/releases/{world['withdrawn']}/").status == 410
    nobody.reads("This release was public and was withdrawn")
    nobody.look("410")


def test_a_charge_that_is_refused(window, world, installation):
    alice = window("alice")
    alice.page.goto(f"/releases/{world['dear']}/confirm/")
    alice.heading("Confirm the release")
    installation.run(SPEND.format(dataset=world["dataset"]))
    with alice.page.expect_navigation() as sent:
        alice.press("Spend and release")
    assert sent.value.status == 409
    alice.reads("Nothing was charged.")
    alice.look("409, charge")


def test_a_session_that_this_version_would_plan_otherwise(window, world):
    alice = window("alice")
    assert alice.page.goto(f"/sessions/{world['session']}/").status == 409
    alice.reads("cannot go on")
    alice.look("409, session")
