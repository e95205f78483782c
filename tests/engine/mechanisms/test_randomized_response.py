"""Randomized response: the law of a report, what it costs, and intervals for the counts behind the reports."""

from collections import Counter
from fractions import Fraction
from itertools import pairwise, product
from math import exp, log, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf
from scipy.stats import binom

from releases.engine.accounting.events import DiscreteLaplaceEvent, RandomizedResponseEvent, RepeatedEvent
from releases.engine.errors import InvalidInput
from releases.engine.mechanisms.randomized_response import (
    Collected,
    debias,
    randomize_answers,
    truth_interval,
)
from releases.engine.mechanisms.survey_sampler import MAX_ANSWERS, MAX_EPSILON, MIN_EPSILON, NUMBERS, SurveyLaw
from releases.engine.noise.randomness import StreamRandomness, uniform_below
from tests.engine import telling
from tests.engine.goodness import FALSE_ALARM, Words, p_value

TOWN = {"name": "town", "type": "categorical", "categories": ["a", "b", "c"], "outside": "c"}
SMOKES = {"name": "smokes", "type": "categorical", "categories": ["yes", "no"], "outside": "no"}
AGE = {"name": "age", "type": "integer", "edges": [0, 50, 100]}


def planned(*, columns=(TOWN, SMOKES), survey="town", neighbours="replace", rows=1, **given):
    unit = telling.PERSON if rows > 1 else None
    return telling.planned("randomized-response", list(columns), {"survey": survey}, neighbours, unit=unit, **given)


def law_of_a_report(epsilon, categories):
    """The probabilities of reporting the true category and each other one."""
    growth = exp(float(epsilon))
    return growth / (growth + categories - 1), 1 / (growth + categories - 1)


@given(st.fractions(Fraction(1, 1000), 100), st.integers(2, 1000), st.integers(1, 300))
def test_the_chance_of_the_truth_is_enclosed_at_every_precision(epsilon, categories, precision):
    lo, hi = truth_interval(epsilon, categories, precision)
    with mp.workdps(200):
        growth = mp.exp(mpf(epsilon.numerator) / epsilon.denominator)
        exact = growth / (growth + categories - 1) * mpf(2) ** precision
        assert lo <= exact <= hi
    assert hi - lo <= 4


@pytest.mark.parametrize(("epsilon", "categories"), [(Fraction(1), 2), (Fraction(3), 5)])
def test_reports_have_their_law_and_another_epsilon_is_seen(epsilon, categories):
    answers = np.full(120_000, categories - 1)
    reports = randomize_answers(answers, epsilon=epsilon, categories=categories, rng=StreamRandomness(b"together"))
    counts = np.bincount(reports, minlength=categories)

    def law(at):
        told, false = law_of_a_report(at, categories)
        return np.array([false] * (categories - 1) + [told])

    assert p_value(counts, law(epsilon)) > FALSE_ALARM
    assert p_value(counts, law(epsilon * Fraction(11, 10))) < FALSE_ALARM
    assert p_value(counts, law(epsilon * Fraction(9, 10))) < FALSE_ALARM


def test_a_coin_that_one_word_does_not_decide_is_decided_by_the_next():
    nearly, _ = truth_interval(Fraction(1), 2, 128)
    undecided, rest = divmod(nearly, 2**64)
    # The first word draws the other category, of which there is one.
    for following, told in ((rest - 2**40, True), (rest + 2**40, False)):
        words = Words([0, undecided, following])
        (report,) = randomize_answers(np.array([1]), epsilon=Fraction(1), categories=2, rng=words)
        assert bool(report == 1) is told
        assert words.asked == [1, 1, 1]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("epsilon", value) for value in (Fraction(0), Fraction(101), 0.5)),
        *(("categories", value) for value in (1, True)),
    ],
)
def test_a_law_that_cannot_be_is_refused(field, value):
    given = {"epsilon": Fraction(1), "categories": 3} | {field: value}
    with pytest.raises(InvalidInput, match=field):
        randomize_answers(np.array([0]), **given, rng=StreamRandomness(b"x"))


def law_of_all_reports(rows, total, epsilon, categories):
    """The law of the report counts of a table: slots of sorted rows, made-up rows, or rows left out."""
    told, false = law_of_a_report(epsilon, categories)
    law = {(0,) * categories: 1.0}
    kept = sorted(rows)[:total]
    for slot in range(total):
        chances = (
            [told if c == kept[slot] else false for c in range(categories)]
            if slot < len(kept)
            else [1 / categories] * categories
        )
        longer = {}
        for counts, chance in law.items():
            for c in range(categories):
                key = (*counts[:c], counts[c] + 1, *counts[c + 1 :])
                longer[key] = longer.get(key, 0.0) + chance * chances[c]
        law = longer
    return law


@given(
    st.integers(2, 3),
    st.lists(st.integers(0, 2), max_size=4),
    st.integers(0, 2),
    st.integers(0, 2) | st.none(),
    st.integers(1, 5),
    st.sampled_from([Fraction(1, 2), Fraction(2)]),
)
@settings(max_examples=80)
def test_reports_of_neighbours_are_within_epsilon_for_every_number_of_reports(
    categories, shared, new, old, total, epsilon
):
    shared = [each % categories for each in shared]
    one = [*shared, new % categories]
    other = shared if old is None else [*shared, old % categories]
    laws = [law_of_all_reports(rows, total, epsilon, categories) for rows in (one, other)]
    for counts, chance in laws[0].items():
        assert abs(log(chance / laws[1][counts])) <= float(epsilon) + 1e-9


def test_reports_are_drawn_from_that_law():
    plan = planned(columns=[TOWN, AGE], neighbours="add_remove", epsilon=2)
    truth, total, draws = np.array([1, 0, 1]), 3, 20_000
    rng = StreamRandomness(b"reports")
    drawn = [tuple(plan.reports(truth, total=total, rng=rng).tolist()) for _ in range(draws)]
    law = law_of_all_reports([0, 2], total, plan.coins.epsilon, 3)
    keys = sorted(law)
    counts = np.array([drawn.count(key) for key in keys])
    assert counts.sum() == draws
    assert p_value(counts, np.array([law[key] for key in keys])) > FALSE_ALARM
    wrong = law_of_all_reports([0, 1, 2], total, plan.coins.epsilon, 3)
    assert p_value(counts, np.array([wrong[key] for key in keys])) < FALSE_ALARM


def test_where_the_number_of_rows_is_public_all_of_epsilon_goes_to_the_answers():
    plan = planned(epsilon=2)
    assert plan.schema.total_is_public
    assert plan.events == (RandomizedResponseEvent(epsilon=2, categories=3),)
    result = plan.run(telling.table(plan, [(0, 0), (1, 0), (2, 0)] * 10), rng=StreamRandomness(b"public"))
    assert result.total == sum(result.notes["reports"]) == result.estimates[0].sum() == 30


@pytest.mark.parametrize(
    ("columns", "neighbours", "rows"),
    [((TOWN, SMOKES), "add_remove", 1), ((TOWN, AGE), "replace", 1), ((TOWN, SMOKES), "replace", 2)],
)
def test_where_it_is_private_a_tenth_pays_for_it_and_reports_are_made_up(columns, neighbours, rows):
    plan = planned(columns=columns, neighbours=neighbours, rows=rows)
    assert not plan.schema.total_is_public
    count, answers = plan.events
    assert count == DiscreteLaplaceEvent(noise_multiplier=10)
    one = RandomizedResponseEvent(epsilon=Fraction(9, 10) / rows, categories=3)
    assert answers == (one if rows == 1 else RepeatedEvent(event=one, times=rows))
    assert plan.coins.count_scale == 10 * rows
    margin = plan.coins.margin
    # Pr[|noise| > margin] <= beta / 10, and one less does not do.
    r = exp(-1 / float(plan.coins.count_scale))
    tails = [2 * r ** (m + 1) / (1 + r) for m in (margin, margin - 1)]
    assert tails[0] <= 0.005 < tails[1]
    result = plan.run(telling.table(plan, [(0, 0)] * 40), rng=StreamRandomness(b"private"))
    assert sum(result.notes["reports"]) == result.notes["noisy number of rows"] + margin
    assert result.total == result.notes["noisy number of rows"]


@given(
    st.lists(st.integers(0, 50), min_size=2, max_size=5),
    st.integers(0, 20),
    st.sampled_from([Fraction(1, 4), Fraction(1), Fraction(20)]),
)
def test_debiased_reports_are_right_on_average_and_add_up_to_the_respondents(truth, made_up, epsilon):
    truth, categories = np.array(truth), len(truth)
    told, false = law_of_a_report(epsilon, categories)
    reports = truth * told + (truth.sum() - truth) * false + made_up / categories
    assert debias(reports, epsilon=epsilon, respondents=float(truth.sum())) == pytest.approx(truth, abs=1e-9)


def naive_interval(collected, reported, allowed):
    """Every count that some number of respondents makes likely enough, tried one by one."""
    told, false = law_of_a_report(collected.epsilon, collected.reports.size)
    total, kept = collected.most, []
    for count in range(total + 1):
        for respondents in range(max(count, collected.fewest), total + 1):
            law = np.ones(1)
            kinds = ((count, told), (respondents - count, false), (total - respondents, 1 / collected.reports.size))
            for number, chance in kinds:
                law = np.convolve(law, binom.pmf(np.arange(number + 1), number, chance))
            if law[: reported + 1].sum() > allowed and law[reported:].sum() > allowed:
                kept.append(count)
                break
    return min(kept, default=total), max(kept, default=0)


@given(
    st.lists(st.integers(0, 12), min_size=2, max_size=3),
    st.integers(0, 6),
    st.sampled_from([Fraction(1, 2), Fraction(1), Fraction(4)]),
    st.sampled_from([0.3, 0.05, 1e-4]),
)
@settings(max_examples=60)
def test_intervals_are_those_of_trying_every_count_and_every_number_of_respondents(reports, unsure, epsilon, beta):
    total = sum(reports)
    fewest = max(0, total - unsure)
    collected = Collected(
        reports=np.array(reports), epsilon=epsilon, fewest=fewest, most=total, estimate=(fewest + total) / 2
    )
    tests = 1 if len(reports) == 2 else len(reports)
    for (low, high), reported in zip(collected.intervals(beta=beta).tolist(), reports, strict=True):
        least, most = naive_interval(collected, reported, beta / (2 * tests))
        if least <= most:
            assert (low, high) == (least, most)


@pytest.mark.parametrize("epsilon", [Fraction(1, 2), Fraction(6)])
def test_intervals_of_large_surveys_are_as_narrow_as_the_law_allows_and_no_narrower(epsilon):
    told, false = law_of_a_report(epsilon, 4)
    n, truth = 2_000_000, np.array([1_500_000, 300_000, 150_000, 50_000])
    reports = np.rint(truth * told + (n - truth) * false).astype(np.int64)
    reports[0] += n - reports.sum()
    intervals = Collected.all_known(reports, epsilon=epsilon).intervals(beta=0.05)
    for count, (low, high) in zip(truth.tolist(), intervals.tolist(), strict=True):
        deviation = sqrt(count * told * (1 - told) + (n - count) * false * (1 - false)) / (told - false)
        normal = 2.4977 * deviation  # of two tails of 0.05 / 8
        assert count + normal * 0.99 <= high <= count + normal * 1.04 + 2
        assert count - normal * 1.04 - 2 <= low <= count - normal * 0.99


def test_a_survey_of_too_many_categories_is_refused_with_how_many_there_are():
    many = {"name": "name", "type": "categorical", "categories": [f"n{i}" for i in range(1001)], "outside": "n0"}
    plan = planned(columns=[many], survey="name")
    assert plan.infeasible == "It is for at most 1,000 categories, and name has 1,001."


EPSILONS = st.fractions(MIN_EPSILON, MAX_EPSILON, max_denominator=10**6)


def survey_law(epsilon=Fraction(1), answers=4):
    return SurveyLaw.of(epsilon=epsilon, answers=answers)


@given(EPSILONS, st.integers(2, MAX_ANSWERS))
def test_epsilon_is_proved_and_no_law_that_tells_the_truth_more_often_keeps_it(epsilon, answers):
    law = survey_law(epsilon, answers)
    assert law.truth + (answers - 1) * law.other == NUMBERS
    assert law.proves(epsilon=epsilon)
    with mp.workdps(60):
        growth = mp.exp(mpf(epsilon.numerator) / epsilon.denominator)
        assert mpf(law.truth) / law.other <= growth
        # One number less for each other answer.
        assert mpf(law.truth + answers - 1) / (law.other - 1) > growth


def test_a_law_that_tells_the_truth_too_often_is_not_proved():
    law = survey_law()
    bolder = SurveyLaw(answers=4, truth=law.truth + 3, other=law.other - 1)
    assert not bolder.proves(epsilon=Fraction(1))
    assert not law.proves(epsilon=Fraction(999_999, 10**6))


@pytest.mark.parametrize("answers", [2, 3, 20])
@pytest.mark.parametrize("epsilon", [MIN_EPSILON, Fraction(1), MAX_EPSILON])
def test_under_any_two_answers_a_report_s_chances_differ_by_less_than_e_to_the_epsilon(epsilon, answers):
    """The law of every report from the ranges themselves, as a respondent uses them."""
    law = survey_law(epsilon, answers)
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


@pytest.mark.parametrize("truth", [[2, 1], [1, 1, 1]])
def test_the_estimator_is_unbiased_to_the_last_digit(truth):
    """The mean of the estimates over every outcome of three respondents, in rationals."""
    law = survey_law(Fraction(1, 3), len(truth))
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


def test_intervals_and_what_is_foretold_cover_what_is_found():
    law, truth, beta = survey_law(Fraction(1), 3), [300, 150, 50], 0.05
    assert law.intervals([0, 0, 0], beta=beta) == [(0, 0)] * 3
    width = law.half_width(respondents=sum(truth), beta=beta)
    rng, missed, foretold, rounds = StreamRandomness(b"foretold"), 0, 0, 400
    for _ in range(rounds):
        reports = reports_of(truth, law, rng).tolist()
        intervals, estimates = law.intervals(reports, beta=beta), law.estimates(reports)
        missed += any(not least <= each <= most for each, (least, most) in zip(truth, intervals, strict=True))
        foretold += any(abs(each - count) > width for each, count in zip(estimates, truth, strict=True))
    for found in (missed, foretold):
        assert binom.sf(found - 1, rounds, beta) > FALSE_ALARM


@pytest.mark.parametrize(
    ("refused", "words"),
    [
        (lambda: survey_law(Fraction(11), 3), "epsilon: '11' must be from 0.01 to 10"),
        (lambda: survey_law(epsilon=True), "epsilon: 'True' must be an exact rational"),
        (lambda: survey_law(Fraction(1), 21), "answers: 21 must be 2 to 20 in number"),
        (lambda: survey_law(answers=True), "answers: True must be 2 to 20 in number"),
        (lambda: SurveyLaw(answers=2, truth=6, other=4), "must add up to 1,000,000,000"),
        (lambda: SurveyLaw(answers=2, truth=500_000_000, other=500_000_000), "must be above 500,000,000"),
        (lambda: survey_law().shift(NUMBERS), "drawn"),
        (lambda: survey_law().shift(-1), "drawn"),
        (lambda: survey_law().estimates([1, 2]), "reports"),
        (lambda: survey_law().estimates([1, 2, 3, -1]), "reports"),
    ],
)
def test_what_no_law_can_be_of_and_numbers_that_are_none_are_refused(refused, words):
    with pytest.raises(InvalidInput) as caught:
        refused()
    assert words in str(caught.value)
