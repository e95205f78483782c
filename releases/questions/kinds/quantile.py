"""The median or another quantile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from releases.engine.domain.attribute import Attribute
from releases.engine.domain.counted import Counted
from releases.engine.domain.dates import Dates
from releases.engine.domain.privacy import decimal_text
from releases.engine.domain.universe import Universe
from releases.engine.workload.kinds.quantile import Quantile
from releases.engine.workload.questions import dates_of
from releases.questions.base import (
    HALF_A_ROW,
    Columns,
    Field,
    Input,
    StatisticKind,
    Want,
    column_field,
    register,
    units_of,
)
from releases.questions.headline import Measure, ReleasedAnswer, date_text

#: The mechanisms that bound before the release by how many ranks a quantile is off; the others bound its value.
_BOUND_RANKS = ("counted-quantile", "exponential-quantile")


@register
class QuantileKind(StatisticKind[Quantile]):
    statistic = Quantile
    title = "Median or quantile"
    want = Want.PERCENTILES
    says = "The value, or the date, that a share of the {many} have or are below."
    phrases = {"median": "median", "quantile": "quantile"}
    fields = (
        column_field(Columns.RANKED),
        Field(
            name="at",
            label="Share of the {many}",
            input=Input.DECIMAL,
            help="0.5 for the median, 0.9 for the value that nine in ten are at or below.",
            initial="0.5",
        ),
    )
    lacks = "No column is declared as numbers or dates, so there is nothing to rank."
    is_within_range = True
    has_columns_unit = True
    says_more = {"counted-quantile": "says between which values it lies"}

    def typed(self, statistic: Quantile, universe: Universe) -> dict[str, Any]:
        return {"column": statistic.attributes[0], "at": decimal_text(statistic.at)}

    def query(self, given: Mapping[str, Any]) -> dict[str, Any]:
        return {self.name: {"column": given["column"], "at": given["at"]}}

    def bound_unit(self, columns: Sequence[Attribute], *, mechanism: str, counted: Counted) -> str:
        return counted.many if mechanism in _BOUND_RANKS else units_of(columns)

    def least_bound(self, columns: Sequence[Attribute], *, mechanism: str) -> float:
        """Half the last place that is kept of the column; half a row where ranks are bounded."""
        return HALF_A_ROW if mechanism in _BOUND_RANKS else 0.5 * 10.0 ** -max(each.decimals for each in columns)

    def headline(self, question: Any, part: int, answers: Sequence[ReleasedAnswer], *, unit: str) -> str:
        return self.found(question.statistic, part, answers, unit=unit, dates=dates_of(question))

    def found(
        self,
        statistic: Quantile,
        part: int,
        answers: Sequence[ReleasedAnswer],
        *,
        unit: str,
        dates: Dates | None = None,
    ) -> str:
        (answer,) = answers
        of = f"of the {answer.counted.many}"
        (name,), is_median = statistic.attributes, statistic.at == Fraction(1, 2)
        share = "Half" if is_median else f"{decimal_text(statistic.at * 100, places=6)}%"
        if dates is not None:
            return _of_dates(f"{share} {of}", name, answer, Measure(noun="", dates=dates), is_median)
        if answer.is_chosen:
            return f"About {share.lower()} {of} have {name} {answer.chosen} {unit}".rstrip() + " or less"
        value = Measure(noun="", unit=unit)
        truth = f"the true {'median' if is_median else 'value'} {value.lies(answer)}"
        return f"{share} {of} have {name} {value.said(answer)} or less; {truth}"


def _of_dates(share: str, name: str, answer: ReleasedAnswer, value: Measure, is_median: bool) -> str:
    have = f"have {name} on or before"
    if answer.is_chosen:
        assert value.dates is not None
        return f"About {share.lower()} {have} {date_text(value.dates.parse(answer.chosen))}"
    return f"{share} {have} {value.said(answer)}; the true {'median' if is_median else 'value'} {value.lies(answer)}"


def name_of(quantile: Quantile, *, of_dates: bool) -> str:
    """Such as ``median age``, and ``median of admitted``."""
    (name,) = quantile.attributes
    if quantile.at == Fraction(1, 2):
        return f"median of {name}" if of_dates else f"median {name}"
    return f"{decimal_text(quantile.at * 100, places=6)}% quantile of {name}"
