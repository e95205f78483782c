"""The largest error of counts that were published: what a certificate asks. It is written for people, not by them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from releases.engine.domain.universe import Universe
from releases.engine.workload.kinds.largest_error import LargestError
from releases.questions.base import Shape, StatisticKind, register
from releases.questions.headline import Released, number_text


@register
class LargestErrorKind(StatisticKind[LargestError]):
    statistic = LargestError
    title = "Largest error"
    phrases = {"largest_error": "largest error"}
    counts_rows = True

    def typed(self, statistic: LargestError, universe: Universe) -> dict[str, Any]:
        return {}

    def query(self, given: Mapping[str, Any]) -> dict[str, Any]:
        return {self.name: {"workload": given["workload"], "released": given["released"]}}

    def shape(self, statistic: LargestError, *, chosen: bool, answers: int) -> Shape:
        return Shape.BOUND

    def found(self, statistic: LargestError, part: int, answers: Sequence[Released], *, unit: str) -> str:
        return f"The largest error is at most {number_text(answers[0].upper, 0)} {answers[0].counted.many}"


def certifying_workload(workload: Mapping[str, Any], released: Mapping[str, Any]) -> dict[str, Any]:
    """The workload that asks for the largest error of what was released."""
    return {"version": 1, "queries": [LargestErrorKind().query({"workload": workload, "released": released})]}


def certified_parts(workload: Mapping[str, Any]) -> dict[str, Any]:
    """What such a workload certifies, by part of the release; nothing where it asks something else."""
    asked: dict[str, Any] = workload["queries"][0].get(LargestError.kind, {"released": {}})["released"]
    return asked
