"""Counts of randomised answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from releases.engine.domain.universe import Universe
from releases.engine.errors import InvalidInput
from releases.engine.workload.statistic import Part, Statistic, columns_named, register


@register
@dataclass(frozen=True, kw_only=True)
class SurveyStatistic(Statistic):
    """How many rows have each category of one column, where every row's own answer is randomised."""

    kind: ClassVar[str] = "survey"
    place: ClassVar[int] = 11

    @classmethod
    def read(cls, word: str, value: object, universe: Universe) -> SurveyStatistic:
        names = columns_named([value], universe, field="survey")
        if universe[names[0]].size < 2:
            raise InvalidInput("survey", names[0], "must have at least two bins")
        return cls(attributes=names)

    def parts(self, universe: Universe) -> tuple[Part, ...]:
        (name,) = self.attributes
        return (Part(name=f"randomised answers to {name}", rows=universe[name].labels),)

    def to_json(self, universe: Universe) -> dict[str, Any]:
        return {self.kind: self.attributes[0]}
