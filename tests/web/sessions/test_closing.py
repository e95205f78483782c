"""Closing a session: a worker's work, under a lease, once, without a charge, and never at the price of an answer."""

from datetime import timedelta

import pytest
from django.utils import timezone

from releases import services
from releases.engine.errors import EngineError
from releases.models import (
    AuditAction,
    AuditEvent,
    Budget,
    EntryKind,
    LedgerEntry,
    Notice,
    Release,
    ReleaseState,
    Session,
    SessionAnswer,
)
from releases.publication import files
from releases.services import execution, session_closing
from releases.worker import leases, runner
from tests.web.steps import broken, execute, faults

WOMEN, MEN = {"sex": ["female"]}, {"sex": ["male"]}


@pytest.fixture(autouse=True)
def sent(no_worker):
    """The releases that a worker was told of."""
    return no_worker


@pytest.fixture
def make_session(open_session, alice):
    """An open session in which how many women there are was asked."""

    def make(**options):
        session = open_session(**options)
        services.sessions.ask_session(session=session, query=WOMEN, by=alice)
        return session

    return make


@pytest.fixture
def session(make_session):
    return make_session()


@pytest.fixture
def being_closed(session, bob):
    services.session_closing.close_session(session=session, by=bob)
    return session


def state():
    return Release.objects.get().status


def lapse():
    Release.objects.update(lease_until=timezone.now() - timedelta(seconds=1))


def test_closing_touches_no_data_spends_nothing_and_is_not_held_up_by_a_frozen_budget(
    session, alice, close, monkeypatch
):
    services.budgets.freeze_budget(budget=Budget.objects.get(), reason="A complaint.")
    before = list(LedgerEntry.objects.values())
    totals = Budget.objects.get().totals
    monkeypatch.setattr(runner, "run", lambda *_, **__: pytest.fail("the data were touched"))
    release = close(session, by=alice)
    assert release.status is ReleaseState.PUBLISHED
    assert list(LedgerEntry.objects.values()) == before
    assert Budget.objects.get().totals == totals
    assert faults() == []


def test_a_worker_is_told_and_publishes_once_whoever_comes_twice(being_closed, sent):
    assert sent == [being_closed.pk]
    assert state() is ReleaseState.CLOSING
    assert [execute(being_closed) for _ in range(3)] == [True, False, False]
    folder = files.folder_of(Release.objects.get())
    assert state() is ReleaseState.PUBLISHED
    assert files.read_answers(folder).num_rows == 1
    assert (folder / "synthetic.csv").exists()
    assert Session.objects.get().closed_at is not None
    assert len(list(folder.parent.iterdir())) == 1


def test_no_question_slips_in_between_the_closing_and_what_is_published(session, alice, bob, monkeypatch):
    write, refused = files.write, []

    def ask_meanwhile(folder, **given):
        for query in (MEN, WOMEN):
            with pytest.raises(services.release_inputs.Refusal, match="closing; no more questions can be asked"):
                services.sessions.ask_session(session=session, query=query, by=alice)
            refused.append(query)
        return write(folder, **given)

    monkeypatch.setattr(files, "write", ask_meanwhile)
    services.session_closing.close_session(session=session, by=bob)
    assert execute(session)
    assert refused == [MEN, WOMEN]
    assert SessionAnswer.objects.count() == 1


def test_the_lock_of_an_answer_is_taken_before_the_state_is_read(session, alice, django_assert_max_num_queries):
    with django_assert_max_num_queries(40) as asked:
        services.session_closing.close_session(session=session, by=alice)
    statements = [each["sql"] for each in asked]
    reads = next(number for number, sql in enumerate(statements) if 'FROM "releases_session"' in sql)
    moves = next(number for number, sql in enumerate(statements) if sql.startswith('UPDATE "releases_release"'))
    assert reads < moves
    # The state is compared in the very statement that sets it.
    assert '"state" = ' in statements[moves].split("WHERE")[1]


def test_two_closings_at_once_are_one(being_closed, alice):
    with pytest.raises(services.release_inputs.Refusal, match="being closed already"):
        services.session_closing.close_session(session=being_closed, by=alice)
    assert AuditEvent.objects.filter(action=AuditAction.CLOSE).count() == 1
    assert execute(being_closed)
    with pytest.raises(services.release_inputs.Refusal, match="not open"):
        services.session_closing.close_session(session=being_closed, by=alice)
    with pytest.raises(services.release_inputs.Refusal):
        services.sessions.ask_session(session=being_closed, query=WOMEN, by=alice)


def test_nothing_gives_the_charge_of_a_session_back_while_it_closes(being_closed, alice):
    Release.objects.update(attempts=0)
    spent = Budget.objects.get().totals
    for verb in ("cancel_release", "withdraw_release", "discard_draft"):
        with pytest.raises(services.release_inputs.Refusal):
            getattr(services.releases, verb)(release=Release.objects.get(), by=alice)
    with pytest.raises(services.datasets.Kept, match="is being closed"):
        services.datasets.delete_rows(dataset=being_closed.release.dataset, by=alice)
    with pytest.raises(services.datasets.Kept):
        services.datasets.discard_dataset(dataset=being_closed.release.dataset, by=alice)
    assert state() is ReleaseState.CLOSING
    assert Budget.objects.get().totals == spent
    assert set(LedgerEntry.objects.values_list("kind", flat=True)) == {EntryKind.GRANT, EntryKind.CHARGE}


def test_a_killed_worker_s_closing_goes_to_the_next_and_nothing_of_the_first_is_seen(being_closed):
    first = session_closing.claim(being_closed.pk)
    assert first is not None
    assert session_closing.claim(being_closed.pk) is None
    assert not execute(being_closed)
    assert services.execution.reconcile() == 0
    lapse()
    assert services.execution.reconcile() == 1
    release = Release.objects.get()
    folder = files.folder_of(release) / "late"
    assert execute(being_closed)
    # The first wakes up when all is done: it publishes nothing over what is there.
    progress = leases.LeaseProgress(execution._held(being_closed.pk, first))
    with pytest.raises(EngineError, match="another worker"):
        session_closing.publish(release, first, folder, progress=progress)
    assert not session_closing.publish(release, first, folder, progress=lambda step, share: None)
    assert Release.objects.get().folder != f"{release.pk}/{first}"


def test_what_cannot_be_closed_is_open_again_after_the_last_attempt_and_nothing_is_lost(
    being_closed, alice, bob, monkeypatch, caplog, sent, settings
):
    spent, kept = Budget.objects.get().totals, list(SessionAnswer.objects.values())
    Notice.objects.all().delete()
    monkeypatch.setattr(files, "write", broken)
    for _ in range(settings.MAX_ATTEMPTS - 1):
        assert not execute(being_closed)
        assert state() is ReleaseState.CLOSING
        assert not Notice.objects.exists()
    assert sent == [being_closed.pk], "the round in which it is due sends it again"
    assert not execute(being_closed)
    assert state() is ReleaseState.OPEN
    assert not execute(being_closed)
    assert "Mrs Smith" not in caplog.text
    assert {each.person for each in Notice.objects.filter(title="Not closed: Ask away")} == {alice, bob}
    assert AuditEvent.objects.filter(action=AuditAction.FAIL).exists()
    assert (Budget.objects.get().totals, list(SessionAnswer.objects.values())) == (spent, kept)
    monkeypatch.undo()
    services.sessions.ask_session(session=being_closed, query=MEN, by=alice)
    services.session_closing.close_session(session=being_closed, by=alice)
    assert execute(being_closed)
    assert files.read_answers(files.folder_of(Release.objects.get())).num_rows == 2


def test_the_last_answer_uses_a_session_up_and_its_curator_is_told_once(make_session, alice, bob):
    session = make_session(questions=2)
    assert Session.objects.get().used_up_at is None
    services.sessions.ask_session(session=session, query=MEN, by=bob)
    assert Session.objects.get().used_up_at is not None
    services.sessions.ask_session(session=session, query=MEN, by=bob)
    with pytest.raises(EngineError):
        services.sessions.ask_session(session=session, query={"age": {"to": 25}}, by=bob)
    assert Notice.objects.get(title="Used up: Ask away").person == alice


def test_used_up_is_stored_with_the_answer_or_not_at_all(make_session, alice, monkeypatch):
    session = make_session(questions=2)
    monkeypatch.setattr("releases.notifications.messages.session_used_up", broken)
    with pytest.raises(RuntimeError):
        services.sessions.ask_session(session=session, query=MEN, by=alice)
    assert SessionAnswer.objects.count() == 1
    assert Session.objects.get().used_up_at is None


def test_killed_workers_one_after_the_other_leave_it_open_again(being_closed, settings):
    for _ in range(settings.MAX_ATTEMPTS):
        assert session_closing.claim(being_closed.pk)
        lapse()
        assert services.execution.reconcile() == 1
    assert state() is ReleaseState.OPEN
    assert services.execution.reconcile() == 0


def test_without_paid_updates_left_it_is_not_used_up_while_answers_have_a_bound(make_session, alice):
    session = make_session(updates=1)
    SessionAnswer.objects.update(kind="by a paid update", sign=1)
    Session.objects.update(total=1)
    session.refresh_from_db()
    services.sessions.ask_session(session=session, query=MEN, by=alice)
    assert Session.objects.get().used_up_at is None
