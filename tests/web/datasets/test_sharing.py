"""Who works on a dataset beside its owner: a group of the owner's, chosen by the owner alone."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Group
from django.urls import reverse

from releases import services
from releases.engine.errors import InvalidInput
from releases.models import AuditEvent
from tests.web.conftest import CSV
from tests.web.pages import body, words

pytestmark = pytest.mark.django_db


@pytest.fixture
def own(alice, upload_file):
    """A dataset that alice has not shared."""
    return services.datasets.ingest_dataset(owner=alice, title="Own", source=upload_file(CSV))


def sees(client, dataset):
    return client.get(reverse("dataset_detail", args=[dataset.pk])).status_code == 200


def test_an_owner_lets_a_group_work_on_a_dataset_and_takes_it_back(own, as_, alice, bob, charlie, group):
    url = reverse("share_dataset", args=[own.pk])
    assert not sees(as_(bob), own)
    assert "nobody else works on it" in words(as_(alice).get(reverse("dataset_detail", args=[own.pk])))
    page = words(as_(alice).get(url))
    assert "nobody else can plan releases of it" in page
    assert "alice, bob" in page
    said = as_(alice).post(url, {"group": group.pk}, follow=True)
    assert "Survey team works on it with you." in words(said)
    assert "worked on by Survey team too" in words(said)
    assert sees(as_(bob), own)
    assert not sees(as_(charlie), own)
    assert AuditEvent.objects.get(action="share").detail == "with Survey team"
    as_(alice).post(url, {"group": ""})
    assert not sees(as_(bob), own)


def test_who_shares_it_sees_with_whom_and_changes_nothing(dataset, as_, bob, group):
    url = reverse("share_dataset", args=[dataset.pk])
    page = as_(bob).get(url)
    assert "everybody in Survey team can do with it what its owner can" in words(page)
    assert "Save" not in words(page)
    assert as_(bob).post(url, {"group": ""}).status_code == 400
    dataset.refresh_from_db()
    assert dataset.group == group


def test_a_group_of_others_is_refused_and_not_named(own, as_, alice, bob):
    secret = Group.objects.create(name="Board")
    bob.groups.add(secret)
    url = reverse("share_dataset", args=[own.pk])
    assert "Board" not in body(as_(alice).get(url))
    refused = as_(alice).post(url, {"group": secret.pk})
    assert refused.status_code == 400
    assert "Group: must be one that you belong to." in words(refused)
    with pytest.raises(InvalidInput, match="must be one that you belong to"):
        services.datasets.share_dataset(dataset=own, group=secret, by=alice)
    with pytest.raises(InvalidInput, match="can be chosen by alice alone"):
        services.datasets.share_dataset(dataset=own, group=secret, by=bob)
    assert not sees(as_(bob), own)


def test_who_belongs_to_no_group_is_told_who_could_change_that(own, as_, alice):
    alice.groups.clear()
    page = words(as_(alice).get(reverse("share_dataset", args=[own.pk])))
    assert "You belong to no group. An administrator of this site can put you" in page
