"""What the image installs: locked with hashes, in accord with pyproject.toml, and listed in a bill of materials."""

import json
import re
import subprocess
import sys
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.stack import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
TEXT = (ROOT / "requirements.lock").read_text()
WANTED = [Requirement(each) for each in (*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["image"])]
#: The image's, whatever this machine is.
IMAGE = {"python_version": "3.11", "python_full_version": "3.11.0", "sys_platform": "linux", "os_name": "posix"}


def locked():
    """Each package with its requirement and hashes, from the file's lines."""
    found = {}
    for entry in re.split(r"\n(?=\S)", re.sub(r"^\s*#.*\n", "", TEXT, flags=re.MULTILINE).strip()):
        first, *rest = (line.strip().removesuffix("\\").strip() for line in entry.splitlines())
        requirement = Requirement(first)
        found[canonicalize_name(requirement.name)] = (requirement, rest)
    return found


def test_every_locked_package_has_one_version_and_hashes_and_nothing_else_stands_there():
    found = locked()
    assert len(found) > 50
    for name, (requirement, hashes) in found.items():
        assert re.fullmatch(r"==[\w.+!]+", str(requirement.specifier)), name
        assert requirement.url is None, name
        assert hashes, name
        for each in hashes:
            assert re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", each), f"{name}: {each}"
    assert "://" not in TEXT
    assert not re.search(r"^-", TEXT, flags=re.MULTILINE)


@pytest.mark.parametrize("wanted", WANTED, ids=str)
def test_every_dependency_is_locked_at_a_version_that_it_allows(wanted):
    """Otherwise make the lock again, as docs/operations/dependencies.md says."""
    if wanted.marker is not None and not wanted.marker.evaluate(IMAGE):
        return
    requirement, _ = locked()[canonicalize_name(wanted.name)]
    version = Version(str(requirement.specifier).removeprefix("=="))
    assert wanted.specifier.contains(version, prereleases=True), f"{wanted} but {version} is locked"


def test_the_image_installs_what_is_locked_and_fetches_nothing_else():
    text = re.sub(r"\\\n", " ", (ROOT / "Dockerfile").read_text())
    installs = [line for line in text.splitlines() if "pip install" in line]
    assert len(installs) == 2
    assert "--require-hashes -r requirements.lock" in installs[0]
    assert "--no-deps --no-build-isolation" in installs[1]
    python = re.search(r"^FROM python:(\d\.\d+)", text, flags=re.MULTILINE)[1]
    assert f"--python-version {python}" in TEXT.splitlines()[1]


def test_the_documentation_says_the_command_that_made_the_lock():
    command = TEXT.splitlines()[1].removeprefix("#").strip()
    assert command.startswith("uv pip compile")
    assert command in re.sub(r"\s+\\?\s*", " ", (ROOT / "docs/operations/dependencies.md").read_text())


@pytest.mark.slow
def test_a_bill_of_materials_lists_every_locked_package_with_its_hashes():
    """CI keeps the file."""
    made = ROOT / "build" / "sbom.json"
    made.parent.mkdir(exist_ok=True)
    made.unlink(missing_ok=True)
    command = ["requirements", "requirements.lock", "--pyproject", "pyproject.toml", "--output-reproducible"]
    done = subprocess.run(
        [sys.executable, "-m", "cyclonedx_py", *command, "--output-file", str(made)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    bill = json.loads(made.read_text())
    assert bill["bomFormat"] == "CycloneDX"
    assert bill["metadata"]["component"]["name"] == "dpweb"
    listed = {(canonicalize_name(each["name"]), each["version"]) for each in bill["components"]}
    assert listed == {
        (name, str(requirement.specifier).removeprefix("==")) for name, (requirement, _) in locked().items()
    }
    some = next(each for each in bill["components"] if each["name"] == "django")
    hashes = {hashed["content"] for link in some["externalReferences"] for hashed in link.get("hashes", [])}
    assert hashes == {each.removeprefix("--hash=sha256:") for each in locked()["django"][1]}
