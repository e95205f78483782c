"""A file as it is written in Germany: what is declared of it is asked for, and its numbers count as what they are."""

from __future__ import annotations

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from releases import services
from releases.engine.domain.universe import Schema
from releases.engine.tables.query import TableCounts, open_table
from releases.models import Dataset
from releases.services.datasets import table_path
from tests.engine.tables import formats
from tests.web.pages import field_value, words

pytestmark = pytest.mark.django_db

URL = "/datasets/new/"
HEIGHTS = ["1,59", "1,62", "1,70", "1,85", "2,01", "1.000,5", "1.70"]
GERMAN = ("größe;stadt\n" + "".join(f"{each};Köln\n" for each in HEIGHTS)).encode("latin-1")
COLUMNS = [
    {"name": "größe", "type": "number", "edges": [1.5, 1.6, 1.75, 1.9, 2.2, 2000], "decimals": 2, "outside": "drop"},
    {"name": "stadt", "type": "categorical", "categories": ["Köln"]},
]


@pytest.fixture
def send(as_, alice, read_uploads):
    def upload(content=GERMAN, name="leute.csv", **said):
        sent = as_(alice).post(URL, {"title": "Leute", "table": SimpleUploadedFile(name, content), **said})
        read_uploads()
        return sent

    return upload


def counts(opens_tables, column="größe", columns=COLUMNS):
    dataset = Dataset.objects.get()
    schema = Schema.from_json({"version": 1, "columns": columns, "unit": {"kind": "row"}, "neighbours": "add_remove"})
    return TableCounts(open_table(table_path(dataset)), schema).marginal((column,)).tolist()


def test_it_gives_right_counts_and_the_page_says_how_it_was_read(send, as_, alice, opens_tables):
    sent = send(encoding="latin-1", decimal=",", thousands=".")
    assert sent.status_code == 302, words(sent)
    assert counts(opens_tables) == [1, 2, 1, 1, 1], "1.70 is no number here, 1.000,5 is"
    page = words(as_(alice).get(f"/datasets/{Dataset.objects.get().pk}/columns/"))
    assert "How the file was read: separator semicolon, Latin-1, decimal sign comma, thousands sign point." in page


TYPED = [(31.0, height, "Köln") for height in HEIGHTS]


@pytest.mark.parametrize("name", ["xlsx", "ods", "sav", "dta", "xpt", "parquet"])
def test_numbers_typed_as_text_in_other_formats_give_the_counts_of_the_csv(send, as_, alice, opens_tables, name):
    column = {**COLUMNS[0], "name": "height"}
    sent = send(formats.FORMATS[name](TYPED, ","), f"leute.{name}", decimal=",", thousands=".")
    assert sent.status_code == 302, words(sent)
    assert counts(opens_tables, "height", [column]) == [1, 2, 1, 1, 1]
    page = words(as_(alice).get(f"/datasets/{Dataset.objects.get().pk}/columns/"))
    sheet = "sheet Data, " if name in ("xlsx", "ods") else ""
    assert f"How the file was read: {sheet}decimal sign comma, thousands sign point." in page


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
        assert field_value(answer, "title") == "Leute"
        assert "<details open>" in answer.content.decode()
        assert not Dataset.objects.exists()


def test_a_file_without_names_gets_numbered_columns_and_loses_no_row(send, opens_tables):
    assert send(b"1^2\n3^4\n", has_header="no", separator="^").status_code == 302
    assert Dataset.objects.get().columns == ["column_1", "column_2"]
    column = {"name": "column_1", "type": "integer", "edges": [0, 2, 4]}
    assert counts(opens_tables, "column_1", [column]) == [1, 1]


def test_the_same_rows_under_another_decimal_sign_are_recognised(send, alice, upload_file, settings):
    """By what is counted: 1,5 in the one file is 1.5 in the other."""
    from releases.engine.tables import connection, fingerprint

    rows = [(i / 8, f"t{i}") for i in range(1, 400)]
    here = [f"{x};{t}\n".replace(".", ",") for x, t in rows]
    there = [f"{x},{t}\n" for x, t in rows]
    assert send(("x;t\n" + "".join(here)).encode(), decimal=",").status_code == 302
    one = Dataset.objects.get()
    other = services.datasets.ingest_dataset(
        owner=alice, title="Other", source=upload_file(("x,t\n" + "".join(there)).encode())
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connection, "_is_confined", True)
        assert len({fingerprint.counted_digest(table_path(each), ["x", "t"], key=b"k") for each in (one, other)}) == 1
