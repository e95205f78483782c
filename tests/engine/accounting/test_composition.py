"""Composition theorems: exactness, ranges of validity, and that none promises less than is spent."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp

from releases.engine.accounting.composition import optimal_epsilon
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


UNEQUAL = [Step(epsilon=Fraction(1, 10)), Step(epsilon=Fraction(1, 5))]


@pytest.mark.parametrize(
    ("rule", "steps", "slack", "error", "why"),
    [
        # e^epsilon - 1 <= 2 epsilon up to 1.25643.
        (advanced_lecture, [Step(epsilon=Fraction("1.257"))], MILLIONTH, Unpriceable, r"up to epsilon 1\.256"),
        *((rule, UNEQUAL, MILLIONTH, Unpriceable, "equal steps") for rule in (advanced, advanced_tanh, optimal)),
        *((rule.compute, [], MILLIONTH, InvalidInput, "at least one step") for rule in COMPOSITION_RULES.values()),
        *((concentrated, THOUSAND, s, InvalidInput, "above 0 and below 1") for s in (Fraction(0), Fraction(1), 1e-6)),
        (basic, [Step(epsilon=1, delta=Fraction(1, 2), times=2)], MILLIONTH, Unpriceable, "promises nothing"),
        (optimal, [Step(epsilon=1, times=50_001)], MILLIONTH, Unpriceable, "at most 50000 steps"),
    ],
)
def test_what_a_theorem_is_not_about_is_refused(rule, steps, slack, error, why):
    with pytest.raises(error, match=why):
        rule(steps, slack=slack)


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
