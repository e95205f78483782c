"""Live sessions through their services: one charge, answers that survive anything, a secret that stays one."""

from __future__ import annotations

import pytest

from releases import services
from releases.ledger import verification
from releases.models import Budget, LedgerEntry, ReleaseState, Session, SessionAnswer
from releases.publication import files
from releases.worker import runner

pytestmark = pytest.mark.django_db


YOUNG_WOMEN = {"age": {"to": 35}, "sex": ["female"]}


def test_opening_charges_all_that_the_session_can_ever_cost(open_session):
    session = open_session()
    assert session.release.status is ReleaseState.OPEN
    assert LedgerEntry.objects.filter(kind="charge").count() == 1
    spent = Budget.objects.get().spent_epsilon
    assert spent == 5 * 10**12


def test_an_answer_is_stored_with_its_bound_and_charges_nothing_more(open_session, alice):
    session = open_session()
    before = Budget.objects.get().totals
    answered = services.sessions.ask_session(session=session, query=YOUNG_WOMEN, by=alice)
    stored = SessionAnswer.objects.get()
    assert (stored.estimate, stored.half_width) == (answered.exchange.estimate, answered.exchange.half_width)
    assert stored.kind in ("from what is already public", "by a paid update")
    assert answered.questions_left == 49
    assert Budget.objects.get().totals == before


def test_the_same_question_in_other_words_is_the_same_answer(open_session, alice, bob):
    session = open_session()
    first = services.sessions.ask_session(session=session, query={"sex": ["female"]}, by=alice)
    again = services.sessions.ask_session(
        session=session, query={"age": {"from": 18, "to": 65}, "sex": ["female"]}, by=bob
    )
    assert again.exchange.kind.value == "asked before"
    assert again.exchange.estimate == first.exchange.estimate
    assert SessionAnswer.objects.count() == 1


def test_a_crash_between_answer_and_storage_loses_the_answer_and_nothing_else(open_session, alice, monkeypatch):
    session = open_session()
    services.sessions.ask_session(session=session, query={"sex": ["male"]}, by=alice)
    threshold = Session.objects.get().noisy_threshold

    def crash(**fields):
        raise RuntimeError("the disc is full")

    monkeypatch.setattr(SessionAnswer.objects, "create", crash)
    with pytest.raises(RuntimeError):
        services.sessions.ask_session(session=session, query=YOUNG_WOMEN, by=alice)
    monkeypatch.undo()
    assert SessionAnswer.objects.count() == 1
    assert Session.objects.get().noisy_threshold == threshold
    assert services.sessions.ask_session(session=session, query=YOUNG_WOMEN, by=alice).questions_left == 48


def test_a_closed_session_is_a_published_release_of_what_was_asked(open_session, alice, close):
    session = open_session()
    for query in (YOUNG_WOMEN, {"sex": ["male"]}, {"age": {"from": 45}}):
        services.sessions.ask_session(session=session, query=query, by=alice)
    release = close(session)
    assert release.status is ReleaseState.PUBLISHED
    table = files.read_answers(files.folder_of(release))
    assert table.num_rows == 3
    assert (files.folder_of(release) / "synthetic.csv").exists()
    assert release.result["receipt"]["mechanism"]["name"] == "pmw-online"
    assert list(verification.verify(Budget.objects.get())) == []
    with pytest.raises(services.release_inputs.Refusal):
        services.sessions.ask_session(session=session, query={"sex": ["female"]}, by=alice)
    with pytest.raises(services.release_inputs.Refusal):
        services.session_closing.close_session(session=session)


def test_a_session_in_which_nothing_was_asked_is_not_published(open_session):
    with pytest.raises(services.release_inputs.Refusal, match="Nothing was asked"):
        services.session_closing.close_session(session=open_session())


def test_the_secret_threshold_is_in_no_published_file_and_in_no_receipt(open_session, alice, close):
    session = open_session()
    Session.objects.update(noisy_threshold=123_456_789_987)
    session.refresh_from_db()
    services.sessions.ask_session(session=session, query=YOUNG_WOMEN, by=alice)
    release = close(session)
    for path in files.folder_of(release).iterdir():
        assert b"123456789987" not in path.read_bytes()
    assert "123456789987" not in str(release.result) + str(release.plan)


def test_a_table_that_cannot_be_read_answers_nothing_and_no_log_holds_what_it_said(
    open_session, alice, monkeypatch, caplog
):
    session = open_session()

    def unreadable(*_, **__):
        raise OSError("SECRET-ROW-VALUE")

    monkeypatch.setattr(runner, "run", unreadable)
    refused = 0
    for query in (YOUNG_WOMEN, {"sex": ["male"]}, {"age": {"to": 25}}):
        try:
            services.sessions.ask_session(session=session, query=query, by=alice)
        except services.release_inputs.Refusal as error:
            refused += "Nothing was answered and nothing is used up" in str(error)
    assert refused
    assert "SECRET-ROW-VALUE" not in caplog.text
    assert "a question of session" in caplog.text
    assert SessionAnswer.objects.count() + refused == 3
