"""Figures for fixed plans: every known number, each proved or on the safe side of an independent one."""

from __future__ import annotations

from fractions import Fraction
from functools import partial

import pytest

from releases.engine.accounting.composition import Question
from releases.engine.accounting.events import (
    ApproximateEvent,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    ExponentialMechanismEvent,
    GaussianEvent,
    LaplaceEvent,
    ParallelEvent,
    PureEvent,
    RepeatedEvent,
)
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
    assert found.question is Question.PLANNED
    assert found.delta == MILLIONTH
    assert -1e-9 <= float(found.epsilon) - true <= allowance


def test_the_privacy_loss_distribution_is_never_below_dp_accountings_own_at_the_same_grid():
    import dp_accounting
    from dp_accounting import pld

    accountant = pld.PLDAccountant(
        dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE, value_discretization_interval=1e-4
    )
    accountant.compose(
        dp_accounting.ComposedDpEvent(
            [
                dp_accounting.SelfComposedDpEvent(dp_accounting.LaplaceDpEvent(10.0), 300),
                dp_accounting.SelfComposedDpEvent(dp_accounting.GaussianDpEvent(100.0), 700),
            ]
        )
    )
    assert float(loss_distribution(MIXED, delta=MILLIONTH).epsilon) >= accountant.get_epsilon(1e-6)


def test_a_plan_is_listed_with_every_figure_the_least_first():
    figures = planned(LAPLACES, delta=MILLIONTH)
    epsilons = [figure.epsilon for figure in figures]
    assert epsilons == sorted(epsilons)
    assert len(figures) == 4
    assert figures[0].source.startswith("Koskela")
    assert {rule.question for rule in PLANNING_RULES.values()} == {Question.PLANNED}


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
        (loss_distribution, [times(LEAKY, 100)], MILLIONTH, Unpriceable, ""),
        (loss_distribution, [], MILLIONTH, InvalidInput, "at least one event"),
        (planned, [], MILLIONTH, InvalidInput, "at least one event"),
        (planned, GAUSSIANS, Fraction(0), Unpriceable, "Nothing is proved about this plan"),
        (partial(planned, neighbours=ADD_REMOVE), [REPLACED], MILLIONTH, Unpriceable, "stated for other neighbours"),
    ],
)
def test_plans_that_a_rule_is_not_about_are_refused(rule, plan, delta, error, why):
    with pytest.raises(error, match=why):
        rule(plan, delta=delta)
