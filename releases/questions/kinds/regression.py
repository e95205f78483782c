"""How a number depends on other columns: a linear regression."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from releases.engine.domain.attribute import Attribute
from releases.engine.domain.counted import Counted
from releases.engine.domain.universe import Universe
from releases.engine.workload.kinds.regression import MAX_SLOPES, Regression
from releases.questions.base import (
    AnswerShape,
    Columns,
    Field,
    Input,
    StatisticKind,
    Want,
    columns_field,
    register,
)
from releases.questions.headline import Measure, ReleasedAnswer


@register
class RegressionKind(StatisticKind[Regression]):
    statistic = Regression
    title = "How one number depends on others (linear regression)"
    want = Want.LINE
    says = (
        "The line that fits best: how much the outcome changes, on average, for each 1 more of a predictor where the "
        "other predictors are equal. Every number has an interval for the noise and for the sampling of the {many}. It "
        "takes many {many}; if noise hides the line, the result says so instead."
    )
    phrases = {"regression": "linear regression"}
    fields = (
        Field(
            name="outcome",
            label="Outcome",
            input=Input.COLUMN,
            help="The number that depends on the others.",
            missing="Outcome: nothing was chosen; must name a numeric column",
            columns=Columns.NUMERIC,
        ),
        columns_field(
            Columns.VALUED,
            label="Predictors",
            help=f"Up to {MAX_SLOPES} numbers. A column of categories takes one for each category except the first, "
            "with which the others are compared. The fewer, the less noise.",
        ),
    )
    lacks = "No column is declared as numbers, so there is no outcome."
    depends_on_rows = True
    is_proved = False
    is_of_population = True
    has_one_axis = False

    def in_words(self, question: Any) -> str:
        predictors = ", ".join(question.statistic.predictors)
        return f"linear regression: how {question.statistic.outcome} depends on {predictors}"

    def typed(self, statistic: Regression, universe: Universe) -> dict[str, Any]:
        return {"outcome": statistic.outcome, "columns": list(statistic.predictors)}

    def query(self, given: Mapping[str, Any]) -> dict[str, Any]:
        return {self.name: {"outcome": given["outcome"], "columns": given["columns"]}}

    def bound_unit(self, columns: Sequence[Attribute], *, mechanism: str, counted: Counted) -> str:
        return f"units of {columns[0].name}"

    def has_one_unit(self, columns: Sequence[Attribute]) -> bool:
        """A slope is in the outcome's unit per unit of its predictor, the intercept in the outcome's."""
        return False

    def least_bound(self, columns: Sequence[Attribute], *, mechanism: str) -> float:
        """A slope is as small as the predictor's range is large."""
        return 1e-12

    def shape(self, statistic: Regression, *, chosen: bool, answers: int) -> AnswerShape:
        return AnswerShape.COEFFICIENTS

    def units(self, statistic: Regression, universe: Universe, declared: Mapping[str, str]) -> Sequence[str]:
        outcome = declared.get(statistic.outcome, "")
        if not outcome:
            return ()
        of_slopes = [
            outcome if term.category else f"{outcome} per {declared.get(term.column) or term.column}"
            for term in statistic.terms(universe)
        ]
        return (*of_slopes, outcome)

    def found(self, statistic: Regression, part: int, answers: Sequence[ReleasedAnswer], *, unit: str) -> str:
        first = answers[0]
        if first.is_chosen:
            return (
                "No coefficient can be said: the noise hides how the predictors vary. More "
                f"{first.counted.many}, a larger epsilon or fewer predictors would help"
            )
        return Measure(noun=f"The {first.label}").about(first)
