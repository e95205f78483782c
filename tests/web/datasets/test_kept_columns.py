"""Half-typed columns kept on the server: theirs alone, however wrong, until they are declared or discarded."""

from django.test import Client
from django.urls import reverse

from releases.models import AuditEvent, KeptColumns
from tests.web.datasets.conftest import filled
from tests.web.pages import body, chosen, field_value, words

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
    keep(here, fresh, description="Who\nwas asked")
    page = elsewhere.get(page_of(fresh))
    assert (chosen(page, "form-2-outside"), field_value(page, "form-2-catch_all")) == ("category", "nobody")
    assert field_value(page, "form-1-values") == "18, twenty, <b>"
    assert field_value(page, "description") == "Who\nwas asked"
    fresh.refresh_from_db()
    assert (fresh.declared, fresh.description, fresh.column_notes) == (None, "", {})
    assert not AuditEvent.objects.filter(action="declare").exists()


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
