"""A survey's law in whole numbers: epsilon is proved, the draw is exact, estimates are unbiased, intervals cover."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp, mpf
from scipy.stats import binom

from releases.engine.errors import InvalidInput
from releases.engine.mechanisms.survey_sampler import MAX_ANSWERS, MAX_EPSILON, MIN_EPSILON, NUMBERS, SurveyLaw
from releases.engine.noise.randomness import StreamRandomness, uniform_below
from tests.engine.goodness import FALSE_ALARM

EPSILONS = st.fractions(MIN_EPSILON, MAX_EPSILON, max_denominator=10**6)


def law_of(epsilon=Fraction(1), answers=4):
    return SurveyLaw.of(epsilon=epsilon, answers=answers)


@given(EPSILONS, st.integers(2, MAX_ANSWERS))
def test_epsilon_is_proved_and_no_law_that_tells_the_truth_more_often_keeps_it(epsilon, answers):
    law = law_of(epsilon, answers)
    assert law.truth + (answers - 1) * law.other == NUMBERS
    assert law.proves(epsilon=epsilon)
    with mp.workdps(60):
        growth = mp.exp(mpf(epsilon.numerator) / epsilon.denominator)
        assert mpf(law.truth) / law.other <= growth
        # One number less for each other answer.
        assert mpf(law.truth + answers - 1) / (law.other - 1) > growth


def test_a_law_that_tells_the_truth_too_often_is_not_proved():
    law = law_of()
    bolder = SurveyLaw(answers=4, truth=law.truth + 3, other=law.other - 1)
    assert not bolder.proves(epsilon=Fraction(1))
    assert not law.proves(epsilon=Fraction(999_999, 10**6))


@pytest.mark.parametrize("answers", [2, 3, 20])
@pytest.mark.parametrize("epsilon", [MIN_EPSILON, Fraction(1), MAX_EPSILON])
def test_under_any_two_answers_a_report_s_chances_differ_by_less_than_e_to_the_epsilon(epsilon, answers):
    """The law of every report from the ranges themselves, as a respondent uses them."""
    law = law_of(epsilon, answers)
    ranges = law.ranges()
    assert ranges[0][0] == 0
    assert ranges[-1][1] == NUMBERS - 1
    assert all(last + 1 == first for (_, last), (first, _) in pairwise(ranges))
    chances = []
    for answer in range(answers):
        sizes = Counter()
        for shift, (first, last) in enumerate(ranges):
            assert law.shift(first) == law.shift(last) == shift
            sizes[(answer + shift) % answers] += last - first + 1
        chances.append(sizes)
    assert all(chances[answer][answer] == law.truth for answer in range(answers))
    with mp.workdps(60):
        growth = mp.exp(mpf(epsilon.numerator) / epsilon.denominator)
        for one, other, report in product(range(answers), repeat=3):
            assert mpf(chances[one][report]) / chances[other][report] <= growth


def reports_of(truth, law, rng):
    """The reports of respondents of whom `truth` says how many have each answer, each drawn by the ranges."""
    answers = np.repeat(np.arange(law.answers), truth)
    drawn = uniform_below(NUMBERS, answers.size, rng)
    shifts = np.where(drawn < law.truth, 0, 1 + (drawn - law.truth) // law.other)
    return np.bincount((answers + shifts) % law.answers, minlength=law.answers)


@pytest.mark.parametrize("truth", [[3, 0], [2, 1], [1, 1, 1]])
def test_the_estimator_is_unbiased_to_the_last_digit(truth):
    """The mean of the estimates over every outcome of three respondents, in rationals."""
    law = law_of(Fraction(1, 3), len(truth))
    sizes = [last - first + 1 for first, last in law.ranges()]
    answers = [answer for answer, number in enumerate(truth) for _ in range(number)]
    mean = [Fraction(0)] * len(truth)
    for shifts in product(range(len(truth)), repeat=len(answers)):
        chance, reports = Fraction(1), [0] * len(truth)
        for answer, shift in zip(answers, shifts, strict=True):
            chance *= Fraction(sizes[shift], NUMBERS)
            reports[(answer + shift) % len(truth)] += 1
        estimates = law.estimates(reports)
        assert sum(estimates) == len(answers)
        mean = [so_far + chance * each for so_far, each in zip(mean, estimates, strict=True)]
    assert mean == truth


@pytest.mark.parametrize(
    ("truth", "epsilon"), [([40, 160], Fraction(1)), ([5, 0, 95], Fraction(2)), ([100, 50, 30, 20], Fraction(1, 2))]
)
def test_intervals_hold_the_truth_all_at_once_and_narrower_ones_would_not(truth, epsilon):
    law, beta, rounds = law_of(epsilon, len(truth)), 0.05, 400
    rng, missed, missed_at_half = StreamRandomness(b"intervals"), 0, 0
    for _ in range(rounds):
        reports = reports_of(truth, law, rng).tolist()
        intervals, estimates = law.intervals(reports, beta=beta), law.estimates(reports)
        missed += any(not least <= each <= most for each, (least, most) in zip(truth, intervals, strict=True))
        missed_at_half += any(
            not (estimate + least) / 2 <= each <= (estimate + most) / 2
            for each, estimate, (least, most) in zip(truth, estimates, intervals, strict=True)
        )
    # Misses are at most Binomial(rounds, beta); intervals of half the width are rejected at the same level.
    assert binom.sf(missed - 1, rounds, beta) > FALSE_ALARM
    assert binom.sf(missed_at_half - 1, rounds, beta) < FALSE_ALARM


def test_what_is_foretold_covers_what_is_found():
    law, truth, beta = law_of(Fraction(1), 3), [300, 150, 50], 0.05
    width = law.half_width(respondents=sum(truth), beta=beta)
    rng, missed, rounds = StreamRandomness(b"foretold"), 0, 400
    for _ in range(rounds):
        estimates = law.estimates(reports_of(truth, law, rng).tolist())
        missed += any(abs(each - count) > width for each, count in zip(estimates, truth, strict=True))
        widest = max(most - least for least, most in law.intervals(reports_of(truth, law, rng).tolist(), beta=beta))
        assert widest <= 3 * width
    assert binom.sf(missed - 1, rounds, beta) > FALSE_ALARM


def test_nobody_answered_is_a_result_too():
    law = law_of(answers=3)
    assert law.estimates([0, 0, 0]) == [0, 0, 0]
    assert law.intervals([0, 0, 0], beta=0.05) == [(0, 0)] * 3


@pytest.mark.parametrize(
    ("epsilon", "answers", "words"),
    [
        (Fraction(1, 1000), 3, "epsilon: '0.001' must be from 0.01 to 10"),
        (Fraction(11), 3, "epsilon: '11' must be from 0.01 to 10"),
        (0.5, 3, "epsilon: '0.5' must be an exact rational"),
        (True, 3, "epsilon: 'True' must be an exact rational"),
        (Fraction(1), 1, "answers: 1 must be 2 to 20 in number"),
        (Fraction(1), 21, "answers: 21 must be 2 to 20 in number"),
        (Fraction(1), True, "answers: True must be 2 to 20 in number"),
    ],
)
def test_what_no_law_can_be_of_is_refused(epsilon, answers, words):
    with pytest.raises(InvalidInput) as caught:
        SurveyLaw.of(epsilon=epsilon, answers=answers)
    assert str(caught.value) == words


def test_numbers_that_are_no_law_are_refused():
    with pytest.raises(InvalidInput, match="must add up to 1,000,000,000"):
        SurveyLaw(answers=2, truth=6, other=4)
    with pytest.raises(InvalidInput, match="must be above 500,000,000"):
        SurveyLaw(answers=2, truth=500_000_000, other=500_000_000)
    law = law_of()
    for drawn in (-1, NUMBERS, True, 1.0):
        with pytest.raises(InvalidInput, match="drawn"):
            law.shift(drawn)
    for reports in ([1, 2], [1, 2, 3, -1]):
        with pytest.raises(InvalidInput, match="reports"):
            law.estimates(reports)
        with pytest.raises(InvalidInput, match="reports"):
            law.intervals(reports, beta=0.05)
