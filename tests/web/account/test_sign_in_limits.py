"""Who guesses passwords is held back, and keeps nobody else out; with the shared cache, and while it is away."""

import json
import logging
import socket

import pytest
from allauth.mfa.totp.internal import auth
from django.core.cache import cache, caches
from django.test import Client

from releases.accounts import known_devices
from releases.models import AuditEvent
from releases.storage import caches as own
from tests.web.conftest import PASSWORD
from tests.web.pages import words

HELD_BACK = "Too many failed attempts to sign in."
HOME, CAFE = "192.0.2.1", "198.51.100.7"


@pytest.fixture(autouse=True)
def _no_attempts_yet(monkeypatch):
    monkeypatch.setattr(own.SharedOrLocalCache, "_away_until", 0.0)
    cache.clear()


def sign_in(client, login="alice", password=PASSWORD, *, at=HOME):
    return client.post("/accounts/login/", {"login": login, "password": password}, REMOTE_ADDR=at)


def guess(login="alice", *, at, times=6, client=None):
    return [words(sign_in(client or Client(), login, "wrong", at=at)) for _ in range(times)][-1]


def is_let_in(response):
    return response.status_code == 302


def test_guessing_keeps_nobody_out_at_another_address_or_of_another_account(alice, bob):
    assert HELD_BACK in guess(at=CAFE)
    assert HELD_BACK in words(sign_in(Client(), at=CAFE))
    assert is_let_in(sign_in(Client(), at=HOME))
    assert is_let_in(sign_in(Client(), "bob", at=CAFE))


def test_one_address_cannot_try_one_password_on_many_accounts(alice):
    for number in range(10):
        sign_in(Client(), f"nobody{number}", "wrong", at=CAFE)
    assert HELD_BACK in words(sign_in(Client(), "nobody10", "wrong", at=CAFE))


def test_owners_on_a_device_they_have_signed_in_with_are_not_shut_out_by_a_neighbour(alice, bob):
    device = Client()
    for login in ("alice", "bob"):
        assert is_let_in(sign_in(device, login, at=CAFE))
        device.post("/accounts/logout/")
    for number in range(12):
        guess("alice" if number % 2 else "bob", at=CAFE, times=1)
    assert HELD_BACK in words(sign_in(Client(), at=CAFE))
    assert is_let_in(sign_in(device, "alice", at=CAFE))
    device.post("/accounts/logout/")
    assert is_let_in(sign_in(device, "bob", at=CAFE))


def test_a_known_device_guesses_no_faster_and_no_other_account(alice, bob):
    stolen = Client()
    sign_in(stolen, "bob", at=CAFE)
    stolen.post("/accounts/logout/")
    assert HELD_BACK in guess("bob", at=CAFE, client=stolen)
    assert HELD_BACK in words(sign_in(stolen, "bob", at=HOME)), "the device counts, wherever it is"
    assert HELD_BACK in guess("alice", at=CAFE, client=stolen)
    assert HELD_BACK in words(sign_in(Client(), "alice", at=CAFE)), "it was not its own count"


def test_a_device_is_known_by_a_sign_in_and_by_a_cookie_of_ours_alone(alice):
    made_up = Client()
    made_up.cookies[known_devices.COOKIE] = json.dumps({"device": "x", "people": [alice.pk]})
    guess(at=CAFE, times=10)
    assert HELD_BACK in words(sign_in(made_up, at=CAFE))
    failed = Client()
    sign_in(failed, password="wrong", at=HOME)
    auth.TOTP.activate(alice, auth.generate_totp_secret())
    assert sign_in(failed).url == "/accounts/2fa/authenticate/"
    assert known_devices.COOKIE not in failed.cookies, "nor before the second factor"


def test_a_failed_sign_in_is_recorded_with_its_address_and_never_with_what_was_typed(alice, caplog):
    with caplog.at_level(logging.WARNING):
        sign_in(Client(), password="my secret", at=CAFE)
        sign_in(Client(), "my other secret", at="2001:db8::1")
    assert "secret" not in caplog.text
    auth.TOTP.activate(alice, auth.generate_totp_secret())
    client = Client()
    client.post(sign_in(client).url, {"code": "000000"}, REMOTE_ADDR=CAFE)
    events = AuditEvent.objects.filter(action="sign-in failed").order_by("pk").values_list("name", "detail")
    assert list(events) == [
        ("alice", f"wrong password, from {CAFE}"),
        ("", "no such account, from 2001:db8::1"),
        ("alice", f"wrong second factor, from {CAFE}"),
    ]


@pytest.fixture
def share(settings):
    """Attempts are counted in Redis at this port."""

    def at(port):
        redis = {"BACKEND": "releases.storage.caches.PromptRedisCache", "LOCATION": f"redis://127.0.0.1:{port}/9"}
        settings.CACHES = {**settings.CACHES, "shared": redis}

    return at


@pytest.fixture
def nothing_there():
    """A port at which nobody answers."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        yield probe.getsockname()[1]


def test_with_redis_away_people_sign_in_and_guessing_is_held_back_all_the_same(alice, share, nothing_there, caplog):
    share(nothing_there)
    assert HELD_BACK in guess(at=CAFE)
    assert is_let_in(sign_in(Client(), at=HOME))
    assert caplog.text.count("the shared cache is away (ConnectionError)") == 1, "it is asked once"


@pytest.mark.redis
def test_once_redis_is_back_it_counts_again(alice, share, nothing_there, monkeypatch):
    share(nothing_there)
    guess(at=CAFE)
    share(6379)
    caches["shared"].clear()
    assert HELD_BACK in words(sign_in(Client(), at=CAFE)), "it is not asked so soon"
    monkeypatch.setattr(own, "monotonic", lambda: own.SharedOrLocalCache._away_until)
    assert HELD_BACK in guess(at=CAFE)
    caches["local"].clear()
    assert HELD_BACK in words(sign_in(Client(), at=CAFE))
    caches["shared"].clear()
    assert is_let_in(sign_in(Client(), at=CAFE))
