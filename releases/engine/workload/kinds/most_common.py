"""The bins of a column that most rows have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from releases.engine.domain.universe import Universe
from releases.engine.workload.statistic import Part, Statistic, columns_named, fields_of, register, whole_number


@register
@dataclass(frozen=True, kw_only=True)
class MostCommon(Statistic):
    """The `k` bins of one column that most rows have, in falling order."""

    kind: ClassVar[str] = "most_common"
    place: ClassVar[int] = 5
    words: ClassVar[tuple[str, ...]] = ("most_common", "top")
    is_choice: ClassVar[bool] = True
    k: int = 1

    @classmethod
    def read(cls, word: str, value: object, universe: Universe) -> MostCommon:
        if word == "most_common":
            return cls(attributes=columns_named([value], universe, field="most_common"))
        fields = fields_of(value, {"column", "k"}, field="top")
        names = columns_named([fields.get("column")], universe, field="top.column")
        return cls(attributes=names, k=whole_number(fields.get("k", 1), 1, universe[names[0]].size, field="top.k"))

    def parts(self, universe: Universe) -> tuple[Part, ...]:
        (name,) = self.attributes
        if self.k == 1:
            return (Part(name=f"most common {name}", rows=(name,)),)
        places = tuple(f"place {place}" for place in range(1, self.k + 1))
        return (Part(name=f"{self.k} most common of {name}", rows=places),)

    def to_json(self, universe: Universe) -> dict[str, Any]:
        return {self.kind: self.attributes[0]} if self.k == 1 else {"top": {"column": self.attributes[0], "k": self.k}}
