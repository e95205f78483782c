"""The median or another quantile of a column of numbers or of dates."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from releases.engine.domain.attribute import number
from releases.engine.domain.privacy import decimal_text, exact
from releases.engine.domain.universe import Universe
from releases.engine.errors import InvalidInput
from releases.engine.workload.statistic import Part, Statistic, fields_of, ranked_column, register


@register
@dataclass(frozen=True, kw_only=True)
class Quantile(Statistic):
    """A value of a column with a share `at` of the rows at or below it; 1/2 is the median. Of dates it is a date."""

    kind: ClassVar[str] = "quantile"
    place: ClassVar[int] = 7
    words: ClassVar[tuple[str, ...]] = ("median", "quantile")
    at: Fraction = Fraction(1, 2)

    @property
    def exact(self) -> tuple[str, ...]:
        return self.attributes

    @classmethod
    def read(cls, word: str, value: object, universe: Universe) -> Quantile:
        if word == "median":
            return cls(attributes=ranked_column(value, universe, field="median"))
        fields = fields_of(value, {"column", "at"}, field="quantile")
        names = ranked_column(fields.get("column"), universe, field="quantile.column")
        at = exact(str(number(fields.get("at"), field="quantile.at")), field="quantile.at")
        if not 0 < at < 1:
            raise InvalidInput("quantile.at", fields.get("at"), "must be above 0 and below 1")
        return cls(attributes=names, at=at)

    @property
    def title(self) -> str:
        return "median" if self.at == Fraction(1, 2) else f"{decimal_text(self.at * 100, places=6)}% quantile"

    def parts(self, universe: Universe) -> tuple[Part, ...]:
        (name,) = self.attributes
        return (Part(name=f"{self.title} of {name}", rows=(name,)),)

    def to_json(self, universe: Universe) -> dict[str, Any]:
        if self.at == Fraction(1, 2):
            return {"median": self.attributes[0]}
        return {self.kind: {"column": self.attributes[0], "at": decimal_text(self.at, places=12)}}
