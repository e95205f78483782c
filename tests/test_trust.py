"""`docs/TRUST.md` names tests and mistakes that are there, all of them."""

import re

from tests.mutations import MUTATIONS, ROOT

TEXT = (ROOT / "docs" / "TRUST.md").read_text()


def test_every_test_that_is_named_is_there():
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", TEXT)
    assert len(named) > 50
    missing = [f"{file}::{name}" for file, name in named if f"def {name}(" not in (ROOT / file).read_text()]
    assert missing == []


def test_every_one_of_the_nineteen_techniques_has_a_row():
    assert [int(number) for number in re.findall(r"^\| (\d+) \|", TEXT, flags=re.MULTILINE)] == list(range(1, 20))


def test_every_mistake_made_on_purpose_is_listed_with_the_test_that_notices_it():
    for mutation in MUTATIONS:
        assert f"| {mutation.name} | `{mutation.file}` | `{mutation.test}` |" in TEXT
