"""Calibration: noise for a cost, cost for a noise, and the least value that will do."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp

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


def test_noise_for_an_epsilon_or_a_rho_is_exact():
    assert laplace_noise_multiplier(epsilon=Fraction(3, 7)) == Fraction(7, 3)
    assert laplace_epsilon(noise_multiplier=Fraction(7, 3)) == Fraction(3, 7)
    assert gaussian_variance_for_rho(rho=Fraction(1, 50)) == 25


@pytest.mark.parametrize("sigma", [0.5, 1.0, 4.0, 40.0])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_the_privacy_profile_of_gaussian_noise_is_its_formula_rounded_up(sigma, epsilon):
    ours = gaussian_delta(noise_variance=Fraction(sigma) ** 2, epsilon=Fraction(epsilon))
    with mp.workdps(50):
        m, e = 1 / mp.mpf(sigma), mp.mpf(epsilon)
        true = mp.ncdf(m / 2 - e / m) - mp.exp(e) * mp.ncdf(-m / 2 - e / m)
        assert 0 <= mp.mpf(ours.numerator) / ours.denominator - true <= mp.mpf(10) ** -30


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


def test_the_analytic_epsilon_of_a_thousand_gaussians_is_the_known_figure():
    ours = analytic_gaussian_epsilon(noise_variance=Fraction(10_000, 1000), delta=MILLIONTH)
    assert float(ours) == pytest.approx(1.3675714751, abs=1e-9)
    assert ours < gaussian_epsilon(noise_variance=Fraction(10), delta=MILLIONTH)
    # Noise so large that delta alone covers it needs no epsilon.
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


@given(threshold=st.fractions(Fraction(0), 100, max_denominator=10**6), places=st.integers(0, 8))
@settings(max_examples=60)
def test_the_least_value_is_a_decimal_that_does_and_one_unit_less_does_not(threshold, places):
    found = least(lambda value: value >= threshold, at_least=Fraction(0), at_most=Fraction(101), places=places)
    unit = Fraction(1, 10**places)
    assert (found / unit).denominator == 1
    assert threshold <= found < threshold + unit


def test_a_wish_that_nothing_fulfils_is_refused_with_how_far_was_looked():
    with pytest.raises(Unpriceable, match="No epsilon up to 100 is enough"):
        least(lambda value: False, at_least=Fraction(0), at_most=Fraction(100), places=3, what="epsilon")
    with pytest.raises(InvalidInput, match="must not be above"):
        least(lambda value: True, at_least=Fraction(2), at_most=Fraction(1), places=3)


def test_numbers_out_of_range_are_refused():
    for epsilon in (Fraction(0), Fraction(-1), Fraction(101), 0.5, True):
        for of, given_ in (
            (laplace_noise_multiplier, {}),
            (zcdp_budget, {"delta": MILLIONTH}),
            (analytic_gaussian_sigma, {"delta": MILLIONTH}),
        ):
            with pytest.raises(InvalidInput, match=r"exact rational above 0, at most 100"):
                of(epsilon=epsilon, **given_)
    for delta in (Fraction(0), Fraction(1), 1e-6):
        for of in (analytic_gaussian_sigma, classical_gaussian_sigma):
            with pytest.raises(InvalidInput, match="above 0 and below 1"):
                of(epsilon=Fraction(1, 2), delta=delta)
    for amount in (Fraction(0), Fraction(-1), 0.5):
        for of, given_ in (
            (laplace_epsilon, {"noise_multiplier": amount}),
            (gaussian_variance_for_rho, {"rho": amount}),
            (gaussian_epsilon, {"noise_variance": amount, "delta": MILLIONTH}),
        ):
            with pytest.raises(InvalidInput, match="exact rational above 0"):
                of(**given_)
    with pytest.raises(InvalidInput, match="must not be below 0"):
        gaussian_delta(noise_variance=Fraction(1), epsilon=Fraction(-1))
