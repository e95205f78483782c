"""One person has a few plans worked out at once; more are told to come again, and others notice nothing."""

import os
import re
import subprocess
import sys
import textwrap
from types import MethodType, SimpleNamespace

import pytest
from django.core.exceptions import RequestDataTooBig
from django.db import connection
from django.test import Client
from django.urls import get_resolver, reverse

from dpweb import settings as as_installed
from releases import services
from releases.engine.mechanisms.base import mechanisms
from releases.engine.metering import before_planning
from releases.engine.workload.queries import Workload
from releases.middleware import body_limit
from releases.middleware.body_limit import BodyLimitMiddleware
from releases.planning.slots import NoSlot, PlanningSlot
from tests.web.account.test_principals import filled, pages
from tests.web.pages import link
from tests.web.shared.test_access import FILLED, world
from tests.web.undoing import undone

__all__ = ["world"]

BUSY = 429


@pytest.fixture(autouse=True)
def _promptly(settings):
    settings.PLANNING_WAIT_SECONDS = 0.2


@pytest.fixture
def all_taken(settings):
    """Every slot of a person is held, as by other processes."""
    held = []

    def take(person):
        for _ in range(settings.PLANNING_SLOTS):
            slot = PlanningSlot(str(person.pk))
            slot.take()
            held.append(slot)

    yield take
    for slot in held:
        slot.free()


PLAN = {"workload": {"version": 1, "queries": [{"marginals": 1}]}, "epsilon": "1"}
#: Numbers that no other test has: what was planned for the same ones is kept.
SESSION = {"epsilon": "0.7771", "delta": "0", "beta": "0.05", "questions": "9", "population": "200"}
RANGE = {"column": "age", "lowest": "0", "highest": "150", "inside": "98", "epsilon": "1", "delta": "0"}
CATEGORIES = {"column": "sex", "other": "other", "epsilon": "1", "delta": "0.000001"}
CERTIFICATE = {"epsilon": "0.05", "delta": "0", "beta": "0.05", "what": "synthetic rows"}

#: What is asked of a page beside its bare address.
ASKED = {
    "compare": [{"curves": "1"}],
    "new_session": [SESSION],
    "check_columns": [{"rows": "5000"}],
    "learn_range": [RANGE],
    "learn_categories": [CATEGORIES],
    "certify": [CERTIFICATE],
}
#: What is sent to an operation that writes; one that is not named here fails below.
SENT = {
    "upload_dataset": {},
    "discard_upload": {},
    "rename_dataset": {"title": "Mine"},
    "share_dataset": {"group": None},
    "discard_dataset": {},
    "delete_rows": {},
    "declare_schema": {"version": 1, "columns": [{"name": "age", "type": "integer", "edges": [0, 9]}]},
    "declare_boundaries": {"column": "sex", "boundaries": None},
    "ask_for_budget": {"epsilon": "50"},
    "take_back_budget_request": {},
    "join_population": {"other": "{dataset}"},
    "draft_release": PLAN,
    "change_draft": PLAN,
    "discard_draft": {},
    "submit_release": {"key": "5a0fd3f4-0000-4000-8000-000000000001"},
    "cancel_release": {},
    "set_visibility": {"public": True},
    "withdraw_release": {},
    "draft_certificate": CERTIFICATE,
    "draft_session": {"epsilon": "1"},
    "ask_session": {"query": {"sex": ["male"]}},
    "set_audience": {"audience": "everybody"},
    "close_session": {},
    "save_workload": {"release": "{draft}", "name": "Mine"},
    "edit_workload": {"since": 1, "workload": {"version": 1, "queries": [{"prefix": "age"}]}},
    "discard_workload": {},
    "share_workload": {"group": None},
    "save_workload_version": {"release": "{draft}"},
    "use_workload": {"dataset": "{dataset}", "epsilon": "1"},
    "register_connection": {"name": "ward", "address": "postgresql://reader@127.0.0.1:1/ward"},
    "remove_connection": {},
    "use_table": {"title": "Patients", "table": "ward.patients"},
}
#: Of these it is known that they plan; without them the test below would look at nothing.
PLAN_SURELY = {
    *("get compare", "post compare", "get confirm", "post confirm", "get questions", "get new_session"),
    *("get check_columns", "post check_columns"),
    *("post new_collection", "get confirm_collection", "post confirm_collection"),
    *("post new_session", "get learn_range", "post learn_range", "get learn_categories", "post learn_categories"),
    *("get certify", "post certify", "post edit_workload", "post use_workload", "post save_workload"),
    *("post draft_release", "put change_draft", "post submit_release", "post draft_certificate", "post draft_session"),
    *("put edit_workload", "post save_workload_version", "post use_workload"),
}

#: They plan again, under a lock, the one plan that was charged or waits for a review, and that nobody can choose any
#: more.
PLAN_UNDER_A_LOCK = {
    *("post session", "post ask_session", "post session_close", "post close_session", "post release_request"),
}


def requests_to(world):
    """Name, method, address and what is sent, of every page and operation, from the site's own lists of them."""
    for name, address in pages(world):
        yield from ((name, "get", address, asked) for asked in ({}, *ASKED.get(name, ())))
        form = FILLED.get(name, {})
        yield from ((name, "post", address, sent) for sent in ([form, form | {"check": "1"}] if form else [form]))
    for path, methods in Client().get("/api/openapi.json").json()["paths"].items():
        for chosen in filled(world, re.findall(r"{(\w+)}", path)):
            for method, described in methods.items():
                name = described["operationId"]
                sent = {} if method == "get" else SENT[name]
                things = {key: str(world[value[1:-1]]) for key, value in sent.items() if value in THINGS}
                yield name, method, path.format(**chosen), sent | things


#: What stands in the place of an object of the world in what is sent.
THINGS = ("{dataset}", "{draft}")


@pytest.fixture
def work(monkeypatch):
    """What a request did: whether it asked for a slot, within how many transactions, and what it did without one."""
    done = SimpleNamespace(asked=False, transactions=0, without=set(), planned_within=set(), called="")
    take, free = PlanningSlot.take, PlanningSlot.free

    def taking(slot):
        if not done.asked:
            done.asked, done.transactions = True, len(connection.savepoint_ids)
        take(slot)
        done.holds = True

    def freeing(slot):
        done.holds = False
        free(slot)

    def watched(owner, name, *, is_plan):
        made = getattr(owner, name)

        def watching(*given, **named):
            if before_planning.get() is not None:
                if not done.holds:
                    done.without.add(f"{owner.__name__}.{name}")
                if is_plan and len(connection.savepoint_ids) > done.base:
                    done.planned_within.add(done.called)
            return made(*given, **named)

        monkeypatch.setattr(owner, name, staticmethod(watching) if isinstance(made, MethodType) else watching)

    done.holds, done.base = False, 0
    monkeypatch.setattr(PlanningSlot, "take", taking)
    monkeypatch.setattr(PlanningSlot, "free", freeing)
    for kind in {type(each) for each in mechanisms().values()}:
        watched(kind, "_plan", is_plan=True)
    watched(Workload, "from_json", is_plan=False)
    return done


def test_whatever_plans_takes_a_slot_before_its_transaction_and_says_when_to_come_again(
    world, alice, sofia, work, all_taken, settings
):
    """Every page and operation, once with a slot and once with none left: a new one that plans unmetered, or swallows
    the refusal, or asks while it holds the lock of a transaction, fails here by its name."""
    settings.PLANNING_WAIT_SECONDS = 0
    wrong, metered = set(), set()
    all_taken(alice)
    for person in (alice, sofia):
        browser, token = Client(), services.tokens.make_token(user=person, name="a script")
        browser.force_login(person)
        for name, method, address, sent in requests_to(world):
            is_program = address.startswith("/api/") and name != "programs"
            client = Client(headers={"Authorization": f"Bearer {token}"}) if is_program else browser
            given = {"content_type": "application/json"} if is_program and method != "get" else {}
            called = work.called = f"{method} {name}"
            with undone():
                work.asked, work.base = False, len(connection.savepoint_ids)
                before = len(work.without)
                answer = getattr(client, method)(address, sent, **given)
                if hasattr(answer, "streaming_content"):
                    answer.close()
            wrong |= {f"{called}: works without a slot" for _ in range(len(work.without) - before)}
            if work.asked:
                metered.add(called)
                if work.transactions > work.base:
                    wrong.add(f"{called}: asks within a transaction")
                if person == alice and (answer.status_code, answer.get("Retry-After")) != (BUSY, "5"):
                    wrong.add(f"{called}: answers {answer.status_code} where no slot is left")
    assert (wrong, work.without) == (set(), set())
    assert work.planned_within <= PLAN_UNDER_A_LOCK
    assert PLAN_SURELY - metered == set()


def test_others_and_what_does_not_plan_go_on(draft, alice, bob, as_, all_taken):
    all_taken(alice)
    assert as_(alice).get(reverse("dataset_list")).status_code == 200
    assert as_(bob).get(link("compare", draft)).status_code == 200


def test_a_slot_is_free_again_after_a_request_whatever_became_of_it(draft, alice, as_, settings, monkeypatch):
    settings.PLANNING_SLOTS = settings.PLANNING_PLACES = 1
    client = as_(alice)
    client.raise_request_exception = False
    address = link("compare", draft)
    with monkeypatch.context() as broken:
        broken.setattr(
            services.releases, "compare", lambda release: services.releases.plan_of(release=release) and 1 / 0
        )
        assert client.get(address).status_code == 500
    assert client.get(address).status_code == 200
    assert before_planning.get() is None


def test_slots_count_over_processes_and_a_process_that_dies_leaves_none_taken(settings, tmp_path):
    settings.PLANNING_SLOTS, settings.PLANNING_PLACES = 1, 0
    code = """
        import django, sys, time
        django.setup()
        from django.conf import settings
        from releases.planning.slots import PlanningSlot
        PlanningSlot("7").take()
        print("taken", flush=True)
        time.sleep(600)
    """
    environment = {**os.environ, "DATA_DIR": str(settings.DATA_DIR), "DJANGO_SETTINGS_MODULE": "dpweb.settings"}
    command = [sys.executable, "-c", textwrap.dedent(code)]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "taken\n"
        with pytest.raises(NoSlot):
            PlanningSlot("7").take()
        other.kill()
    slot = PlanningSlot("7")
    slot.take()
    slot.free()


def test_a_body_has_a_megabyte_unless_it_is_a_table_and_is_refused_unread(rf, settings):
    """Every address of the site and the API, in its table of contents; only two take tables."""
    assert as_installed.DATA_UPLOAD_MAX_MEMORY_SIZE == 10**6
    middleware = BodyLimitMiddleware(lambda request: None)
    taking = set()

    def walk(resolver):
        for each in resolver.url_patterns:
            if hasattr(each, "url_patterns"):
                walk(each)
                continue
            request = rf.generic("POST", "/", b"", CONTENT_LENGTH=str(settings.DATA_UPLOAD_MAX_MEMORY_SIZE + 1))
            request._read_started = False
            try:
                middleware.process_view(request, each.callback, (), {})
                taking.add(str(each.pattern))
            except RequestDataTooBig:
                assert not request._read_started

    walk(get_resolver())
    assert taking == {"new/", "datasets"}, body_limit
