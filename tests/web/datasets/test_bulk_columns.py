"""Many columns at once: set for those that are ticked, filled in from a spreadsheet, opened one at a time."""

from __future__ import annotations

import csv
import io
import re

import pytest
from django.urls import reverse
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from releases import services
from releases.models import AuditEvent, Dataset
from tests.web.pages import body, chosen, field_value, inline_code, words

pytestmark = pytest.mark.django_db

NAMES = ["person", "age", "sex", "wage"]
FIELDS = ("kind", "date_format", "values", "outside", "catch_all", "missing_codes", "missing_rule", "missing_category")
NOTHING = dict.fromkeys((f"several-{field}" for field in FIELDS), "")


def table(alice, group, upload_file, names):
    content = f"{','.join(names)}\n{','.join('1' for _ in names)}\n".encode()
    return services.datasets.ingest_dataset(owner=alice, title="Survey", source=upload_file(content), group=group)


@pytest.fixture
def fresh(alice, group, upload_file):
    return table(alice, group, upload_file, NAMES)


@pytest.fixture
def wide(alice, group, upload_file):
    return table(alice, group, upload_file, [f"item_{i}" for i in range(60)])


@pytest.fixture
def send(as_, alice):
    """Press a button of the page of a dataset's columns, with what is typed of some of them."""
    client = as_(alice)

    def press(dataset, typed=None, **more):
        names = [*dataset.columns, ""]
        data = {"form-TOTAL_FORMS": len(names), "form-INITIAL_FORMS": len(names), "pasted-block": ""}
        for position, name in enumerate(names):
            fields = {"name": name, **(typed or {}).get(name, {})} if name else {"made": "1"}
            data |= {f"form-{position}-{field}": value for field, value in fields.items()}
        return client.post(reverse("columns", args=[dataset.pk]), data | NOTHING | more)

    return press


def several(send, dataset, typed=None, ticked=(), **chosen):
    fields = {f"several-{field}": value for field, value in chosen.items()}
    return send(dataset, typed, several="1", **fields, **{"several-ticked": list(ticked)})


def kind(page, position):
    """The chosen type of a column; empty where it is left out."""
    menu = re.search(rf'<select[^>]*\bname="form-{position}-kind".*?</select>', body(page), flags=re.DOTALL)
    return re.search(r'<option value="([^"]*)" selected', menu[0])[1]


def is_untouched(dataset):
    return Dataset.objects.get(pk=dataset.pk).declared is None and not AuditEvent.objects.filter(action="declare")


def test_what_is_chosen_is_filled_in_for_the_ticked_columns_and_nothing_is_stored(send, fresh):
    typed = {"wage": {"kind": "number", "values": "0 to 9 by 3"}, "age": {"description": "at the interview"}}
    page = several(
        send, fresh, typed, ["age", "sex"], kind="categorical", values="Yes\nNo", outside="drop", missing_codes="-9"
    )
    assert page.status_code == 200
    assert inline_code(page) == []
    assert "Filled in for 2 columns: age, sex. Nothing is stored until you declare." in words(page)
    for position in (1, 2):
        assert kind(page, position) == "categorical"
        assert field_value(page, f"form-{position}-values") == "Yes\nNo"
        assert chosen(page, f"form-{position}-outside") == "drop"
        assert field_value(page, f"form-{position}-missing_codes") == "-9"
    assert field_value(page, "form-1-description") == "at the interview"
    assert (kind(page, 0), kind(page, 3), field_value(page, "form-3-values")) == ("", "number", "0 to 9 by 3")
    assert re.findall(r'name="several-ticked" value="(\w+)"[^>]*\bchecked', body(page)) == ["age", "sex"]
    assert is_untouched(fresh)


def test_all_columns_can_be_meant_without_ticking_them_and_be_declared_next(send, fresh):
    page = several(send, fresh, every="on", kind="categorical", values="1, 2")
    assert [kind(page, position) for position in range(4)] == ["categorical"] * 4
    typed = {
        name: {"kind": kind(page, at), "values": field_value(page, f"form-{at}-values")}
        for at, name in enumerate(NAMES)
    }
    assert send(fresh, typed).status_code == 302
    assert [each["categories"] for each in Dataset.objects.get(pk=fresh.pk).declared] == [["1", "2"]] * 4


def test_a_type_and_a_rule_can_be_taken_away_again(send, fresh):
    typed = {"sex": {"kind": "categorical", "values": "f\nm\nx", "outside": "category", "catch_all": "x"}}
    page = several(send, fresh, typed, ["sex"], outside="default")
    assert chosen_or_none(page, "form-2-outside") == ""
    assert field_value(page, "form-2-catch_all") == ""
    page = several(send, fresh, typed, ["sex"], kind="leave-out")
    assert kind(page, 2) == ""
    assert field_value(page, "form-2-values") == "f\nm\nx"


def chosen_or_none(page, name):
    menu = re.search(rf'<select[^>]*\bname="{name}".*?</select>', body(page), flags=re.DOTALL)
    return re.search(r'<option value="([^"]*)" selected', menu[0])[1]


SEX = {"sex": {"kind": "categorical", "values": "f\nm"}}


@pytest.mark.parametrize(
    ("ticked", "fields", "said"),
    [
        (["sex"], {}, "Type and the other fields: nothing is chosen; choose what to fill in"),
        ([], {"kind": "number"}, "Columns: nothing is ticked; tick the columns to fill in, or all of them"),
        (["wages"], {"kind": "number"}, "Columns: nothing is ticked"),
        (["sex"], {"kind": "prime"}, "Type: 'prime' must be one of the choices in the menu"),
        (["sex"], {"outside": "up"}, "Outside: 'up' must be one of the choices in the menu"),
        (["sex"], {"missing_rule": "clamp"}, "Missing values: 'clamp' must be one of the choices in the menu"),
        (["sex"], {"date_format": "YY"}, "How dates are written: 'YY' must be one of the choices in the menu"),
        (["sex"], {"missing_codes": "9" * 1001}, "Missing codes: must be at most 1000 characters long"),
        (
            ["age", "sex"],
            {"outside": "clamp"},
            "Outside: 'count it in the nearest bin' is for columns of numbers and dates, and sex has categories",
        ),
        (
            ["sex"],
            {"kind": "number", "outside": "category", "catch_all": "f"},
            "Outside: 'count it as a category:' is for columns of categories, and sex has none",
        ),
        (
            ["sex"],
            {"outside": "category"},
            "Category that takes the rest: nothing is given; must be named with the rule to count in a category",
        ),
        (["sex"], {"date_format": "YYYY-MM-DD"}, "How dates are written: 'YYYY-MM-DD' is for dates, and sex has none"),
    ],
)
def test_what_does_not_go_is_said_on_top_and_nothing_typed_is_lost(send, fresh, ticked, fields, said):
    page = several(send, fresh, SEX | {"age": {"kind": "integer", "values": "1, twenty"}}, ticked, **fields)
    assert page.status_code == 400
    assert said in words(page)
    assert body(page).index('id="problems"') < body(page).index('name="form-0-name"')
    assert (kind(page, 1), kind(page, 2)) == ("integer", "categorical")
    assert field_value(page, "form-1-values") == "1, twenty"
    for field, value in fields.items():
        if field in ("catch_all", "missing_codes"):
            assert field_value(page, f"several-{field}") == value
    assert is_untouched(fresh)


def test_who_may_not_see_the_table_fills_nothing_in(send, fresh, as_, bob, charlie):
    as_(charlie)
    assert several(send, fresh, ticked=["sex"], kind="number").status_code == 404
    as_(bob)
    assert several(send, fresh, ticked=["sex"], kind="number").status_code == 200


BLOCK = (
    "name\ttype\tlowest\thighest\tbins\tcategories\toutside\tmissing codes\tmissing values\tformat\tunit\n"
    "age\twhole number\t18\t68\t5\t\tclamp\t-9, NA\tdrop\t\tyears\n"
    'sex\ttext\t\t\t\t"female\nmale\nother"\tother\t\tother\t\t\n'
    "wage\tnumber\t0\t100.5\t\t\tleave the row out\t\t\t\teuro\n"
)


def test_a_block_with_a_line_of_heads_fills_in_the_fields_it_names(send, fresh):
    page = send(fresh, {"person": {"kind": "integer", "values": "half"}}, fill_in="1", **{"pasted-block": BLOCK})
    assert page.status_code == 200, words(page)
    assert "Filled in for 3 columns: age, sex, wage." in words(page)
    assert (kind(page, 0), field_value(page, "form-0-values")) == ("integer", "half")
    assert (kind(page, 1), field_value(page, "form-1-values")) == ("integer", "18 to 68 in 5 bins")
    assert (chosen(page, "form-1-outside"), chosen(page, "form-1-missing_rule")) == ("clamp", "drop")
    assert (field_value(page, "form-1-missing_codes"), field_value(page, "form-1-unit")) == ("-9, NA", "years")
    assert (kind(page, 2), field_value(page, "form-2-values")) == ("categorical", "female\nmale\nother")
    assert (chosen(page, "form-2-outside"), field_value(page, "form-2-catch_all")) == ("category", "other")
    assert (chosen(page, "form-2-missing_rule"), field_value(page, "form-2-missing_category")) == ("category", "other")
    assert (kind(page, 3), field_value(page, "form-3-values")) == ("number", "0 to 100.5")
    assert chosen(page, "form-3-outside") == "drop"
    assert field_value(page, "pasted-block") == ""
    assert is_untouched(fresh)


def test_a_block_without_heads_has_its_cells_in_the_documented_order(send, fresh):
    block = "\n\nage\tinteger\t18, 30, 65\tdrop\t-9\tat the interview\tyears\r\nsex\tcategorical\tf|m\n"
    page = send(fresh, fill_in="1", **{"pasted-block": block})
    assert page.status_code == 200, words(page)
    fields = ("values", "missing_codes", "description", "unit")
    assert [field_value(page, f"form-1-{each}") for each in fields] == ["18, 30, 65", "-9", "at the interview", "years"]
    assert (kind(page, 1), chosen(page, "form-1-outside")) == ("integer", "drop")
    assert (kind(page, 2), field_value(page, "form-2-values")) == ("categorical", "f|m")


def test_dates_are_filled_in_by_their_ends_and_a_word(send, fresh):
    block = "name\ttype\tformat\tmin\tmax\tbins\nage\tdates\tdd.mm.yyyy\t01.01.2020\t31.12.2024\tmonth\n"
    page = send(fresh, fill_in="1", **{"pasted-block": block})
    assert page.status_code == 200, words(page)
    assert (kind(page, 1), chosen(page, "form-1-date_format")) == ("date", "DD.MM.YYYY")
    assert field_value(page, "form-1-values") == "01.01.2020 to 31.12.2024 by month"


def test_an_empty_cell_leaves_its_field_as_it_is(send, fresh):
    page = send(fresh, SEX, fill_in="1", **{"pasted-block": "name\ttype\tvalues\tunit\nsex\t\t\tnone\n"})
    assert (kind(page, 2), field_value(page, "form-2-values")) == ("categorical", "f\nm")
    assert field_value(page, "form-2-unit") == "none"


@pytest.mark.parametrize(
    ("block", "said"),
    [
        ("", "Cells from a spreadsheet: nothing is given; must be lines of cells that were copied"),
        (" \t\n\n", "Cells from a spreadsheet: nothing is given;"),
        ("age\tinteger\nheight\tnumber\t1, 2", "Line 2, name: 'height' is not a column of the table"),
        ("age,integer", "Line 1, name: 'age,integer' is not a column of the table; cells are separated by tabs"),
        ("sex\ttext\tf|m\nsex\ttext\tx", "Line 2, name: 'sex' is in line 1 already, which is taken"),
        ("sex\tnumbr\t0, 9", "Line 1 (sex), type: 'numbr' must be one of"),
        ("name\ttype\tcolour\nsex\ttext\tred", "Line 1: 'colour' is no known head, so the cells below it are not read"),
        ("name\ttype\tkind\nsex\ttext\ttext", "Line 1: 'kind' says type again; the first such column is taken"),
        ("name\tlowest\nage\t9", "Line 2 (age), highest: nothing is given; must be given where lowest is"),
        ("name\tmin\tmax\tvalues\nage\t1\t2\t1,2", "Line 2 (age), values: '1,2' is given besides lowest and highest"),
        ("name\tmin\tmax\tbins\nage\t1\t2\t-5", "Line 2 (age), bins: '-5' must be the number of bins in digits"),
        ("name\tbins\tvalues\nage\t1\t2", "Line 2 (age), bins: '1' is given besides categories or edges"),
        ("name\tformat\nage\tYY", "Line 2 (age), format: 'YY' must be one of YYYY-MM-DD"),
        ("name\tdecimals\nage\t-1", "Line 2 (age), decimals: '-1' must be a whole number of one or two digits"),
        ("sex\ttext\tf|m\t\t\t\t\tmore", "Line 1: 'more' is in a cell too many; a line has at most 7"),
        ("age\tinteger\t18, thirty", "age : line 1: edges: 'thirty' must be"),
        ("age\tinteger\t18, 30\tother", "age : line 1: outside: 'count it as a category' is for categories"),
        ('sex\t"text', "Line 1: 'unexpected end of data' must be cells between tabs, in quotes that end"),
        ("sex\ttext\tf\n" * 501, "Cells from a spreadsheet: 'line 501' is beyond the 500 lines that a block may have"),
        ("a" * 200_001, "Cells from a spreadsheet: '200,001 characters' must be at most 200,000 bytes"),
    ],
)
def test_what_is_not_understood_is_listed_by_line_and_field_and_the_block_stays(send, fresh, block, said):
    page = send(fresh, SEX, fill_in="1", **{"pasted-block": block})
    assert page.status_code == 400
    assert said in words(page)
    assert field_value(page, "pasted-block") == block
    assert kind(page, 2) == "categorical", "as it was typed, or as the block says"
    assert is_untouched(fresh)


def test_cells_of_several_lines_fill_in_fields_of_one_line(send, fresh):
    block = 'name\tmissing\tmeaning\tunits\nage\t"-9\n-8"\t"at the\ninterview"\t"full\r\nyears"\n'
    page = send(fresh, fill_in="1", **{"pasted-block": block})
    fields = ("missing_codes", "description", "unit")
    assert [field_value(page, f"form-1-{each}") for each in fields] == ["-9|-8", "at the interview", "full years"]


def test_lines_that_are_understood_are_filled_in_beside_others(send, fresh):
    page = send(fresh, fill_in="1", **{"pasted-block": "sex\ttext\tf|m\nheight\tnumber\nage\tprime\t1, 2\n"})
    assert (kind(page, 2), field_value(page, "form-2-values")) == ("categorical", "f|m")
    assert (kind(page, 1), field_value(page, "form-1-values")) == ("", "1, 2")


CELLS = st.one_of(
    st.sampled_from(
        [
            *NAMES,
            "name",
            "type",
            "values",
            "lowest",
            "highest",
            "bins",
            "text",
            "number",
            "0 to 9 by 3",
            "drop",
            "-9",
            "",
        ]
    ),
    st.text(alphabet="ab19 ,|-;.\"\t\n\r'=\u2028é\x0b", max_size=8),
    st.text(max_size=12).filter(lambda text: "\0" not in text and text.encode(errors="ignore").decode() == text),
)


def as_pasted(lines):
    """A block as a spreadsheet copies it."""
    out = io.StringIO(newline="")
    csv.writer(out, dialect="excel-tab").writerows(lines)
    return out.getvalue()


@given(lines=st.lists(st.lists(CELLS, max_size=9), max_size=6), is_quoted=st.booleans())
@example(lines=[["age", "number", "=1+1", "\"'"]], is_quoted=False)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_block_makes_the_page_fail(send, fresh, lines, is_quoted):
    block = as_pasted(lines) if is_quoted else "\n".join("\t".join(line) for line in lines)
    page = send(fresh, fill_in="1", **{"pasted-block": block})
    assert page.status_code in (200, 400)
    assert is_untouched(fresh)


TEXTS = st.text(
    alphabet=st.characters(codec="utf-8", exclude_categories=("C", "Z")) | st.sampled_from(' "\t\n'), max_size=30
)
LINES = TEXTS.map(lambda text: text.replace("\n", ";"))


@given(typed=st.dictionaries(st.sampled_from(NAMES), st.tuples(TEXTS, LINES, LINES), min_size=1))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_is_accepted_is_what_a_plain_reader_of_tables_reads(send, fresh, typed):
    """Categories, missing codes and a description, in any texts: in the fields is what the cells say."""
    block = as_pasted(
        [["variable", "categories", "missing", "label"], *([name, *cells] for name, cells in typed.items())]
    )
    page = send(fresh, fill_in="1", **{"pasted-block": block})
    heads, *lines = csv.reader(io.StringIO(block, newline=""), dialect="excel-tab")
    assert heads[0] == "variable"
    assert {line[0] for line in lines} == set(typed)
    for line in lines:
        at = NAMES.index(line[0])
        for field, cell in zip(("values", "missing_codes", "description"), line[1:], strict=True):
            assert field_value(page, f"form-{at}-{field}") == cell.strip()


def test_a_long_list_opens_one_column_and_says_of_the_others_what_is_typed(send, wide, as_, alice):
    page = as_(alice).get(reverse("columns", args=[wide.pk]))
    assert len(re.findall(r'<details class="one" name="column"', body(page))) == 61
    assert len(re.findall(r'<details class="one" name="column" open', body(page))) == 1
    typed = {name: {"kind": "integer", "values": "0, 9"} for name in wide.columns}
    typed |= {f"item_{i}": {"kind": "integer", "values": "zero"} for i in (30, 40)}
    page = send(wide, typed, check="1")
    (opened,) = re.findall(r'<details class="one" name="column" open>\s*<summary>\s*<b>(\w+)</b>', body(page))
    assert opened == "item_30", "the first that something is wrong with"
    assert "item_0 whole numbers 0, 9" in words(page)


def test_problems_are_on_top_with_links_to_their_fields_and_the_focus_goes_there(send, wide):
    page = send(wide, {"item_30": {"kind": "integer", "values": "zero"}, "item_31": {"kind": "date"}})
    assert page.status_code == 400
    top = re.search(r'<div id="problems".*?</ul>', body(page), flags=re.DOTALL)[0]
    assert "2 problems to correct:" in words(page)
    assert re.search(r'<div class="note bad" tabindex="-1" autofocus>', top)
    assert re.findall(r'href="#([^"]*)">(\w+)</a>', top) == [
        ("id_form-30-values", "item_30"),
        ("id_form-31-date_format", "item_31"),
    ]
    assert 'id="id_form-30-values"' in body(page)
    assert body(page).index('id="problems"') < body(page).index('name="form-TOTAL_FORMS"')
    assert body(page).count("autofocus") == 1


def test_while_a_person_types_the_problems_change_in_place_and_take_no_focus(send, wide, as_, alice):
    data = {"form-TOTAL_FORMS": 1, "form-INITIAL_FORMS": 1, "form-0-name": "item_0", "form-0-kind": "integer"}
    page = as_(alice).post(reverse("columns", args=[wide.pk]), data | {"check": "1"}, headers={"hx-request": "true"})
    assert re.search(r'<div id="problems" role="status" hx-swap-oob="true">', body(page))
    assert "autofocus" not in body(page)


def test_ticks_and_what_is_chosen_stay_when_another_button_is_pressed(send, fresh):
    more = {"several-ticked": ["sex"], "several-kind": "number", "several-missing_codes": "-7", "pasted-block": "x\ty"}
    page = send(fresh, {"age": {"kind": "integer", "values": "zero"}}, check="1", **more)
    assert chosen(page, "several-kind") == "number"
    assert field_value(page, "several-missing_codes") == "-7"
    assert field_value(page, "pasted-block") == "x\ty"
    assert re.findall(r'name="several-ticked" value="(\w+)"[^>]*\bchecked', body(page)) == ["sex"]


def test_the_enter_key_stores_nothing(fresh, as_, alice):
    page = body(as_(alice).get(reverse("columns", args=[fresh.pk])))
    form = re.search(r'<form[^>]*hx-post="".*?</form>', page, flags=re.DOTALL)[0]
    assert re.search(r"<button[^>]*>", form)[0].startswith('<button class="hidden" name="check"')
