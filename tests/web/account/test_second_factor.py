"""Who must have a second factor, and what stays open without one."""

from __future__ import annotations

import pytest
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from django.contrib.auth.models import User
from django.urls import reverse

from dpweb import settings as as_installed
from releases import services
from releases.checks import roles_are_known
from releases.models import Role

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _required(settings):
    settings.REQUIRE_SECOND_FACTOR = ["reviewer"]


def test_an_installation_wants_one_of_reviewers_and_administrators_unless_told_otherwise():
    assert as_installed.REQUIRE_SECOND_FACTOR == ["reviewer", "administrator"]


def test_without_one_neither_pages_nor_the_admin_open_and_recovery_codes_alone_are_none(as_, sofia):
    """`test_principals` calls every page and operation of the site."""
    assert as_(sofia).get("/admin/").url == "/accounts/2fa/"
    response = as_(sofia).get(reverse("review_queue"), headers={"HX-Request": "true"})
    assert response["HX-Redirect"] == "/accounts/2fa/", "a script is led there as a whole page"
    RecoveryCodes.activate(sofia)
    assert as_(sofia).get(reverse("review_queue")).url == "/accounts/2fa/"


def test_the_pages_of_one_s_own_account_stay_open(as_, sofia):
    for page in ("account_logout", "account_change_password", "mfa_index", "account_email"):
        assert as_(sofia).get(reverse(page)).status_code == 200, page


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
