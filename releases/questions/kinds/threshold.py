"""A stream of counts, each compared with a threshold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from releases.engine.domain.universe import Universe
from releases.engine.mechanisms.thresholds import ABOVE
from releases.engine.workload.kinds.threshold import Threshold
from releases.questions.base import (
    COUNTS_FIELD,
    AnswerShape,
    Field,
    Input,
    StatisticKind,
    counts_as_json,
    register,
    whole,
)
from releases.questions.headline import ReleasedAnswer


@register
class ThresholdKind(StatisticKind[Threshold]):
    statistic = Threshold
    title = "Which count first passes a threshold"
    says = "Each count in turn: is it above the threshold? It stops at the first that is, or after a few."
    phrases = {"threshold": "threshold"}
    fields = (
        COUNTS_FIELD,
        Field(
            name="above",
            label="Threshold, in {many}",
            input=Input.WHOLE,
            help="Take it from a purpose, not from the table.",
        ),
        Field(
            name="answers",
            label="Stop after so many above",
            input=Input.WHOLE,
            help="Each costs a share of the budget; those below cost nothing more.",
            initial="1",
        ),
    )
    is_about_bins = True

    def typed(self, statistic: Threshold, universe: Universe) -> dict[str, Any]:
        return {
            "counts": counts_as_json(statistic.predicates, universe),
            "above": str(statistic.above),
            "answers": str(statistic.answers),
        }

    def query(self, given: Mapping[str, Any]) -> dict[str, Any]:
        stream = {"counts": given["counts"], "above": whole(given["above"]), "answers": whole(given["answers"])}
        return {self.name: stream}

    def shape(self, statistic: Threshold, *, chosen: bool, answers: int) -> AnswerShape:
        return AnswerShape.STREAM

    def found(self, statistic: Threshold, part: int, answers: Sequence[ReleasedAnswer], *, unit: str) -> str:
        first = next((each.label for each in answers if each.chosen == ABOVE), None)
        bar = answers[0].counted.text(statistic.above)
        return (
            f"None of the counts was found above {bar}"
            if first is None
            else f"The first count found above {bar} is “{first}”"
        )
