"""Which of several counts is the largest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from releases.engine.domain.universe import Universe
from releases.engine.workload.kinds.largest_count import LargestCount
from releases.questions.base import COUNTS_FIELD, StatisticKind, counts_as_json, register
from releases.questions.headline import ReleasedAnswer


@register
class LargestCountKind(StatisticKind[LargestCount]):
    statistic = LargestCount
    title = "Largest of several counts"
    says = (
        "Which of several counts is the largest. A {one} may be in any number of them; how large they are is not said."
    )
    phrases = {"largest_count": "largest of several counts"}
    fields = (COUNTS_FIELD,)
    is_about_bins = True

    def typed(self, statistic: LargestCount, universe: Universe) -> dict[str, Any]:
        return {"counts": counts_as_json(statistic.predicates, universe)}

    def query(self, given: Mapping[str, Any]) -> dict[str, Any]:
        return {self.name: given["counts"]}

    def found(self, statistic: LargestCount, part: int, answers: Sequence[ReleasedAnswer], *, unit: str) -> str:
        return f"The largest of the counts is “{answers[0].chosen}”, or nearly as large"
