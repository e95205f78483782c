"""What a budget lets in: random sequences of Laplace and Gaussian releases, under one rule after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import numpy as np

from benchmarks.tables import BenchRow, BenchTable
from releases.engine.accounting.accountant import Price, price
from releases.engine.accounting.conversions import largest_rho
from releases.engine.accounting.events import GaussianEvent, PureEvent
from releases.engine.accounting.filters import Caps, Policy, Totals, admits, amounts, remaining
from releases.engine.noise.randomness import StreamRandomness, uniform_below

SEQUENCES, LENGTH = 200, 60
DELTA = Fraction(1, 10**6)
#: Of a Gaussian release, the delta at which its size is an epsilon: the default of a draft.
OWN_DELTA = DELTA / 1000
BUDGETS = (4, 10)
#: Total rho of Gaussian releases alone under the rule of before, of which 95% are asked for; how many Laplace releases
#: of 1 come first, and how much rho is to fit after them.
ALONE = {4: 0.306009, 10: 1.519053}
AFTER = {4: (2, 0.077), 10: (3, 0.766)}


@dataclass(frozen=True, kw_only=True)
class PricedRelease:
    """One release: its size, whether its noise is Laplace noise, and its price."""

    size: Fraction
    is_pure: bool
    price: Price


def tables() -> Iterator[BenchTable]:
    yield accepted_totals()
    yield room_for_noise()


def accepted_totals(*, sequences: int = SEQUENCES, length: int = LENGTH) -> BenchTable:
    """The sizes of what each rule accepts of the same sequences, on average."""
    rows = []
    for epsilon in BUDGETS:
        asked = [_sequence(number, length) for number in range(sequences)]
        rules: dict[str, Callable[[list[PricedRelease]], list[PricedRelease]]] = {
            "plain addition, all of delta": partial(_accepted, caps=_caps(epsilon, policy=Policy.APPROX)),
            "before": partial(_accepted, caps=_caps(epsilon, is_before=True)),
            "mixture": partial(_accepted, caps=_caps(epsilon)),
            "offline, by loss distribution": partial(_offline, epsilon=float(epsilon)),
        }
        totals = {name: [float(sum(one.size for one in rule(each))) for each in asked] for name, rule in rules.items()}
        for name, found in totals.items():
            is_met = float(np.mean(found)) >= float(np.mean(totals["before"])) if name == "mixture" else None
            rows.append(
                BenchRow(cells=(name, f"{epsilon}", f"{np.mean(found):.2f}", f"{min(found):.2f}"), is_met=is_met)
            )
    return BenchTable(
        title="What a budget lets in",
        says=f"{sequences} sequences of {length} releases, Laplace or Gaussian by a coin, of epsilon 0.05 to 1; delta "
        "10^-6 in all and 10^-9 for each Gaussian one. A release that does not fit is left out. The offline figure "
        "knows the whole sequence, and is no rule for a step-by-step choice. Target: more than the rule of before.",
        heads=("rule", "budget", "sizes accepted, mean", "least"),
        rows=rows,
    )


def room_for_noise() -> BenchTable:
    """How much rho fits, alone and after Laplace releases."""
    rows = []
    for epsilon in BUDGETS:
        first, least = AFTER[epsilon]
        one = amounts(price([PureEvent(epsilon=Fraction(1))], delta=Fraction(0)), policy=Policy.ZCDP)
        for number, target in ((0, 0.95 * ALONE[epsilon]), (first, least)):
            spent = one.times(number)
            before, now = (remaining(spent, _caps(epsilon, is_before=old)).rho / 10**12 for old in (True, False))
            cells = (f"after {number} Laplace of 1", f"{epsilon}", f"{before:.4f}", f"{now:.4f}", f"{target:.4f}")
            rows.append(BenchRow(cells=cells, is_met=now >= target))
    return BenchTable(
        title="Room for Gaussian noise",
        says="The largest rho of one more release with noise alone, under the rule of before and the mixture.",
        heads=("what was spent", "budget", "before", "mixture", "target"),
        rows=rows,
    )


def _caps(epsilon: int, *, policy: Policy = Policy.ZCDP, is_before: bool = False) -> Caps:
    return Caps.of(policy, epsilon=Fraction(epsilon), delta=DELTA, is_before=is_before)


def _sequence(number: int, length: int) -> list[PricedRelease]:
    rng = StreamRandomness(f"sequence {number}".encode())
    coins, sizes = uniform_below(2, length, rng), 1 + uniform_below(20, length, rng)
    return [_asked(int(size), is_pure=bool(coin)) for coin, size in zip(coins, sizes, strict=True)]


def _asked(twentieths: int, *, is_pure: bool) -> PricedRelease:
    size = Fraction(twentieths, 20)
    if is_pure:
        return PricedRelease(size=size, is_pure=True, price=price([PureEvent(epsilon=size)], delta=Fraction(0)))
    rho = largest_rho(epsilon=size, delta=OWN_DELTA)
    return PricedRelease(
        size=size, is_pure=False, price=price([GaussianEvent(noise_variance=1 / (2 * rho))], delta=OWN_DELTA)
    )


def _accepted(asked: list[PricedRelease], *, caps: Caps) -> list[PricedRelease]:
    spent, kept = Totals(), []
    for each in asked:
        if admits(spent, each.price, caps):
            spent = spent.plus(amounts(each.price, policy=caps.policy))
            kept.append(each)
    return kept


def _offline(asked: list[PricedRelease], *, epsilon: float) -> list[PricedRelease]:
    """The same by composing all that was kept exactly: losses of randomized response and of normal noise."""
    from dp_accounting.pld import common, privacy_loss_distribution

    step, kept, together = 1e-3, [], None
    for each in asked:
        if each.is_pure:
            lost = privacy_loss_distribution.from_privacy_parameters(
                common.DifferentialPrivacyParameters(float(each.size), 0.0), value_discretization_interval=step
            )
        else:
            deviation = float(10**12 / (2 * (each.price.rho or 1))) ** 0.5
            lost = privacy_loss_distribution.from_gaussian_mechanism(deviation, value_discretization_interval=step)
        after = lost if together is None else together.compose(lost)
        if after.get_delta_for_epsilon(epsilon) <= float(DELTA):
            together = after
            kept.append(each)
    return kept
