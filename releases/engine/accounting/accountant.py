"""The accountant: what a list of events costs, in every currency a ledger can add up.

    price(events, delta=...) -> Price      integers, rounded up
    filters.admits(spent, price, caps)     whether the ledger may accept it

A price is exact where the mathematics is rational and certified from above where it is not; no float decides
(`arithmetic.rounding`). Every form speaks of the dataset's own neighbouring relation: events state their noise relative
to the sensitivity under it, and the few events whose price depends on it name it (`require_relation`).

What is proved for one event is held as `Forms`: for all neighbours P, Q there are laws P', Q' with P = (1 -
delta) P' + delta (anything) and Q = (1 - delta) Q' + delta (anything), where P' and Q' are within a factor
e^epsilon of each other (unless epsilon is None), and D_a(P'||Q') <= a rho for all a > 1; the same with P and
Q exchanged. So (epsilon, delta)-DP and delta-approximate rho-zCDP (Bun and Steinke 2016, Definition 8.1) hold
of one and the same decomposition, and forms of a sequence add: an adaptively chosen sequence with these forms
has their sums (Kairouz, Oh and Viswanath 2015 give the decomposition for every (epsilon, delta)-DP pair).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from releases.engine.accounting import events as kinds
from releases.engine.accounting.calibration import discrete_gaussian_epsilon, fine_gaussian_epsilon
from releases.engine.accounting.conversions import (
    amplified,
    epsilon_of_rho,
    group_approximate,
    group_pure,
    group_rho,
    rho_of_bounded_range,
    rho_of_gaussian,
    rho_of_laplace,
    rho_of_projected_gaussian,
    rho_of_pure,
    rho_of_randomized_response,
)
from releases.engine.accounting.events import Event, declared_relations
from releases.engine.arithmetic.rounding import ceiling, number, reals
from releases.engine.domain.privacy import NeighbouringRelation, decimal_text
from releases.engine.errors import InvalidInput, Unpriceable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

#: Digits after the point of the ledger's units: epsilon and rho in 10**-12, delta in 10**-18.
EPSILON_PLACES = 12
DELTA_PLACES = 18


@dataclass(frozen=True, kw_only=True, slots=True)
class Price:
    """What a release costs, in whole units, each rounded up. All forms that are present hold, each by itself.

    Attributes:
        pure_epsilon: epsilon-DP, in 10**-12; None where no epsilon alone is proved.
        epsilon: (epsilon, delta)-DP at the delta the release allows itself, in 10**-12; None where there is
            none.
        delta: of that form, in 10**-18; 0 where `epsilon` holds without a delta.
        rho: delta-approximate rho-zCDP, in 10**-12; None where none is proved.
        rho_delta: of that form, in 10**-18.
    """

    pure_epsilon: int | None
    epsilon: int | None
    delta: int
    rho: int | None
    rho_delta: int

    def __post_init__(self) -> None:
        for name in ("pure_epsilon", "epsilon", "rho"):
            amount = getattr(self, name)
            if amount is not None and (isinstance(amount, bool) or not isinstance(amount, int) or amount < 1):
                raise InvalidInput(f"price.{name}", amount, "must be a whole number of units, at least 1")
        for name in ("delta", "rho_delta"):
            amount = getattr(self, name)
            if isinstance(amount, bool) or not isinstance(amount, int) or amount < 0:
                raise InvalidInput(f"price.{name}", amount, "must be a whole number of units, at least 0")
        if self.pure_epsilon is None and self.epsilon is None and self.rho is None:
            raise Unpriceable("A price needs at least one form that is proved.")

    def to_json(self) -> dict[str, int | None]:
        return {
            "pure_epsilon": self.pure_epsilon,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "rho": self.rho,
            "rho_delta": self.rho_delta,
        }

    def in_words(self) -> str:
        """Every form on one line, for a receipt."""
        forms = []
        if self.pure_epsilon is not None:
            forms.append(f"epsilon {_decimal(self.pure_epsilon, EPSILON_PLACES)}")
        if self.epsilon is not None and (self.delta or self.pure_epsilon is None):
            amounts = _decimal(self.epsilon, EPSILON_PLACES), _decimal(self.delta, DELTA_PLACES)
            forms.append("epsilon {} with delta {}".format(*amounts))
        if self.rho is not None:
            outside = f" outside delta {_decimal(self.rho_delta, DELTA_PLACES)}" if self.rho_delta else ""
            forms.append(f"rho {_decimal(self.rho, EPSILON_PLACES)}{outside}")
        return "; or ".join(forms)


@dataclass(frozen=True, kw_only=True, slots=True)
class Forms:
    """What is proved of one event, exactly (see the head of this file). epsilon with delta 0 is pure."""

    epsilon: Fraction | None
    rho: Fraction
    delta: Fraction = Fraction(0)

    @property
    def pure_epsilon(self) -> Fraction | None:
        return self.epsilon if self.delta == 0 else None


def price(
    events: Sequence[Event],
    *,
    delta: Fraction,
    neighbours: NeighbouringRelation | None = None,
) -> Price:
    """What running these events costs, for parameters all fixed before the first of them runs.

    The concentrated form is the sum of the events' rho; the pure form the sum of their epsilons. The
    approximate form is, among everything proved for such a list at `delta`, the one of least epsilon: any
    part of the events added up by basic composition, the others by their rho and one conversion (Canonne,
    Kamath and Steinke 2020). With delta 0 that leaves the basic sum, so a list with Gaussian noise has no
    approximate form.

    Discrete Gaussian noise is priced by its rho, not by the analytic formula of the normal law: the (epsilon,
    delta) curve of the discrete law lies above the normal one at some epsilons, and in several dimensions it
    depends on the direction in which the vector moves, while its rho never exceeds the normal one (Canonne,
    Kamath and Steinke 2020, Theorem 4). How far it can lie above is proved (`discrete_gaussian_delta`), and is next to
    nothing where noise is large: a list of `AdaptiveDiscreteGaussianEvent` alone has that for its approximate form, for
    its mechanisms spend what it allows, and so has one `FineDiscreteGaussianEvent` (`fine_gaussian_delta`). The
    continuous Gaussian is priced by its rho as well; `tight_composition` has the exact figure for lists of it.

    Args:
        events: what will be run, one after the other on the same table.
        delta: what the release allows for its approximate form; 0 for none.
        neighbours: the dataset's relation; where given, events stated for another are refused.

    Raises:
        InvalidInput: `events` is empty, or `delta` is not an exact rational from 0 to below 1.
        Unpriceable: an event is of an unknown kind, or nothing is proved for it.
    """
    if isinstance(delta, bool) or not isinstance(delta, (int, Fraction)) or not 0 <= delta < 1:
        raise InvalidInput("delta", delta, "must be an exact rational, at least 0 and below 1")
    if not events:
        raise InvalidInput("events", len(events), "must name at least one event")
    if neighbours is not None:
        require_relation(events, neighbours=neighbours)
    parts = [forms(event) for event in events]
    whole = _in_sequence(parts)
    approximate = _approximate(parts, delta=Fraction(delta))
    if delta and (exact := _exact_epsilon(events, whole, delta=Fraction(delta))) is not None:
        approximate = min(filter(None, [approximate, (exact, Fraction(delta))]))
    return Price(
        pure_epsilon=None if whole.pure_epsilon is None else _epsilon_units(whole.pure_epsilon),
        epsilon=None if approximate is None else _epsilon_units(approximate[0]),
        delta=0 if approximate is None else ceiling(approximate[1], places=DELTA_PLACES),
        rho=_epsilon_units(whole.rho),
        rho_delta=ceiling(whole.delta, places=DELTA_PLACES),
    )


def require_relation(events: Iterable[Event], *, neighbours: NeighbouringRelation) -> None:
    """Refuse events whose price was stated for other neighbours than the dataset's.

    Raises:
        Unpriceable: one of them was.
    """
    for event in events:
        if declared_relations(event) - {neighbours}:
            raise Unpriceable(f"This event is stated for other neighbours than {neighbours.value}: {event.in_words()}.")


@lru_cache(maxsize=4096)
def forms(event: Event) -> Forms:
    """What is proved of one event.

    Raises:
        Unpriceable: its kind has no entry here, or nothing is proved for what it contains.
    """
    pricer = _PRICERS.get(type(event))
    if pricer is None:
        kind = getattr(event, "kind", "") or type(event).__name__
        raise Unpriceable(f"No price is known for events of kind {kind!r}.")
    return pricer(event)


# One entry a kind

_E = TypeVar("_E", bound=Event)
_PRICERS: dict[type[Event], Callable[[Any], Forms]] = {}


def _prices(*events: type[Event]) -> Callable[[Callable[[_E], Forms]], Callable[[_E], Forms]]:
    def register(pricer: Callable[[_E], Forms]) -> Callable[[_E], Forms]:
        for event in events:
            _PRICERS[event] = pricer
        return pricer

    return register


def _pure(epsilon: Fraction) -> Forms:
    return Forms(epsilon=epsilon, rho=rho_of_pure(epsilon=epsilon))


@_prices(kinds.LaplaceEvent)
def _laplace(event: kinds.LaplaceEvent) -> Forms:
    epsilon = 1 / event.noise_multiplier
    return Forms(epsilon=epsilon, rho=rho_of_laplace(epsilon=epsilon))


@_prices(kinds.DiscreteLaplaceEvent, kinds.WeightedDiscreteLaplaceEvent)
def _discrete_laplace(event: kinds.DiscreteLaplaceEvent | kinds.WeightedDiscreteLaplaceEvent) -> Forms:
    # Where one unit moves one count by one, the privacy loss takes the two values +-epsilon of randomized
    # response, so the continuous law's smaller rho is not to be had. With weights, answers that move by d_i lose
    # at most sum |d_i| w_i / s, which is the weighted l1 change over s.
    return _pure(1 / event.noise_multiplier)


@_prices(
    kinds.GaussianEvent,
    kinds.DiscreteGaussianEvent,
    kinds.WeightedDiscreteGaussianEvent,
    kinds.AdaptiveDiscreteGaussianEvent,
)
def _gaussian(
    event: kinds.GaussianEvent
    | kinds.DiscreteGaussianEvent
    | kinds.WeightedDiscreteGaussianEvent
    | kinds.AdaptiveDiscreteGaussianEvent,
) -> Forms:
    # Of adaptive noise: rhos chosen by earlier outcomes that never add up to more (Feldman and Zrnic 2021).
    return Forms(epsilon=None, rho=rho_of_gaussian(noise_variance=event.noise_variance))


@_prices(kinds.ProjectedDiscreteGaussianEvent, kinds.FineDiscreteGaussianEvent)
def _projected_gaussian(event: kinds.ProjectedDiscreteGaussianEvent | kinds.FineDiscreteGaussianEvent) -> Forms:
    return Forms(epsilon=None, rho=rho_of_projected_gaussian(noise_variance=event.noise_variance))


@_prices(kinds.ExponentialMechanismEvent)
def _exponential_mechanism(event: kinds.ExponentialMechanismEvent) -> Forms:
    return Forms(epsilon=event.epsilon, rho=rho_of_bounded_range(epsilon=event.epsilon))


@_prices(
    kinds.ReportNoisyMaxEvent,
    kinds.PermuteAndFlipEvent,
    kinds.AboveThresholdEvent,
    kinds.PureEvent,
)
def _epsilon_alone(
    event: kinds.ReportNoisyMaxEvent | kinds.PermuteAndFlipEvent | kinds.AboveThresholdEvent | kinds.PureEvent,
) -> Forms:
    return _pure(event.epsilon)


@_prices(kinds.PureAndConcentratedEvent)
def _pure_and_concentrated(event: kinds.PureAndConcentratedEvent) -> Forms:
    # Of several mechanisms, one chosen by what was released before: both forms hold for whichever it is, and compose in
    # sequence as those of one fixed beforehand do (Dwork and Roth 2014, Theorem 3.16; Bun and Steinke 2016, Lemma 7).
    return Forms(epsilon=event.epsilon, rho=min(event.rho, rho_of_pure(epsilon=event.epsilon)))


@_prices(kinds.SparseVectorEvent)
def _sparse_vector(event: kinds.SparseVectorEvent) -> Forms:
    # The comparisons are one (epsilon_threshold + epsilon_queries)-DP interaction; the numeric answers are
    # separate Laplace draws interleaved with it, and rho adds up over interleaved mechanisms (Lyu 2022; Haney
    # et al. 2023).
    comparisons = event.epsilon_threshold + event.epsilon_queries
    rho = rho_of_pure(epsilon=comparisons)
    if event.epsilon_answers:
        rho += event.answers * rho_of_pure(epsilon=event.epsilon_answers / event.answers)
    return Forms(epsilon=comparisons + event.epsilon_answers, rho=rho)


@_prices(kinds.RandomizedResponseEvent)
def _randomized_response(event: kinds.RandomizedResponseEvent) -> Forms:
    rho = rho_of_randomized_response(epsilon=event.epsilon, categories=event.categories)
    return Forms(epsilon=event.epsilon, rho=rho)


@_prices(kinds.ApproximateEvent)
def _approximate_event(event: kinds.ApproximateEvent) -> Forms:
    return Forms(epsilon=event.epsilon, rho=rho_of_pure(epsilon=event.epsilon), delta=event.delta)


@_prices(kinds.ConcentratedEvent)
def _concentrated_event(event: kinds.ConcentratedEvent) -> Forms:
    # A sequence of zCDP mechanisms whose rhos, each chosen after the answers before it, never add up to more than a
    # fixed rho is rho-zCDP as a whole (Feldman and Zrnic 2021, for every order; Whitehouse et al. 2023).
    return Forms(epsilon=None, rho=event.rho)


@_prices(kinds.RepeatedEvent)
def _repeated(event: kinds.RepeatedEvent) -> Forms:
    once = forms(event.event)
    return Forms(
        epsilon=None if once.epsilon is None else event.times * once.epsilon,
        rho=event.times * once.rho,
        delta=event.times * once.delta,
    )


@_prices(kinds.ParallelEvent)
def _parallel(event: kinds.ParallelEvent) -> Forms:
    # One part changes under ADD_REMOVE; a unit that moves changes two, and the two add up as in a sequence.
    changed = 1 if event.neighbours is NeighbouringRelation.ADD_REMOVE else 2
    parts = [forms(part) for part in event.events]

    def worst(amounts: Iterable[Fraction]) -> Fraction:
        return sum(sorted(amounts, reverse=True)[:changed], Fraction(0))

    epsilons = [part.epsilon for part in parts]
    return Forms(
        epsilon=None if None in epsilons else worst(epsilon for epsilon in epsilons if epsilon is not None),
        rho=worst(part.rho for part in parts),
        delta=worst(part.delta for part in parts),
    )


@_prices(kinds.SubsampledEvent)
def _subsampled(event: kinds.SubsampledEvent) -> Forms:
    whole = forms(event.event)
    if whole.epsilon is None:
        # zCDP is not amplified by sampling (lecture notes, Theorem 7.17). It is not made worse either: the
        # sample's law is a mixture of neighbouring pairs and equal pairs, and Rényi divergence is
        # quasi-convex.
        return whole
    epsilon, delta = amplified(
        epsilon=whole.epsilon,
        delta=whole.delta,
        rate=event.rate,
        scheme=event.scheme,
        neighbours=event.neighbours,
    )
    return Forms(epsilon=epsilon, rho=min(whole.rho, rho_of_pure(epsilon=epsilon)), delta=delta)


@_prices(kinds.GroupedEvent)
def _grouped(event: kinds.GroupedEvent) -> Forms:
    one, size = forms(event.event), event.size
    if one.delta == 0:
        rho = group_rho(rho=one.rho, size=size)
        if one.epsilon is None:
            return Forms(epsilon=None, rho=rho)
        epsilon = group_pure(epsilon=one.epsilon, size=size)
        return Forms(epsilon=epsilon, rho=min(rho, rho_of_pure(epsilon=epsilon)))
    if one.epsilon is None:
        raise Unpriceable("Group privacy is proved for a pure, a concentrated or an approximate event alone.")
    epsilon, delta = group_approximate(epsilon=one.epsilon, delta=one.delta, size=size)
    if delta >= 1:
        raise Unpriceable(f"Nothing is promised to a group of {size}: its delta would be 1 or more.")
    return Forms(epsilon=epsilon, rho=rho_of_pure(epsilon=epsilon), delta=delta)


# Lists


def _in_sequence(parts: Sequence[Forms]) -> Forms:
    epsilons = [part.epsilon for part in parts if part.epsilon is not None]
    whole = Forms(
        epsilon=sum(epsilons, Fraction(0)) if len(epsilons) == len(parts) else None,
        rho=sum((part.rho for part in parts), Fraction(0)),
        delta=sum((part.delta for part in parts), Fraction(0)),
    )
    if whole.delta >= 1:
        raise Unpriceable("Nothing is promised: the events' deltas add up to 1 or more.")
    return whole


def _approximate(parts: Sequence[Forms], *, delta: Fraction) -> tuple[Fraction, Fraction] | None:
    """The (epsilon, delta') of least epsilon with delta' <= delta, or None."""
    set_aside = sum((part.delta for part in parts), Fraction(0))
    if set_aside > delta:
        return None
    proved = []
    epsilons = [part.epsilon for part in parts if part.epsilon is not None]
    if len(epsilons) == len(parts):
        proved.append((sum(epsilons, Fraction(0)), set_aside))
    if delta > set_aside:
        spare = delta - set_aside
        for added, rho in _splits(parts, delta=spare):
            proved.append((added + epsilon_of_rho(rho=rho, delta=spare), delta))
    return min(proved, default=None)


def _exact_epsilon(events: Sequence[Event], whole: Forms, *, delta: Fraction) -> Fraction | None:
    """What is proved of the law of the noise itself, where all of it is discrete Gaussian and of one kind."""
    if all(isinstance(event, kinds.AdaptiveDiscreteGaussianEvent) for event in events):
        return discrete_gaussian_epsilon(noise_variance=1 / (2 * whole.rho), delta=delta)
    first, *others = events
    if not others and isinstance(first, kinds.FineDiscreteGaussianEvent):
        return fine_gaussian_epsilon(noise_variance=first.noise_variance, delta=delta)
    return None


def _splits(parts: Sequence[Forms], *, delta: Fraction) -> list[tuple[Fraction, Fraction]]:
    """Ways to divide a list: (epsilons added up, rho of the rest), the best way among them.

    At order a an event costs the lesser of epsilon and a rho, so it is added up by epsilon where a is above
    epsilon / rho. Between two neighbouring such ratios the division is fixed, and the conversion has its
    minimum there only if it still falls at the left one and no longer at the right one.
    """
    epsilon_at: defaultdict[Fraction, Fraction] = defaultdict(Fraction)
    rho_at: defaultdict[Fraction, Fraction] = defaultdict(Fraction)
    rho = Fraction(0)
    for part in parts:
        rho += part.rho
        if part.epsilon is not None:
            epsilon_at[part.epsilon / part.rho] += part.epsilon
            rho_at[part.epsilon / part.rho] += part.rho
    added = Fraction(0)
    splits = [(added, rho)]
    ratios = sorted(epsilon_at)
    for index, ratio in enumerate(ratios):
        added, rho = added + epsilon_at[ratio], rho - rho_at[ratio]
        falls_here = rho > 0 and _falls(ratio, rho=rho, delta=delta)
        if falls_here and not (index + 1 < len(ratios) and _falls(ratios[index + 1], rho=rho, delta=delta)):
            splits.append((added, rho))
    return splits


def _falls(order: Fraction, *, rho: Fraction, delta: Fraction) -> bool:
    """Whether the conversion of `rho` still falls at this order, so that its best order lies beyond."""
    a = number(order)
    return bool(number(rho) * (a - 1) ** 2 + reals().log(a * number(delta)) < 0)


def _epsilon_units(amount: Fraction) -> int:
    # A conversion may prove epsilon 0; the least amount a ledger can book is one unit.
    return max(1, ceiling(amount, places=EPSILON_PLACES))


def _decimal(units: int, places: int) -> str:
    return decimal_text(Fraction(units, 10**places), places=places)
