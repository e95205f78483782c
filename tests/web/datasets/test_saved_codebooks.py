"""Codebooks that fill in columns: saved under a name, by whom and for whom, and that of the file itself."""

from __future__ import annotations

import io
import re
from datetime import date, datetime

import pyarrow as pa
import pyarrow.parquet
import pytest
from django.urls import reverse

from releases import services
from releases.models import AuditEvent, Codebook, Dataset
from releases.schema.file_codebook import columns_of_dates
from tests.engine.tables import formats
from tests.web.conftest import give
from tests.web.pages import body, chosen, field_value, inline_code, words

pytestmark = pytest.mark.django_db


def page_of(dataset):
    return reverse("columns", args=[dataset.pk])


def save(client, dataset, name="Health core", **more):
    return client.post(page_of(dataset), {"save_codebook": "1", "name": name, **more}, follow=True)


@pytest.fixture
def other(alice, group, upload_file):
    """Another table of alice's, with one of the columns and one of its own."""
    source = upload_file(b"age,wage\n30,1\n40,2\n")
    return services.datasets.ingest_dataset(owner=alice, title="Wages", source=source, group=group)


@pytest.fixture
def strange(charlie, upload_file):
    give(charlie, "curator")
    return services.datasets.ingest_dataset(owner=charlie, title="Own", source=upload_file(b"age,sex\n30,f\n"))


def test_what_is_declared_is_saved_under_a_name_and_fills_in_the_columns_another_table_has(dataset, other, as_, alice):
    services.codebooks.describe_dataset(
        dataset=dataset, notes={"age": {"description": "at the interview", "unit": "years"}}
    )
    client = as_(alice)
    said = words(save(client, dataset, "  Health  core ", share="1"))
    assert "What is declared is saved as the codebook “Health core”. Survey team can fill it in too." in said
    saved = Codebook.objects.get()
    assert (saved.owner, saved.group, len(saved.columns)) == (alice, dataset.group, 2)
    assert "Health core (1 of these columns)" in words(client.get(page_of(other)))
    page = client.get(page_of(other), {"codebook": saved.pk})
    assert inline_code(page) == []
    assert (
        "1 column is filled in as “Health core” declares it. Nothing is stored until you declare. It declares sex too, "
        "which this table does not have. It says nothing of wage." in words(page)
    )
    assert chosen(page, "form-0-kind") == "integer"
    assert field_value(page, "form-0-values") == "18, 25, 35, 45, 55, 65"
    assert field_value(page, "form-0-description") == "at the interview"
    assert field_value(page, "form-0-unit") == "years"
    assert Dataset.objects.get(pk=other.pk).declared is None


def test_it_stays_as_it_was_saved_whatever_is_declared_later(dataset, other, as_, alice):
    client = as_(alice)
    save(client, dataset)
    services.datasets.declare_universe(dataset=dataset, columns=[{"name": "age", "type": "integer", "edges": [0, 99]}])
    page = client.get(page_of(other), {"codebook": Codebook.objects.get().pk})
    assert field_value(page, "form-0-values") == "18, 25, 35, 45, 55, 65"


def test_a_shared_one_is_seen_by_the_group_with_who_saved_it_and_by_nobody_else(
    dataset, other, strange, as_, alice, bob, charlie
):
    save(as_(alice), dataset, share="1")
    saved = Codebook.objects.get()
    assert "Health core (1 of these columns, saved by alice)" in words(as_(bob).get(page_of(other)))
    assert as_(bob).get(page_of(other), {"codebook": saved.pk}).status_code == 200
    assert "Health core" not in words(as_(charlie).get(page_of(strange)))
    assert as_(charlie).get(page_of(strange), {"codebook": saved.pk}).status_code == 404


def test_a_private_one_is_seen_by_whoever_saved_it_alone(dataset, other, as_, alice, bob):
    assert "Only you can see it." in words(save(as_(alice), dataset))
    saved = Codebook.objects.get()
    assert saved.group is None
    assert "Health core" not in words(as_(bob).get(page_of(other)))
    assert as_(bob).get(page_of(other), {"codebook": saved.pk}).status_code == 404


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (" ", "Name of the codebook: nothing is given; must say what the codebook is of"),
        ("a" * 101, "Name of the codebook: '101 characters' must be at most 100 characters long"),
        ("a\u202eb", "must be printable text"),
        ("Twice", "Name of the codebook: 'Twice' is the name of another codebook of yours; choose another name"),
    ],
)
def test_a_name_that_breaks_a_rule_is_said_and_stays_typed(dataset, as_, alice, name, said):
    client = as_(alice)
    save(client, dataset, "Twice")
    response = save(client, dataset, name)
    assert response.status_code == 400
    assert said in words(response)
    assert field_value(response, "name") == name
    assert Codebook.objects.count() == 1


def test_two_people_may_use_the_same_name(dataset, as_, alice, bob):
    for each in (alice, bob):
        save(as_(each), dataset, share="1")
    assert Codebook.objects.count() == 2


def test_before_anything_is_declared_there_is_nothing_to_save(other, as_, alice):
    assert "Save the codebook" not in words(as_(alice).get(page_of(other)))
    response = save(as_(alice), other)
    assert response.status_code == 400
    assert "Nothing is declared yet, so there is nothing to save." in words(response)


def test_whoever_saved_it_deletes_it_and_nobody_else(dataset, as_, alice, bob, charlie):
    save(as_(alice), dataset, share="1")
    saved = Codebook.objects.get()
    for each in (bob, charlie):
        assert as_(each).post(page_of(dataset), {"delete_codebook": str(saved.pk)}).status_code == 404
    assert as_(alice).post(page_of(dataset), {"delete_codebook": "x"}).status_code == 404
    declared = Dataset.objects.get(pk=dataset.pk).declared
    answer = as_(alice).post(page_of(dataset), {"delete_codebook": str(saved.pk)}, follow=True)
    assert "The codebook “Health core” was deleted. What was declared with it stays." in words(answer)
    assert not Codebook.objects.exists()
    assert Dataset.objects.get(pk=dataset.pk).declared == declared
    events = AuditEvent.objects.filter(kind="codebook").order_by("pk")
    assert [(str(each.actor), each.action, each.name, each.detail) for each in events] == [
        ("alice", "save", "Health core", "2 columns, shared with Survey team"),
        ("alice", "discard", "Health core", ""),
    ]


def test_one_that_has_none_of_the_columns_is_not_offered(dataset, alice, upload_file, as_):
    weather = services.datasets.ingest_dataset(owner=alice, title="Weather", source=upload_file(b"rain,sun\n1,2\n"))
    client = as_(alice)
    save(client, dataset)
    page = client.get(page_of(weather))
    assert "<optgroup" not in body(page)
    said = words(client.get(page_of(weather), {"codebook": Codebook.objects.get().pk}))
    assert "“Health core” declares no column that this table has." in said


def test_of_many_columns_that_are_missing_a_few_are_named(alice, upload_file, as_, dataset):
    names = [f"c{i}" for i in range(30)]
    wide = services.datasets.ingest_dataset(
        owner=alice, title="Wide", source=upload_file(f"age,{','.join(names)}\n{','.join(['1'] * 31)}\n".encode())
    )
    client = as_(alice)
    save(client, dataset)
    said = words(client.get(page_of(wide), {"codebook": Codebook.objects.get().pk}))
    assert "It says nothing of c0, c1, c2, c3, c4, c5, c6, c7, c8, c9 and 20 more columns." in said


@pytest.fixture
def described(alice, upload_file):
    return services.datasets.ingest_dataset(owner=alice, title="Survey", source=upload_file(formats.statistical("sav")))


def test_it_is_offered_with_what_declaring_it_means_and_declared_by_nobody(described, as_, alice):
    page = as_(alice).get(reverse("columns", args=[described.pk]))
    assert "you confirm that its labels and categories were not made from the rows" in words(page)
    assert "Codes for missing values in the file, which are no categories: age: -9." in words(page)
    assert described.declared is None
    assert field_value(page, "form-0-values") == ""


def test_it_is_filled_in_where_the_person_asks_for_it(described, as_, alice):
    page = as_(alice).get(reverse("columns", args=[described.pk]) + "?codebook=file")
    assert field_value(page, "form-0-values") == "1"
    assert field_value(page, "form-0-missing_codes") == "-9"
    assert field_value(page, "form-0-description") == "Age in years: 1 = one"
    assert "no answer" not in body(page)
    described.refresh_from_db()
    assert described.declared is None


def test_other_files_offer_nothing(alice, upload_file, as_):
    plain = services.datasets.ingest_dataset(owner=alice, title="Survey", source=upload_file())
    address = reverse("columns", args=[plain.pk])
    assert "Fill in what the file says" not in words(as_(alice).get(address))
    assert as_(alice).get(f"{address}?codebook=file").status_code == 404


def test_columns_that_the_file_itself_declares_as_dates_are_named_and_no_text_is(alice, upload_file, as_):
    made = io.BytesIO()
    day, time = date(2024, 2, 29), datetime(2024, 2, 29, 14, 5, 9)
    table = {"day": pa.array([day]), "time": pa.array([time], pa.timestamp("us")), "text": pa.array(["2024-02-29"])}
    pa.parquet.write_table(pa.table(table), made)
    source = upload_file(made.getvalue())
    dataset = services.datasets.ingest_dataset(owner=alice, title="Survey", source=source)
    page = as_(alice).get(reverse("columns", args=[dataset.pk]))
    said = re.findall(r"The file says that it holds ([a-z ]+), written 2026-12-31", words(page))
    assert said == ["dates", "dates and times"]
    assert 'value="date" selected' not in body(page)
    assert columns_of_dates(dataset) == {"day": "date", "time": "datetime"}


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        *(("date", "date"), ("timestamp without time zone", "datetime"), ("timestamp with time zone", "datetime")),
        *(("DATE11", "date"), ("EDATE10", "date"), ("DATETIME20", "datetime"), ("%td", "date"), ("%tc", "datetime")),
        *(("text", None), ("F8.2", None), ("", None), ("daterange", None), ("character varying(10)", None)),
    ],
)
def test_types_of_dates_are_known_by_their_names(written, expected):
    dataset = Dataset(columns=["x"], catalogue={"types": {"x": written}})
    assert columns_of_dates(dataset).get("x") == expected
