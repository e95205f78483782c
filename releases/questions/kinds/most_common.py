"""The values of a column that most rows have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from releases.engine.domain.universe import Universe
from releases.engine.workload.kinds.most_common import MostCommon
from releases.questions.base import Columns, Field, Input, Shape, StatisticKind, column_field, register, whole


@register
class MostCommonKind(StatisticKind[MostCommon]):
    statistic = MostCommon
    title = "Most common value"
    says = (
        "The value that most rows have, or the few that most rows have, in falling order. How many have it is not said."
    )
    phrases = {"most_common": "most common value", "top": "most common values"}
    fields = (
        column_field(Columns.ALL),
        Field(
            name="k",
            label="How many of them",
            input=Input.WHOLE,
            help="1 for the most common alone.",
            initial="1",
        ),
    )
    is_about_bins = True

    def typed(self, statistic: MostCommon, universe: Universe) -> dict[str, Any]:
        return {"column": statistic.attributes[0], "k": str(statistic.k)}

    def query(self, given: Mapping[str, Any]) -> dict[str, Any]:
        return {"top": {"column": given["column"], "k": whole(given["k"])}}

    def shape(self, statistic: MostCommon, *, chosen: bool, answers: int) -> Shape:
        return Shape.LIST if statistic.k > 1 else Shape.CHOICE
