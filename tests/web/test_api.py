"""The REST API: the same services as the pages, for programs that show a token."""

from __future__ import annotations

import json
import uuid

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.urls import reverse

from releases import services
from releases.models import ApiToken, AuditEvent, Dataset, LedgerEntry, Release
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
