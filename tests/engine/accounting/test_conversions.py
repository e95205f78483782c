"""Conversions between the forms of differential privacy, and calibration, against independent figures."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial
from inspect import signature

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp

from releases.engine.accounting.calibration import (
    analytic_gaussian_sigma,
    classical_gaussian_sigma,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_variance_for_rho,
    laplace_noise_multiplier,
    least,
    zcdp_budget,
)
from releases.engine.accounting.conversions import (
    SamplingScheme,
    amplified,
    epsilon_of_renyi,
    epsilon_of_rho,
    epsilon_of_rho_bun_steinke,
    group_approximate,
    group_renyi,
    group_rho,
    largest_rho,
    rho_of_pure,
    rho_of_randomized_response,
)
from releases.engine.domain.privacy import NeighbouringRelation
from releases.engine.errors import InvalidInput, Unpriceable

MILLIONTH = Fraction(1, 10**6)
UNIT = Fraction(1, 10**12)
WITHIN = {"at_least": Fraction(0), "at_most": Fraction(100), "places": 3, "what": "epsilon"}
EPSILONS = [Fraction(1, 1000), Fraction(1, 10), Fraction(1), Fraction(3), Fraction(12), Fraction(40)]
#: Orders from 1 + 1e-4 to 20000.
ORDERS = [1 + mp.mpf(10) ** (mp.mpf(k) / 4) for k in range(-16, 18)]


def renyi(p, q, order):
    """D_order of two finite laws, in mpmath."""
    total = mp.fsum(a**order * b ** (1 - order) for a, b in zip(p, q, strict=True))
    return mp.log(total) / (order - 1)


def as_mp(value: Fraction):
    return mp.mpf(value.numerator) / value.denominator


@pytest.fixture(autouse=True)
def forty_digits():
    with mp.workdps(40):
        yield


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_rho_of_pure_bounds_every_order_of_randomized_response_and_is_its_limit(epsilon):
    e, rho = as_mp(epsilon), as_mp(rho_of_pure(epsilon=epsilon))
    p = mp.exp(e) / (1 + mp.exp(e))
    for order in ORDERS:
        assert renyi((p, 1 - p), (1 - p, p), order) <= order * rho
    assert rho - mp.mpf(10) ** -29 <= e * mp.tanh(e / 2) <= rho
    assert renyi((p, 1 - p), (1 - p, p), 1 + mp.mpf(10) ** -12) >= rho * (1 - mp.mpf(10) ** -9)


@pytest.mark.parametrize("categories", [2, 3, 4, 6, 7, 20, 1000])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_rho_of_randomized_response_bounds_every_order_for_any_number_of_categories(epsilon, categories):
    e, rho = as_mp(epsilon), as_mp(rho_of_randomized_response(epsilon=epsilon, categories=categories))
    total = mp.exp(e) + categories - 1
    for order in ORDERS:
        inside = mp.exp(order * e) + mp.exp((1 - order) * e) + categories - 2
        assert mp.log(inside / total) / (order - 1) <= order * rho
    if categories <= 6:
        assert rho - e * (mp.exp(e) - 1) / total <= mp.mpf(10) ** -29


@given(rho=st.fractions(Fraction(1, 10**6), 50, max_denominator=10**6), digits=st.integers(1, 18))
@settings(max_examples=40)
def test_the_conversion_of_rho_is_the_infimum_over_all_orders_rounded_up(rho, digits):
    delta = Fraction(1, 10**digits)
    found = epsilon_of_rho(rho=rho, delta=delta)
    r, d = as_mp(rho), as_mp(delta)

    def at(log_x):
        a = 1 + mp.exp(log_x)
        return a * r + mp.log(1 - 1 / a) - mp.log(a * d) / (a - 1)

    # A plain ternary search in another variable, as an independent minimum.
    low, high = mp.mpf(-20), mp.mpf(30)
    for _ in range(160):
        left, right = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, right) if at(left) < at(right) else (left, high)
    true = max(mp.mpf(0), at(low))
    assert true - mp.mpf(10) ** -25 <= as_mp(found) <= true + mp.mpf(10) ** -12
    assert found <= epsilon_of_rho_bun_steinke(rho=rho, delta=delta)


def test_the_conversion_of_rho_agrees_with_opendp_to_the_twelfth_digit():
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
    for scale, delta in ((1.0, 1e-6), (10.0, 1e-6), (0.3, 1e-9), (4.0, 1e-3), (100.0, 1e-5)):
        measurement = dp.c.make_zCDP_to_approxDP(dp.m.make_gaussian(*space, scale=scale))
        theirs = measurement.map(1.0).epsilon(delta)
        rho = 1 / (2 * Fraction(scale) ** 2)
        ours = float(epsilon_of_rho(rho=rho, delta=Fraction(delta)))
        assert ours == pytest.approx(theirs, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [
        (Fraction(10), Fraction(1, 10**18)),
        (Fraction(100), Fraction(1, 2)),
        (Fraction(1, 10**6), Fraction(1, 10)),
    ],
)
def test_the_largest_rho_of_a_budget_fits_it_and_one_unit_more_does_not(epsilon, delta):
    rho = largest_rho(epsilon=epsilon, delta=delta)
    assert (rho / UNIT).denominator == 1
    assert epsilon_of_rho(rho=rho, delta=delta) <= epsilon < epsilon_of_rho(rho=rho + UNIT, delta=delta)


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_group_privacy_of_delta_covers_a_gaussian_moved_that_far(size):
    variance, epsilon = Fraction(25), Fraction(1, 2)
    delta = gaussian_delta(noise_variance=variance, epsilon=epsilon)
    wide, bound = group_approximate(epsilon=epsilon, delta=delta, size=size)
    assert wide == size * epsilon
    assert gaussian_delta(noise_variance=variance / size**2, epsilon=wide) <= bound


WITHOUT, POISSON = SamplingScheme.WITHOUT_REPLACEMENT, SamplingScheme.POISSON
REPLACE, ADD_REMOVE = NeighbouringRelation.REPLACE, NeighbouringRelation.ADD_REMOVE


def sampled(rate, scheme, neighbours, delta=MILLIONTH):
    return amplified(epsilon=Fraction(1), delta=delta, rate=Fraction(rate), scheme=scheme, neighbours=neighbours)


@pytest.mark.parametrize(("scheme", "neighbours"), [(WITHOUT, REPLACE), (POISSON, ADD_REMOVE)])
def test_sampling_amplifies_exactly_as_much_as_is_claimed(scheme, neighbours):
    """Randomized response on whether a sample holds the one row that is a 1, which it does with probability 1/4."""
    bound, delta = sampled("1/4", scheme, neighbours)
    truth = math.e / (1 + math.e)
    with_row = truth / 4 + 3 * (1 - truth) / 4
    assert math.log(with_row / (1 - truth)) == pytest.approx(float(bound), abs=1e-12)
    assert delta == MILLIONTH / 4


def test_nothing_spent_converts_to_nothing_and_a_sample_of_everything_to_the_same():
    assert epsilon_of_rho(rho=Fraction(0), delta=MILLIONTH) == 0
    assert epsilon_of_rho(rho=Fraction(1, 10**20), delta=MILLIONTH) == 0
    assert sampled(1, POISSON, ADD_REMOVE) == (1, MILLIONTH)


ONE, TWO = Fraction(1), Fraction(2)
NO_PROBABILITIES = [Fraction(0), Fraction(1), Fraction(-1, 2)]


@pytest.mark.parametrize(
    ("convert", "arguments", "error", "why"),
    [
        *((epsilon_of_rho, (ONE, each), InvalidInput, "above 0 and below 1") for each in NO_PROBABILITIES),
        *((epsilon_of_rho_bun_steinke, (ONE, each), InvalidInput, "above 0 and below 1") for each in NO_PROBABILITIES),
        *((largest_rho, (ONE, each), InvalidInput, "above 0 and below 1") for each in NO_PROBABILITIES),
        *((epsilon_of_renyi, (TWO, ONE, each), InvalidInput, "above 0 and below 1") for each in NO_PROBABILITIES),
        (epsilon_of_rho, (-ONE, MILLIONTH), InvalidInput, "must not be below 0"),
        (largest_rho, (Fraction(0), MILLIONTH), InvalidInput, "must be above 0"),
        (largest_rho, (Fraction(1, 10**7), Fraction(1, 10**12)), Unpriceable, "leaves no rho"),
        (group_renyi, (Fraction(7), ONE, 2), Unpriceable, "holds for groups of at most"),
        *((group_rho, (ONE, size), InvalidInput, "a whole number of at least 1") for size in (0, -1, 1.5, True)),
        (sampled, (0, POISSON, ADD_REMOVE), InvalidInput, "above 0 and at most 1"),
        (sampled, ("1/2", POISSON, REPLACE), Unpriceable, "is proved for neighbours that are"),
        (sampled, ("1/2", WITHOUT, ADD_REMOVE), Unpriceable, "is proved for neighbours that are"),
    ],
)
def test_what_has_no_conversion_is_refused(convert, arguments, error, why):
    with pytest.raises(error, match=why):
        convert(**dict(zip(signature(convert).parameters, arguments, strict=False)))


# Calibration: noise for a cost, cost for a noise, and the least value that will do.


def test_noise_for_an_epsilon_or_a_rho_is_exact():
    assert laplace_noise_multiplier(epsilon=Fraction(3, 7)) == Fraction(7, 3)
    assert gaussian_variance_for_rho(rho=Fraction(1, 50)) == 25


@pytest.mark.parametrize("sigma", [0.5, 1.0, 4.0, 40.0])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_the_privacy_profile_of_gaussian_noise_is_its_formula_rounded_up(sigma, epsilon):
    ours = gaussian_delta(noise_variance=Fraction(sigma) ** 2, epsilon=Fraction(epsilon))
    with mp.workdps(50):
        m, e = 1 / mp.mpf(sigma), mp.mpf(epsilon)
        true = mp.ncdf(m / 2 - e / m) - mp.exp(e) * mp.ncdf(-m / 2 - e / m)
        assert 0 <= mp.mpf(ours.numerator) / ours.denominator - true <= mp.mpf(10) ** -30


def test_discrete_gaussian_noise_for_a_budget_costs_no_more_than_the_budget():
    for epsilon in (Fraction(1, 10), Fraction(10)):
        variance = gaussian_variance_for_rho(rho=zcdp_budget(epsilon=epsilon, delta=MILLIONTH).rho)
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
