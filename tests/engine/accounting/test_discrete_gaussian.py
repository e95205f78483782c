"""What discrete Gaussian noise is charged: never less than the divergence of its own law, summed up cell by cell."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from itertools import product
from math import exp

import numpy as np
import pytest
from scipy.special import ndtr

from releases.engine.accounting.accountant import EPSILON_PLACES, price
from releases.engine.accounting.calibration import (
    analytic_gaussian_sigma,
    discrete_gaussian_budget,
    discrete_gaussian_delta,
    discrete_gaussian_epsilon,
    gaussian_epsilon,
    zcdp_budget,
)
from releases.engine.accounting.events import AdaptiveDiscreteGaussianEvent, DiscreteGaussianEvent
from releases.engine.errors import InvalidInput

EPSILONS = [0.0, 0.05, 0.2, 0.5, 1.0, 1.7, 3.0]
UNIT = Fraction(1, 10**12)


def law(variance, around, reach):
    """The probabilities of -reach to reach."""
    places = np.arange(-reach, reach + 1)
    weights = np.exp(-((places - around) ** 2) / (2 * variance))
    return weights / weights.sum()


def divergence(one, other, epsilon):
    """The least delta at an epsilon, both ways round."""
    return max(np.maximum(p - exp(epsilon) * q, 0).sum() for p, q in ((one, other), (other, one)))


def assert_covered(one, other, spent):
    """`spent` is the sum of squared changes over variances."""
    variance = Fraction(1 / spent) * (1 - Fraction(1, 10**12))
    for epsilon in EPSILONS:
        true = divergence(one, other, epsilon)
        assert true <= float(discrete_gaussian_delta(noise_variance=variance, epsilon=Fraction(epsilon))) + 1e-13


@pytest.mark.parametrize("moved", [1, 2, 3])
@pytest.mark.parametrize("variance", [0.3, 0.6, 1.1, 1.9, 4.0, 30.0])
def test_a_number_that_moves_is_covered(variance, moved):
    reach = int(12 * variance**0.5) + 8
    assert_covered(law(variance, 0, reach), law(variance, moved, reach), moved**2 / variance)


@pytest.mark.parametrize("variances", [(1.3, 9.0), (2.2, 2.2), (6.0, 40.0)])
@pytest.mark.parametrize("moved", [(1, 0), (1, 1), (1, -2), (2, 3)])
def test_two_numbers_with_noise_of_their_own_are_covered_in_every_direction(variances, moved):
    one, other = (
        np.outer(*(law(variance, by * side, 60) for variance, by in zip(variances, moved, strict=True)))
        for side in (0, 1)
    )
    spent = sum(by**2 / variance for variance, by in zip(variances, moved, strict=True))
    assert_covered(one, other, spent)


def test_many_numbers_that_move_together_are_covered():
    """Four at once, with noise so small that their grid is felt."""
    sides = [law(5.0, side, 14) for side in (0, 1)]
    one, other = (np.einsum("i,j,k,l->ijkl", each, each, each, each) for each in sides)
    assert_covered(one, other, 4 / 5.0)


@pytest.mark.parametrize("bits", product((0, 1), repeat=3))
def test_a_second_number_whose_noise_the_first_outcome_decides_is_covered(bits):
    """By where the first outcome lies the second step spends all that is left, or moves not at all, or the other way:
    on no path more than 1/3 + 1/4."""
    left = {0: (1, 4.0), 1: (-2, 16.0)}
    places = np.arange(-50, 51)
    laws = []
    for side in (0, 1):
        first = law(3.0, side, 50)
        rows = []
        for place in places:
            group = 0 if place < 0 else 1 if place == 0 else 2
            moved, variance = left[bits[group]]
            rows.append(first[place + 50] * law(variance, moved * side, 50))
        laws.append(np.array(rows))
    assert_covered(*laws, 1 / 3 + 1 / 4)


@cache
def odds(moved, variance):
    """Of each outcome of a step: its probability on one table, and how many times as likely it is on the other."""
    reach = int(9 * variance**0.5) + moved + 3
    places = np.arange(-reach, reach + 1)
    return law(variance, 0, reach), np.exp(places * moved / variance - moved**2 / (2 * variance))


def most_won(times, epsilon, variance, *, parts, left):
    """The most that P(A) - e^epsilon Q(A) can come to over all ways to spend what is left, P scaled to 1: after each
    outcome it is chosen again how far the next number moves, and how many of the parts of 1/variance that spends.

    Args:
        times: how many times as likely the outcomes so far are under Q, for several of them.
    """
    best = np.maximum(1 - exp(epsilon) * times, 0)
    for moved, spent in product((1, 2), range(1, left + 1)):
        chances, likelier = odds(moved, moved**2 * variance * parts / spent)
        after = np.outer(times, likelier)
        won = most_won(after.ravel(), epsilon, variance, parts=parts, left=left - spent)
        best = np.maximum(best, won.reshape(after.shape) @ chances)
    return best


def won_by(epsilon, variance, *, parts):
    return most_won(np.ones(1), epsilon, variance, parts=parts, left=parts)[0]


@pytest.mark.parametrize("variance", [0.3, 0.55, 0.7, 1.2, 2.0, 5.0])
def test_no_way_to_choose_steps_by_outcomes_wins_more_than_is_charged(variance):
    exact = Fraction(variance) * (1 - Fraction(1, 10**12))
    for epsilon in [*EPSILONS, 5.0]:
        won = won_by(epsilon, variance, parts=2)
        assert won <= float(discrete_gaussian_delta(noise_variance=exact, epsilon=Fraction(epsilon))) + 1e-13
    for delta in (Fraction(1, 10), Fraction(1, 1000), Fraction(1, 10**6)):
        epsilon = float(discrete_gaussian_epsilon(noise_variance=exact, delta=delta))
        assert won_by(epsilon, variance, parts=2) <= delta


def test_choosing_steps_by_outcomes_wins_more_than_one_step_and_than_normal_noise_would_let_it():
    variance, epsilon = 0.51, 5.0
    normal = ndtr(variance**-0.5 / 2 - epsilon * variance**0.5)
    normal -= exp(epsilon) * ndtr(-(variance**-0.5) / 2 - epsilon * variance**0.5)
    at_once, chosen = won_by(epsilon, variance, parts=1), won_by(epsilon, variance, parts=2)
    assert chosen > 1.1 * at_once
    assert chosen > 1.1 * normal


@pytest.mark.parametrize("epsilon", ["0.1", "1", "4"])
@pytest.mark.parametrize("delta", ["1e-9", "1e-5"])
def test_the_budget_is_the_largest_rho_that_fits_and_is_nearly_that_of_normal_noise(epsilon, delta):
    epsilon, delta = Fraction(epsilon), Fraction(delta)
    rho = discrete_gaussian_budget(epsilon=epsilon, delta=delta).rho
    assert discrete_gaussian_epsilon(noise_variance=1 / (2 * rho), delta=delta) <= epsilon
    normal = 1 / (2 * analytic_gaussian_sigma(epsilon=epsilon, delta=delta) ** 2)
    assert zcdp_budget(epsilon=epsilon, delta=delta).rho <= rho < normal
    if epsilon <= 1:
        assert discrete_gaussian_epsilon(noise_variance=1 / (2 * (rho + UNIT)), delta=delta) > epsilon
        assert rho > normal * Fraction(92, 100)
    if epsilon < 1:
        assert rho > normal * Fraction(998, 1000)


def test_where_noise_is_small_zero_concentrated_privacy_decides():
    epsilon, delta = Fraction(10), Fraction(1, 10**9)
    assert discrete_gaussian_budget(epsilon=epsilon, delta=delta) == zcdp_budget(epsilon=epsilon, delta=delta)
    small = {"noise_variance": Fraction(1, 3), "delta": delta}
    assert discrete_gaussian_epsilon(**small) == gaussian_epsilon(**small)
    assert discrete_gaussian_delta(noise_variance=Fraction(1, 3), epsilon=epsilon) == 1


def test_only_a_list_of_such_events_alone_is_charged_so():
    variance, delta = Fraction(60), Fraction(1, 10**9)
    adaptive, plain = AdaptiveDiscreteGaussianEvent(noise_variance=variance), DiscreteGaussianEvent(noise_variance=60)
    alone, beside = price([adaptive], delta=delta), price([plain], delta=delta)
    assert alone.rho == beside.rho
    assert alone.epsilon < beside.epsilon
    twice = price([adaptive, adaptive], delta=delta)
    halved = discrete_gaussian_epsilon(noise_variance=variance / 2, delta=delta)
    assert (twice.epsilon, twice.delta) == (halved * 10**EPSILON_PLACES, 10**9)
    assert price([adaptive, plain], delta=delta) == price([plain, plain], delta=delta)
    assert price([adaptive], delta=Fraction(0)).epsilon is None


@pytest.mark.parametrize(
    ("of", "given"),
    [
        (discrete_gaussian_delta, {"noise_variance": Fraction(0), "epsilon": Fraction(1)}),
        (discrete_gaussian_epsilon, {"noise_variance": Fraction(1), "delta": Fraction(0)}),
        (discrete_gaussian_budget, {"epsilon": Fraction(0), "delta": Fraction(1, 10)}),
    ],
)
def test_what_has_no_meaning_is_refused(of, given):
    with pytest.raises(InvalidInput):
        of(**given)
