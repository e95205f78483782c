"""Reading a received table, step by step in one process: once, whatever becomes of workers, and seen by its owner."""

import html
import logging
import os
import re
import threading
import time
from datetime import timedelta
from functools import partial

import duckdb
import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.urls import reverse
from django.utils import timezone

from releases import services
from releases.engine.errors import Cancelled
from releases.engine.tables.facts import FileFacts
from releases.engine.tables.files import progress as engine_progress
from releases.engine.tables.files.ingest import ingest
from releases.forms.uploads import UploadForm
from releases.models import Dataset, Notice, Upload, UploadState
from releases.presentation.releases.release_status import upload_progress
from releases.services import uploads
from releases.services.uploads import incoming_folder
from releases.worker import leases
from tests.engine.tables.files import formats
from tests.web.conftest import CSV
from tests.web.pages import body, words

pytestmark = pytest.mark.confined

RAGGED = b"a,b\n1,2\n3\n"


@pytest.fixture
def receive(alice, upload_file):
    """A table of alice's that waits for a worker."""

    def arrive(content=CSV, title="Survey 1996", source=None):
        return services.uploads.receive_upload(owner=alice, title=title, source=source or upload_file(content))

    return arrive


@pytest.fixture
def received(receive):
    return receive()


def read(upload):
    """A worker reads it; whether it is stored."""
    is_stored = services.uploads.execute_upload(upload_id=upload.pk)
    if Upload.objects.filter(pk=upload.pk).exists():
        upload.refresh_from_db()
    return is_stored


def files(settings):
    return sorted(path.name for path in settings.TABLES_DIR.rglob("*") if path.is_file())


def lapse(upload):
    Upload.objects.filter(pk=upload.pk).update(lease_until=timezone.now() - timedelta(seconds=1))


def broken(*args, **kwargs):
    raise RuntimeError("a row says: Mrs Smith, 43")


# Once, whatever happens


def test_it_becomes_a_dataset_of_whoever_sent_it_with_one_notice(received, alice, settings):
    assert read(received)
    dataset = Dataset.objects.get()
    assert (received.status, received.dataset, received.location) == (UploadState.STORED, dataset, "")
    assert (dataset.pk, dataset.owner, dataset.title) == (received.pk, alice, "Survey 1996")
    notice = Notice.objects.get()
    assert (notice.person, notice.title, notice.path) == (alice, "Stored: Survey 1996", f"/uploads/{received.pk}/")
    assert files(settings) == [f"{dataset.pk}.parquet"]


def test_a_table_is_read_once_however_often_its_message_comes(received):
    assert [read(received) for _ in range(3)] == [True, False, False]
    assert Dataset.objects.count() == Notice.objects.count() == 1
    assert (received.state, received.attempts) == (UploadState.STORED, 1)


def test_a_worker_that_lost_its_lease_stores_nothing(received, monkeypatch, settings, caplog):
    """While it reads its lease lapses, and another worker reads the same file and stores it."""
    read_table, others = uploads.read_table, []

    def slow(source, destination, **named):
        monkeypatch.setattr(uploads, "read_table", read_table)
        made = read_table(source, destination)
        lapse(received)
        assert services.uploads.reconcile_uploads() == 1
        others.append(services.uploads.execute_upload(upload_id=received.pk))
        return made

    monkeypatch.setattr(uploads, "read_table", slow)
    assert not read(received)
    assert others == [True]
    assert "failed" not in caplog.text, "it steps back, rather than running into what is there"
    assert (received.state, received.attempts) == (UploadState.STORED, 2)
    assert Dataset.objects.count() == Notice.objects.count() == 1
    assert files(settings) == [f"{received.pk}.parquet"]


def test_two_workers_that_hold_one_upload_write_to_files_of_their_own(received, monkeypatch):
    written = []

    def noted(source, destination, **named):
        written.append(destination)
        lapse(received)
        services.uploads.reconcile_uploads()
        if len(written) < 3:
            services.uploads.execute_upload(upload_id=received.pk)
        raise Cancelled

    monkeypatch.setattr(uploads, "read_table", noted)
    read(received)
    assert len(written) == len(set(written)) == 3


def test_a_lapsed_lease_goes_back_and_after_the_last_attempt_it_has_failed(received, settings):
    for _ in range(settings.MAX_ATTEMPTS):
        assert uploads._claim(received.pk)
        lapse(received)
        assert services.uploads.reconcile_uploads() == 1
    received.refresh_from_db()
    assert (received.state, received.location, files(settings)) == (UploadState.FAILED, "", [])
    assert not services.uploads.execute_upload(upload_id=received.pk)
    assert [notice.title for notice in Notice.objects.all()] == ["Failed: Survey 1996"]
    assert services.uploads.reconcile_uploads() == 0


def test_a_failure_is_tried_again_and_logged_without_what_the_exception_says(received, monkeypatch, caplog):
    with monkeypatch.context() as patched, caplog.at_level(logging.DEBUG):
        patched.setattr(uploads, "read_table", broken)
        assert not read(received)
    assert (received.state, received.step) == (UploadState.WAITING, "Waiting for another attempt")
    assert "RuntimeError" in caplog.text
    assert "Smith" not in caplog.text
    assert read(received)


@pytest.mark.parametrize("is_last", [False, True])
def test_nothing_is_stored_where_the_dataset_s_row_cannot_be(received, monkeypatch, settings, is_last):
    """Its table had its place already, and the database did not hear of it: after the last attempt it is gone."""
    with monkeypatch.context() as patched:
        patched.setattr(uploads, "keep_dataset", broken)
        for _ in range(settings.MAX_ATTEMPTS if is_last else 1):
            assert not read(received)
    assert Dataset.objects.count() == 0
    assert received.state == (UploadState.FAILED if is_last else UploadState.WAITING)
    assert read(received) is not is_last
    assert files(settings) == ([] if is_last else [f"{received.pk}.parquet"])


def test_a_lost_message_is_sent_again(received, monkeypatch):
    sent = []
    monkeypatch.setattr(uploads, "enqueue_upload", sent.append)
    assert services.uploads.reconcile_uploads() == 0
    lapse(received)
    assert services.uploads.reconcile_uploads() == 1
    assert services.uploads.reconcile_uploads() == 0
    assert sent == [received.pk]


def test_files_that_belong_to_nothing_are_deleted_when_they_are_old(received, settings):
    left = incoming_folder() / "left-over.part"
    left.write_bytes(b"a,b\n")
    services.uploads.reconcile_uploads()
    assert files(settings) == sorted([left.name, received.location])
    long_ago = time.time() - 3700
    for path in incoming_folder().iterdir():
        os.utime(path, (long_ago, long_ago))
    services.uploads.reconcile_uploads()
    assert files(settings) == [received.location], "what waits for a worker stays, however old"


def test_no_file_is_kept_where_the_row_cannot_be(receive, monkeypatch, settings):
    monkeypatch.setattr(Upload.objects, "create", broken)
    with pytest.raises(RuntimeError):
        receive()
    assert files(settings) == []


# Progress


def test_progress_is_the_same_for_files_of_one_size_whatever_they_hold(tmp_path, monkeypatch, opens_tables):
    """Where no statement takes so long that the time would be told too."""
    monkeypatch.setattr(engine_progress, "_TICK_SECONDS", 60)
    source, told = tmp_path / "table.csv", []
    for content in (b"a,b\n" + b"1,2\n" * 1_000_000, b"c,d\n" + b"12345,7\n" * 500_000):
        source.write_bytes(content)
        told.append(steps := [])
        keep = partial(lambda to, *step: to.append(step), steps)
        ingest(source, tmp_path / "made", digest_key=b"k", progress=keep)
    assert len(told[0]) > 4
    assert told[0] == told[1]


def test_a_statement_is_stopped_where_the_report_raises():
    """A worker that lost its lease does not go on for minutes."""
    report = engine_progress.FileProgress(lambda step, share: None, size=8, seconds=engine_progress.CSV_SECONDS)
    connection = duckdb.connect()
    query = "SELECT count(*) FROM range(1000000000000) t(i) WHERE hash(i) = 7"
    lost = threading.Event()

    def raising(step, share):
        if lost.is_set():
            raise Cancelled
        lost.set()

    report.progress = raising
    begun = time.monotonic()
    with pytest.raises(Cancelled):
        report.run("Reading the table", connection, lambda: connection.execute(query).fetchone())
    assert time.monotonic() - begun < 240  # to its end the query would take hours


def test_the_time_that_is_left_never_rises_and_another_attempt_says_none(received, monkeypatch):
    now, said = [1000.0], []
    for module in (leases, uploads):
        monkeypatch.setattr(module, "monotonic", lambda: now[0])

    def slow(source, destination, *, progress, **named):
        begun = now[0]
        for seconds, share in ((1, 0.02), (10, 0.1), (20, 0.25), (60, 0.3), (70, 0.2), (70.6, 0.5), (90, 0.75)):
            now[0] = begun + seconds
            progress("Reading the table", share)
            shown = upload_progress(Upload.objects.get())
            said.append((shown.value, shown.left))
            if len(said) in (1, 4):
                assert shown.note.startswith("It takes longer" if len(said) == 4 else "A file of this size takes")
        raise RuntimeError

    monkeypatch.setattr(uploads, "read_table", slow)
    assert not read(received)
    lefts = ["", "about 2 min", "about 60 s", "", "", "about 60 s", "about 30 s"]
    values = ["0.020", "0.100", "0.250", "0.300", "0.300", "0.500", "0.750"]
    assert said == list(zip(values, lefts, strict=True))
    assert not read(received)
    assert said[7:] == [(value, "") for value in values]


# Pages


def test_an_upload_that_is_stopped_is_deleted_and_never_stored(received, as_, alice, monkeypatch, settings):
    read_table = uploads.read_table

    def stopped(source, destination, **named):
        made = read_table(source, destination)
        as_(alice).post(reverse("discard_upload", args=[received.pk]))
        return made

    monkeypatch.setattr(uploads, "read_table", stopped)
    assert not read(received)
    assert not Upload.objects.exists()
    assert not Dataset.objects.exists()
    assert files(settings) == []


def test_a_stored_table_is_not_deleted_by_a_press_that_comes_too_late_and_takes_its_upload_along(received, as_, alice):
    read(received)
    assert as_(alice).post(reverse("discard_upload", args=[received.pk])).status_code == 302
    services.datasets.discard_dataset(dataset=Dataset.objects.get(), by=alice)
    assert as_(alice).get(reverse("upload_detail", args=[received.pk])).status_code == 404


def test_why_it_was_refused_stands_on_its_page_and_in_no_notice(receive, as_, alice):
    refused = receive(RAGGED)
    read(refused)
    assert "Line 3 has fewer values" in words(as_(alice).get(reverse("upload_detail", args=[refused.pk])))
    notice = Notice.objects.get()
    assert notice.title == "Refused: Survey 1996"
    assert "3" not in notice.text


@pytest.mark.parametrize(
    ("write", "said"),
    [
        (lambda: formats.xlsx({"S": [["Title"], ["a", "b"], ["1", "x"]]}), {"decimal": ",", "sheet": "S"}),
        (lambda: RAGGED.replace(b",", b"\t"), {"separator": "\t", "encoding": "windows-1252", "has_header": "no"}),
    ],
    ids=["workbook", "text"],
)
def test_a_file_that_was_refused_is_sent_again_with_all_that_was_said_of_it(as_, alice, upload_file, write, said):
    facts = FileFacts.from_json(said)
    sent = services.uploads.receive_upload(owner=alice, title="Ü & more", source=upload_file(write()), facts=facts)
    read(sent)
    page = as_(alice).get(reverse("upload_detail", args=[sent.pk]))
    if "sheet" in said:
        assert "Row with names: '1' must name every column that has values" in words(page)
    (address,) = re.findall(r'href="([^"]+)">Choose another file', body(page))
    form = as_(alice).get(html.unescape(address)).context["form"]
    assert form.shows_facts
    again = {name: form[name].value() for name in ("title", *form.FACTS) if form[name].value()}
    again = UploadForm(again, {"table": SimpleUploadedFile("other", b"a")})
    assert again.is_valid(), again.errors
    assert again.cleaned_data["title"] == "Ü & more"
    assert again.cleaned_data["facts"] == FileFacts.from_json(Upload.objects.get().file_facts)


# --- what a table may come to -----------------------------------------------------------------------------------------


def test_the_bytes_of_all_columns_and_rows_count_together_and_missing_values_for_nothing(receive, tmp_path, settings):
    source = tmp_path / "table.parquet"
    rows = "('ab', 100), ('é', NULL), (NULL, 7)"
    duckdb.sql(f"COPY (SELECT * FROM (VALUES {rows}) AS t(name, age)) TO '{source}'")
    for most in (8, 7):
        settings.MAX_UPLOAD_UNFOLDED_BYTES = most
        assert read(receive(source=source)) is (most == 8)
