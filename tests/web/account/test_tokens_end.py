"""Tokens end with the password, and making one takes showing again who one is."""

import re

import pytest
from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import User
from django.core import mail
from django.core.management import call_command
from django.urls import reverse

from releases import services
from releases.models import ApiToken, AuditEvent
from tests.web.conftest import PASSWORD
from tests.web.pages import words

NEW = "an entirely different one"
TWICE = {"password1": NEW, "password2": NEW}


@pytest.fixture
def token(alice, bob):
    """Of two that alice has; bob's stays."""
    services.tokens.make_token(user=bob, name="bob's")
    services.tokens.make_token(user=alice, name="another")
    return services.tokens.make_token(user=alice, name="a script")


def change_on_the_page(client, alice):
    client.force_login(alice)
    return client.post("/accounts/password/change/", {"oldpassword": PASSWORD, **TWICE}, follow=True)


def change_by_mail(client, alice):
    client.post("/accounts/password/reset/", {"email": alice.email})
    link = re.search(r"http://testserver(/accounts/password/reset/key/\S+)", mail.outbox[0].body)[1]
    page = client.get(link, follow=True)
    return client.post(page.redirect_chain[-1][0], TWICE, follow=True)


def change_in_the_admin(client, alice):
    root = User.objects.create_superuser("root", "root@example.org", PASSWORD)
    client.force_login(root)
    address = f"/admin/auth/user/{alice.pk}/password/"
    return client.post(address, TWICE | {"usable_password": "true"}, follow=True)


def change_on_the_command_line(client, alice):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("getpass.getpass", lambda *_, **__: NEW)
        call_command("changepassword", "alice")


@pytest.mark.parametrize(
    "change", [change_on_the_page, change_by_mail, change_in_the_admin, change_on_the_command_line]
)
def test_a_new_password_ends_all_of_its_owner_s_tokens_wherever_it_is_set(client, alice, bob, token, change):
    change(client, alice)
    alice.refresh_from_db()
    assert alice.check_password(NEW)
    assert services.tokens.use_token(token) is None
    assert [each.user for each in ApiToken.objects.all()] == [bob]
    event = AuditEvent.objects.get(detail="new password: 2 tokens revoked")
    actor = {change_on_the_page: "alice", change_in_the_admin: "root"}.get(change)
    assert (event.action, event.name, event.actor and event.actor.username) == ("revoke token", "alice", actor)
    if change in (change_on_the_page, change_by_mail):
        assert AuditEvent.objects.filter(action="password", name="alice").count() == 1


def test_a_password_that_is_only_hashed_again_ends_no_token(client, alice, token, settings):
    User.objects.filter(pk=alice.pk).update(password=make_password(PASSWORD, hasher="md5"))
    settings.PASSWORD_HASHERS = [
        "django.contrib.auth.hashers.ScryptPasswordHasher",
        "django.contrib.auth.hashers.MD5PasswordHasher",
    ]
    assert client.post("/accounts/login/", {"login": "alice", "password": PASSWORD}).status_code == 302
    alice.refresh_from_db()
    assert alice.password.startswith("scrypt")
    assert services.tokens.use_token(token) is not None


def test_making_a_token_asks_for_the_password_again_and_then_makes_it_as_it_was_asked(client, alice):
    client.post("/accounts/login/", {"login": "alice", "password": PASSWORD})
    asked = client.post(reverse("tokens"), {"name": "nightly job", "days": "30", "scope": "read"})
    assert asked.url.startswith("/accounts/reauthenticate/")
    assert client.post(asked.url, {"password": "wrong"}).status_code == 200
    assert not ApiToken.objects.exists()
    page = client.post(asked.url, {"password": PASSWORD, "next": reverse("tokens")})
    token = next(word for word in words(page).split() if word.startswith("dpweb_"))
    assert services.tokens.use_token(token).name == "nightly job"
    assert "no-store" in page["Cache-Control"]
