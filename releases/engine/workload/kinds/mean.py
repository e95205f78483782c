"""The mean of numeric columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from releases.engine.domain.universe import Universe
from releases.engine.workload.statistic import Part, Statistic, numeric_columns, register


@register
@dataclass(frozen=True, kw_only=True)
class Mean(Statistic):
    """The mean of each numeric column: a sum over a count, both paid for."""

    kind: ClassVar[str] = "mean"
    place: ClassVar[int] = 2

    @classmethod
    def read(cls, word: str, value: object, universe: Universe) -> Mean:
        return cls(attributes=numeric_columns(value, universe, field="mean"))

    def parts(self, universe: Universe) -> tuple[Part, ...]:
        return tuple(Part(name=f"mean of {name}", rows=(name,)) for name in self.attributes)

    def to_json(self, universe: Universe) -> dict[str, Any]:
        return {self.kind: list(self.attributes)}
