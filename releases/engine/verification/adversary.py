"""An adversary who mixes kinds of releases before the budget's rule, computed and not sampled.

The menu holds randomized response, a bell of privacy losses like that of Gaussian noise, and a leak. By dynamic
programming over what was run and the likelihood ratio so far: the largest delta at epsilon_B that any adaptive strategy
reaches. Losses are whole cells, so nothing is rounded but floats, and the bell's rho is found from its law. No formula
of the filter is used.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, partial

import numpy as np
from numpy.typing import NDArray

from releases.engine.accounting import mixture
from releases.engine.accounting.accountant import DELTA_PLACES, EPSILON_PLACES, Price
from releases.engine.accounting.filters import Caps, Policy, Totals, admits, amounts

_CELL, _REACH = 0.125, 400
_BUDGETS = ((Fraction(3, 2), Fraction(1, 1000)), (Fraction(2), Fraction(1, 10_000)), (Fraction(3), Fraction(1, 10_000)))
#: So that a strategy against a spoiled rule ends: more rho than this nobody needs to break it.
_MAX_RHO = 10**EPSILON_PLACES // 2


@dataclass(frozen=True, kw_only=True, slots=True)
class StrategySeen:
    """The worst strategy against one rule.

    Attributes:
        rule: whose; as installed, or how it was spoiled.
        epsilon, delta: the budget.
        reached: the largest delta.
    """

    rule: str
    epsilon: Fraction
    delta: Fraction
    reached: float

    @property
    def is_as_it_should_be(self) -> bool:
        return (self.reached <= self.delta) == (self.rule == "as installed")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Release:
    """Outcomes as (probability, cells by which the log ratio moves; None: seen under one of the tables alone)."""

    outcomes: tuple[tuple[float, int | None], ...]
    price: Price


def _admits(caps: Caps, spent: Totals, price: Price) -> bool:
    return admits(spent, price, caps)


def strategies_seen() -> Iterator[StrategySeen]:
    """Ours for each budget, and for one of them two spoiled rules, which must be seen to break."""
    for epsilon, delta in _BUDGETS:
        caps = Caps.of(Policy.ZCDP, epsilon=epsilon, delta=delta)
        yield _seen("as installed", epsilon, delta, partial(_admits, caps))
    epsilon, delta = _BUDGETS[0]
    caps = Caps.of(Policy.ZCDP, epsilon=epsilon, delta=delta)
    rule = caps.mixture
    assert rule is not None
    # The sum of the weights counts as delta does: three hundred times the one is three hundred times the other.
    heavy = mixture.MixtureRule(epsilon=rule.epsilon, delta=300 * rule.delta)
    yield _seen("weights that add up to 300", epsilon, delta, _by(lambda sums: heavy.holds(sums)))
    forgotten = len(mixture.ORDERS) // 2
    yield _seen(
        "an order that is never booked",
        epsilon,
        delta,
        _by(lambda sums: rule.holds((*sums[:forgotten], 0, *sums[forgotten + 1 :]))),
    )


def _by(holds: Callable[[tuple[int, ...]], bool]) -> Callable[[Totals, Price], bool]:
    def accepts(spent: Totals, price: Price) -> bool:
        after = spent.plus(amounts(price, policy=Policy.ZCDP))
        return after.spent_rho <= _MAX_RHO and not after.spent_rho_delta and holds(after.spent_orders)

    return accepts


def _seen(rule: str, epsilon: Fraction, delta: Fraction, accepts: Callable[[Totals, Price], bool]) -> StrategySeen:
    menu = [_response(2), _response(4), _bell(float(epsilon) ** 2 / 120), _leak(2, float(delta) / 30)]
    return StrategySeen(rule=rule, epsilon=epsilon, delta=delta, reached=_worst(menu, float(epsilon), accepts))


def _worst(menu: list[_Release], epsilon: float, accepts: Callable[[Totals, Price], bool]) -> float:
    """The most that is to be had from each ratio: now (1 - e^(epsilon - loss))_+, or from the best further release."""
    ratios = np.arange(-_REACH, _REACH + 1) * _CELL
    stop: NDArray[np.float64] = np.maximum(0.0, 1 - np.exp(epsilon - ratios))
    index = np.arange(len(ratios))

    @cache
    def value(run: tuple[int, ...]) -> NDArray[np.float64]:
        spent = Totals.of(
            amounts(one.price, policy=Policy.ZCDP).times(count) for one, count in zip(menu, run, strict=True)
        )
        best = stop
        for choice, one in enumerate(menu):
            if not accepts(spent, one.price):
                continue
            after = value(tuple(count + (place == choice) for place, count in enumerate(run)))
            gained = np.zeros_like(stop)
            for probability, step in one.outcomes:
                gained += probability * (1.0 if step is None else after[np.clip(index + step, 0, len(index) - 1)])
            best = np.maximum(best, gained)
        return best

    return float(value((0,) * len(menu))[_REACH])


def _truth(cells: int) -> float:
    return 1 / (1 + math.exp(-cells * _CELL))


def _response(cells: int) -> _Release:
    units = round(cells * _CELL * 10**EPSILON_PLACES)
    # epsilon tanh(epsilon/2), rounded up by far more than a float's error.
    rho = math.ceil(cells * _CELL * math.tanh(cells * _CELL / 2) * 10**EPSILON_PLACES * (1 + 1e-9))
    price = Price(pure_epsilon=units, epsilon=units, delta=0, rho=rho, rho_delta=0)
    return _Release(outcomes=((_truth(cells), cells), (1 - _truth(cells), -cells)), price=price)


def _leak(cells: int, delta: float) -> _Release:
    """Randomized response that tells everything with probability delta."""
    inner = _response(cells)
    outcomes = ((delta, None), *((probability * (1 - delta), step) for probability, step in inner.outcomes))
    units = math.ceil(delta * 10**DELTA_PLACES * (1 + 1e-9))
    epsilon = inner.price.epsilon
    price = Price(pure_epsilon=None, epsilon=epsilon, delta=units, rho=inner.price.rho, rho_delta=units)
    return _Release(outcomes=outcomes, price=price)


def _bell(mean_loss: float) -> _Release:
    losses = np.arange(-24, 25) * _CELL
    law = np.exp(-(losses**2) / (4 * mean_loss) + losses / 2)
    law /= law.sum()
    orders = 1 + np.exp(np.linspace(-8, 9, 1200))
    largest = losses[-1]
    moments = [
        (np.log((law * np.exp((order - 1) * (losses - largest))).sum()) / (order - 1) + largest) / order
        for order in orders
    ]
    rho = math.ceil(float(max(moments)) * (1 + 1e-4) * 10**EPSILON_PLACES)
    price = Price(pure_epsilon=None, epsilon=None, delta=0, rho=rho, rho_delta=0)
    outcomes = tuple((float(one), cell - 24) for cell, one in enumerate(law))
    return _Release(outcomes=outcomes, price=price)
