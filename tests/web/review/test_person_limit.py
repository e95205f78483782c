"""The most of one budget that one person may spend: exact, by who submitted, refused with both numbers."""

import uuid
from fractions import Fraction

import pytest

from releases import services
from releases.engine.accounting.filters import Policy
from releases.ledger import refusals
from releases.models import Budget, EntryKind, LedgerEntry, Organisation
from tests.web.steps import again, charge, faults, rule, submit


@pytest.fixture(autouse=True)
def _limit(db):
    rule(most_per_person="50")


@pytest.fixture
def dataset(make_dataset):
    return make_dataset(epsilon="1", delta="0", policy=Policy.PURE)


@pytest.fixture
def spend(dataset, make_draft):
    def by(person, epsilon):
        release = make_draft(dataset, epsilon=epsilon)
        submit(release, person)
        return release

    return by


def charged():
    return LedgerEntry.objects.filter(kind=EntryKind.CHARGE).count()


def test_the_same_submission_twice_is_one_charge_also_at_the_limit(dataset, make_draft, alice):
    release, key = make_draft(dataset, epsilon="0.5"), uuid.uuid4()
    assert submit(release, alice, key=key) == submit(release, alice, key=key)


def test_a_reviewed_release_counts_for_who_submitted_it_and_not_for_the_reviewer(spend, alice, bob, sofia):
    Organisation.objects.update(review_above="0.3")
    first = spend(alice, "0.4")
    services.reviews.approve_release(request=first.reviews.get(), by=sofia, send=False)
    spend(alice, "0.1")
    with pytest.raises(refusals.PersonLimit, match="You have spent 50%"):
        spend(alice, "0.2")
    more = spend(alice, "0.4").reviews.get()
    with pytest.raises(refusals.PersonLimit):
        services.reviews.approve_release(request=more, by=sofia, send=False)
    others = spend(bob, "0.4")
    services.reviews.approve_release(request=others.reviews.get(), by=sofia, send=False)
    assert charged() == 3


def test_one_may_spend_exactly_the_limit_and_not_a_unit_more_of_each_budget(
    dataset, spend, make_dataset, make_draft, alice
):
    given_back = spend(alice, "0.4")
    other = make_dataset(epsilon="1", content=b"person,age,sex\np1,30,male\np2,40,female\n")
    submit(make_draft(other, epsilon="0.4"), alice)
    services.releases.cancel_release(release=given_back, by=alice)
    for _ in range(5):
        charge(dataset, "0.1", alice)
    before = Budget.objects.values().get(pk=dataset.budget_id)
    with pytest.raises(refusals.PersonLimit, match=r"spent 50% of this budget and this release takes 0\.1% more") as no:
        charge(dataset, "0.000000000001", alice)
    assert (no.value.spent, no.value.takes, no.value.most) == (Fraction(1, 2), Fraction(1, 10**12), Fraction(1, 2))
    assert Budget.objects.values().get(pk=dataset.budget_id) == before
    assert faults(again(dataset.budget)) == []
    Organisation.objects.all().delete()
    charge(dataset, "0.5", alice)
