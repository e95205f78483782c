"""A number by itself has a chart: its interval, and what was released, on the range that it can have."""

import json
import re
from html import unescape

import pytest

from releases.publication import files
from tests.web.conftest import rows_of
from tests.web.pages import body, link

COLUMNS = [
    {"name": "age", "type": "integer", "edges": [10, 30, 70]},
    {"name": "seen", "type": "date", "first": "2024-01-01", "last": "2024-03-31", "by": "month"},
]
CONTENT = b"age,sex,seen\n" + b"40,male,2024-02-10\n" * 150 + b"20,male,2024-01-20\n" * 50
#: Of each question where its axis begins and ends, and what is below it.
SHOWN = [
    ({"median": "age"}, "counted-quantile", [10, 70], "declared range of age, 10 to 70"),
    ({"quantile": {"column": "age", "at": "0.9"}}, "counted-quantile", [10, 70], "declared range of age, 10 to 70"),
    ({"quantiles": {"column": "age", "at": ["0.2", "0.5"]}}, "counted-quantile", [10, 70], "range of age, 10 to 70"),
    ({"mean": ["age"]}, "laplace-numbers", [10, 70], "declared range of age, 10 to 70"),
    ({"variance": ["age"]}, "laplace-numbers", [0, 900], "possible range of the variance of age, 0 to 900"),
    (
        {"median": "seen"},
        "counted-quantile",
        ["2024-01-01", "2024-03-31"],
        "seen, 2024-01-01 to 2024-03-31",
    ),
]


@pytest.mark.draws
@pytest.mark.parametrize(("query", "mechanism", "ends", "below"), SHOWN)
def test_a_number_is_drawn_with_its_interval_on_the_range_that_it_can_have(
    make_declared, make_draft, carry_out, as_, alice, query, mechanism, ends, below
):
    dataset = make_declared(COLUMNS, content=CONTENT, epsilon="100")
    release = carry_out(make_draft(dataset, query, epsilon="2", mechanism=mechanism))
    page = body(as_(alice).get(link("release_detail", release)))
    chart = json.loads(re.search(r'id="answers-data" type="application/json">(.*?)</script>', page)[1])
    for layer in chart["layer"]:
        assert layer["encoding"]["x"]["scale"]["domain"] == ends
        assert layer["encoding"]["x"]["title"].endswith(below)
    released = rows_of(release)
    assert len(chart["data"]["values"]) == len(released)
    for drawn, row in zip(chart["data"]["values"], released, strict=True):
        for name in ("estimate", "lower", "upper"):
            assert str(drawn[name])[:10] == row[name] or drawn[name] == pytest.approx(float(row[name]))
    said = re.search(r'data-chart="answers-data" role="img"\s+aria-label="([^"]*)"', page)[1]
    if len(released) == 1:
        assert "on the range that it can have" in said
        assert re.search(r"\d", said)
    assert '<i class="dot"></i> released' in page
    report = unescape((files.folder_of(release) / "report.html").read_text())
    assert report.count("<svg") == len(released)
    assert "range of" in report


def test_a_sum_has_no_range_that_is_public_and_so_no_chart(make_declared, make_draft, carry_out, as_, alice):
    dataset = make_declared(COLUMNS, content=CONTENT, epsilon="100")
    release = carry_out(make_draft(dataset, {"sum": ["age"]}, epsilon="2", mechanism="laplace-numbers"))
    assert "answers-data" not in body(as_(alice).get(link("release_detail", release)))
