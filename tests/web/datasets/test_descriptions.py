"""Descriptions and units: typed beside the columns, published with a release as they stood, and no part of a plan."""

from __future__ import annotations

import csv
import io
import json
import zipfile
from functools import partial

import pytest
from django.urls import reverse

from releases import services
from releases.engine.bounds.accuracy import Proof
from releases.models import AuditEvent, Dataset, Release
from releases.publication.dictionary import dictionary_csv
from releases.services.releases import plan_of
from tests.web.conftest import COLUMNS, CSV
from tests.web.datasets.conftest import filled
from tests.web.pages import body, field_value, words

pytestmark = pytest.mark.django_db

AGE = {"description": "age at the interview", "unit": "years"}
SAID = "Everybody who lived in a household in 1996."


@pytest.fixture
def described(dataset):
    services.codebooks.describe_dataset(dataset=dataset, notes={"age": AGE}, description=SAID)
    return dataset


def typed(*, table=SAID, **notes):
    return filled({"name": "age", "kind": "integer", "values": "18, 65", **AGE, **notes}, description=table)


def page_of(dataset):
    return reverse("columns", args=[dataset.pk])


# --- typed and pasted -------------------------------------------------------------------------------------------------


def test_they_are_typed_beside_the_columns_and_stand_there_the_next_day(dataset, as_, alice):
    client = as_(alice)
    assert client.post(page_of(dataset), typed(table="  Who\r\nwas   asked. ")).status_code == 302
    dataset.refresh_from_db()
    assert (dataset.description, dataset.column_notes) == ("Who was asked.", {"age": AGE})
    page = client.get(page_of(dataset))
    assert (field_value(page, "description"), field_value(page, "form-1-unit")) == ("Who was asked.", "years")
    assert AuditEvent.objects.filter(detail="what the table and its columns are, in words").count() == 1
    assert client.post(page_of(dataset), typed(table="Who was asked.", unit="")).status_code == 302
    assert Dataset.objects.get().column_notes == {"age": {"description": "age at the interview"}}


def test_two_people_who_describe_two_columns_at_once_keep_both(dataset, alice, bob):
    hers, his = Dataset.objects.get(), Dataset.objects.get()
    services.codebooks.describe_dataset(dataset=hers, notes={"age": AGE}, description="Who was asked.", by=alice)
    services.codebooks.describe_dataset(dataset=his, notes={"sex": {"description": "as told"}}, by=bob)
    stored = Dataset.objects.get()
    assert stored.column_notes == his.column_notes == {"age": AGE, "sex": {"description": "as told"}}
    assert stored.description == "Who was asked."


def test_a_text_that_breaks_a_rule_is_named_beside_its_field_and_nothing_is_lost(dataset, as_, alice):
    for wrong, field, said in (
        ({"unit": "x" * 41}, "form-0-unit", "age : unit: '41 characters' must be at most 40"),
        ({"description": "x" * 201}, "form-0-description", "age : description: '201 characters' must be at most 200"),
        ({"unit": "a\u202eb"}, "form-0-unit", "unit: 'a\\u202eb' must be printable text"),
        ({"table": "word " * 300}, "description", "What the table is: '1,499 characters' must be at most 1,000"),
    ):
        response = as_(alice).post(page_of(dataset), typed(**wrong))
        assert response.status_code == 400
        assert said in words(response)
        assert [field_value(response, field)] == list(wrong.values())
        assert Dataset.objects.get().declared == dataset.declared


def test_a_program_says_and_reads_them(dataset, as_, alice):
    schema = {"version": 1, "unit": {"kind": "row"}, "neighbours": "add_remove", "description": SAID}
    schema["columns"] = [{**COLUMNS[0], **AGE}, COLUMNS[1]]
    put = partial(as_(alice).put, f"/api/datasets/{dataset.pk}/schema", content_type="application/json")
    answer = put(schema).json()
    assert (answer["description"], answer["column_notes"]) == (SAID, {"age": AGE})
    assert "unit" not in answer["schema"]["columns"][0]
    schema["columns"][0]["unit"] = "x" * 41
    refused = put(schema)
    assert refused.status_code == 400
    assert "columns[0] (age).unit" in refused.content.decode()


# --- no part of a plan ------------------------------------------------------------------------------------------------


def test_no_plan_price_schema_or_receipt_depends_on_them(make_dataset, make_draft, carry_out):
    plain, told = make_dataset(), make_dataset(content=CSV + b"one more,30,male\n")
    before = plan_of(release=make_draft(told)).to_json()
    services.codebooks.describe_dataset(dataset=told, notes={"age": AGE}, description=SAID)
    assert plan_of(release=make_draft(told)).to_json() == before == plan_of(release=make_draft(plain)).to_json()
    assert told.schema.to_json() == plain.schema.to_json()
    receipt = json.dumps(carry_out(make_draft(told)).result["receipt"])
    assert [each for each in (SAID, *AGE.values()) if each in receipt] == []


# --- as they stood ----------------------------------------------------------------------------------------------------


@pytest.fixture
def told(described, make_draft, carry_out):
    """A release from when the table was described; since then something else was written."""
    release = carry_out(make_draft(described))
    notes = {"age": {"description": "secret plans", "unit": "months"}}
    services.codebooks.describe_dataset(dataset=described, notes=notes, description="Hidden.")
    return release


def test_a_release_shows_what_stood_when_it_was_made_and_nothing_written_since(told, as_, alice):
    client, address = as_(alice), reverse("release_detail", args=[told.pk])
    page = client.get(address)
    for said, is_there in ((SAID, True), ("integer, in years age at the interview", True), ("months", False)):
        assert (said in words(page)) is is_there
    assert "Hidden." not in words(page)
    heat = client.get(address, {"question": "2"})
    for shown, title in ((page, "age (years)"), (heat, "age (years)"), (heat, "sex")):
        assert f'"title": "{title}"' in body(shown)
    written = body(client.get(reverse("download", args=[told.pk, "dictionary.csv"])))
    lines = [line for line in csv.DictReader(io.StringIO(written)) if line["column"] == "age"]
    assert {(line["description"], line["unit"]) for line in lines} == {("age at the interview", "years")}
    packed = b"".join(client.get(reverse("download", args=[told.pk, "release.zip"])).streaming_content)
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        (readme,) = (archive.read(name).decode() for name in archive.namelist() if name.endswith("README.txt"))
    assert f"The table\n\n  {SAID}\n" in readme


def test_only_the_columns_a_release_is_about_are_described_in_it(described, make_draft, carry_out, as_, alice):
    services.codebooks.describe_dataset(dataset=described, notes={"sex": {"description": "as told"}})
    counts, mean = (
        carry_out(make_draft(described, question, epsilon="0.5", mechanism=mechanism))
        for question, mechanism in (({"marginal": ["sex"]}, "laplace-queries"), ({"mean": ["age"]}, "laplace-numbers"))
    )
    assert counts.result["described"] == {"table": SAID, "columns": {"sex": {"description": "as told"}}}
    page = words(as_(alice).get(reverse("release_detail", args=[mean.pk])))
    assert " years." in page.partition("At least ")[2][:80], "a single number is shown with its unit"


def test_a_release_from_before_there_were_descriptions_is_shown_as_ever(published, as_, alice):
    published.result.pop("described")
    Release.objects.filter(pk=published.pk).change(result=published.result)
    client = as_(alice)
    assert client.get(reverse("release_detail", args=[published.pk])).status_code == 200
    assert client.get(reverse("download", args=[published.pk, "release.zip"])).status_code == 200
    services.releases.make_public(release=published)
    assert client.get("/catalogue/", {"q": "survey"}).status_code == 200


def test_the_catalogue_shows_and_finds_what_was_released_and_not_what_was_written_since(told, client):
    services.releases.make_public(release=told)
    assert SAID in words(client.get("/catalogue/"))
    for wanted, is_found in (("household", True), ("INTERVIEW", True), ("plans", False), ("hidden", False)):
        assert (told.title in words(client.get("/catalogue/", {"q": wanted}))) is is_found, wanted


def test_text_that_a_spreadsheet_would_run_is_marked_in_the_dictionary():
    schema = {"version": 1, "columns": [{"name": "a", "type": "categorical", "categories": ["x"]}]}
    workload = {"version": 1, "queries": [{"marginals": 1}]}
    bound = {"beta": "1/20", "proof": Proof.EXPECTED.value}
    receipt = {"schema": schema, "workload": workload, "synthetic_rows": 0, "bound": bound}
    written = dictionary_csv(receipt, answers=[], notes={"a": {"description": "=1+1", "unit": "@x"}})
    (line,) = csv.DictReader(io.StringIO(written))
    assert (line["description"], line["unit"]) == ("'=1+1", "'@x")
