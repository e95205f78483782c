"""The most of one budget that one person may spend: exact, by who submitted, refused with both numbers."""

from __future__ import annotations

import uuid
from fractions import Fraction

import pytest
from django.urls import reverse

from releases import services
from releases.engine.accounting.filters import Policy
from releases.ledger import refusals
from releases.models import Budget, EntryKind, LedgerEntry, Organisation
from tests.web.pages import body, field_value, words
from tests.web.steps import charge, faults, rule, submit

pytestmark = pytest.mark.django_db

REFUSED = (
    "You have spent 40% of this budget and this release takes 20% more; one person may spend at most 50%. "
    "Somebody else of the group can submit it, or an administrator can change the limit."
)


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


def test_what_is_too_much_for_one_is_refused_with_both_numbers_and_not_charged(spend, alice):
    spend(alice, "0.4")
    before = Budget.objects.values().get()
    with pytest.raises(refusals.PersonLimit) as refusal:
        spend(alice, "0.2")
    assert str(refusal.value) == REFUSED
    shares = (refusal.value.spent, refusal.value.takes, refusal.value.most)
    assert shares == (Fraction(2, 5), Fraction(1, 5), Fraction(1, 2))
    assert Budget.objects.values().get() == before
    assert charged() == 1
    assert faults() == []


def test_another_of_the_group_has_a_limit_of_their_own(spend, alice, bob):
    spend(alice, "0.4")
    spend(bob, "0.5")
    with pytest.raises(refusals.InsufficientBudget):
        spend(alice, "0.2")
    spend(alice, "0.1")
    assert Budget.objects.get().spent_epsilon == 10**12


def test_the_same_submission_twice_is_one_charge_also_at_the_limit(dataset, make_draft, alice):
    release, key = make_draft(dataset, epsilon="0.5"), uuid.uuid4()
    assert submit(release, alice, key=key) == submit(release, alice, key=key)


def test_a_reviewed_release_counts_for_who_submitted_it_and_not_for_the_reviewer(spend, alice, bob, sofia):
    Organisation.objects.update(review_above="0.3")
    first = spend(alice, "0.4")
    services.reviews.approve_release(request=first.reviews.get(), by=sofia, send=False)
    assert LedgerEntry.objects.get(kind=EntryKind.CHARGE).actor == alice
    spend(alice, "0.1")
    with pytest.raises(refusals.PersonLimit, match="You have spent 50%"):
        spend(alice, "0.2")
    others = spend(bob, "0.4")
    services.reviews.approve_release(request=others.reviews.get(), by=sofia, send=False)
    assert charged() == 3


def test_a_reviewer_reads_whose_limit_it_is_and_nothing_is_decided(spend, as_, alice, sofia):
    spend(alice, "0.2")
    Organisation.objects.update(review_above="0.3")
    asked = spend(alice, "0.4").reviews.get()
    approval = {"decision": "approve", "epsilon": "", "note": ""}
    response = as_(sofia).post(reverse("release_request", args=[asked.pk]), approval)
    assert response.status_code == 400
    assert "alice has spent 20% of this budget and this release takes 40% more" in words(response)
    asked.refresh_from_db()
    assert (asked.state, asked.release.state, charged()) == ("waiting", "awaiting review", 1)


def test_the_confirmation_bars_the_button_and_says_why(dataset, spend, make_draft, as_, alice, bob):
    url = reverse("confirm", args=[make_draft(dataset, epsilon="0.2").pk])
    page = as_(alice).get(url)
    assert "disabled" not in body(page)
    spend(alice, "0.4")
    assert 'disabled aria-describedby="why-not"' in body(as_(alice).get(url))
    pressed = as_(alice).post(url, {name: field_value(page, name) for name in ("key", "plan", "title")})
    assert pressed.status_code == 409
    assert REFUSED in words(pressed)
    assert charged() == 1
    assert "disabled" not in body(as_(bob).get(url))


def test_one_may_spend_exactly_the_limit_and_not_a_unit_more_of_each_budget(
    dataset, spend, make_dataset, make_draft, alice
):
    given_back = spend(alice, "0.4")
    other = make_dataset(epsilon="1", content=b"person,age,sex\np1,30,male\np2,40,female\n")
    submit(make_draft(other, epsilon="0.4"), alice)
    services.releases.cancel_release(release=given_back, by=alice)
    for _ in range(5):
        charge(dataset, "0.1", alice)
    with pytest.raises(refusals.PersonLimit, match=r"spent 50% of this budget and this release takes 0\.1% more"):
        charge(dataset, "0.000000000001", alice)
    Organisation.objects.all().delete()
    charge(dataset, "0.5", alice)
