"""The reviewer's pages: requests, budgets, the ledger."""

from __future__ import annotations

import csv
import io
import re

import pytest
from django.urls import reverse

from releases import services
from releases.engine.accounting.filters import Policy
from releases.engine.domain.privacy import NeighbouringRelation, PrivacyUnit
from releases.models import Budget, BudgetRequest, LedgerEntry
from tests.web.conftest import COLUMNS
from tests.web.pages import body, field_value, words
from tests.web.past_the_guards import lift

pytestmark = pytest.mark.django_db


@pytest.fixture
def decide(asked, as_, sofia):
    def post(**data):
        given = {"epsilon": asked.epsilon, "delta": asked.delta, "note": "", "decision": "approve"} | data
        return as_(sofia).post(reverse("budget_request", args=[asked.pk]), given)

    return post


def test_the_front_page_says_how_many_wait(asked, as_, sofia, alice):
    assert "1 request to review" in words(as_(sofia).get("/"))
    assert "to review" not in words(as_(alice).get("/"))


def test_a_request_stands_in_the_queue(asked, as_, sofia):
    page = words(as_(sofia).get("/review/"))
    assert "Survey budget epsilon 3, delta 0.000001 alice" in page


def test_its_page_says_what_is_asked_what_it_means_and_why(asked, as_, sofia):
    page = words(as_(sofia).get(reverse("budget_request", args=[asked.pk])))
    assert "alice asks for epsilon 3 with delta 0.000001 in all." in page
    assert "one row; whether somebody is in the table is private: add/remove neighbours" in page
    assert "For the yearbook." in page
    assert "10% 69.1%" in page


def test_granting_opens_the_budget(decide, asked):
    assert decide(note="Fine.").url == "/review/"
    budget = Budget.objects.get()
    assert (budget.epsilon, budget.delta) == ("3", "0.000001")
    assert LedgerEntry.objects.get().kind == "grant"
    asked.refresh_from_db()
    assert (asked.state, asked.note, asked.decided_by.username) == ("approved", "Fine.", "sofia")


def test_less_than_asked_can_be_granted(decide):
    decide(epsilon="1.5")
    assert Budget.objects.get().epsilon == "1.5"


def test_amounts_left_empty_are_those_asked_for(decide):
    decide(epsilon="", delta="")
    assert Budget.objects.get().epsilon == "3"


@pytest.mark.parametrize(
    ("data", "message"),
    [
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
    ],
)
def test_a_decision_that_breaks_a_rule_decides_nothing(decide, asked, data, message):
    response = decide(**data)
    assert response.status_code == 400
    assert message in words(response)
    assert field_value(response, "epsilon") == data.get("epsilon", "3")
    asked.refresh_from_db()
    assert asked.state == "waiting"
    assert not Budget.objects.get().is_granted


def test_denying_needs_a_reason_that_the_curator_reads(decide, asked, as_, alice):
    decide(decision="deny", note="Say who will read it.")
    asked.refresh_from_db()
    assert asked.state == "denied"
    dataset = asked.budget.datasets.get()
    assert "Say who will read it." in words(as_(alice).get(reverse("dataset_detail", args=[dataset.pk])))


def test_a_request_is_decided_once(decide, asked, as_, sofia):
    decide()
    response = decide(decision="deny", note="No.")
    assert response.status_code == 400
    assert "was decided before" in words(response)
    assert BudgetRequest.objects.get().state == "approved"
    assert 'name="decision"' not in body(as_(sofia).get(reverse("budget_request", args=[asked.pk])))


def test_a_reviewer_cannot_lower_a_budget_that_was_charged(dataset, queued, as_, alice, sofia):
    again = services.budgets.request_budget(
        dataset=dataset, epsilon="5", delta="0.000001", policy=Policy.ZCDP, reason="", by=alice
    )
    response = as_(sofia).post(
        reverse("budget_request", args=[again.pk]), {"epsilon": "0.5", "delta": "", "note": "", "decision": "approve"}
    )
    assert response.status_code == 400
    assert "must be at least the 2 that is granted, because releases were charged to this budget" in words(response)


def test_the_board_shows_each_budget_with_what_is_used(queued, as_, sofia):
    page = words(as_(sofia).get("/review/budgets/"))
    assert "Survey alice epsilon 2 delta 0.000001 0% 50% reserved: epsilon 1 50% epsilon 1" in page


def test_a_budget_s_page_shows_its_ledger_and_that_it_verifies(queued, as_, sofia):
    page = words(as_(sofia).get(reverse("budget_detail", args=[Budget.objects.get().pk]), {"verify": "1"}))
    assert "chain, sums and prices verified" in page
    assert "release charged Release 1 alice" in page
    assert "UTC 1 – 0.462117157261" in page
    assert "budget granted" in page


def test_a_forged_ledger_is_said_to_be_so(queued, as_, sofia):
    lift()
    Budget.objects.update(spent_epsilon=5)
    page = words(as_(sofia).get(reverse("budget_detail", args=[Budget.objects.get().pk]), {"verify": "1"}))
    assert "the spent amounts are not the sums of the entries" in page
    assert "verified" not in page


def test_freezing_stops_releases_until_it_is_lifted(dataset, draft, as_, sofia, alice):
    url = reverse("budget_detail", args=[dataset.budget.pk])
    assert "Frozen: no release" in words(as_(sofia).post(url, {"action": "freeze", "reason": "An audit."}, follow=True))
    assert "frozen by a reviewer" in words(as_(alice).get(reverse("dataset_detail", args=[dataset.pk])))
    as_(sofia).post(url, {"action": "unfreeze", "reason": "Done."})
    assert not Budget.objects.get().is_frozen


@pytest.mark.parametrize("action", ["", "delete", "restore"])
def test_an_unknown_action_or_nothing_to_restore_changes_nothing(dataset, as_, sofia, action):
    before = Budget.objects.values().get()
    response = as_(sofia).post(reverse("budget_detail", args=[dataset.budget.pk]), {"action": action})
    assert response.status_code == 302
    assert Budget.objects.values().get() == before


def test_the_ledger_can_be_had_as_csv(queued, as_, sofia):
    response = as_(sofia).get("/review/ledger.csv")
    assert response["Content-Type"] == "text/csv; charset=utf-8"
    assert response["Content-Disposition"] == 'attachment; filename="ledger.csv"'
    rows = list(csv.DictReader(io.StringIO(body(response))))
    charge, grant = rows
    assert (charge["kind"], charge["epsilon"], charge["epsilon in 1e-12"]) == ("charge", "1", "1000000000000")
    assert (charge["granted_epsilon"], charge["granted_delta"]) == ("", "")
    assert (grant["kind"], grant["granted_epsilon"], grant["granted_delta"]) == ("grant", "2", "0.000001")
    assert (grant["epsilon"], grant["epsilon in 1e-12"]) == ("0", "0"), "a grant spends nothing"
    assert charge["granted_rho"] == ""
    assert grant["granted_rho"] == "", "the mixture of orders has no cap on rho"


def test_the_ledger_says_up_to_how_much_a_grant_lets_spend(queued, as_, sofia):
    for page in ("/review/ledger/", reverse("budget_detail", args=[queued.dataset.budget_id])):
        assert re.search(r"budget granted – \w+ .{20,40} up to 2 ", words(as_(sofia).get(page))), page


@pytest.mark.parametrize("start", ["=1+1", "+1", "-1", "@a"])
def test_no_name_in_the_ledger_is_written_so_that_a_spreadsheet_runs_it(alice, sofia, upload_file, as_, start):
    dataset = services.datasets.ingest_dataset(owner=alice, title=f"{start} table", source=upload_file())
    services.datasets.declare_universe(dataset=dataset, columns=COLUMNS)
    services.datasets.declare_protection(
        dataset=dataset, unit=PrivacyUnit(), neighbours=NeighbouringRelation.ADD_REMOVE
    )
    asked = services.budgets.request_budget(
        dataset=dataset, epsilon="1", delta="0.000001", policy=Policy.ZCDP, reason="", by=alice
    )
    services.budgets.approve_request(request=asked, by=sofia)
    (row,) = csv.DictReader(io.StringIO(body(as_(sofia).get("/review/ledger.csv"))))
    assert row["budget"] == f"'{start} table"


def test_a_reviewer_learns_no_more_of_the_rows_than_anybody(asked, as_, sofia):
    dataset = asked.budget.datasets.get()
    for name in ("dataset_detail", "columns", "protection", "budget"):
        assert as_(sofia).get(reverse(name, args=[dataset.pk])).status_code == 404
