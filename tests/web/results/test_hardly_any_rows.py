"""A release whose rows were left out, by a column that was misread, is doubted before it is made public."""

from __future__ import annotations

import re

import pytest

from releases import services
from releases.presentation.results.answers import Wish
from releases.presentation.results.result_page import result_page
from releases.publication.readme import readme_text
from releases.publication.receipt import counted_in_words, rules_that_drop
from tests.web.conftest import CSV
from tests.web.pages import body, link

pytestmark = pytest.mark.django_db

MISREAD = re.sub(rb",(\d\d),", rb',"\1,5",', CSV)


@pytest.fixture
def release_of(make_dataset, make_draft, carry_out):
    def make(content=CSV, **choice):
        # A bound that a run leaves so seldom that no test fails by its noise.
        return carry_out(make_draft(make_dataset(content=content), **{"beta": "0.000000001", **choice}))

    return make


def actions(client, release):
    """The buttons below *Who may see it*, in order."""
    page = body(client.get(link("release_detail", release)))
    shown = page[page.index("Who may see it") : page.index("Withdraw</summary>")]
    return re.findall(r'<(?:a role="button"|button)( class="secondary outline")?[^>]*>([^<]+)<', shown)


def test_a_table_of_which_no_row_could_be_read_is_doubted_with_every_rule_that_drops(release_of, as_, alice):
    release = release_of(MISREAD, epsilon="1.9")
    page = result_page(release, wish=Wish())
    assert page.is_all_near_zero
    assert page.may_leave_out == tuple(rules_that_drop(release.result["receipt"]))
    assert [re.findall(r"\b(?:age|sex)\b", rule) for rule in page.may_leave_out] == [["sex"], ["age"]]
    shown = actions(as_(alice), release)
    assert shown[0] == ("", "Correct the columns")
    assert shown[-1] == (' class="secondary outline"', "Make public")


def test_a_table_that_was_read_says_how_many_rows_counted_and_is_offered_to_be_made_public_first(
    release_of, as_, alice
):
    release = release_of(epsilon="1.9")
    page = result_page(release, wish=Wish())
    assert not page.is_all_near_zero
    assert page.may_leave_out == ()
    assert actions(as_(alice), release)[0] == ("", "Make public")
    assert ("", "Correct the columns") not in actions(as_(alice), release)
    total = release.result["receipt"]["total"]["estimate"]
    assert 100 < total < 300
    said = f"About {total:,.0f} rows counted. How many were left out is not known."
    page = body(as_(alice).get(link("release_detail", release)))
    assert page.index(said) < page.index('id="answers"')
    readme = readme_text(release.result["receipt"], [], digest="", address="")
    assert said in " ".join(readme.split())


@pytest.mark.parametrize(
    ("mechanism", "query", "is_known"),
    [
        ("laplace-queries", {"marginals": 1}, True),
        ("laplace-queries", {"count": {"sex": ["male"]}}, False),
        ("laplace-numbers", {"mean": ["age"]}, True),
        ("exponential-quantile", {"median": "age"}, False),
    ],
    ids=["a table", "a count", "a mean", "a median"],
)
def test_a_number_of_rows_is_named_only_where_one_was_released(
    make_dataset, make_draft, carry_out, mechanism, query, is_known
):
    said = counted_in_words(carry_out(make_draft(make_dataset(), query, mechanism=mechanism)).result["receipt"])
    assert bool(re.search(r"\d", said)) is is_known
    assert said.endswith("How many were left out is not known." if is_known else "is not known.")


@pytest.mark.parametrize("query", [{"marginals": 1}, {"count": {"sex": ["male"]}}], ids=["a table", "a count"])
def test_a_declaration_that_drops_no_row_says_so(make_dataset, make_draft, carry_out, query):
    dataset = make_dataset()
    caught = {"name": "sex", "type": "categorical", "categories": ["female", "male", "other"], "outside": "other"}
    services.datasets.declare_universe(dataset=dataset, columns=[caught])
    dataset.refresh_from_db()
    receipt = carry_out(make_draft(dataset, query)).result["receipt"]
    assert rules_that_drop(receipt) == []
    assert "no rule leaves" in counted_in_words(receipt).lower()


def test_a_row_that_belongs_to_nobody_is_among_what_can_be_left_out():
    """An id that was misread leaves out every row, whatever the other columns hold."""
    columns = [{"name": "sex", "type": "categorical", "categories": ["f", "other"], "outside": "other"}]
    schema = {"version": 1, "columns": columns, "neighbours": "add_remove"}
    assert rules_that_drop({"schema": {**schema, "unit": {"kind": "row"}}}) == []
    (rule,) = rules_that_drop({"schema": {**schema, "unit": {"kind": "person", "id": "patient", "max_rows": 3}}})
    assert rule == "A row without patient is left out, and of one person at most 3 count."
