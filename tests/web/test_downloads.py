"""What leaves the site: answers, synthetic rows, the receipt."""

from __future__ import annotations

import csv
import io
import json
import uuid

import pyarrow.parquet
import pytest
from django.urls import reverse

from releases import services
from releases.engine.filters import Policy
from releases.engine.privacy import NeighbouringRelation, PrivacyUnit
from releases.models import LedgerEntry, Release
from releases.receipt import price_of_receipt
from tests.web.conftest import CSV
from tests.web.pages import body, words

pytestmark = pytest.mark.django_db

FORMULAS = ["=1+1", "@SUM(A1)", "+cmd|' /C calc'!A0", "-2+3+cmd", "plain"]


def file_url(release, name):
    return reverse("download", args=[release.pk, name])


@pytest.fixture
def full(dataset, make_queued):
    """A published release with synthetic rows."""
    release = make_queued(dataset, mechanism="laplace-histogram")
    assert services.execute_release(release_id=release.pk)
    release.refresh_from_db()
    return release


def read_csv(response):
    return list(csv.DictReader(io.StringIO(body(response))))


def test_every_file_can_be_downloaded_with_its_size_on_the_page(full, as_, alice):
    page = words(as_(alice).get(reverse("release_detail", args=[full.pk])))
    names = {"answers.csv", "answers.parquet", "synthetic.csv", "synthetic.parquet", "receipt.json"}
    assert set(full.result["files"]) == names
    for name in names:
        response = as_(alice).get(file_url(full, name))
        assert response.status_code == 200
        assert response["Content-Disposition"] == f'attachment; filename="{name}"'
        assert response["X-Content-Type-Options"] == "nosniff"
        assert len(b"".join(response.streaming_content)) == full.result["files"][name]
        assert name in page


def test_the_answers_hold_every_cell_of_the_declared_domain_zeros_too(full, as_, alice):
    rows = read_csv(as_(alice).get(file_url(full, "answers.csv")))
    assert list(rows[0]) == ["query", "age", "sex", "estimate", "lower", "upper"]
    assert len(rows) == 5 + 2 + 10
    assert {row["age"] for row in rows if row["query"] == "age"} == {
        "18 to 24",
        "25 to 34",
        "35 to 44",
        "45 to 54",
        "55 to 65",
    }
    for row in rows:
        assert 0 <= float(row["lower"]) <= float(row["estimate"]) <= float(row["upper"])


def test_csv_and_parquet_hold_the_same(full, as_, alice, tmp_path):
    for kind in ("answers", "synthetic"):
        rows = read_csv(as_(alice).get(file_url(full, f"{kind}.csv")))
        path = tmp_path / f"{kind}.parquet"
        path.write_bytes(b"".join(as_(alice).get(file_url(full, f"{kind}.parquet")).streaming_content))
        table = pyarrow.parquet.read_table(path).to_pylist()
        assert len(rows) == len(table)
        assert [str(row["sex"] or "") for row in table] == [row["sex"] for row in rows]


def test_synthetic_rows_have_values_a_person_would_expect(full, as_, alice):
    rows = read_csv(as_(alice).get(file_url(full, "synthetic.csv")))
    assert list(rows[0]) == ["age", "sex"]
    assert all(18 <= int(row["age"]) <= 65 and row["sex"] in ("female", "male") for row in rows)
    assert len(rows) == full.result["receipt"]["synthetic_rows"]


def test_the_receipt_prices_the_release_again_without_the_data(full, as_, alice):
    receipt = json.loads(body(as_(alice).get(file_url(full, "receipt.json"))))
    assert price_of_receipt(receipt).to_json() == LedgerEntry.objects.get(kind="charge").detail["price"]
    for field in ("unit", "neighbours", "universe_size", "mechanism", "events", "cost", "bound", "software", "date"):
        assert receipt[field]


def test_the_receipt_carries_no_running_time_and_no_true_count(full, as_, alice):
    text = body(as_(alice).get(file_url(full, "receipt.json")))
    assert "second" not in text.replace("second_moments", "")
    assert "started" not in text
    assert json.loads(text)["total"]["kind"] == "released with noise"


def test_the_receipt_is_also_a_page(full, as_, alice):
    page = words(as_(alice).get(reverse("receipt", args=[full.pk])))
    receipt = full.result["receipt"]
    assert receipt["bound"]["sentence"] in page
    assert "Cost, pure epsilon 1" in page
    assert "one row; whether somebody is in the table is private (add/remove neighbours)" in page
    assert receipt["content_digest"] in page


def test_all_answers_can_be_had_as_json(full, as_, alice):
    answers = json.loads(body(as_(alice).get(reverse("answers", args=[full.pk]))))["answers"]
    rows = read_csv(as_(alice).get(file_url(full, "answers.csv")))
    assert [row["query"] for row in answers] == [row["query"] for row in rows]
    assert [row["estimate"] for row in answers] == [float(row["estimate"]) for row in rows]


@pytest.mark.parametrize("name", ["nothing.csv", "data.csv", "..", "receipt.json.bak", "%2e%2e%2fdb.sqlite3"])
def test_a_file_that_the_release_does_not_have_is_a_404(published, as_, alice, name):
    assert as_(alice).get(f"/releases/{published.pk}/files/{name}").status_code == 404


def test_before_it_is_published_there_is_nothing_to_download(queued, as_, alice):
    for url in (
        file_url(queued, "answers.csv"),
        reverse("answers", args=[queued.pk]),
        reverse("receipt", args=[queued.pk]),
    ):
        assert as_(alice).get(url).status_code == 404


def release_of(content, columns, alice, sofia, upload_file, mechanism="laplace-histogram"):
    dataset = services.ingest_dataset(owner=alice, title="Survey", source=upload_file(content))
    services.declare_universe(dataset=dataset, columns=columns)
    services.declare_protection(dataset=dataset, unit=PrivacyUnit(), neighbours=NeighbouringRelation.ADD_REMOVE)
    asked = services.request_budget(
        dataset=dataset, epsilon="2", delta="0.000001", policy=Policy.ZCDP, reason="", by=alice
    )
    services.approve_request(request=asked, by=sofia)
    release = services.draft_release(dataset=dataset, by=alice)
    services.set_questions(release=release, workload={"version": 1, "queries": [{"marginals": 1}]})
    services.set_choice(release=release, epsilon="2", mechanism_name=mechanism)
    services.submit_release(release=release, key=uuid.uuid4(), by=alice, send=False)
    assert services.execute_release(release_id=release.pk)
    return Release.objects.get(pk=release.pk)


def test_no_category_is_written_so_that_a_spreadsheet_runs_it(alice, sofia, upload_file, as_):
    content = b"answer\n" + "".join(f'"{text}"\n' * 40 for text in FORMULAS).encode()
    columns = [{"name": "answer", "type": "categorical", "categories": FORMULAS}]
    release = release_of(content, columns, alice, sofia, upload_file)
    cells = [
        value
        for name in ("answers.csv", "synthetic.csv")
        for row in csv.reader(io.StringIO(body(as_(alice).get(file_url(release, name)))))
        for value in row
    ]
    assert "'=1+1" in cells
    for value in cells:
        assert value[:1] not in ("=", "@", "\t", "\r")
        assert value[:1] not in ("+", "-") or value.lstrip("+-").replace(".", "").isdigit()


def test_the_page_counts_such_categories_among_the_synthetic_rows_all_the_same(alice, sofia, upload_file, as_):
    content = b"answer\n" + "".join(f'"{text}"\n' * 40 for text in FORMULAS).encode()
    columns = [{"name": "answer", "type": "categorical", "categories": FORMULAS}]
    release = release_of(content, columns, alice, sofia, upload_file)
    page = as_(alice).get(reverse("release_detail", args=[release.pk]))
    chart = json.loads(body(page).split('<script id="answers-data" type="application/json">')[1].split("</script>")[0])
    total = release.result["receipt"]["total"]["estimate"]
    assert sum(row["synthetic"] for row in chart["data"]["values"]) == pytest.approx(total)


def test_labels_and_shape_of_the_files_do_not_depend_on_the_rows(alice, sofia, upload_file, as_):
    """A category that nobody has, and a row outside the declaration, leave no trace in what is listed."""
    columns = [
        {"name": "age", "type": "integer", "edges": [18, 35, 65]},
        {"name": "sex", "type": "categorical", "categories": ["female", "male", "other"]},
    ]
    listed = []
    for content in (CSV, CSV + b"p200,999,unheard of\n"):
        release = release_of(content, columns, alice, sofia, upload_file, mechanism="laplace-queries")
        rows = read_csv(as_(alice).get(file_url(release, "answers.csv")))
        listed.append([(row["query"], row["age"], row["sex"]) for row in rows])
    assert listed[0] == listed[1]
