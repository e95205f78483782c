"""Calibration: noise for a cost, cost for a noise, and the least value that will do."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from releases.engine.accounting.calibration import (
    analytic_gaussian_epsilon,
    analytic_gaussian_sigma,
    classical_gaussian_sigma,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_variance,
    gaussian_variance_for_rho,
    laplace_epsilon,
    laplace_noise_multiplier,
    least,
    zcdp_budget,
)
from releases.engine.accounting.conversions import epsilon_of_rho
from releases.engine.domain.privacy import ZCDP
from releases.engine.errors import InvalidInput, Unpriceable

MILLIONTH = Fraction(1, 10**6)
UNIT = Fraction(1, 10**12)


def test_laplace_noise_is_exact_both_ways():
    assert laplace_noise_multiplier(epsilon=Fraction(3, 7)) == Fraction(7, 3)
    assert laplace_epsilon(noise_multiplier=laplace_noise_multiplier(epsilon=Fraction(3, 7))) == Fraction(3, 7)


def test_gaussian_noise_for_a_rho_is_exact():
    assert gaussian_variance_for_rho(rho=Fraction(1, 50)) == 25


def test_the_zcdp_budget_for_epsilon_1_and_a_millionth_is_the_known_figure():
    budget = zcdp_budget(epsilon=Fraction(1), delta=MILLIONTH)
    assert isinstance(budget, ZCDP)
    assert float(budget.rho) == pytest.approx(0.024356, abs=5e-7)
    assert (budget.rho / UNIT).denominator == 1
    assert epsilon_of_rho(rho=budget.rho, delta=MILLIONTH) <= 1


def test_discrete_gaussian_noise_for_a_budget_costs_no_more_than_the_budget():
    for epsilon in (Fraction(1, 10), Fraction(1), Fraction(10)):
        variance = gaussian_variance(epsilon=epsilon, delta=MILLIONTH)
        assert gaussian_epsilon(noise_variance=variance, delta=MILLIONTH) <= epsilon
        assert gaussian_epsilon(noise_variance=variance * Fraction(999, 1000), delta=MILLIONTH) > epsilon


def test_the_analytic_sigma_is_the_known_figure_and_the_least_that_will_do():
    sigma = analytic_gaussian_sigma(epsilon=Fraction(1), delta=MILLIONTH)
    assert float(sigma) == pytest.approx(4.22467889, abs=1e-8)
    assert gaussian_delta(noise_variance=sigma**2, epsilon=Fraction(1)) <= MILLIONTH
    assert gaussian_delta(noise_variance=(sigma - UNIT) ** 2, epsilon=Fraction(1)) > MILLIONTH


def test_the_analytic_sigma_agrees_with_dp_accounting():
    import dp_accounting

    for epsilon, delta in ((1.0, 1e-6), (0.1, 1e-9), (10.0, 1e-5)):
        theirs = dp_accounting.get_sigma_gaussian(epsilon, delta)
        ours = analytic_gaussian_sigma(epsilon=Fraction(epsilon), delta=Fraction(delta))
        assert float(ours) == pytest.approx(theirs, rel=1e-9)


def test_the_analytic_epsilon_of_a_thousand_gaussians_is_the_known_figure():
    import dp_accounting

    ours = analytic_gaussian_epsilon(noise_variance=Fraction(10_000, 1000), delta=MILLIONTH)
    assert float(ours) == pytest.approx(1.3675714751, abs=1e-9)
    assert float(ours) >= dp_accounting.get_epsilon_gaussian(100 / 1000**0.5, 1e-6) - 1e-12
    assert ours < gaussian_epsilon(noise_variance=Fraction(10), delta=MILLIONTH)


def test_noise_so_large_that_delta_alone_covers_it_needs_no_epsilon():
    assert analytic_gaussian_epsilon(noise_variance=Fraction(10**20), delta=MILLIONTH) == 0


def test_the_classical_sigma_is_larger_and_refused_from_epsilon_1_on():
    epsilon = Fraction(99, 100)
    classical = classical_gaussian_sigma(epsilon=epsilon, delta=MILLIONTH)
    assert float(classical) == pytest.approx(5.30 / 0.99, abs=0.01)
    assert classical > analytic_gaussian_sigma(epsilon=epsilon, delta=MILLIONTH)
    assert gaussian_delta(noise_variance=classical**2, epsilon=epsilon) <= MILLIONTH
    for outside in (Fraction(1), Fraction(10)):
        with pytest.raises(Unpriceable, match="proved for epsilon below 1"):
            classical_gaussian_sigma(epsilon=outside, delta=MILLIONTH)


@given(
    threshold=st.fractions(Fraction(0), 100, max_denominator=10**6),
    places=st.integers(0, 8),
)
@settings(max_examples=60)
def test_the_least_value_is_a_decimal_that_does_and_one_unit_less_does_not(threshold, places):
    found = least(lambda value: value >= threshold, at_least=Fraction(0), at_most=Fraction(101), places=places)
    unit = Fraction(1, 10**places)
    assert (found / unit).denominator == 1
    assert threshold <= found < threshold + unit


def test_the_least_epsilon_for_an_error_of_50_people():
    # The largest of 1000 Laplace errors is below (1/epsilon) ln(1000/beta): 9.9035/epsilon at beta = 0.05.
    epsilon = least(
        lambda value: 9.9035 / float(value) <= 50, at_least=Fraction(1, 1000), at_most=Fraction(100), places=3
    )
    assert epsilon == Fraction("0.199")


def test_a_wish_that_nothing_fulfils_is_refused_with_how_far_was_looked():
    with pytest.raises(Unpriceable, match="No epsilon up to 100 is enough"):
        least(lambda value: False, at_least=Fraction(0), at_most=Fraction(100), places=3, what="epsilon")
    with pytest.raises(InvalidInput, match="must not be above"):
        least(lambda value: True, at_least=Fraction(2), at_most=Fraction(1), places=3)


def test_numbers_out_of_range_are_refused():
    for epsilon in (Fraction(0), Fraction(-1), Fraction(101), 0.5, True):
        with pytest.raises(InvalidInput, match=r"exact rational above 0, at most 100"):
            laplace_noise_multiplier(epsilon=epsilon)
        with pytest.raises(InvalidInput, match=r"exact rational above 0, at most 100"):
            zcdp_budget(epsilon=epsilon, delta=MILLIONTH)
        with pytest.raises(InvalidInput, match=r"exact rational above 0, at most 100"):
            analytic_gaussian_sigma(epsilon=epsilon, delta=MILLIONTH)
    for delta in (Fraction(0), Fraction(1), 1e-6):
        with pytest.raises(InvalidInput, match="above 0 and below 1"):
            analytic_gaussian_sigma(epsilon=Fraction(1), delta=delta)
        with pytest.raises(InvalidInput, match="above 0 and below 1"):
            classical_gaussian_sigma(epsilon=Fraction(1, 2), delta=delta)
    for amount in (Fraction(0), Fraction(-1), 0.5):
        with pytest.raises(InvalidInput, match="exact rational above 0"):
            laplace_epsilon(noise_multiplier=amount)
        with pytest.raises(InvalidInput, match="exact rational above 0"):
            gaussian_variance_for_rho(rho=amount)
        with pytest.raises(InvalidInput, match="exact rational above 0"):
            gaussian_epsilon(noise_variance=amount, delta=MILLIONTH)
