"""Columns of one value a person: from the form to the released answers, and what readers are told of them."""

from __future__ import annotations

import numpy as np
import pytest
from django.urls import reverse

from releases import services
from releases.engine.accounting.filters import Policy
from releases.engine.domain.privacy import NeighbouringRelation, PrivacyUnit
from releases.engine.errors import InvalidInput
from releases.ledger.verification import verify
from releases.models import Dataset, Release
from releases.planning.column_checks import planned_check
from releases.publication import files
from releases.questions.together import at_a_glance
from tests.web.datasets.conftest import filled
from tests.web.pages import body, words

pytestmark = pytest.mark.django_db

#: Of each kind of patient how many there are, and the rows of one: ward, cost, day.
PATIENTS = [
    (40, [("surgery", "10", "01.02.2024"), ("emergency", "900", "03.02.2024"), ("surgery", "x", "")]),
    (25, [("ward 1", "20", "05.05.2024")]),
    (10, [("emergency", "5", "2024"), *[("ward 1", "1", "06.06.2024")] * 8]),
]
VISITS = "\n".join(
    [
        "who,ward,cost,day",
        *(
            f"p{kind} {number},{','.join(row)}"
            for kind, (patients, rows) in enumerate(PATIENTS)
            for number in range(patients)
            for row in rows
        ),
        ",emergency,1,01.02.2024",
    ]
).encode()
WARDS = "surgery, emergency, ward 1"
TYPED = [
    {"name": "who"},
    {"name": "ward", "kind": "categorical", "values": WARDS},
    {"name": "cost", "kind": "number", "values": "0, 100, 1000"},
    {"name": "day", "kind": "date", "values": "2024-01-01 to 2024-12-31 by month", "date_format": "DD.MM.YYYY"},
]
MADE = [
    {"name": "visits", "kind": "integer", "values": "1, 2, 5, 20", "formula": "count_per_person()"},
    {"name": "in emergency", "kind": "categorical", "values": "true, false"}
    | {"formula": 'any_per_person(ward = "emergency")'},
    {"name": "total", "kind": "number", "values": "0, 15, 100, 1000", "formula": "sum_per_person(cost, 0, 500)"},
    {"name": "last ward", "kind": "categorical", "values": WARDS, "formula": "last_per_person(ward, day)"},
]
UNIT = PrivacyUnit(kind="person", id_column="who", max_rows=5)


@pytest.fixture
def declared(alice, group, upload_file, as_):
    """Uploaded, with the columns of the table and those of persons, as a curator sends them."""
    dataset = services.datasets.ingest_dataset(owner=alice, title="Visits", source=upload_file(VISITS), group=group)
    sent = filled(*TYPED, *({"made": "1", **each} for each in MADE))
    response = as_(alice).post(reverse("columns", args=[dataset.pk]), sent)
    assert response.status_code == 302, words(response)
    return Dataset.objects.get(pk=dataset.pk)


@pytest.fixture
def visits(declared, make_dataset, as_, alice, sofia):
    """Protected by the person, and with a budget."""
    sent = {"kind": "person", "id_column": "who", "max_rows": "5", "neighbours": "add_remove"}
    response = as_(alice).post(reverse("protection", args=[declared.pk]), sent)
    assert response.status_code == 302, words(response)
    declared.refresh_from_db()
    asked = services.budgets.request_budget(
        dataset=declared, epsilon="100", delta="0", policy=Policy.PURE, reason="", by=alice
    )
    services.budgets.approve_request(request=asked, by=sofia)
    return Dataset.objects.get(pk=declared.pk)


def counts_of(release, *shape):
    return np.array(files.read_answers(files.folder_of(release))["estimate"].to_pylist()).reshape(shape)


def test_each_patient_counts_once_from_the_form_to_what_a_reader_sees(visits, as_, alice, carry_out):
    """Noise of epsilon 40 for one row moves a count by 3 with a chance below 1e-50; of five rows it would not."""
    client = as_(alice)
    draft = services.releases.draft_release(dataset=visits, by=alice, title="Patients")
    asked = {"action": "marginals", "order": "2", "columns": ["visits", "in emergency"]}
    assert client.post(reverse("questions", args=[draft.pk]), asked).status_code == 302
    services.releases.set_choice(release=draft, epsilon="40", mechanism_name="laplace-queries")
    release = carry_out(Release.objects.get(pk=draft.pk))
    assert counts_of(release, 4, 2) == pytest.approx(np.array([[0, 25], [40, 0], [10, 0], [0, 0]]), abs=3)
    receipt, result = release.result["receipt"], body(client.get(reverse("release_detail", args=[release.pk])))
    assert receipt["unit"] == UNIT.to_json()
    each = "Each row here is one person: it is made from all rows that the table has of the person."
    made = "visits: one value a person, made from all of the person's rows by the formula count_per_person()."
    assert [receipt["rules_in_words"][place] for place in (0, 1)] == [each, made]
    for said in (each, "one person (column who, all of whose rows count as one)"):
        assert said in result
    assert list(verify(visits.budget)) == []


def test_rows_and_persons_are_not_asked_about_at_once(visits, as_, alice):
    draft = services.releases.draft_release(dataset=visits, by=alice, title="Both")
    both = {"action": "marginals", "order": "2", "columns": ["ward", "visits"]}
    response = as_(alice).post(reverse("questions", args=[draft.pk]), both)
    assert response.status_code == 400
    assert "'visits' count persons, and the other columns count rows" in words(response)
    asked = at_a_glance(visits.universe, may_check=True)
    drafted = services.collections.draft_collection(
        dataset=visits, by=alice, title="Glance", epsilon="1", delta="0", parts=asked, options={}
    )
    parts = [each.release for each in drafted.parts.select_related("release__dataset__budget")]
    of = [{name for query in each.workload["queries"] for name in query.get("marginal", ())} for each in parts]
    assert {"ward", "cost", "day"} in of
    assert {each["name"] for each in MADE} in of
    check = planned_check(visits.schema, visits.budget, rows=1000)
    assert check.schema.universe.names == ("ward", "cost", "day")


def test_columns_of_persons_are_refused_where_a_row_is_protected(declared, alice, as_):
    said = "'visits, in emergency, total, last ward' have one value a person, so a person must be protected"
    response = as_(alice).post(reverse("protection", args=[declared.pk]), {"kind": "row", "neighbours": "add_remove"})
    assert response.status_code == 400
    assert said in words(response)
    columns = declared.declared
    services.datasets.declare_universe(dataset=declared, columns=columns[:3], by=alice)
    services.datasets.declare_protection(
        dataset=declared, unit=PrivacyUnit(), neighbours=NeighbouringRelation.ADD_REMOVE, by=alice
    )
    with pytest.raises(InvalidInput, match="have one value a person"):
        services.datasets.declare_universe(dataset=declared, columns=columns, by=alice)
