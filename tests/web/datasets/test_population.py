"""Who works on a table beside its owner, and which tables are about the same people and spend from one budget."""

import pytest
from django.contrib.auth.models import Group
from django.urls import reverse

from releases import services
from releases.engine.domain.privacy import NeighbouringRelation, PrivacyUnit
from releases.engine.errors import InvalidInput
from releases.ledger import refusals
from releases.models import Budget
from tests.web.conftest import COLUMNS, CSV
from tests.web.pages import body


@pytest.fixture
def own(ingest):
    """Another year of the same survey, which alice has not shared, columns declared."""
    dataset = ingest(CSV + CSV.splitlines()[-1] + b"\n")
    services.datasets.declare_universe(dataset=dataset, columns=COLUMNS)
    return dataset


def joining(client, dataset, other):
    return client.post(reverse("protection", args=[dataset.pk]), {"other": str(other.pk)}, follow=True)


def test_two_tables_of_one_population_spend_from_one_budget(dataset, own, make_draft, make_queued, as_, alice):
    joining(as_(alice), own, dataset)
    own.refresh_from_db()
    assert own.budget == dataset.budget
    make_queued(dataset, epsilon="1.5")
    following = make_draft(own, epsilon="1.5")
    with pytest.raises(refusals.InsufficientBudget):
        services.releases.submit_release(release=following, key=following.pk, by=alice, send=False)


def test_the_joined_table_takes_over_the_protection_and_copies_stay_where_they_are(
    make_dataset, own, ingest, alice, as_
):
    protected = make_dataset(unit=PrivacyUnit(kind="person", id_column="person", max_rows=2))
    copy = ingest(CSV + CSV.splitlines()[-1] + b"\n")
    services.datasets.declare_protection(dataset=own, unit=PrivacyUnit(), neighbours=NeighbouringRelation.REPLACE)
    joining(as_(alice), own, protected)
    assert set(protected.budget.datasets.all()) == {protected, own}
    copy.refresh_from_db()
    assert copy.budget is None
    assert list(Budget.objects.all()) == [protected.budget]
    with pytest.raises(InvalidInput, match="is not a column of the table"):
        services.datasets.join_population(dataset=ingest(b"town\na\nb\n"), other=protected)


def test_somebody_else_s_population_cannot_be_chosen(dataset, charlie, ingest, as_):
    mine = ingest(owner=charlie)
    services.datasets.declare_universe(dataset=mine, columns=COLUMNS)
    assert joining(as_(charlie), mine, dataset).status_code == 400
    mine.refresh_from_db()
    assert mine.budget is None


def sees(client, dataset):
    return client.get(reverse("dataset_detail", args=[dataset.pk])).status_code == 200


def test_an_owner_alone_lets_a_group_work_on_a_dataset_and_takes_it_back(own, as_, alice, bob, charlie, group):
    url = reverse("share_dataset", args=[own.pk])
    assert not sees(as_(bob), own)
    as_(alice).post(url, {"group": group.pk})
    assert sees(as_(bob), own)
    assert not sees(as_(charlie), own)
    assert as_(bob).post(url, {"group": ""}).status_code == 400
    assert sees(as_(bob), own)
    as_(alice).post(url, {"group": ""})
    assert not sees(as_(bob), own)


def test_a_group_of_others_is_refused_and_not_named(own, as_, alice, bob):
    secret = Group.objects.create(name="Board")
    bob.groups.add(secret)
    assert "Board" not in body(as_(alice).get(reverse("share_dataset", args=[own.pk])))
    with pytest.raises(InvalidInput, match="must be one that you belong to"):
        services.datasets.share_dataset(dataset=own, group=secret, by=alice)
    with pytest.raises(InvalidInput, match="can be chosen by alice alone"):
        services.datasets.share_dataset(dataset=own, group=secret, by=bob)
    assert not sees(as_(bob), own)
