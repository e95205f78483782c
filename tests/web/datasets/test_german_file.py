"""A file as it is written in Germany: what is declared of it is asked for, and its numbers count as what they are."""

from __future__ import annotations

import pytest

from releases.engine.domain.universe import Schema
from releases.engine.tables import fingerprint
from releases.engine.tables.query import TableCounts, open_table
from releases.models import Dataset
from releases.services.datasets import table_path
from tests.engine.tables import formats
from tests.web.pages import field_value, words

pytestmark = pytest.mark.django_db

HEIGHTS = ["1,59", "1,62", "1,70", "1,85", "2,01", "1.000,5", "1.70"]
GERMAN = ("größe;stadt\n" + "".join(f"{each};Köln\n" for each in HEIGHTS)).encode("latin-1")
COLUMNS = [
    {"name": "größe", "type": "number", "edges": [1.5, 1.6, 1.75, 1.9, 2.2, 2000], "decimals": 2, "outside": "drop"},
    {"name": "stadt", "type": "categorical", "categories": ["Köln"]},
]


@pytest.fixture
def send(send, read_uploads):
    """What the upload is answered, once a worker has read the table."""
    return lambda content=GERMAN, name="leute.csv", **said: (send(content, name, **said), read_uploads())[0]


def counts(*columns):
    """Of the bins of the first column."""
    schema = Schema.from_json({"version": 1, "columns": list(columns)})
    return TableCounts(open_table(table_path(Dataset.objects.get())), schema).marginal((columns[0]["name"],)).tolist()


def test_it_gives_right_counts_and_the_page_says_how_it_was_read(send, as_, alice, opens_tables):
    sent = send(encoding="latin-1", decimal=",", thousands=".")
    assert sent.status_code == 302, words(sent)
    assert counts(*COLUMNS) == [1, 2, 1, 1, 1], "1.70 is no number here, 1.000,5 is"
    page = words(as_(alice).get(f"/datasets/{Dataset.objects.get().pk}/columns/"))
    assert "How the file was read: separator semicolon, Latin-1, decimal sign comma, thousands sign point." in page


TYPED = [(31.0, height, "Köln") for height in HEIGHTS]


def test_numbers_typed_as_text_in_a_workbook_give_the_counts_of_the_csv(send, as_, alice, opens_tables):
    """Every other format is tested where files are read."""
    sent = send(formats.FORMATS["xlsx"](TYPED, ","), "leute.xlsx", decimal=",", thousands=".")
    assert sent.status_code == 302, words(sent)
    assert counts({**COLUMNS[0], "name": "height"}) == [1, 2, 1, 1, 1]
    page = words(as_(alice).get(f"/datasets/{Dataset.objects.get().pk}/columns/"))
    assert "How the file was read: sheet Data, decimal sign comma, thousands sign point." in page


@pytest.mark.parametrize("name", ["xlsx", "sav", "parquet"])
def test_what_another_format_does_not_have_is_refused(send, name):
    content = formats.FORMATS[name](TYPED, ",")
    for said, wrong in (
        ({"separator": ";"}, "Separator: ';' has no meaning for a"),
        ({"decimal": ",", "quote": "'"}, "has no meaning for a"),
        ({"thousands": "."}, "Thousands sign: '.' must not be the decimal sign"),
    ):
        answer = send(content, f"leute.{name}", **said)
        assert answer.status_code == 400
        assert wrong in words(answer)
    assert not Dataset.objects.exists()


def test_a_wrong_fact_is_told_beside_its_field(send):
    for said, wrong in (
        ({"decimal": ",", "thousands": ","}, "Thousands sign: ',' must not be the decimal sign"),
        ({"separator": "ab"}, "Separator: 'ab' must be one sign"),
        ({"decimal": ",", "sheet": "Daten"}, "Sheet: 'Daten' has no meaning for a text file"),
        ({"decimal": ",", "has_header": "no"}, "Separator: nothing is given"),
        ({"decimal": ","}, "is not UTF-8 text."),
        ({"encoding": "latin-1"}, "Decimal sign: nothing is given; must be chosen, a point or a comma"),
    ):
        answer = send(**said)
        assert answer.status_code == 400
        assert wrong in words(answer)
        assert field_value(answer, "title") == "Survey 1996"
        assert "<details open>" in answer.content.decode()
        assert not Dataset.objects.exists()


def test_a_file_without_names_gets_numbered_columns_and_loses_no_row(send, opens_tables):
    assert send(b"1^2\n3^4\n", has_header="no", separator="^").status_code == 302
    assert Dataset.objects.get().columns == ["column_1", "column_2"]
    assert counts({"name": "column_1", "type": "integer", "edges": [0, 2, 4]}) == [1, 1]


def test_the_same_rows_under_another_decimal_sign_are_recognised(send, ingest, opens_tables):
    """By what is counted: 1,5 in the one file is 1.5 in the other."""
    rows = "".join(f"{i / 8}\tt{i}\n" for i in range(1, 400))
    assert send(("x;t\n" + rows.replace("\t", ";").replace(".", ",")).encode(), decimal=",").status_code == 302
    tables = [Dataset.objects.get(), ingest(("x,t\n" + rows.replace("\t", ",")).encode())]
    assert len({fingerprint.counted_digest(table_path(each), ["x", "t"], key=b"k") for each in tables}) == 1
