"""Rényi curves of events and what a fixed plan costs by them, against autodp, dp-accounting and direct sums."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from mpmath import mp

from releases.engine.accounting.events import (
    ApproximateEvent,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    ExponentialMechanismEvent,
    GaussianEvent,
    GroupedEvent,
    LaplaceEvent,
    ParallelEvent,
    PureEvent,
    RandomizedResponseEvent,
    RepeatedEvent,
    SparseVectorEvent,
    SubsampledEvent,
)
from releases.engine.accounting.renyi import divergence, renyi_epsilon, sampled_divergence
from releases.engine.errors import InvalidInput, Unpriceable

MILLIONTH = Fraction(1, 10**6)
TENTH = Fraction(1, 10)
ORDERS = [Fraction(3, 2), Fraction(2), Fraction(5), Fraction(20)]


def times(event, count):
    return RepeatedEvent(event=event, times=count)


def drawn_of(event, rate, scheme="without_replacement", neighbours="replace"):
    return SubsampledEvent(event=event, rate=rate, scheme=scheme, neighbours=neighbours)


def test_curves_agree_with_autodp():
    # autodp 0.2.3.1: LaplaceMechanism(b=2).RenyiDP(order), PureDP_Mechanism(eps=1).RenyiDP(order).
    laplace = [0.1559778784857393, 0.20030389617361594, 0.35526531840491027, 0.4648510858238263]
    pure = [0.6273326470494998, 0.735325664055519, 0.9217154286678749, 0.9835125427621989]
    for order, theirs_laplace, theirs_pure in zip(ORDERS, laplace, pure, strict=True):
        ours = float(divergence(LaplaceEvent(noise_multiplier=2), order=order))
        assert ours == pytest.approx(theirs_laplace, abs=1e-12)
        assert float(divergence(PureEvent(epsilon=1), order=order)) == pytest.approx(theirs_pure, abs=1e-12)


@pytest.mark.parametrize(
    ("plan", "autodp"),
    [
        # autodp 0.2.3.1, Composition()(...).get_approxDP(1e-6)
        ([times(LaplaceEvent(noise_multiplier=10), 1000)], 20.039575881220415),
        ([times(PureEvent(epsilon=TENTH), 1000)], 20.450376460678232),
        (
            [times(LaplaceEvent(noise_multiplier=10), 300), times(GaussianEvent(noise_variance=10_000), 700)],
            9.692587162648259,
        ),
    ],
)
def test_plans_agree_with_autodp_on_the_safe_side(plan, autodp):
    ours, _ = renyi_epsilon(plan, delta=MILLIONTH)
    assert -1e-6 <= float(ours) - autodp <= 1e-5


def test_gaussian_noise_costs_the_same_by_its_orders_as_by_its_rho():
    for event in (GaussianEvent(noise_variance=10_000), DiscreteGaussianEvent(noise_variance=10_000)):
        ours, order = renyi_epsilon([times(event, 1000)], delta=MILLIONTH)
        assert float(ours) == pytest.approx(1.47159, abs=1e-5)
        assert order > 1
        assert divergence(event, order=Fraction(7)) == Fraction(7, 20_000)


def test_randomized_response_is_summed_over_its_categories():
    event = RandomizedResponseEvent(epsilon=1, categories=5)
    odds = math.e
    p = np.array([odds, 1, 1, 1, 1]) / (odds + 4)
    q = np.array([1, odds, 1, 1, 1]) / (odds + 4)
    for order in ORDERS:
        true = math.log((p ** float(order) * q ** (1 - float(order))).sum()) / (float(order) - 1)
        assert float(divergence(event, order=order)) == pytest.approx(true, abs=1e-12)


def test_every_pure_event_is_at_most_its_epsilon_and_its_rho_at_every_order():
    for event in (
        DiscreteLaplaceEvent(noise_multiplier=1),
        ExponentialMechanismEvent(epsilon=1),
        PureEvent(epsilon=1),
        SparseVectorEvent(
            epsilon_threshold=Fraction(1, 4), epsilon_queries=Fraction(1, 4), epsilon_answers=Fraction(1, 2), answers=5
        ),
    ):
        previous = Fraction(0)
        for order in (*ORDERS, Fraction(10**4)):
            found = divergence(event, order=order)
            assert previous <= found <= 1
            previous = found
    assert divergence(ExponentialMechanismEvent(epsilon=1), order=Fraction(2)) == Fraction(1, 4)


def test_parallel_parts_cost_the_worst_or_the_two_worst_at_each_order():
    parts = (LaplaceEvent(noise_multiplier=2), GaussianEvent(noise_variance=1), PureEvent(epsilon=Fraction(1, 9)))
    order = Fraction(3)
    alone = sorted((divergence(part, order=order) for part in parts), reverse=True)
    add_remove = ParallelEvent(events=parts, neighbours="add_remove")
    replace = ParallelEvent(events=parts, neighbours="replace")
    assert divergence(add_remove, order=order) == alone[0]
    assert divergence(replace, order=order) == alone[0] + alone[1]


def test_a_group_costs_no_less_than_noise_that_much_smaller():
    for size in (2, 3, 4):
        for order in (Fraction(3, 2), Fraction(2), Fraction(8)):
            grouped = GroupedEvent(event=LaplaceEvent(noise_multiplier=10), size=size)
            exact = divergence(LaplaceEvent(noise_multiplier=Fraction(10, size)), order=order)
            assert exact <= divergence(grouped, order=order)
            gaussian = GroupedEvent(event=GaussianEvent(noise_variance=4), size=size)
            assert divergence(gaussian, order=order) == size**2 * order / 8
    alone = LaplaceEvent(noise_multiplier=10)
    assert divergence(GroupedEvent(event=alone, size=1), order=Fraction(3)) == divergence(alone, order=Fraction(3))


@pytest.mark.parametrize("order", [2, 4, 32])
@pytest.mark.parametrize(
    ("event", "inner", "infinite"),
    [
        (GaussianEvent(noise_variance=4), lambda j: mp.mpf(j) / 8, mp.inf),
        (PureEvent(epsilon=1), lambda j: mp.log(mp.cosh(j - mp.mpf(1) / 2) / mp.cosh(0.5)) / (j - 1), 1),
    ],
)
def test_a_sample_without_replacement_costs_what_the_theorem_says(event, inner, infinite, order):
    """Wang, Balle and Kasiviswanathan 2019, Theorem 9, written out in mpmath; the lecture notes have a misprint."""
    with mp.workdps(40):
        rate, e2 = mp.mpf(1) / 20, inner(2)

        def least(power):
            return min(mp.mpf(2), (mp.exp(infinite) - 1) ** power)

        total = 1 + rate**2 * mp.binomial(order, 2) * min(4 * (mp.exp(e2) - 1), mp.exp(e2) * least(2))
        for j in range(3, order + 1):
            total += rate**j * mp.binomial(order, j) * mp.exp((j - 1) * inner(j)) * least(j)
        true = mp.log(total) / (order - 1)
        found = sampled_divergence(
            rate=Fraction(1, 20),
            order=order,
            inner=lambda order: divergence(event, order=order),
            pure_epsilon=None if infinite == mp.inf else Fraction(infinite),
        )
        assert 0 <= mp.mpf(found.numerator) / found.denominator - true < mp.mpf(10) ** -25
        assert divergence(drawn_of(event, Fraction(1, 20)), order=Fraction(order)) <= inner(order)


def test_sampling_helps_a_plan_and_an_order_between_two_whole_ones_is_priced_at_the_next():
    sampled = drawn_of(GaussianEvent(noise_variance=4), Fraction(1, 100))
    with_sampling, _ = renyi_epsilon([times(sampled, 1000)], delta=MILLIONTH)
    without, _ = renyi_epsilon([times(GaussianEvent(noise_variance=4), 1000)], delta=MILLIONTH)
    assert with_sampling < 2 < without
    assert divergence(sampled, order=Fraction(5, 2)) == divergence(sampled, order=Fraction(3))


def test_a_poisson_sample_of_a_pure_mechanism_is_its_amplified_epsilon():
    event = drawn_of(PureEvent(epsilon=1), TENTH, "poisson", "add_remove")
    amplified = math.log(1 + (math.e - 1) / 10)
    assert float(divergence(event, order=Fraction(10**6))) == pytest.approx(amplified, abs=1e-6)
    gaussian = drawn_of(GaussianEvent(noise_variance=1), TENTH, "poisson", "add_remove")
    assert divergence(gaussian, order=Fraction(2)) == 1


def test_the_events_own_deltas_are_taken_from_the_plans():
    approximate = [times(ApproximateEvent(epsilon=TENTH, delta=Fraction(1, 10**9)), 100)]
    pure = [times(PureEvent(epsilon=TENTH), 100)]
    with_delta, _ = renyi_epsilon(approximate, delta=MILLIONTH)
    without, _ = renyi_epsilon(pure, delta=MILLIONTH - Fraction(1, 10**7))
    assert with_delta == without
    with pytest.raises(Unpriceable, match="leave nothing to convert with"):
        renyi_epsilon(approximate, delta=Fraction(1, 10**7))


def test_an_order_of_1_or_less_and_an_empty_plan_are_refused():
    for order in (Fraction(1), Fraction(1, 2), 2.5, True):
        with pytest.raises(InvalidInput, match="must be an exact rational above 1"):
            divergence(PureEvent(epsilon=1), order=order)
    with pytest.raises(InvalidInput, match="at least one event"):
        renyi_epsilon([], delta=MILLIONTH)
    with pytest.raises(InvalidInput, match="whole number of at least 2"):
        sampled_divergence(rate=TENTH, order=1, inner=lambda order: order, pure_epsilon=None)
