"""Edges as people write them: read as they are meant, or refused with what to type."""

from __future__ import annotations

from decimal import Decimal
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from releases.engine.domain.universe import Attribute, AttributeKind
from releases.engine.errors import InvalidInput
from releases.schema.bin_edges import edges_from_text, names_bins

INTEGER, NUMBER = AttributeKind.INTEGER, AttributeKind.NUMBER
TOO_MANY = "must go up from the first number to the second, in 1 to 1,000,000 bins"


#: Edges, and all the ways to write them.
WHOLE_NUMBERS = [
    ([0, 18, 65], ["0, 18, 65", "0 18 65", "0;18;65", "0|18|65", "0\n18\n65\n", "0, 18,\n65", "0,18, 65"]),
    ([0, 18, 65], ["[0, 18), [18, 65]"]),
    ([-5, 0, 5], ["-5, 0, 5", "−5, 0, 5", "-5 – 5 in 2 bins"]),
    ([-10, -5], ["-10 -5"]),
    ([18, 65], ["18-65", "18 - 65", "18–65", "18 — 65", "18 to 65", "18 TO 65"]),
    ([-10, 5], ["-10 –5"]),
    ([1, 10], ["1 to 10"]),
    ([-5, 5], ["-5 to 5", "-5-5"]),
    ([-5, -2], ["-5--2", "−5 – −2"]),
    ([0, 18, 65, 120], ["0-17, 18-64, 65-120", "0–17; 18–64; 65–120", "0-17,18-64,65-120"]),
    ([0, 18, 65, 120], ["0 to 17\n18 to 64\n65 to 120"]),
    ([-10, -5, 0, 9], ["-10 to -6, -5 to -1, 0 to 9"]),
    ([0, 1, 2, 5, 9], ["0, 1, 2-4, 5-9"]),
    ([0, 50, 100], ["0 to 100 by 50", "0-100 by 50"]),
]


@pytest.mark.parametrize(("edges", "written"), WHOLE_NUMBERS)
def test_whole_numbers_are_read_as_they_are_meant(edges, written):
    assert {text: edges_from_text(text, kind=INTEGER) for text in written} == dict.fromkeys(written, edges)


@pytest.mark.parametrize(
    ("text", "edges"),
    [
        ("18-65", ["18", "65"]),
        ("0-10, 10-20", ["0", "10", "20"]),
        ("-0.5 to 0.5; 0.5 to 2", ["-0.5", "0.5", "2"]),
        ("[0, 10.5), [10.5, 20]", ["0", "10.5", "20"]),
        ("0.5, 1.500", ["0.5", "1.5"]),
        ("1e-1, 1", ["0.1", "1"]),
    ],
)
def test_other_numbers_meet_at_their_edges(text, edges):
    assert edges_from_text(text, kind=NUMBER) == [Decimal(edge) for edge in edges]


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        ("", INTEGER, "must be at least two numbers; write edges as 18, 25, 65"),
        ("18", INTEGER, "'18' must be at least two numbers"),
        ("old", INTEGER, "'old' must be a number; write edges as 18, 25, 65, bins as"),
        ("18-65-80", INTEGER, "'18-65-80' must be a number; write edges as"),
        ("10 to 0 in 5 bins", NUMBER, TOO_MANY),
        ("0 to 10 in 0 bins", NUMBER, TOO_MANY),
        ("0 to 10 in 2.5 bins", NUMBER, TOO_MANY),
        ("0 to 1 in 2000000", NUMBER, TOO_MANY),
        ("65-18", INTEGER, "'65-18' must go up from the first number to the second"),
        ("5--2", INTEGER, "'5--2' must go up from the first number to the second"),
        ("0-17, 19-64", INTEGER, "'0-17, 19-64' must meet: behind a bin of whole numbers up to 17 comes one from 18"),
        ("0-18, 18-64", INTEGER, "'0-18, 18-64' must meet: behind a bin of whole numbers up to 18 comes one from 19"),
        ("0, 18-65", INTEGER, "must meet: behind a bin of whole numbers up to 0 comes one from 1"),
        ("0-17.5, 18-65", INTEGER, "'17.5' must be whole numbers in an integer column"),
        ("1-4, 5", INTEGER, "'5' must hold at least two whole numbers where it is the last bin"),
        ("0-17, 18-64", NUMBER, "must meet: behind a bin of numbers up to 17 comes one from 17, which holds 17 itself"),
        ("0, 5-10", NUMBER, "'0' must be a bin, as the others are"),
        ("0-64, 65+", INTEGER, "'65+' must have two ends, such as 65-120"),
        ("<18, 18-65", INTEGER, "'<18' must have two ends"),
        ("18-64, 65 and over", INTEGER, "'and over' must have two ends"),
        ("[0, 10], [10, 20]", NUMBER, "must be bins such as [0, 10), [10, 20] without gaps"),
        ("[0, 10), [11, 20]", NUMBER, "must be bins such as [0, 10), [10, 20] without gaps"),
        ("nan, 3", NUMBER, "'nan' must be a finite number of ordinary size"),
        ("0, 1e9999999", NUMBER, "'1e9999999' must be a finite number of ordinary size"),
        ("0 to 1 in 1e9999999 bins", NUMBER, "'1e9999999' must be a finite number of ordinary size"),
        ("1_000, 2_000", NUMBER, "'1_000' must be a number"),
        # Thousands, and commas for points.
        ("1,000, 2,000", INTEGER, "'000' must be a number without leading zeros or separators of thousands"),
        ("1 000, 2 000", INTEGER, "'000' must be a number without leading zeros or separators of thousands"),
        ("1,500, 2500", INTEGER, "must have one separator: a comma and a space"),
        ("10 500, 20500", INTEGER, "must have one separator: a comma and a space"),
        ("0,5; 7,9", NUMBER, "must have one separator: a comma and a space"),
        ("0,5 7,9", NUMBER, "must have one separator: a comma and a space"),
        ("0,5\n7,9", NUMBER, "must have one separator: a comma and a space"),
        ("1.000, 2.000", INTEGER, "'1.000' must be a whole number; a point does not separate thousands"),
        ("0 to 1.000 by 100", INTEGER, "'1.000' must be a whole number; a point does not separate thousands"),
        ("1.000.000, 2.000.000", NUMBER, "'1.000.000' must be a number"),
        ("0,5 to 10,5 by 1", NUMBER, "'0,5' must be a number"),
        ("1'000, 2'000", NUMBER, '"1\'000" must be a number'),
    ],
)
def test_what_could_be_meant_otherwise_is_refused_with_what_to_type(text, kind, said):
    with pytest.raises(InvalidInput) as caught:
        edges_from_text(text, kind=kind)
    assert caught.value.field == "edges"
    assert said in str(caught.value)


@st.composite
def columns(draw):
    kind = draw(st.sampled_from([INTEGER, NUMBER]))
    places = 0 if kind is INTEGER else draw(st.integers(0, 3))
    whole = draw(st.lists(st.integers(-(10**6), 10**6), min_size=2, max_size=8, unique=True))
    edges = tuple(Decimal(each).scaleb(-places) for each in sorted(whole))
    return Attribute(name="a", kind=kind, edges=edges)


@given(columns(), st.sampled_from([", ", ";", "; ", "\n", " | "]))
def test_the_labels_of_bins_are_read_back_as_their_edges(column, between):
    assert edges_from_text(between.join(column.labels), kind=column.kind) == list(column.edges)


@given(st.text(alphabet="0123456789-–+., ;|[]()to by\n", max_size=24), st.sampled_from([INTEGER, NUMBER]))
def test_whatever_is_typed_is_edges_or_a_refusal(text, kind):
    try:
        edges = edges_from_text(text, kind=kind)
    except InvalidInput:
        return
    assert len(edges) >= 2
    if names_bins(text):
        assert all(low < high for low, high in pairwise(edges))
