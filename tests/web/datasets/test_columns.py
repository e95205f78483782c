"""Declaring columns: by form, by codebook, and checked without being stored."""

import json

import pytest
from django.urls import reverse

from releases import services
from releases.engine.errors import InvalidInput
from releases.models import Dataset
from tests.web.conftest import COLUMNS, CSV
from tests.web.datasets.conftest import filled
from tests.web.pages import body, chosen, field_value, words

#: Of a column's form.
FIELDS = ("name", "kind", "values", "outside", "catch_all", "missing_codes", "missing_rule", "missing_category")
AGE = ("age", "integer", "18, 25, 35, 45, 55, 65")
SEX = ("sex", "categorical", "female\nmale")


@pytest.fixture
def sheet(fresh, as_, alice):
    url, client = reverse("columns", args=[fresh.pk]), as_(alice)

    class Sheet:
        def get(self, **asked):
            return client.get(url, asked)

        def paste(self, codebook, *, follow=False, **more):
            text = codebook if isinstance(codebook, str) else json.dumps(codebook)
            return client.post(url, {"codebook": text, **more}, follow=follow)

        def fill(self, *rows, headers=None, **more):
            """Rows of what `FIELDS` names, each as far as something is typed."""
            named = [dict(zip(FIELDS, (*row, *[""] * 8)[:8], strict=True)) for row in rows]
            return client.post(url, filled(*named, **more), headers=headers)

    return Sheet()


def declared(fresh):
    return Dataset.objects.get(pk=fresh.pk).declared


def test_every_column_of_the_table_has_a_row_and_none_is_prefilled_from_the_data(sheet):
    shown = sheet.get()
    assert [field_value(shown, f"form-{at}-name") for at in range(3)] == ["person", "age", "sex"]
    for page in (body(shown), body(sheet.fill(("age", "integer", "3")))):
        assert "female" not in page.replace('"categories": ["female", "male"]', "")
        assert "p17" not in page
        assert CSV.splitlines()[1].decode() not in page


@pytest.mark.parametrize(
    ("row", "doubt"),
    [
        (("sex", "categorical", "female; male"), "“female; male” is one category."),
        (("age", "integer", "0-17, 18-64, 65-120"), "is read as 3 bins: 0 to 17, 18 to 64, 65 to 120."),
        (("age", "integer", "<18 (0), 18-64, 65+ (95)"), "is read as 3 bins: <18, 18 to 64, 65+."),
        (
            ("age", "integer", "1, 2, 3, 4"),
            "3 and 4 are counted together, in the last bin. Where each is to",
        ),
        (("age", "integer", "1 to 3 by 1"), "2 and 3 are counted together, in the last bin."),
        (("age", "number", "0, 1.000, 30.000"), "“0, 1.000, 30.000” is read as 2 bins: [0, 1), [1, 30]."),
        ((*AGE, "", "", "40, NA"), "40 lies in the declared range, and is a missing code"),
    ],
)
def test_what_is_seldom_meant_is_asked_about_once_and_then_believed(sheet, fresh, row, doubt):
    shown = sheet.fill(row)
    assert shown.status_code == 200
    assert doubt in shown.context["doubts"][0]
    assert declared(fresh) is None
    assert sheet.fill(row, doubts=shown.context["doubts"]).status_code == 302
    assert [column["name"] for column in declared(fresh)] == [row[0]]


BROKEN_ROWS = [
    (("age", "integer", "18, 18, 30"), "edges: '18, 18' must rise"),
    ((*SEX, "clamp"), "outside: 'count it in the nearest bin' is for numbers"),
    ((*SEX, "category", "other"), "outside: 'other' must be one of the declared categories"),
    ((*SEX, "", "", "NA, male"), "missing: 'male' must not be a declared category"),
    ((*AGE, "", "", "-9, -9"), "missing: '-9' is named twice"),
    (("wage", "integer", "1, 20"), "Column 1, name: 'wage' is not a column of the table"),
]


def test_a_broken_rule_is_named_beside_the_field_and_nothing_typed_is_lost(sheet, fresh):
    for row, message in BROKEN_ROWS:
        response = sheet.fill(row)
        assert response.status_code == 400
        assert message in words(response)
        typed = dict(zip(FIELDS, row, strict=False))
        for field in {"values", "catch_all", "missing_codes", "missing_category"} & set(typed):
            assert field_value(response, f"form-0-{field}") == typed[field]
        assert declared(fresh) is None


def test_a_codebook_declares_columns_and_may_declare_the_protection_too(sheet, fresh):
    assert sheet.paste("name,type,values\nage,integer,18 to 68 by 10\nsex,categorical,female|male\n").status_code == 302
    assert [column["name"] for column in declared(fresh)] == ["age", "sex"]
    assert Dataset.objects.get().budget is None
    unit = {"kind": "person", "id": "person", "max_rows": 2}
    sheet.paste({"version": 1, "unit": unit, "neighbours": "replace", "columns": COLUMNS})
    budget = Dataset.objects.get().budget
    assert (budget.unit, budget.neighbours) == (unit, "replace")


def as_shown(page, row):
    """What the page has in the fields of a row, as a browser would send it."""
    menus = ("kind", "outside", "missing_rule")
    read = {field: (chosen if field in menus else field_value)(page, f"form-{row}-{field}") for field in FIELDS}
    return [read[field] or "" for field in FIELDS]


def test_a_new_column_has_a_bin_for_missing_values_and_one_declared_before_keeps_its_rule(sheet, fresh):
    shown = sheet.get()
    assert {chosen(shown, f"form-{row}-missing_rule") for row in range(4)} == {"bin"}
    sheet.fill((*SEX, "", "", "NA", "bin"), (*AGE, "", "", "", "bin"))
    sex, age = declared(fresh)
    assert (sex["categories"], sex["missing_as"]) == (["female", "male", "no value"], "no value")
    assert age["missing_as"] == "no number"
    rules = [{}, {"missing_as": "drop"}, {"missing_as": "male"}, {"outside": "female"}, {"missing_as": "no value"}]
    several = [of_sex(categories=["female", "no value", "male"], **more) for more in rules]
    # The bin for missing values as the last category, and as the only one.
    several += [of_sex(categories=listed, missing_as="no value") for listed in (["f", "no value"], ["no value"])]
    ages = [
        {"name": "age", "type": "integer", "edges": [0, 50, 99], **more} for more in ({}, {"missing_as": "no number"})
    ]
    for codebook in [*several, *({"version": 1, "columns": [each]} for each in ages)]:
        sheet.paste(codebook)
        before = declared(fresh)
        place = ["person", "age", "sex"].index(before[0]["name"])
        row = as_shown(sheet.get(), place)
        response = sheet.fill(row)
        if response.status_code == 200:
            response = sheet.fill(row, doubts=response.context["doubts"])
        assert response.status_code == 302, codebook
        assert declared(fresh) == before, codebook


def test_the_page_and_the_message_say_which_rows_are_left_out_of_which_tables(sheet):
    said = "Left out of every table of a release about these columns: "
    page = sheet.paste(of_sex(), follow=True)
    assert said + "rows without a value of sex; rows with another value than declared of sex." in words(page)
    shown = words(sheet.fill((*AGE, "", "", "", "drop"), (*SEX, "", "", "", "bin"), check="1"))
    assert said + "rows without a value of age; rows with another value than declared of sex." in shown
    assert "Left out" not in words(sheet.fill((*AGE, "", "", "", "bin"), check="1"))


def of_sex(**more):
    return {"version": 1, "columns": [{"name": "sex", "type": "categorical", "categories": ["f"], **more}]}


BROKEN_CODEBOOKS = [
    ("name,type,values\nage,integer,18|17\n", "Line 2 (age), edges: '18, 17' must rise"),
    ('{"version": 1,\n "columns": [}', "The codebook is not JSON: Expecting value at line 2, column 14."),
    ([{"name": "age", "type": "intger"}], "did you mean integer?"),
    ('{"version": 1, "version": 1}', "names the field 'version' twice"),
    ("[" * 100_000, "nested too deeply"),
    (of_sex() | {"unit": {"kind": "person", "id": "household"}}, "tells people apart: 'household' is not a column"),
]


def test_a_broken_codebook_is_refused_with_the_place_and_nothing_typed_is_lost(sheet, fresh):
    for codebook, message in BROKEN_CODEBOOKS:
        text = codebook if isinstance(codebook, str) else json.dumps(codebook)
        response = sheet.paste(text)
        assert response.status_code == 400
        assert message in words(response)
        assert field_value(response, "codebook") == text
        assert declared(fresh) is None
        assert Dataset.objects.get().budget is None


def test_a_name_that_a_spreadsheet_would_run_cannot_head_a_column_of_a_download(fresh):
    for name in ("=1+1", "＠a"):
        fresh.columns = [name, "sex"]
        columns = [{"name": name, "type": "categorical", "categories": ["1"]}]
        with pytest.raises(InvalidInput, match="must not begin with ="):
            services.datasets.declare_universe(dataset=fresh, columns=columns)


# --- what another dataset declares ------------------------------------------------------------------------------------


@pytest.fixture
def other(make_dataset):
    """Another table of the same columns, which are declared."""
    return make_dataset(content=CSV + b"one more,30,male\n")


def test_a_codebook_of_somebody_else_s_dataset_is_not_there(charlie, other, ingest, as_):
    page = reverse("columns", args=[ingest(owner=charlie).pk])
    assert str(other.pk) not in body(as_(charlie).get(page))
    for named in (other.pk, "nothing", "0" * 32):
        assert as_(charlie).get(page, {"codebook": named}).status_code == 404


def test_the_state_of_a_column_is_not_declared(dataset, alice):
    states = [each.state.to_json() for each in dataset.universe.attributes]
    with pytest.raises(InvalidInput, match="state_of"):
        services.datasets.declare_universe(dataset=dataset, columns=states, by=alice)
