"""Several quantiles of one column, or quantiles by group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from releases.engine.domain.attribute import Attribute
from releases.engine.domain.dates import Dates
from releases.engine.domain.privacy import decimal_text
from releases.engine.domain.universe import Universe
from releases.engine.workload.kinds.quantiles import Quantiles
from releases.engine.workload.questions import dates_of
from releases.questions.base import (
    HALF_A_ROW,
    Columns,
    Field,
    Input,
    StatisticKind,
    Want,
    column_field,
    declared_ends,
    register,
)
from releases.questions.headline import Measure, ReleasedAnswer
from releases.questions.kinds.quantile import QuantileKind, name_of


@register
class QuantilesKind(StatisticKind[Quantiles]):
    statistic = Quantiles
    title = "Several quantiles, or quantiles by group"
    want = Want.PERCENTILES
    says = (
        "For each of several shares, the value that so many of the {many} have or are below; if asked, in each group."
    )
    phrases = {"quantiles": "several quantiles"}
    fields = (
        column_field(Columns.RANKED),
        Field(
            name="at",
            label="Shares of the {many}",
            input=Input.TEXT,
            help="From the least to the largest, with commas: 0.25, 0.5, 0.75 for the quartiles.",
            initial="0.25, 0.5, 0.75",
            missing="at: nothing was typed; must be a list of shares",
        ),
        Field(
            name="by",
            label="In each group of",
            input=Input.TEXT,
            help="The name of a column of categories. Leave it empty for all {many} together.",
        ),
    )
    lacks = "No column is declared as numbers or dates, so there is nothing to rank."
    has_columns_unit = True

    def typed(self, statistic: Quantiles, universe: Universe) -> dict[str, Any]:
        shares = ", ".join(map(decimal_text, statistic.at))
        return {"column": statistic.attributes[0], "at": shares, "by": statistic.by}

    def query(self, given: Mapping[str, Any]) -> dict[str, Any]:
        shares = [each.strip() for each in given["at"].split(",")]
        by = {"by": given["by"].strip()} if given.get("by", "").strip() else {}
        return {self.name: {"column": given["column"], "at": shares, **by}}

    def least_bound(self, columns: Sequence[Attribute], *, mechanism: str) -> float:
        return HALF_A_ROW

    def of_no_rows(self, column: Attribute | None) -> tuple[float, float] | None:
        return None if column is None else declared_ends(column)

    def main(self, statistic: Quantiles) -> int:
        """The share nearest to a half."""
        return min(range(len(statistic.at)), key=lambda place: abs(statistic.at[place] - Fraction(1, 2)))

    def headline(self, question: Any, part: int, answers: Sequence[ReleasedAnswer], *, unit: str) -> str:
        return self.found(question.statistic, part, answers, unit=unit, dates=dates_of(question))

    def found(
        self,
        statistic: Quantiles,
        part: int,
        answers: Sequence[ReleasedAnswer],
        *,
        unit: str,
        dates: Dates | None = None,
    ) -> str:
        quantile = statistic.each[part]
        if not statistic.by:
            return QuantileKind().found(quantile, 0, answers, unit=unit, dates=dates)
        noun = f"The {name_of(quantile, of_dates=dates is not None)}"
        return Measure(noun=noun, unit=unit, dates=dates).of_groups(answers)
