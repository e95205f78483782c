"""Signing in and out, passwords, second factors: in the site's look and closed to strangers."""

import re

import pytest
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from allauth.mfa.totp.internal import auth
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from releases import services
from releases.checks import roles_are_known
from releases.models import AuditEvent, Role
from tests.web.conftest import PASSWORD
from tests.web.pages import body, words


def sign_in(client, login="alice", password=PASSWORD, **more):
    return client.post("/accounts/login/", {"login": login, "password": password} | more)


@pytest.mark.parametrize("login", ["alice", "alice@example.org"])
def test_people_sign_in_by_name_or_address_and_go_to_no_other_site(client, alice, login):
    assert sign_in(client, login, next="/datasets/").url == "/datasets/"
    assert sign_in(Client(), login, next="https://elsewhere.example.org/").url == "/"


def test_an_unknown_name_or_address_gets_the_same_answer(client, alice):
    def said(page):
        return re.findall(r'<ul class="errorlist[^>]*>.*?</ul>', body(page), flags=re.DOTALL)

    assert said(sign_in(client, "nobody")) == said(sign_in(client, password="wrong")) != []
    known = client.post("/accounts/password/reset/", {"email": "alice@example.org"})
    unknown = client.post("/accounts/password/reset/", {"email": "nobody@example.org"})
    assert (known.status_code, known.url) == (302, unknown.url)


def test_sign_up_is_closed(client):
    given = {"username": "eve", "email": "eve@example.org", "password1": PASSWORD, "password2": PASSWORD}
    client.post("/accounts/signup/", given)
    assert "/accounts/signup/" not in body(client.get("/accounts/login/"))
    assert not User.objects.filter(username="eve").exists()


def test_a_weak_password_is_refused(as_, alice):
    for password in ("short", "1234567890123", "password123", "alice@example.org"):
        given = {"oldpassword": PASSWORD, "password1": password, "password2": password}
        as_(alice).post("/accounts/password/change/", given)
        assert User.objects.get(pk=alice.pk).check_password(PASSWORD)


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
    assert client.post(asked.url, {"code": code_of()}).url == "/datasets/"
    assert client.get("/datasets/").status_code == 200


def test_guessing_the_second_factor_is_slowed_down(client, code_of):
    url = sign_in(client).url
    wrong = "000000" if code_of() != "000000" else "111111"
    for _ in range(6):
        client.post(url, {"code": wrong})
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


def confirm_who_one_is(client, address):
    asked = client.get(f"/accounts/2fa/{address}")
    return client.post(asked.url, {"password": PASSWORD}, follow=True)


def test_without_one_neither_pages_nor_the_admin_open_and_recovery_codes_alone_are_none(as_, sofia, settings):
    """`test_principals` calls every page and operation of the site."""
    settings.REQUIRE_SECOND_FACTOR = ["reviewer"]
    assert as_(sofia).get("/admin/").url == "/accounts/2fa/"
    response = as_(sofia).get(reverse("review_queue"), headers={"HX-Request": "true"})
    assert response["HX-Redirect"] == "/accounts/2fa/", "a script is led there as a whole page"
    RecoveryCodes.activate(sofia)
    assert as_(sofia).get(reverse("review_queue")).url == "/accounts/2fa/"


def test_a_role_that_is_given_wants_it_from_then_on_and_one_that_is_taken_no_longer(as_, alice, sofia, settings):
    settings.REQUIRE_SECOND_FACTOR = ["administrator"]
    assert as_(alice).get("/datasets/").status_code == 200
    services.roles.give_role(person=alice, role=Role.ADMINISTRATOR, by=sofia)
    assert as_(alice).get("/datasets/").url == "/accounts/2fa/"
    services.roles.take_role(person=alice, role=Role.ADMINISTRATOR, by=sofia)
    assert as_(alice).get("/datasets/").status_code == 200


def test_whoever_may_enter_the_admin_needs_one_as_an_administrator_does(as_, charlie, settings):
    settings.REQUIRE_SECOND_FACTOR = ["administrator"]
    User.objects.filter(pk=charlie.pk).update(is_staff=True)
    assert as_(charlie).get("/admin/").url == "/accounts/2fa/"


def test_a_role_that_is_misspelt_is_said_at_the_start(settings):
    settings.REQUIRE_SECOND_FACTOR = ["reviewers"]
    settings.NEW_ACCOUNT_ROLES = ["analysts"]
    assert [error.msg.partition(";")[0] for error in roles_are_known(None)] == [
        "REQUIRE_SECOND_FACTOR names 'reviewers', which is no role",
        "NEW_ACCOUNT_ROLES names 'analysts', which is no role",
    ]
