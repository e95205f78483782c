"""The ways in which a session answers: from a histogram that it bought, and each answer at a price agreed to."""

import re

import pytest

from releases import services
from releases.engine.mechanisms.live.noise import PARTS
from releases.engine.mechanisms.live.ways import BEGUN, WAYS
from releases.models import Budget, SessionCells
from releases.services import reading, session_state
from releases.services.known_answers import known_in_session
from tests.web.pages import body, link, words
from tests.web.sessions.conftest import FEMALE, live_of, page_of, replayed, rows_where

YOUNG_WOMEN = {"from.age": "18", "to.age": "35", "in.sex": ["female"]}


def test_where_no_way_is_chosen_the_closest_is(make_dataset, alice):
    dataset = make_dataset(epsilon="20")
    given = {"dataset": dataset, "by": alice, "title": "", "epsilon": "1"}
    chosen = services.sessions.draft_session(**given)
    bounds = {
        way: services.releases.plan_of(release=services.sessions.draft_session(**given, way=way)).expectation.alpha
        for way in ("noise-online", "histogram-online", "pmw-online")
    }
    assert bounds[chosen.mechanism] == min(bounds.values())


def test_a_bought_histogram_answers_from_what_is_stored_and_never_reads_the_table(
    open_session, alice, untouched, close, as_
):
    session = open_session(way="histogram-online")
    untouched()
    spent = Budget.objects.get().totals
    queries = [FEMALE, {"age": {"to": 35}}, {"age": {"to": 35}, "sex": ["male"]}]
    first = [services.sessions.ask_session(session=session, query=each, by=alice) for each in queries]
    truth = rows_where(lambda row: row["sex"] == "female")
    assert abs(first[0].exchange.estimate - truth) <= first[0].exchange.half_width
    assert first[0].questions_left is None
    live = replayed(session)
    assert [live.estimate(each.exchange.query) for each in first] == [each.exchange.estimate for each in first]
    assert SessionCells.objects.get().session == session
    shown = as_(alice).get(page_of(session), {"answer": 3})
    assert live_of(shown).questions == "no limit"
    assert live_of(shown).updates == ""
    assert "bought when the session was opened" in words(shown)
    assert Budget.objects.get().totals == spent
    release = close(session)
    assert len(release.result["receipt"]["workload"]["queries"]) == 3


def test_an_error_that_is_typed_is_priced_first_and_costs_only_when_it_is_agreed_to(
    open_session, as_, alice, untouched, monkeypatch
):
    session, client = open_session(way="noise-online", questions=20), as_(alice)
    with monkeypatch.context() as patched:
        patched.setattr(reading, "count", None)
        offered = client.post(page_of(session), YOUNG_WOMEN | {"within": "60"})
    offer = live_of(offered).offer
    assert offer.margin.startswith("60 ")
    assert (offer.left, session.answers.count()) == ("100%", 0)
    assert float(offer.takes.rstrip("%")) < 100 / 20
    agreed = {"query": offer.query, "within": offer.within, "anyway": "1", "agreed": "1"}
    answered = client.post(page_of(session), agreed, follow=True)
    stored = session.answers.get()
    assert stored.half_width == 60
    assert float(offer.takes.rstrip("%")) == pytest.approx(100 * stored.parts / PARTS, abs=0.001)
    assert live_of(answered).answer.margin.startswith("60 ")
    assert live_of(answered).share != "100%"
    untouched()
    # As close as what there is: nothing is offered and nothing is taken.
    client.post(page_of(session), YOUNG_WOMEN | {"within": "70"}, follow=True)
    assert session.answers.get() == stored


def test_what_is_closer_than_is_left_is_refused_and_stays_typed(open_session, as_, alice, untouched):
    session, client = open_session(way="noise-online", questions=20, epsilon="0.5"), as_(alice)
    closest = replayed(session).rules.half_width_of(PARTS)
    services.sessions.ask_session(session=session, query=FEMALE, by=alice, within=closest + 1)
    session_state.forget()
    untouched()
    for within, said in (("1", f"must be at least {closest}"), (str(closest + 1), "must be larger")):
        refused = client.post(page_of(session), YOUNG_WOMEN | {"within": within})
        assert refused.status_code == 400
        assert said in live_of(refused).problem
        assert f'name="within" inputmode="numeric" value="{within}"' in " ".join(body(refused).split())
    wrong = client.post(page_of(session), YOUNG_WOMEN | {"within": "1.5"})
    assert (wrong.status_code, live_of(wrong).problem) == (
        400,
        "Error you can accept: must be a whole number, such as 50, in digits alone.",
    )
    assert session.answers.count() == 1


def test_a_closer_answer_to_the_same_question_is_another_and_the_closest_is_published(open_session, alice, close):
    session = open_session(way="noise-online", questions=20)
    for within in (200, 40, 100):
        services.sessions.ask_session(session=session, query=FEMALE, by=alice, within=within)
    assert [each.half_width for each in session.answers.order_by("sequence")] == [200, 40]
    receipt = close(session).result["receipt"]
    assert receipt["bound"]["half_widths"] == [40]


def test_a_finished_release_counts_where_it_is_within_the_error_that_was_asked_for(
    open_session, make_draft, carry_out, alice
):
    session = open_session(way="noise-online", questions=2, budget="40", epsilon="1")
    carry_out(make_draft(session.release.dataset, {"marginal": ["age", "sex"]}, epsilon="1"))
    plan = services.sessions.plan_of_session(session)
    asked = {"session": session, "plan": plan, "person": alice}
    known = known_in_session(FEMALE, **asked, within=1000)
    assert known.half_width < 1000
    assert known_in_session(FEMALE, **asked, within=1) is None


def test_programs_choose_the_way_and_the_error(make_dataset, program, as_, alice):
    session, post = program.begin(
        make_dataset(epsilon="20"), epsilon="2", way="noise-online", options={"questions": 10}
    )
    answer = post(query=FEMALE, within=90).json()
    assert answer["half_width"] == 90
    assert answer["answered"] == "by noise of its own"
    share = as_(alice).get(f"/api/sessions/{session.pk}").json()["share_left"]
    assert float(share) == 1 - session.answers.get().parts / PARTS


@pytest.mark.parametrize(("typed", "opened"), [({}, None), ({"beta": "0.05"}, None), ({"beta": "0.1"}, " open")])
def test_what_few_people_change_is_folded_until_somebody_has_changed_it(dataset, as_, alice, typed, opened):
    asked = {"epsilon": "1", "delta": "0", "questions": "10", "population": "100", **typed} if typed else {}
    page = body(as_(alice).get(link("new_session", dataset), asked))
    assert re.search(r"<details( open)?>\s*<summary>Delta, confidence and method", page)[1] == opened


@pytest.mark.parametrize("way", [*WAYS, *BEGUN])
def test_a_session_of_any_way_says_that_it_is_not_known_how_many_rows_are_left_out(open_session, as_, alice, way):
    listed = {"version": 1, "queries": [{"marginal": ["sex"]}]} if way in BEGUN else None
    page = as_(alice).get(page_of(open_session(way=way, listed=listed, questions=5)))
    assert "How many rows are left out is not known." in words(page).partition("Which rows are counted")[0]
