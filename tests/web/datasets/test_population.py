"""Who works on a table beside its owner, and which tables are about the same people and spend from one budget."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Group
from django.urls import reverse

from releases import services
from releases.engine.domain.privacy import NeighbouringRelation, PrivacyUnit
from releases.engine.errors import InvalidInput
from releases.ledger import refusals
from releases.models import AuditEvent, Budget, Dataset
from tests.web.conftest import COLUMNS, CSV, give
from tests.web.pages import body, words

pytestmark = pytest.mark.django_db

OTHER_CSV = CSV + CSV.splitlines()[-1] + b"\n"


@pytest.fixture
def second(alice, upload_file):
    """Another year of the same survey, columns declared."""
    dataset = services.datasets.ingest_dataset(
        owner=alice, title="Next year", source=upload_file(OTHER_CSV, "next.csv")
    )
    services.datasets.declare_universe(dataset=dataset, columns=COLUMNS)
    return dataset


def joining(client, dataset, other):
    return client.post(reverse("protection", args=[dataset.pk]), {"other": str(other.pk)}, follow=True)


def test_two_tables_of_one_population_spend_from_one_budget(dataset, second, make_draft, as_, alice):
    joining(as_(alice), second, dataset)
    second.refresh_from_db()
    assert second.budget == dataset.budget
    first_release = make_draft(dataset, epsilon="1.5")
    services.releases.submit_release(release=first_release, key=first_release.pk, by=alice, send=False)
    next_release = make_draft(Dataset.objects.get(pk=second.pk), epsilon="1.5")
    with pytest.raises(refusals.InsufficientBudget):
        services.releases.submit_release(release=next_release, key=next_release.pk, by=alice, send=False)


def test_the_joined_table_takes_over_the_protection_and_copies_stay_where_they_are(
    make_dataset, second, alice, upload_file, as_
):
    protected = make_dataset(unit=PrivacyUnit(kind="person", id_column="person", max_rows=2))
    copy = services.datasets.ingest_dataset(owner=alice, title="Copy", source=upload_file(OTHER_CSV, "copy.csv"))
    services.datasets.declare_protection(dataset=second, unit=PrivacyUnit(), neighbours=NeighbouringRelation.REPLACE)
    left = Dataset.objects.get(pk=second.pk).budget
    joining(as_(alice), second, protected)
    for each in (second, copy):
        each.refresh_from_db()
    assert second.budget == protected.budget
    assert copy.budget is None
    assert not Budget.objects.filter(pk=left.pk).exists()


def test_a_table_without_the_column_that_tells_people_apart_cannot_join(make_dataset, alice, upload_file):
    protected = make_dataset(unit=PrivacyUnit(kind="person", id_column="person", max_rows=2))
    other = services.datasets.ingest_dataset(
        owner=alice, title="Nameless", source=upload_file(b"town\na\nb\n", "t.csv")
    )
    with pytest.raises(InvalidInput, match="is not a column of the table"):
        services.datasets.join_population(dataset=other, other=protected)


def test_somebody_else_s_population_cannot_be_chosen(dataset, charlie, upload_file, as_):
    give(charlie, "curator")
    mine = services.datasets.ingest_dataset(owner=charlie, title="Mine", source=upload_file(OTHER_CSV, "mine.csv"))
    services.datasets.declare_universe(dataset=mine, columns=COLUMNS)
    response = joining(as_(charlie), mine, dataset)
    assert response.status_code == 400
    mine.refresh_from_db()
    assert mine.budget is None


@pytest.fixture
def own(alice, upload_file):
    """A dataset that alice has not shared."""
    return services.datasets.ingest_dataset(owner=alice, title="Own", source=upload_file(CSV))


def sees(client, dataset):
    return client.get(reverse("dataset_detail", args=[dataset.pk])).status_code == 200


def test_an_owner_lets_a_group_work_on_a_dataset_and_takes_it_back(own, as_, alice, bob, charlie, group):
    url = reverse("share_dataset", args=[own.pk])
    assert not sees(as_(bob), own)
    assert "alice, bob" in words(as_(alice).get(url))
    as_(alice).post(url, {"group": group.pk})
    assert sees(as_(bob), own)
    assert not sees(as_(charlie), own)
    assert AuditEvent.objects.get(action="share").detail == "with Survey team"
    as_(alice).post(url, {"group": ""})
    assert not sees(as_(bob), own)


def test_who_shares_it_changes_nothing(dataset, as_, bob, group):
    url = reverse("share_dataset", args=[dataset.pk])
    assert "Save" not in words(as_(bob).get(url))
    assert as_(bob).post(url, {"group": ""}).status_code == 400
    dataset.refresh_from_db()
    assert dataset.group == group


def test_a_group_of_others_is_refused_and_not_named(own, as_, alice, bob):
    secret = Group.objects.create(name="Board")
    bob.groups.add(secret)
    url = reverse("share_dataset", args=[own.pk])
    assert "Board" not in body(as_(alice).get(url))
    assert as_(alice).post(url, {"group": secret.pk}).status_code == 400
    with pytest.raises(InvalidInput, match="must be one that you belong to"):
        services.datasets.share_dataset(dataset=own, group=secret, by=alice)
    with pytest.raises(InvalidInput, match="can be chosen by alice alone"):
        services.datasets.share_dataset(dataset=own, group=secret, by=bob)
    assert not sees(as_(bob), own)
