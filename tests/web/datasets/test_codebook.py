"""The codebook in CSV: the same columns as in JSON, and mistakes named by line and field."""

from __future__ import annotations

import csv
import io
import json
import re
from contextlib import suppress
from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import pairwise

import pytest
from django.urls import reverse
from hypothesis import given
from hypothesis import strategies as st

from releases.engine.domain.universe import Attribute, AttributeKind, Schema, Universe, plain
from releases.engine.errors import InvalidInput
from releases.schema.bin_edges import edges_from_text
from releases.schema.codebook_csv import codebook_from_csv
from releases.schema.descriptions import apart
from releases.schema.metadata_codebooks import read_other
from releases.schema.standard_codebooks import from_standard, is_standard, to_standard
from tests.web.pages import field_value, words

GOOD = """name,type,categories or edges,outside,decimals
sex,categorical,female|male,drop,
"age",integer,"18, 25, 35, 65",clamp,

income,number,0 to 100 in 4 bins,,1
region,categorical,"north
south, east",,
"""


def test_every_kind_of_column_is_read_as_it_is_meant():
    columns = codebook_from_csv(GOOD)["columns"]
    assert columns == [
        {"name": "sex", "type": "categorical", "categories": ["female", "male"], "outside": "drop"},
        {"name": "age", "type": "integer", "edges": [18, 25, 35, 65], "outside": "clamp"},
        {"name": "income", "type": "number", "edges": [0, 25, 50, 75, 100], "outside": "clamp", "decimals": 1},
        {"name": "region", "type": "categorical", "categories": ["north", "south, east"], "outside": "drop"},
    ]


WORD = st.text(alphabet=st.characters(codec="utf-8", categories=("L", "N", "P", "S")), min_size=1, max_size=8)
CODES = st.lists(WORD.filter(lambda word: not set(word) & set(",;|")), max_size=3, unique=True)


@st.composite
def attributes(draw, name):
    kind = draw(st.sampled_from(list(AttributeKind)))
    if kind is AttributeKind.CATEGORICAL:
        # Two at least: a single one with a comma in it would read as a list.
        categories = tuple(draw(st.lists(WORD, min_size=2, max_size=5, unique=True)))
        rules = {"outside": draw(st.sampled_from(["drop", *categories]))}
        rules["missing"] = tuple(each for each in draw(CODES) if each not in categories)
        rules["missing_as"] = draw(st.sampled_from(["", "drop", *categories]))
        return Attribute(name=name, kind=kind, categories=categories, **rules)
    if kind.is_of_dates:
        return draw(attributes_of_dates(name, kind))
    places = 0 if kind is AttributeKind.INTEGER else draw(st.integers(0, 3))
    whole = draw(st.lists(st.integers(-(10**6), 10**6), min_size=2, max_size=6, unique=True))
    edges = tuple(Decimal(each).scaleb(-places) for each in sorted(whole))
    rules = {"outside": draw(st.sampled_from(["clamp", "drop"])), "missing": tuple(draw(CODES))}
    return Attribute(name=name, kind=kind, edges=edges, missing_as=draw(st.sampled_from(["", "no number"])), **rules)


@st.composite
def attributes_of_dates(draw, name, kind):
    described = {"name": name, "type": kind.value, "format": draw(st.sampled_from(DATE_FORMS))}
    if kind is AttributeKind.DATETIME and described["format"] == DATE_FORMS[0]:
        described |= draw(st.sampled_from([{}, {"zone": "America/St_Johns"}]))
    days = sorted(draw(st.lists(st.dates(), min_size=2, max_size=6, unique=True)))
    if draw(st.booleans()):
        described["edges"] = [day.isoformat() for day in days]
        groups = "edges"
    else:
        groups = draw(st.sampled_from(["year", "quarter", "month", "weekday", "hour"]))
        groups = "year" if groups == "hour" and kind is AttributeKind.DATE else groups
        first = min(days[0], date(9900, 1, 1))
        last = min(max(days[-1], first + timedelta(days=6)), first + timedelta(days=30_000))
        described |= {"first": first.isoformat(), "last": last.isoformat(), "by": groups}
    is_ordered = groups not in ("weekday", "hour")
    described["outside"] = draw(st.sampled_from(["clamp", "drop"] if is_ordered else ["drop"]))
    described |= {"missing": draw(CODES), "missing_as": draw(st.sampled_from(["", "no date"]))}
    return Attribute.from_json(described)


DATE_FORMS = ("YYYY-MM-DD", "DD.MM.YYYY", "DD/MM/YYYY", "MM/DD/YYYY", "DD-MM-YYYY", "YYYY/MM/DD", "YYYYMMDD")


def as_typed(attribute, described):
    """What a person would type."""
    if not attribute.kind.is_of_dates:
        return "\n".join(attribute.categories) or ", ".join(plain(edge) for edge in attribute.edges)
    if "edges" in described:
        return ", ".join(described["edges"])
    return f"{described['first']} to {described['last']} by {described['by']}"


@given(st.data(), st.lists(WORD, min_size=1, max_size=4, unique=True))
def test_what_is_written_line_by_line_is_read_back_the_same(data, names):
    declared = [data.draw(attributes(name)) for name in names]
    written = io.StringIO()
    writer = csv.writer(written)
    writer.writerow(["name", "type", "values", "outside", "missing", "missing_as", "decimals", "format", "time zone"])
    for each in declared:
        described = each.to_json()
        decimals = each.decimals if each.kind is AttributeKind.NUMBER else ""
        rules = [each.outside, "|".join(each.missing), each.missing_as, decimals]
        rules += [described.get("format", ""), described.get("zone", "")]
        writer.writerow([each.name, each.kind.value, as_typed(each, described), *rules])
    assert Schema.from_json(codebook_from_csv(written.getvalue())).universe.attributes == tuple(declared)


@given(st.integers(-1000, 1000), st.integers(1, 1000), st.integers(1, 200))
def test_equal_bins_are_equal_or_refused(low, width, bins):
    rest = bins
    for prime in (2, 5):
        while rest % prime == 0:
            rest //= prime
    text = f"{low} to {low + width} in {bins} bins"
    if width % rest:
        # Its width has no end in decimals.
        with pytest.raises(InvalidInput, match="cannot be cut into so many bins of exactly equal width"):
            edges_from_text(text)
        return
    edges = edges_from_text(text)
    assert (edges[0], edges[-1], len(edges)) == (low, low + width, bins + 1)
    assert {upper - lower for lower, upper in pairwise(edges)} == {Decimal(width) / bins}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name,type,values,colour\n", "line 1: 'colour' is not a known head"),
        ("name,type\nage,integer\n", "line 1: 'name, type' must have a column for categories or edges"),
        ("name,type,edges,values\n", "line 1: 'edges, values' say the same"),
        ("name,type,values\nage,integer,18\n", "line 2 (age).edges: '18' must be at least two numbers"),
        ("name,type,values\nage,whole,18|20\n", "line 2 (age).type: 'whole' must be one of"),
        ("name,type,values\n,integer,18|20\n", "line 2.name: '' must be printable text"),
        ("name,type,values\nage,integer,18|x\n", "line 2 (age).edges: 'x' must be a number"),
        ('name,type,values\na,integer,"1\n2"\nb,integer,3|2\n', "line 4 (b).edges: '3, 2' must rise"),
        ("name,type,values\na,integer,1|2\na,integer,1|2\n", "line 3.name: 'a' is declared twice, first in line 2"),
        ("name,type,values,outside\nsex,categorical,f|m,other\n", "line 2 (sex).outside: 'other' must be"),
        ("name,type,values,decimals\na,number,0|1,two\n", "line 2 (a).decimals: 'two' must be a whole number"),
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


@pytest.mark.django_db
def test_a_pasted_table_declares_the_columns_or_says_where_it_is_wrong(paste):
    wrong = "name,type,values\nage,integer,18|17\n"
    response, _ = paste(wrong)
    assert response.status_code == 400
    assert "Line 2 (age), edges: '18, 17' must rise" in words(response)
    assert field_value(response, "codebook") == wrong
    response, dataset = paste("name,type,values\nage,integer,18 to 68 by 10\nsex,categorical,female|male\n")
    assert response.status_code == 302
    assert [each["name"] for each in dataset.declared] == ["age", "sex"]


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


@pytest.mark.django_db
@pytest.mark.parametrize("pasted", [FRICTIONLESS, {"resources": [{"schema": FRICTIONLESS}]}, CSVW])
def test_a_codebook_in_a_format_that_others_write_is_declared_once_what_was_chosen_is_confirmed(paste, pasted):
    shown, dataset = paste(json.dumps(pasted))
    chosen = shown.context["codebook"].readings
    assert chosen == [
        CONFIRMED,
        "age: bins were chosen between 0 and 120.",
        "Not declared, for neither their values nor their ends are given: person.",
    ]
    assert dataset.declared is None
    sent, dataset = paste(json.dumps(pasted), doubts=chosen)
    assert sent.status_code == 302
    assert dataset.universe["sex"].categories == ("female", "male")
    ages = (*(f"{low} to {low + 11}" for low in range(0, 108, 12)), "108 to 120", "no number")
    assert dataset.universe["age"].labels == ages
    assert [each.missing for each in dataset.universe.attributes] == [("NA",), ("-9",)]


@pytest.mark.parametrize("written", ["frictionless", "csvw"])
@given(data=st.data(), names=st.lists(WORD, min_size=1, max_size=4, unique=True))
def test_what_is_written_for_others_is_read_back_the_same_and_says_it_in_their_words(written, data, names):
    universe = Universe(attributes=tuple(data.draw(attributes(name)) for name in names))
    told = json.loads(json.dumps(to_standard(universe, {names[0]: {"description": "What it is"}}, written=written)))
    read, decided = from_standard(told)
    assert decided == []
    assert read["columns"][0].pop("description") == "What it is"
    assert Schema.from_json(read).universe == universe
    columns = told["fields"] if written == "frictionless" else told["tableSchema"]["columns"]
    for column, attribute in zip(columns, universe.attributes, strict=True):
        del column["dpweb:column"]
        said = column.get("constraints", column.get("datatype"))
        if attribute.is_numeric:
            ends = [Decimal(str(said[end])) for end in ("minimum", "maximum")]
            assert ends == [attribute.edges[0], attribute.edges[-1]]
        elif attribute.kind.is_of_dates:
            check_dates_of_others(column, said, attribute, written)
        elif written == "frictionless":
            assert said == {"enum": list(attribute.categories)}


def check_dates_of_others(column, said, attribute, written):
    """Python reads what was written as Python's own pattern; of CSVW by Unicode's letters for the same."""
    described = attribute.to_json()
    edges = described.get("edges") or [described["first"], described["last"]]
    pattern = column["format"] if written == "frictionless" else column["datatype"]["format"]
    for letters, part in {"yyyy": "%Y", "dd": "%d", "mm": "%M", "HH": "%H", "ss": "%S"}.items():
        pattern = pattern.replace(letters, part)
    pattern = pattern if written == "frictionless" else pattern.replace("MM", "%m")
    ends = [datetime.strptime(said[end], pattern).date().isoformat() for end in ("minimum", "maximum")]
    assert ends == [edges[0], edges[-1]]


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (
            {"type": "date", "format": "%d.%m.%Y", "constraints": {"minimum": "01.03.2020", "maximum": "31.12.2024"}},
            {"type": "date", "format": "DD.MM.YYYY", "first": "2020-03-01", "last": "2024-12-31", "by": "month"},
        ),
        (
            {"type": "datetime", "constraints": {"minimum": "1990-01-01T00:00:00", "maximum": "2024-12-31T23:59:59"}},
            {"type": "datetime", "format": "YYYY-MM-DD", "first": "1990-01-01", "last": "2024-12-31", "by": "year"},
        ),
        (
            {"datatype": {"base": "date", "format": "d.M.yyyy", "minimum": "2020-03-01", "maximum": "2020-12-31"}},
            {"type": "date", "format": "DD.MM.YYYY", "first": "2020-03-01", "last": "2020-12-31", "by": "month"},
        ),
        ({"type": "date", "format": "%d %B %Y", "constraints": {"minimum": "a", "maximum": "b"}}, None),
        ({"type": "date"}, None),
    ],
)
def test_dates_of_others_are_declared_by_month_or_by_year(column, expected):
    columns = [{"name": "admitted", **column}]
    pasted = {"tableSchema": {"columns": columns}} if "datatype" in column else {"fields": columns}
    read, decided = from_standard(pasted)
    if expected is None:
        assert (read["columns"], len(decided)) == ([], 1)
    else:
        assert read["columns"] == [{"name": "admitted", **expected, "missing_as": "no date"}]
        assert decided == [
            CONFIRMED,
            f"admitted: bins by {expected['by']} were chosen from {expected['first']} to {expected['last']}.",
        ]


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ({"name": "day", "type": "date", "constraints": {"minimum": "x1", "maximum": "2024-01-01"}}, "(day).minimum"),
        ({"name": "age", "type": "integer", "constraints": {"minimum": 9, "maximum": 1}}, "(age).maximum"),
        ({"name": "age", "type": "number", "constraints": {"minimum": "x", "maximum": 1}}, "(age).minimum"),
        ({"type": "integer"}, "columns[0].name"),
    ],
)
def test_what_cannot_be_read_of_others_is_refused_by_its_column_and_field(field, message):
    with pytest.raises(InvalidInput) as refusal:
        from_standard({"fields": [field]})
    assert message in refusal.value.field
    with pytest.raises(InvalidInput, match="one table"):
        is_standard({"resources": [{"schema": FRICTIONLESS}] * 2})


#: Anything that JSON can hold, often under the names that the formats have.
NAMED = st.sampled_from(
    [
        *("fields", "columns", "tableSchema", "schema", "resources", "tables", "name", "type", "datatype", "base"),
        *("constraints", "enum", "minimum", "maximum", "format", "null", "missingValues", "categories", "value"),
        *("dpweb:column", "description", "titles"),
    ]
)
HELD = st.sampled_from(["integer", "number", "string", "boolean", "a|b", "1e400", "9" * 400, "age"])
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | HELD,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMED, inner, max_size=5),
    max_leaves=25,
)


@given(column=st.dictionaries(NAMED, ANYTHING, max_size=6), name=st.just("age") | ANYTHING, others=ANYTHING)
def test_whatever_is_pasted_is_read_or_refused_by_its_field(column, name, others):
    column = {**column, "name": name}
    for pasted in (
        {"fields": [column], "missingValues": others},
        {"tableSchema": {"columns": [column], "null": others}},
        {"resources": [{"schema": others}]},
        others,
    ):
        # Any other exception than a refusal fails the test.
        with suppress(InvalidInput):
            if is_standard(pasted):
                Schema.from_json(apart(from_standard(pasted)[0]).schema)


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
    assert sex == {"name": "sex", "type": "categorical", "categories": ["1", "2"], "missing": ["9"]}
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
    assert others in ({"married": ("true", "false")}, {"sex": ("f", "m"), "city": ("a", "b")})


def test_a_row_is_protected_where_the_metadata_say_so():
    declared, _ = from_standard(read_other(SMARTNOISE.replace("max_ids: 3", "row_privacy: true")))
    assert declared["unit"] == {"kind": "row"}


@pytest.mark.parametrize(
    ("pasted", "field", "rule"),
    [
        ("<codeBook><var/>", "codebook", "must be XML"),
        ("<html></html>", "codebook", "must be a codeBook of DDI with variables (var)"),
        ('<!DOCTYPE x [<!ENTITY a "b">]><codeBook/>', "codebook", "must be XML without a document type"),
        (DDI.replace('name="age" files="F1"', 'name="age" files="F2"'), "codebook", "must be about one file of data"),
        (DDI.replace(' name="age"', ""), "columns[1].name", "must be text"),
        (DDI.replace('max="120"', 'max="old"'), "columns[1] (age).maximum", "must be a number"),
        ("a:\n  b:\n    c: &x {type: int}\n    d: *x\n", "codebook", "must be YAML without aliases"),
        ("a:\n" + "  b:\n" * 30_000, "codebook", "must be YAML of at most 100,000"),
        ("a:\n  b: {}\n  b: {}\n", "codebook", "must be YAML without aliases, each name once"),
        ("a:\n  b: {t: {}, u: {}}\n", "codebook", "must hold one database, one schema, one table"),
        (SMARTNOISE.replace("{type: boolean}", "yes"), "married", "must be a column with its type"),
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
