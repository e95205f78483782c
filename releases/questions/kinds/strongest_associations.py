"""The pairs of columns that go together most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from releases.engine.domain.universe import Universe
from releases.engine.workload.kinds.strongest_associations import MOST_NAMED, StrongestAssociations
from releases.questions.base import AnswerShape, Columns, Field, Input, StatisticKind, columns_field, register, whole
from releases.questions.headline import ReleasedAnswer


@register
class StrongestAssociationsKind(StatisticKind[StrongestAssociations]):
    statistic = StrongestAssociations
    title = "Strongest associations"
    says = (
        "Which pairs of columns go together most, with a small table of counts for each. The choice is made with "
        "noise, so a pair that goes together nearly as much may be named instead."
    )
    phrases = {"strongest_associations": "strongest associations"}
    fields = (
        columns_field(Columns.ALL, label="Among these columns"),
        Field(
            name="k",
            label="How many pairs",
            input=Input.WHOLE,
            help=f"1 to {MOST_NAMED}. The fewer, the less noise; at least one pair must be left out.",
            initial="3",
        ),
    )
    is_about_bins = True

    def typed(self, statistic: StrongestAssociations, universe: Universe) -> dict[str, Any]:
        return {"columns": list(statistic.attributes), "k": str(statistic.k)}

    def query(self, given: Mapping[str, Any]) -> dict[str, Any]:
        return {self.name: {"columns": given["columns"], "k": whole(given["k"])}}

    def shape(self, statistic: StrongestAssociations, *, chosen: bool, answers: int) -> AnswerShape:
        return AnswerShape.ASSOCIATIONS

    def found(
        self, statistic: StrongestAssociations, part: int, answers: Sequence[ReleasedAnswer], *, unit: str
    ) -> str:
        named = ", ".join(f"“{each.chosen}”" for each in answers)
        if len(answers) == 1:
            return f"Of all pairs of columns, {named} goes together most, or nearly so"
        return f"Of all pairs of columns, these go together most, or nearly so: {named}"
