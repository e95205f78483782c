"""Every address of the site and operation of the API, called with every kind of token in every kind of session.

The addresses come from the site's own table of contents and the operations from the API's own description, so a new
one is called too. What is shown in a header decides nothing on a page, and a session nothing beside a token.
"""

import itertools
import re

import pytest
from allauth.mfa.totp.internal import auth
from django.test import Client
from django.urls import get_resolver

from releases import services
from releases.middleware.second_factor import AUTHENTICATES
from tests.web.conftest import person
from tests.web.shared.test_access import FILLED, snapshot, world
from tests.web.undoing import undone

__all__ = ["world"]

#: What stands in the place of each part of an address; an address with another part fails this file.
THINGS = {
    "upload_id": ["upload"],
    "database": ["database"],
    "dataset_id": ["dataset"],
    "release_id": ["draft", "public", "session"],
    "workload_id": ["workload"],
    "collection_id": ["collection", "collection_public"],
    "survey_id": ["survey_draft", "survey_open"],
    "request_id": ["request", "review"],
    "budget_id": ["budget"],
    "token_id": ["token"],
    "page": ["page"],
    "connection_id": ["connection"],
}
METHODS = ["get", "head", "post", "put", "patch", "delete", "options"]
TO_THE_FACTOR = (302, "/accounts/2fa/")
WANTING = "needs a second factor"


def filled(world, parts):
    """Every choice of objects for the parts of an address."""
    choices = [
        [("name", "answers.csv")] if part == "name" else [(part, world[each]) for each in THINGS[part]]
        for part in parts
    ]
    return [dict(each) for each in itertools.product(*choices)]


def pages(world):
    """Name and address of every page, from the table of contents."""
    found = []

    def walk(resolver, before):
        for each in resolver.url_patterns:
            route = before + str(each.pattern)
            if hasattr(each, "url_patterns"):
                walk(each, route)
            elif not getattr(each.callback, AUTHENTICATES, False):
                parts = re.findall(r"<(?:\w+:)?(\w+)>", route)
                for chosen in filled(world, parts):
                    address = re.sub(r"<(?:\w+:)?(\w+)>", lambda part, chosen=chosen: str(chosen[part[1]]), route)
                    found.append((each.name, f"/{address}"))

    walk(get_resolver("releases.urls"), "")
    return found


def operations(world):
    """Method, address and whether it asks who calls, of every operation, from the API's description."""
    listed = Client().get("/api/openapi.json").json()["paths"]
    for path, methods in listed.items():
        for chosen in filled(world, re.findall(r"{(\w+)}", path)):
            for method, described in methods.items():
                yield method, path.format(**chosen), bool(described.get("security"))


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


@pytest.fixture
def callers(world, sofia, alice, settings):
    """The sessions and the headers, by what they are. Sofia lacks the factor that rita has; alice needs none."""
    settings.REQUIRE_SECOND_FACTOR = ["reviewer", "administrator"]
    rita = person("rita", "reviewer", "administrator", is_staff=True)
    auth.TOTP.activate(rita, auth.generate_totp_secret())
    sessions = {"none": Client(), "without a factor": Client(), "with a factor": Client()}
    sessions["without a factor"].force_login(sofia)
    sessions["with a factor"].force_login(rita)
    ended = services.tokens.make_token(user=rita, name="was revoked")
    services.tokens.revoke_token(token=rita.api_tokens.get(name="was revoked"))
    headers = {
        "none": {},
        "bad": bearer("x"),
        "in small letters": {"Authorization": "bearer x"},
        "revoked": bearer(ended),
        "of alice": bearer(services.tokens.make_token(user=alice, name="good")),
        "of sofia": bearer(services.tokens.make_token(user=sofia, name="good")),
        "of rita": bearer(services.tokens.make_token(user=rita, name="good")),
    }
    return sessions, headers


def send(client, method, address, headers, data=None):
    """What a request is answered, and nothing of what it did."""
    client.cookies.pop("messages", None)
    with undone():
        sent = [data or {}] if method == "post" else []
        answer = getattr(client, method)(address, *sent, headers=headers)
        if hasattr(answer, "streaming_content"):
            answer.close()
    return answer


def outcome(answer):
    return answer.status_code, answer.headers.get("Location", "")


def test_on_no_page_and_by_no_method_does_a_token_stand_in_for_the_second_factor(world, callers):
    sessions, headers = callers
    client, before = sessions["without a factor"], snapshot()
    passed = []
    for (name, address), method in itertools.product(pages(world), METHODS):
        for shown in ("none", "bad", "of alice", "of rita"):
            client.cookies.pop("messages", None)
            data = FILLED.get(name, {}) if method == "post" else {}
            if outcome(getattr(client, method)(address, data, headers=headers[shown])) != TO_THE_FACTOR:
                passed.append((method, address, shown))
    assert passed == []
    assert snapshot() == before


def test_an_operation_answers_whom_it_has_authenticated_and_nobody_else(world, callers):
    sessions, headers = callers
    for method, address, asks in operations(world):
        said = {
            (session, shown): send(sessions[session], method, address, headers[shown])
            for session, shown in itertools.product(sessions, headers)
        }
        place = (method, address)
        if not asks:
            assert {each.status_code for each in said.values()} == {200}, place
            continue
        for (session, shown), answer in said.items():
            where = (*place, session, shown)
            lacks = WANTING in answer.content.decode(errors="replace") if not answer.streaming else False
            if shown in ("bad", "in small letters", "revoked") or (shown == "none" and session == "none"):
                assert answer.status_code == 401, where
            elif shown == "of sofia" or (shown == "none" and session == "without a factor"):
                assert (answer.status_code, lacks) == (403, True), where
            else:
                assert answer.status_code != 401, where
                assert not lacks, where
            if shown != "none":
                assert answer.status_code == said["none", shown].status_code, where


def test_a_session_without_its_csrf_token_changes_nothing_by_the_api_whatever_header_is_shown(world, callers, sofia):
    sessions, headers = callers
    client = Client(enforce_csrf_checks=True)
    client.cookies = sessions["with a factor"].cookies
    before = snapshot()
    for method, address, asks in operations(world):
        if not asks or method == "get":
            continue
        for shown in ("none", "bad", "in small letters", "revoked"):
            answer = getattr(client, method)(address, {}, content_type="application/json", headers=headers[shown])
            assert answer.status_code == (403 if shown == "none" else 401), (method, address, shown)
    assert snapshot() == before
