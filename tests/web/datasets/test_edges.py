"""Edges as people write them: read as they are meant, or refused with what to type."""

from decimal import Decimal
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from releases.engine.domain.attribute import Attribute
from releases.engine.domain.columns import AttributeKind
from releases.engine.errors import InvalidInput
from releases.schema.bin_edges import bins_from_text, bins_in_text, edges_from_text, names_bins

INTEGER, NUMBER = AttributeKind.INTEGER, AttributeKind.NUMBER
TOO_MANY = "must go up from the first number to the second, in 1 to 1,000,000 bins"


@pytest.mark.parametrize(
    ("kind", "edges", "written"),
    [
        (INTEGER, [0, 18, 65], ["0, 18, 65", "0 18 65", "0;18;65", "0|18|65", "0\n18\n65\n", "[0, 18), [18, 65]"]),
        (INTEGER, [-5, 0, 5], ["-5, 0, 5", "−5, 0, 5", "-5 – 5 in 2 bins"]),
        (INTEGER, [18, 65], ["18-65", "18 — 65", "18 TO 65"]),
        (INTEGER, [0, 18, 65, 120], ["0-17, 18-64, 65-120", "0–17; 18–64; 65–120", "0-17,18-64,65-120"]),
        (INTEGER, [0, 1, 2, 5, 9], ["0, 1, 2-4, 5-9"]),
        (INTEGER, [0, 50, 100], ["0 to 100 by 50", "0-100 by 50"]),
        (
            INTEGER,
            [0, 3000, 6000],
            ["0 to 6 000 by 3 000", "0\u00a0to 6\u00a0000 by 3\u202f000", "0 – 6 000 in 2 bins"],
        ),
        (NUMBER, [-1000, Decimal("999.5"), 2999], ["-1 000 to 2 999 by 1 999.5", "-1000 to 2 999 by 1999.5"]),
        (INTEGER, [0, 1000000, 2000000], ["0 to 2 000 000 by 1000000", "0 to 2 000 000 by 1 000 000"]),
        (NUMBER, [0, 10, 20], ["0-10, 10-20"]),
        (NUMBER, [Decimal("-0.5"), Decimal("0.5"), 2], ["-0.5 to 0.5; 0.5 to 2", "[-5e-1, 0.5), [0.5, 2.00]"]),
    ],
)
def test_edges_are_read_as_they_are_meant(kind, edges, written):
    assert {text: edges_from_text(text, kind=kind) for text in written} == dict.fromkeys(written, edges)


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        ("", INTEGER, "must be at least two numbers; write edges as 18, 25, 65"),
        ("10 to 0 in 5 bins", NUMBER, TOO_MANY),
        ("65-18", INTEGER, "'65-18' must go up from the first number to the second"),
        ("0-17, 19-64", INTEGER, "'0-17, 19-64' must meet: behind a bin of whole numbers up to 17 comes one from 18"),
        ("0-17.5, 18-65", INTEGER, "'17.5' must be whole numbers in an integer column"),
        ("1-4, 5", INTEGER, "'5' must hold at least two whole numbers where it is the last bin"),
        ("0-17, 18-64", NUMBER, "must meet: behind a bin of numbers up to 17 comes one from 17, which holds 17 itself"),
        ("0, 5-10", NUMBER, "'0' must be a bin, as the others are"),
        ("0-64, 65+", INTEGER, "'65+' must have two ends, such as 65-120"),
        ("0-64, 65+ (60)", INTEGER, "'65+ (60)' must have a typical end above the other, such as 65+ (95)"),
        ("<18 (18), 18-64", INTEGER, "'<18 (18)' must have a typical end below the other, such as <18 (0)"),
        ("65+ (95), 0-64", INTEGER, "'65+ (95)' must have two ends, such as 65-120, or where most of its values end"),
        ("[0, 10), [11, 20]", NUMBER, "must be bins such as [0, 10), [10, 20] without gaps"),
        ("0, 1e9999999", NUMBER, "'1e9999999' must be a finite number of ordinary size"),
        ("1,000, 2,000", INTEGER, "'1,000, 2,000' must be numbers without leading zeros or separators of thousands"),
        ("0, 6 000", INTEGER, "'0, 6 000' must be numbers without leading zeros or separators of thousands, such as"),
        ("0 to 60 00 by 5", INTEGER, "'0 to 60 00 by 5' must be numbers without leading zeros or separators of"),
        ("0 to 6 0000 by 5", INTEGER, "'0 to 6 0000 by 5' must be numbers without leading zeros or separators of"),
        ("1,500, 2500", INTEGER, "must have one separator: a comma and a space"),
        ("0,5 7,9", NUMBER, "must have one separator: a comma and a space"),
        ("1.000, 2.000", INTEGER, "'1.000' must be a whole number; a point does not separate thousands"),
        ("0 to 1 in 3 bins", NUMBER, "cannot be cut into so many bins of exactly equal width"),
    ],
)
def test_what_could_be_meant_otherwise_is_refused_with_what_to_type(text, kind, said):
    with pytest.raises(InvalidInput) as caught:
        edges_from_text(text, kind=kind)
    assert caught.value.field == "edges"
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "edges", "ends", "labels", "written"),
    [
        (
            INTEGER,
            [0, 18, 65, 95],
            ["first", "last"],
            ("<18", "18 to 64", "65+"),
            ["<18 (0), 18-64, 65+ (95)", "under 18 (from 0); 18 to 64; 65 + (to 95)", "< 18 (0)\n18–64\n65+(95)"],
        ),
        (INTEGER, [0, 1, 2, 9], ["last"], ("0", "1", "2+"), ["0, 1, 2+ (9)"]),
        (INTEGER, [-5, 0, 5], ["first"], ("<0", "0 to 5"), ["<0 (-5), 0-5"]),
        (INTEGER, [80, 95], ["last"], ("80+",), ["80+ (95)"]),
        (
            NUMBER,
            [12, Decimal("18.5"), 25, 45],
            ["first", "last"],
            ("<18.5", "[18.5, 25)", "25+"),
            ["<18.5 (12), 18.5-25, 25+ (45)"],
        ),
    ],
)
def test_open_bins_are_read_with_their_typical_ends_and_written_so_that_they_read_back(
    kind, edges, ends, labels, written
):
    for text in written:
        read = bins_from_text(text, kind=kind)
        assert read == {"edges": edges, "open": ends}, text
        assert names_bins(text)
    attribute = Attribute.from_json({"name": "x", "type": kind.value, **read})
    assert attribute.labels == labels
    assert Attribute.from_json(attribute.to_json()) == attribute
    assert bins_from_text(bins_in_text(attribute), kind=kind) == read
    assert bins_from_text("0, 5, 9", kind=kind) == {"edges": [0, 5, 9]}


@given(st.text(alphabet="0123456789<-–+., ;|[]()to by\n", max_size=24), st.sampled_from([INTEGER, NUMBER]))
def test_whatever_is_typed_is_edges_or_a_refusal(text, kind):
    try:
        edges = edges_from_text(text, kind=kind)
    except InvalidInput:
        return
    assert len(edges) >= 2
    if names_bins(text):
        assert all(low < high for low, high in pairwise(edges))
