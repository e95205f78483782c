"""Columns of one value a person: from the form to the released answers, and what readers are told of them."""

from __future__ import annotations

import json

import numpy as np
import pytest
from django.core.management import call_command
from django.urls import reverse

from releases import services
from releases.engine.accounting.filters import Policy
from releases.engine.domain.privacy import NeighbouringRelation, PrivacyUnit
from releases.engine.errors import InvalidInput
from releases.ledger.verification import verify
from releases.models import Budget, Dataset, Release
from releases.planning.column_checks import planned_check
from releases.publication import files
from releases.publication.readme import readme_text
from releases.publication.registry_entry import registry_entry
from releases.questions.together import at_a_glance
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


def typed(*rows, **button):
    data = {"form-TOTAL_FORMS": len(rows), "form-INITIAL_FORMS": len(rows), **button}
    return data | {f"form-{place}-{field}": value for place, row in enumerate(rows) for field, value in row.items()}


@pytest.fixture
def declared(alice, group, upload_file, as_):
    """Uploaded, with the columns of the table and those of persons, as a curator sends them."""
    dataset = services.datasets.ingest_dataset(owner=alice, title="Visits", source=upload_file(VISITS), group=group)
    sent = typed(*TYPED, *({"made": "1", **each} for each in MADE))
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
    page = client.get(reverse("questions", args=[draft.pk]))
    assert "visits, in emergency, total, last ward: one value a person." in words(page)
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
    readme = " ".join(readme_text(receipt, [], digest="", address="").split())
    protects = "one person (column who, all of whose rows count as one)"
    for said in (each, protects):
        assert said in result
        assert said in readme
    assert protects in registry_entry(receipt, address="", is_session=False)
    assert list(verify(visits.budget)) == []


def test_means_and_sums_of_persons_are_of_one_row_each_and_add_up_with_releases_of_rows(visits, make_draft, carry_out):
    mean = carry_out(make_draft(visits, {"sum": ["total"]}, epsilon="40", mechanism="laplace-numbers"))
    # Of the first each row is at most 500, and one that is no number counts nothing.
    assert counts_of(mean, -1)[0] == pytest.approx(40 * 510 + 25 * 20 + 10 * 13, rel=0.01)
    by_row = carry_out(make_draft(visits, {"marginal": ["ward"]}, epsilon="40"))
    # At most five rows of each person.
    assert counts_of(by_row, -1).sum() == pytest.approx(40 * 3 + 25 + 10 * 5, abs=20)
    assert "Each row here is one person" not in by_row.result["receipt"]["rules_in_words"][0]
    budget = Budget.objects.get(pk=visits.budget_id)
    assert budget.totals.spent_epsilon == 80 * 10**12


def test_rows_and_persons_are_not_asked_about_at_once(visits, as_, alice):
    draft = services.releases.draft_release(dataset=visits, by=alice, title="Both")
    both = {"action": "marginals", "order": "2", "columns": ["ward", "visits"]}
    response = as_(alice).post(reverse("questions", args=[draft.pk]), both)
    assert response.status_code == 400
    assert "'visits' count persons, and the other columns count rows" in words(response)
    unticked = {"action": "marginals", "order": "1"}
    assert as_(alice).post(reverse("questions", args=[draft.pk]), unticked).status_code == 302
    draft.refresh_from_db()
    assert [each["marginal"] for each in draft.workload["queries"]] == [["ward"], ["cost"], ["day"]]
    asked = at_a_glance(visits.universe, may_check=True)
    drafted = services.collections.draft_collection(
        dataset=visits, by=alice, title="Glance", epsilon="1", delta="0", parts=asked, options={}
    )
    parts = [each.release for each in drafted.parts.select_related("release__dataset__budget")]
    of = [{name for query in each.workload["queries"] for name in query.get("marginal", ())} for each in parts]
    assert {"ward", "cost", "day"} in of
    assert {each["name"] for each in MADE} in of
    assert all(services.releases.compare(release=each) for each in parts)
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


def test_the_command_releases_persons_from_a_codebook(tmp_path, settings):
    (tmp_path / "visits.csv").write_bytes(VISITS)
    columns = [
        {"name": "visits", "type": "integer", "edges": [1, 2, 5, 20], "formula": "count_per_person()"},
        {"name": "usual", "type": "categorical", "categories": WARDS.split(", ")}
        | {"formula": "most_frequent_per_person(ward)"},
    ]
    schema = {"version": 1, "columns": columns, "unit": UNIT.to_json(), "neighbours": "add_remove"}
    (tmp_path / "schema.json").write_text(json.dumps(schema))
    (tmp_path / "workload.json").write_text(json.dumps({"version": 1, "queries": [{"marginals": 2}]}))
    named = {name: tmp_path / f"{name}.json" for name in ("schema", "workload")}
    budget = {"epsilon": "40", "budget": "50", "mechanism": "laplace-histogram"}
    call_command("release", table=tmp_path / "visits.csv", **named, **budget, out=tmp_path / "out")
    release = Release.objects.get()
    found = counts_of(release, 3, 3)
    assert found == pytest.approx(np.array([[0, 0, 25], [40, 0, 0], [0, 0, 10]]), abs=3)
