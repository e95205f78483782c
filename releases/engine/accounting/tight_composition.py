"""The tightest figures for a fixed plan: every parameter of every event known before the first one runs.

These figures may price one release and be shown beside a ledger. They must not decide what a ledger accepts: optimal
composition is not a filter. Two steps whose second depends on the first's answer can each time compose to
delta <= 1e-6 at epsilon 1 and yet have delta 1.46e-6 together (arXiv 2602.06756).
"""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeAlias

from releases.engine.accounting import events as kinds
from releases.engine.accounting.accountant import DELTA_PLACES, EPSILON_PLACES, forms, price
from releases.engine.accounting.calibration import analytic_gaussian_epsilon
from releases.engine.accounting.composition import CompositionTheorem, FigureUse, Guarantee, optimal_epsilon, rule
from releases.engine.accounting.conversions import epsilon_of_rho
from releases.engine.accounting.renyi import renyi_epsilon
from releases.engine.errors import InvalidInput, Unpriceable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from releases.engine.accounting.events import Event
    from releases.engine.domain.privacy import NeighbouringRelation

#: dp-accounting's PrivacyLossDistribution, which is imported only where it is used.
_LossDistribution: TypeAlias = Any

#: Every rule that takes a plan's events and a delta, by name.
PLANNING_RULES: dict[str, CompositionTheorem] = {}

#: The guard about numerical convolution of privacy losses: its rounding is not covered by the word "pessimistic" (the
#: error in delta is about 1e-14, and truncated tails add 1e-15 a convolution), so delta is asked for with this much
#: taken off, none is asked for where that matters, and epsilon gets this much on top.
_DELTA_ALLOWANCE = Fraction(1, 10**12)
_MIN_DELTA = Fraction(1, 10**10)
_EPSILON_ALLOWANCE = Fraction(1, 10**6)
#: Tails of 1e-15 a convolution stay far below the allowance.
_MAX_DISTINCT_EVENTS = 200
#: Width of a grid cell, and the most cells of one convolution; beyond, the cells widen, which only adds to epsilon.
_CELL = 1e-4
_MAX_CELLS = 4_000_000


def planned(
    events: Sequence[Event], *, delta: Fraction, neighbours: NeighbouringRelation | None = None
) -> tuple[Guarantee, ...]:
    """Every figure that is proved for this plan at delta, the least epsilon first.

    Raises:
        Unpriceable: none is.
    """
    price(events, delta=delta, neighbours=neighbours)  # refuses what nothing here may price
    figures = []
    for entry in PLANNING_RULES.values():
        try:
            figures.append(entry.compute(events, delta=delta))
        except Unpriceable:
            continue
    if not figures:
        raise Unpriceable("Nothing is proved about this plan at this delta.")
    return tuple(sorted(figures, key=lambda figure: (figure.epsilon, figure.delta)))


@rule(registry=PLANNING_RULES, question=FigureUse.PLANNED, source="sums of epsilon and of rho (accountant.price)")
def summed(events: Sequence[Event], *, delta: Fraction) -> tuple[Fraction, Fraction]:
    """The approximate form of the ledger's own price."""
    charge = price(events, delta=delta)
    if charge.epsilon is None:
        raise Unpriceable("This plan has no approximate form at this delta.")
    return Fraction(charge.epsilon, 10**EPSILON_PLACES), Fraction(charge.delta, 10**DELTA_PLACES)


@rule(
    registry=PLANNING_RULES,
    question=FigureUse.PLANNED,
    source="Mironov 2017; converted by Balle, Barthe, Gaboardi, Hsu and Sato 2020, Theorem 21",
)
def renyi(events: Sequence[Event], *, delta: Fraction) -> tuple[Fraction, Fraction]:
    """Rényi divergences added up at the best order."""
    epsilon, _ = renyi_epsilon(events, delta=delta)
    return epsilon, delta


@rule(registry=PLANNING_RULES, question=FigureUse.PLANNED, source="Balle and Wang 2018, Theorem 8")
def exact_gaussian(events: Sequence[Event], *, delta: Fraction) -> tuple[Fraction, Fraction]:
    """The exact epsilon of a plan of continuous Gaussian noise alone."""
    precision = Fraction(0)
    for event, times in _flat(events).items():
        if not isinstance(event, kinds.GaussianEvent):
            raise Unpriceable("The exact Gaussian figure is for continuous Gaussian noise alone.")
        precision += times / event.noise_variance
    if delta == 0:
        raise Unpriceable("Gaussian noise has no epsilon without a delta.")
    return analytic_gaussian_epsilon(noise_variance=1 / precision, delta=delta), delta


@rule(
    registry=PLANNING_RULES,
    question=FigureUse.PLANNED,
    source="Kairouz, Oh and Viswanath 2015, Theorem 3.3",
)
def exact_pure(events: Sequence[Event], *, delta: Fraction) -> tuple[Fraction, Fraction]:
    """The least epsilon that holds for any mechanisms of the plan's pure epsilons, where these are all equal."""
    proved = {(forms(event).epsilon, forms(event).delta) for event in _flat(events)}
    if len(proved) != 1:
        raise Unpriceable("The exact composition is for equal epsilons.")
    ((epsilon, own),) = proved
    if epsilon is None or own:
        raise Unpriceable("The exact composition is for pure events.")
    if delta == 0:
        raise Unpriceable("Without a delta, epsilons add up.")
    return optimal_epsilon(epsilon=epsilon, times=sum(_flat(events).values()), slack=delta), delta


@rule(
    registry=PLANNING_RULES,
    question=FigureUse.PLANNED,
    source="Koskela, Jälkö and Honkela 2020; Doroshenko et al. 2022 (dp-accounting 0.6.0), with allowances",
)
def loss_distribution(events: Sequence[Event], *, delta: Fraction) -> tuple[Fraction, Fraction]:
    """The convolution of the events' privacy loss distributions on a grid, rounded upwards.

    Continuous Laplace and Gaussian noise by their own distributions, at their own ratio of noise to sensitivity (that
    is the library's add/remove convention; under its replace-one convention it doubles the sensitivity, and ours
    already accounts for the relation); anything else that has an epsilon by the distribution that dominates it.
    Discrete Gaussian noise is refused: the library's distribution is for one dimension. The epsilon asked for is that
    of delta - 1e-12, plus 1e-6.

    Raises:
        Unpriceable: delta is below 1e-10, or an event has neither a distribution here nor an epsilon.
    """
    if delta < _MIN_DELTA:
        raise Unpriceable("Privacy loss distributions are not trusted for delta below 1e-10.")
    counts = _flat(events)
    if len(counts) > _MAX_DISTINCT_EVENTS:
        raise Unpriceable(f"Privacy loss distributions are computed for at most {_MAX_DISTINCT_EVENTS} events.")
    cell = _cell(events)
    composed = None
    for event, times in counts.items():
        one = _distribution(event, cell=cell).self_compose(times)
        composed = one if composed is None else composed.compose(one)
    assert composed is not None
    found = composed.get_epsilon_for_delta(float(delta - _DELTA_ALLOWANCE))
    if not math.isfinite(found):
        raise Unpriceable("The privacy loss distribution gives no finite epsilon at this delta.")
    return Fraction(found) + _EPSILON_ALLOWANCE, delta


def _distribution(event: Event, *, cell: float) -> _LossDistribution:
    """One event's distribution. Parameters go in as the nearest doubles; 1e-16 is far inside the allowances."""
    # Imported here: it brings in scipy's and the library's whole tree, which a web process need not hold.
    from dp_accounting.pld import common, privacy_loss_distribution

    if isinstance(event, kinds.LaplaceEvent):
        return privacy_loss_distribution.from_laplace_mechanism(
            float(event.noise_multiplier), sensitivity=1.0, value_discretization_interval=cell
        )
    if isinstance(event, kinds.GaussianEvent):
        return privacy_loss_distribution.from_gaussian_mechanism(
            math.sqrt(event.noise_variance), sensitivity=1.0, value_discretization_interval=cell
        )
    proved = forms(event)
    if proved.epsilon is None:
        raise Unpriceable(f"No privacy loss distribution is known for this event: {event.in_words()}.")
    # Rounded up to the grid by the library, so an epsilon of few decimals, which the grid divides, loses nothing.
    parameters = common.DifferentialPrivacyParameters(float(proved.epsilon), float(proved.delta))
    return privacy_loss_distribution.from_privacy_parameters(parameters, value_discretization_interval=cell)


def _flat(events: Sequence[Event]) -> Counter[Event]:
    """Each event that is not a repetition, and how many times it runs."""
    if not events:
        raise InvalidInput("events", 0, "must name at least one event")
    counts: Counter[Event] = Counter()

    def add(event: Event, times: int) -> None:
        if isinstance(event, kinds.RepeatedEvent):
            add(event.event, times * event.times)
        else:
            counts[event] += times

    for event in events:
        add(event, 1)
    return counts


def _cell(events: Sequence[Event]) -> float:
    """A grid so fine, unless the losses to be covered, out to a probability of 1e-15, would need too many cells."""
    proved = [forms(event) for event in events]
    widest = epsilon_of_rho(rho=sum((form.rho for form in proved), Fraction(0)), delta=Fraction(1, 10**15))
    epsilons = [form.epsilon for form in proved if form.epsilon is not None]
    if len(epsilons) == len(proved):
        widest = min(widest, sum(epsilons, Fraction(0)))
    return max(_CELL, float(2 * widest) / _MAX_CELLS)
