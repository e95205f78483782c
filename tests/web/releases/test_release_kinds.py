"""Every release is of one kind, in lists as on pages."""

from __future__ import annotations

import pytest
from django.urls import reverse

from releases import services
from releases.models import CERTIFICATE, CHECK, KINDS, PLAIN, SESSION, Release
from releases.planning.column_checks import planned_check
from releases.views.releases.kinds import _PAGES

pytestmark = pytest.mark.django_db


@pytest.fixture
def kinds(draft, alice):
    session = services.sessions.draft_session(dataset=draft.dataset, by=alice, title="Ask", epsilon="1")
    asked = {"largest_error": {"workload": draft.workload, "released": {"released answers": {"sha256": "0" * 64}}}}
    certificate = Release.objects.create(
        dataset=draft.dataset,
        title="Certificate",
        certifies=draft,
        kind=CERTIFICATE,
        workload={"version": 1, "queries": [asked]},
    )
    check = services.column_checks.draft_check(
        dataset=draft.dataset, plan=planned_check(draft.dataset.schema, draft.dataset.budget, rows=5000), by=alice
    )
    return {PLAIN: draft, SESSION: session, CERTIFICATE: certificate, CHECK: check}


def test_lists_and_releases_agree_on_the_kind(kinds):
    assert set(kinds) == set(KINDS.values()) == set(_PAGES)
    for kind, release in kinds.items():
        assert release.kind is kind
        assert Release.objects.of_kind(kind).get() == release


def test_the_steps_of_a_draft_without_steps_lead_to_the_page_that_plans_it(kinds, as_, alice):
    planned = {
        SESSION: reverse("new_session", args=[kinds[PLAIN].dataset_id]),
        CERTIFICATE: reverse("certify", args=[kinds[PLAIN].pk]),
        CHECK: reverse("check_columns", args=[kinds[PLAIN].dataset_id]),
    }
    for kind, address in planned.items():
        for step in ("questions", "compare"):
            response = as_(alice).get(reverse(step, args=[kinds[kind].pk]))
            assert response.url.partition("?")[0] == address
    assert as_(alice).get(reverse("questions", args=[kinds[PLAIN].pk])).status_code == 200
