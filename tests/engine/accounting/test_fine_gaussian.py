"""What discrete Gaussian noise on a fine grid is charged: never less than the divergence of its own law, summed up
cell by cell, and what plans charge is the noise that they draw."""

from __future__ import annotations

import sys
from fractions import Fraction
from math import exp

import numpy as np
import pytest
from mpmath import mp

from releases.engine.accounting import calibration
from releases.engine.accounting.accountant import price
from releases.engine.accounting.calibration import (
    analytic_gaussian_sigma,
    fine_gaussian_budget,
    fine_gaussian_delta,
    fine_gaussian_epsilon,
    fine_gaussian_variance,
    is_finely_given,
    zcdp_budget,
)
from releases.engine.accounting.events import FineDiscreteGaussianEvent
from releases.engine.domain.privacy import ApproxDP
from releases.engine.mechanisms import additive_noise
from releases.engine.mechanisms.base import mechanism, plan_from_json
from releases.engine.noise.randomness import StreamRandomness
from tests.engine.telling import categories, planned, table

EPSILONS = [0.0, 0.05, 0.2, 0.5, 1.0, 1.7, 3.0]
BUDGET = ApproxDP(epsilon=Fraction(1), delta=Fraction(1, 10**9))
UNIT = Fraction(1, 10**12)


def divergence(one, other, epsilon):
    return max(np.maximum(p - exp(epsilon) * q, 0).sum() for p, q in ((one, other), (other, one)))


def law(variance, around, reach):
    places = np.arange(-reach, reach + 1)
    weights = np.exp(-((places - around) ** 2) / (2 * variance))
    return weights / weights.sum()


@pytest.mark.parametrize("moved", [200, 700, 2500, 9000])
def test_a_number_on_a_fine_grid_is_covered_and_hardly_charged_for_more(moved):
    variance = 5 << 20
    assert is_finely_given(variance, coordinates=1)
    one, other = law(variance, 0, 30_000), law(variance, moved, 30_000)
    for epsilon in EPSILONS:
        true = divergence(one, other, epsilon)
        charged = fine_gaussian_delta(noise_variance=Fraction(variance, moved**2), epsilon=Fraction(epsilon))
        assert true <= float(charged) + 1e-12
        assert float(charged) <= true * 1.001 + 1e-12 or not epsilon


@pytest.mark.parametrize("moved", [(1, 0, 0), (2, 0, 0), (3, -3, 0), (5, -3, 1)])
def test_what_a_map_shows_of_three_numbers_is_covered_by_the_part_that_it_shows(monkeypatch, moved):
    """What each is above the mean of all three, in thirds, where a seventh of the variance is given away."""
    variance, reach = 30, 40
    monkeypatch.setattr(calibration, "FINE_PART", Fraction(4, variance))
    assert is_finely_given(variance, coordinates=3)
    places = np.arange(-reach, reach + 1)
    single = np.exp(-(places**2) / (2 * variance))
    masses = np.einsum("i,j,k->ijk", single, single, single)
    masses /= masses.sum()
    numbers = np.stack(np.meshgrid(places, places, places, indexing="ij"))
    laws = []
    for side in (0, 1):
        shown = 3 * (numbers + side * np.array(moved).reshape(3, 1, 1, 1))
        first, second = (shown[i] - shown.sum(axis=0) // 3 for i in (0, 1))
        half = 8 * reach
        laws.append(np.bincount(((first + half) * 1000 + second + half).ravel(), masses.ravel(), 1000 * 1000))
    change = np.array(moved) - np.mean(moved)
    spent = Fraction(float(change @ change)).limit_denominator(1000) / variance
    for epsilon in EPSILONS:
        charged = fine_gaussian_delta(noise_variance=1 / spent, epsilon=Fraction(epsilon))
        assert divergence(*laws, epsilon) <= float(charged) + 1e-9


@pytest.mark.parametrize("coordinates", [1, 2, 1000, 20_000_000])
def test_a_grid_that_is_called_fine_makes_theta_as_small_as_the_proof_asks(coordinates):
    low, high = 0, 1 << 40
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_finely_given(middle, coordinates=coordinates) else (middle, high)
    with mp.workdps(80):
        each = 2 * mp.nsum(lambda n: mp.exp(-2 * mp.pi**2 * mp.mpf(high) / 2**20 * n * n), [1, mp.inf])
        assert (1 + each) ** coordinates - 1 <= mp.mpf(2) ** -102


@pytest.mark.parametrize("epsilon", ["0.001", "0.1", "1", "10"])
@pytest.mark.parametrize("delta", ["1e-9", "1e-5"])
def test_the_budget_is_the_largest_rho_that_fits_and_is_all_but_that_of_normal_noise(epsilon, delta):
    epsilon, delta = Fraction(epsilon), Fraction(delta)
    rho = fine_gaussian_budget(epsilon=epsilon, delta=delta).rho
    assert fine_gaussian_epsilon(noise_variance=fine_gaussian_variance(rho=rho), delta=delta) <= epsilon
    more = fine_gaussian_variance(rho=rho + UNIT)
    assert fine_gaussian_epsilon(noise_variance=more, delta=delta) > epsilon
    normal = 1 / (2 * analytic_gaussian_sigma(epsilon=epsilon, delta=delta) ** 2)
    assert zcdp_budget(epsilon=epsilon, delta=delta).rho < rho < normal
    assert rho > normal * Fraction(9999, 10_000) - 2 * UNIT


def test_one_such_event_alone_is_charged_so():
    event = FineDiscreteGaussianEvent(noise_variance=Fraction(60))
    alone, twice = price([event], delta=BUDGET.delta), price([event, event], delta=BUDGET.delta)
    assert alone.epsilon == fine_gaussian_epsilon(noise_variance=Fraction(60), delta=BUDGET.delta) * 10**12
    assert twice.rho >= 2 * alone.rho - 1
    assert twice.epsilon > alone.epsilon
    assert price([event], delta=Fraction(0)).epsilon is None
    assert fine_gaussian_delta(noise_variance=Fraction(60), epsilon=Fraction(0)) == 1


#: Questions of each mechanism, and the squares of what a row added moves, over the variance of the noise that a run
#: draws, by hand: answers, cells, the residual of one column and the number of rows, cumulative counts, two sums.
FIVE = categories([5], outside="v0")
YES_NO = categories([2] * 10, outside="v0")
NUMBERS = [{"name": name, "type": "integer", "edges": [0, most]} for name, most in (("age", 9), ("income", 100))]
COUNTS = [{"count": {f"c{i}": ["v1"]}} for i in range(10)]


def spent_by(plan, drawn):
    match plan.mechanism:
        case "gaussian-queries" | "gaussian-histogram":
            return 1 / drawn[0]
        case "residual-queries":
            total, column = plan.multipliers
            return (total**2 + column**2 * Fraction(4, 5)) / drawn[0]
        case "gaussian-numbers":
            ages, incomes = drawn
            return 9**2 / ages + 100**2 / incomes
        case "gaussian-cumulative":
            return sum(factor**2 for factor in plan.measures[0].factors) / drawn[0]
    # Ten counts that a row is in k of, priced as if k were any number: what the draw that they share does not hide.
    shared, own, *_ = drawn
    tenths = [Fraction(k, 10) for k in range(101)]
    at = [Fraction(plan.scale**2) * (k - k * k / (own / shared + 10)) / own for k in tenths]
    return max(at)


PLANS = [
    ("gaussian-queries", FIVE, {"marginal": ["c0"]}),
    ("gaussian-histogram", FIVE, {"marginal": ["c0"]}),
    ("residual-queries", FIVE, {"marginal": ["c0"]}),
    ("gaussian-cumulative", FIVE, {"prefix": "c0"}),
    ("correlated-queries", YES_NO, COUNTS),
    ("gaussian-numbers", NUMBERS, {"sum": ["age", "income"]}),
]


@pytest.mark.parametrize(("name", "columns", "queries"), PLANS, ids=[name for name, *_ in PLANS])
def test_a_run_draws_the_noise_that_is_charged_which_is_all_of_the_budget(name, columns, queries, monkeypatch):
    plan = planned(name, columns, queries, budget=BUDGET)
    drawn = []
    module = sys.modules[type(plan).__module__]
    if not hasattr(module, "discrete_gaussian"):
        module = additive_noise

    def recorded(*, variance, size, rng):
        drawn.append(Fraction(variance))
        return np.zeros(size, dtype=np.int64)

    monkeypatch.setattr(module, "discrete_gaussian", recorded)
    plan.run(table(plan, [(0,) * len(columns)] * 7), rng=StreamRandomness(b"noise"))
    (event,) = plan.events
    spent = spent_by(plan, drawn)
    assert spent <= 1 / event.noise_variance
    assert spent >= Fraction(999, 1000) / event.noise_variance
    charged = Fraction(price(plan.events, delta=BUDGET.delta).epsilon, 10**12)
    assert Fraction(9999, 10_000) <= charged <= BUDGET.epsilon


@pytest.mark.parametrize(("name", "columns", "queries"), PLANS, ids=[name for name, *_ in PLANS])
def test_charged_by_rho_it_has_more_noise_and_is_what_it_was(name, columns, queries):
    exact = planned(name, columns, queries, budget=BUDGET)
    by_rho = planned(name, columns, queries, budget=BUDGET, accounting="rho")
    assert by_rho.events[0].kind in {"discrete_gaussian", "projected_discrete_gaussian"}
    if name != "gaussian-histogram":
        assert exact.bound.alpha < by_rho.bound.alpha
    charged = Fraction(price(by_rho.events, delta=BUDGET.delta).epsilon, 10**12)
    assert Fraction(999, 1000) <= charged <= BUDGET.epsilon
    stored = by_rho.to_json()
    stored["options"].pop("accounting")
    assert plan_from_json(stored).events == by_rho.events
    assert mechanism(name).options[-1].before == "rho"
