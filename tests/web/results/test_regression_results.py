"""What a curator reads of a regression: an example before, coefficients or odds ratios after, or nothing."""

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
    {"name": "size", "type": "integer", "edges": [10, 200]},
    {"name": "balcony", "type": "categorical", "categories": ["no", "yes"], "outside": "no"},
]
NOTES = {"rent": {"unit": "euro"}, "size": {"unit": "m²"}}
LINE = {"regression": {"outcome": "rent", "columns": ["size", "balcony"]}}
ODDS = {"logistic_regression": {"outcome": "let", "values": ["yes"], "columns": ["rent", "balcony"]}}


def planned(query, **options):
    schema = Schema.from_json({"version": 1, "columns": COLUMNS, "neighbours": "add_remove", "unit": {"kind": "row"}})
    question = read_question({"version": 1, "queries": [query]}, schema.universe)
    budget = PureDP(epsilon=Fraction(10))
    return mechanism("laplace-numbers").plan(schema, question, budget=budget, beta=Fraction(1, 20), options=options)


@pytest.fixture
def shown_of(tmp_path):
    """What is shown of a release of so many flats, and its headline: a rent of 200, 9 a square metre, 60 a balcony; or
    odds of 1, a quarter for 1,000 more, twice with a balcony, if they hang on the middle of the rent's range."""

    def show(query, flats):
        plan, drawn = planned(query), np.random.default_rng(1)
        size, balcony = drawn.integers(10, 201, flats), drawn.integers(0, 2, flats)
        bins, noise = drawn.integers(0, 3, flats), drawn.integers(-50, 51, flats)
        rent = 1000 * bins if query is ODDS else 200 + 9 * size + 60 * balcony + noise
        odds = 0.25 ** (bins - 1) * 2.0**balcony
        let = (drawn.random(flats) < odds / (1 + odds)).astype(np.int64)
        columns = {"rent": rent, "size": size, "balcony": balcony, "let": let}
        result = plan.run(Rows(universe=plan.schema.universe, columns=columns), rng=StreamRandomness(b"flats"))
        pyarrow.parquet.write_table(files.answers_table(plan.workload, result), tmp_path / "answers.parquet")
        shown = shown_statistic(plan.workload, tmp_path, receipt={}, notes=NOTES, first="", second="", is_proved=False)
        receipt = {"answers": len(shown.answers), "bound": {"proof": result.bound.proof.value, "beta": "1/20"}}
        page = render_to_string("results/_statistic_answers.html", {"shown": shown})
        found = headline(plan.workload, files.reader(tmp_path), receipt, NOTES)
        return shown, page, found, accuracy_sentence(plan, result.bound)

    return show


CHANGES = {
    "change in rent for each 1 more of size, in euro per m²": 9,
    "difference in rent between balcony = yes and no, in euro": 60,
    "value of rent on the line where size = 0, balcony = no, in euro": 200,
}
RATIOS = {
    "odds of let = yes for each 100 more of rent": 0.25 ** (1 / 10),
    "odds of let = yes where balcony is yes rather than no": 2,
    "odds of let = yes themselves where rent = 1500, balcony = no": 1,
}
LOGARITHMS = {f"logarithm of the {each}": np.log(ratio) for each, ratio in RATIOS.items()}


@pytest.mark.parametrize(
    ("query", "flats", "truth", "counted", "begins"),
    [
        (LINE, 20_000, CHANGES, "3 coefficients", "The change in rent for each 1 more of size is about 9"),
        (ODDS, 40_000, RATIOS | LOGARITHMS, "3 odds ratios", "The odds of let = yes for each 100 more of rent are "),
    ],
    ids=["linear", "logistic"],
)
def test_each_number_is_said_in_words_with_its_interval_and_the_page_says_what_that_covers(
    shown_of, query, flats, truth, counted, begins
):
    shown, page, found, sentence = shown_of(query, flats)
    assert [each.label for each in shown.answers] == list(truth)
    for each, true in zip(shown.answers, truth.values(), strict=True):
        low, high = (float(end.replace("−", "-")) for end in (each.lower, each.upper))
        assert low < true < high
        assert all(number in page for number in (each.estimate, each.lower, each.upper))
    assert "covers the noise and the sampling" in " ".join(page.split())
    assert sentence.startswith(f"With probability 95%, every one of the {counted} of the whole population")
    assert found.startswith(begins)
    assert found.endswith("drawn from a population at random. It was tested on real tables, not proved.")
    if query is ODDS:
        assert "are about 0.8" in found
        assert " times as high, between 0.8" in found
        ratios, logarithms = page.split("<details>")
        assert "logarithm" not in ratios.lower()
        assert logarithms.lower().count("logarithm of the odds") == 3
    else:
        assert "; the true value lies between " in found


@pytest.mark.parametrize(
    ("query", "numbers", "name", "hidden"),
    [(LINE, 3, "coefficient", "predictors vary."), (ODDS, 6, "odds ratio", "outcome depends on the predictors.")],
    ids=["linear", "logistic"],
)
def test_where_noise_hides_it_no_number_is_shown(shown_of, query, numbers, name, hidden):
    shown, page, found, sentence = shown_of(query, 5)
    assert {each.chosen for each in shown.answers} == {"cannot be said"}
    assert page.count("cannot be said") == numbers
    assert "covers the noise" not in page
    assert sentence == f"Any {name} is possible: the noise hides how the {hidden}"
    assert found.startswith(f"No {name} can be said: the noise hides how the {hidden}")


@pytest.mark.parametrize(
    ("query", "few", "says"),
    [(LINE, 5, ()), (ODDS, 1, ("where balcony is yes rather than no", "a factor of 1.0"))],
    ids=["linear", "logistic"],
)
def test_before_the_release_an_example_is_given_and_nothing_is_promised(query, few, says):
    without, example, too_few = (
        compared([planned(query, **given)], None)[0]
        for given in ({}, {"expected_rows": 20_000}, {"expected_rows": few})
    )
    assert without.sentence.endswith("Type about how many, below epsilon, and an example is given here.")
    assert example.sentence.startswith("How accurate it is becomes known with the release. For example, if 20,000 rows")
    assert all(each in example.sentence for each in says)
    assert example.is_unproved
    said = f"Of {few} rows nothing could be said with so much noise. Spend more, or name fewer predictors."
    assert too_few.why_not == said
