"""How many tables one person may have here, and how large: refused before the file is stored, and in which words."""

from __future__ import annotations

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
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
def send(as_, alice):
    def sent(content=CSV, *, by=None, title="Survey 1996"):
        return as_(by or alice).post(URL, {"title": title, "table": SimpleUploadedFile("survey.csv", content)})

    return sent


@pytest.fixture
def stored(monkeypatch):
    """The bytes of tables that reached the disc, file by file."""
    sizes = []
    opened, written = (
        upload_limit.IncomingFileUploadHandler.new_file,
        upload_limit.IncomingFileUploadHandler.receive_data_chunk,
    )

    def new_file(self, *args, **named):
        sizes.append(0)
        return opened(self, *args, **named)

    def receive(self, raw_data, start):
        sizes[-1] += len(raw_data)
        return written(self, raw_data, start)

    monkeypatch.setattr(upload_limit.IncomingFileUploadHandler, "new_file", new_file)
    monkeypatch.setattr(upload_limit.IncomingFileUploadHandler, "receive_data_chunk", receive)
    return sizes


def test_an_installation_has_limits():
    assert as_installed.MAX_UPLOADS_PER_PERSON == 100
    assert as_installed.MAX_UPLOAD_BYTES_PER_PERSON == 20 * 2**30


def test_the_page_says_what_one_has_and_may_have(send, as_, alice, settings):
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


def test_each_person_has_limits_of_their_own(send, bob, settings):
    settings.MAX_UPLOADS_PER_PERSON = 1
    assert send().status_code == 302
    assert send(by=bob).status_code == 302
    assert send(by=bob).status_code == 400


def delete_rows(upload):
    services.datasets.delete_rows(dataset=upload.dataset)


def discard_dataset(upload):
    services.datasets.discard_dataset(dataset=upload.dataset)


@pytest.mark.parametrize("free", [delete_rows, discard_dataset])
def test_room_is_made_as_the_page_says(send, read_uploads, alice, settings, free):
    settings.MAX_UPLOADS_PER_PERSON = 1
    send()
    assert services.uploads.room_of(alice) == Room(number=1, size=len(CSV))
    read_uploads()
    assert services.uploads.room_of(alice) == Room(number=1, size=len(CSV))
    assert send(OTHER).status_code == 400
    free(Upload.objects.get())
    assert services.uploads.room_of(alice).number == 0
    assert send(OTHER).status_code == 302


def test_stopping_an_upload_makes_room_and_a_refused_one_takes_none(send, read_uploads, alice, settings):
    settings.MAX_UPLOADS_PER_PERSON = 1
    send(b"a,b\n1\n")
    assert send().status_code == 400
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
    assert refused.status_code == 400
    said = refused.json()
    assert said["field"] == "table"
    assert said["value"] == value.format(left=left)
    assert said["rule"].startswith(rule.format(left=left))
    assert FREES in said["message"]
    assert Upload.objects.count() == 1


def test_what_the_command_line_brings_is_no_upload(alice, upload_file, settings):
    settings.MAX_UPLOADS_PER_PERSON = 0
    services.datasets.ingest_dataset(owner=alice, title="Survey", source=upload_file())
    assert services.uploads.room_of(alice).number == 0
    assert Dataset.objects.count() == 1


def test_a_plan_file_is_no_table_and_needs_no_room(as_, draft, bob, alice, settings):
    settings.MAX_UPLOADS_PER_PERSON = 0
    dora = person("dora")
    dora.groups.add(bob.groups.get())
    plan = as_(dora).get(reverse("plan_file", args=[draft.pk])).content
    file = SimpleUploadedFile("plan.json", plan)
    assert as_(dora).post(reverse("load_plan", args=[draft.pk]), {"plan": file}).status_code == 302


def test_no_file_in_another_place_of_a_form_is_larger_than_a_form(as_, draft, alice, settings, stored):
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 1000
    refused = as_(alice).post(
        reverse("load_plan", args=[draft.pk]), {"plan": SimpleUploadedFile("plan.json", b" " * 2500)}
    )
    assert refused.status_code == 400
    assert sum(stored) <= 1000
