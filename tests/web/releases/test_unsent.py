"""A session that ends while somebody types: they come back to where they were, and nothing typed is lost."""

import pytest
from django.conf import settings
from django.test import Client
from django.urls import reverse

from releases.middleware.session_expiry import UNSENT
from tests.web.conftest import PASSWORD
from tests.web.pages import body, link, words
from tests.web.releases.conftest import charges

CODEBOOK = '\n{"version": 1, "columns": [{"name": "sex", "type": "categorical", "categories": ["female", "male"]}]}'


@pytest.fixture
def expire(client, alice):
    """Alice's browser after her session has ended."""
    client.force_login(alice)
    client.get(reverse("catalogue"))

    def end():
        client.cookies.pop(settings.SESSION_COOKIE_NAME)
        return client

    return end


def send(client, path, data, *, page=None):
    return client.post(path, data, headers={"referer": f"http://testserver{page or path}"})


def test_whoever_else_signs_in_there_does_not_see_it(expire, dataset, bob):
    client = expire()
    answer = send(client, link("budget", dataset), {"epsilon": "7", "reason": "between us"})
    client.post(answer.url, {"login": "bob", "password": PASSWORD})
    assert "between us" not in body(client.get("/unsent/", follow=True))
    assert UNSENT not in client.session


@pytest.mark.parametrize("who", ["somebody unknown", "more than a codebook"])
def test_nothing_is_kept_where_nobody_knows_who_typed_it_or_where_it_is_too_long(expire, dataset, who):
    path = link("columns", dataset)
    browser, typed = (Client(), "x") if who == "somebody unknown" else (expire(), "x" * 300_000)
    assert send(browser, path, {"codebook": typed}).url == f"/accounts/login/?next={path}"
    assert UNSENT not in browser.session


def test_a_charge_is_read_once_more_before_it_is_confirmed(expire, draft):
    client, path = expire(), link("confirm", draft)
    answer = send(client, path, {"title": "Mine", "key": "x"})
    assert answer.url == f"/accounts/login/?next={path}"
    assert "You were signed out, so nothing was done." in words(client.get(answer.url))
    assert UNSENT not in client.session
    assert not charges().exists()


@pytest.mark.parametrize("referrer", ["https://elsewhere.example/", "http://testserver.example/", "javascript:1"])
def test_another_site_is_nowhere_to_come_back_to(expire, published, referrer):
    path = link("withdraw", published)
    assert expire().post(path, {}, headers={"referer": referrer}).url == "/accounts/login/?next=/"


def test_a_password_is_never_kept(expire):
    client = expire()
    send(client, "/accounts/password/change/", {"oldpassword": PASSWORD, "password1": "x", "password2": "x"})
    assert PASSWORD not in str(dict(client.session))


def test_a_form_of_another_site_has_nothing_kept(dataset):
    client = Client(enforce_csrf_checks=True)
    assert send(client, link("columns", dataset), {"codebook": CODEBOOK}).status_code == 403
    assert settings.SESSION_COOKIE_NAME not in client.cookies
