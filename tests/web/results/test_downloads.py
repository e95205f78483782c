"""What leaves the site: answers, synthetic rows, the receipt."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import unicodedata
import uuid
import zipfile
from pathlib import Path

import pyarrow.parquet
import pytest
from django.conf import settings
from django.urls import reverse
from django.utils.formats import date_format
from django.utils.text import slugify
from django.utils.timezone import localtime

from releases import services
from releases.engine.accounting.filters import Policy
from releases.engine.bounds.accuracy import Proof
from releases.engine.domain.privacy import NeighbouringRelation, PrivacyUnit
from releases.models import AuditEvent, LedgerEntry, Release
from releases.publication.archive import ARCHIVE
from releases.publication.dictionary import dictionary_csv
from releases.publication.files import folder_of, readable_size
from releases.publication.readme import name_of
from releases.publication.receipt import content_digest, price_of_receipt, rows_text
from releases.services.datasets import table_path
from tests.web.conftest import COLUMNS, CSV
from tests.web.pages import body, words

pytestmark = pytest.mark.django_db

FORMULAS = ["=1+1", "@SUM(A1)", "+cmd|' /C calc'!A0", "-2+3+cmd", "＝1+1", "＋1+1", "－1+1", "＠a", "plain"]


def file_url(release, name):
    return reverse("download", args=[release.pk, name])


@pytest.fixture
def full(dataset, make_queued):
    """A published release with synthetic rows."""
    release = make_queued(dataset, mechanism="laplace-histogram")
    assert services.execution.execute_release(release_id=release.pk)
    release.refresh_from_db()
    return release


def full_page(release):
    return reverse("release_detail", args=[release.pk])


def body_bytes(response):
    return b"".join(response.streaming_content) if response.streaming else response.content


def zipped(response):
    assert response["Content-Type"] == "application/zip"
    return zipfile.ZipFile(io.BytesIO(b"".join(response.streaming_content)))


def read_csv(response):
    return list(csv.DictReader(io.StringIO(body(response))))


def test_every_file_can_be_downloaded_with_its_size_on_the_page(full, as_, alice):
    page = words(as_(alice).get(reverse("release_detail", args=[full.pk])))
    names = {"answers.csv", "answers.parquet", "synthetic.csv", "synthetic.parquet", "receipt.json"}
    names |= {"report.html", "report.pdf", "notebook.ipynb", "trust_map.csv"}
    assert set(full.result["files"]) == names
    for name in names:
        response = as_(alice).get(file_url(full, name))
        assert response.status_code == 200
        assert response["X-Content-Type-Options"] == "nosniff"
        assert len(b"".join(response.streaming_content)) == full.result["files"][name]
        assert name in page


def test_files_of_different_releases_have_different_names(full, dataset, make_queued, as_, alice):
    other = make_queued(dataset, epsilon="0.2")
    assert services.execution.execute_release(release_id=other.pk)
    other.refresh_from_db()
    names = set()
    for release in (full, other):
        short = str(release.pk)[:8]
        within = f"{rows_text(release.result['receipt']['bound']['alpha']).replace(' ', '-')}-at-95-percent"
        kept_names = {
            # A CSV file has no room within for how close its numbers are.
            "answers.csv": f"-answers-within-{within}.csv",
            "answers.parquet": "-answers.parquet",
            "dictionary.csv": "-dictionary.csv",
            ARCHIVE: ".zip",
        }
        for name, kept in kept_names.items():
            response = as_(alice).get(file_url(release, name))
            told_apart = slugify(release.title)
            assert response["Content-Disposition"] == f'attachment; filename="{told_apart}-{short}{kept}"'
            names.add(response["Content-Disposition"])
    assert len(names) == 8


@pytest.mark.parametrize(
    ("title", "name"),
    [("保険", "release-"), ('../"x\r\ny', "x-y-"), ("A" * 200, "a" * 40 + "-"), ("Été, 1996", "ete-1996-")],
)
def test_a_title_of_any_kind_gives_a_file_name(title, name):
    assert name_of(title, "65a2e8fe-3dc8-4797-ba6e-b7f890d3bf4e") == name + "65a2e8fe"


def test_parquet_files_say_what_they_are_of_and_how_accurate(full, as_, alice, tmp_path):
    receipt = full.result["receipt"]
    for kind in ("answers", "synthetic"):
        path = tmp_path / f"{kind}.parquet"
        path.write_bytes(b"".join(as_(alice).get(file_url(full, f"{kind}.parquet")).streaming_content))
        held = {key.decode(): value.decode() for key, value in pyarrow.parquet.read_metadata(path).metadata.items()}
        assert held["dpweb.sentence"] == receipt["bound"]["sentence"]
        assert held["dpweb.confidence"] == "95%"
        assert (held["dpweb.epsilon"], held["dpweb.delta"]) == ("1", "0")
        assert held["dpweb.release"] == str(full.pk)
        assert held["dpweb.path"] == reverse("release_detail", args=[full.pk])
        assert (held["dpweb.dataset"], held["dpweb.title"]) == (full.dataset.title, full.title)
        assert ("dpweb.sentence_is_about" in held) is (kind == "synthetic")


def test_the_archive_holds_every_file_as_published_with_a_dictionary_and_a_text(full, as_, alice):
    client = as_(alice)
    with zipped(client.get(file_url(full, ARCHIVE))) as archive:
        assert archive.testzip() is None
        (folder,) = {name.split("/")[0] for name in archive.namelist()}
        assert folder == name_of(full.title, str(full.pk))
        held = {name.split("/")[1]: archive.read(name) for name in archive.namelist()}
    assert set(held) == {*full.result["files"], "dictionary.csv", "README.txt"}
    for name in full.result["files"]:
        assert held[name] == b"".join(client.get(file_url(full, name)).streaming_content)
    assert held["dictionary.csv"].decode() == body(client.get(file_url(full, "dictionary.csv")))


def test_the_page_says_how_large_each_download_is(full, as_, alice):
    client = as_(alice)
    shown = {each.name: each.size for each in client.get(full_page(full)).context["page"].downloads}
    lengths = {name: len(body_bytes(client.get(file_url(full, name)))) for name in shown}
    below = shown.pop(ARCHIVE)
    assert shown == {name: readable_size(lengths[name]) for name in shown}
    number, unit = below.removeprefix("below ").split()
    assert lengths[ARCHIVE] < float(number) * {"bytes": 1, "kB": 1000}[unit]


def test_the_text_in_the_archive_says_accuracy_cost_protection_rules_and_how_to_cite(full, as_, alice):
    client = as_(alice)
    with zipped(client.get(file_url(full, ARCHIVE))) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("README.txt"))
        said = " ".join(archive.read(name).decode().split())
    receipt = full.result["receipt"]
    cited = client.get(reverse("release_detail", args=[full.pk])).context["citation"]
    for expected in (
        receipt["bound"]["sentence"],
        "epsilon 1",
        "one row; whether somebody is in the table is private: add/remove neighbours",
        *receipt["rules_in_words"],
        cited["text"],
        cited["digest"],
        full.dataset.title,
        str(full.pk),
    ):
        assert expected in said
    assert all(len(line) <= 100 or " " not in line.strip() for line in said.splitlines()[1:])


def test_the_archive_is_the_same_whenever_it_is_asked_for(full, as_, alice):
    first, second = (b"".join(as_(alice).get(file_url(full, ARCHIVE)).streaming_content) for _ in range(2))
    assert first == second


def test_releases_published_before_there_were_archives_have_theirs_too(full, as_, alice):
    """What older receipts do not say is left out, and the rest is there."""
    for name in ("rules_in_words", "synthetic_columns", "events_in_words"):
        del full.result["receipt"][name]
    full.save(update_fields=["result"])
    client = as_(alice)
    with zipped(client.get(file_url(full, ARCHIVE))) as archive:
        assert len(archive.namelist()) == len(full.result["files"]) + len(("README.txt", "dictionary.csv"))
    assert client.get(file_url(full, "dictionary.csv")).status_code == 200
    assert client.get(reverse("release_detail", args=[full.pk])).status_code == 200
    assert client.get(reverse("receipt", args=[full.pk])).status_code == 200


def test_downloads_made_for_a_reader_are_recorded_by_their_names(full, as_, alice):
    for name in (ARCHIVE, "dictionary.csv"):
        as_(alice).get(file_url(full, name))
    assert list(AuditEvent.objects.filter(action="download").order_by("pk").values_list("detail", flat=True)) == [
        ARCHIVE,
        "dictionary.csv",
    ]


def test_the_dictionary_has_a_line_for_every_bin_and_category_and_column_of_the_answers(full, as_, alice):
    lines = read_csv(as_(alice).get(file_url(full, "dictionary.csv")))
    assert [(line["column"], line["bin"], line["label"]) for line in lines] == [
        *(("age", str(number), label) for number, label in enumerate(full.dataset.universe["age"].labels, 1)),
        ("sex", "1", "female"),
        ("sex", "2", "male"),
        *((name, "", "") for name in ("query", "estimate", "lower", "upper")),
    ]
    first, middle, last = lines[0], lines[1], lines[4]
    assert first["meaning"] == "the whole numbers 18 to 24"
    assert [each["also_holds"] for each in (first, middle, last)] == ["values below 18", "", "values above 65"]
    assert "a row without a number is left out of every count" in first["other_values"]
    assert first["synthetic_value"] == "a whole number within the bin, each equally likely"
    assert lines[5]["meaning"] == "rows whose sex is “female”"
    assert lines[5]["other_values"] == "a row with any other value, or none, is left out of every count"
    assert (lines[5]["in_answers"], lines[5]["in_synthetic"]) == ("sex", "sex")
    assert "with probability 95%" in lines[-1]["meaning"]


def test_the_dictionary_tells_every_kind_of_column():
    schema = {
        "version": 1,
        "columns": [
            {"name": "wage", "type": "number", "edges": [0, 10.5, 20], "decimals": 1},
            {"name": "town", "type": "categorical", "categories": ["=a", "other"], "outside": "other"},
            {"name": "height", "type": "number", "edges": [1, 2], "outside": "drop"},
            {"name": "weight", "type": "number", "edges": [1, 2], "missing": ["-9", "NA"]},
            {"name": "estimate", "type": "integer", "edges": [0, 1, 3]},
            {
                "name": "job",
                "type": "categorical",
                "categories": ["a", "b", "none"],
                "outside": "b",
                "missing_as": "none",
            },
            {"name": "pet", "type": "categorical", "categories": ["a", "b"], "outside": "b", "missing_as": "drop"},
        ],
    }
    bound = {"beta": "1/20", "proof": Proof.EXPECTED.value}
    receipt = {"schema": schema, "synthetic_rows": 9, "synthetic_columns": ["wage"], "bound": bound}
    answers = ["query", "estimate_column", "estimate", "lower"]
    lines = list(csv.DictReader(io.StringIO(dictionary_csv(receipt, answers=answers, notes={}))))
    said = {(line["column"], line["bin"]): line for line in lines}
    assert said["wage", "1"]["meaning"] == "numbers from 0 to below 10.5"
    assert said["wage", "2"]["meaning"] == "numbers from 10.5 to 20, both included"
    assert said["wage", "1"]["synthetic_value"] == "a number of 1 decimal within the bin, each equally likely"
    assert said["town", "1"]["label"] == "'=a"
    assert (said["town", "1"]["also_holds"], said["town", "1"]["synthetic_value"]) == ("", "")
    assert said["town", "2"]["also_holds"] == "every other value, and rows without one"
    assert said["town", "2"]["other_values"] == "any other value, or none, counts as other"
    assert said["height", "1"]["also_holds"] == ""
    assert (
        said["height", "1"]["other_values"] == "a row with a number beyond, or without one, is left out of every count"
    )
    assert said["weight", "1"]["other_values"] == (
        "a number beyond counts in the nearest bin; a row without a number is left out of every count; "
        "-9, NA mean that a value is missing"
    )
    assert [said["job", str(bin)]["also_holds"] for bin in (1, 2, 3)] == [
        "",
        "every other value",
        "rows without a value",
    ]
    assert (
        said["job", "1"]["other_values"] == "any other value counts as b; a row without a value of job counts as none"
    )
    assert said["pet", "2"]["also_holds"] == "every other value"
    assert said["pet", "1"]["other_values"] == (
        "any other value counts as b; a row without a value of pet is left out of every count"
    )
    assert said["estimate", "1"]["meaning"] == "the whole number 0"
    assert said["estimate", "1"]["in_answers"] == "estimate_column"
    assert said["estimate", ""]["in_answers"] == "estimate"
    assert said["lower", ""]["meaning"].startswith("the truth is expected to be at least this")


def test_the_page_says_what_the_columns_mean(full, as_, alice):
    page = words(as_(alice).get(reverse("release_detail", args=[full.pk])))
    assert "5 bins: 18 to 24, 25 to 34, 35 to 44, 45 to 54, 55 to 65" in page
    assert "2 categories: female, male" in page
    assert "A row with any other value, or none, is left out of every count." in page
    assert "A whole number within the bin, each equally likely" in page


def test_where_there_are_no_synthetic_rows_the_page_says_nothing_of_how_they_are_drawn(full, as_, alice):
    full.result["receipt"]["synthetic_rows"] = 0
    full.save(update_fields=["result"])
    page = words(as_(alice).get(reverse("release_detail", args=[full.pk])))
    assert "2 categories: female, male" in page
    assert "Synthetic value" not in page
    assert "each equally likely" not in page


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


def test_the_receipt_says_which_source_made_it_as_a_shell_would_work_it_out(full, as_, alice):
    source = full.result["receipt"]["software"]["source"]
    command = "find dpweb releases -name '*.py' | LC_ALL=C sort | xargs sha256sum | sha256sum | cut -c1-16"
    printed = subprocess.run(command, shell=True, capture_output=True, text=True, check=True, cwd=settings.BASE_DIR)
    assert source == printed.stdout.strip()
    page = words(as_(alice).get(reverse("receipt", args=[full.pk])))
    assert f"Source {source} : the beginning of the SHA-256 over the program's own Python files" in page


def test_an_old_receipt_without_a_source_is_still_a_page(full, as_, alice):
    del full.result["receipt"]["software"]["source"]
    full.save(update_fields=["result"])
    assert "SHA-256" not in words(as_(alice).get(reverse("receipt", args=[full.pk])))


def test_two_receipts_of_the_same_rows_differ_in_the_digest_and_the_site_can_tell_them(full, make_queued, alice):
    again = make_queued(full.dataset, epsilon="0.1")
    copied = services.datasets.ingest_dataset(owner=alice, title="Copy", source=Path(table_path(full.dataset)))
    services.datasets.declare_universe(dataset=copied, columns=COLUMNS)
    services.datasets.join_population(dataset=copied, other=full.dataset, by=alice)
    copied.refresh_from_db()
    copy = make_queued(copied, epsilon="0.1")
    for each in (again, copy):
        assert services.execution.execute_release(release_id=each.pk)
        each.refresh_from_db()
    digests = [each.result["receipt"]["content_digest"] for each in (full, again, copy)]
    assert len({*digests, full.dataset.digest}) == 4
    assert digests == [content_digest(each) for each in (full, again, copy)]


def test_no_file_of_a_release_has_the_table_s_own_digest(full, as_, alice):
    digest = full.dataset.digest.encode()
    folder = folder_of(full)
    assert all(digest not in path.read_bytes() for path in folder.rglob("*") if path.is_file())
    pages = [reverse(page, args=[full.pk]) for page in ("release_detail", "receipt", "registry")]
    for address in (*pages, f"/api/releases/{full.pk}", f"/api/datasets/{full.dataset_id}"):
        response = as_(alice).get(address)
        assert response.status_code == 200
        assert digest.decode() not in body(response), address


def test_an_old_receipt_keeps_its_digest_and_says_what_it_is(full, as_, alice):
    full.result["receipt"] |= {"version": 1, "content_digest": "a" * 64}
    full.save(update_fields=["result"])
    page = words(as_(alice).get(reverse("receipt", args=[full.pk])))
    assert "a" * 64 in page
    assert "Another receipt with the same one is of the same rows." in page


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
    assert "one row; whether somebody is in the table is private: add/remove neighbours" in page
    assert receipt["content_digest"] in page
    assert "Every release has another, of the same rows too." in page
    assert "Dataset Survey " in page
    assert "Questions 2 tables of counts over 1 column, 1 table of counts over 2 columns; 17 answers" in page
    assert "age; sex; age × sex" in page
    assert f"Finished {date_format(localtime(full.published_at), 'j F Y')}" in page


def test_of_many_questions_the_receipt_names_the_first_and_says_how_many_more(full, as_, alice, monkeypatch):
    monkeypatch.setattr("releases.views.results.downloads._MAX_TITLES", 1)
    assert "age; and 2 more, in the file" in words(as_(alice).get(reverse("receipt", args=[full.pk])))


def test_all_answers_can_be_had_as_json(full, as_, alice):
    held = json.loads(body(as_(alice).get(reverse("answers", args=[full.pk]))))
    answers = held["answers"]
    assert held["sentence"] == full.result["receipt"]["bound"]["sentence"]
    assert (held["confidence"], held["epsilon"], held["delta"]) == ("95%", "1", "0")
    assert (held["release"], held["path"]) == (str(full.pk), reverse("release_detail", args=[full.pk]))
    rows = read_csv(as_(alice).get(file_url(full, "answers.csv")))
    assert [row["query"] for row in answers] == [row["query"] for row in rows]
    assert [row["estimate"] for row in answers] == [float(row["estimate"]) for row in rows]


@pytest.mark.parametrize("name", ["nothing.csv", "data.csv", "..", "receipt.json.bak", "%2e%2e%2fdb.sqlite3"])
def test_a_file_that_the_release_does_not_have_is_a_404(published, as_, alice, name):
    assert as_(alice).get(f"/releases/{published.pk}/files/{name}").status_code == 404


def test_before_it_is_published_there_is_nothing_to_download(queued, as_, alice):
    for url in (
        file_url(queued, "answers.csv"),
        file_url(queued, "dictionary.csv"),
        file_url(queued, ARCHIVE),
        reverse("answers", args=[queued.pk]),
        reverse("receipt", args=[queued.pk]),
    ):
        assert as_(alice).get(url).status_code == 404


def release_of(content, columns, alice, sofia, upload_file, mechanism="laplace-histogram"):
    dataset = services.datasets.ingest_dataset(owner=alice, title="Survey", source=upload_file(content))
    services.datasets.declare_universe(dataset=dataset, columns=columns)
    services.datasets.declare_protection(
        dataset=dataset, unit=PrivacyUnit(), neighbours=NeighbouringRelation.ADD_REMOVE
    )
    asked = services.budgets.request_budget(
        dataset=dataset, epsilon="2", delta="0.000001", policy=Policy.ZCDP, reason="", by=alice
    )
    services.budgets.approve_request(request=asked, by=sofia)
    release = services.releases.draft_release(dataset=dataset, by=alice)
    services.releases.set_questions(release=release, workload={"version": 1, "queries": [{"marginals": 1}]})
    services.releases.set_choice(release=release, epsilon="2", mechanism_name=mechanism)
    services.releases.submit_release(release=release, key=uuid.uuid4(), by=alice, send=False)
    assert services.execution.execute_release(release_id=release.pk)
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
    assert "'＝1+1" in cells
    for value in cells:
        assert unicodedata.normalize("NFKC", value)[:1] not in ("=", "@")
        assert value[:1] not in ("=", "@", "\t", "\r", "＋", "－")
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


# Synthetic rows beside the answers


def counted(rows, columns):
    """The same count of synthetic rows, worked out by hand: ages by their bins."""
    edges = [18, 25, 35, 45, 55, 65]

    def label(name, value):
        if name != "age":
            return value
        position = max(index for index, edge in enumerate(edges[:-1]) if int(value) >= edge)
        return f"{edges[position]} to {edges[position + 1] - (position < 4)}"

    return sum(all(label(name, row[name]) == wanted for name, wanted in columns.items()) for row in rows)


@pytest.mark.parametrize("epsilon", ["2", "0.05"])
def test_a_release_says_how_far_its_synthetic_rows_are_from_its_own_answers(
    make_dataset, make_queued, as_, alice, epsilon
):
    release = make_queued(make_dataset(epsilon="5"), mechanism="laplace-histogram", epsilon=epsilon)
    assert services.execution.execute_release(release_id=release.pk)
    release.refresh_from_db()
    client = as_(alice)
    answers, rows = (read_csv(client.get(file_url(release, f"{name}.csv"))) for name in ("answers", "synthetic"))
    outside, largest = 0, 0.0
    for each in answers:
        found = counted(rows, {name: each[name] for name in ("age", "sex") if each[name]})
        outside += not float(each["lower"]) <= found <= float(each["upper"])
        largest = max(largest, abs(found - float(each["estimate"])))
    beside = release.result["receipt"]["synthetic_beside"]
    assert (beside["outside"], beside["largest_difference"]) == (outside, pytest.approx(largest))
    said = "differ from the released counts by at most" if not outside else f"for {outside} of {len(answers)} counts"
    assert said in words(client.get(full_page(release)))
    archive = zipped(client.get(file_url(release, ARCHIVE)))
    (readme,) = (archive.read(name).decode() for name in archive.namelist() if name.endswith("README.txt"))
    assert said in " ".join(readme.split())
