"""The sums of products of numeric columns, over all rows or by group."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import ClassVar

from releases.engine.domain.universe import Universe
from releases.engine.workload.statistic import OfNumbers, Part, group_labels, register


@register
@dataclass(frozen=True, kw_only=True)
class SecondMoments(OfNumbers):
    """The Gram matrix of numeric columns, of all rows or in each group: the sum over rows of each product of two."""

    kind: ClassVar[str] = "second_moments"
    place: ClassVar[int] = 3

    def pairs(self) -> tuple[tuple[str, str], ...]:
        """The entries of the upper triangle, row by row."""
        return tuple(combinations_with_replacement(self.of, 2))

    def parts(self, universe: Universe) -> tuple[Part, ...]:
        products, noun = [f"{one} × {other}" for one, other in self.pairs()], self.noun
        if not self.by:
            return tuple(Part(name=f"{noun} {each}", rows=(each,)) for each in products)
        labels, by = group_labels(self.by, universe), " and ".join(self.by)
        return tuple(Part(name=f"{noun} {each} by {by}", rows=labels) for each in products)

    @property
    def noun(self) -> str:
        return "sum of" if self.weight is None else "weighted sum of"
