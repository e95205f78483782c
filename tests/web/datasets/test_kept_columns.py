"""Half-typed columns kept on the server: theirs alone, however wrong, until they are declared or discarded."""

from __future__ import annotations

import json

import pytest
from django.test import Client
from django.urls import reverse

from releases import services
from releases.models import AuditEvent, KeptColumns
from tests.web.conftest import COLUMNS
from tests.web.datasets.conftest import filled
from tests.web.pages import body, chosen, field_value, words

pytestmark = pytest.mark.django_db

AGE = {"name": "age", "kind": "integer"}
WRONG = [
    {"name": "person"},
    {**AGE, "values": "18, twenty, <b>", "unit": "years", "description": "at the\ninterview"},
    {"name": "sex", "kind": "categorical", "values": "\nfemale\n", "outside": "category", "catch_all": "nobody"},
]
RIGHT = [{**AGE, "values": "18, 30, 65"}]


def page_of(dataset):
    return reverse("columns", args=[dataset.pk])


def keep(client, dataset, rows=WRONG, **more):
    return client.post(page_of(dataset), filled(*rows, keep="1", **more))


def test_what_is_typed_is_kept_however_wrong_and_stands_there_again_in_another_browser(fresh, alice):
    here, elsewhere = Client(), Client()
    here.force_login(alice)
    elsewhere.force_login(alice)
    answer = keep(here, fresh, description="Who\nwas asked")
    assert answer.url == reverse("dataset_detail", args=[fresh.pk])
    assert "is kept and not declared: go on with it" in words(here.get(answer.url))
    page = elsewhere.get(page_of(fresh))
    for at, row in enumerate(WRONG):
        menus = {"kind", "outside"} & set(row)
        assert {name: chosen(page, f"form-{at}-{name}") for name in menus} == {name: row[name] for name in menus}
        for name in {"values", "unit", "catch_all"} & set(row):
            assert field_value(page, f"form-{at}-{name}") == row[name]
    assert field_value(page, "description") == "Who\nwas asked"
    fresh.refresh_from_db()
    assert (fresh.declared, fresh.description, fresh.column_notes) == (None, "", {})
    assert not AuditEvent.objects.filter(action="declare").exists()


def test_a_pasted_codebook_is_kept_beside_what_is_typed(fresh, as_, alice):
    client = as_(alice)
    keep(client, fresh)
    broken = '{"version": 1, "columns": [ \x00and'
    assert client.post(page_of(fresh), {"codebook": broken, "keep": "1"}).status_code == 302
    page = client.get(page_of(fresh))
    assert field_value(page, "codebook") == '{"version": 1, "columns": [ and', "no database takes null characters"
    assert field_value(page, "form-1-values") == "18, twenty, <b>"


def test_people_who_share_a_table_keep_what_is_theirs_and_hear_of_each_other(fresh, as_, alice, bob):
    keep(as_(alice), fresh)
    page = as_(bob).get(page_of(fresh))
    assert "18, twenty" not in body(page)
    assert "alice has kept columns typed for this table too, on " in words(page)
    keep(as_(bob), fresh, RIGHT)
    assert field_value(as_(alice).get(page_of(fresh)), "form-1-values") == "18, twenty, <b>"
    assert field_value(as_(bob).get(page_of(fresh)), "form-1-values") == "18, 30, 65"
    assert "bob has kept columns" in words(as_(alice).get(page_of(fresh)))


def test_declaring_removes_what_was_kept_and_nobody_else_s(fresh, as_, alice, bob):
    keep(as_(alice), fresh)
    keep(as_(bob), fresh)
    assert as_(alice).post(page_of(fresh), filled(*RIGHT)).status_code == 302
    assert [str(each.person) for each in KeptColumns.objects.all()] == ["bob"]
    assert "The columns have been declared again since" in words(as_(bob).get(page_of(fresh)))


def test_declaring_from_a_codebook_removes_it_too_and_a_refused_one_does_not(fresh, as_, alice):
    client = as_(alice)
    keep(client, fresh)
    assert client.post(page_of(fresh), {"codebook": '[{"name": "wage", "type": "text", "categories": ["a"]}]'})
    assert KeptColumns.objects.exists()
    client.post(page_of(fresh), {"codebook": json.dumps(COLUMNS)})
    assert not KeptColumns.objects.exists()


def test_a_form_that_is_too_large_is_refused_and_what_was_kept_before_stays(fresh, as_, alice, settings):
    client = as_(alice)
    keep(client, fresh)
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 1000
    assert keep(client, fresh, [{"name": "age", "values": "1" * 2000}]).status_code == 400
    assert KeptColumns.objects.get().typed["columns"]["age"]["values"] == "18, twenty, <b>"


def test_it_goes_with_its_dataset(fresh, as_, alice):
    keep(as_(alice), fresh)
    services.datasets.discard_dataset(dataset=fresh, by=alice)
    assert not KeptColumns.objects.exists()
