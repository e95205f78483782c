"""Publishing to everybody, taking back, withdrawing, cancelling."""

from __future__ import annotations

import uuid

import pytest

from releases import services
from releases.models import AuditEvent, Budget, Organisation, Release
from tests.web.pages import link, words

pytestmark = pytest.mark.django_db


def post(client, name, release, **data):
    return client.post(link(name, release), data, follow=True)


def readable(client, release):
    """Every page and file of a release that a reader may want."""
    urls = [link(name, release) for name in ("release_detail", "release_status", "answers", "receipt")]
    urls += [link("download", release, name) for name in release.result["files"]]
    return {client.get(url).status_code for url in urls}


def test_a_published_release_is_its_people_s_until_they_make_it_public(published, as_, alice, charlie):
    assert readable(as_(None), published) == {302}
    assert readable(as_(charlie), published) == {404}
    post(as_(alice), "visibility", published, public="yes")
    assert readable(as_(None), published) == {200}
    assert readable(as_(charlie), published) == {200}


def test_it_can_be_made_private_again(public, as_, alice):
    post(as_(alice), "visibility", public, public="no")
    assert readable(as_(None), public) == {302, 410}
    assert as_(None).get(link("release_detail", public)).status_code == 410


@pytest.mark.parametrize("state", ["draft", "queued"])
def test_what_is_not_published_cannot_be_made_public(draft, queued, as_, alice, state):
    post(as_(alice), "visibility", {"draft": draft, "queued": queued}[state], public="yes")
    assert not Release.objects.filter(is_public=True).exists()


@pytest.mark.parametrize("value", ["", "maybe"])
def test_a_form_that_says_neither_changes_nothing(public, as_, alice, value):
    post(as_(alice), "visibility", public, public=value)
    public.refresh_from_db()
    assert public.is_public


def test_a_withdrawn_release_is_no_longer_offered_and_its_charge_stays(public, as_, alice, charlie):
    spent = Budget.objects.get().spent_epsilon
    post(as_(alice), "withdraw", public)
    assert readable(as_(None), public) == {302, 410}
    for person in (None, charlie):
        gone = as_(person).get(link("release_detail", public))
        assert gone.status_code == 410
        assert "at least" not in words(gone)
    assert as_(alice).get(link("download", public, "answers.csv")).status_code == 410
    assert Budget.objects.get().spent_epsilon == spent > 0
    assert as_(alice).get(link("release_detail", public)).status_code == 200
    assert "Only a finished release can be withdrawn." in words(post(as_(alice), "withdraw", public))


def test_a_withdrawn_release_that_was_never_public_is_not_there_for_others(published, as_, charlie):
    services.releases.withdraw_release(release=published)
    for person, status in ((None, 302), (charlie, 404)):
        assert as_(person).get(link("release_detail", published)).status_code == status


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
    post(as_(alice), "cancel_release", published)
    assert Budget.objects.get().spent_epsilon > 0
