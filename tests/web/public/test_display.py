"""Errors as pages say them, places in words, values and rules as they are; and formulas as they were written."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest

import releases
from releases.display.error_messages import in_words
from releases.display.math import typeset
from releases.engine.domain.universe import Schema
from releases.engine.errors import InvalidInput
from releases.engine.workload.parsing import read_question
from releases.forms.releases import SessionForm

COLUMNS = [
    {"name": "age", "type": "integer", "edges": [18, 25, 35]},
    {"name": "trip.from", "type": "integer", "edges": [0, 1, 2]},
]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("17", "'17'"),
        (17, "17"),
        (None, "nothing is given;"),
        ("", "nothing is given;"),
        ([], "[]"),
        (True, "true"),
        ({"from": 2, "to": 1}, '{"from": 2, "to": 1}'),
        ("x" * 100, "'" + "x" * 76 + "..."),
    ],
)
def test_the_value_is_shown_as_it_was_written_and_the_rule_stays(value, shown):
    said = in_words(InvalidInput("queries[0].prefix", value, "must be so"))
    assert said == f"Question 1, running totals: {shown} must be so"


@pytest.mark.parametrize(
    ("value", "rule", "ends"),
    [
        ("0,1", "must be a decimal number with a point, such as 0.5", "such as 0.5 or 1000"),
        ("1,000", "must be a whole number from 1 to 5,000", "such as 0.5 or 1000"),
        ("1.000,5", "must be a number", "such as 0.5 or 1000"),
        ("1.000", "must be a whole number from 1 to 5,000", "; thousands have no separator, such as 1000"),
        ("1 000", "must be a whole number from 1 to 5,000", "; thousands have no separator, such as 1000"),
        ("0.001", "must be above 1", "must be above 1"),
        ("ten", "must be a number", "must be a number"),
        ("1,5", "is named twice", "is named twice"),
    ],
)
def test_a_number_that_could_be_meant_in_two_ways_is_refused_with_how_to_write_it(value, rule, ends):
    assert in_words(InvalidInput("epsilon", value, rule)).endswith(ends)


@pytest.mark.parametrize("typed", ["1,000", "1.000", "1 000", "1'000"])
def test_a_whole_number_is_typed_in_digits_alone(typed):
    form = SessionForm({"epsilon": "1", "beta": "0.05", "questions": typed, "population": "1000"}, declared=["age"])
    assert form.errors["questions"] == ["Questions: must be a whole number, such as 1000, in digits alone."]


def test_what_the_engine_says_of_a_workload_and_a_schema_is_translated():
    universe = Schema.from_json({"version": 1, "columns": COLUMNS}).universe
    asked = {"version": 1, "queries": [{"prefix": "age"}, {"count": {"age": {"from": 17}}}]}
    with pytest.raises(InvalidInput) as caught:
        read_question(asked, universe)
    assert caught.value.field == "queries[1].count.age.from"
    assert in_words(caught.value) == "Question 2, count, age, from: '17' must be a declared edge (nearest: 18, 25, 35)"
    with pytest.raises(InvalidInput) as caught:
        Schema.from_json({"version": 1, "columns": [COLUMNS[0], {**COLUMNS[1], "edges": [2, 1]}]})
    assert in_words(caught.value).startswith("Column 2 (trip.from), edges: '2, 1' must rise")


def test_every_page_says_errors_through_the_same_words():
    folder = Path(releases.__file__).parent
    for path in [*(folder / "views").rglob("*.py"), *(folder / "forms").glob("*.py")]:
        for raw in ("str(error)", "{error}"):
            assert raw not in path.read_text(), f"{path.name} shows an error raw; say in_words(error) instead"


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (r"n\sqrt{\frac{\ln|X|}{2c}}", "n√(ln|X|)/(2c)"),
        (r"\sqrt{2 \ln\frac{k}{\beta}} + 1", "√2ln(k/β)+1"),
        (r"\sqrt{\frac{n^2 \ln|X|}{2T} + V^2}", "√((n2ln|X|)/(2T))+V2"),
        (r"\frac{1}{2} \sqrt{x}", "12√x"),
        (r"\sqrt{a} \sqrt{\tfrac{b}{c}}", "√a√b/c"),
    ],
)
def test_a_fraction_under_a_root_stays_under_it(written, shown):
    """Also where the browser has no font for mathematics."""
    mathml = typeset(written)
    roots = re.findall(r"<msqrt>.*?</msqrt>", mathml)
    assert roots
    assert not any("<mfrac>" in root for root in roots)
    text = re.sub(r"\s", "", re.sub(r"<[^>]+>", "", mathml.replace("<msqrt>", "√")))
    assert html.unescape(text) == shown
