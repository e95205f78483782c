"""Which of several counts is the largest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from releases.engine.domain.universe import Universe
from releases.engine.errors import InvalidInput
from releases.engine.workload.predicates import Predicates, columns_used, read_predicates, tell_rows_apart
from releases.engine.workload.queries import Count
from releases.engine.workload.statistic import Part, Statistic, register


@register
@dataclass(frozen=True, kw_only=True)
class LargestCount(Statistic):
    """Which of several predicates most rows meet. A row may meet any number of them.

    Attributes:
        predicates: for each candidate its attributes and, for each, the accepted bins.
    """

    kind: ClassVar[str] = "largest_count"
    place: ClassVar[int] = 6
    is_choice: ClassVar[bool] = True
    predicates: Predicates

    @classmethod
    def read(cls, word: str, value: object, universe: Universe) -> LargestCount:
        predicates = read_predicates(value, universe, field="largest_count")
        if len(predicates) < 2:
            raise InvalidInput("largest_count", len(predicates), "must hold at least two predicates")
        return cls(attributes=columns_used(predicates, universe), predicates=predicates)

    def parts(self, universe: Universe) -> tuple[Part, ...]:
        return (Part(name=f"largest of {len(self.predicates)} counts", rows=("largest",)),)

    def to_json(self, universe: Universe) -> dict[str, Any]:
        return {
            self.kind: [
                Count(attributes=names, bins=bins).to_json(universe)["count"] for names, bins in self.predicates
            ]
        }

    def tells_rows_apart(self, universe: Universe) -> bool:
        return tell_rows_apart(self.predicates, universe)
