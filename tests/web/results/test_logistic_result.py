"""What a curator reads of a logistic regression: an example before, odds ratios in words after, or nothing."""

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
    {"name": "let", "type": "categorical", "categories": ["no", "yes"], "outside": "no"},
    {"name": "rent", "type": "integer", "edges": [0, 1000, 2000, 3000]},
    {"name": "balcony", "type": "categorical", "categories": ["no", "yes"], "outside": "no"},
]


def planned(**options):
    schema = Schema.from_json({"version": 1, "columns": COLUMNS, "neighbours": "add_remove", "unit": {"kind": "row"}})
    query = {"logistic_regression": {"outcome": "let", "values": ["yes"], "columns": ["rent", "balcony"]}}
    question = read_question({"version": 1, "queries": [query]}, schema.universe)
    budget = PureDP(epsilon=Fraction(10))
    return mechanism("laplace-numbers").plan(schema, question, budget=budget, beta=Fraction(1, 20), options=options)


@pytest.fixture
def shown_of(tmp_path):
    """What is shown of a release of so many flats, and its headline: odds of 1, a quarter for 1,000 more, twice with a
    balcony, if they hang on the middle of the rent's range."""

    def show(flats):
        plan, drawn = planned(), np.random.default_rng(1)
        bins, balcony = drawn.integers(0, 3, flats), drawn.integers(0, 2, flats)
        odds = 0.25 ** (bins - 1) * 2.0**balcony
        let = (drawn.random(flats) < odds / (1 + odds)).astype(np.int64)
        rows = Rows(universe=plan.schema.universe, columns={"rent": 1000 * bins, "balcony": balcony, "let": let})
        result = plan.run(rows, rng=StreamRandomness(b"flats"))
        pyarrow.parquet.write_table(files.answers_table(plan.workload, result), tmp_path / "answers.parquet")
        shown = shown_statistic(plan.workload, tmp_path, receipt={}, notes={}, first="", second="", is_proved=False)
        receipt = {"answers": len(shown.answers), "bound": {"proof": result.bound.proof.value, "beta": "1/20"}}
        page = render_to_string("results/_statistic_answers.html", {"shown": shown})
        found = headline(plan.workload, files.reader(tmp_path), receipt, {})
        return shown, page, found, accuracy_sentence(plan, result.bound)

    return show


def test_each_ratio_is_said_in_words_with_its_interval_and_logarithms_are_in_details(shown_of):
    shown, page, found, sentence = shown_of(40_000)
    labels = [
        "odds of let = yes for each 100 more of rent",
        "odds of let = yes where balcony is yes rather than no",
        "odds of let = yes themselves where rent = 1500, balcony = no",
    ]
    assert [each.label for each in shown.answers] == [*labels, *(f"logarithm of the {each}" for each in labels)]
    truth = [0.25 ** (1 / 10), 2, 1]
    for each, true in zip(shown.answers, [*truth, *np.log(truth)], strict=True):
        low, high = (float(end.replace("−", "-")) for end in (each.lower, each.upper))
        assert low < true < high
        assert all(number in page for number in (each.estimate, each.lower, each.upper))
    ratios, logarithms = page.split("<details>")
    assert "logarithm" not in ratios.lower()
    assert logarithms.lower().count("logarithm of the odds") == 3
    assert "covers the noise and the sampling" in " ".join(page.split())
    assert sentence.startswith("With probability 95%, every one of the 3 odds ratios of the whole population")
    assert found.startswith("The odds of let = yes for each 100 more of rent are about 0.8")
    assert " times as high, between 0.8" in found
    assert found.endswith("drawn from a population at random. It was tested on real tables, not proved.")


def test_where_noise_hides_the_odds_no_number_is_shown(shown_of):
    shown, page, found, sentence = shown_of(5)
    assert {each.chosen for each in shown.answers} == {"cannot be said"}
    assert page.count("cannot be said") == 6
    assert "covers the noise" not in page
    assert sentence == "Any odds ratio is possible: the noise hides how the outcome depends on the predictors."
    assert found.startswith("No odds ratio can be said: the noise hides how the outcome depends on the predictors.")


def test_before_the_release_an_example_is_given_and_nothing_is_promised():
    without, example, too_few = (compared([planned(**each)], None)[0] for each in ({}, rows(20_000), rows(1)))
    assert without.sentence.endswith("Type about how many, below epsilon, and an example is given here.")
    assert example.sentence.startswith("How accurate it is becomes known with the release. For example, if 20,000 rows")
    assert "a factor of 1.0" in example.sentence
    assert "where balcony is yes rather than no" in example.sentence
    assert example.is_unproved
    assert too_few.why_not.startswith("Of 1 rows nothing could be said with so much noise.")


def rows(number):
    return {"expected_rows": number}
