"""The ledger: what it grants, refuses, gives back and notices."""

from __future__ import annotations

import json
import uuid
from dataclasses import replace
from fractions import Fraction

import pytest
from django.db import IntegrityError, connection, transaction

from releases import services
from releases.engine.accounting.events import DiscreteGaussianEvent, PureEvent
from releases.engine.accounting.filters import CLOSED, Policy
from releases.engine.errors import InvalidInput
from releases.ledger import high_water_marks, ledger, refusals
from releases.models import Budget, LedgerEntry
from tests.web.past_the_guards import lift
from tests.web.steps import charge, faults

pytestmark = pytest.mark.django_db

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
    assert "costs epsilon 2.5" in str(refusal.value)
    assert "epsilon 2 is left" in str(refusal.value)
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


def test_a_charge_that_was_given_back_keeps_the_grant_from_falling(queued, alice, sofia):
    services.releases.cancel_release(release=queued, by=alice)
    with pytest.raises(InvalidInput, match="must be at least the 2"):
        ledger.grant(budget=queued.dataset.budget, epsilon="1.9", delta="0.000001", actor=sofia)


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


def test_a_mark_only_rises(dataset):
    standing = high_water_marks.read(dataset.budget.pk)
    high_water_marks.raise_to(dataset.budget.pk, replace(standing, sequence=standing.sequence - 1, hash="x"))
    assert high_water_marks.read(dataset.budget.pk) == standing


def test_gaussian_noise_adds_up_by_rho_under_the_policy_for_it_and_fits_no_pure_budget(make_dataset, alice):
    dataset, small = make_dataset(epsilon="1"), {"by": alice, "delta": Fraction(1, 10**9)}
    # rho 0.0005 each; by epsilons alone about five would fit.
    for _ in range(45):
        charge(dataset, DiscreteGaussianEvent(noise_variance=Fraction(1000)), **small)
    with pytest.raises(refusals.InsufficientBudget):
        charge(dataset, DiscreteGaussianEvent(noise_variance=Fraction(1000)), **small)
    assert faults() == []
    pure = make_dataset(policy=Policy.PURE, delta="0", content=b"person,age,sex\np1,30,male\n")
    with pytest.raises(refusals.InsufficientBudget):
        charge(pure, DiscreteGaussianEvent(noise_variance=Fraction(10**9)), **small)
