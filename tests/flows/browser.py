"""A person at a browser: goes through the site's pages and looks at each of them the way a strict visitor would."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Download, Locator, Page, expect
from playwright.sync_api import TimeoutError as PlaywrightTimeoutError

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    # No page is open so long that the best compiler pays for itself.
    "--js-flags=--no-turbofan",
]
DESKTOP = {"width": 1280, "height": 900}
PHONE = {"width": 375, "height": 800}
#: A page of the site answers at once, and a worker that has just started needs its imports first; but a machine may be
#: as busy as it likes.
PATIENCE = 60_000
RELEASE_PATIENCE = 300_000
expect.set_options(timeout=PATIENCE)
#: Names of pages, each with the width of the window in which axe has found nothing wrong with it, in this process.
_EXAMINED: set[tuple[str, int]] = set()
AXE = Axe()
#: In light axe asks everything; in the dark a page is the same but for its colours.
AXE_OPTIONS = {
    "dark": {"resultTypes": ["violations"], "runOnly": ["color-contrast", "link-in-text-block"]},
    "light": {"resultTypes": ["violations"]},
}
#: Tabs from anything on a page to anything else.
_MAX_TABS = 120

_FOCUSED = """() => {
    const at = document.activeElement;
    const label = at.labels && at.labels[0] ? at.labels[0].innerText : '';
    return (at.getAttribute('aria-label') || label || at.innerText || '').trim().replace(/\\s+/g, ' ');
}"""
#: What shows the focus: an outline, or a shadow around the field.
_FOCUS_SHOWS = """() => {
    const at = document.activeElement, style = getComputedStyle(at);
    const box = at.getBoundingClientRect();
    return box.width > 0 && box.height > 0 && at.matches(':focus-visible') &&
        ((style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0) || style.boxShadow !== 'none');
}"""

#: Words of up to nine letters in the labels of a table of numbers that are broken over two lines.
_BROKEN_WORDS = """() => {
    const broken = [];
    for (const cell of document.querySelectorAll('table.numbers tbody :is(td, th):not(.number)')) {
        const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
        while (texts.nextNode()) {
            for (const word of texts.currentNode.data.matchAll(/\\p{L}{2,}/gu)) {
                const range = document.createRange();
                range.setStart(texts.currentNode, word.index);
                range.setEnd(texts.currentNode, word.index + word[0].length);
                if (word[0].length <= 9 && range.getClientRects().length > 1) broken.push(word[0]);
            }
        }
    }
    return broken;
}"""

_ON_PAPER = """() => {
    const isSeen = each => each.checkVisibility({visibilityProperty: true}) && each.getClientRects().length > 0;
    const wrong = [...document.querySelectorAll('button:not(.word), [role=button], input, select, textarea, nav a')]
        .filter(each => isSeen(each) && !each.classList.contains('brand'));
    // A closed part of the page is not printed, and neither is the chart in it.
    const lost = [...document.querySelectorAll(':not(details:not([open]) *).key')].filter(each => !isSeen(each) ||
        [...each.querySelectorAll('i')].some(sign => getComputedStyle(sign).printColorAdjust !== 'exact'));
    return [...wrong.map(each => each.outerHTML.slice(0, 100)), ...lost.map(each => 'no legend ' + each.innerText)];
}"""


class Visitor:
    """One person's window, with everything that went wrong on the pages they saw."""

    def __init__(self, browser: Browser, address: str, *, size: dict[str, int] = DESKTOP, javascript: bool = True):
        self.context = browser.new_context(
            base_url=f"http://{address}",
            viewport=size,
            java_script_enabled=javascript,
            accept_downloads=True,
            # Colours that are still fading from one scheme to the other are nobody's contrast.
            reduced_motion="reduce",
        )
        self.context.set_default_timeout(PATIENCE)
        self.page: Page = self.context.new_page()
        self.javascript = javascript
        self.width = size["width"]
        self.faults: list[str] = []
        self.seen: list[str] = []
        self.page.on("pageerror", lambda error: self.faults.append(f"{self.page.url}: {error}"))
        self.page.on("console", lambda message: self._hear(message.type, message.text))
        self.page.on("response", lambda answer: self._answered(answer.status, answer.url))

    def _hear(self, kind: str, text: str) -> None:
        # A refused form is answered with 400 or 409, which the console reports as well as the page.
        if kind in ("error", "warning") and "Failed to load resource" not in text:
            self.faults.append(f"{self.page.url}: {text}")

    def _answered(self, status: int, url: str) -> None:
        if status >= 500 or (status == 404 and "/static/" in url):
            self.faults.append(f"{status} {url}")

    def look(self, name: str) -> None:
        """Nothing sticks out of the window, and axe finds nothing, in light and in dark.

        Axe takes a second for each: what has one name is examined by it once in a window of that width.
        """
        if name in self.seen or not self.javascript:
            return
        self.seen.append(name)
        self.page.wait_for_load_state()
        over = self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        if over > 0:
            self.faults.append(f"{name}: {over} pixels stick out")
        if broken := self.page.evaluate(_BROKEN_WORDS):
            self.faults.append(f"{name}: these words of labels are broken: {', '.join(broken)}")
        if (name, self.width) in _EXAMINED:
            return
        _EXAMINED.add((name, self.width))
        self._print(name)
        for scheme, options in AXE_OPTIONS.items():
            self.page.emulate_media(color_scheme=scheme)
            for violation in self._violations(options):
                places = [node["target"] for node in violation["nodes"]][:5]
                self.faults.append(f"{name}, {scheme}: {violation['id']} ({violation['help']}) at {places}")

    def _violations(self, options: dict[str, list[str]]) -> list[dict[str, Any]]:
        """What axe finds; a page that holds its program already is not given it again."""
        if not self.page.evaluate("typeof window.axe?.run === 'function'"):
            self.page.evaluate(AXE.axe_script)
        return self.page.evaluate("options => axe.run(options).then(found => found.violations)", options)

    def _print(self, name: str) -> None:
        """On paper there is nothing to press, to fill in or to go to, and a chart keeps its legend."""
        # What is not on paper cannot hold the focus.
        focused = self.page.evaluate_handle("document.activeElement")
        self.page.emulate_media(media="print")
        found = self.page.evaluate(_ON_PAPER)
        self.faults += [f"{name}, printed: {each}" for each in found]
        self.page.emulate_media(media="screen")
        focused.evaluate("each => each.focus()")

    def go(self, path: str, name: str) -> None:
        self.page.goto(path)
        self.look(name)

    def press(self, words: str) -> None:
        self.page.get_by_role("button", name=words, exact=True).first.click()

    def method(self, name: str) -> Locator:
        """What a comparison says of a method; the other methods are unfolded where it is among them."""
        button = self.page.get_by_role("button", name=f"Choose {name}", exact=True, include_hidden=True).first
        if not button.is_visible():
            self.page.get_by_text("Other methods", exact=True).click()
        return self.page.locator("tbody, section.recommended").filter(has=button)

    def choose(self, name: str) -> None:
        self.method(name)
        self.press(f"Choose {name}")

    def follow(self, words: str) -> None:
        self.page.get_by_role("link", name=words, exact=True).first.click()

    def heading(self, words: str) -> None:
        """Wait for a page."""
        expect(self.page.get_by_role("heading", level=1)).to_have_text(words)

    def reads(self, words: str) -> None:
        expect(self.page.locator("main")).to_contain_text(words)

    def wait_for_result(self) -> None:
        self.wait_for_worker(self.page.get_by_role("heading", name="Downloads"))

    def wait_for_columns(self) -> None:
        self.wait_for_worker(self.page.get_by_role("heading", name="What can the columns hold?"))

    def wait_for_worker(self, made: Locator) -> None:
        """The page follows the worker by itself; without JavaScript one looks again, until what it makes is there."""
        deadline = monotonic() + RELEASE_PATIENCE / 1000
        while not self.javascript and not made.is_visible() and monotonic() < deadline:
            self.page.wait_for_timeout(1000)
            # The page also looks again by itself, and then the link may be gone.
            with suppress(PlaywrightTimeoutError):
                self.page.get_by_role("link", name="Look again how far it is").click(timeout=1000)
        expect(made).to_be_visible(timeout=RELEASE_PATIENCE)

    def sign_in(self, name: str, password: str) -> None:
        self.go("/accounts/login/", "sign in")
        self.sign_in_here(name, password)
        expect(self.page.get_by_role("button", name="Sign out")).to_be_visible()

    def sign_in_here(self, name: str, password: str) -> None:
        """At the form that is shown, wherever it leads to."""
        self.page.get_by_label("User name or e-mail address").fill(name)
        self.page.get_by_label("Password", exact=True).fill(password)
        self.press("Sign in")

    def lose_session(self) -> None:
        """It ends while the page is open."""
        self.context.clear_cookies(name="sessionid")

    def focused(self) -> str:
        """The name of what has the focus."""
        found: str = self.page.evaluate(_FOCUSED)
        return found

    def tab_to(self, name: str) -> None:
        """Press Tab until something of that name has the focus; everything on the way must show that it has it."""
        for _ in range(_MAX_TABS):
            self.page.keyboard.press("Tab")
            reached = self.focused()
            if self.page.evaluate("document.activeElement === document.body"):
                continue
            assert self.page.evaluate(_FOCUS_SHOWS), f"the focus cannot be seen on {reached!r} of {self.page.url}"
            if reached.startswith(name):
                return
        raise AssertionError(f"{name!r} cannot be reached by Tab on {self.page.url}")

    def enter(self, key: str = "Enter") -> None:
        """Press a key that leads to another page, and wait for that page."""
        with self.page.expect_navigation():
            self.page.keyboard.press(key)

    def download(self, name: str, folder: Path) -> Path:
        with self.page.expect_download() as started:
            self.follow(name)
        found: Download = started.value
        # Files of a release are told apart by what stands before the name; counts as CSV say how close they are, too.
        stem, _, suffix = name.rpartition(".")
        within = r"(-within-[0-9.]+-rows?-at-[0-9.]+-percent)?" if name == "answers.csv" else ""
        assert re.search(rf"{re.escape(stem)}{within}[.]{re.escape(suffix)}$", found.suggested_filename)
        path = folder / name
        found.save_as(path)
        return path

    def number(self) -> str:
        """The identifier in the present address."""
        found = re.search(r"[0-9a-f]{8}-[0-9a-f-]{27}", self.page.url)
        assert found, self.page.url
        return found[0]

    def leave(self) -> None:
        self.context.close()
        assert not self.faults, "\n".join(self.faults)
