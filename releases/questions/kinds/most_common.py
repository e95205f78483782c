"""The values of a column that most rows have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from releases.engine.domain.universe import Universe
from releases.engine.workload.kinds.most_common import MostCommon
from releases.questions.base import AnswerShape, Columns, Field, Input, StatisticKind, column_field, register, whole
from releases.questions.headline import ReleasedAnswer


@register
class MostCommonKind(StatisticKind[MostCommon]):
    statistic = MostCommon
    title = "Most common value"
    says = (
        "The value that most {many} have, or the few that most {many} have, in falling order. How many have it is not "
        "said."
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

    def shape(self, statistic: MostCommon, *, chosen: bool, answers: int) -> AnswerShape:
        return AnswerShape.LIST if statistic.k > 1 else AnswerShape.CHOICE

    def found(self, statistic: MostCommon, part: int, answers: Sequence[ReleasedAnswer], *, unit: str) -> str:
        (name,), found = statistic.attributes, [f"“{each.chosen}”" for each in answers]
        if len(found) == 1:
            return f"The most common value of {name} is {found[0]}, or nearly as common"
        return f"The most common values of {name} are, in falling order and nearly exactly, {', '.join(found)}"
