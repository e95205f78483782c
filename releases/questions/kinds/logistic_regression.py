"""How the odds of an outcome depend on other columns: a logistic regression."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from releases.engine.domain.attribute import Attribute
from releases.engine.domain.counted import Counted
from releases.engine.domain.universe import Universe
from releases.engine.workload.kinds.logistic_regression import MAX_COUNTS, MAX_SLOPES, LogisticRegression
from releases.questions.base import AnswerShape, Columns, Field, Input, StatisticKind, Want, columns_field, register
from releases.questions.headline import Measure, ReleasedAnswer


@register
class LogisticRegressionKind(StatisticKind[LogisticRegression]):
    statistic = LogisticRegression
    title = "How the odds of something depend on columns (logistic regression)"
    want = Want.LINE
    says = (
        "How many times as high the odds of the outcome are for more of a predictor, or for another category of it, "
        "where the other predictors are equal. Every number has an interval for the noise and for the sampling of the "
        "{many}. It takes many {many}; if noise hides the answer, the result says so instead."
    )
    phrases = {"logistic_regression": "logistic regression"}
    fields = (
        Field(
            name="outcome",
            label="Outcome",
            input=Input.COLUMN,
            help="The column that says who has the outcome.",
            missing="Outcome: nothing was chosen; must name a declared column",
        ),
        Field(
            name="values",
            label="Values that are the outcome",
            input=Input.TEXT,
            help="Its categories or ranges as declared, with semicolons between them, such as: yes. All its other "
            "values are not the outcome.",
            missing="Values that are the outcome: nothing was typed; must be declared categories or ranges",
        ),
        columns_field(
            Columns.VALUED,
            label="Predictors",
            help=f"Each number counts as the middle of its declared range. Up to {MAX_SLOPES} numbers and categories "
            f"besides the first of each column, and up to {MAX_COUNTS:,} combinations with the outcome. The fewer, the "
            "less noise.",
        ),
    )
    depends_on_rows = True
    is_proved = False
    is_of_population = True
    has_one_axis = False

    def in_words(self, question: Any) -> str:
        predictors = ", ".join(question.statistic.predictors)
        return (
            f"logistic regression: how the odds of {question.statistic.event(question.universe)} depend on {predictors}"
        )

    def typed(self, statistic: LogisticRegression, universe: Universe) -> dict[str, Any]:
        labels = universe[statistic.outcome].labels
        values = "; ".join(labels[place] for place in statistic.bins)
        return {"outcome": statistic.outcome, "values": values, "columns": list(statistic.predictors)}

    def query(self, given: Mapping[str, Any]) -> dict[str, Any]:
        values = [each.strip() for each in given["values"].split(";") if each.strip()]
        return {self.name: {"outcome": given["outcome"], "values": values, "columns": given["columns"]}}

    def bound_unit(self, columns: Sequence[Attribute], *, mechanism: str, counted: Counted) -> str:
        return "logarithms of odds"

    def has_one_unit(self, columns: Sequence[Attribute]) -> bool:
        """Each is for more of its own predictor."""
        return False

    def least_bound(self, columns: Sequence[Attribute], *, mechanism: str) -> float:
        """Of very many rows it is as small as that of a slope."""
        return 1e-12

    def shape(self, statistic: LogisticRegression, *, chosen: bool, answers: int) -> AnswerShape:
        return AnswerShape.ODDS

    def found(self, statistic: LogisticRegression, part: int, answers: Sequence[ReleasedAnswer], *, unit: str) -> str:
        first = answers[0]
        if first.is_chosen:
            return (
                "No odds ratio can be said: the noise hides how the outcome depends on the predictors. More "
                f"{first.counted.many}, a larger epsilon, fewer predictors or wider ranges would help"
            )
        ratio = Measure(noun="")
        return f"The {first.label} are about {ratio.said(first)} times as high, {ratio.between(first)}"
