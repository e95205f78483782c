"""The pages of live sessions: planned, confirmed, asked, read, closed; by whom, and with what shown."""

from __future__ import annotations

import csv
import io
import json
import uuid

import pytest
from django.urls import reverse

from releases import services
from releases.engine.mechanisms.pmw.session import AnswerKind
from releases.models import (
    SESSION,
    Audience,
    Budget,
    LedgerEntry,
    Organisation,
    Release,
    ReleaseState,
    Session,
    SessionAnswer,
)
from releases.publication.receipt import rows_text
from releases.worker import runner
from tests.web.conftest import CSV
from tests.web.pages import body, field_value, inline_code, words

pytestmark = pytest.mark.django_db

PLAN = {"title": "Ask away", "epsilon": "5", "delta": "0", "beta": "0.05", "questions": "50", "population": "200"}
YOUNG_WOMEN = {"from.age": "18", "to.age": "35", "in.sex": ["female"]}
HTMX = {"HX-Request": "true"}


@pytest.fixture
def dataset_with_room(make_dataset):
    return make_dataset(epsilon="20", content=CSV + b"one more,30,male\n")


@pytest.fixture
def make_session(make_dataset, alice):
    def make(*, audience=Audience.GROUP, epsilon="5", **options):
        # A population of its own for each, so that no two share a budget.
        dataset = make_dataset(epsilon="20", content=CSV + f"{uuid.uuid4()},40,female\n".encode())
        given = {"population": 200, "questions": 50, **options}
        release = services.sessions.draft_session(
            dataset=dataset, by=alice, title="Ask away", epsilon=epsilon, options=given
        )
        services.releases.submit_release(release=release, key=uuid.uuid4(), by=alice, send=False)
        assert services.execution.execute_release(release_id=release.pk)
        session = Session.objects.get(pk=release.pk)
        services.sessions.let_ask(session=session, audience=audience)
        return session

    return make


@pytest.fixture
def session(make_session):
    return make_session()


def page_of(session):
    return reverse("session", args=[session.pk])


def ask(client, session, asked=None, **extra):
    return client.post(page_of(session), YOUNG_WOMEN if asked is None else asked, **extra)


# Planning and opening


def test_the_plan_is_shown_before_anything_is_spent_or_stored(dataset, as_, alice, monkeypatch):
    monkeypatch.setattr(runner, "run", lambda *_, **__: pytest.fail("the data were touched"))
    page = words(as_(alice).get(reverse("new_session", args=[dataset.pk]), PLAN))
    assert "every one of up to 50 answers is within" in page
    assert "Paid updates reserved" in page
    assert "Charged to the budget epsilon 5" in page
    assert "Of use from" in page
    assert not Release.objects.exists()


def test_a_session_too_noisy_for_its_table_says_so_in_numbers(dataset, as_, alice):
    page = words(as_(alice).get(reverse("new_session", args=[dataset.pk]), PLAN | {"epsilon": "0.1"}))
    assert "This is of little use for a table of about 200 rows." in page
    larger = words(as_(alice).get(reverse("new_session", args=[dataset.pk]), PLAN | {"population": "1000000"}))
    assert "of little use" not in larger


def test_a_session_is_held_against_one_release_of_the_same_questions_before_anything_is_spent(
    dataset_with_room, as_, alice, monkeypatch
):
    monkeypatch.setattr(runner, "run", lambda *_, **__: pytest.fail("the data were touched"))
    client = as_(alice)
    response = client.get(reverse("new_session", args=[dataset_with_room.pk]), PLAN)
    found = response.context["planned"].prepared
    assert found.session == response.context["planned"].bound
    assert found.times > 3
    said = (
        f"Asked together in one release, the same 50 questions would have an error of at most {rows_text(found.best)} "
        f"instead of {rows_text(found.session)}, whatever they are. Open a session only if the questions cannot be "
        "known beforehand."
    )
    confirmation = client.post(reverse("new_session", args=[dataset_with_room.pk]), PLAN, follow=True)
    for page in (response, confirmation):
        assert f"One release of the same questions would be {found.times_text} times as close. {said}" in words(page)
        assert f"Together, in one release: {found.ways[0][0]} {rows_text(found.best)}" in words(page)
        assert f"One at a time, in this session {rows_text(found.session)}" in words(page)
        assert '<div class="note bad" id="prepared">' in body(page)
        assert "Plan one release instead" in words(page)
    # Not to be overlooked, and not forbidden.
    assert "Spend and open" in words(confirmation)
    assert not LedgerEntry.objects.filter(kind="charge").exists()


def test_the_reviewer_reads_as_well_that_one_release_would_be_closer(dataset_with_room, as_, alice, sofia):
    Organisation.objects.create(upload_cap_bytes=2**30, review_above="0.1")
    confirmation = as_(alice).post(reverse("new_session", args=[dataset_with_room.pk]), PLAN, follow=True)
    found = confirmation.context["planned"].prepared
    release = Release.objects.of_kind(SESSION).get()
    services.releases.submit_release(release=release, key=uuid.uuid4(), by=alice, send=False)
    page = as_(sofia).get(reverse("release_request", args=[release.reviews.get().pk]))
    assert "alice asks to open a live session on Survey for epsilon" in words(page)
    assert f"One release of the same questions would be {found.times_text} times as close." in words(page)
    assert f"One at a time, in this session {found.session_margin}" in words(page)
    assert "Plan one release instead" not in words(page), "that is the curator's to do"


def test_where_a_session_is_the_closer_one_the_page_says_so_without_a_warning(make_dataset, as_, alice):
    dataset = make_dataset(epsilon="20")
    wide = [{"name": "age", "type": "integer", "edges": list(range(1001))}]
    wide += [{"name": "sex", "type": "categorical", "categories": [f"c{i}" for i in range(1000)]}]
    services.datasets.declare_universe(dataset=dataset, columns=wide)
    asked = PLAN | {"epsilon": "1", "questions": "1000"}
    page = as_(alice).get(reverse("new_session", args=[dataset.pk]), asked)
    assert page.context["planned"].prepared.times < 1
    assert "times as close" not in words(page)
    assert "Asked together in one release, the same 1,000 questions would have an error of at most" in words(page)
    assert "the session's bound is" in words(page)
    assert "Open a session only if" not in words(page)


def test_from_the_size_that_is_said_the_bound_is_below_half_the_table(dataset, as_, alice):
    def planned(**changed):
        return as_(alice).get(reverse("new_session", args=[dataset.pk]), PLAN | changed).context["planned"]

    found = planned()
    sizes = (found.useful_from, found.good_from)
    for size, share in zip(sizes, (2, 10), strict=True):
        assert planned(population=str(size)).bound < size / share
        assert planned(population=str(size // 3)).bound >= (size // 3) / share


WRONG_VALUES = [
    ("epsilon", "0,5", "epsilon: '0,5' must be a decimal number"),
    ("epsilon", "", "epsilon: nothing was typed"),
    ("delta", "2", "delta: '2' must be"),
    ("questions", "0", "Questions: must be at least 1."),
    ("questions", "many", "Questions: must be a whole number"),
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
    dataset = make_dataset(epsilon="20")
    wide = [{"name": "age", "type": "integer", "edges": list(range(20_000))}]
    wide += [{"name": "sex", "type": "categorical", "categories": [f"c{i}" for i in range(20_000)]}]
    services.datasets.declare_universe(dataset=dataset, columns=wide)
    client = as_(alice)
    assert "It needs every cell of the universe in memory" in words(
        client.get(reverse("new_session", args=[dataset.pk]), PLAN)
    )
    assert client.post(reverse("new_session", args=[dataset.pk]), PLAN).status_code == 200
    assert not Release.objects.exists()


def test_a_plan_beyond_the_budget_cannot_be_confirmed(make_dataset, as_, alice):
    dataset = make_dataset(epsilon="2")
    page = as_(alice).get(reverse("new_session", args=[dataset.pk]), PLAN)
    assert "It does not fit: it costs epsilon 5" in words(page)
    assert 'disabled aria-describedby="why-not"' in body(page)


def test_a_plan_is_confirmed_with_its_exact_charge_and_opened_once(dataset_with_room, as_, alice):
    client = as_(alice)
    response = client.post(reverse("new_session", args=[dataset_with_room.pk]), PLAN)
    draft = Release.objects.get()
    assert response.url == reverse("confirm", args=[draft.pk])
    assert draft.kind is SESSION
    confirmation = client.get(response.url)
    assert "This cannot be undone. Epsilon 5 is charged now" in words(confirmation)
    assert not LedgerEntry.objects.filter(kind="charge").exists()
    given = {name: field_value(confirmation, name) for name in ("key", "plan", "title")}
    for _ in range(2):
        assert client.post(response.url, given).url == reverse("release_detail", args=[draft.pk])
    assert LedgerEntry.objects.filter(kind="charge").count() == 1
    assert services.execution.execute_release(release_id=draft.pk)
    assert client.get(reverse("release_detail", args=[draft.pk])).url == page_of(draft)


def test_a_draft_goes_back_to_its_plan_and_is_changed_not_doubled(dataset_with_room, as_, alice):
    client = as_(alice)
    client.post(reverse("new_session", args=[dataset_with_room.pk]), PLAN)
    draft = Release.objects.get()
    for step in ("questions", "compare"):
        again = client.get(reverse(step, args=[draft.pk]), follow=True)
        assert field_value(again, "epsilon") == "5"
        assert field_value(again, "questions") == "50"
    assert client.get(reverse("release_detail", args=[draft.pk])).url == reverse("confirm", args=[draft.pk])
    changed = PLAN | {"draft": str(draft.pk), "epsilon": "4", "title": "Ask again"}
    client.post(reverse("new_session", args=[dataset_with_room.pk]), changed)
    draft.refresh_from_db()
    assert (Release.objects.count(), draft.epsilon, draft.title) == (1, "4", "Ask again")


def test_a_draft_of_a_session_cannot_be_made_to_run_what_opens_none(dataset_with_room, alice):
    release = services.sessions.draft_session(dataset=dataset_with_room, by=alice, title="", epsilon="1")
    services.releases.set_choice(release=release, epsilon="1", mechanism_name="laplace-queries")
    with pytest.raises(services.release_inputs.Refusal, match="answers no questions one at a time"):
        services.releases.submit_release(release=release, key=uuid.uuid4(), by=alice, send=False)
    assert not LedgerEntry.objects.filter(kind="charge").exists()


def test_a_session_that_costs_much_is_seen_by_a_reviewer_in_its_own_words(dataset_with_room, as_, alice, sofia):
    Organisation.objects.create(upload_cap_bytes=2**30, review_above="1")
    client = as_(alice)
    confirmation = client.post(reverse("new_session", args=[dataset_with_room.pk]), PLAN, follow=True)
    assert "is charged once it is approved" in words(confirmation)
    given = {name: field_value(confirmation, name) for name in ("key", "plan", "title")} | {"reason": "For the study."}
    draft = Release.objects.get()
    client.post(reverse("confirm", args=[draft.pk]), given)
    assert not LedgerEntry.objects.filter(kind="charge").exists()
    address = reverse("release_request", args=[draft.reviews.get().pk])
    page = words(as_(sofia).get(address))
    assert "up to 50 counts, one at a time" in page
    assert "every one of up to 50 answers is within" in page
    assert "For the study." in page
    as_(sofia).post(address, {"decision": "approve", "epsilon": "5", "note": ""})
    draft.refresh_from_db()
    assert draft.status is ReleaseState.QUEUED
    assert services.execution.execute_release(release_id=draft.pk)
    assert as_(alice).get(page_of(draft)).status_code == 200


# Asking


def test_a_question_by_clicking_is_answered_at_an_address_of_its_own(session, as_, bob):
    client = as_(bob)
    response = ask(client, session)
    assert response.url == f"{page_of(session)}?answer=1#answer"
    stored = SessionAnswer.objects.get()
    assert stored.query == {"age": {"from": 18, "to": 35}, "sex": ["female"]}
    assert stored.asked_by == bob
    page = client.get(response.url)
    assert f"{stored.estimate:,} ±" in words(page)
    assert "49 of 50" in words(page)
    # The question still stands in the fields, to ask another like it.
    assert body(page).count("<option selected>") == 2
    assert 'name="in.sex" value="female" checked' in body(page)


@pytest.mark.parametrize("kind", [AnswerKind.PUBLIC, AnswerKind.PAID])
def test_an_answer_says_whether_it_was_free_or_paid(session, as_, alice, kind):
    client = as_(alice)
    ask(client, session)
    SessionAnswer.objects.update(kind=kind.value, sign=0 if kind is AnswerKind.PUBLIC else 1)
    page = words(client.get(page_of(session), {"answer": "1"}))
    assert ("No update was used" in page) is (kind is AnswerKind.PUBLIC)
    assert ("one paid update was used" in page) is (kind is AnswerKind.PAID)
    rules = services.sessions.plan_of_session(session).rules
    assert f"{rules.updates - (kind is AnswerKind.PAID)} of {rules.updates}" in page


def test_the_same_question_again_costs_nothing_and_says_so(session, as_, alice, bob):
    ask(as_(alice), session)
    client = as_(bob)
    response = ask(client, session, {"query": '{"count": {"sex": ["female"], "age": {"to": 35}}}'})
    page = words(client.get(response.url))
    assert "The same answer as the first time, and it cost nothing." in page
    assert "49 of 50" in page
    assert SessionAnswer.objects.count() == 1


def test_with_htmx_only_the_answer_and_what_is_left_come_back(session, as_, alice):
    response = ask(as_(alice), session, headers=HTMX)
    assert response.status_code == 200
    assert body(response).lstrip().startswith('<div id="live">')
    # Loaded again, the page shows the same answer; and where a browser goes back to it, the page is whole.
    assert response["HX-Replace-Url"] == f"{page_of(session)}?answer=1"
    restored = as_(alice).get(response["HX-Replace-Url"], headers={**HTMX, "HX-History-Restore-Request": "true"})
    assert "<html" in body(restored)
    assert 'id="answer"' in body(restored)
    assert "<html" not in body(response)
    refused = ask(as_(alice), session, {"query": "{"}, headers=HTMX)
    assert refused.status_code == 200
    assert "The question is not JSON" in words(refused)


WRONG_QUESTIONS = [
    ({}, "must restrict at least one column"),
    ({"from.age": "19"}, "must be a declared edge (nearest: 18, 25, 35)"),
    ({"in.sex": ["other"]}, "other"),
    ({"query": ""}, "Question: nothing was typed"),
    ({"query": '{"sex": ["female"]'}, "The question is not JSON"),
    ({"query": '["sex"]'}, "must be a JSON object"),
    ({"query": '{"wage": ["x"]}'}, "'wage' must name a declared column"),
    ({"query": '{"sex": [["female"]]}'}, 'Count, sex: ["female"] must be one of'),
    ({"query": '{"age": {"from": {"a": 1}}}'}, "Count, age, from"),
    ({"query": '{"age": {"from": 1e999}}'}, "Count, age, from"),
    ({"query": '{"sex": ["female"], "sex": ["male"]}'}, "names the field 'sex' twice"),
]


def test_a_wrong_question_is_explained_and_kept_and_costs_no_question(session, as_, alice, monkeypatch):
    monkeypatch.setattr(runner, "run", lambda *_, **__: pytest.fail("the data were touched"))
    for asked, said in WRONG_QUESTIONS:
        response = ask(as_(alice), session, asked)
        assert response.status_code == 400
        assert said in words(response)
        assert "50 of 50" in words(response)
        assert 'id="answer"' not in body(response)
        if "query" in asked:
            assert field_value(response, "query") == asked["query"]
    assert not SessionAnswer.objects.exists()


def test_an_exhausted_session_says_so_and_still_shows_everything(make_session, as_, alice):
    session = make_session(questions=7)
    client = as_(alice)
    edges = ["18", "25", "35", "45", "55"]
    asked = [{"from.age": low} for low in edges[1:]] + [{"to.age": high} for high in edges[1:3]] + [{"in.sex": "male"}]
    for each in asked[:-1]:
        ask(client, session, each)
    last = ask(client, session, asked[-1], headers=HTMX)
    assert last["HX-Redirect"] == f"{page_of(session)}?answer=7#answer"
    page = client.get(page_of(session))
    assert "All the questions that its bound speaks of were asked." in words(page)
    assert "Ask how many rows" not in words(page)
    refused = ask(client, session)
    assert refused.status_code == 409
    assert "All questions that the session's bound speaks of were asked." in words(refused)
    assert "asked before" in words(client.get(ask(client, session, asked[0]).url))


def test_used_up_updates_are_said_where_further_answers_have_no_bound(make_session, as_, alice):
    session = make_session(updates=1)
    Session.objects.update(total=10**9)
    ask(as_(alice), session)
    SessionAnswer.objects.update(kind=AnswerKind.PAID.value, sign=1)
    page = words(as_(alice).get(page_of(session)))
    assert "All paid updates are used" in page
    assert ask(as_(alice), session, {"in.sex": "male"}).status_code == 409


def test_the_standing_is_that_of_the_replayed_session(make_session, as_, alice):
    from releases.services.session_state import replay

    for updates, total in ((1, 10**9), (1, 1), (3, 200)):
        session = make_session(updates=updates)
        Session.objects.filter(pk=session.pk).update(total=total)
        for number, asked in enumerate(({"in.sex": "male"}, {"from.age": "25"}, YOUNG_WOMEN)):
            session.refresh_from_db()
            plan = services.sessions.plan_of_session(session)
            live = replay(session, plan)
            standing = services.sessions.standing(session, plan)
            assert (standing.updates_left, standing.questions_left) == (live.updates_left, live.questions_left)
            assert bool(standing.over) is not live.is_settled
            if standing.over:
                break
            ask(as_(alice), session, asked)
            SessionAnswer.objects.filter(session=session, sequence=number + 1).update(kind="by a paid update", sign=1)


def test_the_history_turns_pages_with_a_constant_number_of_queries(session, as_, alice, django_assert_max_num_queries):
    client = as_(alice)
    for sequence in range(1, 61):
        SessionAnswer.objects.create(
            session=session,
            sequence=sequence,
            query={"sex": ["female"]},
            key=str(sequence),
            kind=AnswerKind.PUBLIC.value,
            estimate=100 + sequence,
            half_width=3.2,
            asked_by=alice,
        )
    with django_assert_max_num_queries(16):
        first = words(client.get(page_of(session)))
    assert "160" in first
    assert "Page 1 of 3" in first
    assert "101 97 105" in words(client.get(page_of(session), {"page": "3"}))


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


def test_a_session_that_the_software_would_plan_otherwise_now_answers_nothing_and_says_why(session, as_, alice):
    release = session.release
    release.plan["planned"]["parameters"] = {}
    release.save()
    client = as_(alice)
    for name in ("session", "transcript_csv", "transcript_json"):
        response = client.get(reverse(name, args=[session.pk]))
        assert response.status_code == 409
        assert "the software changed" in words(response)
    assert ask(client, session).status_code == 409
    assert client.post(reverse("session_close", args=[session.pk]), follow=True).status_code == 409
    assert not SessionAnswer.objects.exists()


# Who may


def test_analysts_may_ask_when_the_curator_lets_them_and_see_no_names(session, as_, alice, charlie):
    assert as_(charlie).get(page_of(session)).status_code == 404
    assert ask(as_(charlie), session).status_code == 404
    ask(as_(alice), session)
    as_(alice).post(reverse("session_audience", args=[session.pk]), {"audience": "everybody"})
    page = words(as_(charlie).get(page_of(session)))
    assert "Ask how many rows" in page
    assert "alice" not in page
    assert "Close the session" not in page
    assert "alice" in words(as_(alice).get(page_of(session), {"page": "1"}))
    assert ask(as_(charlie), session, {"in.sex": "male"}).status_code == 302
    for change in ("session_audience", "session_close"):
        assert as_(charlie).post(reverse(change, args=[session.pk]), {"audience": "group"}).status_code == 404
    assert as_(charlie).get(reverse("release_detail", args=[session.pk])).status_code == 404
    assert Session.objects.get().audience == Audience.EVERYBODY


def test_an_audience_that_is_none_changes_nothing(session, as_, alice):
    page = as_(alice).post(reverse("session_audience", args=[session.pk]), {"audience": "world"}, follow=True)
    assert "Who may ask: 'world' must be one of the choices." in words(page)
    assert Session.objects.get().audience == Audience.GROUP


def test_the_list_and_the_catalogue_show_the_sessions_one_may_ask_in(session, as_, alice, charlie, client):
    for address in ("session_list", "catalogue"):
        assert "Ask away" in words(as_(alice).get(reverse(address)))
        assert "Ask away" not in words(as_(charlie).get(reverse(address)))
    services.sessions.let_ask(session=session, audience=Audience.EVERYBODY)
    for address in ("session_list", "catalogue"):
        assert "Ask away" in words(as_(charlie).get(reverse(address)))
    client.logout()
    assert "Ask away" not in words(client.get(reverse("catalogue")))


def test_the_list_takes_the_same_queries_however_long_it_is(session, as_, alice, django_assert_num_queries):
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    client = as_(alice)
    client.get(reverse("session_list"))
    with CaptureQueriesContext(connection) as one:
        client.get(reverse("session_list"))
    for number in range(30):
        release = Release.objects.create(dataset=session.release.dataset, title=f"Session {number}", state="open")
        Session.objects.create(release=release, total=200, total_half_width=0, noisy_threshold=0)
    with django_assert_num_queries(len(one)):
        page = words(client.get(reverse("session_list")))
    assert "Page 1 of 2" in page
    assert "threshold" not in page


# Closing and reading


def test_closing_is_a_worker_s_work_that_the_page_follows(session, as_, alice, bob):
    client, close = as_(alice), reverse("session_close", args=[session.pk])
    assert "Nothing was asked yet" in words(client.post(close, follow=True))
    assert Release.objects.get().status is ReleaseState.OPEN
    ask(client, session)
    spent = Budget.objects.get().totals
    page = client.post(close, follow=True)
    assert page.redirect_chain[-1][0] == reverse("release_detail", args=[session.pk])
    assert "◔ closing Nobody can ask any more, and a worker is publishing what was answered." in words(page)
    assert "Waiting for a worker" in words(page)
    assert "You can close this page; you get a notice when it is done." in words(page)
    part = client.get(reverse("release_status", args=[session.pk]))
    assert "hx-trigger" in body(part)
    assert "Cancel" not in words(part)
    assert services.execution.execute_release(release_id=session.pk)
    assert client.get(reverse("release_status", args=[session.pk]))["HX-Refresh"] == "true"
    assert Budget.objects.get().totals == spent
    # Neither page has steps: a session never had a wizard.
    assert 'class="steps"' not in body(client.get(reverse("release_detail", args=[session.pk])))
    closed = as_(bob).get(page_of(session))
    assert 'class="steps"' not in body(closed)
    after = words(closed)
    assert "It was closed." in after
    assert "kept as a release" in after
    assert "Ask how many rows" not in after
    assert ask(as_(bob), session, {"in.sex": "male"}).status_code == 409
    assert SessionAnswer.objects.count() == 1


def test_while_it_is_closed_its_page_says_so_and_keeps_what_was_answered(session, as_, alice, bob):
    ask(as_(bob), session)
    services.session_closing.close_session(session=session, by=alice, send=False)
    page = as_(bob).get(page_of(session))
    assert "It is being closed: a worker is publishing what it has answered." in words(page)
    assert "age: 18 to 34 and sex: female" in words(page)
    assert "Ask how many rows" not in words(page)
    assert "Close for good" not in words(page)
    assert ask(as_(bob), session, {"in.sex": "male"}).status_code == 409
    assert "being closed already" in words(as_(bob).post(reverse("session_close", args=[session.pk]), follow=True))
    assert "◔ closing" in words(as_(bob).get(reverse("session_list")))
    assert as_(bob).get(reverse("transcript_csv", args=[session.pk])).status_code == 200


def test_a_session_that_is_used_up_says_so_where_it_is_listed_and_is_offered_to_nobody(
    make_session, as_, alice, charlie
):
    session = make_session(questions=1, audience=Audience.EVERYBODY)
    for address in ("session_list", "catalogue", "home"):
        assert "Ask away" in words(as_(charlie).get(reverse(address)))
    ask(as_(charlie), session)
    for person, address in ((alice, "session_list"), (charlie, "session_list"), (alice, "release_list")):
        assert "■ used up" in words(as_(person).get(reverse(address)))
    for address in ("catalogue", "home"):
        assert "Ask away" not in words(as_(charlie).get(reverse(address)))
    page = words(as_(alice).get(page_of(session)))
    assert "■ used up" in page
    assert "Close it below" in page
    assert "Close it below" not in words(as_(charlie).get(page_of(session)))


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
    make_session, as_, alice, charlie, close
):
    session = make_session(audience=Audience.EVERYBODY)
    ask(as_(charlie), session)
    ask(as_(alice), session, {"in.sex": "male"})
    close(session, by=alice)
    client = as_(charlie)
    assert told(client, session) == [2, 1]
    page = words(client.get(page_of(session)))
    assert "Everything it has answered is below and stays readable for everybody who could ask." in page
    assert "Ask how many rows" not in page
    assert "○ closed" in words(client.get(reverse("session_list")))
    # The release itself, with its synthetic rows, is for the dataset's people until it is made public.
    assert client.get(reverse("release_detail", args=[session.pk])).status_code == 404
    mine = words(as_(alice).get(reverse("release_detail", args=[session.pk])))
    assert "can be read on the session's page by everybody who signs in, and by the people who asked there" in mine


def test_who_may_ask_is_settled_when_a_session_is_closed(make_session, as_, alice, charlie, close):
    session = make_session(audience=Audience.EVERYBODY)
    ask(as_(charlie), session)
    services.session_closing.close_session(session=session, by=alice, send=False)
    for _ in range(2):
        answer = as_(alice).post(reverse("session_audience", args=[session.pk]), {"audience": "group"}, follow=True)
        assert "The session is closed. Everybody who could ask in it can still read what it answered." in words(answer)
        assert told(as_(charlie), session) == [1]
        services.execution.execute_release(release_id=session.pk)


def test_who_may_ask_no_more_keeps_what_was_answered_up_to_their_last_question(
    make_session, as_, alice, charlie, close
):
    session = make_session(audience=Audience.EVERYBODY)
    ask(as_(alice), session)
    ask(as_(charlie), session, {"in.sex": "male"})
    services.sessions.let_ask(session=session, audience=Audience.GROUP, by=alice)
    ask(as_(alice), session, {"in.sex": "female"})
    client = as_(charlie)
    assert told(client, session) == [2, 1]
    page = words(client.get(page_of(session)))
    assert "The curator has narrowed who may ask here, and you may no more." in page
    assert "Ask how many rows" not in page
    assert client.get(page_of(session), {"answer": "3"}).context["page"].live.answer is None
    refused = ask(client, session, {"from.age": "25"})
    assert refused.status_code == 409
    assert "you may no more" in words(refused)
    assert SessionAnswer.objects.count() == 3
    assert "○ open to others" in words(client.get(reverse("session_list")))
    assert "Ask away" not in words(client.get(reverse("catalogue")))
    assert client.post(reverse("session_close", args=[session.pk])).status_code == 404
    close(session, by=alice)
    assert told(as_(charlie), session) == [2, 1]


def test_what_was_withdrawn_is_said_to_whoever_could_read_it_and_to_nobody_else(
    make_session, as_, alice, bob, charlie, close
):
    session = make_session(audience=Audience.GROUP)
    ask(as_(bob), session)
    services.releases.withdraw_release(release=close(session, by=alice), by=alice)
    page = as_(bob).get(page_of(session))
    assert page.status_code == 410
    assert "what it had answered was withdrawn on" in words(page)
    stored = SessionAnswer.objects.get()
    assert "sex: female" not in words(page)
    assert stored.key not in body(page)
    assert as_(bob).get(reverse("transcript_csv", args=[session.pk])).status_code == 404
    assert as_(charlie).get(page_of(session)).status_code == 404
    assert "Ask away" not in words(as_(bob).get(reverse("session_list")))


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
    assert services.execution.execute_release(release_id=session.pk)
    pages += [client.get(reverse(name, args=[session.pk])) for name in ("release_detail", "session", "receipt")]
    assert all(page.status_code == 200 for page in pages)
    for page in pages:
        assert str(secret) not in body(page)
        assert f"{secret:,}" not in body(page)


def test_the_pages_keep_to_the_content_security_policy(session, dataset_with_room, as_, alice):
    client = as_(alice)
    client.post(reverse("new_session", args=[dataset_with_room.pk]), PLAN)
    draft = Release.objects.get(state="draft")
    for address in (
        page_of(session),
        reverse("session_list"),
        reverse("new_session", args=[dataset_with_room.pk]),
        reverse("confirm", args=[draft.pk]),
    ):
        assert inline_code(client.get(address)) == []
