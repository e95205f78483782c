"""The reviewer's pages: requests, budgets, the ledger."""

from __future__ import annotations

import csv
import io

import pytest
from django.urls import reverse

from releases.models import Budget, LedgerEntry
from tests.web.pages import body, field_value, words
from tests.web.past_the_guards import lift
from tests.web.steps import again

pytestmark = pytest.mark.django_db


@pytest.fixture
def decide(asked, as_, sofia):
    def post(**data):
        given = {"epsilon": asked.epsilon, "delta": asked.delta, "note": "", "decision": "approve"} | data
        return as_(sofia).post(reverse("budget_request", args=[asked.pk]), given)

    return post


BROKEN = [
    ({"epsilon": "4"}, "epsilon: '4' must be at most the 3 that was asked for"),
    ({"epsilon": "0"}, "epsilon: '0' must be above 0 and at most 100"),
    ({"epsilon": "-1"}, "epsilon: '-1' must be above 0 and at most 100"),
    ({"epsilon": "nan"}, "epsilon: 'nan' must be a finite decimal number"),
    ({"epsilon": "1,5"}, "epsilon: '1,5' must be a decimal number with a point"),
    ({"delta": "0.1"}, "delta: '0.1' must be at most the 0.000001 that was asked for"),
    ({"delta": "0"}, "delta: '0' must be above 0 and below 1"),
    ({"decision": "deny"}, "note: nothing is given; must say why the request is denied"),
    ({"decision": ""}, "decision: nothing is given; must be to grant or to deny; press one of the buttons"),
    ({"decision": "delete"}, "decision: 'delete' must be to grant or to deny"),
]


def test_a_decision_that_breaks_a_rule_decides_nothing(decide, asked):
    for data, message in BROKEN:
        response = decide(**data)
        assert response.status_code == 400
        assert message in words(response)
        assert field_value(response, "epsilon") == data.get("epsilon", "3")
        assert again(asked).state == "waiting"
        assert not Budget.objects.get().is_granted


def test_an_unknown_action_or_nothing_to_restore_changes_nothing(dataset, as_, sofia):
    for action in ("", "delete", "restore"):
        before = Budget.objects.values().get()
        response = as_(sofia).post(reverse("budget_detail", args=[dataset.budget.pk]), {"action": action})
        assert response.status_code == 302
        assert Budget.objects.values().get() == before


def test_the_ledger_can_be_had_as_csv(queued, as_, sofia):
    Budget.objects.update(name="=1+1 table")
    response = as_(sofia).get("/review/ledger.csv")
    assert response["Content-Type"] == "text/csv; charset=utf-8"
    assert response["Content-Disposition"] == 'attachment; filename="ledger.csv"'
    charge, grant = csv.DictReader(io.StringIO(body(response)))
    assert charge["budget"] == "'=1+1 table", "no spreadsheet runs it"
    assert (charge["kind"], charge["epsilon"], charge["epsilon in 1e-12"]) == ("charge", "1", "1000000000000")
    assert (charge["granted_epsilon"], charge["granted_delta"]) == ("", "")
    assert (grant["kind"], grant["granted_epsilon"], grant["granted_delta"]) == ("grant", "2", "0.000001")
    assert (grant["epsilon"], grant["epsilon in 1e-12"]) == ("0", "0"), "a grant spends nothing"
    assert charge["granted_rho"] == grant["granted_rho"] == "", "the mixture of orders has no cap on rho"


@pytest.mark.parametrize(
    ("typed", "granted"), [({}, "3"), ({"epsilon": "", "delta": ""}, "3"), ({"epsilon": "1.5"}, "1.5")]
)
def test_granting_opens_the_budget_with_what_was_asked_for_or_less(decide, asked, typed, granted):
    assert decide(note="Fine.", **typed).url == "/review/"
    budget = Budget.objects.get()
    assert (budget.epsilon, budget.delta) == (granted, "0.000001")
    assert LedgerEntry.objects.get().kind == "grant"
    asked.refresh_from_db()
    assert (asked.state, asked.note, asked.decided_by.username) == ("approved", "Fine.", "sofia")


def test_a_ledger_is_verified_on_its_budget_s_page_and_a_forged_one_is_found(queued, as_, sofia):
    url = reverse("budget_detail", args=[Budget.objects.get().pk])
    page = as_(sofia).get(url, {"verify": "1"}).context["page"]
    assert (page.is_sound, page.faults) == (True, ())
    assert (page.rows[0].release, page.rows[0].actor, page.rows[0].rho) == ("Release 1", "alice", "0.462117157261")
    lift()
    Budget.objects.update(spent_epsilon=5)
    page = as_(sofia).get(url, {"verify": "1"}).context["page"]
    assert not page.is_sound
    assert "the spent amounts are not the sums of the entries" in page.faults[0]
