"""A question reads only what it has not seen of the transcript, and goes on exactly as a replay would."""

import copy
import uuid

import numpy as np
import pytest

from releases import services
from releases.ledger import high_water_marks
from releases.models import Session, SessionAnswer
from releases.services import session_state
from releases.services.sessions import plan_of_session

ASKED = (
    {"sex": ["male"]},
    {"age": {"to": 35}},
    {"age": {"from": 45}},
    {"age": {"to": 35}, "sex": ["female"]},
    {"age": {"from": 25}, "sex": ["male"]},
    {"age": {"from": 55}},
)


@pytest.fixture(autouse=True)
def _nothing_kept():
    session_state.forget()
    yield
    session_state.forget()


@pytest.fixture
def session(open_session):
    return open_session(budget="100", epsilon="90", updates=6)


@pytest.fixture
def ask(session, alice, django_capture_on_commit_callbacks):
    def committed(query):
        with django_capture_on_commit_callbacks(execute=True):
            return services.sessions.ask_session(session=session, query=query, by=alice)

    return committed


def taken(session):
    """The state that the next question would go on from, and that of a replay."""
    session.refresh_from_db()
    plan = plan_of_session(session)
    return session_state.take(session, plan), session_state.replay(session, plan)


def same(one, other):
    assert np.array_equal(one.distribution(), other.distribution())
    assert one.exchanges == other.exchanges
    assert (one.updates_left, one.questions_left) == (other.updates_left, other.questions_left)
    assert one.noisy_threshold == other.noisy_threshold


def pay():
    """Have the next question answered by a paid update, which moves the state."""
    Session.objects.update(noisy_threshold=-(10**9))


def test_a_kept_state_is_to_the_last_bit_that_of_a_replay(session, ask):
    for query in ASKED:
        pay()
        ask(query)
    assert SessionAnswer.objects.filter(kind="by a paid update").count() == len(ASKED)
    same(*taken(session))


def test_a_process_that_missed_answers_reads_them(session, ask):
    ask(ASKED[0])
    ask(ASKED[1])
    # Two questions answered by another process.
    ours = copy.deepcopy(dict(session_state._kept))
    pay()
    ask(ASKED[2])
    ask(ASKED[3])
    session_state._kept.clear()
    session_state._kept.update(ours)
    ask(ASKED[4])
    same(*taken(session))


def test_a_state_that_saw_an_answer_that_is_no_longer_stored_is_not_gone_on_with(session, ask, monkeypatch):
    # What is remembered outside the database would refuse such a question first.
    monkeypatch.setattr("releases.ledger.stale_ledger.refusal", lambda *_, **__: "")
    for query in ASKED[:3]:
        ask(query)
    # A restored backup without the last answer, and another one answered since.
    kept = copy.deepcopy(dict(session_state._kept))
    SessionAnswer.objects.filter(sequence=3).delete()
    session_state.forget()
    ask(ASKED[4])
    session_state._kept.clear()
    session_state._kept.update(kept)
    ask(ASKED[5])
    same(*taken(session))
    kept = copy.deepcopy(dict(session_state._kept))
    SessionAnswer.objects.all().delete()
    session_state._kept.update(kept)
    live, replayed = taken(session)
    assert live.exchanges == []
    same(live, replayed)


@pytest.mark.parametrize(("of", "step"), [(SessionAnswer.objects, "create"), (high_water_marks, "note_answer")])
def test_a_question_whose_answer_was_not_stored_leaves_no_state_and_is_not_counted_again(
    session, ask, monkeypatch, of, step
):
    """Whether it cannot be stored, or is rolled back by the last thing before the commit."""
    ask(ASKED[0])
    threshold = Session.objects.get().noisy_threshold
    with monkeypatch.context() as patched:
        patched.setattr(of, step, lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            ask(ASKED[1])
    assert not session_state._kept
    assert (SessionAnswer.objects.count(), Session.objects.get().noisy_threshold) == (1, threshold)
    same(*taken(session))
    monkeypatch.setattr(services.reading, "count", lambda *_, **__: pytest.fail("it was counted again"))
    for query in (ASKED[1], ASKED[2]):
        with pytest.raises(services.sessions.Unanswered):
            ask(query)


def test_the_threshold_is_that_of_the_database_and_is_not_kept(session, ask):
    ask(ASKED[0])
    (kept,) = session_state._kept.values()
    assert kept.live.noisy_threshold == 0
    Session.objects.update(noisy_threshold=123_456)
    assert taken(session)[0].noisy_threshold == 123_456
    session.refresh_from_db()
    ask(ASKED[1])
    assert Session.objects.get().noisy_threshold != 0


def test_a_session_opened_with_another_total_is_replayed(session, ask):
    ask(ASKED[0])
    Session.objects.update(total=150)
    same(*taken(session))


def test_states_of_too_many_cells_are_forgotten_the_oldest_first(session, ask, monkeypatch):
    ask(ASKED[0])
    monkeypatch.setattr(session_state, "MAX_KEPT_CELLS", 1)
    ask(ASKED[1])
    assert not session_state._kept
    size = plan_of_session(session).schema.universe.size
    monkeypatch.setattr(session_state, "MAX_KEPT_CELLS", 2 * size)
    ask(ASKED[2])
    (kept,) = session_state._kept.values()
    others = [uuid.uuid4(), uuid.uuid4()]
    for number in others:
        session_state._keep(number, copy.deepcopy(kept))
    assert list(session_state._kept) == others


def test_a_state_is_not_replaced_by_an_older_one(session, ask):
    ask(ASKED[0])
    older = copy.deepcopy(session_state._kept[session.pk])
    ask(ASKED[1])
    session_state._keep(session.pk, older)
    assert session_state._kept[session.pk].head.sequence == 2
