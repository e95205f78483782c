"""Descriptions and units: typed beside the columns, published with a release as they stood, and no part of a plan."""

import json

import pytest
from django.urls import reverse

from releases import services
from releases.models import Dataset
from releases.services.releases import plan_of
from tests.web.conftest import CSV
from tests.web.datasets.conftest import filled
from tests.web.pages import field_value, words

AGE = {"description": "age at the interview", "unit": "years"}
SAID = "Everybody who lived in a household in 1996."


@pytest.fixture
def described(dataset):
    services.codebooks.describe_dataset(dataset=dataset, notes={"age": AGE}, description=SAID)
    return dataset


def test_they_are_typed_beside_the_columns_and_stand_there_the_next_day(dataset, as_, alice):
    client, address = as_(alice), reverse("columns", args=[dataset.pk])
    row = {"name": "age", "kind": "integer", "values": "18, 65", **AGE}
    assert client.post(address, filled(row, description="  Who\r\nwas   asked. ")).status_code == 302
    dataset.refresh_from_db()
    assert (dataset.description, dataset.column_notes) == ("Who was asked.", {"age": AGE})
    assert field_value(client.get(address), "form-1-unit") == "years"
    assert client.post(address, filled({**row, "unit": ""}, description="")).status_code == 302
    assert Dataset.objects.get().column_notes == {"age": {"description": "age at the interview"}}


def test_two_people_who_describe_two_columns_at_once_keep_both(dataset, alice, bob):
    hers, his = Dataset.objects.get(), Dataset.objects.get()
    services.codebooks.describe_dataset(dataset=hers, notes={"age": AGE}, description="Who was asked.", by=alice)
    services.codebooks.describe_dataset(dataset=his, notes={"sex": {"description": "as told"}}, by=bob)
    stored = Dataset.objects.get()
    assert stored.column_notes == his.column_notes == {"age": AGE, "sex": {"description": "as told"}}
    assert stored.description == "Who was asked."


def test_no_plan_price_schema_or_receipt_depends_on_them(make_dataset, make_draft, carry_out):
    plain, told = make_dataset(), make_dataset(content=CSV + b"one more,30,male\n")
    before = plan_of(release=make_draft(told)).to_json()
    services.codebooks.describe_dataset(dataset=told, notes={"age": AGE}, description=SAID)
    assert plan_of(release=make_draft(told)).to_json() == before == plan_of(release=make_draft(plain)).to_json()
    assert told.schema.to_json() == plain.schema.to_json()
    receipt = json.dumps(carry_out(make_draft(told)).result["receipt"])
    assert [each for each in (SAID, *AGE.values()) if each in receipt] == []


@pytest.fixture
def told(described, make_draft, carry_out):
    """A release from when the table was described; since then something else was written."""
    release = carry_out(make_draft(described))
    notes = {"age": {"description": "secret plans", "unit": "months"}}
    services.codebooks.describe_dataset(dataset=described, notes=notes, description="Hidden.")
    return release


def test_only_the_columns_a_release_is_about_are_described_in_it(described, make_draft, carry_out):
    services.codebooks.describe_dataset(dataset=described, notes={"sex": {"description": "as told"}})
    counts = carry_out(make_draft(described, {"marginal": ["sex"]}, epsilon="0.5"))
    assert counts.result["described"] == {"table": SAID, "columns": {"sex": {"description": "as told"}}}


def test_the_catalogue_shows_and_finds_what_was_released_and_not_what_was_written_since(told, client):
    services.releases.make_public(release=told)
    assert SAID in words(client.get("/catalogue/"))
    for wanted, is_found in (("household", True), ("INTERVIEW", True), ("plans", False), ("hidden", False)):
        assert (told.title in words(client.get("/catalogue/", {"q": wanted}))) is is_found, wanted
