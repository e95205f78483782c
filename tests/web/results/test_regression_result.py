"""What a curator reads of a linear regression: an example before, coefficients with their units after, or nothing."""

from fractions import Fraction

import numpy as np
import pyarrow.parquet
import pytest
from django.template.loader import render_to_string

from releases.engine.domain.privacy import PureDP
from releases.engine.domain.schema import Schema
from releases.engine.mechanisms.base import mechanism
from releases.engine.noise.randomness import StreamRandomness
from releases.engine.tables.counts import Rows
from releases.engine.workload.parsing import read_question
from releases.planning.comparison import compared
from releases.presentation.results.statistics import shown_statistic
from releases.publication import files
from releases.publication.headline import headline
from releases.publication.receipt import accuracy_sentence

COLUMNS = [
    {"name": "rent", "type": "integer", "edges": [0, 3000]},
    {"name": "size", "type": "integer", "edges": [10, 200]},
    {"name": "balcony", "type": "categorical", "categories": ["no", "yes"], "outside": "no"},
]
NOTES = {"rent": {"unit": "euro"}, "size": {"unit": "m²"}}


def planned(**options):
    schema = Schema.from_json({"version": 1, "columns": COLUMNS, "neighbours": "add_remove", "unit": {"kind": "row"}})
    query = {"regression": {"outcome": "rent", "columns": ["size", "balcony"]}}
    question = read_question({"version": 1, "queries": [query]}, schema.universe)
    budget = PureDP(epsilon=Fraction(10))
    return mechanism("laplace-numbers").plan(schema, question, budget=budget, beta=Fraction(1, 20), options=options)


@pytest.fixture
def shown_of(tmp_path):
    """What is shown of a release of so many flats, and its headline: a rent of 200, 9 a square metre, 60 a balcony."""

    def show(flats):
        plan, drawn = planned(), np.random.default_rng(1)
        size, balcony = drawn.integers(10, 201, flats), drawn.integers(0, 2, flats)
        rent = 200 + 9 * size + 60 * balcony + drawn.integers(-50, 51, flats)
        rows = Rows(universe=plan.schema.universe, columns={"rent": rent, "size": size, "balcony": balcony})
        result = plan.run(rows, rng=StreamRandomness(b"rents"))
        pyarrow.parquet.write_table(files.answers_table(plan.workload, result), tmp_path / "answers.parquet")
        shown = shown_statistic(plan.workload, tmp_path, receipt={}, notes=NOTES, first="", second="", is_proved=False)
        receipt = {"answers": len(shown.answers), "bound": {"proof": result.bound.proof.value, "beta": "1/20"}}
        page = render_to_string("results/_statistic_answers.html", {"shown": shown})
        found = headline(plan.workload, files.reader(tmp_path), receipt, NOTES)
        return shown, page, found, accuracy_sentence(plan, result.bound)

    return show


def test_each_coefficient_has_its_unit_and_its_interval_and_the_page_says_what_that_covers(shown_of):
    shown, page, found, sentence = shown_of(20_000)
    assert [each.label for each in shown.answers] == [
        "change in rent for each 1 more of size, in euro per m²",
        "difference in rent between balcony = yes and no, in euro",
        "value of rent on the line where size = 0, balcony = no, in euro",
    ]
    for each, truth in zip(shown.answers, [9, 60, 200], strict=True):
        assert float(each.lower) < truth < float(each.upper)
        assert all(number in page for number in (each.estimate, each.lower, each.upper))
    assert "covers the noise and the sampling" in " ".join(page.split())
    assert sentence.startswith("With probability 95%, every one of the 3 coefficients of the whole population")
    assert found.startswith("The change in rent for each 1 more of size is about 9; the true value lies between ")
    assert found.endswith("drawn from a population at random. It was tested on real tables, not proved.")


def test_where_noise_hides_the_line_no_number_is_shown(shown_of):
    shown, page, found, sentence = shown_of(5)
    assert {each.chosen for each in shown.answers} == {"cannot be said"}
    assert page.count("cannot be said") == 3
    assert "covers the noise" not in page
    assert sentence == "Any coefficient is possible: the noise hides how the predictors vary."
    assert found.startswith("No coefficient can be said: the noise hides how the predictors vary.")


def test_before_the_release_an_example_is_given_and_nothing_is_promised():
    without, example, too_few = (compared([planned(**each)], None)[0] for each in ({}, rows(20_000), rows(5)))
    assert without.sentence.endswith("Type about how many, below epsilon, and an example is given here.")
    assert example.sentence.startswith("How accurate it is becomes known with the release. For example, if 20,000 rows")
    assert example.is_unproved
    assert (
        too_few.why_not == "Of 5 rows nothing could be said with so much noise. Spend more, or name fewer predictors."
    )


def rows(number):
    return {"expected_rows": number}
