"""How much epsilon each of several plans gets, so that their error bounds have a given ratio. Public facts only.

Bounds in one unit are compared as they are, others as parts of what the answers can be: a count of the rows that there
are, as somebody guesses, a mean or a quantile of the declared range. The rule never looks at an answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from math import exp, inf, log

from releases.engine.errors import InvalidInput
from releases.engine.mechanisms.base import Plan
from releases.planning.comparison import alpha_at, bound_unit
from releases.planning.usefulness import assumed_rows, most_of_answers
from releases.questions.base import kind_of

#: A bound is computed at so many epsilons, from a thousandth of the whole upwards; between them it follows a power.
_POINTS, _LEAST = 13, 1e-3
_HALVINGS = 60


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanPart:
    """One plan.

    Attributes:
        weight: an error bound with weight 2 is half as wide as one with weight 1.
        guess: how many rows there are, as somebody guesses.
    """

    title: str
    plan: Plan
    weight: Fraction
    guess: int | None = None


def shares_for_ratio(parts: Sequence[PlanPart], *, epsilon: Fraction) -> list[Fraction]:
    """The share of epsilon of each part, at which bound, over what its answers can be, times weight is the same for
    all, and which together make 1.

    Raises:
        InvalidInput: the bound of a part is not known before the release, or cannot be compared with those of others.
    """
    if len(parts) == 1:
        return [Fraction(1)]
    scales = _scales(parts)
    curves = [_curve(each, epsilon, scale) for each, scale in zip(parts, scales, strict=True)]
    low = min(points[-1][1] for points in curves)
    high = max(points[0][1] for points in curves)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        needs_too_much = sum(exp(_epsilon_for(middle, points)) for points in curves) > epsilon
        low, high = (middle, high) if needs_too_much else (low, middle)
    found = [Fraction(exp(_epsilon_for(high, points))) for points in curves]
    return [each / sum(found) for each in found]


def _scales(parts: Sequence[PlanPart]) -> list[float]:
    # Sums have the unit of means, and are no more like them for that.
    units = {(_unit(each.plan), kind_of(each.plan.workload).is_total) for each in parts}
    guess = next((rows for each in parts if (rows := assumed_rows(each.plan, each.guess))), None)
    if len(units) == 1:
        return [1.0 for _ in parts]
    scales = []
    for each in parts:
        unit = bound_unit(each.plan)
        scale = most_of_answers(each.plan, unit=unit, rows=assumed_rows(each.plan, each.guess) or guess)
        if scale is None:
            if guess is None:
                rule = "compares errors in different units only if you type about how many rows there are: under"
                raise InvalidInput("share_rule", each.title, f"{rule} “Compare methods” of one of the parts")
            raise InvalidInput("share_rule", each.title, "has an error that cannot be compared with the others'")
        scales.append(scale)
    return scales


def _unit(plan: Plan) -> str:
    """Of its bound; empty of numbers of rows and of persons, which are compared as they are."""
    unit = bound_unit(plan)
    return "" if unit == plan.schema.counted.many else unit


def _curve(part: PlanPart, epsilon: Fraction, scale: float) -> list[tuple[float, float]]:
    """The logarithms of epsilon and of the compared error, which never grows with epsilon."""
    points, least = [], inf
    for place in range(_POINTS):
        at = float(epsilon) * _LEAST ** (1 - place / (_POINTS - 1))
        found = alpha_at(part.plan, Decimal(f"{at:.6g}"))
        if found:
            least = min(least, log(found * float(part.weight) / scale))
            points.append((log(at), least))
    if not points:
        raise InvalidInput("share_rule", part.title, "has an error that is known only with the release; type its share")
    return points


def _epsilon_for(error: float, points: Sequence[tuple[float, float]]) -> float:
    """The logarithm of the least epsilon at which the error is reached, by straight lines between the points."""
    before = points[0]
    if before[1] <= error:
        return before[0]
    for point in points[1:]:
        if point[1] <= error:
            share = (before[1] - error) / (before[1] - point[1])
            return before[0] + share * (point[0] - before[0])
        before = point
    return before[0]
