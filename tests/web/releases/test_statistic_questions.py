"""Asking a statistic other than counts: by its own few fields, checked while typing, with or without JavaScript."""

import json

import pytest

from releases import services
from releases.engine.workload.statistic import offered_words
from releases.questions.base import offered_statistics
from tests.web.pages import body, field_value, inline_code, link, words
from tests.web.releases.conftest import queries

YOUNG, MEN = '{"age": {"from": 18, "to": 25}}', '{"sex": ["male"]}'
COLUMNS = [
    {"name": "age", "type": "integer", "edges": [18, 25, 35, 45, 55, 65]},
    {"name": "income", "type": "number", "edges": [0, 1000, 5000], "decimals": 1},
    {"name": "sex", "type": "categorical", "categories": ["female", "male"]},
    {"name": "tea", "type": "categorical", "categories": ["yes", "no"]},
    {"name": "rice", "type": "categorical", "categories": ["yes", "no"]},
]
CONTENT = b"age,income,sex,tea,rice\n" + b"30,1200.5,male,yes,no\n" * 40

#: Fields that are lists to choose from.
SELECTED = ("column", "weighted_by", "outcome")
#: For each kind what is filled in, and the question that it is.
ASKED = [
    ("sum", {"columns": ["age", "income"]}, {"sum": ["age", "income"]}),
    (
        "regression",
        {"outcome": "income", "columns": ["age", "sex"]},
        {"regression": {"outcome": "income", "columns": ["age", "sex"]}},
    ),
    (
        "logistic_regression",
        {"outcome": "tea", "values": "yes", "columns": ["age", "sex"]},
        {"logistic_regression": {"outcome": "tea", "values": ["yes"], "columns": ["age", "sex"]}},
    ),
    ("second_moments", {"columns": ["age", "income"]}, {"second_moments": ["age", "income"]}),
    ("variance", {"columns": ["income"], "by": "sex"}, {"variance": {"columns": ["income"], "by": ["sex"]}}),
    (
        "votes",
        {"columns": ["tea", "rice"], "category": "yes", "ballots": "2"},
        {"votes": {"columns": ["tea", "rice"], "category": "yes", "ballots": 2}},
    ),
    ("mean", {"columns": ["income"], "by": "sex, tea"}, {"mean": {"columns": ["income"], "by": ["sex", "tea"]}}),
    (
        "mean",
        {"columns": ["income"], "by": "sex", "weighted_by": "age", "cap": "50"},
        {"mean": {"columns": ["income"], "by": ["sex"], "weighted_by": {"column": "age", "cap": 50}}},
    ),
    (
        "weighted_count",
        {"weighted_by": "income", "by": "sex, tea", "cap": "5000"},
        {"weighted_count": {"by": ["sex", "tea"], "weighted_by": {"column": "income", "cap": 5000}}},
    ),
    ("most_common", {"column": "age", "k": "1"}, {"most_common": "age"}),
    ("most_common", {"column": "age", "k": "3"}, {"top": {"column": "age", "k": 3}}),
    ("largest_count", {"counts": [YOUNG, MEN]}, {"largest_count": [json.loads(YOUNG), json.loads(MEN)]}),
    ("quantile", {"column": "age", "at": "0.5"}, {"median": "age"}),
    ("quantile", {"column": "income", "at": "0.90"}, {"quantile": {"column": "income", "at": "0.9"}}),
    (
        "quantiles",
        {"column": "age", "at": "0.25, 0.5", "by": "sex"},
        {"quantiles": {"column": "age", "at": ["0.25", "0.5"], "by": "sex"}},
    ),
    ("range", {"column": "income", "inside": "0.98"}, {"range": {"column": "income", "inside": "0.98"}}),
    ("categories", {"column": "sex"}, {"categories": "sex"}),
    (
        "threshold",
        {"counts": [YOUNG, MEN], "above": "100", "answers": "1"},
        {"threshold": {"counts": [json.loads(YOUNG), json.loads(MEN)], "above": 100, "answers": 1}},
    ),
    ("survey", {"column": "sex"}, {"survey": "sex"}),
    (
        "strongest_associations",
        {"columns": ["age", "sex", "tea"], "k": "2"},
        {"strongest_associations": {"columns": ["age", "sex", "tea"], "k": 2}},
    ),
]


@pytest.fixture
def blank(make_declared, alice):
    return services.releases.draft_release(dataset=make_declared(COLUMNS, content=CONTENT), by=alice)


@pytest.fixture
def visit(blank, as_, alice):
    """Look at the page of a kind, or send it."""

    def open_or_send(kind, data=None, **headers):
        url = link("questions", blank)
        client = as_(alice)
        if data is None:
            return client.get(url, {"kind": kind})
        return client.post(url, {"kind": kind, **data}, headers=headers)

    return open_or_send


def test_every_statistic_of_the_engine_is_offered():
    kinds = {"top": "most_common", "median": "quantile"}
    assert {kinds.get(word, word) for word in offered_words()} == set(offered_statistics())


@pytest.mark.parametrize(("kind", "typed", "question"), ASKED[::4])
def test_a_statistic_is_asked_and_shown_again(visit, blank, kind, typed, question):
    assert visit(kind, {"action": "ask", **typed}).status_code == 302
    assert queries(blank) == [question]
    again = visit("")
    assert f"<h2>{offered_statistics()[kind].title}</h2>" in body(again)
    for name, value in typed.items():
        if isinstance(value, str) and name not in SELECTED:
            assert field_value(again, name) == value.replace("0.90", "0.9")
    assert inline_code(again) == []


#: What breaks a rule of a kind, and what is said.
BROKEN = [
    ("sum", {}, "columns: nothing was chosen; must name declared columns"),
    ("sum", {"columns": ["sex"]}, "columns: 'sex' must be a column of the fitting kind"),
    (
        "votes",
        {"columns": ["tea", "sex"], "category": "yes", "ballots": "1"},
        "Category that is counted: 'yes' must be a category of every column; sex has none such",
    ),
    ("most_common", {"column": "sex", "k": "²"}, "How many of them: '²' must be a whole number from 1 to 2"),
    (
        "regression",
        {"outcome": "income", "columns": ["age", "income"]},
        "Predictors: 'income' must be another column than the outcome",
    ),
    ("regression", {"outcome": "", "columns": ["age"]}, "Outcome: nothing was chosen; must name a numeric column"),
    (
        "logistic_regression",
        {"outcome": "tea", "values": "yes; maybe", "columns": ["age"]},
        "Values that are the outcome: 'maybe' must be one of yes, no",
    ),
    (
        "logistic_regression",
        {"outcome": "tea", "values": "yes; no", "columns": ["age"]},
        "Values that are the outcome: 'yes, no' must leave out some of what tea can be",
    ),
    (
        "strongest_associations",
        {"columns": ["age", "sex"], "k": "1"},
        "Among these columns: '2 columns' must be at least 3; of two, ask for the counts of both",
    ),
    ("quantile", {"column": "age", "at": "1"}, "Share of the rows: '1' must be above 0 and below 1"),
    ("largest_count", {"counts": [MEN, '{"sex": ["x"]}']}, "Count, sex: 'x' must be one of female, male"),
    ("threshold", {"counts": [MEN], "above": "", "answers": "1"}, "Threshold, in rows: nothing is given; must be"),
]


@pytest.mark.parametrize(("kind", "typed", "message"), BROKEN)
def test_a_broken_rule_is_said_at_its_field_and_nothing_typed_is_lost(visit, blank, kind, typed, message):
    response = visit(kind, {"action": "ask", **typed})
    assert response.status_code == 400
    assert message in words(response)
    for name, value in typed.items():
        if value and name in SELECTED:
            assert f'<option value="{value}" selected>' in body(response)
        elif isinstance(value, str) and name not in SELECTED:
            assert field_value(response, name) == value
    assert queries(blank) is None
