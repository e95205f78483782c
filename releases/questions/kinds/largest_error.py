"""The largest error of counts that were published: what a certificate asks. It is written for people, not by them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from releases.engine.domain.attribute import Attribute
from releases.engine.domain.universe import Universe
from releases.engine.workload.kinds.largest_error import LargestError
from releases.questions.base import AnswerShape, StatisticKind, register
from releases.questions.headline import ReleasedAnswer, number_text


@register
class LargestErrorKind(StatisticKind[LargestError]):
    statistic = LargestError
    title = "Largest error"
    phrases = {"largest_error": "largest error"}
    counts_rows = True

    def typed(self, statistic: LargestError, universe: Universe) -> dict[str, Any]:
        return {}

    def query(self, given: Mapping[str, Any]) -> dict[str, Any]:
        return {
            self.name: {name: given[name] for name in ("workload", "released", "means", "columns") if given.get(name)}
        }

    def of_no_rows(self, column: Attribute | None) -> tuple[float, float] | None:
        """An error of 0 is nothing that only an empty table has."""
        return None

    def shape(self, statistic: LargestError, *, chosen: bool, answers: int) -> AnswerShape:
        return AnswerShape.BOUND

    def found(self, statistic: LargestError, part: int, answers: Sequence[ReleasedAnswer], *, unit: str) -> str:
        return f"The largest error is at most {number_text(answers[0].upper, 0)} {answers[0].counted.many}"


def certifying_workload(
    workload: Mapping[str, Any], released: Mapping[str, Any], means: Sequence[str] = (), columns: Sequence[str] = ()
) -> dict[str, Any]:
    """The workload that asks for the largest error of what was released, and for mean errors beside it.

    Args:
        means: which.
        columns: of the synthetic rows, where pairs or triples of them are meant.
    """
    asked = {"workload": workload, "released": released, "means": list(means), "columns": list(columns)}
    return {"version": 1, "queries": [LargestErrorKind().query(asked)]}


def certified_means(workload: Mapping[str, Any]) -> list[str]:
    """Which mean errors such a workload asks for."""
    return list(workload["queries"][0].get(LargestError.kind, {}).get("means", ()))


def certified_columns(workload: Mapping[str, Any]) -> list[str]:
    """The columns whose pairs and triples it means."""
    return list(workload["queries"][0].get(LargestError.kind, {}).get("columns", ()))


def certified_parts(workload: Mapping[str, Any]) -> dict[str, Any]:
    """What such a workload certifies, by part of the release; nothing where it asks something else."""
    asked: dict[str, Any] = workload["queries"][0].get(LargestError.kind, {"released": {}})["released"]
    return asked
