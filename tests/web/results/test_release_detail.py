"""A release's own page: its progress, its answers, and what can be done with it, up to everybody's reading it."""

import json
import re
import uuid
from datetime import timedelta

import pytest
from django.utils import timezone

from releases import services
from releases.models import AuditEvent, Budget, Organisation, Release
from releases.publication import files
from releases.services.releases import _change_draft
from tests.web.pages import body, link, words


def detail(release):
    return link("release_detail", release)


def test_a_running_release_shows_neither_step_nor_share_nor_time_and_cannot_be_cancelled(queued, as_, alice):
    Release.objects.update(
        state="running",
        step="Adding noise",
        share_done=0.25,
        attempts=1,
        started_at=timezone.now() - timedelta(seconds=10),
    )
    page = as_(alice).get(detail(queued))
    assert "In progress" in words(page)
    assert not re.search(r"Adding noise|\d% done|\d s left", words(page))
    assert '<progress id="progress" max="1">' in body(page)
    assert "Cancel" not in words(page)


def test_the_numbers_shown_are_those_of_the_download(published, as_, alice):
    table = files.read_answers(files.folder_of(published)).to_pylist()
    page = body(as_(alice).get(detail(published), {"question": "2"}))
    chart = json.loads(re.search(r'<script id="answers-data" type="application/json">(.*?)</script>', page)[1])
    drawn = [(row["estimate"], row["lower"], row["upper"]) for row in chart["data"]["values"]]
    assert drawn == [(row["estimate"], row["lower"], row["upper"]) for row in table if row["query"] == "age × sex"]


def test_answers_that_are_ticked_or_have_a_word_add_up_between_the_sums_of_their_ends(published, as_, alice):
    rows = [row for row in files.read_answers(files.folder_of(published)).to_pylist() if row["query"] == "age × sex"]
    of_females = [place for place, row in enumerate(rows) if "female" in (row["age"], row["sex"])]
    assert 1 < len(of_females) < len(rows)
    low, high = (sum(rows[place][end] for place in of_females) for end in ("lower", "upper"))
    sentence = f"Together these {len(of_females)} answers come to about"
    for address in ({"add": of_females}, {"only": "female"}):
        said = words(as_(alice).get(detail(published), {"question": "2", **address}))
        assert sentence in said
        # True counts are whole, so each end is less than 1 a count within the sum.
        between = re.search(r"the true number lies between ([\d,]+) and ([\d,]+)\.", said).groups()
        least, most = (int(end.replace(",", "")) for end in between)
        assert low <= least < low + len(of_females)
        assert high - len(of_females) < most <= high
    assert sentence not in words(as_(alice).get(detail(published), {"question": "2", "add": [of_females[0], "x"]}))


def test_a_release_that_was_submitted_cannot_be_changed_through_the_services(queued):
    with pytest.raises(services.release_inputs.Refusal):
        _change_draft(queued, epsilon="9")


# Publishing to everybody, taking back, withdrawing, cancelling


def post(client, name, release, **data):
    return client.post(link(name, release), data, follow=True)


def readable(client, release):
    """Every page and file of a release that a reader may want."""
    urls = [link(name, release) for name in ("release_detail", "release_status", "answers", "receipt")]
    urls += [link("download", release, name) for name in release.result["files"]]
    return {client.get(url).status_code for url in urls}


def test_a_published_release_is_its_people_s_until_they_make_it_public_and_again_once_they_take_it_back(
    published, as_, alice, charlie
):
    assert readable(as_(None), published) == {302}
    assert readable(as_(charlie), published) == {404}
    # Making it public a second time is recorded once, and a form that says neither changes nothing.
    for value in ("yes", "yes", "", "maybe"):
        post(as_(alice), "visibility", published, public=value)
        assert readable(as_(None), published) == {200}
        assert AuditEvent.objects.filter(action="make public").count() == 1
    assert readable(as_(charlie), published) == {200}
    post(as_(alice), "visibility", published, public="no")
    assert readable(as_(None), published) == {302, 410}
    assert as_(None).get(link("release_detail", published)).status_code == 410


@pytest.mark.parametrize("change", [services.releases.make_public, services.releases.withdraw_release])
def test_only_a_finished_release_is_made_public_or_withdrawn(draft, queued, change):
    for release in (draft, queued):
        with pytest.raises(services.release_inputs.Refusal, match="Only a finished release can be"):
            change(release=release)
    assert not Release.objects.filter(is_public=True).exists()


def test_a_withdrawn_release_is_no_longer_offered_and_its_charge_stays(public, as_, alice, charlie):
    spent = Budget.objects.get().spent_epsilon
    post(as_(alice), "withdraw", public)
    assert readable(as_(None), public) == {302, 410}
    for person in (None, charlie):
        assert as_(person).get(link("release_detail", public)).status_code == 410
    assert as_(alice).get(link("download", public, "answers.csv")).status_code == 410
    assert Budget.objects.get().spent_epsilon == spent > 0
    assert as_(alice).get(link("release_detail", public)).status_code == 200


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


def test_a_release_that_a_worker_has_claimed_cannot_be_cancelled(published, as_, alice):
    post(as_(alice), "cancel_release", published)
    assert Budget.objects.get().spent_epsilon > 0
