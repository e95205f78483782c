"""The codebook in CSV: the same columns as in JSON, and mistakes named by line and field."""

import json
import re
from contextlib import suppress

import pytest
from django.urls import reverse
from hypothesis import given
from hypothesis import strategies as st

from releases.engine.domain.schema import Schema
from releases.engine.errors import InvalidInput
from releases.models import Dataset
from releases.schema.codebook_csv import codebook_from_csv
from releases.schema.descriptions import apart
from releases.schema.file_codebook import missing_codes
from releases.schema.metadata_codebooks import read_other
from releases.schema.standard_codebooks import from_standard, is_standard, to_standard

GOOD = """name,type,categories or edges,outside,decimals,missing,missing_as,format,time zone
sex,categorical,female|male,drop,,NA|-9,male,,
"age",integer,"18, 25, 35, 65",clamp,,,,,

income,number,0 to 100 in 4 bins,,1,,,,
region,categorical,"north
south, east",,,,,,
born,date,1990-01-01 to 2024-12-31 by year,,,,no date,DD.MM.YYYY,
seen,datetime,"2020-01-01, 2020-07-01",drop,,,,YYYY-MM-DD,Europe/Berlin
"""


def test_every_kind_of_column_is_read_as_it_is_meant():
    columns = codebook_from_csv(GOOD)["columns"]
    assert columns == [
        {"name": "sex", "type": "categorical", "categories": ["female", "male"], "outside": "drop"}
        | {"missing": ["NA", "-9"], "missing_as": "male"},
        {"name": "age", "type": "integer", "edges": [18, 25, 35, 65], "outside": "clamp"},
        {"name": "income", "type": "number", "edges": [0, 25, 50, 75, 100], "outside": "clamp", "decimals": 1},
        {"name": "region", "type": "categorical", "categories": ["north", "south, east"], "outside": "drop"},
        {"name": "born", "type": "date", "format": "DD.MM.YYYY", "first": "1990-01-01", "last": "2024-12-31"}
        | {"by": "year", "outside": "clamp", "missing_as": "no date"},
        {"name": "seen", "type": "datetime", "format": "YYYY-MM-DD", "zone": "Europe/Berlin"}
        | {"edges": ["2020-01-01", "2020-07-01"], "outside": "drop"},
    ]


def test_impossible_combinations_are_lines_of_a_codebook_in_csv_and_those_declared_stay_where_it_has_none(paste):
    head = 'name,type,values\nage,integer,"0, 15, 99"\n"sex: at birth",categorical,f|m\nsex,categorical,f|m\n'
    line = ',impossible,"age: 0 to 14; sex: at birth: f|m"\n'
    of_two = codebook_from_csv(head.replace("f|m\nsex", "f|m|x\nsex") + line)
    assert of_two["impossible"] == [{"age": ["0 to 14"], "sex: at birth": ["f", "m"]}]
    several = f'{head},Impossible,"sex: f\nage: 0 to 14"\n,impossible,"age: 15 to 99; sex: m"\n'
    expected = [{"sex": ["f"], "age": ["0 to 14"]}, {"age": ["15 to 99"], "sex": ["m"]}]
    assert codebook_from_csv(several)["impossible"] == expected
    table = "name,type,values\nage,integer,0|50|99\nsex,categorical,f|m\n"
    for said in (table + ',impossible,"age: 0 to 49; sex: f"\n', table):
        sent, dataset = paste(said)
        assert sent.status_code == 302
        assert dataset.impossible == [{"age": ["0 to 49"], "sex": ["f"]}]
    for values, mistake in (
        ("age: 0 to 14", "line 5 (impossible): '1 columns' must name 2 to 10 columns"),
        ("age: 0-14; sex: f", "line 5 (impossible).age: '0-14' is no bin of age; these are: 0 to 14, 15 to 99"),
        ("age: 0 to 14; wage: high", "line 5 (impossible).wage: 'wage' is not a declared column"),
        ("age: 0 to 14|15 to 99; sex: f", "line 5 (impossible).age: 'all 2 bins' must leave at least one bin"),
        ("", "line 5 (impossible): '0 columns' must name 2 to 10 columns"),
    ):
        with pytest.raises(InvalidInput, match=re.escape(mistake)):
            codebook_from_csv(f'{head},impossible,"{values}"\n')


DATES = "name,type,format,values,time zone\na,date,"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name,type,values,colour\n", "line 1: 'colour' is not a known head"),
        ("name,type\nage,integer\n", "line 1: 'name, type' must have a column for categories or edges"),
        ("name,type,values\nage,integer,18\n", "line 2 (age).edges: '18' must be at least two numbers"),
        ('name,type,values\na,integer,"1\n2"\nb,integer,3|2\n', "line 4 (b).edges: '3, 2' must rise"),
        ("name,type,values\na,integer,1|2\na,integer,1|2\n", "line 3.name: 'a' is declared twice, first in line 2"),
        ("name,type,values,decimals\na,number,0|1,two\n", "line 2 (a).decimals: 'two' must be a whole number"),
        (DATES + "DD.MM.YYYY,31.02.2020 to 31.12.2024 by month,\n", "first: '2020-02-31' must be a date"),
        (DATES + "DD.MM.YYYY,01.01.2020 to 31.12.2024 by hour,\n", "by: 'hour' is for dates with a time of day"),
        (DATES + "YYYY-MM-DD,2020-01-01 to 2024-12-31 by year,Europe/Berlin\n", "is for dates with a time of day"),
        ("name,type,values\na,integer,18, 20\n", "line 2: '4 cells' must have 3"),
        ('name,type,values\na,integer,"1\n', "line 2: 'unexpected end of data' is not CSV"),
    ],
)
def test_a_mistake_is_named_by_line_and_field(text, said):
    with pytest.raises(InvalidInput) as caught:
        codebook_from_csv(text)
    assert said in str(caught.value)


@pytest.fixture
def paste(fresh, alice, as_):
    """Paste something as the codebook of a new table of alice's; what is answered, and the table."""

    def pasted(text, **more):
        answer = as_(alice).post(reverse("columns", args=[fresh.pk]), {"codebook": text, **more})
        fresh.refresh_from_db()
        return answer, fresh

    return pasted


# In formats that others write

CONFIRMED = "By declaring it you confirm that its values and ends were not made from the rows of the table."
FRICTIONLESS = {
    "missingValues": ["", "NA"],
    "fields": [
        {"name": "sex", "type": "string", "constraints": {"enum": ["female", "male"]}, "title": "As registered"},
        {"name": "age", "type": "integer", "constraints": {"minimum": 0, "maximum": 120}, "missingValues": ["-9"]},
        {"name": "person", "type": "string"},
    ],
}
CSVW_COLUMNS = [
    {"name": "sex", "datatype": {"base": "string", "format": "female|male"}, "null": "NA"},
    {"name": "age", "datatype": {"base": "integer", "minimum": 0, "maximum": 120}, "null": ["-9"]},
    {"name": "person", "datatype": "string"},
]
CSVW = {"@context": "http://www.w3.org/ns/csvw", "tables": [{"url": "a.csv", "tableSchema": {"columns": CSVW_COLUMNS}}]}


@pytest.mark.parametrize("pasted", [{"resources": [{"schema": FRICTIONLESS}]}, CSVW])
def test_a_codebook_in_a_format_that_others_write_is_declared_once_what_was_chosen_is_confirmed(paste, pasted):
    shown, dataset = paste(json.dumps(pasted))
    chosen = shown.context["codebook"].readings
    assert chosen == [
        CONFIRMED,
        "Missing values have a bin of their own in each of its columns: it names no rule for them.",
        "age: bins were chosen between 0 and 120.",
        "Not declared, for neither their values nor their ends are given: person.",
    ]
    assert dataset.declared is None
    sent, dataset = paste(json.dumps(pasted), doubts=chosen)
    assert sent.status_code == 302
    assert dataset.universe["sex"].categories == ("female", "male", "no value")
    assert dataset.universe["sex"].missing_as == "no value"
    ages = (*(f"{low} to {low + 11}" for low in range(0, 108, 12)), "108 to 120", "no number")
    assert dataset.universe["age"].labels == ages
    assert [each.missing for each in dataset.universe.attributes] == [("NA",), ("-9",)]


@pytest.mark.parametrize("written", ["frictionless", "csvw"])
def test_what_is_written_for_others_is_read_back_the_same(written):
    made = {"name": "adult", "type": "categorical", "categories": ["true", "false"], "formula": "age >= 18"}
    opened = {"name": "pay", "type": "number", "edges": [0, 10, 80], "open": ["last"]}
    columns = [*codebook_from_csv(GOOD)["columns"], made, opened]
    impossible = [{"sex": ["male"], "age": ["18 to 24"]}]
    universe = Schema.from_json({"version": 1, "columns": columns, "impossible": impossible}).universe
    told = json.loads(json.dumps(to_standard(universe, {"sex": {"description": "What it is"}}, written=written)))
    read, decided = from_standard(told)
    assert decided == []
    assert read["columns"][0].pop("description") == "What it is"
    assert Schema.from_json(read).universe == universe
    columns = told["fields"] if written == "frictionless" else told["tableSchema"]["columns"]
    said = columns[1].get("constraints", columns[1].get("datatype"))
    assert (said["minimum"], said["maximum"]) == (18, 65)
    # Where the last bin is open its edge is no limit.
    said = columns[-1].get("constraints", columns[-1].get("datatype"))
    assert (said["minimum"], "maximum" in said) == (0, False)


# In files that are no JSON

DDI = """\ufeff<?xml version="1.0" encoding="UTF-8"?>
<codeBook xmlns="ddi:codebook:2_5" version="2.5">
  <dataDscr>
    <var ID="V1" name="sex" files="F1" intrvl="discrete">
      <labl>Sex as
        registered</labl>
      <catgry><catValu>1</catValu><labl>female</labl><catStat type="freq">4711</catStat></catgry>
      <catgry><catValu>2</catValu><labl>male</labl></catgry>
      <catgry missing="Y"><catValu>9</catValu><labl>not asked</labl></catgry>
    </var>
    <var ID="V2" name="age" files="F1" intrvl="contin" dcml="0">
      <labl>Age</labl>
      <valrng><range UNITS="INT" min="0" max="120"/></valrng>
      <invalrng><item VALUE="-9"/></invalrng>
      <sumStat type="max">119</sumStat>
    </var>
    <var ID="V3" name="note" files="F1"><labl>Remarks</labl></var>
  </dataDscr>
</codeBook>"""
SMARTNOISE = """# of the survey
engine: postgres
"":
  PUMS:
    people:
      max_ids: 3
      rows: 1000
      censor_dims: false
      pid: {type: string, private_id: true}
      age:
        type: int
        lower: 0
        upper: 120
      married: {type: boolean}
      state: {type: string, cardinality: 50}
"""
CITIES = [{"predicate": {"partitionValue": each}, "maxLength": 9} for each in ("a", "b")]
EO_COLUMNS = [
    {"name": "pid", "datatype": "string", "privacyId": True, "maxNumPartitions": 900},
    {"name": "age", "datatype": "integer", "minimum": 0, "maximum": 120},
    {"name": "sex", "datatype": "string", "keyValues": ["f", "m"]},
    {"name": "city", "datatype": "string", "partitions": CITIES},
]
EO = {"@context": ["http://www.w3.org/ns/csvw", "csvw-eo-context.jsonld"], "maxContributions": 3}
EO["tableSchema"] = {"columns": EO_COLUMNS}


def test_variables_of_ddi_are_declared_by_their_categories_and_ranges_and_never_by_what_was_counted():
    read, decided = from_standard(read_other(DDI))
    sex, age = read["columns"]
    assert sex.pop("description") == "Sex as registered – 1: female; 2: male"
    assert (sex.pop("missing"), sex.pop("missing_as")) == (["9"], "no value")
    assert sex == {"name": "sex", "type": "categorical", "categories": ["1", "2", "no value"]}
    assert (age.pop("description"), age.pop("missing_as")) == ("Age", "no number")
    assert age == {"name": "age", "type": "integer", "edges": [*range(0, 121, 12)], "missing": ["-9"]}
    assert (decided[0], decided[-1].endswith("are given: note.")) == (CONFIRMED, True)
    assert not {"4711", "119"} & set(re.findall(r"\d+", json.dumps(read)))


@pytest.mark.parametrize(("read", "left"), [(read_other(SMARTNOISE), "pid, state"), (EO, "pid")])
def test_metadata_of_other_tools_say_whom_to_protect_and_that_is_said_before_it_is_declared(read, left):
    declared, decided = from_standard(read)
    schema = Schema.from_json(apart(declared).schema)
    assert (schema.unit.kind, schema.unit.id_column, schema.unit.max_rows) == ("person", "pid", 3)
    assert (schema.universe["age"].edges[0], schema.universe["age"].edges[-1]) == (0, 120)
    whom = "a person, by the column pid, with at most 3 rows each; whether they are in the table is private."
    assert f"Whom to protect: {whom}" in decided
    assert (decided[0], decided[-1].endswith(f"are given: {left}.")) == (CONFIRMED, True)
    others = {each.name: each.categories for each in schema.universe.attributes if each.categories}
    married, lists = ("true", "false", "no value"), {"sex": ("f", "m", "no value"), "city": ("a", "b", "no value")}
    assert others in ({"married": married}, lists)


@pytest.mark.parametrize(
    ("pasted", "field", "rule"),
    [
        ('<!DOCTYPE x [<!ENTITY a "b">]><codeBook/>', "codebook", "must be XML without a document type"),
        (DDI.replace('max="120"', 'max="old"'), "columns[1] (age).maximum", "must be a number"),
        ("a:\n  b:\n    c: &x {type: int}\n    d: *x\n", "codebook", "must be YAML without aliases"),
        (SMARTNOISE.replace("max_ids: 3", "max_ids: 0"), "maxContributions", "must be a whole number from 1"),
        (SMARTNOISE.replace("boolean}", "int, private_id: true}"), "privacyId", "must be one column"),
    ],
)
def test_what_is_wrong_with_them_is_named(pasted, field, rule):
    with pytest.raises(InvalidInput) as refusal:
        from_standard(read_other(pasted))
    assert refusal.value.field == field
    assert refusal.value.rule.startswith(rule)


@given(place=st.integers(0, 2000), instead=st.text(max_size=4), whole=st.sampled_from([DDI, SMARTNOISE]))
def test_a_broken_file_is_read_or_refused_by_its_field(place, instead, whole):
    broken = whole[:place] + instead + whole[place + 1 :]
    # Any other exception than a refusal fails the test.
    with suppress(InvalidInput):
        read = read_other(broken)
        if read is not None and is_standard(read):
            Schema.from_json(apart(from_standard(read)[0]).schema)


def test_equal_missing_codes_of_a_file_are_listed_once_with_all_their_columns():
    of_items = [{"name": f"item {number}", "missing": ["8", "9"]} for number in range(34)]
    others = [{"name": "age", "missing": ["999"]}, {"name": "sex", "missing": []}]
    listed = missing_codes(Dataset(file_codebook=[*of_items[:20], *others, *of_items[20:]]))
    assert listed == [(", ".join(f"item {number}" for number in range(34)), "8, 9"), ("age", "999")]
