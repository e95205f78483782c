"""Composition theorems: what k mechanisms are together, and which question each theorem answers.

A theorem that is right for one question can be wrong for another. A ledger asks FILTER: later releases, and
how much they spend, depend on what earlier ones answered; only `basic`, `adaptive_rate` and the two
concentrated rules below may decide there. The rest hold for PLANNED: every parameter is fixed before the
first answer (what is asked may still depend on earlier answers). DISPLAY is for looking at a history
afterwards: it decides nothing.

Every rule takes steps (epsilon, delta, times) and a slack, the delta the theorem may add, and returns a
`Guarantee` rounded up: epsilon at the twelfth digit, delta at the eighteenth. Neighbours are those of the
steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import TYPE_CHECKING, ParamSpec

from releases.engine.accounting.conversions import epsilon_of_rho, epsilon_of_rho_bun_steinke, rho_of_pure
from releases.engine.arithmetic.rounding import (
    Interval,
    above,
    above_number,
    enclose,
    intervals,
    number,
    reals,
    round_up,
)
from releases.engine.domain.privacy import decimal_text
from releases.engine.errors import InvalidInput, Unpriceable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: Digits after the point of what a rule returns.
EPSILON_PLACES = 12
DELTA_PLACES = 18
#: The exact sum over outcomes has one term a step: a second's work here.
_MOST_STEPS_EXACTLY = 50_000

P = ParamSpec("P")


class Question(StrEnum):
    """What a figure may be used for.

    FILTER: it holds although later parameters depend on earlier answers; it may refuse or allow a release.
    PLANNED: it holds if all parameters were fixed before the first answer; it may price one release.
    DISPLAY: it describes; it may decide nothing.
    """

    FILTER = "filter"
    PLANNED = "planned"
    DISPLAY = "display"


@dataclass(frozen=True, kw_only=True, slots=True)
class Guarantee:
    """(epsilon, delta)-differential privacy, delta 0 being pure, and what the statement is good for."""

    epsilon: Fraction
    delta: Fraction
    question: Question
    source: str

    def in_words(self) -> str:
        text = f"epsilon {decimal_text(self.epsilon, places=6)}"
        return f"{text} with delta {float(self.delta):.6g}" if self.delta else text


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
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


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """A theorem in the registry: its name, the question it is valid for, where it stands, and its
    computation.
    """

    name: str
    question: Question
    source: str
    compute: Callable[..., Guarantee]


#: Every rule that takes steps and a slack, by name.
COMPOSITION_RULES: dict[str, Rule] = {}


def rule(
    *, registry: dict[str, Rule], question: Question, source: str
) -> Callable[[Callable[P, tuple[Fraction, Fraction]]], Callable[P, Guarantee]]:
    """Enter a computation of (epsilon, delta) in a registry; what it returns is rounded up and labelled."""

    def register(compute: Callable[P, tuple[Fraction, Fraction]]) -> Callable[P, Guarantee]:
        def labelled(*args: P.args, **kwargs: P.kwargs) -> Guarantee:
            epsilon, delta = compute(*args, **kwargs)
            delta = round_up(delta, places=DELTA_PLACES)
            if delta >= 1:
                raise Unpriceable("The deltas add up to 1 or more, which promises nothing.")
            return Guarantee(
                epsilon=round_up(max(Fraction(0), epsilon), places=EPSILON_PLACES),
                delta=delta,
                question=question,
                source=source,
            )

        labelled.__doc__ = compute.__doc__
        labelled.__name__ = compute.__name__
        registry[compute.__name__] = Rule(name=compute.__name__, question=question, source=source, compute=labelled)
        return labelled

    return register


@rule(
    registry=COMPOSITION_RULES,
    question=Question.FILTER,
    source="Dwork and Roth 2014, Theorem 3.16; adaptive parameters: Rogers, Roth, Ullman and Vadhan 2016",
)
def basic(
    steps: Sequence[Step],
    *,
    slack: Fraction = Fraction(0),  # noqa: ARG001 - every rule is called alike
) -> tuple[Fraction, Fraction]:
    """Epsilons and deltas add up. The slack is not used."""
    _check_steps(steps)
    return _sum(steps, lambda step: step.epsilon), _sum(steps, lambda step: step.delta)


@rule(registry=COMPOSITION_RULES, question=Question.PLANNED, source="Dwork and Roth 2014, Theorem 3.20")
def advanced(steps: Sequence[Step], *, slack: Fraction) -> tuple[Fraction, Fraction]:
    """epsilon sqrt(2 k ln(1/slack)) + k epsilon (e^epsilon - 1), k delta + slack, for k equal steps."""
    step = _equal(steps, slack=slack)
    growth = intervals().exp(enclose(step.epsilon)) - 1
    return _advanced(step, slack=slack, mean=enclose(step.epsilon) * growth)


@rule(registry=COMPOSITION_RULES, question=Question.PLANNED, source="lecture notes, advanced composition")
def advanced_lecture(steps: Sequence[Step], *, slack: Fraction) -> tuple[Fraction, Fraction]:
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
    question=Question.PLANNED,
    source="Dwork and Roth 2014, Theorem 3.20, with the exact mean loss (lecture notes, third bound)",
)
def advanced_tanh(steps: Sequence[Step], *, slack: Fraction) -> tuple[Fraction, Fraction]:
    """epsilon sqrt(2 k ln(1/slack)) + k epsilon tanh(epsilon/2), k delta + slack, for k equal steps.

    The mean privacy loss of an epsilon-DP step is at most epsilon tanh(epsilon/2), and no less for randomized
    response.
    """
    step = _equal(steps, slack=slack)
    return _advanced(step, slack=slack, mean=enclose(rho_of_pure(epsilon=step.epsilon)))


@rule(
    registry=COMPOSITION_RULES,
    question=Question.PLANNED,
    source="Kairouz, Oh and Viswanath 2015, Theorem 3.3; Murtagh and Vadhan 2016",
)
def optimal(steps: Sequence[Step], *, slack: Fraction) -> tuple[Fraction, Fraction]:
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
    question=Question.PLANNED,
    source="Kairouz, Oh and Viswanath 2015, Theorem 3.5",
)
def heterogeneous(steps: Sequence[Step], *, slack: Fraction) -> tuple[Fraction, Fraction]:
    """For unequal steps the least of three: with M = sum epsilon tanh(epsilon/2) and S = sum epsilon**2,

    sum epsilon; M + sqrt(2 S ln(e + sqrt(S)/slack)); M + sqrt(2 S ln(1/slack)); and
    delta = 1 - (1 - slack) prod (1 - delta).
    """
    _check_steps(steps, slack=slack)
    context = intervals()
    mean = enclose(_sum(steps, lambda step: rho_of_pure(epsilon=step.epsilon)))
    squares = enclose(_sum(steps, lambda step: step.epsilon**2))
    inside = context.exp(context.mpf(1)) + context.sqrt(squares) / enclose(slack)
    bounds = (
        _sum(steps, lambda step: step.epsilon),
        above(mean + context.sqrt(2 * squares * context.log(inside))),
        above(mean + context.sqrt(-2 * squares * context.log(enclose(slack)))),
    )
    return min(bounds), _any_fails(steps, slack=slack)


@rule(
    registry=COMPOSITION_RULES,
    question=Question.FILTER,
    source="Whitehouse, Ramdas, Rogers and Wu 2023; proved in `filters` as a case of the concentrated filter",
)
def adaptive_rate(steps: Sequence[Step], *, slack: Fraction) -> tuple[Fraction, Fraction]:
    """sqrt(2 S ln(1/slack)) + S/2 with S = sum epsilon**2, and sum delta + slack.

    A filter may stop at the cap S. It is rho = S/2 converted by the older formula, so `concentrated` is never
    worse.
    """
    _check_steps(steps, slack=slack)
    squares = enclose(_sum(steps, lambda step: step.epsilon**2))
    root = intervals().sqrt(-2 * squares * intervals().log(enclose(slack)))
    return above(root + squares / 2), _sum(steps, lambda step: step.delta) + slack


@rule(
    registry=COMPOSITION_RULES,
    question=Question.FILTER,
    source="Bun and Steinke 2016, Proposition 1.3; adaptive parameters: proved in `filters`",
)
def concentrated_bun_steinke(steps: Sequence[Step], *, slack: Fraction) -> tuple[Fraction, Fraction]:
    """rho = sum epsilon tanh(epsilon/2), converted to rho + 2 sqrt(rho ln(1/slack)); sum delta + slack."""
    _check_steps(steps, slack=slack)
    rho = _sum(steps, lambda step: rho_of_pure(epsilon=step.epsilon))
    epsilon = epsilon_of_rho_bun_steinke(rho=rho, delta=slack)
    return epsilon, _sum(steps, lambda step: step.delta) + slack


@rule(
    registry=COMPOSITION_RULES,
    question=Question.FILTER,
    source="Canonne, Kamath and Steinke 2020, Corollary 13; adaptive parameters: proved in `filters`",
)
def concentrated(steps: Sequence[Step], *, slack: Fraction) -> tuple[Fraction, Fraction]:
    """rho = sum epsilon tanh(epsilon/2), converted at the best order; sum delta + slack."""
    _check_steps(steps, slack=slack)
    rho = _sum(steps, lambda step: rho_of_pure(epsilon=step.epsilon))
    return epsilon_of_rho(rho=rho, delta=slack), _sum(steps, lambda step: step.delta) + slack


def optimal_epsilon(*, epsilon: Fraction, times: int, slack: Fraction) -> Fraction:
    """The least E of `optimal` for `times` epsilon-DP mechanisms at delta = slack, rounded up."""
    _check_slack(slack)
    if times > _MOST_STEPS_EXACTLY:
        raise Unpriceable(f"The exact figure is computed for at most {_MOST_STEPS_EXACTLY} steps.")
    context = reals()
    e, target = number(epsilon), number(slack)
    # Outcome l has l losses of -epsilon and k - l of +epsilon; `ratio` is C(k, l) p^(k-l) (1-p)^l, `other`
    # its mirror.
    ratio = (1 + context.exp(-e)) ** -times
    other = ratio * context.exp(-e * times)
    reached, mirrored = context.mpf(0), context.mpf(0)
    for l in range(times // 2 + 1):  # noqa: E741 - the theorem's letter
        edge = (times - 2 * l) * e
        # At E = edge the sum still runs over the outcomes before l.
        if reached - context.exp(edge) * mirrored > target:
            break
        reached, mirrored = reached + ratio, mirrored + other
        step = context.mpf(times - l) / (l + 1)
        ratio, other = ratio * step * context.exp(-e), other * step * context.exp(e)
    if reached <= target:
        return Fraction(0)
    return max(Fraction(0), above_number(context.log((reached - target) / mirrored)))


def _advanced(step: Step, *, slack: Fraction, mean: Interval) -> tuple[Fraction, Fraction]:
    root = intervals().sqrt(-2 * step.times * intervals().log(enclose(slack)))
    epsilon = above(enclose(step.epsilon) * root + step.times * mean)
    return epsilon, step.times * step.delta + slack


def _any_fails(steps: Sequence[Step], *, slack: Fraction) -> Fraction:
    """1 - (1 - slack) prod (1 - delta), rounded up."""
    if all(step.delta == 0 for step in steps):
        return slack
    context = intervals()
    kept = sum((step.times * context.log(enclose(1 - step.delta)) for step in steps), context.mpf(0))
    return above(1 - enclose(1 - slack) * context.exp(kept))


def _sum(steps: Sequence[Step], amount: Callable[[Step], Fraction]) -> Fraction:
    return sum((step.times * amount(step) for step in steps), Fraction(0))


def _equal(steps: Sequence[Step], *, slack: Fraction) -> Step:
    """All steps as one, if they are equal."""
    _check_steps(steps, slack=slack)
    first = steps[0]
    if any((step.epsilon, step.delta) != (first.epsilon, first.delta) for step in steps):
        raise Unpriceable("This theorem speaks of equal steps, and these are not.")
    return Step(epsilon=first.epsilon, delta=first.delta, times=sum(step.times for step in steps))


def _check_steps(steps: Sequence[Step], *, slack: Fraction | None = None) -> None:
    if not steps:
        raise InvalidInput("steps", 0, "must name at least one step")
    if slack is not None:
        _check_slack(slack)


def _check_slack(slack: Fraction) -> None:
    if isinstance(slack, bool) or not isinstance(slack, Fraction) or not 0 < slack < 1:
        raise InvalidInput("slack", str(slack), "must be an exact rational above 0 and below 1")
