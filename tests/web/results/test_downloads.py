"""What leaves the site: answers, synthetic rows, the receipt."""

import csv
import hashlib
import io
import json
import unicodedata
import zipfile
from pathlib import Path

import pytest
import yaml

from releases import services
from releases.publication.archive import ARCHIVE
from releases.publication.files import RECEIPT, folder_of
from releases.publication.readme import name_of
from releases.publication.receipt import content_digest
from releases.services.datasets import table_path
from tests.web.conftest import COLUMNS, CSV
from tests.web.pages import body, link, words

FORMULAS = ["=1+1", "@SUM(A1)", "+cmd|' /C calc'!A0", "-2+3+cmd", "＝1+1", "＋1+1", "－1+1", "＠a", "plain"]


@pytest.fixture
def get(as_, alice):
    """What alice downloads."""

    def download(release, name):
        response = as_(alice).get(link("download", release, name))
        assert response.status_code == 200
        assert response["X-Content-Type-Options"] == "nosniff"
        return b"".join(response)

    return download


@pytest.fixture
def lines(get):
    return lambda release, name: list(csv.DictReader(io.StringIO(get(release, name).decode())))


@pytest.mark.parametrize(
    ("title", "name"),
    [("保険", "release-"), ('../"x\r\ny', "x-y-"), ("A" * 200, "a" * 40 + "-")],
)
def test_a_title_of_any_kind_gives_a_file_name(title, name):
    assert name_of(title, "65a2e8fe-3dc8-4797-ba6e-b7f890d3bf4e") == name + "65a2e8fe"


def test_the_archive_holds_every_file_a_dictionary_and_a_text_and_is_the_same_each_time(full, get, as_, alice):
    response = as_(alice).get(link("download", full, ARCHIVE))
    assert response["Content-Type"] == "application/zip"
    assert b"".join(response) == get(full, ARCHIVE)
    with zipfile.ZipFile(io.BytesIO(get(full, ARCHIVE))) as archive:
        assert archive.testzip() is None
        (folder,) = {name.split("/")[0] for name in archive.namelist()}
        assert folder == name_of(full.title, str(full.pk))
        held = {name.split("/")[1]: archive.read(name) for name in archive.namelist()}
    assert set(held) == {*full.result["files"], "dictionary.csv", "README.txt"}
    for name in set(held) - {"README.txt"}:
        assert held[name] == get(full, name)
        assert len(held[name]) == full.result["files"].get(name, len(held[name]))
    said = " ".join(held["README.txt"].decode().split())
    receipt = full.result["receipt"]
    cited = as_(alice).get(link("release_detail", full)).context["citation"]
    told = [receipt["bound"]["sentence"], "epsilon 1", *receipt["rules_in_words"], cited["text"], cited["digest"]]
    for expected in (*told, "one row; whether somebody is in the table is private", full.dataset.title, str(full.pk)):
        assert expected in said


def test_the_dictionary_has_a_line_for_every_bin_and_category_and_column_of_answers_and_totals(full, lines):
    found = lines(full, "dictionary.csv")
    assert [(line["column"], line["bin"], line["label"]) for line in found] == [
        *(("age", str(number), label) for number, label in enumerate(full.dataset.universe["age"].labels, 1)),
        ("sex", "1", "female"),
        ("sex", "2", "male"),
        *((name, "", "") for name in ("query", "estimate", "lower", "upper", "statistic")),
    ]
    assert [found[place]["also_holds"] for place in (0, 1, 4)] == ["values below 18", "", "values above 65"]


def test_the_receipt_says_what_was_done_and_what_it_cost(full, get):
    receipt = json.loads(get(full, "receipt.json"))
    for field in ("unit", "neighbours", "universe_size", "mechanism", "events", "cost", "bound", "software", "date"):
        assert receipt[field]


def test_the_receipt_carries_no_running_time_and_no_true_count(full, get):
    text = get(full, "receipt.json").decode()
    assert "second" not in text.replace("second_moments", "")
    assert "started" not in text
    assert json.loads(text)["total"]["kind"] == "released with noise"


def test_two_receipts_of_the_same_rows_differ_in_the_digest_and_the_site_can_tell_them(
    full, make_draft, carry_out, alice
):
    copied = services.datasets.ingest_dataset(owner=alice, title="Copy", source=Path(table_path(full.dataset)))
    services.datasets.declare_universe(dataset=copied, columns=COLUMNS)
    services.datasets.join_population(dataset=copied, other=full.dataset, by=alice)
    copied.refresh_from_db()
    made = [full, *(carry_out(make_draft(each, epsilon="0.1")) for each in (full.dataset, copied))]
    digests = [each.result["receipt"]["content_digest"] for each in made]
    assert len({*digests, full.dataset.digest}) == 4
    assert digests == [content_digest(each) for each in made]


def test_no_file_of_a_release_has_the_table_s_own_digest(full, as_, alice):
    digest = full.dataset.digest
    assert all(digest.encode() not in path.read_bytes() for path in folder_of(full).rglob("*") if path.is_file())
    pages = [link(page, full) for page in ("release_detail", "receipt", "registry")]
    for address in (*pages, f"/api/releases/{full.pk}", f"/api/datasets/{full.dataset_id}"):
        response = as_(alice).get(address)
        assert response.status_code == 200
        assert digest not in body(response), address


@pytest.mark.parametrize("name", ["..", "%2e%2e%2fdb.sqlite3"])
def test_a_file_that_the_release_does_not_have_is_a_404(published, as_, alice, name):
    assert as_(alice).get(f"/releases/{published.pk}/files/{name}").status_code == 404


def test_before_it_is_published_there_is_nothing_to_download(queued, as_, alice):
    files = [link("download", queued, name) for name in ("answers.csv", "dictionary.csv", ARCHIVE)]
    for url in (*files, link("answers", queued), link("receipt", queued)):
        assert as_(alice).get(url).status_code == 404


def test_no_category_is_written_so_that_a_spreadsheet_runs_it(publish, get):
    content = b"age,sex,answer\n" + "".join(f'30,male,"{text}"\n' * 40 for text in FORMULAS).encode()
    columns = [{"name": "answer", "type": "categorical", "categories": FORMULAS}]
    counts = {"marginals": 1}
    release = publish(counts, content=content, columns=columns, epsilon="2", mechanism="laplace-histogram")
    written = [get(release, name).decode() for name in ("answers.csv", "synthetic.csv")]
    cells = [value for each in written for row in csv.reader(io.StringIO(each)) for value in row]
    assert "'=1+1" in cells
    assert "'＝1+1" in cells
    for value in cells:
        assert unicodedata.normalize("NFKC", value)[:1] not in ("=", "@")
        assert value[:1] not in ("=", "@", "\t", "\r", "＋", "－")
        assert value[:1] not in ("+", "-") or value.lstrip("+-").replace(".", "").isdigit()


def test_labels_and_shape_of_the_files_do_not_depend_on_the_rows(publish, lines):
    """A category that nobody has, and a row outside the declaration, leave no trace in what is listed."""
    columns = [
        {"name": "age", "type": "integer", "edges": [18, 35, 65]},
        {"name": "sex", "type": "categorical", "categories": ["female", "male", "other"]},
    ]
    listed = []
    for content in (CSV, CSV + b"p200,999,unheard of\n"):
        release = publish({"marginals": 1}, content=content, columns=columns, epsilon="2")
        listed.append([(row["query"], row["age"], row["sex"]) for row in lines(release, "answers.csv")])
    assert listed[0] == listed[1]


# How a release is cited, and its entry for the public registry of deployments


def test_a_release_is_cited_by_its_address_and_the_digest_of_its_receipt(public, client):
    page = words(client.get(link("release_detail", public)))
    digest = hashlib.sha256(b"".join(client.get(link("download", public, RECEIPT)).streaming_content)).hexdigest()
    for expected in (f"http://testserver/releases/{public.pk}/", f"Version {digest[:16]}.", digest, "(epsilon 1; "):
        assert expected in page


@pytest.mark.parametrize("mechanism", ["laplace-queries", "gaussian-queries"])
def test_an_entry_for_the_registry_says_what_was_spent(dataset, make_draft, carry_out, as_, alice, mechanism):
    delta = "0.000001" if mechanism == "gaussian-queries" else "0"
    release = carry_out(make_draft(dataset, mechanism=mechanism, epsilon="1", delta=delta))
    deployment = yaml.safe_load(body(as_(alice).get(link("registry", release))))["deployment"]
    variant, loss = deployment["dp_variant"]["variant_name"], deployment["privacy_loss"]
    if delta == "0":
        assert (variant, loss["privacy_parameters"]) == ("Pure DP", {"epsilon": 1.0})
    else:
        rho = float(release.result["receipt"]["cost"]["concentrated"]["rho"])
        assert (variant, loss["privacy_parameters"]) == ("Zero-concentrated DP", {"rho": rho})
        assert "Approximate DP: epsilon 0.999999999998, delta 0.000001." in loss["privacy_parameters_details"]
    assert loss["privacy_unit_details"].endswith("differ by one that is added or removed.")


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


def test_a_release_says_how_far_its_synthetic_rows_are_from_its_own_answers(make_dataset, make_draft, carry_out, lines):
    release = carry_out(make_draft(make_dataset(epsilon="5"), mechanism="laplace-histogram", epsilon="0.05"))
    answers, rows = (lines(release, f"{name}.csv") for name in ("answers", "synthetic"))
    outside, largest = 0, 0.0
    for each in answers:
        found = counted(rows, {name: each[name] for name in ("age", "sex") if each[name]})
        outside += not float(each["lower"]) <= found <= float(each["upper"])
        largest = max(largest, abs(found - float(each["estimate"])))
    beside = release.result["receipt"]["synthetic_beside"]
    assert (beside["outside"], beside["largest_difference"]) == (outside, pytest.approx(largest))
