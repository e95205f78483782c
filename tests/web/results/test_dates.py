"""A column of dates from a declaration to published rows: counts by month, and synthetic rows with dates."""

import csv
import io
from collections import Counter
from datetime import date, datetime, timedelta
from fractions import Fraction

import numpy as np
import pyarrow.csv
import pyarrow.parquet
import pytest
from django.http import QueryDict

from releases.engine.bounds.accuracy import Bound, Proof
from releases.engine.domain.schema import Schema
from releases.engine.errors import InvalidInput
from releases.engine.estimation.result import Component, Distribution, Result
from releases.engine.estimation.synthetic import synthetic_records
from releases.engine.noise.randomness import OperatingSystemRandomness
from releases.engine.workload.parsing import read_question
from releases.engine.workload.queries import Workload
from releases.forms.predicates import ConditionsForm
from releases.publication import files
from tests.engine.tables.reference import code
from tests.web.conftest import rows_of
from tests.web.pages import link, words

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
    """An interval misses with a probability of at most 1e-10."""
    choice = {"epsilon": "40", "beta": "0.0000000001"}
    return lambda *queries, mechanism: carry_out(make_draft(dataset, *queries, mechanism=mechanism, **choice))


def universe_of(*columns):
    return Schema.from_json({"version": 1, "columns": list(columns)}).universe


RANGES = (
    MONTHS,
    {**DAY, "by": "weekday", "outside": "drop", "missing_as": "no date"},
    {"name": "admitted", "type": "date", "format": "MM/DD/YYYY", "outside": "clamp", "by": "edges"}
    | {"edges": ["0001-01-01", "1900-02-28", "1900-03-01", "9999-12-31"]},
    {**DAY, "type": "datetime", "by": "hour", "outside": "drop", "missing_as": "no date"},
    {**DAY, "type": "datetime", "format": "YYYY-MM-DD", "by": "quarter", "outside": "clamp"},
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


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ({"from": "2024-02", "to": "2024-03"}, (1, 2)),
        ({"to": "2024-02"}, (0, 1)),
        (["2024-01", "no date"], (0, 4)),
    ],
)
def test_a_range_of_bins_is_asked_for_by_their_names(condition, expected):
    universe = universe_of(MONTHS, SEX)
    workload = Workload.from_json({"version": 1, "queries": [{"count": {"admitted": condition}}]}, universe)
    assert workload.families[0].bins == (expected,)
    assert Workload.from_json(workload.to_json(), universe) == workload
    backwards = {"count": {"admitted": {"from": "2024-03", "to": "2024-02"}}}
    with pytest.raises(InvalidInput, match=r"queries\[0\]\.count\.admitted"):
        Workload.from_json({"version": 1, "queries": [backwards]}, universe)
    if isinstance(condition, dict):
        posted = QueryDict(mutable=True)
        posted.update({f"{end}.admitted": name for end, name in condition.items()})
        assert ConditionsForm(posted, universe=universe).predicate() == {"admitted": condition}


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


@pytest.mark.parametrize(
    ("query", "truths"),
    [
        ({"median": "admitted"}, [(0.5, "fm")]),
        ({"quantiles": {"column": "admitted", "at": ["0.25", "0.75"]}}, [(0.25, "fm"), (0.75, "fm")]),
        ({"quantiles": {"column": "admitted", "at": ["0.5"], "by": "sex"}}, [(0.5, "f"), (0.5, "m")]),
    ],
    ids=["median", "quartiles", "by sex"],
)
def test_a_quantile_of_dates_is_a_date_and_so_are_the_ends_of_its_interval(release_of, as_, alice, query, truths):
    release = release_of(query, mechanism="counted-quantile")
    rows = rows_of(release)
    for row, (share, sex) in zip(rows, truths, strict=True):
        about, lower, upper = (date.fromisoformat(row[end]) for end in ENDS)
        true = true_quantiles(share, sex)
        assert lower <= true[0] <= true[-1] <= upper
        assert lower <= about <= upper
        assert sex != "fm" or (upper - lower).days < 20
    stored = pyarrow.parquet.read_table(files.folder_of(release) / "answers.parquet").to_pylist()
    assert [[str(line[end]) for end in ENDS] for line in stored] == [[row[end] for end in ENDS] for row in rows]
    about = date.fromisoformat(rows[0]["estimate"])
    assert f"{about.day} {about:%B} {about.year}" in words(as_(alice).get(link("release_detail", release)))


@pytest.mark.parametrize("year", [1, 9999])
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
