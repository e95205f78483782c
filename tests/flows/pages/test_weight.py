"""What pages weigh on the wire, measured where a real site sends them; and that files arrive with their length."""

from __future__ import annotations

import gzip
import http.client
import re

import pytest

from tests.flows.conftest import GRANTED

MOST, MAX_WITH_CHARTS = 150_000, 500_000
PACKED = {"Accept-Encoding": "gzip"}

WORLD = (
    GRANTED
    + """
    from django.test import Client
    from releases.publication import files
    public = draft(dataset, queries=({{"marginals": 2}},))
    services.releases.submit_release(release=public, key=uuid.uuid4(), by=alice, send=False)
    assert services.execution.execute_release(release_id=public.pk)
    public.refresh_from_db()
    services.releases.make_public(release=public)
    begun = draft(dataset)
    client = Client()
    client.force_login(alice)
    answer = {{
        "public": str(public.pk), "draft": str(begun.pk), "session": client.cookies["sessionid"].value,
        "sizes": {{path.name: path.stat().st_size for path in files.folder_of(public).iterdir()}},
    }}
"""
)


@pytest.fixture(scope="module")
def world(installation, tmp_path_factory):
    return installation.run(WORLD.format(title="Weighed", folder=str(tmp_path_factory.mktemp("world"))))


@pytest.fixture
def ask(site, world):
    """An answer as it arrives, with its bytes still packed."""

    def get(path, headers=PACKED):
        connection = http.client.HTTPConnection(site, timeout=60)
        connection.request("GET", path, headers=headers | {"Cookie": f"sessionid={world['session']}"})
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        assert answer.status == 200, path
        return answer, content

    return get


def loaded(page):
    """Scripts, styles and pictures that a page brings with it."""
    tags = re.findall(r"<(?:script|link|img)\b[^>]*>", page)
    return {path for tag in tags for path in re.findall(r'(?:src|href)="(/[^"]+)"', tag)}


@pytest.mark.parametrize(
    ("path", "has_charts"),
    [
        ("/catalogue/", False),
        ("/", False),
        ("/releases/{draft}/questions/", False),
        ("/releases/{draft}/compare/", True),
        ("/releases/{draft}/compare/?curves=1", True),
        ("/releases/{public}/", True),
    ],
)
def test_a_page_weighs_little_with_all_that_it_loads(ask, world, path, has_charts):
    answer, content = ask(path.format(**world))
    assert answer.headers["Content-Encoding"] == "gzip"
    assert int(answer.headers["Content-Length"]) == len(content)
    assert "Accept-Encoding" in answer.headers["Vary"]
    files = loaded(gzip.decompress(content).decode())
    assert any("vega" in name for name in files) is has_charts
    assert len(files) >= 4
    weight = len(content)
    for name in sorted(files):
        sent, packed = ask(name)
        assert sent.headers["Content-Encoding"] == "gzip", name
        assert "immutable" in sent.headers["Cache-Control"], name
        weight += len(packed)
    assert 30_000 < weight < (MAX_WITH_CHARTS if has_charts else MOST)


def test_whoever_cannot_unpack_gets_the_page_as_it_is(ask):
    answer, content = ask("/catalogue/", headers={})
    assert answer.headers["Content-Encoding"] is None
    assert content.startswith(b"<!doctype html>")


def test_json_is_compressed_and_unpacks_to_the_same(ask):
    answer, packed = ask("/api/mechanisms")
    assert answer.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(packed) == ask("/api/mechanisms", headers={})[1]


@pytest.mark.parametrize("name", ["answers.csv", "synthetic.csv", "receipt.json", "dictionary.csv", "release.zip"])
def test_a_download_has_the_length_of_its_file(ask, world, name):
    """Pages show the sizes of files, and browsers how much of one is still to come."""
    answer, content = ask(f"/releases/{world['public']}/files/{name}")
    assert answer.headers["Content-Encoding"] is None
    assert content == ask(f"/releases/{world['public']}/files/{name}", headers={})[1]
    if name in world["sizes"]:
        assert int(answer.headers["Content-Length"]) == len(content) == world["sizes"][name]
