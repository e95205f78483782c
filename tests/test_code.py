"""The code itself: who imports whom, style, types, and third-party files unchanged."""

from __future__ import annotations

import ast
import hashlib
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from releases.management.commands.test import CONTRACTS, OTHER_FILES, OWN_PROCESSES, PRODUCT
from tests.conftest import SLOWEST

ROOT = Path(__file__).resolve().parents[1]
#: What is installed, and what measures it.
SOURCES = sorted(path for folder in ("releases", "benchmarks") for path in (ROOT / folder).rglob("*.py"))
TEMPLATES = sorted((ROOT / "templates").rglob("*.html"))
VENDOR = ROOT / "releases/static/releases/vendor"


def run(*command):
    return subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True)


def test_everybody_imports_only_what_the_design_allows():
    done = run("-c", "from importlinter.cli import lint_imports_command; lint_imports_command(['--no-cache'])")
    assert done.returncode == 0, done.stdout


def test_the_engine_imports_and_plans_with_django_absent():
    code = """
import sys
for name in ("django", "celery", "kombu", "ninja", "allauth"):
    sys.modules[name] = None
from fractions import Fraction
from releases.engine.mechanisms.base import mechanisms
from releases.engine.domain.privacy import PureDP
from releases.engine.domain.schema import Schema
from releases.engine.workload.queries import all_marginals
schema = Schema.from_json({"version": 1, "columns": [{"name": "a", "type": "categorical", "categories": ["x", "y"]}]})
for mechanism in mechanisms().values():
    mechanism.plan(schema, all_marginals(schema.universe, 1), budget=PureDP(epsilon=Fraction(1)), beta=Fraction(1, 20))
assert len(mechanisms()) >= 3
"""
    done = run("-c", code)
    assert done.returncode == 0, done.stderr


def test_ruff_finds_nothing():
    done = run("-m", "ruff", "check", "--no-cache", ".")
    assert done.returncode == 0, done.stdout


def test_the_code_is_formatted():
    done = run("-m", "ruff", "format", "--check", "--no-cache", ".")
    assert done.returncode == 0, done.stdout


def test_the_templates_are_formatted():
    djade = Path(sys.executable).with_name("djade")
    done = subprocess.run([djade, "--check", "--target-version", "5.2", *TEMPLATES], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_reviewer_can_read_each_line_of_a_template_in_a_diff():
    lines = [(path, line) for path in TEMPLATES for line in path.read_text().splitlines()]
    assert len(lines) > 1000
    assert [each for each in lines if len(each[1]) > 120] == []


@pytest.mark.slow
def test_mypy_finds_nothing():
    # What Django adds to a model for a new relation is not in what mypy remembers of that model.
    models = hashlib.sha256(b"".join(path.read_bytes() for path in sorted((ROOT / "releases/models").glob("*.py"))))
    cache = ROOT / "build" / f"mypy-{models.hexdigest()[:12]}"
    done = run("-m", "mypy", f"--cache-dir={cache}", "dpweb", "releases", "benchmarks", "manage.py")
    assert done.returncode == 0, done.stdout


def test_third_party_files_are_byte_for_byte_as_published():
    listed = tomllib.loads((VENDOR / "VENDORED.toml").read_text())
    found = {path.name for path in VENDOR.iterdir()} - {"VENDORED.toml", "LICENCES.txt"}
    assert set(listed) == found
    licences = (VENDOR / "LICENCES.txt").read_text()
    for name, entry in listed.items():
        assert hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() == entry["sha256"], name
        assert entry["version"] in name
        assert entry["licence"]
        assert f"==== {entry['package']}" in licences


@pytest.mark.parametrize("word", ["np.random.", "random.laplace", "# TODO", "# FIXME"])
def test_no_stub_and_no_inexact_noise_stands_in_the_product(word):
    for path in SOURCES:
        if path.match("smalldb/net.py") and word == "np.random.":
            continue  # the public candidates of smalldb-net: fixed by a public seed, and no noise
        assert word not in path.read_text(), path


def test_no_sentence_goes_on_directly_behind_a_file_for_there_is_white_space_at_its_end():
    """“on 1 May 2026 .”: a tag of `releases/templatetags/pages.py` shows the same without it."""
    goes_on = re.compile(r"{% include [^%]*%}(?:{%[^%]*%})*[.,;:)”?!]")
    found = [f"{path.name}: {each[0]}" for path in TEMPLATES for each in goes_on.finditer(path.read_text())]
    assert found == []


def test_templates_lie_in_rooms_of_few_files_named_as_the_rooms_of_the_views():
    rooms = {path.name for path in (ROOT / "releases" / "views").iterdir() if path.is_dir()} - {"__pycache__", "common"}
    # Of workloads and collections the views are in the room of releases; the last three hold pages of libraries, and
    # what all share.
    known = rooms | {"workloads", "collections", "allauth", "mfa", "shared"}
    for path in (ROOT / "templates").iterdir():
        if path.is_dir():
            assert path.name in known, path.name
            assert len(list(path.glob("*.html"))) <= 25, path.name


def test_a_room_says_in_ten_lines_what_lives_there_and_re_exports_its_modules_at_most():
    """Only `models` names what its modules define, for Django looks there. Ruff finds an import that nothing uses."""
    for path in (each for each in SOURCES if each.name == "__init__.py"):
        module = ast.parse(path.read_text())
        assert len((ast.get_docstring(module) or "").splitlines()) <= 10, path
        named = [each.value for each in module.body if isinstance(each, ast.Assign) and "__all__" in ast.unparse(each)]
        if named and path.parent.name != "models":
            assert set(ast.literal_eval(named[0])) <= {each.stem for each in path.parent.iterdir()}, path


@pytest.mark.parametrize(("folder", "files"), [("tests", "*.py"), ("templates", "*.*")])
def test_tests_and_templates_lie_in_rooms_of_few_files(folder, files):
    for path in (ROOT / folder).rglob("*"):
        if path.is_dir():
            assert len(list(path.glob(files))) <= 25, path


def test_no_comment_of_a_template_is_shown():
    """A comment that goes on over the end of its line is text."""
    for path in (ROOT / "templates").rglob("*.*"):
        for number, line in enumerate(path.read_text().splitlines(), start=1):
            assert line.count("{#") == line.count("#}"), f"{path}:{number}"


@pytest.mark.parametrize("listed", [SLOWEST, CONTRACTS, (*OTHER_FILES, *OTHER_FILES.values(), OWN_PROCESSES, *PRODUCT)])
def test_every_file_and_folder_that_the_command_of_tests_names_is_there(listed):
    """Without one of them `--fast` runs nothing at all."""
    assert [each for each in listed if not (ROOT / each).exists()] == []


#: What takes all that was sent, beside forms: pages of lists, the wishes of a result's table, and a form's beginning.
TAKES_WHAT_WAS_SENT = re.compile(r"\w+Form(Set)?|chosen_page|sent_with|typed_or_first|Wish\.read")


def reads_by_hand(source):
    """The lines that do anything with what was sent but give all of it to a form."""
    tree = ast.parse(source)
    above = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute) or ast.unparse(node) not in ("request.POST", "request.GET"):
            continue
        taker = above[node]
        while isinstance(taker, ast.IfExp | ast.BoolOp):
            taker = above[taker]
        if not isinstance(taker, ast.Call) or not TAKES_WHAT_WAS_SENT.fullmatch(ast.unparse(taker.func)):
            yield node.lineno


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("form = TitleForm(request.POST or None, initial={})", []),
        ("form = TitleForm(request.POST if request.method == 'POST' else request.GET)", []),
        ("page = chosen_page(Paginator(every, 50), request.GET)", []),
        ("name = request.POST.get('name', '')", [1]),
        ("name = request.GET['name']", [1]),
        ("is_check = 'check' in request.POST", [1]),
        ("given = request.POST", [1]),
        ("workload = changed_workload(release, request.POST)", [1]),
    ],
)
def test_reading_by_hand_what_was_sent_is_found(line, found):
    assert list(reads_by_hand(line)) == found


def test_views_read_what_was_sent_by_forms_alone():
    views = sorted((ROOT / "releases" / "views").rglob("*.py"))
    assert len(views) > 30
    assert [(path.name, line) for path in views for line in reads_by_hand(path.read_text())] == []


COMPARES = re.compile(r"{%-? (?:el)?if [^%]*(?:==|!=| [<>]=? | in | and | or )")
#: Templates that ask more than whether to show a thing, with how often. Those of allauth get no page of ours.
COMPARISONS = {
    "account/base_reauthenticate.html": 2,
    "account/email_confirm.html": 1,
    "allauth/elements/button.html": 3,
    "allauth/elements/field.html": 2,
    "allauth/elements/td.html": 1,
    "allauth/layouts/manage.html": 3,
    "base.html": 2,
    "releases/_curves.html": 1,
    "releases/_notes.html": 1,
    "results/release_detail.html": 1,
    "review/_filters.html": 1,
    "shared/_field.html": 4,
    "shared/_pages.html": 1,
    "workloads/use_workload.html": 1,
}


def test_a_template_asks_only_whether_to_show_a_thing():
    """Else its page's dataclass decides. The numbers may fall, and never rise."""
    found = {str(path.relative_to(ROOT / "templates")): len(COMPARES.findall(path.read_text())) for path in TEMPLATES}
    assert {name: number for name, number in found.items() if number} == COMPARISONS


#: Names that Django asks for.
_GIVEN_BY_DJANGO = {"Meta", "Command", "Migration"}


def test_no_two_public_classes_have_one_name():
    places: dict[str, list[str]] = {}
    for path in SOURCES:
        for found in ast.walk(ast.parse(path.read_text())):
            if isinstance(found, ast.ClassDef) and not found.name.startswith("_"):
                places.setdefault(found.name, []).append(str(path.relative_to(ROOT)))
    doubled = {name: files for name, files in places.items() if len(files) > 1 and name not in _GIVEN_BY_DJANGO}
    assert not doubled
