"""Taking tables in: what is read, what is refused and how, and what is recognised."""

from __future__ import annotations

import duckdb
import pytest

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
        (b"1,2\n3,4\n", "Column 1 of the first line is 1, a number. The first line must name the columns."),
        (b"a,,c\n1,2,3\n", "Column 2 has no name. The first line must name every column."),
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
