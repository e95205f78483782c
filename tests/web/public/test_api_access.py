"""Every operation of the API, called by everybody: who may read what, and who may change what."""

import json
import uuid

import pyarrow as pa
import pyarrow.parquet
import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from releases import services
from releases.api import api
from releases.models import RegisteredConnection
from tests.web.conftest import COLUMNS, CSV
from tests.web.shared.test_access import PEOPLE, seen, snapshot, world
from tests.web.undoing import undone

__all__ = ["world"]

KEY = str(uuid.uuid4())
#: A program without a token, and one of somebody signed in.
SIGNED_IN = seen(401, 200, 200, 200, 200)
#: Those of the dataset; for everybody else it does not exist, staff included.
OURS = seen(401, 200, 200, 404, 404)
#: A person's own, and nobody else's.
HERS = seen(401, 200, 404, 404, 404)
PLAN = {"workload": {"version": 1, "queries": [{"marginals": 1}]}, "epsilon": "1"}
SCHEMA = {"version": 1, "unit": {"kind": "row"}, "neighbours": "replace", "columns": COLUMNS}
TABLE = {"table": "stays.parquet", "title": "Mine"}


def ours(status):
    return {person: status if expected == 200 else expected for person, expected in OURS.items()}


UPLOAD = "/uploads/{upload_id}"
CONNECTION = "/connections/{database}"
#: A curator's; and an administrator's.
CURATORS, ADMINISTRATORS = seen(401, 200, 200, 403, 403), seen(401, 403, 403, 403, 200)
WORKLOAD, DATASET_ID = "/workloads/{workload_id}", "{dataset_id}"
DATASET, RELEASE, SESSION = "/datasets/{dataset_id}", "/releases/{release_id}", "/sessions/{release_id}"
_SHAPE = {"type": "Polygon", "coordinates": [[[9, 50], [10, 50], [10, 51], [9, 50]]]}
_REGIONS = {"type": "FeatureCollection", "features": [{"properties": {"is": "male"}, "geometry": _SHAPE}]}
MAP = {"column": "sex", "boundaries": _REGIONS}

#: Operation and object, what is sent with it, and what it answers each person. A new operation must be added here.
CALLS = {
    ("get", "/catalogue", ""): (None, seen(200, 200, 200, 200, 200)),
    ("get", "/datasets", ""): (None, SIGNED_IN),
    ("post", "/datasets", ""): ("a table", seen(401, 202, 202, 403, 403)),
    ("get", UPLOAD, "upload"): (None, HERS),
    ("delete", UPLOAD, "upload"): ({}, {**HERS, "alice": 204}),
    ("get", DATASET, "dataset"): (None, OURS),
    ("put", f"{DATASET}/title", "dataset"): ({"title": "Mine"}, OURS),
    ("put", f"{DATASET}/group", "dataset"): ({"group": None}, {**OURS, "bob": 400}),  # its owner's alone to choose
    ("delete", DATASET, "dataset"): ({}, ours(409)),  # privacy was charged for it
    ("delete", DATASET, "fresh"): ({}, ours(204)),
    ("delete", f"{DATASET}/rows", "fresh"): ({}, ours(204)),
    ("put", f"{DATASET}/schema", "fresh"): (SCHEMA, OURS),
    ("put", f"{DATASET}/boundaries", "fresh"): (MAP, OURS),
    ("post", f"{DATASET}/budget-requests", "fresh"): ({"epsilon": "5", "delta": "0.000001"}, ours(201)),
    ("get", f"{DATASET}/budget-requests", "dataset"): (None, OURS),
    ("post", f"{DATASET}/budget-requests/take-back", "dataset"): ({}, OURS),
    ("put", f"{DATASET}/population", "fresh"): ({"other": "{dataset}"}, OURS),
    ("get", "/connections", ""): (None, {**CURATORS, "sofia": 200}),
    ("post", "/connections", ""): ({"name": "mine", "address": "file://{folder}"}, {**ADMINISTRATORS, "sofia": 201}),
    ("delete", CONNECTION, "connection"): ({}, {**ADMINISTRATORS, "sofia": 204}),
    ("get", f"{CONNECTION}/tables", "connection"): (None, CURATORS),
    ("post", f"{CONNECTION}/datasets", "connection"): (TABLE, {**CURATORS, "alice": 201, "bob": 201}),
    ("get", "/mechanisms", ""): (None, SIGNED_IN),
    ("post", f"{DATASET}/releases", "dataset"): (PLAN, ours(201)),
    ("get", "/releases", ""): (None, SIGNED_IN),
    ("put", RELEASE, "draft"): (PLAN, OURS),
    ("delete", RELEASE, "draft"): ({}, ours(204)),
    ("get", RELEASE, "draft"): (None, OURS),
    ("get", RELEASE, "published"): (None, OURS),
    ("get", RELEASE, "public"): (None, SIGNED_IN),
    ("post", f"{RELEASE}/submit", "draft"): ({"key": KEY}, ours(202)),
    ("post", f"{RELEASE}/submit", "public"): ({"key": KEY}, ours(409)),
    ("post", f"{RELEASE}/cancel", "queued"): ({}, OURS),
    ("post", f"{RELEASE}/visibility", "published"): ({"public": True}, OURS),
    ("post", f"{RELEASE}/visibility", "public"): ({"public": False}, OURS),
    ("post", f"{RELEASE}/withdraw", "public"): ({}, OURS),
    ("post", f"{RELEASE}/certificates", "published"): ({"epsilon": "0.05"}, ours(201)),
    ("post", f"{RELEASE}/certificates", "public"): ({"epsilon": "0.05"}, ours(201)),
    ("get", f"{RELEASE}/receipt", "published"): (None, OURS),
    ("get", f"{RELEASE}/receipt", "public"): (None, SIGNED_IN),
    ("get", f"{RELEASE}/files/{{name}}", "published"): (None, OURS),
    ("get", f"{RELEASE}/files/{{name}}", "public"): (None, SIGNED_IN),
    ("get", "/workloads", ""): (None, SIGNED_IN),
    ("post", "/workloads", ""): ({"release": "{draft}", "name": "Mine"}, ours(201)),
    ("get", WORKLOAD, "workload"): (None, OURS),
    ("put", WORKLOAD, "workload"): ({"since": 1, "name": "Mine"}, OURS),
    ("delete", WORKLOAD, "workload"): ({}, {**ours(204), "bob": 400}),  # its owner's alone to delete
    ("put", f"{WORKLOAD}/group", "workload"): ({"group": None}, {**OURS, "bob": 400}),
    ("post", f"{WORKLOAD}/versions", "workload"): ({"release": "{draft}"}, ours(201)),
    ("get", f"{WORKLOAD}/releases", "workload"): (None, OURS),
    ("post", f"{WORKLOAD}/releases", "workload"): ({"dataset": "{dataset}", "epsilon": "1"}, ours(201)),
    ("get", f"{WORKLOAD}/fit/{DATASET_ID}", "workload"): (None, OURS),
    ("post", f"{DATASET}/sessions", "dataset"): ({"epsilon": "1"}, ours(201)),
    ("get", SESSION, "session"): (None, OURS),
    ("post", f"{SESSION}/questions", "session"): ({"query": {"sex": ["male"]}}, OURS),
    ("put", f"{SESSION}/audience", "session"): ({"audience": "everybody"}, OURS),
    ("post", f"{SESSION}/close", "session"): ({}, OURS),
    ("get", f"{SESSION}/transcript", "session"): (None, OURS),
}


@pytest.fixture
def things(world, make_dataset, settings, tmp_path):
    """One of everything, a dataset that nothing was charged for, and a folder with a table."""
    folder = tmp_path / "share"
    folder.mkdir()
    pyarrow.parquet.write_table(pa.table({"sex": ["female", "male"]}), folder / "stays.parquet")
    settings.CONNECTABLE_FOLDERS = [str(folder)]
    share = RegisteredConnection.objects.create(
        name="share", address=f"file://{folder}", registered_by=world["people"]["sofia"]
    )
    fresh = make_dataset(epsilon="", content=CSV + b"and another,31,female\n")
    assert fresh.group is not None
    return world | {"fresh": fresh.pk, "connection": share.pk, "folder": folder}


@pytest.fixture
def call(things, client):
    """Call an operation with a person's token, and undo what it did: before each, everything is as before the first."""
    before = []

    def send(person, operation, headers):
        method, path, thing = operation
        sent, _ = CALLS[operation]
        ids = dict.fromkeys(("upload_id", "dataset_id", "release_id", "workload_id"), things.get(thing))
        if thing == "workload":
            ids["dataset_id"] = things["dataset"]
        address = "/api" + path.format(**ids, name="answers.csv", database="share")
        if not before:
            before.append(snapshot())
        with undone():
            if sent == "a table":
                data = {"title": "Survey", "table": SimpleUploadedFile("new.csv", CSV + b"a new one,22,male\n")}
                answer = client.post(address, data, headers=headers)
            elif sent is None:
                answer = getattr(client, method)(address, headers=headers)
            else:
                body = json.dumps(sent)
                for named in ("dataset", "draft", "folder"):
                    body = body.replace(f"{{{named}}}", str(things[named]))
                answer = getattr(client, method)(address, body, content_type="application/json", headers=headers)
            has_changed = [snapshot()] != before
        return answer.status_code, has_changed

    return send


def test_every_operation_of_the_api_is_in_this_file(client):
    listed = client.get("/api/openapi.json").json()["paths"]
    operations = {(method, path.removeprefix("/api")) for path, methods in listed.items() for method in methods}
    assert {(method, path) for method, path, _ in CALLS} == operations
    assert operations, api


def test_an_operation_is_named_by_itself_wherever_it_is_written(client):
    paths = client.get("/api/openapi.json").json()["paths"]
    named = [operation["operationId"] for methods in paths.values() for operation in methods.values()]
    assert len(named) == len(set(named))
    assert {"show_catalogue", "upload_dataset", "submit_release", "ask_session"} <= set(named)


def bearer(user):
    return {"authorization": f"Bearer {services.tokens.make_token(user=user, name='all')}"} if user else {}


@pytest.mark.parametrize("person", PEOPLE)
def test_everybody_may_what_is_theirs_and_nothing_else_changes(call, things, person):
    headers = bearer(things["people"][person])
    found = {operation: call(person, operation, headers) for operation in CALLS}
    assert {operation: status for operation, (status, _) in found.items()} == {
        operation: expected[person] for operation, (_, expected) in CALLS.items()
    }
    changed = {operation for operation, (_, has_changed) in found.items() if has_changed}
    assert not {operation for operation in changed if operation[0] == "get" or found[operation][0] >= 400}
    if person in ("alice", "bob"):
        # What they may do is done, so a refusal to others is one of something that would have worked.
        done = {operation for operation in CALLS if operation[0] != "get" and found[operation][0] < 400}
        begun = {("post", f"{RELEASE}/certificates", "published")}  # by alice, who is given her draft again
        assert changed | begun == done


def test_what_is_listed_is_what_one_may_see(client, things):
    for person, user in things["people"].items():
        headers = bearer(user)
        for path in ("/api/datasets", "/api/releases", "/api/workloads") if user else ():
            assert bool(client.get(path, headers=headers).json()) is (person in ("alice", "bob")), (path, person)
