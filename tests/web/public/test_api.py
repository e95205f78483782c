"""The REST API: the same services as the pages, for programs that show a token."""

from __future__ import annotations

import json
import re
import uuid
from datetime import UTC, datetime, timedelta

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from releases import services
from releases.engine.errors import InvalidInput
from releases.models import ApiToken, AuditEvent, BudgetRequest, Dataset, LedgerEntry, Organisation, Release, Upload
from releases.models import TokenScope as Scope
from releases.publication.archive import download_names
from tests.engine.tables import formats
from tests.web.conftest import COLUMNS, CSV, person
from tests.web.pages import chosen, words

pytestmark = pytest.mark.django_db

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


@pytest.mark.parametrize(
    ("content", "told", "remembered"),
    [
        (b"a;b\n1,5;x\n", {"separator": "semicolon"}, {"separator": ";", "encoding": "utf-8", "has_header": True}),
        (formats.xlsx({"Data": [["a"], ["1.002,5"]]}), {"thousands": "."}, {"sheet": "Data", "thousands": "."}),
    ],
    ids=["text", "workbook"],
)
def test_how_a_file_is_written_is_declared_beside_it_and_remembered(program, read_uploads, content, told, remembered):
    sent = program.upload(content, decimal=",", **told).json()
    read_uploads()
    assert program.told(f"/datasets/{sent['id']}")["file"].items() >= {"decimal": ",", **remembered}.items()


@pytest.mark.parametrize(
    ("facts", "wrong"),
    [
        ({}, ("decimal", "", "must be chosen")),
        ({"decimal": "x"}, ("decimal", "x", "must be one of ., ,")),
        ({"header_row": "0"}, ("header_row", "0", "must be from 1 to 1,000")),
        ({"has_header": "maybe"}, ("has_header", "maybe", "must be yes or no")),
        ({"sheet": "Data"}, ("sheet", "Data", "has no meaning for a text file")),
    ],
    ids=["semicolons", "decimal", "row", "header", "sheet"],
)
def test_a_wrong_fact_of_a_file_is_named_with_its_value_and_rule(program, facts, wrong):
    answer = program.upload(b"a;b\n1,5;x\n", **facts)
    assert refusal(answer)[:3] == (400, *wrong[:2])
    assert refusal(answer)[3].startswith(wrong[2])
    assert not Upload.objects.exists()


def test_a_file_that_is_refused_later_says_why_until_it_is_discarded(program, read_uploads):
    ragged = b"a,b\n1\n"
    upload = f"/uploads/{program.upload(ragged).json()['id']}"
    read_uploads()
    said = program.told(upload)
    assert (said["state"], said["dataset"]) == ("refused", None)
    assert said["refusal"] == "Line 2 has fewer values than the header, which names 2 columns."
    assert program.send("delete", upload).status_code == 204
    assert program.get(upload).status_code == 404


# What pages let a curator do


@pytest.fixture
def review_above(db):
    return lambda epsilon: Organisation.objects.create(upload_cap_bytes=2**30, review_above=epsilon)


def test_a_reason_reaches_the_reviewer_and_the_reviewer_s_words_come_back(program, draft, review_above, sofia, client):
    review_above("0.5")
    submitted = program.submit(draft.pk, reason="For the yearbook.").json()
    assert (submitted["state"], submitted["review"]["state"]) == ("awaiting review", "waiting")
    request = draft.reviews.get()
    assert request.reason == "For the yearbook."
    services.reviews.approve_release(request=request, by=sofia, epsilon="0.75", note="Less is enough.")
    review = program.told(f"/releases/{draft.pk}")["review"]
    assert (review["state"], review["granted_epsilon"], review["note"]) == ("approved", "0.75", "Less is enough.")


def test_what_a_reviewer_wrote_is_not_for_every_reader_of_a_public_release(
    program, draft, review_above, sofia, charlie, client
):
    review_above("0.5")
    program.submit(draft.pk)
    services.reviews.approve_release(request=draft.reviews.get(), by=sofia, note="Between us.", send=False)
    assert services.execution.execute_release(release_id=draft.pk)
    services.releases.make_public(release=draft)
    answer = Program(client, charlie).get(f"/releases/{draft.pk}")
    assert answer.json()["review"] is None
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
    assert reader.send("post", f"/releases/{public.pk}/withdraw").status_code == 404
    assert reader.get(f"/releases/{uuid.uuid4()}").status_code == 404


def test_a_session_is_planned_opened_asked_and_closed(program, dataset, client, charlie):
    planned = {"epsilon": "1", "title": "Ask", "columns": ["sex"]}
    drafted = program.send("post", f"/datasets/{dataset.pk}/sessions", planned).json()
    assert drafted["plans"][0]["cost"] == "epsilon 1"
    number = drafted["id"]
    assert services.releases.plan_of(release=Release.objects.get(pk=number)).schema.universe.names == ("sex",)
    program.submit(number)
    assert services.execution.execute_release(release_id=number)
    session = f"/sessions/{number}"
    answer = program.send("post", f"{session}/questions", {"query": {"sex": ["female"]}}).json()
    assert answer["number"] == 1
    assert program.told(session)["questions_left"] == answer["questions_left"]
    assert len(program.told(f"{session}/transcript")["answers"]) == 1
    refused = program.send("post", f"{session}/questions", {"query": {"wage": ["much"]}})
    assert (refused.status_code, "wage" in refused.json()["message"]) == (400, True)
    assert program.send("put", f"{session}/audience", {"audience": "strangers"}).status_code == 400
    assert program.send("put", f"{session}/audience", {"audience": "everybody"}).json()["audience"] == "everybody"
    stranger = Program(client, charlie)
    assert stranger.get(session).status_code == 200
    assert stranger.send("post", f"{session}/close").status_code == 404
    assert program.send("post", f"{session}/close").json()["state"] == "closing"
    assert program.send("post", f"{session}/close").status_code == 409
    assert program.told(session)["over"]


@pytest.mark.parametrize("title", ["", "  ", "x" * 201, "two\nlines"])
def test_a_title_that_no_list_has_room_for_is_refused(program, dataset, title):
    """Not left to the database: one of them would keep it, and another fail."""
    refused = program.send("put", f"/datasets/{dataset.pk}/title", {"title": title})
    assert (refused.status_code, refused.json()["field"]) == (400, "title")
    if title.strip():
        body = {"workload": WORKLOAD, "epsilon": "1", "title": title}
        assert program.send("post", f"/datasets/{dataset.pk}/releases", body).json()["field"] == "title"
        assert program.upload(title=title).status_code == 400


# What was charged


def test_a_dataset_s_budget_tells_what_is_spent_reserved_and_left(program, dataset, make_queued):
    done, _ = make_queued(dataset, epsilon="0.5"), make_queued(dataset, epsilon="0.75")
    assert services.execution.execute_release(release_id=done.pk)
    budget = program.told(f"/datasets/{dataset.pk}")["budget"]
    assert budget["epsilon"] == "2"
    assert budget["spent"] == {"percent": 25.0, "epsilon": "0.5", "delta": "0", "rho": "0.122459331202"}
    rho = budget["reserved"].pop("rho")
    assert 0.75**2 / 3 < float(rho) < 0.75**2 / 2
    assert budget["reserved"] == {"percent": 37.5, "epsilon": "0.75", "delta": "0"}
    assert budget["left"] == {"percent": 37.5, "epsilon": "0.75", "delta": ""}
    (listed,) = program.told("/datasets")
    assert listed["budget"] == {**budget, "reserved": {**budget["reserved"], "rho": rho}}


def test_one_s_own_release_tells_its_epsilon_its_cost_and_its_address(program, dataset, make_draft, client, charlie):
    draft = make_draft(dataset, epsilon="0.4", delta="0.0000001")
    path = f"/releases/{draft.pk}"
    told = program.told(path)
    assert (told["epsilon"], told["delta"], told["cost"]) == ("0.4", "0.0000001", None)
    told = program.submit(draft.pk, reason="The yearbook.").json()
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


def test_what_is_missing_is_named_as_a_program_would_send_it(program, dataset, draft):
    for path, body, field in (
        (f"/datasets/{dataset.pk}/releases", {"epsilon": "1"}, "workload"),
        (f"/releases/{draft.pk}/submit", {"reason": "none"}, "key"),
    ):
        told = {"field": field, "value": None, "rule": "must be given", "message": f"{field} must be given"}
        assert program.send("post", path, body).json() == told
    said = program.client.post("/api/datasets", {"title": "No table"}, headers=program.headers)
    assert refusal(said) == (400, "table", None, "must be given")
    said = program.send("post", f"/datasets/{dataset.pk}/sessions", {"epsilon": "1", "columns": ["age", 5]})
    assert refusal(said)[1:3] == ("columns[1]", "5")


NULL, ENCODINGS = '{"key": "x", "reason": "a\\u0000b"}', ("utf-8", "utf-16", "utf-32")
BAD_BODIES = [
    (b'{"key": ', "body", "must be JSON: "),
    (b"\xff{}", "body", "must be text in UTF-8"),
    (b'{"key": "\\ud800"}', "body", "must be text in UTF-8"),
    (b"[" * 100_000, "body", "must be JSON: "),
    (b"", "body", "must be given"),
    (b"[1]", "body", "must be an object"),
    (b"null", "body", "must be an object"),
    (b'{"key": "xyz"}', "key", "must be a UUID"),
    *((NULL.encode(each), "body", "must not hold a null character, which no text has") for each in ENCODINGS),
    # The same six letters behind a backslash are text.
    (rb'{"key": "x", "reason": "C:\\u0000"}', "key", "must be a UUID"),
]


def test_a_body_that_cannot_be_read_says_why(program, draft):
    for body, field, rule in BAD_BODIES:
        answer = program.send("post", f"/releases/{draft.pk}/submit", body)
        status, found, _, told = refusal(answer)
        assert (status, found) == (400, field)
        assert told.startswith(rule)
        assert set(answer.json()) == {"field", "value", "rule", "message"}


REFUSED = [
    ("get", "/api/nothing", 404, "no such thing"),
    ("get", "/api/datasets/nonsense", 404, "no such thing"),
    ("get", "/api/datasets/00000000-0000-4000-8000-000000000000", 404, "no such thing"),
    ("get", "/api/releases/00000000-0000-4000-8000-000000000000/files/x", 404, "no such thing"),
    ("patch", "/api/datasets", 405, "PATCH is not taken here, only "),
    ("delete", "/api/catalogue", 405, "DELETE is not taken here, only GET."),
    ("get", "/api/catalogue?q=%00", 400, "null character"),
    ("get", "/api/catalogue?page=0", 400, "page: 0 must be greater than or equal to 1"),
    ("get", "/api/releases?before=never", 400, "before: never must be a valid datetime"),
]


def test_every_refusal_is_json_with_a_message(program):
    for method, path, status, says in REFUSED:
        answer = getattr(program.client, method)(path, headers=program.headers)
        assert answer.status_code == status
        assert answer["Content-Type"].startswith("application/json")
        assert says in answer.json()["message"]
        assert int(answer.headers.get("Content-Length", len(answer.content))) == len(answer.content)
        assert ("Allow" in answer) == (status == 405)


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


def test_requests_are_listed_with_what_was_decided_and_populations_joined(program, dataset, read_uploads):
    asked = program.told(f"/datasets/{dataset.pk}/budget-requests")
    assert [(each["state"], each["granted_epsilon"]) for each in asked] == [("approved", "2")]
    second = program.upload(CSV + b"one more,30,male\n").json()["id"]
    read_uploads()
    joined = program.send("put", f"/datasets/{second}/population", {"other": str(dataset.pk)}).json()
    assert joined["budget"]["epsilon"] == "2"


@pytest.mark.filterwarnings("error")
def test_a_time_without_a_zone_is_one_of_this_site_and_one_outside_of_its_calendar_no_fault(program, draft, settings):
    Release.objects.update(created_at=datetime(2030, 1, 1, 12, tzinfo=UTC))
    settings.TIME_ZONE = "Asia/Tokyo"
    listed = [len(program.told(f"/releases?before=2030-01-01T{at}")) for at in ("20:00:00", "22:00:00")]
    assert listed == [0, 1]
    for before in ("0001-01-01T00:00:00+23:00", "9999-12-31T23:59:59-23:00"):
        assert refusal(program.get("/releases", before=before))[:2] == (400, "before")


@pytest.mark.parametrize("path", ["/datasets", "/releases", "/datasets/{}/budget-requests"])
def test_every_list_comes_in_parts_that_leave_nothing_out(program, alice, dataset, path):
    """Each of 250 once, the newest first, whatever they are."""
    model, when, values = {
        "/datasets": (Dataset, "created_at", {"title": "A", "owner": alice, "digest": "0" * 64, "columns": ["a"]}),
        "/releases": (Release, "created_at", {"title": "A", "dataset": dataset, "submitted_by": alice}),
        "/datasets/{}/budget-requests": (
            *(BudgetRequest, "requested_at"),
            {"budget": dataset.budget, "epsilon": "3", "requested_by": alice, "state": "denied"},
        ),
    }[path]
    model.objects.bulk_create(model(**values) for _ in range(250 - model.objects.count()))
    listed, sizes, before = [], [], {}
    while part := program.get(path.format(dataset.pk), **before).json():
        listed += [each[when] for each in part]
        sizes.append(len(part))
        before = {"before": part[-1][when]}
    assert sizes == [100, 100, 50]
    assert listed == sorted(set(listed), reverse=True)


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
    for wrong in ({"days": "4000", "scope": "all"}, {"scope": "all"}, {"days": "30", "scope": "some"}):
        assert as_(alice).post(reverse("tokens"), {"name": "x", **wrong}).status_code == 400
    assert not ApiToken.objects.exists()
    confirmed(alice).post(reverse("tokens"), {"name": "x", "days": "30", "scope": "read"})
    made = ApiToken.objects.get()
    assert made.scope == "read"
    assert timedelta(days=29, hours=23) < made.ends_at - timezone.now() <= timedelta(days=30)


def test_a_token_from_before_there_were_ends_still_opens_and_is_shown_to_be_replaced(client, as_, alice):
    program = Program(client, alice)
    ApiToken.objects.update(ends_at=None)
    assert program.get("/datasets").status_code == 200
    assert "Replace it by one that ends." in words(as_(alice).get(reverse("tokens")))


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


def test_the_catalogue_is_paged_and_a_page_beyond_the_last_is_empty(client, public, monkeypatch):
    again = {field: getattr(public, field) for field in ("dataset", "state", "is_public", "result", "folder")}
    newer = Release.objects.make(title="Newer", published_at=timezone.now(), **again)
    monkeypatch.setattr("releases.api.catalogue.MAX_CATALOGUED", 1)
    pages = [catalogue(client, page=number) for number in (1, 2, 3)]
    assert [[each["id"] for each in page["releases"]] for page in pages] == [[str(newer.pk)], [str(public.pk)], []]
    assert {page["pages"] for page in pages} == {2}
    for wrong in ("0", "-1", "x"):
        assert refusal(client.get("/api/catalogue", {"page": wrong}))[:2] == (400, "page")


def test_a_budget_request_is_taken_back_as_long_as_nobody_has_decided(program, asked):
    path = f"/datasets/{asked.budget.datasets.get().pk}/budget-requests"
    assert program.send("post", f"{path}/take-back").json()["state"] == "taken back"
    assert [each["state"] for each in program.told(path)] == ["taken back"]
    again = program.send("post", f"{path}/take-back")
    assert (again.status_code, again.json()["message"]) == (409, "No request waits for a reviewer.")


BAD_VALUES = [
    ({"epsilon": "0"}, "epsilon", "0", "must be above 0"),
    ({"epsilon": "nan"}, "epsilon", "nan", "must be"),
    ({"epsilon": "1,5"}, "epsilon", "1,5", "must be a decimal number with a point"),
    ({"epsilon": "1." + "0" * 50}, "epsilon", "1.00000000…", "must have at most 40 characters"),
    ({"epsilon": 0.25}, "epsilon", "0.25", 'must be text: exact numbers are sent as text, "0.25"'),
    ({"epsilon": True}, "epsilon", "true", "must be text"),
    ({"epsilon": None}, "epsilon", "null", "must be text"),
    ({"delta": 0}, "delta", "0", 'must be text: exact numbers are sent as text, "0"'),
    ({"title": 5}, "title", "5", "must be text"),
    ({"workload": {"version": 1, "queries": []}}, "queries", "[]", "must be a list with at least one query"),
    ({"workload": [1, "ä"]}, "workload", '[1, "ä"]', "must be an object"),
    ({"workload": None}, "workload", "null", "must be an object"),
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


def test_what_a_service_refuses_is_409_with_its_words(program, dataset, make_draft):
    answer = program.submit(make_draft(dataset, epsilon="3").pk)
    assert answer.status_code == 409
    assert {"3", "2"} <= set(re.findall(r"[\d.]*\d", answer.json()["message"]))
    answer = program.upload(b"a,a\n1,2\n")
    assert answer.status_code == 409
    assert answer.json()["message"].startswith("Two columns are named a.")


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


@pytest.mark.parametrize("name", ["", "a\u202eb", "one\nof two lines"])
def test_a_token_s_name_is_one_that_the_log_can_show(confirmed, alice, name):
    refused = confirmed(alice).post(reverse("tokens"), {"name": name, "days": "30", "scope": "all"})
    assert refused.status_code == 400
    assert chosen(refused, "days") == "30"
    assert not ApiToken.objects.exists()
