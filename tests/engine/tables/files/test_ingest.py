"""Taking tables in: what is read, what is refused and how, and what is recognised."""

from __future__ import annotations

import gzip
import zipfile

import duckdb
import pytest

from releases.engine.tables.facts import FileFacts
from releases.engine.tables.files.ingest import Ingested, UnreadableTable, check_start, ingest

KEY = b"a key of this test"
UNNAMED = "must name every column that has values; column 2 of the file has some and no name"


@pytest.fixture
def take(tmp_path):
    """Ingest bytes and return what was found; the Parquet file is `stored.parquet`."""

    def run(content: bytes, key: bytes = KEY, **facts: object) -> Ingested:
        source = tmp_path / "upload"
        source.write_bytes(content)
        return ingest(source, tmp_path / "stored.parquet", digest_key=key, facts=FileFacts(**facts))

    return run


def stored(tmp_path):
    return duckdb.sql(f"SELECT * FROM '{tmp_path / 'stored.parquet'}'").fetchall()


@pytest.mark.parametrize(
    "content",
    [
        b"name,age\nann,31\nbob,44\n",
        b"name;age\nann;31\nbob;44\n",
        b"name\tage\nann\t31\nbob\t44",
        b"name,age\r\nann,31\r\nbob,44\r\n",
        b"\xef\xbb\xbfname,age\nann,31\nbob,44\n",
        b'"name","age"\n"ann","31"\n"bob","44"\n',
    ],
    ids=["comma", "semicolon", "tab", "crlf", "bom", "quoted"],
)
def test_the_usual_dialects_are_read_alike(take, tmp_path, content):
    found = take(content)
    assert found.columns == ("name", "age")
    assert found.rows == 2
    assert sorted(stored(tmp_path)) == [("ann", "31"), ("bob", "44")]


def test_quoted_values_may_hold_delimiters_quotes_and_line_ends(take, tmp_path):
    take(b'a,b\n"x, y","say ""hi"""\n"two\nlines",z\n')
    assert sorted(stored(tmp_path)) == [("two\nlines", "z"), ("x, y", 'say "hi"')]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "The file is empty."),
        (b"a,b\n", "The file has a header but no rows."),
        (
            b"1,2\n3,4\n",
            "number_names: '' must be chosen where columns are named by numbers: column 1 of the first line is one",
        ),
        (b"a,,c\n1,,3\n4,5,6\n", f"header_row: 1 {UNNAMED}"),
        (b"a,,c\n1,3\n", "Line 2 has fewer values than the header, which has 3 columns."),
        (b",,\n1,2,3\n", "header_row: 1 must be a row of the file that names columns"),
        (b"\na\n1\n", "header_row: 1 must be a row of the file that names columns"),
        (b"a" + b"," * 10_000 + b"\n", "The header has 10,001 columns; at most 10,000 can be read."),
        (b"a,b,a\n1,2,3\n", "Two columns are named a. Every column needs a name of its own."),
        (
            b"a,A\n1,2\n",
            "Two columns are named a and A, which differ in capitals alone. Every column needs a name of its own.",
        ),
        (b"a,b\n1,2\n3\n", "Line 3 has fewer values than the header, which names 2 columns."),
        (b"a,b\n1,2\n3,4,5\n", "Line 3 has more values than the header, which names 2 columns."),
        (b"a,b\n1,2\n3,caf\xe9\n", "Line 3 is not UTF-8 text. Choose the encoding of the file, or save it as UTF-8."),
        (b"a,b\n1,2\n3,\x004\n", "Line 3 holds a NUL byte. The file is not plain text."),
        (b'a,b\n1,"2\n3,4\n', "Line 2 has a quoted value that does not end properly."),
        (b"a,b\x07\n1,2\n", "The name of column 2 holds characters that cannot be printed."),
        (b"PAR1 and nothing more", "The file begins like a Parquet file but cannot be read as one."),
    ],
)
def test_a_file_that_is_no_table_is_refused_in_plain_words(take, content, message):
    with pytest.raises(UnreadableTable) as refusal:
        take(content)
    assert str(refusal.value) == message


#: Rows above the names, as programs and people write them, and how many these are.
TITLES = {
    "one": (["A survey"], 1),
    "blank": (["A survey", "", ""], 3),
    "separators": (["A survey,,", ",,"], 2),
    "a comma": (['"Survey, 1996",'], 1),
    "an open sign": (['5" and 6" screens'], 1),
    "two lines": (['"A survey', 'of ""1996"""', "x"], 2),
    "an indented sign": ([' "A survey', 'of 1996"'], 2),
    "a line end within": (['x,"A', "", 'survey"'], 1),
}


@pytest.mark.parametrize("title", TITLES)
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"], ids=["lf", "crlf", "cr"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_rows_above_the_names_are_skipped_and_leave_no_trace(take, tmp_path, title, end, encoding):
    lines, rows = TITLES[title]
    table = ["näme,age", '"two', 'lines",31', "böb,44"]
    plain = take(end.join([*table, ""]).encode())
    expected = sorted(stored(tmp_path))
    found = take(end.join([*lines, *table, ""]).encode(encoding), header_row=rows + 1)
    assert (found.columns, found.rows, found.digest) == (plain.columns, 2, plain.digest)
    assert sorted(stored(tmp_path)) == expected
    assert found.facts.header_row == rows + 1


@pytest.mark.parametrize(
    ("content", "facts", "message"),
    [
        (b"t\na,b\n1,2\n", {"header_row": 9}, "header_row: 9 must be a row of the file that names columns"),
        (b"t\n\na,b\n1,2\n", {"header_row": 2}, "header_row: 2 must be a row of the file that names columns"),
        (b"t\na,,b\n1,x,2\n", {"header_row": 2}, f"header_row: 2 {UNNAMED}"),
        (
            b"t\na,,3\n1,,2\n",
            {"header_row": 2},
            "number_names: '' must be chosen where columns are named by numbers: column 3 of row 2 is one",
        ),
        (
            b'"t\nsecret"\na,b\n1,2\n3\n',
            {"header_row": 2},
            "Line 5 has fewer values than the header, which names 2 columns.",
        ),
        (
            b't\n"secret\na,b\n1,2\n',
            {"header_row": 3},
            "header_row: 3 must have no quoted value that does not end properly, nor must a row above it",
        ),
        (
            b"t\n1,2\n",
            {"header_row": 2, "has_header": False, "separator": ","},
            "header_row: 2 must be 1 where no line names the columns",
        ),
        (
            b"s," * ((1 << 21) - 2) + b"s\nage\n1\n",
            {"header_row": 2},
            "header_row: 2 must be a row of the file's first 4 MB that names columns",
        ),
        (
            b"secret" * (1 << 20) + b"\na,b\n1,2\n",
            {"header_row": 2},
            "header_row: 2 must be a row of the file's first 4 MB that names columns",
        ),
    ],
    ids=["too few", "blank", "unnamed", "number", "ragged", "quote", "no names", "cut off", "too far"],
)
def test_a_row_of_names_that_cannot_be_meant_is_refused_without_a_word_of_any_row(take, content, facts, message):
    with pytest.raises(UnreadableTable) as refusal:
        take(content, **facts)
    assert str(refusal.value) == message


def test_what_the_start_of_a_file_shows_counts_its_rows_too(tmp_path):
    (tmp_path / "sent").write_bytes(b"A title; of two\n\na|b\n1|2\n")
    assert check_start(tmp_path / "sent", facts=FileFacts(header_row=3)).facts.separator == "|"
    with pytest.raises(UnreadableTable, match="header_row: 5 must be a row of the file"):
        check_start(tmp_path / "sent", facts=FileFacts(header_row=5))


#: A header that commas cut into more parts than tabs do, and one without a tab.
TABS, COMMAS = b"name, first, last\tage\tpay, gross, net\nx\t1\t2\n", b"a,b\n1,2\n"


@pytest.mark.parametrize(
    ("name", "content", "facts", "separator"),
    [
        ("people.tsv", TABS, {}, "\t"),
        ("PEOPLE.TAB", TABS, {}, "\t"),
        ("people.tsv.gz", TABS, {}, "\t"),
        ("people.tsv", COMMAS, {}, ","),
        ("people.tsv", COMMAS.replace(b",", b";"), {"decimal": "."}, ";"),
        ("people.tsv", b"1\t2\n", {"has_header": False}, "\t"),
        ("people.tsv", b"1;2\n", {"has_header": False, "separator": ";", "decimal": "."}, ";"),
        ("people.tsv", TABS, {"locale": "de_DE"}, "\t"),
    ],
)
def test_the_end_of_the_name_proposes_the_separator_where_it_cuts_the_row_of_names(
    tmp_path, name, content, facts, separator
):
    for sent in (content, gzip.compress(content)):
        (tmp_path / "sent").write_bytes(sent)
        assert check_start(tmp_path / "sent", name=name, facts=FileFacts(**facts)).facts.separator == separator


def test_what_is_declared_comes_first_and_other_names_propose_what_cuts_most(tmp_path):
    """Commas do, and no name of a column holds a tab."""
    (tmp_path / "sent").write_bytes(TABS)
    for name, facts in (("people.csv", {}), ("", {}), ("people.tsv", {"separator": ","})):
        with pytest.raises(UnreadableTable, match="column 3 holds characters that cannot be printed"):
            check_start(tmp_path / "sent", name=name, facts=FileFacts(**facts))


def test_a_name_that_tells_no_separator_is_none_for_a_file_without_a_row_of_names(tmp_path):
    (tmp_path / "sent").write_bytes(b"1,2\n")
    for name in ("people.csv", "people.txt", "people", "tsv"):
        with pytest.raises(UnreadableTable, match="must be chosen where no line names the columns"):
            check_start(tmp_path / "sent", name=name, facts=FileFacts(has_header=False))


def test_in_an_archive_the_name_of_the_member_proposes_the_separator(tmp_path):
    with zipfile.ZipFile(tmp_path / "sent", "w") as archive:
        archive.writestr("people.csv", TABS)
        archive.writestr("people.tsv", TABS)
    found = check_start(tmp_path / "sent", name="all.zip", facts=FileFacts(member="people.tsv"))
    assert found.facts.separator == "\t"
    with pytest.raises(UnreadableTable, match="cannot be printed"):
        check_start(tmp_path / "sent", name="all.tsv", facts=FileFacts(member="people.csv"))


@pytest.mark.parametrize("empty", ["", '""'], ids=["nothing", "quoted"])
def test_a_column_of_a_text_file_without_a_name_and_without_values_is_none_of_the_table(take, tmp_path, empty):
    plain = take(b"a,b\n1,x\n2,\n")
    found = take(f"a,{empty}, b ,{empty},\n1,,x,{empty},\n2,{empty},,,\n".encode())
    assert (found.columns, found.rows, found.digest) == (plain.columns, 2, plain.digest)
    assert sorted(stored(tmp_path), key=str) == [("1", "x"), ("2", None)]


def test_a_parquet_file_that_unfolds_to_too_many_rows_is_refused_before_it_is_read(take, tmp_path):
    bomb = tmp_path / "bomb.parquet"
    duckdb.sql(f"COPY (SELECT 1 AS a FROM range(210000000)) TO '{bomb}'")
    assert bomb.stat().st_size < 2**20
    with pytest.raises(UnreadableTable, match="unfolds to more than 200,000,000 rows"):
        take(bomb.read_bytes())


def test_the_same_rows_are_recognised_in_any_order_of_rows_and_columns_and_in_any_format(take, tmp_path):
    first = take(b"name,age\nann,31\nbob,44\n").digest
    assert take(b"age;name\n44;bob\n31;ann\n").digest == first
    parquet = tmp_path / "same.parquet"
    duckdb.sql(f"COPY (SELECT * FROM (VALUES ('bob', 44), ('ann', 31)) AS t(name, age)) TO '{parquet}'")
    assert take(parquet.read_bytes()).digest == first


def test_a_table_has_the_digest_that_it_had_when_it_was_first_stored(take):
    """By what was written down of a table of another day."""
    rows = "".join(f"{i},{'Zoë' * (i % 60)},{'' if i % 3 else i / 4}\n" for i in range(500))
    found = take(f"b,a,c\n{rows}".encode())
    assert found.digest == "0b702d72ab50615b2d1ec3390ab28ca4c1494d1b804de549d05b049ee289392c"


@pytest.mark.parametrize(
    "content",
    [b"a,b\n1,2\n3\n", b"a,,c\n1,2,3\n", b"a,b\n"],
    ids=["ragged", "a gap with values", "no rows"],
)
def test_nothing_is_left_of_a_file_that_is_refused(take, tmp_path, content):
    with pytest.raises(UnreadableTable):
        take(content)
    assert [path.name for path in tmp_path.iterdir()] == ["upload"]


@pytest.mark.parametrize("after", [b"plain", "zoë".encode()], ids=["plain", "more of it"])
@pytest.mark.parametrize("pieces", [1, 3, 6])
def test_a_character_that_is_cut_off_is_found_in_its_line_wherever_the_file_is_cut_to_be_read(take, pieces, after):
    """It is read a megabyte at a time. Behind the first four, DuckDB finds it, and counts rows instead of lines."""
    start = b"name\n" + b"x" * 99 + b'\n"a\nb"\n'
    filled = start + b"y\n" * ((pieces * 2**20 - len(start) - 2) // 2)
    filled += b"z" * (pieces * 2**20 - 1 - len(filled))
    line = filled.count(b"\n") + 1
    assert take(filled + "ë\n".encode() + (after + b"\n") * 1000).rows == line + 1000 - 2
    with pytest.raises(UnreadableTable, match=f"Line {line} is not UTF-8 text"):
        take(filled + b"\xc3" + (after + b"\n") * 1000)


@pytest.mark.parametrize(
    "other",
    [
        b"name,age\nann,31\nbob,45\n",
        b"name,age\nann,31\nbob,44\nbob,44\n",
        b"name,age\nann3,1\nbob,44\n",
        b"name,age\nann,44\nbob,31\n",
    ],
)
def test_other_content_has_another_digest(take, other):
    assert take(other).digest != take(b"name,age\nann,31\nbob,44\n").digest


def test_without_the_key_nobody_can_check_a_guess_of_the_table(take):
    content = b"name,age\nann,31\nbob,44\n"
    assert take(content, key=b"one").digest != take(content, key=b"two").digest


def test_numbers_are_names_of_columns_where_that_is_declared_also_beside_a_column_without_a_name(take):
    content = b"2023;2024;4;\n5;6;7;\n"
    with pytest.raises(UnreadableTable, match="must be chosen where columns are named by numbers") as refused:
        take(content)
    assert refused.value.field == "number_names"
    # The last column has no name, and would be the fourth.
    assert take(content, number_names=True).columns == ("2023", "2024", "4")
    with pytest.raises(UnreadableTable, match="column 4 of the file has some and no name"):
        take(b"2023;2024;4;\n5;6;7;8\n", number_names=True)
