"""Composition theorems as they are taught: what k mechanisms are together, and which question each theorem answers.

Each rule takes steps (epsilon, delta, times) and a slack, the delta the theorem may add. They price no release:
they are compared with independent figures (`oracles`) and with one another. Neighbours are those of the steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from releases.engine.accounting.composition import CompositionTheorem, FigureUse, check_slack, optimal_epsilon, rule
from releases.engine.accounting.conversions import epsilon_of_rho, rho_of_pure
from releases.engine.arithmetic.rounding import (
    Interval,
    above,
    enclose,
    intervals,
)
from releases.engine.domain.privacy import decimal_text
from releases.engine.errors import InvalidInput, Unpriceable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


@dataclass(frozen=True, kw_only=True, slots=True)
class RepeatedMechanism:
    """`times` mechanisms, each (epsilon, delta)-DP."""

    epsilon: Fraction
    delta: Fraction = Fraction(0)
    times: int = 1

    def __post_init__(self) -> None:
        if isinstance(self.times, bool) or not isinstance(self.times, int) or self.times < 1:
            raise InvalidInput("step.times", self.times, "must be a whole number of at least 1")
        for name in ("epsilon", "delta"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, Fraction)) or value < 0:
                raise InvalidInput(f"step.{name}", value, "must be an exact rational of at least 0")
        if self.epsilon == 0:
            raise InvalidInput("step.epsilon", "0", "must be above 0")
        if self.delta >= 1:
            raise InvalidInput("step.delta", str(self.delta), "must be below 1")


#: Every rule that takes steps and a slack, by name.
COMPOSITION_RULES: dict[str, CompositionTheorem] = {}


@rule(
    registry=COMPOSITION_RULES,
    question=FigureUse.FILTER,
    source="Dwork and Roth 2014, Theorem 3.16; adaptive parameters: Rogers, Roth, Ullman and Vadhan 2016",
)
def basic(
    steps: Sequence[RepeatedMechanism],
    *,
    slack: Fraction = Fraction(0),  # noqa: ARG001 - every rule is called alike
) -> tuple[Fraction, Fraction]:
    """Epsilons and deltas add up. The slack is not used."""
    _check_steps(steps)
    return _sum(steps, lambda step: step.epsilon), _sum(steps, lambda step: step.delta)


@rule(registry=COMPOSITION_RULES, question=FigureUse.PLANNED, source="Dwork and Roth 2014, Theorem 3.20")
def advanced(steps: Sequence[RepeatedMechanism], *, slack: Fraction) -> tuple[Fraction, Fraction]:
    """epsilon sqrt(2 k ln(1/slack)) + k epsilon (e^epsilon - 1), k delta + slack, for k equal steps."""
    step = _equal(steps, slack=slack)
    growth = intervals().exp(enclose(step.epsilon)) - 1
    return _advanced(step, slack=slack, mean=enclose(step.epsilon) * growth)


@rule(registry=COMPOSITION_RULES, question=FigureUse.PLANNED, source="lecture notes, advanced composition")
def advanced_lecture(steps: Sequence[RepeatedMechanism], *, slack: Fraction) -> tuple[Fraction, Fraction]:
    """epsilon sqrt(2 k ln(1/slack)) + 2 k epsilon**2, k delta + slack, for k equal steps.

    It follows from `advanced` where e^epsilon - 1 <= 2 epsilon, that is up to epsilon = 1.256; the notes
    state it for every epsilon. (It is true beyond as well, since epsilon tanh(epsilon/2) <= 2 epsilon**2, but
    that proof is the one of `advanced_tanh`, whose figure is smaller everywhere.)

    Raises:
        Unpriceable: outside that range.
    """
    step = _equal(steps, slack=slack)
    if above(intervals().exp(enclose(step.epsilon)) - 1 - 2 * enclose(step.epsilon)) > 0:
        raise Unpriceable(
            f"The form with 2 k epsilon**2 is derived where e^epsilon - 1 is at most 2 epsilon, which is up to "
            f"epsilon 1.256; here epsilon is {decimal_text(step.epsilon)}."
        )
    return _advanced(step, slack=slack, mean=2 * enclose(step.epsilon) ** 2)


@rule(
    registry=COMPOSITION_RULES,
    question=FigureUse.PLANNED,
    source="Dwork and Roth 2014, Theorem 3.20, with the exact mean loss (lecture notes, third bound)",
)
def advanced_tanh(steps: Sequence[RepeatedMechanism], *, slack: Fraction) -> tuple[Fraction, Fraction]:
    """epsilon sqrt(2 k ln(1/slack)) + k epsilon tanh(epsilon/2), k delta + slack, for k equal steps.

    The mean privacy loss of an epsilon-DP step is at most epsilon tanh(epsilon/2), and no less for randomized
    response.
    """
    step = _equal(steps, slack=slack)
    return _advanced(step, slack=slack, mean=enclose(rho_of_pure(epsilon=step.epsilon)))


@rule(
    registry=COMPOSITION_RULES,
    question=FigureUse.PLANNED,
    source="Kairouz, Oh and Viswanath 2015, Theorem 3.3; Murtagh and Vadhan 2016",
)
def optimal(steps: Sequence[RepeatedMechanism], *, slack: Fraction) -> tuple[Fraction, Fraction]:
    """The least epsilon that holds for every k mechanisms that are each (epsilon, delta)-DP.

    With p = e^epsilon/(1 + e^epsilon): slack(E) = sum over l with (k - 2 l) epsilon > E of
    C(k, l) (p^(k-l) (1-p)^l - e^E p^l (1-p)^(k-l)), and delta = 1 - (1 - delta)^k (1 - slack). Between two
    neighbouring (k - 2 l) epsilon it is linear in e^E, so the E of a given slack is found in one pass.
    """
    step = _equal(steps, slack=slack)
    epsilon = optimal_epsilon(epsilon=step.epsilon, times=step.times, slack=slack)
    return epsilon, _any_fails([step], slack=slack)


@rule(
    registry=COMPOSITION_RULES,
    question=FigureUse.FILTER,
    source="Canonne, Kamath and Steinke 2020, Corollary 13; adaptive parameters: proved in `filters`",
)
def concentrated(steps: Sequence[RepeatedMechanism], *, slack: Fraction) -> tuple[Fraction, Fraction]:
    """rho = sum epsilon tanh(epsilon/2), converted at the best order; sum delta + slack."""
    _check_steps(steps, slack=slack)
    rho = _sum(steps, lambda step: rho_of_pure(epsilon=step.epsilon))
    return epsilon_of_rho(rho=rho, delta=slack), _sum(steps, lambda step: step.delta) + slack


def _advanced(step: RepeatedMechanism, *, slack: Fraction, mean: Interval) -> tuple[Fraction, Fraction]:
    root = intervals().sqrt(-2 * step.times * intervals().log(enclose(slack)))
    epsilon = above(enclose(step.epsilon) * root + step.times * mean)
    return epsilon, step.times * step.delta + slack


def _any_fails(steps: Sequence[RepeatedMechanism], *, slack: Fraction) -> Fraction:
    """1 - (1 - slack) prod (1 - delta), rounded up."""
    if all(step.delta == 0 for step in steps):
        return slack
    context = intervals()
    kept = sum((step.times * context.log(enclose(1 - step.delta)) for step in steps), context.mpf(0))
    return above(1 - enclose(1 - slack) * context.exp(kept))


def _sum(steps: Sequence[RepeatedMechanism], amount: Callable[[RepeatedMechanism], Fraction]) -> Fraction:
    return sum((step.times * amount(step) for step in steps), Fraction(0))


def _equal(steps: Sequence[RepeatedMechanism], *, slack: Fraction) -> RepeatedMechanism:
    """All steps as one, if they are equal."""
    _check_steps(steps, slack=slack)
    first = steps[0]
    if any((step.epsilon, step.delta) != (first.epsilon, first.delta) for step in steps):
        raise Unpriceable("This theorem speaks of equal steps, and these are not.")
    return RepeatedMechanism(epsilon=first.epsilon, delta=first.delta, times=sum(step.times for step in steps))


def _check_steps(steps: Sequence[RepeatedMechanism], *, slack: Fraction | None = None) -> None:
    if not steps:
        raise InvalidInput("steps", 0, "must name at least one step")
    if slack is not None:
        check_slack(slack)
