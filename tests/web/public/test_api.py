"""The REST API: the same services as the pages, for programs that show a token."""

from __future__ import annotations

import json
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import quote

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from releases import services
from releases.engine.errors import InvalidInput
from releases.models import (
    ApiToken,
    AuditEvent,
    BudgetRequest,
    Dataset,
    LedgerEntry,
    Organisation,
    Release,
    TokenScope,
    Upload,
)
from releases.publication.archive import download_names
from releases.services.datasets import table_path
from tests.web.conftest import COLUMNS, CSV
from tests.web.pages import chosen, words

pytestmark = pytest.mark.django_db

SCHEMA = {"version": 1, "unit": {"kind": "row"}, "neighbours": "add_remove", "columns": COLUMNS}
WORKLOAD = {"version": 1, "queries": [{"marginals": 1}]}


class Program:
    """Shows a token with everything it sends."""

    def __init__(self, client, user, **more):
        self.client = client
        self.headers = {"authorization": f"Bearer {services.tokens.make_token(user=user, name='a script', **more)}"}

    def get(self, path):
        return self.client.get(f"/api{path}", headers=self.headers)

    def send(self, method, path, body):
        return getattr(self.client, method)(
            f"/api{path}", json.dumps(body), content_type="application/json", headers=self.headers
        )

    def upload(self, content=CSV, title="Survey", name="survey.csv", **facts):
        data = {"title": title, "table": SimpleUploadedFile(name, content), **facts}
        return self.client.post("/api/datasets", data, headers=self.headers)


@pytest.fixture
def program(client, alice):
    return Program(client, alice)


def test_the_whole_way_from_a_file_to_a_receipt(program, sofia, read_uploads):
    uploaded = program.upload()
    assert uploaded.status_code == 202
    upload = f"/uploads/{uploaded.json()['id']}"
    assert (program.get(upload).json()["state"], program.get(upload).json()["dataset"]) == ("waiting", None)
    read_uploads()
    assert program.get(upload).json()["state"] == "stored"
    dataset = f"/datasets/{program.get(upload).json()['dataset']}"
    declared = program.send("put", f"{dataset}/schema", SCHEMA).json()
    assert [each["name"] for each in declared["schema"]["columns"]] == [each["name"] for each in COLUMNS]
    asked = {"epsilon": "2", "delta": "0.000001", "policy": "zcdp", "reason": "a test"}
    assert program.send("post", f"{dataset}/budget-requests", asked).status_code == 201
    services.budgets.approve_request(request=Dataset.objects.get().budget.requests.get(), by=sofia)
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
    services.execution.execute_release(release_id=drafted["id"])
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
    assert (refused.status_code, "CSRF" in refused.json()["message"]) == (403, True)
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
        ({"epsilon": None}, "epsilon", "null must be text"),
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


def test_how_a_file_is_written_is_declared_beside_it_and_remembered(program, read_uploads):
    sent = program.upload(b"a;b\n1,5;x\n", decimal=",", separator="semicolon").json()
    read_uploads()
    said = program.get(f"/datasets/{sent['id']}").json()["file"]
    assert {name: said[name] for name in ("separator", "decimal", "encoding", "has_header")} == {
        "separator": ";",
        "decimal": ",",
        "encoding": "utf-8",
        "has_header": True,
    }


@pytest.mark.parametrize(
    ("facts", "wrong"),
    [
        ({}, {"field": "decimal", "value": "", "rule": "must be chosen"}),
        ({"decimal": "x"}, {"field": "decimal", "value": "x", "rule": "must be one of ., ,"}),
        ({"header_row": "0"}, {"field": "header_row", "value": "0", "rule": "must be from 1 to 1,000"}),
        ({"has_header": "maybe"}, {"field": "has_header", "value": "maybe", "rule": "must be yes or no"}),
        ({"sheet": "Data"}, {"field": "sheet", "value": "Data", "rule": "has no meaning for a text file"}),
    ],
    ids=["semicolons", "decimal", "row", "header", "sheet"],
)
def test_a_wrong_fact_of_a_file_is_named_with_its_value_and_rule(program, facts, wrong):
    answer = program.upload(b"a;b\n1,5;x\n", **facts)
    assert answer.status_code == 400
    said = answer.json()
    assert (said["field"], said["value"]) == (wrong["field"], wrong["value"])
    assert said["rule"].startswith(wrong["rule"])
    assert not Upload.objects.exists()


def test_a_file_that_is_refused_later_says_why_until_it_is_discarded(program, read_uploads):
    ragged = b"a,b\n1\n"
    upload = f"/uploads/{program.upload(ragged).json()['id']}"
    read_uploads()
    said = program.get(upload).json()
    assert (said["state"], said["dataset"]) == ("refused", None)
    assert said["refusal"] == "Line 2 has fewer values than the header, which names 2 columns."
    assert program.send("delete", upload, {}).status_code == 204
    assert program.get(upload).status_code == 404


def test_an_upload_that_is_stored_cannot_be_discarded_as_one(program, read_uploads):
    upload = f"/uploads/{program.upload().json()['id']}"
    read_uploads()
    kept = program.send("delete", upload, {})
    assert (kept.status_code, "It is stored already." in kept.json()["message"]) == (409, True)
    assert Dataset.objects.exists()


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
    services.reviews.approve_release(request=request, by=sofia, epsilon="0.75", note="Less is enough.")
    review = program.get(f"/releases/{draft.pk}").json()["review"]
    assert (review["state"], review["granted_epsilon"], review["note"]) == ("approved", "0.75", "Less is enough.")


def test_what_a_reviewer_wrote_is_not_for_every_reader_of_a_public_release(
    draft, review_above, sofia, alice, charlie, client
):
    review_above("0.5")
    services.releases.submit_release(release=draft, key=uuid.uuid4(), by=alice)
    services.reviews.approve_release(request=draft.reviews.get(), by=sofia, note="Between us.", send=False)
    assert services.execution.execute_release(release_id=draft.pk)
    services.releases.make_public(release=draft)
    answer = Program(client, charlie).get(f"/releases/{draft.pk}")
    assert answer.json()["review"] is None
    assert b"Between us" not in answer.content


def test_nothing_is_drafted_for_a_table_without_rows_by_program_either(program, dataset, published, alice):
    services.datasets.delete_rows(dataset=dataset, by=alice)
    before = Release.objects.count()
    asked = {"workload": WORKLOAD, "epsilon": "1"}
    for path, body in (("releases", asked), ("sessions", {"epsilon": "1"})):
        refused = program.send("post", f"/datasets/{dataset.pk}/{path}", body)
        assert refused.status_code == 409
        assert "The rows of this dataset were deleted" in refused.json()["message"]
    assert Release.objects.count() == before


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
    assert services.execution.execute_release(release_id=other.pk)
    for public in (True, False):
        shown = program.send("post", f"/releases/{other.pk}/visibility", {"public": public}).json()
        assert shown["is_public"] is public
    assert program.send("post", f"/releases/{other.pk}/withdraw", {}).json()["state"] == "withdrawn"


@pytest.mark.parametrize("takes_back", [services.releases.withdraw_release, services.releases.make_private])
def test_a_program_that_cites_what_was_taken_back_learns_since_when_as_on_its_page(client, charlie, public, takes_back):
    reader = Program(client, charlie)
    paths = [f"/releases/{public.pk}{part}" for part in ("", "/receipt", "/files/answers.csv")]
    assert {reader.get(path).status_code for path in paths} == {200}
    takes_back(release=public)
    for path in paths:
        gone = reader.get(path)
        assert gone.status_code == 410
        assert gone.json()["message"].startswith("This release was public ")
        assert f"{timezone.now():%Y-%m-%d}" in gone.json()["message"]
    assert client.get(f"/api{paths[0]}").status_code == 401
    assert reader.send("post", f"/releases/{public.pk}/withdraw", {}).status_code == 404
    assert reader.get(f"/releases/{uuid.uuid4()}").status_code == 404


def test_a_session_is_planned_opened_asked_and_closed(program, dataset, client, charlie):
    drafted = program.send("post", f"/datasets/{dataset.pk}/sessions", {"epsilon": "1", "title": "Ask"}).json()
    assert drafted["plans"][0]["cost"] == "epsilon 1"
    number = drafted["id"]
    program.send("post", f"/releases/{number}/submit", {"key": str(uuid.uuid4())})
    assert services.execution.execute_release(release_id=number)
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
    assert program.send("post", f"{session}/close", {}).json()["state"] == "closing"
    assert program.send("post", f"{session}/close", {}).status_code == 409
    assert "being closed" in program.get(session).json()["over"]
    assert services.execution.execute_release(release_id=number)
    assert program.get(f"/releases/{number}").json()["state"] == "published"


def test_a_session_is_about_the_columns_it_names(program, dataset):
    drafted = program.send("post", f"/datasets/{dataset.pk}/sessions", {"epsilon": "1", "columns": ["sex"]}).json()
    assert services.releases.plan_of(release=Release.objects.get(pk=drafted["id"])).schema.universe.names == ("sex",)
    refused = program.send("post", f"/datasets/{dataset.pk}/sessions", {"epsilon": "1", "columns": ["town"]})
    assert (refused.status_code, refused.json()["value"]) == (400, "town")


def test_a_dataset_is_renamed_and_discarded_and_its_rows_deleted(program, make_dataset, make_queued, read_uploads):
    dataset = make_dataset()
    path = f"/datasets/{dataset.pk}"
    assert program.send("put", f"{path}/title", {"title": "Panel"}).json()["title"] == "Panel"
    make_queued(dataset)
    kept = program.send("delete", path, {})
    assert (kept.status_code, "Privacy was charged for it" in kept.json()["message"]) == (409, True)
    assert program.send("delete", f"{path}/rows", {}).status_code == 409
    assert services.execution.execute_release(release_id=dataset.releases.get().pk)
    assert program.send("delete", f"{path}/rows", {}).status_code == 204
    assert not Path(table_path(dataset)).exists()
    second = program.upload(CSV + b"another,30,male\n").json()["id"]
    read_uploads()
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
    assert refused.status_code == 400
    assert refused.json()["message"] == "The body must not hold a null character, which no text has"


# What was charged


def test_a_dataset_s_budget_tells_what_is_spent_reserved_and_left(program, dataset, make_queued):
    done, _ = make_queued(dataset, epsilon="0.5"), make_queued(dataset, epsilon="0.75")
    assert services.execution.execute_release(release_id=done.pk)
    budget = program.get(f"/datasets/{dataset.pk}").json()["budget"]
    assert budget["epsilon"] == "2"
    assert budget["spent"] == {"percent": 25.0, "epsilon": "0.5", "delta": "0", "rho": "0.122459331202"}
    rho = budget["reserved"].pop("rho")
    assert 0.75**2 / 3 < float(rho) < 0.75**2 / 2
    assert budget["reserved"] == {"percent": 37.5, "epsilon": "0.75", "delta": "0"}
    assert budget["left"] == {"percent": 37.5, "epsilon": "0.75", "delta": ""}
    (listed,) = program.get("/datasets").json()
    assert listed["budget"] == {**budget, "reserved": {**budget["reserved"], "rho": rho}}


def test_datasets_are_listed_with_as_many_queries_however_many_there_are(program, make_dataset):
    counts = []
    for number in range(2):
        for each in range(1 + 2 * number):
            make_dataset(content=CSV + f"p{number}-{each},30,male\n".encode())
        with CaptureQueriesContext(connection) as asked:
            assert len(program.get("/datasets").json()) == 1 + 3 * number
        counts.append(len(asked))
    assert counts[0] == counts[1]


def test_one_s_own_release_tells_its_epsilon_its_cost_and_its_address(program, dataset, make_draft, client, charlie):
    draft = make_draft(dataset, epsilon="0.4", delta="0.0000001")
    path = f"/releases/{draft.pk}"
    told = program.get(path).json()
    assert (told["epsilon"], told["delta"], told["cost"]) == ("0.4", "0.0000001", None)
    told = program.send("post", f"{path}/submit", {"key": str(uuid.uuid4()), "reason": "The yearbook."}).json()
    assert told["cost"] == {"epsilon": "0.4", "delta": "0", "rho": "0.07895012809"}
    assert AuditEvent.objects.get(action="submit").detail == "epsilon 0.4; The yearbook."
    assert services.execution.execute_release(release_id=draft.pk)
    draft.refresh_from_db()
    services.releases.make_public(release=draft)
    read = Program(client, charlie).get(path).json()
    assert client.get(read["address"]).status_code == 200
    assert "cost" not in read
    (listed,) = catalogue(client)["releases"]
    assert (listed["epsilon"], listed["delta"]) == ("0.4", "0"), "what was charged, not what it was allowed"


# What is refused


@pytest.mark.parametrize(
    ("body", "field", "value", "rule"),
    [
        ({"epsilon": 0.25}, "epsilon", "0.25", 'must be text: exact numbers are sent as text, "0.25"'),
        ({"delta": 0}, "delta", "0", 'must be text: exact numbers are sent as text, "0"'),
        ({"title": 5}, "title", "5", "must be text"),
        ({"epsilon": True}, "epsilon", "true", "must be text"),
        ({"workload": [1, "ä"]}, "workload", '[1, "ä"]', "must be an object"),
        ({"workload": None}, "workload", "null", "must be an object"),
    ],
)
def test_a_value_of_another_type_is_told_as_it_was_sent(program, dataset, body, field, value, rule):
    asked = {"workload": WORKLOAD, "epsilon": "1"} | body
    answer = program.send("post", f"/datasets/{dataset.pk}/releases", asked)
    told = {"field": field, "value": value, "rule": rule, "message": f"{field}: {value} {rule}"}
    assert (answer.status_code, answer.json()) == (400, told)


def test_what_is_missing_is_named_as_a_program_would_send_it(program, dataset, draft):
    for path, body, field in (
        (f"/datasets/{dataset.pk}/releases", {"epsilon": "1"}, "workload"),
        (f"/releases/{draft.pk}/submit", {"reason": "none"}, "key"),
    ):
        told = {"field": field, "value": None, "rule": "must be given", "message": f"{field} must be given"}
        assert program.send("post", path, body).json() == told
    said = program.client.post("/api/datasets", {"title": "No table"}, headers=program.headers).json()
    assert (said["field"], said["value"], said["rule"]) == ("table", None, "must be given")
    said = program.send("post", f"/datasets/{dataset.pk}/sessions", {"epsilon": "1", "columns": ["age", 5]}).json()
    assert (said["field"], said["value"]) == ("columns[1]", "5")


@pytest.mark.parametrize("body", ["[1]", "5", '"text"', "null"])
def test_a_body_that_is_no_object_is_told_as_a_whole(program, draft, body):
    path = f"/api/releases/{draft.pk}/submit"
    answer = program.client.post(path, body, content_type="application/json", headers=program.headers)
    assert answer.status_code == 400
    assert (answer.json()["field"], answer.json()["rule"]) == ("body", "must be an object")


@pytest.mark.parametrize(
    ("body", "rule"),
    [
        (b'{"key": ', "must be JSON: "),
        (b"\xff{}", "must be text in UTF-8"),
        (b'{"key": "\\ud800"}', "must be text in UTF-8"),
        (b"[" * 100_000, "must be JSON: "),
        (b"", "must be given"),
    ],
)
def test_a_body_that_cannot_be_read_says_why(program, draft, body, rule):
    path = f"/api/releases/{draft.pk}/submit"
    answer = program.client.post(path, body, content_type="application/json", headers=program.headers)
    said = answer.json()
    assert (answer.status_code, said["field"]) == (400, "body")
    assert said["rule"].startswith(rule)
    assert said["rule"] in said["message"]
    assert set(said) == {"field", "value", "rule", "message"}


def test_a_null_character_is_found_in_every_encoding_and_not_where_there_is_none(program, draft):
    path = f"/api/releases/{draft.pk}/submit"

    def send(body):
        return program.client.post(path, body, content_type="application/json", headers=program.headers).json()

    sent = '{"key": "x", "reason": "a\\u0000b"}'
    for encoding in ("utf-8", "utf-16", "utf-32"):
        assert send(sent.encode(encoding))["rule"] == "must not hold a null character, which no text has", encoding
    # The same six letters behind a backslash are text.
    assert send(rb'{"key": "x", "reason": "C:\\u0000"}')["field"] == "key"


def test_a_key_that_is_no_uuid_says_so_plainly(program, draft):
    said = program.send("post", f"/releases/{draft.pk}/submit", {"key": "xyz"}).json()
    assert said == {"field": "key", "value": "xyz", "rule": "must be a UUID", "message": "key: xyz must be a UUID"}


@pytest.mark.parametrize(
    ("method", "path", "status", "says"),
    [
        ("get", "/api/nothing", 404, "no such thing"),
        ("get", "/api/datasets/nonsense", 404, "no such thing"),
        ("get", "/api/datasets/00000000-0000-4000-8000-000000000000", 404, "no such thing"),
        ("get", "/api/releases/00000000-0000-4000-8000-000000000000/files/x", 404, "no such thing"),
        ("patch", "/api/datasets", 405, "PATCH is not taken here, only "),
        ("delete", "/api/catalogue", 405, "DELETE is not taken here, only GET."),
        ("get", "/api/catalogue?q=%00", 400, "null character"),
        ("get", "/api/catalogue?page=0", 400, "page: 0 must be greater than or equal to 1"),
        ("get", "/api/releases?before=never", 400, "before: never must be a valid datetime"),
    ],
)
def test_every_refusal_is_json_with_a_message(program, method, path, status, says):
    answer = getattr(program.client, method)(path, headers=program.headers)
    assert answer.status_code == status
    assert answer["Content-Type"].startswith("application/json")
    assert says in answer.json()["message"]
    assert int(answer.headers.get("Content-Length", len(answer.content))) == len(answer.content)
    assert ("Allow" in answer) == (status == 405)


def test_who_is_not_known_is_told_whether_a_token_was_shown(client, dataset, alice):
    path = f"/api/datasets/{dataset.pk}"
    shown = services.tokens.make_token(user=alice, name="old")
    services.tokens.revoke_token(token=ApiToken.objects.get())
    for token in (shown, "dpweb_wrong"):
        refused = client.get(path, headers={"authorization": f"Bearer {token}"})
        assert (refused.status_code, set(refused.json())) == (401, {"message"})
        assert "no such token, or it was revoked" in refused.json()["message"]
    assert "No token was shown" in client.get(path).json()["message"]


def test_a_program_without_a_good_token_is_told_so_whatever_it_would_do(alice, draft):
    """Programs know no CSRF token; to be told that it is missing would send them after the wrong fault."""
    client, path = Client(enforce_csrf_checks=True), f"/api/releases/{draft.pk}"
    ways = {"": "No token was shown", "Bearer dpweb_wrong": "no such token", "Basic YTpi": "No token was shown"}
    for shown, says in ways.items():
        headers = {"authorization": shown} if shown else {}
        for refused in (client.get(path, headers=headers), client.delete(path, headers=headers)):
            assert refused.status_code == 401
            assert says in refused.json()["message"]


def test_a_wrong_token_is_not_made_good_by_a_session(as_, alice, dataset):
    assert as_(alice).get("/api/datasets").status_code == 200
    assert as_(alice).get("/api/datasets", headers={"authorization": "Bearer dpweb_wrong"}).status_code == 401


def test_a_token_leaves_no_cookie_behind(client, alice, charlie):
    """It says whose a call is, not who sits at a browser: what was typed there is kept for whoever signed in."""
    client.force_login(charlie)
    assert client.get("/datasets/").cookies["whose"].value.startswith(f"{charlie.pk}:")
    assert not Program(client, alice).get("/datasets").cookies


def test_whoever_is_told_401_is_told_how_to_sign_in(client, alice):
    program = Program(client, alice)
    ApiToken.objects.update(ends_at=timezone.now())
    wrong = client.get("/api/datasets", headers={"authorization": "Bearer dpweb_wrong"})
    for refused in (client.get("/api/datasets"), wrong, program.get("/datasets")):
        assert refused.status_code == 401
        assert refused["WWW-Authenticate"].startswith("Bearer")


def test_a_fault_of_the_site_tells_programs_nothing_of_itself(program, monkeypatch):
    def fail(*args, **kwargs):
        raise RuntimeError("the row of Ann, 31, income 40000")

    monkeypatch.setattr("releases.api.releases.mechanisms", fail)
    program.client.raise_request_exception = False
    answer = program.get("/mechanisms")
    assert answer.status_code == 500
    assert answer.json()["message"].startswith("Something failed here.")
    assert b"Ann" not in answer.content


def test_pages_that_refuse_are_still_pages(client, as_, alice):
    assert as_(alice).get("/nothing/").headers["Content-Type"].startswith("text/html")
    assert client.get("/catalogue/?q=%00").headers["Content-Type"].startswith("text/html")


def test_requests_are_listed_with_what_was_decided_and_populations_joined(program, dataset, read_uploads):
    asked = program.get(f"/datasets/{dataset.pk}/budget-requests").json()
    assert [(each["state"], each["granted_epsilon"]) for each in asked] == [("approved", "2")]
    second = program.upload(CSV + b"one more,30,male\n").json()["id"]
    read_uploads()
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


@pytest.mark.parametrize("before", ["0001-01-01T00:00:00%2B23:00", "9999-12-31T23:59:59-23:00"])
def test_a_time_outside_of_this_site_s_calendar_is_refused_and_no_fault(program, draft, before):
    refused = program.get(f"/releases?before={before}")
    assert (refused.status_code, refused.json()["field"]) == (400, "before")


@pytest.mark.filterwarnings("error")
def test_a_time_without_a_zone_is_one_of_this_site(program, draft, settings):
    Release.objects.update(created_at=datetime(2030, 1, 1, 12, tzinfo=UTC))
    settings.TIME_ZONE = "Asia/Tokyo"
    listed = [len(program.get(f"/releases?before=2030-01-01T{at}").json()) for at in ("20:00:00", "22:00:00")]
    assert listed == [0, 1]


def test_a_list_of_releases_asks_as_many_questions_for_many_as_for_few(program, make_draft, dataset):
    counts = []
    for _ in range(2):
        make_draft(dataset)
        with CaptureQueriesContext(connection) as asked:
            program.get("/releases")
        counts.append(len(asked))
    assert counts[0] == counts[1]


@pytest.mark.parametrize("path", ["/datasets", "/releases", "/datasets/{}/budget-requests"])
def test_every_list_comes_in_parts_that_leave_nothing_out(program, alice, dataset, path):
    """Each of 250 once, the newest first, whatever they are."""
    asked = path.format(dataset.pk)
    model, when = {
        "/datasets": (Dataset, "created_at"),
        "/releases": (Release, "created_at"),
        "/datasets/{}/budget-requests": (BudgetRequest, "requested_at"),
    }[path]
    values = {
        Dataset: {"title": "One of many", "owner": alice, "digest": "0" * 64, "columns": ["a"]},
        Release: {"title": "One of many", "dataset": dataset, "submitted_by": alice},
        BudgetRequest: {"budget": dataset.budget, "epsilon": "3", "requested_by": alice, "state": "denied"},
    }[model]
    model.objects.bulk_create(model(**values) for _ in range(250 - model.objects.count()))
    listed, sizes, before = [], [], ""
    while part := program.get(asked + before).json():
        listed += [each[when] for each in part]
        sizes.append(len(part))
        before = f"?before={quote(part[-1][when])}"
    assert sizes == [100, 100, 50]
    assert listed == sorted(set(listed), reverse=True)


def test_a_list_of_datasets_asks_as_many_questions_for_many_as_for_few(program, alice, make_dataset):
    counts = []
    for count in (1, 20):
        for number in range(count):
            make_dataset(epsilon="", content=CSV + f"more{count}.{number},30,male\n".encode())
        with CaptureQueriesContext(connection) as asked:
            assert len(program.get("/datasets").json()) >= count
        counts.append(len(asked))
    assert counts[0] == counts[1]


# Tokens


def test_a_token_is_shown_once_and_kept_as_a_hash(confirmed, as_, alice):
    page = confirmed(alice).post(reverse("tokens"), {"name": "nightly job", "days": "90", "scope": "all"})
    token = next(word for word in words(page).split() if word.startswith("dpweb_"))
    assert token not in ApiToken.objects.get().digest
    assert services.tokens.use_token(token).user == alice
    assert token not in words(as_(alice).get(reverse("tokens")))
    made = AuditEvent.objects.get(detail__startswith="made the token nightly job: all that you may do, until ")
    assert made.actor == alice


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
    page = as_(alice).post(reverse("tokens"), {"name": "", "days": "30", "scope": "read"})
    assert page.status_code == 400
    assert chosen(page, "days") == "30"
    assert "Which program it is for: nothing was typed." in words(page)
    assert not ApiToken.objects.exists()


@pytest.mark.parametrize("name", ["a\u202eb", "one\nof two lines"])
def test_a_token_s_name_is_one_that_the_log_can_show(confirmed, alice, name):
    refused = confirmed(alice).post(reverse("tokens"), {"name": name, "days": "30", "scope": "all"})
    assert refused.status_code == 400
    assert "must be printable text" in words(refused)
    assert not ApiToken.objects.exists()


def test_a_token_that_has_ended_is_refused_in_clear_words_and_notes_no_use(client, alice):
    program = Program(client, alice)
    assert program.get("/mechanisms").status_code == 200
    used = ApiToken.objects.get().last_used_at
    ends = timezone.now() - timedelta(seconds=1)
    ApiToken.objects.update(ends_at=ends)
    refused = program.get("/mechanisms")
    assert refused.status_code == 401
    ended = f"The token “a script” ended on {ends:%Y-%m-%d}. Make another under Tokens for programs."
    assert refused.json() == {"message": ended}
    assert ApiToken.objects.get().last_used_at == used


def test_a_token_ends_on_the_same_day_for_its_program_as_on_its_page(client, as_, alice, settings):
    settings.TIME_ZONE = "Pacific/Auckland"
    program = Program(client, alice)
    ApiToken.objects.update(ends_at=datetime(2020, 3, 1, 20, tzinfo=UTC))
    assert "ended on 2020-03-02." in program.get("/mechanisms").json()["message"]
    assert "2 March 2020" in words(as_(alice).get(reverse("tokens")))


def test_a_session_s_cookie_does_not_open_what_an_ended_token_does_not(as_, alice):
    program = Program(as_(alice), alice)
    ApiToken.objects.update(ends_at=timezone.now())
    assert program.get("/datasets").status_code == 401


def test_a_token_for_reading_reads_and_changes_nothing(client, alice, draft):
    program = Program(client, alice, scope=TokenScope.READ)
    assert program.get(f"/releases/{draft.pk}").status_code == 200
    refused = program.send("post", f"/releases/{draft.pk}/submit", {"key": str(uuid.uuid4())})
    assert refused.status_code == 403
    assert refused.json() == {"message": "The token “a script” is for reading only, and this would change something."}
    assert program.send("delete", f"/releases/{draft.pk}", {}).status_code == 403
    assert program.upload().status_code == 403
    assert Release.objects.get().state == "draft"
    assert not LedgerEntry.objects.filter(kind="charge").exists()


def test_every_token_ends_within_a_year(confirmed, as_, alice):
    for days in (0, -1, 366):
        with pytest.raises(InvalidInput, match="must be from 1 to 365: every token has an end"):
            services.tokens.make_token(user=alice, name="a script", days=days)
    assert as_(alice).post(reverse("tokens"), {"name": "x", "days": "4000", "scope": "all"}).status_code == 400
    assert as_(alice).post(reverse("tokens"), {"name": "x", "scope": "all"}).status_code == 400
    assert as_(alice).post(reverse("tokens"), {"name": "x", "days": "30", "scope": "some"}).status_code == 400
    assert not ApiToken.objects.exists()
    confirmed(alice).post(reverse("tokens"), {"name": "x", "days": "30", "scope": "read"})
    made = ApiToken.objects.get()
    assert made.scope == "read"
    assert timedelta(days=29, hours=23) < made.ends_at - timezone.now() <= timedelta(days=30)


def test_a_token_from_before_there_were_ends_still_opens_and_is_shown_to_be_replaced(client, as_, alice):
    program = Program(client, alice)
    ApiToken.objects.update(ends_at=None)
    assert program.get("/datasets").status_code == 200
    said = words(as_(alice).get(reverse("tokens")))
    assert "○ no end Replace it by one that ends." in said
    ApiToken.objects.update(ends_at=timezone.now())
    said = words(as_(alice).get(reverse("tokens")))
    assert "✕ ended" in said
    assert "all that you may do" in said


# What is public


def catalogue(client, **asked):
    answer = client.get("/api/catalogue", asked)
    assert answer.status_code == 200
    return answer.json()


def test_programs_find_what_is_public_without_a_token_and_nothing_else(client, public, make_queued, dataset):
    private = make_queued(dataset, epsilon="0.5")
    assert services.execution.execute_release(release_id=private.pk)
    found = catalogue(client)
    assert (found["count"], found["page"], found["pages"]) == (1, 1, 1)
    (only,) = found["releases"]
    assert (only["id"], only["title"], only["epsilon"]) == (str(public.pk), public.title, "1")
    assert only["bound"]["alpha"] == public.result["receipt"]["bound"]["alpha"]
    assert set(only["files"]) == set(download_names(public.result))
    for address in (only["address"], *only["files"].values()):
        assert client.get(address).status_code == 200, address
    services.releases.withdraw_release(release=public)
    assert catalogue(client) == {"count": 0, "page": 1, "pages": 1, "releases": []}


def test_programs_search_the_catalogue_as_people_do(client, public):
    assert catalogue(client, q="survey AGE")["count"] == 1
    assert catalogue(client, q="survey height")["count"] == 0


def test_the_catalogue_is_paged_and_a_page_beyond_the_last_is_empty(client, public, monkeypatch):
    again = {field: getattr(public, field) for field in ("dataset", "state", "is_public", "result", "folder")}
    newer = Release.objects.create(title="Newer", published_at=timezone.now(), **again)
    monkeypatch.setattr("releases.api.catalogue.MAX_CATALOGUED", 1)
    pages = [catalogue(client, page=number) for number in (1, 2, 3)]
    assert [[each["id"] for each in page["releases"]] for page in pages] == [[str(newer.pk)], [str(public.pk)], []]
    assert {page["pages"] for page in pages} == {2}
    for wrong in ("0", "-1", "x"):
        refused = client.get("/api/catalogue", {"page": wrong})
        assert refused.status_code == 400
        assert refused.json()["field"] == "page"


def test_the_catalogue_takes_as_many_queries_however_much_is_public(client, public):
    counts = []
    for _ in range(2):
        with CaptureQueriesContext(connection) as asked:
            catalogue(client)
        counts.append(len(asked))
        for _ in range(5):
            again = {field: getattr(public, field) for field in ("dataset", "state", "is_public", "result", "folder")}
            Release.objects.create(title="More", published_at=timezone.now(), **again)
    assert counts[0] == counts[1] <= 3


def test_a_dataset_is_shared_by_the_name_of_the_group(program, alice, bob, as_, upload_file):
    own = services.datasets.ingest_dataset(owner=alice, title="Own", source=upload_file(CSV))
    path, page = f"/datasets/{own.pk}", reverse("dataset_detail", args=[own.pk])
    assert program.get(path).json()["group"] is None
    assert program.send("put", f"{path}/group", {"group": "Survey team"}).json()["group"] == "Survey team"
    assert as_(bob).get(page).status_code == 200
    refused = program.send("put", f"{path}/group", {"group": "Board"})
    assert (refused.status_code, refused.json()["field"]) == (400, "group")
    assert program.send("put", f"{path}/group", {"group": None}).json()["group"] is None
    assert as_(bob).get(page).status_code == 404


def test_a_budget_request_is_taken_back_as_long_as_nobody_has_decided(program, asked):
    path = f"/datasets/{asked.budget.datasets.get().pk}/budget-requests"
    assert program.send("post", f"{path}/take-back", {}).json()["state"] == "taken back"
    assert [each["state"] for each in program.get(path).json()] == ["taken back"]
    again = program.send("post", f"{path}/take-back", {})
    assert (again.status_code, again.json()["message"]) == (409, "No request waits for a reviewer.")
