"""Filters keep their promise against the worst adversary, who is not sampled but computed.

Over a menu of mechanisms, by dynamic programming on (what was run, log-likelihood ratio so far): the largest
hockey-stick divergence that any adaptive strategy reaches before a filter.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from mpmath import mp

from releases.engine.accounting import mixture
from releases.engine.accounting.accountant import Price, price
from releases.engine.accounting.conversions import largest_rho, rho_of_pure
from releases.engine.accounting.events import GaussianEvent
from releases.engine.accounting.filters import Policy, Totals, admits, amounts, report
from releases.engine.accounting.mixture import weights
from tests.engine.accounting.test_filters import ZERO, D, E, approximate, caps, pure

CELL = 0.125  # log-likelihood ratios are whole multiples of this
REACH = 400


@dataclass(frozen=True)
class Mechanism:
    """Outcomes as (probability under P, step of the log ratio in cells; None: seen under P alone), and the price."""

    outcomes: tuple[tuple[float, int | None], ...]
    cost: Price


def randomized_response(cells):
    epsilon = Fraction(cells, 8)
    truth = math.exp(epsilon) / (1 + math.exp(epsilon))
    return Mechanism(outcomes=((truth, cells), (1 - truth, -cells)), cost=pure(epsilon))


def leak(cells, delta):
    """The worst (epsilon, delta)-DP mechanism: with probability delta it tells everything."""
    epsilon = Fraction(cells, 8)
    truth = math.exp(epsilon) / (1 + math.exp(epsilon))
    outcomes = ((delta, None), ((1 - delta) * truth, cells), ((1 - delta) * (1 - truth), -cells))
    return Mechanism(outcomes=outcomes, cost=approximate(epsilon, Fraction(delta)))


def bell(mean_loss, delta):
    """A mechanism with a bell of log ratios, like Gaussian noise, priced by its own rho and epsilon at delta."""
    losses = np.arange(-24, 25) * CELL
    p = np.exp(-(losses**2) / (4 * mean_loss) + losses / 2)
    p /= p.sum()
    q = p * np.exp(-losses)
    assert q.sum() == pytest.approx(1)
    rhos = [
        math.log((p * np.exp((order - 1) * losses)).sum()) / (order - 1) / order
        for order in 1 + np.exp(np.linspace(-8, 5, 800))
    ]
    low, high = 0.0, 3.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        low, high = (middle, high) if np.maximum(p - math.exp(middle) * q, 0).sum() > delta else (low, middle)
    cost = Price(
        pure_epsilon=None,
        epsilon=math.ceil(high * E),
        delta=math.ceil(delta * (1 + 1e-9) * D),
        rho=math.ceil(max(rhos) * (1 + 1e-4) * E),
        rho_delta=0,
    )
    outcomes = tuple((float(one), cell - 24) for cell, one in enumerate(p))
    return Mechanism(outcomes=outcomes, cost=cost)


def worst_delta(
    menu: list[Mechanism], *, epsilon: float, policy: Policy, accepts: Callable[[Totals, Price], bool]
) -> float:
    """sup over adaptive strategies of the hockey-stick divergence at epsilon of everything a filter accepts.

    value(run)[l] is the most that can still be had from likelihood ratio e^l, as a share of the probability under P:
    now (1 - e^(epsilon - l))_+, or the best further mechanism that is accepted.
    """
    ratios = np.arange(-REACH, REACH + 1) * CELL
    stop = np.maximum(0, 1 - np.exp(epsilon - ratios))
    index = np.arange(len(ratios))

    @cache
    def value(run: tuple[int, ...]) -> np.ndarray:
        spent = Totals.of(
            amounts(one.cost, policy=policy) for one, count in zip(menu, run, strict=True) for _ in range(count)
        )
        best = stop
        for choice, one in enumerate(menu):
            if not accepts(spent, one.cost):
                continue
            after = value(tuple(count + (place == choice) for place, count in enumerate(run)))
            gained = np.zeros_like(stop)
            for probability, step in one.outcomes:
                reached = 1.0 if step is None else after[np.clip(index + step, 0, len(index) - 1)]
                gained += probability * reached
            best = np.maximum(best, gained)
        return best

    return float(value((0,) * len(menu))[REACH])


def menu_for(limits):
    delta = limits.delta / D
    largest = largest_rho(epsilon=Fraction(limits.epsilon, E), delta=Fraction(limits.delta, D) * 8 / 10)
    return [randomized_response(2), randomized_response(3), bell(float(largest) / 3, delta / 30), leak(2, delta / 30)]


def worst_under(limits, accepts=None):
    """The worst delta under the concentrated policy at the epsilon of these caps, which decide if nothing else does."""
    return worst_delta(
        menu_for(limits),
        epsilon=limits.epsilon / E,
        policy=Policy.ZCDP,
        accepts=accepts or (lambda spent, cost: admits(spent, cost, limits)),
    )


ARENAS = [
    (Fraction(1), Fraction(3, 10)),
    (Fraction(1, 2), Fraction(1, 5)),
    (Fraction(1), Fraction(1, 20)),
    (Fraction(3, 2), Fraction(1, 10)),
    (Fraction(1, 4), Fraction(1, 2)),
]


@pytest.mark.parametrize(("epsilon", "delta"), ARENAS)
def test_no_adaptive_strategy_breaks_the_promise_of_the_rule_of_before(epsilon, delta):
    assert 0.3 * delta < worst_under(caps(epsilon=epsilon, delta=delta, is_before=True)) <= delta


def test_no_adaptive_strategy_breaks_the_promise_of_the_basic_filters():
    for policy, delta in ((Policy.APPROX, Fraction(1, 10)), (Policy.PURE, Fraction(0))):
        limits = caps(policy, epsilon=1, delta=delta)
        menu = [randomized_response(2), randomized_response(3), leak(2, 0.02), leak(4, 0.05)]
        worst = worst_delta(
            menu, epsilon=1.0, policy=policy, accepts=lambda spent, cost, limits=limits: admits(spent, cost, limits)
        )
        assert worst <= float(delta) + 1e-12
        assert worst >= 0.85 * float(delta)


def test_the_adversary_finds_a_union_whose_branches_each_have_the_whole_delta():
    # Why delta is split: with delta for either branch, leaks are spent in both.
    epsilon, delta = ARENAS[0]
    limits = caps(epsilon=epsilon, delta=delta)
    rho = int(largest_rho(epsilon=epsilon, delta=delta) * E)

    def accepts(spent, cost):
        after = spent.plus(amounts(cost, policy=Policy.ZCDP))
        concentrated = after.spent_rho <= rho and after.spent_rho_delta <= limits.delta
        return concentrated or (after.spent_epsilon <= limits.epsilon and after.spent_delta <= limits.delta)

    assert worst_under(limits, accepts) > delta


MIXED = [(Fraction(3, 2), Fraction(1, 1000)), (Fraction(2), Fraction(1, 10_000)), (Fraction(3), Fraction(1, 10_000))]


@pytest.mark.parametrize(("epsilon", "delta"), [*MIXED, *ARENAS])
def test_no_adaptive_strategy_breaks_the_promise_of_the_mixture(epsilon, delta):
    assert 0.03 * delta < worst_under(caps(epsilon=epsilon, delta=delta)) <= delta


def orders_forgotten(made, sums):
    """An order at which nothing was booked."""
    return made, tuple(0 if place == 20 else each for place, each in enumerate(sums))


def weights_above_one(made, sums):
    return tuple(300 * each for each in made), sums


@pytest.mark.parametrize("spoil", [orders_forgotten, weights_above_one])
def test_the_adversary_finds_weights_above_one_and_an_order_that_was_forgotten(monkeypatch, spoil):
    epsilon, delta = MIXED[0]
    limits = caps(epsilon=epsilon, delta=delta)
    made, _ = spoil(weights(limits.mixture), limits.mixture and (0,) * 41)
    # With another budget's key, so that what is kept for the real weights is neither used nor spoiled.
    rule = mixture.Mixture(epsilon=limits.mixture.epsilon, delta=limits.mixture.delta)
    monkeypatch.setattr(mixture, "_weights", lambda _: made)
    monkeypatch.setattr(
        mixture, "_logarithms", lambda _: np.array([math.log(each) for each in made]) - 100 * math.log(2)
    )

    def accepts(spent, cost):
        after = spent.plus(amounts(cost, policy=Policy.ZCDP))
        if after.spent_rho > E // 2:  # so that a run ends
            return False
        return rule.holds(spoil(made, after.spent_orders)[1]) and after.spent_rho_delta <= limits.delta // 10

    assert worst_under(limits, accepts) > delta


def test_the_adversary_finds_a_filter_with_twice_the_rho():
    epsilon, delta = ARENAS[2]
    limits = caps(epsilon=epsilon, delta=delta, is_before=True)
    doubled = replace(limits, rho=2 * limits.rho)
    assert worst_under(limits, lambda spent, cost: admits(spent, cost, doubled)) > 1.5 * delta


@pytest.mark.parametrize("run", [(3, 0, 0, 0), (1, 1, 1, 1), (0, 0, 2, 1), (4, 2, 0, 0), (0, 3, 1, 2)])
def test_a_report_holds_for_every_strategy_whose_sums_stay_within_what_was_spent(run):
    limits = caps(epsilon=Fraction(3, 2), delta=Fraction(1, 10))
    menu = menu_for(limits)
    spent = Totals.of(
        amounts(one.cost, policy=Policy.ZCDP) for one, count in zip(menu, run, strict=True) for _ in range(count)
    )

    def accepts(so_far, cost):
        return so_far.plus(amounts(cost, policy=Policy.ZCDP)).beyond(spent) == ZERO

    stated = report(spent, limits)
    worst = worst_delta(menu, epsilon=float(stated.epsilon), policy=Policy.ZCDP, accepts=accepts)
    assert worst <= float(stated.delta) + 1e-12


def test_optimal_composition_is_no_filter_a_two_step_strategy_exceeds_delta():
    # A filter by exact composition would accept, after a randomized response of epsilon 0.12, anything whose exact
    # composition with it has delta <= 1e-6 at epsilon 1. Gaussian noise (after the telling answer) and a leak (after
    # the other) both qualify; the strategy that chooses between them after seeing the answer has delta 1.466e-6.
    with mp.workdps(40):
        delta, first = mp.mpf(10) ** -6, mp.mpf("0.12")
        telling = mp.exp(first) / (1 + mp.exp(first))

        def normal(m, epsilon):
            return mp.ncdf(m / 2 - epsilon / m) - mp.exp(epsilon) * mp.ncdf(-m / 2 - epsilon / m)

        def with_gaussian(m):
            return telling * normal(m, 1 - first) + (1 - telling) * normal(m, 1 + first)

        m = mp.mpf("0.21704818726247954")  # largest with with_gaussian(m) <= delta, rounded down
        assert with_gaussian(m) <= delta < with_gaussian(m + mp.mpf(10) ** -12)
        # Randomized response alone has delta 0 at epsilon 1, so a leak of 1e-6 brings exactly that.
        either_path = max(with_gaussian(m), delta)
        together = telling * normal(m, 1 - first) + (1 - telling) * delta
        assert either_path <= delta
        assert together > mp.mpf("1.46e-6")

    # Our filters refuse the Gaussian path: its price beside epsilon 0.12 does not fit (1, 1e-6).
    spent = ZERO.plus(amounts(pure("12/100"), policy=Policy.ZCDP))
    variance = 1 / Fraction(float(m)) ** 2
    noise_cost = price([GaussianEvent(noise_variance=variance)], delta=Fraction(1, 10**7))
    assert not admits(spent, noise_cost, caps())
    assert Fraction(spent.spent_rho, E) >= rho_of_pure(epsilon=Fraction(12, 100))
