"""A column of dates from a declaration to published rows: counts by month, and synthetic rows with dates."""

from __future__ import annotations

import csv
import io
from collections import Counter

import numpy as np
import pyarrow.parquet
import pytest
from django.http import QueryDict
from django.urls import reverse

from releases import services
from releases.engine.domain.universe import Schema, Universe
from releases.engine.errors import InvalidInput
from releases.engine.estimation.result import Component, Distribution
from releases.engine.estimation.synthetic import bytes_a_row, synthetic_records
from releases.engine.noise.randomness import OperatingSystemRandomness
from releases.engine.workload.queries import Workload
from releases.forms.predicates import ConditionsForm
from releases.models import Dataset
from releases.presentation.review.request_page import declared_columns
from releases.publication import files
from releases.publication.dictionary import dictionary_csv
from releases.publication.receipt import rules_in_words
from releases.publication.report import report_of
from releases.views.releases.workloads import column_text
from tests.engine.tables.reference import code
from tests.web.pages import body, words

pytestmark = pytest.mark.django_db

DAY = {"name": "admitted", "type": "date", "format": "DD.MM.YYYY", "first": "2024-01-15", "last": "2024-04-10"}
MONTHS = {**DAY, "by": "month", "outside": "clamp", "missing_as": "no date"}
SEX = {"name": "sex", "type": "categorical", "categories": ["f", "m"]}
#: In each month so many rows, one of them long before or after the declared range where it is an end.
ROWS = {"2024-01": 40, "2024-02": 29, "2024-03": 20, "2024-04": 10}
NO_DATES = ("31.02.2024", "2024-02-01", "", "1.2.24", "02/01/2024")


def table():
    lines = ["admitted,sex,age"]
    for month, rows in ROWS.items():
        lines += [f"{1 + place % 10}.{month[5:]}.2024,{'fm'[place % 2]},30" for place in range(rows - 1)]
        lines.append({"2024-01": "31.12.1999", "2024-04": "01.01.2030"}.get(month, f"28.{month[5:]}.2024") + ",f,30")
    return "\n".join([*lines, *(f"{text},m,30" for text in NO_DATES)]).encode() + b"\n"


@pytest.fixture
def dataset(make_dataset):
    made = make_dataset(content=table(), epsilon="100")
    services.datasets.declare_universe(dataset=made, columns=[MONTHS, SEX])
    made.refresh_from_db()
    return made


@pytest.fixture
def release_of(dataset, alice, carry_out):
    def make(*queries, mechanism):
        draft = services.releases.draft_release(dataset=dataset, by=alice)
        services.releases.set_questions(release=draft, workload={"version": 1, "queries": list(queries)})
        services.releases.set_choice(release=draft, epsilon="40", mechanism_name=mechanism)
        return carry_out(draft)

    return make


def estimates(release):
    answers = files.read_answers(files.folder_of(release))
    return dict(zip(answers.column(1).to_pylist(), answers["estimate"].to_pylist(), strict=True))


def test_rows_are_counted_by_month_and_those_without_a_date_apart(release_of):
    """Noise of epsilon 40 moves a count by 3 with a chance below 1e-50."""
    counts = estimates(release_of({"marginal": ["admitted"]}, mechanism="laplace-queries"))
    assert list(counts) == [*ROWS, "no date"]
    assert counts == pytest.approx({**ROWS, "no date": len(NO_DATES)}, abs=3)


def test_a_chart_of_months_lies_on_an_axis_of_time_in_the_page_and_in_the_report(release_of, as_, alice):
    release = release_of({"marginal": ["admitted"]}, {"marginal": ["sex"]}, mechanism="laplace-queries")
    page = as_(alice).get(reverse("release_detail", args=[release.pk]))
    written = report_of(release.result, files.reader(files.folder_of(release)), digest="").tables
    for chart in (page.context["page"].table.chart, written[0].chart):
        drawn = {row["label"]: row for row in chart["data"]["values"]}
        # Rows without a date are in the table alone.
        assert list(drawn) == list(ROWS)
        assert [(row["start"], row["end"]) for row in drawn.values()] == [
            ("2024-01-15", "2024-02-01"),
            ("2024-02-01", "2024-03-01"),
            ("2024-03-01", "2024-04-01"),
            ("2024-04-01", "2024-04-11"),
        ]
        assert all(row["start"] < row["middle"] < row["end"] for row in drawn.values())
        assert round(drawn["2024-02"]["estimate"]) == 29
        assert chart["layer"][0]["encoding"]["x"]["type"] == "temporal"
    assert written[1].chart["layer"][0]["mark"]["type"] == "bar"


def test_running_totals_follow_time_and_leave_rows_without_a_date_out(release_of):
    counts = estimates(release_of({"prefix": "admitted"}, mechanism="laplace-queries"))
    assert list(counts.values()) == pytest.approx(list(np.cumsum(list(ROWS.values()))), abs=4)


def test_synthetic_rows_have_dates_of_their_months_as_the_table_writes_them(release_of):
    release = release_of({"marginal": ["admitted", "sex"]}, mechanism="laplace-histogram")
    folder = files.folder_of(release)
    rows = list(csv.DictReader((folder / "synthetic.csv").open()))
    found = Counter(code(MONTHS, row["admitted"])[0] for row in rows)
    assert found[4] == sum(not row["admitted"] for row in rows)
    assert [found[place] for place in range(5)] == pytest.approx([*ROWS.values(), len(NO_DATES)], abs=4)
    inside = {code({**MONTHS, "outside": "drop"}, row["admitted"]) for row in rows}
    assert None not in inside, "no date lies outside of the declared range"
    schema = Schema.from_json(release.result["receipt"]["schema"])
    source = files.synthetic_marginals(folder / "synthetic.parquet", schema.universe)
    assert source(("admitted",)).tolist() == [found[place] for place in range(5)]
    assert release.result["receipt"]["synthetic_beside"]["outside"] == 0


def test_pages_of_the_release_say_what_the_bins_hold(release_of, as_, alice):
    release = release_of({"marginal": ["admitted"]}, mechanism="laplace-histogram")
    shown = words(as_(alice).get(reverse("release_detail", args=[release.pk])))
    assert "dates before 2024-01-15 are counted in the first bin (2024-01), dates after 2024-04-10 in the last" in shown
    written = dictionary_csv(release.result["receipt"], answers=["admitted", "estimate"], notes={})
    lines = [line for line in csv.DictReader(io.StringIO(written)) if line["column"] == "admitted"]
    assert [line["label"] for line in lines] == [*ROWS, "no date"]
    assert lines[0]["meaning"] == "dates from 2024-01-15 to 2024-01-31, both included"
    assert (lines[0]["also_holds"], lines[1]["also_holds"]) == ("dates before 2024-01-15", "")
    assert lines[3]["also_holds"] == "dates after 2024-04-10"
    assert lines[4]["meaning"] == "rows whose admitted is missing, or is text that writes no date as DD.MM.YYYY"
    assert "a date within the bin, written DD.MM.YYYY" in lines[0]["synthetic_value"]


RANGES = (
    MONTHS,
    {**DAY, "by": "week", "outside": "drop"},
    {**DAY, "by": "weekday", "outside": "drop", "missing_as": "no date"},
    {"name": "admitted", "type": "date", "format": "MM/DD/YYYY", "outside": "clamp", "by": "edges"}
    | {"edges": ["0001-01-01", "1900-02-28", "1900-03-01", "9999-12-31"]},
    {**DAY, "type": "datetime", "by": "hour", "outside": "drop", "missing_as": "no date"},
    {**DAY, "type": "datetime", "format": "YYYY-MM-DD", "by": "quarter", "outside": "clamp"},
    {**DAY, "type": "datetime", "format": "YYYYMMDD", "by": "weekday", "outside": "drop"},
)


@pytest.mark.parametrize("described", RANGES, ids=[f"{each['type']} by {each['by']}" for each in RANGES])
def test_synthetic_dates_are_read_back_into_the_bins_that_they_were_made_for(described, tmp_path):
    given = {name: value for name, value in described.items() if name != "by" or value != "edges"}
    universe = Universe(attributes=Schema.from_json({"version": 1, "columns": [given, SEX]}).universe.attributes)
    weights = np.arange(1.0, 1 + universe.size).reshape(universe.shape)
    distribution = Distribution(components=(Component(names=universe.names, weights=weights),))
    records = synthetic_records(universe, distribution, rows=4000, rng=OperatingSystemRandomness())
    made = files.synthetic_table(universe, records)
    pyarrow.parquet.write_table(made, tmp_path / "synthetic.parquet")
    texts = made.column("admitted").to_pylist()
    strict = described if described["by"] in ("weekday", "hour") else {**described, "outside": "drop"}
    found = Counter(code(strict, text)[0] for text in texts)
    counted = files.synthetic_marginals(tmp_path / "synthetic.parquet", universe)(("admitted",))
    assert counted.tolist() == [found[place] for place in range(universe["admitted"].size)]
    expected = 4000 * weights.sum(axis=1) / weights.sum()
    np.testing.assert_allclose(counted, expected, atol=3)


def test_each_day_of_a_bin_is_as_likely_as_another():
    """A day has 1,000 of 29,000 rows on average, with a standard deviation of 31: one of them is 250 off with a chance
    below 1e-13. So with hours of 1,000 rows."""
    described = {**DAY, "type": "datetime", "format": "YYYY-MM-DD", "first": "2024-02-01", "last": "2024-02-29"}
    universe = Schema.from_json({"version": 1, "columns": [{**described, "by": "month"}]}).universe
    distribution = Distribution(components=(Component(names=("admitted",), weights=np.ones(1)),))
    records = synthetic_records(universe, distribution, rows=29_000, rng=OperatingSystemRandomness())
    texts = files.synthetic_table(universe, records).column("admitted").to_pylist()
    assert len(texts[0]) == len("2024-02-01 00:00:00")
    assert sorted({text[:10] for text in texts}) == [f"2024-02-{day:02d}" for day in range(1, 30)]
    assert max(abs(rows - 1000) for rows in Counter(text[:10] for text in texts).values()) < 250
    hours = Counter(text[11:13] for text in texts)
    assert (len(hours), max(abs(rows - 29_000 / 24) for rows in hours.values()) < 300) == (24, True)
    assert len({text[14:] for text in texts}) > 3000
    assert bytes_a_row(universe) > 2 * len(texts[0])


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ({"from": "2024-02", "to": "2024-03"}, (1, 2)),
        ({"from": "2024-03"}, (2, 3)),
        ({"to": "2024-02"}, (0, 1)),
        (["2024-01", "no date"], (0, 4)),
    ],
)
def test_a_range_of_bins_is_asked_for_by_their_names(condition, expected):
    universe = Schema.from_json({"version": 1, "columns": [MONTHS, SEX]}).universe
    workload = Workload.from_json({"version": 1, "queries": [{"count": {"admitted": condition}}]}, universe)
    assert workload.families[0].bins == (expected,)
    assert Workload.from_json(workload.to_json(), universe) == workload
    typed = {f"{end}.admitted": name for end, name in condition.items()} if isinstance(condition, dict) else {}
    if typed:
        posted = QueryDict(mutable=True)
        posted.update(typed)
        assert ConditionsForm(posted, universe=universe).predicate() == {"admitted": condition}


@pytest.mark.parametrize(
    ("condition", "field"),
    [
        ({"from": "2024-03", "to": "2024-02"}, "count.admitted"),
        ({"from": "2024-05"}, "count.admitted.from"),
        ({"to": "no date"}, "count.admitted.to"),
        ({"from": 2024}, "count.admitted.from"),
        ("2024-03", "count.admitted"),
    ],
)
def test_a_range_that_is_none_is_refused(condition, field):
    universe = Schema.from_json({"version": 1, "columns": [MONTHS]}).universe
    with pytest.raises(InvalidInput) as refused:
        Workload.from_json({"version": 1, "queries": [{"count": {"admitted": condition}}]}, universe)
    assert refused.value.field == f"queries[0].{field}"


def test_dates_have_no_sums_no_quantiles_and_nothing_to_learn(dataset, as_, alice):
    for query in ({"mean": ["admitted"]}, {"median": "admitted"}, {"range": "admitted"}, {"categories": "admitted"}):
        draft = services.releases.draft_release(dataset=dataset, by=alice)
        with pytest.raises(InvalidInput):
            services.releases.set_questions(release=draft, workload={"version": 1, "queries": [query]})
    page = body(as_(alice).get(reverse("columns", args=[dataset.pk])))
    assert "?column=admitted" not in page
    assert "?column=sex" in page


def test_what_is_declared_is_said_in_words(dataset):
    universe = Dataset.objects.get(pk=dataset.pk).universe
    assert column_text(universe["admitted"]) == (
        "dates from 2024-01-15 to 2024-04-10, by month, written DD.MM.YYYY in 4 bins"
    )
    (shown, *_) = declared_columns(universe)
    assert shown.holds[0].startswith("dates from 2024-01-15 to 2024-04-10, by month, written DD.MM.YYYY;")
    said = rules_in_words(universe)
    assert "A row whose admitted is missing, or is no date, counts as “no date”." in said
    assert "A date of admitted beyond the declared range counts in the first or the last bin." in said
    dropping = Schema.from_json({"version": 1, "columns": [{**MONTHS, "outside": "drop", "missing_as": "drop"}]})
    assert rules_in_words(dropping.universe, that_drop=True) == [
        "A row whose admitted is missing or outside the declared range is left out of every count."
    ]
