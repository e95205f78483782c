"""Quantiles of noise: each held against brute force, never below it and never loose."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from releases.engine.bounds.accuracy import (
    Bound,
    Proof,
    check_beta,
    gaussian_max_quantile,
    gaussian_sum_quantile,
    laplace_max_quantile,
    laplace_pair_reach,
    laplace_sum_quantile,
    union_half_widths,
)
from releases.engine.errors import InvalidInput


def laplace_law(scale, reach):
    ratio = np.exp(-1 / scale)
    return (1 - ratio) / (1 + ratio) * ratio ** np.abs(np.arange(-reach, reach + 1))


def sum_law(one, count):
    law = one
    for _ in range(count - 1):
        law = np.convolve(law, one)
    return law


@settings(max_examples=60)
@given(st.fractions("0.2", 12), st.integers(1, 5000), st.sampled_from([0.001, 0.01, 0.05, 0.3]))
def test_the_quantile_of_the_largest_draw_is_exact(scale, count, beta):
    found = laplace_max_quantile(scale=scale, count=count, beta=beta)

    # Pr[|X| <= m] from the tails, which keeps its precision where 1 - tail would not.
    def all_within(m):
        tail = 2 * np.exp(-(m + 1) / float(scale)) / (1 + np.exp(-1 / float(scale)))
        return np.exp(count * np.log1p(-min(tail, 1.0))) if tail < 1 else 0.0

    assert all_within(found) >= 1 - beta
    assert found == 0 or all_within(found - 1) < (1 - beta) * (1 + 1e-6)


def gaussian_law(variance, reach):
    law = np.exp(-(np.arange(-reach, reach + 1, dtype=float) ** 2) / (2 * float(variance)))
    return law / law.sum()


LAPLACE_SUMS = product([Fraction(1, 2), Fraction(3, 2), Fraction(4)], [1, 2, 5, 12], [0.2, 0.05, 1e-3, 1e-6])
GAUSSIAN_SUMS = product([Fraction(1, 2), Fraction(2), Fraction(70)], [1, 3, 8], [0.2, 1e-3, 1e-6])


@pytest.mark.parametrize(
    ("quantile", "one", "amount", "count", "beta"),
    [
        *(
            (partial(laplace_sum_quantile, scale=each[0]), partial(laplace_law, reach=250), *each)
            for each in LAPLACE_SUMS
        ),
        *(
            (partial(gaussian_sum_quantile, variance=each[0]), partial(gaussian_law, reach=130), *each)
            for each in GAUSSIAN_SUMS
        ),
    ],
)
def test_the_quantile_of_a_sum_is_exact(quantile, one, amount, count, beta):
    law = sum_law(one(float(amount)), count)
    away = np.abs(np.arange(len(law)) - len(law) // 2)
    found = quantile(count=count, beta=beta)
    assert law[away > found].sum() <= beta
    assert found == 0 or law[away > found - 1].sum() > beta * (1 - 1e-6)


def test_the_quantile_of_a_sum_approaches_the_normal_one():
    scale, count, beta = Fraction(3, 2), 40_000, 1e-4
    r = np.exp(-1 / float(scale))
    deviation = np.sqrt(count * 2 * r) / (1 - r)
    assert laplace_sum_quantile(scale=scale, count=count, beta=beta) == pytest.approx(3.8906 * deviation, rel=0.01)


@pytest.mark.parametrize("variance", [Fraction(1, 10), Fraction(1), Fraction(30), Fraction(2000)])
@pytest.mark.parametrize(("count", "beta"), [(1, 0.05), (1000, 0.05), (50, 1e-5)])
def test_the_quantile_of_the_largest_gaussian_draw_is_exact(variance, count, beta):
    found = gaussian_max_quantile(variance=variance, count=count, beta=beta)
    law = gaussian_law(variance, 600)
    away = np.abs(np.arange(len(law)) - len(law) // 2)
    assert count * np.log1p(-law[away > found].sum()) >= np.log1p(-beta)
    assert found == 0 or count * np.log1p(-law[away > found - 1].sum()) < np.log1p(-beta) * (1 - 1e-6)


def test_many_gaussian_draws_are_bounded_by_the_sub_gaussian_tail_at_worst():
    for variance, count in ((Fraction(10**8), 10**6), (Fraction(3), 500)):
        deviation = np.sqrt(float(variance) * count)
        found = gaussian_sum_quantile(variance=variance, count=count, beta=1e-4)
        assert 3.88 * deviation <= found <= np.sqrt(2 * np.log(2e4)) * deviation


def test_a_sum_too_wide_for_the_lattice_is_bounded_by_chernoff():
    scale, count, beta = Fraction(10_000), 1_000_000, 1e-3
    found = laplace_sum_quantile(scale=scale, count=count, beta=beta)
    normal = 3.2905 * float(scale) * np.sqrt(2 * count)
    assert normal <= found <= 1.25 * normal


@pytest.mark.parametrize("scale", [Fraction(1), Fraction(10), Fraction(1000), Fraction(10**9)])
@pytest.mark.parametrize("count", [10**13, 10**16, 10**20, 10**40, 10**300])
def test_the_bound_of_a_sum_over_very_many_cells_is_that_of_a_normal_tail(scale, count):
    """Chernoff's bound of a sum of n tends to sqrt(2 n variance ln(2 / beta))."""
    found = laplace_sum_quantile(scale=scale, count=count, beta=0.05)
    r = np.exp(-1 / float(scale))
    normal = np.sqrt(2 * r * 2 * np.log(40)) / -np.expm1(-1 / float(scale)) * np.sqrt(float(count))
    assert found == pytest.approx(normal, rel=1e-3)


def test_the_union_bound_gives_each_answer_its_share():
    shares = []
    union_half_widths(
        [(10, 1), (30, 7)], beta=Fraction(1, 20), quantile=lambda cells, beta: shares.append((cells, beta)) or 1.0
    )
    assert shares == [(1, 0.05 / 40), (7, 0.05 / 40)]


@pytest.mark.parametrize("beta", [Fraction(0), Fraction(1), Fraction(-1), 0.05, None])
def test_a_beta_that_is_no_probability_is_refused(beta):
    with pytest.raises(InvalidInput, match="beta"):
        check_beta(beta)


def test_a_bound_survives_a_round_trip_through_json():
    bound = Bound(beta=Fraction(1, 20), half_widths=(3.0, 4.5), proof=Proof.BEFORE, formula="x", source="y")
    assert Bound.from_json(bound.to_json()) == bound
    assert bound.alpha == 4.5


@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(3), Fraction(20)])
@pytest.mark.parametrize("beta", [0.2, 0.01])
def test_a_share_of_two_laplace_draws_stays_within_its_reach_as_often_as_said_and_not_with_more_noise(scale, beta):
    """Against the law itself, summed over all pairs of draws."""

    def missed(law_scale, share, reach):
        # Beyond 40 scales lies less than what a double tells from nothing beside 1.
        most = int(40 * law_scale) + 40
        draws = np.arange(-most, most + 1)
        law = np.exp(-np.abs(draws) / float(law_scale))
        law /= law.sum()
        apart = np.abs((1 - share) * draws[:, None] - share * draws[None, :])
        return float((law[:, None] * law[None, :])[apart > reach].sum())

    shares = np.array([0.0, 0.1, 0.25, 0.4, 0.5, 0.55, 0.75, 0.9, 1.0])
    reaches = laplace_pair_reach(shares=shares, scale=scale, beta=beta)
    assert np.argmin(reaches) == 4
    assert (np.diff(reaches[:5]) < 0).all()
    assert (np.diff(reaches[4:]) > 0).all()
    for share, reach in zip(shares, reaches, strict=True):
        assert missed(scale, share, reach) <= beta
        if scale > 1:
            # A reach is at most one step too far, and does not hold for twice the noise.
            assert missed(scale, share, reach - 2.5) > beta
            assert missed(2 * scale, share, reach) > beta
