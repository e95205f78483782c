"""The sums of products of numeric columns."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Any, ClassVar

from releases.engine.domain.universe import Universe
from releases.engine.workload.statistic import Part, Statistic, numeric_columns, register


@register
@dataclass(frozen=True, kw_only=True)
class SecondMoments(Statistic):
    """The Gram matrix of numeric columns: the sum over rows of each product of two of them."""

    kind: ClassVar[str] = "second_moments"
    place: ClassVar[int] = 3

    def pairs(self) -> tuple[tuple[str, str], ...]:
        """The entries of the upper triangle, row by row."""
        return tuple(combinations_with_replacement(self.attributes, 2))

    @classmethod
    def read(cls, word: str, value: object, universe: Universe) -> SecondMoments:
        return cls(attributes=numeric_columns(value, universe, field="second_moments"))

    def parts(self, universe: Universe) -> tuple[Part, ...]:
        return tuple(Part(name=f"sum of {one} × {other}", rows=(f"{one} × {other}",)) for one, other in self.pairs())

    def to_json(self, universe: Universe) -> dict[str, Any]:
        return {self.kind: list(self.attributes)}
