"""Sessions that buy a list of answers or a fit at the start: planned, opened once over crashes, asked and closed."""

import csv
import json

import pytest
from django.urls import reverse

from releases import services
from releases.engine.mechanisms.base import mechanism
from releases.engine.mechanisms.live.noise import PARTS
from releases.engine.workload.queries import read_count
from releases.models import Audience, Budget, LedgerEntry, Release, ReleaseState, Session, SessionCells
from releases.publication import files
from releases.services import session_state
from releases.services.known_answers import known_answer, known_in_session
from releases.views.sessions.sessions import address_of_session
from tests.web.pages import body, words
from tests.web.sessions.conftest import FEMALE, PLAN, ROWS, live_of, page_of, replayed, rows_where

YOUNG_WOMEN = {"age": {"to": 35}, "sex": ["female"]}
PAIR = {"version": 1, "queries": [{"marginal": ["age", "sex"]}]}
SINGLES = {"version": 1, "queries": [{"marginal": ["age"]}, {"marginal": ["sex"]}]}
LISTED, FITTED = "listed-online", "fitted-online"
ENOUGH = {LISTED: "5", FITTED: "10"}
BOTH = pytest.mark.parametrize("way", [LISTED, FITTED])


@pytest.fixture
def session(open_session, way):
    return open_session(way=way, listed=SINGLES, questions=5, epsilon=ENOUGH[way])


@pytest.mark.parametrize(
    ("way", "more", "said"),
    [
        ("noise-online", {}, ""),
        ("histogram-online", {}, ""),
        (LISTED, {"listed": "1", "start": "70", "questions": "3"}, "Bought at the start 2 tables (7 answers)"),
        (FITTED, {"listed": "1", "start": "70", "questions": "3"}, "what is measured when the session opens"),
    ],
)
def test_a_way_that_is_chosen_is_planned_kept_and_planned_again(way, more, said, make_dataset, as_, alice):
    client, dataset = as_(alice), make_dataset(epsilon="20")
    address = reverse("new_session", args=[dataset.pk])
    client.post(address, PLAN | more | {"way": way})
    draft = Release.objects.get()
    assert draft.mechanism == way
    again = client.get(address_of_session(draft))
    assert again.context["planned"].way == mechanism(way).title
    assert f'value="{way}" selected' in body(again)
    assert said in words(again)
    if more:
        assert services.releases.plan_of(release=draft).options["start"] == 70
        assert {tuple(each["marginal"]) for each in draft.workload["queries"]} == {("age",), ("sex",)}
        assert 'value="1" selected' in body(again)
        assert 'name="start" value="70"' in body(again)
        (planned,) = (each for each in again.context["ways"] if each.is_planned)
        assert (planned.one == "depends on the table") is (way == FITTED)
        # Of ten cells in all, noise on each of them answers both tables more closely.
        client.post(address, PLAN | more | {"way": "", "draft": str(draft.pk)})
        draft.refresh_from_db()
        assert draft.mechanism == "histogram-online"
    assert client.get(address, PLAN | {"way": "laplace"}).status_code == 400


def test_the_plan_stands_beside_every_other_way_with_its_bound_and_its_usual_error(make_dataset, as_, alice):
    client, address = as_(alice), reverse("new_session", args=[make_dataset(epsilon="20").pk])
    sent = PLAN | {"way": "noise-online", "epsilon": "1", "questions": "10"}
    alone, listed = (client.get(address, sent | more) for more in ({}, {"listed": "2", "way": LISTED}))
    assert len(alone.context["ways"]) == 3
    noise, cells, weights = alone.context["ways"]
    assert (noise.is_planned, cells.is_planned) == (True, False)
    # Ten answers share 0.98 of epsilon; the mean of Laplace noise is its scale.
    assert (noise.one, noise.three) == ("about 10", "about 10")
    assert weights.one == "depends on the table"
    assert [each.is_planned for each in listed.context["ways"]] == [False, False, False, True, False]
    assert "Usual error, one column" in words(alone)


def test_a_saved_workload_is_chosen_by_its_owner_alone(make_dataset, make_draft, as_, alice, charlie):
    dataset = make_dataset(epsilon="20")
    asked = make_draft(dataset, {"marginal": ["age", "sex"]})
    workload = services.workloads.save_workload(release=asked, name="Yearly", by=alice)
    sent = PLAN | {"way": LISTED, "listed": str(workload.pk)}
    address = reverse("new_session", args=[dataset.pk])
    assert "The workload Yearly" in words(as_(alice).get(address))
    as_(alice).post(address, sent)
    draft = Release.objects.get(mechanism=LISTED)
    assert draft.workload["queries"] == asked.workload["queries"]
    assert draft.workload_version.workload == workload
    assert f'value="{workload.pk}" selected' in body(as_(alice).get(address_of_session(draft)))
    services.workloads.discard_workload(workload=workload, by=alice)
    assert as_(alice).get(address, sent).status_code == 400


def test_a_ticked_column_that_the_list_leaves_out_can_be_asked_about(make_dataset, alice):
    dataset = make_dataset(epsilon="20")
    listed = {"version": 1, "queries": [{"marginal": ["age"]}]}
    given = {"dataset": dataset, "by": alice, "title": "", "epsilon": "1", "way": LISTED, "listed": listed}
    drafts = [services.sessions.draft_session(**given, columns=columns) for columns in ([], ["sex"])]
    names = [services.releases.plan_of(release=each).schema.universe.names for each in drafts]
    assert names == [("age",), ("age", "sex")]


@BOTH
def test_what_was_bought_is_stored_answers_in_any_process_and_takes_nothing(way, session, alice, untouched, as_):
    untouched()
    spent = Budget.objects.get().totals
    within = {"within": 10**6} if way == FITTED else {}
    queries = [FEMALE, {"age": {"to": 35}}, {"sex": ["male"]}]
    first = [services.sessions.ask_session(session=session, query=each, by=alice, **within) for each in queries]
    truth = rows_where(lambda row: row["sex"] == "female")
    assert abs(first[0].exchange.estimate - truth) <= first[0].exchange.half_width < len(ROWS)
    assert [each.exchange.parts for each in first] == [0, 0, 0]
    assert {each.questions_left for each in first} == {5}
    live = replayed(session)
    bought = [live.start.estimate(each.exchange.query, live.bought) for each in first]
    assert bought == [each.exchange.estimate for each in first]
    assert SessionCells.objects.get().session == session
    shown = as_(alice).get(page_of(session), {"answer": 2})
    assert live_of(shown).share == "100%"
    assert live_of(shown).questions == "5 of 5 with a price; no limit to others"
    assert ("Added up from the fit" if way == FITTED else "bought when the session was opened") in words(shown)
    assert "2 tables" in words(shown)
    assert Budget.objects.get().totals == spent


@BOTH
def test_whoever_may_ask_downloads_all_that_was_bought_and_nobody_else(way, session, as_, alice, charlie):
    address = reverse("transcript_json", args=[session.pk])
    bought = as_(alice).get(address).json()["bought"]
    assert [each["marginal"] for each in bought] == [["age"], ["sex"]]
    truth = [rows_where(lambda row, sex=sex: row["sex"] == sex) for sex in ("female", "male")]
    for estimate, exact in zip(bought[1]["estimates"], truth, strict=True):
        assert abs(estimate - exact) <= bought[1]["half_width"]
    if way == FITTED:
        assert {each["half_width"] for each in bought} == {replayed(session).bought[-2]}
    assert {as_(charlie).get(each).status_code for each in (address, page_of(session))} == {404}
    # Somebody who asked once and may do so no more reads up to that question alone.
    services.sessions.let_ask(session=session, audience=Audience.EVERYBODY, by=alice)
    services.sessions.ask_session(session=session, query=FEMALE, by=charlie, within=10**6)
    assert as_(charlie).get(address).json()["bought"] == bought
    services.sessions.let_ask(session=session, audience=Audience.GROUP, by=alice)
    assert as_(charlie).get(address).json()["bought"] == []


@BOTH
def test_an_error_that_was_bought_costs_nothing_and_another_is_agreed_to_first(
    way, session, as_, alice, untouched, monkeypatch
):
    known = int(min(replayed(session).bought[-2:])) if way == FITTED else 150
    closer = {"query": json.dumps(FEMALE), "within": str(known - 1)}
    closer = closer if way == FITTED else {"query": json.dumps(YOUNG_WOMEN), "within": "150"}
    client, address = as_(alice), page_of(session)
    with monkeypatch.context() as patched:
        patched.setattr("releases.services.reading.count", None)
        client.post(address, {"query": json.dumps(FEMALE), "within": str(known)}, follow=True)
        assert session.answers.get().parts == 0
        assert session.answers.get().half_width <= known
        offer = live_of(client.post(address, closer)).offer
    assert float(offer.takes.rstrip("%")) > 0
    assert session.answers.count() == 1
    client.post(address, {"query": offer.query, "within": offer.within, "agreed": "1"}, follow=True)
    assert session.answers.get(sequence=2).parts > 0


def test_when_no_priced_answer_is_left_the_session_stays_open_for_the_list(open_session, alice, untouched, as_):
    session = open_session(way=LISTED, listed=SINGLES, questions=1)
    services.sessions.ask_session(session=session, query=YOUNG_WOMEN, by=alice)
    session.refresh_from_db()
    assert session.used_up_at is None
    untouched()
    client, other = as_(alice), {"query": json.dumps({"age": {"from": 35}, "sex": ["male"]})}
    refused = client.post(page_of(session), other)
    assert refused.status_code == 409
    assert "bought at the start" in live_of(refused).problem
    assert client.post(page_of(session), other | {"within": "90"}).status_code == 409
    assert services.sessions.ask_session(session=session, query=FEMALE, by=alice).exchange.parts == 0
    assert client.get(page_of(session)).context["page"].can_be_asked


@BOTH
def test_closed_with_nothing_asked_it_publishes_what_was_bought_which_is_known_from_then_on(
    way, open_session, close, alice, carry_out
):
    session = open_session(way=way, listed=PAIR, budget="40", epsilon="20" if way == FITTED else "5")
    bought = replayed(session).bought
    release = close(session)
    receipt = release.result["receipt"]
    assert receipt["workload"]["queries"] == PAIR["queries"]
    assert receipt["bound"]["proof"] == "proved from the release"
    if way == FITTED:
        assert receipt["bound"]["half_widths"] == [bought[-2]]
    cells = list(csv.DictReader((files.folder_of(release) / "answers.csv").open()))
    assert len(cells) == 10
    for cell in cells:
        low, high = map(int, cell["age"].split(" to "))
        within = [row for row in ROWS if row["sex"] == cell["sex"] and low <= int(row["age"]) <= high]
        assert float(cell["lower"]) <= len(within) <= float(cell["upper"])
    # The next session of the same table needs not be asked.
    given = {"dataset": session.release.dataset, "by": alice, "title": "", "epsilon": "0.1", "way": "noise-online"}
    other = carry_out(services.sessions.draft_session(**given)).session
    plan = services.sessions.plan_of_session(other)
    assert known_in_session(YOUNG_WOMEN, session=other, plan=plan, person=alice).release == release


@BOTH
def test_programs_buy_at_the_start_and_see_a_price_before_they_agree(way, make_dataset, program):
    dataset = make_dataset(epsilon="20")
    sent = {"epsilon": "10" if way == FITTED else "2", "way": way, "options": {"questions": 10, "start": 40}}
    session, post = program.begin(dataset, **sent, workload=SINGLES)
    within = {"within": 10**6} if way == FITTED else {}
    assert post(query=FEMALE, **within).json()["takes"] == "0"
    price = post(query=YOUNG_WOMEN, within=300, agreed=False).json()
    assert price["answered"] == "not yet"
    assert session.answers.count() == 1
    answer = post(query=YOUNG_WOMEN, within=300).json()
    assert (answer["takes"], answer["half_width"]) == (price["takes"], price["half_width"])
    assert 0 < float(answer["takes"]) < 1
    assert 0 < session.answers.get(sequence=2).parts < PARTS


def test_programs_get_what_a_finished_release_says_unless_they_ask_all_the_same(
    open_session, make_draft, carry_out, as_, alice, charlie
):
    session = open_session(budget="40", epsilon="1", way="noise-online", questions=2)
    dataset, asked = session.release.dataset, {"marginal": ["age", "sex"]}
    release = carry_out(make_draft(dataset, asked, epsilon="30", mechanism="laplace-queries", beta="1e-9"))
    address = f"/api/sessions/{session.pk}/questions"

    def ask(person, **more):
        return as_(person).post(address, {"query": YOUNG_WOMEN, **more}, content_type="application/json")

    known = ask(alice).json()
    assert known["release"] == str(release.pk)
    assert known["answered"] == "by a finished release"
    truth = rows_where(lambda row: row["sex"] == "female" and 18 <= int(row["age"]) < 35)
    assert abs(known["estimate"] - truth) <= known["half_width"]
    assert session.answers.count() == 0
    assert ask(charlie).status_code == 404
    assert ask(alice, anyway=True).json()["answered"] == "by noise of its own"
    assert session.answers.count() == 1


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        ({"workload": {"version": 1, "queries": [{"mean": "age"}]}}, "must be tables and counts"),
        ({"workload": {"version": 1, "queries": [{"marginal": ["height"]}]}}, "height"),
        ({"way": FITTED}, "must be chosen"),
    ],
)
def test_a_list_of_something_else_and_a_fit_without_one_are_refused(make_dataset, program, sent, said):
    answer = program.post(f"/api/datasets/{make_dataset(epsilon='20').pk}/sessions", epsilon="2", **sent)
    assert answer.status_code == 400
    assert said in answer.content.decode()
    assert not Release.objects.exists()


# Fits alone


def test_a_worker_killed_before_the_session_was_open_leaves_nothing_and_the_next_opens_it_once(
    make_dataset, carry_out, alice, monkeypatch
):
    dataset = make_dataset(epsilon="20")
    release = services.sessions.draft_session(
        dataset=dataset, by=alice, title="", epsilon="10", way=FITTED, listed=SINGLES, options={"questions": 5}
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


def test_a_finished_release_answers_only_where_it_is_as_near_as_the_fit(open_session, make_draft, carry_out, alice):
    session = open_session(way=FITTED, listed=SINGLES, questions=50, epsilon="10", budget="100")
    dataset, plan = session.release.dataset, services.sessions.plan_of_session(session)
    own = min(replayed(session).bought[-2:])
    asked = read_count(FEMALE, plan.schema.universe)

    def known():
        return known_in_session(FEMALE, session=session, plan=plan, person=alice)

    def publish(epsilon):
        return carry_out(make_draft(dataset, {"marginal": ["age", "sex"]}, epsilon=epsilon))

    publish("1")
    found = known_answer(asked, schema=plan.schema, dataset=dataset, person=alice)
    # It is within what a measured answer would be, and the fit is closer.
    assert own < found.half_width < plan.rules.paid_half_width
    assert known() is None
    near = publish("40")
    assert known().release == near
