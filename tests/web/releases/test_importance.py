"""The importance of questions: typed beside each, kept wherever questions are, and told with every bound."""

from __future__ import annotations

import html
import json
import re
from fractions import Fraction

import pytest

from releases import services
from releases.models import Release
from releases.planning import comparison
from releases.publication import files
from tests.web.pages import body, link, words
from tests.web.releases.conftest import queries

pytestmark = pytest.mark.django_db

RULE = "must be a whole number from 1 to 1,000"
WEIGHED = [{"marginal": ["age"]}, {"marginal": ["sex"], "weight": 2}, {"marginal": ["age", "sex"], "weight": 10}]


@pytest.fixture
def weighed(dataset, make_draft):
    """Left as they are, the counts' bounds follow from their importance alone."""
    return make_draft(dataset, *WEIGHED, options={"agree": "no"})


@pytest.fixture
def ask(blank, as_, alice):
    return lambda **data: as_(alice).post(link("questions", blank), data)


def fields_in(page):
    """The importance fields of the list, from the question's title to the field's name."""
    found = re.findall(r'<input name="(importance-\w+)"[^>]* aria-label="Importance of ([^"]+)"', body(page))
    return {html.unescape(title): name for name, title in found}


def test_a_question_is_added_with_its_importance(ask, blank):
    ask(action="marginals", order="1", columns=["sex"], importance="3")
    ask(action="prefix", prefix="age", importance=" 12 ")
    ask(action="count", **{"in.sex": ["male"], "importance": "1000"})
    ask(action="marginals", order="1", columns=["age"], importance="")
    assert queries(blank) == [
        {"marginal": ["sex"], "weight": 3},
        {"prefix": "age", "weight": 12},
        {"count": {"sex": ["male"]}, "weight": 1000},
        {"marginal": ["age"]},
    ]


BROKEN = [*(("marginals", each) for each in ("0", "1001", "2.5", "1e2", "²", "9" * 30)), ("prefix", "often")]


def test_an_importance_that_breaks_its_rule_is_named_and_nothing_typed_is_lost(ask, blank):
    for action, typed in BROKEN:
        response = ask(action=action, order="1", prefix="age", importance=typed)
        assert response.status_code == 400
        assert re.search(rf"importance: '?{re.escape(typed)}'? {RULE}", words(response))
        assert re.findall(
            r'<input id="importance-of-(\w+)"[^>]* value="([^"]*)"[^>]* aria-invalid="true"', body(response)
        ) == [(action, typed)]
        assert queries(blank) is None


def test_a_list_that_another_window_has_changed_weighs_no_other_question(ask, asked, as_, alice):
    fields = fields_in(as_(alice).get(link("questions", asked)))
    workload = {"version": 1, "queries": [{"prefix": "age"}, {"marginal": ["sex"]}]}
    services.releases.set_questions(release=asked, workload=workload)
    ask(action="importance", **{fields["age"]: "5", fields["sex"]: "6"})
    assert [query.get("weight", 1) for query in queries(asked)] == [1, 6]


def test_the_least_epsilon_for_an_error_is_the_least_for_the_least_important_question(weighed):
    plan = services.releases.plan_of(release=weighed)
    least = comparison.least_epsilon(plan, error=60)
    assert comparison.at_epsilon(plan, least).bound.alpha <= 60
    assert comparison.at_epsilon(plan, least * Fraction(99, 100)).bound.alpha > 60


def test_the_receipt_and_the_answers_have_the_bound_of_each_importance(weighed, carry_out):
    release = carry_out(weighed)
    receipt = release.result["receipt"]
    largest, middle, smallest = receipt["bound"]["half_widths"]
    assert largest > middle > smallest
    assert receipt["workload"]["queries"] == WEIGHED
    assert receipt["events"][0]["kind"] == "weighted_discrete_laplace"
    assert receipt["cost"]["pure"] == {"epsilon": "1"}
    sentence = receipt["bound"]["sentence"]
    assert f"every one of the 17 counts is within {largest:.0f} rows of the truth" in sentence
    assert f"those of importance 2 within {middle:.0f} rows, those of importance 10 within" in sentence
    rows = files.read_answers(files.folder_of(release)).to_pylist()
    widths = {row["query"]: row["upper"] - row["estimate"] for row in rows}
    assert widths == {"age": largest, "sex": middle, "age × sex": smallest}


def test_importance_is_kept_in_plan_files_and_in_another_release_like_it(weighed, as_, alice, dataset):
    kept = as_(alice).get(link("plan_file", weighed))
    assert json.loads(body(kept))["workload"]["queries"] == WEIGHED
    as_(alice).post(link("new_release", dataset), {"like": weighed.pk})
    assert queries(Release.objects.exclude(pk=weighed.pk).get()) == WEIGHED
