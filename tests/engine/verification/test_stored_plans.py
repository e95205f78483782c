"""Plans that are stored: what waits, what is open and what was published has to be read by every later version.

python -m tests.engine.verification.test_stored_plans adds those of new mechanisms, and changes none.
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


@pytest.mark.parametrize("value", STORED, ids=[f"{each['mechanism']} {each['budget']}" for each in STORED])
def test_a_plan_that_an_earlier_version_stored_is_read_as_it_was(value):
    assert plan_from_json(value).to_json()["planned"] == value["planned"]


def test_a_plan_of_every_mechanism_is_stored():
    assert {each["mechanism"] for each in STORED} == set(mechanisms())


def main():
    asked = {}
    for case in EVERY_CASE:
        name, *question = case.values
        asked.setdefault(name, question)
    known = {each["mechanism"] for each in STORED}
    plans = [plan_of(name, *asked[name], budget=budget) for name in sorted(asked) for budget in BUDGETS]
    with FILE.open("a") as file:
        for plan in plans:
            if plan.mechanism not in known and not plan.infeasible:
                file.write(json.dumps(plan.to_json(), ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
