"""Two answers of a table beside each other, and shares of the rows: what is claimed holds whenever the intervals do."""

import itertools
import math
import re
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from releases.presentation.results.added_up import added_up
from releases.presentation.results.rows import Answer
from releases.presentation.results.two_answers import two_answers
from releases.publication.shares import Whole

NUMBER = r"−?[\d,]+(?:\.\d+)?"
BETWEEN = re.compile(rf"between ({NUMBER}) and ({NUMBER})\.$")


def answer(label, estimate, lower, upper):
    return Answer(labels=(label,), estimate=estimate, lower=lower, upper=upper)


def beside(one, other, *, is_count=False, is_proved=True, first="0", second="1"):
    return two_answers([one, other], first=first, second=second, unit="", is_count=is_count, is_proved=is_proved)


def ends(sentence):
    return [float(each.replace(",", "").replace("−", "-")) for each in BETWEEN.search(sentence).groups()]


@st.composite
def interval_with_truth(draw, *, whole):
    number = st.integers(0, 10**6) if whole else st.integers(-(10**9), 10**9).map(lambda each: each / 1000)
    low, truth, high = sorted(draw(st.tuples(number, number, number)))
    return float(low), float(truth), float(high)


@pytest.mark.parametrize("whole", [True, False])
@given(data=st.data())
def test_the_true_difference_ratio_and_order_are_as_the_sentences_say(data, whole):
    (low, truth, high), (its_low, its_truth, its_high) = (data.draw(interval_with_truth(whole=whole)) for _ in "ab")
    verdict, difference, *times = beside(
        answer("a", low, low, high), answer("b", its_high, its_low, its_high), is_count=whole
    ).sentences
    least, most = ends(difference)
    assert least - 1e-9 <= truth - its_truth <= most + 1e-9
    if "larger than" in verdict:
        assert truth > its_truth
    elif "smaller than" in verdict:
        assert truth < its_truth
    assert bool(times) == (low >= 0 and its_low > 0)
    for sentence in times:
        least, most = ends(sentence)
        assert least - 1e-9 <= truth / its_truth <= most + 1e-9


def test_an_order_is_claimed_where_proved_intervals_are_apart_and_whole_numbers_have_whole_ends():
    low, high = answer("low", 10, 5, 15), answer("high", 20, 16, 24)
    assert "“high” is certainly larger than “low”" in beside(high, low).sentences[0]
    assert "“low” is certainly smaller than “high”" in beside(low, high).sentences[0]
    assert "do not show which" in beside(low, answer("high", 20, 15, 24)).sentences[0]
    # 32.7 - 31.7 is a little above 1 in floating point; the counts are at least 33 and at most 31.
    said = beside(answer("a", 40, 32.7, 50.2), answer("b", 30, 25.1, 31.7), is_count=True).sentences[1]
    assert ends(said) == [2, 24]
    said = " ".join(beside(answer("a", 20, 16, 24), answer("b", 10, 5, 15), is_proved=False).sentences)
    assert "seems to be" in said
    assert "certain" not in said
    assert "is expected to lie" in said


# A share of the rows, with an interval that holds whenever those of the counts do


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
    assert whole.text(answer("a", 30.0, 29.0, 31.0)) == "33.3% (31.8 to 34.9)"
    public = Whole.of([30.0, 60.0], [29.0, 58.0], [31.0, 62.0], rows=90)
    assert public.text(answer("a", 30.0, 29.0, 31.0)) == "33.3% (32.2 to 34.5)"
    assert Whole.of([0.0, 0.0], [0.0, 0.0], [5.0, 5.0], rows=None) is None


# Several counts of a table together


@given(covered(), st.sets(st.integers(0, 5), min_size=2))
def test_a_sum_lies_between_its_ends_and_some_table_reaches_each(drawn, ticked):
    truths, lowers, uppers, is_public = drawn
    chosen = [place for place in range(len(truths)) if place in ticked]
    whole = Whole.of(uppers, lowers, uppers, rows=sum(truths) if is_public else None)
    answers = [answer(str(place), *ends) for place, ends in enumerate(zip(uppers, lowers, uppers, strict=True))]
    shown = added_up(answers, {str(each) for each in ticked}, whole=whole, unit="rows", is_proved=True)
    if not 1 < len(chosen) < len(truths):
        assert not shown.sentence
        return
    least, most = ends(shown.sentence)
    reached = (
        {
            sum(table[place] for place in chosen)
            for table in itertools.product(*(range(low, high + 1) for low, high in zip(lowers, uppers, strict=True)))
            if not is_public or whole is None or sum(table) == sum(truths)
        }
        if math.prod(high - low + 1 for low, high in zip(lowers, uppers, strict=True)) <= 3000
        else set()
    )
    assert least <= sum(truths[place] for place in chosen) <= most
    assert not reached or (least, most) == (min(reached), max(reached))


def test_counts_add_up_to_whole_numbers_not_below_zero_and_unproved_ones_are_expected():
    answers = [answer("a", 0.0, -3.5, 2.5), answer("b", 4.0, 1.2, 6.9), answer("c", 9.0, 8.0, 10.0)]
    whole = Whole.of([0, 4, 9], [0, 1.2, 8], [2.5, 6.9, 10], rows=None)
    shown = added_up(answers, ("0", "1", "7", ""), whole=whole, unit="persons", is_proved=False)
    assert [each.is_ticked for each in shown.ticks] == [True, True, False]
    assert "these 2 answers come to about 4 persons" in shown.sentence
    assert shown.sentence.endswith("the true number is expected to lie between 2 and 8.")
