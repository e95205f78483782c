"""The ledger: what it grants, refuses, gives back and notices."""

import json
import uuid
from dataclasses import replace
from fractions import Fraction
from importlib import import_module

import pytest
from django.apps import apps
from django.db import DatabaseError, IntegrityError, connection, transaction

from releases import services
from releases.engine.accounting import filters
from releases.engine.accounting.events import PureEvent
from releases.engine.accounting.filters import CLOSED, Caps, Policy
from releases.engine.errors import InvalidInput
from releases.ledger import entries, high_water_marks, ledger, refusals
from releases.models import Budget, EntryKind, LedgerEntry, RequestState
from tests.web.past_the_guards import lift
from tests.web.steps import again, ask_for, charge, faults, rule, without_triggers

E12 = 10**12


def test_pure_releases_add_up_to_exactly_the_budget_and_not_a_unit_more(make_dataset, alice):
    dataset = make_dataset(epsilon="1")
    assert charge(dataset, "0.1", alice).sequence == 2  # after the grant
    for _ in range(9):
        charge(dataset, "0.1", alice)
    with pytest.raises(refusals.InsufficientBudget) as refusal:
        charge(dataset, "0.000000000001", alice)
    assert Budget.objects.get().spent_epsilon == E12
    assert refusal.value.remaining.epsilon == 0
    assert refusal.value.requested.pure_epsilon == 1


def test_a_refusal_carries_both_numbers_and_charges_nothing(dataset, alice):
    before = LedgerEntry.objects.count()
    with pytest.raises(refusals.InsufficientBudget) as refusal:
        charge(dataset, "2.5", alice)
    assert str(refusal.value) == (
        "With this release, 125% of the budget would be spent, and 100% is left. Nothing was charged."
    )
    assert refusal.value.shortfalls
    assert LedgerEntry.objects.count() == before
    assert Budget.objects.get().spent_epsilon == 0


def test_the_same_key_twice_is_one_charge(dataset, alice):
    first = charge(dataset, "1", alice, key=uuid.uuid4())
    assert charge(first.release, "1", alice, key=first.key) == first
    with pytest.raises(refusals.KeyUsed):
        charge(dataset, "1", alice, key=first.key)  # of another release
    assert Budget.objects.get().spent_epsilon == E12


def test_nothing_is_charged_before_a_grant_or_while_frozen(make_dataset, alice):
    dataset = make_dataset(epsilon="")
    with pytest.raises(refusals.NotGranted):
        charge(dataset, "1", alice)
    dataset = make_dataset()
    services.budgets.freeze_budget(budget=dataset.budget)
    with pytest.raises(refusals.Frozen):
        charge(dataset, "1", alice)
    services.budgets.unfreeze_budget(budget=dataset.budget)
    charge(dataset, "1", alice)


def test_giving_back_a_release_that_closed_a_branch_opens_it_again(queued, alice):
    # As a mechanism without a concentrated form would have left it.
    lift()
    Budget.objects.update(spent_rho=CLOSED)
    services.releases.cancel_release(release=queued, by=alice)
    assert Budget.objects.get().spent_rho == 0


def test_a_charge_can_be_given_back_once_only(queued, alice):
    services.releases.cancel_release(release=queued, by=alice)
    with pytest.raises(services.release_inputs.Refusal):
        services.releases.cancel_release(release=queued, by=alice)
    with pytest.raises(IntegrityError), transaction.atomic():
        ledger.give_back(release=queued, actor=alice)


def test_a_budget_can_be_raised_and_never_lowered_once_something_is_charged(dataset, alice, sofia):
    ledger.grant(budget=dataset.budget, epsilon="1", delta="0.0000001", actor=sofia)
    ledger.grant(budget=dataset.budget, epsilon="2", delta="0.000001", actor=sofia)
    charge(dataset, "0.5", alice)
    ledger.grant(budget=dataset.budget, epsilon="3", delta="0.000001", actor=sofia)
    ledger.grant(budget=dataset.budget, epsilon="3.0", delta="0.00001", actor=sofia)
    for epsilon, delta, falls in (
        ("2.999999999999", "0.00001", "epsilon"),
        ("3", "0.000009", "delta"),
        ("10", "0.000009", "delta"),
        ("1", "0.001", "epsilon"),
    ):
        with pytest.raises(InvalidInput, match=f"{falls}: .*must be at least the .*freeze it"):
            ledger.grant(budget=dataset.budget, epsilon=epsilon, delta=delta, actor=sofia)
    budget = Budget.objects.get()
    assert (budget.epsilon, budget.delta, budget.sequence) == ("3.0", "0.00001", 6)
    assert faults() == []


DEARER = {"events": [PureEvent(epsilon=Fraction(2)).to_json()], "delta": "0", "policy": "zcdp"}


@pytest.mark.parametrize(
    ("column", "value", "what"),
    [
        ("epsilon", 5, "hash"),
        ("hash", "0" * 64, "hash"),
        ("previous", "0" * 64, "hash"),
        ("sequence", 9, "missing"),
        ("detail", json.dumps(DEARER), "cost more"),
    ],
)
def test_the_audit_finds_a_forged_entry(dataset, alice, column, value, what):
    charge(dataset, "1", alice)
    # Past the triggers, as somebody with the database file could.
    lift("ledger_no_update")
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE releases_ledgerentry SET {column} = %s WHERE kind = 'charge'", [value])
    assert any(what in fault for fault in faults())


def test_the_audit_finds_sums_and_caps_that_are_not_the_entries(dataset, alice):
    charge(dataset, "1", alice)
    lift()
    Budget.objects.update(spent_epsilon=0, spent_rho=0)
    assert any("sums" in fault for fault in faults())
    Budget.objects.update(epsilon="50", cap_epsilon=50 * E12)
    assert any("caps" in fault for fault in faults())


def test_a_restored_backup_is_noticed_and_refuses_to_spend_until_a_reviewer_acts(
    dataset, alice, sofia, django_capture_on_commit_callbacks
):
    with django_capture_on_commit_callbacks(execute=True):
        charge(dataset, "0.5", alice)
    old = Budget.objects.values("sequence", "head", "spent_epsilon", "spent_rho").get()
    with transaction.atomic():
        point = transaction.savepoint()
        with django_capture_on_commit_callbacks(execute=True):
            charge(dataset, "1", alice)
        assert high_water_marks.read(dataset.budget.pk).sequence == 3
        transaction.savepoint_rollback(point)  # the database as the backup had it
    budget = Budget.objects.get()
    assert Budget.objects.values(*old).get() == old
    assert ledger.went_back(budget)
    assert any("backup" in fault for fault in faults())
    with pytest.raises(refusals.LedgerWentBack):
        charge(dataset, "0.1", alice)
    with django_capture_on_commit_callbacks(execute=True):
        services.restoring.restore_ledger(budget=budget, by=sofia)
    budget.refresh_from_db()
    assert budget.spent_epsilon == 15 * E12 // 10
    assert not ledger.went_back(budget)
    assert faults() == []
    with pytest.raises(refusals.InsufficientBudget):
        charge(dataset, "0.6", alice)
    charge(dataset, "0.5", alice)


def test_a_reviewer_cannot_grant_less_than_before_nor_as_the_first_of_two(dataset, make_queued, alice, sofia):
    make_queued(dataset)
    asked = ask_for(dataset, alice, "4")
    for is_two_person in (False, True):
        rule(is_two_person=is_two_person)
        with pytest.raises(InvalidInput, match="must be at least the 2"):
            services.budgets.approve_request(request=again(asked), by=sofia, epsilon="1")
        assert (again(asked).state, again(asked).first_by) == (RequestState.WAITING, None)
    assert Budget.objects.get().epsilon == "2"


def test_the_database_itself_refuses_a_grant_that_falls(dataset, make_queued):
    lift()
    Budget.objects.update(epsilon="1.5", cap_epsilon=15 * 10**11)
    make_queued(dataset, epsilon="0.5")
    for column, value in (("cap_epsilon", 10**12), ("cap_delta", 1)):
        with pytest.raises(DatabaseError, match="does not fall"), transaction.atomic():
            Budget.objects.update(**{column: value})
    Budget.objects.update(cap_epsilon=2 * 10**12)


def test_a_grant_that_fell_is_found(dataset, make_queued, sofia):
    """As a version before wrote it, which let grants fall."""
    make_queued(dataset, epsilon="0.5")
    lift("budget_does_not_fall")
    budget = Budget.objects.get()
    budget.epsilon = "1"
    columns = {limit.column: limit.cap for branch in budget.caps.branches for limit in branch.limits}
    caps = {column.replace("spent", "cap"): cap for column, cap in columns.items()}
    amounts = {"epsilon": "1", "delta": budget.delta}
    detail = {**amounts, "caps": budget.caps.to_json()}
    ledger._append(budget, kind=EntryKind.GRANT, actor=sofia, detail=detail, columns={**amounts, **caps})
    assert faults() == ["less is granted than was while releases were charged"]


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


def test_the_audit_finds_an_order_that_was_booked_too_low(make_dataset, alice):
    dataset = make_dataset(epsilon="4")
    charge(dataset, 1, alice)
    budget = Budget.objects.get()
    lift()
    Budget.objects.update(spent_orders=[0, *budget.spent_orders[1:]])
    assert any("sums" in what for what in faults())
    without_triggers()
    entry = LedgerEntry.objects.get(kind=EntryKind.CHARGE)
    LedgerEntry.objects.filter(pk=entry.pk).update(orders=[0, *entry.orders[1:]])
    assert any("hash" in what for what in faults())
    assert any("cost more" in what for what in faults())


def as_it_was_before(rho):
    """The ledger as an installation of before left it: no orders, its own rule in the grant, its own hashes."""
    without_triggers()
    lift()
    previous = ""
    for entry in LedgerEntry.objects.order_by("sequence"):
        entry.orders, entry.previous = None, previous
        if entry.kind == EntryKind.GRANT:
            entry.detail["caps"] = {**entry.detail["caps"], "rho": rho}
            entry.detail["caps"].pop("mixture", None)
        entry.hash = previous = entries.hash_of(entry)
        entry.save()
    assert "orders" not in LedgerEntry.objects.first().content()
    budget = Budget.objects.get()
    Budget.objects.update(spent_orders=[], keeps_rule_of_before=False, head=previous, cap_rho=rho)
    mark = high_water_marks.Mark(sequence=budget.sequence, hash=previous, totals=budget.totals)
    high_water_marks.put(budget.pk, mark)


@pytest.mark.parametrize(
    ("charged", "grants"),
    [
        # Only a grant that covers its own, or any where nothing was charged.
        (["1/10"], [("4", True), ("4.01", True), ("4.5", False), ("5", False)]),
        ([], [("4", False)]),
    ],
)
def test_a_budget_of_before_gains_nothing_and_takes_todays_rule_only_with_a_grant_that_covers_what_was_charged(
    make_dataset, alice, sofia, charged, grants
):
    dataset = make_dataset(epsilon="4")
    for epsilon in charged:
        charge(dataset, epsilon, alice)
    caps = Caps.of(Policy.ZCDP, epsilon=Fraction(4), delta=Fraction(1, 10**6), is_before=True)
    totals = Budget.objects.get().totals
    before = filters.remaining(totals, caps)
    as_it_was_before(caps.rho)
    import_module("releases.migrations.0022_mixed_orders").add_up(apps, None)
    assert (ledger.remaining(Budget.objects.get()), Budget.objects.get().totals) == (before, totals)
    for epsilon, keeps in grants:
        ledger.grant(budget=dataset.budget, epsilon=epsilon, delta="0.000001", actor=sofia)
        budget = Budget.objects.get()
        assert (budget.keeps_rule_of_before, bool(budget.caps.rho)) == (keeps, keeps)
        assert faults() == []
