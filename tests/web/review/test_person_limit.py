"""The most of one budget that one person may spend: exact, by who submitted, refused with both numbers."""

from __future__ import annotations

import uuid
from fractions import Fraction

import pytest
from django.urls import reverse

from releases import services
from releases.engine.accounting.events import PureEvent
from releases.engine.accounting.filters import Policy
from releases.engine.domain.privacy import NeighbouringRelation, PrivacyUnit
from releases.ledger import ledger, refusals, verification
from releases.models import Budget, EntryKind, LedgerEntry, Organisation
from tests.web.pages import body, field_value, words

pytestmark = pytest.mark.django_db

REFUSED = (
    "You have spent 40% of this budget and this release takes 20% more; one person may spend at most 50%. "
    "Somebody else of the group can submit it, or an administrator can change the limit."
)


@pytest.fixture(autouse=True)
def _no_messages(monkeypatch):
    for module in ("releases.services.releases", "releases.services.reviews"):
        monkeypatch.setattr(f"{module}.enqueue", lambda release_id: None)


@pytest.fixture
def organisation(db):
    return Organisation.objects.create(upload_cap_bytes=2**30, most_per_person="50")


@pytest.fixture
def dataset(make_dataset):
    return make_dataset(epsilon="1", delta="0", policy=Policy.PURE)


@pytest.fixture
def submit(dataset, make_draft):
    def by(person, epsilon):
        release = make_draft(dataset, epsilon=epsilon)
        services.releases.submit_release(release=release, key=uuid.uuid4(), by=person, send=False)
        return release

    return by


def charged():
    return LedgerEntry.objects.filter(kind=EntryKind.CHARGE).count()


def test_what_is_too_much_for_one_is_refused_with_both_numbers_and_not_charged(organisation, submit, alice):
    submit(alice, "0.4")
    before = Budget.objects.values().get()
    with pytest.raises(refusals.PersonLimit) as refusal:
        submit(alice, "0.2")
    assert str(refusal.value) == REFUSED
    shares = (refusal.value.spent, refusal.value.takes, refusal.value.most)
    assert shares == (Fraction(2, 5), Fraction(1, 5), Fraction(1, 2))
    assert Budget.objects.values().get() == before
    assert charged() == 1
    assert list(verification.verify(Budget.objects.get())) == []


def test_another_of_the_group_has_a_limit_of_their_own(organisation, submit, alice, bob):
    submit(alice, "0.4")
    submit(bob, "0.5")
    with pytest.raises(refusals.InsufficientBudget):
        submit(alice, "0.2")
    submit(alice, "0.1")
    assert Budget.objects.get().spent_epsilon == 10**12


def test_the_same_submission_twice_is_one_charge_also_at_the_limit(organisation, dataset, make_draft, alice):
    release, key = make_draft(dataset, epsilon="0.5"), uuid.uuid4()
    first = services.releases.submit_release(release=release, key=key, by=alice, send=False)
    assert services.releases.submit_release(release=release, key=key, by=alice, send=False) == first


def test_a_reviewed_release_counts_for_who_submitted_it_and_not_for_the_reviewer(
    organisation, submit, alice, bob, sofia
):
    Organisation.objects.update(review_above="0.3")
    first = submit(alice, "0.4")
    services.reviews.approve_release(request=first.reviews.get(), by=sofia, send=False)
    assert LedgerEntry.objects.get(kind=EntryKind.CHARGE).actor == alice
    submit(alice, "0.1")
    with pytest.raises(refusals.PersonLimit, match="You have spent 50%"):
        submit(alice, "0.2")
    others = submit(bob, "0.4")
    services.reviews.approve_release(request=others.reviews.get(), by=sofia, send=False)
    assert charged() == 3


def test_a_reviewer_reads_whose_limit_it_is_and_nothing_is_decided(organisation, submit, as_, alice, sofia):
    submit(alice, "0.2")
    Organisation.objects.update(review_above="0.3")
    asked = submit(alice, "0.4").reviews.get()
    response = as_(sofia).post(
        reverse("release_request", args=[asked.pk]), {"decision": "approve", "epsilon": "", "note": ""}
    )
    assert response.status_code == 400
    assert "alice has spent 20% of this budget and this release takes 40% more" in words(response)
    asked.refresh_from_db()
    assert (asked.state, asked.release.state, charged()) == ("waiting", "awaiting review", 1)


def test_the_confirmation_bars_the_button_and_says_why(organisation, dataset, submit, make_draft, as_, alice, bob):
    url = reverse("confirm", args=[make_draft(dataset, epsilon="0.2").pk])
    page = as_(alice).get(url)
    assert "disabled" not in body(page)
    submit(alice, "0.4")
    assert 'disabled aria-describedby="why-not"' in body(as_(alice).get(url))
    pressed = as_(alice).post(url, {name: field_value(page, name) for name in ("key", "plan", "title")})
    assert pressed.status_code == 409
    assert REFUSED in words(pressed)
    assert charged() == 1
    assert "disabled" not in body(as_(bob).get(url))


def test_one_may_spend_exactly_the_limit_and_not_a_unit_more_of_each_budget(
    organisation, dataset, submit, make_dataset, make_draft, alice
):
    def spend(epsilon):
        ledger.charge(
            release=services.releases.draft_release(dataset=dataset, by=alice),
            unit=PrivacyUnit(),
            neighbours=NeighbouringRelation.ADD_REMOVE,
            events=[PureEvent(epsilon=Fraction(epsilon))],
            delta=Fraction(0),
            key=uuid.uuid4(),
            actor=alice,
        )

    given_back = submit(alice, "0.4")
    other = make_dataset(epsilon="1", content=b"person,age,sex\np1,30,male\np2,40,female\n")
    services.releases.submit_release(release=make_draft(other, epsilon="0.4"), key=uuid.uuid4(), by=alice, send=False)
    services.releases.cancel_release(release=given_back, by=alice)
    for _ in range(5):
        spend("0.1")
    with pytest.raises(refusals.PersonLimit, match=r"spent 50% of this budget and this release takes 0\.1% more"):
        spend("0.000000000001")
    organisation.delete()
    spend("0.5")
