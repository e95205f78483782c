"""Releases as they are stored: of one kind each, with questions, plan and result in rows of their own."""

import pytest
from django.db import DatabaseError, transaction

from releases import services
from releases.models import CERTIFICATE, CHECK, KINDS, PLAIN, SESSION, Release
from releases.models.release_contents import ReleasePlan, ReleaseQuestions, ReleaseResult
from releases.planning.column_checks import planned_check
from releases.services.execution import _EXECUTORS
from releases.views.releases.kinds import _PAGES

ROWS = (ReleaseQuestions, ReleasePlan, ReleaseResult)
OTHER = {"version": 1, "queries": [{"marginal": ["age"]}]}


@pytest.fixture
def kinds(draft, alice):
    session = services.sessions.draft_session(dataset=draft.dataset, by=alice, title="Ask", epsilon="1")
    asked = {"largest_error": {"workload": draft.workload, "released": {"released answers": {"sha256": "0" * 64}}}}
    given = {"certifies": draft, "kind": CERTIFICATE, "workload": {"version": 1, "queries": [asked]}}
    certificate = Release.objects.make(dataset=draft.dataset, title="Certificate", **given)
    plan = planned_check(draft.dataset.schema, draft.dataset.budget, rows=5000)
    check = services.column_checks.draft_check(dataset=draft.dataset, plan=plan, by=alice)
    return {PLAIN: draft, SESSION: session, CERTIFICATE: certificate, CHECK: check}


def test_lists_and_releases_agree_on_the_kind(kinds):
    assert set(kinds) == set(KINDS.values()) == set(_PAGES) == set(_EXECUTORS)
    for kind, release in kinds.items():
        assert release.kind is kind
        assert Release.objects.of_kind(kind).get() == release


def numbers():
    return [row.objects.count() for row in ROWS]


def test_a_draft_whose_questions_change_leaves_no_row_behind_and_who_read_it_before_reads_what_it_asks_now(draft):
    assert numbers() == [1, 0, 0]
    read = Release.objects.get()
    services.releases.set_questions(release=draft, workload=OTHER)
    assert (read.workload["queries"], numbers()) == (OTHER["queries"], [1, 0, 0])
    assert Release.objects.get().workload["queries"] == OTHER["queries"]
    services.releases.set_questions(release=draft, workload=None)
    assert (Release.objects.get().workload, numbers()) == (None, [0, 0, 0])


def test_what_changes_nothing_leaves_no_row_behind(draft, alice):
    """Compare and set: of a release that is no draft any more nothing is changed."""
    assert Release.objects.filter(state="running").change(workload=OTHER, plan=OTHER, result={}) == 0
    assert numbers() == [1, 0, 0]
    services.releases.discard_draft(release=draft, by=alice)
    assert numbers() == [0, 0, 0]


def test_a_result_is_never_taken_away(published):
    assert numbers() == [1, 1, 1]
    with pytest.raises(DatabaseError), transaction.atomic():
        Release.objects.change(result=None)
    assert numbers() == [1, 1, 1]
