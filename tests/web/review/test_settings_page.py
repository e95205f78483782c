"""The organisation's settings: one page for administrators; they hold at once, and every change is in the audit log."""

from __future__ import annotations

from fractions import Fraction

import pytest
from django.db import IntegrityError, transaction
from django.db.models import ProtectedError
from django.urls import reverse

from releases import services
from releases.engine.errors import InvalidInput
from releases.models import AuditEvent, Organisation
from tests.web.conftest import CSV, give, person
from tests.web.pages import field_value, words

pytestmark = pytest.mark.django_db

URL = "/review/organisation/"
FILLED = {"upload_cap": "64", "default_epsilon": "1.5", "review_above": "2", "most_per_person": "50"}
FILLED["alert_addresses"] = "a@example.org"


@pytest.fixture
def save(as_, sofia):
    return lambda **data: as_(sofia).post(URL, FILLED | data)


def test_until_it_is_saved_the_environment_holds(settings, as_, sofia):
    settings.UPLOAD_CAP_BYTES, settings.REVIEW_ABOVE_EPSILON, settings.TWO_PERSON_RULE = 7 * 2**20, "0.5", True
    settings.ALERT_ADDRESSES = ["a@example.org", "b@example.org"]
    page = as_(sofia).get(URL)
    shown = {"upload_cap": "7", "review_above": "0.5", "alert_addresses": "a@example.org\nb@example.org"}
    assert {name: field_value(page, name) for name in shown} == shown
    assert Organisation.current().is_two_person
    assert not Organisation.objects.exists()


def test_what_is_saved_holds_from_then_on(save, settings):
    assert save().url == URL
    settings.UPLOAD_CAP_BYTES, settings.REVIEW_ABOVE_EPSILON = 1, "9"
    current = Organisation.current()
    assert (current.upload_cap_bytes, current.review_above, current.default_epsilon) == (64 * 2**20, "2", "1.5")
    assert current.most_share_per_person == Fraction(1, 2)
    assert current.addresses == ["a@example.org"]


def test_every_change_is_an_event_with_old_and_new(save, sofia):
    save()
    save(review_above="3")
    said = list(AuditEvent.objects.filter(action="settings", actor=sofia).values_list("detail", flat=True))
    assert said == [
        "upload cap: 1,024 MB to 64 MB",
        "epsilon suggested for a budget: none to 1.5",
        "review of releases above epsilon: none to 2",
        "most of one budget that one person may spend: no limit to 50%",
        "alert addresses: none to a@example.org",
        "review of releases above epsilon: 2 to 3",
    ]


BROKEN = [
    ({"upload_cap": "0"}, "must be at least 1 MB"),
    ({"upload_cap": "1048577"}, "must be at most 1,048,576 MB"),
    ({"upload_cap": "much"}, "must be a whole number of MB"),
    ({"upload_cap": ""}, "nothing was typed"),
    ({"default_epsilon": "0"}, "'0' must be above 0 and at most 100, or empty"),
    ({"default_epsilon": "ten"}, "'ten' must be"),
    ({"review_above": "-1"}, "'-1' must be at least 0 and at most 100, or empty"),
    ({"review_above": "101"}, "'101' must be at least 0 and at most 100, or empty"),
    ({"most_per_person": "0"}, "'0' must be above 0 and at most 100, or empty"),
    ({"most_per_person": "101"}, "'101' must be above 0 and at most 100, or empty"),
    ({"alert_addresses": "a@example.org nobody"}, "'nobody' must be an e-mail address"),
    ({"reviewers": "999"}, "Select a valid choice"),
    ({"reviewers": "Survey team"}, "'Survey team' must have a member who is a reviewer"),
    ({"is_two_person": "on"}, "'on' needs at least two people who may review"),
]


def test_a_value_that_breaks_a_rule_changes_nothing_and_is_kept(save, bob, group):
    for data, message in BROKEN:
        sent = {name: group.pk if value == group.name else value for name, value in data.items()}
        response = save(**sent)
        assert response.status_code == 400
        assert message in words(response)
        (name, typed), *_ = data.items()
        if name not in ("reviewers", "is_two_person"):
            assert field_value(response, name) == typed
        assert field_value(response, "upload_cap") == data.get("upload_cap", "64")
        assert not Organisation.objects.exists()
        assert not AuditEvent.objects.filter(action="settings").exists()


def test_a_group_that_reviews_cannot_be_deleted_and_so_widen_who_may(save, group, bob):
    give(bob, "reviewer")
    assert save(reviewers=group.pk, is_two_person="").status_code == 302
    with pytest.raises(ProtectedError):
        group.delete()


def test_there_is_one_row(save):
    person("rita", "reviewer")
    assert save(is_two_person="on").status_code == 302, "there are two"
    assert Organisation.objects.get().is_two_person
    with pytest.raises(IntegrityError), transaction.atomic():
        Organisation.objects.create(pk=2, upload_cap_bytes=1)


def test_a_service_call_breaks_no_rule_either(sofia):
    values = {"default_epsilon": "", "review_above": "", "is_two_person": False, "reviewers": None}
    values |= {"most_per_person": ""}
    with pytest.raises(InvalidInput, match="upload_cap"):
        services.organisation.change_settings(by=sofia, upload_cap_bytes=2**20 - 1, alert_addresses="", **values)


def test_the_upload_cap_holds_for_the_next_upload(save, as_, alice, tmp_path):
    table = tmp_path / "large.csv"
    table.write_bytes(CSV + b"p1,30,male\n" * 100_000)
    for cap, status in (("1", 400), ("2", 302)):
        save(upload_cap=cap)
        with table.open("rb") as file:
            response = as_(alice).post(reverse("upload"), {"title": "Large", "table": file})
        assert response.status_code == status
