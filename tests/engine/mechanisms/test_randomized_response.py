"""Randomized response: the law of a report, what it costs, and intervals for the counts behind the reports."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from math import ceil, exp, log, sqrt

import latex2mathml.converter
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf
from scipy.special import logsumexp
from scipy.stats import binom

from releases.engine.accounting import accountant
from releases.engine.accounting.events import DiscreteLaplaceEvent, RandomizedResponseEvent, RepeatedEvent
from releases.engine.bounds.accuracy import Proof
from releases.engine.domain.privacy import PureDP
from releases.engine.domain.universe import Schema
from releases.engine.errors import InvalidInput
from releases.engine.mechanisms import randomized_response
from releases.engine.mechanisms.base import mechanism
from releases.engine.mechanisms.randomized_response import (
    Collected,
    debias,
    randomize_answer,
    randomize_answers,
    truth_interval,
)
from releases.engine.noise.randomness import StreamRandomness
from releases.engine.tables.counts import Rows
from releases.engine.verification.recording import record
from releases.engine.workload.parsing import read_question
from tests.engine.goodness import FALSE_ALARM, Words, p_value

TOWN = {"name": "town", "type": "categorical", "categories": ["a", "b", "c"], "outside": "c"}
SMOKES = {"name": "smokes", "type": "categorical", "categories": ["yes", "no"], "outside": "no"}
AGE = {"name": "age", "type": "integer", "edges": [0, 50, 100]}


def planned(
    *, columns=(TOWN, SMOKES), survey="town", neighbours="replace", epsilon=1, rows=1, beta=Fraction(1, 20), **options
):
    unit = {"kind": "row"} if rows == 1 else {"kind": "person", "id": "who", "max_rows": rows}
    schema = Schema.from_json({"version": 1, "columns": list(columns), "neighbours": neighbours, "unit": unit})
    question = read_question({"version": 1, "queries": [{"survey": survey}]}, schema.universe)
    budget = PureDP(epsilon=Fraction(epsilon))
    return mechanism("randomized-response").plan(schema, question, budget=budget, beta=beta, options=options)


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


@pytest.mark.parametrize(("epsilon", "categories"), [(Fraction(1), 2), (Fraction(1, 2), 3), (Fraction(3), 5)])
def test_reports_have_their_law_one_by_one_and_all_together_and_another_epsilon_is_seen(epsilon, categories):
    draws, answer = 6_000, categories - 1
    rng = StreamRandomness(b"one by one")
    alone = [randomize_answer(answer, epsilon=epsilon, categories=categories, rng=rng) for _ in range(draws)]
    together = randomize_answers(
        np.full(20 * draws, answer), epsilon=epsilon, categories=categories, rng=StreamRandomness(b"together")
    )

    def law(at):
        told, false = law_of_a_report(at, categories)
        return np.array([false] * (categories - 1) + [told])

    for reports in (np.array(alone), together):
        counts = np.bincount(reports, minlength=categories)
        assert p_value(counts, law(epsilon)) > FALSE_ALARM
    counts = np.bincount(together, minlength=categories)
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


@pytest.mark.parametrize("category", [-1, 3, True, "a", 1.0])
def test_an_answer_out_of_range_is_refused_without_telling_it(category):
    with pytest.raises(InvalidInput, match="must be a whole number from 0 to 2") as caught:
        randomize_answer(category, epsilon=Fraction(1), categories=3, rng=StreamRandomness(b"x"))
    assert str(caught.value) == "category: 'the answer' must be a whole number from 0 to 2"


def test_an_epsilon_or_a_number_of_categories_that_cannot_be_is_refused():
    for epsilon in (Fraction(0), Fraction(101), 0.5, True):
        with pytest.raises(InvalidInput, match="epsilon"):
            randomize_answer(0, epsilon=epsilon, categories=3, rng=StreamRandomness(b"x"))
    for categories in (1, True, 2.0):
        with pytest.raises(InvalidInput, match="categories"):
            randomize_answer(0, epsilon=Fraction(1), categories=categories, rng=StreamRandomness(b"x"))


def test_the_same_draws_are_made_whatever_the_answer():
    flows = [
        record(lambda rng, a=a: randomize_answer(a, epsilon=Fraction(2), categories=4, rng=rng), seed=b"s").flow
        for a in range(4)
    ]
    assert all(one == other for one, other in pairwise(flows))


def divergence(p, q, order):
    return float(logsumexp(order * np.log(p) + (1 - order) * np.log(q)) / (order - 1))


@pytest.mark.parametrize("categories", [2, 3, 10])
@pytest.mark.parametrize("epsilon", [Fraction(1, 4), Fraction(1), Fraction(3)])
def test_the_price_covers_a_row_against_another_and_a_row_against_a_made_up_one(epsilon, categories):
    price = accountant.forms(RandomizedResponseEvent(epsilon=epsilon, categories=categories))
    assert price.epsilon == epsilon
    told, false = law_of_a_report(epsilon, categories)
    one = np.array([told] + [false] * (categories - 1))
    other = np.roll(one, 1)
    even = np.full(categories, 1 / categories)
    for p, q in ((one, other), (one, even), (even, one)):
        assert np.abs(np.log(p / q)).max() <= float(epsilon) + 1e-12
        for order in np.exp(np.linspace(-6, 6, 25)) + 1:
            assert divergence(p, q, order) <= float(price.rho) * order * (1 + 1e-9) + 1e-12


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
    rows = Rows(universe=plan.schema.universe, columns={"town": np.arange(30) % 3, "smokes": np.zeros(30, dtype=int)})
    result = plan.run(rows, rng=StreamRandomness(b"public"))
    assert result.total == sum(result.notes["reports"]) == result.estimates[0].sum() == 30
    assert result.notes["number of rows"] == 30


@pytest.mark.parametrize(
    ("columns", "neighbours", "rows"),
    [((TOWN, SMOKES), "add_remove", 1), ((TOWN, AGE), "replace", 1), ((TOWN, SMOKES), "replace", 3)],
)
def test_where_it_is_private_a_tenth_pays_for_it_and_reports_are_made_up(columns, neighbours, rows):
    plan = planned(columns=columns, neighbours=neighbours, rows=rows)
    assert not plan.schema.total_is_public
    count, answers = plan.events
    assert count == DiscreteLaplaceEvent(noise_multiplier=10)
    one = RandomizedResponseEvent(epsilon=Fraction(9, 10) / rows, categories=3)
    assert answers == (one if rows == 1 else RepeatedEvent(event=one, times=rows))
    assert plan.coins.count_scale == 10 * rows
    price = accountant.price(plan.events, delta=Fraction(0))
    assert price.pure_epsilon == 10**accountant.EPSILON_PLACES
    margin = plan.coins.margin
    # Pr[|noise| > margin] <= beta / 10, and one less does not do.
    r = exp(-1 / float(plan.coins.count_scale))
    tails = [2 * r ** (m + 1) / (1 + r) for m in (margin, margin - 1)]
    assert tails[0] <= 0.005 < tails[1]
    universe = plan.schema.universe
    table = Rows(universe=universe, columns={name: np.zeros(40, dtype=np.int64) for name in universe.names})
    result = plan.run(table, rng=StreamRandomness(b"private"))
    assert sum(result.notes["reports"]) == result.notes["noisy number of rows"] + margin
    assert result.total == result.notes["noisy number of rows"]


def test_the_draws_depend_on_the_number_of_reports_alone():
    plan = planned(columns=[TOWN, AGE], neighbours="add_remove")
    tables = [np.array(counts) for counts in ([0, 0, 0], [10, 0, 0], [3, 3, 3], [0, 90, 10])]
    recorded = [
        record(lambda rng, truth=truth: plan.reports(truth, total=60, rng=rng), seed=b"slots") for truth in tables
    ]
    assert all(each.result.sum() == 60 for each in recorded)
    assert all(each.flow == recorded[0].flow for each in recorded)
    # One row more changes one report at most.
    ten = recorded[1].result
    eleven = record(lambda rng: plan.reports(np.array([11, 0, 0]), total=60, rng=rng), seed=b"slots").result
    assert np.abs(ten - eleven).sum() <= 2


@given(
    st.lists(st.integers(0, 50), min_size=2, max_size=5),
    st.integers(0, 20),
    st.sampled_from([Fraction(1, 4), Fraction(1), Fraction(20)]),
)
def test_debiased_reports_are_right_on_average_and_add_up_to_the_respondents(truth, made_up, epsilon):
    truth, categories = np.array(truth), len(truth)
    told, false = law_of_a_report(epsilon, categories)
    reports = truth * told + (truth.sum() - truth) * false + made_up / categories
    estimates = debias(reports, epsilon=epsilon, respondents=float(truth.sum()))
    assert estimates == pytest.approx(truth, abs=1e-9)
    assert estimates.sum() == pytest.approx(truth.sum())
    if made_up == 0:
        assert estimates == pytest.approx((reports - truth.sum() * false) / (told - false), abs=1e-9)
        assert debias(reports, epsilon=epsilon) == pytest.approx(estimates)


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


def test_all_known_respondents_are_as_many_as_reports():
    collected = Collected.all_known(np.array([700, 300]), epsilon=Fraction(1))
    assert (collected.fewest, collected.most, collected.estimate) == (1000, 1000, 1000.0)
    (low, high), (other_low, other_high) = collected.intervals(beta=0.05).tolist()
    assert low <= collected.estimates()[0] <= high
    # Two categories are one question asked twice.
    assert (other_low, other_high) == (1000 - high, 1000 - low)


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


@given(st.integers(-5, 60), st.integers(-80, 80), st.integers(1, 500))
def test_the_last_place_where_something_holds_is_found_or_passed_by_a_little(true_last, guess, step):
    low, high = 0, 50
    found = randomized_response._last(lambda c: c <= true_last, guess=guess, step=float(step), low=low, high=high)
    assert max(low, min(true_last, high)) <= found <= max(low, min(true_last, high)) + max(0, step // 64 - 1)


@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
@pytest.mark.parametrize("survey", ["smokes", "town"])
def test_what_is_foretold_holds_for_tables_of_that_size(neighbours, survey):
    """150 runs at beta 0.2, and Bernstein's bound is wider than it need be."""
    plan = planned(neighbours=neighbours, survey=survey, beta=Fraction(1, 5), expected_rows=500)
    assert plan.expectation.proof is Proof.ASSUMED
    universe = plan.schema.universe
    rows = Rows(universe=universe, columns={name: np.arange(500) % 7 % 2 for name in universe.names})
    truth = np.bincount(rows.columns[survey], minlength=universe[survey].size)
    rng = StreamRandomness(b"foretold")
    errors = [np.abs(plan.run(rows, rng=rng).estimates[0] - truth).max() for _ in range(150)]
    assert sum(error > plan.expectation.alpha for error in errors) <= 30
    assert plan.expectation.alpha <= 3 * np.quantile(errors, 0.8)


def test_formulas_can_be_typeset_and_counts_are_bounded_once_they_are_released():
    plan = planned(columns=[TOWN, SMOKES], survey="smokes", expected_rows=1000)
    assert plan.bound is None
    chances = [
        plan.parameters[f"chance {each}"] for each in ("that a row tells its own category", "of each other category")
    ]
    assert chances == ["0.731059", "0.268941"]
    rows = Rows(universe=plan.schema.universe, columns={name: np.zeros(9, dtype=int) for name in ("town", "smokes")})
    result = plan.run(rows, rng=StreamRandomness(b"said"))
    assert result.bound.proof is Proof.AFTER
    for shown in (result.bound, plan.expectation):
        assert f"{ceil(shown.alpha)} rows" in shown.says
        assert latex2mathml.converter.convert(shown.formula, display="block").startswith("<math")


def test_a_survey_of_too_many_categories_is_refused_with_how_many_there_are():
    many = {"name": "name", "type": "categorical", "categories": [f"n{i}" for i in range(1001)], "outside": "n0"}
    plan = planned(columns=[many], survey="name")
    assert plan.infeasible == "It is for at most 1,000 categories, and name has 1,001."
