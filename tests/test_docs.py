"""The documentation: what it names is there, its pictures are small, and it becomes a site without a broken link."""

import ast
import re
import subprocess
import sys
from html.parser import HTMLParser

import pytest

from releases.management.commands.screenshots import DOCS_PICTURES
from tests.stack import ROOT

DOCS = ROOT / "docs"
#: Written by commands: what they name was there when they were written.
WRITTEN_BY_COMMANDS = {"BENCHMARKS.md", "four_ways.md", "four_ways_private_n.md"}
PAGES = [
    *(ROOT / "README.md", ROOT / "CONTRIBUTING.md"),
    *sorted(path for path in DOCS.rglob("*.md") if path.name not in WRITTEN_BY_COMMANDS),
    *sorted(DOCS.glob("pictures/*.svg")),
]
#: A path of the source as pages and pictures name it, and perhaps a function or a class in it.
NAMED = re.compile(r"[`>]((?:releases|dpweb|tests|templates|docs|deploy|\.ci)/[\w./-]*)(?:::?(\w+))?[`<]")
#: Made when they are needed, and not in the source.
MADE = {"docs/reference/engine/"}
LARGEST_PICTURE, MAX_PICTURES = 100_000, 12


def named_in(text):
    return {(path, name) for path, name in NAMED.findall(text) if path not in MADE}


def defined_in(path):
    nodes = ast.walk(ast.parse(path.read_text()))
    return {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_path_and_function_that_a_page_names_is_there(path):
    missing = []
    for named, name in sorted(named_in(path.read_text())):
        place = ROOT / named
        if not place.exists() or (name and name not in defined_in(place)):
            missing.append(f"{named}:{name}" if name else named)
    assert missing == []


def test_the_pictures_of_the_architecture_name_a_file_and_a_function_at_each_step():
    for picture in DOCS.glob("pictures/life-of-*.svg"):
        steps = re.findall(r">\d+\. [^<]+</text>", picture.read_text())
        assert len(steps) > 10
        assert len(re.findall(r">releases/[\w./]+:\w+<", picture.read_text())) == len(steps)


def test_pictures_are_few_and_small_and_those_that_the_command_makes():
    pictures = {path.stem: path for path in DOCS.rglob("*.webp")}
    assert set(pictures) == set(DOCS_PICTURES)
    assert len(pictures) <= MAX_PICTURES
    for path in pictures.values():
        assert path.stat().st_size <= LARGEST_PICTURE, path


def build(source, out):
    command = [
        "-m",
        "sphinx",
        "--quiet",
        "--fail-on-warning",
        "-d",
        str(out / "doctrees"),
        str(source),
        str(out / "html"),
    ]
    return subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True)


class Loaded(HTMLParser):
    """The addresses that a page loads by itself."""

    def __init__(self):
        super().__init__()
        self.found = set()

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        if tag in ("script", "img", "iframe", "source"):
            self.found.add(given.get("src") or "")
        if tag == "link" and given.get("rel") in ("stylesheet", "preload", "preconnect", "icon"):
            self.found.add(given.get("href") or "")


def test_the_site_is_built_without_a_warning_and_loads_nothing_from_elsewhere(tmp_path):
    pytest.importorskip("sphinx")
    done = build(DOCS, tmp_path)
    assert done.returncode == 0, done.stderr
    html = tmp_path / "html"
    for page in html.rglob("*.html"):
        parser = Loaded()
        parser.feed(page.read_text())
        assert not [each for each in parser.found if "//" in each], page
    api = (html / "reference/api.html").read_text()
    assert "/api/releases/{release_id}/submit" in api
    assert "<math" in (html / "four_ways.html").read_text()
    assert "supermartingale" in (html / "explanation/privacy.html").read_text()


def test_a_broken_link_is_refused(tmp_path):
    pytest.importorskip("sphinx")
    source = tmp_path / "docs"
    source.mkdir()
    # The same settings without the pages, which take long.
    (source / "conf.py").write_text(f"import runpy\nglobals().update(runpy.run_path({str(DOCS / 'conf.py')!r}))\n")
    wrong = ("[A page](absent.md)", "[A heading](index.md#lost)", "![A picture](gone.webp)")
    (source / "index.md").write_text("# A page\n\n[Right](index.md)\n\n" + "\n\n".join(wrong))
    done = build(source, tmp_path)
    assert done.returncode != 0
    assert done.stderr.count("WARNING") == len(wrong)
    for each in ("absent.md", "lost", "gone.webp"):
        assert each in done.stderr
