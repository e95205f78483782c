"""The importance of questions: typed beside each, kept wherever questions are, and told with every bound."""

from __future__ import annotations

import html
import json
import re
import uuid
from fractions import Fraction

import pytest
from django.urls import reverse

from releases import services
from releases.models import Release
from releases.planning import comparison
from tests.web.conftest import WORKLOAD
from tests.web.pages import body, field_value, words

pytestmark = pytest.mark.django_db

RULE = "must be a whole number from 1 to 1,000"
WEIGHED = {
    "version": 1,
    "queries": [
        {"marginal": ["age"]},
        {"marginal": ["sex"], "weight": 2},
        {"marginal": ["age", "sex"], "weight": 10},
    ],
}


@pytest.fixture
def blank(dataset, alice):
    return services.releases.draft_release(dataset=dataset, by=alice)


@pytest.fixture
def asked(blank):
    services.releases.set_questions(release=blank, workload=WORKLOAD)
    return blank


@pytest.fixture
def weighed(blank):
    """Left as they are, the counts' bounds follow from their importance alone."""
    services.releases.set_questions(release=blank, workload=WEIGHED)
    options = {"agree": "no"}
    services.releases.set_choice(release=blank, epsilon="1", mechanism_name="laplace-queries", options=options)
    return blank


@pytest.fixture
def ask(blank, as_, alice):
    return lambda **data: as_(alice).post(reverse("questions", args=[blank.pk]), data)


def weights_of(release):
    return [query.get("weight", 1) for query in Release.objects.get(pk=release.pk).workload["queries"]]


def fields_in(page):
    """The importance fields of the list, from the question's title to the field's name."""
    found = re.findall(r'<input name="(importance-\w+)"[^>]* aria-label="Importance of ([^"]+)"', body(page))
    return {html.unescape(title): name for name, title in found}


def publish(release, alice):
    services.releases.submit_release(release=release, key=uuid.uuid4(), by=alice, send=False)
    assert services.execution.execute_release(release_id=release.pk)
    return Release.objects.get(pk=release.pk)


def test_a_question_is_added_with_its_importance(ask, blank):
    ask(action="marginals", order="1", columns=["sex"], importance="3")
    ask(action="prefix", prefix="age", importance=" 12 ")
    ask(action="count", **{"in.sex": ["male"], "importance": "1000"})
    ask(action="marginals", order="1", columns=["age"], importance="")
    assert Release.objects.get(pk=blank.pk).workload["queries"] == [
        {"marginal": ["sex"], "weight": 3},
        {"prefix": "age", "weight": 12},
        {"count": {"sex": ["male"]}, "weight": 1000},
        {"marginal": ["age"]},
    ]


@pytest.mark.parametrize("typed", ["0", "1001", "2.5", "-1", "often", "1e2", "²", "9" * 30])
@pytest.mark.parametrize("adding", [{"action": "marginals", "order": "1"}, {"action": "prefix", "prefix": "age"}])
def test_an_importance_that_breaks_its_rule_is_named_and_nothing_typed_is_lost(ask, blank, typed, adding):
    response = ask(**adding, importance=typed)
    assert response.status_code == 400
    assert re.search(rf"importance: '?{re.escape(typed)}'? {RULE}", words(response))
    wrong = re.findall(r'<input id="importance-of-(\w+)"[^>]* value="([^"]*)"[^>]* aria-invalid="true"', body(response))
    assert wrong == [(adding["action"], typed)]
    assert Release.objects.get(pk=blank.pk).workload is None


def test_importance_is_set_in_the_list_and_kept_on_the_way_on(ask, asked, as_, alice):
    page = as_(alice).get(reverse("questions", args=[asked.pk]))
    fields = fields_in(page)
    assert list(fields) == ["age", "sex", "age × sex"]
    assert "Twice the importance gets half the noise; the privacy cost stays the same." in words(page)
    assert ask(action="importance", **{fields["age × sex"]: "4", fields["age"]: "1"}).status_code == 302
    assert weights_of(asked) == [1, 1, 4]
    page = as_(alice).get(reverse("questions", args=[asked.pk]))
    assert field_value(page, fields["age × sex"]) == "4"
    assert "17 answers; importance 1 to 4" in words(page)
    # What stands in a field counts whatever button is pressed.
    assert ask(action="next", **{fields["sex"]: "7", fields["age × sex"]: ""}).url == reverse(
        "compare", args=[asked.pk]
    )
    assert weights_of(asked) == [1, 7, 1]
    ask(action="remove-0", **{fields["sex"]: "8"})
    assert weights_of(asked) == [8, 1]


def test_a_wrong_importance_in_the_list_is_named_with_its_question_and_nothing_typed_is_lost(ask, asked, as_, alice):
    fields = fields_in(as_(alice).get(reverse("questions", args=[asked.pk])))
    for action in ("importance", "next", "remove-0"):
        page = ask(action=action, **{fields["age"]: "5", fields["age × sex"]: "much"})
        assert page.status_code == 400
        assert f"importance of age × sex: 'much' {RULE}" in words(page)
        assert field_value(page, fields["age × sex"]) == "much"
        assert field_value(page, fields["age"]) == "5"
        assert len(re.findall(r'<input[^>]* value="much"[^>]* aria-invalid="true"', body(page))) == 1
    assert weights_of(asked) == [1, 1, 1]


def test_a_list_that_another_window_has_changed_weighs_no_other_question(ask, asked, as_, alice):
    fields = fields_in(as_(alice).get(reverse("questions", args=[asked.pk])))
    services.releases.set_questions(
        release=asked, workload={"version": 1, "queries": [{"prefix": "age"}, {"marginal": ["sex"]}]}
    )
    ask(action="importance", **{fields["age"]: "5", fields["sex"]: "6"})
    assert weights_of(asked) == [1, 6]


def test_enter_in_a_field_of_the_list_removes_nothing(asked, as_, alice):
    """A browser presses the first button of a form."""
    page = body(as_(alice).get(reverse("questions", args=[asked.pk])))
    form = page[page.index("asked-so-far") :]
    assert re.search(r"<button[^>]*>", form)[0] == '<button name="action" value="importance" hidden>'


def test_one_question_alone_has_no_importance_beside_others(ask, blank, as_, alice):
    ask(action="prefix", prefix="age")
    assert not fields_in(as_(alice).get(reverse("questions", args=[blank.pk])))


def test_the_comparison_tells_the_largest_bound_the_smallest_and_those_between(weighed, as_, alice):
    page = as_(alice).get(reverse("compare", args=[weighed.pk]))
    plan = services.releases.plan_of(release=weighed)
    largest, middle, smallest = plan.bound.half_widths
    assert smallest < middle < largest
    told = f"± {largest:.0f} rows at importance 1; ± {middle:.0f} rows at importance 2; ± "
    assert told in words(page)
    assert "rows at importance 10" in words(page)
    assert f"within {largest:.0f} rows of the truth, those of importance 2 within {middle:.0f} rows" in words(page)
    assert "not used: this mechanism treats all questions alike" in words(page)
    assert "This holds for every answer." in words(page)


def test_questions_of_one_importance_are_compared_as_ever(asked, as_, alice):
    page = words(as_(alice).get(reverse("compare", args=[asked.pk])))
    assert "importance" not in page.lower()


def test_the_least_epsilon_for_an_error_is_the_least_for_the_least_important_question(weighed):
    plan = services.releases.plan_of(release=weighed)
    least = comparison.least_epsilon(plan, error=60)
    assert comparison.at_epsilon(plan, least).bound.alpha <= 60
    assert comparison.at_epsilon(plan, least * Fraction(99, 100)).bound.alpha > 60


def test_the_result_and_the_receipt_tell_the_bound_of_each_importance(weighed, as_, alice):
    release = publish(weighed, alice)
    receipt = release.result["receipt"]
    largest, middle, smallest = receipt["bound"]["half_widths"]
    assert receipt["workload"] == WEIGHED
    assert receipt["events"][0]["kind"] == "weighted_discrete_laplace"
    assert receipt["cost"]["pure"] == {"epsilon": "1"}
    sentence = receipt["bound"]["sentence"]
    assert f"every one of the 17 counts is within {largest:.0f} rows of the truth" in sentence
    assert f"those of importance 2 within {middle:.0f} rows, those of importance 10 within" in sentence
    page = as_(alice).get(reverse("release_detail", args=[release.pk]), {"question": "1"})
    assert f"Importance 2: every count of this question is within {middle:.0f} rows of the truth" in words(page)
    assert sentence in words(page)
    receipt_page = words(as_(alice).get(reverse("receipt", args=[release.pk])))
    assert "at importance 10" in receipt_page
    assert "times the weighted l1 sensitivity, divided by each answer's weight" in receipt_page
    answers = as_(alice).get(reverse("download", args=[release.pk, "answers.csv"]))
    rows = [line.split(",") for line in b"".join(answers.streaming_content).decode().splitlines()[1:]]
    widths = {row[0].strip('"'): float(row[-1]) - float(row[-3]) for row in rows}
    assert widths == {"age": largest, "sex": middle, "age × sex": smallest}


def test_a_mechanism_that_uses_no_importance_tells_none_with_its_result(blank, as_, alice):
    services.releases.set_questions(release=blank, workload=WEIGHED)
    services.releases.set_choice(release=blank, epsilon="1", mechanism_name="laplace-histogram")
    release = publish(blank, alice)
    page = words(as_(alice).get(reverse("release_detail", args=[release.pk])))
    # Above the title stands what was asked.
    assert "importance" not in page.lower().split("finished on")[1]
    receipt = words(as_(alice).get(reverse("receipt", args=[release.pk])))
    assert "not used: this mechanism treats all questions alike" in receipt


def test_importance_is_kept_in_plan_files_and_in_another_release_like_it(weighed, as_, alice, dataset):
    kept = as_(alice).get(reverse("plan_file", args=[weighed.pk]))
    assert json.loads(body(kept))["workload"] == WEIGHED
    as_(alice).post(reverse("new_release", args=[dataset.pk]), {"like": weighed.pk})
    clone = Release.objects.exclude(pk=weighed.pk).get()
    assert clone.workload == WEIGHED


def test_a_program_asks_with_importance_and_is_told_every_bound(dataset, as_, alice):
    asked = {"workload": WEIGHED, "epsilon": "1", "mechanism": "laplace-queries", "title": "By program"}
    path = f"/api/datasets/{dataset.pk}/releases"
    response = as_(alice).post(path, json.dumps(asked), content_type="application/json")
    plan = next(each for each in response.json()["plans"] if each["mechanism"] == "laplace-queries")
    assert len(set(plan["bound"]["half_widths"])) == 3
    assert "those of importance 2 within" in plan["says"]
    wrong = asked | {"workload": {"version": 1, "queries": [{"prefix": "age", "weight": 0}]}}
    response = as_(alice).post(path, json.dumps(wrong), content_type="application/json")
    assert response.status_code == 400
    assert response.json()["field"] == "queries[0].weight"
    assert RULE in response.json()["message"]


def test_two_releases_that_ask_the_same_with_another_importance_stand_side_by_side(dataset, weighed, as_, alice):
    one = publish(weighed, alice)
    other = services.releases.draft_release(dataset=dataset, by=alice, title="Other")
    services.releases.set_questions(release=other, workload=WORKLOAD)
    services.releases.set_choice(release=other, epsilon="0.5", mechanism_name="laplace-queries")
    two = publish(other, alice)
    page = as_(alice).get(reverse("compare_releases", args=[one.pk]), {"other": two.pk, "question": "2"})
    assert "What both answer" in words(page)
    widths = one.result["receipt"]["bound"]["half_widths"], two.result["receipt"]["bound"]["half_widths"]
    assert f"± {widths[0][2]:.0f}" in words(page)
    assert f"± {widths[1][2]:.0f}" in words(page)
