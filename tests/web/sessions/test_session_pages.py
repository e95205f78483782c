"""The pages of live sessions: planned, confirmed, asked, read, closed; by whom, and with what shown."""

from __future__ import annotations

import csv
import io
import json

import pytest
from django.urls import reverse

from releases import services
from releases.engine.mechanisms.pmw.session import AnswerKind
from releases.models import SESSION, Audience, LedgerEntry, Release, Session, SessionAnswer
from releases.publication import files
from releases.services.session_state import replay
from tests.web.pages import body, field_value, words
from tests.web.steps import execute, rule, submit

pytestmark = pytest.mark.django_db

PLAN = {"title": "Ask away", "epsilon": "5", "delta": "0", "beta": "0.05", "questions": "50", "population": "200"}
YOUNG_WOMEN = {"from.age": "18", "to.age": "35", "in.sex": ["female"]}
HTMX = {"HX-Request": "true"}


@pytest.fixture
def dataset_with_room(make_dataset):
    return make_dataset(epsilon="20")


@pytest.fixture
def session(open_session):
    return open_session()


def page_of(session):
    return reverse("session", args=[session.pk])


def ask(client, session, asked=None, **extra):
    return client.post(page_of(session), YOUNG_WOMEN if asked is None else asked, **extra)


def charges():
    return LedgerEntry.objects.filter(kind="charge")


# Planning and opening


def test_a_session_is_held_against_one_release_of_the_same_questions_before_anything_is_read_or_spent(
    dataset_with_room, as_, alice, unread
):
    client, address = as_(alice), reverse("new_session", args=[dataset_with_room.pk])
    planned = client.get(address, PLAN)
    assert not Release.objects.exists()
    found = planned.context["planned"].prepared
    assert found.session == planned.context["planned"].bound
    assert found.times > 3
    for page in (planned, client.post(address, PLAN, follow=True)):
        assert '<div class="note bad" id="prepared">' in body(page)
    assert not charges().exists()


WRONG_VALUES = [
    ("epsilon", "0,5", "epsilon: '0,5' must be a decimal number"),
    ("epsilon", "", "epsilon: nothing was typed"),
    ("questions", "0", "Questions: must be at least 1."),
    ("population", "", "About how many rows: nothing was typed"),
    ("updates", "5000", "Paid updates: must be at most 4,000."),
]


def test_a_wrong_value_is_named_and_nothing_typed_is_lost(dataset, as_, alice):
    client = as_(alice)
    for field, value, said in WRONG_VALUES:
        for send in (client.get, client.post):
            response = send(reverse("new_session", args=[dataset.pk]), PLAN | {field: value})
            assert response.status_code == 400
            assert said in words(response)
            assert field_value(response, field) == value
            assert field_value(response, "title") == "Ask away"
    assert not Release.objects.exists()


def test_what_cannot_be_run_says_why_and_cannot_be_confirmed(make_dataset, as_, alice):
    dataset, client = make_dataset(epsilon="20"), as_(alice)
    address = reverse("new_session", args=[dataset.pk])
    wide = [{"name": "age", "type": "integer", "edges": list(range(20_000))}]
    wide += [{"name": "sex", "type": "categorical", "categories": [f"c{i}" for i in range(20_000)]}]
    services.datasets.declare_universe(dataset=dataset, columns=wide)
    assert "It needs every cell of the universe in memory" in words(client.get(address, PLAN))
    assert client.post(address, PLAN).status_code == 200
    assert not Release.objects.exists()


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


def test_a_session_that_costs_much_is_seen_by_a_reviewer_first(dataset_with_room, as_, alice, sofia):
    rule(review_above="1")
    client = as_(alice)
    confirmation = client.post(reverse("new_session", args=[dataset_with_room.pk]), PLAN, follow=True)
    given = {name: field_value(confirmation, name) for name in ("key", "plan", "title")} | {"reason": "For the study."}
    draft = Release.objects.get()
    client.post(reverse("confirm", args=[draft.pk]), given)
    assert not charges().exists()
    address = reverse("release_request", args=[draft.reviews.get().pk])
    assert "For the study." in words(as_(sofia).get(address))
    as_(sofia).post(address, {"decision": "approve", "epsilon": "5", "note": ""})
    assert execute(draft)
    assert as_(alice).get(page_of(draft)).status_code == 200


# Asking


WRONG_QUESTIONS = [
    ({}, "must restrict at least one column"),
    ({"from.age": "19"}, "must be a declared edge (nearest: 18, 25, 35)"),
    ({"in.sex": ["other"]}, "other"),
    ({"query": ""}, "Question: nothing was typed"),
    ({"query": '{"sex": ["female"]'}, "The question is not JSON"),
    ({"query": '["sex"]'}, "must be a JSON object"),
    ({"query": '{"sex": [["female"]]}'}, 'Count, sex: ["female"] must be one of'),
    ({"query": '{"age": {"from": {"a": 1}}}'}, "Count, age, from"),
    ({"query": '{"age": {"from": 1e999}}'}, "Count, age, from"),
    ({"query": '{"sex": ["female"], "sex": ["male"]}'}, "names the field 'sex' twice"),
]


def test_a_wrong_question_is_explained_and_kept_and_costs_no_question(session, as_, alice, unread):
    for asked, said in WRONG_QUESTIONS:
        response = ask(as_(alice), session, asked)
        assert response.status_code == 400
        assert said in words(response)
        assert 'id="answer"' not in body(response)
        if "query" in asked:
            assert field_value(response, "query") == asked["query"]
    assert not SessionAnswer.objects.exists()


def test_an_exhausted_session_takes_no_new_question_and_still_shows_everything(open_session, as_, alice):
    session, client = open_session(questions=7), as_(alice)
    edges = ["18", "25", "35", "45", "55"]
    asked = [{"from.age": low} for low in edges[1:]] + [{"to.age": high} for high in edges[1:3]] + [{"in.sex": "male"}]
    for each in asked[:-1]:
        ask(client, session, each)
    last = ask(client, session, asked[-1], headers=HTMX)
    assert last["HX-Redirect"] == f"{page_of(session)}?answer=7#answer"
    assert 'name="from.age"' not in body(client.get(page_of(session)))
    assert ask(client, session).status_code == 409
    assert ask(client, session, asked[0]).status_code == 302


def test_without_updates_left_a_question_that_has_no_bound_is_refused(open_session, as_, alice):
    session = open_session(updates=1)
    Session.objects.update(total=10**9)
    ask(as_(alice), session)
    SessionAnswer.objects.update(kind=AnswerKind.PAID.value, sign=1)
    assert ask(as_(alice), session, {"in.sex": "male"}).status_code == 409


def test_the_standing_is_that_of_the_replayed_session(open_session, as_, alice):
    for case, (updates, total) in enumerate(((1, 10**9), (1, 1), (3, 200))):
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


def test_an_answer_that_is_not_there_shows_the_page_without_one(session, as_, alice):
    for answer in ("0", "x", "999999999", "٣", "1" * 40):
        page = as_(alice).get(page_of(session), {"answer": answer, "page": answer})
        assert page.status_code == 200
        assert 'id="answer"' not in body(page)


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
    as_(alice).post(reverse("session_audience", args=[session.pk]), {"audience": "world"})
    assert Session.objects.get().audience == Audience.EVERYBODY


def test_the_list_and_the_catalogue_show_the_sessions_one_may_ask_in_until_they_are_used_up(
    open_session, as_, alice, charlie
):
    session = open_session(questions=1)
    for address in ("session_list", "catalogue"):
        assert "Ask away" in words(as_(alice).get(reverse(address)))
        assert "Ask away" not in words(as_(charlie).get(reverse(address)))
    services.sessions.let_ask(session=session, audience=Audience.EVERYBODY)
    assert "Ask away" not in words(as_(None).get(reverse("catalogue")))
    for address in ("session_list", "catalogue", "home"):
        assert "Ask away" in words(as_(charlie).get(reverse(address)))
    ask(as_(charlie), session)
    assert "■ used up" in words(as_(charlie).get(reverse("session_list")))
    for address in ("catalogue", "home"):
        assert "Ask away" not in words(as_(charlie).get(reverse(address)))


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


def test_an_analyst_reads_after_the_closing_what_the_session_told_while_the_release_is_private(
    open_session, as_, alice, charlie, close
):
    session = open_session(audience=Audience.EVERYBODY)
    ask(as_(charlie), session)
    ask(as_(alice), session, {"in.sex": "male"})
    close(session, by=alice)
    assert told(as_(charlie), session) == [2, 1]
    # The release itself, with its synthetic rows, is for the dataset's people until it is made public.
    assert as_(charlie).get(reverse("release_detail", args=[session.pk])).status_code == 404


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
    assert "○ open to others" in words(client.get(reverse("session_list")))
    assert client.post(reverse("session_close", args=[session.pk])).status_code == 404
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


def test_the_transcript_can_be_taken_home_as_csv_and_json(session, as_, alice):
    client = as_(alice)
    ask(client, session)
    ask(client, session, {"in.sex": "male"})
    SessionAnswer.objects.filter(sequence=2).update(estimate=0, half_width=10.0**6)
    table = client.get(reverse("transcript_csv", args=[session.pk]))
    rows = list(csv.DictReader(io.StringIO(body(table))))
    stored = list(SessionAnswer.objects.order_by("sequence"))
    assert [int(row["estimate"]) for row in rows] == [each.estimate for each in stored]
    # No count is above that of all rows.
    assert (rows[1]["lower"], int(rows[1]["upper"]) < 10_000) == ("0", True)
    assert rows[0]["question"] == "age: 18 to 34 and sex: female"
    assert json.loads(rows[1]["query"]) == {"sex": ["male"]}
    assert f'-{str(session.pk)[:8]}-transcript.csv"' in table["Content-Disposition"]
    whole = json.loads(body(client.get(reverse("transcript_json", args=[session.pk]))))
    assert [each["half_width"] for each in whole["answers"]] == [each.half_width for each in stored]
    assert whole["epsilon"] == "5"


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
