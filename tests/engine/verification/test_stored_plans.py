"""Plans that are stored: what waits, what is open and what was published has to be read by every later version.

python -m tests.engine.verification.test_stored_plans adds what is planned otherwise now, and changes nothing.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from releases.engine.mechanisms.base import mechanisms, plan_from_json
from tests.engine.mechanisms.test_mechanisms import EVERY_CASE, plan_of
from tests.engine.verification.test_statistics_contract import BUDGETS

FILE = Path(__file__).with_name("stored_plans.jsonl")
STORED = [json.loads(line) for line in FILE.read_text().splitlines()]


@pytest.mark.parametrize("value", STORED, ids=[each["mechanism"] for each in STORED])
def test_a_plan_that_an_earlier_version_stored_is_read_as_it_was(value):
    assert plan_from_json(value).to_json()["planned"] == value["planned"]


def planned_now():
    """One question for each mechanism, with each kind of budget."""
    asked = {}
    for case in EVERY_CASE:
        name, *question = case.values
        asked.setdefault(name, question)
    plans = (plan_of(name, *asked[name], budget=budget).to_json() for name in sorted(asked) for budget in BUDGETS)
    return [json.loads(json.dumps(each)) for each in plans if not each["planned"]["infeasible"]]


def test_what_every_mechanism_plans_now_is_stored_for_later_versions():
    assert {each["mechanism"] for each in STORED} == set(mechanisms())
    assert [each for each in planned_now() if each not in STORED] == []


def main():
    with FILE.open("a") as file:
        for each in planned_now():
            if each not in STORED:
                file.write(json.dumps(each, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
