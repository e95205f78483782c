"""Signing in and out, passwords, second factors: in the site's look and closed to strangers."""

from __future__ import annotations

import re

import pytest
from allauth.account.models import EmailAddress
from allauth.mfa.totp.internal import auth
from allauth.mfa.utils import is_mfa_enabled
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
    assert "No account has this user name and this password." in words(page)
    assert 'value="alice"' in body(page)
    assert "wrong" not in body(page)


def test_an_unknown_name_gets_the_same_answer_as_a_wrong_password(client, alice):
    def said(page):
        return re.findall(r'<ul class="errorlist[^>]*>.*?</ul>', body(page), flags=re.DOTALL)

    assert said(sign_in(client, "nobody")) == said(sign_in(client, "alice", "wrong")) != []


def test_guessing_is_slowed_down(client, alice):
    for _ in range(12):
        sign_in(client, password="wrong")
    assert "Too many failed attempts to sign in. Wait five minutes" in words(sign_in(client))


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
    assert "Current password" in words(page)
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


def test_a_forgotten_password_can_be_set_again_by_mail(client, alice):
    client.post("/accounts/password/reset/", {"email": "alice@example.org"})
    link = re.search(r"http://testserver(/accounts/password/reset/key/\S+)", mail.outbox[0].body)[1]
    page = client.get(link, follow=True)
    assert "New password, again" in words(page)
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
        assert "Scan the picture with the app" in words(page)


def test_the_admin_has_no_sign_in_of_its_own_that_passes_by_the_second_factor(client, sofia):
    assert client.get("/admin/login/?next=/admin/").url.startswith("/accounts/login/")
    client.post("/admin/login/", {"username": "sofia", "password": PASSWORD})
    assert client.get("/datasets/").status_code == 302


@pytest.fixture
def code_of(alice):
    """Alice has an authenticator app; the code it shows now."""
    secret = auth.generate_totp_secret()
    auth.TOTP.activate(alice, secret)
    counter = next(auth.yield_hotp_counters_from_time())
    return lambda: auth.format_hotp_value(auth.hotp_value(secret, counter))


def test_with_a_second_factor_the_password_alone_is_not_enough(client, code_of):
    asked = sign_in(client, next="/datasets/")
    assert asked.url == "/accounts/2fa/authenticate/"
    assert client.get("/datasets/").status_code == 302, "not signed in yet"
    page = client.get(asked.url)
    assert inline_code(page) == []
    assert "releases/site.css" in body(page)
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
    from releases.models import AuditEvent

    sign_in(client)
    asked = client.get("/accounts/2fa/totp/activate/")
    client.post(asked.url, {"password": PASSWORD})
    client.get("/accounts/2fa/totp/activate/")
    secret = client.session["mfa.totp.secret"]
    code = auth.format_hotp_value(auth.hotp_value(secret, next(auth.yield_hotp_counters_from_time())))
    for address in ("activate", "deactivate"):
        with django_capture_on_commit_callbacks(execute=True):
            client.post(f"/accounts/2fa/totp/{address}/", {"code": code})
    said = list(
        AuditEvent.objects.filter(action__in=("account", "remove factor"), actor=alice)
        .order_by("pk")
        .values_list("detail", flat=True)
    )
    assert said[0] == "second factor added: TOTP Authenticator"
    assert "second factor removed: TOTP Authenticator" in said[1:]


def test_the_sign_in_page_offers_passkeys_without_code_in_the_page(client):
    page = client.get("/accounts/login/")
    assert "Sign in with a passkey" in words(page)
    assert inline_code(page) == []


def test_asking_for_many_new_passwords_is_slowed_down(client, alice):
    answers = [client.post("/accounts/password/reset/", {"email": "alice@example.org"}).status_code for _ in range(6)]
    assert answers[0] == 302
    assert answers[-1] == 429
    assert len(mail.outbox) == 5


def test_behind_a_proxy_visitors_are_told_apart(client, alice, settings):
    settings.ALLAUTH_TRUSTED_PROXY_COUNT = 1
    for number in range(12):
        page = client.post(
            "/accounts/login/",
            {"login": f"nobody{number}", "password": "wrong"},
            headers={"X-Forwarded-For": f"203.0.113.{number}"},
        )
        assert "Too many failed attempts to sign in" not in words(page)


# --- accounts as staff make them --------------------------------------------------------------------------------------


@pytest.fixture
def newcomer(alice):
    """Alice has an address that staff typed, and nobody has confirmed it."""
    EmailAddress.objects.create(user=alice, email=alice.email, primary=True, verified=False)
    return alice


def confirm_who_one_is(client, address):
    asked = client.get(f"/accounts/2fa/{address}")
    return client.post(asked.url, {"password": PASSWORD}, follow=True)


def test_an_account_whose_address_nobody_confirmed_can_have_an_authenticator_app(client, newcomer):
    sign_in(client)
    confirm_who_one_is(client, "totp/activate/")
    secret = client.session["mfa.totp.secret"]
    code = auth.format_hotp_value(auth.hotp_value(secret, next(auth.yield_hotp_counters_from_time())))
    page = client.post("/accounts/2fa/totp/activate/", {"code": code}, follow=True)
    assert "10 of 10 are unused." in words(page), "recovery codes come with it"
    assert "✓ active" in words(client.get("/accounts/2fa/"))
    assert is_mfa_enabled(newcomer)
    client.post("/accounts/logout/")
    assert sign_in(client).url == "/accounts/2fa/authenticate/"


def test_an_account_whose_address_nobody_confirmed_is_asked_for_a_passkey(client, newcomer):
    sign_in(client)
    page = confirm_who_one_is(client, "webauthn/add/")
    assert "Add a passkey" in words(page)
    assert 'value="Passkey 1"' in body(page)
    assert "PublicKeyCredential" not in body(page)
    assert "creation_options" in body(page)


def test_a_first_sign_in_leaves_no_dead_end_at_the_second_factors(client, alice):
    sign_in(client)
    page = client.get("/accounts/2fa/")
    assert "Activate an app" in words(page)
    assert "Add a passkey" in words(page)
    assert "cannot" not in words(page)


# --- words ------------------------------------------------------------------------------------------------------------

STRANGE = re.compile(
    r"\bemails?\b|contact us|two-factor|security keys?\b(?! that you plug in)|\blog ?in\b|username", re.I
)
OWN_PAGES = [
    "password/change/",
    "email/",
    "logout/",
    "2fa/",
    "2fa/totp/activate/",
    "2fa/webauthn/add/",
    "2fa/webauthn/",
]


def test_account_pages_speak_the_site_s_words(client, newcomer):
    pages = {address: client.get(f"/accounts/{address}") for address in ("login/", "password/reset/", "signup/")}
    pages["sent"] = client.post("/accounts/password/reset/", {"email": "alice@example.org"}, follow=True)
    pages["bad link"] = client.get("/accounts/password/reset/key/1-nothing/")
    pages["bad confirmation"] = client.get("/accounts/confirm-email/nothing/")
    sign_in(client)
    pages["is it you"] = client.get("/accounts/reauthenticate/")
    confirm_who_one_is(client, "totp/activate/")
    pages |= {address: client.get(f"/accounts/{address}") for address in OWN_PAGES}
    pages["sent a link"] = client.post("/accounts/email/", {"action_send": "", "email": newcomer.email}, follow=True)
    for address, page in pages.items():
        assert page.status_code == 200, address
        assert not STRANGE.findall(words(page)), (address, STRANGE.findall(words(page)))
        assert inline_code(page) == [], address


def test_second_factor_pages_speak_the_site_s_words(client, alice, code_of):
    url = sign_in(client).url
    asked = client.get(url)
    assert "Use a passkey" in words(asked)
    client.post(url, {"code": code_of()})
    for address in ("2fa/", "2fa/totp/deactivate/", "2fa/recovery-codes/generate/"):
        page = client.get(f"/accounts/{address}", follow=True)
        assert not STRANGE.findall(words(page)), (address, STRANGE.findall(words(page)))
        assert inline_code(page) == []


def test_e_mails_say_who_writes_and_greet_no_address(client, newcomer, django_capture_on_commit_callbacks):
    with django_capture_on_commit_callbacks(execute=True):
        client.post("/accounts/password/reset/", {"email": "alice@example.org"})
        client.post("/accounts/password/reset/", {"email": "nobody@example.org"})
        sign_in(client)
        client.post("/accounts/email/", {"action_send": "", "email": newcomer.email})
    subjects = [message.subject for message in mail.outbox]
    assert "[dpweb] A link to a new password" in subjects
    assert "[dpweb] No account has this e-mail address" in subjects
    assert "[dpweb] Confirm your e-mail address" in subjects
    for message in mail.outbox:
        assert "Hello from" not in message.body
        assert "signup" not in message.body, "sign-up is closed"
        assert not STRANGE.findall(re.sub(r"http\S+", "", message.subject + message.body))
        assert message.body.endswith("dpweb at testserver")


def test_who_asks_too_often_is_told_how_long_to_wait(client, alice):
    answers = [client.post("/accounts/password/reset/", {"email": "alice@example.org"}) for _ in range(6)]
    assert answers[-1].status_code == 429
    assert "Wait a minute and try again." in words(answers[-1])
    assert "releases/site.css" in body(answers[-1])
