"""A column of dates from a declaration to published rows: counts by month, and synthetic rows with dates."""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from datetime import date, datetime, timedelta
from fractions import Fraction

import numpy as np
import pyarrow.csv
import pyarrow.parquet
import pytest
from django.http import QueryDict

from releases.engine.bounds.accuracy import Bound, Proof
from releases.engine.domain.universe import Schema
from releases.engine.errors import InvalidInput
from releases.engine.estimation.result import Component, Distribution, Result
from releases.engine.estimation.synthetic import bytes_a_row, synthetic_records
from releases.engine.noise.randomness import OperatingSystemRandomness
from releases.engine.workload.kinds.quantile import Quantile
from releases.engine.workload.parsing import read_question
from releases.engine.workload.queries import Workload
from releases.forms.predicates import ConditionsForm
from releases.publication import files
from releases.publication.dictionary import dictionary_csv
from releases.publication.report import report_of
from releases.questions.base import statistic_kind
from tests.engine.tables.reference import code
from tests.web.conftest import rows_of
from tests.web.pages import body, link, words

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
def dataset(make_declared):
    return make_declared([MONTHS, SEX], content=table(), epsilon="100")


@pytest.fixture
def release_of(dataset, make_draft, carry_out):
    return lambda *queries, mechanism: carry_out(make_draft(dataset, *queries, epsilon="40", mechanism=mechanism))


def universe_of(*columns):
    return Schema.from_json({"version": 1, "columns": list(columns)}).universe


def estimates(release):
    answers = files.read_answers(files.folder_of(release))
    return dict(zip(answers.column(1).to_pylist(), answers["estimate"].to_pylist(), strict=True))


def test_rows_are_counted_by_month_and_those_without_a_date_apart(release_of):
    """Noise of epsilon 40 moves a count by 3 with a chance below 1e-50."""
    counts = estimates(release_of({"marginal": ["admitted"]}, mechanism="laplace-queries"))
    assert list(counts) == [*ROWS, "no date"]
    assert counts == pytest.approx({**ROWS, "no date": len(NO_DATES)}, abs=3)


def test_running_totals_follow_time_and_leave_rows_without_a_date_out(release_of):
    counts = estimates(release_of({"prefix": "admitted"}, mechanism="laplace-queries"))
    assert list(counts.values()) == pytest.approx(list(np.cumsum(list(ROWS.values()))), abs=4)


def test_synthetic_rows_have_dates_of_their_months_as_the_table_writes_them(release_of):
    release = release_of({"marginal": ["admitted", "sex"]}, mechanism="laplace-histogram")
    folder, rows = files.folder_of(release), rows_of(release, "synthetic.csv")
    found = Counter(code(MONTHS, row["admitted"])[0] for row in rows)
    assert found[4] == sum(not row["admitted"] for row in rows)
    assert [found[place] for place in range(5)] == pytest.approx([*ROWS.values(), len(NO_DATES)], abs=4)
    inside = {code({**MONTHS, "outside": "drop"}, row["admitted"]) for row in rows}
    assert None not in inside, "no date lies outside of the declared range"
    schema = Schema.from_json(release.result["receipt"]["schema"])
    source = files.synthetic_marginals(folder / "synthetic.parquet", schema.universe)
    assert source(("admitted",)).tolist() == [found[place] for place in range(5)]
    assert release.result["receipt"]["synthetic_beside"]["outside"] == 0


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
    universe = universe_of(given, SEX)
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
    universe = universe_of({**described, "by": "month"})
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
    universe = universe_of(MONTHS, SEX)
    workload = Workload.from_json({"version": 1, "queries": [{"count": {"admitted": condition}}]}, universe)
    assert workload.families[0].bins == (expected,)
    assert Workload.from_json(workload.to_json(), universe) == workload
    if isinstance(condition, dict):
        posted = QueryDict(mutable=True)
        posted.update({f"{end}.admitted": name for end, name in condition.items()})
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
    asked = {"version": 1, "queries": [{"count": {"admitted": condition}}]}
    with pytest.raises(InvalidInput) as refused:
        Workload.from_json(asked, universe_of(MONTHS))
    assert refused.value.field == f"queries[0].{field}"


QUARTILES = {"quantiles": {"column": "admitted", "at": ["0.25", "0.75"]}}
BY_SEX = {"quantiles": {"column": "admitted", "at": ["0.5"], "by": "sex"}}
ENDS = ("estimate", "lower", "upper")


def true_quantiles(share, sex="fm"):
    """Every day with at most the share of the rows before it, and at least it up to it; text of no date has no row."""
    first, last = date(2024, 1, 15), date(2024, 4, 10)
    rows = csv.DictReader(io.StringIO(table().decode()))
    texts = [row["admitted"] for row in rows if row["sex"] in sex and row["admitted"] not in NO_DATES]
    days = [date(*map(int, reversed(text.split(".")))) for text in texts]
    days = [min(max(day, first), last) for day in days]
    every = [first + timedelta(days=each) for each in range((last - first).days + 1)]
    wanted = share * len(days)
    return [each for each in every if sum(day < each for day in days) <= wanted <= sum(day <= each for day in days)]


@pytest.mark.parametrize(("query", "shares"), [({"median": "admitted"}, [0.5]), (QUARTILES, [0.25, 0.75])])
def test_a_quantile_of_dates_is_a_date_and_so_are_the_ends_of_its_interval(release_of, query, shares):
    """At epsilon 40 an interval misses with a probability far below its 5%."""
    rows = rows_of(release_of(query, mechanism="counted-quantile"))
    assert len(rows) == len(shares)
    for row, share in zip(rows, shares, strict=True):
        about, lower, upper = (date.fromisoformat(row[end]) for end in ENDS)
        true = true_quantiles(share)
        assert lower <= true[0] <= true[-1] <= upper
        assert lower <= about <= upper
        assert (upper - lower).days < 20


def test_quantiles_of_dates_by_group_are_those_of_each_group(release_of, as_, alice):
    release = release_of(BY_SEX, mechanism="counted-quantile")
    for row, sex in zip(rows_of(release), "fm", strict=True):
        lower, upper = (date.fromisoformat(row[end]) for end in ENDS[1:])
        true = true_quantiles(0.5, sex)
        assert (row["of"], lower <= true[0], true[-1] <= upper) == (sex, True, True)
    answer = as_(alice).get(link("release_detail", release), {"first": "0", "second": "1"})
    chart = answer.context["page"].statistic.chart
    assert {layer["encoding"]["x"]["type"] for layer in chart["layer"]} == {"temporal"}
    assert [row["label"] for row in chart["data"]["values"]] == ["f", "m"]
    page = words(answer)
    assert "“f” is about" in page
    assert re.search("the true time between them (is|lies between) ", page)
    assert "Earliest" in page


def test_pages_and_files_of_a_median_of_dates_write_dates_alone(release_of, as_, alice):
    release = release_of({"median": "admitted"}, mechanism="counted-quantile")
    (row,) = rows_of(release)
    about, lower, upper = (date.fromisoformat(row[end]) for end in ENDS)
    said = release.result["headline"]
    day = f"{about.day} {about:%B} {about.year}"
    assert said.startswith(f"Half of the rows have admitted on or before {day}; the true median ")
    if lower < upper:
        assert f"lies between {lower.day} {lower:%B} and {upper.day} {upper:%B} {upper.year}, with" in said
    page = words(as_(alice).get(link("release_detail", release)))
    assert day in page
    assert "Not before" in page
    assert f"lies between {lower} and {upper}" in release.result["receipt"]["bound"]["sentence"] or lower == upper
    (stored,) = pyarrow.parquet.read_table(files.folder_of(release) / "answers.parquet").to_pylist()
    assert [stored[end] for end in ENDS] == [about, lower, upper]
    downloaded = as_(alice).get(link("answers", release))
    given = json.loads(b"".join(downloaded.streaming_content))
    assert [given["answers"][0][end] for end in ENDS] == [str(about), str(lower), str(upper)]
    (written,) = report_of(release.result, files.reader(files.folder_of(release)), digest="").tables
    assert (written.heads[-2:], written.rows[0][1]) == (("Earliest", "Latest"), day)
    listed = dictionary_csv(release.result["receipt"], answers=["query", *ENDS], notes={})
    assert {line["column"]: line["type"] for line in csv.DictReader(io.StringIO(listed))}["lower"] == "date"
    assert release.result["receipt"]["schema"]["columns"][0].keys() == MONTHS.keys() - {"missing_as"}


def test_a_median_that_is_drawn_and_not_measured_is_a_date_too(release_of):
    release = release_of({"median": "admitted"}, mechanism="exponential-quantile")
    (row,) = rows_of(release)
    drawn = date.fromisoformat(row["answer"])
    assert date(2024, 1, 15) <= drawn <= date(2024, 4, 10)
    said = f"About half of the rows have admitted on or before {drawn.day} {drawn:%B} 2024"
    assert said in release.result["headline"]


def test_no_end_of_an_interval_of_dates_is_outside_of_the_declared_range(release_of):
    """Noise of a pure epsilon adds a half width to either side, whatever the range."""
    (row,) = rows_of(release_of({"quantile": {"column": "admitted", "at": "0.99"}}, mechanism="smooth-median-cauchy"))
    ends = [date.fromisoformat(row[end]) for end in ("lower", "estimate", "upper")]
    assert ends == sorted(ends)
    assert date(2024, 1, 15) <= ends[0] <= ends[2] <= date(2024, 4, 10)


@pytest.mark.parametrize("year", [1, 1583, 2024, 9999])
def test_no_second_is_lost_in_the_files(year, tmp_path):
    described = {"name": "at", "type": "datetime", "edges": ["0001-01-01", "2024-02-29", "9999-12-31"]}
    universe = universe_of(described)
    question = read_question({"version": 1, "queries": [{"median": "at"}]}, universe)
    dates = universe["at"].dates
    moments = [datetime(year, 2, 28, 23, 59, 58 + place) for place in (0, 1)] + [datetime(year, 3, 1, 0, 0, 1)]
    about, lower, upper = numbers = [float(dates.number(each)) for each in (moments[1], moments[0], moments[2])]
    bound = Bound(
        beta=Fraction(1, 20), half_widths=(max(upper - about, about - lower),), proof=Proof.AFTER, formula="", source=""
    )
    result = Result(estimates=(np.array([about]),), bound=bound, total=0.0, spans=(np.array([[lower, upper]]),))
    made = files.answers_table(question, result)
    pyarrow.parquet.write_table(made, tmp_path / "answers.parquet")
    stored = files.stored_rows(tmp_path / "answers.parquet", 0, 1)
    assert [stored[end][0] for end in ENDS] == [moments[1], moments[0], moments[2]]
    assert [dates.number(stored[end][0]) for end in ENDS] == numbers
    pyarrow.csv.write_csv(made, tmp_path / "answers.csv")
    assert str(moments[0]) in (tmp_path / "answers.csv").read_text()


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ({"quantiles": {"column": "admitted", "at": ["0.5"], "by": "admitted"}}, "must be another column"),
        *(
            ({word: column}, None)
            for word, column in (("mean", ["admitted"]), ("range", "admitted"), ("categories", "admitted"))
        ),
    ],
)
def test_dates_have_no_sums_and_nothing_to_learn_and_are_grouped_by_another_column(make_draft, dataset, query, reason):
    with pytest.raises(InvalidInput, match=reason):
        make_draft(dataset, query)


def test_the_page_of_questions_offers_medians_of_dates_and_that_of_columns_does_not_learn_them(
    dataset, make_draft, as_, alice
):
    kind = statistic_kind(Quantile(attributes=("admitted",)))
    assert kind.fields[0].columns.names(dataset.universe) == ["admitted"]
    draft = make_draft(dataset, {"median": "admitted"}, mechanism="", delta="0.0000001")
    assert "days" in words(as_(alice).get(link("compare", draft)))
    page = body(as_(alice).get(link("columns", dataset)))
    assert "?column=admitted" not in page
    assert "?column=sex" in page
