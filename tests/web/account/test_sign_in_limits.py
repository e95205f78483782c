"""Who guesses passwords is held back, and keeps nobody else out; with the shared cache, and while it is away."""

from __future__ import annotations

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

pytestmark = pytest.mark.django_db

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


# --- by address and account -------------------------------------------------------------------------------------------


def test_guessing_keeps_nobody_out_at_another_address_or_of_another_account(alice, bob):
    assert HELD_BACK in guess(at=CAFE)
    assert HELD_BACK in words(sign_in(Client(), at=CAFE))
    assert is_let_in(sign_in(Client(), at=HOME))
    assert is_let_in(sign_in(Client(), "bob", at=CAFE))


def test_one_address_cannot_try_one_password_on_many_accounts(alice):
    for number in range(10):
        sign_in(Client(), f"nobody{number}", "wrong", at=CAFE)
    assert HELD_BACK in words(sign_in(Client(), "nobody10", "wrong", at=CAFE))


def test_a_whole_network_of_addresses_counts_as_one(alice):
    for number in range(5):
        sign_in(Client(), password="wrong", at=f"2001:db8::{number}")
    assert HELD_BACK in words(sign_in(Client(), at="2001:db8::99"))


def test_an_account_that_is_not_there_is_held_back_alike(alice):
    assert guess("alice", at=CAFE) == guess("nobody", at=HOME).replace("nobody", "alice")


# --- known devices ----------------------------------------------------------------------------------------------------


def test_an_owner_on_a_device_they_have_signed_in_with_is_not_shut_out_by_a_neighbour(alice):
    owner = Client()
    assert is_let_in(sign_in(owner, at=CAFE))
    owner.post("/accounts/logout/")
    for number in range(12):
        guess("alice" if number % 2 else f"nobody{number}", at=CAFE, times=1)
    assert HELD_BACK in words(sign_in(Client(), at=CAFE))
    assert is_let_in(sign_in(owner, at=CAFE))


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


def test_the_cookie_is_closed_to_scripts_lives_long_and_holds_everybody_who_shares_the_browser(alice, bob):
    client = Client()
    for login in ("alice", "bob"):
        sign_in(client, login)
        client.post("/accounts/logout/")
    held = client.cookies[known_devices.COOKIE]
    assert (held["httponly"], held["samesite"], held["max-age"] >= 365 * 24 * 3600) == (True, "Lax", True)
    for login in ("alice", "bob"):
        guess(login, at=CAFE, times=5)
    assert is_let_in(sign_in(client, "alice", at=CAFE))
    client.post("/accounts/logout/")
    assert is_let_in(sign_in(client, "bob", at=CAFE))


# --- the logs ---------------------------------------------------------------------------------------------------------


def test_a_failed_sign_in_is_logged_with_its_address_and_never_with_what_was_typed(alice, caplog):
    with caplog.at_level(logging.WARNING, logger="releases.ledger.audit_log"):
        sign_in(Client(), password="my secret", at=CAFE)
        sign_in(Client(), "my other secret", at="2001:db8::1")
    assert [record.getMessage() for record in caplog.records if record.name == "releases.ledger.audit_log"] == [
        f"sign-in failed (wrong password) from {CAFE}",
        "sign-in failed (no such account) from 2001:db8::1",
    ]
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


def test_who_is_held_back_is_in_the_log_and_fills_no_table(alice, caplog):
    guess(at=CAFE, times=9)
    assert AuditEvent.objects.filter(action="sign-in failed").count() == 5
    assert caplog.text.count(f"sign-in held back from {CAFE}") == 4


def test_behind_a_proxy_visitors_are_told_apart_and_their_addresses_logged(alice, settings):
    settings.ALLAUTH_TRUSTED_PROXY_COUNT = 1
    for number in range(12):
        data, visitor = {"login": "alice", "password": "wrong"}, f"203.0.113.{number}"
        page = Client().post("/accounts/login/", data, headers={"X-Forwarded-For": f"{HOME}, {visitor}"})
        assert HELD_BACK not in words(page)
        assert AuditEvent.objects.latest("pk").detail.endswith(f"from {visitor}")


# --- while the shared cache is away -----------------------------------------------------------------------------------


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


@pytest.fixture
def silent():
    """A server that listens and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0)
        yield server


def test_with_redis_away_people_sign_in_and_guessing_is_held_back_all_the_same(alice, share, nothing_there, caplog):
    share(nothing_there)
    assert is_let_in(sign_in(Client(), at=HOME))
    assert HELD_BACK in guess(at=CAFE)
    assert is_let_in(sign_in(Client(), at=HOME))
    assert caplog.text.count("the shared cache is away (ConnectionError)") == 1


def test_with_redis_away_a_code_of_the_app_is_good_once(alice, share, nothing_there):
    share(nothing_there)
    secret = auth.generate_totp_secret()
    auth.TOTP.activate(alice, secret)
    code = auth.format_hotp_value(auth.hotp_value(secret, next(auth.yield_hotp_counters_from_time())))
    first, second = Client(), Client()
    assert is_let_in(first.post(sign_in(first).url, {"code": code}))
    assert second.post(sign_in(second).url, {"code": code}).status_code == 200


def test_a_redis_that_does_not_answer_is_asked_once_and_not_waited_for_again(alice, share, silent):
    share(silent.getsockname()[1])
    assert is_let_in(sign_in(Client()))
    assert HELD_BACK in guess(at=CAFE)
    silent.accept()
    with pytest.raises(BlockingIOError):
        silent.accept()


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
