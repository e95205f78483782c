"""Every example on the page for programs, taken from the page and run as it stands there against a real site."""

from __future__ import annotations

import csv
import os
import re
import shlex
import shutil
import subprocess
import sys
import urllib.request
from html.parser import HTMLParser

import pytest

#: After these somebody else has to act: a reviewer grants the budget.
GRANTED = """
    owner = User.objects.get(username={owner!r})
    asked = Dataset.objects.get(owner=owner).budget.requests.get()
    services.budgets.approve_request(request=asked, by=User.objects.get(username="sofia"))
"""
TOKEN = """
    owner, _ = User.objects.get_or_create(username={owner!r}, defaults={{"email": "owner@example.org"}})
    HeldRole.objects.get_or_create(person=owner, role="curator")
    answer = services.tokens.make_token(user=owner, name="examples")
"""


class Examples(HTMLParser):
    """The examples of a page, by language and in their order."""

    def __init__(self, page):
        super().__init__()
        self.found: dict[str, dict[str, str]] = {}
        self.into: list[str] | None = None
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if tag == "pre":
            self.into, self.name, self.language = [], given["data-example"], given["data-language"]

    def handle_data(self, data):
        if self.into is not None:
            self.into.append(data)

    def handle_endtag(self, tag):
        if tag == "pre":
            assert self.name not in self.found.setdefault(self.language, {})
            self.found[self.language][self.name] = "".join(self.into)
            self.into = None


@pytest.fixture(scope="module")
def examples(site):
    with urllib.request.urlopen(f"http://{site}/api/") as page:
        return Examples(page.read().decode()).found


def test_every_example_is_there_in_both_languages(examples):
    assert set(examples) == {"curl", "Python"}
    assert list(examples["curl"]) == list(examples["Python"])
    assert {"token", "upload", "budget", "release", "download", "public"} <= set(examples["curl"])


@pytest.mark.parametrize(("language", "owner"), [("curl", "alice"), ("Python", "dora")])
def test_the_examples_lead_from_a_file_to_a_public_release(examples, installation, tmp_path, language, owner):
    if language == "curl" and not (shutil.which("curl") and shutil.which("jq")):
        pytest.skip("curl or jq is not installed")
    table = "".join(f"{18 + (i * 7) % 47},{'female' if i % 3 else 'male'}\n" for i in range(300))
    (tmp_path / "people.csv").write_text(f"age,sex\n{table}" + "20,male\n" * (language == "curl"))
    token = installation.run(TOKEN.format(owner=owner))
    grant = installation.script(GRANTED.format(owner=owner))
    hook = shlex.join(grant) if language == "curl" else f"import subprocess\nsubprocess.run({grant!r}, check=True)"
    pieces = []
    for name, piece in examples[language].items():
        pieces += [piece.replace("dpweb_...", token), hook if name == "budget" else ""]
    script = tmp_path / "script"
    script.write_text("\n".join(pieces))
    command = ["bash", "-euo", "pipefail"] if language == "curl" else [sys.executable]
    done = subprocess.run(
        [*command, str(script)],
        cwd=tmp_path,
        env={**os.environ, **installation.environment},
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"laplace-queries: epsilon 0\.5\. With probability 95%, every one of the 10 counts", done.stdout)
    assert "published: The result will not change." in done.stdout
    assert "Age and sex, epsilon 0.5: http://" in done.stdout
    assert len(list(csv.DictReader((tmp_path / "answers.csv").open()))) == 10
    assert '"title": "Age and sex"' in (tmp_path / "receipt.json").read_text()
