"""The sum of numeric columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from releases.engine.domain.universe import Universe
from releases.engine.workload.statistic import Part, Statistic, numeric_columns, register


@register
@dataclass(frozen=True, kw_only=True)
class Sum(Statistic):
    """The sum of each numeric column, over all rows."""

    kind: ClassVar[str] = "sum"
    place: ClassVar[int] = 1

    @classmethod
    def read(cls, word: str, value: object, universe: Universe) -> Sum:
        return cls(attributes=numeric_columns(value, universe, field="sum"))

    def parts(self, universe: Universe) -> tuple[Part, ...]:
        return tuple(Part(name=f"sum of {name}", rows=(name,)) for name in self.attributes)

    def to_json(self, universe: Universe) -> dict[str, Any]:
        return {self.kind: list(self.attributes)}
