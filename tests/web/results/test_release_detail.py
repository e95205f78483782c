"""A release's own page: its progress, its answers, and what can be done with it."""

from __future__ import annotations

import json
import re
from datetime import timedelta

import pytest
from django.utils import timezone

from releases import services
from releases.engine.domain.universe import Schema
from releases.engine.mechanisms.base import Consistency
from releases.engine.mechanisms.base import mechanism as mechanism_named
from releases.models import Release
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
