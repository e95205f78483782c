"""Asking a statistic other than counts: by its own few fields, checked while typing, with or without JavaScript."""

from __future__ import annotations

import json
import re

import pytest
from django.http import QueryDict
from django.urls import reverse

from releases import services
from releases.engine.domain.universe import Schema
from releases.engine.mechanisms.base import mechanisms
from releases.engine.workload.parsing import read_question
from releases.engine.workload.statistic import offered_words
from releases.forms.statistics import StatisticForm
from releases.models import Release
from releases.questions.base import offered_statistics
from tests.web.pages import body, field_value, inline_code, words

pytestmark = pytest.mark.django_db

YOUNG, MEN = '{"age": {"from": 18, "to": 25}}', '{"sex": ["male"]}'
COLUMNS = [
    {"name": "age", "type": "integer", "edges": [18, 25, 35, 45, 55, 65]},
    {"name": "income", "type": "number", "edges": [0, 1000, 5000], "decimals": 1},
    {"name": "sex", "type": "categorical", "categories": ["female", "male"]},
    {"name": "tea", "type": "categorical", "categories": ["yes", "no"]},
    {"name": "rice", "type": "categorical", "categories": ["yes", "no"]},
]
CONTENT = b"age,income,sex,tea,rice\n" + b"30,1200.5,male,yes,no\n" * 40

#: For each kind what is filled in, and the question that it is.
ASKED = [
    ("sum", {"columns": ["age", "income"]}, {"sum": ["age", "income"]}),
    ("mean", {"columns": ["income"]}, {"mean": ["income"]}),
    ("second_moments", {"columns": ["age", "income"]}, {"second_moments": ["age", "income"]}),
    (
        "votes",
        {"columns": ["tea", "rice"], "category": "yes", "ballots": "2"},
        {"votes": {"columns": ["tea", "rice"], "category": "yes", "ballots": 2}},
    ),
    (
        "mean",
        {"columns": ["income"], "by": "sex, tea"},
        {"mean": {"columns": ["income"], "by": ["sex", "tea"]}},
    ),
    ("sum", {"columns": ["age", "income"], "by": "sex"}, {"sum": {"columns": ["age", "income"], "by": ["sex"]}}),
    ("most_common", {"column": "age", "k": "1"}, {"most_common": "age"}),
    ("most_common", {"column": "age", "k": "3"}, {"top": {"column": "age", "k": 3}}),
    ("largest_count", {"counts": [YOUNG, MEN]}, {"largest_count": [json.loads(YOUNG), json.loads(MEN)]}),
    ("quantile", {"column": "age", "at": "0.5"}, {"median": "age"}),
    ("quantile", {"column": "income", "at": "0.90"}, {"quantile": {"column": "income", "at": "0.9"}}),
    (
        "quantiles",
        {"column": "income", "at": "0.25, 0.5, 0.75"},
        {"quantiles": {"column": "income", "at": ["0.25", "0.5", "0.75"]}},
    ),
    (
        "quantiles",
        {"column": "age", "at": "0.5", "by": "sex"},
        {"quantiles": {"column": "age", "at": ["0.5"], "by": "sex"}},
    ),
    ("range", {"column": "income", "inside": "0.98"}, {"range": {"column": "income", "inside": "0.98"}}),
    ("categories", {"column": "sex"}, {"categories": "sex"}),
    (
        "threshold",
        {"counts": [YOUNG, MEN], "above": "100", "answers": "1"},
        {"threshold": {"counts": [json.loads(YOUNG), json.loads(MEN)], "above": 100, "answers": 1}},
    ),
    ("survey", {"column": "sex"}, {"survey": "sex"}),
]


@pytest.fixture
def blank(make_dataset, alice):
    dataset = make_dataset(content=CONTENT)
    services.datasets.declare_universe(dataset=dataset, columns=COLUMNS)
    return services.releases.draft_release(dataset=dataset, by=alice)


@pytest.fixture
def visit(blank, as_, alice):
    """Look at the page of a kind, or send it."""

    def open_or_send(kind, data=None, **headers):
        url = reverse("questions", args=[blank.pk])
        client = as_(alice)
        if data is None:
            return client.get(url, {"kind": kind})
        return client.post(url, {"kind": kind, **data}, headers=headers)

    return open_or_send


def queries(blank):
    workload = Release.objects.get(pk=blank.pk).workload
    return workload and workload["queries"]


def test_every_statistic_of_the_engine_is_offered():
    kinds = {"top": "most_common", "median": "quantile"}
    assert {kinds.get(word, word) for word in offered_words()} == set(offered_statistics())


@pytest.mark.parametrize(("kind", "typed", "question"), ASKED)
def test_a_statistic_is_asked_and_shown_again(visit, blank, kind, typed, question):
    assert visit(kind, {"action": "ask", **typed}).status_code == 302
    assert queries(blank) == [question]
    again = visit("")
    assert f"<h2>{offered_statistics()[kind].title}</h2>" in body(again)
    for name, value in typed.items():
        if isinstance(value, str) and name != "column":
            assert field_value(again, name) == value.replace("0.90", "0.9")
    assert inline_code(again) == []


@pytest.mark.parametrize("kind", offered_statistics())
def test_the_page_of_a_kind_has_no_inline_code_and_says_what_is_answered(visit, kind):
    shown = visit(kind)
    assert shown.status_code == 200
    assert offered_statistics()[kind].says in words(shown)
    assert inline_code(shown) == []


@pytest.mark.parametrize(
    ("kind", "typed", "message"),
    [
        ("sum", {}, "columns: nothing was chosen; must name declared columns"),
        ("sum", {"columns": ["sex"]}, "columns: 'sex' must be a column of the fitting kind"),
        ("mean", {"columns": ["wage"]}, "columns: 'wage' must be a column of the fitting kind"),
        ("votes", {"columns": ["tea"], "ballots": "1"}, "Category that is counted: nothing was typed"),
        (
            "votes",
            {"columns": ["tea", "sex"], "category": "yes", "ballots": "1"},
            "Category that is counted: 'yes' must be a category of every column; sex has none such",
        ),
        (
            "votes",
            {"columns": ["tea", "rice"], "category": "yes", "ballots": "3"},
            "Ballots a row has, at most: 3 must be a whole number from 1 to 2",
        ),
        ("most_common", {"k": "1"}, "column: nothing was chosen; must name a declared column"),
        ("most_common", {"column": "sex", "k": "9"}, "How many of them: 9 must be a whole number from 1 to 2"),
        ("most_common", {"column": "sex", "k": "²"}, "How many of them: '²' must be a whole number from 1 to 2"),
        ("quantile", {"column": "age", "at": "1"}, "Share of the rows: '1' must be above 0 and below 1"),
        ("range", {"column": "age", "inside": "2"}, "Share inside: '2' must be above 0 and below 1 (0.98 for 98%)"),
        ("categories", {"column": "age"}, "column: 'age' must be a column of the fitting kind"),
        ("quantile", {"column": "age", "at": "0,5"}, "Share of the rows: '0,5' must be a number"),
        ("quantile", {"column": "sex", "at": "0.5"}, "column: 'sex' must be a column of the fitting kind"),
        ("largest_count", {"counts": [MEN]}, "Largest of several counts: 1 must hold at least two predicates"),
        ("largest_count", {"counts": ["{"]}, "The count is not JSON"),
        ("largest_count", {"counts": [MEN, '{"sex": ["x"]}']}, "Count, sex: 'x' must be one of female, male"),
        ("threshold", {"above": "5", "answers": "1"}, "The counts: [] must be a list of predicates"),
        (
            "threshold",
            {"counts": [MEN], "above": "", "answers": "1"},
            "Threshold, in rows: nothing is given; must be",
        ),
        (
            "threshold",
            {"counts": [MEN], "above": "5", "answers": "2"},
            "Stop after so many above: 2 must be",
        ),
        ("survey", {}, "column: nothing was chosen"),
    ],
)
def test_a_broken_rule_is_named_and_nothing_typed_is_lost(visit, blank, kind, typed, message):
    response = visit(kind, {"action": "ask", **typed})
    assert response.status_code == 400
    assert message in words(response)
    form, place = response.context["statistic"], message.split(":")[0]
    named = [name for name, field in form.fields.items() if place in (name, field.label)]
    assert list(form.errors) == (named or [form.kind.fields[0].name])
    for name, value in typed.items():
        if isinstance(value, str) and name != "column":
            assert field_value(response, name) == value
    assert queries(blank) is None


def test_a_check_says_the_same_without_asking(visit, blank):
    response = visit("sum", {"action": "check"})
    assert response.status_code == 200
    assert "columns: nothing was chosen" in words(response)
    assert "Would ask for sum of age : 1 answer." in words(visit("sum", {"action": "check", "columns": ["age"]}))
    assert queries(blank) is None


def test_while_typing_only_the_check_comes_back_and_nothing_is_stored(visit, blank):
    good = visit("quantile", {"action": "check", "column": "age", "at": "0.25"}, **{"HX-Request": "true"})
    assert "<html" not in body(good)
    assert "Would ask for 25% quantile of age : 1 answer." in words(good)
    assert "Exponential mechanism on ranks" in words(good)
    bad = visit("quantile", {"action": "check", "column": "age", "at": "7"}, **{"HX-Request": "true"})
    assert "Share of the rows: '7' must be above 0 and below 1" in words(bad)
    assert "<html" not in body(bad)
    assert queries(blank) is None


def test_counts_are_put_together_one_at_a_time_and_taken_away_again(visit, blank):
    first = visit("threshold", {"action": "add-count", "above": "12", "in.sex": ["male"]})
    assert first.status_code == 200
    assert "sex: male" in words(first)
    assert field_value(first, "above") == "12"
    assert "checked" not in body(first).split('name="in.sex" value="male"')[1][:12]
    second = visit("threshold", {"action": "add-count", "counts": [MEN], "from.age": "18", "to.age": "25"})
    assert "sex: male remove sex: male age: 18 to 24" in words(second)
    less = visit("threshold", {"action": "drop-0", "counts": [MEN, YOUNG]})
    assert "sex: male" not in words(less)
    assert "age: 18 to 24" in words(less)
    assert queries(blank) is None


def test_a_count_that_breaks_a_rule_is_refused_and_the_others_stay(visit):
    response = visit("threshold", {"action": "add-count", "counts": [MEN], "from.age": "20", "above": "12"})
    assert response.status_code == 400
    assert "Count, age, from: '20' must be a declared edge" in words(response)
    assert "sex: male" in words(response)
    assert field_value(response, "from.age") == "20"
    assert field_value(response, "above") == "12"


def test_a_statistic_takes_the_place_of_counts_and_counts_that_of_a_statistic(visit, blank, as_, alice):
    url = reverse("questions", args=[blank.pk])
    as_(alice).post(url, {"action": "marginals", "order": "1"})
    assert len(queries(blank)) == 5
    assert "It replaces what is asked so far." in words(visit("sum"))
    visit("sum", {"action": "ask", "columns": ["age"]})
    assert queries(blank) == [{"sum": ["age"]}]
    assert "They replace the statistic that is asked so far." in words(visit("counts"))
    as_(alice).post(url, {"action": "prefix", "prefix": "age"})
    assert queries(blank) == [{"prefix": "age"}]


def test_without_a_numeric_column_a_sum_cannot_be_asked_and_says_why(visit, blank):
    services.datasets.declare_universe(dataset=blank.dataset, columns=COLUMNS[2:])
    blank.dataset.refresh_from_db()
    for kind, reason in (("sum", "nothing to add up"), ("quantile", "nothing to rank")):
        shown = visit(kind)
        assert reason in words(shown)
        assert 'value="ask"' not in body(shown)


def test_an_unknown_kind_or_button_asks_nothing(visit, blank):
    assert visit("nonsense").context["wants"].want == ""
    refused = visit("nonsense", {"action": "ask"})
    assert refused.status_code == 400
    assert "action: 'ask' is not known" in words(refused)
    assert queries(blank) is None


def test_only_the_dataset_s_people_may_ask(blank, as_, bob, charlie, sofia):
    url = reverse("questions", args=[blank.pk])
    assert as_(bob).get(url, {"kind": "sum"}).status_code == 200
    for other in (charlie, sofia):
        assert as_(other).post(url, {"kind": "sum", "action": "ask", "columns": ["age"]}).status_code == 404
    assert queries(blank) is None


@pytest.mark.parametrize(("kind", "typed", "question"), ASKED[::2])
def test_only_mechanisms_for_the_kind_are_candidates_with_their_formula_and_source(
    visit, blank, as_, alice, kind, typed, question
):
    visit(kind, {"action": "ask", **typed})
    draft = Release.objects.get(pk=blank.pk)
    services.releases.set_choice(release=draft, epsilon="1", delta="0.0000001")
    compared = as_(alice).get(reverse("compare", args=[blank.pk]))
    asked = read_question({"version": 1, "queries": [question]}, blank.dataset.universe)
    for name, each in mechanisms().items():
        assert (f'name="mechanism" value="{name}"' in body(compared)) == each.can_answer(asked), name
        if each.can_answer(asked):
            assert each.source in words(compared)
    plans = services.releases.compare(release=draft)
    feasible = [plan for plan in plans if not plan.infeasible]
    assert feasible
    assert all((plan.bound or plan.expectation or plan).formula for plan in feasible)
    assert body(compared).count("<math") == len(feasible)


def test_of_very_many_columns_names_are_typed_and_read_by_the_same_rules():
    columns = [{"name": f"c{number}", "type": "integer", "edges": [0, 1, 2]} for number in range(600)]
    universe = Schema.from_json({"version": 1, "columns": columns}).universe
    total = StatisticForm(offered_statistics()["sum"], QueryDict("columns=c1,+c2%0Ac599"), universe=universe)
    assert total.is_valid()
    assert total.statistic.attributes == ("c1", "c2", "c599")
    wrong = StatisticForm(offered_statistics()["sum"], QueryDict("columns=c1,+wage"), universe=universe)
    assert wrong.errors["columns"] == ["sum: 'wage' must name a declared column"]
    median = StatisticForm(offered_statistics()["quantile"], QueryDict("column=c7&at=0.5"), universe=universe)
    assert median.is_valid()
    assert median.statistic.attributes == ("c7",)
    assert len(str(median)) < 2_000


def test_the_page_that_is_confirmed_has_the_bound_s_formula_and_source(visit, blank, as_, alice):
    visit("sum", {"action": "ask", "columns": ["age"]})
    draft = Release.objects.get(pk=blank.pk)
    services.releases.set_choice(release=draft, epsilon="1", mechanism_name="laplace-numbers")
    confirmed = as_(alice).get(reverse("confirm", args=[blank.pk]))
    assert body(confirmed).count("<math") == 1
    assert services.releases.plan_of(release=draft).bound.source in words(confirmed)
    assert inline_code(confirmed) == []


def test_bounds_in_unlike_units_are_neither_drawn_together_nor_ranked_by_each_other(visit, blank, as_, alice):
    visit("quantile", {"action": "ask", "column": "age", "at": "0.5"})
    draft = Release.objects.get(pk=blank.pk)
    services.releases.set_choice(release=draft, epsilon="1", delta="0.0000001")
    compared = as_(alice).get(reverse("compare", args=[blank.pk]), {"curves": "1", "error": "5"})
    charts = dict(re.findall(r'<script id="(bounds-data\S*)" type="application/json">(.*?)</script>', body(compared)))
    drawn = {
        name: {point["mechanism"] for point in json.loads(text)["layer"][0]["data"]["values"]}
        for name, text in charts.items()
    }
    ranks = {"Counts around the quantile", "Exponential mechanism on ranks"}
    assert ranks in drawn.values()
    assert all(each == ranks or not each & ranks for each in drawn.values())
    assert len(drawn) == 2
    assert "Least epsilon for an error of at most 5 rows or units of age" in words(compared)
    assert "for another kind of question" in words(compared)
