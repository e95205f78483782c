"""Privacy profiles and trade-off functions, against integration, the library and each other."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from mpmath import mp

from releases.engine.accounting.profiles import (
    approximate_trade_off,
    gaussian_delta,
    gaussian_trade_off,
    laplace_delta,
    laplace_trade_off,
    pure_delta,
)
from releases.engine.errors import InvalidInput

EPSILONS = [Fraction(0), Fraction(1, 10), Fraction(1, 2), Fraction(1), Fraction(3)]


def test_the_laplace_profile_is_the_integral_of_what_one_density_exceeds():
    with mp.workdps(60):
        for scale in (mp.mpf(1) / 2, mp.mpf(1), mp.mpf(4)):
            for epsilon in EPSILONS:
                e = mp.mpf(epsilon.numerator) / epsilon.denominator
                # p exceeds e^epsilon q left of the point where the losses meet.
                edge = (1 - e * scale) / 2
                expected = mp.mpf(0)
                if e < 1 / scale:
                    p = mp.exp(-abs(edge) / scale) / 2 if edge < 0 else 1 - mp.exp(-edge / scale) / 2
                    q = mp.exp((edge - 1) / scale) / 2
                    expected = p - mp.exp(e) * q
                multiplier = Fraction(int(scale * 2), 2)
                found = laplace_delta(noise_multiplier=multiplier, epsilon=epsilon)
                assert 0 <= mp.mpf(found.numerator) / found.denominator - expected < mp.mpf(10) ** -25


def test_laplace_noise_on_two_coordinates_is_no_worse_than_on_one():
    x = np.linspace(-25, 26, 2041)
    cell = (x[1] - x[0]) ** 2

    def density(moved):
        return np.exp(-np.abs(x - moved)) / 2

    for first in (0.2, 0.5):
        p = np.outer(density(0), density(0))
        q = np.outer(density(first), density(1 - first))
        for epsilon in (0.1, 0.5, 0.9):
            both = np.maximum(p - math.exp(epsilon) * q, 0).sum() * cell
            bound = float(laplace_delta(noise_multiplier=Fraction(1), epsilon=Fraction(epsilon)))
            assert both <= bound + 1e-3


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


def test_the_pure_profile_is_randomized_responses_and_bounds_laplaces():
    for epsilon in EPSILONS:
        bound = pure_delta(pure_epsilon=Fraction(1), epsilon=epsilon)
        e = math.exp(epsilon)
        truth = math.e / (1 + math.e)
        assert float(bound) == pytest.approx(max(0.0, truth - e * (1 - truth)), abs=1e-15)
        assert laplace_delta(noise_multiplier=Fraction(1), epsilon=epsilon) <= bound


ALPHAS = [Fraction(k, 2000) for k in range(2001)]


def test_profile_and_trade_off_are_two_views_of_one_thing():
    # delta(epsilon) = max over a of 1 - f(a) - e^epsilon a.
    laplace = {a: laplace_trade_off(noise_multiplier=Fraction(1), alpha=a) for a in ALPHAS}
    gaussian = {a: gaussian_trade_off(noise_variance=Fraction(1), alpha=a) for a in ALPHAS[::10]}
    for epsilon in (0.0, 0.3, 0.8):
        for curve, profile in (
            (laplace, laplace_delta(noise_multiplier=Fraction(1), epsilon=Fraction(epsilon))),
            (gaussian, gaussian_delta(noise_variance=Fraction(1), epsilon=Fraction(epsilon))),
        ):
            found = max(1 - float(f) - math.exp(epsilon) * float(a) for a, f in curve.items())
            # The largest over a grid of a is at most the supremum, and close to it.
            assert found <= float(profile) + 1e-9
            assert found == pytest.approx(float(profile), abs=1e-3)


def test_trade_offs_fall_from_1_to_0_and_lie_below_blind_guessing():
    for curve in (
        lambda a: laplace_trade_off(noise_multiplier=Fraction(2), alpha=a),
        lambda a: gaussian_trade_off(noise_variance=Fraction(3), alpha=a),
        lambda a: approximate_trade_off(epsilon=Fraction(1), delta=Fraction(1, 1000), alpha=a),
    ):
        values = [curve(a) for a in ALPHAS[::100]]
        assert values == sorted(values, reverse=True)
        assert all(0 <= value <= 1 - a for a, value in zip(ALPHAS[::100], values, strict=True))
        assert values[-1] == 0


def test_the_trade_off_of_laplace_noise_is_above_that_of_any_pure_mechanism():
    for a in ALPHAS[::50]:
        least = approximate_trade_off(epsilon=Fraction(1), delta=Fraction(0), alpha=a)
        assert laplace_trade_off(noise_multiplier=Fraction(1), alpha=a) >= least


def test_the_gaussian_trade_off_is_the_likelihood_ratio_tests():
    with mp.workdps(40):
        for a in (Fraction(1, 100), Fraction(1, 2), Fraction(9, 10)):
            found = gaussian_trade_off(noise_variance=Fraction(4), alpha=a)
            threshold = mp.sqrt(2) * mp.erfinv(1 - 2 * mp.mpf(a.numerator) / a.denominator)
            true = mp.ncdf(threshold - mp.mpf(1) / 2)
            assert 0 <= true - mp.mpf(found.numerator) / found.denominator <= mp.mpf(10) ** -11


def test_arguments_that_make_no_sense_are_refused():
    with pytest.raises(InvalidInput, match="must not be below 0"):
        laplace_delta(noise_multiplier=Fraction(1), epsilon=Fraction(-1))
    with pytest.raises(InvalidInput, match="must be a probability"):
        gaussian_trade_off(noise_variance=Fraction(1), alpha=Fraction(3, 2))
