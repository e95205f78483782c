"""The documentation as pages of the site: every page is read, and whatever it leads to is there."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urldefrag, urljoin

import pytest
from django.contrib.staticfiles import finders
from django.urls import reverse

from tests.web.pages import body

DOCS = Path(__file__).resolve().parents[3] / "docs"
#: Written by hand, and of use to people of the site.
FOLDERS = ("guide", "how-to", "operations")


@pytest.fixture
def shown(client, db):
    """The text of each page by its address, from the list of contents."""
    listed = body(client.get(reverse("documentation")))
    addresses = re.findall(r'href="(/documentation/[^"]+)"', listed)
    return {address: body(client.get(address)) for address in addresses}


def test_every_page_of_these_folders_is_listed(shown):
    names = {f"{folder}/{page.stem}" for folder in FOLDERS for page in (DOCS / folder).glob("*.md")}
    assert names - {f"{folder}/index" for folder in FOLDERS} <= {each[len("/documentation/") : -1] for each in shown}


def test_every_link_and_picture_of_every_page_leads_somewhere(client, shown):
    led = set()
    for address, text in shown.items():
        main = text.split("<main")[1].split("</main>")[0]
        for link in re.findall(r'href="([^"]+)"', main):
            there, anchor = urldefrag(urljoin(address, link))
            if not there.startswith("/"):
                continue
            if there not in shown:
                answer = client.get(there)
                assert answer.status_code in (200, 302), (address, link)
                continue
            assert not anchor or f'id="{anchor}"' in shown[there], (address, link)
            led.add(there)
        for picture in re.findall(r'src="/static/([^"]+)"', main):
            assert finders.find(picture), (address, picture)
    assert led, "pages lead to one another"


def test_nothing_of_the_markdown_is_left_on_a_page(shown):
    for address, text in shown.items():
        main = re.sub(r"<(pre|code)\b.*?</\1>", "", text.split("<main")[1].split("</main>")[0], flags=re.DOTALL)
        assert not re.search(r"\]\(|&lt;!--|\*\*|^#|\$\\|```", main, flags=re.MULTILINE), address


def test_what_is_no_page_of_the_documentation_is_not_found(client, db):
    for page in ("BENCHMARKS", "../README", "guide/index", "nothing", "guide"):
        assert client.get(f"/documentation/{page}/").status_code == 404
