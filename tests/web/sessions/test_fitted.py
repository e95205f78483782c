"""Sessions that buy a fit: planned on the page and by programs, opened once over crashes, asked and closed."""

import csv
import json

import pytest
from django.urls import reverse

from releases import services
from releases.engine.mechanisms.live.noise import PARTS
from releases.engine.workload.queries import read_count
from releases.models import Audience, Budget, LedgerEntry, Release, ReleaseState, Session, SessionCells
from releases.publication import files
from releases.services import session_state
from releases.services.known_answers import known_answer, known_in_session
from releases.views.sessions.sessions import address_of_session
from tests.web.pages import body, words
from tests.web.sessions.test_listed import (
    FEMALE,
    PAIR,
    ROWS,
    SINGLES,
    YOUNG_WOMEN,
    live_of,
    page_of,
    rows_where,
    untouched,
)
from tests.web.sessions.test_sessions import PLAN

__all__ = ["untouched"]
WAY = "fitted-online"


@pytest.fixture
def session(open_session):
    return open_session(way=WAY, listed=SINGLES, questions=5, epsilon="10")


def test_a_fit_is_planned_kept_and_planned_again_and_says_what_is_not_known_yet(make_dataset, as_, alice):
    client, dataset = as_(alice), make_dataset(epsilon="20")
    client.post(
        reverse("new_session", args=[dataset.pk]), PLAN | {"way": WAY, "listed": "1", "start": "70", "questions": "3"}
    )
    draft = Release.objects.get()
    assert draft.mechanism == WAY
    assert services.releases.plan_of(release=draft).options["start"] == 70
    again = client.get(address_of_session(draft))
    assert f'value="{WAY}" selected' in body(again)
    assert "what is measured when the session opens" in words(again)
    way = next(each for each in again.context["ways"] if each.is_planned)
    assert way.one == "depends on the table"


def test_what_was_bought_is_stored_answers_in_any_process_and_takes_nothing(session, alice, untouched, as_):
    untouched()
    spent = Budget.objects.get().totals
    queries = [FEMALE, {"age": {"to": 35}}, {"sex": ["male"]}]
    first = [services.sessions.ask_session(session=session, query=each, by=alice, within=10**6) for each in queries]
    truth = rows_where(lambda row: row["sex"] == "female")
    assert abs(first[0].exchange.estimate - truth) <= first[0].exchange.half_width < len(ROWS)
    assert [each.exchange.parts for each in first] == [0, 0, 0]
    session_state.forget()
    live = session_state.replay(session, services.sessions.plan_of_session(session))
    assert [live.start.estimate(each.exchange.query, live.bought) for each in first] == [
        each.exchange.estimate for each in first
    ]
    shown = as_(alice).get(page_of(session), {"answer": 2})
    assert live_of(shown).share == "100%"
    assert "Added up from the fit" in words(shown)
    assert Budget.objects.get().totals == spent


def test_an_error_that_the_fit_keeps_costs_nothing_and_another_is_agreed_to_first(session, as_, alice, untouched):
    plan = services.sessions.plan_of_session(session)
    known = int(min(session_state.replay(session, plan).bought[-2:]))
    untouched()
    client, address = as_(alice), page_of(session)
    client.post(address, {"query": json.dumps(FEMALE), "within": str(known)}, follow=True)
    assert (session.answers.get().parts, session.answers.get().half_width) == (0, known)
    offered = client.post(address, {"query": json.dumps(FEMALE), "within": str(known - 1)})
    assert float(live_of(offered).offer.takes.rstrip("%")) > 0
    assert session.answers.count() == 1


def test_a_worker_killed_before_the_session_was_open_leaves_nothing_and_the_next_opens_it_once(
    make_dataset, carry_out, alice, monkeypatch
):
    dataset = make_dataset(epsilon="20")
    release = services.sessions.draft_session(
        dataset=dataset, by=alice, title="", epsilon="10", way=WAY, listed=SINGLES, options={"questions": 5}
    )
    carry_out(release, execute=False)
    real = session_state.store_bought

    def killed(session, live, plan):
        real(session, live, plan)
        raise ConnectionError("the database went away before the commit")

    with monkeypatch.context() as patched:
        patched.setattr(session_state, "store_bought", killed)
        assert not services.execution.execute_release(release_id=release.pk)
    assert not Session.objects.exists()
    assert not SessionCells.objects.exists()
    Release.objects.filter(pk=release.pk).update(next_attempt_at=None, lease_until=None)
    assert services.execution.execute_release(release_id=release.pk)
    assert not services.execution.execute_release(release_id=release.pk)
    release.refresh_from_db()
    assert release.status is ReleaseState.OPEN
    assert SessionCells.objects.get().session_id == release.pk
    assert LedgerEntry.objects.filter(release=release).count() == 1


def test_only_who_may_ask_reads_what_was_bought(session, as_, alice, bob, charlie):
    address = reverse("transcript_json", args=[session.pk])
    bought = as_(alice).get(address).json()["bought"]
    assert [each["marginal"] for each in bought] == [["age"], ["sex"]]
    assert {each["half_width"] for each in bought} == {
        session_state.replay(session, services.sessions.plan_of_session(session)).bought[-2]
    }
    assert as_(charlie).get(address).status_code == 404
    assert as_(charlie).get(page_of(session)).status_code == 404
    services.sessions.let_ask(session=session, audience=Audience.EVERYBODY, by=alice)
    services.sessions.ask_session(session=session, query=FEMALE, by=charlie, within=10**6)
    assert as_(charlie).get(address).json()["bought"] == bought
    services.sessions.let_ask(session=session, audience=Audience.GROUP, by=alice)
    assert as_(charlie).get(address).json()["bought"] == []


def test_a_finished_release_answers_only_where_it_is_as_near_as_the_fit(open_session, make_draft, carry_out, alice):
    session = open_session(way=WAY, listed=SINGLES, questions=50, epsilon="10", budget="100")
    dataset, plan = session.release.dataset, services.sessions.plan_of_session(session)
    own = min(session_state.replay(session, plan).bought[-2:])
    asked = read_count(FEMALE, plan.schema.universe)

    def known():
        return known_in_session(FEMALE, session=session, plan=plan, person=alice)

    def publish(epsilon):
        draft = make_draft(dataset, {"marginal": ["age", "sex"]}, epsilon=epsilon, mechanism="laplace-queries")
        return carry_out(draft)

    publish("1")
    found = known_answer(asked, schema=plan.schema, dataset=dataset, person=alice)
    # It is within what a measured answer would be, and the fit is closer.
    assert own < found.half_width < plan.rules.paid_half_width
    assert known() is None
    near = publish("40")
    assert known().release == near


def test_closed_with_nothing_asked_it_publishes_the_fit_with_what_was_measured(open_session, close):
    session = open_session(way=WAY, listed=PAIR, budget="40", epsilon="20")
    largest = session_state.replay(session, services.sessions.plan_of_session(session)).bought[-2]
    release = close(session)
    assert release.result["receipt"]["workload"]["queries"] == PAIR["queries"]
    assert release.result["receipt"]["bound"]["proof"] == "proved from the release"
    assert release.result["receipt"]["bound"]["half_widths"] == [largest]
    for cell in csv.DictReader((files.folder_of(release) / "answers.csv").open()):
        low, high = cell["age"].split(" to ")
        ages = range(int(low), int(high) + 1)
        truth = rows_where(lambda row, cell=cell, ages=ages: row["sex"] == cell["sex"] and int(row["age"]) in ages)
        assert float(cell["lower"]) <= truth <= float(cell["upper"])


def test_programs_begin_with_a_fit_and_see_a_price_before_they_agree(make_dataset, carry_out, as_, alice):
    client, dataset = as_(alice), make_dataset(epsilon="20")
    sent = {"epsilon": "10", "way": WAY, "options": {"questions": 10, "start": 40}, "workload": SINGLES}
    made = client.post(f"/api/datasets/{dataset.pk}/sessions", sent, content_type="application/json").json()
    session = carry_out(Release.objects.get(pk=made["id"])).session
    address = f"/api/sessions/{session.pk}/questions"

    def ask(**asked):
        return client.post(address, asked, content_type="application/json").json()

    assert ask(query=FEMALE, within=10**6)["takes"] == "0"
    price = ask(query=YOUNG_WOMEN, within=300, agreed=False)
    assert price["answered"] == "not yet"
    answer = ask(query=YOUNG_WOMEN, within=300)
    assert (answer["takes"], answer["half_width"]) == (price["takes"], price["half_width"])
    assert 0 < session.answers.get(sequence=2).parts < PARTS
    refused = client.post(
        f"/api/datasets/{dataset.pk}/sessions", {"epsilon": "1", "way": WAY}, content_type="application/json"
    )
    assert refused.status_code == 400
    assert "must be chosen" in refused.content.decode()
