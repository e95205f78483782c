"""Codebooks that fill in columns: saved under a name, by whom and for whom, and that of the file itself."""

import pytest
from django.urls import reverse

from releases import services
from releases.models import Codebook, Dataset
from tests.engine.tables.files import formats
from tests.web.pages import body, chosen, field_value, words


def page_of(dataset):
    return reverse("columns", args=[dataset.pk])


def save(client, dataset, name="Health core", **more):
    return client.post(page_of(dataset), {"save_codebook": "1", "name": name, **more}, follow=True)


@pytest.fixture
def other(group, ingest):
    """Another table of alice's, with one of the columns and one of its own."""
    return ingest(b"age,wage\n30,1\n40,2\n", group=group)


def test_what_is_declared_is_saved_under_a_name_and_fills_in_the_columns_another_table_has(dataset, other, as_, alice):
    """As it was saved, whatever is declared later."""
    notes = {"age": {"description": "at the interview", "unit": "years"}}
    services.codebooks.describe_dataset(dataset=dataset, notes=notes)
    client = as_(alice)
    save(client, dataset, "  Health  core ", share="1")
    saved = Codebook.objects.get()
    assert (saved.name, saved.owner, saved.group) == ("Health core", alice, dataset.group)
    services.datasets.declare_universe(dataset=dataset, columns=[{"name": "age", "type": "integer", "edges": [0, 99]}])
    page = client.get(page_of(other), {"codebook": saved.pk})
    assert chosen(page, "form-0-kind") == "integer"
    fields = ("values", "description", "unit")
    found = [field_value(page, f"form-0-{each}") for each in fields]
    assert found == ["18, 25, 35, 45, 55, 65", "at the interview", "years"]
    assert Dataset.objects.get(pk=other.pk).declared is None


@pytest.mark.parametrize("more", [{"share": "1"}, {}], ids=["shared", "private"])
def test_a_shared_one_is_seen_by_the_group_and_a_private_one_by_whoever_saved_it(
    dataset, other, ingest, as_, alice, bob, charlie, more
):
    save(as_(alice), dataset, **more)
    saved = Codebook.objects.get()
    assert bool(saved.group) is bool(more)
    strange = ingest(b"age,sex\n30,f\n", owner=charlie)
    for person, table, is_seen in ((alice, other, True), (bob, other, bool(more)), (charlie, strange, False)):
        client = as_(person)
        assert ("Health core" in words(client.get(page_of(table)))) is is_seen
        assert client.get(page_of(table), {"codebook": saved.pk}).status_code == (200 if is_seen else 404)


def test_whoever_saved_it_deletes_it_and_nobody_else(dataset, as_, alice, bob, charlie):
    save(as_(alice), dataset, share="1")
    saved, declared = Codebook.objects.get(), Dataset.objects.get(pk=dataset.pk).declared
    for each, named in ((bob, saved.pk), (charlie, saved.pk), (alice, "x")):
        assert as_(each).post(page_of(dataset), {"delete_codebook": str(named)}).status_code == 404
    as_(alice).post(page_of(dataset), {"delete_codebook": str(saved.pk)})
    assert not Codebook.objects.exists()
    assert Dataset.objects.get(pk=dataset.pk).declared == declared


def test_what_the_file_says_is_filled_in_where_the_person_asks_for_it_and_declared_by_nobody(ingest, as_, alice):
    described = ingest(formats.statistical("sav"))
    page = as_(alice).get(page_of(described))
    assert "you confirm that its labels and categories were not made from the rows" in words(page)
    assert field_value(page, "form-0-values") == ""
    page = as_(alice).get(page_of(described), {"codebook": "file"})
    fields = ("values", "missing_codes", "description")
    assert [field_value(page, f"form-0-{each}") for each in fields] == ["1", "-9", "Age in years: 1 = one"]
    assert "no answer" not in body(page)
    described.refresh_from_db()
    assert described.declared is None
