"""Declaring columns: by form, by codebook, and checked without being stored."""

from __future__ import annotations

import json

import pytest
from django.urls import reverse

from releases import services
from releases.engine.domain.privacy import PrivacyUnit
from releases.engine.errors import InvalidInput
from releases.models import Dataset
from releases.presentation.review.request_page import declared_columns
from tests.web.conftest import COLUMNS, CSV
from tests.web.datasets.conftest import filled
from tests.web.pages import body, chosen, field_value, words

pytestmark = pytest.mark.django_db

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

        def paste(self, codebook, **more):
            text = codebook if isinstance(codebook, str) else json.dumps(codebook)
            return client.post(url, {"codebook": text, **more})

        def fill(self, *rows, headers=None, **more):
            """Rows of what `FIELDS` names, each as far as something is typed."""
            named = [dict(zip(FIELDS, (*row, *[""] * 8)[:8], strict=True)) for row in rows]
            return client.post(url, filled(*named, **more), headers=headers)

        def send(self, **fields):
            """The fields of the age."""
            return client.post(url, filled({"name": "person"}, {"name": "age", **fields}, {"name": "sex"}))

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
        (("sex", "categorical", "female"), "sex has one category, “female”"),
        (("age", "integer", "0-17, 18-64, 65-120"), "is read as 3 bins: 0 to 17, 18 to 64, 65 to 120."),
        ((*AGE, "", "", "40, NA"), "40 lies in the declared range, and is a missing code"),
        ((*AGE, "", "", "-9 -99"), "“-9 -99” is one missing code."),
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
    (("age", "integer", ""), "edges: nothing is given; must be at least two numbers"),
    (("age", "integer", "0-17, 19-64"), "edges: '0-17, 19-64' must meet"),
    (("sex", "categorical", ""), "categories: nothing is given; must be one at least"),
    ((*SEX, "clamp"), "outside: 'count it in the nearest bin' is for numbers"),
    ((*SEX, "category", "other"), "outside: 'other' must be one of the declared categories"),
    ((*SEX, "category"), "outside: nothing is given; must be one of the declared categories"),
    (("sex", "categorical", "female\ndrop", "category", "drop"), "outside: 'drop' cannot take the rest"),
    ((*SEX, "drop", "male"), "outside: 'male' is named together with another rule"),
    ((*AGE, "category", "other"), "outside: 'count it as a category' is for categories"),
    ((*AGE, "other"), "outside: 'other' must be one of the rules in the menu"),
    ((*SEX, "", "", "NA, male"), "missing: 'male' must not be a declared category"),
    ((*SEX, "", "", "", "category", "unknown"), "missing: 'unknown' must be one of the declared categories"),
    ((*SEX, "", "", "", "drop", "male"), "missing: 'male' is named together with another rule"),
    ((*AGE, "", "", "", "category", "other"), "missing: 'count them as a category' is for categories"),
    ((*AGE, "", "", "", "other"), "missing: 'other' must be one of the rules in the menu"),
    ((*AGE, "", "", "-9, -9"), "missing: '-9' is named twice"),
    ((*AGE, "", "", "-9; -99"), "missing: '-9; -99' must be one code, without a comma"),
    (("wage", "integer", "1, 2"), "Column 1, name: 'wage' is not a column of the table"),
]


def test_a_broken_rule_is_named_beside_the_field_and_nothing_typed_is_lost(sheet, fresh):
    for row, message in BROKEN_ROWS:
        response = sheet.fill(row)
        assert response.status_code == 400
        assert message in words(response)
        typed = dict(zip(FIELDS, row, strict=False))
        for field in {"values", "catch_all", "missing_codes", "missing_category"} & set(typed):
            assert field_value(response, f"form-0-{field}") == typed[field]
        if typed.get("outside") == "category":
            assert chosen(response, "form-0-outside") == "category"
        assert declared(fresh) is None


def test_a_check_stores_nothing_and_while_typing_it_is_a_fragment(sheet, fresh):
    assert "has 12 cells" in words(sheet.fill(AGE, SEX, check="1"))
    response = sheet.fill(AGE, ("sex", "categorical", "a\na"), check="1", headers={"hx-request": "true"})
    assert response.status_code == 200
    assert "<html" not in body(response)
    assert "categories: 'a' is named twice" in words(response)
    assert sheet.fill(("age", ""), ("sex", "")).status_code == 400, "nothing at all"
    assert declared(fresh) is None


def test_a_codebook_declares_columns_and_may_declare_the_protection_too(sheet, fresh):
    assert sheet.paste({"version": 1, "columns": COLUMNS}).status_code == 302
    assert [column["name"] for column in declared(fresh)] == ["age", "sex"]
    assert Dataset.objects.get().budget is None
    unit = {"kind": "person", "id": "person", "max_rows": 2}
    sheet.paste({"version": 1, "unit": unit, "neighbours": "replace", "columns": COLUMNS})
    budget = Dataset.objects.get().budget
    assert (budget.unit, budget.neighbours) == (unit, "replace")


def of_sex(**more):
    return {"version": 1, "columns": [{"name": "sex", "type": "categorical", "categories": ["f"], **more}]}


BROKEN_CODEBOOKS = [
    ("", "Codebook: nothing was pasted."),
    ('{"version": 1,\n "columns": [}', "The codebook is not JSON: Expecting value at line 2, column 14."),
    ("version: 1", "The codebook is neither JSON"),
    ("nam;typ;values\n", "whose first line names its columns"),
    ([1, 2], "Column 1: 1 must be an object"),
    ([], "columns: [] must be a list with at least one column"),
    ([{"name": "age", "type": "intger"}], "did you mean integer?"),
    ('{"version": 1, "version": 1}', "names the field 'version' twice"),
    ("[" * 100_000, "nested too deeply"),
    ('{"version": ' + "1" * 5000 + "}", "a number of too many digits"),
    ({"columns": []}, "Version of the codebook: nothing is given; must be 1"),
    (of_sex(name="wage"), "Column 1, name: 'wage'"),
    (of_sex(type=[]), "Column 1 (sex), type: [] must be one of"),
    (of_sex() | {"neighbours": {}}, "neighbours: {} must be"),
    (of_sex(colour=1), "Column 1 (sex), field: 'colour' is not known"),
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


def test_a_column_that_tells_people_apart_cannot_be_declared_as_well(make_dataset, alice):
    dataset = make_dataset(unit=PrivacyUnit(kind="person", id_column="person"))
    columns = [*COLUMNS, {"name": "person", "type": "categorical", "categories": ["p1", "p2"]}]
    with pytest.raises(InvalidInput, match="'person' is also declared as a column"):
        services.datasets.declare_universe(dataset=dataset, columns=columns, by=alice)


def test_a_name_that_a_spreadsheet_would_run_cannot_head_a_column_of_a_download(fresh):
    for name in ("=1+1", "＝1+1", "＋1", "－1", "＠a"):
        fresh.columns = [name, "sex"]
        columns = [{"name": name, "type": "categorical", "categories": ["1"]}]
        with pytest.raises(InvalidInput, match="must not begin with ="):
            services.datasets.declare_universe(dataset=fresh, columns=columns)


def test_a_universe_of_more_digits_than_can_be_written_is_refused(fresh):
    fresh.columns = [f"c{position}" for position in range(5000)]
    wide = [{"name": name, "type": "integer", "edges": list(range(11))} for name in fresh.columns]
    with pytest.raises(InvalidInput, match="columns: 5000 span more cells than can be written down"):
        services.datasets.declare_universe(dataset=fresh, columns=wide)


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


def test_what_is_declared_is_downloaded_as_a_codebook_that_declares_the_same(sheet, fresh, other, as_, alice):
    assert as_(alice).get(reverse("codebook_file", args=[fresh.pk])).status_code == 404
    response = as_(alice).get(reverse("codebook_file", args=[other.pk]))
    assert response["Content-Disposition"] == 'attachment; filename="codebook.json"'
    sheet.paste(response.content.decode())
    assert declared(fresh) == Dataset.objects.get(pk=other.pk).declared


def test_missing_codes_are_stored_shown_again_and_copied_with_the_codebook(sheet, fresh):
    assert sheet.fill((*AGE, "", "", "-9, NA"), SEX).status_code == 302
    assert declared(fresh)[0]["missing"] == ["-9", "NA"]
    assert "missing" not in declared(fresh)[1]
    shown = sheet.get()
    assert [field_value(shown, f"form-{at}-missing_codes") for at in (1, 2)] == ["-9, NA", ""]
    assert json.loads(field_value(shown, "codebook"))["columns"][0]["missing"] == ["-9", "NA"]
    columns = [{"name": "age", "type": "integer", "edges": [0, 9], "missing": [-99]}, COLUMNS[1]]
    sheet.paste({"version": 1, "missing": ["NA"], "columns": columns})
    assert [column["missing"] for column in declared(fresh)] == [["-99"], ["NA"]]
    assert "missing codes: -99" in declared_columns(Dataset.objects.get(pk=fresh.pk).universe)[0].holds


def test_missing_values_have_a_rule_of_their_own_that_is_stored_and_shown_again(sheet, fresh):
    sex = ("sex", "categorical", "female\nmale\nunknown", "", "", "NA")
    assert sheet.fill((*AGE, "", "", "", "drop"), (*sex, "category", "unknown")).status_code == 302
    assert [column.get("missing_as") for column in declared(fresh)] == [None, "unknown"]
    shown = sheet.get()
    assert chosen(shown, "form-2-missing_rule") == "category"
    assert field_value(shown, "form-2-missing_category") == "unknown"
    sheet.fill(("sex", "categorical", "female\nother", "category", "other", "", "drop"))
    assert declared(fresh)[0]["missing_as"] == "drop"
    assert chosen(sheet.get(), "form-2-missing_rule") == "drop"


def test_the_state_of_a_column_is_neither_declared_nor_asked_on_a_page(dataset, alice):
    states = [each.state.to_json() for each in dataset.universe.attributes]
    with pytest.raises(InvalidInput, match="state_of"):
        services.datasets.declare_universe(dataset=dataset, columns=states, by=alice)
    draft = services.releases.draft_release(dataset=dataset, by=alice)
    asked = {"version": 1, "states": True, "queries": [{"marginals": 1}]}
    with pytest.raises(InvalidInput, match="check of the columns"):
        services.releases.set_questions(release=draft, workload=asked)


def test_dates_are_declared_by_how_they_are_written_and_a_range(sheet, fresh):
    assert 'value="date"' in body(sheet.get())
    typed = {"kind": "date", "values": "01.02.2020 to 31.12.2024 by month", "date_format": "DD.MM.YYYY"}
    assert sheet.send(**typed).status_code == 302
    assert declared(fresh) == [
        {"name": "age", "type": "date", "format": "DD.MM.YYYY", "first": "2020-02-01", "last": "2024-12-31"}
        | {"by": "month", "outside": "clamp", "missing_as": "no date"}
    ]
    page = sheet.get()
    assert field_value(page, "form-1-values") == "2020-02-01 to 2024-12-31 by month"
    assert '<option value="DD.MM.YYYY" selected>' in body(page)
    days = ["2020-01-01", "2020-07-01", "2020-12-31"]
    typed = {"kind": "datetime", "values": ", ".join(days), "date_format": "YYYY-MM-DD", "outside": "drop"}
    typed["zone"] = "Europe/Berlin"
    assert sheet.send(**typed, missing_rule="drop").status_code == 302
    assert field_value(sheet.get(), "form-1-zone") == typed["zone"]
    stored = {"name": "age", "type": "datetime", "format": "YYYY-MM-DD", "outside": "drop", "edges": days}
    stored["zone"] = typed["zone"]
    assert declared(fresh)[0] == stored


WRONG_DATES = [
    ({"date_format": ""}, "format: nothing is given; must be chosen"),
    ({"values": ""}, "edges: nothing is given; must be a range of dates"),
    ({"values": "31.02.2020 to 31.12.2024 by month"}, "first: '2020-02-31' must be a date"),
    ({"values": "01/02/2020 to 31/12/2024 by month"}, "first: '01/02/2020' must be a date"),
    ({"values": "01.01.2020 to 31.12.2024 by decade"}, "by: 'decade' must be one of year, quarter"),
    ({"values": "01.01.2020 to 31.12.2024 by hour"}, "by: 'hour' is for dates with a time of day"),
    ({"zone": "Berlin"}, "zone: 'Berlin' must be a time zone of the IANA database"),
    ({"zone": "Europe/Berlin"}, "zone: 'Europe/Berlin' is for dates with a time of day"),
    ({"kind": "datetime", "zone": "Europe/Berlin"}, "is for dates written YYYY-MM-DD"),
    ({"outside": "category", "catch_all": "x"}, "a date is counted in the nearest bin"),
    ({"missing_rule": "category", "missing_category": "x"}, "is for categories"),
]


def test_what_is_wrong_with_dates_is_said_beside_them(sheet, fresh):
    for typed, said in WRONG_DATES:
        given = {"kind": "date", "values": "01.01.2020 to 31.12.2024 by year", "date_format": "DD.MM.YYYY"}
        response = sheet.send(**given | typed)
        assert response.status_code == 400
        assert said in words(response)
        assert declared(fresh) is None
