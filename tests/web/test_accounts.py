"""Signing in and out, passwords, second factors: in the site's look and closed to strangers."""

from __future__ import annotations

import re

import pytest
from django.contrib.auth.models import User
from django.core import mail
from django.core.cache import cache

from tests.web.conftest import PASSWORD
from tests.web.pages import body, inline_code, words

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _no_attempts_yet():
    """Attempts to sign in are counted in the cache."""
    cache.clear()


def sign_in(client, login="alice", password=PASSWORD, **more):
    return client.post("/accounts/login/", {"login": login, "password": password} | more)


def test_the_sign_in_page_looks_like_the_rest_and_offers_no_sign_up(client):
    page = client.get("/accounts/login/")
    assert "User name or e-mail address" in words(page)
    assert "/accounts/signup/" not in body(page)
    assert "releases/site.css" in body(page)


@pytest.mark.parametrize("login", ["alice", "alice@example.org"])
def test_people_sign_in_by_name_or_address(client, alice, login):
    assert sign_in(client, login).url == "/"
    assert "alice" in words(client.get("/"))


def test_after_signing_in_one_is_where_one_wanted_to_be(client, alice):
    wanted = client.get("/datasets/")
    assert wanted.url == "/accounts/login/?next=/datasets/"
    assert sign_in(client, next="/datasets/").url == "/datasets/"


def test_after_signing_in_one_is_never_on_another_site(client, alice):
    assert sign_in(client, next="https://elsewhere.example.org/").url == "/"


def test_a_wrong_password_says_so_and_keeps_the_name(client, alice):
    page = sign_in(client, password="wrong")
    assert page.status_code == 200
    assert "password you specified are not correct" in words(page)
    assert 'value="alice"' in body(page)
    assert "wrong" not in body(page)


def test_an_unknown_name_gets_the_same_answer_as_a_wrong_password(client, alice):
    def said(page):
        return re.findall(r'<ul class="errorlist[^>]*>.*?</ul>', body(page), flags=re.DOTALL)

    assert said(sign_in(client, "nobody")) == said(sign_in(client, "alice", "wrong")) != []


def test_guessing_is_slowed_down(client, alice):
    for _ in range(12):
        sign_in(client, password="wrong")
    assert "Too many failed login attempts" in words(sign_in(client))


def test_sign_up_is_closed(client):
    assert "closed" in words(client.get("/accounts/signup/")).lower()
    client.post(
        "/accounts/signup/",
        {"username": "eve", "email": "eve@example.org", "password1": PASSWORD, "password2": PASSWORD},
    )
    assert not User.objects.filter(username="eve").exists()


def test_signing_out_takes_a_press_of_the_button(as_, alice):
    client = as_(alice)
    client.get("/accounts/logout/")
    assert client.get("/datasets/").status_code == 200
    assert client.post("/accounts/logout/").url == "/accounts/login/"
    assert client.get("/datasets/").status_code == 302


def test_the_password_can_be_changed(as_, alice):
    new = "an entirely different one"
    page = as_(alice).get("/accounts/password/change/")
    assert "Current Password" in words(page)
    as_(alice).post("/accounts/password/change/", {"oldpassword": PASSWORD, "password1": new, "password2": new})
    alice.refresh_from_db()
    assert alice.check_password(new)


@pytest.mark.parametrize("password", ["short", "1234567890123", "password123", "alice@example.org"])
def test_a_weak_password_is_refused(as_, alice, password):
    as_(alice).post(
        "/accounts/password/change/", {"oldpassword": PASSWORD, "password1": password, "password2": password}
    )
    alice.refresh_from_db()
    assert alice.check_password(PASSWORD)


def test_a_forgotten_password_can_be_set_anew_by_mail(client, alice):
    client.post("/accounts/password/reset/", {"email": "alice@example.org"})
    link = re.search(r"http://testserver(/accounts/password/reset/key/\S+)", mail.outbox[0].body)[1]
    page = client.get(link, follow=True)
    assert "New Password" in words(page)
    new = "an entirely different one"
    client.post(page.redirect_chain[-1][0], {"password1": new, "password2": new})
    alice.refresh_from_db()
    assert alice.check_password(new)


def test_asking_for_an_unknown_address_tells_nothing(client, alice):
    known = client.post("/accounts/password/reset/", {"email": "alice@example.org"})
    unknown = client.post("/accounts/password/reset/", {"email": "nobody@example.org"})
    assert known.status_code == unknown.status_code == 302
    assert known.url == unknown.url


@pytest.mark.parametrize("address", ["totp/activate/", "webauthn/add/", "recovery-codes/generate/"])
def test_a_second_factor_is_set_up_after_the_password_is_given_again(client, alice, address):
    sign_in(client)
    asked = client.get(f"/accounts/2fa/{address}")
    if address.startswith("recovery"):
        assert asked.status_code in (302, 403, 404)  # codes are for whoever has a second factor
        return
    assert asked.url.startswith("/accounts/reauthenticate/")
    page = client.post(asked.url, {"password": PASSWORD}, follow=True)
    assert page.redirect_chain[-1][0] == f"/accounts/2fa/{address}"
    assert inline_code(page) == []
    if address.startswith("totp"):
        assert 'src="data:image/svg+xml' in body(page)
        assert "Authenticator secret" in words(page)
