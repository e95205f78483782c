"""What all groups of a table come to is below it: on the page, in the report, and in a file of its own."""

import csv
import io
import json
import random
import re
from html import unescape
from io import BytesIO
from itertools import pairwise
from statistics import pvariance

import pyarrow.parquet
import pytest
from python_calamine import CalamineWorkbook

from releases.engine.domain.schema import Schema
from releases.engine.workload.parsing import read_question
from releases.publication import files
from releases.publication.shares import Whole
from releases.publication.totals import of_counts, of_groups
from tests.web.conftest import rows_of
from tests.web.pages import body, link

COLUMNS = [
    {"name": "age", "type": "integer", "edges": [0, 30, 60]},
    {"name": "town", "type": "categorical", "categories": ["a", "b", "c"]},
]
NUMBERS = ("estimate", "lower", "upper")
CONTENT = b"age,town,sex\n" + b"40,a,male\n" * 150 + b"20,b,male\n" * 50 + b"50,c,male\n" * 25


def asked(query):
    schema = Schema.from_json({"version": 1, "columns": COLUMNS, "neighbours": "add_remove"})
    return read_question({"version": 1, "queries": [query]}, schema.universe)


def around(draw, true, *, whole):
    """An interval that holds a number, and an estimate in it."""
    lower, upper = true - draw.uniform(0, 9), true + draw.uniform(0, 9)
    if whole and draw.random() < 0.3:
        lower = upper = float(true)
    return {"estimate": draw.uniform(lower, upper), "lower": lower, "upper": upper}


def holds(total, true):
    return total["lower"] <= true <= total["upper"] and total["lower"] <= total["estimate"] <= total["upper"]


def test_where_the_interval_of_each_group_holds_its_number_that_of_all_holds_theirs():
    """2,000 tables of random values in three groups, some of them empty."""
    draw = random.Random(5)
    mean, total = (asked({word: {"columns": ["age"], "by": ["town"]}}) for word in ("mean", "sum"))
    for _ in range(2000):
        groups = [[draw.randint(0, 60) for _ in range(draw.choice([0, 1, 5, 40]))] for _ in range(3)]
        every = [value for group in groups for value in group]
        counts = [around(draw, len(group), whole=True) for group in groups]
        columns = [[each[name] for each in counts] for name in ("estimate", "lower", "upper")]
        whole = Whole.of(*columns, rows=None)
        assert whole is None or holds(of_counts(whole), len(every))
        sums = [around(draw, sum(group), whole=False) for group in groups]
        assert holds(of_groups(total, total.families[0], sums, {"notes": {}}), sum(every))
        means = [around(draw, sum(group) / len(group) if group else 30, whole=False) for group in groups]
        noisy = [len(group) + draw.gauss(0, 2) for group in groups]
        about = [sum(group) - 30 * len(group) + draw.gauss(0, 20) for group in groups]
        notes = {"noisy numbers of rows": noisy, "noisy sums about the middle": {"age": about}}
        found = of_groups(mean, mean.families[0], means, {"notes": notes})
        assert holds(found, sum(every) / len(every) if every else 30)


def quantiles_of(values, share):
    """Of ages from 0 to 60 those with no more than the share below and no less at or below."""
    return [
        age
        for age in range(61)
        if sum(each < age for each in values) <= share * len(values) <= sum(each <= age for each in values)
    ]


def noisy_cells(draw, values):
    """Counts of ages in cells of chance, each with noise, and where the cells after the first begin."""
    begin = sorted(draw.sample(range(1, 61), draw.randint(0, 8)))
    ends = [0, *begin, 61]
    counts = [sum(low <= age < high for age in values) for low, high in pairwise(ends)]
    return [count + draw.randint(-3, 3) for count in counts], [str(each) for each in begin]


def test_where_the_interval_of_each_group_holds_its_quantiles_that_of_all_holds_theirs():
    """2,000 tables of random values in three groups, some of them empty, at three shares."""
    draw = random.Random(6)
    question = asked({"quantiles": {"column": "age", "at": ["0.25", "0.5", "0.9"], "by": "town"}})
    for _ in range(2000):
        groups = [[draw.randint(0, 60) for _ in range(draw.choice([0, 1, 2, 5, 40]))] for _ in range(3)]
        counts, begin = zip(*(noisy_cells(draw, group) for group in groups), strict=True)
        notes = {"noisy counts": counts, "cells begin at": begin}
        for part, share in zip(question.families, (0.25, 0.5, 0.9), strict=True):
            rows = []
            for group in groups:
                held = quantiles_of(group, share)
                lower = max(0, held[0] - draw.choice([0, 0, 5]))
                upper = min(60, held[-1] + draw.choice([0, 0, 5]))
                rows.append({"estimate": draw.uniform(lower, upper), "lower": float(lower), "upper": float(upper)})
            found = of_groups(question, part, rows, {"notes": notes})
            assert all(holds(found, age) for age in quantiles_of([age for group in groups for age in group], share))


def test_the_quantile_of_all_is_read_off_the_counts_of_all_groups_by_their_size():
    """Without noise it is within a cell of that of all rows, however unlike the groups are."""
    draw = random.Random(7)
    question = asked({"quantiles": {"column": "age", "at": ["0.5"], "by": "town"}})
    for _ in range(300):
        groups = [[draw.randint(low, low + 15) for _ in range(many)] for low, many in ((0, 9), (20, 30), (45, 70))]
        cells = [[sum(age // 5 == place for age in group) for place in range(13)] for group in groups]
        notes = {"noisy counts": cells, "cells begin at": [[str(5 * each) for each in range(1, 13)]] * 3}
        rows = [{"estimate": 30.0, "lower": 0.0, "upper": 60.0}] * 3
        found = of_groups(question, question.families[0], rows, {"notes": notes})["estimate"]
        assert any(abs(found - age) <= 5 for age in quantiles_of([age for group in groups for age in group], 0.5))


def sums_of_squares(values):
    """Of places p in the range of ages: p², 2 p (1 - p) and (1 - p)², added up."""
    places = [value / 60 for value in values]
    return [sum(p * p for p in places), sum(2 * p * (1 - p) for p in places), sum((1 - p) ** 2 for p in places)]


@pytest.mark.parametrize("is_old", [False, True])
def test_where_the_interval_of_each_group_holds_its_variance_that_of_all_holds_theirs(is_old):
    """2,000 tables of random values in three groups, some of them empty; with what an older version published, too."""
    draw, narrower = random.Random(8), 0
    question = asked({"variance": {"columns": ["age"], "by": ["town"]}})
    for _ in range(2000):
        groups = [[draw.choice([0, 3, 30, 57, 60]) for _ in range(draw.choice([0, 1, 5, 40]))] for _ in range(3)]
        every = [value for group in groups for value in group]
        reach = draw.choice([0.01, 0.5, 4])
        rows = [around(draw, pvariance(group) if group else 0, whole=True) for group in groups]
        noisy = [
            [each + draw.choice([-1, 1, draw.uniform(-1, 1)]) * reach for each in sums_of_squares(group)]
            for group in groups
        ]
        notes = {
            "noisy numbers of rows": [sum(three) + is_old * draw.uniform(-1, 1) for three in noisy],
            "noisy sums about the middle": {"age": [30 * (a - c) for a, _, c in noisy]},
            "noisy sums of squares about the middle": {"age": [900 * (a - b + c) for a, b, c in noisy]},
        }
        if not is_old:
            notes |= {
                # The number of rows is read off several columns, and that of one is not known from it.
                "noisy numbers of rows": [sum(three) + draw.uniform(-9, 9) for three in noisy],
                "noisy sums of the products of the distances to both ends": {"age": [1800 * b for _, b, _ in noisy]},
                "noise on each measured sum within": {"age": [3600 * reach] * 3},
            }
        found = of_groups(question, question.families[0], rows, {"notes": notes})
        assert holds(found, pvariance(every) if every else 0)
        assert found["upper"] <= 900
        narrower += found["upper"] < 900
    assert is_old or narrower > 1000


def test_a_number_of_rows_that_is_public_is_said_as_it_is():
    whole = Whole(estimate=203.4, lower=180.0, upper=220.0, rows=200.0)
    assert of_counts(whole) == {"estimate": 200.0, "lower": 200.0, "upper": 200.0}


@pytest.mark.draws
@pytest.mark.parametrize(
    ("query", "mechanism", "true"),
    [
        ({"marginal": ["town"]}, "laplace-queries", 225),
        ({"sum": {"columns": ["age"], "by": ["town"]}}, "laplace-numbers", 150 * 40 + 50 * 20 + 25 * 50),
        ({"mean": {"columns": ["age"], "by": ["town"]}}, "laplace-numbers", (150 * 40 + 50 * 20 + 25 * 50) / 225),
        ({"variance": {"columns": ["age"], "by": ["town"]}}, "laplace-numbers", 800 / 9),
        ({"quantiles": {"column": "age", "at": ["0.5"], "by": "town"}}, "counted-quantile", 40),
    ],
)
def test_page_report_and_totals_file_end_a_table_with_all_together(
    make_declared, make_draft, carry_out, as_, alice, query, mechanism, true
):
    """At an epsilon that leaves next to no noise."""
    dataset = make_declared(COLUMNS, content=CONTENT, epsilon="100")
    release = carry_out(make_draft(dataset, query, epsilon="60", mechanism=mechanism))
    page = body(as_(alice).get(link("release_detail", release)))
    row = page[page.index(">all together<") :]
    shown = [float(each.replace(",", "")) for each in re.findall(r'<td class="number[^"]*">\s*([\d.,]+)', row)[:3]]
    about, lower, upper = shown
    assert lower <= true <= upper
    assert about == pytest.approx(true, rel=0.01)
    assert len(rows_of(release)) == 3
    report = unescape((files.folder_of(release) / "report.html").read_text())
    said = re.findall(r">([^<>]*)</t[dh]>", report[report.index(">all together<") :])[1:4]
    assert [float(each.replace(",", "")) for each in said] == pytest.approx(shown)
    (total,) = rows_of(release, "totals.csv")
    # A page shows six decimals at most.
    assert [float(total[name]) for name in NUMBERS] == pytest.approx(shown, abs=1e-6)
    assert total["query"] == rows_of(release)[0]["query"]
    assert total["statistic"] == ("counts" if "marginal" in query else next(iter(query)))


@pytest.mark.draws
def test_a_median_of_dates_of_all_groups_is_a_date(make_declared, make_draft, carry_out, as_, alice):
    columns = [
        {"name": "seen", "type": "date", "first": "2024-01-01", "last": "2024-03-31", "by": "month"},
        {"name": "town", "type": "categorical", "categories": ["a", "b"]},
    ]
    content = b"age,sex,seen,town\n" + b"40,male,2024-02-10,a\n" * 150 + b"20,male,2024-01-20,b\n" * 50
    dataset = make_declared(columns, content=content, epsilon="100")
    query = {"quantiles": {"column": "seen", "at": ["0.5"], "by": "town"}}
    release = carry_out(make_draft(dataset, query, epsilon="60", mechanism="counted-quantile"))
    page = body(as_(alice).get(link("release_detail", release)))
    assert re.findall(r"\d+-\d\d-\d\d", page[page.index(">all together<") :])[:1] == ["2024-02-10"]
    (total,) = rows_of(release, "totals.csv")
    assert total["estimate"] == "2024-02-10"
    assert total["lower"] <= "2024-02-10" <= total["upper"]


@pytest.fixture
def counted(make_declared, make_draft, carry_out, once):
    """A release of two tables and of a single count, which has no groups."""
    queries = [{"marginal": ["age"]}, {"marginal": ["town"]}, {"count": {"town": ["a"]}}]
    table = {"content": CONTENT, "epsilon": "100"}
    return once("totals", lambda: carry_out(make_draft(make_declared(COLUMNS, **table), *queries, epsilon="60")))


def test_every_table_has_its_line_in_each_form_of_the_totals_and_the_answers_have_none(counted, archive, as_, alice):
    found = rows_of(counted, "totals.csv")
    assert [(each["query"], each["statistic"]) for each in found] == [("age", "counts"), ("town", "counts")]
    assert len(rows_of(counted)) == 2 + 3 + 1
    for each in found:
        for name in NUMBERS:
            own = [float(row[name]) for row in rows_of(counted) if row["query"] == each["query"]]
            assert float(each[name]) == pytest.approx(sum(own), abs=len(own))
    expected = [each | {name: float(each[name]) for name in NUMBERS} for each in found]
    assert pyarrow.parquet.read_table(files.folder_of(counted) / "totals.parquet").to_pylist() == expected
    assert json.loads(body(as_(alice).get(link("answers", counted))))["totals"] == expected
    with archive(counted) as opened:
        held = {name.split("/")[1]: opened.read(name) for name in opened.namelist()}
    assert list(csv.DictReader(io.StringIO(held["totals.csv"].decode()))) == found
    assert "totals.csv: What all groups of each question are together" in " ".join(held["README.txt"].decode().split())
    head, *rows = CalamineWorkbook.from_filelike(BytesIO(held["answers.xlsx"])).get_sheet_by_name("Totals").to_python()
    assert [dict(zip(head, row, strict=True)) for row in rows] == expected
    assert {"totals.csv", "totals.parquet"} <= {*as_(alice).get(f"/api/releases/{counted.pk}").json()["files"]}
    assert link("download", counted, "totals.csv") in body(as_(alice).get(link("release_detail", counted)))
    described = {line["column"] for line in csv.DictReader(io.StringIO(held["dictionary.csv"].decode()))}
    assert found[0].keys() <= described


def test_the_notebook_reads_the_totals(counted, drawn_by_notebook):
    assert {"age", "town"} <= drawn_by_notebook(counted).keys()
    assert "totals.csv" in (files.folder_of(counted) / "notebook.ipynb").read_text()


def has_no_totals(release, client):
    """Whether none of what is given away of a release speaks of totals."""
    said = json.loads(body(client.get(link("answers", release))))
    listed = client.get(f"/api/releases/{release.pk}").json()["files"]
    shown = link("download", release, "totals.csv")
    assert client.get(shown).status_code == 404
    assert said["answers"]
    return (
        "totals" not in said
        and "totals" not in " ".join(listed)
        and shown not in body(client.get(link("release_detail", release)))
    )


@pytest.mark.parametrize(
    ("query", "mechanism"),
    [({"count": {"town": ["a"]}}, "laplace-queries"), ({"mean": ["age"]}, "laplace-numbers")],
)
def test_where_nothing_is_together_there_is_no_file(make_declared, make_draft, carry_out, as_, alice, query, mechanism):
    dataset = make_declared(COLUMNS, content=CONTENT, epsilon="100")
    release = carry_out(make_draft(dataset, query, epsilon="60", mechanism=mechanism))
    assert has_no_totals(release, as_(alice))
    assert not list(files.folder_of(release).glob("totals*"))
    assert "totals.csv" not in (files.folder_of(release) / "notebook.ipynb").read_text()
    book = CalamineWorkbook.from_path(files.folder_of(release) / "answers.xlsx")
    assert book.sheet_names == ["Answers", "About"]


def test_a_release_of_an_older_version_gets_no_file(
    make_declared, make_draft, carry_out, archive, as_, alice, monkeypatch
):
    """Its page says what all come to, and its files are as they were."""
    monkeypatch.setattr(files, "totals_table", lambda *_: None)
    dataset = make_declared(COLUMNS, content=CONTENT, epsilon="100")
    release = carry_out(make_draft(dataset, {"marginal": ["town"]}, epsilon="60"))
    monkeypatch.undo()
    before = {path.name: path.read_bytes() for path in files.folder_of(release).iterdir()}
    assert ">all together<" in body(as_(alice).get(link("release_detail", release)))
    assert has_no_totals(release, as_(alice))
    with archive(release) as opened:
        assert not any("totals" in name for name in opened.namelist())
    assert {path.name: path.read_bytes() for path in files.folder_of(release).iterdir()} == before


def test_a_total_of_sums_has_no_more_decimals_than_the_sums():
    total = asked({"sum": {"columns": ["age"], "by": ["town"]}})
    rows = [{"estimate": each, "lower": each - 1, "upper": each + 1} for each in (0.1, 0.2, 0.4)]
    assert of_groups(total, total.families[0], rows[:2], {"notes": {}})["estimate"] == 0.3
