"""Figures for fixed plans: every known number, each proved or on the safe side of an independent one."""

from __future__ import annotations

from fractions import Fraction

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


@pytest.mark.parametrize(
    ("plan", "rule", "true", "allowance"),
    [
        # `true` is the exact figure, or dp-accounting's at a grid ten times finer; ours is above, by the allowance.
        (LAPLACES, loss_distribution, 18.95028737, 3e-6),
        (GAUSSIANS, loss_distribution, 1.3675714751, 2e-5),
        (GAUSSIANS, exact_gaussian, 1.3675714750842936, 1e-11),
        (MIXED, loss_distribution, 9.126530, 1e-5),
        (MIXED, renyi, 9.692587, 1e-5),
        ([times(PureEvent(epsilon=TENTH), 1000)], exact_pure, 19.344671447993, 1e-11),
        ([times(PureEvent(epsilon=TENTH), 1000)], loss_distribution, 19.344671447993, 3e-6),
        # Discrete Laplace noise on counts is randomized response in its privacy loss.
        ([times(DiscreteLaplaceEvent(noise_multiplier=10), 1000)], exact_pure, 19.344671447993, 1e-11),
        ([times(DiscreteLaplaceEvent(noise_multiplier=10), 1000)], loss_distribution, 19.344671447993, 3e-6),
    ],
)
def test_each_rule_gives_the_known_figure_on_the_safe_side(plan, rule, true, allowance):
    found = rule(plan, delta=MILLIONTH)
    assert found.question is Question.PLANNED
    assert found.delta == MILLIONTH
    assert -1e-9 <= float(found.epsilon) - true <= allowance


def test_a_thousand_choices_by_the_exponential_mechanism_cost_less_than_half_of_any_pure_ones():
    plan = [times(ExponentialMechanismEvent(epsilon=TENTH), 1000)]
    assert float(summed(plan, delta=MILLIONTH).epsilon) == pytest.approx(8.846, abs=1e-3)


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


def library_epsilon(delta):
    """dp-accounting's epsilon of a thousand mechanisms of epsilon 0.1, without our allowances."""
    from dp_accounting.pld import common, privacy_loss_distribution

    one = privacy_loss_distribution.from_privacy_parameters(
        common.DifferentialPrivacyParameters(0.1, 0.0), value_discretization_interval=1e-4
    )
    return one.self_compose(1000).get_epsilon_for_delta(float(delta))


def test_the_allowances_are_taken_in_full():
    plan = [times(PureEvent(epsilon=TENTH), 1000)]
    asked = library_epsilon(MILLIONTH - Fraction(1, 10**12))
    assert float(loss_distribution(plan, delta=MILLIONTH).epsilon) == pytest.approx(asked + 1e-6, abs=2e-12)
    assert asked > library_epsilon(MILLIONTH)


def test_repetitions_of_repetitions_multiply():
    nested = [times(times(PureEvent(epsilon=TENTH), 10), 100)]
    flat = [times(PureEvent(epsilon=TENTH), 1000)]
    for rule in PLANNING_RULES.values():
        if rule.name != "exact_gaussian":
            assert rule.compute(nested, delta=MILLIONTH) == rule.compute(flat, delta=MILLIONTH)
    gaussians = [times(times(GaussianEvent(noise_variance=10_000), 10), 100)]
    assert exact_gaussian(gaussians, delta=MILLIONTH) == exact_gaussian(GAUSSIANS, delta=MILLIONTH)


def test_discrete_gaussian_noise_is_priced_by_its_rho_in_a_plan_too():
    # dp-accounting's distribution of it, 1.4176 at a grid of 1e-4, is for one dimension and has no tight grid.
    plan = [times(DiscreteGaussianEvent(noise_variance=10_000), 1000)]
    assert float(summed(plan, delta=MILLIONTH).epsilon) == pytest.approx(1.47159, abs=1e-5)
    with pytest.raises(Unpriceable, match="No privacy loss distribution"):
        loss_distribution(plan, delta=MILLIONTH)
    with pytest.raises(Unpriceable, match="continuous Gaussian noise alone"):
        exact_gaussian(plan, delta=MILLIONTH)


def test_a_plan_is_listed_with_every_figure_the_least_first():
    figures = planned(LAPLACES, delta=MILLIONTH)
    epsilons = [figure.epsilon for figure in figures]
    assert epsilons == sorted(epsilons)
    assert len(figures) == 4
    assert figures[0].source.startswith("Koskela")
    assert {rule.question for rule in PLANNING_RULES.values()} == {Question.PLANNED}


def test_without_a_delta_epsilons_add_up_and_gaussian_noise_has_nothing_to_say():
    (figure,) = planned([LaplaceEvent(noise_multiplier=3)] * 3, delta=Fraction(0))
    assert (figure.epsilon, figure.delta) == (1, 0)
    with pytest.raises(Unpriceable, match="Nothing is proved about this plan"):
        planned(GAUSSIANS, delta=Fraction(0))


def test_loss_distributions_are_not_trusted_for_tiny_deltas_but_the_plan_is_still_priced():
    with pytest.raises(Unpriceable, match="below 1e-10"):
        loss_distribution(LAPLACES, delta=Fraction(1, 10**11))
    assert planned([LaplaceEvent(noise_multiplier=10)], delta=Fraction(1, 10**15))[0].epsilon <= TENTH


def test_a_few_steps_are_never_dearer_than_basic_composition():
    # dp-accounting answers infinity for ten pure mechanisms at such a delta.
    plan = [times(PureEvent(epsilon=TENTH), 10)]
    assert planned(plan, delta=Fraction(1, 10**15))[0].epsilon <= 1


def test_an_events_own_delta_is_part_of_the_distribution():
    plan = [times(ApproximateEvent(epsilon=TENTH, delta=Fraction(1, 10**8)), 10)]
    assert loss_distribution(plan, delta=MILLIONTH).epsilon < 1 + MILLIONTH
    with pytest.raises(Unpriceable):
        loss_distribution(plan, delta=Fraction(1, 10**8))


def test_plans_that_a_rule_is_not_about_are_refused():
    many = [PureEvent(epsilon=Fraction(index, 10**5)) for index in range(1, 202)]
    for rule, plan, why in (
        (exact_pure, [PureEvent(epsilon=1), PureEvent(epsilon=2)], "equal epsilons"),
        (exact_pure, [ApproximateEvent(epsilon=1, delta=MILLIONTH)], "pure events"),
        (exact_pure, GAUSSIANS, "pure events"),
        (loss_distribution, many, "at most 200 events"),
    ):
        with pytest.raises(Unpriceable, match=why):
            rule(plan, delta=MILLIONTH)
    for rule in (planned, loss_distribution):
        with pytest.raises(InvalidInput, match="at least one event"):
            rule([], delta=MILLIONTH)
    replaced = [ParallelEvent(events=(PureEvent(epsilon=1),), neighbours="replace")]
    with pytest.raises(Unpriceable, match="stated for other neighbours"):
        planned(replaced, delta=MILLIONTH, neighbours=NeighbouringRelation.ADD_REMOVE)


def test_a_wide_plan_gets_a_coarser_grid_and_stays_on_the_safe_side():
    plan = [times(LaplaceEvent(noise_multiplier=Fraction(1, 2)), 1000)]
    found = loss_distribution(plan, delta=MILLIONTH)
    assert 1300 < found.epsilon < summed(plan, delta=MILLIONTH).epsilon
    assert _cell(LAPLACES) == 1e-4 < _cell(plan)
