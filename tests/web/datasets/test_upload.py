"""Uploading a table: what is taken, what is refused and in which words, and how many and how large one may have."""

import duckdb
import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.urls import reverse

from releases import services
from releases.engine.tables.facts import FileFacts
from releases.middleware import upload_limit
from releases.models import Dataset, Upload
from releases.services.uploads import Room
from tests.engine.tables.files import formats
from tests.web.conftest import CSV, give
from tests.web.datasets.conftest import filled
from tests.web.pages import chosen, field_value, words

URL = "/datasets/new/"
#: Another table of the very same size.
OTHER = CSV.replace(b"p1,", b"q1,")
GERMAN = "größe;am\n1,59;31.12.2024\n1,71;01.02.2024\n".encode()
ENGLISH_SIGNS = "größe;am\n1.59;31.12.2024\n".encode()
FREES = "To free space, delete the rows of a dataset, delete a dataset that nothing was charged for"


def left_behind(settings):
    return Dataset.objects.exists() or [path for path in settings.TABLES_DIR.rglob("*") if path.is_file()]


def test_a_file_that_is_no_table_is_refused_beside_the_field_and_nothing_typed_is_lost(send, settings):
    """Every other way in which a file is no table is tested where files are read."""
    for content, message in ((b"", "The file is empty."), (b"%PDF-1.7", "The file is a PDF, not a table.")):
        response = send(content)
        assert response.status_code == 400
        assert f"survey.csv: {message}" in words(response)
        assert field_value(response, "title") == "Survey 1996"
        assert not left_behind(settings)


def test_a_parquet_zip_bomb_is_refused_before_it_unfolds(send, settings, tmp_path):
    settings.MAX_UPLOAD_ROWS = 199
    bomb = tmp_path / "bomb.parquet"
    duckdb.sql(f"COPY (SELECT 1 AS a FROM range(200)) TO '{bomb}'")
    response = send(bomb.read_bytes(), "bomb.parquet")
    assert response.status_code == 400
    assert "bomb.parquet: The Parquet file unfolds to more than 199 rows" in words(response)
    assert not Dataset.objects.exists()


def test_a_file_is_taken_up_to_the_cap_and_no_further(send, settings):
    for cap, status in ((len(CSV), 302), (len(CSV) - 1, 400)):
        settings.UPLOAD_CAP_BYTES = cap
        assert send(CSV).status_code == status
    assert Upload.objects.count() == 1


def test_a_stranger_s_file_is_not_even_stored_for_a_moment(client, monkeypatch):
    handler = upload_limit.IncomingFileUploadHandler
    monkeypatch.setattr(handler, "new_file", lambda *_, **__: pytest.fail("it was stored"))
    response = client.post(URL, {"title": "Survey", "table": SimpleUploadedFile("survey.csv", CSV)})
    assert response.url.startswith("/accounts/login/")
    assert not Dataset.objects.exists()


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


def test_one_more_than_the_number_is_refused_before_it_is_stored_and_the_title_is_kept(
    send, read_uploads, settings, stored
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


@pytest.mark.parametrize("free", [services.datasets.delete_rows, services.datasets.discard_dataset])
def test_room_is_made_as_the_page_says(send, read_uploads, alice, settings, free):
    settings.MAX_UPLOADS_PER_PERSON = 1
    send()
    for _ in ("received", "stored"):
        assert services.uploads.room_of(alice) == Room(number=1, size=len(CSV))
        read_uploads()
    assert send(OTHER).status_code == 400
    free(dataset=Dataset.objects.get())
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


def test_what_the_command_line_brings_is_no_upload(ingest, alice, settings):
    settings.MAX_UPLOADS_PER_PERSON = 0
    ingest()
    assert services.uploads.room_of(alice).number == 0


def test_no_file_in_another_place_of_a_form_is_larger_than_a_form(as_, draft, alice, settings, stored):
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 1000
    file = SimpleUploadedFile("plan.json", b" " * 2500)
    assert as_(alice).post(reverse("load_plan", args=[draft.pk]), {"plan": file}).status_code == 400
    assert sum(stored) <= 1000


@pytest.fixture
def table(alice, upload_file):
    def made(content, **facts):
        give(alice, "curator")
        source = upload_file(content)
        return services.datasets.ingest_dataset(
            owner=alice, title="Klinik", source=source, facts=FileFacts.from_json(facts)
        )

    return made


@pytest.fixture
def page(as_, alice):
    def of(dataset, *rows, **more):
        url, client = reverse("columns", args=[dataset.pk]), as_(alice)
        return client.post(url, filled(*rows, **more)) if rows or more else client.get(url)

    return of


def size(values="1.2 to 2.2 by 0.1", kind="number"):
    return {"name": "größe", "kind": kind, "values": values, "missing_rule": "bin"}


def test_the_country_is_chosen_on_upload_and_comes_back_with_what_was_typed(send, as_, alice):
    assert send(GERMAN).status_code == 400
    assert send(GERMAN, locale="de_DE").status_code == 302
    refused = send("a;b\nä;1\n".encode("latin-1"), locale="de_DE")
    assert "for Germany mostly Windows-1252 (Western European)" in words(refused)
    assert chosen(refused, "locale") == "de_DE"
    assert "must be" not in words(as_(alice).get(reverse("upload"), {"locale": "de_DE"}))
    assert chosen(as_(alice).get(reverse("upload"), {"locale": "de_DE"}), "locale") == "de_DE"


def test_the_name_of_the_file_that_was_sent_proposes_its_separator(send):
    tabs = b"name, first, last\tage\nx\t1\n"
    assert send(tabs, "people.csv").status_code == 400
    assert send(tabs, "people.tsv").status_code == 302
    assert Upload.objects.get().file_facts["separator"] == "\t"


def test_new_columns_propose_the_dates_of_the_country_and_declared_ones_keep_theirs(table, page):
    dataset = table(GERMAN, locale="de_DE")
    shown = page(dataset)
    assert "How the file was read: from Germany, separator semicolon" in words(shown)
    assert [chosen(shown, f"form-{row}-date_format") for row in range(2)] == ["DD.MM.YYYY"] * 2
    day = {"name": "am", "kind": "date", "date_format": "YYYYMMDD", "values": "2024-01-01 to 2024-12-31 by month"}
    assert page(dataset, day).status_code == 302
    assert [chosen(page(dataset), f"form-{row}-date_format") for row in range(2)] == ["DD.MM.YYYY", "YYYYMMDD"]
    # A workbook keeps its dates as such, whatever country it is from; of other files nothing is proposed.
    workbook = formats.xlsx({"S": [["größe", "am"], [1.59, "x"]]})
    assert chosen(page(table(workbook, locale="de_DE")), "form-0-date_format") == "YYYY-MM-DD"
    assert chosen(page(table(GERMAN, decimal=",")), "form-0-date_format") == ""


@pytest.mark.parametrize(("locale", "said"), [("de_DE", ", such as 31.12.2026 (DD.MM.YYYY)."), ("", "written. ")])
def test_whether_the_cells_of_a_workbook_hold_dates_or_text_is_asked_once_before_they_are_declared(
    table, page, locale, said
):
    """Both look alike in a spreadsheet, and under the wrong form no row has a date."""
    workbook = formats.xlsx({"S": [["größe", "am"], [1.59, "31.12.2024"]]})
    dataset = table(workbook, locale=locale)
    day = {"name": "am", "kind": "date", "values": "2024-01-01 to 2024-12-31 by month"}
    shown = page(dataset, {**day, "date_format": "YYYY-MM-DD"})
    (doubt,) = shown.context["doubts"]
    assert said in doubt
    assert doubt in words(shown)
    # Who then chooses the other form has been asked.
    assert page(dataset, {**day, "date_format": "DD.MM.YYYY"}, doubts=[doubt]).status_code == 302
    # Nothing is asked where both forms are one, of a file of text, and of other columns.
    assert page(table(workbook, locale="sv_SE"), {**day, "date_format": "YYYY-MM-DD"}).status_code == 302
    assert page(table(GERMAN, locale="de_DE"), {**day, "date_format": "DD.MM.YYYY"}).status_code == 302
    assert page(dataset, size()).status_code == 302


def test_a_decimal_sign_that_the_country_does_not_use_is_asked_about_before_columns_are_declared(
    table, page, as_, alice
):
    dataset = table(ENGLISH_SIGNS, locale="de_DE", decimal=".")
    doubt = "Numbers that are text are read with a decimal point, and Germany has a comma."
    shown = page(dataset, size())
    assert shown.context["doubts"][0].startswith(doubt)
    codebook = {"codebook": "name,type,values\ngröße,number,1.2 to 2.2 by 0.1\n"}
    pasted = as_(alice).post(reverse("columns", args=[dataset.pk]), codebook)
    assert pasted.context["codebook"].readings[0].startswith(doubt)
    assert Dataset.objects.get(pk=dataset.pk).declared is None
    assert page(dataset, size(), doubts=shown.context["doubts"]).status_code == 302
    # Nothing is asked about categories, nor where the sign is that of the country.
    assert page(dataset, size("1.59|1.71", "categorical")).status_code == 302
    assert page(table(GERMAN, locale="de_DE"), size()).status_code == 302


def test_dates_whose_day_and_month_change_places_in_the_country_are_asked_about(table, page):
    dataset = table(GERMAN, locale="de_DE")
    day = {"name": "am", "kind": "date", "values": "2024-01-01 to 2024-12-31 by month"}
    shown = page(dataset, {**day, "date_format": "MM/DD/YYYY"})
    assert shown.context["doubts"] == ["am: dates are declared as MM/DD/YYYY, and Germany has DD.MM.YYYY."]
    assert page(dataset, {**day, "date_format": "YYYY-MM-DD"}).status_code == 302
