"""Uploading a table: what is taken, what is refused and in which words, and what is recognised."""

from __future__ import annotations

import re

import duckdb
import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.urls import reverse

from releases import services
from releases.engine.domain.privacy import NeighbouringRelation, PrivacyUnit
from releases.middleware import upload_limit
from releases.models import Dataset
from tests.web.conftest import CSV, give
from tests.web.pages import body, field_value, inline_code, words

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


def test_it_stores_parquet(take, tmp_path):
    assert take(as_parquet(CSV, tmp_path), "survey.parquet").status_code == 302
    assert Dataset.objects.get().columns == ["person", "age", "sex"]


def test_it_says_how_long_reading_takes(as_, alice):
    assert re.search(r"reads 100 MB of CSV in about \d+ s", words(as_(alice).get(URL)))


def test_it_says_how_large_a_table_may_be(as_, alice, settings):
    settings.UPLOAD_CAP_BYTES = 5 * 2**20
    assert "at most 5 MB" in words(as_(alice).get(URL))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "The file is empty."),
        (b"1,2\n3,4\n", "Column 1 of the first line is 1, a number. The first line must name the columns."),
        (b"a,,c\n1,2,3\n", "Column 2 has no name."),
        (b"a,b,a\n1,2,3\n", "Two columns are named a."),
        (
            "a,b\n1,café\n".encode("latin-1"),
            "Line 2 is not UTF-8 text. Choose the encoding of the file, or save it as UTF-8.",
        ),
        (b"a,b\n1,\x002\n", "Line 2 holds a NUL byte. The file is not plain text."),
        (",".join(f"c{i}" for i in range(10_001)).encode() + b"\n1\n", "The header names 10,001 columns;"),
        (b"age,Age\n1,2\n", "Two columns are named age and Age, which differ in capitals alone."),
        (b"PK\x03\x04\x14\x00\x06\x00", "The workbook or zip archive is damaged: it cannot be unfolded."),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "The file is an Excel workbook that is protected by a password, or of"),
        (b"\x1f\x8b\x08\x00", "The file begins like a gzip file but cannot be unfolded."),
        ("a,b\n1,2\n".encode("utf-16")[:-1], "Line 2 is not UTF-16 text."),
        (b"PARE\x00\x00", "The Parquet file is encrypted. Write it without encryption."),
        (b"%PDF-1.7", "The file is a PDF, not a table."),
        (b" \n\n", "The file is empty."),
        (b"PAR1 and nothing else", "The file begins like a Parquet file but cannot be read as one."),
    ],
    ids=[
        "empty file",
        "no header",
        "a column without a name",
        "duplicate header",
        "wrong encoding",
        "NUL byte",
        "10,001 columns",
        "names apart in capitals",
        "workbook",
        "protected workbook",
        "gzip",
        "UTF-16",
        "encrypted Parquet",
        "PDF",
        "blank lines",
        "broken Parquet",
    ],
)
def test_a_file_that_is_no_table_is_refused_beside_the_field_and_nothing_typed_is_lost(send, content, message):
    response = send(content)
    assert response.status_code == 400
    shown = words(response)
    assert f"survey.csv: {message}" in shown
    assert "Choose the file again" in shown
    assert field_value(response, "title") == "Survey 1996"
    assert not Dataset.objects.exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a,b\n1,2\n3\n", "Line 3 has fewer values than the header, which names 2 columns."),
        (b"a,b\n1,2,3\n", "Line 2 has more values than the header, which names 2 columns."),
        (b"a,b\n", "The file has a header but no rows."),
        (b"$FL2@(#) SPSS", "The SPSS file is damaged: it cannot be read."),
        (
            b"a,b\n" + b"1,2\n" * 1_100_000 + b"1,\xe9\n",
            "Line 1100002 is not UTF-8 text. Choose the encoding of the file, or save it as UTF-8.",
        ),
    ],
    ids=["ragged, too short", "ragged, too long", "no rows", "broken SPSS", "wrong encoding far below"],
)
def test_what_only_the_whole_file_tells_is_told_on_the_upload_s_page(take, client, content, message):
    page = take(content)
    assert page.status_code == 200
    assert "✕ refused The file is not a table that can be read. It was deleted." in words(page)
    assert message in words(page)
    assert inline_code(page) == []
    link = re.search(r'href="(/datasets/new/[^"]*)"', body(page))[1]
    assert field_value(client.get(link), "title") == "Survey 1996"
    assert not Dataset.objects.exists()


@pytest.mark.parametrize("content", [b"", b"a,b\n1,2\n3\n", CSV], ids=["refused at once", "refused later", "stored"])
def test_of_the_file_that_was_sent_nothing_is_left_behind(send, read_uploads, settings, content):
    send(content)
    read_uploads()
    tables = [f"{each}.parquet" for each in Dataset.objects.values_list("pk", flat=True)]
    left = [path for path in settings.TABLES_DIR.rglob("*") if path.is_file()]
    assert [path.name for path in left] == tables


def test_a_parquet_zip_bomb_is_refused_before_it_unfolds(send, tmp_path):
    bomb = tmp_path / "bomb.parquet"
    duckdb.sql(f"COPY (SELECT 1 AS a FROM range(210000000)) TO '{bomb}'")
    response = send(bomb.read_bytes(), "bomb.parquet")
    assert response.status_code == 400
    assert "bomb.parquet: The Parquet file unfolds to more than 200,000,000 rows" in words(response)
    assert not Dataset.objects.exists()


def test_a_message_about_a_file_never_quotes_a_row(take):
    page = take(b'name,income\n"secret person,12345\n')
    assert "✕ refused" in words(page)
    assert "secret" not in body(page)


def test_a_file_over_the_cap_is_a_clean_400_that_says_the_cap(send, settings):
    settings.UPLOAD_CAP_BYTES = 2 * 2**20
    response = send(b"a,b\n" + b"1,2\n" * 600_000)
    assert response.status_code == 400
    assert "Too large to send" in words(response)
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
    assert "Title: nothing was typed. Say what the table is." in words(response)


def test_a_form_without_a_file_is_refused(as_, alice):
    response = as_(alice).post(URL, {"title": "Survey"})
    assert response.status_code == 400
    assert "Table: no file was chosen." in words(response)
    assert field_value(response, "title") == "Survey"


def test_the_file_s_name_is_shown_as_text_and_never_as_markup(send):
    response = send(b"", "<img src=x onerror=alert(1)>.csv")
    assert b"<img" not in response.content


def shuffled(content):
    header, *rows = content.splitlines()
    return b"\n".join([header, *reversed(rows)]) + b"\n"


@pytest.mark.parametrize("other", ["the same file", "in another order", "as Parquet"])
@pytest.mark.parametrize("person", ["alice", "bob", "charlie"])
def test_the_same_content_is_a_table_like_any_other(take, make_dataset, request, tmp_path, other, person):
    first = make_dataset(epsilon="2")
    content = {"the same file": CSV, "in another order": shuffled(CSV)}.get(other) or as_parquet(CSV, tmp_path)
    give(owner := request.getfixturevalue(person), "curator")
    response = take(content, title="A second look", by=owner)
    second = Dataset.objects.get(title="A second look")
    assert second.digest == first.digest
    assert second.budget is None
    assert list(first.budget.datasets.all()) == [first]
    assert "uploaded before" not in words(request.getfixturevalue("client").get(response.url))


def test_other_content_has_a_budget_of_its_own(take, make_dataset):
    make_dataset()
    take(CSV + b"p200,30,male\n", title="Another table")
    assert Dataset.objects.get(title="Another table").budget is None


@pytest.mark.parametrize("how", ["declared", "joined"])
def test_a_copy_uploaded_before_the_budget_was_declared_has_none_of_it(take, upload_file, alice, bob, group, how):
    first = services.datasets.ingest_dataset(owner=alice, title="Survey", source=upload_file(), group=group)
    take(CSV, title="Copy", by=bob)
    kept = first
    if how == "joined":
        kept = services.datasets.ingest_dataset(
            owner=alice, title="Last year", source=upload_file(CSV + b"p200,30,male\n")
        )
    services.datasets.declare_protection(dataset=kept, unit=PrivacyUnit(), neighbours=NeighbouringRelation.ADD_REMOVE)
    if how == "joined":
        services.datasets.join_population(dataset=first, other=kept, by=alice)
    assert Dataset.objects.get(title="Survey").budget == kept.budget
    assert Dataset.objects.get(title="Copy").budget is None


def test_a_table_goes_to_disc_and_is_never_held_whole(send, monkeypatch):
    from django.core.files.uploadhandler import MemoryFileUploadHandler

    monkeypatch.setattr(MemoryFileUploadHandler, "new_file", lambda *args, **kwargs: pytest.fail("held in memory"))
    assert send(CSV).status_code == 302
