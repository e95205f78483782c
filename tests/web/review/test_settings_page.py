"""The organisation's settings: one page for administrators; they hold at once, and every change is in the audit log."""

from fractions import Fraction

import pytest
from django.db.models import ProtectedError

from releases.models import Organisation
from tests.web.conftest import give
from tests.web.steps import refuses

URL = "/review/organisation/"
FILLED = {"upload_cap": "64", "default_epsilon": "1.5", "review_above": "2", "most_per_person": "50"}
FILLED["alert_addresses"] = "a@example.org"


@pytest.fixture
def save(as_, sofia):
    return lambda **data: as_(sofia).post(URL, FILLED | data)


def test_until_it_is_saved_the_environment_holds(settings, db):
    settings.UPLOAD_CAP_BYTES, settings.REVIEW_ABOVE_EPSILON, settings.TWO_PERSON_RULE = 7 * 2**20, "0.5", True
    current = Organisation.current()
    assert (current.upload_cap_bytes, current.review_above, current.is_two_person) == (7 * 2**20, "0.5", True)


def test_what_is_saved_holds_from_then_on(save, settings):
    assert save().url == URL
    settings.UPLOAD_CAP_BYTES, settings.REVIEW_ABOVE_EPSILON = 1, "9"
    current = Organisation.current()
    assert (current.upload_cap_bytes, current.review_above, current.default_epsilon) == (64 * 2**20, "2", "1.5")
    assert current.most_share_per_person == Fraction(1, 2)
    assert current.addresses == ["a@example.org"]


BROKEN = [
    ({"upload_cap": "1048577"}, "must be at most 1,048,576 MB"),
    ({"upload_cap": "much"}, "must be a whole number of MB"),
    ({"default_epsilon": "ten"}, "'ten' must be"),
    ({"review_above": "-1"}, "'-1' must be at least 0 and at most 100, or empty"),
    ({"most_per_person": "0"}, "'0' must be above 0 and at most 100, or empty"),
    ({"most_per_person": "101"}, "'101' must be above 0 and at most 100, or empty"),
    ({"alert_addresses": "a@example.org nobody"}, "'nobody' must be an e-mail address"),
    ({"reviewers": "999"}, "Select a valid choice"),
    ({"reviewers": "Survey team"}, "'Survey team' must have a member who is a reviewer"),
    ({"is_two_person": "on"}, "'on' needs at least two people who may review"),
]


def test_a_value_that_breaks_a_rule_changes_nothing(save, bob, group):
    by_name = {group.name: group.pk}
    refuses(lambda **data: save(**{name: by_name.get(value, value) for name, value in data.items()}), BROKEN)


def test_a_group_that_reviews_cannot_be_deleted_and_so_widen_who_may(save, group, bob):
    give(bob, "reviewer")
    assert save(reviewers=group.pk, is_two_person="").status_code == 302
    with pytest.raises(ProtectedError):
        group.delete()
