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

from releases.engine.accounting.accountant import Price
from releases.engine.accounting.conversions import largest_rho
from releases.engine.accounting.filters import Policy, Totals, admits, amounts, report
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


def worst_under(limits, deciding=None):
    """The worst delta at the epsilon of these caps, which decide what is accepted unless other ones do."""
    return worst_delta(
        menu_for(limits),
        epsilon=limits.epsilon / E,
        policy=Policy.ZCDP,
        accepts=lambda spent, cost: admits(spent, cost, deciding or limits),
    )


ARENAS = [(Fraction(1), Fraction(1, 20)), (Fraction(3, 2), Fraction(1, 10)), (Fraction(1, 4), Fraction(1, 2))]


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


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(Fraction(3, 2), Fraction(1, 1000)), (Fraction(3), Fraction(1, 10_000)), *ARENAS]
)
def test_no_adaptive_strategy_breaks_the_promise_of_the_mixture(epsilon, delta):
    assert 0.03 * delta < worst_under(caps(epsilon=epsilon, delta=delta)) <= delta


def test_the_adversary_finds_a_filter_with_twice_the_rho():
    epsilon, delta = ARENAS[0]
    limits = caps(epsilon=epsilon, delta=delta, is_before=True)
    doubled = replace(limits, rho=2 * limits.rho)
    assert worst_under(limits, deciding=doubled) > 1.5 * delta


@pytest.mark.parametrize("run", [(3, 0, 0, 0), (1, 1, 1, 1), (0, 3, 1, 2)])
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
