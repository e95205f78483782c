"""Many columns at once: set for those that are ticked, filled in from a spreadsheet, opened one at a time."""

import pytest
from django.urls import reverse

from releases.models import AuditEvent, Dataset
from tests.web.datasets.conftest import filled
from tests.web.pages import chosen, field_value, words

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
    for position in (1, 2):
        assert (kind(page, position), chosen(page, f"form-{position}-outside")) == ("categorical", "drop")
        assert [field_value(page, f"form-{position}-{each}") for each in ("values", "missing_codes")] == [
            "Yes\nNo",
            "-9",
        ]
    assert field_value(page, "form-1-description") == "at the interview"
    assert (kind(page, 0), kind(page, 3), field_value(page, "form-3-values")) == ("", "number", "0 to 9 by 3")
    assert is_untouched(fresh)


SEX = {"sex": {"kind": "categorical", "values": "f\nm"}}


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
    ],
    ids=["in the documented order", "dates by their ends"],
)
def test_a_block_fills_in_what_its_cells_say(send, fresh, block, fields):
    page = send(fresh, SEX, fill_in="1", **{"pasted-block": block})
    menus = ("kind", "outside", "date_format")
    found = {each: chosen if each.partition("-")[2] in menus else field_value for each in fields}
    assert {each: read(page, f"form-{each}") for each, read in found.items()} == fields
    assert is_untouched(fresh)


REFUSED = [
    ({"ticked": [], "kind": "number"}, "Columns: nothing is ticked"),
    ({"ticked": ["age", "sex"], "outside": "clamp"}, "is for columns of numbers and dates, and sex has categories"),
    ({"ticked": ["sex"], "date_format": "YYYY-MM-DD"}, "'YYYY-MM-DD' is for dates, and sex has none"),
    ("age\tinteger\nheight\tnumber\t1, 2", "Line 2, name: 'height' is not a column of the table"),
    ("name\tmin\tmax\tbins\nage\t1\t2\t-5", "Line 2 (age), bins: '-5' must be the number of bins"),
    ("age\tinteger\t18, 30\tother", "age : line 1: outside: 'count it as a category' is for categories"),
    ("sex\ttext\tf\n" * 501, "'line 501' is beyond the 500 lines"),
]


def test_what_does_not_go_is_said_and_nothing_typed_is_lost(send, fresh):
    for given, said in REFUSED:
        if isinstance(given, dict):
            page = several(send, fresh, SEX | {"age": {"kind": "integer", "values": "1, twenty"}}, **given)
            assert field_value(page, "form-1-values") == "1, twenty"
        else:
            page = send(fresh, SEX, fill_in="1", **{"pasted-block": given})
            assert field_value(page, "pasted-block") == given
        assert page.status_code == 400
        assert said in words(page)
        assert kind(page, 2) == "categorical"
        assert is_untouched(fresh)
