"""Declaring columns: by form, by codebook, and checked without being stored."""

from __future__ import annotations

import json
import re

import pytest
from django.urls import reverse

from releases import services
from releases.engine.domain.privacy import PrivacyUnit
from releases.engine.errors import InvalidInput
from releases.models import Dataset
from releases.presentation.review.request_page import declared_columns
from tests.web.conftest import COLUMNS, CSV, give
from tests.web.pages import body, chosen, field_value, words

pytestmark = pytest.mark.django_db

#: Of a column's form.
FIELDS = ("name", "kind", "values", "outside", "catch_all", "missing_codes", "missing_rule", "missing_category")


@pytest.fixture
def fresh(alice, group, upload_file):
    """Uploaded, nothing declared."""
    return services.datasets.ingest_dataset(owner=alice, title="Survey", source=upload_file(), group=group)


@pytest.fixture
def sheet(fresh, as_, alice):
    url = reverse("columns", args=[fresh.pk])
    client = as_(alice)

    class Sheet:
        def get(self):
            return client.get(url)

        def paste(self, codebook):
            text = codebook if isinstance(codebook, str) else json.dumps(codebook)
            return client.post(url, {"codebook": text})

        def fill(self, *rows, check=False, **headers):
            """Rows of what `FIELDS` names, each as far as something is typed."""
            data = {"form-TOTAL_FORMS": len(rows), "form-INITIAL_FORMS": len(rows)}
            for position, row in enumerate(rows):
                for name, value in zip(FIELDS, (*row, *[""] * 8)[:8], strict=True):
                    data[f"form-{position}-{name}"] = value
            if check:
                data["check"] = "1"
            return client.post(url, data, **headers)

        def send(self, **columns):
            """The fields of some columns by their names."""
            names = ["person", "age", "sex"]
            data = {"form-TOTAL_FORMS": len(names), "form-INITIAL_FORMS": len(names)}
            for position, name in enumerate(names):
                fields = {"name": name, **columns.get(name, {})}
                data |= {f"form-{position}-{field}": value for field, value in fields.items()}
            return client.post(url, data)

    return Sheet()


def declared(fresh):
    return Dataset.objects.get(pk=fresh.pk).declared


AGE = ("age", "integer", "18, 25, 35, 45, 55, 65")
SEX = ("sex", "categorical", "female\nmale")


def test_every_column_of_the_table_has_a_row_and_none_is_prefilled_from_the_data(sheet):
    shown = body(sheet.get())
    for name in ("person", "age", "sex"):
        assert f'value="{name}"' in shown
    assert "female" not in shown.replace('"categories": ["female", "male"]', "")
    assert "Nothing is declared yet." in shown


def test_typed_columns_are_stored_and_lead_on_to_the_protection(sheet, fresh):
    response = sheet.fill(("person", ""), AGE, SEX)
    assert response.status_code == 302
    assert response.url == reverse("protection", args=[fresh.pk])
    assert [column["name"] for column in declared(fresh)] == ["age", "sex"]


@pytest.mark.parametrize(
    ("values", "doubt"),
    [
        ("female; male", "sex: “female; male” is one category. Write several one a line, or between commas."),
        ("female", "sex has one category, “female”: a row with any other value is left out of every count."),
    ],
)
def test_what_is_seldom_meant_is_asked_about_once_and_then_believed(sheet, fresh, as_, alice, values, doubt):
    shown = sheet.fill(AGE, ("sex", "categorical", values))
    assert shown.status_code == 200
    assert "Please confirm." in words(shown)
    assert doubt in words(shown)
    assert declared(fresh) is None
    said = {"doubts": shown.context["doubts"][0]}
    again = {"form-TOTAL_FORMS": 1, "form-INITIAL_FORMS": 1, "form-0-name": "sex", "form-0-kind": "categorical"}
    sent = as_(alice).post(reverse("columns", args=[fresh.pk]), again | said | {"form-0-values": values})
    assert sent.status_code == 302
    assert [column["name"] for column in declared(fresh)] == ["sex"]


def test_after_a_release_it_is_said_that_it_keeps_the_declaration_it_was_made_under(published, as_, alice):
    page = as_(alice).get(reverse("columns", args=[published.dataset_id]))
    assert "1 release was made under the present declaration and keeps it." in words(page)


def test_edges_may_be_given_as_a_range_with_a_step(sheet, fresh):
    sheet.fill(("age", "integer", "18 to 65 by 10"))
    assert declared(fresh)[0]["edges"] == [18, 28, 38, 48, 58, 65]


def test_categories_may_stand_on_one_line(sheet, fresh):
    sheet.fill(("sex", "categorical", "female, male"))
    assert declared(fresh)[0]["categories"] == ["female", "male"]


def test_what_was_declared_stands_in_the_form_the_next_day(sheet):
    sheet.fill(AGE, ("sex", "categorical", "female\nmale", "category", "male"))
    shown = sheet.get()
    assert field_value(shown, "form-1-values") == "18, 25, 35, 45, 55, 65"
    assert field_value(shown, "form-2-values") == "female\nmale"
    assert chosen(shown, "form-2-outside") == "category"
    assert field_value(shown, "form-2-catch_all") == "male"
    assert chosen(shown, "form-1-outside") == "clamp"
    assert "has 12 cells" in words(shown)


@pytest.mark.parametrize(
    ("declared_before", "edges", "places"),
    [
        ("4", "0, 1", 4),
        ("0", "0, 1", 0),
        ("0", "0, 0.125", 3),
        ("9", "0, 10000000", 2),
        ("x", "0, 1", 2),
        ("", "0, 1", 2),
    ],
)
def test_the_places_of_a_number_are_carried_along_where_they_fit(
    sheet, fresh, as_, alice, declared_before, edges, places
):
    data = {"form-TOTAL_FORMS": 1, "form-INITIAL_FORMS": 1, "form-0-name": "age", "form-0-kind": "number"}
    data |= {"form-0-values": edges, "form-0-decimals": declared_before}
    assert as_(alice).post(reverse("columns", args=[fresh.pk]), data).status_code == 302
    assert declared(fresh)[0]["decimals"] == places
    assert field_value(sheet.get(), "form-1-decimals") == str(places)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (("age", "integer", "18, 40, 30"), "edges: '40, 30' must rise: each edge above the one before it"),
        (("age", "integer", "18, 18, 30"), "edges: '18, 18' must rise: each edge above the one before it"),
        (("age", "integer", "18"), "edges: '18' must be at least two numbers; write edges as 18, 25, 65, bins as"),
        (("age", "integer", ""), "edges: nothing is given; must be at least two numbers"),
        (("age", "integer", "18, old"), "edges: 'old' must be a number"),
        (("age", "integer", "18.5, 30"), "must be whole numbers in an integer column"),
        (("age", "integer", "65 to 18 by 5"), "edges: '65 to 18 by 5' must go up from the first number to the second"),
        (("age", "number", "nan, 3"), "edges: 'nan' must be a finite number of ordinary size"),
        (("sex", "categorical", "female\nmale\nfemale"), "categories: 'female' is named twice"),
        (("sex", "categorical", ""), "categories: nothing is given; must be one at least"),
        (
            ("sex", "categorical", "female\nmale", "clamp"),
            "outside: 'count it in the nearest bin' is for numbers; choose to leave the row out, or to count it as",
        ),
        (
            ("sex", "categorical", "female\nmale", "category", "other"),
            "outside: 'other' must be one of the declared categories",
        ),
        (
            ("sex", "categorical", "female\nmale", "category"),
            "outside: nothing is given; must be one of the declared categories",
        ),
        (
            ("sex", "categorical", "female\ndrop", "category", "drop"),
            "outside: 'drop' cannot take the rest: the word means leaving the row out",
        ),
        (
            ("sex", "categorical", "female\nmale", "drop", "male"),
            "outside: 'male' is named together with another rule; choose to count it as a category, or empty the field",
        ),
        (
            ("age", "integer", "18, 30", "category", "other"),
            "outside: 'count it as a category' is for categories; a number is counted in the nearest bin, or its row",
        ),
        (("age", "integer", "18, 30", "other"), "outside: 'other' must be one of the rules in the menu"),
        (("age", "integer", "0-17, 19-64"), "edges: '0-17, 19-64' must meet: behind a bin of whole numbers up to 17"),
        (("age", "integer", "1,000, 2,000"), "edges: '000' must be a number without leading zeros or separators"),
        (
            ("sex", "categorical", "female\nmale", "", "", "NA, male"),
            "missing: 'male' must not be a declared category",
        ),
        (
            ("sex", "categorical", "female\nmale", "", "", "", "category", "unknown"),
            "missing: 'unknown' must be one of the declared categories",
        ),
        (
            ("sex", "categorical", "female\nmale", "", "", "", "drop", "male"),
            "missing: 'male' is named together with another rule; choose to count it as a category, or empty the field",
        ),
        (
            ("age", "integer", "18, 30", "", "", "", "category", "other"),
            "missing: 'count them as a category' is for categories; numbers have the bin “no number”",
        ),
        (("age", "integer", "18, 30", "", "", "", "other"), "missing: 'other' must be one of the rules in the menu"),
        (("age", "integer", "18, 30", "", "", "-9, -9"), "missing: '-9' is named twice"),
        (("age", "integer", "18, 30", "", "", "-9; -99"), "missing: '-9; -99' must be one code, without a comma"),
        (("=1+1", "categorical", "a, b"), "Column 1, name: '=1+1' is not a column of the table"),
        (("wage", "integer", "1, 2"), "Column 1, name: 'wage' is not a column of the table"),
    ],
)
def test_a_broken_rule_is_named_beside_the_field_and_nothing_typed_is_lost(sheet, fresh, row, message):
    response = sheet.fill(row)
    assert response.status_code == 400
    assert message in words(response)
    assert field_value(response, "form-0-values") == row[2]
    assert declared(fresh) is None


def test_declaring_nothing_is_refused(sheet, fresh):
    response = sheet.fill(("age", ""), ("sex", ""))
    assert response.status_code == 400
    assert "choose a type for at least one column" in words(response)
    assert declared(fresh) is None


def test_check_only_says_the_size_of_the_universe_and_stores_nothing(sheet, fresh):
    response = sheet.fill(AGE, SEX, check=True)
    assert "2 columns declared." in words(response)
    assert "has 12 cells" in words(response)
    assert declared(fresh) is None


def test_the_check_while_typing_is_a_fragment_with_the_same_words(sheet, fresh):
    response = sheet.fill(AGE, ("sex", "categorical", "a\na"), check=True, HTTP_HX_REQUEST="true")
    assert response.status_code == 200
    assert "<html" not in body(response)
    assert "1 problem to correct" in words(response)
    assert "categories: 'a' is named twice" in words(response)
    assert declared(fresh) is None


def test_a_codebook_declares_columns(sheet, fresh):
    response = sheet.paste({"version": 1, "columns": COLUMNS})
    assert response.status_code == 302
    assert [column["name"] for column in declared(fresh)] == ["age", "sex"]
    assert Dataset.objects.get().budget is None


def test_a_codebook_may_declare_the_protection_too(sheet):
    unit = {"kind": "person", "id": "person", "max_rows": 2}
    sheet.paste({"version": 1, "unit": unit, "neighbours": "replace", "columns": COLUMNS})
    budget = Dataset.objects.get().budget
    assert budget.unit == unit
    assert budget.neighbours == "replace"


def test_what_is_declared_can_be_copied_as_a_codebook_and_pasted_again(sheet, fresh):
    sheet.paste({"version": 1, "unit": {"kind": "row"}, "columns": COLUMNS})
    before = declared(fresh)
    codebook = field_value(sheet.get(), "codebook")
    assert json.loads(codebook)["unit"] == {"kind": "row"}
    assert sheet.paste(codebook).status_code == 302
    assert declared(fresh) == before


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "Codebook: nothing was pasted."),
        ('{"version": 1,\n "columns": [}', "The codebook is not JSON: Expecting value at line 2, column 14."),
        ("version: 1", "The codebook is neither JSON, which begins with a brace, nor a table in CSV"),
        ("nam;typ;values\n", "whose first line names its columns, such as name,type,values,outside."),
        ("[1, 2]", 'Column 1: 1 must be an object with "name" and "type"'),
        ("[]", "columns: [] must be a list with at least one column"),
        ('[{"name": "age", "type": "intger"}]', "did you mean integer?"),
        ('{"version": 1, "version": 1}', "The codebook names the field 'version' twice in one object."),
        ("[" * 100_000, "The codebook is not usable: it is nested too deeply."),
        ('{"version": ' + "1" * 5000 + "}", "The codebook holds a number of too many digits."),
        ('{"columns": []}', "Version of the codebook: nothing is given; must be 1"),
        ('{"version": 2, "columns": []}', "Version of the codebook: 2 must be 1"),
        ('{"version": 1, "columns": []}', "columns: [] must be a list with at least one column"),
        ('{"version": 1, "columns": [{"name": "wage", "type": "number", "edges": [0, 1]}]}', "Column 1, name: 'wage'"),
        ('{"version": 1, "columns": [{"name": "age", "type": "whole"}]}', "Column 1 (age), type: 'whole' must be one"),
        ('{"version": 1, "columns": [{"name": "age", "type": []}]}', "type: [] must be one of"),
        (
            '{"version": 1, "neighbours": {}, "columns": [{"name": "age", "type": "integer", "edges": [1, 2]}]}',
            "neighbours: {} must be",
        ),
        (
            '{"version": 1, "columns": [{"name": "age", "type": "integer", "edges": [18, 30, 25]}]}',
            "'30, 25' must rise",
        ),
        (
            '{"version": 1, "columns": [{"name": "age", "type": "integer", "edges": [18, 30, 30]}]}',
            "'30, 30' must rise",
        ),
        (
            '{"version": 1, "columns": [{"name": "sex", "type": "categorical", "categories": ["f", "f"]}]}',
            "named twice",
        ),
        (
            '{"version": 1, "columns": [{"name": "sex", "type": "categorical", "categories": ["f"], "colour": 1}]}',
            "Column 1 (sex), field: 'colour' is not known",
        ),
        (
            '{"version": 1, "columns": [{"name": "sex", "type": "categorical", "categories": ["f"]}, '
            '{"name": "sex", "type": "categorical", "categories": ["f"]}]}',
            "Column 2, name: 'sex' is declared twice",
        ),
        (
            '{"version": 1, "unit": {"kind": "person", "id": "household"}, '
            '"columns": [{"name": "sex", "type": "categorical", "categories": ["f"]}]}',
            "Column that tells people apart: 'household' is not a column of the table",
        ),
    ],
)
def test_a_broken_codebook_is_refused_with_the_place_and_nothing_typed_is_lost(sheet, fresh, text, message):
    response = sheet.paste(text)
    assert response.status_code == 400
    assert message in words(response)
    assert field_value(response, "codebook") == text
    assert declared(fresh) is None
    assert Dataset.objects.get().budget is None


def test_a_column_that_tells_people_apart_cannot_be_declared_as_well(make_dataset, as_, alice):
    dataset = make_dataset(unit=PrivacyUnit(kind="person", id_column="person"))
    columns = [*COLUMNS, {"name": "person", "type": "categorical", "categories": ["p1", "p2"]}]
    response = as_(alice).post(
        reverse("columns", args=[dataset.pk]), {"codebook": json.dumps({"version": 1, "columns": columns})}
    )
    assert response.status_code == 400
    assert "Column that tells people apart: 'person' is also declared as a column; an id has no bins" in words(response)
    assert as_(alice).get(reverse("dataset_detail", args=[dataset.pk])).status_code == 200


@pytest.mark.parametrize("name", ["=1+1", "＝1+1", "＋1", "－1", "＠a"])
def test_a_name_that_a_spreadsheet_would_run_cannot_head_a_column_of_a_download(alice, upload_file, as_, name):
    table = f"{name},sex\n1,f\n2,m\n".encode()
    dataset = services.datasets.ingest_dataset(owner=alice, title="Survey", source=upload_file(table))
    codebook = {"version": 1, "columns": [{"name": name, "type": "categorical", "categories": ["1"]}]}
    response = as_(alice).post(reverse("columns", args=[dataset.pk]), {"codebook": json.dumps(codebook)})
    assert response.status_code == 400
    assert f"Column 1, name: '{name}' must not begin with = + - or @" in words(response)


def wide(alice, upload_file, number):
    header = ",".join(f"c{position}" for position in range(number))
    row = ",".join("1" for _ in range(number))
    return services.datasets.ingest_dataset(
        owner=alice, title="Wide", source=upload_file(f"{header}\n{row}\n".encode())
    )


def test_a_wide_table_is_declared_by_codebook(alice, upload_file, as_):
    dataset = wide(alice, upload_file, 2000)
    url = reverse("columns", args=[dataset.pk])
    shown = as_(alice).get(url)
    assert "The table has 2,000 columns; paste a codebook" in words(shown)
    assert len(shown.content) < 20_000
    columns = [{"name": f"c{position}", "type": "integer", "edges": [0, 1, 2]} for position in range(2000)]
    response = as_(alice).post(url, {"codebook": json.dumps({"version": 1, "columns": columns})}, follow=True)
    assert response.status_code == 200
    assert "2,000 columns declared, universe of 1.15 × 10^602 cells" in words(response)


def test_a_universe_of_more_digits_than_can_be_written_is_refused(alice, upload_file, as_):
    dataset = wide(alice, upload_file, 5000)
    columns = [{"name": f"c{i}", "type": "integer", "edges": list(range(11))} for i in range(5000)]
    url = reverse("columns", args=[dataset.pk])
    response = as_(alice).post(url, {"codebook": json.dumps({"version": 1, "columns": columns})})
    assert response.status_code == 400
    assert "columns: 5000 span more cells than can be written down" in words(response)


def test_the_content_of_the_table_never_shows(sheet):
    shown = body(sheet.get()) + body(sheet.fill(("age", "integer", "3")))
    assert "p17" not in shown
    assert CSV.splitlines()[1].decode() not in shown


def test_the_menu_of_rules_says_them_in_plain_words_and_stores_the_word(sheet, fresh):
    shown = words(sheet.get())
    for rule in ("the default rule", "count it in the nearest bin", "leave the row out", "count it as a category:"):
        assert rule in shown
    sheet.fill((*AGE, "drop"), (*SEX, "category", "male"))
    assert [column["outside"] for column in declared(fresh)] == ["drop", "male"]
    sheet.fill((*AGE, "clamp"), (*SEX, "drop"))
    assert [column["outside"] for column in declared(fresh)] == ["clamp", "drop"]
    sheet.fill(AGE, SEX)
    assert [column["outside"] for column in declared(fresh)] == ["clamp", "drop"]


def test_a_rule_that_does_not_go_with_the_type_stays_chosen(sheet):
    response = sheet.fill(AGE, ("sex", "categorical", "female\nmale", "category", "others"))
    assert chosen(response, "form-1-outside") == "category"
    assert field_value(response, "form-1-catch_all") == "others"


def test_bins_by_their_ends_are_listed_before_anything_is_stored(sheet, fresh, as_, alice):
    row = ("age", "integer", "0-17, 18-64, 65-120")
    shown = sheet.fill(row)
    assert "Please confirm." in words(shown)
    said = "age: “0-17, 18-64, 65-120” is read as 3 bins: 0 to 17, 18 to 64, 65 to 120."
    assert said in words(shown)
    assert declared(fresh) is None
    data = {"form-TOTAL_FORMS": 1, "form-INITIAL_FORMS": 1, "form-0-name": "age", "form-0-kind": "integer"}
    data |= {"form-0-values": row[2], "doubts": shown.context["doubts"]}
    assert as_(alice).post(reverse("columns", args=[fresh.pk]), data).status_code == 302
    assert declared(fresh)[0]["edges"] == [0, 18, 65, 120]


def test_two_things_that_are_asked_about_are_believed_together(sheet, fresh, as_, alice):
    shown = sheet.fill(("age", "integer", "18-65"), ("sex", "categorical", "female"))
    asked = re.findall(r'<input type="hidden" name="doubts" value="([^"]*)"', body(shown))
    assert len(asked) == 2
    data = {"form-TOTAL_FORMS": 2, "form-INITIAL_FORMS": 2, "doubts": asked}
    data |= {"form-0-name": "age", "form-0-kind": "integer", "form-0-values": "18-65"}
    data |= {"form-1-name": "sex", "form-1-kind": "categorical", "form-1-values": "female"}
    assert as_(alice).post(reverse("columns", args=[fresh.pk]), data).status_code == 302


def test_the_check_lists_the_bins_and_which_of_them_hold_more(sheet):
    shown = words(sheet.fill(("age", "integer", "0, 18, 65"), check=True))
    assert "age : 2 bins: 0 to 17, 18 to 65; values below 0 are counted in the first bin (0 to 17)," in shown
    assert "values above 65 in the last (18 to 65)." in shown
    assert "counted in the first bin" not in words(sheet.fill(("age", "integer", "0, 18, 65", "drop"), check=True))
    one = words(sheet.fill(("age", "integer", "18, 65"), check=True))
    assert "1 bin: 18 to 65; values below 18 and values above 65 are counted in it too." in one


def test_a_codebook_may_be_its_list_of_columns_with_other_words_for_types(sheet, fresh):
    kinds = [("age", "Whole Number", {"edges": [18, 65]}), ("sex", "TEXT", {"categories": ["female", "male"]})]
    assert sheet.paste([{"name": name, "type": kind, **rest} for name, kind, rest in kinds]).status_code == 302
    assert [column["type"] for column in declared(fresh)] == ["integer", "categorical"]
    assert "version" not in declared(fresh)[0]


def test_bins_in_a_pasted_table_are_listed_before_anything_is_stored(sheet, fresh, as_, alice):
    text = "Variable,Kind,Levels\nage,int,18-65\nsex,category,female|male\n"
    shown = sheet.paste(text)
    assert shown.status_code == 200
    assert "age: “18-65” is read as 1 bin: 18 to 65." in words(shown)
    assert field_value(shown, "codebook") == text
    assert declared(fresh) is None
    again = {"codebook": text, "doubts": "age: “18-65” is read as 1 bin: 18 to 65."}
    assert as_(alice).post(reverse("columns", args=[fresh.pk]), again).status_code == 302
    assert [column["type"] for column in declared(fresh)] == ["integer", "categorical"]


# --- what another dataset declares ------------------------------------------------------------------------------------


def test_the_columns_are_filled_in_as_another_dataset_declares_them_and_nothing_is_stored(
    sheet, fresh, make_dataset, as_, alice
):
    other = make_dataset(content=CSV + b"one more,30,male\n")
    assert "Survey (2 of these columns)" in words(sheet.get())
    page = as_(alice).get(reverse("columns", args=[fresh.pk]), {"codebook": other.pk})
    assert "2 columns are filled in as “Survey” declares them. Nothing is stored until you declare." in words(page)
    assert chosen(page, "form-1-kind") == "integer"
    assert field_value(page, "form-1-values") == "18, 25, 35, 45, 55, 65"
    assert declared(fresh) is None
    assert "data-keep" not in body(page), "what was typed before must not come over what was asked for"


def test_only_datasets_that_share_a_column_and_that_one_may_see_are_offered(sheet, fresh, alice, upload_file, as_):
    other = services.datasets.ingest_dataset(owner=alice, title="Weather", source=upload_file(b"rain,sun\n1,2\n"))
    services.datasets.declare_universe(dataset=other, columns=[{"name": "rain", "type": "integer", "edges": [0, 9]}])
    assert "As another dataset declares them" not in words(sheet.get())
    page = as_(alice).get(reverse("columns", args=[fresh.pk]), {"codebook": other.pk})
    assert "“Weather” declares no column that this table has." in words(page)


def test_a_codebook_of_somebody_else_s_dataset_is_not_there(charlie, make_dataset, upload_file, as_):
    other = make_dataset()
    give(charlie, "curator")
    own = services.datasets.ingest_dataset(owner=charlie, title="Own", source=upload_file(CSV + b"one more,30,male\n"))
    client = as_(charlie)
    assert "As another dataset declares them" not in words(client.get(reverse("columns", args=[own.pk])))
    for named in (other.pk, "nothing", "0" * 32):
        assert client.get(reverse("columns", args=[own.pk]), {"codebook": named}).status_code == 404


def test_what_is_declared_is_downloaded_as_a_codebook_that_declares_the_same(sheet, fresh, make_dataset, as_, alice):
    other = make_dataset(content=CSV + b"one more,30,male\n")
    response = as_(alice).get(reverse("codebook_file", args=[other.pk]))
    assert response["Content-Disposition"] == 'attachment; filename="codebook.json"'
    sheet.paste(response.content.decode())
    assert [each["name"] for each in declared(fresh)] == ["age", "sex"]
    assert declared(fresh) == Dataset.objects.get(pk=other.pk).declared


def test_before_anything_is_declared_there_is_no_codebook_to_download(sheet, fresh, as_, alice):
    assert "Download what is declared" not in words(sheet.get())
    assert as_(alice).get(reverse("codebook_file", args=[fresh.pk])).status_code == 404


def test_missing_codes_are_stored_shown_again_and_copied_with_the_codebook(sheet, fresh):
    assert sheet.fill((*AGE, "", "", "-9, NA"), (*SEX, "", "", "")).status_code == 302
    assert declared(fresh)[0]["missing"] == ["-9", "NA"]
    assert "missing" not in declared(fresh)[1]
    shown = sheet.get()
    assert field_value(shown, "form-1-missing_codes") == "-9, NA"
    assert field_value(shown, "form-2-missing_codes") == ""
    copied = json.loads(field_value(shown, "codebook"))
    assert copied["columns"][0]["missing"] == ["-9", "NA"]
    sheet.paste({"version": 1, "columns": [{"name": "age", "type": "integer", "edges": [0, 9], "missing": [-99]}]})
    assert declared(fresh)[0]["missing"] == ["-99"]
    columns = [{"name": "age", "type": "integer", "edges": [0, 9], "missing": [-99]}]
    columns.append({"name": "sex", "type": "categorical", "categories": ["female", "male"]})
    sheet.paste({"version": 1, "missing": ["NA"], "columns": columns})
    assert [column["missing"] for column in declared(fresh)] == [["-99"], ["NA"]]
    shown_to_reviewers = declared_columns(Dataset.objects.get(pk=fresh.pk).universe)
    assert "missing codes: -99" in shown_to_reviewers[0].holds


def test_a_broken_missing_code_stays_typed_in_its_field(sheet):
    response = sheet.fill((*SEX, "", "", "male"))
    assert field_value(response, "form-0-missing_codes") == "male"


@pytest.mark.parametrize(
    ("codes", "doubt"),
    [
        ("99, NA", "age: 99 lies in the declared range, and is a missing code: it never counts as a number."),
        ("-9 -99", "age: “-9 -99” is one missing code. Write several between commas."),
    ],
)
def test_a_missing_code_that_is_seldom_meant_is_asked_about_once(sheet, fresh, as_, alice, codes, doubt):
    row = ("age", "integer", "0, 120", "", "", codes)
    response = sheet.fill(row)
    assert response.status_code == 200
    assert doubt in words(response)
    assert declared(fresh) is None
    sent = {"form-TOTAL_FORMS": 1, "form-INITIAL_FORMS": 1, "doubts": doubt}
    sent |= {f"form-0-{name}": value for name, value in zip(FIELDS, row, strict=False)}
    assert as_(alice).post(reverse("columns", args=[fresh.pk]), sent).status_code == 302
    assert declared(fresh)[0]["missing"] == [each.strip() for each in codes.split(",")]


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


def test_the_check_says_which_tables_a_dropped_row_is_missing_from(sheet):
    dropped = (*AGE, "", "", "", "drop")
    said = "Rows without age, sex count in no table of a release about it."
    assert said in words(sheet.fill(dropped, SEX, check=True))
    kept = ("sex", "categorical", "female\nmale", "", "", "", "category", "male")
    said = "Rows without age count in no table of a release about it."
    assert said in words(sheet.fill(dropped, kept, check=True))
    assert "Rows without" not in words(sheet.fill(AGE, kept, check=True))


def test_the_state_of_a_column_is_neither_declared_nor_asked_on_a_page(dataset, alice):
    states = [each.state.to_json() for each in dataset.universe.attributes]
    with pytest.raises(InvalidInput, match="state_of"):
        services.datasets.declare_universe(dataset=dataset, columns=states, by=alice)
    draft = services.releases.draft_release(dataset=dataset, by=alice)
    with pytest.raises(InvalidInput, match="check of the columns"):
        services.releases.set_questions(
            release=draft, workload={"version": 1, "states": True, "queries": [{"marginals": 1}]}
        )


def test_dates_are_declared_by_how_they_are_written_and_a_range(sheet, fresh):
    assert 'value="date"' in body(sheet.get())
    typed = {"kind": "date", "values": "01.02.2020 to 31.12.2024 by month", "date_format": "DD.MM.YYYY"}
    assert sheet.send(age=typed).status_code == 302
    assert declared(fresh) == [
        {"name": "age", "type": "date", "format": "DD.MM.YYYY", "first": "2020-02-01", "last": "2024-12-31"}
        | {"by": "month", "outside": "clamp", "missing_as": "no date"}
    ]
    page = sheet.get()
    assert field_value(page, "form-1-values") == "2020-02-01 to 2024-12-31 by month"
    assert '<option value="DD.MM.YYYY" selected>' in body(page)
    edges = {"kind": "datetime", "values": "2020-01-01, 2020-07-01, 2020-12-31", "date_format": "YYYY-MM-DD"}
    assert sheet.send(age={**edges, "missing_rule": "drop", "outside": "drop"}).status_code == 302
    assert declared(fresh)[0] == {
        "name": "age",
        "type": "datetime",
        "format": "YYYY-MM-DD",
        "outside": "drop",
        "edges": ["2020-01-01", "2020-07-01", "2020-12-31"],
    }


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ({"date_format": ""}, "format: nothing is given; must be chosen"),
        ({"values": ""}, "edges: nothing is given; must be a range of dates"),
        ({"values": "2020 to 2024 by month"}, "first: '2020' must be a date such as 2026-12-31"),
        ({"values": "31.02.2020 to 31.12.2024 by month"}, "first: '2020-02-31' must be a date such as 2026-12-31"),
        ({"values": "01/02/2020 to 31/12/2024 by month"}, "first: '01/02/2020' must be a date such as 2026-12-31"),
        ({"values": "01.01.2020 to 31.12.2024 by decade"}, "by: 'decade' must be one of year, quarter"),
        ({"values": "01.01.2020 to 31.12.2024 by hour"}, "by: 'hour' is for dates with a time of day"),
        ({"outside": "category", "catch_all": "x"}, "a date is counted in the nearest bin"),
        ({"missing_rule": "category", "missing_category": "x"}, "is for categories; dates have the bin “no date”"),
    ],
)
def test_what_is_wrong_with_dates_is_said_beside_them(sheet, fresh, typed, said):
    given = {"kind": "date", "values": "01.01.2020 to 31.12.2024 by year", "date_format": "DD.MM.YYYY"}
    response = sheet.send(age=given | typed)
    assert response.status_code == 400
    assert said in words(response)
    assert declared(fresh) is None
