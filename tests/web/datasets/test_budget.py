"""Asking for a budget: what is asked, what is refused, and what waits."""

from __future__ import annotations

import re

import pytest
from django.urls import reverse

from releases import services
from releases.models import Budget, BudgetRequest, LedgerEntry
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


def test_a_request_waits_for_a_reviewer_and_spends_nothing(send, protected):
    assert send().url == reverse("dataset_detail", args=[protected.pk])
    asked = BudgetRequest.objects.get()
    assert (asked.epsilon, asked.delta, asked.reason, asked.state) == ("3", "0.000001", "For the yearbook.", "waiting")
    assert not Budget.objects.get().is_granted
    assert not LedgerEntry.objects.exists()
    assert send(epsilon="9").status_code == 400, "while one waits, no other can be made"
    assert BudgetRequest.objects.count() == 1


NO_BUDGETS = [
    ({"epsilon": "0"}, "epsilon: '0' must be above 0 and at most 100"),
    ({"epsilon": "-1"}, "epsilon: '-1' must be above 0"),
    ({"epsilon": "101"}, "epsilon: '101' must be above 0 and at most 100"),
    ({"epsilon": "nan"}, "epsilon: 'nan' must be a finite decimal number"),
    ({"epsilon": "1,5"}, "epsilon: '1,5' must be a decimal number with a point"),
    ({"epsilon": ""}, "epsilon: nothing was typed"),
    ({"epsilon": "1e400"}, "epsilon: '1e400' must be a decimal number of ordinary size"),
    ({"delta": ""}, "delta: '0' must be above 0 and below 1"),
    ({"delta": "1"}, "delta: '1' must be above 0 and below 1"),
    ({"delta": "0.5"}, "delta: '0.5' must be at most 0.001"),
    ({"delta": "x"}, "delta: 'x' must be a decimal number"),
    ({"policy": "pure"}, "delta: '0.000001' must be 0 with the pure rule"),
    ({"policy": "generous"}, "Select a valid choice."),
]


def test_an_amount_that_is_no_budget_is_refused_beside_the_field(send):
    for data, message in NO_BUDGETS:
        response = send(**data)
        assert response.status_code == 400
        assert message in words(response)
        assert field_value(response, "epsilon") == data.get("epsilon", "3")
        assert field_value(response, "reason") == "For the yearbook."
        assert not BudgetRequest.objects.exists()


def test_more_of_either_can_be_asked_for_later_under_the_same_rule_and_less_cannot(dataset, as_, alice):
    url, waiting = reverse("budget", args=[dataset.pk]), dataset.budget.requests.filter(state="waiting")
    assert '<input type="hidden" name="policy" value="zcdp">' in body(as_(alice).get(url))
    response = as_(alice).post(url, {"epsilon": "4", "delta": "0", "policy": "pure", "reason": ""})
    assert response.status_code == 400
    assert "cannot be changed; this population's is zcdp" in words(response)
    given = {"policy": "zcdp", "reason": "Still."}
    for epsilon, delta in (("2", "0.000001"), ("2.0", "0.0000001"), ("1", "0.000001")):
        page = as_(alice).post(url, {**given, "epsilon": epsilon, "delta": delta})
        assert page.status_code == 400
        assert f"epsilon: '{epsilon}' must be above the 2 that is granted, or delta above 0.000001" in words(page)
        assert "Still." in words(page)
        assert not waiting.exists()
    for epsilon, delta in (("2.1", "0.000001"), ("2", "0.00001")):
        as_(alice).post(url, {**given, "epsilon": epsilon, "delta": delta})
        services.budgets.take_back_request(request=waiting.get(), by=alice)


def test_curators_see_what_is_left_in_per_cent_and_reviewers_its_amounts_too(as_, alice, sofia, draft):
    for step in ("questions", "compare", "confirm"):
        summary = dict(as_(alice).get(reverse(step, args=[draft.pk])).context["summary"])
        assert summary["Budget"] == "0% spent, 100% left"
    granted = re.compile(r"epsilon\s*2\b")
    shown = visible_text(as_(alice).get(reverse("dataset_detail", args=[draft.dataset_id])))
    assert "100%" in shown
    assert not granted.search(shown.partition("Budget requests")[0])
    assert granted.search(visible_text(as_(sofia).get(reverse("budget_detail", args=[draft.dataset.budget_id]))))
