"""One table in every format: the same columns, counts and digest; and what is refused of each."""

from __future__ import annotations

from datetime import UTC, date, datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from releases.engine.domain.schema import Schema
from releases.engine.tables.facts import SUFFIXES, FileFacts, UnreadableTable
from releases.engine.tables.files import kinds
from releases.engine.tables.files.ingest import ingest
from releases.engine.tables.query import TableCounts, open_table
from releases.models import Dataset
from releases.schema.file_codebook import columns_of_dates, proposed
from tests.engine.tables.files import formats

COLUMNS = [
    {"name": "age", "type": "integer", "edges": [-10, 0, 40, 50], "outside": "drop"},
    {"name": "height", "type": "number", "edges": [0, 1, 1.6, 1.8, 3]},
]


@pytest.fixture(scope="module")
def made():
    return formats.every_format()


@pytest.fixture
def take(tmp_path):
    def run(content, **facts):
        source = tmp_path / "sent"
        source.write_bytes(content)
        return ingest(source, tmp_path / "stored.parquet", digest_key=b"k", facts=FileFacts(**facts))

    return run


@pytest.mark.parametrize("name", formats.FORMATS)
def test_one_table_in_every_format_gives_the_same_counts_and_the_same_digest(take, made, tmp_path, name):
    first = take(made["csv"])
    found = take(made[name])
    assert (found.columns, found.rows) == (formats.NAMES, 4)
    assert found.digest == first.digest
    if name in formats.TITLED:
        found = take(formats.TITLED[name], header_row=3)
        assert (found.columns, found.rows, found.digest) == (formats.NAMES, 4, first.digest)
    table = open_table(str(tmp_path / "stored.parquet"))
    counts = TableCounts(table, Schema.from_json({"version": 1, "columns": COLUMNS})).histogram()
    assert counts.tolist() == [[0, 0, 0, 1], [0, 1, 0, 0], [0, 0, 1, 0]]
    assert counts.sum() == 3, "a missing age is outside"


def test_every_kind_of_file_has_an_example_but_that_of_sas_which_nothing_here_writes(made, tmp_path):
    found = {kinds.TEXT, kinds.SAS}
    for content in made.values():
        (tmp_path / "sent").write_bytes(content)
        found.add(kinds.kind_of(tmp_path / "sent"))
    assert {*kinds._STARTS.values(), kinds.TEXT, kinds.WORKBOOK} - found == set()


#: Numbers of the format's own beside numbers that are text, and a text that writes a number and is a category.
TYPED = [(0.25, "1,59", "1,5"), (31.0, "1.002,5", "1,5"), (None, "2", None), (1000.5, "1.5", "1.5"), (-9.5, None, "x")]


@pytest.mark.parametrize("name", formats.FORMATS)
def test_every_format_takes_the_declared_signs_for_text_and_reads_its_own_numbers_as_they_are(take, tmp_path, name):
    columns = [
        {"name": "age", "type": "number", "edges": [-10, 0, 0.5, 50, 1000, 1001], "missing_as": "no number"},
        {"name": "height", "type": "number", "edges": [1, 1.55, 1.6, 3, 1000, 1003], "missing_as": "no number"},
        {"name": "town", "type": "categorical", "categories": ["1,5", "1.5", "x", "none"], "missing_as": "none"},
    ]
    schema = Schema.from_json({"version": 1, "columns": columns})

    def counted():
        counts = TableCounts(open_table(str(tmp_path / "stored.parquet")), schema)
        return [counts.marginal((each,)).tolist() for each in formats.NAMES]

    found = take(formats.FORMATS[name](TYPED, ","), decimal=",", thousands=".")
    assert counted() == [[1, 1, 1, 0, 1, 1], [0, 1, 1, 0, 1, 2], [2, 1, 1, 1]]
    assert (found.facts.decimal, found.facts.thousands) == (",", ".")
    assert found.digest == take(formats.separated(";", decimal=",", rows=TYPED), decimal=",", thousands=".").digest
    take(formats.FORMATS[name](TYPED, "."))
    assert counted() == [[1, 1, 1, 0, 1, 1], [1, 0, 1, 0, 0, 3], [2, 1, 1, 1]], "1,59 is no number unless declared"


def test_every_suffix_is_one_of_these_formats_or_of_one_that_is_written_alike():
    assert set(SUFFIXES) == {f".{name}" for name in formats.FORMATS} | {".txt"}


DAYS = [date(2024, 2, 29), date(1905, 12, 31), None, date(2024, 3, 1)]


@pytest.mark.parametrize("name", ["parquet", "timestamps", "feather", "sav", "dta", "sas7bdat", "xlsx"])
def test_typed_dates_are_the_same_text_and_count_alike_in_every_format(take, tmp_path, name):
    first = take("\n".join(["day,row", *(f"{day or ''},{row}" for row, day in enumerate(DAYS))]).encode())
    found = take(formats.of_dates(name, DAYS))
    # A timestamp is written with its time.
    assert (found.digest == first.digest) is (name != "timestamps")
    if name != "xlsx":
        assert columns_of_dates(Dataset(columns=["day", "row"], file_codebook=found.codebook)) == {
            "day": "datetime" if name == "timestamps" else "date"
        }
    column = {"name": "day", "type": "date", "first": "1890-01-01", "last": "2024-12-31", "by": "year"}
    schema = Schema.from_json({"version": 1, "columns": [{**column, "missing_as": "no date"}]})
    counts = TableCounts(open_table(str(tmp_path / "stored.parquet")), schema).histogram()
    assert {place: int(counts[place]) for place in counts.nonzero()[0]} == {15: 1, 134: 2, 135: 1}


@pytest.mark.parametrize("own", ["Europe/Berlin", "America/New_York"])
def test_instants_of_a_parquet_file_count_by_the_clocks_of_the_declared_zone(take, tmp_path, own):
    """Whatever zone the file keeps them in: two minutes past midnight in Berlin, in summer and in winter."""
    instants = [datetime(2024, 6, 30, 22, 2, tzinfo=UTC), datetime(2024, 12, 31, 23, 2, tzinfo=UTC)]
    made = pa.table({"at": pa.array(instants, pa.timestamp("us", tz=own))})
    pa.parquet.write_table(made, tmp_path / "made")
    take((tmp_path / "made").read_bytes())
    column = {"name": "at", "type": "datetime", "zone": "Europe/Berlin", "first": "2024-01-01", "last": "2025-12-31"}
    for by, expected in (("day", [182, 366]), ("hour", [0, 0])):
        schema = Schema.from_json({"version": 1, "columns": [{**column, "by": by, "outside": "drop"}]})
        counts = TableCounts(open_table(str(tmp_path / "stored.parquet")), schema).histogram()
        assert np.repeat(np.arange(counts.size), counts).tolist() == expected


def test_windows_1252_and_utf_16_give_the_same_digest_too(take, made):
    first = take(made["csv"]).digest
    assert take(formats.separated(";", "windows-1252"), encoding="windows-1252").digest == first
    assert take(formats.separated("|", "utf-16")).digest == first


AGE = {"name": "age", "label": "Age in years", "values": {"1": "one"}, "missing": ["-9"]}


def test_the_file_s_own_metadata_is_a_proposed_codebook_without_its_missing_codes(take, made):
    age, *_ = take(made["sav"]).codebook
    assert {**age, "format": ""} == {**AGE, "format": ""}
    of_parquet = take(made["parquet"]).codebook
    assert [(each["name"], each["format"]) for each in of_parquet] == [("age", "DOUBLE"), ("height", "DOUBLE")]
    assert proposed(Dataset(columns=list(formats.NAMES), file_codebook=of_parquet)) == ({}, {}), "types alone"


def test_labels_and_formats_of_other_statistical_programs_are_proposed_too(take, made):
    """SAS keeps the labels of values in another file, and its special missing codes have no number."""
    for name, has_values in (("sas7bdat", False), ("xpt", False), ("dta", True)):
        age, height, _ = take(formats.labelled(name)).codebook
        assert (age["name"], age["label"], height["label"]) == ("age", "Age in years", ""), name
        assert age["values"] == ({"1": "one", "-9": "no answer"} if has_values else {}), name
        assert age["missing"] == [], name


def test_ranges_that_spss_takes_for_missing_are_proposed_as_missing_and_their_labels_are_not_values(take):
    ranges = {"age": [{"lo": -99, "hi": -90}, -9], "town": ["none"]}
    labels = {"age": {1.0: "one", -9.0: "no answer", -95.0: "refused", -100.0: "before birth"}}
    found = take(formats.labelled("sav", labels=labels, ranges=ranges)).codebook
    assert found[0]["missing"] == ["-99 to -90", "-9"]
    assert found[0]["values"] == {"1": "one", "-100": "before birth"}
    assert found[2]["missing"] == ["none"]


@pytest.mark.parametrize(("names", "expected"), [(["", ""], ("column_1", "column_2")), (["a", " "], ("a", "column_2"))])
def test_a_column_that_a_parquet_file_does_not_name_is_numbered(take, tmp_path, names, expected):
    pa.parquet.write_table(pa.Table.from_arrays([pa.array([7]), pa.array(["x"])], names=names), tmp_path / "made")
    assert take((tmp_path / "made").read_bytes()).columns == expected
    assert pa.parquet.read_table(tmp_path / "stored.parquet").to_pydict() == {expected[0]: ["7"], expected[1]: ["x"]}


SHEETS = {"Notes": [["see below"]], "Data": [["a title"], [], ["a", "b"], [1.0, "x"], [2.0, None]]}


@pytest.mark.parametrize("write", [formats.xlsx, formats.ods], ids=["xlsx", "ods"])
def test_the_sheet_and_the_row_of_names_are_chosen(take, write):
    for sheet in ("Data", "2"):
        found = take(write(SHEETS), sheet=sheet, header_row=3)
        assert (found.columns, found.rows, found.facts.sheet) == (("a", "b"), 2, "Data")
    without = take(write({"Only": [[1.0, "x"], [2.0, "y"]]}), has_header=False)
    assert (without.columns, without.rows) == (("column_1", "column_2"), 2)


#: A gap between two columns and one behind them, as people leave for the eye.
GAPS = [["a", None, "b", " "], [1.0, None, "x", None], [2.0, "", "y"]]


@pytest.mark.parametrize("write", [formats.xlsx, formats.ods], ids=["xlsx", "ods"])
def test_a_column_without_a_name_and_without_values_is_none_of_the_table(take, tmp_path, write):
    assert take(write({"Only": GAPS})).columns == ("a", "b")
    stored = pa.parquet.read_table(tmp_path / "stored.parquet").to_pydict()
    assert stored == {"a": ["1", "2"], "b": ["x", "y"]}


ARCHIVE = {
    "people.csv": formats.separated(","),
    "more.sav": formats.statistical("sav"),
    "inner.zip": formats.zipped({"people.csv": b"a\n1\n"}),
}


@pytest.mark.parametrize(
    ("content", "facts", "refusal"),
    [
        (formats.xlsx(SHEETS), {}, "sheet: '' must be one of Notes, Data"),
        (
            formats.xlsx(SHEETS),
            {"sheet": "Data", "separator": ";"},
            "separator: ';' has no meaning for a workbook, which this file is",
        ),
        (
            formats.xlsx(SHEETS),
            {"sheet": "Data", "header_row": 9},
            "header_row: 9 must be a row of the sheet that names columns",
        ),
        (
            formats.xlsx({"Only": [["A title"], ["a", "b"], ["1", "x"]]}),
            {},
            "header_row: 1 must name every column that has values; column 2 of the sheet has some and no name",
        ),
        (
            formats.xlsx({"Only": [*GAPS, [3.0, "z", "y"]]}),
            {},
            "header_row: 1 must name every column that has values; column 2 of the sheet has some and no name",
        ),
        (formats.zipped(ARCHIVE), {"member": "x"}, "member: 'x' must be one of people.csv, more.sav, inner.zip"),
        (
            formats.zipped(ARCHIVE),
            {"member": "inner.zip"},
            "The archive holds a zip archive again. Send the file in one archive alone.",
        ),
    ],
    ids=[
        "no sheet",
        "separator",
        "no such row",
        "a title",
        "a value in a gap",
        "no such member",
        "in an archive",
    ],
)
def test_what_cannot_be_meant_is_refused_by_field_value_and_rule(take, content, facts, refusal):
    with pytest.raises(UnreadableTable) as error:
        take(content, **facts)
    assert str(error.value) == refusal


def test_one_member_of_an_archive_is_chosen(take, made):
    assert take(formats.zipped(ARCHIVE), member="more.sav").digest == take(made["csv"]).digest


def test_a_file_cut_short_is_refused_without_a_word_of_what_is_in_it(take, made):
    for name, content in made.items():
        if name not in ("csv", "tsv", "xpt", "sav"):
            with pytest.raises(UnreadableTable) as error:
                take(content[: len(content) // 2])
            assert "Köln" not in str(error.value)


def test_a_german_workbook_and_a_german_text_file_count_right_by_their_country_alone(take, tmp_path):
    """Numbers and dates of the workbook's own, and the same as text; thousands, and cells without a value."""
    heads = ["größe", "kosten", "tag"]
    typed = [[1.59, 1234.5, date(2024, 2, 29)], ["1,71", "12.345,50", None], [None, "7", date(2024, 12, 31)]]
    typed.append(["x", 2, None])
    text = "größe;kosten;tag\n1,59;1.234,5;29.02.2024\n1,71;12.345,50;\n;7;31.12.2024\nx;2;\n"
    columns = [
        {"name": "größe", "type": "number", "edges": [1, 1.6, 2], "missing_as": "no number"},
        {"name": "kosten", "type": "number", "edges": [0, 1000, 2000, 20000], "missing_as": "no number"},
        {"name": "tag", "type": "date", "first": "2024-01-01", "last": "2024-12-31", "by": "quarter"},
    ]
    expected = {"größe": [1, 1, 2], "kosten": [2, 1, 1, 0], "tag": [1, 0, 0, 1, 2]}
    for content, format_of_dates in (
        (formats.xlsx({"Notes": [["read me"]], "Data": [heads, *typed]}), "YYYY-MM-DD"),
        (text.encode("windows-1252"), "DD.MM.YYYY"),
    ):
        own = {"sheet": "Data"} if content.startswith(b"PK") else {"encoding": "windows-1252"}
        facts = take(content, locale="de_DE", **own).facts
        assert (facts.decimal, facts.thousands) == (",", ".")
        source = open_table(str(tmp_path / "stored.parquet"))
        for column in columns:
            declared = column
            if column["type"] == "date":
                declared = {**column, "format": format_of_dates, "missing_as": "no date"}
            schema = Schema.from_json({"version": 1, "columns": [declared]})
            assert TableCounts(source, schema).histogram().tolist() == expected[column["name"]], column["name"]
