"""Live sessions through their services: one charge, answers that survive anything, a secret that stays one."""

from __future__ import annotations

import pytest

from releases import services
from releases.models import Budget, SessionAnswer
from releases.worker import runner

pytestmark = pytest.mark.django_db

YOUNG_WOMEN = {"age": {"to": 35}, "sex": ["female"]}


def test_an_answer_is_stored_with_its_bound_and_charges_nothing_more(open_session, alice):
    session = open_session()
    before = Budget.objects.get().totals
    assert before.spent_epsilon == 5 * 10**12, "opening charges all that it can ever cost"
    answered = services.sessions.ask_session(session=session, query=YOUNG_WOMEN, by=alice)
    stored = SessionAnswer.objects.get()
    assert (stored.estimate, stored.half_width) == (answered.exchange.estimate, answered.exchange.half_width)
    assert stored.kind in ("from what is already public", "by a paid update")
    assert answered.questions_left == 49
    assert Budget.objects.get().totals == before


def test_the_same_question_in_other_words_is_the_same_answer(open_session, alice, bob):
    session = open_session()
    first = services.sessions.ask_session(session=session, query={"sex": ["female"]}, by=alice)
    same = {"age": {"from": 18, "to": 65}, "sex": ["female"]}
    again = services.sessions.ask_session(session=session, query=same, by=bob)
    assert again.exchange.kind.value == "asked before"
    assert again.exchange.estimate == first.exchange.estimate
    assert SessionAnswer.objects.count() == 1


def test_a_session_in_which_nothing_was_asked_is_not_published(open_session):
    with pytest.raises(services.release_inputs.Refusal, match="Nothing was asked"):
        services.session_closing.close_session(session=open_session())


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
