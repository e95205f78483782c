"""Survey weights on a file and in each database, against pandas: what a weight counts as, and what is refused."""

from __future__ import annotations

import csv
from fractions import Fraction
from io import StringIO

import numpy as np
import pandas as pd
import pytest

from releases.engine.domain.privacy import PureDP
from releases.engine.domain.schema import Schema
from releases.engine.errors import InvalidInput
from releases.engine.mechanisms.base import mechanism
from releases.engine.noise.randomness import StreamRandomness
from releases.engine.tables.query import TableCounts
from releases.engine.verification.recording import with_noise_scaled
from releases.engine.workload.parsing import read_question
from releases.engine.workload.questions import of_columns_asked
from tests.engine.tables.test_contract import EACH_ENGINE

CAP = 50
#: The rule for weights outside is another than that of weighted questions, which take them at the ends.
COLUMNS = [
    {"name": "income", "type": "integer", "edges": [0, 1000, 5000]},
    {"name": "region", "type": "categorical", "categories": ["north", "south", "west"]},
    {"name": "wgt", "type": "number", "edges": [1, 10, 80], "decimals": 1, "outside": "drop", "missing": ["-9"]},
    {"name": "employed", "type": "integer", "edges": [0, 1]},
]
ONE = PureDP(epsilon=Fraction(1))
#: On all noise: the numbers are then the exact ones.
ALMOST_NONE = Fraction(1, 10**12)


def survey(rows=400):
    """Rows of an artificial survey, some of whose weights are above the cap, below 0, missing or no numbers."""
    drawn = np.random.default_rng(8)
    lines = ["income,region,wgt,employed"]
    for row in range(rows):
        weight = (
            ["", "none", "-9", "-3.5", "70.5", "1e2", "0"][row % 40] if row % 40 < 7 else f"{drawn.gamma(2, 9):.1f}"
        )
        income = "" if row % 31 == 0 else int(drawn.integers(0, 6000))
        lines.append(f"{income},{drawn.choice(['north', 'south', 'south'])},{weight},{drawn.integers(0, 2)}")
    return "\n".join(lines) + "\n"


def by_pandas(text, query):
    """The answers, part by part: weights by pandas' own reading of numbers."""
    table = pd.read_csv(StringIO(text), dtype=str)
    numbers = {name: pd.to_numeric(table[name], errors="coerce") for name in ("income", "wgt", "employed")}
    table["w"] = numbers["wgt"].where(numbers["wgt"] != -9).clip(0, CAP)
    ((kind, asked),) = query.items()
    names = asked.get("columns", [])
    for name in names:
        table[name] = numbers[name].clip(*{"income": (0, 5000), "employed": (0, 1)}[name])
    table = table.dropna(subset=["w", *names])
    groups = [table[table.region == each] for each in COLUMNS[1]["categories"]] if "by" in asked else [table]
    if kind == "weighted_count":
        return [[group.w.sum() for group in groups]]
    if kind == "sum":
        return [[(group.w * group[name]).sum() for group in groups] for name in names]
    middles = {"income": 2500, "employed": 0.5}
    return [[np.average(g[name], weights=g.w) if g.w.sum() else middles[name] for g in groups] for name in names]


def planned(query, *, name="laplace-numbers", budget=ONE, unit=None, **options):
    schema = Schema.from_json({"version": 1, "columns": COLUMNS, "unit": unit or {"kind": "row"}})
    question = read_question({"version": 1, "queries": [query]}, schema.universe)
    return mechanism(name).plan(
        *of_columns_asked(schema, question), budget=budget, beta=Fraction(1, 20), options=options
    )


WEIGHTED = {"weighted_by": {"column": "wgt", "cap": CAP}}
QUERIES = [
    {"weighted_count": WEIGHTED},
    {"weighted_count": {"by": "region", **WEIGHTED}},
    {"sum": {"columns": ["income", "employed"], **WEIGHTED}},
    {"mean": {"columns": ["income"], "by": "region", **WEIGHTED}},
    {"mean": {"columns": ["income", "employed"], **WEIGHTED}},
]


@EACH_ENGINE
def test_weighted_answers_are_those_of_pandas(load, request):
    text = survey()
    rows = csv.DictReader(StringIO(text))
    table = load([{name: value or None for name, value in row.items()} for row in rows], request)
    for query in QUERIES:
        plan = planned(query)
        with with_noise_scaled(ALMOST_NONE):
            result = plan.run(TableCounts(table, plan.schema), rng=StreamRandomness(b"weights"))
        # Means of groups are given to four digits of the narrowest interval, hundreds wide.
        rounded = 0.06 if "by" in query.get("mean", {}) else 1e-6
        for found, expected in zip(result.estimates, by_pandas(text, query), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-6, atol=rounded)


def test_the_cap_is_read_and_kept_with_the_question():
    plan = planned({"mean": {"columns": ["income"], "weighted_by": "wgt"}})
    assert plan.workload.statistic.to_json(plan.schema.universe) == {
        "mean": {"columns": ["income"], "weighted_by": {"column": "wgt", "cap": 80}}
    }
    capped = planned({"mean": {"columns": ["income"], "weighted_by": {"column": "wgt", "cap": "12.5"}}}).schema.universe
    assert (capped["wgt"].lowest, capped["wgt"].highest, capped["wgt"].outside) == (0, 125, "clamp")


@pytest.mark.parametrize(
    ("weight", "field", "rule"),
    [
        (None, "weighted_by", "must be a numeric column"),
        ("income", "weighted_by", "must be another column than those it weighs"),
        ({"column": "wgt", "cap": 81}, "weighted_by.cap", "must be above 0 and at most 80"),
        ({"column": "wgt", "cap": 0}, "weighted_by.cap", "must be above 0"),
        ({"column": "wgt", "cap": "1.25"}, "weighted_by.cap", "must have at most 1 decimal places"),
    ],
)
def test_weights_that_cannot_be_are_refused(weight, field, rule):
    with pytest.raises(InvalidInput, match=rule) as raised:
        planned({"mean": {"columns": ["income"], "weighted_by": weight}})
    assert raised.value.field == f"queries[0].mean.{field}"
