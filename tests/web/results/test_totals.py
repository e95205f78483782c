"""Below a table stands what all its groups come to: on the page, and in the report."""

import random
import re
from html import unescape

import pytest

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
    ],
)
def test_page_and_report_end_a_table_with_all_together(
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


def test_medians_by_group_have_no_such_line(make_declared, make_draft, carry_out, as_, alice):
    dataset = make_declared(COLUMNS, content=CONTENT, epsilon="100")
    query = {"quantiles": {"column": "age", "at": ["0.5"], "by": "town"}}
    release = carry_out(make_draft(dataset, query, epsilon="60", mechanism="counted-quantile"))
    assert "all together" not in body(as_(alice).get(link("release_detail", release)))
