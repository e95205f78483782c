"""The command line's own care for its packages, in copies of it: what it installs, and where it never does."""

from __future__ import annotations

import os
import shutil
import site
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from releases.management.commands.test import runs_for_changes

ROOT = Path(__file__).resolve().parent.parent
COMMANDS = sorted(
    path.stem for path in (ROOT / "releases/management/commands").glob("*.py") if not path.stem.startswith("_")
)
#: Asked of the whole, and of every command in each way that there is.
HELP = [[], ["--help"], ["-h"], ["help"], ["--version"], ["version"]]
HELP += [each for name in COMMANDS for each in ([name, "--help"], [name, "-h"], ["help", name])]


def write_pip(folder: Path) -> None:
    """A pip that installs nothing, and notes beside itself what it was asked for."""
    (folder / "pip").mkdir()
    (folder / "pip/__init__.py").touch()
    (folder / "pip/__main__.py").write_text(
        "import pathlib, sys\npathlib.Path(__file__).with_name('asked').write_text(' '.join(sys.argv[1:]))\n"
    )


@pytest.fixture
def make_copy(tmp_path):
    """A copy of the command line, with an environment in a folder of its own, or one that `.venv` links to."""

    def make(*, is_linked: bool, has_site: bool):
        copy = tmp_path / "copy"
        copy.mkdir()
        shutil.copy(ROOT / "manage.py", copy)
        shutil.copy(ROOT / "pyproject.toml", copy)
        for each in ("benchmarks", "dpweb", "releases", "templates", "static"):
            if (ROOT / each).exists():
                (copy / each).symlink_to(ROOT / each)
        folder = tmp_path / "shared" if is_linked else copy / ".venv"
        venv.create(folder, with_pip=False, symlinks=True)
        if is_linked:
            (copy / ".venv").symlink_to(folder)
        (packages,) = folder.glob("lib/python3*/site-packages")
        write_pip(packages)
        if has_site:
            # What the site runs on is there, and what only the benchmarks need is not.
            (packages / "there.pth").write_text("\n".join(site.getsitepackages()))
        return copy, folder

    return make


def files(folder: Path) -> set[str]:
    return {str(each.relative_to(folder)) for each in folder.rglob("*") if "__pycache__" not in each.parts}


def run(copy: Path, *arguments: str, inside: bool = True) -> subprocess.CompletedProcess[str]:
    python = copy / ".venv/bin/python" if inside else Path(sys.base_prefix) / "bin/python3"
    environment = {**os.environ, "DATA_DIR": str(copy / "var"), "PYTHONDONTWRITEBYTECODE": "1"}
    environment.pop("PYTHONPATH", None)
    command = [str(python), "manage.py", *arguments]
    return subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, timeout=300, check=False)


def test_a_command_in_a_folder_of_its_own_installs_what_it_needs(make_copy):
    """So that the tests below can fail: this pip is asked."""
    copy, folder = make_copy(is_linked=False, has_site=False)
    run(copy, "bench", "--only", "noise")
    (asked,) = folder.glob("lib/python3*/site-packages/pip/asked")
    assert asked.read_text().endswith(f"-e {copy}[bench]")
    assert (folder / ".installed-bench").exists()


@pytest.mark.parametrize("is_linked", [True, False])
def test_no_help_installs_anything(make_copy, is_linked):
    copy, folder = make_copy(is_linked=is_linked, has_site=False)
    before = files(folder)
    for arguments in HELP:
        done = run(copy, *arguments)
        assert files(folder) == before, arguments
        assert done.returncode != 0
        assert ("is a link to" if is_linked else "are not installed yet") in done.stderr, arguments


def test_the_help_of_the_benchmarks_is_shown_without_what_they_need(make_copy):
    copy, folder = make_copy(is_linked=True, has_site=True)
    before = files(folder)
    shown = run(copy, "bench", "--help")
    assert "Measure noise, fits, kernels" in shown.stdout, shown.stderr
    assert files(folder) == before


@pytest.mark.parametrize("command", ["bench", "test", "docs", "check"])
@pytest.mark.parametrize("inside", [True, False])
def test_nothing_is_written_through_a_link(make_copy, command, inside):
    copy, folder = make_copy(is_linked=True, has_site=False)
    before = files(folder)
    done = run(copy, command, inside=inside)
    assert done.returncode != 0
    assert f".venv is a link to {folder}" in done.stderr
    assert "Nothing is installed through a link." in done.stderr
    assert "Traceback" not in done.stderr
    assert files(folder) == before


def test_a_link_to_nothing_is_left_as_it_is(make_copy):
    copy, folder = make_copy(is_linked=True, has_site=False)
    shutil.rmtree(folder)
    done = run(copy, "check", inside=False)
    assert ".venv is a link to" in done.stderr
    assert not folder.exists()


@pytest.mark.parametrize(
    ("changed", "besides"),
    [
        ([], []),
        (["tests/web/test_page.py"], []),
        (["docs/guide.md"], ["tests/test_docs.py"]),
        (["releases/services/budgets.py"], ["tests/flows"]),
        (["templates/review/page.html"], ["tests/flows", "tests/web"]),
        (["releases/static/page.css", "docs/guide.md"], ["tests/flows", "tests/test_docs.py"]),
        (["tests/flows/test_journey.py"], ["tests/flows"]),
    ],
)
def test_a_change_that_the_record_of_tests_cannot_see_runs_the_tests_that_it_can_touch(
    tmp_path, monkeypatch, changed, besides
):
    monkeypatch.chdir(tmp_path)
    for name in ("releases/urls.py", "docs/a.md", "templates/a.html", "tests/flows/a.py", ".testmondata", *changed):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).touch()
        os.utime(name, (2000, 2000) if name in changed else (1000, 1000))
    first, *others = runs_for_changes(Path(".testmondata"))
    assert first == ["--testmon", "tests", "--ignore=tests/flows"]
    assert others == ([["--no-testmon", *besides]] if besides else [])


def test_the_first_run_for_changes_is_one_of_every_test(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("releases/urls.py", "docs/a.md", "templates/a.html"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).touch()
    first, second = runs_for_changes(Path(".testmondata"))
    assert first == ["--testmon", "tests", "--ignore=tests/flows"]
    assert "tests/flows" in second
