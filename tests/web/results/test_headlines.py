"""The sentence at the head of a result claims nothing that its intervals do not prove."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from releases.engine.domain.schema import Schema
from releases.engine.workload.parsing import read_question
from releases.questions.base import kind_of
from releases.questions.headline import ReleasedAnswer

COLUMNS = [
    {"name": "region", "type": "categorical", "categories": ["north", "south", "west"]},
    {"name": "age", "type": "integer", "edges": [0, 20, 40, 60, 81], "outside": "clamp"},
]
SCHEMA = Schema.from_json({"version": 1, "columns": COLUMNS, "neighbours": "add_remove", "unit": {"kind": "row"}})
LABELS = ["north", "south", "west"]


def said(question, answers, *, unit="", part=None):
    asked = read_question({"version": 1, "queries": [question]}, SCHEMA.universe)
    kind = kind_of(asked)
    return kind.headline(asked, kind.main_part(asked) if part is None else part, answers, unit=unit)


@st.composite
def covered(draw, labels):
    """True values, and released ones whose intervals hold them."""
    truths = [draw(st.integers(0, 60)) for _ in labels]
    answers = []
    for label, truth in zip(labels, truths, strict=True):
        lower, upper = truth - draw(st.integers(0, 12)), truth + draw(st.integers(0, 12))
        answers.append(ReleasedAnswer(label=label, estimate=draw(st.integers(lower, upper)), lower=lower, upper=upper))
    return truths, answers


@given(covered(LABELS))
def test_what_is_called_the_most_frequent_is_that_in_truth(drawn):
    truths, answers = drawn
    sentence = said({"marginal": ["region"]}, answers)
    if found := re.match(r"The most frequent value of region is “(\w+)”", sentence):
        assert truths[LABELS.index(found[1])] == max(truths)
    else:
        assert "may be" in sentence or sentence == "No count is certainly above 0"
    if sentence.endswith("above 0"):
        largest = max(answers, key=lambda each: each.estimate)
        assert largest.lower <= 0


@given(covered(LABELS))
def test_a_group_that_is_called_higher_is_higher_in_truth(drawn):
    truths, answers = drawn
    sentence = said({"mean": {"columns": ["age"], "by": ["region"]}}, answers)
    if found := re.search(r"higher for “(\w+)”.*than for “(\w+)”", sentence):
        assert truths[LABELS.index(found[1])] > truths[LABELS.index(found[2])]
    else:
        ends = re.search(r"between (\S+) and (\S+)", sentence.replace("−", "-"))
        low, high = map(int, ends.groups())
        # Some value within lies in every interval.
        assert any(all(a.lower <= value <= a.upper for a in answers) for value in range(low, high + 1))


@given(covered(SCHEMA.universe["age"].labels))
def test_the_bins_that_are_said_to_hold_the_median_hold_it(drawn):
    """The true running totals rise, so they are made of counts here."""
    counts, noise = drawn
    totals = [sum(counts[: place + 1]) for place in range(len(counts))]
    answers = [
        ReleasedAnswer(label="", estimate=total, lower=total - (count - each.lower), upper=total + (each.upper - count))
        for total, each, count in zip(totals, noise, counts, strict=True)
    ]
    sentence = said({"prefix": "age"}, answers)
    ordered = [place for place, count in enumerate(counts) for _ in range(count)]
    if not ordered or "hides" in sentence:
        return
    labels = [each.label for each in noise]
    bins = [labels.index(each) for each in re.findall(r"“([^”]*)”", sentence)]
    assert bins[0] <= ordered[(len(ordered) - 1) // 2] <= bins[-1]


@pytest.mark.parametrize(
    ("question", "answers", "sentence"),
    [
        (
            {"median": "age"},
            [ReleasedAnswer(label="age", estimate=53, lower=51, upper=55)],
            "Half of the rows have age 53 years or less; the true median lies between 51 and 55 years",
        ),
        (
            {"sum": ["age"]},
            [ReleasedAnswer(label="age", estimate=1234567.0, lower=1230000.2, upper=1239000.1)],
            "The sum of age is about 1,234,567 years; the true value lies between 1,230,000 and 1,239,001 years",
        ),
        (
            {"range": {"column": "age", "inside": "0.98"}},
            [ReleasedAnswer(label="lowest", chosen="3"), ReleasedAnswer(label="highest", chosen="78")],
            "About 98% of the rows have age from 3 to 78 years",
        ),
    ],
)
def test_a_headline_is_in_plain_words_and_in_the_column_s_unit(question, answers, sentence):
    assert said(question, answers, unit="years") == sentence
