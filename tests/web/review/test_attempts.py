"""Attempts that fail: waited for, on record, and given back where the table was never opened."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from django.db import transaction
from django.urls import reverse
from django.utils import timezone

from releases import services
from releases.engine.errors import Cancelled
from releases.ledger import entries, ledger, refusals
from releases.models import Attempt, AuditEvent, Budget, EntryKind, Notice, Release, ReleaseState, Session, Upload
from releases.publication import files
from releases.services import attempts, execution, session_closing, uploads
from releases.worker import leases, runner
from tests.web.pages import words
from tests.web.steps import execute, faults, submit

pytestmark = pytest.mark.django_db

FIRST_WAIT, MAX_WAIT = 15, 900
AFTER_FIRST_WAIT = 1.25 * FIRST_WAIT + 1


@pytest.fixture(autouse=True)
def _waits(settings):
    settings.RETRY_SECONDS, settings.MAX_RETRY_SECONDS, settings.MAX_ATTEMPTS = FIRST_WAIT, MAX_WAIT, 6


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
def sent(monkeypatch):
    """Messages to workers: each is a release's identifier."""
    said = []
    for module in ("releases", "execution", "session_closing"):
        monkeypatch.setattr(f"releases.services.{module}.enqueue", said.append)
    return said


def broken(*args, **kwargs):
    raise RuntimeError("a row says: Mrs Smith, 43")


@pytest.fixture
def fail(monkeypatch):
    """One attempt fails when the table is open; when the next is due."""

    def attempt(release, error=broken):
        with monkeypatch.context() as patched:
            patched.setattr(runner, "run", error)
            assert not execute(release)
        release.refresh_from_db()
        return release.next_attempt_at

    return attempt


def full(*args, **kwargs):
    raise OSError(28, "No space left on device")


def make_session(dataset, alice):
    live = services.sessions.draft_session(dataset=dataset, by=alice, title="Ask", epsilon="1")
    submit(live, alice)
    return live


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


def test_what_failed_together_does_not_come_back_together():
    assert len({leases.wait_after(1) for _ in range(20)}) > 10


def test_no_worker_takes_it_before_its_time_however_often_it_is_told(queued, clock, fail):
    fail(queued)
    for seconds in (0, 1, 13):
        clock.forward(seconds)
        assert not execute(queued)
        assert Release.objects.get().attempts == 1
    clock.forward(5)
    assert execute(queued)


def test_the_message_is_sent_by_the_round_in_which_it_is_due_and_by_none_before(queued, clock, sent, fail):
    fail(queued)
    assert services.execution.reconcile() == 0
    clock.forward(14)
    assert services.execution.reconcile() == 0
    assert sent == []
    clock.forward(6)
    assert services.execution.reconcile() == 1
    assert sent == [queued.pk]


def test_a_killed_worker_s_release_waits_too_and_goes_to_the_next(queued, clock, sent, settings):
    assert execution._claim(queued.pk)
    clock.forward(settings.LEASE_SECONDS + 1)
    assert services.execution.reconcile() == 1
    assert not execute(queued)
    clock.forward(AFTER_FIRST_WAIT)
    assert services.execution.reconcile() == 1
    assert sent == [queued.pk]
    assert execute(queued)
    assert [each.failure for each in Attempt.objects.order_by("pk")] == ["lost", ""]


def test_the_wait_is_the_same_whatever_the_table_holds_and_whatever_went_wrong(
    make_dataset, make_queued, clock, fail, monkeypatch
):
    """Chance alone, and the number of attempts, decide how long it is."""
    monkeypatch.setattr("secrets.SystemRandom.random", lambda self: 0.5)
    waits = []
    for content, error in ((b"age,sex\n30,male\n", broken), (b"age,sex\n" + b"31,male\n" * 999, full)):
        waits.append(fail(make_queued(make_dataset(content=content)), error) - clock.now)
    assert waits[0] == waits[1] == timedelta(seconds=15 * 1.125)


def test_a_closing_waits_between_its_attempts(dataset, alice, clock, sent, monkeypatch):
    live = make_session(dataset, alice)
    assert execute(live)
    session = Session.objects.get()
    services.sessions.ask_session(session=session, query={"sex": ["male"]}, by=alice)
    services.session_closing.close_session(session=session, by=alice)
    sent.clear()
    with monkeypatch.context() as patched:
        patched.setattr(files, "write", broken)
        assert not execute(live)
    assert session_closing.claim(live.pk) is None
    assert services.execution.reconcile() == 0
    clock.forward(AFTER_FIRST_WAIT)
    assert services.execution.reconcile() == 1
    assert sent == [live.pk]
    assert execute(live)


def test_an_upload_waits_between_its_attempts(alice, upload_file, clock, monkeypatch):
    received = services.uploads.receive_upload(owner=alice, title="Survey", source=upload_file())
    with monkeypatch.context() as patched:
        patched.setattr(uploads, "read_table", broken)
        assert not services.uploads.execute_upload(upload_id=received.pk)
    assert not services.uploads.execute_upload(upload_id=received.pk)
    upload = Upload.objects.get()
    assert (upload.state, upload.attempts) == ("waiting", 1)
    assert "It is waiting to try again at" in upload.meaning
    assert services.uploads.reconcile_uploads() == 0
    clock.forward(AFTER_FIRST_WAIT)
    assert services.uploads.reconcile_uploads() == 1
    assert services.uploads.execute_upload(upload_id=received.pk)


def test_a_table_that_is_away_for_a_while_burns_nothing_and_is_published_later(
    make_dataset, make_queued, clock, sent, caplog
):
    dataset = make_dataset(epsilon="8")
    releases = [make_queued(dataset, epsilon="1") for _ in range(8)]
    path = table_of(releases[0])
    away = path.with_name("elsewhere")
    path.rename(away)
    for _ in range(20):
        for release in releases:
            assert not execute(release)
    assert set(Release.objects.values_list("state", "attempts")) == {("queued", 1)}
    assert "FileNotFoundError" in caplog.text
    away.rename(path)
    clock.forward(AFTER_FIRST_WAIT)
    assert services.execution.reconcile() == 8
    for release in releases:
        assert execute(release)
        assert kinds(release) == [EntryKind.CHARGE]


def test_one_attempt_that_opened_the_table_keeps_the_charge(queued, clock, fail):
    clock.now = fail(queued)
    table_of(queued).unlink()
    until_it_ends(queued, clock)
    assert (queued.state, kinds(queued)) == (ReleaseState.FAILED, [EntryKind.CHARGE])
    assert "the charge stays" in queued.meaning
    # Of the attempt that opened it not even the kind of error is kept.
    assert [each.failure for each in Attempt.objects.order_by("pk")] == ["failed", *["FileNotFoundError"] * 5]
    assert faults() == []


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


def test_the_ledger_gives_nothing_back_of_what_may_have_been_read(queued, alice):
    token = execution._claim(queued.pk)
    attempts.about_to_open(queued.pk, token)
    Release.objects.update(state=ReleaseState.FAILED, run_token=None)
    with pytest.raises(refusals.LedgerRefusal, match="may have opened"), transaction.atomic():
        ledger.give_back(release=queued, actor=alice)


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
        lambda plan: plan.update(options={"an option of old": "1"}),
        lambda plan: plan.update(mechanism="withdrawn-mechanism"),
    ],
    ids=["planned otherwise", "of an old format", "an option that is gone", "a mechanism that is gone"],
)
def test_whatever_of_a_plan_cannot_be_made_again_is_asked_about(queued, change):
    plan = Release.objects.get().plan
    change(plan)
    Release.objects.change(plan=plan)
    assert not execute(queued)
    assert Release.objects.get().state == ReleaseState.CANCELLED
    assert kinds(queued) == [EntryKind.CHARGE, EntryKind.RETURN]
    assert faults() == []


def test_where_an_earlier_attempt_read_something_the_charge_stays(queued, clock, fail, monkeypatch):
    """Also where the same plan costs more than it did."""
    clock.now = fail(queued)
    price = execution.accountant.price
    monkeypatch.setattr(execution.accountant, "price", lambda events, **given: price([*events, *events], **given))
    until_it_ends(queued, clock)
    assert (queued.state, kinds(queued)) == (ReleaseState.FAILED, [EntryKind.CHARGE])


def test_neither_page_nor_log_tells_when_an_attempt_failed_or_anything_of_the_error(
    queued, as_, alice, clock, monkeypatch, caplog
):
    monkeypatch.setattr(runner, "run", broken)
    clock.now = datetime(2030, 5, 1, 14, 3, 50, tzinfo=timezone.get_default_timezone())
    with caplog.at_level(logging.DEBUG):
        execute(queued)
        # A browser signs in by the real time, so this is looked at without one.
        queued.refresh_from_db()
        assert "14:0" not in queued.meaning
        with pytest.raises(services.release_inputs.Refusal, match="the charge stays"):
            services.releases.cancel_release(release=queued, by=alice)
        until_it_ends(queued, clock)
    assert (queued.state, kinds(queued)) == (ReleaseState.FAILED, [EntryKind.CHARGE])
    monkeypatch.undo()
    page = words(as_(alice).get(reverse("release_detail", args=[queued.pk])))
    stored = [str(each) for each in (*Attempt.objects.values(), *Notice.objects.values(), *AuditEvent.objects.values())]
    for told in (page, caplog.text, *stored):
        assert "Smith" not in told
    assert "14:0" not in page
    assert "RuntimeError" not in page


@pytest.mark.parametrize("what", ["a release", "a session", "a full disc of the marks"])
def test_what_reads_nothing_to_the_end_gives_the_charge_back(queued, dataset, alice, clock, monkeypatch, what):
    release = make_session(dataset, alice) if what == "a session" else queued
    before = Budget.objects.get().totals
    with monkeypatch.context() as patched:
        if what == "a full disc of the marks":
            patched.setattr(ledger, "remember", full)
        else:
            table_of(release).unlink()
        until_it_ends(release, clock)
    assert (release.state, release.attempts) == (ReleaseState.FAILED, 6)
    assert kinds(release) == [EntryKind.CHARGE, EntryKind.RETURN]
    budget = Budget.objects.get()
    assert before.spent_epsilon - budget.totals.spent_epsilon == 10**12
    assert faults() == []
    error = "OSError" if what == "a full disc of the marks" else "FileNotFoundError"
    assert set(Attempt.objects.values_list("opened_at", "failure")) == {(None, error)}
    assert Notice.objects.filter(title__startswith="Failed: ", text__contains="the charge was given back").exists()
    assert not execute(release)


def test_one_that_waits_and_read_nothing_can_be_cancelled(queued, alice):
    table_of(queued).unlink()
    execute(queued)
    queued.refresh_from_db()
    services.releases.cancel_release(release=queued, by=alice)
    assert kinds(queued) == [EntryKind.CHARGE, EntryKind.RETURN]
    assert faults() == []
