"""Rows from tables that somebody else published: made at once from the files sent, and nothing is kept."""

import csv
import io
import zipfile

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.urls import reverse

from releases.views.public import published_tables

TOWNS = b"\xef\xbb\xbftown,age,count\nNorth,young,10\nNorth,old,30\nSouth,old,60\n"
SEXES = b"sex\tage\tcount\nf\tyoung\t10\nf\told\t50\nm\told\t40\n"


@pytest.fixture
def send(as_, alice):
    def send(*tables, **typed):
        files = [SimpleUploadedFile(name, content) for name, content in tables]
        return as_(alice).post(reverse("published_tables"), {"tables": files, **typed})

    return send


def test_rows_agree_with_all_tables_and_come_with_what_they_are(send):
    made = send(("towns.csv", TOWNS), ("sexes.tsv", SEXES))
    archive = zipfile.ZipFile(io.BytesIO(made.content))
    rows = list(csv.DictReader(io.StringIO(archive.read("synthetic.csv").decode())))
    assert len(rows) == 100
    for values, count in (({"town": "South"}, 60), ({"sex": "f", "age": "old"}, 50), ({"town": "North"}, 40)):
        assert abs(sum(values.items() <= row.items() for row in rows) - count) <= 1
    assert "Nothing is promised about people" in archive.read("README.txt").decode()
    few = zipfile.ZipFile(io.BytesIO(send(("towns.csv", TOWNS), rows="7", deviation="2.5").content))
    assert few.read("synthetic.csv").count(b"\n") == 8


@pytest.mark.parametrize(
    ("tables", "typed", "says"),
    [
        ([], {}, "no file was chosen"),
        ([("a.csv", b"")], {}, "one of the files is empty"),
        ([("a.csv", b"town,count\nx,\xff\n")], {}, "must be a table as text in UTF-8"),
        ([("a.csv", b'town,count\n"x,1\n')], {}, "must be a table as CSV"),
        ([("a.csv", b"town,number\nx,1\n")], {}, "a.csv, first line"),
        ([("a.csv", b"count\n1\n")], {}, "a.csv, first line"),
        ([("a.csv", b"town,count\n x,1\n")], {}, "a.csv, town"),
        ([("a.csv", b"town,count\nx\n")], {}, "a.csv, line 2"),
        ([("a.csv", b"town,count\nx,1\nx,1\n")], {}, "a.csv, line 3"),
        ([("a.csv", TOWNS), ("a.csv", TOWNS)], {}, "must have different names"),
        ([("a.csv", TOWNS)], {"rows": "100001"}, "100000"),
        ([("a.csv", b"town,count\nx,200000\n")], {}, "must be 1 to 100,000"),
        ([("a.csv", TOWNS)], {"deviation": "-1"}, "greater than or equal to 0"),
    ],
)
def test_what_cannot_be_used_is_refused_by_file_line_value_and_rule(send, tables, typed, says):
    response = send(*tables, **typed)
    assert response.status_code == 400
    assert says in " ".join(" ".join(each) for each in response.context["form"].errors.values())


def test_more_combinations_than_a_request_may_take_are_refused_before_any_table_is_held(send, monkeypatch):
    monkeypatch.setattr(published_tables, "MAX_CELLS", 3)
    monkeypatch.setattr("releases.publication.published_rows.PublishedTable", None)
    assert "4 combinations" in str(send(("towns.csv", TOWNS)).context["form"].errors)
