"""A column of numbers in which not all values are numbers: its rows count, apart from the order of the numbers."""

from __future__ import annotations

import re

import pyarrow.parquet
import pytest

from releases import services
from releases.engine.domain.universe import NO_NUMBER, Schema
from releases.engine.errors import InvalidInput
from releases.models import Dataset
from releases.presentation.results.answers import Wish
from releases.presentation.results.result_page import result_page
from releases.publication import files
from releases.publication.receipt import rules_that_drop
from tests.web.conftest import COLUMNS, CSV
from tests.web.pages import body, link

pytestmark = pytest.mark.django_db

ROWS = CSV.count(b"\n") - 1
#: Half of the ages are written with a comma, so that they are no numbers.
HALF = b"".join(
    re.sub(rb",(\d\d),", rb',"\1,5",', line) if position % 2 else line
    for position, line in enumerate(CSV.splitlines(keepends=True))
)
APART = [{**each, "missing_as": NO_NUMBER} if "edges" in each else each for each in COLUMNS]


@pytest.fixture
def dataset(make_dataset):
    made = make_dataset(content=HALF, epsilon="100")
    services.datasets.declare_universe(dataset=made, columns=APART)
    made.refresh_from_db()
    return made


@pytest.fixture
def release_of(dataset, make_draft, carry_out):
    def make(query, mechanism="laplace-queries", epsilon="20"):
        return carry_out(make_draft(dataset, query, epsilon=epsilon, mechanism=mechanism))

    return make


def counts_of(release):
    answers = files.read_answers(files.folder_of(release))
    return dict(zip(answers.column(1).to_pylist(), answers["estimate"].to_pylist(), strict=True))


def test_rows_without_a_number_are_counted_in_a_bin_of_their_own(release_of):
    release = release_of({"marginal": ["age"]})
    counts = counts_of(release)
    assert list(counts)[-1] == NO_NUMBER
    assert sum(counts.values()) == pytest.approx(ROWS, abs=3)
    assert counts[NO_NUMBER] == pytest.approx(ROWS / 2, abs=3)
    assert rules_that_drop(release.result["receipt"]) == []
    assert not result_page(release, wish=Wish()).is_all_near_zero


def test_synthetic_rows_have_no_value_there_and_count_as_the_answers_do(release_of):
    release = release_of({"marginal": ["age", "sex"]}, mechanism="laplace-histogram")
    folder, schema = files.folder_of(release), Schema.from_json(release.result["receipt"]["schema"])
    ages = pyarrow.parquet.read_table(folder / "synthetic.parquet").column("age")
    assert ages.null_count == pytest.approx(ROWS / 2, abs=5)
    assert ages.type == "int64"
    table = files.synthetic_marginals(folder / "synthetic.parquet", schema.universe)(("age",))
    assert table[-1] == ages.null_count
    assert release.result["receipt"]["synthetic_beside"]["outside"] == 0
    written = (folder / "synthetic.csv").read_text().splitlines()[1:]
    assert sum("" in line.split(",") for line in written) == ages.null_count
    assert set(services.release_inputs.certifiable(release)) == {"synthetic rows", "released answers", "both"}


@pytest.mark.parametrize(
    ("query", "mechanism"),
    [({"prefix": "age"}, "laplace-queries"), ({"mean": ["age"]}, "laplace-numbers"), ({"median": "age"}, None)],
    ids=["running totals", "a mean", "a median"],
)
def test_where_numbers_are_ordered_or_added_up_rows_without_one_are_left_out_and_it_is_said(
    release_of, query, mechanism
):
    release = release_of(query, mechanism=mechanism or "exponential-quantile")
    rules = rules_that_drop(release.result["receipt"])
    assert [rule for rule in rules if "age" in rule]
    if "prefix" in query:
        assert max(counts_of(release).values()) == pytest.approx(ROWS / 2, abs=3)
        assert NO_NUMBER not in counts_of(release)
        assert set(services.release_inputs.certifiable(release))


def test_rows_without_a_number_can_be_asked_for_but_not_beside_running_totals(dataset, alice, release_of):
    release = release_of({"count": {"age": [NO_NUMBER], "sex": ["female", "male"]}})
    assert release.result["receipt"]["answers"] == 1
    draft = services.releases.draft_release(dataset=dataset, by=alice)
    both = [{"prefix": "age"}, {"count": {"age": [NO_NUMBER]}}]
    with pytest.raises(InvalidInput, match="must be one of"):
        services.releases.set_questions(release=draft, workload={"version": 1, "queries": both})


def test_a_column_declared_in_the_browser_counts_them_unless_a_person_leaves_them_out(make_dataset, as_, alice):
    dataset = make_dataset(content=HALF)
    address = link("columns", dataset)
    page = body(as_(alice).get(address))
    fields = dict(re.findall(r'name="(form-\d+-name|form-TOTAL_FORMS|form-INITIAL_FORMS)" value="([^"]*)"', page))
    at = next(name.split("-")[1] for name, value in fields.items() if value == "age")
    for rule, kept in (("", NO_NUMBER), ("drop", "")):
        typed = {f"form-{at}-kind": "integer", f"form-{at}-values": "0, 50, 100", f"form-{at}-missing_rule": rule}
        assert as_(alice).post(address, {**fields, **typed}).status_code == 302
        assert Dataset.objects.get(pk=dataset.pk).universe["age"].missing_as == kept
        shown = body(as_(alice).get(address))
        assert ('<option value="drop" selected' in shown) is (rule == "drop")
