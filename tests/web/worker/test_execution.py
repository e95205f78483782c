"""Running a charged release, step by step in one process: nothing before the charge, once, and never given back."""

from __future__ import annotations

import logging
import uuid
from datetime import timedelta

import pytest
from django.utils import timezone

from releases import services
from releases.models import EntryKind, LedgerEntry, Release, ReleaseState, Searchable
from releases.services import execution
from releases.worker import runner

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _no_messages():
    with pytest.MonkeyPatch.context() as patched:
        for module in ("releases.services.releases", "releases.services.execution"):
            patched.setattr(f"{module}.enqueue", lambda release_id: None)
        yield


@pytest.fixture
def touched(monkeypatch):
    """The charges that were booked whenever a table was opened."""
    seen = []
    run = runner.run

    def noted(*args, **kwargs):
        seen.append(LedgerEntry.objects.filter(kind=EntryKind.CHARGE).count())
        return run(*args, **kwargs)

    monkeypatch.setattr(runner, "run", noted)
    return seen


def broken(*args, **kwargs):
    raise RuntimeError("a row says: Mrs Smith, 43")


def charges(release):
    return sorted(release.dataset.budget.entries.exclude(kind=EntryKind.GRANT).values_list("kind", flat=True))


def test_no_data_are_touched_before_the_charge_is_booked(draft, alice, touched):
    services.releases.submit_release(release=draft, key=uuid.uuid4(), by=alice, send=False)
    draft.refresh_from_db()
    assert (draft.state, draft.attempts, touched) == (ReleaseState.QUEUED, 0, [])
    assert services.execution.execute_release(release_id=draft.pk)
    assert touched == [1]


def test_a_release_without_a_charge_is_not_run(queued, touched, monkeypatch):
    monkeypatch.setattr(LedgerEntry.objects, "get", lambda **given: LedgerEntry.objects.none().get())
    assert not services.execution.execute_release(release_id=queued.pk)
    assert touched == []


def test_a_plan_that_costs_more_than_was_charged_is_not_run(queued, touched, monkeypatch):
    price = execution.accountant.price

    def dearer(events, **given):
        return price([*events, *events], **given)

    monkeypatch.setattr(execution.accountant, "price", dearer)
    assert not services.execution.execute_release(release_id=queued.pk)
    queued.refresh_from_db()
    assert (queued.state, queued.result, touched) == (ReleaseState.CANCELLED, None, [])
    assert charges(queued) == [EntryKind.CHARGE, EntryKind.RETURN]


def test_a_release_runs_once_however_often_it_is_delivered(queued, touched):
    assert [services.execution.execute_release(release_id=queued.pk) for _ in range(3)] == [True, False, False]
    first = Release.objects.get(pk=queued.pk)
    services.execution.execute_release(release_id=queued.pk)
    assert Release.objects.get(pk=queued.pk).result == first.result
    assert (first.attempts, touched, charges(queued)) == (1, [1], [EntryKind.CHARGE])


def test_a_worker_that_lost_its_lease_publishes_nothing(queued, monkeypatch):
    """While it runs its lease lapses, and another worker takes the release and publishes."""
    run = runner.run
    others = []

    def slow(*args, **kwargs):
        monkeypatch.setattr(runner, "run", run)
        Release.objects.filter(pk=queued.pk).update(lease_until=timezone.now() - timedelta(seconds=1))
        assert execution.reconcile() == 1
        others.append(services.execution.execute_release(release_id=queued.pk))
        others.append(Release.objects.get(pk=queued.pk).folder)
        return run(*args, **{**kwargs, "report": None})

    monkeypatch.setattr(runner, "run", slow)
    assert not services.execution.execute_release(release_id=queued.pk)
    published = Release.objects.get(pk=queued.pk)
    assert others == [True, published.folder]
    assert (published.state, published.attempts) == (ReleaseState.PUBLISHED, 2)
    assert charges(queued) == [EntryKind.CHARGE]


def test_a_release_and_the_words_it_is_found_by_are_published_together_or_not_at_all(queued, monkeypatch):
    with monkeypatch.context() as broken_off:
        broken_off.setattr(Searchable.objects, "create", broken)
        assert not services.execution.execute_release(release_id=queued.pk)
    assert (Release.objects.get().state, Release.objects.get().result) == (ReleaseState.QUEUED, None)
    assert services.execution.execute_release(release_id=queued.pk)
    assert "female" in Searchable.objects.get(release=queued).text.splitlines()


def test_a_failure_is_logged_without_what_the_exception_says(queued, monkeypatch, caplog):
    monkeypatch.setattr(runner, "run", broken)
    with caplog.at_level(logging.DEBUG):
        services.execution.execute_release(release_id=queued.pk)
    assert "RuntimeError" in caplog.text
    assert "Smith" not in caplog.text
