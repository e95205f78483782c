"""What a composition theorem says: a guarantee, the question it answers, and where it stands.

A theorem that is right for one question can be wrong for another. A ledger asks FILTER: later releases, and how much
they spend, depend on what earlier ones answered. A plan asks PLANNED: every parameter is fixed before the first answer.
A rule returns a `Guarantee` rounded up: epsilon at the twelfth digit, delta at the eighteenth. Theorems that price
nothing here are in `releases.engine.verification.composition_theorems`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import TYPE_CHECKING, ParamSpec

from releases.engine.arithmetic.rounding import (
    above_number,
    number,
    reals,
    round_up,
)
from releases.engine.domain.privacy import decimal_text
from releases.engine.errors import InvalidInput, Unpriceable

if TYPE_CHECKING:
    from collections.abc import Callable

#: Digits after the point of what a rule returns.
EPSILON_PLACES = 12
DELTA_PLACES = 18
#: The exact sum over outcomes has one term a step: a second's work here.
_MAX_STEPS_EXACTLY = 50_000

P = ParamSpec("P")


class FigureUse(StrEnum):
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
    question: FigureUse
    source: str

    def in_words(self) -> str:
        text = f"epsilon {decimal_text(self.epsilon, places=6)}"
        return f"{text} with delta {float(self.delta):.6g}" if self.delta else text


@dataclass(frozen=True, kw_only=True, slots=True)
class CompositionTheorem:
    """A theorem in the registry: its name, the question it is valid for, where it stands, and its
    computation.
    """

    name: str
    question: FigureUse
    source: str
    compute: Callable[..., Guarantee]


def rule(
    *, registry: dict[str, CompositionTheorem], question: FigureUse, source: str
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
        registry[compute.__name__] = CompositionTheorem(
            name=compute.__name__, question=question, source=source, compute=labelled
        )
        return labelled

    return register


def optimal_epsilon(*, epsilon: Fraction, times: int, slack: Fraction) -> Fraction:
    """The least E of `optimal` for `times` epsilon-DP mechanisms at delta = slack, rounded up."""
    check_slack(slack)
    if times > _MAX_STEPS_EXACTLY:
        raise Unpriceable(f"The exact figure is computed for at most {_MAX_STEPS_EXACTLY} steps.")
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


def check_slack(slack: Fraction) -> None:
    if isinstance(slack, bool) or not isinstance(slack, Fraction) or not 0 < slack < 1:
        raise InvalidInput("slack", str(slack), "must be an exact rational above 0 and below 1")
