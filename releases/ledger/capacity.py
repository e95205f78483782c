"""How many more releases fit a budget, so that anybody can check what is left of it; from the ledger's sums alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from releases.engine.accounting import accountant, filters
from releases.engine.accounting.accountant import Price
from releases.engine.accounting.calibration import (
    discrete_gaussian_budget,
    gaussian_variance_for_rho,
    laplace_noise_multiplier,
)
from releases.engine.accounting.events import AdaptiveDiscreteGaussianEvent, DiscreteLaplaceEvent
from releases.engine.accounting.filters import Caps, Policy, Totals
from releases.engine.domain.privacy import NeighbouringRelation
from releases.engine.errors import EngineError

#: The epsilons of the table.
SIZES = (Fraction(1, 10), Fraction(1, 2), Fraction(1))
#: More than so many releases are not counted.
MAX_COUNTED = 1_000
#: The noise of the mechanisms that a person chooses between, with the options that are proposed.
LAPLACE, GAUSSIAN = "Laplace", "Gaussian"
#: A release begins with this part of the budget's delta.
_PART_OF_DELTA = 1_000


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleasesThatFit:
    """How many more releases of one epsilon fit, of either kind alone; None where the rule has no such kind."""

    epsilon: str
    laplace: int
    gaussian: int | None

    @property
    def laplace_text(self) -> str:
        return _counted(self.laplace)

    @property
    def gaussian_text(self) -> str:
        return "–" if self.gaussian is None else _counted(self.gaussian)


def _counted(number: int) -> str:
    return f"{number:,} or more" if number >= MAX_COUNTED else f"{number:,}"


def usual_delta(granted: Fraction) -> Fraction:
    """The delta that a release begins with: a thousandth of the budget's, so that a hundred like it fit."""
    return granted / _PART_OF_DELTA


@lru_cache(maxsize=1024)
def room(spent: Totals, caps: Caps) -> tuple[ReleasesThatFit, ...]:
    """What still fits after what was spent."""
    return tuple(
        ReleasesThatFit(
            epsilon=f"{float(size):g}",
            laplace=_times(spent, caps, LAPLACE, size) or 0,
            gaussian=_times(spent, caps, GAUSSIAN, size),
        )
        for size in SIZES
    )


def closed_by(*, before: Totals, after: Totals, caps: Caps) -> str:
    """In one sentence, what fitted before a release and does not fit after it; empty where nothing of the table."""
    closed: dict[str, str] = {}
    for kind in (LAPLACE, GAUSSIAN):
        prices = {size: _price_of(kind, size, caps) for size in SIZES}
        for size, price in prices.items():
            if price is not None and filters.admits(before, price, caps) and not filters.admits(after, price, caps):
                closed[kind] = f"epsilon {float(size):g} or more"
                break
    if not closed:
        return ""
    if len(closed) == 2 and len(set(closed.values())) == 1:
        return f"After this release, releases of {closed[LAPLACE]} no longer fit."
    said = " and ".join(f"releases with {kind} noise of {sizes}" for kind, sizes in closed.items())
    return f"After this release, {said} no longer fit."


def _times(spent: Totals, caps: Caps, kind: str, epsilon: Fraction) -> int | None:
    price = _price_of(kind, epsilon, caps)
    return None if price is None else filters.times_admitted(spent, price, caps, most=MAX_COUNTED)


def _price_of(kind: str, epsilon: Fraction, caps: Caps) -> Price | None:
    """None where the budget's rule has no such kind."""
    if kind == GAUSSIAN and caps.policy is Policy.PURE:
        return None
    try:
        return _price(kind, epsilon, Fraction(0) if kind == LAPLACE else usual_delta(caps.guarantee.delta))
    except EngineError:
        return None


@lru_cache(maxsize=256)
def _price(kind: str, epsilon: Fraction, delta: Fraction) -> Price:
    """Of one number with noise; the relation decides no price of these."""
    events: Sequence[DiscreteLaplaceEvent | AdaptiveDiscreteGaussianEvent]
    if kind == LAPLACE:
        events = [DiscreteLaplaceEvent(noise_multiplier=laplace_noise_multiplier(epsilon=epsilon))]
    else:
        rho = discrete_gaussian_budget(epsilon=epsilon, delta=delta).rho
        events = [AdaptiveDiscreteGaussianEvent(noise_variance=gaussian_variance_for_rho(rho=rho))]
    return accountant.price(events, delta=delta, neighbours=NeighbouringRelation.ADD_REMOVE)
