"""The report of a release, as HTML and as PDF, drawn by the program that draws it for everybody."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import zipfile
from io import BytesIO

import nbclient
import nbformat
import pytest

from releases.display import charts
from releases.publication import drawing, report
from releases.publication.files import folder_of
from tests.web.pages import link

pytestmark = pytest.mark.django_db

HOSTILE = '<script>alert("x")</script>'


@pytest.fixture
def run(dataset, make_draft, carry_out):
    return lambda **given: carry_out(make_draft(dataset, **given))


@pytest.fixture
def archive(as_, alice):
    """The archive of a release, opened."""

    def open_(release):
        response = as_(alice).get(link("download", release, "release.zip"))
        return zipfile.ZipFile(BytesIO(b"".join(response.streaming_content)))

    return open_


@pytest.mark.draws
def test_a_report_has_the_sentence_charts_numbers_cost_limits_and_citation(run, archive):
    release = run(mechanism="laplace-histogram")
    page, receipt = (folder_of(release) / report.HTML).read_text(), release.result["receipt"]
    told = (release.result["headline"], receipt["bound"]["sentence"], receipt["mechanism"]["title"], receipt["date"])
    for said in told:
        assert said.replace("'", "&#x27;") in page
    assert page.count("<svg") == len(re.findall(r"<figure", page)) > 0
    for outside in ("<script", "http://", "https://", "src=", "@import"):
        assert outside not in re.sub(r'xmlns(:xlink)?="[^"]*"', "", page), outside
    with archive(release) as opened:
        assert {"report.html", "report.pdf"} <= {name.split("/")[1] for name in opened.namelist()}
    pdf = (folder_of(release) / drawing.PDF).read_bytes()
    assert pdf.startswith(b"%PDF-")
    assert pdf.rstrip().endswith(b"%%EOF")


@pytest.mark.draws
def test_a_label_is_text_and_never_markup():
    rows = [{"label": each, "estimate": 1.0, "lower": 0.0, "upper": 2.0} for each in (HOSTILE, "#let x = 1", "*b* $y$")]
    table = report.ReportTable(
        title=HOSTILE,
        is_measured=False,
        heads=("Of", "Released"),
        rows=tuple((each["label"], "1") for each in rows),
        more="",
        chart=charts.marginal_bars(rows, title=HOSTILE),
    )
    said = dict.fromkeys(("title", "dataset", "about", "headline", "bound", "counted", "more", "citation"), HOSTILE)
    whole = report.Report(
        **said, date="2026-01-31", tables=(table,), facts=((HOSTILE, HOSTILE),), rules=(HOSTILE,), limits=(HOSTILE,)
    )
    files = report.files_of(whole)
    page = files[report.HTML].decode()
    assert "<script" not in page
    assert page.count("&lt;script&gt;") > len(said)
    assert len(files[drawing.PDF]) > 5000


@pytest.mark.parametrize("step", ["draw", "report_of", "files_of"])
def test_a_release_is_published_without_a_report_where_none_can_be_made(run, monkeypatch, caplog, as_, alice, step):
    def fails(*_, **__):
        raise subprocess.TimeoutExpired(cmd="draw", timeout=1)

    monkeypatch.setattr(report, step, fails)
    release = run()
    assert release.status.value == "published"
    assert not any(name.startswith("report") for name in release.result["files"])
    assert "no report was drawn" in caplog.text
    page = as_(alice).get(link("release_detail", release))
    assert b"report.pdf" not in page.content


def test_a_report_is_a_download_and_no_page_of_the_site(run, as_, alice):
    answer = as_(alice).get(link("download", run(), report.HTML))
    assert answer["Content-Disposition"].startswith("attachment")
    assert answer["X-Content-Type-Options"] == "nosniff"


def test_the_notebook_runs_in_the_unpacked_archive_and_draws_a_chart_of_every_question(run, archive, tmp_path):
    with archive(run(mechanism="laplace-histogram")) as opened:
        opened.extractall(tmp_path)
    (path,) = tmp_path.glob("*/notebook.ipynb")
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    done = nbclient.NotebookClient(notebook, resources={"metadata": {"path": path.parent}}).execute()
    outputs = [output for cell in done.cells if cell.cell_type == "code" for output in cell.outputs]
    charts_drawn = [each for each in outputs if "image/png" in each.get("data", {})]
    titles = {row["query"] for row in csv.DictReader((path.parent / "answers.csv").open())}
    assert len(charts_drawn) == len(titles) > 1


def test_a_chart_with_narrow_squares_has_no_numbers():
    chart = {"usermeta": {"across": 40}, "layer": [{"mark": "rect"}, {"mark": "text"}], "data": {}}
    assert drawing.fixed(chart)["layer"] == chart["layer"][:1]
    assert drawing.fixed(chart | {"usermeta": {"across": 4}})["layer"] == chart["layer"]
    assert json.dumps(drawing.fixed(chart)).count("rect") == 1
