"""Nobody approves what they asked for, whatever it is, unless the site is told that one person does everything."""

from __future__ import annotations

import uuid

import pytest
from django.urls import reverse

from dpweb import settings as as_installed
from releases import services
from releases.engine.accounting.filters import Policy
from releases.engine.errors import InvalidInput
from releases.ledger import high_water_marks, ledger
from releases.models import BudgetRequest, LedgerEntry, Organisation, ReleaseRequest
from tests.web.conftest import CSV, person
from tests.web.pages import body, words

pytestmark = pytest.mark.django_db

OWN = "asked for it; somebody else has to approve it"
ZCDP = {"delta": "0.000001", "policy": Policy.ZCDP, "reason": ""}


@pytest.fixture
def tess(group):
    """A curator of the group who reviews as well."""
    user = person("tess", "curator", "reviewer")
    user.groups.add(group)
    return user


def first_budget(make_dataset, tess, **_):
    dataset = make_dataset(epsilon="", owner=tess)
    return services.request_budget(dataset=dataset, epsilon="3", by=tess, **ZCDP)


def raised_budget(make_dataset, tess, **_):
    dataset = make_dataset(epsilon="2")
    return services.request_budget(dataset=dataset, epsilon="9", by=tess, **ZCDP)


def joined_budget(make_dataset, tess, **_):
    """The very same rows have a budget elsewhere, which the approval would join."""
    make_dataset(epsilon="2")
    other = person("dora", "curator")
    dataset = make_dataset(epsilon="", owner=other)
    dataset.group = tess.groups.get()
    dataset.save()
    return services.request_budget(dataset=dataset, epsilon="3", by=tess, **ZCDP)


def release(make_dataset, make_draft, tess, **_):
    dataset = make_dataset(epsilon="9")
    Organisation.objects.create(upload_cap_bytes=2**30, review_above="0.5")
    draft = make_draft(dataset, epsilon="1")
    services.submit_release(release=draft, key=uuid.uuid4(), by=tess, send=False)
    return ReleaseRequest.objects.get(release=draft)


def certificate(make_dataset, make_queued, tess, **_):
    published = make_queued(make_dataset(epsilon="9"), mechanism="laplace-histogram")
    assert services.execute_release(release_id=published.pk)
    published.refresh_from_db()
    Organisation.objects.create(upload_cap_bytes=2**30, review_above="0")
    draft = services.draft_certificate(of=published, by=tess, epsilon="0.05", beta="0.05")
    services.submit_release(release=draft, key=uuid.uuid4(), by=tess, send=False)
    return ReleaseRequest.objects.get(release=draft)


def session(make_dataset, tess, **_):
    Organisation.objects.create(upload_cap_bytes=2**30, review_above="0")
    draft = services.draft_session(dataset=make_dataset(epsilon="5"), by=tess, title="", epsilon="1")
    services.submit_release(release=draft, key=uuid.uuid4(), by=tess, send=False)
    return ReleaseRequest.objects.get(release=draft)


EVERYTHING = [first_budget, raised_budget, joined_budget, release, certificate, session]


def approve(asked, by):
    if isinstance(asked, BudgetRequest):
        return services.approve_request(request=asked, by=by)
    return services.approve_release(request=asked, by=by, send=False)


@pytest.fixture
def ask(make_dataset, make_draft, make_queued, tess):
    things = {"make_dataset": make_dataset, "make_draft": make_draft, "make_queued": make_queued, "tess": tess}
    return lambda what: what(**things)


def test_an_installation_separates_duties_unless_told_otherwise():
    assert as_installed.SEPARATION_OF_DUTIES is True


@pytest.mark.parametrize("what", EVERYTHING)
def test_nobody_approves_what_they_asked_for(ask, tess, sofia, what):
    asked = ask(what)
    before = LedgerEntry.objects.count()
    with pytest.raises(InvalidInput, match=OWN):
        approve(asked, tess)
    asked.refresh_from_db()
    assert asked.state == "waiting"
    assert LedgerEntry.objects.count() == before
    approve(asked, sofia)
    asked.refresh_from_db()
    assert asked.state == "approved"


@pytest.mark.parametrize("what", EVERYTHING)
def test_where_one_person_does_everything_they_do(ask, tess, settings, what):
    settings.SEPARATION_OF_DUTIES = False
    asked = ask(what)
    approve(asked, tess)
    asked.refresh_from_db()
    assert asked.state == "approved"


@pytest.mark.parametrize("what", [first_budget, release])
def test_the_page_says_why_there_is_no_button(ask, as_, tess, sofia, what):
    asked = ask(what)
    url = reverse("budget_request" if what is first_budget else "release_request", args=[asked.pk])
    page = as_(tess).get(url)
    assert "You asked for this, so somebody else has to decide it." in words(page)
    assert 'name="decision"' not in body(page)
    amounts = {"epsilon": "1", "delta": "0.000001", "note": "", "decision": "approve"}
    assert OWN in words(as_(tess).post(url, amounts))
    assert 'name="decision"' in body(as_(sofia).get(url))


def test_under_the_two_person_rule_neither_of_the_two_is_who_asked_even_where_duties_are_not_separated(
    ask, tess, settings
):
    settings.SEPARATION_OF_DUTIES = False
    Organisation.objects.create(upload_cap_bytes=2**30, is_two_person=True)
    with pytest.raises(InvalidInput, match="two others"):
        approve(ask(first_budget), tess)


def test_nobody_restores_their_own_budget_or_one_that_they_asked_for(make_dataset, as_, alice, tess, sofia):
    own = make_dataset(owner=tess, sofia=sofia).budget
    asked_for = make_dataset(content=CSV + b"one more,30,male\n", sofia=sofia)
    services.request_budget(dataset=asked_for, epsilon="9", by=tess, **ZCDP)
    for budget in (own, asked_for.budget):
        budget.refresh_from_db()
        further = high_water_marks.Mark(sequence=budget.sequence + 3, hash="0" * 64, totals=budget.totals)
        high_water_marks.put(budget.pk, further)
        url = reverse("budget_detail", args=[budget.pk])
        said = words(as_(tess).post(url, {"action": "restore"}, follow=True))
        assert "Somebody else has to book what is missing." in said
        assert ledger.went_back(budget)
        as_(sofia).post(url, {"action": "restore"})
        budget.refresh_from_db()
        assert budget.entries.filter(kind="restore", actor=sofia).count() == 1
