"""Descriptions and units: typed beside the columns, published with a release as they stood, and no part of a plan."""

from __future__ import annotations

import csv
import io
import json

import pytest
from django.urls import reverse

from releases import services
from releases.engine.errors import InvalidInput
from releases.forms.codebooks import codebook_of
from releases.models import ApiToken, AuditEvent, Dataset, Release
from releases.schema.codebook_csv import codebook_from_csv
from releases.schema.descriptions import apart, merged
from releases.services.releases import plan_of
from tests.web.conftest import COLUMNS, CSV
from tests.web.pages import body, field_value, inline_code, words

AGE = {"description": "age at the interview", "unit": "years"}
SAID = "Everybody who lived in a household in 1996."


@pytest.fixture
def described(dataset):
    services.codebooks.describe_dataset(dataset=dataset, notes={"age": AGE}, description=SAID)
    return dataset


def typed(*, table=SAID, **notes):
    data = {"form-TOTAL_FORMS": 1, "form-INITIAL_FORMS": 1, "description": table}
    data |= {"form-0-name": "age", "form-0-kind": "integer", "form-0-values": "18, 65"}
    return data | {f"form-0-{name}": value for name, value in {**AGE, **notes}.items()}


def page_of(dataset):
    return reverse("columns", args=[dataset.pk])


# --- typed and pasted -------------------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_they_are_typed_beside_the_columns_and_stand_there_the_next_day(dataset, as_, alice):
    client = as_(alice)
    assert client.post(page_of(dataset), typed(table="  Who\r\nwas   asked. ")).status_code == 302
    dataset.refresh_from_db()
    assert (dataset.description, dataset.column_notes) == ("Who was asked.", {"age": AGE})
    page = client.get(page_of(dataset))
    assert inline_code(page) == []
    assert field_value(page, "description") == "Who was asked."
    assert field_value(page, "form-1-unit") == "years"
    assert "they are published with every release, as they are when it is made" in words(page)
    assert AuditEvent.objects.filter(detail="what the table and its columns are, in words").count() == 1
    assert client.post(page_of(dataset), typed(table="Who was asked.", unit="")).status_code == 302
    assert Dataset.objects.get().column_notes == {"age": {"description": "age at the interview"}}


@pytest.mark.django_db
def test_two_people_who_describe_two_columns_at_once_keep_both(dataset, alice, bob):
    hers, his = Dataset.objects.get(), Dataset.objects.get()
    services.codebooks.describe_dataset(dataset=hers, notes={"age": AGE}, description="Who was asked.", by=alice)
    services.codebooks.describe_dataset(dataset=his, notes={"sex": {"description": "as told"}}, by=bob)
    stored = Dataset.objects.get()
    assert stored.column_notes == his.column_notes == {"age": AGE, "sex": {"description": "as told"}}
    assert stored.description == "Who was asked."


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"unit": "x" * 41}, "age : unit: '41 characters' must be at most 40 characters long"),
        ({"description": "x" * 201}, "age : description: '201 characters' must be at most 200 characters long"),
        ({"unit": "a\u202eb"}, "unit: 'a\\u202eb' must be printable text"),
    ],
)
def test_a_note_that_breaks_a_rule_is_named_beside_its_field_and_nothing_is_lost(dataset, as_, alice, wrong, said):
    before = Dataset.objects.get().declared
    response = as_(alice).post(page_of(dataset), typed(**wrong))
    assert response.status_code == 400
    assert said in words(response)
    ((name, value),) = wrong.items()
    assert field_value(response, f"form-0-{name}") == value
    assert Dataset.objects.get().declared == before


@pytest.mark.django_db
def test_a_paragraph_that_is_too_long_is_refused_and_nothing_is_declared(dataset, as_, alice):
    before, long = Dataset.objects.get().declared, "word " * 300
    response = as_(alice).post(page_of(dataset), typed(table=long))
    assert response.status_code == 400
    assert "What the table is: '1,499 characters' must be at most 1,000 characters long" in words(response)
    assert field_value(response, "description") == long
    assert Dataset.objects.get().declared == before


@pytest.mark.django_db
def test_a_column_that_is_left_out_may_be_described_all_the_same(dataset, as_, alice):
    data = typed() | {"form-TOTAL_FORMS": 2, "form-1-name": "sex", "form-1-kind": "", "form-1-description": "as told"}
    assert as_(alice).post(page_of(dataset), data).status_code == 302
    dataset.refresh_from_db()
    assert dataset.column_notes["sex"] == {"description": "as told"}
    assert [each["name"] for each in dataset.declared] == ["age"]


@pytest.mark.django_db
def test_a_codebook_says_them_in_json_and_what_it_does_not_name_stays(described, as_, alice):
    columns = [{**COLUMNS[0], "unit": "full years"}, {**COLUMNS[1], "description": "as told"}]
    client = as_(alice)
    codebook = {"version": 1, "description": "Households.", "unit": {"kind": "row"}, "columns": columns}
    assert client.post(page_of(described), {"codebook": json.dumps(codebook)}).status_code == 302
    described.refresh_from_db()
    assert described.description == "Households."
    assert described.column_notes == {"age": {**AGE, "unit": "full years"}, "sex": {"description": "as told"}}
    assert client.post(page_of(described), {"codebook": json.dumps(COLUMNS)}).status_code == 302
    assert Dataset.objects.get().column_notes == described.column_notes
    assert Dataset.objects.get().description == "Households."


@pytest.mark.django_db
def test_what_is_downloaded_as_a_codebook_says_the_same_again(described, as_, alice):
    client = as_(alice)
    written = client.get(reverse("codebook_file", args=[described.pk])).content.decode()
    assert json.loads(written)["columns"][0] == {**described.declared[0], **AGE}
    services.codebooks.describe_dataset(
        dataset=described, notes={"age": {"description": "", "unit": ""}}, description=""
    )
    assert Dataset.objects.get().column_notes == {}
    assert client.post(page_of(described), {"codebook": written}).status_code == 302
    described.refresh_from_db()
    assert (described.description, described.column_notes) == (SAID, {"age": AGE})


def test_a_table_of_csv_has_columns_for_them():
    read = apart(
        codebook_from_csv("name,type,values,Label,UNITS\nage,integer,18|65,at the interview,years\nsex,text,f|m,,\n")
    )
    assert read.notes == {
        "age": {"description": "at the interview", "unit": "years"},
        "sex": {"description": "", "unit": ""},
    }
    assert "unit" not in read.schema["columns"][0]
    assert merged({"sex": {"unit": "none"}}, read.notes) == {"age": {**AGE, "description": "at the interview"}}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            f"name,type,values,unit\nage,integer,18|65,{'x' * 41}\n",
            "line 2 (age).unit: '41 characters' must be at most",
        ),
        (
            'name,type,values,description\nage,integer,18|65,"a\nb"\n',
            "line 2 (age).description: 'a\\nb' must be one line",
        ),
    ],
)
def test_a_mistake_in_a_table_is_named_by_line_and_field(text, said):
    with pytest.raises(InvalidInput) as caught:
        codebook_from_csv(text)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("codebook", "said"),
    [
        ({"columns": [{"name": "age", "unit": 3}]}, "columns[0] (age).unit: 3 must be text"),
        ({"columns": [{"unit": "a\nb"}]}, "columns[0].unit: 'a\\nb' must be one line"),
        ({"description": ["a"]}, "description: ['a'] must be text"),
    ],
)
def test_a_mistake_in_json_is_named_by_column_and_field(codebook, said):
    with pytest.raises(InvalidInput) as caught:
        apart(codebook)
    assert said in str(caught.value)


@pytest.mark.django_db
def test_a_program_says_and_reads_them(dataset, client, alice):
    headers = {"authorization": f"Bearer {services.tokens.make_token(user=alice, name='a script')}"}
    schema = {"version": 1, "unit": {"kind": "row"}, "neighbours": "add_remove", "description": SAID}
    schema["columns"] = [{**COLUMNS[0], **AGE}, COLUMNS[1]]
    path = f"/api/datasets/{dataset.pk}"
    answer = client.put(f"{path}/schema", json.dumps(schema), content_type="application/json", headers=headers).json()
    assert (answer["description"], answer["column_notes"]) == (SAID, {"age": AGE})
    assert "unit" not in answer["schema"]["columns"][0]
    schema["columns"][0]["unit"] = "x" * 41
    refused = client.put(f"{path}/schema", json.dumps(schema), content_type="application/json", headers=headers)
    assert refused.status_code == 400
    assert "columns[0] (age).unit" in refused.content.decode()
    assert ApiToken.objects.count() == 1


# --- no part of a plan ------------------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_no_plan_price_schema_or_receipt_depends_on_them(make_dataset, make_draft, carry_out):
    plain, told = make_dataset(), make_dataset(content=CSV + b"one more,30,male\n")
    before = plan_of(release=make_draft(told)).to_json()
    services.codebooks.describe_dataset(dataset=told, notes={"age": AGE}, description=SAID)
    assert plan_of(release=make_draft(told)).to_json() == before == plan_of(release=make_draft(plain)).to_json()
    assert told.schema.to_json() == plain.schema.to_json()
    receipt = carry_out(make_draft(told)).result["receipt"]
    assert SAID not in json.dumps(receipt)
    assert AGE["description"] not in json.dumps(receipt)
    assert "years" not in json.dumps(receipt)


# --- as they stood ----------------------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_a_release_shows_what_stood_when_it_was_made_and_nothing_written_since(described, make_queued, as_, alice):
    release = make_queued(described)
    assert services.execution.execute_release(release_id=release.pk)
    services.codebooks.describe_dataset(
        dataset=described, notes={"age": {"unit": "months"}}, description="Something else."
    )
    client = as_(alice)
    page = client.get(reverse("release_detail", args=[release.pk]))
    said = words(page)
    assert SAID in said
    assert "integer, in years age at the interview" in said
    assert "months" not in said
    assert "Something else." not in said
    assert '"title": "age (years)"' in body(page)
    heat = client.get(reverse("release_detail", args=[release.pk]), {"question": "2"})
    assert '"title": "age (years)"' in body(heat)
    assert '"title": "sex"' in body(heat)
    written = body(client.get(reverse("download", args=[release.pk, "dictionary.csv"])))
    lines = [line for line in csv.DictReader(io.StringIO(written)) if line["column"] == "age"]
    assert {(line["description"], line["unit"]) for line in lines} == {("age at the interview", "years")}


@pytest.mark.django_db
@pytest.mark.parametrize(("table", "notes"), [(SAID, {}), ("", {"age": AGE}), ("", {})])
def test_before_it_is_public_a_page_says_that_everybody_will_read_them(
    dataset, make_draft, carry_out, as_, alice, table, notes
):
    services.codebooks.describe_dataset(dataset=dataset, notes=notes, description=table)
    release = carry_out(make_draft(dataset))
    said = "what was said of the table and its columns when it was made"
    assert (said in words(as_(alice).get(reverse("visibility", args=[release.pk])))) is bool(table or notes)


@pytest.mark.django_db
def test_only_the_columns_a_release_is_about_are_described_in_it(described, make_draft, carry_out):
    services.codebooks.describe_dataset(dataset=described, notes={"sex": {"description": "as told"}})
    release = make_draft(described)
    services.releases.set_questions(release=release, workload={"version": 1, "queries": [{"marginal": ["sex"]}]})
    services.releases.set_choice(release=release, epsilon="0.5", mechanism_name="laplace-queries")
    assert carry_out(release).result["described"] == {"table": SAID, "columns": {"sex": {"description": "as told"}}}


@pytest.mark.django_db
def test_a_single_number_is_shown_with_its_unit(described, make_draft, carry_out, as_, alice):
    release = make_draft(described)
    services.releases.set_questions(release=release, workload={"version": 1, "queries": [{"mean": ["age"]}]})
    services.releases.set_choice(release=release, epsilon="1", mechanism_name="laplace-numbers")
    carry_out(release)
    page = words(as_(alice).get(reverse("release_detail", args=[release.pk])))
    assert "At least " in page
    assert " years." in page.partition("At least ")[2][:80]


@pytest.mark.django_db
def test_a_release_from_before_there_were_descriptions_is_shown_as_ever(published, as_, alice):
    published.result.pop("described")
    Release.objects.filter(pk=published.pk).update(result=published.result)
    client = as_(alice)
    assert client.get(reverse("release_detail", args=[published.pk])).status_code == 200
    assert client.get(reverse("download", args=[published.pk, "release.zip"])).status_code == 200
    services.releases.make_public(release=published)
    assert client.get("/catalogue/", {"q": "survey"}).status_code == 200


@pytest.mark.django_db
def test_the_catalogue_shows_and_finds_what_was_released_and_not_what_was_written_since(described, make_queued, client):
    release = make_queued(described)
    assert services.execution.execute_release(release_id=release.pk)
    services.releases.make_public(release=release)
    services.codebooks.describe_dataset(
        dataset=described, notes={"age": {"description": "secret plans"}}, description="Hidden."
    )
    assert SAID in words(client.get("/catalogue/"))
    for wanted, is_found in (("household", True), ("INTERVIEW", True), ("plans", False), ("hidden", False)):
        assert (release.title in words(client.get("/catalogue/", {"q": wanted}))) is is_found, wanted


@pytest.mark.django_db
def test_the_text_that_goes_with_the_files_says_what_the_table_is(described, make_queued, as_, alice):
    import zipfile

    release = make_queued(described)
    assert services.execution.execute_release(release_id=release.pk)
    packed = b"".join(as_(alice).get(reverse("download", args=[release.pk, "release.zip"])).streaming_content)
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        (readme,) = (archive.read(name).decode() for name in archive.namelist() if name.endswith("README.txt"))
    assert f"The table\n\n  {SAID}\n" in readme


def test_text_that_a_spreadsheet_would_run_is_marked_in_the_dictionary():
    from releases.engine.bounds.accuracy import Proof
    from releases.publication.dictionary import dictionary_csv

    schema = {"version": 1, "columns": [{"name": "a", "type": "categorical", "categories": ["x"]}]}
    receipt = {"schema": schema, "synthetic_rows": 0, "bound": {"beta": "1/20", "proof": Proof.EXPECTED.value}}
    written = dictionary_csv(receipt, answers=[], notes={"a": {"description": "=1+1", "unit": "@x"}})
    (line,) = csv.DictReader(io.StringIO(written))
    assert (line["description"], line["unit"]) == ("'=1+1", "'@x")


@pytest.mark.django_db
def test_a_codebook_has_no_word_of_them_where_nothing_is_said(dataset):
    assert "description" not in codebook_of(dataset, dataset.universe, dataset.column_notes)
