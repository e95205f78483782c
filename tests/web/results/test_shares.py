"""A share of the rows, with an interval that holds whenever those of the counts do."""

from __future__ import annotations

import re
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from releases.presentation.results.answers import Wish
from releases.presentation.results.result_page import result_page
from releases.presentation.results.rows import Answer
from releases.presentation.results.shares import Whole


@st.composite
def covered(draw):
    truths = draw(st.lists(st.integers(0, 40), min_size=2, max_size=6))
    lowers = [draw(st.integers(0, truth)) for truth in truths]
    uppers = [truth + draw(st.integers(0, 9)) for truth in truths]
    return truths, lowers, uppers, draw(st.booleans())


@given(covered())
def test_the_true_share_lies_in_its_interval_and_both_ends_are_reached_by_some_table(drawn):
    truths, lowers, uppers, is_public = drawn
    total = sum(truths)
    whole = Whole.of(uppers, lowers, uppers, rows=total if is_public else None)
    if not total or whole is None:
        return
    for place, truth in enumerate(truths):
        least, most = whole.interval(lowers[place], uppers[place])
        assert least - 1e-12 <= Fraction(truth, total) <= most + 1e-12
        if not is_public and lowers[place] > 0:
            others = sum(uppers) - uppers[place]
            assert least == pytest.approx(lowers[place] / (lowers[place] + others))


def test_a_share_is_written_with_its_interval_rounded_outwards():
    whole = Whole.of([30.0, 60.0], [29.0, 58.0], [31.0, 62.0], rows=None)
    assert whole.text(Answer(labels=("a",), estimate=30.0, lower=29.0, upper=31.0)) == "33.3% (31.8 to 34.9)"
    public = Whole.of([30.0, 60.0], [29.0, 58.0], [31.0, 62.0], rows=90)
    assert public.text(Answer(labels=("a",), estimate=30.0, lower=29.0, upper=31.0)) == "33.3% (32.2 to 34.5)"
    assert Whole.of([0.0, 0.0], [0.0, 0.0], [5.0, 5.0], rows=None) is None


@pytest.mark.django_db
def test_a_whole_table_has_shares_that_add_up_and_a_filtered_one_has_the_same(published):
    shown = result_page(published, wish=Wish(question="1")).table
    assert shown.has_shares
    shares = {row.labels: float(re.match(r"[\d.]+", row.share)[0]) for row in shown.rows}
    assert sum(shares.values()) == pytest.approx(100, abs=0.2)
    (one,) = result_page(published, wish=Wish(question="1", only="female")).table.rows
    assert float(re.match(r"[\d.]+", one.share)[0]) == shares[one.labels]
