"""What is granted, over the whole life of a budget: it never falls, and every place says the same.

What is expected is kept here as plain numbers, in the order in which grants and charges happened.
"""

from __future__ import annotations

import csv
import io
import uuid
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from importlib import import_module

import pytest
from django.apps import apps
from django.db import DatabaseError, transaction
from django.test import Client
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from releases import services
from releases.engine.accounting.filters import Policy
from releases.engine.errors import InvalidInput
from releases.ledger import high_water_marks, ledger, refusals
from releases.models import AuditEvent, Budget, BudgetRequest, EntryKind, LedgerEntry, RequestState
from tests.web.conftest import CSV
from tests.web.past_the_guards import lift
from tests.web.steps import faults, rule, submit

pytestmark = pytest.mark.django_db

AMOUNTS = st.tuples(st.sampled_from(["0.5", "1", "2", "3.5"]), st.sampled_from(["0.0000001", "0.000001", "0.00001"]))
CHARGES = st.tuples(st.just("charge"), st.sampled_from(["0.1", "0.4", "1"]))
CANCELS = st.tuples(st.just("cancel"), st.just(""))
STEPS = st.lists(st.one_of(AMOUNTS, CHARGES, CANCELS), max_size=9)


def client_of(person):
    client = Client()
    client.force_login(person)
    return client


def shown_everywhere(dataset, alice, sofia):
    """Epsilon and delta that are said to be granted, at every place that says so."""
    budget = Budget.objects.get(pk=dataset.budget_id)
    page = client_of(alice).get(f"/datasets/{dataset.pk}/budget/")
    (line,) = csv.DictReader(io.StringIO(client_of(sofia).get("/review/budgets.csv").getvalue().decode()))
    api = client_of(alice).get(f"/api/datasets/{dataset.pk}").json()["budget"]
    guarantee = budget.caps.guarantee
    detail = budget.entries.filter(kind=EntryKind.GRANT).latest("sequence").detail
    return {
        "page": (page.context["row"].budget.epsilon, page.context["row"].budget.delta),
        "board": (line["epsilon"], line["delta"]),
        "api": (api["epsilon"], api["delta"]),
        "ledger": (detail["epsilon"], detail["delta"]),
        "filter": (guarantee.epsilon, guarantee.delta),
    }


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=STEPS)
def test_whatever_is_granted_and_charged_every_place_says_the_largest_grant(
    make_dataset, make_draft, alice, sofia, steps
):
    with transaction.atomic():
        dataset = make_dataset(epsilon="1", delta="0.000001", content=CSV + f"{uuid.uuid4()},40,male\n".encode())
        highest, is_charged, queue = [Decimal(1), Decimal("0.000001")], False, []
        for first, second in steps:
            budget = Budget.objects.get(pk=dataset.budget_id)
            if first == "charge":
                release = make_draft(dataset, epsilon=second)
                with suppress(refusals.InsufficientBudget):
                    submit(release, alice)
                    is_charged = True
                    queue.append(release)
            elif first == "cancel":
                if queue:
                    services.releases.cancel_release(release=queue.pop(), by=alice)
            else:
                wanted = [Decimal(first), Decimal(second)]
                falls = [
                    name for name, new, old in zip(("epsilon", "delta"), wanted, highest, strict=True) if new < old
                ]
                if is_charged and falls:
                    with pytest.raises(InvalidInput) as refusal:
                        ledger.grant(budget=budget, epsilon=first, delta=second, actor=sofia)
                    assert refusal.value.field == falls[0]
                else:
                    ledger.grant(budget=budget, epsilon=first, delta=second, actor=sofia)
                    highest = wanted
        found = shown_everywhere(dataset, alice, sofia)
        as_numbers = {name: tuple(map(Fraction, amounts)) for name, amounts in found.items()}
        assert set(as_numbers.values()) == {tuple(map(Fraction, highest))}, found
        assert faults(Budget.objects.get(pk=dataset.budget_id)) == []
        transaction.set_rollback(True)


def ask(dataset, by, epsilon, delta):
    return services.budgets.request_budget(
        dataset=dataset, epsilon=epsilon, delta=delta, policy=Policy.ZCDP, reason="", by=by
    )


def test_a_request_that_would_let_one_amount_fall_is_refused_by_its_name(dataset, make_queued, alice):
    make_queued(dataset)
    with pytest.raises(InvalidInput, match=r"delta: .0\.0000001. must be at least the 0\.000001"):
        ask(dataset, alice, "9", "0.0000001")
    with pytest.raises(InvalidInput, match=r"epsilon: .1. must be at least the 2"):
        ask(dataset, alice, "1", "0.00001")
    assert not BudgetRequest.objects.filter(state=RequestState.WAITING).exists()
    falls = {"policy": "zcdp", "epsilon": "9", "delta": "0.0000001", "reason": "why"}
    page = client_of(alice).post(f"/datasets/{dataset.pk}/budget/", falls)
    assert page.status_code == 400
    assert "must be at least the 0.000001" in page.context["form"].errors["delta"][0]


def test_a_reviewer_cannot_grant_less_than_before_on_the_page_nor_as_the_first_of_two(
    dataset, make_queued, alice, sofia
):
    make_queued(dataset)
    asked = ask(dataset, alice, "4", "0.000001")
    for is_two_person in (False, True):
        rule(is_two_person=is_two_person)
        less = {"decision": "approve", "epsilon": "1", "delta": "0.000001"}
        page = client_of(sofia).post(f"/review/requests/{asked.pk}/", less)
        assert page.status_code == 400
        assert "must be at least the 2" in page.context["form"].errors["epsilon"][0]
        asked.refresh_from_db()
        assert (asked.state, asked.first_by) == (RequestState.WAITING, None)
    assert Budget.objects.get().epsilon == "2"


def test_the_database_itself_refuses_a_grant_that_falls(dataset, make_queued):
    lift()
    Budget.objects.update(epsilon="1.5", cap_epsilon=15 * 10**11)
    make_queued(dataset, epsilon="0.5")
    for column, value in (("cap_epsilon", 10**12), ("cap_delta", 1)):
        with pytest.raises(DatabaseError, match="does not fall"), transaction.atomic():
            Budget.objects.update(**{column: value})
    Budget.objects.update(cap_epsilon=2 * 10**12)


def fallen(dataset, grants, by):
    """The ledger as a version before wrote it, which let grants fall: these are appended as they are."""
    lift("budget_does_not_fall")
    for epsilon, delta in grants:
        budget = Budget.objects.get(pk=dataset.budget_id)
        budget.epsilon, budget.delta = epsilon, delta
        columns = {limit.column: limit.cap for branch in budget.caps.branches for limit in branch.limits}
        caps = {column.replace("spent", "cap"): cap for column, cap in columns.items()}
        amounts = {"epsilon": epsilon, "delta": delta}
        detail = {**amounts, "caps": budget.caps.to_json()}
        ledger._append(budget, kind=EntryKind.GRANT, actor=by, detail=detail, columns={**amounts, **caps})


def migrate():
    import_module("releases.migrations.0033_grants").raise_fallen(apps, None)


def test_a_budget_that_fell_gets_the_largest_of_each_amount_by_the_migration(
    make_dataset, make_queued, alice, sofia, capsys
):
    dataset = make_dataset(epsilon="1", delta="0.00001")
    fallen(dataset, [("10", "0.000001")], sofia)  # nothing is charged yet, so 0.00001 never counted
    make_queued(dataset, epsilon="0.5")
    fallen(dataset, [("3", "0.000002"), ("2", "0.000001")], sofia)
    budget = Budget.objects.get()
    assert faults() == ["less is granted than was while releases were charged"]
    migrate()
    budget.refresh_from_db()
    assert (budget.epsilon, budget.delta) == ("10", "0.000002")
    assert faults() == []
    entry = LedgerEntry.objects.latest("sequence")
    assert "lowered" in entry.detail["why"]
    assert "epsilon 10, delta 0.000002" in AuditEvent.objects.latest("pk").detail
    assert budget.name in capsys.readouterr().out
    assert "had lowered it" in client_of(sofia).get(f"/review/budgets/{budget.pk}/").content.decode()
    migrate()
    assert Budget.objects.get().sequence == budget.sequence


def test_the_migration_leaves_budgets_alone_that_never_fell(make_dataset, make_queued, alice, sofia):
    dataset = make_dataset(epsilon="1")
    fallen(dataset, [("0.5", "0.000001")], sofia)
    make_queued(dataset, epsilon="0.25")
    ledger.grant(budget=dataset.budget, epsilon="2", delta="0.000001", actor=sofia)
    before = Budget.objects.values().get()
    migrate()
    assert Budget.objects.values().get() == before


def test_a_restored_backup_never_grants_less_than_the_database_knows(
    dataset, make_queued, sofia, django_capture_on_commit_callbacks
):
    with django_capture_on_commit_callbacks(execute=True):
        make_queued(dataset, epsilon="0.5")
    budget = Budget.objects.get()
    mark = high_water_marks.read(budget.pk)
    granted = {**mark.granted, "epsilon": "1", "delta": "0.00001"}
    high_water_marks.put(budget.pk, replace(mark, sequence=mark.sequence + 2, hash="0" * 64, granted=granted))
    ledger.restore(budget=budget, actor=sofia)
    budget.refresh_from_db()
    assert (budget.epsilon, budget.delta) == ("2", "0.00001")
