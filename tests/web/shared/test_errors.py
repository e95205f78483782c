"""Pages for what cannot be served, without a private detail; and errors as pages say them, with places in words."""

from pathlib import Path

import pytest
from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.urls import reverse

import releases
from releases.display.error_messages import in_words
from releases.engine.domain.schema import Schema
from releases.engine.errors import InvalidInput
from releases.engine.workload.parsing import read_question
from releases.views.public import catalogue
from tests.web.pages import body, words


def test_a_page_that_is_not_there(client):
    """Pages are made as for real and not for developers."""
    assert not settings.DEBUG
    response = client.get("/nothing/here/")
    assert response.status_code == 404
    assert "There is nothing here" in words(response)
    assert "nothing/here" not in body(response)
    for address in ("/datasets/not-a-number/", "/releases/%00/", "/datasets/%ff/"):
        assert client.get(address).status_code == 404, address


def failing(monkeypatch, error):
    def fail(*args, **kwargs):
        raise error

    monkeypatch.setattr(catalogue.Release.objects, "for_catalogue", fail, raising=False)


def test_something_that_may_not_be_done_or_went_wrong_says_nothing_of_what(client, monkeypatch, django_db_blocker):
    failing(monkeypatch, PermissionDenied("a private detail"))
    response = client.get("/catalogue/")
    assert response.status_code == 403
    assert "private detail" not in body(response)
    failing(monkeypatch, RuntimeError("the row of Ann, 31, income 40000"))
    client.raise_request_exception = False
    response = client.get("/catalogue/")
    assert response.status_code == 500
    assert "Something went wrong here" in words(response)
    assert "Ann" not in body(response)
    assert "Traceback" not in body(response)
    with django_db_blocker.block():
        again = client.get("/catalogue/")
    assert (again.status_code, words(again)) == (500, words(response)), "it needs no database"


def test_a_request_that_cannot_be_read(client):
    response = client.get("/catalogue/", HTTP_HOST="elsewhere.example.org")
    assert response.status_code == 400
    assert "The request cannot be read" in words(response)
    assert "elsewhere" not in body(response)


@pytest.mark.parametrize(
    ("limit", "sent", "said"),
    [
        ({"DATA_UPLOAD_MAX_NUMBER_FIELDS": 10}, {f"in.{number}": "x" for number in range(11)}, "more than 10 fields."),
        ({"DATA_UPLOAD_MAX_MEMORY_SIZE": 1000}, {"workload": "x" * 2000}, "the rest of a form at most 1 kB"),
    ],
    ids=["of too many fields", "with a pasted text that is too long"],
)
def test_a_form_that_is_too_large(as_, alice, draft, settings, limit, sent, said):
    for name, value in limit.items():
        setattr(settings, name, value)
    response = as_(alice).post(reverse("questions", args=[draft.pk]), sent)
    assert response.status_code == 400
    assert said in words(response)


@pytest.mark.parametrize("text", ["a\x00b", "\ud800".encode("utf-8", "surrogatepass").decode("latin-1")])
def test_text_of_nonsense_gives_a_message_and_no_fault(as_, alice, draft, dataset, text):
    client = as_(alice)
    attempts = [
        (reverse("questions", args=[draft.pk]), {"workload": text}),
        (reverse("questions", args=[draft.pk]), {"action": "prefix", "prefix": text}),
        (reverse("compare", args=[draft.pk]), {"epsilon": text, "delta": text, "beta": text, "mechanism": text}),
        (reverse("confirm", args=[draft.pk]), {"key": text, "title": text, "plan": text}),
        (reverse("columns", args=[dataset.pk]), {"form-TOTAL_FORMS": text, "form-INITIAL_FORMS": text}),
        (reverse("protection", args=[dataset.pk]), {"kind": text, "neighbours": text, "max_rows": text}),
        (reverse("budget", args=[dataset.pk]), {"epsilon": text, "delta": text, "policy": text, "reason": text}),
        ("/datasets/new/", {"title": text}),
    ]
    for url, data in attempts:
        assert client.post(url, data).status_code in (302, 400, 409), (url, data)
    for url in ("/catalogue/?q=", reverse("compare", args=[draft.pk]) + "?error="):
        shown = client.get(url + text.replace("\x00", "%00"))
        assert shown.status_code == (400 if "\x00" in text else 200)
        assert ("The address holds a null character" in words(shown)) is ("\x00" in text)


# Errors as pages say them


COLUMNS = [
    {"name": "age", "type": "integer", "edges": [18, 25, 35]},
    {"name": "trip.from", "type": "integer", "edges": [0, 1, 2]},
]


def test_what_the_engine_says_of_a_workload_and_a_schema_is_translated():
    universe = Schema.from_json({"version": 1, "columns": COLUMNS}).universe
    asked = {"version": 1, "queries": [{"prefix": "age"}, {"count": {"age": {"from": 17}}}]}
    with pytest.raises(InvalidInput) as caught:
        read_question(asked, universe)
    assert caught.value.field == "queries[1].count.age.from"
    assert in_words(caught.value) == "Question 2, count, age, from: '17' must be a declared edge (nearest: 18, 25, 35)"
    with pytest.raises(InvalidInput) as caught:
        Schema.from_json({"version": 1, "columns": [COLUMNS[0], {**COLUMNS[1], "edges": [2, 1]}]})
    assert in_words(caught.value).startswith("Column 2 (trip.from), edges: '2, 1' must rise")


def test_every_page_says_errors_through_the_same_words():
    folder = Path(releases.__file__).parent
    for path in [*(folder / "views").rglob("*.py"), *(folder / "forms").glob("*.py")]:
        for raw in ("str(error)", "{error}"):
            assert raw not in path.read_text(), f"{path.name} shows an error raw; say in_words(error) instead"
