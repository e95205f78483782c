"""A session that ends while somebody types: they come back to where they were, and nothing typed is lost."""

from __future__ import annotations

import html
import re

import pytest
from django.conf import settings
from django.test import Client
from django.urls import reverse

from releases import services
from releases.middleware.session_expiry import UNSENT
from releases.models import Dataset
from tests.web.conftest import PASSWORD
from tests.web.pages import body, link, words
from tests.web.releases.conftest import charges

pytestmark = pytest.mark.django_db

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


def fields_of(page):
    """What the page would send, read as a browser reads it: a line break right after a textarea's tag is none."""
    return {
        name: html.unescape(value)
        for name, value in re.findall(r'<textarea name="([^"]+)" hidden>\n?(.*?)</textarea>', body(page), re.DOTALL)
    }


def test_what_was_typed_is_sent_after_signing_in(expire, dataset):
    client, path = expire(), link("columns", dataset)
    answer = send(client, path, {"codebook": CODEBOOK})
    assert answer.status_code == 302
    assert answer.url == "/accounts/login/?next=/unsent/"
    assert "What you typed is kept until you sign in." in words(client.get(answer.url))
    assert client.post(answer.url, {"login": "alice", "password": PASSWORD, "next": "/unsent/"}).url == "/unsent/"
    page = client.get("/unsent/")
    assert fields_of(page) == {"codebook": CODEBOOK}
    sent = client.post(path, fields_of(page))
    assert sent.status_code == 302
    assert [each["name"] for each in Dataset.objects.get().declared] == ["sex"]
    assert client.get("/unsent/").status_code == 302, "what was sent is forgotten"


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


def test_it_can_be_left_unsent(expire, dataset):
    client, path = expire(), link("budget", dataset)
    send(client, path, {"epsilon": "7", "reason": "<script>"})
    client.post("/accounts/login/", {"login": "alice", "password": PASSWORD})
    assert "&lt;script&gt;" in body(client.get("/unsent/"))
    answer = client.post("/unsent/", follow=True)
    assert answer.redirect_chain[-1][0] == path
    assert "It was not sent." in words(answer)
    assert UNSENT not in client.session


def test_a_charge_is_read_once_more_before_it_is_confirmed(expire, draft):
    client, path = expire(), link("confirm", draft)
    answer = send(client, path, {"title": "Mine", "key": "x"})
    assert answer.url == f"/accounts/login/?next={path}"
    assert "You were signed out, so nothing was done." in words(client.get(answer.url))
    assert UNSENT not in client.session
    assert not charges().exists()


def test_a_button_leads_back_to_its_page_and_not_to_an_address_that_takes_forms_only(expire, published):
    client, page = expire(), link("release_detail", published)
    answer = send(client, link("withdraw", published), {}, page=page)
    assert answer.url == f"/accounts/login/?next={page}"


@pytest.mark.parametrize("referrer", ["https://elsewhere.example/", "http://testserver.example/", "javascript:1"])
def test_another_site_is_nowhere_to_come_back_to(expire, published, referrer):
    path = link("withdraw", published)
    assert expire().post(path, {}, headers={"referer": referrer}).url == "/accounts/login/?next=/"


def test_a_password_is_never_kept(expire):
    client = expire()
    send(client, "/accounts/password/change/", {"oldpassword": PASSWORD, "password1": "x", "password2": "x"})
    assert PASSWORD not in str(dict(client.session))


def test_what_is_checked_while_typing_stays_in_the_fields(expire, draft):
    answer = expire().post(link("questions", draft), {"action": "check"}, headers={"hx-request": "true"})
    assert (answer.status_code, answer.content) == (204, b"")


def test_a_button_that_a_script_sends_for_is_kept_as_any_form_is(expire, dataset, carry_out, alice):
    release = carry_out(services.sessions.draft_session(dataset=dataset, by=alice, title="", epsilon="1"))
    client, path = expire(), link("session", release)
    by_script = {"referer": f"http://testserver{path}", "hx-request": "true"}
    # What is merely checked goes unanswered; what somebody has sent is kept, and the page makes way for the sign-in.
    assert client.post(path, {"in.sex": "male"}, headers=by_script).status_code == 204
    answer = client.post(path, {"in.sex": "male"}, headers=by_script | {"x-pressed": "1"})
    assert (answer.status_code, answer.content) == (200, b"")
    assert answer["HX-Redirect"] == "/accounts/login/?next=/unsent/"
    assert not release.session.answers.exists()
    client.post(answer["HX-Redirect"], {"login": "alice", "password": PASSWORD, "next": "/unsent/"})
    assert fields_of(client.get("/unsent/")) == {"in.sex": "male"}


def test_a_page_that_follows_a_worker_goes_to_the_sign_in_page_as_a_whole(expire, queued):
    page = link("release_detail", queued)
    by_script = {"hx-request": "true", "hx-current-url": f"http://testserver{page}"}
    answer = expire().get(link("columns", queued.dataset), headers=by_script)
    assert answer["HX-Redirect"] == f"/accounts/login/?next={page.replace('/', '%2F')}"
    assert answer.content == b""


def test_a_form_of_another_site_has_nothing_kept(dataset):
    client = Client(enforce_csrf_checks=True)
    assert send(client, link("columns", dataset), {"codebook": CODEBOOK}).status_code == 403
    assert settings.SESSION_COOKIE_NAME not in client.cookies
