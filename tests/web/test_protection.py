"""Whom epsilon protects: declared once, changed freely until a budget is asked for, and fixed from then on."""

from __future__ import annotations

import pytest
from django.urls import reverse

from releases import services
from releases.engine.filters import Policy
from releases.models import Dataset
from tests.web.conftest import COLUMNS
from tests.web.pages import body, field_value, words

pytestmark = pytest.mark.django_db


@pytest.fixture
def declared(alice, upload_file):
    dataset = services.ingest_dataset(owner=alice, title="Survey", source=upload_file())
    services.declare_universe(dataset=dataset, columns=COLUMNS)
    return dataset


@pytest.fixture
def send(declared, as_, alice):
    def post(**data):
        given = {"kind": "row", "neighbours": "add_remove", "max_rows": "1", "id_column": ""} | data
        return as_(alice).post(reverse("protection", args=[declared.pk]), given)

    return post


def test_columns_come_first(alice, upload_file, as_):
    dataset = services.ingest_dataset(owner=alice, title="Survey", source=upload_file())
    response = as_(alice).get(reverse("protection", args=[dataset.pk]), follow=True)
    assert response.redirect_chain[-1][0] == reverse("columns", args=[dataset.pk])
    assert "Declare the columns first." in words(response)


def test_a_row_can_be_the_unit(send, declared):
    response = send()
    assert response.url == reverse("budget", args=[declared.pk])
    budget = Dataset.objects.get().budget
    assert (budget.unit, budget.neighbours) == ({"kind": "row"}, "add_remove")


def test_a_person_with_several_rows_can_be_the_unit(send):
    send(kind="person", id_column="person", max_rows="3", neighbours="replace")
    budget = Dataset.objects.get().budget
    assert budget.unit == {"kind": "person", "id": "person", "max_rows": 3}
    assert budget.neighbours == "replace"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"kind": "person"}, "Column: nothing was chosen. Name the column that tells people apart."),
        ({"kind": "person", "id_column": "person", "max_rows": "0"}, "Rows of each person: must be at least 1."),
        ({"kind": "person", "id_column": "person", "max_rows": "10001"}, "must be at most 10,000."),
        ({"kind": "person", "id_column": "person", "max_rows": "1,5"}, "Rows of each person: must be a whole number"),
        (
            {"kind": "person", "id_column": "age"},
            "Column that tells people apart: 'age' is also declared as a column",
        ),
        ({"kind": ""}, "Whom to protect: nothing was chosen."),
        ({"neighbours": ""}, "What is kept private: nothing was chosen."),
    ],
)
def test_a_broken_rule_is_named_beside_the_field(send, data, message):
    response = send(**data)
    assert response.status_code == 400
    assert message in words(response)
    assert field_value(response, "max_rows") == data.get("max_rows", "1")
    assert Dataset.objects.get().budget is None


def test_it_can_be_changed_until_a_budget_is_asked_for(send):
    send()
    send(neighbours="replace")
    assert Dataset.objects.get().budget.neighbours == "replace"


def test_it_is_fixed_from_then_on_and_the_page_says_why(send, declared, as_, alice):
    send()
    declared.refresh_from_db()
    services.request_budget(dataset=declared, epsilon="1", delta="0.000001", policy=Policy.ZCDP, reason="", by=alice)
    shown = as_(alice).get(reverse("protection", args=[declared.pk]))
    assert "A budget was asked for under this protection, so it can no longer be changed" in words(shown)
    assert 'name="neighbours"' not in body(shown)
    response = send(neighbours="replace")
    assert response.status_code == 400
    assert "cannot be changed once a budget was asked for" in words(response)
    assert Dataset.objects.get().budget.neighbours == "add_remove"


def test_the_earlier_choices_stand_above(send, declared, as_, alice):
    assert "Survey: 2 columns declared, universe of 10 cells" in words(
        as_(alice).get(reverse("protection", args=[declared.pk]))
    )


def test_a_table_of_very_many_columns_has_a_field_to_type_in(alice, upload_file, as_):
    header = ",".join(f"c{position}" for position in range(600))
    dataset = services.ingest_dataset(
        owner=alice, title="Wide", source=upload_file(f"{header}\n{','.join('1' * 600)}\n".encode())
    )
    services.declare_universe(dataset=dataset, columns=[{"name": "c0", "type": "integer", "edges": [0, 2]}])
    url = reverse("protection", args=[dataset.pk])
    assert '<input type="text" name="id_column"' in body(as_(alice).get(url))
    given = {"kind": "person", "id_column": "c700", "max_rows": "1", "neighbours": "replace"}
    assert "Column that tells people apart: 'c700' is not a column of the table" in words(as_(alice).post(url, given))
    assert as_(alice).post(url, given | {"id_column": "c599"}).status_code == 302
