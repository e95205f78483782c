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
#: A draft that a reviewer must see first, of rows that no other test has.
DRAFT = """
    from releases.models import Organisation
    Organisation.objects.create(upload_cap_bytes=2**30, review_above="0.5")
    columns = [{{"name": "age", "type": "integer", "edges": [18, 25, 35, 45, 55, 65]}}]
    answer = str(draft(budgeted("3", columns, {table!r})).pk)
"""
#: Goes on beside the example, which waits: a reviewer approves less than was asked for.
APPROVED_FOR_LESS = """
    import time
    from releases.models import ReleaseRequest
    while not (asked := ReleaseRequest.objects.filter(release={release!r})):
        time.sleep(0.2)
    services.reviews.approve_release(request=asked.get(), by=User.objects.get(username="sofia"), epsilon="0.25",
        send=False)
"""
NO_REVIEW = """
    from releases.models import Organisation
    Organisation.objects.all().delete()
"""
TOKEN = """
    owner, _ = User.objects.get_or_create(username={owner!r}, defaults={{"email": "owner@example.org"}})
    HeldRole.objects.get_or_create(person=owner, role="curator")
    answer = services.tokens.make_token(user=owner, name="examples")
"""
#: In the order of the page, which is the order of the work.
EXAMPLES = [
    "token",
    "upload",
    "find",
    "declare",
    "budget",
    "granted",
    "plan",
    "choose",
    "release",
    "download",
    "public",
    "catalogue",
]


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
    assert {language: list(found) for language, found in examples.items()} == {"curl": EXAMPLES, "Python": EXAMPLES}


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


@pytest.mark.parametrize("language", ["curl", "Python"])
def test_the_wait_ends_when_a_reviewer_approves_for_less(examples, installation, tmp_path, language):
    """It is a draft again then, and stays one until somebody submits it again."""
    if language == "curl" and not (shutil.which("curl") and shutil.which("jq")):
        pytest.skip("curl or jq is not installed")
    table = tmp_path / "table.csv"
    table.write_text("age\n" + "".join(f"{18 + i % 47}\n" for i in range(100 + len(language))))
    token = installation.run(TOKEN.format(owner="alice"))
    release = installation.run(DRAFT.format(table=str(table)))
    found = examples[language]
    named = f"RELEASE={release}" if language == "curl" else f'draft = {{"id": "{release}"}}'
    script = tmp_path / "script"
    script.write_text("\n".join([found["token"].replace("dpweb_...", token), named, found["release"]]))
    command = ["bash", "-euo", "pipefail"] if language == "curl" else [sys.executable]
    reviewer = subprocess.Popen(
        installation.script(APPROVED_FOR_LESS.format(release=release)), env={**os.environ, **installation.environment}
    )
    try:
        done = subprocess.run(
            [*command, str(script)], cwd=tmp_path, env={**os.environ}, capture_output=True, text=True, timeout=60
        )
        assert reviewer.wait(timeout=60) == 0
    finally:
        reviewer.kill()
        installation.run(NO_REVIEW)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "draft: Being put together." in done.stdout
