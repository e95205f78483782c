"""The documentation as pages of the site, with all that it leads to; and the comparison of four ways."""

import re
from pathlib import Path
from urllib.parse import urldefrag, urljoin

import pytest
from django.contrib.staticfiles import finders
from django.core.management import call_command
from django.urls import reverse

from releases.engine.bounds import theory
from releases.engine.domain.privacy import NeighbouringRelation
from releases.planning import methods
from tests.web.pages import body, field_value, words

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


def test_what_is_no_page_of_the_documentation_is_not_found(client, db):
    for page in ("BENCHMARKS", "../README", "guide/index", "nothing", "guide"):
        assert client.get(f"/documentation/{page}/").status_code == 404


# The comparison of four ways


@pytest.mark.parametrize(
    ("neighbours", "page"),
    [(None, "four_ways.md"), ("add_remove", "four_ways_private_n.md")],
    ids=["public", "private"],
)
def test_the_comparison_of_four_ways_in_docs_is_what_the_command_writes(tmp_path, capsys, neighbours, page):
    call_command("ways", out=tmp_path, neighbours=neighbours)
    written = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert len(written) == 5
    for name, content in written.items():
        assert (DOCS / name).read_text() == content, f"{name} is out of date: run manage.py ways"
    assert page in capsys.readouterr().out


def test_the_page_of_the_four_ways_begins_with_the_sample_s_numbers_and_refuses_what_breaks_a_rule(as_, charlie):
    ways, changed = as_(charlie), {NeighbouringRelation.REPLACE: "110", NeighbouringRelation.ADD_REMOVE: "55"}
    for neighbours, rows_changed in changed.items():
        shown = ways.get(reverse("ways"), {"neighbours": neighbours.value})
        assert field_value(shown, "changed") == rows_changed
        for each in theory.bounds(methods.sample_numbers(neighbours)):
            assert f"±\u00a0{methods.count_text(each.alpha)}" in body(shown)
    for typed, message in (
        ({"rows": "9" * 5000}, "at most 120 characters"),
        ({"cells": "1"}, "cells: 1 must be a whole number from 2 to 10^100"),
        ({"queries": "5", "changed": "6"}, "changed: 6 must be a whole number from 1 to 5"),
        ({"epsilon": "1,5"}, "epsilon: '1,5' must be a decimal number with a point"),
    ):
        shown = ways.get(reverse("ways"), typed)
        assert shown.status_code == 400
        assert message in words(shown)
        assert all(field_value(shown, name) == value for name, value in typed.items())
