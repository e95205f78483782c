"""Prices: exact where they are rational, never below what the mechanisms really spend, and refused when unproved."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp

from releases.engine.accounting.accountant import Price, forms, price, require_relation
from releases.engine.accounting.conversions import epsilon_of_rho, rho_of_laplace, rho_of_pure
from releases.engine.accounting.events import (
    AboveThresholdEvent,
    ApproximateEvent,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    Event,
    ExponentialMechanismEvent,
    GaussianEvent,
    GroupedEvent,
    LaplaceEvent,
    ParallelEvent,
    PermuteAndFlipEvent,
    PureAndConcentratedEvent,
    PureEvent,
    RandomizedResponseEvent,
    RepeatedEvent,
    ReportNoisyMaxEvent,
    SparseVectorEvent,
    SubsampledEvent,
    WeightedDiscreteLaplaceEvent,
)
from releases.engine.domain.privacy import NeighbouringRelation
from releases.engine.errors import InvalidInput, Unpriceable

HALF, MILLIONTH = Fraction(1, 2), Fraction(1, 10**6)
TENTH = Fraction(1, 10)
EPSILON_UNITS = 10**12
DELTA_UNITS = 10**18


def times(event, count):
    return RepeatedEvent(event=event, times=count)


def hockey_stick(p, q, epsilon):
    return np.maximum(p - math.exp(epsilon) * q, 0).sum()


def test_every_amount_is_rounded_up():
    found = price([LaplaceEvent(noise_multiplier=3)], delta=Fraction(0))
    assert found.pure_epsilon == 333_333_333_334
    # Rounded once: three times a third is exactly 1, which a budget of 1 allows.
    three = price([LaplaceEvent(noise_multiplier=3)] * 3, delta=Fraction(0))
    assert (three.pure_epsilon, three.epsilon, three.delta) == (EPSILON_UNITS, EPSILON_UNITS, 0)
    with mp.workdps(40):
        third = mp.mpf(1) / 3
        assert 0 < found.rho - (third + mp.exp(-third) - 1) * EPSILON_UNITS < 1
    assert price([GaussianEvent(noise_variance=3)], delta=Fraction(0)).rho == 166_666_666_667
    tiny = price([ApproximateEvent(epsilon=1, delta=Fraction(1, 3 * 10**18))], delta=Fraction(1, 10**18))
    assert (tiny.delta, tiny.rho_delta) == (1, 1)


def test_a_release_with_a_delta_to_spare_spends_it_only_where_it_helps():
    one = price([PureEvent(epsilon=1)], delta=MILLIONTH)
    assert (one.epsilon, one.delta) == (EPSILON_UNITS, 0)
    many = price([times(PureEvent(epsilon=TENTH), 1000)], delta=MILLIONTH)
    assert many.pure_epsilon == 100 * EPSILON_UNITS
    assert many.epsilon < many.pure_epsilon
    assert many.delta == 10**12


def test_one_dear_event_among_many_cheap_ones_is_added_and_the_rest_converted():
    cheap, dear = times(PureEvent(epsilon=TENTH), 300), PureEvent(epsilon=5)
    together = price([cheap, dear], delta=MILLIONTH)
    alone = epsilon_of_rho(rho=300 * rho_of_pure(epsilon=TENTH), delta=MILLIONTH)
    assert together.epsilon == math.ceil((alone + 5) * EPSILON_UNITS)
    assert together.epsilon < 35 * EPSILON_UNITS


OF_COINS = 0.5 * math.tanh(0.25)
TWO_PARTS = {"epsilon_threshold": Fraction(1, 4), "epsilon_queries": HALF, "answers": 5}


@pytest.mark.parametrize(
    ("event", "epsilon", "rho"),
    [
        (LaplaceEvent(noise_multiplier=2), 0.5, 0.5 + math.exp(-0.5) - 1),
        (DiscreteLaplaceEvent(noise_multiplier=2), 0.5, OF_COINS),
        (WeightedDiscreteLaplaceEvent(noise_multiplier=2), 0.5, OF_COINS),
        (ExponentialMechanismEvent(epsilon=HALF), 0.5, 0.25 / 8),
        *((kind(epsilon=HALF), 0.5, OF_COINS) for kind in (ReportNoisyMaxEvent, PermuteAndFlipEvent)),
        *((kind(epsilon=HALF), 0.5, OF_COINS) for kind in (AboveThresholdEvent, PureEvent)),
        (PureAndConcentratedEvent(epsilon=HALF, rho=Fraction(1, 16)), 0.5, 1 / 16),
        (PureAndConcentratedEvent(epsilon=HALF, rho=Fraction(1)), 0.5, OF_COINS),
        (RandomizedResponseEvent(epsilon=HALF, categories=4), 0.5, 0.5 * (math.exp(0.5) - 1) / (math.exp(0.5) + 3)),
        (
            SparseVectorEvent(**TWO_PARTS, epsilon_answers=Fraction(1, 4)),
            1.0,
            0.75 * math.tanh(0.375) + 0.25 * math.tanh(0.025),
        ),
        (SparseVectorEvent(**TWO_PARTS, epsilon_answers=Fraction(0)), 0.75, 0.75 * math.tanh(0.375)),
        (times(PureEvent(epsilon=HALF), 4), 2.0, 2 * math.tanh(0.25)),
    ],
    ids=lambda value: getattr(value, "kind", None),
)
def test_each_pure_kind_has_its_epsilon_and_its_least_proved_rho(event, epsilon, rho):
    found = price([event], delta=Fraction(0))
    assert found.pure_epsilon == pytest.approx(epsilon * EPSILON_UNITS, abs=1)
    assert 0 <= found.rho - rho * EPSILON_UNITS < 2
    assert found.rho_delta == 0


def test_an_approximate_event_has_its_delta_in_every_form_and_no_form_at_a_smaller_one():
    event = ApproximateEvent(epsilon=HALF, delta=MILLIONTH)
    found = price([event], delta=MILLIONTH)
    assert (found.pure_epsilon, found.epsilon, found.delta) == (None, EPSILON_UNITS // 2, 10**12)
    assert found.rho_delta == 10**12
    assert found.rho == pytest.approx(OF_COINS * EPSILON_UNITS, abs=1)
    assert price([times(event, 3)], delta=3 * MILLIONTH).delta == 3 * 10**12
    less = price([times(event, 3)], delta=2 * MILLIONTH)
    assert (less.epsilon, less.rho_delta) == (None, 3 * 10**12)
    with pytest.raises(Unpriceable, match="add up to 1 or more"):
        price([times(ApproximateEvent(epsilon=1, delta=HALF), 2)], delta=Fraction(9, 10))


def test_the_events_own_deltas_are_taken_from_what_the_conversion_may_use():
    plan = [times(ApproximateEvent(epsilon=TENTH, delta=Fraction(1, 10**9)), 500)]
    spare = MILLIONTH - 500 * Fraction(1, 10**9)
    found = price(plan, delta=MILLIONTH)
    converted = epsilon_of_rho(rho=500 * rho_of_pure(epsilon=TENTH), delta=spare)
    assert found.epsilon == math.ceil(converted * EPSILON_UNITS)
    assert (found.delta, found.rho_delta) == (10**12, 5 * 10**11)


PARTS = (
    DiscreteLaplaceEvent(noise_multiplier=2),
    PureEvent(epsilon=Fraction(3, 10)),
    DiscreteLaplaceEvent(noise_multiplier=10),
)


def test_a_unit_that_moves_between_parts_really_spends_what_two_parts_cost():
    # Randomized response on whether each of three parts is empty; one person moves from the first to the second.
    def law(truths, epsilons):
        laws = []
        for outcome in itertools.product((0, 1), repeat=3):
            one = 1.0
            for told, true, epsilon in zip(outcome, truths, epsilons, strict=True):
                odds = math.exp(epsilon)
                one *= (odds if told == true else 1) / (1 + odds)
            laws.append(one)
        return np.array(laws)

    epsilons = (0.5, 0.3, 0.1)
    moved = np.log(law((1, 0, 0), epsilons) / law((0, 1, 0), epsilons)).max()
    joined = np.log(law((1, 0, 0), epsilons) / law((0, 0, 0), epsilons)).max()
    assert joined == pytest.approx(float(forms(ParallelEvent(events=PARTS, neighbours="add_remove")).epsilon))
    assert moved == pytest.approx(float(forms(ParallelEvent(events=PARTS, neighbours="replace")).epsilon))
    assert moved > joined


def test_parallel_parts_of_different_kinds_take_the_worst_of_each_form():
    parts = (
        GaussianEvent(noise_variance=50),
        ApproximateEvent(epsilon=1, delta=MILLIONTH),
        ApproximateEvent(epsilon=HALF, delta=2 * MILLIONTH),
    )
    one = forms(ParallelEvent(events=parts, neighbours="add_remove"))
    two = forms(ParallelEvent(events=parts, neighbours="replace"))
    assert (one.epsilon, one.rho, one.delta) == (None, rho_of_pure(epsilon=Fraction(1)), 2 * MILLIONTH)
    assert two.delta == 3 * MILLIONTH
    assert two.rho == rho_of_pure(epsilon=Fraction(1)) + rho_of_pure(epsilon=HALF)


def test_a_group_pays_its_size_in_epsilon_and_its_square_in_rho():
    pure = forms(GroupedEvent(event=PureEvent(epsilon=TENTH), size=5))
    assert pure.epsilon == HALF
    assert pure.rho == rho_of_pure(epsilon=HALF) <= 25 * rho_of_pure(epsilon=TENTH)
    gaussian = forms(GroupedEvent(event=DiscreteGaussianEvent(noise_variance=100), size=5))
    assert (gaussian.epsilon, gaussian.rho) == (None, Fraction(25, 200))
    choice = forms(GroupedEvent(event=ExponentialMechanismEvent(epsilon=TENTH), size=5))
    assert choice.rho == Fraction(1, 4) / 8
    laplace = forms(GroupedEvent(event=LaplaceEvent(noise_multiplier=10), size=5))
    assert rho_of_laplace(epsilon=HALF) <= laplace.rho <= rho_of_pure(epsilon=HALF)


def sampled(event, rate, scheme="poisson", neighbours="add_remove"):
    return forms(SubsampledEvent(event=event, rate=rate, scheme=scheme, neighbours=neighbours))


def test_a_sample_amplifies_epsilon_and_delta_but_not_a_gaussians_rho():
    pure = sampled(ApproximateEvent(epsilon=1, delta=MILLIONTH), TENTH, "without_replacement", "replace")
    assert float(pure.epsilon) == pytest.approx(math.log(1 + (math.e - 1) / 10), abs=1e-15)
    assert pure.delta == MILLIONTH / 10
    gaussian = GaussianEvent(noise_variance=4)
    assert sampled(gaussian, TENTH) == forms(gaussian)
    # At so high a rate the choice's own bounded range says more than its amplified epsilon.
    choice = ExponentialMechanismEvent(epsilon=2)
    assert sampled(choice, Fraction(99, 100)).rho == forms(choice).rho


class NovelEvent(Event):
    __slots__ = ()
    kind = "novel"


class Cheaper(LaplaceEvent):
    """What is made of a kind with a price has none of its own."""

    __slots__ = ()


def test_an_event_without_an_entry_here_is_refused():
    with pytest.raises(Unpriceable, match="No price is known for events of kind 'novel'"):
        price([NovelEvent()], delta=Fraction(0))
    for event in (times(NovelEvent(), 3), "laplace", Cheaper(noise_multiplier=3), Event()):
        with pytest.raises(Unpriceable, match="No price is known"):
            price([event], delta=Fraction(0))


@pytest.mark.parametrize("delta", [Fraction(-1, 10), Fraction(1), 1e-6, True, None])
def test_a_delta_that_is_no_exact_probability_is_refused_and_so_is_an_empty_plan(delta):
    with pytest.raises(InvalidInput, match="must be an exact rational, at least 0 and below 1"):
        price([PureEvent(epsilon=1)], delta=delta)
    with pytest.raises(InvalidInput, match="at least one event"):
        price([], delta=Fraction(0))


def test_events_stated_for_another_relation_are_refused():
    parallel = ParallelEvent(events=PARTS, neighbours="add_remove")
    relation = NeighbouringRelation.REPLACE
    with pytest.raises(Unpriceable, match="stated for other neighbours than replace"):
        price([PureEvent(epsilon=1), times(parallel, 2)], delta=Fraction(0), neighbours=relation)
    assert price([parallel], delta=Fraction(0), neighbours=NeighbouringRelation.ADD_REMOVE).pure_epsilon
    require_relation([PureEvent(epsilon=1)], neighbours=relation)


@pytest.mark.parametrize(
    ("field", "values"),
    [("pure_epsilon", (0, -1)), ("epsilon", (1.5, True)), ("rho", (0,)), ("delta", (-1,)), ("rho_delta", (0.5,))],
)
def test_a_price_of_nothing_a_negative_or_a_broken_one_cannot_be_made(field, values):
    given_ = {"pure_epsilon": 1, "epsilon": 1, "delta": 0, "rho": 1, "rho_delta": 0}
    for value in values:
        with pytest.raises(InvalidInput, match="must be a whole number of units"):
            Price(**{**given_, field: value})
    with pytest.raises(Unpriceable, match="at least one form"):
        Price(pure_epsilon=None, epsilon=None, delta=0, rho=None, rho_delta=0)


@given(
    epsilons=st.lists(st.sampled_from([Fraction(1, 10), Fraction(1, 4), HALF, Fraction(1)]), min_size=1, max_size=8),
    leaks=st.integers(0, 2),
    delta=st.sampled_from([Fraction(1, 50), Fraction(1, 10)]),
)
@settings(max_examples=40)
def test_no_price_is_below_the_hockey_stick_of_randomized_responses_with_leaks(epsilons, leaks, delta):
    # The worst mechanisms there are: each tells everything with probability 1/200, or answers by its odds.
    leak = Fraction(1, 200)
    plan: list[Event] = [PureEvent(epsilon=epsilon) for epsilon in epsilons]
    plan += [ApproximateEvent(epsilon=TENTH, delta=leak)] * leaks
    p, q = np.ones(1), np.ones(1)
    for epsilon in [*epsilons, *[TENTH] * leaks]:
        odds = math.exp(epsilon)
        p = np.concatenate([p * odds, p]) / (1 + odds)
        q = np.concatenate([q, q * odds]) / (1 + odds)
    told = 1 - (1 - float(leak)) ** leaks
    found = price(plan, delta=delta)
    if found.epsilon is not None:
        spent = told + (1 - told) * hockey_stick(p, q, found.epsilon / EPSILON_UNITS)
        assert spent <= found.delta / DELTA_UNITS + 1e-12
