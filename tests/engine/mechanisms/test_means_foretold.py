"""What is said of means by group before a release holds for every table whose groups are large enough."""

from fractions import Fraction

import numpy as np
import pytest

from releases.engine.domain.privacy import ApproxDP, PureDP
from releases.engine.domain.schema import Schema
from releases.engine.mechanisms.base import mechanism
from releases.engine.noise.randomness import StreamRandomness
from releases.engine.tables.counts import Rows
from releases.engine.workload.parsing import read_question

COLUMNS = [
    {"name": "age", "type": "integer", "edges": [0, 100]},
    {"name": "ward", "type": "categorical", "categories": ["a", "b", "c", "d"]},
]
BUDGETS = {
    "laplace-numbers": PureDP(epsilon=Fraction(1)),
    "gaussian-numbers": ApproxDP(epsilon=Fraction(1), delta=Fraction(1, 10**6)),
}


@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
@pytest.mark.parametrize("name", BUDGETS)
def test_every_mean_by_group_is_as_close_as_is_foretold_and_some_interval_nearly_as_wide(name, neighbours):
    """60 runs, at a beta that none of them is expected to meet; groups at both ends of the range and in its middle."""
    schema = Schema.from_json({"version": 1, "columns": COLUMNS, "neighbours": neighbours})
    question = read_question({"version": 1, "queries": [{"mean": {"columns": ["age"], "by": "ward"}}]}, schema.universe)
    options = {"expected_rows": 100_003}
    plan = mechanism(name).plan(schema, question, budget=BUDGETS[name], beta=Fraction(1, 10**6), options=options)
    assert plan.expectation.says.startswith(
        "if at least 25,000 rows are counted in each group, the mean of age in every"
    )
    wards = np.repeat(np.arange(4), 25_000)
    ages = np.repeat(np.array([0, 100, 50, 90]), 25_000)
    rows = Rows(universe=schema.universe, columns={"age": ages, "ward": wards})
    (foretold,), rng, widths = plan.expectation.half_widths, StreamRandomness(b"foretold"), []
    for _ in range(60):
        made = plan.run(rows, rng=rng)
        assert np.abs(made.estimates[0] - [0, 100, 50, 90]).max() <= foretold
        widths += (made.spans[0][:, 1] - made.spans[0][:, 0]).tolist()
    assert foretold * 0.7 < max(widths) <= foretold


def test_groups_with_hardly_any_rows_are_foretold_the_whole_range():
    schema = Schema.from_json({"version": 1, "columns": COLUMNS, "neighbours": "add_remove"})
    question = read_question({"version": 1, "queries": [{"mean": {"columns": ["age"], "by": "ward"}}]}, schema.universe)
    for name, budget in BUDGETS.items():
        options = {"expected_rows": 3}
        plan = mechanism(name).plan(schema, question, budget=budget, beta=Fraction(1, 20), options=options)
        assert plan.expectation.half_widths == (100.0,)
