"""Asking for a budget: what is asked, what is refused, and what waits."""

from __future__ import annotations

import re

import pytest
from django.urls import reverse

from releases import services
from releases.models import Budget, BudgetRequest, LedgerEntry
from tests.web.conftest import COLUMNS, CSV
from tests.web.pages import body, field_value, visible_text, words

pytestmark = pytest.mark.django_db


@pytest.fixture
def protected(make_dataset):
    return make_dataset(epsilon="")


@pytest.fixture
def send(protected, as_, alice):
    def post(**data):
        given = {"epsilon": "3", "delta": "0.000001", "policy": "zcdp", "reason": "For the yearbook."} | data
        return as_(alice).post(reverse("budget", args=[protected.pk]), given)

    return post


def test_protection_comes_first(alice, upload_file, as_):
    dataset = services.datasets.ingest_dataset(owner=alice, title="Survey", source=upload_file())
    assert as_(alice).get(reverse("budget", args=[dataset.pk])).url == reverse("protection", args=[dataset.pk])


def test_a_request_waits_for_a_reviewer_and_spends_nothing(send, protected, as_, alice):
    assert send().url == reverse("dataset_detail", args=[protected.pk])
    asked = BudgetRequest.objects.get()
    assert (asked.epsilon, asked.delta, asked.reason, asked.state) == ("3", "0.000001", "For the yearbook.", "waiting")
    assert not Budget.objects.get().is_granted
    assert not LedgerEntry.objects.exists()
    shown = words(as_(alice).get(reverse("budget", args=[protected.pk])))
    assert "Epsilon 3 with delta 0.000001 was asked for on" in shown
    assert "UTC and waits for a reviewer" in shown


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"epsilon": "0"}, "epsilon: '0' must be above 0 and at most 100"),
        ({"epsilon": "-1"}, "epsilon: '-1' must be above 0"),
        ({"epsilon": "nan"}, "epsilon: 'nan' must be a finite decimal number, such as 0.5"),
        ({"epsilon": "inf"}, "epsilon: 'inf' must be a finite decimal number, such as 0.5"),
        ({"epsilon": "1,5"}, "epsilon: '1,5' must be a decimal number with a point, such as 0.5"),
        ({"epsilon": ""}, "epsilon: nothing was typed; must be a decimal number above 0, such as 3"),
        ({"epsilon": "1e400"}, "epsilon: '1e400' must be a decimal number of ordinary size"),
        ({"delta": "0"}, "delta: '0' must be above 0 and below 1"),
        ({"delta": ""}, "delta: '0' must be above 0 and below 1"),
        ({"delta": "1"}, "delta: '1' must be above 0 and below 1"),
        ({"delta": "x"}, "delta: 'x' must be a decimal number"),
        ({"policy": "pure"}, "delta: '0.000001' must be 0 with the pure rule"),
        ({"policy": "generous"}, "Select a valid choice."),
    ],
)
def test_an_amount_that_is_no_budget_is_refused_beside_the_field(send, data, message):
    response = send(**data)
    assert response.status_code == 400
    assert message in words(response)
    assert field_value(response, "epsilon") == data.get("epsilon", "3")
    assert field_value(response, "reason") == "For the yearbook."
    assert not BudgetRequest.objects.exists()


def test_a_second_request_cannot_be_made_while_one_waits(send):
    send()
    response = send(epsilon="9")
    assert response.status_code == 400
    assert "is already asked for and waits for a reviewer" in words(response)
    assert BudgetRequest.objects.count() == 1


def test_a_larger_budget_can_be_asked_for_later_under_the_same_rule(make_dataset, as_, alice):
    dataset = make_dataset(epsilon="2")
    url = reverse("budget", args=[dataset.pk])
    shown = as_(alice).get(url)
    assert "Ask for a larger budget" in words(shown)
    assert "Fixed since a budget was asked for." in words(shown)
    assert '<input type="hidden" name="policy" value="zcdp">' in body(shown)
    response = as_(alice).post(url, {"epsilon": "4", "delta": "0", "policy": "pure", "reason": ""})
    assert response.status_code == 400
    assert "cannot be changed; this population's is zcdp" in words(response)
    assert as_(alice).post(url, {"epsilon": "4", "delta": "0.000001", "policy": "zcdp"}).status_code == 302


def test_it_says_what_an_epsilon_means(protected, as_, alice):
    shown = words(as_(alice).get(reverse("budget", args=[protected.pk])))
    assert "1 23.2%" in shown
    assert "10 over 99.9%" in shown


def test_nothing_can_be_changed_by_reading(protected, as_, alice):
    as_(alice).get(reverse("budget", args=[protected.pk]), {"epsilon": "3", "policy": "zcdp"})
    assert not BudgetRequest.objects.exists()


def test_a_delta_that_protects_nobody_is_refused_in_words(send):
    page = send(epsilon="1", delta="0.5")
    assert page.status_code == 400
    assert "delta: '0.5' must be at most 0.001: with that probability a release may tell anything" in words(page)
    assert not BudgetRequest.objects.exists()


def test_what_the_reviewer_asks_stands_on_the_page_until_it_is_answered(asked, as_, alice, sofia):
    services.budgets.ask_back_request(request=asked, by=sofia, note="Which year?")
    url = reverse("budget", args=[asked.budget.datasets.get().pk])
    assert "The reviewer asks: Which year?" in words(as_(alice).get(url))
    as_(alice).post(url, {"epsilon": "3", "delta": "0.000001", "policy": "zcdp", "reason": "Of 2026."})
    assert "Which year?" not in words(as_(alice).get(url))


def test_the_reviewer_is_told_of_tables_with_the_same_columns_and_another_budget(asked, make_dataset, as_, sofia):
    url = reverse("budget_request", args=[asked.pk])
    assert "Are these the same people?" not in words(as_(sofia).get(url))
    make_dataset(content=CSV + b"one more,30,male\n")
    page = words(as_(sofia).get(url))
    assert "Are these the same people? Survey (alice) has the same columns and spends from another budget." in page
    make_dataset(content=CSV + b"one more,31,male\n")
    assert words(as_(sofia).get(url)).count("Are these the same people?") == 2


def test_a_table_that_was_here_before_has_no_budget_of_its_own_accord(make_dataset, as_, alice, upload_file):
    make_dataset()
    again = services.datasets.ingest_dataset(owner=alice, title="The same again", source=upload_file(CSV))
    services.datasets.declare_universe(dataset=again, columns=COLUMNS)
    again.refresh_from_db()
    assert again.budget is None
    assert "shares one budget" not in words(as_(alice).get(reverse("protection", args=[again.pk])))


def test_once_granted_the_step_shows_what_is_granted_spent_and_left(dataset, queued, as_, alice):
    said = words(as_(alice).get(reverse("budget", args=[dataset.pk])))
    assert "Granted epsilon 2, delta 0.000001" in said
    assert "Spent 0% nothing Reserved 50% epsilon 1 Left 50% epsilon 1" in said
    assert "Ask for more" in said


def test_before_a_grant_the_step_shows_no_amounts(make_dataset, as_, alice):
    dataset = make_dataset(epsilon="")
    said = words(as_(alice).get(reverse("budget", args=[dataset.pk])))
    assert "Granted" not in said
    assert "Ask for more" not in said


@pytest.mark.parametrize(("epsilon", "delta"), [("2", "0.000001"), ("2.0", "0.0000001"), ("1", "0.000001")])
def test_no_more_than_is_granted_cannot_be_asked_for(dataset, as_, alice, epsilon, delta):
    url = reverse("budget", args=[dataset.pk])
    page = as_(alice).post(url, {"policy": "zcdp", "epsilon": epsilon, "delta": delta, "reason": "Still."})
    assert page.status_code == 400
    said = words(page)
    assert f"epsilon: '{epsilon}' must be above the 2 that is granted, or delta above 0.000001" in said
    assert "Still." in said
    assert dataset.budget.requests.filter(state="waiting").count() == 0


@pytest.mark.parametrize(("epsilon", "delta"), [("2.1", "0.000001"), ("2", "0.00001")])
def test_more_of_either_can_be_asked_for(dataset, as_, alice, epsilon, delta):
    url = reverse("budget", args=[dataset.pk])
    as_(alice).post(url, {"policy": "zcdp", "epsilon": epsilon, "delta": delta, "reason": ""})
    assert dataset.budget.requests.filter(state="waiting").count() == 1


def test_curators_see_what_is_left_in_per_cent_and_reviewers_its_amounts_too(as_, alice, sofia, draft):
    for step in ("questions", "compare", "confirm"):
        summary = dict(as_(alice).get(reverse(step, args=[draft.pk])).context["summary"])
        assert summary["Budget"] == "0% spent, 100% left"
    granted = re.compile(r"epsilon\s*2\b")
    shown = visible_text(as_(alice).get(reverse("dataset_detail", args=[draft.dataset_id])))
    assert "100%" in shown
    assert not granted.search(shown.partition("Budget requests")[0])
    assert granted.search(visible_text(as_(sofia).get(reverse("budget_detail", args=[draft.dataset.budget_id]))))
