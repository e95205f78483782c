"""Live sessions by their services and pages: planned, confirmed, asked, read; by whom, and with what shown."""

import csv
import io
import json

import pytest
from django.urls import reverse

from releases import services
from releases.models import (
    SESSION,
    Audience,
    Budget,
    LedgerEntry,
    Notice,
    Release,
    ReleaseState,
    Session,
    SessionAnswer,
)
from releases.publication import files
from releases.services.session_state import replay
from releases.worker import runner
from tests.web.pages import body, field_value, words
from tests.web.sessions.conftest import PLAN, page_of
from tests.web.steps import again, broken, execute, refuses, submit

YOUNG_WOMEN = {"from.age": "18", "to.age": "35", "in.sex": ["female"]}
HTMX = {"HX-Request": "true"}


@pytest.fixture
def dataset_with_room(make_dataset):
    return make_dataset(epsilon="20")


@pytest.fixture
def session(open_session):
    return open_session()


def ask(client, session, asked=None, **extra):
    return client.post(page_of(session), YOUNG_WOMEN if asked is None else asked, **extra)


def charges():
    return LedgerEntry.objects.filter(kind="charge")


# Planning and opening


def test_a_plan_is_confirmed_with_its_exact_charge_and_opened_once(dataset_with_room, as_, alice):
    client = as_(alice)
    response = client.post(reverse("new_session", args=[dataset_with_room.pk]), PLAN)
    draft = Release.objects.get()
    assert response.url == reverse("confirm", args=[draft.pk])
    assert draft.kind is SESSION
    confirmation = client.get(response.url)
    assert not charges().exists()
    given = {name: field_value(confirmation, name) for name in ("key", "plan", "title")}
    for _ in range(2):
        assert client.post(response.url, given).url == reverse("release_detail", args=[draft.pk])
    assert charges().get().epsilon == 5 * 10**12
    assert execute(draft)
    assert client.get(reverse("release_detail", args=[draft.pk])).url == page_of(draft)


def test_a_draft_of_a_session_cannot_be_made_to_run_what_opens_none(dataset_with_room, alice):
    release = services.sessions.draft_session(dataset=dataset_with_room, by=alice, title="", epsilon="1")
    services.releases.set_choice(release=release, epsilon="1", mechanism_name="laplace-queries")
    with pytest.raises(services.release_inputs.Refusal, match="answers no questions one at a time"):
        submit(release, alice)
    assert not charges().exists()


# Asking


YOUNG = {"age": {"to": 35}, "sex": ["female"]}


def test_an_answer_is_stored_with_its_bound_and_charges_nothing_more(open_session, alice):
    session = open_session()
    before = Budget.objects.get().totals
    assert before.spent_epsilon == 5 * 10**12, "opening charges all that it can ever cost"
    answered = services.sessions.ask_session(session=session, query=YOUNG, by=alice)
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


def test_once_a_table_could_not_be_read_every_question_is_refused_alike_and_nothing_says_why(
    open_session, as_, alice, bob, monkeypatch, caplog
):
    session, tries = open_session(), []
    monkeypatch.setattr(runner, "run", lambda job, **_: tries.append(job) or broken())
    for person, asked in ((alice, YOUNG_WOMEN), (alice, YOUNG_WOMEN), (bob, {"from.age": "25"})):
        response = ask(as_(person), session, asked)
        assert response.status_code == 409
        assert services.sessions.UNANSWERED in words(response)
    assert len(tries) == 1
    assert not SessionAnswer.objects.exists()
    # Nothing was answered before, so there is nothing to publish.
    assert again(session).release.status is ReleaseState.FAILED
    assert services.sessions.UNANSWERED in words(as_(bob).get(page_of(session)))
    assert Budget.objects.get().totals.spent_epsilon == 5 * 10**12
    assert "a question of session" in caplog.text
    assert "Smith" not in caplog.text


def test_what_a_session_answered_before_it_could_not_read_its_table_is_published(
    open_session, as_, alice, bob, monkeypatch, mailoutbox
):
    session = open_session()
    services.sessions.ask_session(session=session, query={"sex": ["female"]}, by=bob)
    with monkeypatch.context() as patched:
        patched.setattr(runner, "run", broken)
        ask(as_(bob), session)
    assert again(session).release.status is ReleaseState.CLOSING
    assert Notice.objects.get(title="Closed: Ask away").person == alice
    assert execute(session.release)
    assert again(session).release.status is ReleaseState.PUBLISHED
    page = words(as_(bob).get(page_of(session)))
    assert services.sessions.UNANSWERED in page
    assert "female" in page
    response = ask(as_(bob), session)
    assert (response.status_code, services.sessions.UNANSWERED in words(response)) == (409, True)


def test_a_session_that_no_worker_could_close_is_not_asked_again(open_session, as_, alice, monkeypatch, settings):
    """It is open again then, and closed by the next question."""
    session, settings.MAX_ATTEMPTS = open_session(), 1
    services.sessions.ask_session(session=session, query={"sex": ["female"]}, by=alice)
    monkeypatch.setattr(runner, "run", broken)
    ask(as_(alice), session)
    monkeypatch.setattr("releases.publication.files.write", broken)
    assert not execute(session.release)
    assert again(session).release.status is ReleaseState.OPEN
    monkeypatch.setattr(runner, "run", lambda *_, **__: pytest.fail("a question touched the table"))
    assert services.sessions.UNANSWERED in words(ask(as_(alice), session))
    assert again(session).release.status is ReleaseState.CLOSING


def test_a_table_that_is_away_before_it_is_opened_costs_nothing(open_session, as_, alice, monkeypatch):
    session = open_session()
    with monkeypatch.context() as patched:
        patched.setattr(services.stored_tables, "checked", broken)
        assert services.sessions.AWAY in words(ask(as_(alice), session))
    assert not SessionAnswer.objects.exists()
    assert ask(as_(alice), session).status_code == 302


WRONG_QUESTIONS = [
    ({}, "must restrict at least one column"),
    ({"from.age": "19"}, "must be a declared edge (nearest: 18, 25, 35)"),
    ({"query": '{"sex": ["female"]'}, "The question is not JSON"),
    ({"query": '{"sex": [["female"]]}'}, 'Count, sex: ["female"] must be one of'),
    ({"query": '{"age": {"from": 1e999}}'}, "Count, age, from"),
    ({"query": '{"sex": ["female"], "sex": ["male"]}'}, "names the field 'sex' twice"),
]


def test_a_wrong_question_is_explained_and_kept_and_costs_no_question(session, as_, alice, unread):
    refuses(lambda **asked: ask(as_(alice), session, asked), WRONG_QUESTIONS, query=None)


def test_the_standing_is_that_of_the_replayed_session(open_session, as_, alice):
    for case, (updates, total) in enumerate(((1, 10**9), (3, 200))):
        session = open_session(number=case, updates=updates)
        Session.objects.filter(pk=session.pk).update(total=total)
        for number, asked in enumerate(({"in.sex": "male"}, {"from.age": "25"}, YOUNG_WOMEN)):
            session.refresh_from_db()
            plan = services.sessions.plan_of_session(session)
            live, standing = replay(session, plan), services.sessions.standing(session, plan)
            assert (standing.updates_left, standing.questions_left) == (live.updates_left, live.questions_left)
            assert bool(standing.over) is not live.is_settled
            if standing.over:
                break
            ask(as_(alice), session, asked)
            SessionAnswer.objects.filter(session=session, sequence=number + 1).update(kind="by a paid update", sign=1)


def test_the_columns_declared_again_leave_an_open_session_as_it_was(session, as_, alice):
    services.datasets.declare_universe(
        dataset=session.release.dataset, columns=[{"name": "age", "type": "integer", "edges": [0, 100]}]
    )
    client = as_(alice)
    assert ask(client, session).status_code == 302
    assert "female" in words(client.get(page_of(session)))


def test_a_session_that_the_software_would_plan_otherwise_now_answers_nothing(session, as_, alice):
    release = session.release
    release.plan["planned"]["parameters"] = {}
    Release.objects.filter(pk=release.pk).change(plan=release.plan)
    client = as_(alice)
    for name in ("session", "transcript_csv", "transcript_json"):
        assert client.get(reverse(name, args=[session.pk])).status_code == 409
    assert ask(client, session).status_code == 409
    assert client.post(reverse("session_close", args=[session.pk]), follow=True).status_code == 409
    assert not SessionAnswer.objects.exists()


# Who may


def test_analysts_may_ask_when_the_curator_lets_them_and_see_no_names(session, as_, alice, charlie):
    assert ask(as_(charlie), session).status_code == 404
    ask(as_(alice), session)
    as_(alice).post(reverse("session_audience", args=[session.pk]), {"audience": "everybody"})
    assert "alice" not in words(as_(charlie).get(page_of(session)))
    assert "alice" in words(as_(alice).get(page_of(session), {"page": "1"}))
    assert ask(as_(charlie), session, {"in.sex": "male"}).status_code == 302
    for change in ("session_audience", "session_close"):
        assert as_(charlie).post(reverse(change, args=[session.pk]), {"audience": "group"}).status_code == 404
    assert as_(charlie).get(reverse("release_detail", args=[session.pk])).status_code == 404


# Who asked keeps what they were told


def told(client, session):
    """The numbers of the answers that somebody reads on the page, in the transcript, and over the API."""
    page = client.get(page_of(session))
    assert page.status_code == 200
    table = client.get(reverse("transcript_csv", args=[session.pk]))
    whole = json.loads(body(client.get(reverse("transcript_json", args=[session.pk]))))
    numbers = [int(each.number) for each in page.context["page"].live.rows]
    assert [int(row["number"]) for row in csv.DictReader(io.StringIO(body(table)))] == numbers[::-1]
    assert [each["number"] for each in whole["answers"]] == numbers[::-1]
    return numbers


def test_who_may_ask_is_settled_when_a_session_is_closed(open_session, as_, alice, charlie):
    session = open_session(audience=Audience.EVERYBODY)
    ask(as_(charlie), session)
    services.session_closing.close_session(session=session, by=alice, send=False)
    for _ in range(2):
        as_(alice).post(reverse("session_audience", args=[session.pk]), {"audience": "group"})
        assert told(as_(charlie), session) == [1]
        execute(session)


def test_who_may_ask_no_more_keeps_what_was_answered_up_to_their_last_question(
    open_session, as_, alice, charlie, close
):
    session = open_session(audience=Audience.EVERYBODY)
    ask(as_(alice), session)
    ask(as_(charlie), session, {"in.sex": "male"})
    services.sessions.let_ask(session=session, audience=Audience.GROUP, by=alice)
    ask(as_(alice), session, {"in.sex": "female"})
    client = as_(charlie)
    assert told(client, session) == [2, 1]
    assert client.get(page_of(session), {"answer": "3"}).context["page"].live.answer is None
    assert ask(client, session, {"from.age": "25"}).status_code == 409
    assert SessionAnswer.objects.count() == 3
    close(session, by=alice)
    assert told(as_(charlie), session) == [2, 1]


def test_what_was_withdrawn_is_gone_for_whoever_could_read_it_and_not_there_for_anybody_else(
    session, as_, alice, bob, charlie, close
):
    ask(as_(bob), session)
    services.releases.withdraw_release(release=close(session, by=alice), by=alice)
    page = as_(bob).get(page_of(session))
    assert page.status_code == 410
    assert "sex: female" not in words(page)
    assert SessionAnswer.objects.get().key not in body(page)
    assert as_(bob).get(reverse("transcript_csv", args=[session.pk])).status_code == 404
    assert as_(charlie).get(page_of(session)).status_code == 404


def test_nothing_secret_is_on_any_page_or_in_any_download(session, as_, alice):
    secret = 123_456_789_987
    Session.objects.update(noisy_threshold=secret)
    client = as_(alice)
    pages = [ask(client, session, headers=HTMX)]
    Session.objects.update(noisy_threshold=secret)
    names = ("session", "transcript_csv", "transcript_json")
    pages += [client.get(reverse(name, args=[session.pk])) for name in names]
    pages += [client.get(reverse(name)) for name in ("session_list", "release_list", "catalogue", "home")]
    pages.append(client.post(reverse("session_close", args=[session.pk]), follow=True))
    assert execute(session)
    release = Release.objects.get()
    for path in files.folder_of(release).iterdir():
        assert str(secret).encode() not in path.read_bytes()
    assert str(secret) not in str(release.result) + str(release.plan)
    pages += [client.get(reverse(name, args=[session.pk])) for name in ("release_detail", "session", "receipt")]
    assert all(page.status_code == 200 for page in pages)
    for page in pages:
        assert str(secret) not in body(page)
        assert f"{secret:,}" not in body(page)
