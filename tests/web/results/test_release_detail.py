"""A release's own page: its progress, its answers, and what can be done with it, up to everybody's reading it."""

from __future__ import annotations

import json
import re
import uuid
from datetime import timedelta

import pytest
from django.utils import timezone

from releases import services
from releases.engine.domain.universe import Schema
from releases.engine.mechanisms.base import Consistency
from releases.engine.mechanisms.base import mechanism as mechanism_named
from releases.models import AuditEvent, Budget, Organisation, Release
from releases.publication import files
from releases.publication.receipt import fuller_bins, rules_in_words
from releases.services.releases import _change_draft
from tests.web.pages import body, link, words

pytestmark = pytest.mark.django_db


def detail(release):
    return link("release_detail", release)


@pytest.mark.parametrize(
    ("mechanism", "options", "consistency"),
    [
        ("laplace-queries", {"agree": "no"}, "OWN_NOISE"),
        ("laplace-queries", {}, "MADE_TO_AGREE"),
        ("laplace-histogram", {}, "NOISY_CELLS"),
        ("pmw", {}, "ONE_TABLE"),
        ("marginal-fit", {}, "ONE_TABLE"),
    ],
)
def test_what_tables_add_up_to_is_known_of_each_mechanism(dataset, make_draft, mechanism, options, consistency):
    plan = services.releases.plan_of(release=make_draft(dataset, mechanism=mechanism, options=options))
    assert mechanism_named(mechanism).consistency_under(plan.parameters) is Consistency[consistency]


def test_rules_are_told_for_every_kind_of_column_and_bins_hold_no_more_than_their_labels():
    columns = [
        {"name": "sex", "type": "categorical", "categories": ["f", "m"]},
        {"name": "town", "type": "categorical", "categories": ["a", "other"], "outside": "other", "missing_as": "a"},
        {"name": "age", "type": "integer", "edges": [0, 10, 20]},
        {"name": "height", "type": "number", "edges": [0, 1, 2], "outside": "drop", "missing": ["-9", "NA"]},
    ]
    rules = rules_in_words(Schema.from_json({"version": 1, "columns": columns}).universe)
    assert rules[0].startswith("A row whose value of sex is not exactly one of the declared categories is left out")
    assert rules[1].startswith("A row whose height is missing or outside the declared range is left out")
    assert rules[2].startswith("A number of age beyond the declared range counts in the first or the last bin")
    assert rules[3] == "Any other value of town counts as other."
    assert rules[4] == "height: -9, NA mean that a value is missing."
    assert rules[5] == "A row without a value of town counts as a."

    columns = [
        {"name": "age", "type": "integer", "edges": [0, 10, 20], "outside": "drop"},
        {"name": "town", "type": "categorical", "categories": ["a", "clamp"], "outside": "clamp"},
    ]
    universe = Schema.from_json({"version": 1, "columns": columns}).universe
    assert fuller_bins(universe.attributes) == []
    assert rules_in_words(universe)[-2] == "Any other value of town counts as clamp."


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


def test_a_release_that_was_submitted_cannot_be_changed_through_the_services(queued):
    with pytest.raises(services.release_inputs.Refusal):
        _change_draft(queued, epsilon="9")


def test_the_part_that_is_fetched_again_says_what_can_still_be_done(queued, as_, alice):
    """The sentence and the button come together, so neither can outlive the other."""

    def part(**state):
        Release.objects.update(**state)
        return as_(alice).get(link("release_status", queued), headers={"HX-Request": "true"})

    assert "Cancel and get the charge back" in words(as_(alice).get(detail(queued)))
    assert 'id="what-to-do"' not in body(part()), "a press on the button that still holds is not lost"
    running = part(state="running", attempts=1, share_done=0.5, started_at=timezone.now())
    assert '<div id="what-to-do" hx-swap-oob="true">' in body(running)
    for each in (running, part(state="queued")):  # a worker began it and was lost
        assert "The charge can no longer be given back." in words(each)
        assert "ancel" not in words(each)
    assert f'name="like" value="{queued.pk}"' in body(part(state="failed"))


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


@pytest.mark.parametrize("state", ["draft", "queued"])
def test_what_is_not_published_cannot_be_made_public(draft, queued, as_, alice, state):
    post(as_(alice), "visibility", {"draft": draft, "queued": queued}[state], public="yes")
    assert not Release.objects.filter(is_public=True).exists()


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


def test_a_release_that_a_worker_has_claimed_cannot_be_cancelled(published, as_, alice):
    post(as_(alice), "cancel_release", published)
    assert Budget.objects.get().spent_epsilon > 0
