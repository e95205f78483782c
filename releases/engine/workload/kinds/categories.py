"""Values of a categorical column that are not declared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from releases.engine.domain.universe import Universe
from releases.engine.errors import InvalidInput
from releases.engine.workload.statistic import Part, Statistic, columns_named, register


@register
@dataclass(frozen=True, kw_only=True)
class Categories(Statistic):
    """Values of a categorical column that are not declared as its categories and that many rows have: which there are,
    not how many rows have each.
    """

    kind: ClassVar[str] = "categories"
    place: ClassVar[int] = 9
    is_choice: ClassVar[bool] = True
    is_open: ClassVar[bool] = True

    @classmethod
    def read(cls, word: str, value: object, universe: Universe) -> Categories:
        names = columns_named([value], universe, field="categories")
        if universe[names[0]].has_grammar:
            raise InvalidInput("categories", names[0], "must be a categorical column")
        return cls(attributes=names)

    def parts(self, universe: Universe) -> tuple[Part, ...]:
        return (Part(name=f"values of {self.attributes[0]} that are not declared", rows=self.attributes),)

    def to_json(self, universe: Universe) -> dict[str, Any]:
        return {self.kind: self.attributes[0]}
