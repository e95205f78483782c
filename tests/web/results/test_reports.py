"""The report of a release, as HTML and as PDF, drawn by the program that draws it for everybody."""

import csv
import re
import subprocess
import zipfile
from dataclasses import replace
from html import unescape
from io import BytesIO

import pyarrow as pa
import pytest
from python_calamine import CalamineWorkbook

from releases.display.charts.answers import marginal_bars
from releases.publication import drawing, files, report
from releases.publication.files import folder_of
from releases.publication.workbook import workbook_of
from tests.web.pages import link

HOSTILE = '<script>alert("x")</script>'


def stored(release):
    return files.read_answers(folder_of(release)).to_pylist()


@pytest.fixture
def run(dataset, make_draft, carry_out):
    return lambda queries=(), **given: carry_out(make_draft(dataset, *queries, **given))


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
def test_a_report_says_of_the_synthetic_rows_all_that_their_page_says_with_the_same_charts(run, as_, alice):
    release = run(mechanism="laplace-histogram")
    trust = as_(alice).get(link("release_detail", release)).context["page"].trust
    assert trust.chart
    assert trust.associations
    page = (folder_of(release) / report.HTML).read_text()
    said = " ".join(unescape(page).split())
    texts = [trust.about, trust.advice, trust.counts, trust.of_associations, *trust.details]
    for row in (*trust.quality, *trust.pairs):
        cells = [getattr(row, name) for name in type(row).__slots__]
        texts += cells
        assert f"<td>{cells[0]}</td>" in said
    for each in texts:
        assert " ".join(each.split()) in said, each
    # The answers' charts, which relations to trust, and which columns go together.
    charts = re.split("<h2>", page)
    (synthetic,) = [each for each in charts if each.startswith("Synthetic rows")]
    assert synthetic.count("<svg") == 2


@pytest.mark.draws
def test_the_report_of_answers_alone_has_no_part_about_synthetic_rows(run):
    release = run(queries=[{"mean": ["age"]}], mechanism="laplace-numbers")
    assert "<h2>Synthetic rows" not in (folder_of(release) / report.HTML).read_text()


@pytest.mark.draws
def test_a_report_has_the_share_of_each_count_of_a_whole_table(run, archive):
    """Every table of counts has one, a single count and running totals have none."""
    counts = [{"marginal": ["age"]}, {"marginal": ["sex"]}, {"prefix": "age"}, {"count": {"sex": ["male"]}}]
    release = run(queries=counts, mechanism="laplace-queries", options={"agree": "yes"})
    page = (folder_of(release) / report.HTML).read_text()
    tables = re.findall(r"<table.*?</table>", page, flags=re.DOTALL)
    heads = [re.findall(r'<th scope="col">([^<]*)', each) for each in tables if "Released" in each]
    assert [each[-1] for each in heads] == ["Share", "Share", "At most", "At most"]
    shares = [float(each) for each in re.findall(r">\s*([0-9.]+)% \(", tables[0])]
    stored = files.read_answers(folder_of(release)).to_pylist()
    ages = [each["estimate"] for each in stored if each["query"] == "age"]
    assert shares == pytest.approx([100 * each / sum(ages) for each in ages], abs=0.05001)
    assert sum(shares) == pytest.approx(100, abs=0.05 * len(shares))
    for each in (each for each in tables if "Released" in each):
        rows = [re.findall(r"<td>([^<]*)</td>", row) for row in each.split("<tr>")]
        numbers = [cell for row in rows for cell in row[1:4]]
        assert numbers
        assert all(re.fullmatch("[0-9,]+", number) for number in numbers), numbers


@pytest.fixture
def said():
    """A report of nothing but hostile text."""
    texts = dict.fromkeys(("title", "dataset", "about", "headline", "bound", "counted", "more", "citation"), HOSTILE)
    listed = {"facts": ((HOSTILE, HOSTILE),), "rules": (HOSTILE,), "limits": (HOSTILE,)}
    return report.Report(**texts, **listed, date="2026-01-31", tables=())


@pytest.mark.draws
def test_a_label_is_text_and_never_markup(said):
    rows = [{"label": each, "estimate": 1.0, "lower": 0.0, "upper": 2.0} for each in (HOSTILE, "#let x = 1", "*b* $y$")]
    drawn = {"chart": marginal_bars(rows, title=HOSTILE), "rows": tuple((each["label"], "1") for each in rows)}
    table = report.ReportTable(title=HOSTILE, is_measured=False, heads=("Of", "Released"), more="", **drawn)
    files = report.files_of(replace(said, tables=(table,)))
    page = files[report.HTML].decode()
    assert "<script" not in page
    assert page.count("&lt;script&gt;") > 8
    assert len(files[drawing.PDF]) > 5000


def test_a_release_is_published_without_a_report_or_a_trust_map_where_none_can_be_made(run, monkeypatch, as_, alice):
    def fails(*_, **__):
        raise subprocess.TimeoutExpired(cmd="draw", timeout=1)

    monkeypatch.setattr(report, "draw", fails)
    monkeypatch.setattr(files, "trust_of", fails)
    release = run(mechanism="marginal-fit")
    assert release.status.value == "published"
    assert not any(name.startswith(("report", "trust")) for name in release.result["files"])
    assert {"answers.xlsx", "notebook.ipynb"} <= release.result["files"].keys()
    assert as_(alice).get(link("release_detail", release)).status_code == 200


def test_the_notebook_runs_in_the_unpacked_archive_and_draws_a_chart_of_every_question(run, archive, tmp_path):
    # Importing these takes three seconds, in every process that collects the tests.
    import nbclient
    import nbformat

    with archive(run(mechanism="laplace-histogram")) as opened:
        opened.extractall(tmp_path)
    (path,) = tmp_path.glob("*/notebook.ipynb")
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    done = nbclient.NotebookClient(notebook, resources={"metadata": {"path": path.parent}}).execute()
    outputs = [output for cell in done.cells if cell.cell_type == "code" for output in cell.outputs]
    charts_drawn = [each for each in outputs if "image/png" in each.get("data", {})]
    titles = {row["query"] for row in csv.DictReader((path.parent / "answers.csv").open())}
    # And which relations to trust, and which columns go together.
    assert len(charts_drawn) == len(titles) + 2 > 3


def test_the_notebook_draws_tables_of_two_columns_as_squares_with_numbers_and_what_to_trust(run, drawn_by_notebook):
    release = run(mechanism="laplace-histogram")
    charts = drawn_by_notebook(release)
    assert set(charts) > {"age", "age × sex", "Which relations to trust"}
    assert len(charts["age"].patches) == len([row for row in stored(release) if row["query"] == "age"])
    (squares,) = charts["age × sex"].images
    asked = [row["estimate"] for row in stored(release) if row["query"] == "age × sex"]
    assert squares.get_array().reshape(-1).tolist() == asked
    assert [text.get_text() for text in charts["age × sex"].texts] == [f"{number:,.0f}" for number in asked]
    certified = [text.get_text() for text in charts["Which relations to trust"].texts if text.get_text()]
    assert len(certified) == 1
    assert certified[0].endswith("%")


def test_the_notebook_draws_dates_on_an_axis_of_time(make_declared, make_draft, carry_out, drawn_by_notebook):
    days = [f"2024-0{1 + place % 3}-10" for place in range(90)]
    content = b"day,age,sex\n" + "".join(f"{day},40,male\n" for day in days).encode()
    columns = [
        {
            "name": "day",
            "type": "date",
            "format": "YYYY-MM-DD",
            "first": "2024-01-01",
            "last": "2024-03-31",
            "by": "month",
        }
    ]
    dataset = make_declared(columns, content=content, epsilon="100")
    release = carry_out(make_draft(dataset, {"marginal": ["day"]}, epsilon="20", mechanism="laplace-queries"))
    bars = drawn_by_notebook(release)["day"].patches
    import matplotlib.dates as mdates

    starts = [f"{mdates.num2date(bar.get_x()):%Y-%m-%d}" for bar in bars]
    assert starts == ["2024-01-01", "2024-02-01", "2024-03-01"]
    assert [round(bar.get_width()) for bar in bars] == [31, 29, 31]
    assert [bar.get_height() for bar in bars] == [row["estimate"] for row in stored(release)][:3]


def test_the_workbook_holds_the_answers_as_numbers_and_says_how_close_they_are_and_how_to_cite_them(run, archive):
    release = run(mechanism="laplace-histogram")
    with archive(release) as opened:
        (name,) = (name for name in opened.namelist() if name.endswith(".xlsx"))
        book = CalamineWorkbook.from_filelike(BytesIO(opened.read(name)))
    head, *rows = book.get_sheet_by_name("Answers").to_python()
    written = list(csv.DictReader((folder_of(release) / "answers.csv").open()))
    assert len(rows) == len(written) > 1
    for row, line in zip(rows, written, strict=True):
        found = dict(zip(head, row, strict=True))
        for each in ("estimate", "lower", "upper"):
            assert found.pop(each) == float(line.pop(each))
        assert {name: str(value or "") for name, value in found.items()} == line
    about = dict(book.get_sheet_by_name("About").to_python())
    assert about["How close"] == release.result["receipt"]["bound"]["sentence"]
    assert release.title in about["How to cite"]


def test_no_text_of_a_workbook_is_a_formula_or_a_link_and_a_long_one_is_not_made(said):
    texts = ["=1+1", "http://127.0.0.1/", "007", "{=SUM(A1)}"]
    answers = pa.table({"query": texts, "estimate": [1.5, 0.0, -2.0, float("nan")]})
    written = workbook_of(answers, said)
    with zipfile.ZipFile(BytesIO(written)) as parts:
        sheet = parts.read("xl/worksheets/sheet1.xml").decode()
        assert not any("rels" in name and "sheet1" in name for name in parts.namelist())
    assert "<f>" not in sheet
    _, *rows = CalamineWorkbook.from_filelike(BytesIO(written)).get_sheet_by_name("Answers").to_python()
    assert rows == [["=1+1", 1.5], ["http://127.0.0.1/", 0.0], ["007", -2.0], ["{=SUM(A1)}", ""]]
    assert workbook_of(answers, said) == written
    assert workbook_of(pa.table({"query": pa.nulls(500_001, pa.string())}), said) is None
