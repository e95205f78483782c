"""Two answers of a table beside each other, and shares of the rows: what is claimed holds whenever the intervals do."""

from __future__ import annotations

import re
from datetime import date, datetime
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from releases.engine.domain.dates import By, Dates
from releases.presentation.results.answers import Wish
from releases.presentation.results.result_page import result_page
from releases.presentation.results.rows import Answer
from releases.presentation.results.shares import Whole
from releases.presentation.results.two_answers import MOST_OFFERED, two_answers
from tests.web.pages import link

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


@pytest.mark.parametrize(("first", "second"), [("", ""), ("0", "0"), ("0", "2"), ("-1", "1"), ("x", "1"), ("٠", "1")])
def test_an_address_that_names_no_two_answers_says_nothing(first, second):
    found = beside(answer("a", 1, 0, 2), answer("b", 1, 0, 2), first=first, second=second)
    assert found.sentences == ()
    assert len(found.choices) == 2


@pytest.mark.parametrize(
    "answers",
    [
        [answer("alone", 1, 0, 2)],
        [answer(str(each), 1, 0, 2) for each in range(MOST_OFFERED + 1)],
        [Answer(labels=("a",), chosen="x"), Answer(labels=("b",), chosen="y")],
        [answer("a", 1, 0, float("inf")), answer("b", 1, 0, 2)],
    ],
    ids=["one", "too many", "chosen", "no end"],
)
def test_what_has_no_two_numbers_with_intervals_offers_nothing(answers):
    assert two_answers(answers, first="0", second="1", unit="", is_count=False, is_proved=True) is None


@pytest.mark.django_db
def test_a_reader_compares_two_answers_of_a_release_by_its_address(published, as_, alice):
    address = link("release_detail", published)
    plain = as_(alice).get(address).context["page"].table.two
    chosen = as_(alice).get(address, {"question": "0", "first": "1", "second": "0"}).context["page"].table.two
    assert plain.sentences == ()
    assert len(chosen.sentences) >= 2
    assert [each.label for each in chosen.choices if each.is_first] == [chosen.choices[1].label]


SECONDS = Dates(written="YYYY-MM-DD", first=date(2024, 1, 1), last=date(2024, 12, 31), by=By.MONTH, has_time=True)


def of_dates(first, second):
    answers = [
        Answer(labels=(name,), **dict(zip(("lower", "estimate", "upper"), map(SECONDS.number, ends), strict=True)))
        for name, ends in (("a", first), ("b", second))
    ]
    two = two_answers(answers, first="0", second="1", unit="", is_count=False, is_proved=True, dates=SECONDS)
    return two.sentences


def test_two_dates_are_compared_by_the_time_between_them_to_the_second():
    early = [datetime(2024, 2, 28, 23, 59, second) for second in (57, 58, 59)]
    late = [datetime(2024, 3, 1, 0, 0, second) for second in (1, 2, 3)]
    assert of_dates(late, early) == (
        "“a” is certainly later than “b”.",
        "“a” is about 1 day 4 seconds after “b”; the true time between them lies between 1 day 2 seconds and 1 day "
        "6 seconds.",
    )
    assert of_dates(early, late)[0] == "“a” is certainly earlier than “b”."
    assert "about 1 day 4 seconds before “b”" in of_dates(early, late)[1]
    assert "between 1 day 2 seconds and 1 day 6 seconds" in of_dates(early, late)[1]
    known = of_dates([late[0]] * 3, [early[0]] * 3)[1]
    assert known == "“a” is about 1 day 4 seconds after “b”; the true time between them is 1 day 4 seconds."
    assert of_dates(early, early)[0] == "The dates do not show which of “a” and “b” is later."
    assert "lies between −2 seconds and 2 seconds" in of_dates(early, early)[1]


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


@pytest.mark.django_db
def test_a_whole_table_has_shares_that_add_up_and_a_filtered_one_has_the_same(published):
    shown = result_page(published, wish=Wish(question="1")).table
    assert shown.has_shares
    shares = {row.labels: float(re.match(r"[\d.]+", row.share)[0]) for row in shown.rows}
    assert sum(shares.values()) == pytest.approx(100, abs=0.2)
    (one,) = result_page(published, wish=Wish(question="1", only="female")).table.rows
    assert float(re.match(r"[\d.]+", one.share)[0]) == shares[one.labels]
