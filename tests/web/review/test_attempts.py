"""Attempts that fail: waited for, on record, and given back where the table was never opened."""

from datetime import timedelta
from pathlib import Path

import pytest
from django.db import transaction
from django.utils import timezone

from releases import services
from releases.engine.accounting.filters import Totals
from releases.engine.errors import Cancelled
from releases.ledger import entries, ledger, refusals
from releases.models import Attempt, Budget, EntryKind, Notice, Release, ReleaseState
from releases.publication import files
from releases.services import attempts, execution
from releases.worker import runner
from tests.web.steps import broken, execute, faults


@pytest.fixture(autouse=True)
def _waits(settings):
    settings.RETRY_SECONDS, settings.MAX_RETRY_SECONDS, settings.MAX_ATTEMPTS = 15, 900, 6


@pytest.fixture
def clock(monkeypatch):
    """The time, which only the test moves."""

    class Clock:
        now = timezone.now()

        def forward(self, seconds):
            self.now += timedelta(seconds=seconds)

    clock = Clock()
    monkeypatch.setattr("django.utils.timezone.now", lambda: clock.now)
    return clock


@pytest.fixture
def fail(monkeypatch):
    """One attempt fails when the table is open; when the next is due."""

    def attempt(release):
        with monkeypatch.context() as patched:
            patched.setattr(runner, "run", broken)
            assert not execute(release)
        release.refresh_from_db()
        return release.next_attempt_at

    return attempt


def full(*args, **kwargs):
    raise OSError(28, "No space left on device")


def table_of(release):
    return Path(files.settings.TABLES_DIR) / release.dataset.location


def kinds(release):
    return list(release.entries.order_by("sequence").values_list("kind", flat=True))


def until_it_ends(release, clock):
    """Attempts, each when it is due, until the release waits no more; the seconds between them."""
    waited = []
    while True:
        assert not execute(release)
        release.refresh_from_db()
        if release.next_attempt_at is None:
            return waited
        waited.append((release.next_attempt_at - clock.now).total_seconds())
        clock.now = release.next_attempt_at


def test_each_wait_is_four_times_the_last_up_to_a_cap_and_all_of_them_take_half_an_hour(queued, clock, monkeypatch):
    monkeypatch.setattr(runner, "run", broken)
    waited = until_it_ends(queued, clock)
    assert all(low <= each <= 1.25 * low for each, low in zip(waited, [15, 60, 240, 900, 900], strict=True))
    assert sum(waited) >= 30 * 60
    assert (queued.state, queued.attempts) == (ReleaseState.FAILED, 6)


def test_no_worker_takes_it_before_its_time_however_often_it_is_told(queued, clock, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(runner, "run", broken)
        assert not execute(queued)
    for seconds in (0, 1, 13):
        clock.forward(seconds)
        assert not execute(queued)
        assert Release.objects.get().attempts == 1
    clock.forward(5)
    assert execute(queued)


def test_an_attempt_of_which_there_is_no_record_may_have_opened_the_table(queued, clock):
    """As those of before there were records."""
    Release.objects.update(attempts=1)
    table_of(queued).unlink()
    until_it_ends(queued, clock)
    assert kinds(queued) == [EntryKind.CHARGE]


def test_that_it_is_opened_is_committed_before_it_is(queued, monkeypatch):
    seen, run = [], runner.run

    def looked_at(*args, **kwargs):
        # The record is no part of a transaction that is open still, but for the test's own.
        assert [each._from_testcase for each in transaction.get_connection().atomic_blocks] == [True]
        seen.append(Attempt.objects.get().opened_at is not None)
        return run(*args, **kwargs)

    monkeypatch.setattr(runner, "run", looked_at)
    assert execute(queued)
    assert seen == [True]


def test_a_record_that_cannot_be_written_leaves_the_table_unopened(queued, monkeypatch):
    monkeypatch.setattr(attempts, "about_to_open", broken)
    monkeypatch.setattr(runner, "run", lambda *_, **__: pytest.fail("the table was opened"))
    assert not execute(queued)
    assert Attempt.objects.get().opened_at is None


def test_a_worker_that_wakes_up_when_the_charge_is_given_back_opens_nothing(queued, clock, monkeypatch, settings):
    """It was about to open the table when its lease lapsed, and it was the last attempt."""
    settings.MAX_ATTEMPTS = 1
    remember = ledger.remember

    def asleep(budget):
        monkeypatch.setattr(ledger, "remember", remember)
        clock.forward(settings.LEASE_SECONDS + 1)
        assert services.execution.reconcile() == 1
        remember(budget)

    monkeypatch.setattr(ledger, "remember", asleep)
    monkeypatch.setattr(runner, "run", lambda *_, **__: pytest.fail("the table was opened"))
    assert not execute(queued)
    queued.refresh_from_db()
    assert (queued.state, kinds(queued)) == (ReleaseState.FAILED, [EntryKind.CHARGE, EntryKind.RETURN])
    with pytest.raises(Cancelled):
        attempts.about_to_open(queued.pk, Attempt.objects.get().token)
    assert Attempt.objects.get().opened_at is None


@pytest.mark.parametrize("state", [state for state in ReleaseState if state not in ("cancelled", "failed")])
def test_the_ledger_gives_nothing_back_of_a_release_that_has_not_ended(queued, alice, state):
    fields = {"result": {}} if state in ("published", "withdrawn") else {}
    Release.objects.change(state=state, **fields)
    with pytest.raises(refusals.LedgerRefusal, match="has not ended"), transaction.atomic():
        ledger.give_back(release=queued, actor=alice)
    assert kinds(queued) == [EntryKind.CHARGE]


def test_a_return_that_should_not_be_is_found(queued, clock):
    table_of(queued).unlink()
    until_it_ends(queued, clock)
    assert faults() == []
    (first, *_) = Attempt.objects.order_by("pk")
    Attempt.objects.filter(pk=first.pk).update(opened_at=timezone.now())
    assert [what for what in faults() if "may have opened" in what]
    Attempt.objects.update(opened_at=None)
    Release.objects.change(state=ReleaseState.PUBLISHED, result={})
    assert [what for what in faults() if "has not ended" in what]
    Release.objects.change(state=ReleaseState.FAILED, result=None)
    first.delete()
    assert [what for what in faults() if "may have opened" in what]


def test_a_return_of_more_than_was_charged_is_found(queued, alice, monkeypatch):
    monkeypatch.setattr(entries, "opposite", lambda charged: (-2 * charged.epsilon, 0, 0, 0))
    services.releases.cancel_release(release=queued, by=alice)
    monkeypatch.undo()
    assert [what for what in faults() if "does not give back what" in what]


@pytest.mark.parametrize(
    "change",
    [
        lambda plan: plan["planned"].update(events=[]),
        lambda plan: plan.update(version=0),
        lambda plan: plan.update(mechanism="withdrawn-mechanism"),
    ],
    ids=["planned otherwise", "of an old format", "a mechanism that is gone"],
)
def test_whatever_of_a_plan_cannot_be_made_again_is_asked_about(queued, change):
    plan = Release.objects.get().plan
    change(plan)
    Release.objects.change(plan=plan)
    assert not execute(queued)
    assert Release.objects.get().state == ReleaseState.CANCELLED
    assert kinds(queued) == [EntryKind.CHARGE, EntryKind.RETURN]
    assert faults() == []


@pytest.mark.parametrize("what", ["no table", "a full disc of the marks"])
def test_what_reads_nothing_to_the_end_gives_the_charge_back(queued, clock, monkeypatch, what):
    with monkeypatch.context() as patched:
        if what == "no table":
            table_of(queued).unlink()
        else:
            patched.setattr(ledger, "remember", full)
        until_it_ends(queued, clock)
    assert (queued.state, queued.attempts) == (ReleaseState.FAILED, 6)
    assert kinds(queued) == [EntryKind.CHARGE, EntryKind.RETURN]
    assert Budget.objects.get().totals == Totals()
    assert faults() == []
    error = "FileNotFoundError" if what == "no table" else "OSError"
    assert set(Attempt.objects.values_list("opened_at", "failure")) == {(None, error)}
    assert Notice.objects.filter(title__startswith="Failed: ", text__contains="the charge was given back").exists()
    assert not execute(queued)


def test_where_an_earlier_attempt_read_something_the_charge_stays(queued, clock, fail, monkeypatch):
    """Also where the same plan costs more than it did."""
    clock.now = fail(queued)
    price = execution.accountant.price
    monkeypatch.setattr(execution.accountant, "price", lambda events, **given: price([*events, *events], **given))
    until_it_ends(queued, clock)
    assert (queued.state, kinds(queued)) == (ReleaseState.FAILED, [EntryKind.CHARGE])
