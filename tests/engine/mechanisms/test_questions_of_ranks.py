"""Questions about ranges, quantiles and categories: read and written as asked, and refused by field and rule."""

from __future__ import annotations

from fractions import Fraction

import pytest

from releases.engine.domain.universe import Schema
from releases.engine.errors import InvalidInput
from releases.engine.workload.parsing import read_question
from tests.engine.telling import planned

GRADE = {"name": "grade", "type": "integer", "edges": [0, 4]}
INCOME = {"name": "income", "type": "number", "edges": [-1000, 100000], "decimals": 2}
TEAM = {"name": "team", "type": "categorical", "categories": ["a", "b"], "outside": "b"}
UNIVERSE = Schema.from_json({"version": 1, "columns": [GRADE, INCOME, TEAM]}).universe


def read(query):
    return read_question({"version": 1, "queries": [query]}, UNIVERSE)


@pytest.mark.parametrize(
    ("query", "titles", "labels"),
    [
        (
            {"range": {"column": "income", "inside": "0.98"}},
            ["range that holds 98% of income"],
            [("lowest",), ("highest",)],
        ),
        (
            {"quantiles": {"column": "income", "at": ["0.25", "0.5", "0.75"]}},
            ["25% quantile of income", "median of income", "75% quantile of income"],
            None,
        ),
        (
            {"quantiles": {"column": "income", "at": ["0.25", "0.5"], "by": "team"}},
            ["25% quantile of income by team", "median of income by team"],
            [("a",), ("b",)],
        ),
        ({"categories": "team"}, ["values of team that are not declared"], None),
    ],
)
def test_a_question_is_read_and_written_as_it_was_asked(query, titles, labels):
    question = read(query)
    assert question.to_json()["queries"] == [query]
    assert [part.title(UNIVERSE) for part in question.families] == titles
    assert labels is None or list(question.families[0].labels(UNIVERSE)) == labels


def test_the_ends_of_a_range_leave_as_much_on_either_side():
    assert read({"range": {"column": "income", "inside": 0.98}}).statistic.ends == (Fraction(1, 100), Fraction(99, 100))


SHARE = "must be above 0 and below 1 (0.98 for 98%)"
LIST = "must be a list of 2 to 19 shares"


@pytest.mark.parametrize(
    ("word", "value", "message"),
    [
        ("range", "income", "range: 'income' must be an object with column, inside"),
        ("range", {"column": "wage", "inside": "0.98"}, "range.column: 'wage' must name a declared column"),
        ("range", {"column": "income"}, "range.inside: None must be a number"),
        ("range", {"column": "income", "inside": "1"}, f"range.inside: '1' {SHARE}"),
        ("range", {"column": "income", "inside": "0"}, f"range.inside: '0' {SHARE}"),
        ("range", {"column": "income", "inside": "all"}, "range.inside: 'all' must be a number"),
        ("range", {"column": "income", "inside": "0.98", "at": 1}, "range: 'at' is not a known field"),
        ("quantiles", "income", "quantiles: 'income' must be an object with at, by, column"),
        ("quantiles", {"column": "income", "at": "0.5"}, f"quantiles.at: '0.5' {LIST}"),
        ("quantiles", {"column": "income", "at": ["0.5"]}, LIST),
        ("quantiles", {"column": "income", "at": ["0.5"], "by": "income"}, "by: 'income' must name a declared"),
        ("quantiles", {"column": "income", "at": [], "by": "city"}, "must name a declared column of categories"),
        ("quantiles", {"column": "income", "at": ["0.5", "1"]}, "must be above 0 and below 1"),
        ("quantiles", {"column": "income", "at": ["0.5", "0.25"]}, "must rise from each share to the next"),
        ("quantiles", {"column": "income", "at": ["0.5", "half"]}, "quantiles.at: 'half' must be a number"),
        ("categories", "city", "categories: 'city' must name a declared column"),
        ("categories", None, "categories: None must name a declared column"),
        ("categories", ["team", "grade"], "categories: ['team', 'grade'] must name a declared column"),
        ("categories", "grade", "categories: 'grade' must be a categorical column"),
    ],
)
def test_what_is_no_question_is_refused_with_field_value_and_rule(word, value, message):
    with pytest.raises(InvalidInput) as refused:
        read({word: value})
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("name", "word", "field", "finest"),
    [
        ("exponential-range", "range", "inside", "0.999998"),
        ("exponential-quantile", "quantile", "at", "0.999999"),
        ("counted-quantile", "quantile", "at", "0.999999"),
    ],
)
def test_a_share_of_too_many_decimals_is_refused_in_a_sentence(name, word, field, finest):
    query = {"column": "grade", field: "0.12345678"}
    assert "at most six decimals" in planned(name, [GRADE], {word: query}).infeasible
    assert not planned(name, [GRADE], {word: {**query, field: finest}}).infeasible
