"""A second factor that a role must have."""

from __future__ import annotations

import pytest
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from allauth.mfa.totp.internal import auth
from django.contrib.auth.models import User
from django.core.cache import cache
from django.urls import reverse

from dpweb import settings as as_installed
from releases import services
from releases.checks import roles_are_known
from releases.models import Role
from tests.web.pages import words

pytestmark = pytest.mark.django_db

REVIEWING = [
    "review_queue",
    "budget_board",
    "board_csv",
    "ledger",
    "ledger_csv",
    "audit_log",
    "audit_csv",
    "organisation",
]


@pytest.fixture(autouse=True)
def _required(settings):
    cache.clear()
    settings.REQUIRE_SECOND_FACTOR = ["reviewer"]


def test_an_installation_wants_one_of_reviewers_and_administrators_unless_told_otherwise():
    assert as_installed.REQUIRE_SECOND_FACTOR == ["reviewer", "administrator"]


@pytest.mark.parametrize("name", REVIEWING)
def test_a_reviewer_without_one_is_led_to_it_before_a_reviewing_page_opens(as_, sofia, name):
    page = as_(sofia).get(reverse(name), follow=True)
    assert page.redirect_chain == [("/accounts/2fa/", 302)]
    assert "Your role (reviewer) needs a second factor. Set one up first." in words(page)
    auth.TOTP.activate(sofia, auth.generate_totp_secret())
    assert as_(sofia).get(reverse(name)).status_code == 200


def test_a_reviewer_without_one_decides_nothing(as_, sofia, asked):
    url = reverse("budget_request", args=[asked.pk])
    refused = as_(sofia).post(url, {"decision": "approve", "epsilon": "3", "delta": "0.000001"})
    assert refused.url == "/accounts/2fa/"
    asked.refresh_from_db()
    assert asked.state == "waiting"


def test_recovery_codes_alone_are_no_second_factor(as_, sofia):
    RecoveryCodes.activate(sofia)
    assert as_(sofia).get(reverse("review_queue")).url == "/accounts/2fa/"


def test_the_admin_and_the_rest_of_the_site_wait_too(as_, sofia):
    for address in ("/", "/datasets/", "/admin/"):
        assert as_(sofia).get(address).url == "/accounts/2fa/", address


@pytest.mark.parametrize("page", ["account_logout", "account_change_password", "mfa_index", "account_email"])
def test_the_pages_of_one_s_own_account_stay_open(as_, sofia, page):
    assert as_(sofia).get(reverse(page)).status_code == 200


def test_a_script_is_led_there_as_a_whole_page(as_, sofia):
    response = as_(sofia).get(reverse("review_queue"), headers={"HX-Request": "true"})
    assert response["HX-Redirect"] == "/accounts/2fa/"


def test_programs_and_scripts_get_nothing_either(client, as_, sofia):
    bearer = {"Authorization": f"Bearer {services.tokens.make_token(user=sofia, name='a script')}"}
    for refused in (client.get("/api/datasets", headers=bearer), as_(sofia).get("/api/datasets")):
        assert refused.status_code == 403
        assert "needs a second factor" in refused.json()["message"]
    auth.TOTP.activate(sofia, auth.generate_totp_secret())
    assert client.get("/api/datasets", headers=bearer).status_code == 200


def test_others_need_none(as_, alice, client):
    assert as_(alice).get("/datasets/").status_code == 200
    client.logout()
    assert client.get("/catalogue/").status_code == 200


@pytest.mark.parametrize("role", ["analyst", "curator"])
def test_any_role_can_be_made_to_need_one(as_, alice, settings, role):
    settings.REQUIRE_SECOND_FACTOR = [role]
    assert as_(alice).get("/datasets/").url == "/accounts/2fa/"


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
