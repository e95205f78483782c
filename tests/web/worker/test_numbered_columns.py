"""A table whose columns are named by numbers, from the file to its report: by pages, a worker and the command."""

import csv
import io
import json

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import call_command
from django.urls import reverse

from releases import services
from releases.models import Dataset
from releases.publication.archive import download_names
from tests.web.conftest import FOR_ROWS, give, write_json
from tests.web.datasets.conftest import filled
from tests.web.pages import link, words
from tests.web.steps import ask_for, protect

#: A sex, and what each person earned in two years, of which the second is less.
CONTENT = b"1,2023,2024,03\n" + b"f,30,10,x\nm,30,10,y\n" * 500
ROWS = 1000
COLUMNS = [
    {"name": "1", "kind": "categorical", "values": "f\nm", "missing_rule": "bin"},
    {"name": "2023", "kind": "integer", "values": "0, 20, 40", "missing_rule": "bin"},
    {"name": "2024", "kind": "integer", "values": "0, 20, 40", "missing_rule": "bin"},
    {"name": "less", "made": "1", "formula": "[2023] - [2024]", "kind": "integer", "values": "0, 10, 30"},
]


#: What the number is called that answers a statistic.
HEADS = ("estimate", "answer")


@pytest.fixture
def dataset(as_, alice, sofia, read_uploads):
    """Of alice, uploaded and declared by pages, with a budget."""
    give(alice, "curator")

    def send(**said):
        sent = {"title": "Years", "table": SimpleUploadedFile("years.csv", CONTENT), **said}
        return as_(alice).post(reverse("upload"), sent)

    refused = send()
    assert "must be chosen where columns are named by numbers: column 1 of the first line is one" in words(refused)
    assert send(number_names="yes").status_code == 302
    assert read_uploads() == 1
    dataset = Dataset.objects.get()
    assert dataset.columns == ["1", "2023", "2024", "03"]
    columns = reverse("columns", args=[dataset.pk])
    shown = as_(alice).get(columns)
    assert [form["name"].value() for form in shown.context["formset"]][:4] == dataset.columns
    assert as_(alice).post(columns, filled(*COLUMNS)).status_code == 302
    dataset = Dataset.objects.get()
    assert dataset.universe.names == ("1", "2023", "2024", "less")
    assert as_(alice).get(columns).status_code == 200
    protect(dataset, alice)
    services.budgets.approve_request(request=ask_for(dataset, alice, epsilon="100"), by=sofia)
    return Dataset.objects.get()


@pytest.fixture
def result(carry_out, as_, alice):
    """Carry out a draft; its answers, once every page and every file of it was looked at."""

    def read(draft):
        release, client = carry_out(draft), as_(alice)
        assert release.state == "published"
        for page in ("release_detail", "receipt", "compare_releases", "answers"):
            assert client.get(link(page, release)).status_code == 200
        for name in (*download_names(release.result), "report.html", "report.pdf"):
            assert b"".join(client.get(link("download", release, name))), name
        answers = b"".join(client.get(link("download", release, "answers.csv"))).decode()
        return client, list(csv.DictReader(io.StringIO(answers)))

    return read


def test_columns_named_by_numbers_are_asked_about_by_pages_and_counted_right(dataset, as_, alice, result):
    client = as_(alice)
    draft = services.releases.draft_release(dataset=dataset, by=alice, title="Years")
    page = link("questions", draft)
    assert "2023" in words(client.get(page, {"want": "table"}))
    client.post(page, {"action": "marginals", "order": "2", "columns": ["1", "2023"]})
    client.post(page, {"action": "prefix", "prefix": "2024"})
    client.post(page, {"action": "count", "in.1": ["f"], "in.2023": ["20 to 40"]})
    draft.refresh_from_db()
    assert len(draft.workload["queries"]) == 3, draft.workload
    compared = client.get(link("compare", draft))
    assert compared.status_code == 200
    services.releases.set_choice(release=draft, epsilon="50", mechanism_name="laplace-queries", options=FOR_ROWS)
    assert client.get(link("confirm", draft)).status_code == 200
    client, answers = result(draft)
    found = {(each["1"], each["2023"], each["2024"]): float(each["estimate"]) for each in answers}
    for place, expected in (
        (("f", "20 to 40", ""), ROWS / 2),
        (("m", "20 to 40", ""), ROWS / 2),
        (("f", "0 to 19", ""), 0),
    ):
        assert abs(found[place] - expected) < 5, found
    synthetic = client.get(link("download", draft, "synthetic.csv"))
    rows = list(csv.DictReader(io.StringIO(b"".join(synthetic).decode())))
    assert set(rows[0]) == {"1", "2023", "2024"}
    assert {row["1"] for row in rows} <= {"f", "m", "no value"}


@pytest.mark.parametrize(
    ("query", "mechanism"),
    [
        ({"mean": {"columns": ["2023"], "by": ["1"]}}, "laplace-numbers"),
        ({"mean": ["less"]}, "laplace-numbers"),
        ({"median": "2024"}, "exponential-quantile"),
    ],
)
def test_statistics_of_columns_named_by_numbers_are_answered(dataset, make_draft, result, as_, alice, query, mechanism):
    draft = make_draft(dataset, query, epsilon="20", mechanism=mechanism)
    assert as_(alice).get(link("questions", draft)).status_code == 200
    assert as_(alice).get(link("compare", draft)).status_code == 200
    _, answers = result(draft)
    expected = 30 if "2023" in json.dumps(query) else 20 if "less" in json.dumps(query) else 10
    assert answers
    for each in answers:
        # Nobody has no sex, so that mean is of noise alone.
        if "no value" not in each.values():
            assert any(abs(float(text) - expected) < 2 for head, text in each.items() if head in HEADS), each


def test_the_command_releases_a_table_whose_columns_are_named_by_numbers(upload_file, tmp_path, monkeypatch):
    monkeypatch.setattr("releases.management.commands.release.ensure_database", lambda: None)
    sex = {"name": "1", "type": "categorical", "categories": ["f", "m"]}
    columns = [sex, {"name": "2023", "type": "integer", "edges": [0, 20, 40]}]
    schema = {"version": 1, "unit": {"kind": "row"}, "neighbours": "add_remove", "columns": columns}
    call_command(
        "release",
        table=upload_file(CONTENT, name="years.csv"),
        number_names="yes",
        schema=write_json(tmp_path / "schema.json", schema),
        workload=write_json(tmp_path / "workload.json", {"version": 1, "queries": [{"marginal": ["1", "2023"]}]}),
        mechanism="laplace-queries",
        out=tmp_path / "out",
        epsilon="50",
        budget="100",
        stdout=io.StringIO(),
    )
    answers = csv.DictReader(io.StringIO((tmp_path / "out" / "answers.csv").read_text()))
    found = {(each["1"], each["2023"]): float(each["estimate"]) for each in answers}
    assert abs(found["f", "20 to 40"] - ROWS / 2) < 5
    assert found.keys() == {(sex, year) for sex in "fm" for year in ("0 to 19", "20 to 40")}
