"""Figures for fixed plans, composition theorems, Rényi curves: exact, or on the safe side of an independent figure."""

import math
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from mpmath import mp

from releases.engine.accounting.composition import FigureUse, optimal_epsilon
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
from releases.engine.accounting.tight_composition import (
    PLANNING_RULES,
    _cell,
    exact_gaussian,
    exact_pure,
    loss_distribution,
    planned,
    renyi,
    summed,
)
from releases.engine.domain.privacy import NeighbouringRelation
from releases.engine.errors import InvalidInput, Unpriceable
from releases.engine.verification.composition_theorems import (
    COMPOSITION_RULES,
    RepeatedMechanism,
    advanced,
    advanced_lecture,
    advanced_tanh,
    basic,
    concentrated,
    optimal,
)

MILLIONTH = Fraction(1, 10**6)
TENTH = Fraction(1, 10)


def times(event, count):
    return RepeatedEvent(event=event, times=count)


LAPLACES = [times(LaplaceEvent(noise_multiplier=10), 1000)]
GAUSSIANS = [times(GaussianEvent(noise_variance=10_000), 1000)]
MIXED = [times(LaplaceEvent(noise_multiplier=10), 300), times(GaussianEvent(noise_variance=10_000), 700)]
MANY = [PureEvent(epsilon=Fraction(index, 10**5)) for index in range(1, 202)]
DISCRETE = DiscreteGaussianEvent(noise_variance=10_000)
LEAKY = ApproximateEvent(epsilon=TENTH, delta=Fraction(1, 10**8))
ADD_REMOVE = NeighbouringRelation.ADD_REMOVE
REPLACED = ParallelEvent(events=(PureEvent(epsilon=1),), neighbours="replace")


@pytest.mark.parametrize(
    ("plan", "rule", "true", "allowance"),
    [
        # `true` is the exact figure, or dp-accounting's at a grid ten times finer; ours is above, by the allowance.
        (LAPLACES, loss_distribution, 18.95028737, 3e-6),
        (GAUSSIANS, loss_distribution, 1.3675714751, 2e-5),
        ([times(times(GaussianEvent(noise_variance=10_000), 10), 100)], exact_gaussian, 1.3675714750842936, 1e-11),
        (MIXED, loss_distribution, 9.126530, 1e-5),
        (MIXED, renyi, 9.692587, 1e-5),
        # By autodp 0.2.3.1, Composition()(...).get_approxDP(1e-6), whose figures are less than 1e-6 too large.
        (LAPLACES, renyi, 20.039575881220415 - 9.99e-7, 1.0999e-5),
        ([times(PureEvent(epsilon=TENTH), 1000)], renyi, 20.450376460678232 - 9.99e-7, 1.0999e-5),
        # Repetitions of repetitions multiply.
        ([times(times(PureEvent(epsilon=TENTH), 10), 100)], exact_pure, 19.344671447993, 1e-11),
        ([times(times(PureEvent(epsilon=TENTH), 10), 100)], loss_distribution, 19.344671447993, 3e-6),
        # Discrete Laplace noise on counts is randomized response in its privacy loss.
        ([times(DiscreteLaplaceEvent(noise_multiplier=10), 1000)], exact_pure, 19.344671447993, 1e-11),
        ([times(DiscreteLaplaceEvent(noise_multiplier=10), 1000)], loss_distribution, 19.344671447993, 3e-6),
        # Choices cost less than half of any pure mechanisms; discrete Gaussian noise is priced by its rho.
        ([times(ExponentialMechanismEvent(epsilon=TENTH), 1000)], summed, 8.845889348, 1e-7),
        ([times(DISCRETE, 1000)], summed, 1.47159, 1e-5),
    ],
)
def test_each_rule_gives_the_known_figure_on_the_safe_side(plan, rule, true, allowance):
    found = rule(plan, delta=MILLIONTH)
    assert found.question is FigureUse.PLANNED
    assert found.delta == MILLIONTH
    assert -1e-9 <= float(found.epsilon) - true <= allowance


def test_a_plan_is_listed_with_every_figure_the_least_first():
    figures = planned(LAPLACES, delta=MILLIONTH)
    epsilons = [figure.epsilon for figure in figures]
    assert epsilons == sorted(epsilons)
    assert len(figures) == 4
    assert figures[0].source.startswith("Koskela")
    assert {rule.question for rule in PLANNING_RULES.values()} == {FigureUse.PLANNED}


def test_without_a_delta_epsilons_add_up():
    (figure,) = planned([LaplaceEvent(noise_multiplier=3)] * 3, delta=Fraction(0))
    assert (figure.epsilon, figure.delta) == (1, 0)


def test_a_few_steps_are_never_dearer_than_basic_composition():
    # dp-accounting answers infinity for ten pure mechanisms at such a delta.
    for count in (1, 10):
        plan = [times(PureEvent(epsilon=TENTH), count)]
        assert planned(plan, delta=Fraction(1, 10**15))[0].epsilon <= count * TENTH


def test_an_events_own_delta_is_part_of_the_distribution():
    assert loss_distribution([times(LEAKY, 10)], delta=MILLIONTH).epsilon < 1 + MILLIONTH


def test_a_wide_plan_gets_a_coarser_grid_and_stays_on_the_safe_side():
    plan = [times(LaplaceEvent(noise_multiplier=Fraction(1, 2)), 1000)]
    found = loss_distribution(plan, delta=MILLIONTH)
    assert 1300 < found.epsilon < summed(plan, delta=MILLIONTH).epsilon
    assert _cell(LAPLACES) == 1e-4 < _cell(plan)


@pytest.mark.parametrize(
    ("rule", "plan", "delta", "error", "why"),
    [
        (exact_pure, [PureEvent(epsilon=1), PureEvent(epsilon=2)], MILLIONTH, Unpriceable, "equal epsilons"),
        (exact_pure, [ApproximateEvent(epsilon=1, delta=MILLIONTH)], MILLIONTH, Unpriceable, "pure events"),
        (exact_gaussian, [DISCRETE], MILLIONTH, Unpriceable, "continuous Gaussian noise alone"),
        (loss_distribution, [DISCRETE], MILLIONTH, Unpriceable, "No privacy loss distribution"),
        (loss_distribution, MANY, MILLIONTH, Unpriceable, "at most 200 events"),
        (loss_distribution, LAPLACES, Fraction(1, 10**11), Unpriceable, "below 1e-10"),
        (loss_distribution, [times(LEAKY, 100)], MILLIONTH, Unpriceable, "no finite epsilon"),
        (loss_distribution, [], MILLIONTH, InvalidInput, "at least one event"),
        (planned, [], MILLIONTH, InvalidInput, "at least one event"),
        (planned, GAUSSIANS, Fraction(0), Unpriceable, "Nothing is proved about this plan"),
        (partial(planned, neighbours=ADD_REMOVE), [REPLACED], MILLIONTH, Unpriceable, "stated for other neighbours"),
    ],
)
def test_plans_that_a_rule_is_not_about_are_refused(rule, plan, delta, error, why):
    with pytest.raises(error, match=why):
        rule(plan, delta=delta)


def exact_delta(*, epsilon, times, at):
    """The hockey-stick divergence of `times` randomized responses, summed outcome by outcome in mpmath."""
    p = mp.exp(epsilon) / (1 + mp.exp(epsilon))
    total = mp.mpf(0)
    for l in range(times + 1):  # noqa: E741
        loss = (times - 2 * l) * epsilon
        if loss > at:
            total += mp.binomial(times, l) * p ** (times - l) * (1 - p) ** l * (1 - mp.exp(at - loss))
    return total


@pytest.mark.parametrize("times", [1, 3, 101, 400])
@pytest.mark.parametrize("epsilon", [Fraction(1, 100), Fraction(1, 2), Fraction(2)])
@pytest.mark.parametrize("slack", [Fraction(1, 10), MILLIONTH, Fraction(1, 10**14)])
def test_the_optimal_epsilon_is_exact_against_a_sum_over_all_outcomes(times, epsilon, slack):
    found = optimal_epsilon(epsilon=epsilon, times=times, slack=slack)
    with mp.workdps(60):
        e = mp.mpf(epsilon.numerator) / epsilon.denominator
        s = mp.mpf(slack.numerator) / slack.denominator
        at = mp.mpf(found.numerator) / found.denominator
        assert exact_delta(epsilon=e, times=times, at=at) <= s
        if found > 0:
            assert exact_delta(epsilon=e, times=times, at=at - mp.mpf(10) ** -20) > s
    assert found <= times * epsilon


def test_a_delta_in_every_step_is_added_to_what_is_promised():
    steps = [RepeatedMechanism(epsilon=TENTH, delta=Fraction(1, 10**9), times=100)]
    for rule in (advanced, advanced_lecture, advanced_tanh, concentrated):
        assert rule(steps, slack=MILLIONTH).delta == MILLIONTH + Fraction(1, 10**7)
    assert basic(steps).delta == Fraction(1, 10**7)
    # 1 - (1 - delta)**k (1 - slack), which is a little less.
    found = optimal(steps, slack=MILLIONTH)
    assert float(found.delta) == pytest.approx(1 - (1 - 1e-9) ** 100 * (1 - 1e-6), rel=1e-9)
    assert found.epsilon == optimal([RepeatedMechanism(epsilon=TENTH, times=100)], slack=MILLIONTH).epsilon


UNEQUAL = [RepeatedMechanism(epsilon=Fraction(1, 10)), RepeatedMechanism(epsilon=Fraction(1, 5))]


@pytest.mark.parametrize(
    ("rule", "steps", "slack", "error", "why"),
    [
        # e^epsilon - 1 <= 2 epsilon up to 1.25643.
        (
            advanced_lecture,
            [RepeatedMechanism(epsilon=Fraction("1.257"))],
            MILLIONTH,
            Unpriceable,
            r"up to epsilon 1\.256",
        ),
        *((rule, UNEQUAL, MILLIONTH, Unpriceable, "equal steps") for rule in (advanced, advanced_tanh, optimal)),
        *((rule.compute, [], MILLIONTH, InvalidInput, "at least one step") for rule in COMPOSITION_RULES.values()),
        *((concentrated, UNEQUAL, each, InvalidInput, "above 0 and below 1") for each in (Fraction(0), 1, 1e-6)),
        (
            basic,
            [RepeatedMechanism(epsilon=1, delta=Fraction(1, 2), times=2)],
            MILLIONTH,
            Unpriceable,
            "promises nothing",
        ),
        (optimal, [RepeatedMechanism(epsilon=1, times=50_001)], MILLIONTH, Unpriceable, "at most 50000 steps"),
    ],
)
def test_what_a_theorem_is_not_about_is_refused(rule, steps, slack, error, why):
    with pytest.raises(error, match=why):
        rule(steps, slack=slack)


# Rényi curves of events, and what a fixed plan costs by them.

ORDERS = [Fraction(3, 2), Fraction(2), Fraction(5), Fraction(20)]


def drawn_of(event, rate, scheme="without_replacement", neighbours="replace"):
    return SubsampledEvent(event=event, rate=rate, scheme=scheme, neighbours=neighbours)


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
        sampled = drawn_of(event, Fraction(1, 20))
        assert divergence(sampled, order=Fraction(order)) <= inner(order)


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


def test_an_order_between_two_whole_ones_is_priced_at_the_next():
    sampled = drawn_of(GaussianEvent(noise_variance=4), Fraction(1, 20))
    assert divergence(sampled, order=Fraction(5, 2)) == divergence(sampled, order=Fraction(3))
