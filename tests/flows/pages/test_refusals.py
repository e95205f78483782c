"""Pages that refuse, on a telephone, in light and in dark: nothing sticks out, and axe finds nothing."""

import pytest
from playwright.sync_api import expect

from tests.flows.browser import PHONE
from tests.flows.conftest import ASKED, GRANTED, PASSWORD

pytestmark = pytest.mark.browser

WORLD = (
    GRANTED
    + """
    withdrawn = draft(dataset)
    services.releases.submit_release(release=withdrawn, key=uuid.uuid4(), by=alice, send=False)
    assert services.execution.execute_release(release_id=withdrawn.pk)
    withdrawn.refresh_from_db()
    services.releases.make_public(release=withdrawn)
    services.releases.withdraw_release(release=withdrawn)
    answer = {{"withdrawn": str(withdrawn.pk)}}
"""
)


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


@pytest.mark.parametrize("status", [500, 403, 429])
def test_pages_that_only_a_fault_or_a_flood_leads_to(window, site, status):
    """As the site would serve them, with its styles and its rules for browsers."""
    from django.template.loader import render_to_string
    from django.test import RequestFactory

    nobody = window()
    nobody.page.goto("/catalogue/")
    styles = nobody.page.eval_on_selector_all(
        "link[rel=stylesheet]", "found => found.map(each => each.getAttribute('href'))"
    )
    written = render_to_string(f"{status}.html", request=None if status == 500 else RequestFactory().get("/"))
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


def test_a_form_of_whoever_was_signed_out_while_typing(window, installation, tmp_path):
    """Nothing typed is lost."""
    asked = ASKED + "    answer = str(dataset.pk)\n"
    dataset = installation.run(asked.format(title="Signed out", folder=str(tmp_path)))
    alice = window("alice")
    alice.go(f"/datasets/{dataset}/columns/", "columns")
    edges = alice.page.get_by_label("Categories or edges of age")
    expect(edges).to_have_value("18, 25, 35, 45, 55, 65")
    alice.lose_session()
    edges.fill("18, 35, 65")
    # What is checked while one types goes unanswered, and the sign-in page does not land in the form.
    with alice.page.expect_response(lambda answer: answer.status == 204):
        alice.page.get_by_label("Type of sex").focus()
    expect(edges).to_have_value("18, 35, 65")
    alice.press("Declare and go on")
    alice.heading("Sign in")
    alice.reads("You were signed out, so it was not sent. What you typed is kept until you sign in.")
    alice.look("sign in again")
    alice.sign_in_here("alice", PASSWORD)
    alice.heading("It was not sent yet")
    alice.page.get_by_text("What was typed", exact=True).click()
    alice.reads("18, 35, 65")
    alice.look("not sent yet")
    alice.press("Send it now")
    alice.heading("Who is protected?")
    alice.go(f"/datasets/{dataset}/columns/", "columns")
    expect(edges).to_have_value("18, 35, 65")
