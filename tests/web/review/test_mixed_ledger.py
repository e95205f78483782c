"""Laplace and Gaussian releases under one budget, and budgets that were granted before they could be mixed."""

from __future__ import annotations

from fractions import Fraction
from importlib import import_module

import pytest
from django.apps import apps

from releases import services
from releases.engine.accounting import filters
from releases.engine.accounting.conversions import largest_rho
from releases.engine.accounting.events import DiscreteGaussianEvent
from releases.engine.accounting.filters import Caps, Policy
from releases.engine.accounting.mixture import ORDERS
from releases.ledger import entries, high_water_marks, ledger
from releases.models import Budget, EntryKind, LedgerEntry
from tests.web.past_the_guards import lift
from tests.web.steps import charge, faults, without_triggers

pytestmark = pytest.mark.django_db

MILLIONTH = Fraction(1, 10**6)


def laplace(dataset, by, epsilon):
    return charge(dataset, epsilon, by)


def gaussian(dataset, by, epsilon, delta=MILLIONTH / 1000):
    rho = largest_rho(epsilon=Fraction(epsilon), delta=delta)
    return charge(dataset, DiscreteGaussianEvent(noise_variance=1 / (2 * rho)), by, delta=delta)


def test_a_charge_that_is_given_back_leaves_the_sums_at_every_order_as_they_were(make_dataset, make_queued, alice):
    dataset = make_dataset(epsilon="4")
    laplace(dataset, alice, 1)
    before = Budget.objects.get().totals
    release = make_queued(dataset)
    assert Budget.objects.get().spent_orders != list(before.spent_orders)
    services.releases.cancel_release(release=release, by=alice)
    assert Budget.objects.get().totals == before
    assert faults() == []


def test_the_audit_finds_an_order_that_was_booked_too_low(make_dataset, alice):
    dataset = make_dataset(epsilon="4")
    laplace(dataset, alice, 1)
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


def migrate():
    import_module("releases.migrations.0022_mixed_orders").add_up(apps, None)


def old_caps(epsilon):
    return Caps.of(Policy.ZCDP, epsilon=Fraction(epsilon), delta=MILLIONTH, is_before=True)


def test_no_budget_of_before_gains_anything_by_the_migration(make_dataset, make_queued, alice):
    dataset = make_dataset(epsilon="4")
    laplace(dataset, alice, "1/10")
    given_back = make_queued(dataset)
    gaussian(dataset, alice, "1/2")
    services.releases.cancel_release(release=given_back, by=alice)
    sums = Budget.objects.get().spent_orders
    before = filters.remaining(Budget.objects.get().totals, old_caps(4))
    as_it_was_before(old_caps(4).rho)
    migrate()
    budget = Budget.objects.get()
    assert budget.keeps_rule_of_before
    assert (budget.epsilon, budget.delta) == ("4", "0.000001")
    assert ledger.remaining(budget) == before
    # The same sums as if they had been kept from the beginning.
    assert len(budget.spent_orders) == len(ORDERS)
    assert budget.spent_orders == sums
    assert faults() == []
    # And it goes on: charged, given back and verified as any other.
    gaussian(dataset, alice, "1/2")
    assert faults() == []


@pytest.mark.parametrize(
    ("charged", "grants"),
    [
        # Only a grant that covers its own, or any where nothing was charged.
        (["1/10"], [("4", True), ("4.01", True), ("4.5", False), ("5", False)]),
        ([], [("4", False)]),
    ],
)
def test_a_budget_of_before_takes_todays_rule_only_with_a_grant_that_covers_what_was_charged(
    make_dataset, alice, sofia, charged, grants
):
    dataset = make_dataset(epsilon="4")
    for epsilon in charged:
        laplace(dataset, alice, epsilon)
    as_it_was_before(old_caps(4).rho)
    migrate()
    for epsilon, keeps in grants:
        ledger.grant(budget=dataset.budget, epsilon=epsilon, delta="0.000001", actor=sofia)
        budget = Budget.objects.get()
        assert (budget.keeps_rule_of_before, bool(budget.caps.rho)) == (keeps, keeps)
        assert faults() == []


def test_a_mark_without_orders_is_read_as_what_they_were_at_most(make_dataset, alice):
    dataset = make_dataset(epsilon="4")
    laplace(dataset, alice, 1)
    spent = Budget.objects.get().totals
    read = filters.Totals.read(spent.amounts())
    assert read.amounts() == spent.amounts()
    assert spent.beyond(read) == filters.Totals()


@pytest.mark.parametrize(
    ("budget", "charges"),
    [("4", [(laplace, 1), *[(gaussian, "1/2")] * 6]), ("10", [(gaussian, 1), (gaussian, 1), (laplace, 3)])],
)
def test_laplace_and_gaussian_releases_fit_together(make_dataset, alice, budget, charges):
    dataset = make_dataset(epsilon=budget)
    for book, epsilon in charges:
        book(dataset, alice, epsilon, **({"delta": MILLIONTH / 10} if book is gaussian else {}))
    assert faults() == []
