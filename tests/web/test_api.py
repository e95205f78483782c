"""The REST API: the same services as the pages, for programs that show a token."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from releases import services
from releases.models import ApiToken, AuditEvent, Dataset, LedgerEntry, Organisation, Release
from releases.services.datasets import table_path
from tests.web.conftest import COLUMNS, CSV
from tests.web.pages import words

pytestmark = pytest.mark.django_db

SCHEMA = {"version": 1, "unit": {"kind": "row"}, "neighbours": "add_remove", "columns": COLUMNS}
WORKLOAD = {"version": 1, "queries": [{"marginals": 1}]}


class Program:
    """Shows a token with everything it sends."""

    def __init__(self, client, user):
        self.client = client
        self.headers = {"authorization": f"Bearer {services.make_token(user=user, name='a script')}"}

    def get(self, path):
        return self.client.get(f"/api{path}", headers=self.headers)

    def send(self, method, path, body):
        return getattr(self.client, method)(
            f"/api{path}", json.dumps(body), content_type="application/json", headers=self.headers
        )

    def upload(self, content=CSV, title="Survey", name="survey.csv"):
        data = {"title": title, "table": SimpleUploadedFile(name, content)}
        return self.client.post("/api/datasets", data, headers=self.headers)


@pytest.fixture
def program(client, alice):
    return Program(client, alice)


def test_the_whole_way_from_a_file_to_a_receipt(program, sofia):
    uploaded = program.upload()
    assert uploaded.status_code == 201
    dataset = f"/datasets/{uploaded.json()['id']}"
    declared = program.send("put", f"{dataset}/schema", SCHEMA).json()
    assert [each["name"] for each in declared["schema"]["columns"]] == [each["name"] for each in COLUMNS]
    asked = {"epsilon": "2", "delta": "0.000001", "policy": "zcdp", "reason": "a test"}
    assert program.send("post", f"{dataset}/budget-requests", asked).status_code == 201
    services.approve_request(request=Dataset.objects.get().budget.requests.get(), by=sofia)
    drafted = program.send(
        "post",
        f"{dataset}/releases",
        {"workload": WORKLOAD, "epsilon": "1", "mechanism": "laplace-queries", "title": "By program"},
    ).json()
    plan = next(each for each in drafted["plans"] if each["mechanism"] == "laplace-queries")
    assert plan["bound"]["alpha"] > 0
    assert plan["cost"] == "epsilon 1"
    key = {"key": str(uuid.uuid4())}
    release = f"/releases/{drafted['id']}"
    for _ in range(2):
        assert program.send("post", f"{release}/submit", key).status_code == 202
    services.execute_release(release_id=drafted["id"])
    shown = program.get(release).json()
    assert shown["state"] == "published"
    receipt = program.get(f"{release}/receipt").json()
    assert receipt["cost"]["pure"]["epsilon"] == "1"
    answers = program.get(f"{release}/files/answers.csv")
    assert b"".join(answers.streaming_content).startswith(b'"query","age"')
    assert LedgerEntry.objects.filter(kind="charge").count() == 1


def test_nothing_is_said_without_a_token(client, dataset):
    for path in ("/datasets", f"/datasets/{dataset.pk}", "/mechanisms"):
        assert client.get(f"/api{path}").status_code == 401
        wrong = client.get(f"/api{path}", headers={"authorization": "Bearer dpweb_wrong"})
        assert wrong.status_code == 401
    assert client.post("/api/datasets", {"title": "x"}).status_code == 401


def test_a_browser_s_session_needs_the_csrf_token_to_change_anything(dataset, alice):
    from django.test import Client

    client = Client(enforce_csrf_checks=True)
    client.force_login(alice)
    path = f"/api/datasets/{dataset.pk}/budget-requests"
    refused = client.post(path, json.dumps({"epsilon": "1"}), content_type="application/json")
    assert refused.status_code == 403
    assert client.get(f"/api/datasets/{dataset.pk}").status_code == 200


def test_another_person_s_dataset_and_release_are_not_there(client, charlie, dataset, draft):
    stranger = Program(client, charlie)
    assert stranger.get("/datasets").json() == []
    for path in (f"/datasets/{dataset.pk}", f"/releases/{draft.pk}", f"/releases/{draft.pk}/receipt"):
        assert stranger.get(path).status_code == 404
    assert stranger.send("post", f"/releases/{draft.pk}/submit", {"key": str(uuid.uuid4())}).status_code == 404
    assert stranger.send("put", f"/datasets/{dataset.pk}/schema", SCHEMA).status_code == 404


def test_a_member_of_the_group_may_what_its_owner_may(client, bob, dataset):
    assert Program(client, bob).get(f"/datasets/{dataset.pk}").json()["title"] == dataset.title


@pytest.mark.parametrize(
    ("body", "field", "says"),
    [
        ({"epsilon": "0"}, "epsilon", "above 0"),
        ({"epsilon": "nan"}, "epsilon", "nan"),
        ({"epsilon": "1,5"}, "epsilon", "1,5"),
        ({"workload": {"version": 1, "queries": []}}, "queries", "at least one query"),
        ({"mechanism": "laplace"}, "mechanism", "laplace-queries"),
        ({"epsilon": None}, "epsilon", "string"),
    ],
)
def test_a_bad_value_is_answered_with_its_field_and_rule_and_keeps_nothing(program, dataset, body, field, says):
    asked = {"workload": WORKLOAD, "epsilon": "1", "mechanism": "laplace-queries"} | body
    answer = program.send("post", f"/datasets/{dataset.pk}/releases", asked)
    assert answer.status_code == 400
    assert field in answer.json()["field"]
    assert says in answer.json()["message"]
    assert not Release.objects.exists()


def test_what_does_not_fit_the_budget_is_refused_with_both_numbers(program, dataset, make_draft):
    release = make_draft(dataset, epsilon="3")
    answer = program.send("post", f"/releases/{release.pk}/submit", {"key": str(uuid.uuid4())})
    assert answer.status_code == 409
    assert "3" in answer.json()["message"]
    assert "2" in answer.json()["message"]


def test_a_file_that_is_no_table_is_refused_in_words(program):
    answer = program.upload(b"a,a\n1,2\n")
    assert answer.status_code == 409
    assert "Two columns are named a." in answer.json()["message"]
    assert not Dataset.objects.exists()


# What pages let a curator do


@pytest.fixture
def review_above(db):
    return lambda epsilon: Organisation.objects.create(upload_cap_bytes=2**30, review_above=epsilon)


def test_a_reason_reaches_the_reviewer_and_the_reviewer_s_words_come_back(program, draft, review_above, sofia, client):
    review_above("0.5")
    submitted = program.send(
        "post", f"/releases/{draft.pk}/submit", {"key": str(uuid.uuid4()), "reason": "For the yearbook."}
    ).json()
    assert submitted["state"] == "awaiting review"
    assert submitted["review"]["state"] == "waiting"
    request = draft.reviews.get()
    assert request.reason == "For the yearbook."
    services.approve_release(request=request, by=sofia, epsilon="0.75", note="Less is enough.")
    review = program.get(f"/releases/{draft.pk}").json()["review"]
    assert (review["state"], review["granted_epsilon"], review["note"]) == ("approved", "0.75", "Less is enough.")


def test_what_a_reviewer_wrote_is_not_for_every_reader_of_a_public_release(
    draft, review_above, sofia, alice, charlie, client
):
    review_above("0.5")
    services.submit_release(release=draft, key=uuid.uuid4(), by=alice)
    services.approve_release(request=draft.reviews.get(), by=sofia, note="Between us.", send=False)
    assert services.execute_release(release_id=draft.pk)
    services.make_public(release=draft)
    answer = Program(client, charlie).get(f"/releases/{draft.pk}")
    assert answer.json()["review"] is None
    assert b"Between us" not in answer.content


def test_a_draft_is_listed_changed_and_discarded(program, dataset, draft):
    assert [each["id"] for each in program.get("/releases").json()] == [str(draft.pk)]
    made = program.get("/releases").json()[0]["created_at"]
    assert program.client.get("/api/releases", {"before": made}, headers=program.headers).json() == []
    changed = program.send(
        "put", f"/releases/{draft.pk}", {"workload": WORKLOAD, "epsilon": "0.5", "mechanism": "laplace-queries"}
    ).json()
    assert next(each["cost"] for each in changed["plans"] if each["mechanism"] == "laplace-queries") == "epsilon 0.5"
    wrong = {"workload": {"version": 1, "queries": [{"marginals": 2}]}, "epsilon": "0"}
    assert program.send("put", f"/releases/{draft.pk}", wrong).status_code == 400
    draft.refresh_from_db()
    assert (draft.epsilon, len(draft.workload["queries"])) == ("0.5", 2), "all of it or nothing"
    assert program.send("delete", f"/releases/{draft.pk}", {}).status_code == 204
    assert not Release.objects.exists()


def test_a_release_is_cancelled_shown_hidden_and_withdrawn(program, make_dataset, make_queued):
    dataset = make_dataset(epsilon="5")
    queued, other = make_queued(dataset), make_queued(dataset)
    assert program.send("post", f"/releases/{queued.pk}/cancel", {}).json()["state"] == "cancelled"
    assert program.send("post", f"/releases/{queued.pk}/withdraw", {}).status_code == 409
    assert services.execute_release(release_id=other.pk)
    for public in (True, False):
        shown = program.send("post", f"/releases/{other.pk}/visibility", {"public": public}).json()
        assert shown["is_public"] is public
    assert program.send("post", f"/releases/{other.pk}/withdraw", {}).json()["state"] == "withdrawn"


def test_a_session_is_planned_opened_asked_and_closed(program, dataset, client, charlie):
    drafted = program.send("post", f"/datasets/{dataset.pk}/sessions", {"epsilon": "1", "title": "Ask"}).json()
    assert drafted["plans"][0]["cost"] == "epsilon 1"
    number = drafted["id"]
    program.send("post", f"/releases/{number}/submit", {"key": str(uuid.uuid4())})
    assert services.execute_release(release_id=number)
    session = f"/sessions/{number}"
    answer = program.send("post", f"{session}/questions", {"query": {"sex": ["female"]}}).json()
    assert answer["number"] == 1
    assert program.get(session).json()["questions_left"] == answer["questions_left"]
    assert len(program.get(f"{session}/transcript").json()["answers"]) == 1
    refused = program.send("post", f"{session}/questions", {"query": {"wage": ["much"]}})
    assert (refused.status_code, "wage" in refused.json()["message"]) == (400, True)
    assert program.send("put", f"{session}/audience", {"audience": "strangers"}).status_code == 400
    stranger = Program(client, charlie)
    assert stranger.get(session).status_code == 404
    assert program.send("put", f"{session}/audience", {"audience": "everybody"}).json()["audience"] == "everybody"
    assert stranger.get(session).status_code == 200
    assert stranger.send("post", f"{session}/close", {}).status_code == 404
    assert stranger.send("put", f"{session}/audience", {"audience": "group"}).status_code == 404
    assert program.send("post", f"{session}/close", {}).json()["state"] == "published"


def test_a_session_is_about_the_columns_it_names(program, dataset):
    drafted = program.send("post", f"/datasets/{dataset.pk}/sessions", {"epsilon": "1", "columns": ["sex"]}).json()
    assert services.plan_of(release=Release.objects.get(pk=drafted["id"])).schema.universe.names == ("sex",)
    refused = program.send("post", f"/datasets/{dataset.pk}/sessions", {"epsilon": "1", "columns": ["town"]})
    assert (refused.status_code, refused.json()["value"]) == (400, "town")


def test_a_dataset_is_renamed_and_discarded_and_its_rows_deleted(program, make_dataset, make_queued):
    dataset = make_dataset()
    path = f"/datasets/{dataset.pk}"
    assert program.send("put", f"{path}/title", {"title": "Panel"}).json()["title"] == "Panel"
    make_queued(dataset)
    kept = program.send("delete", path, {})
    assert (kept.status_code, "Privacy was charged for it" in kept.json()["message"]) == (409, True)
    assert program.send("delete", f"{path}/rows", {}).status_code == 409
    assert services.execute_release(release_id=dataset.releases.get().pk)
    assert program.send("delete", f"{path}/rows", {}).status_code == 204
    assert not Path(table_path(dataset)).exists()
    second = program.upload(CSV + b"another,30,male\n").json()["id"]
    assert program.send("delete", f"/datasets/{second}", {}).status_code == 204
    assert program.get(f"/datasets/{second}").status_code == 404


@pytest.mark.parametrize("title", ["", "  ", "x" * 201, "two\nlines"])
def test_a_title_that_no_list_has_room_for_is_refused(program, dataset, title):
    """Not left to the database: one of them would keep it, and another fail."""
    refused = program.send("put", f"/datasets/{dataset.pk}/title", {"title": title})
    assert (refused.status_code, refused.json()["field"]) == (400, "title")
    if title.strip():
        body = {"workload": WORKLOAD, "epsilon": "1", "title": title}
        assert program.send("post", f"/datasets/{dataset.pk}/releases", body).json()["field"] == "title"
        assert program.upload(title=title).status_code == 400


def test_a_number_longer_than_there_is_room_for_is_refused(program, dataset):
    body = {"workload": WORKLOAD, "epsilon": "1." + "0" * 50}
    refused = program.send("post", f"/datasets/{dataset.pk}/releases", body)
    assert (refused.status_code, refused.json()["rule"]) == (400, "must have at most 40 characters")


def test_text_with_a_null_character_is_refused_and_no_fault(program, dataset):
    asked = {"epsilon": "2", "reason": "a\0b"}
    refused = program.send("post", f"/datasets/{dataset.pk}/budget-requests", asked)
    assert (refused.status_code, refused.json()) == (400, {"detail": "Cannot parse request body"})


def test_requests_are_listed_with_what_was_decided_and_populations_joined(program, dataset):
    asked = program.get(f"/datasets/{dataset.pk}/budget-requests").json()
    assert [(each["state"], each["granted_epsilon"]) for each in asked] == [("approved", "2")]
    second = program.upload(CSV + b"one more,30,male\n").json()["id"]
    joined = program.send("put", f"/datasets/{second}/population", {"other": str(dataset.pk)}).json()
    assert joined["budget"]["epsilon"] == "2"


def test_a_stranger_changes_nothing_by_program(client, charlie, dataset, draft, make_queued, alice):
    stranger = Program(client, charlie)
    body = {"workload": WORKLOAD, "epsilon": "1", "mechanism": "laplace-queries"}
    for method, path, sent in (
        ("put", f"/releases/{draft.pk}", body),
        ("delete", f"/releases/{draft.pk}", {}),
        ("post", f"/releases/{draft.pk}/cancel", {}),
        ("post", f"/releases/{draft.pk}/visibility", {"public": True}),
        ("post", f"/releases/{draft.pk}/withdraw", {}),
        ("post", f"/datasets/{dataset.pk}/sessions", {"epsilon": "1"}),
        ("put", f"/datasets/{dataset.pk}/population", {"other": str(dataset.pk)}),
        ("put", f"/datasets/{dataset.pk}/title", {"title": "Mine"}),
        ("delete", f"/datasets/{dataset.pk}", {}),
        ("delete", f"/datasets/{dataset.pk}/rows", {}),
    ):
        assert stranger.send(method, path, sent).status_code == 404, path
    assert stranger.get(f"/datasets/{dataset.pk}/budget-requests").status_code == 404
    assert stranger.get("/releases").json() == []


def test_a_list_of_releases_asks_as_many_questions_for_many_as_for_few(program, make_draft, dataset):
    counts = []
    for _ in range(2):
        make_draft(dataset)
        with CaptureQueriesContext(connection) as asked:
            program.get("/releases")
        counts.append(len(asked))
    assert counts[0] == counts[1]


# Tokens


def test_a_token_is_shown_once_and_kept_as_a_hash(as_, alice):
    page = as_(alice).post(reverse("tokens"), {"name": "nightly job"})
    token = next(word for word in words(page).split() if word.startswith("dpweb_"))
    assert token not in ApiToken.objects.get().digest
    assert services.owner_of_token(token) == alice
    assert token not in words(as_(alice).get(reverse("tokens")))
    assert AuditEvent.objects.filter(detail="made the token nightly job").exists()


def test_a_revoked_token_opens_nothing(as_, alice, client):
    program = Program(client, alice)
    assert program.get("/mechanisms").status_code == 200
    as_(alice).post(reverse("revoke_token", args=[ApiToken.objects.get().pk]))
    client.logout()
    assert program.get("/mechanisms").status_code == 401


def test_nobody_revokes_another_s_token_and_a_closed_account_s_opens_nothing(as_, alice, charlie, client):
    program = Program(client, alice)
    token = ApiToken.objects.get()
    assert as_(charlie).post(reverse("revoke_token", args=[token.pk])).status_code == 404
    client.logout()
    alice.is_active = False
    alice.save()
    assert program.get("/mechanisms").status_code == 401


def test_a_token_without_a_name_is_not_made(as_, alice):
    page = as_(alice).post(reverse("tokens"), {"name": ""})
    assert page.status_code == 400
    assert "Which program it is for: nothing was typed." in words(page)
    assert not ApiToken.objects.exists()
