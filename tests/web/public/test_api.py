"""The REST API: the same services as the pages, for programs that show a token."""

import dataclasses
import json
import uuid
from datetime import timedelta

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from releases import services
from releases.api.datasets import UploadIn
from releases.engine.errors import InvalidInput
from releases.engine.tables.facts import FileFacts
from releases.management.commands.release import FACTS
from releases.models import ApiToken, AuditEvent, Dataset, LedgerEntry, Organisation, Release, Upload
from releases.models import TokenScope as Scope
from releases.publication.archive import download_names
from tests.web.conftest import COLUMNS, CSV, person
from tests.web.pages import words

SCHEMA = {"version": 1, "unit": {"kind": "row"}, "neighbours": "add_remove", "columns": COLUMNS}
WORKLOAD = {"version": 1, "queries": [{"marginals": 1}]}
PLAN = {"workload": WORKLOAD, "epsilon": "1", "mechanism": "laplace-queries"}


class Program:
    """Shows a token with everything it sends."""

    def __init__(self, client, user, **more):
        self.client = client
        self.headers = {"authorization": f"Bearer {services.tokens.make_token(user=user, name='a script', **more)}"}

    def get(self, path, **asked):
        return self.client.get(f"/api{path}", asked, headers=self.headers)

    def send(self, method, path, body=None):
        """A body as it is where it is bytes, else as JSON."""
        sent = body if isinstance(body, bytes) else json.dumps({} if body is None else body)
        call = getattr(self.client, method)
        return call(f"/api{path}", sent, content_type="application/json", headers=self.headers)

    def submit(self, release, **more):
        return self.send("post", f"/releases/{release}/submit", {"key": str(uuid.uuid4())} | more)

    def told(self, path):
        return self.get(path).json()

    def upload(self, content=CSV, title="Survey", name="survey.csv", **facts):
        data = {"title": title, "table": SimpleUploadedFile(name, content), **facts}
        return self.client.post("/api/datasets", data, headers=self.headers)


@pytest.fixture
def program(client, alice):
    return Program(client, alice)


def refusal(answer):
    """The status, field, value and rule of a refusal, whose message says the rule."""
    said = answer.json()
    assert said["rule"] in said["message"]
    return answer.status_code, said["field"], said["value"], said["rule"]


def test_the_whole_way_from_a_file_to_a_receipt(program, sofia, read_uploads):
    uploaded = program.upload()
    assert uploaded.status_code == 202
    upload = f"/uploads/{uploaded.json()['id']}"
    assert (program.told(upload)["state"], program.told(upload)["dataset"]) == ("waiting", None)
    read_uploads()
    assert program.told(upload)["state"] == "stored"
    dataset = f"/datasets/{program.told(upload)['dataset']}"
    declared = program.send("put", f"{dataset}/schema", SCHEMA).json()
    assert [each["name"] for each in declared["schema"]["columns"]] == [each["name"] for each in COLUMNS]
    asked = {"epsilon": "2", "delta": "0.000001", "policy": "zcdp", "reason": "a test"}
    assert program.send("post", f"{dataset}/budget-requests", asked).status_code == 201
    services.budgets.approve_request(request=Dataset.objects.get().budget.requests.get(), by=sofia)
    drafted = program.send("post", f"{dataset}/releases", PLAN | {"title": "By program"}).json()
    plan = next(each for each in drafted["plans"] if each["mechanism"] == "laplace-queries")
    assert plan["bound"]["alpha"] > 0
    assert plan["cost"] == "epsilon 1"
    release, key = f"/releases/{drafted['id']}", str(uuid.uuid4())
    for _ in range(2):
        assert program.submit(drafted["id"], key=key).status_code == 202
    services.execution.execute_release(release_id=drafted["id"])
    assert program.told(release)["state"] == "published"
    assert program.told(f"{release}/receipt")["cost"]["pure"]["epsilon"] == "1"
    answers = program.get(f"{release}/files/answers.csv")
    assert b"".join(answers.streaming_content).startswith(b'"query","age"')
    assert LedgerEntry.objects.filter(kind="charge").count() == 1


def test_how_a_file_is_written_is_declared_beside_it_and_refused_by_name_where_it_is_wrong(program, read_uploads):
    content = b"a;b\n1,5;x\n"
    for facts, field in (({}, "decimal"), ({"header_row": "0"}, "header_row"), ({"sheet": "Data"}, "sheet")):
        assert refusal(program.upload(content, **facts))[:2] == (400, field)
    assert not Upload.objects.exists()
    sent = program.upload(content, decimal=",", separator="semicolon").json()
    read_uploads()
    remembered = {"separator": ";", "decimal": ",", "encoding": "utf-8", "has_header": True}
    assert program.told(f"/datasets/{sent['id']}")["file"].items() >= remembered.items()
    assert program.upload(b"name, first, last\tage\nx\t1\n", name="people.tsv").status_code == 202


# What pages let a curator do


@pytest.fixture
def review_above(db):
    return lambda epsilon: Organisation.objects.create(upload_cap_bytes=2**30, review_above=epsilon)


def test_what_a_reviewer_wrote_is_not_for_every_reader_of_a_public_release(
    program, draft, review_above, sofia, charlie, client
):
    review_above("0.5")
    submitted = program.submit(draft.pk, reason="For the yearbook.").json()
    assert (submitted["state"], submitted["review"]["state"]) == ("awaiting review", "waiting")
    assert draft.reviews.get().reason == "For the yearbook."
    services.reviews.approve_release(request=draft.reviews.get(), by=sofia, note="Between us.", send=False)
    assert services.execution.execute_release(release_id=draft.pk)
    services.releases.make_public(release=draft)
    told = program.told(f"/releases/{draft.pk}")
    assert (told["review"]["state"], told["review"]["note"]) == ("approved", "Between us.")
    assert told["cost"]["epsilon"] == "1"
    answer = Program(client, charlie).get(f"/releases/{draft.pk}")
    assert answer.json()["review"] is None
    assert "cost" not in answer.json()
    assert b"Between us" not in answer.content


def test_a_draft_is_listed_changed_and_discarded(program, draft):
    (listed,) = program.told("/releases")
    assert listed["id"] == str(draft.pk)
    assert program.get("/releases", before=listed["created_at"]).json() == []
    changed = program.send("put", f"/releases/{draft.pk}", PLAN | {"epsilon": "0.5"}).json()
    assert next(each["cost"] for each in changed["plans"] if each["mechanism"] == "laplace-queries") == "epsilon 0.5"
    wrong = {"workload": {"version": 1, "queries": [{"marginals": 2}]}, "epsilon": "0"}
    assert program.send("put", f"/releases/{draft.pk}", wrong).status_code == 400
    draft.refresh_from_db()
    assert (draft.epsilon, len(draft.workload["queries"])) == ("0.5", 2), "all of it or nothing"
    assert program.send("delete", f"/releases/{draft.pk}").status_code == 204
    assert not Release.objects.exists()


def test_a_program_that_cites_what_was_taken_back_learns_since_when_as_on_its_page(client, charlie, public):
    reader = Program(client, charlie)
    paths = [f"/releases/{public.pk}{part}" for part in ("", "/receipt", "/files/answers.csv")]
    assert {reader.get(path).status_code for path in paths} == {200}
    services.releases.make_private(release=public)
    for path in paths:
        gone = reader.get(path)
        assert gone.status_code == 410
        assert gone.json()["message"].startswith("This release was public ")
        assert f"{timezone.now():%Y-%m-%d}" in gone.json()["message"]


# What is refused


def test_a_body_that_cannot_be_read_says_why(program, draft):
    for body, field, rule in (
        (b"[" * 100_000, "body", "must be JSON: "),
        (b'{"key": "\\ud800"}', "body", "must be text in UTF-8"),
        (b"null", "body", "must be an object"),
        ('{"reason": "a\\u0000b"}'.encode("utf-16"), "body", "must not hold a null character, which no text has"),
        # The same six letters behind a backslash are text.
        (rb'{"key": "x", "reason": "C:\\u0000"}', "key", "must be a UUID"),
    ):
        answer = program.send("post", f"/releases/{draft.pk}/submit", body)
        status, found, _, told = refusal(answer)
        assert (status, found) == (400, field)
        assert told.startswith(rule)
        assert set(answer.json()) == {"field", "value", "rule", "message"}


def test_every_refusal_is_json_with_a_message(program):
    for method, path, status, says in (
        ("get", "/api/nothing", 404, "no such thing"),
        ("get", "/api/datasets/nonsense", 404, "no such thing"),
        ("patch", "/api/datasets", 405, "PATCH is not taken here, only "),
        ("get", "/api/catalogue?q=%00", 400, "null character"),
        ("get", "/api/catalogue?page=0", 400, "page: 0 must be greater than or equal to 1"),
        ("get", "/api/releases?before=9999-12-31T23:59:59-23:00", 400, "before"),
    ):
        answer = getattr(program.client, method)(path, headers=program.headers)
        assert answer.status_code == status
        assert answer["Content-Type"].startswith("application/json")
        assert says in answer.json()["message"]
        assert ("Allow" in answer) == (status == 405)


def test_a_list_comes_in_parts_that_leave_nothing_out(program, alice, dataset):
    """Each of 250 once, the newest first."""
    Release.objects.bulk_create(Release(title="A", dataset=dataset, submitted_by=alice) for _ in range(250))
    listed, before = [], {}
    while part := program.get("/releases", **before).json():
        assert len(part) == min(100, 250 - len(listed))
        listed += [each["created_at"] for each in part]
        before = {"before": listed[-1]}
    assert listed == sorted(set(listed), reverse=True)


def test_a_token_leaves_no_cookie_behind(client, alice, charlie):
    """It says whose a call is, not who sits at a browser: what was typed there is kept for whoever signed in."""
    client.force_login(charlie)
    assert client.get("/datasets/").cookies["whose"].value.startswith(f"{charlie.pk}:")
    assert not Program(client, alice).get("/datasets").cookies


def test_a_fault_of_the_site_tells_programs_nothing_of_itself(program, monkeypatch):
    def fail(*args, **kwargs):
        raise RuntimeError("the row of Ann, 31, income 40000")

    monkeypatch.setattr("releases.api.releases.mechanisms", fail)
    program.client.raise_request_exception = False
    answer = program.get("/mechanisms")
    assert answer.status_code == 500
    assert answer.json()["message"].startswith("Something failed here.")
    assert b"Ann" not in answer.content


# Tokens


def test_a_token_is_shown_once_and_kept_as_a_hash(confirmed, as_, alice):
    page = confirmed(alice).post(reverse("tokens"), {"name": "nightly job", "days": "90", "scope": "all"})
    token = next(word for word in words(page).split() if word.startswith("dpweb_"))
    assert token not in ApiToken.objects.get().digest
    assert services.tokens.use_token(token).user == alice
    assert token not in words(as_(alice).get(reverse("tokens")))
    made = AuditEvent.objects.get(detail__startswith="made the token nightly job: all that you may do, until ")
    assert made.actor == alice


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


def test_a_token_for_reading_reads_and_changes_nothing(client, alice, draft):
    program = Program(client, alice, scope=Scope.READ)
    assert program.get(f"/releases/{draft.pk}").status_code == 200
    refused = program.submit(draft.pk)
    assert refused.status_code == 403
    assert refused.json() == {"message": "The token “a script” is for reading only, and this would change something."}
    assert program.send("delete", f"/releases/{draft.pk}").status_code == 403
    assert program.upload().status_code == 403
    assert Release.objects.get().state == "draft"
    assert not LedgerEntry.objects.filter(kind="charge").exists()


def test_every_token_ends_within_a_year(confirmed, as_, alice):
    for days in (0, -1, 366):
        with pytest.raises(InvalidInput, match="must be from 1 to 365: every token has an end"):
            services.tokens.make_token(user=alice, name="a script", days=days)
    sent = {"name": "x", "days": "30", "scope": "all"}
    for wrong in ({"days": "4000"}, {"scope": "some"}, {"name": "a\u202eb"}, {"name": "one\nof two lines"}):
        assert confirmed(alice).post(reverse("tokens"), sent | wrong).status_code == 400
    assert not ApiToken.objects.exists()
    confirmed(alice).post(reverse("tokens"), {"name": "x", "days": "30", "scope": "read"})
    made = ApiToken.objects.get()
    assert made.scope == "read"
    assert timedelta(days=29, hours=23) < made.ends_at - timezone.now() <= timedelta(days=30)


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


BAD_VALUES = [
    ({"epsilon": "0"}, "epsilon", "0", "must be above 0"),
    ({"epsilon": "1,5"}, "epsilon", "1,5", "must be a decimal number with a point"),
    ({"epsilon": "1." + "0" * 50}, "epsilon", "1.00000000…", "must have at most 40 characters"),
    ({"epsilon": 0.25}, "epsilon", "0.25", 'must be text: exact numbers are sent as text, "0.25"'),
    ({"epsilon": None}, "epsilon", "null", "must be text"),
    ({"workload": {"version": 1, "queries": []}}, "queries", "[]", "must be a list with at least one query"),
    ({"workload": [1, "ä"]}, "workload", '[1, "ä"]', "must be an object"),
    ({"mechanism": "laplace"}, "mechanism", "laplace", "must be"),
]


def test_a_bad_value_is_answered_with_its_field_value_and_rule_and_keeps_nothing(program, dataset):
    for body, field, value, rule in BAD_VALUES:
        answer = program.send("post", f"/datasets/{dataset.pk}/releases", PLAN | body)
        *named, told = refusal(answer)
        assert named == [400, field, value]
        assert told.startswith(rule)
        assert answer.json()["message"].startswith(f"{field}: ")
        assert not Release.objects.exists()


def test_a_program_without_a_good_token_is_told_why_whatever_it_would_do(alice, draft):
    """Programs know no CSRF token; to be told that it is missing would send them after the wrong fault. Who is signed
    in as well is answered by the token alone."""
    revoked = services.tokens.make_token(user=alice, name="old")
    services.tokens.revoke_token(token=ApiToken.objects.get())
    shown = {
        "": "No token was shown",
        "Basic YTpi": "No token was shown",
        "Bearer dpweb_wrong": "no such token, or it was revoked",
        f"Bearer {revoked}": "no such token, or it was revoked",
        f"Bearer {services.tokens.make_token(user=alice, name='ended')}": "ended on",
    }
    ApiToken.objects.update(ends_at=timezone.now())
    closed = person("closed", is_active=False)
    shown[f"Bearer {services.tokens.make_token(user=closed, name='a script')}"] = "no such token"
    path = f"/api/releases/{draft.pk}"
    signed_in = Client(enforce_csrf_checks=True)
    signed_in.force_login(alice)
    for header, says in shown.items():
        headers = {"authorization": header} if header else {}
        for client in (Client(enforce_csrf_checks=True), *([signed_in] if "Bearer" in header else [])):
            for refused in (client.get(path, headers=headers), client.delete(path, headers=headers)):
                assert (refused.status_code, set(refused.json())) == (401, {"message"})
                assert says in refused.json()["message"]
                assert refused["WWW-Authenticate"].startswith("Bearer")


def test_the_api_takes_every_fact_of_a_file():
    assert set(UploadIn.model_fields) == {"title", *(each.name for each in dataclasses.fields(FileFacts))}
    assert set(UploadIn.model_fields) == {"title", *FACTS}
