"""Calibration: noise for a cost, cost for a noise, and the least value that will do."""

from __future__ import annotations

from fractions import Fraction
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp

from releases.engine.accounting.calibration import (
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
WITHIN = {"at_least": Fraction(0), "at_most": Fraction(100), "places": 3, "what": "epsilon"}


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
    for epsilon in (Fraction(1, 10), Fraction(10)):
        variance = gaussian_variance(epsilon=epsilon, delta=MILLIONTH)
        assert gaussian_epsilon(noise_variance=variance, delta=MILLIONTH) <= epsilon
        assert gaussian_epsilon(noise_variance=variance * Fraction(999, 1000), delta=MILLIONTH) > epsilon


def test_the_analytic_sigma_is_the_known_figure_and_the_least_that_will_do():
    sigma = analytic_gaussian_sigma(epsilon=Fraction(1), delta=MILLIONTH)
    assert float(sigma) == pytest.approx(4.22467889, abs=1e-8)
    assert gaussian_delta(noise_variance=sigma**2, epsilon=Fraction(1)) <= MILLIONTH
    assert gaussian_delta(noise_variance=(sigma - UNIT) ** 2, epsilon=Fraction(1)) > MILLIONTH


def test_the_classical_sigma_is_larger_than_the_analytic_one():
    epsilon = Fraction(99, 100)
    classical = classical_gaussian_sigma(epsilon=epsilon, delta=MILLIONTH)
    assert float(classical) == pytest.approx(5.30 / 0.99, abs=0.01)
    assert classical > analytic_gaussian_sigma(epsilon=epsilon, delta=MILLIONTH)
    assert gaussian_delta(noise_variance=classical**2, epsilon=epsilon) <= MILLIONTH


@given(threshold=st.fractions(Fraction(0), 100, max_denominator=10**6), places=st.integers(0, 8))
@settings(max_examples=60)
def test_the_least_value_is_a_decimal_that_does_and_one_unit_less_does_not(threshold, places):
    found = least(lambda value: value >= threshold, at_least=Fraction(0), at_most=Fraction(101), places=places)
    unit = Fraction(1, 10**places)
    assert (found / unit).denominator == 1
    assert threshold <= found < threshold + unit


@pytest.mark.parametrize(
    ("of", "given_", "error", "why"),
    [
        *(
            (of, {"epsilon": epsilon, **more}, InvalidInput, "exact rational above 0, at most 100")
            for epsilon in (Fraction(0), Fraction(101), 0.5, True)
            for of, more in (
                (laplace_noise_multiplier, {}),
                (zcdp_budget, {"delta": MILLIONTH}),
                (analytic_gaussian_sigma, {"delta": MILLIONTH}),
            )
        ),
        *(
            (of, {"epsilon": Fraction(1, 2), "delta": delta}, InvalidInput, "above 0 and below 1")
            for delta in (Fraction(0), Fraction(1), 1e-6)
            for of in (analytic_gaussian_sigma, classical_gaussian_sigma)
        ),
        *(
            (of, {name: amount, **more}, InvalidInput, "exact rational above 0")
            for amount in (Fraction(0), 0.5)
            for of, name, more in (
                (laplace_epsilon, "noise_multiplier", {}),
                (gaussian_variance_for_rho, "rho", {}),
                (gaussian_epsilon, "noise_variance", {"delta": MILLIONTH}),
            )
        ),
        (gaussian_delta, {"noise_variance": Fraction(1), "epsilon": Fraction(-1)}, InvalidInput, "not be below 0"),
        (classical_gaussian_sigma, {"epsilon": Fraction(1), "delta": MILLIONTH}, Unpriceable, "for epsilon below 1"),
        (partial(least, lambda _: False), WITHIN, Unpriceable, "No epsilon up to 100 is enough"),
        (partial(least, lambda _: True), {**WITHIN, "at_least": Fraction(101)}, InvalidInput, "must not be above"),
    ],
)
def test_what_cannot_be_calibrated_is_refused(of, given_, error, why):
    with pytest.raises(error, match=why):
        of(**given_)
