"""Rényi differential privacy of events, order by order, for figures about a fixed plan.

(a, r)-RDP: D_a(P||Q) <= r for all neighbours P, Q (Mironov 2017, Definition 4; lecture notes, Definition
7.3). Orders add up: a list whose events are (a, r_i)-RDP is (a, sum r_i)-RDP, and one order is then
converted. Since the order is chosen for the whole plan, the figure belongs to PLANNED; as a filter an order
would have to be fixed beforehand.

Divergences are bounded from above, both ways round, in exact rationals. Where an event is approximate they
hold outside its delta (`accountant.Forms`), which is added at the end.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache, lru_cache
from math import ceil, comb
from typing import TYPE_CHECKING, Any, TypeVar

from releases.engine.accounting import events as kinds
from releases.engine.accounting.accountant import forms
from releases.engine.accounting.conversions import (
    FINE_PLACES,
    SamplingScheme,
    epsilon_of_renyi,
    group_renyi,
)
from releases.engine.accounting.events import Event
from releases.engine.arithmetic.rounding import Interval, above, enclose, intervals, round_up
from releases.engine.domain.privacy import NeighbouringRelation
from releases.engine.errors import InvalidInput, Unpriceable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: Where the search for the best order starts: 1 + 2**(j/2), from 1.06 to 1025.
DEFAULT_ORDERS = tuple(sorted({1 + Fraction(2) ** (j // 2) * (Fraction(3, 2) if j % 2 else 1) for j in range(-8, 21)}))
#: The sum over a sample has one term an order; beyond this many the conversion has long passed its best
#: order.
_LARGEST_SAMPLED_ORDER = 256
#: Golden sections between two neighbouring starting orders: the best order to three digits, epsilon to six or
#: more.
_SECTIONS = 12

_E = TypeVar("_E", bound=Event)
_CURVES: dict[type[Event], Callable[[Any, Fraction], Fraction]] = {}


def divergence(event: Event, *, order: Fraction) -> Fraction:
    """An upper bound on D_order of one event over all its neighbours, outside its delta.

    Raises:
        InvalidInput: the order is not above 1.
        Unpriceable: the kind of event is not known.
    """
    if isinstance(order, bool) or not isinstance(order, (int, Fraction)) or order <= 1:
        raise InvalidInput("order", str(order), "must be an exact rational above 1")
    return _divergence(event, Fraction(order))


def renyi_epsilon(events: Sequence[Event], *, delta: Fraction) -> tuple[Fraction, Fraction]:
    """The least epsilon found over all orders for a fixed plan at `delta`, and its order. Rounded up.

    Any order gives a valid figure, so the search needs no proof: a grid, then golden sections around its
    best.

    Args:
        events: the plan.
        delta: the whole delta; the events' own deltas are taken from it.

    Raises:
        Unpriceable: the events' own deltas leave none for the conversion.
    """
    spare = delta - sum((forms(event).delta for event in events), Fraction(0))
    if not events:
        raise InvalidInput("events", 0, "must name at least one event")
    if not 0 < spare < 1:
        raise Unpriceable("The events' own deltas leave nothing to convert with.")

    @cache
    def epsilon(order: Fraction) -> Fraction:
        total = sum((divergence(event, order=order) for event in events), Fraction(0))
        return epsilon_of_renyi(order=order, divergence=total, delta=spare)

    best = min(DEFAULT_ORDERS, key=epsilon)
    index = DEFAULT_ORDERS.index(best)
    low = DEFAULT_ORDERS[max(0, index - 1)]
    high = DEFAULT_ORDERS[min(len(DEFAULT_ORDERS) - 1, index + 1)]
    best = min((best, _sectioned(epsilon, low=low, high=high)), key=epsilon)
    return epsilon(best), best


def _sectioned(figure: Callable[[Fraction], Fraction], *, low: Fraction, high: Fraction) -> Fraction:
    golden = Fraction(618, 1000)
    for _ in range(_SECTIONS):
        left, right = high - golden * (high - low), low + golden * (high - low)
        # Orders of a few digits, or their denominators would grow with every section.
        left, right = left.limit_denominator(10**6), right.limit_denominator(10**6)
        if figure(left) <= figure(right):
            high = right
        else:
            low = left
    return min((low, high), key=figure)


# The curves


def pure_divergence(*, epsilon: Fraction, order: Fraction) -> Fraction:
    """The largest D_a of any epsilon-DP mechanism, reached by binary randomized response.

    (ln cosh((a - 1/2) epsilon) - ln cosh(epsilon/2)) / (a - 1): lecture notes, Lemma 7.13, with p/(1 - p) =
    e^epsilon.
    """
    e, a = enclose(epsilon), enclose(order)
    return _fine((_log_cosh((a - enclose(Fraction(1, 2))) * e) - _log_cosh(e / 2)) / (a - 1))


def laplace_divergence(*, epsilon: Fraction, order: Fraction) -> Fraction:
    """D_a of the Laplace mechanism with l1 sensitivity/scale = epsilon (lecture notes, Lemma 7.14).

    ln(a/(2a - 1) e^((a - 1) epsilon) + (a - 1)/(2a - 1) e^(-a epsilon)) / (a - 1). For a vector the whole
    change in one coordinate is the worst: (a - 1) D_a is ln(A cosh(b epsilon + c)) - epsilon/2, convex in
    epsilon and 0 at 0.
    """
    context = intervals()
    e, a = enclose(epsilon), enclose(order)
    inside = a * context.exp((a - 1) * e) + (a - 1) * context.exp(-a * e)
    return _fine(context.log(inside / (2 * a - 1)) / (a - 1))


def sampled_divergence(
    *, rate: Fraction, order: int, inner: Callable[[Fraction], Fraction], pure_epsilon: Fraction | None
) -> Fraction:
    """D_a on a sample of fixed size without replacement, for neighbours that replace a row, a whole order of
    2 or more.

    Wang, Balle and Kasiviswanathan 2019, Theorem 9: with e(j) = D_j of the mechanism on the sample,

        D_a <= ln(1 + rate**2 C(a, 2) min{4 (e^e(2) - 1), e^e(2) min{2, (e^e(inf) - 1)**2}}
                    + sum_{j=3}^a rate**j C(a, j) e^((j - 1) e(j)) min{2, (e^e(inf) - 1)**j}) / (a - 1).

    The lecture notes (Theorem 7.8) print 4 (e(2) - 1) for 4 (e^e(2) - 1), which would be negative for every
    useful mechanism, and leave the tilde off the left side.

    Args:
        rate: rows in the sample / rows.
        order: a.
        inner: order to divergence of the mechanism on the sample, under the same relation.
        pure_epsilon: e(inf), or None where it is infinite.
    """
    if order < 2:
        raise InvalidInput("order", order, "must be a whole number of at least 2")
    context = intervals()
    gamma = enclose(rate)
    growth = None if pure_epsilon is None else context.exp(enclose(pure_epsilon)) - 1

    def factor(power: int) -> Interval:
        return enclose(2) if growth is None else _lesser(enclose(2), growth**power)

    second = context.exp(enclose(inner(Fraction(2))))
    total = 1 + gamma**2 * comb(order, 2) * _lesser(4 * (second - 1), second * factor(2))
    for j in range(3, order + 1):
        total += gamma**j * comb(order, j) * context.exp((j - 1) * enclose(inner(Fraction(j)))) * factor(j)
    return _fine(context.log(total) / (order - 1))


def _curve(kind: type[_E]) -> Callable[[Callable[[_E, Fraction], Fraction]], Callable[[_E, Fraction], Fraction]]:
    def register(curve: Callable[[_E, Fraction], Fraction]) -> Callable[[_E, Fraction], Fraction]:
        _CURVES[kind] = curve
        return curve

    return register


@lru_cache(maxsize=65536)
def _divergence(event: Event, order: Fraction) -> Fraction:
    general = _from_forms(event, order)
    curve = _CURVES.get(type(event))
    return general if curve is None else min(general, curve(event, order))


def _from_forms(event: Event, order: Fraction) -> Fraction:
    """What the forms alone prove: a rho, and the curve of randomized response where there is an epsilon."""
    proved = forms(event)
    bound = order * proved.rho
    return bound if proved.epsilon is None else min(bound, pure_divergence(epsilon=proved.epsilon, order=order))


@_curve(kinds.LaplaceEvent)
def _laplace(event: kinds.LaplaceEvent, order: Fraction) -> Fraction:
    return laplace_divergence(epsilon=1 / event.noise_multiplier, order=order)


@_curve(kinds.RandomizedResponseEvent)
def _randomized_response(event: kinds.RandomizedResponseEvent, order: Fraction) -> Fraction:
    # Truth and the neighbour's truth exchange their odds; the other categories are as likely under both.
    context = intervals()
    e, a, others = enclose(event.epsilon), enclose(order), event.categories - 2
    inside = context.exp(a * e) + context.exp((1 - a) * e) + others
    return _fine(context.log(inside / (context.exp(e) + 1 + others)) / (a - 1))


@_curve(kinds.SparseVectorEvent)
def _sparse_vector(event: kinds.SparseVectorEvent, order: Fraction) -> Fraction:
    bound = pure_divergence(epsilon=event.epsilon_threshold + event.epsilon_queries, order=order)
    if event.epsilon_answers:
        bound += event.answers * pure_divergence(epsilon=event.epsilon_answers / event.answers, order=order)
    return bound


@_curve(kinds.RepeatedEvent)
def _repeated(event: kinds.RepeatedEvent, order: Fraction) -> Fraction:
    return event.times * _divergence(event.event, order)


@_curve(kinds.ParallelEvent)
def _parallel(event: kinds.ParallelEvent, order: Fraction) -> Fraction:
    changed = 1 if event.neighbours is NeighbouringRelation.ADD_REMOVE else 2
    bounds = sorted((_divergence(part, order) for part in event.events), reverse=True)
    return sum(bounds[:changed], Fraction(0))


@_curve(kinds.GroupedEvent)
def _grouped(event: kinds.GroupedEvent, order: Fraction) -> Fraction:
    if event.size == 1:
        return _divergence(event.event, order)
    if forms(event.event).delta:
        return _from_forms(event, order)
    doublings = (event.size - 1).bit_length()
    # The theorem reaches orders of 2 and more, and D_a grows with a.
    wanted = max(order, Fraction(2)) * 2**doublings
    _, bound = group_renyi(order=wanted, divergence=_divergence(event.event, wanted), doublings=doublings)
    return bound


@_curve(kinds.SubsampledEvent)
def _subsampled(event: kinds.SubsampledEvent, order: Fraction) -> Fraction:
    inside = forms(event.event)
    # Quasi-convexity: a sample is never worse than the mechanism on it. What an epsilon gains is in the forms.
    bound = _divergence(event.event, order)
    whole = max(2, ceil(order))
    if event.scheme is SamplingScheme.WITHOUT_REPLACEMENT and inside.delta == 0 and whole <= _LARGEST_SAMPLED_ORDER:
        sampled = sampled_divergence(
            rate=event.rate,
            order=whole,
            inner=lambda j: _divergence(event.event, j),
            pure_epsilon=inside.epsilon,
        )
        bound = min(bound, sampled)
    return bound


def _log_cosh(x: Interval) -> Interval:
    """ln(2 cosh x); the 2 cancels wherever a difference of two is taken."""
    context = intervals()
    return context.log(context.exp(x) + context.exp(-x))


def _lesser(one: Interval, other: Interval) -> Interval:
    """Either is an upper bound on the minimum; the one that proves more is kept."""
    return one if above(one) <= above(other) else other


def _fine(bound: Interval) -> Fraction:
    return max(Fraction(0), round_up(above(bound), places=FINE_PLACES))
