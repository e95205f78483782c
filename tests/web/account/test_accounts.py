"""Signing in and out, passwords, second factors: in the site's look and closed to strangers."""

from __future__ import annotations

import re

import pytest
from allauth.account.models import EmailAddress
from allauth.mfa.totp.internal import auth
from allauth.mfa.utils import is_mfa_enabled
from django.contrib.auth.models import User
from django.core import mail
from django.test import Client

from releases.models import AuditEvent
from tests.web.conftest import PASSWORD
from tests.web.pages import body, inline_code, words

pytestmark = pytest.mark.django_db


def sign_in(client, login="alice", password=PASSWORD, **more):
    return client.post("/accounts/login/", {"login": login, "password": password} | more)


@pytest.mark.parametrize("login", ["alice", "alice@example.org"])
def test_people_sign_in_by_name_or_address_and_are_where_they_wanted_to_be(client, alice, login):
    assert client.get("/datasets/").url == "/accounts/login/?next=/datasets/"
    assert sign_in(client, login, next="/datasets/").url == "/datasets/"
    assert client.get("/datasets/").status_code == 200
    assert sign_in(Client(), login, next="https://elsewhere.example.org/").url == "/"


def test_a_wrong_password_keeps_the_name_alone_and_an_unknown_name_gets_the_same_answer(client, alice):
    def said(page):
        return re.findall(r'<ul class="errorlist[^>]*>.*?</ul>', body(page), flags=re.DOTALL)

    page = sign_in(client, password="wrong")
    assert page.status_code == 200
    assert 'value="alice"' in body(page)
    assert "wrong" not in body(page)
    assert said(sign_in(client, "nobody")) == said(page) != []


def test_sign_up_is_closed(client):
    given = {"username": "eve", "email": "eve@example.org", "password1": PASSWORD, "password2": PASSWORD}
    client.post("/accounts/signup/", given)
    assert "/accounts/signup/" not in body(client.get("/accounts/login/"))
    assert not User.objects.filter(username="eve").exists()


def test_signing_out_takes_a_press_of_the_button(as_, alice):
    client = as_(alice)
    client.get("/accounts/logout/")
    assert client.get("/datasets/").status_code == 200
    assert client.post("/accounts/logout/").url == "/accounts/login/"
    assert client.get("/datasets/").status_code == 302


def test_a_weak_password_is_refused(as_, alice):
    for password in ("short", "1234567890123", "password123", "alice@example.org"):
        given = {"oldpassword": PASSWORD, "password1": password, "password2": password}
        as_(alice).post("/accounts/password/change/", given)
        alice.refresh_from_db()
        assert alice.check_password(PASSWORD)


def test_asking_for_an_unknown_address_tells_nothing(client, alice):
    known = client.post("/accounts/password/reset/", {"email": "alice@example.org"})
    unknown = client.post("/accounts/password/reset/", {"email": "nobody@example.org"})
    assert known.status_code == unknown.status_code == 302
    assert known.url == unknown.url


@pytest.mark.parametrize("address", ["totp/activate/", "webauthn/add/"])
def test_a_second_factor_is_set_up_after_the_password_is_given_again(client, alice, address):
    sign_in(client)
    asked = client.get(f"/accounts/2fa/{address}")
    assert asked.url.startswith("/accounts/reauthenticate/")
    page = client.post(asked.url, {"password": PASSWORD}, follow=True)
    assert page.redirect_chain[-1][0] == f"/accounts/2fa/{address}"
    assert inline_code(page) == []
    if address.startswith("totp"):
        assert 'src="data:image/svg+xml' in body(page)


def test_the_admin_has_no_sign_in_of_its_own_that_passes_by_the_second_factor(client, sofia):
    assert client.get("/admin/login/?next=/admin/").url.startswith("/accounts/login/")
    client.post("/admin/login/", {"username": "sofia", "password": PASSWORD})
    assert client.get("/datasets/").status_code == 302


def code_for(secret):
    """What an authenticator app shows now."""
    return auth.format_hotp_value(auth.hotp_value(secret, next(auth.yield_hotp_counters_from_time())))


@pytest.fixture
def code_of(alice):
    """Alice has an authenticator app; the code it shows now."""
    secret = auth.generate_totp_secret()
    auth.TOTP.activate(alice, secret)
    return lambda: code_for(secret)


def test_with_a_second_factor_the_password_alone_is_not_enough(client, code_of):
    asked = sign_in(client, next="/datasets/")
    assert asked.url == "/accounts/2fa/authenticate/"
    assert client.get("/datasets/").status_code == 302, "not signed in yet"
    wrong = "000000" if code_of() != "000000" else "111111"
    assert client.post(asked.url, {"code": wrong}).status_code == 200
    assert client.get("/datasets/").status_code == 302
    assert client.post(asked.url, {"code": code_of()}).url == "/datasets/"
    assert client.get("/datasets/").status_code == 200


def test_guessing_the_second_factor_is_slowed_down(client, code_of):
    url = sign_in(client).url
    for _ in range(6):
        client.post(url, {"code": "000000"})
    assert "Too many failed attempts to sign in" in words(client.post(url, {"code": code_of()}))
    assert client.get("/datasets/").status_code == 302


def test_adding_and_removing_a_second_factor_is_in_the_audit_log(client, alice, django_capture_on_commit_callbacks):
    sign_in(client)
    confirm_who_one_is(client, "totp/activate/")
    code = code_for(client.session["mfa.totp.secret"])
    for address in ("activate", "deactivate"):
        with django_capture_on_commit_callbacks(execute=True):
            client.post(f"/accounts/2fa/totp/{address}/", {"code": code})
    events = AuditEvent.objects.filter(action__in=("account", "remove factor"), actor=alice).order_by("pk")
    said = list(events.values_list("detail", flat=True))
    assert said[0] == "second factor added: TOTP Authenticator"
    assert "second factor removed: TOTP Authenticator" in said[1:]


def test_asking_for_many_new_passwords_is_slowed_down(client, alice):
    answers = [client.post("/accounts/password/reset/", {"email": "alice@example.org"}).status_code for _ in range(6)]
    assert answers[0] == 302
    assert answers[-1] == 429
    assert len(mail.outbox) == 5


def confirm_who_one_is(client, address):
    asked = client.get(f"/accounts/2fa/{address}")
    return client.post(asked.url, {"password": PASSWORD}, follow=True)


def test_an_account_whose_address_nobody_confirmed_can_have_an_authenticator_app(client, alice):
    EmailAddress.objects.create(user=alice, email=alice.email, primary=True, verified=False)
    sign_in(client)
    confirm_who_one_is(client, "totp/activate/")
    code = code_for(client.session["mfa.totp.secret"])
    page = client.post("/accounts/2fa/totp/activate/", {"code": code}, follow=True)
    assert "10 of 10 are unused." in words(page), "recovery codes come with it"
    assert is_mfa_enabled(alice)
    client.post("/accounts/logout/")
    assert sign_in(client).url == "/accounts/2fa/authenticate/"
