"""Publishing to everybody, taking back, withdrawing, cancelling."""

from __future__ import annotations

import uuid

import pytest
from django.urls import reverse

from releases import services
from releases.models import AuditEvent, Budget, LedgerEntry, Organisation, Release
from tests.web.pages import body, words

pytestmark = pytest.mark.django_db


def post(client, name, release, **data):
    return client.post(reverse(name, args=[release.pk]), data, follow=True)


def readable(client, release):
    """Every page and file of a release that a reader may want."""
    urls = [reverse(name, args=[release.pk]) for name in ("release_detail", "release_status", "answers", "receipt")]
    urls += [reverse("download", args=[release.pk, name]) for name in release.result["files"]]
    return {client.get(url).status_code for url in urls}


def test_a_published_release_is_its_people_s_until_they_make_it_public(published, as_, alice, charlie):
    assert readable(as_(None), published) == {302}
    assert readable(as_(charlie), published) == {404}
    page = post(as_(alice), "visibility", published, public="yes")
    assert "Public: everybody can read and download it, signed in or not." in words(page)
    assert readable(as_(None), published) == {200}
    assert readable(as_(charlie), published) == {200}


def test_before_it_is_public_a_page_says_who_will_see_what_and_nothing_happens_yet(published, as_, alice):
    client = as_(alice)
    assert f'href="{reverse("visibility", args=[published.pk])}"' in body(
        client.get(reverse("release_detail", args=[published.pk]))
    )
    page = words(client.get(reverse("visibility", args=[published.pk])))
    assert "Make “Release 1” public?" in page
    assert "Everybody will be able to read and download it, signed in or not, and it is in the catalogue." in page
    assert "The title, with that of the dataset, “Survey”; all 17 answers with error bounds; " in page
    assert "People who have read it keep what they read." in page
    published.refresh_from_db()
    assert not published.is_public


def test_what_is_public_already_is_not_asked_about(public, as_, alice):
    response = as_(alice).get(reverse("visibility", args=[public.pk]))
    assert response.url == reverse("release_detail", args=[public.pk])


def test_it_can_be_made_private_again(public, as_, alice):
    page = post(as_(alice), "visibility", public, public="no")
    assert "Private again. Downloaded copies stay with those who have them." in words(page)
    assert readable(as_(None), public) == {302, 410}
    gone = as_(None).get(reverse("release_detail", args=[public.pk]))
    assert gone.status_code == 410
    assert "This release was public until" in words(gone)


def test_a_public_page_shows_readers_no_controls(public, as_, charlie):
    page = words(as_(charlie).get(reverse("release_detail", args=[public.pk])))
    assert "Make private" not in page
    assert "Withdraw" not in page
    assert "Plan another" not in page


@pytest.mark.parametrize("state", ["draft", "queued"])
def test_what_is_not_published_cannot_be_made_public(draft, queued, as_, alice, state):
    release = {"draft": draft, "queued": queued}[state]
    page = post(as_(alice), "visibility", release, public="yes")
    assert "Only a finished release can be made public." in words(page)
    assert not Release.objects.filter(is_public=True).exists()


@pytest.mark.parametrize("value", ["", "maybe"])
def test_a_form_that_says_neither_changes_nothing(public, as_, alice, value):
    post(as_(alice), "visibility", public, public=value)
    public.refresh_from_db()
    assert public.is_public


def test_a_withdrawn_release_is_no_longer_offered_and_its_charge_stays(public, as_, alice):
    spent = Budget.objects.get().spent_epsilon
    page = post(as_(alice), "withdraw", public)
    assert "Withdrawn. The budget stays spent: what was learned cannot be unlearned." in words(page)
    assert readable(as_(None), public) == {302, 410}
    assert as_(alice).get(reverse("download", args=[public.pk, "answers.csv"])).status_code == 410
    assert Budget.objects.get().spent_epsilon == spent > 0
    assert as_(alice).get(reverse("release_detail", args=[public.pk])).status_code == 200
    assert "Only a finished release can be withdrawn." in words(post(as_(alice), "withdraw", public))


def test_whoever_cites_a_withdrawn_release_learns_when_it_was_withdrawn_and_no_number(public, as_, charlie):
    services.releases.withdraw_release(release=public)
    for client in (as_(None), as_(charlie)):
        response = client.get(reverse("release_detail", args=[public.pk]))
        assert response.status_code == 410
        assert "This release was public and was withdrawn on" in words(response)
        assert "at least" not in words(response)


def test_a_withdrawn_release_that_was_never_public_is_not_there_for_others(published, as_, charlie):
    services.releases.withdraw_release(release=published)
    for person, status in ((None, 302), (charlie, 404)):
        assert as_(person).get(reverse("release_detail", args=[published.pk])).status_code == status


def test_a_queued_release_can_be_cancelled_and_its_charge_comes_back(queued, as_, alice):
    assert Budget.objects.get().spent_epsilon > 0
    page = post(as_(alice), "cancel_release", queued)
    assert "Cancelled before any data were touched; the charge was given back." in words(page)
    assert Budget.objects.get().spent_epsilon == 0
    assert [entry.kind for entry in LedgerEntry.objects.order_by("sequence")] == ["grant", "charge", "return"]


@pytest.mark.parametrize("waits_for", ["a worker", "a reviewer"])
def test_whoever_presses_cancel_twice_is_not_told_that_it_runs(waits_for, draft, as_, alice):
    if waits_for == "a reviewer":
        Organisation.objects.create(upload_cap_bytes=2**30, review_above="0.5")
    services.releases.submit_release(release=draft, key=uuid.uuid4(), by=alice, send=False)
    for _ in range(2):
        assert "already started" not in words(post(as_(alice), "cancel_release", draft))
    assert Budget.objects.get().spent_epsilon == 0
    with pytest.raises(services.release_inputs.Refusal, match="there is no charge of it to give back"):
        services.releases.cancel_release(release=draft, by=alice)


def test_to_make_public_what_is_public_already_is_recorded_once(public, as_, alice):
    post(as_(alice), "visibility", public, public="yes")
    assert AuditEvent.objects.filter(action="make public").count() == 1
    assert Release.objects.get(pk=public.pk).is_public


def test_a_release_that_a_worker_has_claimed_cannot_be_cancelled(published, as_, alice):
    page = post(as_(alice), "cancel_release", published)
    assert "A worker has already started it, so the charge stays and it runs to its end." in words(page)
    assert Budget.objects.get().spent_epsilon > 0


def test_a_member_of_the_group_may_do_all_of_that_too(published, as_, bob):
    post(as_(bob), "visibility", published, public="yes")
    published.refresh_from_db()
    assert published.is_public


def test_a_withdrawn_release_is_gone_from_the_catalogue(public, as_):
    assert public.title in words(as_(None).get("/catalogue/"))
    services.releases.withdraw_release(release=public)
    assert public.title not in words(as_(None).get("/catalogue/"))
