"""The threshold of review cannot be evaded by splitting: what one person releases of a budget without a review adds
up, and the ledger decides it under its lock."""

import uuid

import pytest

from releases import services
from releases.models import EntryKind, LedgerEntry
from tests.web.steps import rule

pytestmark = pytest.mark.usefixtures("no_worker")


@pytest.fixture(autouse=True)
def _threshold(dataset):
    rule(review_above="0.5")


@pytest.fixture
def submit(make_draft):
    """Submit a release of this epsilon; whether it was charged at once."""

    def by(dataset, epsilon, person):
        release = make_draft(dataset, epsilon=epsilon)
        entry = services.releases.submit_release(release=release, key=uuid.uuid4(), by=person, send=False)
        release.refresh_from_db()
        assert release.state == ("queued" if entry else "awaiting review")
        return release

    return by


def charged():
    return LedgerEntry.objects.filter(kind=EntryKind.CHARGE).count()


def test_many_small_releases_pass_up_to_the_threshold_and_no_further(dataset, submit, alice):
    for _ in range(5):
        assert submit(dataset, "0.1", alice).state == "queued"
    assert submit(dataset, "0.000001", alice).state == "awaiting review"
    assert charged() == 5


@pytest.fixture
def approve(submit, sofia):
    """Submit a release that waits, and approve it for this epsilon, or as it is."""

    def run(dataset, asked, person, **less):
        release = submit(dataset, asked, person)
        services.reviews.approve_release(request=release.reviews.get(), by=sofia, send=False, **less)
        release.refresh_from_db()
        return release

    return run


def test_what_a_reviewer_approved_does_not_count(dataset, submit, approve, alice):
    assert approve(dataset, "0.6", alice).state == "queued"
    assert submit(dataset, "0.5", alice).state == "queued"
    assert submit(dataset, "0.1", alice).state == "awaiting review"


@pytest.mark.parametrize(
    ("epsilon", "changed", "next_is"),
    [("0.1", "0.5", "awaiting review"), ("0.4", "", "queued")],
    ids=["changed", "left"],
)
def test_what_was_approved_for_less_counts_if_it_was_changed_and_not_if_it_was_left_so(
    dataset, submit, approve, carry_out, alice, epsilon, changed, next_is
):
    small = approve(dataset, "0.9", alice, epsilon=epsilon)
    if changed:
        services.releases.set_choice(release=small, epsilon=changed, mechanism_name=small.mechanism)
    assert carry_out(small, execute=False).state == "queued"
    assert submit(dataset, "0.5", alice).state == next_is


def test_others_and_other_budgets_have_sums_of_their_own(dataset, make_dataset, submit, alice, bob):
    other = make_dataset(content=b"person,age,sex\np1,30,male\np2,40,female\n")
    for each, who in ((dataset, alice), (other, alice), (dataset, bob)):
        assert submit(each, "0.5", who).state == "queued"


def test_what_was_given_back_counts_no_longer(dataset, submit, alice):
    services.releases.cancel_release(release=submit(dataset, "0.5", alice), by=alice)
    assert submit(dataset, "0.5", alice).state == "queued"


def test_the_ledger_refuses_what_came_in_between_and_a_reviewer_is_asked(dataset, submit, alice, monkeypatch):
    """As where two submissions at once each find that they are within the threshold."""
    submit(dataset, "0.4", alice)
    monkeypatch.setattr("releases.services.releases.needs_review", lambda **asked: False)
    late = submit(dataset, "0.4", alice)
    assert late.state == "awaiting review"
    assert late.reviews.get().epsilon == "0.4"
    assert charged() == 1
