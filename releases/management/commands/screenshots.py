"""`manage.py screenshots`: every page of a site of its own, as each person sees it, in four forms, to be looked at.
With `--docs`, the few small pictures that the documentation shows. Of the others it prints how easy each is to read.

It makes an installation in a temporary folder, fills it as the demo does, and follows links from each person's first
page. Needs Chromium and the packages of the tests.
"""

from __future__ import annotations

import base64
import os
import re
import secrets
import subprocess
import sys
import tempfile
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.urls import Resolver404, resolve

from releases.management.processes import find_chromium, free_address, start_site, start_worker, wait_until_answers
from releases.management.reading_ease import reading_ease

#: Width and height of a desk's screen and of a telephone's.
WINDOWS = {"desktop": (1280, 900), "phone": (375, 800)}
SCHEMES = ("light", "dark")
PEOPLE = ("curator", "analyst", "reviewer", "")
#: Pages are followed no further than this from a person's first page.
MAX_PAGES = 60
#: Releases that are looked at, for a page of each state.
MAX_RELEASES = 8

#: The pictures of the documentation, by page, with the person who sees it.
DOCS_PICTURES = {
    "dataset_detail": "curator",
    "columns": "curator",
    "questions": "curator",
    "compare": "curator",
    "confirm": "curator",
    "release_detail": "curator",
    "review_queue": "reviewer",
    "budget_board": "reviewer",
    "budget_detail": "reviewer",
    "catalogue": "",
}
#: Width and height of such a picture, and how much WebP may lose, in percent.
DOCS_WINDOW, DOCS_QUALITY = (1180, 1150), 55

#: What the demo leaves out: something to decide, something half done, something public.
FILL = """
import json
from pathlib import Path
from django.contrib.auth.models import User
from releases import services
from releases.engine.accounting.filters import Policy
from releases.engine.domain.privacy import NeighbouringRelation, PrivacyUnit
from releases.models import Dataset, Release
for person in User.objects.all():
    person.set_password({password!r})
    person.save()
curator = User.objects.get(username="curator")
survey = Dataset.objects.get(owner=curator)
for release in Release.objects.filter(state="published"):
    services.releases.make_public(release=release, by=curator)
median = services.releases.draft_release(dataset=survey, by=curator, title="The median age")
services.releases.set_questions(release=median, workload={{"version": 1, "queries": [{{"median": "age"}}]}})
draft = services.releases.draft_release(dataset=survey, by=curator, title="Health by age and region")
questions = [{{"marginals": 2, "columns": survey.columns[2:6]}}, {{"prefix": "age"}}]
services.releases.set_questions(release=draft, workload={{"version": 1, "queries": questions}})
services.releases.set_choice(release=draft, epsilon="0.5", mechanism_name="laplace-queries")
table = Path({folder!r}) / "panel.csv"
table.write_text("age,sex\\n31,f\\n44,m\\n")
panel = services.datasets.ingest_dataset(owner=curator, title="Panel of 2026", source=table)
sex = {{"name": "sex", "type": "categorical", "categories": ["f", "m"]}}
age = {{"name": "age", "type": "integer", "edges": [0, 18, 35, 65, 110]}}
services.datasets.declare_universe(dataset=panel, columns=[age, sex])
services.datasets.declare_protection(dataset=panel, unit=PrivacyUnit(), neighbours=NeighbouringRelation.ADD_REMOVE)
services.budgets.request_budget(
    dataset=panel, epsilon="2", delta="0.000001", policy=Policy.ZCDP, reason="For the yearly report.", by=curator)
"""


class Command(BaseCommand):
    help = "Write pictures of every page, on a desk and a telephone, light and dark, to a folder."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--out", type=Path, help="the folder (default: screenshots, or docs/pictures)")
        parser.add_argument("--docs", action="store_true", help="the pictures of the documentation alone")
        parser.add_argument("--only", default="", help="pages whose name holds this")
        parser.add_argument("--pages", nargs="*", default=[], help="these pages alone, by their names")

    def handle(self, **options: Any) -> None:
        chromium = find_chromium()
        if chromium is None:
            raise CommandError("Chromium is not installed.")
        usual = settings.BASE_DIR / "docs" / "pictures" if options["docs"] else Path("screenshots")
        out = options["out"] or usual
        out.mkdir(parents=True, exist_ok=True)
        password = secrets.token_urlsafe(12)
        with tempfile.TemporaryDirectory() as folder:
            environment = {"DATA_DIR": str(Path(folder) / "var"), "REQUIRE_SECOND_FACTOR": ""}
            self._manage(environment, "demo", "--exit")
            self._manage(environment, "shell", "--verbosity", "0", "-c", FILL.format(password=password, folder=folder))
            address = free_address(8400)
            children = [
                start_worker(log_folder=Path(folder), environment=environment),
                start_site(address, log_folder=Path(folder), environment=environment),
            ]
            try:
                if not wait_until_answers(address, children[1]):
                    raise CommandError(children[1].log.read_text())
                number, texts = photograph(
                    chromium,
                    f"http://{address}",
                    password,
                    out,
                    only=options["only"],
                    named=options["pages"],
                    for_docs=options["docs"],
                )
            finally:
                for child in children:
                    child.stop()
        for name, text in texts.items():
            if (score := reading_ease(text)) is not None:
                self.stdout.write(f"{score:6.1f} {name}")
        self.stdout.write(f"{number} pictures in {out}")

    def _manage(self, environment: dict[str, str], *arguments: str) -> None:
        subprocess.run(  # noqa: S603  our own interpreter
            [sys.executable, "manage.py", *arguments],
            cwd=settings.BASE_DIR,
            env={**os.environ, **environment},
            check=True,
            stdout=subprocess.DEVNULL,
        )


def photograph(
    chromium: str,
    address: str,
    password: str,
    folder: Path,
    *,
    only: str = "",
    named: Sequence[str] = (),
    for_docs: bool = False,
) -> tuple[int, dict[str, str]]:
    """Pictures of every page that can be reached, one of each kind for each person; how many, and each page's text.

    Args:
        only: of pages whose name holds this.
        named: of these pages alone.
        for_docs: of `DOCS_PICTURES` alone, small.

    Raises:
        CommandError: a page is answered with an error, so its picture would be of another.
    """
    from playwright.sync_api import sync_playwright

    number, texts = 0, {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        for person in PEOPLE:
            wanted = {name for name, who in DOCS_PICTURES.items() if who == person} if for_docs else set(named)
            if for_docs and not wanted:
                continue
            context = browser.new_context(base_url=address)
            page = context.new_page()
            if person:
                page.goto("/accounts/login/")
                page.get_by_label("User name or e-mail address").fill(person)
                page.get_by_label("Password", exact=True).fill(password)
                page.get_by_role("button", name="Sign in", exact=True).click()
                page.get_by_role("button", name="Sign out").wait_for()
            start = ["/", "/catalogue/", *([] if person else ["/accounts/login/"])]
            for name, path in _pages(page, start, wanted=wanted):
                if only not in name or (wanted and name not in wanted):
                    continue
                answer = page.goto(path)
                if answer is None or not answer.ok:
                    raise CommandError(f"{path}: answered with {answer.status if answer else 'nothing'}.")
                page.wait_for_timeout(700)  # charts
                if for_docs:
                    _picture_for_docs(page, folder / f"{name}.webp")
                    number += 1
                    continue
                texts[f"{name}, {person or 'anybody'}"] = page.locator("main").inner_text()
                for window, (width, height) in WINDOWS.items():
                    page.set_viewport_size({"width": width, "height": height})
                    for scheme in SCHEMES:
                        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
                        page.wait_for_timeout(150)
                        page.screenshot(
                            path=folder / f"{name}-{person or 'anybody'}-{window}-{scheme}.png", full_page=True
                        )
                        number += 1
            context.close()
        browser.close()
    return number, texts


def _picture_for_docs(page: Any, path: Path) -> None:
    """The top of a page in a light scheme, as WebP, which Playwright itself does not write."""
    width, height = DOCS_WINDOW
    page.set_viewport_size({"width": width, "height": height})
    page.emulate_media(color_scheme="light")
    page.wait_for_timeout(150)
    taken = page.context.new_cdp_session(page).send(
        "Page.captureScreenshot", {"format": "webp", "quality": DOCS_QUALITY}
    )
    path.write_bytes(base64.b64decode(taken["data"]))


def _pages(page: Any, start: list[str], *, wanted: set[str]) -> list[tuple[str, str]]:
    """A path of each kind of page that links lead to, with the kind's name; no more than those wanted, where some
    are."""
    found: dict[str, str] = {}
    followed: dict[str, int] = {}
    waiting, seen = list(start), set(start)
    while waiting and len(found) < MAX_PAGES and not (wanted and wanted <= set(found)):
        path = waiting.pop(0)
        try:
            name = resolve(urlsplit(path).path).view_name
        except Resolver404:
            continue
        # A release's address leads to the step that its draft is at, so a few of them are followed.
        followed[name] = followed.get(name, 0) + 1
        most = MAX_RELEASES if name == "release_detail" else 1
        if followed[name] > most or re.search(r"download|export|file|csv|yaml|static|admin|^api:", name + path):
            continue
        answer = page.goto(path)
        if answer is None or not answer.ok:
            continue
        shown = urlsplit(page.url).path
        found.setdefault(resolve(shown).view_name, shown)
        links = page.eval_on_selector_all("a[href]", "found => found.map(each => each.getAttribute('href'))")
        for link in links:
            if link.startswith("/") and link not in seen:
                seen.add(link)
                waiting.append(link)
    return list(found.items())
