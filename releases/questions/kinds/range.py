"""Two values with most of the rows between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from releases.engine.domain.privacy import decimal_text
from releases.engine.domain.universe import Universe
from releases.engine.workload.kinds.range import Range
from releases.questions.base import AnswerShape, Columns, Field, Input, StatisticKind, column_field, register
from releases.questions.headline import ReleasedAnswer


@register
class RangeKind(StatisticKind[Range]):
    statistic = Range
    title = "Range that holds most values"
    says = "Two values with a share of the {many} from one to the other, and as many of the rest below as above."
    phrases = {"range": "range"}
    fields = (
        column_field(Columns.NUMERIC),
        Field(
            name="inside",
            label="Share inside",
            input=Input.DECIMAL,
            help="0.98 leaves one {one} in a hundred below and one above.",
            initial="0.98",
        ),
    )
    lacks = "No column is declared as numbers, so there is nothing to rank."
    has_columns_unit = True

    def typed(self, statistic: Range, universe: Universe) -> dict[str, Any]:
        return {"column": statistic.attributes[0], "inside": decimal_text(statistic.inside, places=12)}

    def query(self, given: Mapping[str, Any]) -> dict[str, Any]:
        return {self.name: {"column": given["column"], "inside": given["inside"]}}

    def shape(self, statistic: Range, *, chosen: bool, answers: int) -> AnswerShape:
        return AnswerShape.RANGE

    def found(self, statistic: Range, part: int, answers: Sequence[ReleasedAnswer], *, unit: str) -> str:
        low, high = (each.chosen for each in answers)
        of = f"of the {answers[0].counted.many}"
        share = decimal_text(statistic.inside * 100, places=6)
        return f"About {share}% {of} have {statistic.attributes[0]} from {low} to {high} {unit}".rstrip()
