"""A stream of counts, each compared with a threshold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from releases.engine.domain.universe import Universe
from releases.engine.mechanisms.thresholds import ABOVE
from releases.engine.workload.kinds.threshold import Threshold
from releases.questions.base import (
    COUNTS_FIELD,
    Field,
    Input,
    Shape,
    StatisticKind,
    counts_as_json,
    register,
    whole,
)


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
            label="Threshold, in rows",
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

    def shape(self, statistic: Threshold, *, chosen: bool, answers: int) -> Shape:
        return Shape.STREAM

    def summary(self, statistic: Threshold, answers: Iterable[tuple[str, str]]) -> str:
        first = next((label for label, chosen in answers if chosen == ABOVE), None)
        bar = f"{statistic.above:,} row{'' if statistic.above == 1 else 's'}"
        return f"None of them was found above {bar}." if first is None else f"The first above {bar} is “{first}”."
