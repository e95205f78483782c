"""Taking tables in: what is read, what is refused and how, and what is recognised."""

from __future__ import annotations

import duckdb
import pytest

from releases.engine.domain.universe import MAX_COLUMNS
from releases.engine.tables.ingest import Ingested, UnreadableTable, ingest

KEY = b"a key of this test"


@pytest.fixture
def take(tmp_path):
    """Ingest bytes and return what was found; the Parquet file is `stored.parquet`."""

    def run(content: bytes, key: bytes = KEY) -> Ingested:
        source = tmp_path / "upload"
        source.write_bytes(content)
        return ingest(source, tmp_path / "stored.parquet", digest_key=key)

    return run


def stored(tmp_path):
    return duckdb.sql(f"SELECT * FROM '{tmp_path / 'stored.parquet'}'").fetchall()


@pytest.mark.parametrize(
    "content",
    [
        b"name,age\nann,31\nbob,44\n",
        b"name;age\nann;31\nbob;44\n",
        b"name\tage\nann\t31\nbob\t44",
        b"name|age\nann|31\nbob|44\n",
        b"name,age\r\nann,31\r\nbob,44\r\n",
        b"name,age\rann,31\rbob,44\r",
        b"\xef\xbb\xbfname,age\nann,31\nbob,44\n",
        b'"name","age"\n"ann","31"\n"bob","44"\n',
        b"name, age\nann,31\n\nbob,44\n",
    ],
    ids=["comma", "semicolon", "tab", "bar", "crlf", "cr", "bom", "quoted", "spaces and a blank line"],
)
def test_the_usual_dialects_are_read_alike(take, tmp_path, content):
    found = take(content)
    assert found.columns == ("name", "age")
    assert found.rows == 2
    assert sorted(stored(tmp_path)) == [("ann", "31"), ("bob", "44")]


def test_every_column_is_text_whatever_it_looks_like(take, tmp_path):
    take(b"a,b,c\n007,1e3,2020-01-01\n,nan,true\n")
    assert sorted(stored(tmp_path), key=str) == [("007", "1e3", "2020-01-01"), (None, "nan", "true")]


def test_quoted_values_may_hold_delimiters_quotes_and_line_ends(take, tmp_path):
    take(b'a,b\n"x, y","say ""hi"""\n"two\nlines",z\n')
    assert sorted(stored(tmp_path)) == [("two\nlines", "z"), ("x, y", 'say "hi"')]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "The file is empty."),
        (b"  \n \n", "The file is empty."),
        (b"a,b\n", "The file has a header but no rows."),
        (b"1,2\n3,4\n", "Column 1 of the first line is 1, a number. The first line must name the columns."),
        (b"P1,yes,31\nP2,no,44\n", "Column 3 of the first line is 31, a number. The first line must name the columns."),
        (b"a,,c\n1,2,3\n", "Column 2 has no name. The first line must name every column."),
        (b"a,b,a\n1,2,3\n", "Two columns are named a. Every column needs a name of its own."),
        (
            b"a,A\n1,2\n",
            "Two columns are named a and A, which differ in capitals alone. Every column needs a name of its own.",
        ),
        (b"a,b\n1,2\n3\n", "Line 3 has fewer values than the header, which names 2 columns."),
        (b"a,b\n1,2\n3,4,5\n", "Line 3 has more values than the header, which names 2 columns."),
        (b"a,b\n1,2\n3,caf\xe9\n", "Line 3 is not UTF-8 text. Choose the encoding of the file, or save it as UTF-8."),
        (b"a,b\n1,\xff", "Line 2 is not UTF-8 text. Choose the encoding of the file, or save it as UTF-8."),
        (b"a,b\n1,2\n3,\x004\n", "Line 3 holds a NUL byte. The file is not plain text."),
        (b'a,b\n1,"2\n3,4\n', "Line 2 has a quoted value that does not end properly."),
        (b'a,"b\n1,2\n', "The first line has a quoted name that does not end properly."),
        (b"a,b\x07\n1,2\n", "The name of column 2 holds characters that cannot be printed."),
        (b"PAR1 and nothing more", "The file begins like a Parquet file but cannot be read as one."),
    ],
)
def test_a_file_that_is_no_table_is_refused_in_plain_words(take, content, message):
    with pytest.raises(UnreadableTable) as refusal:
        take(content)
    assert str(refusal.value) == message


def test_a_header_of_10001_columns_is_refused_and_one_of_10000_is_read(take):
    names = ",".join(f"c{i}" for i in range(MAX_COLUMNS + 1))
    with pytest.raises(UnreadableTable, match="names 10,001 columns; at most 10,000"):
        take(f"{names}\n1\n".encode())
    names = ",".join(f"c{i}" for i in range(MAX_COLUMNS))
    assert len(take(f"{names}\n{','.join('1' * MAX_COLUMNS)}\n".encode()).columns) == MAX_COLUMNS


def test_mixed_line_endings_are_refused_without_quoting_a_row(take):
    with pytest.raises(UnreadableTable) as refusal:
        take(b"a,b\r\nsecret,2\n3,4\r\n")
    assert "secret" not in str(refusal.value)


def test_parquet_is_read_as_text(take, tmp_path):
    source = tmp_path / "given.parquet"
    duckdb.sql(f"COPY (SELECT 31 AS age, 'ann' AS name, true AS member) TO '{source}'")
    assert take(source.read_bytes()).columns == ("age", "name", "member")
    assert stored(tmp_path) == [("31", "ann", "true")]


def test_a_parquet_file_that_unfolds_to_too_many_rows_is_refused_before_it_is_read(take, tmp_path):
    bomb = tmp_path / "bomb.parquet"
    duckdb.sql(f"COPY (SELECT 1 AS a FROM range(210000000)) TO '{bomb}'")
    assert bomb.stat().st_size < 2**20
    with pytest.raises(UnreadableTable, match="unfolds to more than 200,000,000 rows"):
        take(bomb.read_bytes())


def test_a_parquet_file_that_repeats_a_giant_value_is_refused(take, tmp_path):
    bomb = tmp_path / "bomb.parquet"
    duckdb.sql(f"COPY (SELECT repeat('x', 100000) AS a FROM range(20000)) TO '{bomb}'")
    assert bomb.stat().st_size < 2**20
    with pytest.raises(UnreadableTable, match=r"unfolds to more than|longer than 10,000 bytes"):
        take(bomb.read_bytes())


def test_the_same_rows_are_recognised_in_any_order_of_rows_and_columns_and_in_any_format(take, tmp_path):
    first = take(b"name,age\nann,31\nbob,44\n").digest
    assert take(b"age;name\n44;bob\n31;ann\n").digest == first
    parquet = tmp_path / "same.parquet"
    duckdb.sql(f"COPY (SELECT * FROM (VALUES ('bob', 44), ('ann', 31)) AS t(name, age)) TO '{parquet}'")
    assert take(parquet.read_bytes()).digest == first


@pytest.mark.parametrize(
    "other",
    [
        b"name,age\nann,31\nbob,45\n",
        b"name,age\nann,31\nbob,44\nbob,44\n",
        b"name,age\nann,31\n",
        b"name,age\nann3,1\nbob,44\n",
        b"name,years\nann,31\nbob,44\n",
        b"name,age\nann,44\nbob,31\n",
    ],
)
def test_other_content_has_another_digest(take, other):
    assert take(other).digest != take(b"name,age\nann,31\nbob,44\n").digest


def test_a_missing_value_is_told_from_the_empty_column_beside_it(take):
    assert take(b"a,b\n1,\n").digest != take(b"a,b\n,1\n").digest


def test_without_the_key_nobody_can_check_a_guess_of_the_table(take):
    content = b"name,age\nann,31\nbob,44\n"
    assert take(content, key=b"one").digest != take(content, key=b"two").digest


def test_a_refused_file_leaves_nothing_behind(take, tmp_path):
    with pytest.raises(UnreadableTable):
        take(b"a,b\n1\n")
    assert [path.name for path in tmp_path.iterdir()] == ["upload"]
