"""Many columns at once: set for those that are ticked, filled in from a spreadsheet, opened one at a time."""

from __future__ import annotations

import csv
import io
import re

import pytest
from django.urls import reverse
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from releases.models import AuditEvent, Dataset
from tests.web.datasets.conftest import filled
from tests.web.pages import body, chosen, field_value, inline_code, words

pytestmark = pytest.mark.django_db

NAMES = ["person", "age", "sex", "wage"]
FIELDS = ("kind", "date_format", "values", "outside", "catch_all", "missing_codes", "missing_rule", "missing_category")
NOTHING = dict.fromkeys((f"several-{field}" for field in FIELDS), "")


@pytest.fixture
def fresh(ingest):
    return ingest(f"{','.join(NAMES)}\n1,1,1,1\n".encode())


@pytest.fixture
def send(as_, alice):
    """Press a button of the page of a dataset's columns, with what is typed of some of them."""
    client = as_(alice)

    def press(dataset, typed=None, **more):
        rows = [{"name": name, **(typed or {}).get(name, {})} for name in dataset.columns]
        data = filled(*rows, {"made": "1"}, **{"pasted-block": ""})
        return client.post(reverse("columns", args=[dataset.pk]), data | NOTHING | more)

    return press


def several(send, dataset, typed=None, ticked=(), **chosen):
    fields = {f"several-{field}": value for field, value in chosen.items()}
    return send(dataset, typed, several="1", **fields, **{"several-ticked": list(ticked)})


def kind(page, position):
    return chosen(page, f"form-{position}-kind")


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


SEX = {"sex": {"kind": "categorical", "values": "f\nm"}}
DO_NOT_GO = [
    (["sex"], {}, "Type and the other fields: nothing is chosen"),
    ([], {"kind": "number"}, "Columns: nothing is ticked"),
    (["wages"], {"kind": "number"}, "Columns: nothing is ticked"),
    (["sex"], {"kind": "prime"}, "Type: 'prime' must be one of the choices"),
    (["sex"], {"missing_rule": "clamp"}, "Missing values: 'clamp' must be one of the choices"),
    (["sex"], {"missing_codes": "9" * 1001}, "Missing codes: must be at most 1000 characters long"),
    (["age", "sex"], {"outside": "clamp"}, "is for columns of numbers and dates, and sex has categories"),
    (["sex"], {"kind": "number", "outside": "category", "catch_all": "f"}, "columns of categories, and sex has none"),
    (["sex"], {"outside": "category"}, "Category that takes the rest: nothing is given"),
    (["sex"], {"date_format": "YYYY-MM-DD"}, "'YYYY-MM-DD' is for dates, and sex has none"),
]


def test_what_does_not_go_is_said_on_top_and_nothing_typed_is_lost(send, fresh):
    for ticked, fields, said in DO_NOT_GO:
        page = several(send, fresh, SEX | {"age": {"kind": "integer", "values": "1, twenty"}}, ticked, **fields)
        assert page.status_code == 400
        assert said in words(page)
        assert body(page).index('id="problems"') < body(page).index('name="form-0-name"')
        assert (kind(page, 1), kind(page, 2)) == ("integer", "categorical")
        assert field_value(page, "form-1-values") == "1, twenty"
        for field in {"catch_all", "missing_codes"} & set(fields):
            assert field_value(page, f"several-{field}") == fields[field]
        assert is_untouched(fresh)


@pytest.mark.parametrize(
    ("block", "fields"),
    [
        (
            "\n\nage\tinteger\t18, 30, 65\tdrop\t-9\tat the interview\tyears\r\nsex\tcategorical\tf|m\n",
            {"1-kind": "integer", "1-values": "18, 30, 65", "1-outside": "drop", "1-missing_codes": "-9"}
            | {"1-description": "at the interview", "1-unit": "years", "2-kind": "categorical", "2-values": "f|m"},
        ),
        (
            "name\ttype\tformat\tmin\tmax\tbins\nage\tdates\tdd.mm.yyyy\t01.01.2020\t31.12.2024\tmonth\n",
            {"1-kind": "date", "1-date_format": "DD.MM.YYYY", "1-values": "01.01.2020 to 31.12.2024 by month"},
        ),
        # An empty cell leaves its field.
        ("name\ttype\tvalues\tunit\nsex\t\t\tnone\n", {"2-kind": "categorical", "2-values": "f\nm", "2-unit": "none"}),
        (
            'name\tmissing\tmeaning\tunits\nage\t"-9\n-8"\t"at the\ninterview"\t"full\r\nyears"\n',
            {"1-missing_codes": "-9|-8", "1-description": "at the interview", "1-unit": "full years"},
        ),
        # Beside lines that are not understood.
        (
            "sex\ttext\tf|m\nheight\tnumber\nage\tprime\t1, 2\n",
            {"2-kind": "categorical", "2-values": "f|m", "1-kind": "", "1-values": "1, 2"},
        ),
    ],
    ids=["in the documented order", "dates by their ends", "an empty cell", "cells of several lines", "beside others"],
)
def test_a_block_fills_in_what_its_cells_say(send, fresh, block, fields):
    page = send(fresh, SEX, fill_in="1", **{"pasted-block": block})
    menus = ("kind", "outside", "date_format")
    found = {each: chosen if each.partition("-")[2] in menus else field_value for each in fields}
    assert {each: read(page, f"form-{each}") for each, read in found.items()} == fields
    assert is_untouched(fresh)


NOT_UNDERSTOOD = [
    (" \t\n\n", "Cells from a spreadsheet: nothing is given;"),
    ("age\tinteger\nheight\tnumber\t1, 2", "Line 2, name: 'height' is not a column of the table"),
    ("age,integer", "Line 1, name: 'age,integer' is not a column of the table; cells are separated by tabs"),
    ("sex\ttext\tf|m\nsex\ttext\tx", "Line 2, name: 'sex' is in line 1 already"),
    ("sex\tnumbr\t0, 9", "Line 1 (sex), type: 'numbr' must be one of"),
    ("name\ttype\tcolour\nsex\ttext\tred", "Line 1: 'colour' is no known head"),
    ("name\ttype\tkind\nsex\ttext\ttext", "Line 1: 'kind' says type again"),
    ("name\tlowest\nage\t9", "Line 2 (age), highest: nothing is given"),
    ("name\tmin\tmax\tvalues\nage\t1\t2\t1,2", "Line 2 (age), values: '1,2' is given besides lowest and highest"),
    ("name\tmin\tmax\tbins\nage\t1\t2\t-5", "Line 2 (age), bins: '-5' must be the number of bins"),
    ("name\tbins\tvalues\nage\t1\t2", "Line 2 (age), bins: '1' is given besides categories or edges"),
    ("name\tformat\nage\tYY", "Line 2 (age), format: 'YY' must be one of YYYY-MM-DD"),
    ("name\tdecimals\nage\t-1", "Line 2 (age), decimals: '-1' must be a whole number"),
    ("sex\ttext\tf|m\t\t\t\t\tmore", "Line 1: 'more' is in a cell too many; a line has at most 7"),
    ("age\tinteger\t18, thirty", "age : line 1: edges: 'thirty' must be"),
    ("age\tinteger\t18, 30\tother", "age : line 1: outside: 'count it as a category' is for categories"),
    ('sex\t"text', "Line 1: 'unexpected end of data' must be cells between tabs"),
    ("sex\ttext\tf\n" * 501, "'line 501' is beyond the 500 lines"),
    ("a" * 200_001, "'200,001 characters' must be at most 200,000 bytes"),
]


def test_what_is_not_understood_is_listed_by_line_and_field_and_the_block_stays(send, fresh):
    for block, said in NOT_UNDERSTOOD:
        page = send(fresh, SEX, fill_in="1", **{"pasted-block": block})
        assert page.status_code == 400
        assert said in words(page)
        assert field_value(page, "pasted-block") == block
        assert kind(page, 2) == "categorical", "as it was typed, or as the block says"
        assert is_untouched(fresh)


KNOWN = ("name", "type", "values", "lowest", "highest", "bins", "text", "number", "0 to 9 by 3", "drop", "-9", "")
CELLS = st.one_of(
    st.sampled_from([*NAMES, *KNOWN]),
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
