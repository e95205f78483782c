"""One person has a few plans worked out at once; more are told to come again, and others notice nothing."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest
from django.core.exceptions import RequestDataTooBig
from django.urls import get_resolver, reverse

from dpweb import settings as as_installed
from releases import services
from releases.engine.metering import before_planning
from releases.middleware import body_limit
from releases.middleware.body_limit import BodyLimitMiddleware
from releases.models import Release
from releases.planning.slots import NoSlot, PlanningSlot
from tests.web.pages import words

pytestmark = pytest.mark.django_db

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


def bearer(user):
    return {"Authorization": f"Bearer {services.make_token(user=user, name='a script')}"}


PLAN = {"workload": {"version": 1, "queries": [{"marginals": 1}]}, "epsilon": "1"}

#: Numbers that no other test has: what was planned for the same ones is kept.
SESSION = {"epsilon": "0.7771", "delta": "0", "beta": "0.05", "questions": "9", "population": "200"}

#: What plans, on pages and in the API: method, name of the address or path, and what is sent.
PLANNING = {
    "compare": ("get", "compare", {}),
    "curves": ("get", "compare", {"curves": "1"}),
    "choosing": (
        "post",
        "compare",
        {"epsilon": "1", "delta": "0", "beta": "0.05", "mechanism": "laplace-histogram", "epsilon_for": "1"},
    ),
    "confirm": ("get", "confirm", {}),
    "submitting": ("post", "confirm", {"key": "5a0fd3f4-0000-4000-8000-000000000000", "title": "Mine"}),
    "questions": ("get", "questions", {}),
    "new session": ("get", "new_session", SESSION),
    "learning a range": (
        "get",
        "learn_range",
        {"column": "age", "lowest": "0", "highest": "150", "inside": "98", "epsilon": "1", "delta": "0"},
    ),
    "drafting by a program": ("post", "/api/datasets/{dataset}/releases", PLAN),
    "changing by a program": ("put", "/api/releases/{draft}", PLAN),
    "submitting by a program": (
        "post",
        "/api/releases/{draft}/submit",
        {"key": "5a0fd3f4-0000-4000-8000-000000000001"},
    ),
    "a session by a program": ("post", "/api/datasets/{dataset}/sessions", {"epsilon": "1"}),
}


@pytest.mark.parametrize("what", PLANNING)
def test_what_plans_takes_a_slot_and_says_when_to_come_again(what, dataset, draft, alice, as_, client, all_taken):
    all_taken(alice)
    method, where, sent = PLANNING[what]
    if where.startswith("/"):
        address = where.format(dataset=dataset.pk, draft=draft.pk)
        answer = getattr(client, method)(address, sent, content_type="application/json", headers=bearer(alice))
        assert "as many as one person may at once" in answer.json()["message"]
    else:
        of_dataset = where in ("new_session", "learn_range")
        address = reverse(where, args=[dataset.pk if of_dataset else draft.pk])
        answer = getattr(as_(alice), method)(address, sent)
        assert "as many as one person may at once" in words(answer)
    assert answer.status_code == BUSY
    assert answer["Retry-After"] == "5"
    assert Release.objects.get(pk=draft.pk).state == "draft"


def test_others_and_what_does_not_plan_go_on(dataset, draft, alice, bob, as_, client, all_taken):
    all_taken(alice)
    assert as_(alice).get(reverse("dataset_list")).status_code == 200
    assert as_(alice).get(reverse("catalogue")).status_code == 200
    assert as_(bob).get(reverse("compare", args=[draft.pk])).status_code == 200


def test_a_slot_is_free_again_after_a_request_whatever_became_of_it(draft, alice, as_, settings, monkeypatch):
    settings.PLANNING_SLOTS = settings.PLANNING_PLACES = 1
    client = as_(alice)
    client.raise_request_exception = False
    address = reverse("compare", args=[draft.pk])
    for _ in range(3):
        assert client.get(address).status_code == 200
    with monkeypatch.context() as broken:
        broken.setattr(services, "compare", lambda release: services.plan_of(release=release) and 1 / 0)
        for _ in range(3):
            assert client.get(address).status_code == 500
    assert client.get(address).status_code == 200
    assert before_planning.get() is None


def test_what_was_typed_is_sent_again_with_one_press(draft, alice, as_, all_taken):
    all_taken(alice)
    typed = {"epsilon": "0.75", "delta": "0", "beta": "0.05", "mechanism": "laplace-histogram"}
    page = as_(alice).post(reverse("compare", args=[draft.pk]), typed)
    assert page.status_code == BUSY
    for name, value in typed.items():
        assert f'<input type="hidden" name="{name}" value="{value}">' in page.content.decode()


def test_one_who_waits_gets_the_slot_and_one_too_many_is_refused_at_once(settings):
    settings.PLANNING_SLOTS = settings.PLANNING_PLACES = 1
    settings.PLANNING_WAIT_SECONDS = 30
    first, waiting, third = (PlanningSlot("7") for _ in range(3))
    first.take()
    took = threading.Thread(target=waiting.take)
    took.start()
    place = Path(settings.DATA_DIR) / "planning" / "7-place-0"
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and not is_locked(place):
        time.sleep(0.01)
    began = time.monotonic()
    with pytest.raises(NoSlot):
        third.take()
    assert time.monotonic() - began < 10
    assert took.is_alive()
    first.free()
    took.join(20)
    assert not took.is_alive()
    waiting.free()
    third.take()
    third.free()


def is_locked(path):
    if not path.exists():
        return False
    file = os.open(path, os.O_RDWR)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(file)
    return False


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


@pytest.mark.parametrize("address", ["/api/catalogue", "/catalogue/", "/accounts/login/"])
def test_a_larger_body_is_refused_with_its_limit(client, address):
    answer = client.post(address, b"x" * (10**6 + 1), content_type="application/json")
    assert answer.status_code == 400
    assert "1 MB" in answer.content.decode()
