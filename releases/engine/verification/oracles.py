"""Prices of known plans, each beside the figure of something that shares no code with the accountant.

The oracles are mpmath, which sums or minimises the definition itself to forty digits, dp-accounting, and opendp where
it is installed. A figure of ours is an upper bound: it may lie above its oracle by what rounding up and a guard cost,
and never below.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from importlib.util import find_spec
from typing import Any

import mpmath

from releases.engine.accounting import tight_composition
from releases.engine.accounting.accountant import EPSILON_PLACES, price
from releases.engine.accounting.composition import Guarantee
from releases.engine.accounting.conversions import (
    epsilon_of_rho,
    epsilon_of_rho_bun_steinke,
    largest_rho,
    rho_of_laplace,
    rho_of_pure,
)
from releases.engine.accounting.events import (
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    Event,
    ExponentialMechanismEvent,
    GaussianEvent,
    LaplaceEvent,
    RepeatedEvent,
)
from releases.engine.verification import composition_theorems
from releases.engine.verification.composition_theorems import RepeatedMechanism

#: The delta of every figure, and the epsilon of every pure step.
DELTA = Fraction(1, 10**6)
STEP = Fraction(1, 10)
STEPS = 1000
_VARIANCE = Fraction(10_000)
#: Digits that mpmath carries.
_DIGITS = 40
#: What an oracle's own rounding may put above the truth, relative to the figure.
_ORACLES_ROUNDING = 1e-11


@dataclass(frozen=True, kw_only=True, slots=True)
class FigureSeen:
    """One figure of ours beside an oracle's.

    Attributes:
        figure: what is priced and by which theorem.
        ours: the upper bound.
        oracle: the figure that it must not be below.
        source: who computed that.
        allowance: by how much ours may be above it.
    """

    figure: str
    ours: float
    oracle: float
    source: str
    allowance: float

    @property
    def is_as_it_should_be(self) -> bool:
        return -_ORACLES_ROUNDING * abs(self.oracle) <= self.ours - self.oracle <= self.allowance


def figures_seen() -> Iterator[FigureSeen]:
    """Every figure that is checked; those of opendp only where it is installed."""
    with mpmath.workdps(_DIGITS):  # not while suspended: the precision is the whole process's
        by_definition = [*_compositions(), *_conversions(), *_single_events()]
    yield from by_definition
    yield from _beside_dp_accounting()
    if find_spec("opendp") is not None:
        yield from _beside_opendp()


def _repeated(event: Event, times: int = STEPS) -> RepeatedEvent:
    return RepeatedEvent(event=event, times=times)


# mpmath: definitions


def _compositions() -> Iterator[FigureSeen]:
    """A thousand steps of a tenth, by each theorem about composition."""
    steps, e, k = [RepeatedMechanism(epsilon=STEP, times=STEPS)], mpmath.mpf(1) / 10, STEPS
    root = e * mpmath.sqrt(2 * k * -mpmath.log(_mp(DELTA)))
    rho = k * e * mpmath.tanh(e / 2)
    rules: list[tuple[str, Callable[..., Guarantee], Any]] = [
        ("sum of epsilons", composition_theorems.basic, k * e),
        ("lecture form, 2 k epsilon^2", composition_theorems.advanced_lecture, root + 2 * k * e * e),
        ("Dwork and Roth, Theorem 3.20", composition_theorems.advanced, root + k * e * mpmath.expm1(e)),
        ("its form with tanh", composition_theorems.advanced_tanh, root + rho),
        ("sum of rho, CKS20", composition_theorems.concentrated, converted(rho, _mp(DELTA))),
        ("optimal (Kairouz, Oh, Viswanath)", composition_theorems.optimal, optimal(e, k, _mp(DELTA))),
    ]
    for name, rule, oracle in rules:
        ours = float(rule(steps, slack=DELTA).epsilon)
        yield _seen(f"1000 x 0.1, {name}", ours, oracle, "mpmath", 1e-8)
    gaussians = [_repeated(GaussianEvent(noise_variance=_VARIANCE))]
    exact = tight_composition.exact_gaussian(gaussians, delta=DELTA)
    oracle = gaussian_epsilon(mpmath.sqrt(STEPS) / 100, _mp(DELTA))
    yield _seen("1000 Gaussians of sigma 100, exact", float(exact.epsilon), oracle, "mpmath", 1e-9)


def _conversions() -> Iterator[FigureSeen]:
    """rho to epsilon and back."""
    for rho in (Fraction(5), Fraction(5, 4), Fraction(1, 20)):
        ours = epsilon_of_rho(rho=rho, delta=DELTA)
        yield _seen(f"epsilon of rho {rho}, CKS20", float(ours), converted(_mp(rho), _mp(DELTA)), "mpmath", 1e-8)
    older = epsilon_of_rho_bun_steinke(rho=Fraction(5), delta=DELTA)
    oracle = 5 + 2 * mpmath.sqrt(5 * -mpmath.log(_mp(DELTA)))
    yield _seen("epsilon of rho 5, BS16", float(older), oracle, "mpmath", 1e-8)
    # The other way round a figure on the safe side is the smaller one, so its own epsilon is compared.
    rho_at_1 = largest_rho(epsilon=Fraction(1), delta=DELTA)
    spent = converted(_mp(rho_at_1), _mp(DELTA))
    yield _seen(f"epsilon 1 holds rho {float(rho_at_1):.6f}", 1.0, spent, "mpmath", 1e-9)


def _single_events() -> Iterator[FigureSeen]:
    """rho of single events: the supremum of divergence over order, on a grid of orders."""
    for epsilon in (Fraction(1, 10), Fraction(1), Fraction(3)):
        worst = max(_of_coins(_mp(epsilon), order) for order in _orders())
        yield _seen(f"rho of any pure epsilon {epsilon}", float(rho_of_pure(epsilon=epsilon)), worst, "mpmath", 1e-4)
    worst = max(_of_laplace(mpmath.mpf(1), order) for order in _orders())
    yield _seen("rho of Laplace noise, epsilon 1", float(rho_of_laplace(epsilon=Fraction(1))), worst, "mpmath", 1e-4)


def optimal(epsilon: Any, times: int, delta: Any) -> Any:
    """The least epsilon of so many randomized responses together: their loss summed outcome by outcome."""
    truth = mpmath.exp(epsilon) / (1 + mpmath.exp(epsilon))
    outcomes = [
        ((times - 2 * lies) * epsilon, mpmath.binomial(times, lies) * truth ** (times - lies) * (1 - truth) ** lies)
        for lies in range(times // 2 + 1)
    ]

    def excess(at: Any) -> Any:
        return mpmath.fsum(mass * -mpmath.expm1(at - loss) for loss, mass in outcomes if loss > at) - delta

    return _root(excess, high=times * epsilon)


def converted(rho: Any, delta: Any) -> Any:
    """Canonne, Kamath and Steinke 2020, Corollary 13: the least over all orders."""

    def at(log_order: Any) -> Any:
        order = 1 + mpmath.exp(log_order)
        return order * rho + mpmath.log1p(-1 / order) - mpmath.log(order * delta) / (order - 1)

    low, high = mpmath.mpf(-10), mpmath.mpf(15)
    for _ in range(200):  # the function falls, then rises
        third = (high - low) / 3
        low, high = (low, high - third) if at(low + third) < at(high - third) else (low + third, high)
    return at(low)


def gaussian_epsilon(shift: Any, delta: Any) -> Any:
    """Balle and Wang 2018, Theorem 8, for noise of deviation 1."""

    def excess(epsilon: Any) -> Any:
        far, near = -shift / 2 - epsilon / shift, shift / 2 - epsilon / shift
        return mpmath.ncdf(near) - mpmath.exp(epsilon) * mpmath.ncdf(far) - delta

    return _root(excess, high=mpmath.mpf(50))


def _root(falling: Callable[[Any], Any], *, high: Any) -> Any:
    low = mpmath.mpf(0)
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if falling(middle) > 0 else (low, middle)
    return high


def _orders() -> list[Any]:
    return [1 + mpmath.mpf(10) ** exponent for exponent in range(-6, 4)]


def _of_coins(epsilon: Any, order: Any) -> Any:
    """D_order / order between a coin that tells the truth and one that lies, with odds e^epsilon."""
    truth = mpmath.exp(epsilon) / (1 + mpmath.exp(epsilon))
    moment = truth**order * (1 - truth) ** (1 - order) + (1 - truth) ** order * truth ** (1 - order)
    return mpmath.log(moment) / (order - 1) / order


def _of_laplace(epsilon: Any, order: Any) -> Any:
    """Mironov 2017, Table II."""
    above = order / (2 * order - 1) * mpmath.exp((order - 1) * epsilon)
    below = (order - 1) / (2 * order - 1) * mpmath.exp(-order * epsilon)
    return mpmath.log(above + below) / (order - 1) / order


# Other software


def _beside_dp_accounting() -> Iterator[FigureSeen]:
    import dp_accounting
    from dp_accounting import pld, rdp

    delta, source = float(DELTA), "dp-accounting"
    theirs = dp_accounting.get_epsilon_gaussian(100 / STEPS**0.5, delta)
    gaussians = [_repeated(GaussianEvent(noise_variance=_VARIANCE))]
    ours = float(tight_composition.exact_gaussian(gaussians, delta=DELTA).epsilon)
    yield _seen("1000 Gaussians of sigma 100, exact", ours, theirs, source, 1e-9)

    laplaces = [_repeated(LaplaceEvent(noise_multiplier=1 / STEP))]
    their_laplaces = dp_accounting.SelfComposedDpEvent(dp_accounting.LaplaceDpEvent(10.0), STEPS)
    their_gaussians = dp_accounting.SelfComposedDpEvent(dp_accounting.GaussianDpEvent(100.0), 700)
    mixed = dp_accounting.ComposedDpEvent(
        [dp_accounting.SelfComposedDpEvent(their_laplaces.event, 300), their_gaussians]
    )
    ours_mixed = [
        _repeated(LaplaceEvent(noise_multiplier=1 / STEP), 300),
        _repeated(GaussianEvent(noise_variance=_VARIANCE), 700),
    ]
    for name, plan, event in (
        ("1000 x Laplace(10)", laplaces, their_laplaces),
        ("300 Laplace + 700 Gaussian", ours_mixed, mixed),
    ):
        losses = pld.PLDAccountant(
            dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE, value_discretization_interval=1e-4
        )
        found = losses.compose(event).get_epsilon(delta)
        ours = float(tight_composition.loss_distribution(plan, delta=DELTA).epsilon)
        yield _seen(f"{name}, loss distribution", ours, found, source, 2e-5)
        # Rényi divergences bound the same plan from above: ours must not be below the loss distribution, nor above
        # theirs, whose orders are fewer.
        ours = float(tight_composition.renyi(plan, delta=DELTA).epsilon)
        theirs = rdp.RdpAccountant().compose(event).get_epsilon(delta)
        yield _seen(f"{name}, Rényi", ours, found, source, theirs - found)


def _beside_opendp() -> Iterator[FigureSeen]:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    source = "opendp"
    integers = dp.vector_domain(dp.atom_domain(T=int))
    gaussian = dp.m.make_gaussian(integers, dp.l2_distance(T=float), scale=100.0)
    many: Any = dp.c.make_composition([gaussian] * STEPS)
    as_approximate: Any = dp.c.make_zCDP_to_approxDP(many)
    theirs = as_approximate.map(1.0).epsilon(float(DELTA))
    ours = _priced(_repeated(DiscreteGaussianEvent(noise_variance=_VARIANCE)))
    yield _seen("1000 discrete Gaussians of sigma 100", ours, theirs, source, 1e-9)
    laplace: Any = dp.m.make_laplace(integers, dp.l1_distance(T=int), scale=10.0)
    ours = float(price([DiscreteLaplaceEvent(noise_multiplier=1 / STEP)], delta=Fraction(0)).pure_epsilon or 0)
    yield _seen("one discrete Laplace of scale 10", ours / 10**EPSILON_PLACES, laplace.map(1), source, 1e-9)
    space = integers, dp.linf_distance(T=int)
    choice: Any = dp.m.make_noisy_max(*space, dp.zero_concentrated_divergence(), scale=20.0)
    ours = float(price([ExponentialMechanismEvent(epsilon=STEP)], delta=Fraction(0)).rho or 0)
    yield _seen("rho of one choice, epsilon 0.1", ours / 10**EPSILON_PLACES, choice.map(1), source, 1e-9)


def _priced(event: Event) -> float:
    found = price([event], delta=DELTA).epsilon
    assert found is not None
    return float(found / 10**EPSILON_PLACES)


def _seen(figure: str, ours: float, oracle: Any, source: str, allowance: float) -> FigureSeen:
    return FigureSeen(figure=figure, ours=ours, oracle=float(oracle), source=source, allowance=allowance)


def _mp(value: Fraction) -> Any:
    return mpmath.mpf(value.numerator) / value.denominator
