"""One table in every format: the same columns, counts and digest; and what is refused of each."""

from __future__ import annotations

import gzip
import time
from datetime import date

import pytest

from releases.engine.domain.universe import Schema
from releases.engine.tables.facts import FileFacts, UnreadableTable
from releases.engine.tables.ingest import check_start, ingest
from releases.engine.tables.query import TableCounts, open_table
from releases.models import Dataset
from releases.schema.file_codebook import columns_of_dates
from tests.engine.tables import formats

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


@pytest.mark.parametrize(
    "name", ["csv", "tsv", "xlsx", "ods", "sav", "zsav", "dta", "xpt", "parquet", "feather", "gz", "zip"]
)
def test_one_table_in_every_format_gives_the_same_counts_and_the_same_digest(take, made, tmp_path, name):
    first = take(made["csv"])
    found = take(made[name])
    assert (found.columns, found.rows) == (formats.NAMES, 4)
    assert found.digest == first.digest
    table = open_table(str(tmp_path / "stored.parquet"))
    counts = TableCounts(table, Schema.from_json({"version": 1, "columns": COLUMNS})).histogram()
    assert counts.tolist() == [[0, 0, 0, 1], [0, 1, 0, 0], [0, 0, 1, 0]]
    assert counts.sum() == 3, "a missing age is outside"


DAYS = [date(2024, 2, 29), date(1905, 12, 31), None, date(2024, 3, 1)]


@pytest.mark.parametrize("name", ["parquet", "timestamps", "feather", "sav", "dta", "xlsx"])
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


def test_windows_1252_and_utf_16_give_the_same_digest_too(take, made):
    first = take(made["csv"]).digest
    assert take(formats.separated(";", "windows-1252"), encoding="windows-1252").digest == first
    assert take(formats.separated("|", "utf-16")).digest == first


def test_the_file_s_own_metadata_is_a_proposed_codebook_without_its_missing_codes(take, made):
    age, *_ = take(made["sav"]).codebook
    assert age == {
        "name": "age",
        "label": "Age in years",
        "values": {"1": "one"},
        "missing": ["-9"],
        "format": age["format"],
    }
    assert take(made["parquet"]).codebook == []


SHEETS = {"Notes": [["see below"]], "Data": [["a title"], [], ["a", "b"], [1.0, "x"], [2.0, None]]}


@pytest.mark.parametrize("write", [formats.xlsx, formats.ods], ids=["xlsx", "ods"])
def test_the_sheet_and_the_row_of_names_are_chosen(take, write):
    for sheet in ("Data", "2"):
        found = take(write(SHEETS), sheet=sheet, header_row=3)
        assert (found.columns, found.rows, found.facts.sheet) == (("a", "b"), 2, "Data")
    without = take(write({"Only": [[1.0, "x"], [2.0, "y"]]}), has_header=False)
    assert (without.columns, without.rows) == (("column_1", "column_2"), 2)


@pytest.mark.parametrize(
    ("facts", "refusal"),
    [
        ({}, "sheet: '' must be one of Notes, Data"),
        ({"sheet": "Date"}, "sheet: 'Date' must be one of Notes, Data"),
        ({"sheet": "3"}, "sheet: '3' must be one of Notes, Data"),
        ({"sheet": "Data", "separator": ";"}, "separator: ';' has no meaning for a workbook, which this file is"),
        ({"sheet": "Data", "member": ""}, "A row below the names has more values than there are names."),
        ({"sheet": "Data", "header_row": 9}, "header_row: 9 must be a row of the sheet that names columns"),
    ],
    ids=["none", "unknown", "beyond", "separator", "ragged", "no such row"],
)
def test_a_sheet_that_cannot_be_meant_is_refused_by_field_value_and_rule(take, facts, refusal):
    with pytest.raises(UnreadableTable) as error:
        take(formats.xlsx(SHEETS), **facts)
    assert str(error.value) == refusal


def test_a_missing_sheet_is_told_while_the_file_is_sent(tmp_path):
    source = tmp_path / "sent"
    source.write_bytes(formats.xlsx(SHEETS))
    with pytest.raises(UnreadableTable, match="sheet: 'Date' must be one of Notes, Data"):
        check_start(source, facts=FileFacts(sheet="Date"))
    assert check_start(source, facts=FileFacts(sheet="2")).facts.sheet == "Data"


def test_one_member_of_an_archive_is_chosen(take, made):
    archive = formats.zipped({"people.csv": made["csv"], "more.sav": made["sav"], "inner.zip": made["zip"]})
    assert take(archive, member="more.sav").digest == take(made["csv"]).digest
    for member, refusal in (
        ("", "member: '' must be one of people.csv, more.sav, inner.zip"),
        ("x", "member: 'x' must be one of people.csv, more.sav, inner.zip"),
        ("inner.zip", "The archive holds a zip archive again. Send the file in one archive alone."),
    ):
        with pytest.raises(UnreadableTable) as error:
            take(archive, member=member)
        assert str(error.value) == refusal


def test_a_file_cut_short_is_refused_without_a_word_of_what_is_in_it(take, made):
    for name, content in made.items():
        if name not in ("csv", "tsv", "xpt", "sav"):
            with pytest.raises(UnreadableTable) as error:
                take(content[: len(content) // 2])
            assert "Köln" not in str(error.value)


@pytest.mark.parametrize("kind", ["gz", "zip", "xlsx", "ods"])
def test_what_unfolds_to_too_much_is_refused(take, kind):
    zeros = b"0," * 2**27
    bomb = {
        "gz": lambda: gzip.compress(zeros, mtime=0),
        "zip": lambda: formats.zipped({"a.csv": zeros}),
        "xlsx": lambda: formats.zipped({"xl/workbook.xml": zeros}),
        "ods": lambda: formats.zipped({"content.xml": zeros}),
    }[kind]()
    begun = time.process_time()
    with pytest.raises(UnreadableTable, match="unfolds to more than 200 times its size"):
        take(bomb)
    assert time.process_time() - begun < 2
