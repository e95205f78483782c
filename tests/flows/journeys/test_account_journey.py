"""Second factors as a person adds them, with a passkey of Chromium's own; and where the keyboard is."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.flows.browser import PHONE, Visitor
from tests.flows.conftest import PASSWORD

pytestmark = pytest.mark.browser


@pytest.fixture
def at_localhost(chromium, site):
    """A window at the site's name: passkeys belong to names, not to addresses in numbers."""
    opened: list[Visitor] = []

    def open_window(**options) -> Visitor:
        opened.append(Visitor(chromium, site.replace("127.0.0.1", "localhost"), **options))
        return opened[-1]

    yield open_window
    for each in opened:
        each.leave()


def give_device(window):
    """A device that keeps passkeys and knows its owner's finger."""
    session = window.context.new_cdp_session(window.page)
    session.send("WebAuthn.enable", {"enableUI": False})
    options = {
        "protocol": "ctap2",
        "transport": "internal",
        "hasResidentKey": True,
        "hasUserVerification": True,
        "isUserVerified": True,
        "automaticPresenceSimulation": True,
    }
    session.send("WebAuthn.addVirtualAuthenticator", {"options": options})


def test_an_account_as_staff_make_it_adds_a_passkey_and_signs_in_with_it_alone(at_localhost):
    charlie = at_localhost()
    give_device(charlie)
    charlie.sign_in("charlie", PASSWORD)
    charlie.go("/accounts/2fa/", "second factors")
    charlie.press("Add a passkey")
    charlie.heading("Is it you?")
    charlie.look("is it you")
    charlie.page.get_by_label("Password", exact=True).fill(PASSWORD)
    charlie.press("Go on")
    charlie.heading("Add a passkey")
    charlie.look("add a passkey")
    charlie.page.get_by_label("Sign in with it alone, without the password").check()
    charlie.press("Add")
    charlie.heading("Recovery codes")
    charlie.look("recovery codes")
    charlie.go("/accounts/2fa/webauthn/", "passkeys")
    charlie.reads("Passkey 1")
    charlie.reads("alone")
    charlie.press("Sign out")
    charlie.go("/accounts/login/", "sign in")
    charlie.press("Sign in with a passkey")
    expect(charlie.page.get_by_role("button", name="Sign out")).to_be_visible()
    charlie.press("Sign out")
    # With the password, the passkey is asked for too.
    charlie.go("/accounts/login/", "sign in")
    charlie.sign_in_here("charlie", PASSWORD)
    charlie.heading("Your second factor")
    charlie.look("your second factor")
    charlie.press("Use a passkey")
    expect(charlie.page.get_by_role("button", name="Sign out")).to_be_visible()


def test_a_passkey_that_does_not_come_is_said_on_the_page(at_localhost):
    window = at_localhost()
    window.page.add_init_script(
        "navigator.credentials.get = () => Promise.reject(new DOMException('no', 'NotAllowedError'))"
    )
    window.go("/accounts/login/", "sign in")
    window.press("Sign in with a passkey")
    expect(window.page.get_by_role("alert")).to_contain_text("No passkey was given")


RING = """() => {
    const at = document.activeElement, style = getComputedStyle(at), box = at.getBoundingClientRect();
    const reach = parseFloat(style.outlineOffset) + parseFloat(style.outlineWidth);
    return {what: at.outerHTML.slice(0, 80), style: style.outlineStyle, width: parseFloat(style.outlineWidth),
            colour: style.outlineColor, top: box.top + scrollY - reach, left: box.left - reach,
            right: innerWidth - box.right - reach};
}"""


@pytest.mark.parametrize("size", [None, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_ring_around_what_has_the_keyboard_is_solid_and_whole(visitor, size, scheme):
    window = visitor(**({"size": size} if size else {}))
    window.page.emulate_media(color_scheme=scheme)
    window.page.goto("/accounts/login/")
    window.page.locator("main h1").wait_for()
    window.page.evaluate("document.activeElement.blur()")
    for _ in range(10):
        window.page.keyboard.press("Tab")
        ring = window.page.evaluate(RING)
        if "skip" in ring["what"]:
            continue
        assert (ring["style"], ring["width"]) == ("solid", 2), ring
        assert re.fullmatch(r"rgb\(\d+, \d+, \d+\)", ring["colour"]), ring
        assert min(ring["top"], ring["left"], ring["right"]) >= 0, ring
