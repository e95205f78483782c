"""Uploading a table: what is taken, what is refused and in which words, and what is recognised."""

from __future__ import annotations

import re

import duckdb
import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.urls import reverse

from releases.middleware import upload_limit
from releases.models import Dataset
from tests.web.conftest import CSV
from tests.web.pages import body, field_value, words

pytestmark = pytest.mark.django_db

URL = "/datasets/new/"


@pytest.fixture
def send(as_, alice):
    """Upload bytes as somebody."""

    def upload(content, name="survey.csv", *, title="Survey 1996", by=None):
        file = SimpleUploadedFile(name, content)
        return as_(by or alice).post(URL, {"title": title, "table": file})

    return upload


def as_parquet(content, tmp_path):
    source, target = tmp_path / "source.csv", tmp_path / "same.parquet"
    source.write_bytes(content)
    duckdb.sql(f"COPY (SELECT * FROM read_csv('{source}', all_varchar = true)) TO '{target}'")
    return target.read_bytes()


@pytest.fixture
def take(send, read_uploads, client):
    """Upload bytes as somebody, let a worker read them, and return where the upload's page leads."""

    def upload_and_read(*args, **named):
        sent = send(*args, **named)
        assert sent.status_code == 302, words(sent)
        read_uploads()
        return client.get(sent.url)

    return upload_and_read


def test_it_stores_a_csv_and_goes_on_to_the_columns(take, alice):
    response = take(CSV)
    dataset = Dataset.objects.get()
    assert response.status_code == 302
    assert response.url == reverse("columns", args=[dataset.pk])
    assert (dataset.owner, dataset.title, dataset.columns) == (alice, "Survey 1996", ["person", "age", "sex"])


#: Every other way in which a file is no table is tested where files are read.
NO_TABLES = [
    (b"", "The file is empty."),
    ("a,b\n1,café\n".encode("latin-1"), "Line 2 is not UTF-8 text."),
    (",".join(f"c{i}" for i in range(10_001)).encode() + b"\n1\n", "The header names 10,001 columns;"),
    (b"PK\x03\x04\x14\x00\x06\x00", "The workbook or zip archive is damaged: it cannot be unfolded."),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "The file is an Excel workbook that is protected by a password, or of"),
    (b"\x1f\x8b\x08\x00", "The file begins like a gzip file but cannot be unfolded."),
    ("a,b\n1,2\n".encode("utf-16")[:-1], "Line 2 is not UTF-16 text."),
    (b"PARE\x00\x00", "The Parquet file is encrypted."),
    (b"%PDF-1.7", "The file is a PDF, not a table."),
]


def test_a_file_that_is_no_table_is_refused_beside_the_field_and_nothing_typed_is_lost(send):
    for content, message in NO_TABLES:
        response = send(content)
        assert response.status_code == 400
        assert f"survey.csv: {message}" in words(response)
        assert field_value(response, "title") == "Survey 1996"
        assert not Dataset.objects.exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(b"a,b\n1,2\n3\n", "Line 3 has fewer values than the header, which names 2 columns.", id="ragged"),
        pytest.param(b"$FL2@(#) SPSS", "The SPSS file is damaged: it cannot be read.", id="broken SPSS"),
        pytest.param(b"a,b\n" + b"1,2\n" * 1_100_000 + b"1,\xe9\n", "Line 1100002 is not UTF-8 text.", id="far below"),
    ],
)
def test_what_only_the_whole_file_tells_is_told_on_the_upload_s_page(take, client, content, message):
    page = take(content)
    assert page.status_code == 200
    assert message in words(page)
    link = re.search(r'href="(/datasets/new/[^"]*)"', body(page))[1]
    assert field_value(client.get(link), "title") == "Survey 1996"
    assert not Dataset.objects.exists()


@pytest.mark.parametrize("content", [b"", b"a,b\n1,2\n3\n"], ids=["refused at once", "refused later"])
def test_of_the_file_that_was_sent_nothing_is_left_behind(send, read_uploads, settings, content):
    send(content)
    read_uploads()
    assert [path for path in settings.TABLES_DIR.rglob("*") if path.is_file()] == []


def test_a_parquet_zip_bomb_is_refused_before_it_unfolds(send, settings, tmp_path):
    assert settings.MAX_UPLOAD_ROWS == 200_000_000
    settings.MAX_UPLOAD_ROWS = 199
    response = send(as_parquet(CSV, tmp_path), "bomb.parquet")
    assert response.status_code == 400
    assert "bomb.parquet: The Parquet file unfolds to more than 199 rows" in words(response)
    assert not Dataset.objects.exists()


def test_a_message_about_a_file_never_quotes_a_row(take):
    page = take(b'name,income\n"secret person,12345\n')
    assert "✕ refused" in words(page)
    assert "secret" not in body(page)


def test_a_file_over_the_cap_is_a_clean_400_that_says_the_cap(send, settings):
    settings.UPLOAD_CAP_BYTES = 2 * 2**20
    response = send(b"a,b\n" + b"1,2\n" * 600_000)
    assert response.status_code == 400
    assert "A table may be at most 2 MB" in words(response)
    assert not Dataset.objects.exists()


def test_a_request_that_says_it_is_over_the_cap_is_refused_by_its_length(as_, alice, settings):
    settings.UPLOAD_CAP_BYTES, settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 1000, 1000
    response = as_(alice).post(URL, {"title": "Survey", "table": SimpleUploadedFile("survey.csv", b"x" * 5000)})
    assert response.status_code == 400
    assert "Too large to send" in words(response)


def test_a_file_just_under_the_cap_is_taken(send, settings):
    settings.UPLOAD_CAP_BYTES = len(CSV)
    assert send(CSV).status_code == 302


def test_a_stranger_s_file_is_not_even_stored_for_a_moment(client, monkeypatch):
    stored = []
    opened = upload_limit.IncomingFileUploadHandler.new_file
    monkeypatch.setattr(
        upload_limit.IncomingFileUploadHandler,
        "new_file",
        lambda self, *args, **kwargs: (stored.append(args), opened(self, *args, **kwargs)),
    )
    response = client.post(URL, {"title": "Survey", "table": SimpleUploadedFile("survey.csv", CSV)})
    assert response.status_code == 302
    assert response.url.startswith("/accounts/login/")
    assert stored == []
    assert not Dataset.objects.exists()


@pytest.mark.parametrize("title", ["", "   "])
def test_a_table_without_a_title_is_refused(send, title):
    response = send(CSV, title=title)
    assert response.status_code == 400
    assert "Title: nothing was typed." in words(response)


def test_a_form_without_a_file_is_refused(as_, alice):
    response = as_(alice).post(URL, {"title": "Survey"})
    assert response.status_code == 400
    assert "Table: no file was chosen." in words(response)
    assert field_value(response, "title") == "Survey"


def test_the_file_s_name_is_shown_as_text_and_never_as_markup(send):
    response = send(b"", "<img src=x onerror=alert(1)>.csv")
    assert b"<img" not in response.content


def test_a_table_goes_to_disc_and_is_never_held_whole(send, monkeypatch):
    from django.core.files.uploadhandler import MemoryFileUploadHandler

    monkeypatch.setattr(MemoryFileUploadHandler, "new_file", lambda *args, **kwargs: pytest.fail("held in memory"))
    assert send(CSV).status_code == 302
