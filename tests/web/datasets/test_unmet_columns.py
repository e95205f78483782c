"""Columns that no value of the table meets as they are declared: refused by what is public, before any charge."""

import io
from datetime import date, datetime

import polars
import pyarrow as pa
import pyarrow.parquet
import pyreadstat
import pytest
from django.urls import reverse

from releases import services
from releases.engine.errors import InvalidInput
from releases.engine.tables.facts import FileFacts
from releases.models import Dataset, LedgerEntry
from releases.schema.file_codebook import column_values
from releases.services.datasets import table_path
from tests.web.datasets.conftest import filled
from tests.web.pages import words

DAY = {"type": "date", "first": "2024-01-01", "last": "2024-12-31", "by": "month"}
SEX = {"type": "categorical", "categories": ["yes", "no"]}
AGE = {"type": "integer", "edges": [1000, 2000]}


@pytest.fixture
def typed(ingest):
    """A table whose file says of every column which type it has."""
    table = pa.table(
        {
            "ever": [True, False],
            "small": pa.array([1, 2], pa.int8()),
            "whole": [1, 2],
            "paid": pa.array(["1.50", "2.25"]).cast(pa.decimal128(4, 2)),
            "height": [1.5, 1.75],
            "day": [date(2024, 2, 29), None],
            "time": [datetime(2024, 2, 29, 12), None],
            "text": ["a", "b"],
        }
    )
    pyarrow.parquet.write_table(table, written := io.BytesIO())
    return ingest(written.getvalue())


def declared(dataset, name, column):
    return services.datasets.declare_universe(dataset=dataset, columns=[{"name": name, **column}])


UNMET = [
    ("ever", AGE, "edges"),
    ("ever", SEX, "categories"),
    ("ever", DAY, "format"),
    ("small", AGE, "edges"),
    ("small", DAY | {"format": "YYYYMMDD"}, "format"),
    ("whole", {"type": "number", "edges": [0.2, 0.7]}, "edges"),
    ("whole", SEX, "categories"),
    ("whole", DAY, "format"),
    ("paid", AGE, "edges"),
    ("height", SEX, "categories"),
    ("day", {"type": "integer", "edges": [0, 1]}, "edges"),
    ("day", DAY | {"format": "DD.MM.YYYY"}, "format"),
    ("day", DAY | {"type": "datetime"}, "format"),
    ("time", DAY | {"format": "DD.MM.YYYY"}, "format"),
    ("text", {"type": "integer", "edges": [1, 2], "missing": ["1", "2"]}, "edges"),
    ("made", SEX | {"formula": "small > 3"}, "categories"),
    ("made", AGE | {"formula": "month(day)"}, "edges"),
]


@pytest.mark.parametrize(("name", "column", "field"), UNMET)
def test_no_column_is_declared_that_no_value_of_its_type_meets(typed, name, column, field):
    others = [{"name": "small", "type": "integer", "edges": [0, 9]}, {"name": "day", **DAY}] if name == "made" else []
    with pytest.raises(InvalidInput, match="can be met by no value: the column has ") as refused:
        services.datasets.declare_universe(dataset=typed, columns=[{"name": name, **column}, *others])
    assert refused.value.field == f"columns[0] ({name}).{field}"
    typed.refresh_from_db()
    assert typed.declared is None


def test_what_some_value_of_the_type_meets_is_declared(typed):
    columns = {
        "ever": {"type": "categorical", "categories": ["true", "false"]},
        "small": {"type": "integer", "edges": [0, 1000]},
        "whole": DAY | {"format": "YYYYMMDD"},
        "paid": {"type": "number", "edges": [0, 99]},
        "height": {"type": "number", "edges": [1.2, 1.9]},
        "day": DAY,
        "time": DAY | {"type": "datetime"},
        "text": AGE,
    }
    for name, column in columns.items():
        assert declared(typed, name, column).names == (name,)


def test_the_page_says_which_column_and_why(typed, as_, alice):
    client = as_(alice)
    rows = [{"name": "ever", "kind": "integer", "values": "0 to 100 by 10"}, {"name": "small"}]
    rows += [{"name": name} for name in ("whole", "paid", "height", "day", "time", "text")]
    response = client.post(reverse("columns", args=[typed.pk]), filled(*rows))
    assert response.status_code == 400
    said = "Column 1 (ever), edges: '0 to 100' can be met by no value: the column has only false, true"
    assert said in words(response)


@pytest.mark.parametrize(
    ("facts", "categories"),
    [
        ({"encoding": "windows-1251"}, ["größe", "maß"]),
        ({"separator": ";", "quote": "none", "decimal": "."}, ["a;b", "c;d"]),
    ],
)
def test_a_text_file_has_no_text_that_its_encoding_or_its_separator_excludes(alice, upload_file, facts, categories):
    content = "kind;x\na;1\n".encode(facts.get("encoding", "utf-8"))
    facts = FileFacts.from_json({"separator": ";", "decimal": ".", **facts})
    dataset = services.datasets.ingest_dataset(owner=alice, title="T", source=upload_file(content), facts=facts)
    with pytest.raises(InvalidInput, match="the column has no such text"):
        declared(dataset, "kind", {"type": "categorical", "categories": categories})
    assert declared(dataset, "kind", {"type": "categorical", "categories": [*categories, "a"]})


#: By suffix the formats that these programs give dates, and those that are plain numbers there.
FORMATS = {
    "sav": (["DATE11", "ADATE10", "EDATE10", "SDATE10", "JDATE7"], ["F8.2"]),
    "dta": (["%td", "%tdCCYY-NN-DD"], ["%9.0g"]),
    "xpt": (["DATE9", "DDMMYY10", "MMDDYY10", "YYMMDD10", "E8601DA"], []),
}


@pytest.mark.parametrize(
    ("suffix", "kind", "is_date"),
    [(suffix, kind, not place) for suffix, both in FORMATS.items() for place in (0, 1) for kind in both[place]],
)
def test_the_formats_of_statistical_programs_that_are_called_dates_are_read_as_dates(
    ingest, tmp_path, suffix, kind, is_date
):
    frame = polars.DataFrame({"x": [date(2024, 2, 29)] if is_date else [31.0]})
    write = {"sav": pyreadstat.write_sav, "dta": pyreadstat.write_dta, "xpt": pyreadstat.write_xport}[suffix]
    write(frame, str(tmp_path / "sent"), variable_format={"x": kind})
    dataset = ingest((tmp_path / "sent").read_bytes())
    assert column_values(dataset)["x"].type == ("date" if is_date else "number")
    stored = pyarrow.parquet.read_table(table_path(dataset)).to_pydict()
    assert stored == {"x": ["2024-02-29" if is_date else "31"]}


def test_a_table_declared_before_this_was_looked_at_is_charged_for_nothing(make_dataset, make_draft, carry_out):
    dataset = make_dataset()
    draft = make_draft(dataset, {"marginal": ["age"]})
    age = {**next(each for each in dataset.declared if each["name"] == "age"), "edges": [5, 6], "missing": ["5", "6"]}
    columns = [age if each["name"] == "age" else each for each in dataset.declared]
    Dataset.objects.filter(pk=dataset.pk).update(declared=columns)
    draft.refresh_from_db()
    before = LedgerEntry.objects.count()
    with pytest.raises(InvalidInput, match="can be met by no value"):
        carry_out(draft)
    assert LedgerEntry.objects.count() == before
