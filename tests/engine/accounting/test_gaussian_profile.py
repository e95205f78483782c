"""The privacy profile of Gaussian noise, against its formula, the library and the lecture notes."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from mpmath import mp

from releases.engine.accounting.calibration import gaussian_delta
from releases.engine.errors import InvalidInput


def test_the_gaussian_profile_agrees_with_dp_accounting():
    import dp_accounting

    for sigma in (0.5, 1.0, 4.0, 40.0):
        for epsilon in (0.1, 1.0, 3.0):
            ours = gaussian_delta(noise_variance=Fraction(sigma) ** 2, epsilon=Fraction(epsilon))
            with mp.workdps(50):
                m, e = 1 / mp.mpf(sigma), mp.mpf(epsilon)
                true = mp.ncdf(m / 2 - e / m) - mp.exp(e) * mp.ncdf(-m / 2 - e / m)
                assert 0 <= mp.mpf(ours.numerator) / ours.denominator - true <= mp.mpf(10) ** -30
            if ours > Fraction(1, 10**100):  # theirs turns delta into the sigma that has it
                again = dp_accounting.get_sigma_gaussian(epsilon, float(ours))
                assert again == pytest.approx(sigma, rel=1e-9)


def test_the_classical_sigma_is_not_private_enough_for_large_epsilon():
    # sqrt(2 ln(1.25/delta))/epsilon at epsilon 10, delta 1e-6: the true delta is 1.9 times the target.
    sigma = Fraction(math.sqrt(2 * math.log(1.25e6)) / 10)
    true = gaussian_delta(noise_variance=sigma**2, epsilon=Fraction(10))
    assert float(true) / 1e-6 == pytest.approx(1.9, abs=0.1)


def test_the_lecture_notes_gaussian_calibration_holds_where_it_is_claimed():
    # Notes on the Gaussian mechanism, Claim 4.2: sigma**2 = 2 ln(2/delta)/epsilon**2 for epsilon <= 1, delta <= 1/2.
    for epsilon in (Fraction(1, 100), Fraction(1, 2), Fraction(1)):
        for delta in (Fraction(1, 2), Fraction(1, 100), Fraction(1, 10**9)):
            variance = Fraction(2 * math.log(2 / delta) / float(epsilon) ** 2)
            assert gaussian_delta(noise_variance=variance, epsilon=epsilon) <= delta


def test_an_epsilon_below_0_is_refused():
    with pytest.raises(InvalidInput, match="must not be below 0"):
        gaussian_delta(noise_variance=Fraction(1), epsilon=Fraction(-1))
