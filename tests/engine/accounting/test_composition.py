"""Composition theorems: the known figures, exactness, ranges of validity, and which may decide for a ledger."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp

from releases.engine.accounting.composition import Question, optimal_epsilon
from releases.engine.errors import InvalidInput, Unpriceable
from releases.engine.verification.composition_theorems import (
    COMPOSITION_RULES,
    Step,
    advanced,
    advanced_lecture,
    advanced_tanh,
    basic,
    concentrated,
    optimal,
)

MILLIONTH = Fraction(1, 10**6)
THOUSAND = [Step(epsilon=Fraction(1, 10), times=1000)]


def exact_delta(*, epsilon, times, at):
    """The hockey-stick divergence of `times` randomized responses, summed outcome by outcome in mpmath."""
    p = mp.exp(epsilon) / (1 + mp.exp(epsilon))
    total = mp.mpf(0)
    for l in range(times + 1):  # noqa: E741
        loss = (times - 2 * l) * epsilon
        if loss > at:
            total += mp.binomial(times, l) * p ** (times - l) * (1 - p) ** l * (1 - mp.exp(at - loss))
    return total


@pytest.mark.parametrize(
    ("rule", "epsilon"),
    [
        (basic, 100),
        (advanced_lecture, 36.62),
        (advanced, 27.14),
        (advanced_tanh, 21.618),
        (concentrated, 20.5411),
        (optimal, 19.344671448),
    ],
)
def test_a_thousand_steps_of_a_tenth_give_the_known_figures(rule, epsilon):
    found = rule(THOUSAND, slack=MILLIONTH)
    assert float(found.epsilon) == pytest.approx(epsilon, rel=3e-4 if epsilon != 19.344671448 else 1e-10)
    assert found.delta == (0 if rule is basic else MILLIONTH)


def test_only_proved_filters_are_labelled_as_filters():
    filters = {name for name, rule in COMPOSITION_RULES.items() if rule.question is Question.FILTER}
    assert filters == {"basic", "concentrated"}
    assert all(rule.source for rule in COMPOSITION_RULES.values())
    for rule in COMPOSITION_RULES.values():
        labelled = rule.compute(THOUSAND, slack=MILLIONTH)
        assert (labelled.question, labelled.source) == (rule.question, rule.source)


@pytest.mark.parametrize("times", [1, 2, 3, 10, 101, 400])
@pytest.mark.parametrize("epsilon", [Fraction(1, 100), Fraction(1, 2), Fraction(2)])
@pytest.mark.parametrize("slack", [Fraction(1, 10), MILLIONTH, Fraction(1, 10**14)])
def test_the_optimal_epsilon_is_exact_against_a_sum_over_all_outcomes(times, epsilon, slack):
    found = optimal_epsilon(epsilon=epsilon, times=times, slack=slack)
    with mp.workdps(60):
        e = mp.mpf(epsilon.numerator) / epsilon.denominator
        s = mp.mpf(slack.numerator) / slack.denominator
        at = mp.mpf(found.numerator) / found.denominator
        assert exact_delta(epsilon=e, times=times, at=at) <= s
        if found > 0:
            assert exact_delta(epsilon=e, times=times, at=at - mp.mpf(10) ** -20) > s
    assert found <= times * epsilon


def test_a_delta_in_every_step_is_added_to_what_is_promised():
    steps = [Step(epsilon=Fraction(1, 10), delta=Fraction(1, 10**9), times=100)]
    for rule in (advanced, advanced_lecture, advanced_tanh, concentrated):
        assert rule(steps, slack=MILLIONTH).delta == MILLIONTH + Fraction(1, 10**7)
    # 1 - (1 - delta)**k (1 - slack), which is a little less.
    expected = 1 - (1 - 1e-9) ** 100 * (1 - 1e-6)
    found = optimal(steps, slack=MILLIONTH)
    assert float(found.delta) == pytest.approx(expected, rel=1e-9)
    assert found.delta < MILLIONTH + Fraction(1, 10**7)
    assert basic(steps).delta == Fraction(1, 10**7)
    assert (
        optimal(steps, slack=MILLIONTH).epsilon
        == optimal([Step(epsilon=Fraction(1, 10), times=100)], slack=MILLIONTH).epsilon
    )


def test_the_lecture_form_is_refused_where_its_derivation_ends():
    # e^epsilon - 1 <= 2 epsilon up to 1.25643.
    assert advanced_lecture([Step(epsilon=Fraction("1.256"))], slack=MILLIONTH).epsilon > 0
    with pytest.raises(Unpriceable, match=r"up to epsilon 1\.256"):
        advanced_lecture([Step(epsilon=Fraction("1.257"))], slack=MILLIONTH)


def test_a_theorem_about_equal_steps_refuses_unequal_ones():
    steps = [Step(epsilon=Fraction(1, 10)), Step(epsilon=Fraction(1, 5))]
    for rule in (advanced, advanced_lecture, advanced_tanh, optimal):
        with pytest.raises(Unpriceable, match="equal steps"):
            rule(steps, slack=MILLIONTH)
    for rule in (basic, concentrated):
        assert rule(steps, slack=MILLIONTH).epsilon > 0


@given(
    steps=st.lists(
        st.builds(
            Step,
            epsilon=st.fractions(Fraction(1, 1000), 2, max_denominator=1000),
            delta=st.sampled_from([Fraction(0), Fraction(1, 10**8)]),
            times=st.integers(1, 30),
        ),
        min_size=1,
        max_size=5,
    ),
    shuffle=st.randoms(),
)
@settings(max_examples=40)
def test_order_does_not_matter_and_a_further_step_never_costs_less(steps, shuffle):
    shuffled = list(steps)
    shuffle.shuffle(shuffled)
    for rule in (basic, concentrated):
        whole = rule(steps, slack=MILLIONTH)
        assert rule(shuffled, slack=MILLIONTH) == whole
        if len(steps) > 1:
            fewer = rule(steps[:-1], slack=MILLIONTH)
            assert fewer.epsilon <= whole.epsilon
            assert fewer.delta <= whole.delta


@given(
    epsilon=st.fractions(Fraction(1, 100), 2, max_denominator=100), times=st.integers(1, 60), digits=st.integers(1, 9)
)
@settings(max_examples=40)
def test_no_theorem_promises_less_than_randomized_response_spends(epsilon, times, digits):
    slack = Fraction(1, 10**digits)
    steps = [Step(epsilon=epsilon, times=times)]
    least = optimal(steps, slack=slack).epsilon
    for rule in COMPOSITION_RULES.values():
        try:
            assert rule.compute(steps, slack=slack).epsilon >= least
        except Unpriceable:
            assert rule.name == "advanced_lecture"


def test_a_figure_says_itself_in_words():
    assert basic([Step(epsilon=Fraction(1, 2))]).in_words() == "epsilon 0.5"
    assert concentrated(THOUSAND, slack=MILLIONTH).in_words() == "epsilon 20.54111 with delta 1e-06"


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("epsilon", [Fraction(0), Fraction(-1), 0.5, True]),
        ("delta", [Fraction(1), Fraction(-1, 2)]),
        ("times", [0, 1.5]),
    ],
)
def test_a_step_out_of_range_is_refused(field, values):
    for value in values:
        with pytest.raises(InvalidInput):
            Step(**{"epsilon": Fraction(1), field: value})


def test_no_steps_or_no_slack_or_what_promises_nothing_is_refused():
    for name, rule in COMPOSITION_RULES.items():
        with pytest.raises(InvalidInput, match="at least one step"):
            rule.compute([], slack=MILLIONTH)
        # Equal steps may be listed one by one.
        together = rule.compute([Step(epsilon=Fraction(1, 10), times=50)], slack=MILLIONTH)
        assert rule.compute([Step(epsilon=Fraction(1, 10))] * 50, slack=MILLIONTH) == together, name
    for slack in (Fraction(0), Fraction(1), 1e-6):
        with pytest.raises(InvalidInput, match="exact rational above 0 and below 1"):
            concentrated(THOUSAND, slack=slack)
    with pytest.raises(Unpriceable, match="promises nothing"):
        basic([Step(epsilon=Fraction(1), delta=Fraction(1, 2), times=2)])
    with pytest.raises(Unpriceable, match="at most 50000 steps"):
        optimal_epsilon(epsilon=Fraction(1, 10), times=50_001, slack=MILLIONTH)
