"""How many people of a population rows count for, in all or by group: the sum of their survey weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from releases.engine.domain.universe import Universe
from releases.engine.workload.statistic import OfNumbers, by_and_weight, fields_of, register


@register
@dataclass(frozen=True, kw_only=True)
class WeightedCount(OfNumbers):
    """The sum of the weights of all rows, or of those in each group. Its only number is the weight itself."""

    kind: ClassVar[str] = "weighted_count"
    place: ClassVar[int] = 2

    @classmethod
    def read(cls, word: str, value: object, universe: Universe) -> WeightedCount:
        fields = value if isinstance(value, dict) else {"weighted_by": value}
        given = fields_of(fields, {"by", "weighted_by"}, field=word)
        by, weight = by_and_weight(given, universe, word=word)
        return cls(attributes=(weight.column, *by), by=by, weight=weight)

    @property
    def of(self) -> tuple[str, ...]:
        return self.attributes[:1]

    @property
    def noun(self) -> str:
        return "sum of the weights"

    def to_json(self, universe: Universe) -> dict[str, Any]:
        return {self.kind: self.grouping_and_weight()}
