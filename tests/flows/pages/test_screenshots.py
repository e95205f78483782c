"""`manage.py screenshots` makes pictures of pages, in four forms, and none of them is of an error."""

from __future__ import annotations

import struct

import pytest
from django.core.management.base import CommandError

from releases.management.commands.screenshots import DOCS_PICTURES, SCHEMES, WINDOWS, photograph
from tests.conftest import find_chromium
from tests.flows.conftest import PASSWORD
from tests.stack import Stack

pytestmark = pytest.mark.browser


def size_of(picture):
    """Width and height of a PNG."""
    start = picture.read_bytes()[:24]
    assert start.startswith(b"\x89PNG")
    return struct.unpack(">II", start[16:])


def test_named_pages_are_pictured_for_everybody_in_four_forms(site, installation, tmp_path, monkeypatch):
    people = ("",)
    monkeypatch.setattr("releases.management.commands.screenshots.PEOPLE", people)
    number, texts = photograph(find_chromium(), f"http://{site}", PASSWORD, tmp_path, named=["catalogue", "home"])
    names = {
        f"{page}-{person or 'anybody'}-{window}-{scheme}.png"
        for page in ("home", "catalogue")
        for person in people
        for window in WINDOWS
        for scheme in SCHEMES
    }
    assert number == len(names)
    assert set(texts) == {f"{page}, {person or 'anybody'}" for page in ("home", "catalogue") for person in people}
    assert all(texts.values())
    assert {each.name for each in tmp_path.iterdir()} == names
    for picture in tmp_path.iterdir():
        width, height = size_of(picture)
        assert width == next(wide for window, (wide, _) in WINDOWS.items() if f"-{window}-" in picture.name)
        assert height >= 800
    for page in ("home", "catalogue"):
        light, dark = (tmp_path / f"{page}-anybody-desktop-{scheme}.png" for scheme in SCHEMES)
        assert light.read_bytes() != dark.read_bytes()


def test_the_pictures_of_the_documentation_are_made_again_small_and_of_the_pages_named(tmp_path):
    out = tmp_path / "pictures"
    done = Stack(tmp_path).manage("screenshots", "--docs", "--out", str(out))
    assert done.returncode == 0, done.stderr
    assert f"{len(DOCS_PICTURES)} pictures in" in done.stdout
    assert {each.name for each in out.iterdir()} == {f"{page}.webp" for page in DOCS_PICTURES}
    for picture in out.iterdir():
        content = picture.read_bytes()
        assert (content[:4], content[8:12]) == (b"RIFF", b"WEBP")
        assert 5_000 < len(content) < 100_000, picture.name


def test_a_page_that_is_an_error_is_no_picture(site, installation, tmp_path, monkeypatch):
    monkeypatch.setattr("releases.management.commands.screenshots.PEOPLE", ("",))
    monkeypatch.setattr(
        "releases.management.commands.screenshots._pages", lambda *page, **wanted: [("nothing", "/nothing/")]
    )
    with pytest.raises(CommandError, match="/nothing/: answered with 404"):
        photograph(find_chromium(), f"http://{site}", PASSWORD, tmp_path)
    assert list(tmp_path.iterdir()) == []
