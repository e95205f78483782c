"""Uploading a table: what is taken, what is refused and in which words, and how many and how large one may have."""

from __future__ import annotations

import re

import duckdb
import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.files.uploadhandler import MemoryFileUploadHandler
from django.urls import reverse

from dpweb import settings as as_installed
from releases import services
from releases.middleware import upload_limit
from releases.models import Dataset, Upload
from releases.services.uploads import Room
from tests.web.conftest import CSV, person
from tests.web.pages import body, field_value, words

pytestmark = pytest.mark.django_db

URL = "/datasets/new/"
#: Another table of the very same size.
OTHER = CSV.replace(b"p1,", b"q1,")
FREES = "To free space, delete the rows of a dataset, delete a dataset that nothing was charged for"


@pytest.fixture
def take(send, read_uploads, client):
    """Upload bytes as somebody, let a worker read them, and return where the upload's page leads."""

    def upload_and_read(*args, **named):
        sent = send(*args, **named)
        assert sent.status_code == 302, words(sent)
        read_uploads()
        return client.get(sent.url)

    return upload_and_read


def test_it_stores_a_csv_and_goes_on_to_the_columns(take, alice, settings):
    settings.UPLOAD_CAP_BYTES = len(CSV)
    response = take(CSV)
    dataset = Dataset.objects.get()
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


def left_behind(settings):
    return Dataset.objects.exists() or [path for path in settings.TABLES_DIR.rglob("*") if path.is_file()]


def test_a_file_that_is_no_table_is_refused_beside_the_field_and_nothing_typed_is_lost(send, settings):
    for content, message in NO_TABLES:
        response = send(content)
        assert response.status_code == 400
        assert f"survey.csv: {message}" in words(response)
        assert field_value(response, "title") == "Survey 1996"
        assert not left_behind(settings)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a,b\n1,2\n3\n", "Line 3 has fewer values than the header, which names 2 columns."),
        (b"$FL2@(#) SPSS", "The SPSS file is damaged: it cannot be read."),
        (b"a,b\n" + b"1,2\n" * 1_100_000 + b"1,\xe9\n", "Line 1100002 is not UTF-8 text."),
        (b'a,b\n"secret person,12345\n', "Line 2 has a quoted value that does not end properly."),
    ],
    ids=["ragged", "broken SPSS", "far below", "no row is quoted"],
)
def test_what_only_the_whole_file_tells_is_told_on_the_upload_s_page(take, client, settings, content, message):
    page = take(content)
    assert page.status_code == 200
    assert message in words(page)
    assert "secret" not in body(page)
    link = re.search(r'href="(/datasets/new/[^"]*)"', body(page))[1]
    assert field_value(client.get(link), "title") == "Survey 1996"
    assert not left_behind(settings)


def test_a_parquet_zip_bomb_is_refused_before_it_unfolds(send, settings, tmp_path):
    assert settings.MAX_UPLOAD_ROWS == 200_000_000
    settings.MAX_UPLOAD_ROWS = 199
    bomb = tmp_path / "bomb.parquet"
    duckdb.sql(f"COPY (SELECT 1 AS a FROM range(200)) TO '{bomb}'")
    response = send(bomb.read_bytes(), "bomb.parquet")
    assert response.status_code == 400
    assert "bomb.parquet: The Parquet file unfolds to more than 199 rows" in words(response)
    assert not Dataset.objects.exists()


def test_a_file_over_the_cap_is_a_clean_400_that_says_the_cap(send, settings):
    settings.UPLOAD_CAP_BYTES = 2 * 2**20
    response = send(b"a,b\n" + b"1,2\n" * 600_000)
    assert response.status_code == 400
    assert "A table may be at most 2 MB" in words(response)
    # A request that says by its length that it is over the cap is not read.
    settings.UPLOAD_CAP_BYTES, settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 1000, 1000
    response = send(b"x" * 5000)
    assert response.status_code == 400
    assert "Too large to send" in words(response)
    assert not Dataset.objects.exists()


def test_a_stranger_s_file_is_not_even_stored_for_a_moment(client, monkeypatch):
    handler = upload_limit.IncomingFileUploadHandler
    monkeypatch.setattr(handler, "new_file", lambda *_, **__: pytest.fail("it was stored"))
    response = client.post(URL, {"title": "Survey", "table": SimpleUploadedFile("survey.csv", CSV)})
    assert response.url.startswith("/accounts/login/")
    assert not Dataset.objects.exists()


def test_a_form_without_a_title_or_a_file_is_refused(send, as_, alice):
    for title in ("", "   "):
        response = send(CSV, title=title)
        assert response.status_code == 400
        assert "Title: nothing was typed." in words(response)
    response = as_(alice).post(URL, {"title": "Survey"})
    assert response.status_code == 400
    assert "Table: no file was chosen." in words(response)
    assert field_value(response, "title") == "Survey"


def test_the_file_s_name_is_shown_as_text_and_never_as_markup(send):
    response = send(b"", "<img src=x onerror=alert(1)>.csv")
    assert b"<img" not in response.content


def test_a_table_goes_to_disc_and_is_never_held_whole(send, monkeypatch):
    monkeypatch.setattr(MemoryFileUploadHandler, "new_file", lambda *args, **kwargs: pytest.fail("held in memory"))
    assert send(CSV).status_code == 302


# --- how many, and how large ------------------------------------------------------------------------------------------


@pytest.fixture
def stored(monkeypatch):
    """The bytes of tables that reached the disc, file by file."""
    sizes, handler = [], upload_limit.IncomingFileUploadHandler
    opened, written = handler.new_file, handler.receive_data_chunk

    def new_file(self, *args, **named):
        sizes.append(0)
        return opened(self, *args, **named)

    def receive(self, raw_data, start):
        sizes[-1] += len(raw_data)
        return written(self, raw_data, start)

    monkeypatch.setattr(handler, "new_file", new_file)
    monkeypatch.setattr(handler, "receive_data_chunk", receive)
    return sizes


def test_an_installation_has_limits_and_the_page_says_what_one_has_and_may_have(send, as_, alice, settings):
    installed = (as_installed.MAX_UPLOADS_PER_PERSON, as_installed.MAX_UPLOAD_BYTES_PER_PERSON)
    assert installed == (100, 20 * 2**30)
    settings.MAX_UPLOADS_PER_PERSON, settings.MAX_UPLOAD_BYTES_PER_PERSON = 7, 3 * 2**20
    send()
    said = "You have 1 table here, 0 MB in all. One person may have 7 tables, 3 MB in all."
    assert said in words(as_(alice).get(URL))


def test_one_more_than_the_number_is_refused_before_it_is_stored_and_the_title_is_kept(
    send, read_uploads, settings, stored, as_, alice
):
    settings.MAX_UPLOADS_PER_PERSON = 2
    assert send().status_code == 302
    read_uploads()
    assert send(OTHER).status_code == 302
    refused = send(OTHER, title="The third")
    assert refused.status_code == 400
    assert f"Another does not fit. {FREES}" in words(refused)
    assert field_value(refused, "title") == "The third"
    assert len(stored) == Upload.objects.count() == 2
    page = body(as_(alice).get(URL))
    assert "<form" not in page.partition("<h1>")[2].partition("</main>")[0], "no form where there is no room"


def test_what_is_larger_than_what_is_left_is_refused_as_it_comes_in(send, read_uploads, settings, stored):
    settings.MAX_UPLOAD_BYTES_PER_PERSON = 2 * len(CSV) - 1
    assert send().status_code == 302
    read_uploads()
    refused = send(OTHER)
    assert refused.status_code == 400
    assert f"This file does not fit. {FREES}" in words(refused)
    assert stored == [len(CSV), 0]
    assert Upload.objects.count() == 1
    settings.MAX_UPLOAD_BYTES_PER_PERSON = 2 * len(CSV)
    assert send(OTHER).status_code == 302, "to the last byte"


def test_a_request_that_says_by_its_length_that_it_is_too_large_is_not_stored_at_all(send, settings, stored):
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 1000
    settings.MAX_UPLOAD_BYTES_PER_PERSON = len(CSV) - 1000
    assert "This file does not fit." in words(send())
    assert stored == []


def test_nothing_is_left_behind_of_a_file_that_did_not_fit(send, settings):
    settings.MAX_UPLOAD_BYTES_PER_PERSON = 100
    send(CSV * 30)
    assert [path for path in settings.TABLES_DIR.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("free", [services.datasets.delete_rows, services.datasets.discard_dataset])
def test_room_is_made_as_the_page_says(send, read_uploads, alice, settings, free):
    settings.MAX_UPLOADS_PER_PERSON = 1
    send()
    for _ in ("received", "stored"):
        assert services.uploads.room_of(alice) == Room(number=1, size=len(CSV))
        read_uploads()
    assert send(OTHER).status_code == 400
    free(dataset=Dataset.objects.get())
    assert services.uploads.room_of(alice).number == 0
    assert send(OTHER).status_code == 302


def test_stopping_an_upload_makes_room_and_a_refused_one_takes_none(send, read_uploads, bob, settings):
    """Each person has limits of their own."""
    settings.MAX_UPLOADS_PER_PERSON = 1
    send(b"a,b\n1\n")
    assert [send().status_code, send(by=bob).status_code, send(by=bob).status_code] == [400, 302, 400]
    services.uploads.discard_upload(upload=Upload.objects.get(owner=bob))
    read_uploads()
    assert Upload.objects.get().state == "refused"
    assert send().status_code == 302
    services.uploads.discard_upload(upload=Upload.objects.get(state="waiting"))
    assert send().status_code == 302


@pytest.mark.parametrize(
    ("name", "most", "value", "rule"),
    [
        ("MAX_UPLOADS_PER_PERSON", 1, "another table", "must be one of 1 of yours at most"),
        ("MAX_UPLOAD_BYTES_PER_PERSON", 3000, "more than {left:,} bytes", "must have at most the {left:,} bytes"),
    ],
)
def test_a_program_is_told_the_field_the_value_and_the_rule(client, send, alice, settings, name, most, value, rule):
    send()
    left = most - len(CSV)
    setattr(settings, name, most)
    client.logout()
    bearer = {"Authorization": f"Bearer {services.tokens.make_token(user=alice, name='a script')}"}
    data = {"title": "Another", "table": SimpleUploadedFile("survey.csv", OTHER)}
    refused = client.post("/api/datasets", data, headers=bearer)
    said = refused.json()
    assert (refused.status_code, said["field"], said["value"]) == (400, "table", value.format(left=left))
    assert said["rule"].startswith(rule.format(left=left))
    assert FREES in said["message"]
    assert Upload.objects.count() == 1


def test_what_the_command_line_brings_is_no_upload(ingest, alice, settings):
    settings.MAX_UPLOADS_PER_PERSON = 0
    ingest()
    assert services.uploads.room_of(alice).number == 0


def test_a_plan_file_is_no_table_and_needs_no_room(as_, draft, bob, alice, settings):
    settings.MAX_UPLOADS_PER_PERSON = 0
    dora = person("dora")
    dora.groups.add(bob.groups.get())
    plan = as_(dora).get(reverse("plan_file", args=[draft.pk])).content
    file = SimpleUploadedFile("plan.json", plan)
    assert as_(dora).post(reverse("load_plan", args=[draft.pk]), {"plan": file}).status_code == 302


def test_no_file_in_another_place_of_a_form_is_larger_than_a_form(as_, draft, alice, settings, stored):
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 1000
    file = SimpleUploadedFile("plan.json", b" " * 2500)
    assert as_(alice).post(reverse("load_plan", args=[draft.pk]), {"plan": file}).status_code == 400
    assert sum(stored) <= 1000
