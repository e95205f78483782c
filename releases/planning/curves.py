"""Bounds against epsilon, as the comparison draws them: a curve for every mechanism. Public inputs only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

from releases.display.charts.epsilon import BoundPoint
from releases.display.charts.epsilon import bound_curves as chart_of_curves
from releases.engine.domain.privacy import PrivacyBudget
from releases.engine.domain.schema import Schema
from releases.engine.mechanisms.base import Plan, mechanism, mechanisms
from releases.engine.workload.questions import Question
from releases.planning.comparison import ComparedPlan, plan_at, why_no_largest_error
from releases.questions.base import kind_of

#: Where the curves are drawn, as shares of the chosen epsilon.
_CURVE_STEPS = ("0.1", "0.2", "0.35", "0.6", "1", "1.7", "3", "5", "10")


@dataclass(frozen=True, kw_only=True, slots=True)
class CurveTable:
    """Curves as a table: a row for every place on the axis, a column for every curve."""

    label: str
    axis: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class BoundCurves:
    """Bounds in one unit against epsilon: as a table, and as a chart with its id on the page."""

    id: str
    unit: str
    table: CurveTable
    chart: dict[str, Any]


def bound_points(plans: Sequence[Plan]) -> list[BoundPoint]:
    """The curves of bound against epsilon around the chosen epsilon, for every plan with a bound."""
    return [
        BoundPoint(
            mechanism=mechanism(plan.mechanism).title,
            epsilon=float(epsilon),
            alpha=max(alpha, _least_drawn(plan)),
        )
        for plan in plans
        if not plan.infeasible and (plan.bound or plan.expectation) is not None
        for epsilon, alpha in _curve(
            plan.mechanism, plan.schema, plan.workload, plan.budget, plan.beta, tuple(plan.options.items())
        )
    ]


def _least_drawn(plan: Plan) -> float:
    """A bound of nothing has no place on a logarithmic axis, and would draw a cliff down to whatever stood for it.

    Of counts less than half a row is nothing; of a value, less than half the last place that is kept of its column.
    Sums of very many rows, and means over them, are drawn further down.
    """
    columns = [plan.schema.universe[name] for name in plan.workload.columns]
    return kind_of(plan.workload).least_bound(columns, mechanism=plan.mechanism)


def drawn_titles(rows: Sequence[ComparedPlan]) -> list[str]:
    """Every mechanism that answers this kind of question, in one order: the place in it decides a curve's colour."""
    if not rows:
        return []
    question = rows[0].plan.workload
    return [each.title for each in mechanisms().values() if each.is_offered and each.can_answer(question)]


@lru_cache(maxsize=64)
def _curve(
    name: str, schema: Schema, workload: Question, budget: PrivacyBudget, beta: Fraction, options: tuple[Any, ...]
) -> tuple[tuple[Fraction, float], ...]:
    """Epsilon and bound along one mechanism's curve. A plan may take a while to optimise, and these are many."""
    points = []
    for step in _CURVE_STEPS:
        epsilon = budget.epsilon * Fraction(step)
        plan = plan_at(name, schema, workload, budget, beta, dict(options), epsilon=epsilon)
        if plan is not None and (bound := plan.bound or plan.expectation) is not None:
            points.append((epsilon, bound.alpha))
    return tuple(points)


def bound_curves(rows: Sequence[ComparedPlan], *, chosen: Fraction) -> list[BoundCurves]:
    """The curves of each unit of bounds; none where the answers of a method have several units."""
    drawn: list[BoundCurves] = []
    if rows and why_no_largest_error(rows[0].plan):
        return drawn
    for number, unit in enumerate(dict.fromkeys(row.unit for row in rows)):
        points = bound_points([row.plan for row in rows if row.unit == unit])
        if points:
            drawn.append(
                BoundCurves(
                    id=f"bounds-data-{number}" if number else "bounds-data",
                    unit=unit,
                    table=_bound_table(points, unit),
                    chart=chart_of_curves(points, chosen=float(chosen), unit=unit, titles=drawn_titles(rows)),
                )
            )
    return drawn


def _bound_table(points: Sequence[BoundPoint], unit: str) -> CurveTable:
    """A row for every epsilon, a column for every mechanism."""
    heads = list(dict.fromkeys(point.mechanism for point in points))
    places = 0 if all(point.alpha >= 10 for point in points) else 1
    found = {(point.epsilon, point.mechanism): f"{point.alpha:,.{places}f}" for point in points}
    return CurveTable(
        label=f"Bounds at other epsilons, in {unit}",
        axis="Epsilon",
        heads=tuple(heads),
        rows=tuple(
            (f"{epsilon:.3g}", tuple(found.get((epsilon, head), "–") for head in heads))
            for epsilon in sorted({point.epsilon for point in points})
        ),
    )
