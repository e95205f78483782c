"""The ledger: what it grants, refuses, gives back and notices."""

from __future__ import annotations

import json
import uuid
from fractions import Fraction

import pytest
from django.db import IntegrityError, transaction

from releases import services
from releases.engine.accounting.events import DiscreteGaussianEvent, PureEvent
from releases.engine.accounting.filters import CLOSED, Policy, Totals
from releases.engine.domain.privacy import NeighbouringRelation, PrivacyUnit
from releases.engine.errors import InvalidInput
from releases.ledger import high_water_marks, ledger, refusals, verification
from releases.models import Budget, EntryKind, LedgerEntry
from tests.web.past_the_guards import lift

pytestmark = pytest.mark.django_db

E12 = 10**12


ROW = {"unit": PrivacyUnit(), "neighbours": NeighbouringRelation.ADD_REMOVE}


def spend(release, epsilon, actor, key=None):
    return book(release, PureEvent(epsilon=Fraction(epsilon)), actor, key=key)


def book(release, event, actor, *, delta=Fraction(0), key=None):
    return ledger.charge(release=release, **ROW, events=[event], delta=delta, key=key or uuid.uuid4(), actor=actor)


def new_release(dataset, by):
    return services.releases.draft_release(dataset=dataset, by=by)


def test_pure_releases_add_up_to_exactly_the_budget_and_not_a_unit_more(make_dataset, alice):
    dataset = make_dataset(epsilon="1")
    assert spend(new_release(dataset, alice), "0.1", alice).sequence == 2  # after the grant
    for _ in range(9):
        spend(new_release(dataset, alice), "0.1", alice)
    with pytest.raises(refusals.InsufficientBudget) as refusal:
        spend(new_release(dataset, alice), "0.000000000001", alice)
    assert Budget.objects.get().spent_epsilon == E12
    assert refusal.value.remaining.epsilon == 0
    assert refusal.value.requested.pure_epsilon == 1


def test_a_refusal_carries_both_numbers_and_charges_nothing(dataset, alice):
    before = LedgerEntry.objects.count()
    with pytest.raises(refusals.InsufficientBudget) as refusal:
        spend(new_release(dataset, alice), "2.5", alice)
    assert "costs epsilon 2.5" in str(refusal.value)
    assert "epsilon 2 is left" in str(refusal.value)
    assert refusal.value.shortfalls
    assert LedgerEntry.objects.count() == before
    assert Budget.objects.get().spent_epsilon == 0


def test_the_same_key_twice_is_one_charge(dataset, alice):
    key, release = uuid.uuid4(), new_release(dataset, alice)
    assert spend(release, "1", alice, key) == spend(release, "1", alice, key)
    assert Budget.objects.get().spent_epsilon == E12


def test_a_key_of_another_release_is_refused(dataset, alice):
    key = uuid.uuid4()
    spend(new_release(dataset, alice), "1", alice, key)
    with pytest.raises(refusals.KeyUsed):
        spend(new_release(dataset, alice), "1", alice, key)


def test_nothing_is_charged_before_a_grant_or_while_frozen(make_dataset, alice):
    dataset = make_dataset(epsilon="")
    with pytest.raises(refusals.NotGranted):
        spend(new_release(dataset, alice), "1", alice)
    dataset = make_dataset()
    dataset.refresh_from_db()
    services.budgets.freeze_budget(budget=dataset.budget)
    with pytest.raises(refusals.Frozen):
        spend(new_release(dataset, alice), "1", alice)
    services.budgets.unfreeze_budget(budget=dataset.budget)
    spend(new_release(dataset, alice), "1", alice)


def test_a_charge_is_given_back_by_an_opposite_entry(queued, alice):
    services.releases.cancel_release(release=queued, by=alice)
    budget = Budget.objects.get()
    returned = LedgerEntry.objects.get(kind=EntryKind.RETURN)
    charged = LedgerEntry.objects.get(kind=EntryKind.CHARGE)
    assert (returned.epsilon, returned.rho) == (-charged.epsilon, -charged.rho)
    assert budget.totals == Totals()
    assert list(verification.verify(budget)) == []


def test_giving_back_a_release_that_closed_a_branch_opens_it_again(make_dataset, make_queued, alice):
    dataset = make_dataset()
    release = make_queued(dataset)
    # As a mechanism without a concentrated form would have left it.
    lift()
    Budget.objects.update(spent_rho=CLOSED)
    services.releases.cancel_release(release=release, by=alice)
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
    spend(new_release(dataset, alice), "0.5", alice)
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
    assert list(verification.verify(budget)) == []


def test_a_charge_that_was_given_back_keeps_the_grant_from_falling(queued, alice, sofia):
    services.releases.cancel_release(release=queued, by=alice)
    budget = Budget.objects.get()
    assert budget.totals == Totals()
    with pytest.raises(InvalidInput, match="must be at least the 2"):
        ledger.grant(budget=budget, epsilon="1.9", delta="0.000001", actor=sofia)


def forge(**changes):
    """Write past the triggers, as somebody with the database file could."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("DROP TRIGGER ledger_no_update")
        for column, value in changes.items():
            cursor.execute(f"UPDATE releases_ledgerentry SET {column} = %s WHERE kind = 'charge'", [value])


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"epsilon": 5}, "hash"),
        ({"hash": "0" * 64}, "hash"),
        ({"previous": "0" * 64}, "hash"),
        ({"sequence": 9}, "missing"),
        (
            {
                "detail": json.dumps(
                    {"events": [PureEvent(epsilon=Fraction(2)).to_json()], "delta": "0", "policy": "zcdp"}
                )
            },
            "cost more",
        ),
    ],
)
def test_the_audit_finds_a_forged_entry(dataset, alice, changes, what):
    spend(new_release(dataset, alice), "1", alice)
    forge(**changes)
    faults = [fault.what for fault in verification.verify(Budget.objects.get())]
    assert any(what in fault for fault in faults)


def test_the_audit_finds_sums_and_caps_that_are_not_the_entries(dataset, alice):
    spend(new_release(dataset, alice), "1", alice)
    lift()
    Budget.objects.update(spent_epsilon=0, spent_rho=0)
    assert any("sums" in fault.what for fault in verification.verify(Budget.objects.get()))
    Budget.objects.update(epsilon="50", cap_epsilon=50 * E12)
    assert any("caps" in fault.what for fault in verification.verify(Budget.objects.get()))


def test_a_restored_backup_is_noticed_and_refuses_to_spend_until_a_reviewer_acts(
    dataset, alice, sofia, django_capture_on_commit_callbacks
):
    with django_capture_on_commit_callbacks(execute=True):
        spend(new_release(dataset, alice), "0.5", alice)
    old = Budget.objects.values("sequence", "head", "spent_epsilon", "spent_rho").get()
    with transaction.atomic():
        point = transaction.savepoint()
        with django_capture_on_commit_callbacks(execute=True):
            spend(new_release(dataset, alice), "1", alice)
        assert high_water_marks.read(dataset.budget.pk).sequence == 3
        transaction.savepoint_rollback(point)  # the database as the backup had it
    budget = Budget.objects.get()
    assert Budget.objects.values(*old).get() == old
    assert ledger.went_back(budget)
    assert any("backup" in fault.what for fault in verification.verify(budget))
    with pytest.raises(refusals.LedgerWentBack):
        spend(new_release(dataset, alice), "0.1", alice)
    with django_capture_on_commit_callbacks(execute=True):
        services.restoring.restore_ledger(budget=budget, by=sofia)
    budget.refresh_from_db()
    assert budget.spent_epsilon == 15 * E12 // 10
    assert not ledger.went_back(budget)
    assert list(verification.verify(budget)) == []
    with pytest.raises(refusals.InsufficientBudget):
        spend(new_release(dataset, alice), "0.6", alice)
    spend(new_release(dataset, alice), "0.5", alice)


def test_a_mark_only_rises(dataset):
    budget = Budget.objects.get()
    standing = high_water_marks.read(budget.pk)
    if standing is None:
        ledger.remember(budget)
        standing = high_water_marks.read(budget.pk)
    high_water_marks.raise_to(
        budget.pk, high_water_marks.Mark(sequence=standing.sequence - 1, hash="x", totals=standing.totals)
    )
    assert high_water_marks.read(budget.pk) == standing


def test_gaussian_noise_adds_up_by_rho_under_the_policy_for_it_and_fits_no_pure_budget(make_dataset, alice):
    dataset = make_dataset(epsilon="1")
    noise = {"event": DiscreteGaussianEvent(noise_variance=Fraction(1000)), "actor": alice, "delta": Fraction(1, 10**9)}
    # rho 0.0005 each; by epsilons alone about five would fit.
    for _ in range(45):
        book(new_release(dataset, alice), **noise)
    with pytest.raises(refusals.InsufficientBudget):
        book(new_release(dataset, alice), **noise)
    assert list(verification.verify(Budget.objects.get())) == []
    pure = make_dataset(policy=Policy.PURE, delta="0", content=b"person,age,sex\np1,30,male\n")
    with pytest.raises(refusals.InsufficientBudget):
        book(new_release(pure, alice), **noise | {"event": DiscreteGaussianEvent(noise_variance=Fraction(10**9))})
