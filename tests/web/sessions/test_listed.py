"""Sessions that buy the answers to a list: planned on the page and by programs, asked, replayed and closed."""

import csv
import io
import json

import pytest
from django.urls import reverse

from releases import services
from releases.models import Audience, Budget, Release, SessionCells
from releases.publication import files
from releases.services import reading, session_state
from releases.services.known_answers import known_in_session
from releases.views.sessions.sessions import address_of_session
from tests.web.conftest import CSV
from tests.web.pages import body, words
from tests.web.sessions.test_sessions import PLAN

ROWS = list(csv.DictReader(io.StringIO(CSV.decode())))
FEMALE = {"sex": ["female"]}
YOUNG_WOMEN = {"age": {"to": 35}, "sex": ["female"]}
PAIR = {"version": 1, "queries": [{"marginal": ["age", "sex"]}]}
SINGLES = {"version": 1, "queries": [{"marginal": ["age"]}, {"marginal": ["sex"]}]}


@pytest.fixture
def untouched(monkeypatch):
    """From now on no question is counted."""

    def never(*_, **__):
        raise AssertionError("a question touched the table")

    def forbid():
        monkeypatch.setattr(reading, "count", never)

    return forbid


@pytest.fixture
def session(open_session):
    return open_session(way="listed-online", listed=SINGLES, questions=5)


def page_of(session):
    return reverse("session", args=[session.pk])


def live_of(response):
    return response.context["page"].live


def rows_where(rule):
    return sum(map(rule, ROWS))


def test_a_preset_is_planned_kept_and_planned_again(make_dataset, as_, alice):
    client, dataset = as_(alice), make_dataset(epsilon="20")
    sent = PLAN | {"way": "", "listed": "1", "start": "70", "questions": "3"}
    client.post(reverse("new_session", args=[dataset.pk]), sent)
    draft = Release.objects.get()
    # Of ten cells in all, noise on each of them answers both tables more closely.
    assert draft.mechanism == "histogram-online"
    assert {tuple(each["marginal"]) for each in draft.workload["queries"]} == {("age",), ("sex",)}
    client.post(reverse("new_session", args=[dataset.pk]), sent | {"way": "listed-online", "draft": str(draft.pk)})
    draft.refresh_from_db()
    assert draft.mechanism == "listed-online"
    assert services.releases.plan_of(release=draft).options["start"] == 70
    again = client.get(address_of_session(draft))
    assert 'value="1" selected' in body(again)
    assert 'value="listed-online" selected' in body(again)
    assert "Bought at the start 2 tables (7 answers)" in words(again)
    assert 'name="start" value="70"' in body(again)


def test_the_plan_stands_beside_every_other_way_with_its_bound_and_its_usual_error(make_dataset, as_, alice):
    client, address = as_(alice), reverse("new_session", args=[make_dataset(epsilon="20").pk])
    sent = PLAN | {"way": "noise-online", "epsilon": "1", "questions": "10"}
    alone, listed = (client.get(address, sent | more) for more in ({}, {"listed": "2", "way": "listed-online"}))
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
    sent = PLAN | {"way": "listed-online", "listed": str(workload.pk)}
    address = reverse("new_session", args=[dataset.pk])
    assert "The workload Yearly" in words(as_(alice).get(address))
    as_(alice).post(address, sent)
    draft = Release.objects.get(mechanism="listed-online")
    assert draft.workload["queries"] == asked.workload["queries"]
    assert draft.workload_version.workload == workload
    assert f'value="{workload.pk}" selected' in body(as_(alice).get(address_of_session(draft)))
    services.workloads.discard_workload(workload=workload, by=alice)
    assert as_(alice).get(address, sent).status_code == 400


def test_a_ticked_column_that_the_list_leaves_out_can_be_asked_about(make_dataset, alice):
    dataset = make_dataset(epsilon="20")
    listed = {"version": 1, "queries": [{"marginal": ["age"]}]}
    given = {"dataset": dataset, "by": alice, "title": "", "epsilon": "1", "way": "listed-online"}
    alone = services.sessions.draft_session(**given, listed=listed)
    both = services.sessions.draft_session(**given, listed=listed, columns=["sex"])
    names = [services.releases.plan_of(release=each).schema.universe.names for each in (alone, both)]
    assert names == [("age",), ("age", "sex")]


def test_what_was_bought_is_stored_answers_in_any_process_and_takes_nothing(session, alice, untouched, as_):
    untouched()
    spent = Budget.objects.get().totals
    queries = [FEMALE, {"age": {"to": 35}}, {"sex": ["male"]}]
    first = [services.sessions.ask_session(session=session, query=each, by=alice) for each in queries]
    truth = rows_where(lambda row: row["sex"] == "female")
    assert abs(first[0].exchange.estimate - truth) <= first[0].exchange.half_width
    assert [each.exchange.parts for each in first] == [0, 0, 0]
    assert {each.questions_left for each in first} == {5}
    session_state.forget()
    live = session_state.replay(session, services.sessions.plan_of_session(session))
    bought = [live.start.estimate(each.exchange.query, live.bought) for each in first]
    assert bought == [each.exchange.estimate for each in first]
    assert SessionCells.objects.get().session == session
    shown = as_(alice).get(page_of(session), {"answer": 2})
    assert live_of(shown).share == "100%"
    assert live_of(shown).questions == "5 of 5 with a price; no limit to others"
    assert "bought when the session was opened" in words(shown)
    assert "2 tables" in words(shown)
    assert Budget.objects.get().totals == spent


def test_whoever_may_ask_downloads_all_that_was_bought(session, as_, alice, charlie):
    address = reverse("transcript_json", args=[session.pk])
    bought = as_(alice).get(address).json()["bought"]
    assert [each["marginal"] for each in bought] == [["age"], ["sex"]]
    truth = [rows_where(lambda row, sex=sex: row["sex"] == sex) for sex in ("female", "male")]
    for estimate, exact in zip(bought[1]["estimates"], truth, strict=True):
        assert abs(estimate - exact) <= bought[1]["half_width"]
    # Somebody who asked once and may do so no more reads up to that question alone.
    services.sessions.let_ask(session=session, audience=Audience.EVERYBODY, by=alice)
    services.sessions.ask_session(session=session, query=FEMALE, by=charlie)
    assert as_(charlie).get(address).json()["bought"] == bought
    services.sessions.let_ask(session=session, audience=Audience.GROUP, by=alice)
    assert as_(charlie).get(address).json()["bought"] == []


def test_an_error_that_the_list_keeps_costs_nothing_and_another_is_agreed_to_first(session, as_, alice, monkeypatch):
    client, address = as_(alice), page_of(session)
    with monkeypatch.context() as patched:
        patched.setattr(reading, "count", None)
        client.post(address, {"query": json.dumps(FEMALE), "within": "150"}, follow=True)
        assert session.answers.get().parts == 0
        offered = client.post(address, {"query": json.dumps(YOUNG_WOMEN), "within": "150"})
    offer = live_of(offered).offer
    assert float(offer.takes.rstrip("%")) > 0
    assert session.answers.count() == 1
    client.post(address, {"query": offer.query, "within": offer.within, "agreed": "1"}, follow=True)
    assert session.answers.get(sequence=2).parts > 0


def test_when_no_priced_answer_is_left_the_session_stays_open_for_the_list(open_session, alice, untouched, as_):
    session = open_session(way="listed-online", listed=SINGLES, questions=1)
    services.sessions.ask_session(session=session, query=YOUNG_WOMEN, by=alice)
    session.refresh_from_db()
    assert session.used_up_at is None
    untouched()
    client = as_(alice)
    other = {"query": json.dumps({"age": {"from": 35}, "sex": ["male"]})}
    refused = client.post(page_of(session), other)
    assert refused.status_code == 409
    assert "bought at the start" in live_of(refused).problem
    priced = client.post(
        page_of(session), {"query": json.dumps({"age": {"from": 35}, "sex": ["male"]}), "within": "90"}
    )
    assert priced.status_code == 409
    assert services.sessions.ask_session(session=session, query=FEMALE, by=alice).exchange.parts == 0
    assert client.get(page_of(session)).context["page"].can_be_asked


def test_closed_with_nothing_asked_it_publishes_the_list_which_is_known_from_then_on(
    open_session, close, alice, carry_out
):
    session = open_session(way="listed-online", listed=PAIR, budget="40")
    release = close(session)
    assert release.result["receipt"]["workload"]["queries"] == PAIR["queries"]
    assert release.result["receipt"]["bound"]["proof"] == "proved from the release"
    cells = list(csv.DictReader((files.folder_of(release) / "answers.csv").open()))
    assert len(cells) == 10
    for cell in cells:
        low, high = cell["age"].split(" to ")
        ages = range(int(low), int(high) + 1)
        sex = cell["sex"]
        truth = rows_where(lambda row, sex=sex, ages=ages: row["sex"] == sex and int(row["age"]) in ages)
        assert float(cell["lower"]) <= truth <= float(cell["upper"])
    # The next session of the same table needs not be asked.
    dataset = session.release.dataset
    given = {"dataset": dataset, "by": alice, "title": "", "epsilon": "0.1", "way": "noise-online"}
    other = carry_out(services.sessions.draft_session(**given)).session
    plan = services.sessions.plan_of_session(other)
    known = known_in_session(YOUNG_WOMEN, session=other, plan=plan, person=alice)
    assert known.release == release


def test_programs_list_questions_and_see_a_price_before_they_agree(make_dataset, carry_out, as_, alice):
    client, dataset = as_(alice), make_dataset(epsilon="20")
    sent = {"epsilon": "2", "way": "listed-online", "options": {"questions": 10, "start": 40}, "workload": SINGLES}
    made = client.post(f"/api/datasets/{dataset.pk}/sessions", sent, content_type="application/json").json()
    session = carry_out(Release.objects.get(pk=made["id"])).session
    address = f"/api/sessions/{session.pk}/questions"

    def ask(**asked):
        return client.post(address, asked, content_type="application/json").json()

    assert ask(query=FEMALE)["takes"] == "0"
    price = ask(query=YOUNG_WOMEN, within=300, agreed=False)
    assert price["answered"] == "not yet"
    assert session.answers.count() == 1
    answer = ask(query=YOUNG_WOMEN, within=300)
    assert (answer["takes"], answer["half_width"]) == (price["takes"], price["half_width"])
    assert 0 < float(answer["takes"]) < 1


def test_programs_get_what_a_finished_release_says_unless_they_ask_all_the_same(
    open_session, make_draft, carry_out, as_, alice, charlie
):
    session = open_session(budget="40", epsilon="1", way="noise-online", questions=2)
    dataset, asked = session.release.dataset, {"marginal": ["age", "sex"]}
    release = carry_out(make_draft(dataset, asked, epsilon="30", mechanism="laplace-queries", beta="1e-9"))
    address = f"/api/sessions/{session.pk}/questions"

    def ask(person, **more):
        sent = {"query": YOUNG_WOMEN, **more}
        return as_(person).post(address, sent, content_type="application/json")

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
    ("listed", "said"),
    [
        ({"version": 1, "queries": [{"mean": "age"}]}, "must be tables and counts"),
        ({"version": 1, "queries": [{"marginal": ["height"]}]}, "height"),
    ],
)
def test_a_list_of_something_else_is_refused(make_dataset, as_, alice, listed, said):
    dataset = make_dataset(epsilon="20")
    sent = {"epsilon": "2", "workload": listed}
    answer = as_(alice).post(f"/api/datasets/{dataset.pk}/sessions", sent, content_type="application/json")
    assert answer.status_code == 400
    assert said in answer.content.decode()
    assert not Release.objects.exists()
