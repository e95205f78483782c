"""Running a charged release, step by step in one process: nothing before the charge, once, and never given back."""

import logging
import uuid

import pytest
import yaml

from releases.models import Attempt, AuditEvent, EntryKind, LedgerEntry, Notice, Release, ReleaseState, Searchable
from releases.services import execution
from releases.worker import runner
from tests.stack import ROOT
from tests.web.steps import again, broken, execute, submit

pytestmark = pytest.mark.usefixtures("no_worker")


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


def charges(release):
    return sorted(release.dataset.budget.entries.exclude(kind=EntryKind.GRANT).values_list("kind", flat=True))


def test_no_data_are_touched_before_the_charge_is_booked(draft, alice, touched):
    submit(draft, alice)
    draft.refresh_from_db()
    assert (draft.state, draft.attempts, touched) == (ReleaseState.QUEUED, 0, [])
    assert execute(draft)
    assert touched == [1]


def test_a_release_without_a_charge_is_not_run(queued, touched, monkeypatch):
    monkeypatch.setattr(LedgerEntry.objects, "get", lambda **given: LedgerEntry.objects.none().get())
    assert not execute(queued)
    assert touched == []


def test_a_plan_that_costs_more_than_was_charged_is_not_run(queued, touched, monkeypatch):
    price = execution.accountant.price
    monkeypatch.setattr(execution.accountant, "price", lambda events, **given: price([*events, *events], **given))
    assert not execute(queued)
    queued.refresh_from_db()
    assert (queued.state, queued.result, queued.attempts, touched) == (ReleaseState.CANCELLED, None, 1, [])
    assert charges(queued) == [EntryKind.CHARGE, EntryKind.RETURN]
    assert Attempt.objects.get().opened_at is None
    assert "compare again" in Notice.objects.get(title="Cancelled: Release 1").text
    assert AuditEvent.objects.get(action="cancel").actor is None


def test_a_release_runs_once_however_often_it_is_delivered(queued, touched):
    assert [execute(queued) for _ in range(3)] == [True, False, False]
    first = again(queued)
    execute(queued)
    assert again(queued).result == first.result
    assert (first.attempts, touched, charges(queued)) == (1, [1], [EntryKind.CHARGE])


def test_a_worker_that_lost_its_lease_publishes_nothing_while_another_runs(queued, monkeypatch):
    """The other one's run is still going on when the late one has its result."""
    run, other = runner.run, uuid.uuid4()

    def slow(*args, **kwargs):
        result = run(*args, **kwargs)
        Release.objects.filter(pk=queued.pk).update(run_token=other)
        return result

    monkeypatch.setattr(runner, "run", slow)
    assert not execute(queued)
    assert (again(queued).state, again(queued).run_token, again(queued).result) == (ReleaseState.RUNNING, other, None)


def test_a_release_and_the_words_it_is_found_by_are_published_together_or_not_at_all(queued, monkeypatch):
    with monkeypatch.context() as broken_off:
        broken_off.setattr(Searchable.objects, "create", broken)
        assert not execute(queued)
    assert (Release.objects.get().state, Release.objects.get().result) == (ReleaseState.QUEUED, None)
    assert execute(queued)
    assert "female" in Searchable.objects.get(release=queued).text.splitlines()


def test_a_failure_is_logged_without_what_the_exception_says(queued, monkeypatch, caplog):
    monkeypatch.setattr(runner, "run", broken)
    with caplog.at_level(logging.DEBUG):
        execute(queued)
    assert "RuntimeError" in caplog.text
    assert "Smith" not in caplog.text


def test_the_compose_file_has_a_worker_for_each():
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    commands = {name: each.get("command", []) for name, each in services.items()}
    told = {name: command[command.index("--queues") + 1] for name, command in commands.items() if "worker" in command}
    assert sorted(told.values()) == ["releases", "uploads"]
