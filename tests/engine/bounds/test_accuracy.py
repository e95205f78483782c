"""Quantiles of noise: each held against brute force, never below it and never loose."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from functools import partial
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from releases.engine.bounds.accuracy import (
    gaussian_max_quantile,
    gaussian_sum_quantile,
    laplace_max_quantile,
    laplace_pair_reach,
    laplace_sum_quantile,
    union_half_widths,
)
from releases.engine.bounds.combinations import (
    DISCRETE_GAUSSIAN,
    DISCRETE_LAPLACE,
    NoiseCombination,
    combination_quantile,
)


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


@pytest.mark.parametrize("variance", [Fraction(1, 10), Fraction(1), Fraction(30), Fraction(2000)])
@pytest.mark.parametrize(("count", "beta"), [(1, 0.05), (1000, 0.05), (50, 1e-5)])
def test_the_quantile_of_the_largest_gaussian_draw_is_exact(variance, count, beta):
    found = gaussian_max_quantile(variance=variance, count=count, beta=beta)
    law = gaussian_law(variance, 600)
    away = np.abs(np.arange(len(law)) - len(law) // 2)
    assert count * np.log1p(-law[away > found].sum()) >= np.log1p(-beta)
    assert found == 0 or count * np.log1p(-law[away > found - 1].sum()) < np.log1p(-beta) * (1 - 1e-6)


def test_the_union_bound_gives_each_answer_its_share():
    shares = []
    union_half_widths(
        [(10, 1), (30, 7)], beta=Fraction(1, 20), quantile=lambda cells, beta: shares.append((cells, beta)) or 1.0
    )
    assert shares == [(1, 0.05 / 40), (7, 0.05 / 40)]


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


#: Of a draw, values beyond have a probability below 10^-20.
REACH = 80
#: Weights of the draws in quarters.
QUARTERS = [[4], [2], [4, 4, 4], [5, 3, 2, 1], [4, 1, 1, 1, 1, 1, 1, 1], [8, 7]]


def exact_laplace_law(one_of):
    """Pr[Z = z] of scale 1/ln `one_of`: powers of a fraction."""
    q = Fraction(1, one_of)
    return {z: (1 - q) / (1 + q) * q ** abs(z) for z in range(-REACH, REACH + 1)}, 2 * q / (1 - q) ** 2


def exact_gaussian_law(variance):
    weights = {z: Fraction(float(np.exp(-z * z / (2 * variance)))) for z in range(-REACH, REACH + 1)}
    total = sum(weights.values())
    return {z: weight / total for z, weight in weights.items()}, variance


def tail_of(law, quarters):
    """From w to Pr[|S| > w] of S = the sum of draws times their weights."""
    sums = {0: 1.0}
    for weight in quarters:
        longer: dict[int, float] = defaultdict(float)
        for place, chance in sums.items():
            for z, own in law.items():
                longer[place + weight * z] += chance * own
        sums = longer
    return lambda w: sum(chance for place, chance in sums.items() if abs(place) > 4 * w)


@pytest.mark.parametrize("quarters", QUARTERS)
@pytest.mark.parametrize(
    ("family", "law"),
    [
        (DISCRETE_LAPLACE, exact_laplace_law(2)),
        (DISCRETE_LAPLACE, exact_laplace_law(50)),
        (DISCRETE_GAUSSIAN, exact_gaussian_law(4)),
        (DISCRETE_GAUSSIAN, exact_gaussian_law(20)),
    ],
)
def test_the_bound_holds_for_the_exact_law_and_hardly_anything_less_does(family, law, quarters):
    chances, variance = law
    weights, numbers = np.unique(quarters, return_counts=True)
    combination = NoiseCombination(
        factors=weights / 4.0, variances=np.full(len(weights), float(variance)), numbers=numbers.astype(float)
    )
    tail = tail_of({z: float(chance) for z, chance in chances.items()}, quarters)
    for beta in (0.2, 0.01, 1e-5, 1e-12):
        found = combination_quantile(combination, law=family, beta=beta)
        assert tail(found) <= beta * (1 + 1e-9), beta
        if beta >= 1e-8:
            # No further than the step of the sum's lattice and a fiftieth of the deviation beyond what holds.
            least = found - max(0.25, 0.05 * combination.deviation) - 0.02 * combination.deviation
            assert least < 0 or tail(least) > beta * 0.98, beta
