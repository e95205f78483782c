"""A release whose rows were left out, by a column that was misread, is doubted before it is made public; where not all
values of a column are numbers, its rows can be counted apart."""

import re
from functools import partial

import pyarrow.parquet
import pytest

from releases.engine.accounting.filters import Policy
from releases.engine.domain.attribute import NO_NUMBER
from releases.engine.domain.schema import Schema
from releases.engine.mechanisms.base import mechanisms
from releases.presentation.results.answers import Wish
from releases.presentation.results.result_page import result_page
from releases.publication import files
from releases.publication.readme import readme_text
from releases.publication.receipt import counted_in_words, rules_that_drop
from tests.web.conftest import COLUMNS, CSV
from tests.web.pages import body, link
from tests.web.releases.test_kinds_of_question import EXAMPLES, question_of
from tests.web.releases.test_statistic_questions import COLUMNS as WIDE

#: Every age is written with a comma, so that none is a number.
MISREAD = re.sub(rb",(\d\d),", rb',"\1,5",', CSV)


@pytest.fixture
def release_of(publish):
    """A bound that a run leaves so seldom that no test fails by its noise."""
    return partial(publish, beta="0.000000001", epsilon="1.9")


def actions(client, release):
    """The buttons below *Who may see it*, in order."""
    page = body(client.get(link("release_detail", release)))
    shown = page[page.index("Who may see it") : page.index("Withdraw</summary>")]
    return re.findall(r'<(?:a role="button"|button)( class="secondary outline")?[^>]*>([^<]+)<', shown)


def test_a_table_of_which_no_row_could_be_read_is_doubted_with_every_rule_that_drops(release_of, as_, alice):
    release = release_of(content=MISREAD)
    page = result_page(release, wish=Wish())
    assert page.no_rows == "No count here is certainly above 0."
    assert page.may_leave_out == tuple(rules_that_drop(release.result["receipt"]))
    assert [re.findall(r"\b(?:age|sex)\b", rule) for rule in page.may_leave_out] == [["sex"], ["age"]]
    shown = actions(as_(alice), release)
    assert shown[0] == ("", "Correct the columns")
    assert shown[-1] == (' class="secondary outline"', "Make public")


def test_a_table_that_was_read_says_how_many_rows_counted_and_is_offered_to_be_made_public_first(
    release_of, as_, alice
):
    release = release_of()
    page = result_page(release, wish=Wish())
    assert (page.no_rows, page.may_leave_out) == ("", ())
    assert actions(as_(alice), release)[0] == ("", "Make public")
    total = release.result["receipt"]["total"]["estimate"]
    said = f"About {total:,.0f} rows counted. How many were left out is not known."
    assert said in body(as_(alice).get(link("release_detail", release)))
    assert said in " ".join(readme_text(release.result["receipt"], [], digest="", address="").split())
    # No more digits than "about" bears: a table's own counts may come to another number.
    for number, about in ((3985.2, "3,990"), (1234567.0, "1,230,000"), (41.0, "41")):
        receipt = {**release.result["receipt"], "total": {"estimate": number}}
        assert counted_in_words(receipt).startswith(f"About {about} rows counted")


@pytest.mark.parametrize(
    ("mechanism", "query", "is_known"),
    [
        ("laplace-queries", {"marginals": 1}, True),
        ("laplace-numbers", {"mean": ["age"]}, True),
        ("exponential-quantile", {"median": "age"}, False),
    ],
    ids=["a table", "a mean", "a median"],
)
def test_a_number_of_rows_is_named_only_where_one_was_released(publish, mechanism, query, is_known):
    said = counted_in_words(publish(query, mechanism=mechanism).result["receipt"])
    assert bool(re.search(r"\d", said)) is is_known
    assert said.endswith("How many were left out is not known." if is_known else "is not known.")


#: Every mechanism with every kind of question that it answers, of those that are asked of a table.
EVERY = [
    (name, kind)
    for name, each in mechanisms().items()
    for kind in EXAMPLES
    if kind not in ("survey", "largest_error") and each.can_answer(question_of(kind))
]
#: Means without weights, which say how many rows they are of.
ASKED = {**EXAMPLES, "mean": [{"mean": ["income"]}]}
#: A table of which every value can be read, and one of which none can.
READ = b"age,income,sex,tea,rice\n" + b"30,1200.5,male,yes,no\n40,3200.5,female,no,yes\n" * 10_000
UNREAD = b"age,income,sex,tea,rice\n" + b'"30,5","1200,5",m,j,n\n' * 2000
#: What says neither how many rows counted nor whether any did: a value or a choice from a list alone, or no answer.
SILENT = {"most_common", "largest_count", "range", "categories", "threshold"}
ALONE = {"exponential-quantile", "propose-test-release"}
#: Sums of values, of weights and of votes are no number of rows, and a median by its sensitivity counts none.
SUMS = {"sum", "weighted_count", "votes"}
BY_SENSITIVITY = {"smooth-median-cauchy", "smooth-median-gaussian", "smooth-median-laplace", "exponential-metric"}
#: Their errors are so wide that no table of this size shows: the one by distances, the other of a session.
WIDE_ERRORS = {"exponential-metric", "fitted-online"}


@pytest.fixture
def of_each(make_declared, make_draft, carry_out, as_, alice):
    """What the page of a release by a mechanism of a kind of question says, of one of these tables."""

    def look(mechanism, kind, content):
        dataset = make_declared(WIDE, content=content, epsilon="90", policy=Policy.ZCDP)
        choice = {"epsilon": "20", "delta": "0.0000001", "beta": "0.000001"}
        release = carry_out(make_draft(dataset, *ASKED[kind], mechanism=mechanism, **choice))
        page = result_page(release, wish=Wish())
        first_screen = body(as_(alice).get(link("release_detail", release))).partition("Answers</h2>")[0]
        readme = " ".join(readme_text(release.result["receipt"], [], digest="", address="").split())
        assert all(page.counted in each for each in (first_screen, readme))
        assert as_(alice).get(f"/api/releases/{release.pk}").json()["rows_counted"] == page.counted
        return page, actions(as_(alice), release)

    return look


@pytest.mark.parametrize(("mechanism", "kind"), EVERY)
def test_every_kind_of_release_says_how_many_rows_counted_or_that_it_is_not_known(of_each, mechanism, kind):
    page, shown = of_each(mechanism, kind, READ)
    assert page.counted.endswith("not known.")
    numbers = [float(each.replace(",", "")) for each in re.findall(r"\d[\d,]*", page.counted)]
    assert numbers == pytest.approx([20_000] * len(numbers), rel=0.3)
    # Laplace noise is least where products alone are measured.
    if (mechanism, kind) != ("laplace-numbers", "second_moments"):
        assert bool(numbers) is (kind not in SILENT | SUMS and mechanism not in ALONE | BY_SENSITIVITY)
    assert bool(page.no_rows) <= (mechanism in WIDE_ERRORS)
    assert (shown[0] == ("", "Make public")) is not bool(page.no_rows)


@pytest.mark.parametrize(("mechanism", "kind"), EVERY)
def test_every_kind_of_release_is_doubted_where_nothing_shows_that_a_row_counted(of_each, mechanism, kind):
    page, shown = of_each(mechanism, kind, UNREAD)
    if kind in SILENT or mechanism in ALONE | {"exponential-metric"}:
        assert not re.search(r"\d", page.counted)
        return
    assert page.no_rows.endswith("no row was counted." if kind != "counts" else "is certainly above 0.")
    assert page.may_leave_out
    assert shown[0] == ("", "Correct the columns")
    assert shown[-1] == (' class="secondary outline"', "Make public")


def test_a_table_of_its_own_rows_is_doubted_beside_one_that_was_read(release_of):
    """Half of what is asked is well: no number of the column that was misread is."""
    release = release_of({"marginal": ["age"]}, {"marginal": ["sex"]}, content=MISREAD)
    page = result_page(release, wish=Wish())
    assert page.no_rows == "No count of age is certainly above 0."
    assert page.doubts_columns
    assert page.may_leave_out == tuple(rules_that_drop(release.result["receipt"]))


def test_a_row_that_belongs_to_nobody_is_among_what_can_be_left_out():
    """An id that was misread leaves out every row, whatever the other columns hold."""
    columns = [{"name": "sex", "type": "categorical", "categories": ["f", "other"], "outside": "other"}]
    schema = {"version": 1, "columns": columns, "neighbours": "add_remove"}
    assert rules_that_drop({"schema": {**schema, "unit": {"kind": "row"}}}) == []
    (rule,) = rules_that_drop({"schema": {**schema, "unit": {"kind": "person", "id": "patient", "max_rows": 3}}})
    assert rule == "A row without patient is left out, and of one person at most 3 count."


# A column in which not all values are numbers: its rows count, apart from the order of the numbers


ROWS = CSV.count(b"\n") - 1
#: Half of the ages are written with a comma, so that they are no numbers.
HALF = b"".join(
    re.sub(rb",(\d\d),", rb',"\1,5",', line) if position % 2 else line
    for position, line in enumerate(CSV.splitlines(keepends=True))
)
APART = [{**each, "missing_as": NO_NUMBER} if "edges" in each else each for each in COLUMNS]


def test_synthetic_rows_have_no_value_there_and_count_as_the_answers_do(publish):
    asked, table = {"marginal": ["age", "sex"]}, {"columns": APART, "content": HALF, "budget": "100"}
    release = publish(asked, **table, epsilon="20", mechanism="laplace-histogram")
    folder, schema = files.folder_of(release), Schema.from_json(release.result["receipt"]["schema"])
    ages = pyarrow.parquet.read_table(folder / "synthetic.parquet").column("age")
    assert ages.null_count == pytest.approx(ROWS / 2, abs=5)
    assert ages.type == "int64"
    table = files.synthetic_marginals(folder / "synthetic.parquet", schema.universe)(("age",))
    assert table[-1] == ages.null_count
    assert release.result["receipt"]["synthetic_beside"]["outside"] == 0
